//! The thread that knows which broker serves what.
//!
//! Owns one thread per broker, the way of each partition to its broker, the check that topics exist, new partitions and what the reader is
//! notified of failures. Does not own the messages (`broker`), nor questions (`client`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use dataflow::block::NO_LEADER_EPOCH;
use dataflow::{Event, Partition, PartitionStart, ReadFrom, Runtime, SourceError, SourceFault};

use super::broker::{Broker, Command};
use super::client::{Client, Route, Topic, Unanswered};
use super::connection::Lost;
use super::errors::Trouble;
use super::lead::{self, Slot};
use super::{PulsarOptions, Start, named};
use crate::queue::{Closed, Sender};

/// A broker that is away is reported so often, and asked again so soon.
const AWAY_EVERY: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_millis(500);
/// How often the thread looks whether the reader is still there.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A broker that has just started, or is behind, may not know a topic or all of its partitions: so many looks in a row must miss one.
const MISSES_MAX: u32 = 10;

/// Messages to the supervisor.
pub(super) enum Message {
    /// A partition to read from now on. If that fails, the next event tells.
    Add(ReadFrom),
    /// No more of this one, and say so.
    Remove(Partition),
    /// No more of this one for now (true), or on with it.
    Pause(Partition, bool),
    /// A broker's thread hands a partition back.
    Back { slot: Box<Slot>, trouble: Trouble },
    /// A broker's thread has ended.
    Lost { route: Route, slots: Vec<Slot>, lost: Lost },
    /// Where a partition begins that was not known, if its broker has said so.
    Found(Option<PartitionStart>),
}

enum Stop {
    Closed,
    Failed(SourceError),
}

impl From<Closed> for Stop {
    fn from(Closed: Closed) -> Self {
        Self::Closed
    }
}

/// The state of the thread.
pub(super) struct Supervisor {
    pub(super) options: Arc<PulsarOptions>,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) client: Arc<Client>,
    pub(super) events: Sender<Result<Event, SourceError>>,
    pub(super) messages: mpsc::Receiver<Message>,
    pub(super) reports: mpsc::Sender<Message>,
    /// Partitions that no thread reads.
    pub(super) waiting: Vec<Slot>,
    /// Every partition that is read.
    pub(super) read: BTreeSet<Partition>,
    /// Every partition that was there, was reported or is read.
    pub(super) known: BTreeSet<Partition>,
    /// Partitions that are not known, and that a thread is still asking about.
    pub(super) asked: usize,
    pub(super) paused: BTreeSet<Partition>,
    /// Partitions that are taken away, and that a broker's thread has not handed back yet.
    pub(super) leaving: BTreeSet<Partition>,
    /// Partitions whose subscription was seen to be there.
    pub(super) ensured: BTreeSet<Partition>,
    /// A thread that has ended is taken out when it reports so.
    pub(super) brokers: BTreeMap<Route, mpsc::Sender<Command>>,
    /// By whom each partition is read, unless it waits.
    pub(super) placed: BTreeMap<Partition, Route>,
    /// When topics are inspected next.
    pub(super) look_at: Duration,
    pub(super) misses: u32,
    pub(super) away_reported: Option<Duration>,
}

impl Supervisor {
    /// Serves until the reader is gone or going on would be wrong. `topics` were asked for a moment ago.
    pub(super) fn run(mut self, topics: &BTreeMap<String, Topic>) {
        self.look_again_in_time();
        let mut result = self.seen(topics);
        loop {
            match result {
                Ok(()) => {}
                Err(Stop::Closed) => return,
                Err(Stop::Failed(error)) => {
                    tracing::error!(%error, "reading pulsar stops");
                    // The threads end when their orders do. The reader may be gone; then nobody asks.
                    self.brokers.clear();
                    let _ = self.events.send(Err(error), 0);
                    return;
                }
            }
            result = self.round();
        }
    }

    fn round(&mut self) -> Result<(), Stop> {
        if self.events.is_closed() {
            return Err(Stop::Closed);
        }
        if self.runtime.elapsed() >= self.look_at {
            self.look()?;
        }
        match self.messages.recv_timeout(LOOK_EVERY) {
            Ok(message) => self.take(message),
            Err(mpsc::RecvTimeoutError::Timeout) => Ok(()),
            // One sender is held here.
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(Stop::Closed),
        }
    }

    fn take(&mut self, message: Message) -> Result<(), Stop> {
        match message {
            Message::Add(from) => {
                if self.read.contains(&from.partition) || self.leaving.contains(&from.partition) {
                    return Err(Stop::Failed(SourceError::read_already(&from.partition)));
                }
                self.known.insert(from.partition.clone());
                self.read.insert(from.partition.clone());
                // Its name is filled in when it is known whether the topic has partitions.
                let slot = Slot::new(from, String::new(), self.options.record_bytes_max);
                self.waiting.push(slot.naming_schemas(self.options.names_schemas));
                self.look_within(Duration::ZERO);
            }
            Message::Remove(partition) => self.remove(partition)?,
            Message::Pause(partition, is_paused) => {
                if is_paused {
                    self.paused.insert(partition.clone());
                } else {
                    self.paused.remove(&partition);
                }
                if let Some(broker) = self.placed.get(&partition).and_then(|route| self.brokers.get(route)) {
                    // A thread that has ended hands its partitions back, and they are told again.
                    let _ = broker.send(Command::Pause(partition, is_paused));
                }
            }
            Message::Back { slot, trouble } => {
                if let Some(slot) = self.kept(*slot)? {
                    self.back(slot, trouble)?;
                }
            }
            Message::Lost { route, slots, lost } => {
                self.brokers.remove(&route);
                for slot in slots {
                    let kept = self.kept(slot)?;
                    self.waiting.extend(kept);
                }
                self.look_within(AGAIN);
                self.away(format!("pulsar is unavailable: {lost}"))?;
            }
            Message::Found(found) => {
                self.asked = self.asked.saturating_sub(1);
                // What was added meanwhile is no find.
                if let Some(start) = found.filter(|start| !self.known.contains(&start.partition)) {
                    self.known.insert(start.partition.clone());
                    self.events.send(Ok(Event::Found(start)), 0)?;
                }
            }
        }
        Ok(())
    }

    /// Takes a partition away: at once if no thread reads it, else as soon as its thread has handed it back, behind its blocks.
    fn remove(&mut self, partition: Partition) -> Result<(), Stop> {
        if !self.read.remove(&partition) {
            return Ok(());
        }
        self.paused.remove(&partition);
        if let Some(at) = self.waiting.iter().position(|slot| slot.from.partition == partition) {
            self.waiting.remove(at);
            return Ok(self.events.send(Ok(Event::Removed { partition }), 0)?);
        }
        if let Some(broker) = self.placed.get(&partition).and_then(|route| self.brokers.get(route)) {
            // A thread that has ended hands its partitions back by itself.
            let _ = broker.send(Command::Release(partition.clone()));
        }
        self.leaving.insert(partition);
        Ok(())
    }

    /// A partition that a thread has handed back, unless it is taken away.
    fn kept(&mut self, slot: Slot) -> Result<Option<Slot>, Stop> {
        let partition = &slot.from.partition;
        self.placed.remove(partition);
        if !self.leaving.remove(partition) {
            return Ok(Some(slot));
        }
        self.events.send(Ok(Event::Removed { partition: partition.clone() }), 0)?;
        Ok(None)
    }

    /// A partition that its broker does not return.
    fn back(&mut self, mut slot: Slot, trouble: Trouble) -> Result<(), Stop> {
        let is_final = match &trouble {
            Trouble::Moved(_) => false,
            // A topic that is gone as a whole shows when it is looked for.
            Trouble::Missing(_) => slot.is_deleted_for_good(),
            Trouble::NotHeld(_) => slot.is_lost_for_good(),
            Trouble::Denied(_) => slot.is_denied_for_good(),
            Trouble::Unreadable(_) => true,
        };
        match trouble {
            Trouble::Moved(why) | Trouble::Missing(why) | Trouble::NotHeld(why) | Trouble::Denied(why)
                if !is_final =>
            {
                let partition = slot.from.partition.clone();
                self.waiting.push(slot);
                // Another broker may know better who serves the topic.
                self.client.take_turn();
                self.look_within(AGAIN);
                self.away(format!("pulsar: `{partition}`: {why}; asking again"))
            }
            trouble => Err(Stop::Failed(lead::refusal(&slot, trouble))),
        }
    }

    fn look_within(&mut self, time: Duration) {
        self.look_at = self.look_at.min(self.runtime.elapsed() + time);
    }

    fn away(&mut self, message: String) -> Result<(), Stop> {
        let now = self.runtime.elapsed();
        let is_due = self.away_reported.is_none_or(|reported| now.saturating_sub(reported) >= AWAY_EVERY);
        if is_due && self.events.is_empty() {
            self.away_reported = Some(now);
            self.events.send(Err(SourceError::new(SourceFault::Away, message)), 0)?;
        }
        Ok(())
    }

    /// Asks for topics, sends what waits to its broker, reports new partitions.
    fn look(&mut self) -> Result<(), Stop> {
        self.look_again_in_time();
        match self.client.topics() {
            Ok(topics) => self.seen(&topics),
            // A token that was right when the read began may be renewed at any time: not the end.
            Err(error) => self.away(error.message),
        }
    }

    fn look_again_in_time(&mut self) {
        let every = if self.waiting.is_empty() { self.options.look_every } else { AGAIN };
        self.look_at = self.runtime.elapsed() + every;
    }

    fn seen(&mut self, topics: &BTreeMap<String, Topic>) -> Result<(), Stop> {
        let wrong = |partition: &Partition| lead::check(partition, topics.get(&*partition.stream)).err();
        if let Some(error) = self.read.iter().find_map(wrong) {
            self.misses += 1;
            if self.misses >= MISSES_MAX {
                return Err(Stop::Failed(error));
            }
            self.look_within(AGAIN);
            return self.away(format!("pulsar: {error}; asking again"));
        }
        self.misses = 0;
        self.place(topics)?;
        // What was added meanwhile is not asked about.
        while let Ok(message) = self.messages.try_recv() {
            self.take(message)?;
        }
        self.report(topics)
    }

    /// Sends what waits to the threads of its brokers.
    fn place(&mut self, topics: &BTreeMap<String, Topic>) -> Result<(), Stop> {
        // Brokers that have not answered; those of the other partitions are not to wait for them once more.
        let mut silent = BTreeSet::new();
        // Asked for last by the next look, so that one that is never answered does not keep the others of its broker from being asked for.
        let mut unanswered = Vec::new();
        for mut slot in std::mem::take(&mut self.waiting) {
            let partition = slot.from.partition.clone();
            slot.name = topics
                .get(&*partition.stream)
                .and_then(|topic| topic.partition(&partition))
                .unwrap_or_default();
            let route = match self.route(&partition, &slot.name, &mut silent) {
                Ok(route) => route,
                Err(Unanswered::Trouble(trouble @ Trouble::Denied(_))) if slot.is_denied_for_good() => {
                    return Err(Stop::Failed(lead::refusal(&slot, trouble)));
                }
                Err(Unanswered::Trouble(trouble @ Trouble::Missing(_))) if slot.is_deleted_for_good() => {
                    return Err(Stop::Failed(lead::refusal(&slot, trouble)));
                }
                Err(error) => {
                    match &error {
                        Unanswered::Lost(_) => unanswered.push(slot),
                        Unanswered::Trouble(_) => self.waiting.push(slot),
                    }
                    self.look_within(AGAIN);
                    self.away(error.error().message)?;
                    continue;
                }
            };
            slot.is_paused = self.paused.contains(&partition);
            self.placed.insert(partition.clone(), route.clone());
            if let Err(mpsc::SendError(Command::Take(slot))) =
                self.broker(&route)?.send(Command::Take(Box::new(slot)))
            {
                // The thread has just ended; its report is on the way, and then another is started.
                self.placed.remove(&partition);
                self.waiting.push(*slot);
                self.look_within(AGAIN);
            }
        }
        self.waiting.append(&mut unanswered);
        Ok(())
    }

    /// Who serves a partition. The first time, it is made sure that the broker holds what is not read.
    fn route(
        &mut self,
        partition: &Partition,
        name: &str,
        silent: &mut BTreeSet<Route>,
    ) -> Result<Route, Unanswered> {
        let route = self.client.route(name)?;
        if self.ensured.contains(partition) {
            return Ok(route);
        }
        if silent.contains(&route) {
            let why = format!("`{}`, its broker, does not answer", route.address.authority());
            return Err(Unanswered::Trouble(Trouble::Moved(why)));
        }
        if let Err(error) = self.client.ensure(&route, name) {
            if let Unanswered::Lost(_) = error {
                silent.insert(route);
            }
            return Err(error);
        }
        self.ensured.insert(partition.clone());
        Ok(route)
    }

    /// Asks where every partition begins that is not known, to report it. On a thread of its own: a broker that is silent would hold up what has moved.
    fn report(&mut self, topics: &BTreeMap<String, Topic>) -> Result<(), Stop> {
        let mut new = named(topics);
        new.retain(|(partition, _)| !self.known.contains(partition));
        if self.asked > 0 || new.is_empty() {
            return Ok(());
        }
        let (client, reports, asked) = (self.client.clone(), self.reports.clone(), new.len());
        let ask = move || {
            for (partition, name) in new {
                // One without a broker yet is found again by a later look.
                if reports.send(Message::Found(beginning(&client, partition, &name))).is_err() {
                    // Nobody reads any more.
                    return;
                }
            }
        };
        match crate::thread::start("pulsar-find", ask) {
            Ok(()) => self.asked = asked,
            Err(error) => self.away(error.message)?,
        }
        Ok(())
    }

    /// The way to the thread of a broker, which is started if there is none.
    fn broker(&mut self, route: &Route) -> Result<&mpsc::Sender<Command>, Stop> {
        if !self.brokers.contains_key(route) {
            let (orders, commands) = mpsc::channel();
            let broker = Broker {
                route: route.clone(),
                options: self.options.clone(),
                runtime: self.runtime.clone(),
                events: self.events.clone(),
                commands,
                reports: self.reports.clone(),
                leads: BTreeMap::new(),
                consumers: BTreeMap::new(),
                ready: Vec::new(),
                scratch: Vec::new(),
                expire_at: Duration::ZERO,
                held_up: false,
            };
            crate::thread::start("pulsar-read", move || broker.run()).map_err(Stop::Failed)?;
            self.brokers.insert(route.clone(), orders);
        }
        Ok(&self.brokers[route])
    }
}

fn beginning(client: &Client, partition: Partition, name: &str) -> Option<PartitionStart> {
    let (next, first) = client.range(name, Start::Earliest).ok()?;
    Some(PartitionStart { partition, identity: String::new(), next, first, leader_epoch: NO_LEADER_EPOCH })
}

#[cfg(test)]
mod tests;
