//! The root of a partition: the one register that says what the log holds.
//!
//! Owns its bytes, its bounds and every edit. An edit is a pure function from a root to the next one, and it is *idempotent*: applied to a root that has
//! it already, it gives `None`. So a swap whose answer was lost needs no memory of what was sent: the root is read, and the edit
//! is applied to what stands there.
//!
//! Does not own when an edit is made (`decide`), nor how it reaches the store (`partition`).
//!
//! ```text
//! root ── levels[3] ── … ── levels[0] ── tail          oldest entries on the left, newest on the right
//!            │                  │
//!         references to      references to segments
//!         segments of        of 48 entries
//!         48 references
//! ```

use prost::Message;

use crate::entry::{Entry, are_counts};
use crate::framing::{self, FormatError, damaged};
use crate::names::QueueId;
use crate::segment::{FANOUT, Reference, Span};

/// First bytes of a root: three letters and the format version.
pub const MAGIC: [u8; 4] = *b"FBL1";

/// Bytes of a root at the most (L8); what the bounds below add up to is less, which a test shows.
pub const ROOT_BYTES_MAX: u64 = 64 << 10;

/// Entries in the root. Beyond [`FANOUT`] they wait for their segment to be written; beyond this, commits wait too.
pub const TAIL_MAX: usize = 112;

/// References of one level in the root.
pub const LEVEL_MAX: usize = 56;

/// Levels: 48^5 entries, which is a year of eight objects a second.
pub const LEVELS_MAX: usize = 4;

/// Producers whose watermarks are kept.
pub const PRODUCERS_MAX: usize = 256;

/// A producer that has been silent for so long may be forgotten when another needs its place.
pub const PRODUCER_IDLE_MS: i64 = 3_600_000;

/// Consumers that retention waits for.
pub const CONSUMERS_MAX: usize = 16;

/// Earlier owners of whom it is known how much they have committed.
pub const PAST_MAX: usize = 8;

/// Bytes of an owner's description.
const OWNER_BYTES_MAX: usize = 128;

/// What a partition holds, and which owner may add to it.
#[derive(Clone, PartialEq, Message)]
pub struct Root {
    /// Drawn when the partition was created, 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub queue: Vec<u8>,
    /// One more with each swap, so that no two values are alike.
    #[prost(uint64, tag = "2")]
    pub revision: u64,
    /// The owner's number: one more with each claim, from 1.
    #[prost(uint64, tag = "3")]
    pub epoch: u64,
    /// Drawn by the owner at its claim.
    #[prost(fixed64, tag = "4")]
    pub run: u64,
    /// Host and process of the owner, for display.
    #[prost(string, tag = "5")]
    pub owner: String,
    /// The first position that is held. Below it nothing is read any more.
    #[prost(uint64, tag = "6")]
    pub low: u64,
    /// Objects of entries that end at or below this are deleted.
    #[prost(uint64, tag = "7")]
    pub cleaned: u64,
    /// The position of the next record.
    #[prost(uint64, tag = "8")]
    pub next: u64,
    /// Objects of this owner that are committed: those with a number below.
    #[prost(uint64, tag = "9")]
    pub committed: u64,
    /// The log's time at the newest commit, as `clock` tells it, Unix milliseconds.
    #[prost(int64, tag = "10")]
    pub stamp_ms: i64,
    /// The newest entries, in the order of their positions.
    #[prost(message, repeated, tag = "11")]
    pub tail: Vec<Entry>,
    /// References to segments, by level from 0; those of a higher level are older.
    #[prost(message, repeated, tag = "12")]
    pub levels: Vec<Level>,
    /// The newest committed ordinal of each producer, ascending by id.
    #[prost(message, repeated, tag = "13")]
    pub producers: Vec<Producer>,
    /// Consumers whose acknowledgements count, ascending.
    #[prost(string, repeated, tag = "14")]
    pub consumers: Vec<String>,
    /// Earlier owners, oldest first.
    #[prost(message, repeated, tag = "15")]
    pub past: Vec<Past>,
    /// Bytes of the data objects of all entries that are not cleaned.
    #[prost(uint64, tag = "16")]
    pub bytes: u64,
    /// Segments that this owner has put into use: those with a number below.
    #[prost(uint64, tag = "17")]
    pub sealed: u64,
}

/// References of one level, in the order of their positions.
#[derive(Clone, PartialEq, Message)]
pub struct Level {
    /// The references.
    #[prost(message, repeated, tag = "1")]
    pub references: Vec<Reference>,
}

/// The watermark of a producer.
#[derive(Clone, PartialEq, Message)]
pub struct Producer {
    /// 16 bytes that the producer has drawn.
    #[prost(bytes = "vec", tag = "1")]
    pub id: Vec<u8>,
    /// Its newest ordinal that is in the log; all before are too.
    #[prost(uint64, tag = "2")]
    pub ordinal: u64,
    /// Where its ordinals number records: the digest of all up to that one.
    #[prost(fixed32, optional, tag = "4")]
    pub digest: Option<u32>,
    /// The log's time at that commit.
    #[prost(int64, tag = "3")]
    pub stamp_ms: i64,
}

/// An earlier owner of the partition, and how far it came.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Past {
    /// Its epoch.
    #[prost(uint64, tag = "1")]
    pub epoch: u64,
    /// Its random number.
    #[prost(fixed64, tag = "2")]
    pub run: u64,
    /// Objects that it has committed. It commits no more.
    #[prost(uint64, tag = "3")]
    pub committed: u64,
}

/// Who commits: an epoch and the random number of its claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The epoch.
    pub epoch: u64,
    /// Drawn at the claim.
    pub run: u64,
}

/// What an uploaded object says of itself, before it has a position.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// The entry; `first` and `stamp_ms` are set at the commit.
    pub entry: Entry,
    /// The newest ordinal of each producer in it.
    pub producers: Vec<(u128, Newest)>,
}

/// A producer's newest ordinal in an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newest {
    /// The ordinal.
    pub ordinal: u64,
    /// As [`Producer::digest`].
    pub digest: Option<u32>,
}

impl Root {
    /// The root of a new partition, claimed by its creator.
    pub fn created(queue: QueueId, run: u64, owner: &str, now_ms: i64) -> Self {
        Self {
            queue: queue.0.to_be_bytes().to_vec(),
            epoch: 1,
            run,
            owner: shortened(owner),
            stamp_ms: now_ms,
            ..Self::default()
        }
    }

    /// The identity of the partition: one that is created again under the same name has another.
    pub fn queue_id(&self) -> QueueId {
        QueueId(id_of(&self.queue))
    }

    /// The claim of the present owner.
    pub fn claim(&self) -> Claim {
        Claim { epoch: self.epoch, run: self.run }
    }

    /// The log's time at a swap now, as its owner tells it: never earlier than before.
    pub fn stamp(&self, now_ms: i64) -> i64 {
        self.stamp_ms.max(now_ms)
    }

    /// The newest ordinal of a producer that is in the log.
    pub fn watermark(&self, id: u128) -> Option<u64> {
        self.producer(id).map(|producer| producer.ordinal)
    }

    /// What is known of a producer.
    pub fn producer(&self, id: u128) -> Option<&Producer> {
        self.producer_at(id).ok().map(|at| &self.producers[at])
    }

    /// Objects that an owner has committed; `None` if that is not known any more.
    pub fn committed_by(&self, claim: Claim) -> Option<u64> {
        match claim == self.claim() {
            true => Some(self.committed),
            false => self
                .past
                .iter()
                .find(|past| (past.epoch, past.run) == (claim.epoch, claim.run))
                .map(|past| past.committed),
        }
    }

    /// Edit: another owner takes the partition.
    pub fn claimed(&self, run: u64, owner: &str) -> Option<Self> {
        if self.run == run {
            return None;
        }
        let mut next = self.edited();
        next.past.push(Past { epoch: self.epoch, run: self.run, committed: self.committed });
        let excess = next.past.len().saturating_sub(PAST_MAX);
        next.past.drain(..excess);
        (next.epoch, next.run, next.owner) = (self.epoch + 1, run, shortened(owner));
        (next.committed, next.sealed) = (0, 0);
        Some(next)
    }

    /// Edit: objects of the present owner enter the log, in the order of their numbers. Those that are in it already are passed
    /// over, and those beyond the tail's bound wait.
    pub fn committing(&self, drafts: &[Draft], now_ms: i64) -> Option<Self> {
        let new = drafts.iter().filter(|draft| draft.entry.number >= self.committed);
        let room = TAIL_MAX.saturating_sub(self.tail.len());
        let mut next = self.edited();
        next.stamp_ms = self.stamp(now_ms);
        for draft in new.take(room) {
            // Only in their order, and never over a gap.
            if draft.entry.number != next.committed {
                break;
            }
            let entry = Entry { first: next.next, stamp_ms: next.stamp_ms, ..draft.entry };
            next.next = entry.end();
            next.committed += 1;
            next.bytes += entry.bytes;
            next.tail.push(entry);
            for (id, newest) in &draft.producers {
                next.watermark_moved(*id, *newest);
            }
        }
        (next.committed > self.committed).then_some(next)
    }

    /// Edit: what `reference` covers leaves the level below for its segment. `None` if it has left already.
    pub fn sealing(&self, reference: &Reference) -> Option<Self> {
        let level = reference.level as usize;
        let mut next = self.edited();
        let begins = |first: Option<u64>| first == Some(reference.first);
        let count = match level {
            0 => {
                let count = self.tail.iter().take_while(|entry| entry.end() <= reference.end()).count();
                if !begins(self.tail.first().map(|entry| entry.first)) || count == 0 {
                    return None;
                }
                next.tail.drain(..count);
                count
            }
            _ => {
                let below = &self.levels.get(level - 1)?.references;
                let count = below.iter().take_while(|below| below.end() <= reference.end()).count();
                if !begins(below.first().map(|below| below.first)) || count == 0 {
                    return None;
                }
                next.levels[level - 1].references.drain(..count);
                count
            }
        };
        debug_assert!(count <= FANOUT);
        if next.levels.len() <= level {
            next.levels.resize(level + 1, Level::default());
        }
        next.levels[level].references.push(*reference);
        next.sealed = next.sealed.max(reference.number + 1);
        Some(next)
    }

    /// Edit: nothing below `low` is held any more.
    pub fn truncated(&self, low: u64) -> Option<Self> {
        let low = low.min(self.next);
        (low > self.low).then(|| Self { low, ..self.edited() })
    }

    /// Edit: objects of entries that end at or below `cleaned` are deleted; what the root itself says of them goes.
    pub fn cleaned(&self, cleaned: u64, bytes: u64) -> Option<Self> {
        let cleaned = cleaned.min(self.low);
        if cleaned <= self.cleaned {
            return None;
        }
        let mut next = Self { cleaned, bytes: self.bytes.saturating_sub(bytes), ..self.edited() };
        next.tail.retain(|entry| entry.end() > cleaned);
        for level in &mut next.levels {
            level.references.retain(|reference| reference.end() > cleaned);
        }
        Some(next)
    }

    /// Edit: retention waits for this consumer, or no longer.
    pub fn with_consumer(&self, name: &str, is_member: bool) -> Option<Self> {
        match (self.consumers.binary_search_by(|known| known.as_str().cmp(name)), is_member) {
            (Err(at), true) if self.consumers.len() < CONSUMERS_MAX => {
                let mut next = self.edited();
                next.consumers.insert(at, name.to_owned());
                Some(next)
            }
            (Ok(at), false) => {
                let mut next = self.edited();
                next.consumers.remove(at);
                Some(next)
            }
            _ => None,
        }
    }

    /// Whether a producer that is not known can be taken in now.
    pub fn has_room_for_producer(&self, now_ms: i64) -> bool {
        let now_ms = self.stamp(now_ms);
        self.producers.len() < PRODUCERS_MAX
            || self.producers.iter().any(|producer| now_ms - producer.stamp_ms > PRODUCER_IDLE_MS)
    }

    fn edited(&self) -> Self {
        Self { revision: self.revision + 1, ..self.clone() }
    }

    fn producer_at(&self, id: u128) -> Result<usize, usize> {
        self.producers.binary_search_by_key(&id, |producer| id_of(&producer.id))
    }

    fn watermark_moved(&mut self, id: u128, newest: Newest) {
        let Newest { ordinal, digest } = newest;
        let stamp_ms = self.stamp_ms;
        match self.producer_at(id) {
            Ok(at) => {
                let known = &mut self.producers[at];
                known.stamp_ms = stamp_ms;
                if ordinal > known.ordinal {
                    (known.ordinal, known.digest) = (ordinal, digest);
                }
            }
            Err(_) => {
                if self.producers.len() >= PRODUCERS_MAX {
                    let oldest = (0..self.producers.len()).min_by_key(|at| self.producers[*at].stamp_ms);
                    self.producers.remove(oldest.expect("there are many"));
                }
                let at = self.producer_at(id).expect_err("it is not known");
                let id = id.to_be_bytes().to_vec();
                self.producers.insert(at, Producer { id, ordinal, digest, stamp_ms });
            }
        }
    }

    /// All that the root itself says of the log, oldest first: references by level, then entries.
    pub fn spans(&self) -> impl Iterator<Item = Span> + '_ {
        let references = self.levels.iter().rev().flat_map(|level| &level.references).map(Span::of_reference);
        references.chain(self.tail.iter().map(Span::of_entry))
    }

    /// The bytes of the register.
    pub fn to_bytes(&self) -> Vec<u8> {
        framing::encode(MAGIC, self)
    }

    /// Reads a root from the bytes of its register.
    ///
    /// # Errors
    /// When the bytes are damaged, of another format, or say what cannot be.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, FormatError> {
        if bytes.len() as u64 > ROOT_BYTES_MAX {
            return Err(damaged("it is longer than any root"));
        }
        let root: Self = framing::decode(MAGIC, bytes)?;
        root.check().map_err(damaged)?;
        Ok(root)
    }

    /// Whether all bounds hold and everything lies side by side (L1, L8).
    fn check(&self) -> Result<(), &'static str> {
        let is_bounded = self.tail.len() <= TAIL_MAX
            && self.levels.len() <= LEVELS_MAX
            && self.levels.iter().all(|level| level.references.len() <= LEVEL_MAX)
            && self.producers.len() <= PRODUCERS_MAX
            && self.consumers.len() <= CONSUMERS_MAX
            && self.past.len() <= PAST_MAX;
        if !is_bounded {
            return Err("a list is longer than it may be");
        }
        if self.queue.len() != 16 || self.producers.iter().any(|producer| producer.id.len() != 16) {
            return Err("an id does not have 16 bytes");
        }
        if !self.producers.is_sorted_by(|a, b| a.id < b.id) || !self.consumers.is_sorted_by(|a, b| a < b) {
            return Err("a list is out of order");
        }
        if self.consumers.iter().any(|name| !crate::names::is_consumer(name)) {
            return Err("a consumer has no name");
        }
        let is_level = |(level, list): (usize, &Level)| {
            list.references.iter().all(|reference| reference.level as usize == level)
        };
        if !self.levels.iter().enumerate().all(is_level) {
            return Err("a reference is in the wrong level");
        }
        let own = [self.revision, self.epoch, self.next, self.committed, self.sealed, self.bytes];
        let of_producers = self.producers.iter().flat_map(|p| [p.ordinal, p.stamp_ms.unsigned_abs()]);
        let of_past = self.past.iter().flat_map(|past| [past.epoch, past.committed]);
        let is_bounded = are_counts(own.into_iter().chain(of_producers).chain(of_past))
            && are_counts([self.stamp_ms.unsigned_abs()])
            && self.tail.iter().all(Entry::is_bounded)
            && self.levels.iter().flat_map(|level| &level.references).all(Reference::is_bounded);
        if !is_bounded {
            return Err("it holds numbers that no log comes to");
        }
        let mut at: Option<u64> = None;
        for span in self.spans() {
            if span.first >= span.end || at.is_some_and(|at| at != span.first) {
                return Err("its entries do not lie side by side");
            }
            at = Some(span.end);
        }
        let holds = match at {
            Some(end) => end == self.next && self.spans().next().is_some_and(|span| span.first <= self.low),
            None => self.low == self.next,
        };
        match holds && self.cleaned <= self.low && self.low <= self.next {
            true => Ok(()),
            false => Err("its positions do not agree"),
        }
    }
}

/// 16 bytes as a number; 0 for anything else, which is never drawn.
pub(crate) fn id_of(bytes: &[u8]) -> u128 {
    bytes.try_into().map_or(0, u128::from_be_bytes)
}

fn shortened(owner: &str) -> String {
    owner.chars().take(OWNER_BYTES_MAX / 4).collect()
}

#[cfg(test)]
mod tests;
