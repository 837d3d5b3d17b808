//! The parts of a pipeline, and its run from start to end.
//!
//! Owns the life of a lane: start, the three tasks, the order in which they end. Does not own signals or exit codes (the
//! binary does).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use dataflow::{Effect, Operator, Router, Runtime, Sighting, Table};
use futures::FutureExt;
use futures::future::{BoxFuture, Either, join_all, select, select_all, try_join, try_join3};
use protocol::names;
use protocol::record::{Body, Part, Settle};
use store::Store;
use tokio::sync::{Notify, mpsc, watch};

use crate::accounts::Totals;
use crate::change::{self, Composition, NewState};
use crate::context::{self, Context, Target};
use crate::flow::Flow;
use crate::inputs::{self, Inlet, Input};
use crate::journal::{self, Journal};
use crate::lane::{End, LaneTask, Opening, Parts};
use crate::measured::Measured;
use crate::ownership::Ownership;
use crate::patient::Patient;
use crate::problem::{Noticed, STORE, State};
use crate::refuse::{REFUSED_AHEAD, Splits};
use crate::reread::Patience;
use crate::retire::Retirement;
use crate::retry::Backoff;
use crate::start::NewlyOpened;
use crate::start::open::{Asking, Opened, Refusal, Standing, check_store};
use crate::status::Phase;
use crate::tables::{Side, Tables};
use crate::{EngineError, Settings, Status, accounts, answer, budget, deliver, layouts, seal, start};

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
    /// What takes rows that a step finds late; their tables are the last ones.
    pub sides: Vec<Side>,
    /// Where records and rows go that cannot go on.
    pub dead_letters: Arc<dyn Table>,
    /// Journal, segments, state.
    pub store: Arc<dyn Store>,
    /// Clock, threads, randomness.
    pub runtime: Arc<dyn Runtime>,
    /// The bounds.
    pub settings: Settings,
    /// Where progress is told.
    pub status: Arc<Status>,
    /// Stop when everything that is there at the start has been read.
    pub drain: bool,
}

/// How long inserts that are under way may take to end when the lane is opened again. What is left is in doubt, as after a crash.
const REOPEN_TIME_MAX: Duration = Duration::from_secs(10);

/// Tries of a read by which a process that was replaced learns whether it goes on; it ends if the store does not answer.
const ANSWERED_TRIES_MAX: u64 = 10;

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
    let Begun { seen, opened, askings } = begun;
    // A start that is refused for the table's columns has claimed, read and sealed nothing.
    let lane = beginning.load().await?;
    layouts::check(&lane, &tables)?;
    let added = layouts::added(&lane, &tables);
    if !added.is_empty() {
        return Ok(Outcome::Reopen { added });
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
        // The store may have been exchanged for an older copy since it was looked at.
        check_store(journal.lane(), &opened.shown)?;
    }
    let inlets: Vec<Arc<Inlet>> = askings.iter().map(|asking| asking.input.clone()).collect();
    let mut new = NewlyOpened::default();
    let openings: Vec<Opening> = askings
        .into_iter()
        .zip(opened)
        .map(|(asking, opened)| opening(asking, opened, &standing, &mut new))
        .collect();
    start::check(journal.lane(), &name, &tables)?;
    let change = change::decide(journal.lane(), &made, &new_state, &owner)?;
    let change = match start::restore_changed(&reads, journal.lane(), &mut steps, change).await {
        Ok(change) => change,
        Err(error) => {
            // What a newer owner has retired is missing to one that slept after its claim, and no damage.
            let is_fenced = is_fenced(&journal.ownership(), &*runtime, pause).await;
            return Err(if is_fenced { EngineError::Fenced { seq: journal.lane().next_seq } } else { error });
        }
    };
    if let Some(change) = change {
        journal.append(Body::Change(change)).await?;
    }
    start::genesis_of_what_is_new(&mut journal, &name, &inlets, new, &tables, &made).await?;
    let (nonce, epoch) = (journal.nonce(), journal.lane().epoch);
    tracing::info!(pipeline = name, epoch, store = store.describe(), "lane claimed and restored");

    let (refused, refused_queue) = mpsc::channel(REFUSED_AHEAD);
    let targets =
        tables.all().zip(seen).map(|((table, _), seen)| target(journal.lane(), table, seen)).collect();
    let context = Arc::new(Context {
        runtime,
        inputs: inlets,
        patience: Patience::default(),
        store,
        folder,
        settings,
        status: status.clone(),
        ownership: journal.ownership(),
        journal: tokio::sync::Mutex::new(journal),
        targets,
        epoch,
        nonce,
        room: Notify::new(),
        quiet: Notify::new(),
        spool_full: AtomicBool::new(false),
        refusals: AtomicUsize::new(0),
        sealed_cuts: AtomicU64::new(0),
        closing: AtomicBool::new(false),
        state_files: AtomicU64::new(0),
        state_horizon: AtomicU64::new(0),
        checkpointing: AtomicBool::new(false),
        refused,
        splits: Splits::default(),
        retirement: Retirement::default(),
        reopening: watch::Sender::new(false),
    });
    {
        let journal = context.journal.lock().await;
        for target in &context.targets {
            // What an earlier owner saw last gives a first rate.
            if let Some(server) = &journal.lane().tables[target.index as usize].server {
                target.tokens().meter.see(&context::seen(server));
            }
            budget::tell(&context, target);
        }
        accounts::tell(journal.lane());
        status.update(|s| {
            s.phase = Phase::Running;
            s.sealed = Totals::of(journal.lane());
            s.sealed_at_start = s.sealed;
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
                told.rows_sealed = live.map(|piece| piece.frame.rows).sum();
                (told.rows_settled, told.rows_refused) = (0, 0);
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
    let result = match tasks(context.clone(), lane, cut_queue, stop).await {
        // What a newer owner has retired, or has published since, is no fault of the store.
        Err(error @ (EngineError::Damaged { .. } | EngineError::Mismatch(_))) => {
            Err(or_fenced(&context, error).await)
        }
        result => result,
    };
    match result {
        Err(EngineError::Fenced { seq }) => {
            let reads = reads.tries(ANSWERED_TRIES_MAX);
            match answer::is_answered(&reads, &*context.runtime, &context.folder, context.epoch).await {
                Ok(true) => {
                    tracing::info!(
                        "a question was answered while other tables were written; the pipeline goes on with the answer"
                    );
                    Ok(Outcome::Reopen { added: BTreeMap::new() })
                }
                // What else it may be is for the owner of now to say.
                Ok(false) | Err(_) => Err(EngineError::Fenced { seq }),
            }
        }
        Err(error) => Err(error),
        Ok(End::Reopen) => Ok(Outcome::Reopen { added: BTreeMap::new() }),
        Ok(end) => {
            seal::release(&context).await;
            accounts::at_the_end(context.ownership.next_seq(), &status.snapshot())?;
            match end {
                End::Complete => Ok(Outcome::Complete),
                End::Asked => Ok(Outcome::Drained),
                End::Reopen => Ok(Outcome::Reopen { added: BTreeMap::new() }),
                End::Refused(error) => {
                    let rows = status.snapshot().tables.values().map(|table| table.rows_settled).sum();
                    Err(EngineError::Delivered { error: Box::new(error), rows })
                }
            }
        }
    }
}

/// What a start has before it claims the lane.
struct Begun {
    /// The tables as they are.
    seen: Vec<Sighting>,
    /// The source of each input, opened where the lane stood; otherwise its refusal, or nothing while it is away.
    opened: Vec<OneOpened>,
    /// What it takes to ask each of them again.
    askings: Vec<Asking>,
}

/// The way to the read of an input once the lane is claimed and stands at `standing`; what its source has opened that is new is put
/// beside that of the others, into one record.
fn opening(asking: Asking, opened: OneOpened, standing: &Standing, new: &mut NewlyOpened) -> Opening {
    match opened {
        // Opened where the lane stands: one record with all that is new.
        Ok((at, mut opened)) if at == *standing => {
            new.partitions.append(&mut opened.new);
            new.opened.push(asking.input.number);
            Box::pin(async { Ok(opened) })
        }
        // The owner before has gone on meanwhile, or the source is away.
        Ok(_) | Err(None) => Box::pin(asking.shown_and_opened(standing.clone())),
        Err(Some(refusal)) => Box::pin(async { Err(refusal) }),
    }
}

/// How long a start waits for the sources that do not answer once one is open: as long as a broker takes that was slow to find. It then
/// goes on without them, and they are read once they are open.
const OTHERS_TIME_MAX: Duration = Duration::from_secs(3);

/// The source of an input before the claim; nothing while it is away.
type OneOpened = Result<(Standing, Opened), Option<Refusal>>;

/// The source of an input on its way, before the claim.
type Asked<'a> = BoxFuture<'a, (usize, Result<Option<(Standing, Opened)>, Refusal>)>;

/// A start before its claim: it looks, and writes nothing.
struct Beginning<'a> {
    runtime: &'a Arc<dyn Runtime>,
    settings: &'a Settings,
    status: &'a Arc<Status>,
    drain: bool,
    inputs: &'a [Input],
    reads: &'a Patient,
    folder: &'a str,
    name: &'a str,
    tables: &'a Tables,
    owner: &'a str,
    made: &'a Composition,
    new_state: &'a NewState,
}

impl Beginning<'_> {
    /// Waits until the lane may be claimed: the tables answer and the sources are open (at the first start all of them, later as many as
    /// let themselves be read); or frames are pending and nobody else seems to deliver them, whatever the sources say.
    async fn begin(&self) -> Result<Begun, EngineError> {
        let Self { runtime, settings, status, .. } = self;
        let lane = self.load().await?;
        let askings = self.askings(&lane);
        let (pending, is_first) = (lane.spool_frames(), lane.pipeline.is_empty());
        let seen = self.tables.all().map(|(table, _)| see_table(&***runtime, settings, &**table, status));
        let seen = join_all(seen).shared();
        if pending == 0 {
            let opened = async { self.open_all(&askings, is_first).await.map_err(|refusal| refusal.error) };
            let (opened, seen) = try_join(opened, async { Ok(seen.await) }).await?;
            if is_first
                && let Err(objection) = self.check_rows().await
                // The rows may be those of another start of this pipeline, which was faster.
                && self.load().await?.pipeline.is_empty()
            {
                return Err(objection);
            }
            return Ok(Begun { seen, opened, askings });
        }
        let left_alone = async {
            seen.clone().await;
            while !self.is_quiet().await? {}
            Ok::<_, EngineError>(())
        };
        let opened = {
            let opening = std::pin::pin!(self.open_all(&askings, is_first));
            match select(opening, std::pin::pin!(left_alone)).await {
                Either::Left((opened, _)) => Either::Left((opened, ())),
                Either::Right((quiet, _)) => Either::Right((quiet, ())),
            }
        };
        match opened {
            Either::Left((Ok(opened), _)) => Ok(Begun { seen: seen.clone().await, opened, askings }),
            Either::Left((Err(refusal), _)) if refusal.may_deliver => {
                let seen = seen.clone().await;
                tracing::warn!(error = %refusal.error, pending,
                    "the source refuses; what is sealed is delivered all the same if nobody else does");
                if self.is_quiet().await? {
                    // Each of the others has refused as well, and says so again.
                    let mut opened: Vec<_> = askings.iter().map(|_| Err(None)).collect();
                    opened[0] = Err(Some(refusal));
                    return Ok(Begun { seen, opened, askings });
                }
                let inserts = self.load().await?.spool_frames();
                Err(EngineError::LeftAlone { error: Box::new(refusal.error), inserts })
            }
            Either::Left((Err(refusal), _)) => Err(refusal.error),
            Either::Right((quiet, _)) => {
                quiet?;
                tracing::warn!(pending, "the source is unavailable; what is sealed is delivered meanwhile");
                let opened = askings.iter().map(|_| Err(None)).collect();
                Ok(Begun { seen: seen.clone().await, opened, askings })
            }
        }
    }

    /// Whether no table has rows that this start would write a second time.
    async fn check_rows(&self) -> Result<(), EngineError> {
        let Self { runtime, settings, status, .. } = self;
        for table in self.tables.of_rows() {
            start::check_rows(&***runtime, settings, &**table, status).await?;
        }
        Ok(())
    }

    /// The lane, if the pipeline fits it.
    async fn load(&self) -> Result<protocol::Lane, EngineError> {
        let lane = journal::load(self.reads, self.folder).await?;
        start::check(&lane, self.name, self.tables)?;
        change::decide(&lane, self.made, self.new_state, self.owner)?;
        Ok(lane)
    }

    /// What it takes to ask the source of each input.
    fn askings(&self, lane: &protocol::Lane) -> Vec<Asking> {
        let inlets = inputs::numbered(lane, self.inputs);
        let names: Arc<[Arc<str>]> = inlets.iter().map(|inlet| inlet.name.clone()).collect();
        let asking = |input: Arc<Inlet>| Asking {
            runtime: self.runtime.clone(),
            settings: self.settings.clone(),
            input,
            names: names.clone(),
            status: self.status.clone(),
            drain: self.drain,
        };
        inlets.into_iter().map(asking).collect()
    }

    /// Opens the sources side by side. At the first start a refusal of one is a refusal of all, for a start that cannot work writes
    /// nothing. Later the others are read all the same: once one is open, those that do not answer are waited for no longer than
    /// [`OTHERS_TIME_MAX`].
    ///
    /// # Errors
    /// When all refuse: the refusal of the first. Or when the store may be an older copy.
    async fn open_all(&self, askings: &[Asking], is_first: bool) -> Result<Vec<OneOpened>, Refusal> {
        let ask = |(place, asking)| async move { (place, self.open(asking).await) };
        let mut asked: Vec<Asked<'_>> = askings.iter().enumerate().map(|one| ask(one).boxed()).collect();
        let mut opened: Vec<OneOpened> = askings.iter().map(|_| Err(None)).collect();
        let mut others: BoxFuture<'_, ()> = std::future::pending().boxed();
        while !asked.is_empty() {
            let next = match select(select_all(std::mem::take(&mut asked)), others).await {
                Either::Left(((next, _, left), waiting)) => {
                    (asked, others) = (left, waiting);
                    next
                }
                Either::Right(_) => break,
            };
            match next {
                (_, Ok(None)) => {}
                (place, Ok(Some(one))) => {
                    opened[place] = Ok(one);
                    if !is_first {
                        others = self.runtime.sleep(OTHERS_TIME_MAX);
                    }
                }
                (place, Err(refusal)) => {
                    let name = &askings[place].input.name;
                    let refusal = Refusal { error: askings[place].input.named(refusal.error), ..refusal };
                    if is_first || !refusal.may_deliver {
                        return Err(refusal);
                    }
                    if askings.len() > 1 {
                        // The start may wait long for the others.
                        tracing::error!(input = &**name, error = %refusal.error, "the source of an input refuses");
                        let (words, now_ms) = (refusal.error.to_string(), self.runtime.wall_ms());
                        self.status.source_refuses(name, true, &words, now_ms);
                    }
                    opened[place] = Err(Some(refusal));
                }
            }
        }
        if opened.iter().all(|one| matches!(one, Err(Some(_)))) {
            let first = opened.into_iter().find_map(|one| one.err().flatten());
            return Err(first.expect("a pipeline has an input"));
        }
        Ok(opened)
    }

    /// Nothing if another start has given the input another number meanwhile: it is opened after the claim, by that number.
    async fn open(&self, asking: &Asking) -> Result<Option<(Standing, Opened)>, Refusal> {
        let shown = asking.shown().await?;
        // Behind the source: an owner that still works publishes what it has settled, and a journal that was read earlier than
        // that would look like a store that was rolled back.
        let lane = self.load().await.map_err(Refusal::of_the_store)?;
        let is_same =
            |inlet: &Arc<Inlet>| inlet.name == asking.input.name && inlet.number == asking.input.number;
        if !inputs::numbered(&lane, self.inputs).iter().any(is_same) {
            return Ok(None);
        }
        let standing = Standing::of(&lane);
        let opened = asking.open(&standing, shown).await?;
        Ok(Some((standing, opened)))
    }

    async fn is_quiet(&self) -> Result<bool, EngineError> {
        let Self { runtime, settings, .. } = self;
        start::quiet::is_quiet(&***runtime, settings, self.reads, self.folder).await
    }
}

/// What a newer owner has retired is missing to one that slept, and what it has published is ahead of one whose source was away.
async fn or_fenced(context: &Context, error: EngineError) -> EngineError {
    if is_fenced(&context.ownership, &*context.runtime, context.settings.retry_pause_max).await {
        return EngineError::Fenced { seq: context.journal.lock().await.lane().next_seq };
    }
    error
}

/// Whether another process owns the lane. Asks until the store answers: a process that was replaced must not tell the operator of faults that it
/// alone sees, and there is nothing else to do meanwhile. A stop ends the wait.
async fn is_fenced(ownership: &Ownership, runtime: &dyn Runtime, pause_max: Duration) -> bool {
    let mut backoff = Backoff::new(pause_max);
    loop {
        match ownership.look().await {
            Ok(is_owner) => return !is_owner,
            Err(error) => {
                if backoff.should_log() {
                    tracing::warn!(%error, "cannot check whether this process still owns the lane; trying again");
                }
                backoff.pause(runtime).await;
            }
        }
    }
}

/// The lane, the seal and the deliveries side by side; they end in this order, and the first error ends all.
async fn tasks(
    context: Arc<Context>,
    lane: LaneTask,
    cuts: mpsc::Receiver<seal::Encoding>,
    stop: watch::Receiver<bool>,
) -> Result<End, EngineError> {
    let left = Notify::new();
    let reading = async {
        let end = on_a_task(&context, "lane", lane.run(stop)).await?;
        if matches!(end, End::Reopen) {
            left.notify_one();
        }
        Ok(end)
    };
    let sealing = on_a_task(&context, "seal", {
        let context = context.clone();
        async move {
            let result = seal::run(context.clone(), cuts).await;
            context.closing.store(true, Ordering::Release);
            context.wake_all();
            result
        }
    });
    let deliveries = (0..context.targets.len())
        .map(|place| on_a_task(&context, "deliver", deliver::run(context.clone(), place)));
    let deliveries = futures::future::try_join_all(deliveries);
    let watching = std::pin::pin!(on_a_task(&context, "watch", watch_ownership(context.clone())));
    // The lane sees a closed channel when the seal has failed: the seal's error is the one to report, so it stands first.
    let working = std::pin::pin!(try_join3(sealing, async { deliveries.await.map(|_| ()) }, reading));
    let out_of_time = std::pin::pin!(async {
        left.notified().await;
        context.runtime.sleep(REOPEN_TIME_MAX).await;
    });
    match select(select(working, watching), out_of_time).await {
        Either::Left((Either::Left((done, _)), _)) => Ok(done?.2),
        Either::Left((Either::Right((replaced, _)), _)) => {
            Err(replaced.err().unwrap_or(EngineError::Internal("watch")))
        }
        Either::Right(((), _)) => Ok(End::Reopen),
    }
}

/// Ends, with an error, when another owner has taken the lane over. Appends and inserts find that out by themselves; this is
/// for an owner that has nothing to do, or whose table is away. While frames wait it shows in the journal that it is alive:
/// whoever starts beside it and cannot read the source would take them for left alone ([`start::quiet`]).
async fn watch_ownership(context: Arc<Context>) -> Result<(), EngineError> {
    loop {
        let seq = context.ownership.next_seq();
        context.runtime.sleep(context.settings.owner_check_every).await;
        if context.ownership.next_seq() != seq {
            // It has appended meanwhile, which shows it too.
            continue;
        }
        match context.ownership.look().await {
            Ok(true) => show_life(&context, seq).await?,
            Ok(false) => {
                context.ownership.fence();
                return Err(EngineError::Fenced { seq });
            }
            Err(error) => tracing::debug!(%error, "cannot check whether this process still owns the lane"),
        }
    }
}

/// Appends a record that says nothing, if frames wait and nothing was appended since `seq`. One every [`Settings::owner_check_every`] is little
/// beside what a working lane appends, and the next checkpoint retires them.
async fn show_life(context: &Context, seq: u64) -> Result<(), EngineError> {
    // A store that takes nothing is waited for with the journal held, which what is settled meanwhile needs. Nobody else can
    // claim the lane there either.
    if context.status.snapshot().problems.contains_key(STORE) {
        return Ok(());
    }
    let mut journal = context.journal.lock().await;
    if journal.lane().next_seq == seq && journal.lane().spool_frames() > 0 {
        journal.append(Body::Settle(Settle::default())).await?;
    }
    Ok(())
}

/// Runs a future on a task of its own, so that the three sides of a lane use several cores; ends it when dropped.
///
/// # Errors
/// As the future, and [`EngineError::Internal`] if its task is gone.
pub async fn on_a_task<T: Send + 'static>(
    context: &Context,
    name: &'static str,
    work: impl Future<Output = Result<T, EngineError>> + Send + 'static,
) -> Result<T, EngineError> {
    let (done, result) = futures::channel::oneshot::channel();
    let task = async move {
        // Nobody listens any more when another task has failed.
        let _ = done.send(work.await);
    };
    let _task = context.runtime.spawn(name, Box::pin(task));
    result.await.map_err(|_| EngineError::Internal(name))?
}

fn target(lane: &protocol::Lane, table: &Arc<dyn Table>, seen: Sighting) -> Target {
    let index = lane.table(table.name()).expect("genesis has named every table");
    Target::new(index as u32, table.clone(), lane, seen)
}

async fn see_table(
    runtime: &dyn Runtime,
    settings: &Settings,
    table: &dyn Table,
    status: &Status,
) -> Sighting {
    let mut backoff = Backoff::new(settings.retry_pause_max);
    loop {
        match table.see().await {
            Ok(seen) => {
                status.ended(table.name(), Noticed::Asking);
                return seen;
            }
            Err(error) => {
                let (state, now_ms) = (State::of_table(error.kind), runtime.wall_ms());
                status.met(table.name(), state, &error.message, Effect::None, Noticed::Asking, now_ms);
                if backoff.should_log() {
                    tracing::warn!(table = table.name(), %error, "the table does not answer; trying again");
                }
                backoff.pause(runtime).await;
            }
        }
    }
}
