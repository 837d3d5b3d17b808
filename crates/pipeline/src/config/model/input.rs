//! The inputs of a pipeline, whichever form the file has.
//!
//! Owns the two forms, `source:` and `inputs:`, and the name and the place of an input in each. Does not own what an input may say
//! ([`super::source`]).
//!
//! | in the file      | inputs                         | name in the journal | place of its settings |
//! |------------------|--------------------------------|---------------------|-----------------------|
//! | `source: …`      | one                            | [`SOURCE`]          | `source`              |
//! | `inputs: { a: … }` | as many as there are, by name | `a`                 | `inputs.a`            |

use engine::problem::SOURCE;

use super::Pipeline;
use super::source::Source;

/// An input of a pipeline file.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    /// Its name, by which the journal knows it.
    pub name: &'a str,
    /// Where its settings stand in the file: `source`, or `inputs.NAME`.
    pub path: String,
    /// What it reads, and in which format.
    pub source: &'a Source,
}

impl Pipeline {
    /// The inputs, in the order of their names; at least one in a file without a fault.
    pub fn inputs(&self) -> Vec<Input<'_>> {
        let of_short_form =
            self.source.iter().map(|source| Input { name: SOURCE, path: SOURCE.to_owned(), source });
        let named = self.inputs.iter().map(|(name, source)| Input {
            name: name.as_str(),
            path: format!("inputs.{name}"),
            source,
        });
        of_short_form.chain(named).collect()
    }

    /// Whether a record of an input may hold several rows, which then share its position.
    pub fn has_records_of_several_rows(&self) -> bool {
        self.inputs().iter().any(|input| input.source.format.otlp().is_some())
    }

    /// Whether an input is sent to this process, and so cannot be read again.
    pub fn is_sent_to(&self) -> bool {
        self.inputs().iter().any(|input| input.source.listen.is_some())
    }

    /// Whether there is more than one input.
    pub fn has_several_inputs(&self) -> bool {
        self.inputs.len() > 1
    }
}
