//! The reading side of a lane: one task that keeps blocks, steps and cuts in order.
//!
//! Owns the order of records within the lane, and the back-pressure towards the source. Does not own what happens to a cut ([`crate::seal`]).
//!
//! Blocks are decoded and go through the steps without state on compute threads, several at once, and absorbed in the order in which they were read; events of a
//! partition wait in the same queue, so that "caught up" is never told before the records before it.
//!
//! | module         | what it owns                                                     |
//! |----------------|------------------------------------------------------------------|
//! | [`feed`]       | whose turn it is among the inputs                                |
//! | [`partitions`] | what they hand out: partitions and their events                  |
//! | [`absorb`]     | a block on its way through the steps                             |
//! | [`refusal`]    | a refused row on its way back through them                       |
//! | [`cutting`]    | when a cut is made, and what it takes with it                    |
//! | [`damaged`]    | what is sealed, while the state of a step is damaged             |
//! | [`pressure`]   | how long the lane waits for what is behind it                    |
//! | [`tell`]       | what is reported of it                                           |

mod absorb;
mod cutting;
mod damaged;
mod feed;
mod partitions;
mod pressure;
mod refusal;
mod tell;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use dataflow::position::Position;
use dataflow::{Ahead, Intake, Operator, Partition, Router, SourceFault};
use futures::future::BoxFuture;
use tokio::sync::{mpsc, watch};

use crate::EngineError;
use crate::context::Context;
use crate::cut::Builder;
use crate::flow::{Flow, Port};
use crate::problem::Noticed;
use crate::refused::Refused;
use crate::retry::Backoff;
use crate::seal::Encoding;
use crate::start::open::{Opened, Refusal};
use crate::state_files::{Files, Works};
use crate::status::Phase;
use crate::tables::Side;
use crate::target::Target;
use crate::tasks::until;
use crate::versions::Versions;
use crate::waiting::{Waiting, front};
use crate::watermark::Watermarks;
use feed::{Came, Feed};
use partitions::{reading, recreated};
use pressure::Pressure;

/// Blocks decoded or decoding ahead of the steps, for each compute thread: one to work on, one to follow.
const BLOCKS_AHEAD: usize = 2;

/// How often the lane checks what no event brings: idleness, skew, state.
const TICK: Duration = Duration::from_secs(1);

/// Why reading ended.
#[derive(Debug)]
pub enum End {
    /// Every partition has ended or stands at the place where the drain was to stop.
    Complete,
    /// The process was asked to stop.
    Asked,
    /// The source of every input refuses, or that of one did while the others were read to their end; or the state of a step is damaged. What was sealed is in
    /// the table.
    Refused(EngineError),
    /// The table's columns have changed: what was read and not cut is read again for those of now.
    Reopen,
}

/// The source of an input on its way to being read.
pub type Opening = BoxFuture<'static, Result<Opened, Refusal>>;

/// A partition as the lane reads it.
struct Reading {
    partition: Partition,
    /// Position after the last absorbed record: where the next cut of it begins or ends.
    next: Position,
    /// The leader epoch that goes with it, as the source said it last.
    leader_epoch: i32,
    /// True if that says more of the place than who wrote the record before it.
    is_marked: bool,
    /// Position after the last sealed record.
    cut: Position,
    /// Where a drain stops; `None` without `--drain`.
    stop_at: Option<Position>,
    /// True once the reader has handed out anything of it, if only that there is nothing more. A stream that was cut ends before
    /// `next`, and only the reader says so.
    answered: bool,
    ended: bool,
    paused: bool,
    /// True if the seals tell what became of each record.
    wants_fates: bool,
    /// True if it has left the pipeline; it keeps its place, for the journal goes by places.
    forgotten: bool,
    /// True if the source of its input refuses.
    refused: bool,
}

/// Records that were absorbed, by where they came from.
#[derive(Clone, Copy, Debug, Default)]
struct Absorbed {
    read: u64,
    replayed: u64,
}

/// The task that reads a lane's inputs and keeps blocks, steps and cuts in order.
pub struct LaneTask {
    context: Arc<Context>,
    pipeline: Arc<str>,
    /// The inputs, by place.
    feeds: Vec<Feed>,
    /// For each input what the step that its rows enter wants to have done with each block on a compute thread.
    aheads: Vec<Option<Arc<dyn Ahead>>>,
    pressure: Pressure,
    /// The place of the input that is asked first.
    turn: usize,
    /// What the first source said that refuses while others are read.
    refusal: Option<EngineError>,
    /// Columns of the rows that go to the table; those behind them are for the steps alone.
    columns_written: Vec<usize>,
    steps: Vec<Box<dyn Operator>>,
    flow: Flow,
    cuts: mpsc::Sender<Encoding>,
    readings: Vec<Reading>,
    waiting: VecDeque<Waiting>,
    watermarks: Watermarks,
    builder: Builder,
    cut_number: u64,
    /// Records absorbed by this process: those of the source, and those that are replayed.
    absorbed: Absorbed,
    /// The watermark that the steps go by: of the newest cut.
    judged_by_ms: i64,
    drain: bool,
    /// True for the last cut once every input has ended: steps that are to close then let out what they hold.
    is_closing: bool,
    refused: mpsc::Receiver<Vec<Refused>>,
    works: Works,
    /// Which tables get which rows; without one, each gets all.
    router: Option<Arc<dyn Router>>,
    /// What takes late rows.
    sides: Vec<Side>,
    /// Of rows for tables that take them.
    versions: Versions,
}

/// What a lane task needs to begin.
pub struct Parts {
    /// What the tasks share.
    pub context: Arc<Context>,
    /// The pipeline's name.
    pub pipeline: Arc<str>,
    /// For each input, by place, what is done with a block before the lane, and the running read or the way to it: what is sealed is
    /// delivered meanwhile.
    pub inputs: Vec<(Intake, Opening)>,
    /// The steps, their state restored.
    pub steps: Vec<Box<dyn Operator>>,
    /// Which step the rows of each input, and of each step, go to next.
    pub flow: Flow,
    /// Towards the seal.
    pub cuts: mpsc::Sender<Encoding>,
    /// Stop when everything that is there now has been read.
    pub drain: bool,
    /// Rows that the server refuses.
    pub refused: mpsc::Receiver<Vec<Refused>>,
    /// Which tables get which rows.
    pub router: Option<Arc<dyn Router>>,
    /// What takes late rows.
    pub sides: Vec<Side>,
}

impl LaneTask {
    /// A lane that stands where the journal says.
    pub async fn new(parts: Parts) -> Self {
        let Parts { context, pipeline, inputs, steps, flow, cuts, drain, refused, router, sides } = parts;
        let now = context.runtime.elapsed();
        let of_rows = context.targets.iter().filter(|target| !target.takes_dead_letters);
        let columns_written: Vec<usize> =
            of_rows.map(|target| target.table.schema().columns().len()).collect();
        let mut builder = Builder::default();
        let (readings, watermarks, judged_by_ms, versions) = {
            let journal = context.journal.lock().await;
            let lane = journal.lane();
            let mut marks = Watermarks::new(lane.watermark_ms);
            let mut readings = Vec::new();
            for (at, p) in lane.partitions.iter().enumerate() {
                marks.add(p.time_ms_max, now, context.pace(p.input));
                let partition = Partition::new(p.stream.as_str(), p.index).of_input(p.input);
                let mut reading = reading(&context.inputs, partition, (p.next, p.leader_epoch));
                if lane.is_forgotten(at as u32) {
                    (reading.forgotten, reading.ended) = (true, true);
                    marks.forgotten(at);
                }
                readings.push(reading);
            }
            builder.recreated(recreated(lane));
            let tables = context.targets.iter().map(|target| &target.table);
            (readings, marks, lane.watermark_ms, Versions::new(lane.next_version, tables))
        };
        let backoff = || Backoff::new(context.settings.retry_pause_max);
        let ahead = |place: usize| {
            let Port { step, input } = flow.entry(place);
            steps.get(step).and_then(|step| step.ahead_of(input))
        };
        let aheads = (0..context.inputs.len()).map(ahead).collect();
        let feeds = context.inputs.iter().zip(inputs);
        let feeds = feeds
            .map(|(inlet, (intake, opening))| Feed::new(inlet.clone(), intake, opening, backoff()))
            .collect();
        let Context { objects, runtime, status, settings, .. } = &*context;
        let files = Files::new(objects.clone(), runtime.clone(), status.clone(), settings.retry_pause_max);
        let works = Works::new(files);
        // One that is opened again goes on with the count of its run.
        let told = status.snapshot();
        let absorbed = Absorbed { read: told.read, replayed: told.replayed };
        Self {
            feeds,
            aheads,
            pressure: Pressure::default(),
            turn: 0,
            refusal: None,
            context,
            pipeline,
            columns_written,
            steps,
            flow,
            cuts,
            readings,
            waiting: VecDeque::new(),
            watermarks,
            builder,
            cut_number: 0,
            absorbed,
            judged_by_ms,
            drain,
            is_closing: false,
            refused,
            works,
            router,
            sides,
            versions,
        }
    }

    /// Reads until the end, the drain's end, until the source refuses or `stop` turns true; then cuts what is left and waits until all
    /// of it is in the table. Where the state of a step turns out to be damaged, what is sealed by then is delivered all the same.
    ///
    /// # Errors
    /// When a step cannot go on, or a record cannot be written.
    pub async fn run(mut self, stop: watch::Receiver<bool>) -> Result<End, EngineError> {
        self.works.stop_with(stop.clone());
        let ended = self.read_to_the_end(stop).await;
        match ended {
            Err(error) if error.is_of_state_alone() => self.deliver(error).await,
            ended => ended,
        }
    }

    async fn read_to_the_end(&mut self, mut stop: watch::Receiver<bool>) -> Result<End, EngineError> {
        let lags = self.context.inputs.iter().map(|inlet| {
            let lag = tell::watch_lag(self.context.clone(), inlet.clone());
            self.context.runtime.spawn("lag", Box::pin(lag))
        });
        let _lags: Vec<_> = lags.collect();
        let ahead_max = BLOCKS_AHEAD * self.context.runtime.compute_threads();
        // Blocks are of 4 MiB or of one larger record: what waits is bounded by its bytes too.
        let ahead_bytes_max = self.context.settings.batch_bytes_max.max(1);
        let mut tick = self.context.runtime.sleep(TICK);
        let mut age: Option<BoxFuture<'static, ()>> = None;
        let mut reopening = self.context.reopening.subscribe();
        // As during a run: what an input that is not open yet may have is waited for by the watermark, and by no partition that runs ahead.
        (0..self.feeds.len()).for_each(|place| self.set_away(place, true));
        let end = loop {
            if self.context.is_reopening() {
                self.take_back();
                return Ok(End::Reopen);
            }
            if *stop.borrow() {
                break End::Asked;
            }
            if self.is_complete() {
                break End::Complete;
            }
            // While the spool is full nothing is read; only what may empty it, a refused row's dead letter, is cut.
            let is_full = self.context.spool.is_full();
            self.watermarks.turn(self.context.runtime.elapsed(), !is_full);
            self.pressure.turn(self.context.runtime.elapsed(), is_full);
            // The spool may have filled up behind a refused row that waits here for the batch's age, and it empties only by its seal.
            if is_full && self.builder.has_refusals() {
                self.cut().await?;
                age = None;
                continue;
            }
            if age.is_none() && !self.builder.is_empty() {
                age = Some(self.context.runtime.sleep(self.batch_age_max()));
            }
            let has_room = self.waiting.len() < ahead_max && self.waiting_bytes() < ahead_bytes_max;
            let may_read = !is_full && has_room;
            let may_release = !is_full && self.is_releasing() && self.works.are_under_way();
            tokio::select! {
                biased;
                // A sender that is gone will never ask; its error must not keep the others from their turn.
                Ok(()) = stop.changed() => {}
                Ok(()) = reopening.changed() => {}
                Some(refused) = self.refused.recv() => {
                    self.refuse_all(refused).await?;
                    if is_full || self.is_full() {
                        self.cut().await?;
                        age = None;
                    }
                }
                () = self.context.spool.quiet.notified(), if is_full => {}
                // Before the blocks that are ready: under load there is always one, and a batch would grow past its age.
                () = until(&mut age), if !is_full => {
                    self.cut().await?;
                    age = None;
                }
                decoded = front(&mut self.waiting), if !is_full && !self.waiting.is_empty() => {
                    self.absorb(decoded).await?;
                    if self.is_full() {
                        self.cut().await?;
                        age = None;
                    }
                }
                came = feed::next(&mut self.feeds, self.turn, may_read) => {
                    if let Some(error) = self.came(came).await? {
                        break End::Refused(error);
                    }
                }
                // Results on their way out of files are not to wait for the next tick, each piece anew.
                handed_back = self.works.next(&mut self.steps), if may_release => {
                    handed_back?;
                    self.works.start(&mut self.steps).await?;
                    if self.is_due() {
                        self.cut().await?;
                        age = None;
                    }
                }
                () = &mut tick => {
                    self.tick();
                    if !is_full && self.builder.is_empty() {
                        self.cut().await?;
                    }
                    tick = self.context.runtime.sleep(TICK);
                }
            }
        };
        self.context.status.update(|s| s.phase = Phase::Draining);
        // A drain reads what there is at the moment: more will come.
        let is_complete = matches!(end, End::Complete);
        // Of an input that refused nobody knows whether more will come.
        let is_whole = !self.drain && self.refusal.is_none();
        let has_ended = is_complete && is_whole && self.readings.iter().all(|r| r.ended);
        self.finish(is_complete, has_ended).await?;
        Ok(match (end, self.refusal.take()) {
            (End::Complete | End::Asked, Some(error)) => End::Refused(error),
            (end, _) => end,
        })
    }

    /// What an input gave, or why it gives nothing; the first refusal once the sources of all inputs refuse.
    async fn came(&mut self, came: Came) -> Result<Option<EngineError>, EngineError> {
        match came {
            Came::Opened(place, Ok(opened)) => self.open(place, opened).await?,
            Came::Opened(place, Err(Refusal { error, may_deliver: true })) => {
                return Ok(self.refused_by_source(place, error));
            }
            Came::Opened(_, Err(Refusal { error, may_deliver: false })) => return Err(error),
            Came::Event(place, Ok(event)) => {
                self.turn = place + 1;
                if self.feeds[place].has_spoken() {
                    let inlet = &self.feeds[place].inlet;
                    self.context.status.ended(&inlet.name, Noticed::Asking);
                    self.set_away(place, false);
                }
                let taken = self.take(place, event).await;
                return self.taken(place, taken);
            }
            Came::Found(place, starts) => return self.found_again(place, starts).await,
            Came::Event(place, Err(error)) if error.fault.may_pass() => {
                self.turn = place + 1;
                let (input, now_ms) = (self.feeds[place].inlet.name.clone(), self.context.runtime.wall_ms());
                self.context.status.source_away(&input, &error, now_ms);
                if self.feeds[place].pause(&*self.context.runtime) {
                    tracing::warn!(input = &*input, %error, "no records can be read now; trying again");
                }
                self.set_away(place, true);
            }
            // Nothing can be sealed any more, whichever input it comes from.
            Came::Event(_, Err(error)) if error.fault == SourceFault::Store => return Err(error.into()),
            // What was read before is sealed and delivered like any other; the next start goes on behind it.
            Came::Event(place, Err(error)) => return Ok(self.refused_by_source(place, error.into())),
        }
        Ok(None)
    }

    /// What was read is absorbed and cut; nothing more is read. Then waits until all of it is settled, for a row that the
    /// server refuses comes back here to be sealed as a dead letter. If every input `has_ended`, the steps that are to close then are closed
    /// by the last cut, which is one like any other: a crash before it is durable leaves them open, and the next start comes here again. A run that
    /// `is_complete` waits for results on their way out of files; one that is asked to stop leaves them, and all other work on files, to the next start.
    async fn finish(&mut self, is_complete: bool, has_ended: bool) -> Result<(), EngineError> {
        self.watermarks.stop(self.context.runtime.elapsed());
        if !is_complete {
            self.works.begin_no_more();
        }
        while !self.waiting.is_empty() {
            let decoded = front(&mut self.waiting).await;
            self.absorb(decoded).await?;
            if self.is_full() {
                self.cut().await?;
            }
        }
        self.is_closing = has_ended;
        self.cut().await?;
        if is_complete {
            self.release_all().await?;
        }
        self.is_closing = false;
        self.tell_held(has_ended);
        while !is_settled(&self.context, self.cut_number).await {
            tokio::select! {
                biased;
                Some(refused) = self.refused.recv() => {
                    self.refuse_all(refused).await?;
                    self.cut().await?;
                }
                () = self.context.spool.quiet.notified() => {}
                // The seal reports its own failure; here it is enough not to wait for it.
                () = self.cuts.closed() => return Ok(()),
            }
        }
        Ok(())
    }

    /// Bytes of blocks between the source and the steps.
    fn waiting_bytes(&self) -> u64 {
        self.waiting.iter().map(Waiting::bytes).sum()
    }

    fn is_complete(&self) -> bool {
        let has_stopped = |r: &Reading| r.next >= r.stop_at.unwrap_or(Position::MAX);
        !self.feeds.iter().any(|feed| feed.is_opening() || feed.has_unread())
            && self.waiting.is_empty()
            && self
                .readings
                .iter()
                .all(|r| r.ended || r.refused || (r.answered && r.stop_at.is_some() && has_stopped(r)))
    }
}

/// True if that many cuts are sealed and every sealed frame is settled.
async fn is_settled(context: &Context, cuts: u64) -> bool {
    if context.objects.cuts_sealed() < cuts {
        return false;
    }
    let journal = context.journal.lock().await;
    let tables = &journal.lane().tables;
    // A table that waits for the operator settles nothing more.
    let settled = |t: &Target| {
        t.has_ended() || t.frontier.load(Ordering::Acquire) == tables[t.index as usize].next_ordinal
    };
    context.targets.iter().all(settled)
}
