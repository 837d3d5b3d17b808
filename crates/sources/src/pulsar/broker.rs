//! The thread that reads what one broker serves.
//!
//! Owns the hot path: frames are received into one buffer, and each body is copied once, into its block. Does not own who serves what, nor
//! new partitions (`supervisor`), nor what becomes of an entry (`lead`).
//!
//! Each partition has a consumer without a cursor, which begins with the newest entry that was read before. A broker sends what the permits
//! allow, in order. When the caller does not take blocks, nothing more is received: the socket's bounds hold the broker up.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use dataflow::block::NO_LEADER_EPOCH;
use dataflow::{Event, Partition, Runtime, SourceError};

use super::PulsarOptions;
use super::client::{Route, reader_name};
use super::connection::{Connection, Lost};
use super::entry::{self, EntryError};
use super::errors::{self, Trouble};
use super::frame::Frame;
use super::lead::{self, Came, Lead, Slot, Standing};
use super::messages::{
    Ack, CUMULATIVE, Command as Wire, EXCLUSIVE, Flow, Kind, MessageId, OfConsumer, Subscribe,
};
use super::place::Entry;
use super::reading::{Reading, tell_given_up};
use super::supervisor::Message;
use crate::queue::{Closed, Sender};

/// Messages that a broker may send before it is told to send more. They are held by its own buffers and the sockets', for nothing is received
/// while the caller is behind.
const PERMITS: u64 = 100_000;
/// A thread that has nothing to read looks for orders so often.
const IDLE: Duration = Duration::from_millis(100);
/// While blocks wait for room, the broker is shown so often that we live.
const ROOM_WAIT: Duration = Duration::from_secs(5);
/// What must come first comes at once, unless it is read from slow storage. A look takes a tenth of a second.
const LOOKS_MAX: u32 = 300;
/// Memory for unpacked entries that is kept for the next one.
const SCRATCH_KEPT_MAX: usize = 16 << 20;

/// Orders to a broker's thread.
pub(super) enum Command {
    /// Read this too.
    Take(Box<Slot>),
    /// No more of this one for now (true), or on with it.
    Pause(Partition, bool),
    /// Hand this one back.
    Release(Partition),
}

/// The state of the thread.
pub(super) struct Broker {
    pub(super) route: Route,
    pub(super) options: Arc<PulsarOptions>,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) events: Sender<Result<Event, SourceError>>,
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) reports: mpsc::Sender<Message>,
    pub(super) leads: BTreeMap<Partition, Lead>,
    /// Which partition a consumer is for.
    pub(super) consumers: BTreeMap<u64, Partition>,
    /// What is to be handed out.
    pub(super) ready: Vec<Event>,
    pub(super) scratch: Vec<u8>,
}

/// Why the thread ends.
enum Stop {
    /// The reader is gone, or the supervisor.
    Closed,
    /// The connection is of no use any more.
    Lost(Lost),
}

impl From<Closed> for Stop {
    fn from(Closed: Closed) -> Self {
        Self::Closed
    }
}

impl From<Lost> for Stop {
    fn from(lost: Lost) -> Self {
        match lost {
            Lost::Closed => Self::Closed,
            lost => Self::Lost(lost),
        }
    }
}

/// What a frame asks for, once it was read.
enum Next {
    Nothing,
    /// Subscribe to this one once more.
    Again(Partition),
    /// Hand this one back.
    Back(Partition, Trouble),
    /// Connect anew: what comes behind a frame that is wrong cannot be told apart.
    Reconnect(String),
}

impl Broker {
    /// Reads until the reader is gone or the connection is; then hands back what it had.
    pub(super) fn run(mut self) {
        let Err(stop) = self.read_on();
        let Stop::Lost(lost) = stop else { return };
        let slots = std::mem::take(&mut self.leads).into_values().map(|lead| lead.slot).collect();
        // The supervisor is gone only if the reader is.
        let _ = self.reports.send(Message::Lost { route: self.route.clone(), slots, lost });
        // Orders may be on their way until the supervisor has read that and lets go of this thread.
        while let Ok(command) = self.commands.recv() {
            if let Command::Take(slot) = command {
                let trouble = Trouble::Moved("the connection was lost".into());
                let _ = self.reports.send(Message::Back { slot, trouble });
            }
        }
    }

    fn read_on(&mut self) -> Result<std::convert::Infallible, Stop> {
        let events = self.events.clone();
        let is_wanted = || !events.is_closed();
        let Route { address, broker } = self.route.clone();
        let mut connection =
            Connection::open(&address, broker.as_ref(), &self.options, &self.runtime, &is_wanted)?;
        loop {
            self.obey(&mut connection)?;
            if self.consumers.is_empty() {
                connection.live()?;
                self.wait(&mut connection)?;
            }
            let Some(frame) = connection.receive()? else {
                self.idle(&mut connection)?;
                continue;
            };
            match self.take(&connection, frame)? {
                Next::Nothing => {}
                Next::Again(partition) => self.subscribe(&mut connection, &partition)?,
                Next::Back(partition, trouble) => self.hand_back(&mut connection, &partition, trouble)?,
                Next::Reconnect(why) => return Err(connection.failed(&why).into()),
            }
            if !self.ready.is_empty() {
                self.hand_out(&mut connection)?;
            }
            if !connection.has_frame() {
                self.all_taken(&mut connection)?;
            }
        }
    }

    /// Reads a frame.
    fn take(&mut self, connection: &Connection, frame: Range<usize>) -> Result<Next, Stop> {
        match connection.read(frame)? {
            Frame::Delivery { consumer, entry, body } => Ok(self.deliver(consumer, entry, body)),
            Frame::Command(command) => Ok(self.heard(*command)),
        }
    }

    /// Reads an entry.
    fn deliver(&mut self, consumer: u64, at: Entry, body: &[u8]) -> Next {
        // What was on its way when its consumer was given up comes again by the next one.
        let Some(partition) = self.consumers.get(&consumer) else { return Next::Nothing };
        let Some(lead) = self.leads.get_mut(partition) else { return Next::Nothing };
        let from = match lead.came(at) {
            Came::Read { from } => from,
            Came::Skip => {
                lead.permits = lead.permits.saturating_sub(1);
                return Next::Nothing;
            }
            Came::Prove => return Next::Again(partition.clone()),
            Came::Refuse(trouble) => return Next::Back(partition.clone(), trouble),
        };
        let mut reading = Reading {
            slot: &mut lead.slot,
            ready: &mut self.ready,
            scratch: &mut self.scratch,
            options: &self.options,
        };
        match reading.came(at, body, from) {
            Ok(messages) => {
                lead.permits = lead.permits.saturating_sub(messages);
                tell_given_up(&mut lead.slot);
                Next::Nothing
            }
            Err((at, why)) => {
                let is_of_the_frame = matches!(why, EntryError::Frame(_));
                let why = format!("entry `{}:{}`: {why}", at.ledger, at.entry);
                match is_of_the_frame && !lead.slot.is_garbled_for_good(at) {
                    true => Next::Reconnect(why),
                    false => {
                        let why = format!("{why}. Or {}", entry::way_behind(partition, at));
                        Next::Back(partition.clone(), Trouble::Unreadable(why))
                    }
                }
            }
        }
    }

    /// Reads a command that is no entry.
    fn heard(&mut self, command: Wire) -> Next {
        match command.kind() {
            Kind::Success => {
                let request = command.success.unwrap_or_default().request;
                if let Some(lead) = self.leads.values_mut().find(|lead| lead.subscribing == Some(request)) {
                    lead.subscribing = None;
                }
                Next::Nothing
            }
            Kind::Error => {
                let failure = command.error.unwrap_or_default();
                let of = |lead: &Lead| [lead.subscribing, lead.asked].contains(&Some(failure.request));
                match self.leads.iter().find(|(_, lead)| of(lead)) {
                    Some((partition, _)) => {
                        Next::Back(partition.clone(), errors::of(failure.error, &failure.message))
                    }
                    None => Next::Nothing,
                }
            }
            Kind::GetLastMessageIdResponse => self.last(&command.last.unwrap_or_default()),
            Kind::CloseConsumer => {
                let consumer = command.close_consumer.unwrap_or_default().consumer;
                match self.consumers.get(&consumer) {
                    Some(partition) => {
                        let why = "the broker hands the topic over".to_owned();
                        Next::Back(partition.clone(), Trouble::Moved(why))
                    }
                    None => Next::Nothing,
                }
            }
            Kind::ReachedEndOfTopic => {
                let consumer = command.reached_end.unwrap_or_default().consumer;
                let partition = self.consumers.get(&consumer);
                if let Some(lead) = partition.and_then(|partition| self.leads.get_mut(partition)) {
                    lead.is_terminated = true;
                    // The end is reported once more, as that of the topic.
                    lead.reported = None;
                }
                Next::Nothing
            }
            _ => Next::Nothing,
        }
    }

    /// The newest entry of a topic.
    fn last(&mut self, last: &super::messages::Last) -> Next {
        let of = |(_, lead): &(&Partition, &mut Lead)| lead.asked == Some(last.request);
        let Some((partition, lead)) = self.leads.iter_mut().find(of) else { return Next::Nothing };
        lead.asked = None;
        match lead.heard(last.id.as_ref().and_then(Entry::of)) {
            Standing::Behind => Next::Nothing,
            Standing::Refuse(trouble) => Next::Back(partition.clone(), trouble),
            // Its position must not pass a message that may still become whole.
            Standing::CaughtUp if !lead.slot.chunks.is_empty() => {
                lead.slot.chunks.silent(self.runtime.elapsed());
                Next::Nothing
            }
            Standing::CaughtUp => {
                let next = lead.slot.next;
                if !lead.slot.block.is_empty() {
                    self.ready.push(Event::Block(lead.slot.block.take()));
                }
                if lead.is_terminated {
                    lead.has_ended = true;
                    self.ready.push(Event::Ended { partition: partition.clone(), next });
                } else if lead.reported != Some(next) {
                    lead.reported = Some(next);
                    let leader_epoch = NO_LEADER_EPOCH;
                    self.ready.push(Event::CaughtUp { partition: partition.clone(), next, leader_epoch });
                }
                Next::Nothing
            }
        }
    }

    /// All that was received was read: hands out what was collected, and asks for more.
    fn all_taken(&mut self, connection: &mut Connection) -> Result<(), Stop> {
        for lead in self.leads.values_mut() {
            if !lead.slot.block.is_empty() {
                self.ready.push(Event::Block(lead.slot.block.take()));
            }
        }
        self.hand_out(connection)?;
        for lead in self.leads.values_mut() {
            let Some(consumer) = lead.consumer.filter(|_| lead.subscribing.is_none()) else { continue };
            let needs_permits = lead.permits < PERMITS / 2;
            if let Some(entry) = lead.acknowledge(needs_permits) {
                let id = Some(MessageId { batch_index: None, ..entry.id() });
                let ack = Some(Ack { consumer, kind: CUMULATIVE, id, request: None });
                connection.say(&Wire { kind: Kind::Ack as i32, ack, ..Wire::default() })?;
            }
            if needs_permits {
                let permits = (PERMITS - lead.permits) as u32;
                lead.permits = PERMITS;
                let flow = Some(Flow { consumer, permits });
                connection.say(&Wire { kind: Kind::Flow as i32, flow, ..Wire::default() })?;
            }
            if lead.should_ask() {
                let request = connection.number();
                lead.ask(request);
                let get_last = Some(OfConsumer { consumer, request: Some(request) });
                connection.say(&Wire { kind: Kind::GetLastMessageId as i32, get_last, ..Wire::default() })?;
            }
        }
        if self.scratch.capacity() > SCRATCH_KEPT_MAX {
            self.scratch = Vec::new();
        }
        Ok(())
    }

    /// Nothing came for a moment.
    fn idle(&mut self, connection: &mut Connection) -> Result<(), Stop> {
        match self.expire() {
            Ok(false) => {}
            Ok(true) => self.all_taken(connection)?,
            Err((partition, trouble)) => self.hand_back(connection, &partition, trouble)?,
        }
        let mut overdue = None;
        for (partition, lead) in &mut self.leads {
            // An empty topic owes nothing, and neither does one that was not answered for.
            if lead.proof.is_some_and(|proof| proof != super::place::Proof::Any)
                && lead.end.is_some_and(|end| end > 0)
            {
                lead.looks += 1;
                if lead.looks > LOOKS_MAX {
                    overdue = Some((partition.clone(), lead::not_held(lead.slot.next, None)));
                }
            }
        }
        match overdue {
            Some((partition, trouble)) => self.hand_back(connection, &partition, trouble),
            None => Ok(()),
        }
    }

    /// Gives up messages that were waited for in vain, and reads what is behind them. True if there was one; an error names a partition that cannot be read.
    fn expire(&mut self) -> Result<bool, (Partition, Trouble)> {
        let (now, mut any) = (self.runtime.elapsed(), false);
        for (partition, lead) in self.leads.iter_mut().filter(|(_, lead)| !lead.slot.chunks.is_empty()) {
            lead.slot.chunks.expire(now);
            let mut reading = Reading {
                slot: &mut lead.slot,
                ready: &mut self.ready,
                scratch: &mut self.scratch,
                options: &self.options,
            };
            if let Err((at, why)) = reading.drain() {
                let why = format!(
                    "entry `{}:{}`: {why}. Or {}",
                    at.ledger,
                    at.entry,
                    entry::way_behind(partition, at)
                );
                return Err((partition.clone(), Trouble::Unreadable(why)));
            }
            if tell_given_up(&mut lead.slot) {
                // The end is asked for once more, now that the position may pass.
                (lead.end, any) = (None, true);
            }
        }
        Ok(any)
    }

    /// Hands out what is ready, and waits for room.
    fn hand_out(&mut self, connection: &mut Connection) -> Result<(), Stop> {
        for mut event in self.ready.drain(..) {
            let bytes = if let Event::Block(block) = &event { block.memory_bytes() } else { 0 };
            loop {
                match self.events.send_within(Ok(event), bytes, ROOM_WAIT)? {
                    None => break,
                    Some(Ok(back)) => event = back,
                    // An event goes in and comes back.
                    Some(Err(_)) => return Err(Stop::Closed),
                }
                connection.live()?;
            }
        }
        Ok(())
    }

    /// Subscribes to a partition, in place of the consumer that it has.
    fn subscribe(&mut self, connection: &mut Connection, partition: &Partition) -> Result<(), Stop> {
        self.unsubscribe(connection, partition)?;
        let Some(lead) = self.leads.get_mut(partition) else { return Ok(()) };
        if lead.slot.is_paused || lead.has_ended {
            return Ok(());
        }
        let (consumer, request) = (connection.number(), connection.number());
        let proof = lead.subscribed(consumer, request);
        self.consumers.insert(consumer, partition.clone());
        let subscribe = Some(Subscribe {
            topic: lead.slot.name.clone(),
            subscription: reader_name(&self.options.subscription, &*self.runtime),
            kind: EXCLUSIVE,
            consumer,
            request,
            durable: Some(false),
            start: Some(proof.start()),
            create_topic: Some(false),
            ..Subscribe::default()
        });
        connection.say(&Wire { kind: Kind::Subscribe as i32, subscribe, ..Wire::default() })?;
        Ok(())
    }

    /// Gives up the consumer of a partition, if it has one. What it has sent still is dropped.
    fn unsubscribe(&mut self, connection: &mut Connection, partition: &Partition) -> Result<(), Stop> {
        let Some(lead) = self.leads.get_mut(partition) else { return Ok(()) };
        if let Some(consumer) = lead.consumer {
            lead.unsubscribed();
            self.consumers.remove(&consumer);
            let close_consumer = Some(OfConsumer { consumer, request: Some(connection.number()) });
            connection.say(&Wire { kind: Kind::CloseConsumer as i32, close_consumer, ..Wire::default() })?;
        }
        Ok(())
    }

    /// Hands a partition back, behind what was read of it.
    fn hand_back(
        &mut self,
        connection: &mut Connection,
        partition: &Partition,
        trouble: Trouble,
    ) -> Result<(), Stop> {
        self.unsubscribe(connection, partition)?;
        let Some(mut lead) = self.leads.remove(partition) else { return Ok(()) };
        if !lead.slot.block.is_empty() {
            self.ready.push(Event::Block(lead.slot.block.take()));
        }
        self.hand_out(connection)?;
        self.reports.send(Message::Back { slot: Box::new(lead.slot), trouble }).map_err(|_| Stop::Closed)
    }

    fn obey(&mut self, connection: &mut Connection) -> Result<(), Stop> {
        loop {
            match self.commands.try_recv() {
                Ok(command) => self.follow(connection, command)?,
                Err(mpsc::TryRecvError::Empty) => return Ok(()),
                Err(mpsc::TryRecvError::Disconnected) => return Err(Stop::Closed),
            }
        }
    }

    /// Waits for an order while there is nothing to read.
    fn wait(&mut self, connection: &mut Connection) -> Result<(), Stop> {
        match self.commands.recv_timeout(IDLE) {
            Ok(command) => self.follow(connection, command),
            Err(mpsc::RecvTimeoutError::Timeout) if self.events.is_closed() => Err(Stop::Closed),
            Err(mpsc::RecvTimeoutError::Timeout) => Ok(()),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(Stop::Closed),
        }
    }

    fn follow(&mut self, connection: &mut Connection, command: Command) -> Result<(), Stop> {
        match command {
            Command::Take(slot) => {
                let partition = slot.from.partition.clone();
                self.leads.insert(partition.clone(), Lead::new(*slot));
                self.subscribe(connection, &partition)
            }
            Command::Pause(partition, is_paused) => {
                let Some(lead) = self.leads.get_mut(&partition) else { return Ok(()) };
                if lead.slot.is_paused == is_paused {
                    return Ok(());
                }
                lead.slot.is_paused = is_paused;
                if is_paused {
                    self.unsubscribe(connection, &partition)
                } else {
                    self.subscribe(connection, &partition)
                }
            }
            Command::Release(partition) => {
                self.hand_back(connection, &partition, Trouble::Moved("it is taken away".into()))
            }
        }
    }
}
