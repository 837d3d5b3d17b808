//! The replay log as a further partition beside the pipeline's own source.
//!
//! Owns the joining of the two: one reader hands out what either has (`reader`). Each record of the log is a block of its own, so that
//! the lane can keep what became of it. Does not own the log's bytes, nor anything that the inner source decides.
//!
//! | the lane …                                | the log's partition …                                            |
//! |-------------------------------------------|------------------------------------------------------------------|
//! | starts, and the log holds something       | is among the partitions, as any other                            |
//! | runs, and the first replay is put         | is found, as a partition that is added to a topic                |
//! | reads on                                  | is polled every [`LOOK_EVERY`]: one request for the next name    |
//! | has read every other partition to its end | ends too, for this run; the next start polls it again            |
//!
//! With several inputs the first that the journal knows carries the log, and each record names its own ([`input_of`]).
//!
//! An object may be there and not be durable yet, when the command that put it has died: it is made durable before its records are handed out, or the
//! journal could come to stand beyond a log that a loss of power has cut.
//!
//! A store that does not answer delays replays and nothing else: the pipeline's own records are still read.

mod reader;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use dataflow::block::{HEAD_HEADER, NO_LEADER_EPOCH, SCHEMA_HEADER, headers};
use dataflow::{
    BlockBuilder, Partition, PartitionStart, Position, ReadFrom, Reader, RecordBlock, Runtime, Source,
    SourceError, SourceFault, Streams,
};

use self::reader::{Cursor, ReaderWithReplays};
use super::object::Replayed;
use super::{IDENTITY, Log, LogError, STREAM};

/// How often the next name of the log is asked for: often enough for a user who waits, seldom enough to cost nothing on
/// object storage.
pub const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The header of a replayed record that says where it stood first, `stream/partition/position`.
pub const ORIGIN_HEADER: &str = "forebay_origin";

/// The header before it that names the record's input, in a pipeline with several.
pub const INPUT_HEADER: &str = "forebay_input";

/// The input that a block of the log names.
pub fn input_of(block: &RecordBlock) -> Option<&str> {
    if *block.partition.stream != *STREAM {
        return None;
    }
    // The log has put both of its headers behind the record's own.
    let all: Vec<_> = headers(block.headers.as_ref()?.get(0)).collect();
    match all.as_slice() {
        [.., (INPUT_HEADER, Some(name)), (ORIGIN_HEADER, _)] => std::str::from_utf8(name).ok(),
        _ => None,
    }
}

/// The partition that the replay log is to the lane: `@replays/0`.
pub fn partition() -> Partition {
    Partition::new(STREAM, 0)
}

/// A source and the replay log of its lane.
pub struct WithReplays {
    inner: Arc<dyn Source>,
    log: Log,
    runtime: Arc<dyn Runtime>,
    /// Whether the log is read on when the source has ended: another input has not.
    outlives: bool,
    /// Whether the journal may say that the log begins behind that of an earlier pipeline of the name; otherwise at 0.
    is_told_by_journal: bool,
    /// The log's end as last seen: objects never change, so only what is new is asked for.
    end: Mutex<Option<u64>>,
}

impl WithReplays {
    /// `inner`, and beside it the log.
    pub fn new(inner: Arc<dyn Source>, log: Log, runtime: Arc<dyn Runtime>) -> Self {
        Self { inner, log, runtime, outlives: false, is_told_by_journal: false, end: Mutex::default() }
    }

    /// The same, for a source beside which another input may be read for ever.
    #[must_use]
    pub fn outliving(self, outlives: bool) -> Self {
        Self { outlives, ..self }
    }

    /// The same, of a lane whose journal says where the log begins: behind that of a pipeline that had the name before. It is read once, and only while the
    /// lane runs and nothing was ever replayed.
    #[must_use]
    pub fn told_by_journal(self, is_told_by_journal: bool) -> Self {
        Self { is_told_by_journal, ..self }
    }

    /// The position after the log's newest record; `None` while it holds nothing.
    async fn end(&self) -> Result<Option<u64>, SourceError> {
        let known = *self.end.lock().unwrap_or_else(PoisonError::into_inner);
        let mut end = match known {
            Some(end) => end,
            None => match self.log.extent().await.map_err(fault)? {
                Some((_, end)) => end,
                None => return Ok(None),
            },
        };
        while let Some(further) = self.log.end_of(end).await.map_err(fault)? {
            end = further;
        }
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
        Ok(Some(end))
    }

    /// Begins to read the log at `from`.
    async fn cursor(&self, from: &ReadFrom) -> Result<Cursor, SourceError> {
        let refuse = |message: String| SourceError::new(SourceFault::Refused, message).at(&partition());
        if from.identity != IDENTITY {
            let found = &from.identity;
            return Err(refuse(format!(
                "`{STREAM}` was recorded as `{found}`, which is no replay log of this program's; run the newer program"
            )));
        }
        let held = self.log.extent().await.map_err(fault)?;
        let next = from.plain()?;
        let (first, end) = held.unwrap_or((next, next));
        if next < first || next > end {
            return Err(refuse(format!(
                "the replay log holds `{first}` to `{end}`, the journal stands at `{next}`: objects below `replays` are missing; \
                 bring the store's newest copy back"
            )));
        }
        let begin = self.log.begins().await.map_err(fault)?.into_iter().rfind(|begin| *begin <= next);
        let loaded = match begin {
            Some(begin) => self.log.durable_at(begin).await.map_err(fault)?,
            None => None,
        };
        Ok(Cursor::new(next, loaded))
    }
}

#[async_trait]
impl Source for WithReplays {
    fn streams(&self) -> Streams {
        self.inner.streams()
    }

    fn connect(&self) {
        self.inner.connect();
    }

    fn covers(&self, stream: &str) -> bool {
        stream == STREAM || self.inner.covers(stream)
    }

    async fn partitions(&self) -> Result<Vec<PartitionStart>, SourceError> {
        let mut partitions = self.inner.partitions().await?;
        if partitions.iter().any(|start| *start.partition.stream == *STREAM) {
            let message =
                format!("`{STREAM}` is the name of the replay log, and of a stream of the source; rename it");
            return Err(SourceError::new(SourceFault::Config, message));
        }
        if let Some((first, _)) = self.log.extent().await.map_err(fault)? {
            partitions.push(start(first));
        }
        Ok(partitions)
    }

    async fn recognize(
        &self,
        shown: Vec<PartitionStart>,
        known: Vec<ReadFrom>,
    ) -> Result<Vec<PartitionStart>, SourceError> {
        let (ours, theirs): (Vec<_>, Vec<_>) =
            shown.into_iter().partition(|start| start.partition == partition());
        let known = known.into_iter().filter(|from| from.partition != partition()).collect();
        let mut recognized = self.inner.recognize(theirs, known).await?;
        recognized.extend(ours);
        Ok(recognized)
    }

    async fn ends(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        let mut ends = self.inner.ends().await?;
        ends.extend(self.end().await?.map(|end| (partition(), end.into())));
        Ok(ends)
    }

    async fn behind(&self, from: &[(Partition, Position)]) -> Result<Vec<(Partition, u64)>, SourceError> {
        // Those of the log are numbers.
        let theirs: Vec<_> = from.iter().filter(|(of, _)| *of != partition()).cloned().collect();
        self.inner.behind(&theirs).await
    }

    async fn read(&self, from: Vec<ReadFrom>) -> Result<Box<dyn Reader>, SourceError> {
        let (ours, theirs): (Vec<_>, Vec<_>) =
            from.into_iter().partition(|from| from.partition == partition());
        let cursor = match ours.first() {
            Some(from) => Some(self.cursor(from).await?),
            None => None,
        };
        let open = theirs.iter().map(|from| from.partition.clone()).collect();
        let inner = self.inner.read(theirs).await?;
        let log = WithReplays::new(self.inner.clone(), self.log.clone(), self.runtime.clone())
            .outliving(self.outlives)
            .told_by_journal(self.is_told_by_journal);
        Ok(Box::new(ReaderWithReplays::new(inner, open, log, cursor)))
    }

    async fn publish(&self, positions: &[(Partition, Position)]) -> Result<(), SourceError> {
        let theirs: Vec<_> = positions.iter().filter(|(at, _)| *at != partition()).cloned().collect();
        self.inner.publish(&theirs).await
    }

    async fn published(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        self.inner.published().await
    }

    async fn record(&self, at: ReadFrom) -> Result<Option<RecordBlock>, SourceError> {
        if at.partition != partition() {
            return self.inner.record(at).await;
        }
        let cursor = self.cursor(&at).await?;
        let record = cursor.loaded.as_ref().and_then(|replay| replay.record(cursor.next));
        Ok(record.map(|record| block(cursor.next, record)))
    }

    fn reader(&self) -> Option<&'static str> {
        self.inner.reader()
    }

    fn releases(&self) -> bool {
        self.inner.releases()
    }

    fn wants_seals(&self) -> bool {
        self.inner.wants_seals()
    }

    fn sealed(&self, positions: &[(Partition, Position)]) {
        self.inner.sealed(positions);
    }

    fn wants_fates(&self, at: &Partition) -> bool {
        *at == partition() || self.inner.wants_fates(at)
    }

    /// Of the inner source: the log is read all the same.
    fn stands_aside(&self) -> bool {
        self.inner.stands_aside()
    }
}

fn start(first: u64) -> PartitionStart {
    PartitionStart {
        partition: partition(),
        identity: IDENTITY.to_owned(),
        next: first.into(),
        first: first.into(),
        leader_epoch: NO_LEADER_EPOCH,
    }
}

/// One record as a block of its own, with what it had and where it stood first.
fn block(position: u64, record: &Replayed) -> RecordBlock {
    let mut builder = BlockBuilder::new(partition(), position.into());
    builder.push(position, record.time_ms, record.body.as_deref());
    if let Some(key) = &record.key {
        builder.key(key);
    }
    for (name, value) in headers(&record.headers) {
        match value {
            Some(head) if name == HEAD_HEADER => builder.head(head.into()),
            Some(schema) if name == SCHEMA_HEADER => {
                builder.schema(Some(String::from_utf8_lossy(schema).into()));
            }
            value => builder.header(name, value),
        }
    }
    if !record.input.is_empty() {
        builder.header(INPUT_HEADER, Some(record.input.as_bytes()));
    }
    builder.header(ORIGIN_HEADER, Some(record.origin.as_bytes()));
    let item = record.item.checked_sub(1).map(|item| u32::try_from(item).unwrap_or(u32::MAX));
    RecordBlock { item, ..builder.take() }
}

fn fault(error: LogError) -> SourceError {
    let fault = match &error {
        LogError::Store(error) if error.kind.is_transient() => SourceFault::Away,
        LogError::Store(_) => SourceFault::Store,
        LogError::Object { .. } | LogError::Full { .. } => SourceFault::Refused,
    };
    SourceError::new(fault, format!("the replay log: {error}")).at(&partition())
}

#[cfg(test)]
mod tests;
