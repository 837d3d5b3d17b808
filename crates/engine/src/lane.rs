//! The reading side of a lane: one task that keeps blocks, steps and cuts in order.
//!
//! Owns the order of records within the lane, the back-pressure towards the source, the watermark, and when to cut. Does
//! not own what happens to a cut ([`crate::seal`]).
//!
//! Blocks are decoded and go through the steps without state on compute threads, several at once, and absorbed in the order in which they were read; events of a
//! partition wait in the same queue, so that "caught up" is never told before the records before it.

mod absorb;
mod feed;
mod pressure;
mod tell;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use dataflow::block::TIME_UNKNOWN_MS;
use dataflow::position::{self, Position};
use dataflow::{
    Ahead, Event, Intake, Operator, Partition, PartitionStart, ReadFrom, RecordBlock, Router, SourceFault,
};
use futures::future::BoxFuture;
use protocol::record::{Body, Genesis};
use tokio::sync::{mpsc, watch};

use crate::EngineError;
use crate::context::Context;
use crate::cut::{Builder, Cut};
use crate::flow::{Flow, Port};
use crate::inputs::Inlet;
use crate::problem::Noticed;
use crate::refused::Refused;
use crate::retry::Backoff;
use crate::seal::{self, Encoding};
use crate::stage::{self, Stage};
use crate::start::open::{Opened, Refusal, expired, genesis};
use crate::state_files::{Files, Works};
use crate::status::Phase;
use crate::tables::Side;
use crate::target::Target;
use crate::tasks::until;
use crate::versions::Versions;
use crate::waiting::{Waiting, front};
use crate::watermark::Watermarks;
use feed::{Came, Feed};
use pressure::Pressure;
use tell::tell_late;

/// Blocks decoded or decoding ahead of the steps, for each compute thread: one to work on, one to follow.
const BLOCKS_AHEAD: usize = 2;

/// A cut is made at this many bytes whatever the settings say: Arrow's texts and bytes end at 2 GiB, and a block more may follow.
const CUT_BYTES_MAX: u64 = 1 << 30;

/// How often the lane looks at things that no event brings: idleness, skew, state.
const TICK: Duration = Duration::from_secs(1);

/// Why reading ended.
#[derive(Debug)]
pub enum End {
    /// Every partition has ended or stands at the place where the drain was to stop.
    Complete,
    /// The process was asked to stop.
    Asked,
    /// The source of every input refuses, or that of one did while the others were read to their end. What was read is in the table.
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

/// The reading side.
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
    refused: mpsc::Receiver<Refused>,
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
    pub refused: mpsc::Receiver<Refused>,
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
        let settings = &context.settings;
        let of_rows = context.targets.iter().filter(|target| !target.takes_dead_letters);
        let columns_written: Vec<usize> =
            of_rows.map(|target| target.table.schema().columns().len()).collect();
        let (readings, watermarks, judged_by_ms, versions) = {
            let journal = context.journal.lock().await;
            let lane = journal.lane();
            let mut marks = Watermarks::new(lane.watermark_ms, settings.idle_after, settings.future_ms_max);
            let mut readings = Vec::new();
            for (at, p) in lane.partitions.iter().enumerate() {
                marks.add(p.time_ms_max, now);
                let partition = Partition::new(p.stream.as_str(), p.index).of_input(p.input);
                let mut reading = reading(&context.inputs, partition, p.next);
                if lane.is_forgotten(at as u32) {
                    (reading.forgotten, reading.ended) = (true, true);
                    marks.ended(at);
                }
                readings.push(reading);
            }
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
            builder: Builder::default(),
            cut_number: 0,
            absorbed: Absorbed::default(),
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
    /// of it is in the table.
    ///
    /// # Errors
    /// When a step cannot go on, or a record cannot be written.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) -> Result<End, EngineError> {
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
        self.hold();
        let end = loop {
            if self.context.is_reopening() {
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
            tokio::select! {
                biased;
                // A sender that is gone will never ask; its error must not keep the others from their turn.
                Ok(()) = stop.changed() => {}
                Ok(()) = reopening.changed() => {}
                Some(refused) = self.refused.recv() => {
                    self.refuse(refused).await?;
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
        let has_ended = matches!(end, End::Complete) && !self.drain && self.readings.iter().all(|r| r.ended);
        self.finish(has_ended).await?;
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
                match self.take(place, event).await {
                    Err(EngineError::Source(error)) => return Ok(self.refused_by_source(place, error.into())),
                    taken => taken?,
                }
            }
            Came::Event(place, Err(error)) if error.fault == SourceFault::Away => {
                self.turn = place + 1;
                let (input, now_ms) = (self.feeds[place].inlet.name.clone(), self.context.runtime.wall_ms());
                self.context.status.source_away(&input, &error.message, now_ms);
                if self.feeds[place].pause(&*self.context.runtime) {
                    tracing::warn!(input = &*input, %error, "the source is unavailable; trying again");
                }
                self.set_away(place, true);
            }
            // What was read before is sealed and delivered like any other; the next start goes on behind it.
            Came::Event(place, Err(error)) => return Ok(self.refused_by_source(place, error.into())),
        }
        Ok(None)
    }

    /// Partitions of other inputs do not wait for those of an input that gives nothing.
    fn set_away(&mut self, place: usize, away: bool) {
        let input = self.feeds[place].inlet.number;
        let own = self.readings.iter().enumerate().filter(|(_, reading)| reading.partition.input == input);
        let now = self.context.runtime.elapsed();
        own.for_each(|(at, _)| self.watermarks.set_away(at, away, now));
        self.hold();
    }

    /// The watermark stands still as long as an input that was never open may come with partitions.
    fn hold(&mut self) {
        let is_unknown = |feed: &Feed| {
            let is_known = || self.readings.iter().any(|r| r.partition.input == feed.inlet.number);
            (feed.is_opening() || feed.is_refused) && !is_known()
        };
        let is_held = self.feeds.iter().any(is_unknown);
        self.watermarks.hold(is_held);
    }

    /// What was read is absorbed and cut; nothing more is read. Then waits until all of it is settled, for a row that the
    /// server refuses comes back here to be sealed as a dead letter. If every input `has_ended`, the steps that are to close then are closed
    /// by the last cut, which is one like any other: a crash before it is durable leaves them open, and the next start comes here again.
    async fn finish(&mut self, has_ended: bool) -> Result<(), EngineError> {
        while !self.waiting.is_empty() {
            let decoded = front(&mut self.waiting).await;
            self.watermarks.turn(self.context.runtime.elapsed(), true);
            self.absorb(decoded).await?;
            if self.is_full() {
                self.cut().await?;
            }
        }
        self.is_closing = has_ended;
        self.cut().await?;
        self.is_closing = false;
        self.tell_held(has_ended);
        while !is_settled(&self.context, self.cut_number).await {
            tokio::select! {
                biased;
                Some(refused) = self.refused.recv() => {
                    self.refuse(refused).await?;
                    self.cut().await?;
                }
                () = self.context.spool.quiet.notified() => {}
                // The seal reports its own failure; here it is enough not to wait for it.
                () = self.cuts.closed() => return Ok(()),
            }
        }
        Ok(())
    }

    fn batch_age_max(&self) -> Duration {
        let settings = &self.context.settings;
        match self.cut_number {
            0 => settings.batch_age_max.min(settings.first_batch_age_max),
            _ => settings.batch_age_max,
        }
    }

    fn is_full(&mut self) -> bool {
        let states = self.steps.iter_mut().filter_map(|step| step.state());
        let unsealed: u64 = states.map(|state| state.unsealed_bytes()).sum();
        let settings = &self.context.settings;
        self.builder.rows_max() >= settings.batch_rows_max
            || self.builder.bytes() + unsealed >= settings.batch_bytes_max.min(CUT_BYTES_MAX)
    }

    /// Whether a cut without a new record would let something out: a partition has fallen silent, and no longer holds the watermark.
    fn is_due(&self) -> bool {
        let own_ms = self.step_watermarks(self.watermarks.next(self.context.runtime.elapsed()));
        self.steps.iter().zip(own_ms).any(|(step, own_ms)| step.is_due(own_ms))
    }

    /// The watermark of each step, where that of all partitions is `watermark_ms`.
    fn step_watermarks(&self, watermark_ms: i64) -> Vec<i64> {
        let behind = |step: usize, own_ms| self.steps[step].watermark_behind(own_ms);
        self.flow.watermarks(watermark_ms, self.steps.len(), behind)
    }

    /// Whether the cut under way is to let out what steps hold that nothing else would.
    fn has_to_close(&mut self) -> bool {
        self.is_closing && self.steps.iter_mut().any(|step| step.closes_at_end() && step.waiting() > 0)
    }

    /// Bytes of blocks between the source and the steps.
    fn waiting_bytes(&self) -> u64 {
        self.waiting.iter().map(Waiting::bytes).sum()
    }

    fn is_complete(&self) -> bool {
        let has_stopped = |r: &Reading| r.next >= r.stop_at.unwrap_or(Position::MAX);
        !self.feeds.iter().any(Feed::is_opening)
            && self.waiting.is_empty()
            && self
                .readings
                .iter()
                .all(|r| r.ended || r.refused || (r.answered && r.stop_at.is_some() && has_stopped(r)))
    }

    /// The source of an input is read from now on. What is new becomes durable before its first record is sealed.
    async fn open(&mut self, place: usize, opened: Opened) -> Result<(), EngineError> {
        let number = self.feeds[place].inlet.number;
        let Opened { reader, new, stops, late, .. } = opened;
        let inlet = &self.feeds[place].inlet;
        late.iter().for_each(|(partition, records)| tell_late(&self.context, inlet, partition, *records));
        {
            let mut journal = self.context.journal.lock().await;
            let was_opened = journal.lane().inputs.get(number as usize).is_some_and(|input| input.was_opened);
            if !new.is_empty() || !was_opened {
                let opened = if was_opened { Vec::new() } else { vec![number] };
                let genesis = Genesis { partitions: new.clone(), opened, ..Default::default() };
                journal.append(Body::Genesis(genesis)).await?;
            }
        }
        for p in new {
            self.watermarks.add(TIME_UNKNOWN_MS, self.context.runtime.elapsed());
            let next = p.next();
            let partition = Partition::new(p.stream, p.index).of_input(p.input);
            self.readings.push(reading(&self.context.inputs, partition, next));
        }
        for (partition, end) in stops {
            if let Some(reading) = self.readings.iter_mut().find(|r| !r.forgotten && r.partition == partition)
            {
                reading.stop_at = Some(end);
            }
        }
        self.feeds[place].reader = Some(reader);
        let inlet = &self.feeds[place].inlet;
        inlet.opened();
        // Also a refusal from before the claim, of a position that was passed meanwhile.
        self.context.status.ended(&inlet.name, Noticed::Asking);
        self.hold();
        Ok(())
    }

    /// Nothing more is read of an input. The others are read on; once there are none, what was read and sealed goes to the table before
    /// the process ends, with what the first that refused has said.
    fn refused_by_source(&mut self, place: usize, error: EngineError) -> Option<EngineError> {
        self.feeds[place].refuse();
        self.set_away(place, true);
        let has_others = self.feeds.iter().any(|feed| !feed.is_refused);
        let inlet = &self.feeds[place].inlet;
        if has_others {
            tracing::error!(input = &*inlet.name, %error, "the source of an input refuses; the other inputs are read on");
        } else {
            tracing::error!(input = &*inlet.name, %error, "the source refuses; what is sealed goes to the table, then the pipeline ends");
        }
        let now_ms = self.context.runtime.wall_ms();
        self.context.status.source_refuses(&inlet.name, has_others, &error.to_string(), now_ms);
        let own = self.readings.iter_mut().filter(|reading| reading.partition.input == inlet.number);
        own.for_each(|reading| reading.refused = true);
        let error = inlet.named(error);
        let first = self.refusal.take().unwrap_or(error);
        if has_others {
            self.refusal = Some(first);
            return None;
        }
        Some(first)
    }

    fn index(&self, partition: &Partition) -> Result<usize, EngineError> {
        let found = self.readings.iter().position(|r| !r.forgotten && r.partition == *partition);
        found.ok_or(EngineError::Internal("a source that hands out a partition it was not asked for"))
    }

    async fn take(&mut self, place: usize, event: Event) -> Result<(), EngineError> {
        match event {
            Event::Block(block) => self.decode(place, block)?,
            Event::CaughtUp { partition, next, leader_epoch } => {
                let partition = self.index(&partition)?;
                self.waiting.push_back(Waiting::CaughtUp { partition, next, leader_epoch });
            }
            Event::Ended { partition, next } => {
                let partition = self.index(&partition)?;
                self.waiting.push_back(Waiting::Ended { partition, next });
            }
            Event::Found(start) => self.add(place, start).await?,
            // A lane keeps its partitions as long as it reads.
            Event::Removed { .. } => {
                return Err(EngineError::Internal("a source that takes away a partition by itself"));
            }
        }
        Ok(())
    }

    fn decode(&mut self, place: usize, block: RecordBlock) -> Result<(), EngineError> {
        let partition = self.index(&block.partition)?;
        let ahead = self.aheads[self.belongs_to(place, &block)].clone();
        let (intake, block) = (self.feeds[place].intake.clone(), Arc::new(block));
        let (preparing, read_ms) = (block.clone(), self.context.runtime.wall_ms());
        let (clock, status) = (self.context.runtime.clone(), self.context.status.clone());
        let prepared = self.context.runtime.run(move || {
            let decode = || intake.prepare(&preparing, read_ms);
            let mut prepared = stage::accounted(Stage::Decode, &*clock, &status, decode)?;
            if let Some(ahead) = ahead {
                let aggregate = || ahead.apply(&prepared.batch);
                prepared.ahead = Some(stage::accounted(Stage::Aggregate, &*clock, &status, aggregate)?);
            }
            Ok(prepared)
        });
        self.waiting.push_back(Waiting::Block { partition, block, prepared });
        Ok(())
    }

    /// The place of the input that the records of a block belong to, which the input at `place` has handed out: its own but for the replay log.
    fn belongs_to(&self, place: usize, block: &RecordBlock) -> usize {
        let named = self.feeds[place].intake.other_input(block);
        let named = named.and_then(|name| self.feeds.iter().position(|feed| *feed.inlet.name == *name));
        named.unwrap_or(place)
    }

    /// The place of the input that the records of a block belong to, whoever has handed it out.
    fn owner_of(&self, block: &RecordBlock) -> Option<usize> {
        let place = self.feeds.iter().position(|feed| feed.inlet.number == block.partition.input)?;
        Some(self.belongs_to(place, block))
    }

    /// A partition appeared while reading. Its genesis is durable before its first record is sealed, and only once the reader has
    /// taken it.
    async fn add(&mut self, place: usize, start: PartitionStart) -> Result<(), EngineError> {
        let (genesis, expired) = {
            let journal = self.context.journal.lock().await;
            (genesis(journal.lane(), &start), expired(journal.lane(), &start))
        };
        tell_late(&self.context, &self.feeds[place].inlet, &start.partition, expired);
        tracing::info!(partition = %start.partition, next = %position::shown(genesis.next()), "a partition was added");
        let from = ReadFrom {
            partition: start.partition.clone(),
            identity: start.identity,
            next: genesis.next(),
            leader_epoch: genesis.leader_epoch,
        };
        let Some(reader) = &mut self.feeds[place].reader else {
            return Err(EngineError::Internal("a read that is not begun"));
        };
        let mut backoff = Backoff::new(self.context.settings.retry_pause_max);
        // It is told of only once. Where it waits for a source that is away, it waits no longer than a stop does.
        while let Err(error) = reader.add(from.clone()).await {
            if error.fault != SourceFault::Away {
                return Err(error.into());
            }
            if backoff.should_log() {
                tracing::warn!(partition = %start.partition, %error, "a new partition cannot be read yet; trying again");
            }
            self.context.runtime.sleep(backoff.next_pause(&*self.context.runtime)).await;
        }
        let next = genesis.next();
        let body = Genesis { partitions: vec![genesis], ..Default::default() };
        self.context.journal.lock().await.append(Body::Genesis(body)).await?;
        self.watermarks.add(TIME_UNKNOWN_MS, self.context.runtime.elapsed());
        let mut added = reading(&self.context.inputs, start.partition, next);
        // A drain that began before the partition was there owes it nothing.
        added.stop_at = self.drain.then_some(next);
        added.answered = true;
        self.readings.push(added);
        Ok(())
    }

    /// Cuts what was gathered and hands it to the seal; waits while the seal is behind.
    async fn cut(&mut self) -> Result<(), EngineError> {
        let wall_ms = self.context.runtime.wall_ms();
        self.steps.iter_mut().for_each(|step| step.at(wall_ms));
        if self.builder.is_empty() && !self.is_due() && !self.has_to_close() {
            return Ok(());
        }
        let now = self.context.runtime.elapsed();
        let watermark_ms = self.watermarks.advance(now);
        self.works.adopt(&mut self.steps)?;
        self.release(watermark_ms).await?;
        let mut cut: Cut = self.builder.take(self.cut_number);
        self.cut_number += 1;
        cut.watermark_ms = watermark_ms;
        cut.judged_by_ms = std::mem::replace(&mut self.judged_by_ms, cut.watermark_ms);
        cut.idle = self.watermarks.idle(now);
        cut.next_version = self.versions.recorded();
        let with_snapshots = {
            let journal = self.context.journal.lock().await;
            self.context.checkpoints.is_due(journal.lane())
        };
        let mut index = 0;
        let watermarks = self.step_watermarks(cut.watermark_ms);
        for (step, own_ms) in self.steps.iter_mut().zip(watermarks) {
            let Some(state) = step.state() else { continue };
            let delta = state.seal(own_ms);
            if !delta.is_empty() {
                cut.states.push((index, delta));
            }
            cut.absorbed.held += state.held();
            index += 1;
        }
        if with_snapshots {
            cut.snapshots = Some(self.works.snapshots(&mut self.steps));
        }
        for range in &cut.ranges {
            self.readings[range.partition as usize].cut = range.next();
        }
        self.tell();
        let encoding = seal::encode(&self.context, &self.pipeline, cut);
        let begun = self.context.runtime.elapsed();
        if self.cuts.send(encoding).await.is_err() {
            // The receiver is gone only if the seal has failed. Its error is the one that counts, and ends this task.
            std::future::pending::<()>().await;
        }
        self.pressure.waited(self.context.runtime.elapsed().saturating_sub(begun));
        self.works.start(&mut self.steps).await
    }
}

fn reading(inputs: &[Arc<Inlet>], partition: Partition, next: Position) -> Reading {
    let inlet = inputs.iter().find(|inlet| inlet.number == partition.input);
    let wants_fates = inlet.is_some_and(|inlet| inlet.source.wants_fates(&partition));
    Reading {
        partition,
        next,
        cut: next,
        stop_at: None,
        answered: false,
        ended: false,
        paused: false,
        wants_fates,
        forgotten: false,
        refused: false,
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
