//! The thread that reads what one broker serves.
//!
//! Owns the hot path: frames are received into one buffer, and each body is copied once, into its block. Does not own who serves what, nor
//! new partitions (`supervisor`), nor what becomes of an entry (`lead`).
//!
//! Each partition has a consumer without a cursor, which begins with the newest entry that was read before. A broker sends what the permits
//! allow, in order. When the caller does not take blocks, nothing more is received: the socket's bounds hold the broker up.
//!
//! | module     | what it owns                                             |
//! |------------|----------------------------------------------------------|
//! | [`frames`] | what a frame means                                       |
//! | [`orders`] | which partitions are read: orders, and their consumers   |

mod frames;
mod orders;

use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use dataflow::{Event, Partition, Runtime, SourceError};

use super::PulsarOptions;
use super::client::Route;
use super::connection::{Connection, Lost};
use super::entry;
use super::errors::Trouble;
use super::lead::{self, Lead, Slot};
use super::messages::{Ack, CUMULATIVE, Command as Wire, Flow, Kind, MessageId, OfConsumer};
use super::reading::{Reading, tell_given_up};
use super::supervisor::Message;
use crate::queue::{Closed, Sender};
use frames::Next;

/// Messages that a broker may send before it is told to send more. They are held by its own buffers and the sockets', for nothing is received
/// while the caller is behind.
const PERMITS: i64 = 100_000;
/// A thread that has nothing to read looks for orders so often.
const IDLE: Duration = Duration::from_millis(100);
/// While blocks wait for room, the broker is shown so often that we live.
const ROOM_WAIT: Duration = Duration::from_secs(5);
/// What must come first comes at once, unless it is read from slow storage. A look takes a tenth of a second.
const LOOKS_MAX: u32 = 300;
/// How often it is asked whether more of an incomplete message is stored, what waits behind one that was given up is read, and what the broker owes is counted.
const EXPIRE_EVERY: Duration = Duration::from_secs(1);
/// A wait for room that is longer holds up what is received: an answer may stand behind it.
const HELD_UP_MIN: Duration = Duration::from_millis(100);
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
    /// When incomplete messages are looked after next.
    pub(super) expire_at: Duration,
    /// Whether blocks have waited for room since then.
    pub(super) held_up: bool,
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
                self.look_after(&mut connection)?;
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
                let permits = u32::try_from(PERMITS.saturating_sub(lead.permits)).unwrap_or(u32::MAX);
                lead.permits = PERMITS;
                let flow = Some(Flow { consumer, permits });
                connection.say(&Wire { kind: Kind::Flow as i32, flow, ..Wire::default() })?;
            }
            if lead.should_ask() {
                let request = connection.number();
                lead.ask(request, self.runtime.elapsed());
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
        self.look_after(connection)?;
        let mut overdue = None;
        for (partition, lead) in &mut self.leads {
            if let Some(end) = lead.unproved_end() {
                lead.looks += 1;
                if lead.looks > LOOKS_MAX {
                    overdue = Some((partition.clone(), lead::not_delivered(lead.slot.next, end)));
                }
            }
        }
        match overdue {
            Some((partition, trouble)) => self.hand_back(connection, &partition, trouble),
            None => Ok(()),
        }
    }

    /// Looks after incomplete messages and after what the broker owes, once in a while, also while other entries come all the time.
    fn look_after(&mut self, connection: &mut Connection) -> Result<(), Stop> {
        let now = self.runtime.elapsed();
        if now < self.expire_at {
            return Ok(());
        }
        self.expire_at = now + EXPIRE_EVERY;
        match self.expire() {
            Ok(false) => {}
            Ok(true) => self.all_taken(connection)?,
            Err((partition, trouble)) => return self.hand_back(connection, &partition, trouble),
        }
        match self.forgotten() {
            Some((partition, trouble)) => self.hand_back(connection, &partition, trouble),
            None => Ok(()),
        }
    }

    /// A partition for which the broker owes an answer, or an entry, for so long that there will be none; and what that means. Time in which blocks have waited
    /// for room does not count.
    fn forgotten(&mut self) -> Option<(Partition, Trouble)> {
        if std::mem::take(&mut self.held_up) {
            return None;
        }
        let mut forgotten = None;
        for (partition, lead) in &mut self.leads {
            if lead.is_forgotten() {
                forgotten = Some((partition.clone(), lead.overdue()));
            }
        }
        forgotten
    }

    /// Reads what stands behind messages that were given up. True if a newest entry is to be asked for; an error names a partition that cannot be read.
    fn expire(&mut self) -> Result<bool, (Partition, Trouble)> {
        let mut any = false;
        for (partition, lead) in self.leads.iter_mut().filter(|(_, lead)| !lead.slot.chunks.is_empty()) {
            // Before what waits is read: afterwards nothing may be incomplete.
            any |= lead.recheck();
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
            // The position may pass now; the end is asked for once more if all was read.
            any |= tell_given_up(&mut lead.slot);
        }
        Ok(any)
    }

    /// Hands out what is ready, and waits for room.
    fn hand_out(&mut self, connection: &mut Connection) -> Result<(), Stop> {
        if self.ready.is_empty() {
            return Ok(());
        }
        let began = self.runtime.elapsed();
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
        self.held_up |= self.runtime.elapsed().saturating_sub(began) >= HELD_UP_MIN;
        Ok(())
    }
}
