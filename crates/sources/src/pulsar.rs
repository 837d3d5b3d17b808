//! Pulsar topics as a source, read by Pulsar's binary protocol directly.
//!
//! Owns the way of messages from brokers into blocks, and the refusal of a position that no longer stands for the same messages. Does not
//! own positions: the journal does. A reader has no cursor at the broker; the subscription that we acknowledge for is for monitoring tools,
//! and makes brokers hold what was not read.
//!
//! | question                   | answer                                                                                   |
//! |----------------------------|------------------------------------------------------------------------------------------|
//! | partition                  | a partition of a topic; a topic without partitions is one                                |
//! | position                   | ledger, entry, index in the batch (`place`)                                              |
//! | identity                   | none: a cluster never gives a ledger's number twice, so the position itself tells        |
//! | topic or partition deleted | refused, once brokers have said so for some seconds                                      |
//! | topic made anew, truncated, ledger deleted | refused: a read begins with the newest entry that was read before, which must come first, or the one right behind it |
//! | ledger deleted while it is read | refused: before the first message of another ledger, the newest entry of the one before must still be held |
//! | not let in while reading   | refused, once brokers have said so for some seconds                                      |
//! | topic unloaded, broker away | looked up again; `Away` every few seconds meanwhile, for ever                           |
//! | partition added            | `Found`, from its beginning                                                              |
//! | topic terminated           | `Ended` after its last message                                                           |
//! | chunked messages           | put together; they stand where their first chunk does (`chunks`)                         |
//! | encrypted messages         | refused, with the place                                                                  |
//! | non-persistent topic       | refused: it cannot be read again                                                         |
//!
//! | module       | what it holds                                            |
//! |--------------|----------------------------------------------------------|
//! | `supervisor` | which broker serves what; new partitions, failures       |
//! | `reader`     | the reader in front of the threads                       |
//! | `broker`     | one thread a broker: receive, read, return               |
//! | `lead`       | what is known of a partition that is read, and when that must stop |
//! | `entry`      | entries into blocks                                      |
//! | `reading`    | an entry's way into a block, at once or behind others    |
//! | `chunks`     | messages in chunks, put together                         |
//! | `client`     | the rare questions                                       |
//! | `connection` | a socket with bounds                                     |
//! | `frame`, `fields`, `messages` | the protocol as bytes                   |
//! | `schema`     | the names of schemas, and questions for them             |
//! | `inflate`    | LZ4, zlib, Zstandard, Snappy                             |
//! | `place`      | positions                                                |
//! | `address`, `topic` | addresses of brokers, names of topics                    |
//! | `errors`     | what errors of brokers mean                              |
//! | `produce`    | a producer, for tests and measurements                   |

mod address;
mod broker;
mod chunks;
mod client;
mod connection;
mod entry;
mod errors;
mod fields;
mod frame;
mod inflate;
mod lead;
mod messages;
mod place;
pub mod produce;
mod reader;
mod reading;
mod schema;
mod supervisor;
mod topic;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dataflow::block::NO_LEADER_EPOCH;
use dataflow::source::first_record;
use dataflow::{
    Partition, PartitionStart, Position, ReadFrom, Reader, RecordBlock, Runtime, Source, SourceError,
    SourceFault, Streams,
};

use crate::thread;
pub use crate::tls::Tls;
use crate::token::TokenError;
pub use crate::token::{Issuer, IssuerOptions, TokenSource};
use address::Address;
use client::{Client, Topic, Unanswered};
use errors::Trouble;
pub use schema::{BrokerSchema, SchemaClient, SchemaKind};

/// The name by which a topic is known in a journal, `tenant/namespace/topic`: without its domain, and in `public/default` if it names no
/// namespace.
///
/// # Errors
/// The rest of a sentence that begins with the name.
pub fn topic_name(name: &str) -> Result<String, String> {
    topic::full(name)
}

/// Looks for a missing topic or partition, all together about five seconds.
const LOOKS_MAX: u32 = 10;
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// How often a read of one record may say that its brokers are away, which it does every five seconds: that its position is not held is known only once
/// it was asked for some times.
const RECORD_AWAY_MAX: u32 = 3;

/// Where a pipeline that has never read a partition begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At the oldest message that is held.
    Earliest,
    /// After the newest message.
    Latest,
    /// At the first message that was published at this time or later, in Unix milliseconds; after the newest if there is none.
    Time(i64),
}

/// Where a token comes from.
#[derive(Clone, PartialEq, Eq)]
pub enum Token {
    /// It is this one.
    Fixed(String),
    /// Asked for at each login.
    Source(TokenSource),
}

impl Token {
    /// The token now.
    fn get(&self, now_ms: i64) -> Result<String, TokenError> {
        match self {
            Self::Fixed(token) => Ok(token.clone()),
            Self::Source(source) => source.get(now_ms).map(|token| token.value).map_err(|why| match why {
                TokenError::Away(why) => TokenError::Away(format!("no token from {source}: {why}")),
                TokenError::Refused(why) => TokenError::Refused(format!("no token from {source}: {why}")),
            }),
        }
    }

    /// A broker does not take `token` (any more).
    fn refused(&self, token: &str) {
        if let Self::Source(source) = self {
            source.refused(token);
        }
    }
}

/// Which topics of which cluster are read, from where, and within which bounds.
#[derive(Clone)]
pub struct PulsarOptions {
    /// Brokers or proxies, as `service` names them.
    addresses: Vec<Address>,
    /// Topics without their domain: `tenant/namespace/topic`.
    topics: Vec<String>,
    /// For partitions that are there at the first start. Later ones begin at their beginning.
    pub start: Start,
    /// The subscription by which monitoring tools see how far the pipeline is; `forebay-<pipeline>` by convention.
    pub subscription: String,
    /// Encryption; needed if and only if `service` begins with `pulsar+ssl://`.
    pub tls: Option<Tls>,
    /// Who logs in.
    pub token: Option<Token>,
    /// The broker's listener that is asked for, where it has several.
    pub listener: Option<String>,
    /// Bytes of blocks ahead of the caller.
    pub ahead_bytes_max: usize,
    /// Bytes of the longest record returned whole; of a longer one the beginning. Keep the decoder's own bound below it.
    pub record_bytes_max: usize,
    /// How often new partitions are looked for.
    pub look_every: Duration,
    /// Blocks name the schema of their records ([`dataflow::RecordBlock::schema`]), and hold records of one alone.
    pub names_schemas: bool,
}

impl PulsarOptions {
    /// Topics from the earliest message on, with the defaults: 64 MiB ahead, a search for partitions every 10 s. `service` is
    /// `pulsar://host:port` or `pulsar+ssl://host:port`, with further hosts behind commas.
    ///
    /// # Errors
    /// [`SourceFault::Config`] when an address or the name of a topic is none.
    pub fn new(
        service: &str,
        topics: &[String],
        subscription: impl Into<String>,
    ) -> Result<Self, SourceError> {
        let config = |message: String| SourceError::new(SourceFault::Config, message);
        let (addresses, is_encrypted) = address::service(service).map_err(config)?;
        let full = |name: &String| topic::full(name).map_err(|why| config(format!("topic `{name}` {why}")));
        let topics: Vec<String> = topics.iter().map(full).collect::<Result<_, _>>()?;
        if let Some(twice) = topics.iter().enumerate().find(|(at, name)| topics[..*at].contains(name)) {
            return Err(config(format!("topic `{}` is named twice", twice.1)));
        }
        Ok(Self {
            addresses,
            topics,
            start: Start::Earliest,
            subscription: subscription.into(),
            tls: is_encrypted.then_some(Tls { ca: None, identity: None, verify_host: true }),
            token: None,
            listener: None,
            ahead_bytes_max: 64 << 20,
            record_bytes_max: 128 << 20,
            look_every: Duration::from_secs(10),
            names_schemas: false,
        })
    }

    /// What an entry may unpack to: what is held ahead, or a record of the greatest length.
    fn unpacked_bytes_max(&self) -> usize {
        self.ahead_bytes_max.max(self.record_bytes_max)
    }
}

impl fmt::Debug for PulsarOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PulsarOptions")
            .field("addresses", &self.addresses)
            .field("topics", &self.topics)
            .field("start", &self.start)
            .field("subscription", &self.subscription)
            .finish_non_exhaustive()
    }
}

/// A source of topics of Pulsar.
pub struct PulsarSource {
    shared: Arc<Shared>,
}

struct Shared {
    options: Arc<PulsarOptions>,
    runtime: Arc<dyn Runtime>,
    client: Arc<Client>,
}

impl PulsarSource {
    /// A source of these topics. Nothing is connected yet.
    pub fn new(options: PulsarOptions, runtime: Arc<dyn Runtime>) -> Self {
        let options = Arc::new(options);
        let client = Arc::new(Client::new(options.clone(), runtime.clone()));
        Self { shared: Arc::new(Shared { options, runtime, client }) }
    }

    /// Runs a question on a thread of its own.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Shared) -> Result<T, SourceError> + Send + 'static,
    ) -> Result<T, SourceError> {
        let shared = self.shared.clone();
        thread::run("pulsar-ask", move || question(&shared)).await
    }
}

/// A topic that the cluster does not have.
struct Lacks(String);

impl Lacks {
    fn error(&self, fault: SourceFault) -> SourceError {
        let message = format!(
            "topic `{}` does not exist: create it, correct the name, or, if it was deleted for good, take it out of the pipeline file",
            self.0
        );
        SourceError::new(fault, message)
    }
}

impl Shared {
    fn topics(&self) -> Result<Result<BTreeMap<String, Topic>, Lacks>, SourceError> {
        let topics = self.client.topics()?;
        let missing = self.options.topics.iter().find(|name| !topics.contains_key(*name));
        Ok(match missing {
            Some(name) => Err(Lacks(name.clone())),
            None => Ok(topics),
        })
    }

    /// Every partition of all topics, with the name that brokers know it by. A missing topic is an error of this fault.
    fn all(&self, missing: SourceFault) -> Result<Vec<(Partition, String)>, SourceError> {
        let topics = self.topics()?.map_err(|lacks| lacks.error(missing))?;
        Ok(named(&topics))
    }

    /// What there is to read. A partition that its topic lists, and no broker knows, counts as a missing topic; only the last look leaves it out. It was
    /// deleted by itself, and whoever reads it is told.
    fn partitions(&self, is_last: bool) -> Result<Result<Vec<PartitionStart>, Lacks>, SourceError> {
        let topics = match self.topics()? {
            Ok(topics) => topics,
            Err(lacks) => return Ok(Err(lacks)),
        };
        let mut starts = Vec::new();
        for (partition, name) in named(&topics) {
            let (next, first) = match self.client.range(&name, self.options.start) {
                Ok(range) => range,
                Err(Unanswered::Trouble(Trouble::Missing(why))) => {
                    if !is_last || !topics[&*partition.stream].is_partitioned {
                        return Ok(Err(Lacks(partition.stream.to_string())));
                    }
                    tracing::warn!(%partition, why, "pulsar: the topic lists a partition that does not exist; it is not read");
                    continue;
                }
                Err(error) => return Err(error.error().at(&partition)),
            };
            starts.push(PartitionStart {
                partition,
                identity: String::new(),
                next,
                first,
                leader_epoch: NO_LEADER_EPOCH,
            });
        }
        Ok(Ok(starts))
    }

    /// The answer to a question about each partition, and whether all exist. One that was deleted by itself is left out, as by [`partitions`](Self::partitions).
    fn each<T>(
        &self,
        question: impl Fn(&Client, &str) -> Result<T, Unanswered>,
    ) -> Result<(Vec<(Partition, T)>, bool), SourceError> {
        let (mut answers, mut all_exist) = (Vec::new(), true);
        for (partition, name) in self.all(SourceFault::Away)? {
            match question(&self.client, &name) {
                Ok(answer) => answers.push((partition, answer)),
                Err(Unanswered::Trouble(Trouble::Missing(_))) => all_exist = false,
                Err(error) => return Err(error.error().at(&partition)),
            }
        }
        Ok((answers, all_exist))
    }

    /// How far each partition was acknowledged. What is left out is not held against the journal, so a partition is looked for again before that.
    fn acknowledged(
        &self,
        pause: impl Fn(Duration),
    ) -> Result<Vec<(Partition, Option<Position>)>, SourceError> {
        for _ in 1..LOOKS_MAX {
            let (answers, all_exist) = self.each(Client::acknowledged)?;
            if all_exist {
                return Ok(answers);
            }
            pause(LOOK_AGAIN_AFTER);
        }
        Ok(self.each(Client::acknowledged)?.0)
    }

    fn read(&self, from: Vec<ReadFrom>) -> Result<reader::PulsarReader, SourceError> {
        let topics = settled(thread::pause, || Ok(fitting(self.topics()?, &from)))?;
        reader::PulsarReader::start(
            self.options.clone(),
            self.runtime.clone(),
            self.client.clone(),
            topics,
            from,
        )
    }
}

/// Looks until everything is there, [`LOOKS_MAX`] times: a broker that has just started, or is behind, may not know a topic or all of its
/// partitions. The inner error is what a look misses.
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

/// The topics of an answer, if all that is read is in them.
fn fitting(
    looked: Result<BTreeMap<String, Topic>, Lacks>,
    from: &[ReadFrom],
) -> Result<BTreeMap<String, Topic>, SourceError> {
    let topics = looked.map_err(|lacks| lacks.error(SourceFault::Refused))?;
    for from in from {
        lead::check(&from.partition, topics.get(&*from.partition.stream))?;
    }
    Ok(topics)
}

/// Acknowledges every entry of `all`. What is refused for one partition is reported behind the others: their brokers would hold all that comes for as
/// long as it lasts. A broker that does not answer ends it, for it would be waited for as often as it has partitions.
fn acknowledge(
    all: impl Iterator<Item = (Partition, String, place::Entry)>,
    one: impl Fn(&str, place::Entry) -> Result<(), Unanswered>,
) -> Result<(), SourceError> {
    let mut first = Ok(());
    for (partition, name, entry) in all {
        match one(&name, entry) {
            Ok(()) => {}
            Err(lost @ Unanswered::Lost(_)) => return Err(lost.error().at(&partition)),
            Err(refused @ Unanswered::Trouble(_)) => {
                first = first.and(Err(refused.error().at(&partition)));
            }
        }
    }
    first
}

fn named(topics: &BTreeMap<String, Topic>) -> Vec<(Partition, String)> {
    let mut all = Vec::new();
    for (stream, topic) in topics {
        let stream: Arc<str> = stream.as_str().into();
        for index in 0..topic.partitions {
            let partition = Partition::new(stream.clone(), index);
            let name = topic.partition(&partition).expect("the index is below the number of partitions");
            all.push((partition, name));
        }
    }
    all
}

#[async_trait]
impl Source for PulsarSource {
    fn streams(&self) -> Streams {
        Streams::Topics
    }

    fn covers(&self, stream: &str) -> bool {
        self.shared.options.topics.iter().any(|topic| topic == stream)
    }

    async fn partitions(&self) -> Result<Vec<PartitionStart>, SourceError> {
        // A topic that was just created is not known to every broker at once.
        for _ in 1..LOOKS_MAX {
            if let Ok(starts) = self.ask(|shared| shared.partitions(false)).await? {
                return Ok(starts);
            }
            self.shared.runtime.sleep(LOOK_AGAIN_AFTER).await;
        }
        let last = self.ask(|shared| shared.partitions(true)).await?;
        last.map_err(|lacks| lacks.error(SourceFault::Config))
    }

    async fn ends(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        self.ask(|shared| Ok(shared.each(Client::end)?.0)).await
    }

    async fn behind(&self, from: &[(Partition, Position)]) -> Result<Vec<(Partition, u64)>, SourceError> {
        let from: BTreeMap<Partition, Position> = from.iter().cloned().collect();
        self.ask(move |shared| {
            let mut behind = Vec::new();
            for (partition, name) in shared.all(SourceFault::Away)? {
                let Some(next) = from.get(&partition) else { continue };
                let count = shared.client.behind(&name, *next);
                let count = count.map_err(|error| error.error().at(&partition))?;
                behind.extend(count.map(|count| (partition, count)));
            }
            Ok(behind)
        })
        .await
    }

    async fn read(&self, from: Vec<ReadFrom>) -> Result<Box<dyn Reader>, SourceError> {
        Ok(Box::new(self.ask(move |shared| shared.read(from)).await?))
    }

    async fn record(&self, at: ReadFrom) -> Result<Option<RecordBlock>, SourceError> {
        let position = at.next;
        let mut reader = self.read(vec![at]).await?;
        for _ in 0..RECORD_AWAY_MAX {
            match first_record(&mut *reader, position).await {
                Err(error) if error.fault == SourceFault::Away => {}
                result => return result,
            }
        }
        first_record(&mut *reader, position).await
    }

    async fn publish(&self, positions: &[(Partition, Position)]) -> Result<(), SourceError> {
        let positions: BTreeMap<Partition, Position> = positions.iter().cloned().collect();
        self.ask(move |shared| {
            let of = |(partition, name): (Partition, String)| {
                let entry = place::acknowledged(*positions.get(&partition)?)?;
                Some((partition, name, entry))
            };
            let all = shared.all(SourceFault::Away)?.into_iter().filter_map(of);
            acknowledge(all, |name, entry| shared.client.acknowledge(name, entry))
        })
        .await
    }

    fn reader(&self) -> Option<&'static str> {
        Some("subscription")
    }

    async fn published(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        let published = self.ask(|shared| shared.acknowledged(thread::pause)).await?;
        Ok(published.into_iter().filter_map(|(partition, next)| Some((partition, next?))).collect())
    }
}

#[cfg(test)]
mod tests;
