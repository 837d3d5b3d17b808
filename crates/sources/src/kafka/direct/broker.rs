//! The thread that fetches from one broker what it leads.
//!
//! Owns the hot path: an answer is received into one buffer, the next fetch leaves before the records of this one are read,
//! and each body is copied once, into its block. Does not own who leads what, identities, or new partitions (`supervisor`).
//!
//! A fetch names topics by id, so a record of a topic that was created again cannot come in: blocks need no further check and
//! leave as soon as an answer is read.

use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use dataflow::block::NO_LEADER_EPOCH;
use dataflow::{Event, Partition, Runtime, SourceError};

use super::Plan;
use super::batch::{self, BatchError, Batches};
use super::connection::{Connection, Lost, SILENCE_MAX};
use super::errors::{self, Trouble};
use super::supervisor::Message;
use super::wire::{self, Answer, Fetched, Wanted};
use crate::kafka::slot::Slot;
use crate::queue::{Closed, Sender};

/// A thread that has nothing to fetch looks for orders so often.
const IDLE: Duration = Duration::from_millis(100);

/// Orders to a broker's thread.
pub(super) enum Command {
    /// Fetch this too.
    Take(Box<Lead>),
    /// No more of this one for now (true), or on with it.
    Pause(Partition, bool),
    /// Another broker leads this one: hand it back.
    Release(Partition, String),
}

/// A partition that this broker leads.
pub(super) struct Lead {
    pub(super) slot: Slot,
    pub(super) topic: [u8; 16],
    /// The end that was reported last.
    pub(super) reported: Option<u64>,
    /// The position that the fetch under way asks for, and the one that the answer at hand was asked for.
    pub(super) asked: Option<u64>,
    pub(super) answered: Option<u64>,
}

impl Lead {
    /// A partition that was not asked for yet.
    pub(super) fn new(slot: Slot, topic: [u8; 16]) -> Self {
        Self { slot, topic, reported: None, asked: None, answered: None }
    }

    /// Where the next fetch goes on: behind the answer at hand, whose batches end at `ahead`, if it will be read, or behind what was read. An answer that
    /// was asked for from elsewhere is not read: to go on behind it would have every later one asked for from elsewhere too.
    fn goes_on(&self, ahead: Option<(i64, i32)>) -> (u64, i32) {
        let read = (self.slot.next, self.slot.leader_epoch);
        let ahead = ahead.filter(|_| self.answered == Some(self.slot.next));
        let ahead = ahead.and_then(|(end, epoch)| Some((u64::try_from(end).ok()?, epoch)));
        ahead.filter(|ahead| ahead.0 > read.0).unwrap_or(read)
    }

    /// Asks for what comes after the record of `epoch` before `offset`.
    fn wanted(&self, offset: u64, epoch: i32) -> Wanted {
        Wanted {
            topic: self.topic,
            partition: self.slot.from.partition.index as i32,
            offset: i64::try_from(offset).unwrap_or(i64::MAX),
            epoch: if epoch == NO_LEADER_EPOCH { -1 } else { epoch },
        }
    }
}

/// The state of the thread.
pub(super) struct Broker {
    pub(super) address: String,
    /// The first connection, if there is one already.
    pub(super) opened: Option<Connection>,
    pub(super) plan: Arc<Plan>,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) events: Sender<Result<Event, SourceError>>,
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) reports: mpsc::Sender<Message>,
    pub(super) leads: BTreeMap<([u8; 16], i32), Lead>,
    /// The place in `leads` that the next fetch begins with, so that no partition always stands last.
    pub(super) turn: usize,
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

impl Broker {
    /// Fetches until the reader is gone or the connection is; then hands back what it led.
    pub(super) fn run(mut self) {
        let Err(stop) = self.fetch();
        let Stop::Lost(lost) = stop else { return };
        let slots = std::mem::take(&mut self.leads).into_values().map(|lead| lead.slot).collect();
        // The supervisor is gone only if the reader is.
        let _ = self.reports.send(Message::Lost { address: self.address.clone(), slots, lost });
        // Orders may be on their way until the supervisor has read that and lets go of this thread.
        while let Ok(command) = self.commands.recv() {
            if let Command::Take(lead) = command {
                let trouble = Trouble::Moved("the connection was lost".into());
                let _ = self.reports.send(Message::Back { slot: Box::new(lead.slot), trouble });
            }
        }
    }

    fn fetch(&mut self) -> Result<std::convert::Infallible, Stop> {
        self.obey()?;
        let events = self.events.clone();
        let is_wanted = || !events.is_closed();
        let runtime = self.runtime.clone();
        let open = || {
            let Plan { client, security, answer_bytes_max, .. } = &*self.plan;
            Connection::open(&self.address, client, security, *answer_bytes_max, runtime, &is_wanted)
        };
        let opened = self.opened.take();
        let mut connection = opened.map_or_else(open, Ok)?;
        let wait_max = Duration::from_millis(self.plan.bounds.wait_ms.max(0) as u64) + SILENCE_MAX;
        let mut under_way = false;
        loop {
            self.obey()?;
            if !under_way && !self.ask(&mut connection, None)? {
                self.wait()?;
                continue;
            }
            connection.receive(wait_max, &is_wanted)?;
            // What was paused while the answer was on its way is not returned.
            self.obey()?;
            self.leads.values_mut().for_each(|lead| lead.answered = lead.asked.take());
            let answer = wire::answer(connection.answer()).map_err(|why| connection.failed(&why))?;
            if answer.error != 0 {
                return Err(connection.failed(&errors::words(answer.error)).into());
            }
            under_way = is_clean(&answer) && self.ask(&mut connection, Some(&answer))?;
            self.read(connection.answer(), answer)?;
        }
    }

    /// Sends a fetch for all that is not paused, from where the records of `answer` end. False if there is nothing to fetch.
    fn ask(&mut self, connection: &mut Connection, answer: Option<&Answer>) -> Result<bool, Lost> {
        let ahead: BTreeMap<_, _> = answer
            .into_iter()
            .flat_map(|answer| &answer.partitions)
            .filter_map(|p| {
                Some(((p.topic, p.partition), batch::end(&connection.answer()[p.records.clone()])?))
            })
            .collect();
        let mut wanted: Vec<Wanted> = Vec::with_capacity(self.leads.len());
        for (key, lead) in &mut self.leads {
            if !lead.slot.is_paused {
                let (offset, epoch) = lead.goes_on(ahead.get(key).copied());
                lead.asked = Some(offset);
                wanted.push(lead.wanted(offset, epoch));
            }
        }
        if wanted.is_empty() {
            return Ok(false);
        }
        let first = self.turn % wanted.len();
        wanted.rotate_left(first);
        self.turn = first + 1;
        connection.fetch(self.plan.bounds, &wanted, &|| !self.events.is_closed())?;
        Ok(true)
    }

    /// Reads the records of an answer and sends them on; hands back what this broker cannot be asked for any more.
    fn read(&mut self, bytes: &[u8], answer: Answer) -> Result<(), Stop> {
        for fetched in answer.partitions {
            let key = (fetched.topic, fetched.partition);
            // What was handed back meanwhile is another's now.
            let Some(lead) = self.leads.get_mut(&key) else { continue };
            // An answer that was not read (the partition was paused) leaves a gap before the one after it, and one that was
            // asked for before the partition came back may stand anywhere: both are asked for again.
            if lead.slot.is_paused || lead.answered != Some(lead.slot.next) {
                continue;
            }
            if let Some(trouble) = errors::of(fetched.error, fetched.is_cut) {
                let trouble = tried_again(&mut lead.slot, trouble);
                self.hand_back(key, trouble)?;
                continue;
            }
            lead.slot.let_in();
            let records = &bytes[fetched.records.clone()];
            if let Err(trouble) = read(&self.events, &mut self.scratch, &self.plan, lead, records, &fetched)?
            {
                self.hand_back(key, trouble)?;
                continue;
            }
            let end = u64::try_from(fetched.stable).unwrap_or(u64::MAX);
            if lead.slot.next >= end && lead.reported != Some(lead.slot.next) {
                lead.reported = Some(lead.slot.next);
                let slot = &lead.slot;
                let (partition, next, leader_epoch) =
                    (slot.from.partition.clone(), slot.next, slot.leader_epoch);
                self.events.send(Ok(Event::CaughtUp { partition, next: next.into(), leader_epoch }), 0)?;
            }
        }
        if self.scratch.capacity() > SCRATCH_KEPT_MAX {
            self.scratch = Vec::new();
        }
        Ok(())
    }

    fn hand_back(&mut self, key: ([u8; 16], i32), trouble: Trouble) -> Result<(), Stop> {
        let Some(lead) = self.leads.remove(&key) else { return Ok(()) };
        self.reports.send(Message::Back { slot: Box::new(lead.slot), trouble }).map_err(|_| Stop::Closed)
    }

    fn obey(&mut self) -> Result<(), Stop> {
        loop {
            match self.commands.try_recv() {
                Ok(command) => self.follow(command)?,
                Err(mpsc::TryRecvError::Empty) => return Ok(()),
                Err(mpsc::TryRecvError::Disconnected) => return Err(Stop::Closed),
            }
        }
    }

    /// Waits for an order while there is nothing to fetch.
    fn wait(&mut self) -> Result<(), Stop> {
        match self.commands.recv_timeout(IDLE) {
            Ok(command) => self.follow(command),
            Err(mpsc::RecvTimeoutError::Timeout) if self.events.is_closed() => Err(Stop::Closed),
            Err(mpsc::RecvTimeoutError::Timeout) => Ok(()),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(Stop::Closed),
        }
    }

    fn follow(&mut self, command: Command) -> Result<(), Stop> {
        match command {
            Command::Take(lead) => {
                self.leads.insert((lead.topic, lead.slot.from.partition.index as i32), *lead);
            }
            Command::Pause(partition, is_paused) => {
                let of = |lead: &&mut Lead| lead.slot.from.partition == partition;
                if let Some(lead) = self.leads.values_mut().find(of) {
                    lead.slot.is_paused = is_paused;
                }
            }
            Command::Release(partition, why) => {
                let of = |(_, lead): &(&_, &Lead)| lead.slot.from.partition == partition;
                if let Some(key) = self.leads.iter().find(of).map(|(key, _)| *key) {
                    self.hand_back(key, Trouble::Moved(why))?;
                }
            }
        }
        Ok(())
    }
}

/// Memory for unpacked batches that is kept for the next one.
const SCRATCH_KEPT_MAX: usize = 16 << 20;

/// True if no partition has a trouble that changes what is asked next.
fn is_clean(answer: &Answer) -> bool {
    answer.partitions.iter().all(|p| errors::of(p.error, p.is_cut).is_none())
}

/// What a broker says that it cannot read is asked for again, as what comes garbled: its disk may have failed for a moment, or another leader has it whole.
fn tried_again(slot: &mut Slot, trouble: Trouble) -> Trouble {
    match trouble {
        Trouble::Unreadable(why, _) if !slot.is_garbled_for_good() => {
            Trouble::Moved(format!("{why}; it is asked for again"))
        }
        trouble => trouble,
    }
}

/// Reads the records of one partition into blocks, and sends them.
fn read(
    events: &Sender<Result<Event, SourceError>>,
    scratch: &mut Vec<u8>,
    plan: &Plan,
    lead: &mut Lead,
    records: &[u8],
    fetched: &Fetched,
) -> Result<Result<(), Trouble>, Closed> {
    let slot = &mut lead.slot;
    let before = slot.next;
    let mut closed = None;
    let mut send = |block: dataflow::RecordBlock| {
        let bytes = block.memory_bytes();
        closed = closed.take().or(events.send(Ok(Event::Block(block)), bytes).err());
    };
    let mut batches = Batches {
        next: slot.next,
        leader_epoch: slot.leader_epoch,
        block: &mut slot.block,
        scratch,
        bytes_max: plan.unpacked_bytes_max,
        record_bytes_max: plan.record_bytes_max,
    };
    let result = batches.read(records, &fetched.aborted, &mut send);
    (slot.next, slot.leader_epoch) = (batches.next, batches.leader_epoch);
    if !slot.block.is_empty() {
        send(slot.block.take());
    }
    if let Some(closed) = closed {
        return Err(closed);
    }
    // A batch that is larger than the bound comes whole, so an answer never begins with a piece of one.
    let is_piece = matches!(result, Ok(false)) && !records.is_empty() && slot.next == before;
    if (result.is_err() || is_piece) && !slot.is_garbled_for_good() {
        let why = result.err().map_or_else(|| PIECE.to_owned(), |why| why.to_string());
        return Ok(Err(Trouble::Moved(format!("{why}; it is asked for again"))));
    }
    Ok(match result {
        Err(why @ BatchError::Magic(0 | 1)) => Err(Trouble::OldFormat(why.to_string())),
        Err(why) => {
            // The head of a damaged batch may say anything: no end beyond what may be read.
            let stable = u64::try_from(fetched.stable).unwrap_or(0);
            let end = batch::end_of_unread(records, slot.next).filter(|end| *end <= stable);
            Err(Trouble::Unreadable(why.to_string(), end))
        }
        Ok(_) if is_piece => Err(Trouble::Unreadable(PIECE.into(), None)),
        Ok(_) => Ok(()),
    })
}

/// Why an answer cannot be read that has bytes and no whole batch.
const PIECE: &str = "an answer begins with a piece of a batch";

#[cfg(test)]
mod tests;
