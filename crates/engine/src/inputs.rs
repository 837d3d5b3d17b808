//! The inputs of a pipeline: their names, their numbers in the lane, and whether each is read.
//!
//! Owns the order of the inputs in a running lane (an input's *place*), the numbers by which the journal knows them, and the source of
//! a partition. Does not own how a source gets its number ([`numbered`]), when it is opened ([`crate::start::open`]) or the order of
//! its records ([`crate::lane`]).
//!
//! | an input of the file is, in the journal | what follows                                                              |
//! |-----------------------------------------|---------------------------------------------------------------------------|
//! | known by its name                       | it keeps its number, wherever it stands in the file                       |
//! | unknown                                 | the next number, with the next record                                     |
//! | known, and the file names it no more    | refused as long as streams of it are read ([`crate::forget`] takes them out) |

pub mod numbered;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use dataflow::{Intake, Partition, Position, Source, SourceError};
use protocol::Lane;

use crate::EngineError;
use crate::flow::Flow;
use numbered::Numbered;

/// An input of a pipeline.
#[derive(Clone)]
pub struct Input {
    /// Its name in the pipeline file; unique in the pipeline. The journal knows it by this name.
    pub name: String,
    /// Where its records come from.
    pub source: Arc<dyn Source>,
    /// What is done with a block before the lane: its format, and the steps without state up to the first with state. The rows of
    /// inputs that enter the lane at the same place have the same columns.
    pub intake: Intake,
}

/// An input as the tasks of a lane share it.
pub struct Inlet {
    /// Its number in the journal.
    pub number: u32,
    /// Its name in the pipeline file, which is also its place among the problems.
    pub name: Arc<str>,
    /// Its source; the partitions carry the input's number.
    pub source: Arc<dyn Source>,
    /// True if the pipeline has others beside it: partitions are then shown with the input's name.
    pub has_others: bool,
    /// Set once it is read.
    is_open: AtomicBool,
    /// True while its source does not take the positions that are published.
    is_unpublished: AtomicBool,
    /// For a source that lets go of what is published: what waits until its rows are settled.
    waiting: Mutex<Option<Waiting>>,
}

/// Where the partitions of an input stand.
pub type Positions = Vec<(Partition, Position)>;

/// Positions that are published once the frames that were sealed by then are settled.
#[derive(Debug)]
struct Waiting {
    positions: Positions,
    /// For each table of the journal, the ordinal behind its last frame.
    ends: Vec<u64>,
}

impl Inlet {
    /// An input whose source is not open yet.
    pub fn new(number: u32, name: &str, source: Arc<dyn Source>, has_others: bool) -> Self {
        let source = Arc::new(Numbered::new(source, number));
        let (is_open, is_unpublished, waiting) = Default::default();
        Self { number, name: name.into(), source, has_others, is_open, is_unpublished, waiting }
    }

    /// Whether its source does not take published positions now; says whether that has changed.
    pub fn set_unpublished(&self, is_unpublished: bool) -> bool {
        self.is_unpublished.swap(is_unpublished, Ordering::AcqRel) != is_unpublished
    }

    /// What may be published now, when its partitions stand at `now`. A source that lets go of records gets the newest positions below which
    /// all is settled, as far as they were noted: those of now, or those of an earlier call. Nothing if there are none yet.
    pub fn publishable(&self, lane: &Lane, now: Positions) -> Option<Positions> {
        if !self.source.releases() {
            return Some(now);
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let ends: Vec<u64> = lane.tables.iter().map(|table| table.next_ordinal).collect();
        let is_settled =
            |ends: &[u64]| ends.iter().zip(&lane.tables).all(|(end, table)| table.frontier >= *end);
        if is_settled(&ends) {
            *waiting = None;
            return Some(now);
        }
        let settled = waiting.take_if(|waiting| is_settled(&waiting.ends)).map(|waiting| waiting.positions);
        waiting.get_or_insert(Waiting { positions: now, ends });
        settled
    }

    /// Whether its source was opened.
    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Its source is read from now on.
    pub fn opened(&self) {
        self.is_open.store(true, Ordering::Release);
    }

    /// An error of its source, with the input's name where there are others: in front, and in its commands ([`Self::with_own_commands`]).
    pub fn named(&self, error: EngineError) -> EngineError {
        let named = |message: String| format!("input `{}`: {message}", self.name);
        match self.with_own_commands(error) {
            EngineError::Source(error) if self.has_others => {
                EngineError::Source(SourceError { message: named(error.message), ..error })
            }
            EngineError::Mismatch(what) if self.has_others => EngineError::Mismatch(named(what)),
            error => error,
        }
    }

    /// An error of its source, whose commands name the input where there are others. A source knows of no other, and a command without an input means the
    /// streams of that name of all of them.
    pub fn with_own_commands(&self, error: EngineError) -> EngineError {
        match error {
            EngineError::Source(error) if self.has_others => {
                EngineError::Source(SourceError { message: commands_of(&self.name, &error.message), ..error })
            }
            EngineError::Mismatch(what) if self.has_others => {
                EngineError::Mismatch(commands_of(&self.name, &what))
            }
            error => error,
        }
    }

    /// A partition of it, for status and metrics.
    pub fn shown(&self, partition: &Partition) -> String {
        if self.has_others { format!("{}:{partition}", self.name) } else { partition.to_string() }
    }
}

/// A text whose commands about streams name the input. One that names an input already stays as it is.
fn commands_of(input: &str, text: &str) -> String {
    let flag = format!("--input {}", quoted(input));
    let text = text.replace("forebay reset FILE --to ", &format!("forebay reset FILE {flag} --to "));
    let text = text.replace("forebay forget FILE --", &format!("forebay forget FILE {flag} --"));
    text.replace(&format!("{flag} --input "), "--input ")
}

/// A name as a shell takes it.
pub(crate) fn quoted(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./-_".contains(c);
    if !name.is_empty() && name.chars().all(is_plain) {
        return name.to_owned();
    }
    format!("'{}'", name.replace('\'', r"'\''"))
}

/// Numbers the inputs as the lane knows them; those that it does not know follow in the order of the file.
pub fn numbered(lane: &Lane, inputs: &[Input]) -> Vec<Arc<Inlet>> {
    let mut next = lane.inputs.len() as u32;
    let mut number = |name: &str| {
        lane.input(name).unwrap_or_else(|| {
            next += 1;
            next - 1
        })
    };
    let inlet = |input: &Input| {
        let number = number(&input.name);
        Arc::new(Inlet::new(number, &input.name, input.source.clone(), inputs.len() > 1))
    };
    inputs.iter().map(inlet).collect()
}

/// The names of those that the lane does not know, in the order of their numbers.
pub fn unknown(lane: &Lane, inputs: &[Arc<Inlet>]) -> Vec<String> {
    inputs
        .iter()
        .filter(|input| lane.input(&input.name).is_none())
        .map(|input| input.name.to_string())
        .collect()
}

/// Whether the inputs can stand beside each other.
///
/// # Errors
/// When there is none, two have the same name, or rows that enter the lane at the same place have other columns.
pub fn check(inputs: &[Input], flow: &Flow) -> Result<(), EngineError> {
    if inputs.is_empty() {
        return Err(EngineError::Mismatch("a pipeline without an input has nothing to read".into()));
    }
    for (place, input) in inputs.iter().enumerate() {
        let name = &input.name;
        if inputs[..place].iter().any(|other| other.name == *name) {
            let what =
                format!("input `{name}` is named twice: each input of a pipeline needs a name of its own");
            return Err(EngineError::Mismatch(what));
        }
        let is_beside = |(at, _): &(usize, &Input)| flow.entry(*at) == flow.entry(place);
        let (_, first) = inputs.iter().enumerate().find(is_beside).expect("it enters where it enters itself");
        if input.intake.schema().columns() != first.intake.schema().columns() {
            let what = format!(
                "the rows of inputs `{name}` and `{}` go to the same step or table, so the steps of both must produce the same columns; theirs differ",
                first.name
            );
            return Err(EngineError::Mismatch(what));
        }
    }
    Ok(())
}

/// A partition of the lane for status and metrics, as [`Inlet::shown`] names it.
pub fn shown(inputs: &[Arc<Inlet>], lane: &Lane, partition: &protocol::lane::PartitionState) -> String {
    let named = Partition::new(partition.stream.as_str(), partition.index);
    match inputs.iter().find(|input| input.number == partition.input) {
        Some(input) => input.shown(&named),
        None => match lane.inputs.get(partition.input as usize) {
            Some(input) => format!("{}:{named}", input.name),
            None => named.to_string(),
        },
    }
}

#[cfg(test)]
mod tests;
