//! Asking the source of an input, checking it against the lane, and opening it for reading.
//!
//! Owns when a source counts as opened: its partitions fit what the lane has read, it lets itself be read from there, and either
//! each new partition has said something or a second has passed. Nothing is written here: a source that refuses leaves the
//! journal as it was. Does not own what a refusal means for the process ([`crate::pipeline`]).
//!
//! | what the source shows                                   | what follows                                                   |
//! |---------------------------------------------------------|----------------------------------------------------------------|
//! | nothing, it is away                                     | asked again, for ever                                          |
//! | positions published beyond the journal                  | the store is an older copy: refused, and nothing is delivered  |
//! | a stream with another identity, or one no longer named  | refused; what is sealed can be delivered                       |
//! | a partition that it does not let us read                | refused; what is sealed can be delivered                       |

mod agree;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dataflow::block::NO_LEADER_EPOCH;
use dataflow::position::{self, Position};
use dataflow::{
    Event, Partition, PartitionStart, ReadFrom, Reader, Runtime, Source, SourceError, SourceFault,
};
use futures::future::{BoxFuture, join};
use protocol::Lane;
use protocol::lane::PartitionState;
use protocol::record::PartitionGenesis;

pub use agree::check_store;
use agree::{check_identities, check_inputs, check_named};

use crate::inputs::Inlet;
use crate::problem::Noticed;
use crate::retry::Backoff;
use crate::{EngineError, Settings, Status};

/// How long a source that was opened may say nothing before it counts as opened all the same: a broker holds the answer for a
/// partition without new records back for half a second.
const FIRST_WORD_MAX: Duration = Duration::from_secs(1);

/// The longest pause between two tries of a source that is away: what several of them were away for is often one and the same, and a start that finds the
/// first one back waits for the others for three seconds. Until then the store may be an older copy, and only they can tell.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Bytes of records that are taken before every new partition has said something: they wait in memory until the lane begins.
const FIRST_BYTES_MAX: usize = 16 << 20;

/// What the source shows at the start.
pub struct Shown {
    /// Its partitions, with the start that the pipeline file asks for.
    pub partitions: Vec<PartitionStart>,
    /// The positions published last.
    pub published: Vec<(Partition, Position)>,
    /// The setting that names the reader that they were published for.
    pub reader: Option<&'static str>,
}

/// Where a lane stands, as far as its source is concerned.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    lane: Lane,
}

impl Standing {
    /// The parts of this lane that a source is checked against.
    pub fn of(lane: &Lane) -> Self {
        Self {
            lane: Lane {
                pipeline: lane.pipeline.clone(),
                inputs: lane.inputs.clone(),
                partitions: lane.partitions.clone(),
                forgotten: lane.forgotten.clone(),
                rewound: lane.rewound.clone(),
                ..Lane::new()
            },
        }
    }
}

/// A source that is being read.
pub struct Opened {
    /// What it has shown.
    pub shown: Shown,
    /// The running read; it has begun with the partitions of the lane and with those in `new`.
    pub reader: Box<dyn Reader>,
    /// Partitions that the lane does not know yet. Their genesis is due before their first record is sealed.
    pub new: Vec<PartitionGenesis>,
    /// Partitions of streams that were read before, with the records at most that were gone when they were found.
    pub late: Vec<(Partition, u64)>,
    /// Where a drain ends, for each partition whose end is known; empty without one.
    pub stops: Vec<(Partition, Position)>,
}

/// A source that cannot be read before the operator has done something.
#[derive(Debug)]
pub struct Refusal {
    /// Why, with the way out.
    pub error: EngineError,
    /// Whether what is sealed may be delivered all the same. Not if the store itself may be an older copy: its frames may have
    /// been delivered long ago; nor if it fails for good, for nothing can be settled then.
    pub may_deliver: bool,
}

impl From<SourceError> for Refusal {
    fn from(error: SourceError) -> Self {
        Self { may_deliver: error.fault != SourceFault::Store, error: error.into() }
    }
}

impl Refusal {
    fn mismatch(what: String) -> Self {
        Self { error: EngineError::Mismatch(what), may_deliver: true }
    }

    /// The store is not the newest copy, or cannot be read.
    pub fn of_the_store(error: EngineError) -> Self {
        Self { error, may_deliver: false }
    }
}

/// What it takes to ask a source.
#[derive(Clone)]
pub struct Asking {
    /// Clock and pauses.
    pub runtime: Arc<dyn Runtime>,
    /// The bounds.
    pub settings: Settings,
    /// The input, with its source.
    pub input: Arc<Inlet>,
    /// The names of all inputs of the pipeline file.
    pub names: Arc<[Arc<str>]>,
    /// Where a source that is away is reported.
    pub status: Arc<Status>,
    /// Whether to ask where a drain ends.
    pub drain: bool,
}

impl Asking {
    fn source(&self) -> &dyn Source {
        &*self.input.source
    }

    /// What the source shows; waits while it is away.
    ///
    /// # Errors
    /// When it refuses or is misconfigured.
    pub async fn shown(&self) -> Result<Shown, Refusal> {
        let shown = || -> BoxFuture<'_, _> {
            Box::pin(async {
                let (partitions, published) =
                    join(self.source().partitions(), self.source().published()).await;
                Ok(Shown { partitions: partitions?, published: published?, reader: self.source().reader() })
            })
        };
        self.until_there(shown).await.map_err(|error| self.own(error.into()))
    }

    /// Checks what is shown against the lane and begins to read where it stands; waits while the source is away.
    ///
    /// # Errors
    /// When source and lane do not fit, or the source does not let itself be read.
    pub async fn open(&self, standing: &Standing, shown: Shown) -> Result<Opened, Refusal> {
        self.checked_and_read(&standing.lane, shown).await.map_err(|refusal| self.own(refusal))
    }

    /// A refusal whose commands name the input where there are others.
    fn own(&self, refusal: Refusal) -> Refusal {
        Refusal { error: self.input.with_own_commands(refusal.error), ..refusal }
    }

    async fn checked_and_read(&self, lane: &Lane, shown: Shown) -> Result<Opened, Refusal> {
        let input = self.input.number;
        check_store(lane, &shown).map_err(Refusal::of_the_store)?;
        check_inputs(lane, &self.names).map_err(Refusal::mismatch)?;
        check_named(lane, &self.input).map_err(Refusal::mismatch)?;
        let shown = self.with_those_that_left(lane, shown).await;
        // Its names may have been given to others since.
        let known = || lane.reading().filter(|(_, p)| p.input == input).map(|(_, p)| from_lane(p));
        let known = || known().collect::<Vec<_>>();
        let recognize = || self.source().recognize(shown.partitions.clone(), known());
        let partitions = self.until_there(recognize).await?;
        let shown = Shown { partitions, ..shown };
        // Only now does a source say where a partition begins that had nobody to say so before.
        check_store(lane, &shown).map_err(Refusal::of_the_store)?;
        check_identities(lane, &shown).map_err(Refusal::mismatch)?;
        let new = new_partitions(lane, input, &shown);
        let unread = shown.partitions.iter().map(|start| (start.partition.clone(), expired(lane, start)));
        let late = unread.filter(|(_, records)| *records > 0).collect();
        let from = || known().into_iter().chain(new.iter().map(from_genesis)).collect();
        let reader = self.until_there(|| self.source().read(from())).await?;
        let reader = self.first_words(reader, &new).await?;
        let stops = match self.drain {
            true => self.until_there(|| self.source().ends()).await?,
            false => Vec::new(),
        };
        Ok(Opened { shown, reader, new, late, stops })
    }

    /// Gives a stream that left the pipeline the identity that was recorded, if the source says that it is the one on show: a file's
    /// identity covers more once it has grown. Waits while the source cannot tell: a stream that is not recognized is read from where `start` says.
    async fn with_those_that_left(&self, lane: &Lane, mut shown: Shown) -> Shown {
        for start in &mut shown.partitions {
            let Partition { input, stream, index } = &start.partition;
            let Some(left) = lane.left(*input, stream, *index).filter(|left| left.identity != start.identity)
            else {
                continue;
            };
            // Whatever else became of the one that left, the one on show is new then.
            let recognize = || self.source().recognize(vec![start.clone()], vec![from_lane(left)]);
            let recognized = self.until_there(recognize).await;
            let is_same = |found: &PartitionStart| {
                found.partition == start.partition && found.identity == left.identity
            };
            if recognized.is_ok_and(|found| found.iter().any(is_same)) {
                start.identity.clone_from(&left.identity);
            }
        }
        shown
    }

    /// Asks the source what it has, and opens it for reading.
    ///
    /// # Errors
    /// As each.
    pub async fn shown_and_opened(self, standing: Standing) -> Result<Opened, Refusal> {
        let shown = self.shown().await?;
        self.open(&standing, shown).await
    }

    async fn until_there<'a, T>(
        &self,
        ask: impl Fn() -> BoxFuture<'a, Result<T, SourceError>>,
    ) -> Result<T, SourceError> {
        let mut backoff = Backoff::new(self.settings.retry_pause_max.min(PAUSE_MAX));
        loop {
            match ask().await {
                Ok(answer) => {
                    self.status.ended(&self.input.name, Noticed::Asking);
                    return Ok(answer);
                }
                Err(error) if error.fault.may_pass() => {
                    self.status.source_away(&self.input.name, &error, self.runtime.wall_ms());
                    if backoff.should_log() {
                        tracing::warn!(input = &*self.input.name, %error, "the source is unavailable; trying again");
                    }
                    backoff.pause(&*self.runtime).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for the first events: a partition that may be described but not read says so only now. One that has given records before
    /// it refuses lets itself be read up to there, and what it gave is read like any other.
    async fn first_words(
        &self,
        mut reader: Box<dyn Reader>,
        new: &[PartitionGenesis],
    ) -> Result<Box<dyn Reader>, SourceError> {
        let mut silent: BTreeSet<Partition> =
            new.iter().map(|p| named(p.input, &p.stream, p.index)).collect();
        let (mut events, mut bytes, mut refusal) = (VecDeque::new(), 0, None);
        let mut too_long = self.runtime.sleep(FIRST_WORD_MAX);
        while events.is_empty() || !silent.is_empty() && bytes < FIRST_BYTES_MAX {
            tokio::select! {
                biased;
                event = reader.next() => match event {
                    Ok(event) => {
                        silent.remove(spoken(&event));
                        if let Event::Block(block) = &event {
                            bytes += block.payloads.bytes.len();
                        }
                        events.push_back(event);
                    }
                    // It was there a moment ago; the lane waits for it.
                    Err(error) if error.fault.may_pass() => break,
                    Err(error) if has_given(&events, &error) => {
                        refusal = Some(error);
                        break;
                    }
                    Err(error) => return Err(error),
                },
                () = &mut too_long => break,
            }
        }
        Ok(Box::new(Begun { reader, events, refusal }))
    }
}

/// Whether the partition that refuses has given records.
fn has_given(events: &VecDeque<Event>, error: &SourceError) -> bool {
    let given = |event: &Event| match event {
        Event::Block(block) => Some(&block.partition) == error.partition.as_ref(),
        _ => false,
    };
    events.iter().any(given)
}

/// The partition that an event is about.
fn spoken(event: &Event) -> &Partition {
    match event {
        Event::Block(block) => &block.partition,
        Event::CaughtUp { partition, .. } | Event::Ended { partition, .. } | Event::Removed { partition } => {
            partition
        }
        Event::Found(start) => &start.partition,
    }
}

/// A read whose first events were taken already.
struct Begun {
    reader: Box<dyn Reader>,
    events: VecDeque<Event>,
    /// What the reader said after them.
    refusal: Option<SourceError>,
}

#[async_trait]
impl Reader for Begun {
    async fn next(&mut self) -> Result<Event, SourceError> {
        match (self.events.pop_front(), self.refusal.take()) {
            (Some(event), refusal) => {
                self.refusal = refusal;
                Ok(event)
            }
            (None, Some(refusal)) => Err(refusal),
            (None, None) => self.reader.next().await,
        }
    }

    async fn add(&mut self, from: ReadFrom) -> Result<(), SourceError> {
        self.reader.add(from).await
    }

    fn remove(&mut self, partition: &Partition) {
        self.reader.remove(partition);
    }

    fn pause(&mut self, partition: &Partition) {
        self.reader.pause(partition);
    }

    fn resume(&mut self, partition: &Partition) {
        self.reader.resume(partition);
    }
}

fn named(input: u32, stream: &str, index: u32) -> Partition {
    Partition::new(stream, index).of_input(input)
}

/// A partition's entry in a genesis, for a lane that has not read it, or has left it.
pub fn genesis(lane: &Lane, start: &PartitionStart) -> PartitionGenesis {
    let PartitionStart { partition, identity, next, leader_epoch, .. } = start;
    let left = lane.left_at(partition.input, &partition.stream, partition.index, identity);
    PartitionGenesis {
        input: partition.input,
        stream: partition.stream.to_string(),
        index: partition.index,
        identity: identity.clone(),
        leader_epoch: left.map_or(*leader_epoch, |left| left.leader_epoch),
        ..PartitionGenesis::default()
    }
    .at(left.map_or(*next, |left| left.next))
}

/// Whether the partition belongs to the stream of an input.
fn is_of_stream(p: &PartitionState, input: u32, stream: &str) -> bool {
    p.input == input && p.stream == stream
}

/// Whether the lane has ever read a partition of the stream.
fn knew(lane: &Lane, input: u32, stream: &str) -> bool {
    lane.partitions.iter().any(|p| is_of_stream(p, input, stream))
}

/// Records at most that are missing of a partition which comes to a stream that was read before: those below its first position, which
/// retention took before anybody saw the partition; 1 where nobody can tell how many, since positions have eras. 0 for one that was seen before.
pub fn expired(lane: &Lane, start: &PartitionStart) -> u64 {
    let Partition { input, stream, index } = &start.partition;
    let named = |p: &PartitionState| p.is(*input, stream, *index);
    let is_read = lane.reading().any(|(_, p)| is_of_stream(p, *input, stream));
    let is_late = is_read && !lane.partitions.iter().any(named);
    if is_late { position::plain(start.first).unwrap_or(1) } else { 0 }
}

/// The genesis of every partition that the lane does not read yet.
fn new_partitions(lane: &Lane, input: u32, shown: &Shown) -> Vec<PartitionGenesis> {
    let is_first = !lane.inputs.get(input as usize).is_some_and(|known| known.was_opened);
    let is_read = |p: &&PartitionStart| place(lane, &p.partition).is_some();
    let new = shown.partitions.iter().filter(|p| !is_read(p));
    // What the pipeline file says of the start holds for the first start of an input only. A partition that came later is read
    // from its beginning, or the records before "latest" would be lost. A stream that was forgotten starts anew as a whole.
    let begins_as_told = |p: &PartitionStart| {
        let stream: &str = &p.partition.stream;
        let is_read = || lane.reading().any(|(_, known)| is_of_stream(known, input, stream));
        is_first || knew(lane, input, stream) && !is_read()
    };
    new.map(|p| match begins_as_told(p) {
        true => genesis(lane, p),
        false => genesis(lane, &PartitionStart { next: p.first, ..p.clone() }),
    })
    .collect()
}

/// Where the lane has a partition.
fn place(lane: &Lane, Partition { input, stream, index }: &Partition) -> Option<usize> {
    lane.partition(*input, stream, *index)
}

fn from_lane(p: &PartitionState) -> ReadFrom {
    ReadFrom {
        partition: named(p.input, &p.stream, p.index),
        identity: p.identity.clone(),
        next: p.next,
        leader_epoch: if p.leader_epoch < 0 { NO_LEADER_EPOCH } else { p.leader_epoch },
    }
}

fn from_genesis(p: &PartitionGenesis) -> ReadFrom {
    ReadFrom {
        partition: named(p.input, &p.stream, p.index),
        identity: p.identity.clone(),
        next: p.next(),
        leader_epoch: if p.leader_epoch < 0 { NO_LEADER_EPOCH } else { p.leader_epoch },
    }
}
