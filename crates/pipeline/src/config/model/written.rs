//! Where the file has the steps that a query of it stands for.
//!
//! Owns the way from a step's number and the bytes of its text to those of the file. Does not own which steps a query is (`config::queries`).
//!
//! A query with several joins, or with queries within it, is several steps. Everything but the file knows them by their own numbers: rules, the plan and the state. Whatever
//! is said to a person is said of the step that the file has.

use std::ops::Range;

use super::Pipeline;

/// Where the file has a step.
#[derive(Clone, Debug)]
pub struct Written {
    /// The number that the step has in the file.
    pub at: usize,
    /// Of a step that is a query, or one of those that a query stands for: where the pieces of its text are in that of the file, the first byte of each here and there.
    pub pieces: Option<Vec<(usize, usize)>>,
}

impl Written {
    fn place(&self, at: usize) -> usize {
        #[cfg(feature = "sql")]
        let at = self.pieces.as_ref().map_or(at, |pieces| sql::place(pieces, at));
        at
    }
}

impl Pipeline {
    /// A path of these steps as the file has it, as in `steps[1].window.key[0]`, and the bytes of the text there. The settings of a window or a join may be those of a
    /// query.
    pub fn in_file(&self, path: &str, at: Option<Range<usize>>) -> (String, Option<Range<usize>>) {
        let (path, at) = self.in_query(path).unwrap_or_else(|| (path.to_owned(), at));
        let step = path.strip_prefix("steps[").and_then(|rest| rest.split_once(']'));
        let step =
            step.and_then(|(number, rest)| Some((self.steps.get(number.parse::<usize>().ok()?)?, rest)));
        let Some((written, rest)) = step.and_then(|(step, rest)| Some((step.written.as_ref()?, rest))) else {
            return (path, at);
        };
        let is_of_query = written.pieces.is_some() && !rest.starts_with(".from");
        let rest = if is_of_query { ".sql" } else { rest };
        let at = at.map(|at| written.place(at.start)..written.place(at.end.saturating_sub(1)) + 1);
        (format!("steps[{}]{rest}", written.at), at)
    }

    /// A path of these steps with the number that the file has, and the word of what the step is: as in `steps[1].window` for a window of a query.
    pub fn renumbered(&self, path: &str) -> String {
        let step = path.strip_prefix("steps[").and_then(|rest| rest.split_once(']'));
        let found = step.and_then(|(number, rest)| {
            let written = self.steps.get(number.parse::<usize>().ok()?)?.written.as_ref()?;
            Some(format!("steps[{}]{rest}", written.at))
        });
        found.unwrap_or_else(|| path.to_owned())
    }

    /// The step with this number as the file has it, as in `steps[1].window`.
    pub fn step_in_file(&self, at: usize) -> String {
        let word = self.steps.get(at).map_or("", |step| step.word());
        self.in_file(&format!("steps[{at}].{word}"), None).0
    }
}
