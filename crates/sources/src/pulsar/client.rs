//! The rare questions: which topics there are, who serves them, where they begin and end, and how far a subscription is.
//!
//! Owns connections for these, kept until they fail; of several callers that ask one broker at once each has its own. Does not own reading (`broker`). Blocks, so
//! callers are threads.
//!
//! A question about messages is asked by a consumer of its own without a cursor, which leaves nothing behind.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dataflow::{Partition, Position, Runtime, SourceError, SourceFault};

use super::address::Address;
use super::connection::{Connection, Lost};
use super::errors::{self, Trouble};
use super::frame::Frame;
use super::messages::{
    Ack, CUMULATIVE, Command, EARLIEST, EXCLUSIVE, FAILOVER, Failure, Flow, GetSchema, Kind, LOOKUP_CONNECT,
    LOOKUP_REDIRECT, Lookup, MessageId, OfConsumer, PARTITIONS_FAILED, Partitions, Schema, SchemaResponse,
    StatsOf, Subscribe, error,
};
use super::place::{self, Entry, Proof};
use super::schema::{BrokerSchema, SchemaKind};
use super::{PulsarOptions, Start, topic};

/// Brokers that a look-up is sent on to, one after the other; as many as the clients of Pulsar follow.
const REDIRECTS_MAX: u32 = 20;
/// Messages that are looked through for a time, in one go.
const LOOKED_THROUGH: i64 = 1_000;
/// Seconds by which a look for a time begins before it: brokers count them by a clock that is not ours. The next one is for a clock that is further ahead.
const MARGINS_S: [i64; 4] = [2, 60, 3_600, 86_400];

/// A topic of the pipeline file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Topic {
    pub(super) is_partitioned: bool,
    /// At least 1.
    pub(super) partitions: u32,
}

impl Topic {
    /// The name that a broker knows a partition by; `None` if there is no such partition.
    pub(super) fn partition(&self, partition: &Partition) -> Option<String> {
        let name = || topic::of_partition(&partition.stream, partition.index, self.is_partitioned);
        (partition.index < self.partitions).then(name)
    }
}

/// A broker, and the proxy before it if there is one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Route {
    pub(super) address: Address,
    pub(super) broker: Option<Address>,
}

/// Why a question about one partition has no answer.
pub(super) enum Unanswered {
    Lost(Lost),
    Trouble(Trouble),
}

impl From<Lost> for Unanswered {
    fn from(lost: Lost) -> Self {
        Self::Lost(lost)
    }
}

impl Unanswered {
    /// The same for whoever asked.
    pub(super) fn error(self) -> SourceError {
        let away = |why: &dyn std::fmt::Display| {
            SourceError::new(SourceFault::Away, format!("pulsar is unavailable: {why}"))
        };
        let refused = |why: &dyn std::fmt::Display| {
            SourceError::new(SourceFault::Config, format!("pulsar refuses: {why}"))
        };
        match self {
            Self::Lost(lost @ Lost::Denied { .. }) => refused(&lost),
            Self::Lost(lost @ Lost::NoToken(_)) => {
                SourceError::new(SourceFault::Config, format!("pulsar cannot be logged in to: {lost}"))
            }
            Self::Lost(lost) => away(&lost),
            Self::Trouble(Trouble::Denied(why)) => refused(&why),
            Self::Trouble(
                Trouble::Moved(why)
                | Trouble::Missing(why)
                | Trouble::NotHeld(why)
                | Trouble::Unreadable(why),
            ) => away(&why),
        }
    }
}

type Answer<T> = Result<T, Unanswered>;

/// Asks.
pub(super) struct Client {
    options: Arc<PulsarOptions>,
    runtime: Arc<dyn Runtime>,
    connections: Mutex<BTreeMap<Route, Connection>>,
    /// Which of the service's addresses is asked next.
    turn: AtomicUsize,
}

impl Client {
    /// A client that is connected to nobody yet.
    pub(super) fn new(options: Arc<PulsarOptions>, runtime: Arc<dyn Runtime>) -> Self {
        Self { options, runtime, connections: Mutex::default(), turn: AtomicUsize::new(0) }
    }

    /// All topics of the pipeline file that exist.
    pub(super) fn topics(&self) -> Result<BTreeMap<String, Topic>, SourceError> {
        let mut topics = BTreeMap::new();
        for name in &self.options.topics {
            if let Some(topic) = self.topic(name).map_err(Unanswered::error)? {
                topics.insert(name.clone(), topic);
            }
        }
        Ok(topics)
    }

    /// A topic; `None` if it does not exist.
    fn topic(&self, stream: &str) -> Answer<Option<Topic>> {
        let name = topic::whole(stream);
        self.at_service(|connection| {
            let request = connection.number();
            let question = Partitions { topic: name.clone(), request, create: Some(false) };
            let kind = Kind::PartitionedMetadata as i32;
            let command = Command { kind, partitions: Some(question), ..Command::default() };
            let answer = connection.ask(&command, &|| true, |command| {
                command.partitions_response.filter(|answer| answer.request == request)
            })?;
            if answer.response == Some(PARTITIONS_FAILED) || answer.error.is_some() {
                let code = answer.error.unwrap_or_default();
                if code == error::TOPIC_NOT_FOUND {
                    return Ok(None);
                }
                return Err(Unanswered::Trouble(errors::of(code, &answer.message.unwrap_or_default())));
            }
            let partitions = answer.partitions.unwrap_or_default();
            Ok(Some(Topic { is_partitioned: partitions > 0, partitions: partitions.max(1) }))
        })
    }

    /// The version of a topic's schema, or the newest without one; `None` if there is none. Any broker answers for any topic.
    pub(super) fn schema(&self, stream: &str, version: Option<Vec<u8>>) -> Answer<Option<BrokerSchema>> {
        let name = topic::whole(stream);
        self.at_service(|connection| {
            let request = connection.number();
            let question = GetSchema { request, topic: name.clone(), version: version.clone() };
            let kind = Kind::GetSchema as i32;
            let command = Command { kind, get_schema: Some(question), ..Command::default() };
            let answer = connection.ask(&command, &|| true, |command| {
                let answer = command.schema.filter(|answer| answer.request == request).map(Ok);
                answer.or_else(|| command.error.filter(|failure| failure.request == request).map(Err))
            })?;
            let failure = match answer {
                Ok(SchemaResponse { error: Some(code), message, .. }) => {
                    Failure { error: code, message: message.unwrap_or_default(), request }
                }
                Ok(SchemaResponse { schema, .. }) => {
                    let found = |schema: Schema| BrokerSchema {
                        kind: SchemaKind::of(schema.kind),
                        data: schema.data,
                    };
                    return Ok(schema.map(found));
                }
                Err(failure) => failure,
            };
            match failure.error {
                error::TOPIC_NOT_FOUND => Ok(None),
                code => Err(Unanswered::Trouble(errors::of(code, &failure.message))),
            }
        })
    }

    /// The broker that serves a topic (a partition, if it has some), by the name that brokers know it by.
    pub(super) fn route(&self, name: &str) -> Answer<Route> {
        let (mut route, mut authoritative) = (self.service(), false);
        for _ in 0..REDIRECTS_MAX {
            let answer = self.at(&route, |connection| {
                let request = connection.number();
                let question = Lookup {
                    topic: name.to_owned(),
                    request,
                    authoritative: Some(authoritative),
                    listener: self.options.listener.clone(),
                };
                let command =
                    Command { kind: Kind::Lookup as i32, lookup: Some(question), ..Command::default() };
                Ok(connection.ask(&command, &|| true, |command| {
                    command.lookup_response.filter(|answer| answer.request == request)
                })?)
            })?;
            let url = if self.options.tls.is_some() { &answer.url_tls } else { &answer.url };
            let broker = url.as_deref().and_then(Address::of_url);
            match (answer.response, broker) {
                (Some(LOOKUP_CONNECT | LOOKUP_REDIRECT), None) => {
                    let why =
                        "the broker names no address of the topic's broker that fits `service`".to_owned();
                    return Err(Unanswered::Trouble(Trouble::Moved(why)));
                }
                (Some(LOOKUP_CONNECT), Some(broker)) if answer.through_service_url == Some(true) => {
                    return Ok(Route { broker: Some(broker), ..self.service() });
                }
                (Some(LOOKUP_CONNECT), Some(broker)) => return Ok(Route { address: broker, broker: None }),
                (Some(LOOKUP_REDIRECT), Some(broker)) => {
                    authoritative = answer.authoritative.unwrap_or_default();
                    route = Route { address: broker, broker: None };
                }
                _ => {
                    let (code, why) = (answer.error.unwrap_or_default(), answer.message.unwrap_or_default());
                    return Err(Unanswered::Trouble(errors::of(code, &why)));
                }
            }
        }
        let why = format!("the brokers answered with more than `{REDIRECTS_MAX}` lookup redirects");
        Err(Unanswered::Trouble(Trouble::Moved(why)))
    }

    /// Where a partition begins: at `start`, and at its first message that is held.
    pub(super) fn range(&self, name: &str, start: Start) -> Answer<(Position, Position)> {
        let route = self.route(name)?;
        self.at(&route, |connection| {
            let held = by_consumer(connection, self.look(name, Proof::Any, None), |connection, consumer| {
                let Some(last) = last(connection, consumer)?.0 else { return Ok(None) };
                Ok(Some((one(connection, consumer)?.0, last)))
            })?;
            let Some((first, last)) = held else { return Ok((0, 0)) };
            let next = match start {
                Start::Earliest => first.position(),
                Start::Latest => last.end(),
                Start::Time(time_ms) => self.at_time(connection, name, last, time_ms)?,
            };
            Ok((next, first.position()))
        })
    }

    /// The first entry that was published at `time_ms` or later, or the place after `last`, the newest one.
    fn at_time(
        &self,
        connection: &mut Connection,
        name: &str,
        last: Entry,
        time_ms: i64,
    ) -> Answer<Position> {
        let (_, newest_ms) = by_consumer(connection, self.look(name, Proof::Entry(last), None), one)?;
        if newest_ms < time_ms {
            return Ok(last.end());
        }
        // Brokers take an age in seconds.
        let age = self.runtime.wall_ms().saturating_sub(time_ms) / 1_000;
        let mut found = last;
        for margin in MARGINS_S {
            let age = age.saturating_add(margin).max(1).unsigned_abs();
            found = self.since(connection, name, age, (last, time_ms))?;
            if !self.is_late(connection, name, found, time_ms)? {
                break;
            }
        }
        Ok(found.position())
    }

    /// The first entry that was published at a time or later, or `last`, of those that a broker takes to be at most `age` seconds old.
    fn since(
        &self,
        connection: &mut Connection,
        name: &str,
        age: u64,
        (last, time_ms): (Entry, i64),
    ) -> Answer<Entry> {
        by_consumer(connection, self.look(name, Proof::Any, Some(age)), |connection, consumer| {
            // Brokers count every message of a batch, and send an entry whole: below 0 if it had more than were left.
            let mut left: i64 = 0;
            loop {
                if left <= 0 {
                    let more = LOOKED_THROUGH.saturating_sub(left);
                    flow(connection, consumer, u32::try_from(more).unwrap_or(u32::MAX))?;
                    left = LOOKED_THROUGH;
                }
                let Delivered { entry, published_ms, messages } = delivered(connection, consumer)?;
                left = left.saturating_sub(messages);
                if published_ms >= time_ms || entry >= last {
                    return Ok(entry);
                }
            }
        })
    }

    /// Whether the entry before `found` was published at the time or later too: the broker's clock is ahead, and the look began too late.
    fn is_late(&self, connection: &mut Connection, name: &str, found: Entry, time_ms: i64) -> Answer<bool> {
        let Some(before) = found.entry.checked_sub(1) else { return Ok(false) };
        let before = Entry { entry: before, ..found };
        let (entry, published_ms) =
            by_consumer(connection, self.look(name, Proof::Entry(before), None), one)?;
        // One that is not for consumers, or not held any more, is stepped over.
        Ok(entry < found && published_ms >= time_ms)
    }

    /// The position after a partition's newest message.
    pub(super) fn end(&self, name: &str) -> Answer<Position> {
        let route = self.route(name)?;
        self.at(&route, |connection| {
            let (last, _) = by_consumer(connection, self.look(name, Proof::Any, None), last)?;
            Ok(place::end(last))
        })
    }

    /// Entries of a partition at `next` and behind it: what a consumer has before it that begins there and leaves nothing behind. `None` if the
    /// broker does not say it.
    pub(super) fn behind(&self, name: &str, next: Position) -> Answer<Option<u64>> {
        let route = self.route(name)?;
        let proof = Proof::of(next);
        self.at(&route, |connection| {
            let answer = by_consumer(connection, self.look(name, proof, None), |connection, consumer| {
                let request = connection.number();
                let stats = Some(StatsOf { request, consumer });
                let command = Command { kind: Kind::ConsumerStats as i32, stats, ..Command::default() };
                Ok(connection.ask(&command, &|| true, |command| {
                    command.stats_response.filter(|answer| answer.request == request)
                })?)
            })?;
            match answer.error {
                None => Ok(answer.backlog.map(|backlog| backlog.saturating_sub(proof.entries(next)))),
                Some(code) => Err(Unanswered::Trouble(errors::of(code, &answer.message.unwrap_or_default()))),
            }
        })
    }

    /// Creates the subscription for monitoring tools, if it is not there: the broker then holds what it has not acknowledged.
    /// `route` is to its broker.
    pub(super) fn ensure(&self, route: &Route, name: &str) -> Answer<()> {
        self.at(route, |connection| {
            let consumer = subscribe(connection, self.own(name))?;
            close(connection, consumer)
        })
    }

    /// Acknowledges all up to `entry`, for monitoring tools.
    pub(super) fn acknowledge(&self, name: &str, entry: Entry) -> Answer<()> {
        let route = self.route(name)?;
        self.at(&route, |connection| {
            let consumer = subscribe(connection, self.own(name))?;
            let request = connection.number();
            let id = Some(MessageId { batch_index: None, ..entry.id() });
            let ack = Ack { consumer, kind: CUMULATIVE, id, request: Some(request) };
            let command = Command { kind: Kind::Ack as i32, ack: Some(ack), ..Command::default() };
            let answer = connection.ask(&command, &|| true, |command| {
                command.ack_response.filter(|answer| answer.request == Some(request))
            })?;
            close(connection, consumer)?;
            match answer.error {
                None => Ok(()),
                Some(code) => Err(Unanswered::Trouble(errors::of(code, &answer.message.unwrap_or_default()))),
            }
        })
    }

    /// The position after what we have acknowledged for monitoring tools; `None` if nothing is. We never acknowledge the newest entry, so
    /// where it is acknowledged somebody else has done so: skipped it, or truncated the topic.
    pub(super) fn acknowledged(&self, name: &str) -> Answer<Option<Position>> {
        let route = self.route(name)?;
        self.at(&route, |connection| {
            let (last, acknowledged) = by_consumer(connection, self.own(name), last)?;
            Ok(acknowledged.filter(|entry| last.is_some_and(|last| *entry < last)).map(Entry::end))
        })
    }

    /// A consumer without a cursor, to look at messages. With an `age` in seconds it begins with what was published since then.
    fn look(&self, name: &str, from: Proof, age: Option<u64>) -> Subscribe {
        Subscribe {
            topic: name.to_owned(),
            subscription: reader_name(&self.options.subscription, &*self.runtime),
            kind: EXCLUSIVE,
            durable: Some(false),
            start: Some(from.start()),
            age_seconds: age,
            create_topic: Some(false),
            ..Subscribe::default()
        }
    }

    /// A consumer of the subscription for monitoring tools. Failover, so that two of them do not refuse each other.
    fn own(&self, name: &str) -> Subscribe {
        Subscribe {
            topic: name.to_owned(),
            subscription: self.options.subscription.clone(),
            kind: FAILOVER,
            durable: Some(true),
            initial_position: Some(EARLIEST),
            create_topic: Some(false),
            ..Subscribe::default()
        }
    }

    /// The next of the service's addresses.
    fn service(&self) -> Route {
        let addresses = &self.options.addresses;
        let turn = self.turn.load(Ordering::Relaxed);
        Route { address: addresses[turn % addresses.len()].clone(), broker: None }
    }

    /// Another address is asked next.
    pub(super) fn take_turn(&self) {
        self.turn.fetch_add(1, Ordering::Relaxed);
    }

    /// Asks one of the service's addresses, and another next time if that fails.
    fn at_service<T>(&self, question: impl FnMut(&mut Connection) -> Answer<T>) -> Answer<T> {
        self.at(&self.service(), question)
    }

    /// Asks a broker, by a connection that is there or a new one. A connection that has failed is asked no more, and one that was old when
    /// it failed is replaced once: brokers close what is idle.
    fn at<T>(&self, route: &Route, mut question: impl FnMut(&mut Connection) -> Answer<T>) -> Answer<T> {
        // Taken out, and nothing is locked while it is asked: who asks another broker does not wait for one that is silent.
        let kept = self.connections().remove(route);
        if let Some(mut connection) = kept {
            match question(&mut connection) {
                Err(Unanswered::Lost(_)) => {}
                answer => {
                    self.connections().insert(route.clone(), connection);
                    return answer;
                }
            }
        }
        let opened =
            Connection::open(&route.address, route.broker.as_ref(), &self.options, &self.runtime, &|| true);
        let mut connection = opened.inspect_err(|_| self.take_turn())?;
        let answer = question(&mut connection);
        match answer {
            Err(Unanswered::Lost(_)) => self.take_turn(),
            _ => drop(self.connections().insert(route.clone(), connection)),
        }
        answer
    }

    fn connections(&self) -> MutexGuard<'_, BTreeMap<Route, Connection>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of a subscription that nobody else has, and that ends with its consumer.
pub(super) fn reader_name(subscription: &str, runtime: &dyn Runtime) -> String {
    format!("{subscription}-reader-{:016x}", runtime.random() as u64)
}

/// Asks by a consumer of its own, and closes it whatever the answer is: the connection is kept, and the consumer would stay with it.
fn by_consumer<T>(
    connection: &mut Connection,
    how: Subscribe,
    question: impl FnOnce(&mut Connection, u64) -> Answer<T>,
) -> Answer<T> {
    let consumer = subscribe(connection, how)?;
    match question(connection, consumer) {
        Ok(answer) => {
            close(connection, consumer)?;
            Ok(answer)
        }
        Err(Unanswered::Trouble(trouble)) => match close(connection, consumer) {
            Err(lost @ Unanswered::Lost(_)) => Err(lost),
            // A broker that hands the topic over has closed it by itself.
            Ok(()) | Err(Unanswered::Trouble(_)) => Err(Unanswered::Trouble(trouble)),
        },
        Err(lost @ Unanswered::Lost(_)) => Err(lost),
    }
}

/// Subscribes, and gives the consumer's number.
fn subscribe(connection: &mut Connection, subscribe: Subscribe) -> Answer<u64> {
    let (consumer, request) = (connection.number(), connection.number());
    let subscribe = Subscribe { consumer, request, ..subscribe };
    let command = Command { kind: Kind::Subscribe as i32, subscribe: Some(subscribe), ..Command::default() };
    succeeded(connection, &command, request)?;
    Ok(consumer)
}

fn succeeded(connection: &mut Connection, command: &Command, request: u64) -> Answer<()> {
    let answer = connection.ask(command, &|| true, |command| match (command.success, command.error) {
        (Some(success), _) if success.request == request => Some(Ok(())),
        (_, Some(failure)) if failure.request == request => Some(Err(failure)),
        _ => None,
    })?;
    answer.map_err(|failure| Unanswered::Trouble(errors::of(failure.error, &failure.message)))
}

fn close(connection: &mut Connection, consumer: u64) -> Answer<()> {
    let request = connection.number();
    let close = OfConsumer { consumer, request: Some(request) };
    let command =
        Command { kind: Kind::CloseConsumer as i32, close_consumer: Some(close), ..Command::default() };
    succeeded(connection, &command, request)
}

fn flow(connection: &mut Connection, consumer: u64, permits: u32) -> Answer<()> {
    let flow = Some(Flow { consumer, permits });
    Ok(connection.say(&Command { kind: Kind::Flow as i32, flow, ..Command::default() })?)
}

/// The newest entry of the consumer's topic, and the newest that its subscription has acknowledged.
fn last(connection: &mut Connection, consumer: u64) -> Answer<(Option<Entry>, Option<Entry>)> {
    let request = connection.number();
    let get = OfConsumer { consumer, request: Some(request) };
    let command = Command { kind: Kind::GetLastMessageId as i32, get_last: Some(get), ..Command::default() };
    let answer = connection.ask(&command, &|| true, |command| match (command.last, command.error) {
        (Some(last), _) if last.request == request => Some(Ok(last)),
        (_, Some(failure)) if failure.request == request => Some(Err(failure)),
        _ => None,
    })?;
    let last = answer.map_err(|failure| Unanswered::Trouble(errors::of(failure.error, &failure.message)))?;
    let entry = |id: Option<MessageId>| id.as_ref().and_then(Entry::of);
    Ok((entry(last.id), entry(last.acknowledged)))
}

/// The first entry for a consumer, and when it was published, in Unix milliseconds.
fn one(connection: &mut Connection, consumer: u64) -> Answer<(Entry, i64)> {
    flow(connection, consumer, 1)?;
    let Delivered { entry, published_ms, .. } = delivered(connection, consumer)?;
    Ok((entry, published_ms))
}

/// An entry that has come for a consumer which looks at messages.
struct Delivered {
    entry: Entry,
    /// In Unix milliseconds.
    published_ms: i64,
    /// As many as the broker counts.
    messages: i64,
}

/// The next entry for a consumer. Waits for it as for any answer.
fn delivered(connection: &mut Connection, consumer: u64) -> Answer<Delivered> {
    for _ in 0..DELIVERY_LOOKS_MAX {
        let Some(range) = connection.receive()? else { continue };
        match connection.read(range)? {
            Frame::Delivery { consumer: of, entry, body } if of == consumer => {
                let published = super::entry::published(body).map_err(|why| connection.failed(&why))?;
                let (published_ms, messages) = published;
                return Ok(Delivered { entry, published_ms, messages });
            }
            Frame::Command(command)
                if command.close_consumer.as_ref().is_some_and(|of| of.consumer == consumer) =>
            {
                return Err(Unanswered::Trouble(Trouble::Moved("the broker hands the topic over".into())));
            }
            _ => {}
        }
    }
    Err(connection.failed(&"the broker delivers nothing of what it says to hold").into())
}

/// A look takes a tenth of a second if nothing comes.
const DELIVERY_LOOKS_MAX: u32 = 300;

#[cfg(test)]
mod tests;
