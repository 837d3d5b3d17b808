//! Partitions with ordered positions: where records come from.
//!
//! Owns the contract of a source. Does not own what has been read already: the journal does, and says where the source
//! starts. A source keeps no durable state.

use async_trait::async_trait;

use crate::position::{self, Position};
use crate::{Partition, RecordBlock};

/// A partition as the source shows it, with the place where a pipeline that has never read it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionStart {
    /// The partition.
    pub partition: Partition,
    /// What makes this stream itself and not a later one of the same name (a topic id, a file's device and inode).
    /// Empty if the source does not know.
    pub identity: String,
    /// The first position to fetch, by the start that the pipeline file asks for.
    pub next: Position,
    /// The oldest position that is still held: where a partition begins that appeared after the pipeline's first start.
    pub first: Position,
    /// The leader epoch that goes with `next`, or [`NO_LEADER_EPOCH`](crate::block::NO_LEADER_EPOCH).
    pub leader_epoch: i32,
}

/// Where to continue reading a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadFrom {
    /// The partition.
    pub partition: Partition,
    /// The identity recorded when it was first read.
    pub identity: String,
    /// The next position to fetch.
    pub next: Position,
    /// The leader epoch that goes with `next`.
    pub leader_epoch: i32,
}

impl ReadFrom {
    /// The next position to fetch from a source whose positions have no era.
    ///
    /// # Errors
    /// [`SourceFault::Refused`] for any other: the journal is of another source.
    pub fn plain(&self) -> Result<u64, SourceError> {
        position::plain(self.next).ok_or_else(|| SourceError {
            fault: SourceFault::Refused,
            partition: Some(self.partition.clone()),
            message: format!(
                "{}: position `{}` is none of this source; give the pipeline another name if its source is another one now",
                self.partition,
                position::shown(self.next)
            ),
        })
    }
}

/// What a reader reports.
#[allow(
    clippy::large_enum_variant,
    reason = "most events are blocks, and a box would be one more allocation for each"
)]
#[derive(Debug)]
pub enum Event {
    /// Records.
    Block(RecordBlock),
    /// Everything below `next` has been returned, and there is nothing more at the moment. Also moves the position
    /// over places that hold no record for us (compacted away, aborted, control records).
    CaughtUp {
        /// The partition.
        partition: Partition,
        /// The next position to fetch.
        next: Position,
        /// The leader epoch that goes with it.
        leader_epoch: i32,
    },
    /// The partition has ended for ever (a file's end, a generator's last record).
    Ended {
        /// The partition.
        partition: Partition,
        /// The position after its last record.
        next: Position,
    },
    /// A partition appeared while reading; it is not read until [`Reader::add`].
    Found(PartitionStart),
    /// The partition was taken away by [`Reader::remove`]: nothing more comes of it until it is added again.
    Removed {
        /// The partition.
        partition: Partition,
    },
}

/// A kind of failure that decides what the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceFault {
    /// The source is unavailable: try again with back-off, for ever.
    Away,
    /// The source has records, but the rows that a `lookup` step finds for them cannot be read or used: try again as for [`Away`](Self::Away).
    Lookup,
    /// To continue would lose or repeat records (recreated topic, offset out of range): stop.
    Refused,
    /// The configuration cannot work (unknown property, wrong password): stop.
    Config,
    /// What is read lies in the pipeline's own store, and that fails for good: stop as for any other failure of it.
    Store,
}

impl SourceFault {
    /// Whether it may pass: whoever meets it asks again, with back-off.
    pub fn may_pass(self) -> bool {
        match self {
            Self::Away | Self::Lookup => true,
            Self::Refused | Self::Config | Self::Store => false,
        }
    }
}

/// Why a source failed.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct SourceError {
    /// What to do about it.
    pub fault: SourceFault,
    /// The partition, if one is concerned.
    pub partition: Option<Partition>,
    /// The whole sentence, with the way out; no secrets.
    pub message: String,
}

impl SourceError {
    /// An error that concerns the source as a whole.
    pub fn new(fault: SourceFault, message: impl Into<String>) -> Self {
        Self { fault, partition: None, message: message.into() }
    }

    /// A reader was asked to add a partition that it reads already.
    pub fn read_already(partition: &Partition) -> Self {
        let message = "the partition is read already, and records must not come twice; report this";
        Self::new(SourceFault::Refused, message).at(partition)
    }

    /// The same, for one partition.
    pub fn at(mut self, partition: &Partition) -> Self {
        self.partition = Some(partition.clone());
        self
    }
}

/// What the streams of a source are, by what can be done with them. It decides how the command line names one, and from where a stopped pipeline may have
/// it read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    /// Topics of a broker: each position is that of a record, and the broker knows the first record of a time.
    Topics,
    /// Files: a position may lie within a record.
    Files,
    /// Logs of numbered records, whose times are not indexed.
    Logs,
    /// Anything else, such as what only this process has: all that is known is where it begins and ends.
    Others,
}

/// A set of partitions that can be read again from any position that is still held.
///
/// 1. Reading from the same position gives the same records in the same order, as long as the source holds them.
/// 2. A position that is no longer held is an error ([`SourceFault::Refused`]), never a jump.
/// 3. A stream that was deleted and created again under the same name is an error, by its identity.
/// 4. [`Source::partitions`], [`Source::ends`] and [`Source::behind`] never change anything, not even a consumer group.
/// 5. [`Source::record`] gives the record that a read gave at that position, and disturbs no running read.
///
/// Every implementation runs `dataflow::conformance::source`.
#[async_trait]
pub trait Source: Send + Sync {
    /// What its streams are.
    fn streams(&self) -> Streams;

    /// Begins to connect for a pipeline that is about to start, and waits for nothing: failures show at the first request.
    /// Most sources have nothing to do here. From now on [`partitions`](Self::partitions) may show ones that cannot be read yet, without
    /// their real start (Kafka: those without a leader): only what [`recognize`](Self::recognize) returns may be read.
    fn connect(&self) {}

    /// Whether the pipeline file still names `stream`, however many of its partitions exist at the moment. A lane that has read a
    /// stream which is no longer named starts only after the operator has said what that means. `true` where there is nothing
    /// to compare with.
    fn covers(&self, _stream: &str) -> bool {
        true
    }

    /// The partitions that exist now, each with the start that the pipeline file asks for.
    async fn partitions(&self) -> Result<Vec<PartitionStart>, SourceError>;

    /// Which of `shown` a pipeline at the positions `known` has read, and which are new to it: a stream that it has read keeps the
    /// partition and the identity that were recorded, whatever its name is now, and a partition that is not in `known` is new. A
    /// source whose names and identities do not change returns `shown` unchanged.
    ///
    /// # Errors
    /// When a stream that the pipeline file names does not exist and never did.
    async fn recognize(
        &self,
        shown: Vec<PartitionStart>,
        _known: Vec<ReadFrom>,
    ) -> Result<Vec<PartitionStart>, SourceError> {
        Ok(shown)
    }

    /// For each partition the position after its newest record; for lag and for `--drain`. A
    /// partition whose end is only known by reading all of it (a compressed file) is left out.
    async fn ends(&self) -> Result<Vec<(Partition, Position)>, SourceError>;

    /// How much of each of these partitions stands at its position and behind it, as far as positions do not say so by their difference; counted in what
    /// the source counts in (Pulsar: entries, of which a batch is one). A partition that cannot be counted is left out. For lag.
    async fn behind(&self, _from: &[(Partition, Position)]) -> Result<Vec<(Partition, u64)>, SourceError> {
        Ok(Vec::new())
    }

    /// Starts reading.
    async fn read(&self, from: Vec<ReadFrom>) -> Result<Box<dyn Reader>, SourceError>;

    /// Publishes positions for lag tools (Kafka: commits offsets). Best effort; nothing depends on it but the
    /// check for a store that was rolled back, and, in a source that [`releases`](Self::releases), the deletion of records.
    async fn publish(&self, positions: &[(Partition, Position)]) -> Result<(), SourceError>;

    /// The positions published last, if the source keeps them; empty otherwise.
    async fn published(&self) -> Result<Vec<(Partition, Position)>, SourceError>;

    /// The setting of the pipeline file that names who has read up to the published positions (`group`), where they are kept under a name that
    /// others may use too; `None` where there is no such name.
    fn reader(&self) -> Option<&'static str> {
        None
    }

    /// True if the source may delete what is below a published position. The engine then publishes only positions below which every row
    /// is settled: until then a refused row's record may have to be read again.
    fn releases(&self) -> bool {
        false
    }

    /// True if the source wants to be told of every seal ([`sealed`](Self::sealed)): somebody waits until what was read is durable.
    fn wants_seals(&self) -> bool {
        false
    }

    /// A seal is durable: every record below these positions is in the journal, or was turned down there. Called after each seal, in their order, while
    /// the source is read; must not block.
    fn sealed(&self, _positions: &[(Partition, Position)]) {}

    /// True if seals record what became of each record of the partition, so that the operator can be told. Such a
    /// partition has no gaps, and its blocks hold one record each.
    fn wants_fates(&self, _partition: &Partition) -> bool {
        false
    }

    /// True if this run leaves the source alone, whatever it has by now: its partitions are told as caught up, for a drain to end, and none of them is silent
    /// because of that. The watermark waits for what it may have. Whoever wraps a source says what the inner one says.
    fn stands_aside(&self) -> bool {
        false
    }

    /// The one record at position `at.next`, read again, in a block of its own; `None` if no record stands there (any
    /// more). Takes as long as the source needs to reach the position, so the caller bounds it; dropping the future ends
    /// what it has started.
    ///
    /// # Errors
    /// [`SourceFault::Away`] is worth another try. [`SourceFault::Refused`] when the position is not held any more, the
    /// stream is another one, or nothing can be read twice (standard input).
    async fn record(&self, at: ReadFrom) -> Result<Option<RecordBlock>, SourceError> {
        let position = at.next;
        let mut reader = self.read(vec![at]).await?;
        first_record(&mut *reader, position).await
    }
}

/// The record at `position` from a read that begins there; `None` if the first that comes is another one.
///
/// # Errors
/// As [`Reader::next`].
pub async fn first_record(
    reader: &mut dyn Reader,
    position: Position,
) -> Result<Option<RecordBlock>, SourceError> {
    loop {
        match reader.next().await? {
            Event::Block(block) => return Ok(block.one(position)),
            Event::CaughtUp { .. } | Event::Ended { .. } | Event::Removed { .. } => return Ok(None),
            Event::Found(_) => {}
        }
    }
}

/// A running read of some partitions of a source.
///
/// 1. [`Reader::next`] may be dropped at any await without losing a record.
/// 2. A reader holds a bounded number of bytes ahead of the caller; not calling `next` is the back-pressure.
/// 3. Dropping the reader ends all that it started.
/// 4. A partition is added once: another [`Reader::add`] of it is refused, by that call or by the next events.
/// 5. After a partition's [`Event::Removed`] this reader hands out nothing more of it: its next reader begins behind the records before
///    that event.
#[async_trait]
pub trait Reader: Send {
    /// The next event; waits while there is none.
    ///
    /// # Errors
    /// [`SourceFault::Away`] may be followed by another call; after the other faults the reader is done.
    async fn next(&mut self) -> Result<Event, SourceError>;

    /// Reads a further partition from now on.
    async fn add(&mut self, from: ReadFrom) -> Result<(), SourceError>;

    /// Removes a partition, paused, caught up or ended, so that another reader can read it. Blocks on their way still come, then
    /// [`Event::Removed`]; only after that may it be added again. A partition that is not read gives no event, and this reader does not
    /// find it again.
    fn remove(&mut self, partition: &Partition);

    /// Stops handing out records of a partition until [`resume`](Self::resume); blocks on their way still come.
    fn pause(&mut self, partition: &Partition);

    /// Undoes [`pause`](Self::pause).
    fn resume(&mut self, partition: &Partition);
}
