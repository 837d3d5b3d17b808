//! Messages that their producers have cut into chunks, put together. Pure.
//!
//! Owns what waits while a message is incomplete: its chunks, and everything that came behind its first one. So records are handed out in the order of
//! their positions, a message stands where its first chunk does, and a position never passes a message that may still become whole. Does not own how an entry
//! is read (`entry`), nor the clock.
//!
//! | a chunk comes                                             | what is done                                                      |
//! |-----------------------------------------------------------|-------------------------------------------------------------------|
//! | the first of a message                                    | it waits, and so does what comes behind it                        |
//! | the next of a message that waits                          | it is put to the others; behind the last one the message is read  |
//! | one that came before                                      | nothing: its producer did not know                                |
//! | of a message that does not wait                           | nothing: the message was read before, or given up                 |
//!
//! A message is given up when its producer has sent a later one, when a chunk of it is missing, or when nothing more comes for [`SILENCE_MAX`]: its producer
//! has been told by then that it failed.

use std::collections::VecDeque;
use std::time::Duration;

use super::fields::{Fields, Malformed, Value};
use super::frame;
use super::place::Entry;

/// How long the chunks of a message are waited for once all that is stored was read. A producer gives up after half of it, unless told otherwise.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(60);

/// What an entry says of the message that it is, or is a chunk of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Chunk<'a> {
    pub(super) producer: &'a [u8],
    pub(super) sequence: u64,
    pub(super) uuid: &'a [u8],
    /// 1 or 0 if it is whole.
    pub(super) chunks: u64,
    pub(super) index: u64,
    /// Bytes of all chunks together, as its producer says.
    pub(super) bytes: u64,
    /// The metadata.
    pub(super) head: &'a [u8],
    pub(super) payload: &'a [u8],
}

/// Reads what an entry says of itself.
pub(super) fn chunk(body: &[u8]) -> Result<Chunk<'_>, Malformed> {
    let (head, payload) = frame::entry(body).map_err(|_| Malformed)?;
    let mut read = Chunk { head, payload, ..Chunk::default() };
    let mut fields = Fields(head);
    while let Some((field, value)) = fields.next()? {
        match (field, value) {
            (1, Value::Bytes(name)) => read.producer = name,
            (2, Value::Number(number)) => read.sequence = number,
            (26, Value::Bytes(uuid)) => read.uuid = uuid,
            (27, Value::Number(number)) => read.chunks = number,
            (28, Value::Number(number)) => read.bytes = number,
            (29, Value::Number(number)) => read.index = number,
            _ => {}
        }
    }
    Ok(read)
}

/// A message whose chunks come.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// Where its first chunk stands.
    pub(super) first: Entry,
    /// The metadata of its first chunk.
    pub(super) head: Vec<u8>,
    /// What has come of it.
    pub(super) payload: Vec<u8>,
    producer: Vec<u8>,
    sequence: u64,
    uuid: Vec<u8>,
    chunks: u64,
    /// The number of the chunk that comes next.
    next: u64,
}

impl Message {
    fn is_whole(&self) -> bool {
        self.next == self.chunks
    }
}

/// What can be read next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// An entry that came behind an incomplete message: its place, its bytes, and the message of it to begin with.
    Entry(Entry, Vec<u8>, u64),
    /// A message that is whole.
    Message(Message),
}

/// Why an entry cannot wait.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoRoom {
    #[error(
        "its message has `{bytes}` bytes in chunks, and at most `{bytes_max}` are held; raise `record_bytes_max` of the input's format to as many"
    )]
    Message { bytes: u64, bytes_max: usize },
    #[error(
        "what came behind the chunked message at entry `{first}`, which is not whole, takes more than `{bytes_max}` bytes; set `memory` to more"
    )]
    Behind { first: String, bytes_max: usize },
}

/// What waits of a partition; empty unless a message is incomplete.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    items: VecDeque<Item>,
    bytes: usize,
    /// Since when all that is stored was read.
    silent_since: Option<Duration>,
    /// Messages that were given up, and why, until somebody tells of them.
    given_up: Vec<(Entry, &'static str)>,
}

impl Chunks {
    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The place of the first thing that waits: where a reading that is interrupted begins again.
    pub(super) fn front(&self) -> Option<Entry> {
        self.items.front().map(|item| match item {
            Item::Entry(at, ..) => *at,
            Item::Message(message) => message.first,
        })
    }

    /// Lets everything go: it comes again.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Messages that were given up since this was asked last, with the reason.
    pub(super) fn given_up(&mut self) -> Vec<(Entry, &'static str)> {
        std::mem::take(&mut self.given_up)
    }

    /// All that is stored was read, at the time `now`.
    pub(super) fn silent(&mut self, now: Duration) {
        self.silent_since.get_or_insert(now);
    }

    /// An entry has come, which `says` of itself what it is; it waits. A message may have up to `message_max` bytes, and all that waits `behind_max`.
    pub(super) fn take(
        &mut self,
        (at, body, from): (Entry, &[u8], u64),
        says: Chunk<'_>,
        (message_max, behind_max): (usize, usize),
    ) -> Result<(), NoRoom> {
        self.silent_since = None;
        self.overtaken(&says);
        if says.chunks <= 1 {
            self.room(body.len(), behind_max)?;
            self.items.push_back(Item::Entry(at, body.to_vec(), from));
            return Ok(());
        }
        if says.bytes > message_max as u64 {
            return Err(NoRoom::Message { bytes: says.bytes, bytes_max: message_max });
        }
        let known =
            self.items.iter().position(|item| matches!(item, Item::Message(m) if m.uuid == says.uuid));
        match known {
            None if says.index == 0 => {
                self.room(says.payload.len(), behind_max)?;
                self.items.push_back(Item::Message(Message {
                    first: at,
                    head: says.head.to_vec(),
                    payload: says.payload.to_vec(),
                    producer: says.producer.to_vec(),
                    sequence: says.sequence,
                    uuid: says.uuid.to_vec(),
                    chunks: says.chunks,
                    next: 1,
                }));
            }
            // Read before, or given up.
            None => {}
            Some(place) => self.put(place, &says, (message_max, behind_max))?,
        }
        Ok(())
    }

    fn put(
        &mut self,
        place: usize,
        says: &Chunk<'_>,
        (message_max, behind_max): (usize, usize),
    ) -> Result<(), NoRoom> {
        let Item::Message(message) = &self.items[place] else { return Ok(()) };
        let bytes = message.payload.len() + says.payload.len();
        if says.index < message.next {
            return Ok(());
        }
        if says.index > message.next || says.chunks != message.chunks {
            self.give_up(place, "a chunk of it is missing");
            return Ok(());
        }
        if bytes > message_max {
            return Err(NoRoom::Message { bytes: bytes as u64, bytes_max: message_max });
        }
        self.room(says.payload.len(), behind_max)?;
        if let Item::Message(message) = &mut self.items[place] {
            message.payload.extend_from_slice(says.payload);
            message.next += 1;
        }
        Ok(())
    }

    fn room(&mut self, bytes: usize, bytes_max: usize) -> Result<(), NoRoom> {
        if self.bytes + bytes > bytes_max {
            let first = self.front().map_or_else(String::new, |at| format!("{}:{}", at.ledger, at.entry));
            return Err(NoRoom::Behind { first, bytes_max });
        }
        self.bytes += bytes;
        Ok(())
    }

    /// A producer sends in order: what it has begun before and not ended will not be ended.
    fn overtaken(&mut self, says: &Chunk<'_>) {
        let is_dead = |item: &Item| {
            matches!(item, Item::Message(m)
                if !m.is_whole() && m.producer == says.producer && m.sequence < says.sequence && m.uuid != says.uuid)
        };
        while let Some(place) = self.items.iter().position(is_dead) {
            self.give_up(place, "its producer has sent a later message");
        }
    }

    fn give_up(&mut self, place: usize, why: &'static str) {
        if let Some(Item::Message(message)) = self.items.remove(place) {
            self.bytes -= message.payload.len();
            self.given_up.push((message.first, why));
        }
    }

    /// Gives up the message that everything waits for, if nothing has come for too long.
    pub(super) fn expire(&mut self, now: Duration) {
        if self.silent_since.is_some_and(|since| now.saturating_sub(since) > SILENCE_MAX) {
            self.silent_since = None;
            self.give_up(0, "no more of it came for a minute");
        }
    }

    /// What can be read now: everything before the first message that is incomplete.
    pub(super) fn ready(&mut self) -> Option<Item> {
        let bytes = match self.items.front()? {
            Item::Entry(_, body, _) => body.len(),
            Item::Message(message) if message.is_whole() => message.payload.len(),
            Item::Message(_) => return None,
        };
        self.bytes -= bytes;
        self.items.pop_front()
    }
}

#[cfg(test)]
mod tests;
