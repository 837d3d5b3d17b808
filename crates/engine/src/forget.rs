//! Streams that an operator takes out of a pipeline.
//!
//! Owns the conditions under which that is done, and its record. Does not own what follows (`protocol::lane` does: the partitions are
//! read no more, and one that comes back goes on where it was left or begins again).
//!
//! | what is there                                | what happens                                                        |
//! |----------------------------------------------|---------------------------------------------------------------------|
//! | no such stream or partition is read          | refused, with the list of those that are                            |
//! | a process writes into the journal            | refused: it reads them at this moment; `take_over` overrides         |
//! | sealed inserts with rows of the stream       | they stay sealed, and the next run delivers them                     |
//! | the same, and the positions are forgotten too | refused: a row that is refused later would be a dead letter of records that are read again |
//! | the replay log, with the input that carries it | its position is kept, whatever happens to the others: it is read on there when that input is read again |
//! | otherwise                                    | claim, then one record                                              |
//!
//! The record is written by an owner like every other, so that a process that runs all the same is fenced: it could seal more of
//! what is forgotten.

use std::sync::Arc;
use std::time::Duration;

use dataflow::{Partition, Position, Runtime};
use protocol::Lane;
use protocol::lane::PartitionState;
use protocol::record::{Body, Forget, Forgotten};
use store::Store;

use crate::journal::{self, Journal};
use crate::start::quiet;
use crate::{EngineError, Settings};

/// The stream that is the replay log of a lane. It belongs to the input with the number 0, and its records to any.
pub const REPLAYS: &str = "@replays";

/// An input, a stream, or one partition of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The input; `None` for those of every input.
    pub input: Option<String>,
    /// The stream: a topic, a file; `None` for all.
    pub stream: Option<String>,
    /// One partition of it; `None` for all.
    pub index: Option<u32>,
}

impl Named {
    fn means(&self, lane: &Lane, p: &PartitionState) -> bool {
        let input = lane.inputs.get(p.input as usize).map(|input| &input.name);
        self.input.as_ref().is_none_or(|own| Some(own) == input)
            && self.stream.as_ref().is_none_or(|own| *own == p.stream)
            && self.index.is_none_or(|own| own == p.index)
    }
}

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let colon = if self.input.is_some() && self.stream.is_some() { ":" } else { "" };
        let (input, stream) = (self.input.as_deref().unwrap_or(""), self.stream.as_deref().unwrap_or(""));
        write!(f, "{input}{colon}{stream}")?;
        self.index.map_or(Ok(()), |index| write!(f, "/{index}"))
    }
}

/// What is forgotten, and by whom.
#[derive(Clone, Debug)]
pub struct Request {
    /// What leaves the pipeline; at least one.
    pub named: Vec<Named>,
    /// Whether their positions do not count either: added again, they begin where the pipeline file says. That of the replay log is kept.
    pub from_start: bool,
    /// Who says so, for operators who read the journal.
    pub by: String,
    /// Do it although a process writes into the journal; that process ends.
    pub take_over: bool,
    /// How long the journal must have stood still otherwise.
    pub quiet_min: Duration,
}

/// A partition that leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// The partition.
    pub partition: Partition,
    /// The position after the last record that was read of it.
    pub next: Position,
}

/// What leaves, and what of the pipeline is still on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// The partitions.
    pub partitions: Vec<Left>,
    /// Sealed inserts of the pipeline that are not settled; rows of the partitions may be among them, and are delivered.
    pub inserts: usize,
}

/// Why nothing is forgotten.
#[derive(Debug, thiserror::Error)]
pub enum ForgetError {
    /// It is not read.
    #[error("this pipeline does not read `{name}`, so nothing was forgotten; {}", listed(read))]
    NotRead {
        /// What was named.
        name: String,
        /// The streams that are read.
        read: Vec<String>,
    },
    /// Inserts wait, and their records would be read again.
    #[error(
        "{inserts} sealed inserts wait for their tables; a row among them that a table refuses later would count as one of records that are read again, so \
         nothing was forgotten. Deliver them first: `forebay run FILE --drain`; or leave out `--from-start`"
    )]
    Pending {
        /// How many.
        inserts: usize,
    },
    /// A process runs the pipeline.
    #[error(
        "a process runs this pipeline at this moment, so nothing was forgotten: stop it first, or run this with `--take-over`, which ends it"
    )]
    Running,
    /// The journal cannot be read or written.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

fn listed(read: &[String]) -> String {
    if read.is_empty() {
        return "it reads no stream at all".into();
    }
    format!("it reads `{}`", read.join("`, `"))
}

/// What would leave; changes nothing.
///
/// # Errors
/// [`ForgetError::NotRead`] when something that was named is not read.
pub fn leaving(lane: &Lane, named: &[Named]) -> Result<Leaving, ForgetError> {
    let chosen = chosen(lane, named)?;
    let left = |at: u32| {
        let p = &lane.partitions[at as usize];
        let partition = Partition::new(p.stream.as_str(), p.index).of_input(p.input);
        Left { partition, next: p.next }
    };
    Ok(Leaving { partitions: chosen.into_iter().map(left).collect(), inserts: lane.spool_frames() })
}

/// Places of the partitions that are meant.
fn chosen(lane: &Lane, named: &[Named]) -> Result<Vec<u32>, ForgetError> {
    let unknown = |named: &&Named| !lane.reading().any(|(_, p)| named.means(lane, p));
    if let Some(unknown) = named.iter().find(unknown) {
        let shown = |p: &PartitionState| match lane.inputs.get(p.input as usize) {
            Some(input) if lane.inputs.len() > 1 => format!("{}:{}", input.name, p.stream),
            _ => p.stream.clone(),
        };
        let mut read: Vec<String> = lane.reading().map(|(_, p)| shown(p)).collect();
        read.sort();
        read.dedup();
        return Err(ForgetError::NotRead { name: unknown.to_string(), read });
    }
    let is_chosen = |p: &PartitionState| named.iter().any(|named| named.means(lane, p));
    let chosen = lane.reading().filter(|(_, p)| is_chosen(p));
    Ok(chosen.map(|(at, _)| at as u32).collect())
}

/// Takes streams out of the pipeline.
///
/// # Errors
/// When a condition does not hold (nothing was written then), or the journal cannot be read or written.
pub async fn forget(
    store: Arc<dyn Store>,
    runtime: Arc<dyn Runtime>,
    folder: &str,
    request: &Request,
) -> Result<Leaving, ForgetError> {
    // Looked at before the claim, so that a mistake ends nobody.
    forgotten(&journal::load(&*store, folder).await?, request, runtime.wall_ms())?;
    let settings = Settings { owner_quiet_min: request.quiet_min, ..Settings::default() };
    if !request.take_over && !quiet::is_quiet(&*runtime, &settings, &*store, folder).await? {
        return Err(ForgetError::Running);
    }
    let owner = format!("forget by {}", request.by);
    let pause = settings.retry_pause_max;
    let mut journal = Journal::claim(store, runtime.clone(), folder.to_owned(), owner, pause).await?;
    // Nobody else writes from here on; more may have been read by then.
    let leaving = leaving(journal.lane(), &request.named)?;
    let partitions = forgotten(journal.lane(), request, runtime.wall_ms())?;
    journal.append(Body::Forget(Forget { partitions, by: request.by.clone() })).await?;
    Ok(leaving)
}

/// What the record says of each partition. Records of the replay log are of every input, so none may be read twice because one input leaves.
fn forgotten(lane: &Lane, request: &Request, now_ms: i64) -> Result<Vec<Forgotten>, ForgetError> {
    let at_ms = lane.moment_after(now_ms);
    let one = |partition: u32| {
        let is_log = lane.partitions[partition as usize].stream == REPLAYS;
        Forgotten { partition, from_start: request.from_start && !is_log, at_ms }
    };
    let gone: Vec<Forgotten> = chosen(lane, &request.named)?.into_iter().map(one).collect();
    // Without an identity a stream that comes back is another one, and dead letters say of which they are.
    let is_read_again =
        |gone: &Forgotten| gone.from_start && !lane.partitions[gone.partition as usize].identity.is_empty();
    match refusable(lane) {
        inserts if inserts > 0 && gone.iter().any(is_read_again) => Err(ForgetError::Pending { inserts }),
        _ => Ok(gone),
    }
}

/// Sealed inserts with rows that a table may still refuse; no dead letter becomes another.
fn refusable(lane: &Lane) -> usize {
    lane.tables.iter().filter(|table| !table.takes_dead_letters).map(|table| table.pending.len()).sum()
}

#[cfg(test)]
mod tests;
