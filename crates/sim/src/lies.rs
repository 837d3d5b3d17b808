//! Seams that lie: what breaks the engine for a [`Variant`].
//!
//! Owns one wrapper for each seam. Each passes everything on but for the one lie of its variant.

mod clock;
mod items;
mod replays;

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_array::RecordBatch;
use async_trait::async_trait;
use bytes::Bytes;
use dataflow::block::NO_LEADER_EPOCH;
use dataflow::{
    Ahead, Attempt, Batch, Decoded, Decoder, Duplicates, Effect, Encoded, Event, Fit, FrameId, Gate,
    InsertError, Layout, Operator, OperatorError, Output, Partition, PartitionStart, Position, Presence,
    Probed, ReadFrom, Reader, RecordBlock, Router, RowsFrom, Runtime, Schema, SeenKeys, Selected, Sighting,
    Source, SourceError, State, StateError, StateRead, Table, TableError, Task, Tokens,
};
use futures::future::BoxFuture;
use protocol::Record;
use protocol::record::Body;
use store::{Entry, Key, Prefix, Put, Store, StoreError};
use tokens::Facts;

use crate::executor::lock;
use crate::records::{from_body, to_body};
use crate::table::ALREADY_RUNNING;
use crate::variant::Variant;
use crate::world::World;

pub use clock::{Hidden, LyingClock, LyingTime};
pub use items::WholeRecord;
pub use replays::ForgetfulStore;

/// How long a record is taken for durable before it is, microseconds.
const EARLY_US: u64 = 50_000;

/// One delta in so many is lost.
const LOST_DELTA: u64 = 3;

/// A store that lies.
pub struct LyingStore {
    /// The honest one.
    pub inner: Arc<dyn Store>,
    /// Where it is.
    pub world: Arc<World>,
    /// The lie.
    pub variant: Variant,
}

impl fmt::Debug for LyingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LyingStore({:?})", self.variant)
    }
}

#[async_trait]
impl Store for LyingStore {
    async fn put_if_absent(&self, key: &Key, body: Vec<Bytes>) -> Result<Put, StoreError> {
        let is_record = key.as_str().contains("/journal/");
        if self.variant == Variant::SendBeforeSeal && is_record {
            let (inner, executor, key) = (self.inner.clone(), self.world.executor.clone(), key.clone());
            self.world.spawn(async move {
                executor.sleep_us(EARLY_US).await;
                // Whatever it says, nobody listens: that is the fault.
                let _ = inner.put_if_absent(&key, body).await;
            });
            return Ok(Put::Created);
        }
        let put = self.inner.put_if_absent(key, body).await;
        match (self.variant, put) {
            (Variant::SyncFailedIsCreated, Err(error)) if error.kind == store::ErrorKind::SyncFailed => {
                Ok(Put::Created)
            }
            (Variant::NoReadBack, Err(error)) if error.effect == dataflow::Effect::Unknown => {
                Ok(Put::Created)
            }
            (Variant::ExistsIsCreated, Ok(Put::Exists)) if is_record => Ok(Put::Created),
            (Variant::CollectOneRecordEarly, Ok(put)) if key.as_str().contains("/floor/") => {
                let record = key.as_str().replace("/floor/", "/journal/");
                self.inner.delete(&Key::new(record).expect("a valid key")).await?;
                Ok(put)
            }
            (_, put) => put,
        }
    }

    async fn get(&self, key: &Key, bytes_max: u64) -> Result<Option<Bytes>, StoreError> {
        let found = self.inner.get(key, bytes_max).await?;
        let is_record = key.as_str().contains("/journal/");
        Ok(match found {
            Some(bytes) if self.variant == Variant::NewStateKeepsTheOld && is_record => {
                Some(without_new_state(key, bytes))
            }
            found => found,
        })
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Option<Bytes>, StoreError> {
        self.inner.get_range(key, range).await
    }

    async fn list(
        &self,
        prefix: &Prefix,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        if self.variant == Variant::IgnoreTheFloor && prefix.as_str().ends_with("/floor") {
            return Ok(Vec::new());
        }
        self.inner.list(prefix, after, limit).await
    }

    async fn delete(&self, key: &Key) -> Result<(), StoreError> {
        self.inner.delete(key).await
    }

    async fn harden(&self, prefix: &Prefix) -> Result<(), StoreError> {
        match self.variant {
            Variant::NoHarden | Variant::TornReplayIsRead => Ok(()),
            _ => self.inner.harden(prefix).await,
        }
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

/// The record as it would be if it gave up no state.
fn without_new_state(key: &Key, bytes: Bytes) -> Bytes {
    let seq = protocol::names::number(key.as_str()).unwrap_or_default();
    let Ok(mut record) = Record::from_bytes(seq, &bytes) else { return bytes };
    let Some(Body::Rewind(rewind)) = &mut record.body else { return bytes };
    rewind.emptied.clear();
    record.to_bytes().into()
}

/// A table that lies.
pub struct LyingTable {
    inner: Arc<dyn Table>,
    variant: Variant,
    first: Mutex<Option<Sighting>>,
    /// What was seen last, and how many gates are being asked.
    last: Mutex<Option<Sighting>>,
    gates: AtomicU64,
    /// Inserts find nobody until this is set.
    pub waits_for: Option<Arc<AtomicBool>>,
}

impl LyingTable {
    /// Around an honest one.
    pub fn new(inner: Arc<dyn Table>, variant: Variant) -> Self {
        Self {
            inner,
            variant,
            first: Mutex::new(None),
            last: Mutex::new(None),
            gates: AtomicU64::new(0),
            waits_for: None,
        }
    }
}

/// A gate whose questions about the table are answered with what was known before.
struct StaleGate<'a> {
    gate: &'a dyn Gate,
    gates: &'a AtomicU64,
}

#[async_trait]
impl Gate for StaleGate<'_> {
    async fn may_complete(&self) -> bool {
        self.gates.fetch_add(1, Ordering::Relaxed);
        let is_open = self.gate.may_complete().await;
        self.gates.fetch_sub(1, Ordering::Relaxed);
        is_open
    }
}

struct OpenGate;

#[async_trait]
impl Gate for OpenGate {
    async fn may_complete(&self) -> bool {
        true
    }
}

#[async_trait]
impl Table for LyingTable {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn schema(&self) -> &Schema {
        self.inner.schema()
    }

    fn layout(&self) -> Layout {
        self.inner.layout()
    }

    fn changed(&self) -> Option<Layout> {
        self.inner.changed()
    }

    fn fit(&self, layout: &Layout) -> Fit {
        if self.variant == Variant::FitsWhatIsGone { Fit::AsIs } else { self.inner.fit(layout) }
    }

    fn encode(
        &self,
        rows: &[Selected],
        ids: &mut dyn FnMut() -> FrameId,
    ) -> Result<Vec<Encoded>, TableError> {
        let mut frames = self.inner.encode(rows, ids)?;
        if self.variant == Variant::FrameOfManyPartitions && frames.len() > 1 {
            let rows: Vec<_> =
                frames.iter().filter_map(|f| from_body(&f.body)).flat_map(|(_, rows)| rows).collect();
            frames.truncate(1);
            frames[0].rows = rows.len() as u64;
            frames[0].body = to_body(frames[0].id.0, &rows).into();
        }
        if self.variant == Variant::ItemsChangePlaces {
            frames.iter_mut().for_each(items::swap_items);
        }
        if self.variant == Variant::AnothersOrigin {
            for frame in &mut frames {
                let rows = frame.rows_from.len();
                let places = (1..=rows).map(|at| frame.rows_from.get(at % rows)).collect();
                frame.rows_from = RowsFrom::Picked(places);
            }
        }
        if self.variant == Variant::ColumnsChangePlaces {
            for frame in &mut frames {
                let Some((id, rows)) = from_body(&frame.body) else { continue };
                let rows: Vec<_> = rows.into_iter().map(|[id, key, time]| [id, time, key]).collect();
                frame.body = to_body(id, &rows).into();
            }
        }
        if self.variant == Variant::FrameLacksARow
            && let Some(frame) = frames.iter_mut().find(|frame| frame.rows > 1)
            && let Some((id, rows)) = from_body(&frame.body)
        {
            frame.rows -= 1;
            frame.body = to_body(id, &rows[..rows.len() - 1]).into();
            let picked = (0..rows.len() - 1).map(|at| frame.rows_from.get(at)).collect();
            frame.rows_from = RowsFrom::Picked(picked);
        }
        Ok(frames)
    }

    fn decode(&self, body: &[u8]) -> Result<RecordBatch, TableError> {
        self.inner.decode(body)
    }

    fn to_json(&self, rows: &RecordBatch, row: usize) -> String {
        self.inner.to_json(rows, row)
    }

    async fn insert(&self, attempt: Attempt<'_>) -> Result<(), InsertError> {
        if self.waits_for.as_ref().is_some_and(|is_read| !is_read.load(Ordering::Relaxed)) {
            let message = "nobody is there".into();
            return Err(InsertError {
                effect: Effect::None,
                remedy: dataflow::Remedy::Resend,
                code: 0,
                kind: "connection",
                message,
            });
        }
        let stale;
        let attempt = match self.variant {
            Variant::TokenFromTheAttempt => Attempt { token: attempt.query_id, ..attempt },
            Variant::NoGate => Attempt { gate: &OpenGate, ..attempt },
            Variant::NoJudgementAtTheGate => {
                stale = StaleGate { gate: attempt.gate, gates: &self.gates };
                Attempt { gate: &stale, ..attempt }
            }
            _ => attempt,
        };
        match self.inner.insert(attempt).await {
            Err(error) if self.variant == Variant::AlreadyRunningIsNone && error.kind == ALREADY_RUNNING => {
                Err(InsertError { effect: Effect::None, ..error })
            }
            Err(error) if self.variant == Variant::AwayIsAnswered && error.kind == "connection" => Ok(()),
            Err(error) if self.variant == Variant::SettleOverAHole && error.effect == Effect::Unknown => {
                Ok(())
            }
            answer => answer,
        }
    }

    fn tokens(&self) -> &dyn Tokens {
        self.inner.tokens()
    }

    async fn see(&self) -> Result<Sighting, TableError> {
        if self.gates.load(Ordering::Relaxed) > 0
            && let Some(last) = lock(&self.last).clone()
        {
            return Ok(last);
        }
        let seen = self.inner.see().await?;
        *lock(&self.last) = Some(seen.clone());
        Ok(self.lie_of(seen))
    }

    async fn objects_to_first_start(&self) -> Result<Option<String>, TableError> {
        if self.variant == Variant::RowsThereIgnored {
            return Ok(None);
        }
        self.inner.objects_to_first_start().await
    }

    async fn probe(&self, frame: FrameId, rows: u64, probe: &[u8]) -> Result<Presence, TableError> {
        Ok(self.lie_about(self.inner.probe(frame, rows, probe).await?))
    }

    async fn look_for(
        &self,
        frame: FrameId,
        rows: u64,
        probe: &[u8],
    ) -> Result<(Presence, Sighting), TableError> {
        let (presence, seen) = self.inner.look_for(frame, rows, probe).await?;
        Ok((self.lie_about(presence), self.lie_of(seen)))
    }

    async fn end_attempts(&self, prefix: &str) -> Result<u64, TableError> {
        if self.variant == Variant::NewGenerationWithoutEnding {
            return Ok(0);
        }
        self.inner.end_attempts(prefix).await
    }
}

impl LyingTable {
    fn lie_of(&self, seen: Sighting) -> Sighting {
        let first = lock(&self.first).get_or_insert_with(|| seen.clone()).clone();
        let facts = Facts::of(&seen).expect("the table was seen");
        match self.variant {
            Variant::ResendBeyondMemory => first,
            Variant::TokenAgeIgnored => Facts { token_age_ms_max: None, ..facts }.seen(seen.table_uuid),
            Variant::TokensCountedAsBlocks => {
                Facts { tokens_per_block_max: Some(1), ..facts }.seen(seen.table_uuid)
            }
            Variant::ViewsIgnored => Facts { view_blocks: Vec::new(), ..facts }.seen(seen.table_uuid),
            Variant::AnotherTableIgnored => Sighting { table_uuid: "the only one".into(), ..seen },
            _ => seen,
        }
    }

    fn lie_about(&self, presence: Presence) -> Presence {
        match self.variant {
            Variant::ProbeSaysNone => Presence::None,
            Variant::ProbeSaysAll => Presence::All,
            _ => presence,
        }
    }
}

/// A router that lies.
pub struct LyingRouter {
    /// The honest one; none where each table gets all rows.
    pub inner: Option<Arc<dyn Router>>,
    /// How many tables there are.
    pub tables: usize,
    /// The lie.
    pub variant: Variant,
}

impl Router for LyingRouter {
    fn route(&self, rows: &Selected) -> Vec<(usize, Selected)> {
        let mut parts = match &self.inner {
            Some(inner) => inner.route(rows),
            None => (0..self.tables).map(|place| (place, rows.clone())).collect(),
        };
        if self.variant == Variant::RoutedToTheWrongTable {
            let last = self.tables - 1;
            parts.iter_mut().for_each(|(place, _)| match *place {
                0 => *place = last,
                of if of == last => *place = 0,
                _ => {}
            });
        } else {
            let mut taken = vec![false; rows.batch().num_rows()];
            for (_, part) in &mut parts {
                *part = part.only(|row| !std::mem::replace(&mut taken[row], true));
            }
        }
        parts
    }
}

/// A step whose state lies.
pub struct LyingStep {
    inner: Box<dyn Operator>,
    shape: String,
    absorbs: bool,
    variant: Variant,
    /// The snapshot as of the last seal, and the one before.
    snapshots: [Bytes; 2],
    seals: u64,
    /// Whether the watermark of the seal under way has let anything out.
    has_released: bool,
    /// What the honest one held after the last seal.
    held: u64,
    /// Batches of the right side of a join.
    batches: usize,
    /// Rows that it should hold and does not.
    freed: u64,
    /// The watermark of the last seal.
    watermark_ms: i64,
    /// Whether it has state of an earlier process, and sealed nothing since.
    is_restored: bool,
}

/// One batch of versions in so many is freed at once.
const FREED: usize = 3;

/// Longer than any window of a plan, and than all records of one together.
const LONG_AGO_MS: i64 = 365 * 86_400_000;

/// How far the watermark of [`Variant::ClosedEarly`] is ahead of the one that is sealed, milliseconds.
const EARLY_MS: i64 = 50;

impl LyingStep {
    /// Around an honest one.
    pub fn new(mut inner: Box<dyn Operator>, variant: Variant) -> Self {
        let snapshot = inner.state().map(|state| state.snapshot()).unwrap_or_default();
        let absorbs = inner.state().is_some_and(|state| state.absorbs());
        let shape = inner.state().map(|state| state.shape()).unwrap_or_default();
        Self {
            inner,
            shape,
            absorbs,
            variant,
            snapshots: [snapshot.clone(), snapshot],
            seals: 0,
            has_released: false,
            held: 0,
            batches: 0,
            freed: 0,
            watermark_ms: i64::MIN,
            is_restored: false,
        }
    }

    fn lies_of_versions(&self) -> bool {
        self.inner.inputs() == 2
            && matches!(self.variant, Variant::VersionOfTheFuture | Variant::VersionFreedEarly)
    }

    /// A batch of the right side of a temporal join.
    fn finish_versions(&mut self, mut probed: Probed, answers: &[Vec<u8>]) -> Result<Output, OperatorError> {
        self.batches += 1;
        if self.variant == Variant::VersionOfTheFuture {
            probed.batch.times_ms.iter_mut().for_each(|time_ms| *time_ms -= EARLY_MS);
        } else if self.batches.is_multiple_of(FREED) {
            let all: Vec<usize> = (0..probed.batch.len()).collect();
            let none = probed.batch.without(&all).expect("a batch of columns");
            let probed = self.inner.probe_of(1, none)?;
            self.freed += all.len() as u64;
            return Ok(Output { absorbed: all.len() as u64, ..self.inner.finish(probed, answers)? });
        }
        self.inner.finish(probed, answers)
    }

    fn inner_keys(&mut self) -> &mut dyn SeenKeys {
        self.inner.seen_keys().expect("only a step that has seen keys is asked")
    }

    fn honest(&mut self) -> &mut dyn State {
        self.inner.state().expect("only a step with state is asked")
    }
}

/// What a join wants to have of a batch, and the number of its input.
struct Tagged {
    input: usize,
    of: Box<dyn Any + Send>,
}

/// Makes [`Tagged`].
struct OfInput {
    inner: Arc<dyn Ahead>,
    input: usize,
}

impl Ahead for OfInput {
    fn apply(&self, batch: &Batch) -> Result<Box<dyn Any + Send>, OperatorError> {
        Ok(Box::new(Tagged { input: self.input, of: self.inner.apply(batch)? }))
    }
}

impl Operator for LyingStep {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn probe(&mut self, mut batch: Batch) -> Result<Probed, OperatorError> {
        if self.variant == Variant::LateKnownPasses {
            // So far back that nothing of its key is near.
            let late = batch.times_ms.iter_mut().filter(|time_ms| **time_ms < self.watermark_ms);
            late.for_each(|time_ms| *time_ms -= LONG_AGO_MS);
        }
        self.inner.probe(batch)
    }

    fn inputs(&self) -> usize {
        self.inner.inputs()
    }

    fn ahead_of(&self, input: usize) -> Option<Arc<dyn Ahead>> {
        let inner = self.inner.ahead_of(input)?;
        // `finish` is not told of which input its batch is.
        Some(if self.lies_of_versions() { Arc::new(OfInput { inner, input }) } else { inner })
    }

    fn probe_of(&mut self, input: usize, batch: Batch) -> Result<Probed, OperatorError> {
        let mut probed = self.inner.probe_of(input, batch)?;
        if self.lies_of_versions() {
            probed.scratch = probed.scratch.map(|of| Box::new(Tagged { input, of }) as Box<dyn Any + Send>);
        }
        Ok(probed)
    }

    fn watermark_behind(&self, watermark_ms: i64) -> i64 {
        self.inner.watermark_behind(watermark_ms)
    }

    fn finish(&mut self, mut probed: Probed, answers: &[Vec<u8>]) -> Result<Output, OperatorError> {
        if self.lies_of_versions() {
            let tagged = probed.scratch.take().and_then(|scratch| scratch.downcast::<Tagged>().ok());
            let Tagged { input, of } = *tagged.expect("it was tagged on its way here");
            probed.scratch = Some(of);
            if input == 1 {
                return self.finish_versions(probed, answers);
            }
        }
        let mut output = self.inner.finish(probed, answers)?;
        if output.is_made && !output.batch.is_empty() {
            let rows = output.batch.len();
            match self.variant {
                Variant::JoinPairsTwice => output = twice(output),
                Variant::JoinPairLost => {
                    output.batch = output.batch.without(&[rows - 1]).expect("a batch of columns");
                    output.added -= 1;
                }
                _ => {}
            }
        }
        match self.variant {
            Variant::MultipliedUncounted => output.added = 0,
            Variant::DuplicatesUncounted => output.duplicates = 0,
            Variant::DuplicatesAsFiltered => output.filtered += std::mem::take(&mut output.duplicates),
            _ => {}
        }
        Ok(output)
    }

    fn multiplies(&self) -> bool {
        self.inner.multiplies()
    }

    fn advance(&mut self, watermark_ms: i64) -> Result<Vec<Output>, OperatorError> {
        let is_early = matches!(self.variant, Variant::ClosedEarly | Variant::JoinReleasedEarly);
        let early_ms = if is_early { EARLY_MS } else { 0 };
        let mut outputs = self.inner.advance(watermark_ms.saturating_add(early_ms))?;
        if matches!(self.variant, Variant::ReleasedUncounted | Variant::JoinReleasedUncounted) {
            outputs.iter_mut().for_each(|output| output.released = 0);
        }
        for output in &mut outputs {
            match self.variant {
                Variant::UnmatchedTwice => output.unmatched_rows.extend_from_within(..),
                Variant::UnmatchedLost if self.is_restored => output.unmatched_rows.clear(),
                _ => {}
            }
        }
        self.has_released = !outputs.is_empty();
        Ok(outputs)
    }

    fn is_due(&self, watermark_ms: i64) -> bool {
        self.inner.is_due(watermark_ms)
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        self.inner.state().is_some().then_some(self as &mut dyn State)
    }

    fn seen_keys(&mut self) -> Option<&mut dyn SeenKeys> {
        self.inner.seen_keys().is_some().then_some(self as &mut dyn SeenKeys)
    }
}

/// Each row of an output once more.
fn twice(mut output: Output) -> Output {
    let batch = &mut output.batch;
    let rows = [&batch.rows, &batch.rows];
    batch.rows = arrow_select::concat::concat_batches(&batch.rows.schema(), rows).expect("the same columns");
    let last = batch.positions.last().map_or(0, |last| last + 1);
    batch.positions.extend((last..).take(batch.times_ms.len()).collect::<Vec<_>>());
    batch.times_ms.extend_from_within(..);
    output.added *= 2;
    output
}

impl State for LyingStep {
    fn shape(&self) -> String {
        self.shape.clone()
    }

    fn absorbs(&self) -> bool {
        self.absorbs
    }

    fn held(&self) -> u64 {
        self.held
    }

    fn seal(&mut self, watermark_ms: i64) -> Bytes {
        self.watermark_ms = watermark_ms;
        let delta = self.honest().seal(watermark_ms);
        let snapshot = self.honest().snapshot();
        self.held = self.honest().held() + self.freed;
        self.snapshots = [snapshot, std::mem::take(&mut self.snapshots[0])];
        self.is_restored = false;
        self.seals += 1;
        let is_lost = match self.variant {
            Variant::LostDelta | Variant::JoinUnsealed | Variant::VersionsUnsealed => {
                self.seals.is_multiple_of(LOST_DELTA)
            }
            Variant::ClosedUnsealed => self.has_released,
            _ => false,
        };
        if is_lost { Bytes::new() } else { delta }
    }

    fn snapshot(&self) -> Bytes {
        self.snapshots[usize::from(self.variant == Variant::SnapshotOneSealEarly)].clone()
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<Vec<StateRead>, StateError> {
        self.snapshots = [Bytes::copy_from_slice(snapshot), Bytes::copy_from_slice(snapshot)];
        self.is_restored = true;
        self.honest().restore(snapshot)
    }

    fn apply(&mut self, delta: &[u8]) -> Result<(), StateError> {
        self.is_restored = true;
        self.honest().apply(delta)
    }

    fn entries(&self) -> u64 {
        0
    }

    fn memory_bytes(&self) -> u64 {
        0
    }
}

impl SeenKeys for LyingStep {
    fn forget(&mut self, rows: Probed, answers: &[Vec<u8>]) -> Result<(), OperatorError> {
        if self.variant == Variant::SeenThoughRefused {
            Ok(())
        } else {
            self.inner_keys().forget(rows, answers)
        }
    }

    fn duplicates_of(&mut self, rows: &Batch) -> Result<Duplicates, OperatorError> {
        self.inner_keys().duplicates_of(rows)
    }
}

/// A source that lies.
pub struct LyingSource {
    /// The honest one.
    pub inner: Arc<dyn Source>,
    /// The lie.
    pub variant: Variant,
    /// Set once the source was read.
    pub is_read: Arc<AtomicBool>,
}

#[async_trait]
impl Source for LyingSource {
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    async fn partitions(&self) -> Result<Vec<PartitionStart>, SourceError> {
        self.inner.partitions().await
    }

    async fn ends(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        let mut ends = self.inner.ends().await?;
        if self.variant == Variant::EndOneEarly {
            ends.iter_mut().for_each(|(_, end)| *end = end.saturating_sub(1));
        }
        Ok(ends)
    }

    async fn read(&self, mut from: Vec<ReadFrom>) -> Result<Box<dyn Reader>, SourceError> {
        if self.variant == Variant::SealNotContiguous {
            from.iter_mut().for_each(|from| from.next += 1);
        }
        if self.variant == Variant::LeaderEpochForgotten {
            from.iter_mut().for_each(|from| from.leader_epoch = NO_LEADER_EPOCH);
        }
        let ended = match self.variant {
            Variant::WatermarkOfOneInput => from.clone(),
            _ => Vec::new(),
        };
        let mut reader = self.inner.read(from).await?;
        if !ended.is_empty() {
            reader = Box::new(LyingReader { inner: reader, ended });
        }
        self.is_read.store(true, Ordering::Relaxed);
        Ok(reader)
    }

    async fn publish(&self, positions: &[(Partition, Position)]) -> Result<(), SourceError> {
        self.inner.publish(positions).await
    }

    async fn published(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        if self.variant == Variant::PublishedIgnored {
            return Ok(Vec::new());
        }
        self.inner.published().await
    }
}

/// A read whose partitions are said to have ended when it begins.
struct LyingReader {
    inner: Box<dyn Reader>,
    ended: Vec<ReadFrom>,
}

#[async_trait]
impl Reader for LyingReader {
    async fn next(&mut self) -> Result<Event, SourceError> {
        match self.ended.pop() {
            Some(ReadFrom { partition, next, .. }) => Ok(Event::Ended { partition, next }),
            None => self.inner.next().await,
        }
    }

    async fn add(&mut self, from: ReadFrom) -> Result<(), SourceError> {
        self.inner.add(from).await
    }

    fn remove(&mut self, partition: &Partition) {
        self.inner.remove(partition);
    }

    fn pause(&mut self, partition: &Partition) {
        self.inner.pause(partition);
    }

    fn resume(&mut self, partition: &Partition) {
        self.inner.resume(partition);
    }
}

/// A decoder that drops what it cannot read.
pub struct LyingDecoder(pub Arc<dyn Decoder>);

impl Decoder for LyingDecoder {
    fn schema(&self) -> &Schema {
        self.0.schema()
    }

    fn decode(&self, block: &RecordBlock) -> Decoded {
        Decoded { rejects: Vec::new(), ..self.0.decode(block) }
    }
}

/// A runtime whose random numbers are not.
pub struct LyingRuntime(pub Arc<dyn Runtime>);

impl Runtime for LyingRuntime {
    fn wall_ms(&self) -> i64 {
        self.0.wall_ms()
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        self.0.sleep(time)
    }

    fn spawn(&self, name: &'static str, task: BoxFuture<'static, ()>) -> Task {
        self.0.spawn(name, task)
    }

    fn compute(&self, job: Box<dyn FnOnce() + Send>) {
        self.0.compute(job);
    }

    fn compute_threads(&self) -> usize {
        self.0.compute_threads()
    }

    fn random(&self) -> u128 {
        4
    }
}
