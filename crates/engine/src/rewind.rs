//! Partitions of a stopped pipeline that an operator moves: back, so that their records are read again, or on, so that records are never read.
//!
//! Owns the conditions under which that is done, and its record. Does not own where a time or a word leads (the source knows), nor what follows
//! (`protocol::lane` does: the next seal begins there).
//!
//! | what is there                                       | what happens                                                          |
//! |-----------------------------------------------------|-----------------------------------------------------------------------|
//! | a partition that is not read                        | refused, with the list of those that are                              |
//! | sealed inserts that wait                            | refused: they are delivered first, because a row that is refused later is a record behind the new position |
//! | a window, and a partition that moves back           | refused, unless the state of every step is given up: results would hold records twice |
//! | a process that writes into the journal              | refused; `take_over` overrides                                        |
//! | otherwise                                           | claim, then one record                                                |
//!
//! What was read and written stays counted: a record that is read again is counted as read again.

use std::sync::Arc;
use std::time::Duration;

use dataflow::{Partition, Position, Runtime};
use protocol::Lane;
use protocol::record::{Body, Move, Rewind};
use store::Store;

use crate::journal::{self, Journal};
use crate::start::quiet;
use crate::{EngineError, Settings, change};

/// Where a partition is to be read on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The partition, with the number of its input.
    pub partition: Partition,
    /// The first position to read.
    pub next: Position,
    /// The leader epoch that goes with it; -1 if there is none.
    pub leader_epoch: i32,
}

/// What is moved, and by whom.
#[derive(Clone, Debug)]
pub struct Request {
    /// The partitions.
    pub targets: Vec<Target>,
    /// Steps whose state is given up, as [`change::labels`] names them.
    pub new_state: Vec<String>,
    /// Who says so, for operators who read the journal.
    pub by: String,
    /// Do it although a process writes into the journal; that process ends.
    pub take_over: bool,
    /// How long the journal must have stood still otherwise.
    pub quiet_min: Duration,
}

/// Why nothing is moved.
#[derive(Debug, thiserror::Error)]
pub enum RewindError {
    /// It is not read.
    #[error("this pipeline does not read `{partition}`, so nothing was moved; it reads {}", listed(read))]
    NotRead {
        /// What was named.
        partition: String,
        /// What is read.
        read: Vec<String>,
    },
    /// A step that is not there.
    #[error(
        "`--new-state {name}` names no step that keeps state, so nothing was moved; steps that do: {}",
        listed(steps)
    )]
    NoStep {
        /// What was named.
        name: String,
        /// The steps with state.
        steps: Vec<String>,
    },
    /// Frames wait.
    #[error(
        "{inserts} sealed inserts wait for their tables; rows among them come from records behind the new position, so nothing was moved. Deliver them \
         first: `forebay run FILE --drain`"
    )]
    Pending {
        /// How many.
        inserts: usize,
    },
    /// A window or a join would have records twice.
    #[error(
        "records that are read again would be in the results of {absorbing} twice{}. Nothing was moved. To read them again, give up what the steps \
         remember: add `{}`. {held} records that are held by {absorbing} are then counted as discarded, and results that are in the table already are \
         written again, so delete those first",
        if *has_others { ", or dropped by `dedup` as duplicates" } else { "" },
        flags(steps)
    )]
    Counted {
        /// All steps that must begin empty.
        steps: Vec<String>,
        /// Those that hold records, as [`change::absorbing`] names them.
        absorbing: String,
        /// Whether there are others, which know what they have let pass.
        has_others: bool,
        /// The records that they hold.
        held: u64,
    },
    /// Of several steps that hold records only some are given up.
    #[error("several steps hold records; name all of them with `--new-state`, or none: {}", listed(steps))]
    Some {
        /// Those that absorb records.
        steps: Vec<String>,
    },
    /// A process runs the pipeline.
    #[error(
        "a process runs this pipeline at this moment, so nothing was moved: stop it first, or run this with `--take-over`, which ends it"
    )]
    Running,
    /// The journal cannot be read or written.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".into() } else { format!("`{}`", names.join("`, `")) }
}

fn flags(steps: &[String]) -> String {
    let flags: Vec<String> = steps.iter().map(|step| format!("--new-state {step}")).collect();
    flags.join(" ")
}

/// The record that a request comes to; changes nothing. A partition that stands where it is to be is not in it.
///
/// # Errors
/// When a condition does not hold.
pub fn plan(lane: &Lane, request: &Request) -> Result<Rewind, RewindError> {
    let mut moves = Vec::new();
    for Target { partition, next, leader_epoch } in &request.targets {
        let Partition { input, stream, index } = partition;
        let Some(at) = lane.partition(*input, stream, *index) else {
            let read = lane.reading().map(|(_, p)| format!("{}/{}", p.stream, p.index)).collect();
            return Err(RewindError::NotRead { partition: partition.to_string(), read });
        };
        let from = lane.partitions[at].next;
        if from != *next {
            moves.push(Move::new(at as u32, from, *next, *leader_epoch));
        }
    }
    let emptied = emptied(lane, &request.new_state)?;
    if lane.spool_frames() > 0 {
        return Err(RewindError::Pending { inserts: lane.spool_frames() });
    }
    let labels = change::labels(&lane.steps);
    let must = || lane.emptied_by_going_back();
    if moves.iter().any(Move::is_back) && must().any(|step| !emptied.contains(&step)) {
        return Err(RewindError::Counted {
            steps: must().map(|step| labels[step as usize].clone()).collect(),
            absorbing: change::absorbing(&lane.steps),
            has_others: lane.steps.iter().any(|step| !step.absorbs),
            held: lane.absorbed.held,
        });
    }
    let absorbing: Vec<u32> =
        (0..).zip(&lane.steps).filter(|(_, step)| step.absorbs).map(|(at, _)| at).collect();
    let given_up = absorbing.iter().filter(|step| emptied.contains(step)).count();
    if given_up > 0 && given_up < absorbing.len() {
        let steps = absorbing.iter().map(|step| labels[*step as usize].clone()).collect();
        return Err(RewindError::Some { steps });
    }
    // Steps that absorb nothing hold nothing.
    let discarded = if given_up > 0 { lane.absorbed.held } else { 0 };
    Ok(Rewind { moves, emptied, discarded, by: request.by.clone(), at_ms: 0 })
}

fn emptied(lane: &Lane, names: &[String]) -> Result<Vec<u32>, RewindError> {
    let labels = change::labels(&lane.steps);
    let mut emptied = Vec::new();
    for name in names {
        match labels.iter().position(|label| label == name) {
            Some(at) => emptied.push(at as u32),
            None => return Err(RewindError::NoStep { name: name.clone(), steps: labels }),
        }
    }
    emptied.sort_unstable();
    emptied.dedup();
    Ok(emptied)
}

/// [`plan`] with its moment, behind all that the journal names: letters that were sealed by then are of the reading before, whatever the clocks say.
fn moved(lane: &Lane, request: &Request, now_ms: i64) -> Result<Rewind, RewindError> {
    Ok(Rewind { at_ms: lane.moment_after(now_ms), ..plan(lane, request)? })
}

/// Moves partitions, and says from where; nothing is written if there is nothing to do.
///
/// # Errors
/// When a condition does not hold (nothing was written then), or the journal cannot be read or written.
pub async fn rewind(
    store: Arc<dyn Store>,
    runtime: Arc<dyn Runtime>,
    folder: &str,
    request: &Request,
) -> Result<Rewind, RewindError> {
    // Looked at before the claim, so that a mistake ends nobody.
    plan(&journal::load(&*store, folder).await?, request)?;
    let settings = Settings { owner_quiet_min: request.quiet_min, ..Settings::default() };
    if !request.take_over && !quiet::is_quiet(&*runtime, &settings, &*store, folder).await? {
        return Err(RewindError::Running);
    }
    let owner = format!("reset by {}", request.by);
    let mut journal =
        Journal::claim(store, runtime.clone(), folder.to_owned(), owner, settings.retry_pause_max).await?;
    // Nobody else writes from here on; more may have been read by then.
    let rewind = moved(journal.lane(), request, runtime.wall_ms())?;
    if !rewind.moves.is_empty() || !rewind.emptied.is_empty() {
        journal.append(Body::Rewind(rewind.clone())).await?;
    }
    Ok(rewind)
}

#[cfg(test)]
mod tests;
