//! Kafka topics as a source: librdkafka asks, [`direct`] or librdkafka reads.
//!
//! Owns assignment by explicit offsets, the check of topic ids, and librdkafka's settings. Does not own positions: the
//! journal does, and what is committed to a group is for lag tools only. No group is ever joined.
//!
//! | question                  | answer                                                                          |
//! |---------------------------|---------------------------------------------------------------------------------|
//! | partition, position       | a topic's partition, the offset; gaps by compaction and transactions are normal |
//! | identity                  | the topic's id; empty if the cluster is older than topic ids                    |
//! | topic deleted, created again | refused, once brokers have said so for some seconds, or with librdkafka, which follows it, at once: a block leaves only after the id was confirmed later than its fetch |
//! | offset not held, log cut  | refused, with the range that is held; never a jump                              |
//! | unreadable batch          | asked for again a few times, then refused with its place: librdkafka would step over it |
//! | transactions              | records of committed ones only; the end moves over their markers                |
//! | partition added           | `Found`, from its beginning                                                     |
//! | partition without a leader | read once it has one; a start waits for it only if its topic was never read     |
//! | broker away               | `Away` every few seconds while librdkafka reconnects, for ever                  |
//! | not let in while reading  | refused, once brokers have said so for some seconds; of what was not read yet, at once |
//! | large records, batches    | bodies above `record_bytes_max` are returned in part; batches unpack within a bound |
//! | null body, key, headers   | absent body; keys and headers are copied only where there are some              |

mod client;
mod config;
mod direct;
mod fault;
mod fetch;
mod found;
mod list;
mod options;
pub mod produce;
mod reader;
mod reason;
mod slot;
pub mod topics;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use dataflow::block::NO_LEADER_EPOCH;
use dataflow::source::first_record;
use dataflow::{
    Partition, PartitionStart, Position, ReadFrom, Reader, RecordBlock, Runtime, Source, SourceError,
    SourceFault, Streams,
};

use crate::thread;
pub use crate::token::{Issuer, IssuerOptions, TokenSource};
use client::{Client, Topic};
use config::Role;
pub use options::{FetchBy, KafkaOptions, Start};

/// Looks for a missing topic or partition, all together about five seconds: longer than brokers take to tell each other of a new
/// one, short enough for who has mistyped a name.
const LOOKS_MAX: u32 = 10;

const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// Partitions whose range is asked for side by side: each takes two answers of a broker, and a topic has hundreds of them.
const RANGES_AT_ONCE: usize = 8;

/// A broker that does not answer within this is away. Longer than a leader's election.
const CALL_WAIT_MAX: Duration = Duration::from_secs(10);

/// Marks, in place of the leader epoch, a partition without a leader: its range is unknown.
const NO_LEADER: i32 = i32::MIN;

/// A source of topics of Kafka.
pub struct KafkaSource {
    shared: Arc<Shared>,
}

struct Shared {
    options: KafkaOptions,
    runtime: Arc<dyn Runtime>,
    /// Made at the first question, kept for its connections. Not made where there is one that commits.
    look: Mutex<Option<Arc<Client>>>,
    commit: Mutex<Option<Arc<Client>>>,
    /// Topics that are certainly others than were recorded, with the ids that they have now.
    anew: Mutex<BTreeSet<(String, String)>>,
    /// True once a pipeline is about to read: it starts without partitions that have no leader, unless it [waits for them](KafkaOptions::waits_for_leaders).
    /// Other callers wait for them.
    begins: AtomicBool,
}

impl KafkaSource {
    /// A source of these topics. Nothing is connected yet.
    ///
    /// # Errors
    /// [`SourceFault::Config`] when a property is reserved, unknown or contradicts another.
    pub fn new(options: KafkaOptions, runtime: Arc<dyn Runtime>) -> Result<Self, SourceError> {
        config::check(&options)?;
        client::check(&options)?;
        if options.fetch == FetchBy::Direct {
            direct::insist(&options)?;
        }
        let (look, commit, anew) = (Mutex::default(), Mutex::default(), Mutex::default());
        let begins = AtomicBool::new(false);
        Ok(Self { shared: Arc::new(Shared { options, runtime, look, commit, anew, begins }) })
    }

    /// Starts librdkafka's reader.
    async fn start(
        &self,
        options: KafkaOptions,
        from: Vec<ReadFrom>,
    ) -> Result<reader::KafkaReader, SourceError> {
        let shared = self.shared.clone();
        let start = move || {
            shared.check(&from)?;
            let look = shared.client(Role::Look)?;
            reader::KafkaReader::start(&options, shared.runtime.clone(), look, from)
        };
        thread::run("kafka-start", start).await
    }

    /// Runs a question on a thread of its own.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Shared) -> Result<T, SourceError> + Send + 'static,
    ) -> Result<T, SourceError> {
        let shared = self.shared.clone();
        thread::run("kafka-ask", move || question(&shared)).await
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let taken = |place: &mut Mutex<Option<Arc<Client>>>| {
            place.get_mut().unwrap_or_else(PoisonError::into_inner).take()
        };
        let clients = [taken(&mut self.look), taken(&mut self.commit)];
        // Destroying a handle blocks. Without a thread for it, it is done here.
        let _ = thread::start("kafka-drop", move || drop(clients));
    }
}

/// A topic that the cluster does not have.
struct Lacks {
    topic: String,
}

impl Lacks {
    fn error(&self, fault: SourceFault) -> SourceError {
        let message = format!(
            "topic `{}` does not exist: create it, correct the name, or, if it was deleted for good, take it out of the pipeline file",
            self.topic
        );
        SourceError::new(fault, message)
    }
}

/// Looks until everything is there, [`LOOKS_MAX`] times: a broker that has just started, or is behind, may not know a topic, all of its
/// partitions or all of their records, or know another topic by the name. The inner error is what a look misses.
fn settled<T>(
    pause: impl Fn(Duration),
    mut look: impl FnMut() -> Result<Result<T, SourceError>, SourceError>,
) -> Result<T, SourceError> {
    for _ in 1..LOOKS_MAX {
        if let Ok(found) = look()? {
            return Ok(found);
        }
        pause(LOOK_AGAIN_AFTER);
    }
    look()?
}

/// The topics of an answer, if all that is read is in them and they are the same; a later answer may be another one.
fn fitting(
    looked: Result<BTreeMap<String, Topic>, Lacks>,
    from: &[ReadFrom],
) -> Result<BTreeMap<String, Topic>, SourceError> {
    let topics = looked.map_err(|lacks| lacks.error(SourceFault::Refused))?;
    match slot::refusal(from.iter(), &topics) {
        None => Ok(topics),
        Some((error, _)) => Err(error),
    }
}

/// What is shown, once no topic has another id than was recorded, or so many answers in a row say that one has. The answers tell of all partitions; of others
/// than were shown nobody has asked.
fn confirmed(
    pause: impl Fn(Duration),
    mut shown: Vec<PartitionStart>,
    known: &[ReadFrom],
    mut look: impl FnMut() -> Result<Vec<PartitionStart>, SourceError>,
) -> Result<Vec<PartitionStart>, SourceError> {
    let asked: BTreeSet<Partition> = shown.iter().map(|start| start.partition.clone()).collect();
    for _ in 1..LOOKS_MAX {
        if found::anew(&shown, known).is_empty() {
            break;
        }
        pause(LOOK_AGAIN_AFTER);
        shown = look()?;
        shown.retain(|start| asked.contains(&start.partition));
    }
    Ok(shown)
}

fn has_leader(topics: &BTreeMap<String, Topic>, partition: &Partition) -> bool {
    topics.get(&*partition.stream).is_some_and(|topic| topic.leaders.contains_key(&partition.index))
}

fn no_leader(partition: &Partition) -> SourceError {
    let message = format!("kafka: `{partition}` has no leader at the moment");
    SourceError::new(SourceFault::Away, message).at(partition)
}

/// Shows a partition without a leader. Its first position is no guess that what was published of it could contradict: that is compared with the real one, once
/// [`led`] has it.
fn unasked(partition: Partition, identity: String) -> PartitionStart {
    PartitionStart { partition, identity, next: Position::MAX, first: 0, leader_epoch: NO_LEADER }
}

/// What is shown, without partitions that have no leader. Of a topic that was read, nothing is missing for that: where they stand is recorded, or the read
/// finds them once they have one. Of one that was not read, all must have one by now, because the start that the pipeline file names is theirs too; where
/// one was waited for, the others are taken from the newest look, because retention may have moved their beginning.
fn led(
    shown: Vec<PartitionStart>,
    known: &[ReadFrom],
    look: impl FnOnce() -> Result<Vec<PartitionStart>, SourceError>,
) -> Result<Vec<PartitionStart>, SourceError> {
    let is_read =
        |start: &PartitionStart| known.iter().any(|from| from.partition.stream == start.partition.stream);
    let is_led = |start: &PartitionStart| start.leader_epoch != NO_LEADER;
    let (read, unread): (Vec<_>, Vec<_>) = shown.into_iter().partition(is_read);
    let mut led: Vec<_> = read.into_iter().filter(is_led).collect();
    if unread.iter().all(is_led) {
        led.extend(unread);
        return Ok(led);
    }
    let now: Vec<_> = look()?.into_iter().filter(|start| !is_read(start)).collect();
    let is_led_now =
        |partition: &Partition| now.iter().any(|start| start.partition == *partition && is_led(start));
    // One that the newest look does not list is waited for too.
    let mut listed = unread.iter().chain(&now).map(|start| &start.partition);
    if let Some(partition) = listed.find(|partition| !is_led_now(partition)) {
        return Err(awaited(partition));
    }
    led.extend(now);
    Ok(led)
}

/// A start waits for the partition.
fn awaited(partition: &Partition) -> SourceError {
    let mut error = no_leader(partition);
    error.message.push_str(
        "; the start waits for it, because this topic was never read: start its broker, or move the partition to another",
    );
    error
}

/// What of a read has a leader to be asked for its range. The rest is read once it has one, which then says whether it holds the position. If nothing has a
/// leader, there is nothing to begin with.
fn with_leader(from: &[ReadFrom], topics: &BTreeMap<String, Topic>) -> Result<Vec<ReadFrom>, SourceError> {
    let led: Vec<ReadFrom> =
        from.iter().filter(|from| has_leader(topics, &from.partition)).cloned().collect();
    match from.first() {
        Some(first) if led.is_empty() => Err(no_leader(&first.partition)),
        Some(_) | None => Ok(led),
    }
}

/// Holds positions against the ranges that brokers have. One behind the end may be so only at a broker that leads no more and has not heard of it, so
/// a later answer may still hold it. An error is final: what was deleted does not come back.
fn held(from: &[ReadFrom], ranges: &[(u64, u64)]) -> Result<Result<(), SourceError>, SourceError> {
    let mut behind = Ok(());
    for (from, range) in from.iter().zip(ranges) {
        let out_of_range = || slot::out_of_range(&from.partition, from.next, Some(*range));
        if from.next < range.0.into() {
            return Err(out_of_range());
        }
        if from.next > range.1.into() && behind.is_ok() {
            behind = Err(out_of_range());
        }
    }
    Ok(behind)
}

impl Shared {
    fn client(&self, role: Role) -> Result<Arc<Client>, SourceError> {
        let mut place = self.commit.lock().unwrap_or_else(PoisonError::into_inner);
        if role != Role::Commit && place.is_none() {
            drop(place);
            place = self.look.lock().unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(client) = &*place {
            return Ok(client.clone());
        }
        let client = Arc::new(Client::new(&self.options, role, self.runtime.clone())?);
        *place = Some(client.clone());
        Ok(client)
    }

    /// All topics; one that is missing is an error of this fault.
    fn topics(&self, missing: SourceFault) -> Result<BTreeMap<String, Topic>, SourceError> {
        self.look()?.map_err(|lacks| lacks.error(missing))
    }

    /// All topics, or one that is missing, by one answer of the cluster.
    fn look(&self) -> Result<Result<BTreeMap<String, Topic>, Lacks>, SourceError> {
        let topics = self.client(Role::Look)?.describe(&self.options.topics, CALL_WAIT_MAX, || true)?;
        let missing = self.options.topics.iter().find(|name| !topics.contains_key(*name));
        Ok(match missing {
            Some(name) => Err(Lacks { topic: name.clone() }),
            None => Ok(topics),
        })
    }

    fn all(topics: &BTreeMap<String, Topic>) -> Vec<Partition> {
        let of = |(name, topic): (&String, &Topic)| {
            let name: Arc<str> = name.as_str().into();
            let partition = move |index: &u32| Partition::new(name.clone(), *index);
            topic.partitions.iter().map(partition).collect::<Vec<_>>()
        };
        topics.iter().flat_map(of).collect()
    }

    fn partitions(&self) -> Result<Result<Vec<PartitionStart>, Lacks>, SourceError> {
        let topics = match self.look()? {
            Ok(topics) => topics,
            Err(lacks) => return Ok(Err(lacks)),
        };
        let client = self.client(Role::Look)?;
        let goes_without = self.begins.load(Ordering::Relaxed) && !self.options.waits_for_leaders;
        let (partitions, leaderless): (Vec<_>, Vec<_>) = Self::all(&topics)
            .into_iter()
            .partition(|partition| !goes_without || has_leader(&topics, partition));
        // Before the positions by time: a record that comes in between is then behind the end, and not stepped over where no older one is late enough.
        let ranges = self.ranges(&partitions)?;
        let by_time = match self.options.start {
            Start::Time(time_ms) if !partitions.is_empty() => {
                client.offsets_at(&partitions, time_ms, CALL_WAIT_MAX)?
            }
            Start::Time(_) | Start::Earliest | Start::Latest => vec![None; partitions.len()],
        };
        let mut starts = Vec::with_capacity(partitions.len() + leaderless.len());
        for ((partition, by_time), (first, end)) in partitions.into_iter().zip(by_time).zip(ranges) {
            let next = match (self.options.start, by_time) {
                (Start::Time(_), Some(offset)) => offset,
                (Start::Earliest, _) => first,
                (Start::Latest | Start::Time(_), _) => end,
            };
            let identity = topics[&*partition.stream].id.clone();
            starts.push(PartitionStart {
                partition,
                identity,
                next: next.into(),
                first: first.into(),
                leader_epoch: NO_LEADER_EPOCH,
            });
        }
        starts.extend(leaderless.into_iter().map(|partition| {
            let identity = topics[&*partition.stream].id.clone();
            unasked(partition, identity)
        }));
        Ok(Ok(starts))
    }

    /// What is shown, if whoever was asked is not one that is cut off from the others: it names the id that a topic had before it was made anew, and whoever
    /// forgets the topic for that reads it twice. Each other id is asked for again once.
    fn confirmed(
        &self,
        shown: Vec<PartitionStart>,
        known: &[ReadFrom],
    ) -> Result<Vec<PartitionStart>, SourceError> {
        let told = || self.anew.lock().unwrap_or_else(PoisonError::into_inner);
        if found::anew(&shown, known).is_subset(&told()) {
            return Ok(shown);
        }
        let look = || self.partitions()?.map_err(|lacks| lacks.error(SourceFault::Away));
        let shown = confirmed(thread::pause, shown, known, look)?;
        told().extend(found::anew(&shown, known));
        Ok(shown)
    }

    fn ends(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        let partitions = Self::all(&self.topics(SourceFault::Away)?);
        let ends = self.ranges(&partitions)?.into_iter().map(|(_, high)| high.into());
        Ok(partitions.into_iter().zip(ends).collect())
    }

    /// For each partition the first position held and the one after the newest record; the first failure in their order.
    fn ranges(&self, partitions: &[Partition]) -> Result<Vec<(u64, u64)>, SourceError> {
        let client = &self.client(Role::Look)?;
        let share = partitions.len().div_ceil(RANGES_AT_ONCE).max(1);
        let ask = |share: &[Partition]| -> Result<Vec<_>, SourceError> {
            share.iter().map(|partition| client.watermarks(partition, CALL_WAIT_MAX)).collect()
        };
        let parts: Vec<Result<Vec<_>, SourceError>> = std::thread::scope(|scope| {
            let threads: Vec<_> = partitions
                .chunks(share)
                .map(|share| thread::start_in(scope, "kafka-ask", move || ask(share)))
                .collect();
            threads.into_iter().map(|thread| thread::end(thread?)?).collect()
        });
        Ok(parts.into_iter().collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// Starts a reader of the kind that the options ask for and the cluster allows.
    fn reader(&self, from: Vec<ReadFrom>) -> Result<Box<dyn Reader>, SourceError> {
        let topics = self.check(&from)?;
        let (options, runtime, look) = (&self.options, self.runtime.clone(), self.client(Role::Look)?);
        match self.direct(&from, &topics)? {
            Ok(opened) => {
                tracing::debug!("kafka is fetched from directly");
                Ok(Box::new(direct::DirectReader::start(options, opened, topics, runtime, look, from)?))
            }
            Err(why) => {
                tracing::info!(why, "kafka is read by librdkafka");
                Ok(Box::new(reader::KafkaReader::start(options, runtime, look, from)?))
            }
        }
    }

    /// What a direct fetch begins with, or why it is left to librdkafka.
    fn direct(
        &self,
        from: &[ReadFrom],
        topics: &BTreeMap<String, Topic>,
    ) -> Result<Result<direct::Opened, String>, SourceError> {
        if self.options.fetch == FetchBy::Librdkafka {
            return Ok(Err("the pipeline says so".into()));
        }
        let plan = direct::plan(&self.options).and_then(|plan| {
            // Recorded from a cluster without ids: there is nothing to fetch by.
            let named = from.iter().all(|from| !from.identity.is_empty());
            if named { Ok(plan) } else { Err("positions were recorded without the topic's id".into()) }
        });
        let plan = match plan {
            Ok(plan) => plan,
            Err(why) => return self.unless_insisted(why),
        };
        match direct::probe(plan, topics, &self.runtime) {
            Ok(opened) => Ok(Ok(opened)),
            Err(why) => self.unless_insisted(why),
        }
    }

    fn unless_insisted(&self, why: String) -> Result<Result<direct::Opened, String>, SourceError> {
        if self.options.fetch == FetchBy::Direct {
            let message = format!("kafka cannot be fetched from directly: {why}");
            return Err(SourceError::new(SourceFault::Away, message));
        }
        Ok(Err(why))
    }

    /// Refuses what would lose or repeat records, before anything is read. Gives the topics that it was held against.
    fn check(&self, from: &[ReadFrom]) -> Result<BTreeMap<String, Topic>, SourceError> {
        settled(thread::pause, || {
            let topics = match fitting(self.look()?, from) {
                Ok(topics) => topics,
                Err(missed) => return Ok(Err(missed)),
            };
            let led = with_leader(from, &topics)?;
            let partitions: Vec<_> = led.iter().map(|from| from.partition.clone()).collect();
            Ok(held(&led, &self.ranges(&partitions)?)?.map(|()| topics))
        })
    }
}

#[async_trait]
impl Source for KafkaSource {
    fn streams(&self) -> Streams {
        Streams::Topics
    }

    /// Makes the handle that commits, which finds its group's coordinator meanwhile, and has it meet the leaders. From now on partitions without a leader are
    /// left out by `recognize`.
    fn connect(&self) {
        self.shared.begins.store(true, Ordering::Relaxed);
        let shared = self.shared.clone();
        let meet = move || {
            // Whoever asks next is told what failed.
            if let Ok(client) = shared.client(Role::Commit) {
                let _ =
                    client.describe(&shared.options.topics, CALL_WAIT_MAX, || Arc::strong_count(&shared) > 1);
            }
        };
        // Without a thread for it, the first question connects.
        let _ = thread::start("kafka-connect", meet);
    }

    fn covers(&self, stream: &str) -> bool {
        self.shared.options.topics.iter().any(|topic| topic == stream)
    }

    async fn partitions(&self) -> Result<Vec<PartitionStart>, SourceError> {
        for _ in 1..LOOKS_MAX {
            // A topic that was made a moment ago is not known to every broker at once.
            if let Ok(starts) = self.ask(Shared::partitions).await? {
                return Ok(starts);
            }
            self.shared.runtime.sleep(LOOK_AGAIN_AFTER).await;
        }
        self.ask(Shared::partitions).await?.map_err(|lacks| lacks.error(SourceFault::Config))
    }

    /// Topics keep their names and ids; another id must be told many times. A partition that came since is read from its first record, which may not be its first ever.
    async fn recognize(
        &self,
        mut shown: Vec<PartitionStart>,
        known: Vec<ReadFrom>,
    ) -> Result<Vec<PartitionStart>, SourceError> {
        if !found::anew(&shown, &known).is_empty() {
            let known = known.clone();
            shown = self.ask(move |shared| shared.confirmed(shown, &known)).await?;
        }
        if shown.iter().any(|start| start.leader_epoch == NO_LEADER) {
            let known = known.clone();
            let again =
                |shared: &Shared| shared.partitions()?.map_err(|lacks| lacks.error(SourceFault::Away));
            shown = self.ask(move |shared| led(shown, &known, || again(shared))).await?;
        }
        found::late(&shown, &known).into_iter().for_each(found::warn_late);
        Ok(shown)
    }

    /// The ends up to which records may be read: before the oldest open transaction.
    async fn ends(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        self.ask(Shared::ends).await
    }

    async fn read(&self, from: Vec<ReadFrom>) -> Result<Box<dyn Reader>, SourceError> {
        let shared = self.shared.clone();
        thread::run("kafka-start", move || shared.reader(from)).await
    }

    /// A client of its own that joins no group and fetches little ahead; it ends with the call.
    async fn record(&self, at: ReadFrom) -> Result<Option<RecordBlock>, SourceError> {
        let position = at.next;
        let mut options = self.shared.options.clone();
        config::for_one_record(&mut options);
        let mut reader = self.start(options, vec![at]).await?;
        first_record(&mut reader, position).await
    }

    /// Commits offsets to the group. The group has no members, so nothing else moves them.
    async fn publish(&self, positions: &[(Partition, Position)]) -> Result<(), SourceError> {
        let positions = positions.to_vec();
        if positions.is_empty() {
            return Ok(());
        }
        self.ask(move |shared| shared.client(Role::Commit)?.commit(&positions)).await
    }

    fn reader(&self) -> Option<&'static str> {
        Some("group")
    }

    async fn published(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        self.ask(|shared| {
            let partitions = Shared::all(&shared.topics(SourceFault::Away)?);
            let committed = shared.client(Role::Commit)?.committed(&partitions, CALL_WAIT_MAX)?;
            let known = |(partition, offset): (Partition, Option<u64>)| Some((partition, offset?.into()));
            Ok(partitions.into_iter().zip(committed).filter_map(known).collect())
        })
        .await
    }
}

#[cfg(test)]
mod tests;
