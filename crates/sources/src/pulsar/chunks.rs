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
//! | the first of an incomplete one once more                  | the message begins anew, at this place, without what came before  |
//! | one that came before                                      | nothing: its producer did not know                                |
//! | of a message that does not wait                           | nothing: the message was read before, or given up                 |
//!
//! A message is given up when its producer will not complete it, and has been told so:
//!
//! | what shows it                                                                      | how long it takes         |
//! |------------------------------------------------------------------------------------|---------------------------|
//! | its producer has sent a later message, or a chunk is missing                       | no time                   |
//! | all that is stored was read, and no chunk of it came                               | [`SILENCE_MAX`]           |
//! | a producer has published behind its last chunk, and goes on to, by its own clock   | [`BEHIND_MAX_MS`]         |
//!
//! What other producers send never restarts the wait.
//!
//! A message that begins anew is sent once more by its producer, whole; or it is another one: a producer that is started again under its name counts its
//! messages from 0 again, unless the topic drops duplicates, and its name and count are all that tells messages apart.

use std::collections::VecDeque;
use std::time::Duration;

use super::fields::{Fields, Malformed, Value};
use super::frame;
use super::place::Entry;

/// How long the chunks of a message are waited for once all that is stored was read. A producer gives up after half of it, unless told otherwise.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(60);
/// How long other producers may publish behind the last chunk of a message: in a backlog nothing is silent. Ten times as long, for their messages may have
/// waited for a broker.
const BEHIND_MAX_MS: u64 = 600_000;
/// Producers whose clocks are compared for each incomplete message, and bytes of their names: without bounds, its memory would grow with them.
const CLOCKS_MAX: usize = 16;
const NAME_BYTES_MAX: usize = 128;

/// What an entry says of the message that it is, or is a chunk of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Chunk<'a> {
    pub(super) producer: &'a [u8],
    pub(super) sequence: u64,
    /// When it was published, in Unix milliseconds by its producer's clock.
    pub(super) published_ms: u64,
    pub(super) uuid: &'a [u8],
    /// Messages of the entry, if it is a batch; else 0.
    pub(super) messages: u64,
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
            (3, Value::Number(number)) => read.published_ms = number,
            (11, Value::Number(number)) => read.messages = number,
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
    /// When its newest chunk was published.
    published_ms: u64,
    /// Since when all that is stored was read, without another chunk.
    silent_since: Option<Duration>,
    /// Producers that have published behind its newest chunk, and when each did first. At most [`CLOCKS_MAX`].
    clocks: Vec<(Vec<u8>, u64)>,
}

impl Message {
    fn is_whole(&self) -> bool {
        self.next == self.chunks
    }

    /// What it takes of the room for what waits. Its metadata has properties, which may be as long as a body.
    fn bytes(&self) -> usize {
        self.head.len() + self.payload.len()
    }

    /// A chunk of it has come.
    fn heard(&mut self, says: &Chunk<'_>) {
        self.published_ms = self.published_ms.max(says.published_ms);
        self.silent_since = None;
        self.clocks.clear();
    }

    /// Whether this entry behind it shows that it was left incomplete long ago. Each producer is compared with itself, because the clocks of two may
    /// differ; and only from the chunk's time on, because what is replicated from another cluster was published before it is stored here.
    fn is_left_behind(&mut self, says: &Chunk<'_>) -> bool {
        if says.published_ms <= self.published_ms {
            return false;
        }
        let known = self.clocks.iter().find(|(producer, _)| producer == says.producer);
        match known.map(|(_, first_ms)| *first_ms) {
            Some(first_ms) => says.published_ms.saturating_sub(first_ms) > BEHIND_MAX_MS,
            None => {
                if self.clocks.len() < CLOCKS_MAX && says.producer.len() <= NAME_BYTES_MAX {
                    self.clocks.push((says.producer.to_vec(), says.published_ms));
                }
                false
            }
        }
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

/// Why an entry cannot wait. `first` is the entry that the incomplete message begins with: to give that message up is to go on behind `first`, which
/// keeps what came after it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoRoom {
    #[error(
        "its message has `{bytes}` bytes in chunks, and at most `{bytes_max}` are held; raise `record_bytes_max` of the input's format to as many"
    )]
    Message { first: Entry, bytes: u64, bytes_max: usize },
    #[error(
        "it begins a chunked message that is not whole, and what came behind it takes more than `{bytes_max}` bytes; set `memory` to more"
    )]
    Behind { first: Entry, bytes_max: usize },
}

impl NoRoom {
    /// The entry that it is about.
    pub(super) fn first(&self) -> Entry {
        match self {
            Self::Message { first, .. } | Self::Behind { first, .. } => *first,
        }
    }
}

/// What waits of a partition; empty unless a message is incomplete.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    items: VecDeque<Item>,
    bytes: usize,
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

    /// All that was stored at the time `asked` was read, as is known at the time `now`. Gives up messages of which no chunk came in between for too long.
    /// What was stored later may wait for a reader that is behind, so no time after `asked` counts.
    pub(super) fn silent(&mut self, asked: Duration, now: Duration) {
        let is_silent = |item: &mut Item| match item {
            Item::Message(message) if !message.is_whole() => {
                asked.saturating_sub(*message.silent_since.get_or_insert(now)) > SILENCE_MAX
            }
            Item::Message(_) | Item::Entry(..) => false,
        };
        while let Some(place) = self.items.iter_mut().position(is_silent) {
            self.give_up(place, "no more of it came for a minute");
        }
    }

    /// An entry has come, which `says` of itself what it is; it waits. A message may have up to `message_max` bytes, and all that waits `behind_max`.
    pub(super) fn take(
        &mut self,
        (at, body, from): (Entry, &[u8], u64),
        says: Chunk<'_>,
        (message_max, behind_max): (usize, usize),
    ) -> Result<(), NoRoom> {
        self.overtaken(&says);
        if says.chunks <= 1 {
            self.room(at, body.len(), behind_max)?;
            self.items.push_back(Item::Entry(at, body.to_vec(), from));
            return Ok(());
        }
        // One that is whole waits for others only, and its name may be another's by now.
        let is_of_it = |item: &Item| matches!(item, Item::Message(m) if !m.is_whole() && m.uuid == says.uuid);
        let mut known = self.items.iter().position(is_of_it);
        if let Some(place) = known.filter(|_| says.index == 0) {
            self.remove(place);
            known = None;
        }
        match known {
            None if says.index == 0 => {
                if says.bytes > message_max as u64 {
                    return Err(NoRoom::Message { first: at, bytes: says.bytes, bytes_max: message_max });
                }
                self.room(at, says.head.len() + says.payload.len(), behind_max)?;
                self.items.push_back(Item::Message(Message {
                    first: at,
                    head: says.head.to_vec(),
                    payload: says.payload.to_vec(),
                    producer: says.producer.to_vec(),
                    sequence: says.sequence,
                    uuid: says.uuid.to_vec(),
                    chunks: says.chunks,
                    next: 1,
                    published_ms: says.published_ms,
                    silent_since: None,
                    clocks: Vec::new(),
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
        let Item::Message(message) = &mut self.items[place] else { return Ok(()) };
        message.heard(says);
        let first = message.first;
        let bytes = message.payload.len() + says.payload.len();
        if says.index < message.next {
            return Ok(());
        }
        if says.index > message.next || says.chunks != message.chunks {
            self.give_up(place, "a chunk of it is missing");
            return Ok(());
        }
        if bytes > message_max {
            return Err(NoRoom::Message { first, bytes: bytes as u64, bytes_max: message_max });
        }
        self.room(first, says.payload.len(), behind_max)?;
        if let Item::Message(message) = &mut self.items[place] {
            message.payload.extend_from_slice(says.payload);
            message.next += 1;
        }
        Ok(())
    }

    /// Takes room for so many bytes of `at`.
    fn room(&mut self, at: Entry, bytes: usize, bytes_max: usize) -> Result<(), NoRoom> {
        if self.bytes + bytes > bytes_max {
            return Err(NoRoom::Behind { first: self.front().unwrap_or(at), bytes_max });
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Gives up what this entry shows to be left incomplete. A producer sends in order: what it has begun before and not ended will not be ended.
    fn overtaken(&mut self, says: &Chunk<'_>) {
        let why_dead = |item: &mut Item| match item {
            Item::Message(m) if !m.is_whole() && m.uuid != says.uuid => {
                if m.producer == says.producer && m.sequence < says.sequence {
                    Some("its producer has sent a later message")
                } else if m.is_left_behind(says) {
                    Some("no more of it came while others published for ten minutes")
                } else {
                    None
                }
            }
            Item::Message(_) | Item::Entry(..) => None,
        };
        let mut place = 0;
        while place < self.items.len() {
            match why_dead(&mut self.items[place]) {
                Some(why) => self.give_up(place, why),
                None => place += 1,
            }
        }
    }

    fn give_up(&mut self, place: usize, why: &'static str) {
        let first = self.remove(place);
        self.given_up.extend(first.map(|first| (first, why)));
    }

    /// Lets a message go, and gives the place of its first chunk.
    fn remove(&mut self, place: usize) -> Option<Entry> {
        let Some(Item::Message(message)) = self.items.remove(place) else { return None };
        self.bytes -= message.bytes();
        Some(message.first)
    }

    /// What can be read now: everything before the first message that is incomplete.
    pub(super) fn ready(&mut self) -> Option<Item> {
        let bytes = match self.items.front()? {
            Item::Entry(_, body, _) => body.len(),
            Item::Message(message) if message.is_whole() => message.bytes(),
            Item::Message(_) => return None,
        };
        self.bytes -= bytes;
        self.items.pop_front()
    }
}

#[cfg(test)]
mod tests;
