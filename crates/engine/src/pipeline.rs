//! The parts of a pipeline, and its run from start to end.
//!
//! Owns the life of a lane: what is before the claim ([`beginning`]), the claim and the restored state, the tasks side by side
//! ([`running`]), and how it ends. Does not own signals or exit codes, which are the program's (`commands::run`).

mod beginning;
mod running;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dataflow::{Intake, Operator, Router, Runtime, Sighting, Table};
use futures::future::{BoxFuture, Either, select};
use protocol::names;
use protocol::record::{Body, Part};
use store::Store;
use tokio::sync::{Mutex, mpsc, watch};

use crate::change::{self, Composition, NewState};
use crate::checkpoint::Checkpoints;
use crate::context::Context;
use crate::flow::Flow;
use crate::inputs::{self, Inlet, Input};
use crate::journal::Journal;
use crate::lane::{End, LaneTask, Opening, Parts};
use crate::measured::Measured;
use crate::objects::Objects;
use crate::patient::Patient;
use crate::refused::REFUSED_AHEAD;
use crate::remake::Remaker;
use crate::reread::Reread;
use crate::spool::Spool;
use crate::start::NewlyOpened;
use crate::start::open::{Asking, Standing, check_store};
use crate::status::Phase;
use crate::tables::{Side, Tables};
use crate::target::{self, Target};
use crate::totals::Totals;
use crate::{
    EngineError, Settings, Status, accounts, answer, budget, layouts, remake, reopened, seal, start,
};
use beginning::{Beginning, Begun, opening};
use running::{is_fenced, or_fenced, tasks};

/// Cuts between the lane and the seal: one that encodes while another is written.
const CUTS_AHEAD: usize = 1;

/// All that a lane is made of.
pub struct Pipeline {
    /// The pipeline's name; names the lane's folder in the store.
    pub name: String,
    /// The lane's number within the pipeline, which names the folder too.
    pub lane: u32,
    /// Host and process, for the claim.
    pub owner: String,
    /// Where records come from; at least one. Which steps their rows go through says `flow`.
    pub inputs: Vec<Input>,
    /// What is done with the rows in the lane.
    pub steps: Vec<Box<dyn Operator>>,
    /// Which step the rows of each input, and of each step, go to next; a line unless steps have several inputs.
    pub flow: Flow,
    /// What else the pipeline file says that may change at any time, for the next comparison.
    pub parts: Vec<Part>,
    /// Steps that are to begin with empty state.
    pub new_state: NewState,
    /// Where rows go; at least one.
    pub tables: Vec<Arc<dyn Table>>,
    /// Which of them get which rows; without a router, each gets all. Those of `sides` get none.
    pub router: Option<Arc<dyn Router>>,
    /// What takes the rows of side outputs; their tables are the last ones.
    pub sides: Vec<Side>,
    /// Where records and rows go that cannot go on.
    pub dead_letters: Arc<dyn Table>,
    /// Journal, segments, state.
    pub store: Arc<dyn Store>,
    /// Clock, threads, randomness.
    pub runtime: Arc<dyn Runtime>,
    /// The bounds.
    pub settings: Settings,
    /// Where progress is reported.
    pub status: Arc<Status>,
    /// Stop when everything that is there at the start has been read.
    pub drain: bool,
}

/// Tries of a read by which a process that was replaced learns whether it goes on; it ends if the store does not answer.
const ANSWERED_TRIES_MAX: u64 = 10;

/// How long the end of a run waits until segments are written that were left: longer than a store takes that answers. A lane that is opened again waits longer.
const WRITE_TIME_MAX: Duration = Duration::from_secs(5);

/// How a run ended well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All was read, and all of it is in the table.
    Complete,
    /// The process was asked to stop, and all that it read is in the table.
    Drained,
    /// The process was asked to stop, and the time for answers ran out. What is left is sealed or still in the source; the
    /// next start goes on with it.
    Interrupted,
    /// A table's columns or views are others than it was opened with, or the operator has answered a question while other tables were written: open
    /// the tables again, and run again at once.
    Reopen {
        /// Whether the lane was claimed and opened, so that what was asked of this start is done.
        claimed: bool,
        /// By table, the columns that were added after it was first written, and that every record would have to give: a record
        /// without them is to get the type's own zero value instead.
        added: BTreeMap<String, Vec<String>>,
    },
}

/// Runs a pipeline until its source ends, it is drained, `stop` turns true, or it cannot go on.
///
/// # Errors
/// See [`EngineError`]; nothing that was sealed is lost by any of them.
pub async fn run(pipeline: Pipeline, stop: watch::Receiver<bool>) -> Result<Outcome, EngineError> {
    let (runtime, status) = (pipeline.runtime.clone(), pipeline.status.clone());
    let drain_time_max = pipeline.settings.drain_time_max;
    let deadline = {
        let (runtime, asked) = (runtime.clone(), is_asked(stop.clone()));
        async move {
            asked.await;
            runtime.sleep(drain_time_max).await;
        }
    };
    let work = std::pin::pin!(run_to_the_end(pipeline, stop));
    let result = match select(work, std::pin::pin!(deadline)).await {
        Either::Left((result, _)) => result,
        Either::Right(((), _)) => {
            tracing::warn!(?drain_time_max, "the drain took too long; the rest is left to the next start");
            Ok(Outcome::Interrupted)
        }
    };
    if !matches!(result, Ok(Outcome::Reopen { .. })) {
        status.update(|s| s.phase = Phase::Stopped);
    }
    result
}

/// Ends when the process is asked to stop.
async fn is_asked(mut stop: watch::Receiver<bool>) {
    // A sender that is gone will never ask.
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}

async fn run_to_the_end(pipeline: Pipeline, stop: watch::Receiver<bool>) -> Result<Outcome, EngineError> {
    let Pipeline {
        name,
        lane: number,
        owner,
        inputs,
        mut steps,
        flow,
        parts,
        new_state,
        tables,
        router,
        sides,
        dead_letters,
        store,
        ..
    } = pipeline;
    let (runtime, settings, status, drain) =
        (pipeline.runtime, pipeline.settings, pipeline.status, pipeline.drain);
    let folder = names::lane_folder(&name, number);
    let store: Arc<dyn Store> = Arc::new(Measured::new(store, runtime.clone(), status.clone()));
    // One lost answer among the hundreds of reads of a start is no reason to end.
    let reads = Patient::new(store.clone(), runtime.clone(), settings.retry_pause_max);
    let tables = Tables::new(tables, dead_letters)?;
    if !flow.fits(&steps.iter().map(|step| step.inputs()).collect::<Vec<_>>()) {
        return Err(EngineError::Internal("steps whose edges do not fit their inputs"));
    }
    inputs::check(&inputs, &flow)?;
    let pause = settings.retry_pause_max;
    let made = Composition::of(&mut steps, parts);
    let beginning = Beginning {
        runtime: &runtime,
        settings: &settings,
        status: &status,
        drain,
        inputs: &inputs,
        reads: &reads,
        folder: &folder,
        name: &name,
        tables: &tables,
        owner: &owner,
        made: &made,
        new_state: &new_state,
    };
    // Nothing is owned yet, so there is nothing to drain.
    let begun = match select(std::pin::pin!(beginning.begin()), std::pin::pin!(is_asked(stop.clone()))).await
    {
        Either::Left((begun, _)) => begun?,
        Either::Right(((), _)) => return Ok(Outcome::Interrupted),
    };
    let Begun { seen, stood, opened, askings } = begun;
    // A start that is refused for the table's columns has claimed, read and sealed nothing.
    let lane = beginning.load().await?;
    layouts::check(&lane, &tables)?;
    let added = layouts::added(&lane, &tables);
    let back = layouts::has_back(&lane, &tables);
    if let Some(table) = &back {
        reopened::column_is_back(&status, table, &*runtime, is_asked(stop.clone())).await;
    }
    if !added.is_empty() || back.is_some() {
        return Ok(Outcome::Reopen { claimed: false, added });
    }
    layouts::tell(&lane, &tables);
    // From here on this process owns the lane, and an earlier owner is fenced.
    let mut journal =
        Journal::claim(store.clone(), runtime.clone(), folder.clone(), owner.clone(), pause).await?;
    let standing = Standing::of(journal.lane());
    let has_numbers = |askings: &[Asking]| {
        let now = inputs::numbered(journal.lane(), &inputs);
        askings.iter().zip(now).all(|(asking, now)| asking.input.number == now.number)
    };
    let (askings, opened) = match has_numbers(&askings) {
        true => (askings, opened),
        // Another start has named inputs meanwhile, in another order: what was opened has the wrong numbers.
        false => (beginning.askings(journal.lane()), opened.iter().map(|_| Err(None)).collect()),
    };
    for (_, opened) in opened.iter().filter_map(|opened| opened.as_ref().ok()) {
        // The store may have been exchanged for an older copy since it was read.
        check_store(journal.lane(), &opened.shown)?;
    }
    let inlets: Vec<Arc<Inlet>> = askings.iter().map(|asking| asking.input.clone()).collect();
    let mut new = NewlyOpened::default();
    let openings: Vec<Opening> = askings
        .into_iter()
        .zip(opened)
        .map(|(asking, opened)| opening(asking, opened, &stood, &standing, &mut new))
        .collect();
    start::check(journal.lane(), &name, &tables)?;
    // The owner before may have sealed frames since, of columns that this start has not.
    layouts::check(journal.lane(), &tables)?;
    if let Some(table) = layouts::has_back(journal.lane(), &tables) {
        reopened::column_is_back(&status, &table, &*runtime, is_asked(stop.clone())).await;
        return Ok(Outcome::Reopen { claimed: false, added: BTreeMap::new() });
    }
    let change = change::decide(journal.lane(), &made, &new_state, &owner)?;
    // It may also have left inserts unwritten since, which another pipeline file than its own cannot make again.
    let restored = match remake::check(&reads, journal.lane(), &made).await {
        Ok(()) => start::restore_changed(&reads, journal.lane(), &mut steps, change).await,
        Err(error) => Err(error),
    };
    let (change, damage) = match restored {
        Ok(change) => (change, None),
        Err(error) => {
            // What a newer owner has retired is missing to one that slept after its claim, and no damage.
            if is_fenced(&journal.ownership(), &*runtime, pause).await {
                return Err(EngineError::Fenced { seq: journal.lane().next_seq });
            }
            // Sealed inserts need no state, and while they wait no step may begin empty.
            match error.is_of_state_alone() && journal.lane().spool_frames() > 0 {
                true => (None, Some(error)),
                false => return Err(error),
            }
        }
    };
    if let Some(change) = change {
        journal.append(Body::Change(change)).await?;
    }
    start::genesis_of_what_is_new(&mut journal, &name, &inlets, new, &tables, &made).await?;
    let (nonce, epoch) = (journal.nonce(), journal.lane().epoch);
    tracing::info!(pipeline = name, epoch, store = store.describe(), "lane claimed");

    let intakes: Vec<Intake> = inputs.iter().map(|input| input.intake.clone()).collect();
    // What a frame is made of is known only where each row comes from a record as it is, and stays so.
    let is_plain = steps.is_empty() && router.is_none() && sides.is_empty() && tables.of_rows().len() == 1;
    let may_leave = is_plain
        && tables.of_rows().iter().all(|table| table.version_column().is_none())
        && inputs.iter().all(|input| input.source.releases() && input.intake.is_repeatable());
    let (refused, refused_queue) = mpsc::channel(REFUSED_AHEAD);
    let targets =
        tables.all().zip(seen).map(|((table, _), seen)| target(journal.lane(), table, seen)).collect();
    let ownership = journal.ownership();
    let inputs_of_context: Arc<[Arc<Inlet>]> = inlets.into();
    let journal = Arc::new(Mutex::new(journal));
    let objects = Arc::new(Objects::new(store, runtime.clone(), folder, (epoch, nonce), pause));
    let context = Arc::new(Context {
        reread: Reread::new(inputs_of_context.clone(), runtime.clone(), settings.reread_time_max, pause),
        checkpoints: Checkpoints::new(
            runtime.clone(),
            objects.clone(),
            journal.clone(),
            status.clone(),
            &settings,
        ),
        remaker: Remaker::new(inputs_of_context.clone(), intakes, runtime.clone(), pause),
        may_leave,
        stopping: stop.clone(),
        inputs: inputs_of_context,
        runtime,
        objects,
        settings,
        status: status.clone(),
        ownership,
        journal,
        targets,
        spool: Spool::default(),
        refused,
        reopening: watch::Sender::new(false),
    });
    {
        let journal = context.journal.lock().await;
        for target in &context.targets {
            // What an earlier owner saw last gives a first rate.
            if let Some(server) = &journal.lane().tables[target.index as usize].server {
                target.tokens().meter.see(&target::seen(server));
            }
            budget::tell(target, &context.settings, &status);
        }
        accounts::tell(journal.lane());
        status.update(|s| {
            s.sealed = Totals::of(journal.lane());
            // A lane that is opened again goes on with the run that it is part of.
            let goes_on = !matches!(s.phase, Phase::Starting | Phase::Stopped);
            if s.phase == Phase::Starting {
                s.sealed_at_start = s.sealed;
            }
            if !goes_on {
                (s.read, s.replayed) = (0, 0);
            }
            s.phase = Phase::Running;
            s.replays_from = journal.lane().before.replays_from;
            s.spool_bytes = journal.lane().spool_bytes();
            s.watermark_ms = journal.lane().watermark_ms;
            s.inputs = journal.lane().inputs.iter().map(|input| (input.name.clone(), input.counts)).collect();
            // Those that were forgotten have no end that anybody asks for.
            for (_, p) in journal.lane().reading() {
                let name = inputs::shown(&context.inputs, journal.lane(), p);
                let told = s.partitions.entry(name).or_default();
                (told.next, told.sealed) = (p.next, p.next);
            }
            for table in &journal.lane().tables {
                let live = table.pending.iter().flatten().filter(|piece| piece.is_live());
                let told = s.tables.entry(table.name.clone()).or_default();
                if !goes_on {
                    (told.rows_settled, told.rows_refused) = (0, 0);
                }
                let waiting: u64 = live.map(|piece| piece.frame.rows).sum();
                told.rows_sealed = told.rows_settled + told.rows_refused + waiting;
                (told.frames_sealed, told.frames_settled) = (table.next_ordinal, table.frontier);
            }
        });
    }

    let (cuts, cut_queue) = mpsc::channel(CUTS_AHEAD);
    let parts = Parts {
        context: context.clone(),
        pipeline: name.as_str().into(),
        inputs: inputs.into_iter().map(|input| input.intake).zip(openings).collect(),
        steps,
        flow,
        cuts,
        drain,
        refused: refused_queue,
        router,
        sides,
    };
    let lane = LaneTask::new(parts).await;
    let lane: BoxFuture<'static, Result<End, EngineError>> = match damage {
        None => Box::pin(lane.run(stop)),
        Some(damage) => Box::pin(lane.deliver(damage)),
    };
    let result = tasks(context.clone(), lane, cut_queue).await;
    let is_reopening = matches!(result, Ok(End::Reopen));
    if !matches!(result, Err(EngineError::Fenced { .. }))
        && let Err(error) = context.objects.write_left(is_reopening, WRITE_TIME_MAX).await
    {
        tracing::warn!(%error, "inserts that wait are not in the store; the next start makes them again from the source");
    }
    // The store may have been away for long meanwhile. Who has taken the lane over since keeps it.
    let may_be_fenced = is_reopening && context.may_leave;
    let result = match may_be_fenced && is_fenced(&context.ownership, &*context.runtime, pause).await {
        true => Err(EngineError::Fenced { seq: context.ownership.next_seq() }),
        false => result,
    };
    let result = match result {
        // What a newer owner has retired, or has published since, is no fault of the store.
        Err(error @ (EngineError::Damaged { .. } | EngineError::Mismatch(_))) => {
            Err(or_fenced(&context, error).await)
        }
        // Nor is it one of the source that it refuses where another owner has read on.
        Ok(End::Refused(error)) => match or_fenced(&context, error).await {
            fenced @ EngineError::Fenced { .. } => Err(fenced),
            error => Ok(End::Refused(error)),
        },
        result => result,
    };
    match result {
        Err(EngineError::Fenced { seq }) => {
            let reads = reads.tries(ANSWERED_TRIES_MAX);
            match answer::is_answered(
                &reads,
                &*context.runtime,
                &context.objects.folder,
                context.objects.epoch,
            )
            .await
            {
                Ok(true) => {
                    tracing::info!(
                        "a question was answered while other tables were written; the pipeline goes on with the answer"
                    );
                    Ok(Outcome::Reopen { claimed: true, added: BTreeMap::new() })
                }
                // What else it may be is for the owner of now to say.
                Ok(false) | Err(_) => Err(EngineError::Fenced { seq }),
            }
        }
        Err(error) => Err(error),
        Ok(End::Reopen) => Ok(Outcome::Reopen { claimed: true, added: BTreeMap::new() }),
        Ok(end) => {
            seal::release(&context).await;
            accounts::at_the_end(context.ownership.next_seq(), &status.snapshot())?;
            match end {
                End::Complete => Ok(Outcome::Complete),
                End::Asked => Ok(Outcome::Drained),
                End::Reopen => Ok(Outcome::Reopen { claimed: true, added: BTreeMap::new() }),
                End::Refused(error) => {
                    let rows = status.snapshot().tables.values().map(|table| table.rows_settled).sum();
                    Err(EngineError::Delivered { error: Box::new(error), rows })
                }
            }
        }
    }
}

fn target(lane: &protocol::Lane, table: &Arc<dyn Table>, seen: Sighting) -> Target {
    let index = lane.table(table.name()).expect("genesis has named every table");
    Target::new(index as u32, table.clone(), lane, seen)
}
