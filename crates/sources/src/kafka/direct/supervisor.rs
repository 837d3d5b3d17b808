//! The thread that knows who leads what.
//!
//! Owns one thread per broker, the way of each partition to its leader, the check of topic ids, new partitions and what
//! the reader is notified of failures. Does not own the records (`broker`). Topics, ids and leaders are asked for by librdkafka.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use dataflow::{Event, Partition, ReadFrom, Runtime, SourceError, SourceFault};

use super::Plan;
use super::broker::{Broker, Command, Lead};
use super::connection::{Connection, Lost};
use super::errors::Trouble;
use super::leaders::{self, Asker, Known};
use super::metadata::Leader;
use crate::kafka::client::{Client, Topic};
use crate::kafka::found;
use crate::kafka::slot::{self, Slot};
use crate::kafka::{CALL_WAIT_MAX, KafkaOptions, no_leader};
use crate::queue::{Closed, Sender};

/// A broker that is away is reported so often, and asked again so soon.
const AWAY_EVERY: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_millis(500);
/// How often the thread looks whether the reader is still there.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A broker that has just started, or is behind, may not know a topic or all of its partitions, or know another one by its name: so many looks in a row must
/// miss one.
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
    Lost { address: String, slots: Vec<Slot>, lost: Lost },
    /// What one broker knows of leaders.
    Leaders(Vec<Leader>),
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
    pub(super) options: KafkaOptions,
    pub(super) plan: Arc<Plan>,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) look: Arc<Client>,
    pub(super) events: Sender<Result<Event, SourceError>>,
    pub(super) messages: mpsc::Receiver<Message>,
    pub(super) reports: mpsc::Sender<Message>,
    /// Partitions without a thread that fetches them.
    pub(super) waiting: Vec<Slot>,
    /// Every partition that is read, as it was recorded.
    pub(super) read: BTreeMap<Partition, ReadFrom>,
    /// Every partition that was there, was reported or is read.
    pub(super) known: BTreeSet<Partition>,
    pub(super) paused: BTreeSet<Partition>,
    /// Partitions that are taken away, and that a broker's thread has not handed back yet.
    pub(super) leaving: BTreeSet<Partition>,
    /// By address. A thread that has ended is taken out when it reports so.
    pub(super) brokers: BTreeMap<String, mpsc::Sender<Command>>,
    /// Where each partition is fetched from, unless it waits.
    pub(super) placed: BTreeMap<Partition, ([u8; 16], String)>,
    pub(super) leaders: Known,
    /// A connection that no thread has yet.
    pub(super) opened: Option<Connection>,
    /// When topics and leaders are inspected next.
    pub(super) look_at: Duration,
    pub(super) misses: u32,
    pub(super) away_reported: Option<Duration>,
}

impl Supervisor {
    /// Serves until the reader is gone or going on would be wrong. `topics` were described a moment ago.
    pub(super) fn run(mut self, topics: &BTreeMap<String, Topic>) {
        self.look_again_in_time();
        // The thread that asks ends with this one.
        let (_end, ended) = mpsc::channel();
        let mut result = self.start_asking(topics, ended).and_then(|()| self.seen(topics));
        // A leader of nothing that is read is not asked again.
        self.opened = None;
        loop {
            match result {
                Ok(()) => {}
                Err(Stop::Closed) => return,
                Err(Stop::Failed(error)) => {
                    tracing::error!(%error, "reading kafka stops");
                    // The threads end when their orders do. The reader may be gone; then nobody asks.
                    self.brokers.clear();
                    let _ = self.events.send(Err(error), 0);
                    return;
                }
            }
            result = self.round();
        }
    }

    fn start_asking(
        &self,
        topics: &BTreeMap<String, Topic>,
        end: mpsc::Receiver<std::convert::Infallible>,
    ) -> Result<(), Stop> {
        let led = topics.values().flat_map(|topic| topic.leaders.values().cloned());
        let named: Vec<String> = self.options.brokers.iter().map(|broker| leaders::address(broker)).collect();
        let brokers: BTreeSet<String> = led.chain(named.iter().cloned()).collect();
        let asker = Asker {
            plan: self.plan.clone(),
            runtime: self.runtime.clone(),
            end,
            reports: self.reports.clone(),
            topics: self.options.topics.clone(),
            every: self.options.look_every,
            named,
            brokers: brokers.into_iter().collect(),
        };
        crate::thread::start("kafka-leaders", move || asker.run()).map_err(Stop::Failed)
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
                if self.read.contains_key(&from.partition) || self.leaving.contains(&from.partition) {
                    return Err(Stop::Failed(SourceError::read_already(&from.partition)));
                }
                self.known.insert(from.partition.clone());
                self.read.insert(from.partition.clone(), from.clone());
                self.waiting.push(Slot::new(from, self.options.record_bytes_max));
                self.look_within(Duration::ZERO);
            }
            Message::Remove(partition) => self.remove(partition)?,
            Message::Pause(partition, is_paused) => {
                if is_paused {
                    self.paused.insert(partition.clone());
                } else {
                    self.paused.remove(&partition);
                }
                for broker in self.brokers.values() {
                    // A thread that has ended hands its partitions back, and they are reported again.
                    let _ = broker.send(Command::Pause(partition.clone(), is_paused));
                }
            }
            Message::Back { slot, trouble } => {
                if let Some(slot) = self.kept(*slot)? {
                    let trouble = self.judged(&slot, trouble);
                    self.displaced(&slot);
                    self.back(slot, trouble)?;
                }
            }
            Message::Leaders(all) => self.follow(all),
            Message::Lost { address, slots, lost } => {
                slots.iter().for_each(|slot| self.displaced(slot));
                if let Lost::TooOld(_) = lost {
                    let message = format!("kafka: {lost}; give the source `fetch: librdkafka`");
                    return Err(Stop::Failed(SourceError::new(SourceFault::Config, message)));
                }
                self.brokers.remove(&address);
                for slot in slots {
                    let kept = self.kept(slot)?;
                    self.waiting.extend(kept);
                }
                self.look_within(AGAIN);
                self.away(format!("kafka is unavailable: {lost}"))?;
            }
        }
        Ok(())
    }

    /// Takes a partition away: at once if no thread fetches it, else as soon as its thread has handed it back, behind its blocks.
    fn remove(&mut self, partition: Partition) -> Result<(), Stop> {
        if self.read.remove(&partition).is_none() {
            return Ok(());
        }
        self.paused.remove(&partition);
        if let Some(at) = self.waiting.iter().position(|slot| slot.from.partition == partition) {
            self.waiting.remove(at);
            return Ok(self.events.send(Ok(Event::Removed { partition }), 0)?);
        }
        let address = self.placed.get(&partition).map(|(_, address)| address);
        if let Some(broker) = address.and_then(|address| self.brokers.get(address)) {
            // A thread that has ended hands its partitions back by itself.
            let _ = broker.send(Command::Release(partition.clone(), "it is taken away".into()));
        }
        self.leaving.insert(partition);
        Ok(())
    }

    /// A partition that a thread has handed back, unless it is taken away.
    fn kept(&mut self, slot: Slot) -> Result<Option<Slot>, Stop> {
        let partition = &slot.from.partition;
        if !self.leaving.remove(partition) {
            return Ok(Some(slot));
        }
        self.placed.remove(partition);
        self.events.send(Ok(Event::Removed { partition: partition.clone() }), 0)?;
        Ok(None)
    }

    /// What its broker says of a partition. One that was replaced as its leader, and goes on to answer, may lack what was read from the newer one: that a
    /// position is out of its range says nothing.
    fn judged(&self, slot: &Slot, trouble: Trouble) -> Trouble {
        let partition = &slot.from.partition;
        let may_lead = self
            .placed
            .get(partition)
            .is_none_or(|(topic, address)| self.leaders.may_lead(*topic, partition.index as i32, address));
        match trouble {
            Trouble::OutOfRange(why) if !may_lead => {
                Trouble::Moved(format!("{why}, at a broker that is not its newest leader"))
            }
            trouble => trouble,
        }
    }

    /// A partition is fetched from nowhere now, and the broker that it was fetched from is no leader for it.
    fn displaced(&mut self, slot: &Slot) {
        let partition = &slot.from.partition;
        if let Some((topic, address)) = self.placed.remove(partition) {
            self.leaders.refute(topic, partition.index as i32, &address);
        }
    }

    /// Takes partitions from brokers that still answer for them although another one leads them by now.
    fn follow(&mut self, all: Vec<Leader>) {
        all.into_iter().for_each(|leader| self.leaders.learn(leader));
        for (partition, (topic, address)) in &self.placed {
            let newest = self.leaders.leader(*topic, partition.index as i32);
            let Some((epoch, leader)) = newest.filter(|(_, leader)| leader != address) else { continue };
            tracing::info!(%partition, epoch, "kafka: `{leader}` leads the partition now, and `{address}` goes on to answer for it");
            if let Some(broker) = self.brokers.get(address) {
                let why = format!("`{leader}` leads it since epoch `{epoch}`");
                // A thread that has ended hands its partitions back by itself.
                let _ = broker.send(Command::Release(partition.clone(), why));
            }
        }
    }

    /// A partition that its broker does not return.
    fn back(&mut self, mut slot: Slot, trouble: Trouble) -> Result<(), Stop> {
        let (partition, next) = (slot.from.partition.clone(), slot.next);
        let trouble = match trouble {
            Trouble::Denied(why) if !slot.is_denied_for_good() => {
                Trouble::Moved(format!("{why}; it is asked for again"))
            }
            trouble => trouble,
        };
        match trouble {
            // A topic that is gone, or another one, shows when its leader is looked for.
            Trouble::Moved(why) | Trouble::Missing(why) => {
                self.waiting.push(slot);
                self.look_within(AGAIN);
                self.away(format!("kafka: `{partition}`: {why}"))
            }
            Trouble::OutOfRange(why) => {
                let range = self.look.watermarks(&partition, CALL_WAIT_MAX).ok();
                let mut error = slot::out_of_range(&partition, next.into(), range);
                error.message = format!("{} ({why})", error.message);
                Err(Stop::Failed(error))
            }
            Trouble::OldFormat(why) => Err(Stop::Failed(slot::old_format(&partition, next, &why))),
            Trouble::Unreadable(why, end) => Err(Stop::Failed(slot::unreadable(&partition, next, &why, end))),
            Trouble::Denied(why) => {
                let message = format!("kafka refuses: `{partition}`: {why}");
                Err(Stop::Failed(SourceError::new(SourceFault::Config, message).at(&partition)))
            }
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

    /// Asks for topics and leaders; checks ids, sends what waits to its leader, reports new partitions.
    fn look(&mut self) -> Result<(), Stop> {
        self.look_again_in_time();
        let events = &self.events;
        let described = self.look.describe(&self.options.topics, CALL_WAIT_MAX, || !events.is_closed());
        if self.events.is_closed() {
            return Err(Stop::Closed);
        }
        let topics = match described {
            Ok(topics) => topics,
            Err(error) => return self.not_described(error),
        };
        self.seen(&topics)
    }

    /// A password that was right when the read began may be on its way to all brokers: not the end. But who may not read a topic any more may mostly not look at
    /// it either; then nothing that waits is fetched, and it is the looks that say so again.
    fn not_described(&mut self, error: SourceError) -> Result<(), Stop> {
        if error.fault == SourceFault::Config && slot::are_denied_for_good(&mut self.waiting) {
            return Err(Stop::Failed(error));
        }
        self.away(error.message)
    }

    fn look_again_in_time(&mut self) {
        let every = if self.waiting.is_empty() { self.options.look_every } else { AGAIN };
        self.look_at = self.runtime.elapsed() + every;
    }

    fn seen(&mut self, topics: &BTreeMap<String, Topic>) -> Result<(), Stop> {
        if let Some((error, _)) = slot::refusal(self.read.values(), topics) {
            self.misses += 1;
            if self.misses >= MISSES_MAX {
                return Err(Stop::Failed(error));
            }
            self.look_within(AGAIN);
            return self.away(format!("kafka: {error}; asking again"));
        }
        self.misses = 0;
        self.place(topics)?;
        // What was added meanwhile is no find.
        while let Ok(message) = self.messages.try_recv() {
            self.take(message)?;
        }
        Ok(found::report(&self.look, topics, &mut self.known, &self.events)?)
    }

    /// Sends what waits to the threads of its leaders.
    fn place(&mut self, topics: &BTreeMap<String, Topic>) -> Result<(), Stop> {
        for mut slot in std::mem::take(&mut self.waiting) {
            let partition = &slot.from.partition;
            let topic = &topics[&*partition.stream];
            let id = super::topic_id(&topic.id);
            // librdkafka tells no epochs, and whom it asked may be the broker that knows nothing of the newest election.
            let newest = id.and_then(|id| self.leaders.leader(id, partition.index as i32));
            let newest = newest.map(|(_, leader)| leader.to_owned());
            let leader = newest.or_else(|| topic.leaders.get(&partition.index).cloned());
            let (Some(leader), Some(id)) = (leader, id) else {
                let message = no_leader(partition).message;
                self.waiting.push(slot);
                self.look_within(AGAIN);
                self.away(message)?;
                continue;
            };
            slot.is_paused = self.paused.contains(partition);
            self.placed.insert(partition.clone(), (id, leader.clone()));
            let lead = Box::new(Lead::new(slot, id));
            if let Err(mpsc::SendError(Command::Take(lead))) = self.broker(&leader)?.send(Command::Take(lead))
            {
                self.displaced(&lead.slot);
                // The thread has just ended; its report is on the way, and then another is started.
                self.waiting.push(lead.slot);
                self.look_within(AGAIN);
            }
        }
        Ok(())
    }

    /// The way to the thread of a broker, which is started if there is none.
    fn broker(&mut self, address: &str) -> Result<&mpsc::Sender<Command>, Stop> {
        if !self.brokers.contains_key(address) {
            let (orders, commands) = mpsc::channel();
            let broker = Broker {
                address: address.to_owned(),
                opened: self.opened.take_if(|opened| opened.address() == address),
                plan: self.plan.clone(),
                runtime: self.runtime.clone(),
                events: self.events.clone(),
                commands,
                reports: self.reports.clone(),
                leads: BTreeMap::new(),
                turn: 0,
                scratch: Vec::new(),
            };
            crate::thread::start("kafka-fetch", move || broker.run()).map_err(Stop::Failed)?;
            self.brokers.insert(address.to_owned(), orders);
        }
        Ok(&self.brokers[address])
    }
}

#[cfg(test)]
mod tests;
