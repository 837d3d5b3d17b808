//! The sessions of keys by number, without their aggregates: when each begins and ends, how many rows it has, and which others are of its key.
//!
//! Owns the order of the sessions of a key, and which of them a record joins together. Does not own when one is closed.
//!
//! The sessions of a key are a chain in the order of time. Records join the latest ones, or are nearly late and join the earliest, so a place is looked for from the nearer end.

use std::collections::BTreeMap;

use dataflow::StateError;

use crate::window::encoding::{Reader, put_each, put_len};
use crate::window::groups::{Groups, read_keys};
use crate::window::key::Keys;

/// The end of a chain; otherwise one more than the number of a session.
const NONE: u32 = 0;

/// From the first record of a session to its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub first: i64,
    pub last: i64,
}

impl Span {
    /// Whether records of the two are closer than the gap.
    pub fn is_near(self, other: Self, gap: i64) -> bool {
        self.first < other.last.saturating_add(gap) && other.first < self.last.saturating_add(gap)
    }
}

/// A session as it was written: its key, its span and its rows.
pub(super) type Written<'a> = (&'a [u8], Span, u64);

/// Sessions that have become parts of others.
#[derive(Default)]
pub(super) struct Joined(BTreeMap<u32, u32>);

impl Joined {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The session that one is a part of now.
    pub fn root(&self, mut number: u32) -> u32 {
        while let Some(next) = self.0.get(&number) {
            number = *next;
        }
        number
    }

    /// Each with the one that it is a part of now.
    pub fn all(&self) -> impl Iterator<Item = (u32, u32)> {
        self.0.keys().map(|number| (*number, self.root(*number)))
    }
}

/// The sessions.
pub(super) struct Chains {
    keys: Groups,
    /// The latest session of each key, and the earliest.
    latest: Vec<u32>,
    earliest: Vec<u32>,
    /// Of each session the one of its key that is before it in time, and the one behind it.
    earlier: Vec<u32>,
    later: Vec<u32>,
    key_of: Vec<u32>,
    spans: Vec<Span>,
    /// Rows of each; none if it is no session any more.
    rows_of: Vec<u64>,
    rows: u64,
}

impl Chains {
    pub fn new(keys: &Keys) -> Self {
        Self {
            keys: Groups::new(keys, &[]),
            latest: Vec::new(),
            earliest: Vec::new(),
            earlier: Vec::new(),
            later: Vec::new(),
            key_of: Vec::new(),
            spans: Vec::new(),
            rows_of: Vec::new(),
            rows: 0,
        }
    }

    /// Numbers given, also those of no session any more.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Rows of all sessions.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The numbers of sessions, in order.
    pub fn open(&self) -> impl Iterator<Item = u32> + use<'_> {
        (0..).zip(&self.rows_of).filter(|(_, rows)| **rows > 0).map(|(number, _)| number)
    }

    pub fn span(&self, number: u32) -> Span {
        self.spans[number as usize]
    }

    pub fn rows_of(&self, number: u32) -> u64 {
        self.rows_of[number as usize]
    }

    /// The key of a session.
    pub fn key_of(&self, number: u32) -> &[u8] {
        self.keys.key(self.key_of[number as usize] as usize)
    }

    /// The number of a key, which is added if it is new.
    pub fn key(&mut self, key: &[u8]) -> u32 {
        let number = self.keys.find(key);
        self.latest.resize(self.keys.len(), NONE);
        self.earliest.resize(self.keys.len(), NONE);
        number
    }

    /// A new session, which is near to none of its key.
    pub fn add(&mut self, key: u32, span: Span, rows: u64) -> u32 {
        let number = self.spans.len() as u32;
        let earlier = self.last_before(key, span.first);
        let later = match earlier {
            NONE => self.earliest[key as usize],
            earlier => self.later[earlier as usize - 1],
        };
        self.earlier.push(earlier);
        self.later.push(later);
        self.set_later(key, earlier, number + 1);
        self.set_earlier(key, later, number + 1);
        self.key_of.push(key);
        self.spans.push(span);
        self.rows_of.push(rows);
        self.rows += rows;
        number
    }

    /// Takes rows into the session that they are near to, or a new one; several such sessions become the earliest of them.
    pub fn join(&mut self, key: u32, span: Span, rows: u64, gap: i64, joined: &mut Joined) -> u32 {
        let near: Vec<u32> = self.near(key, span, gap).collect();
        let Some(root) = near.iter().copied().min_by_key(|number| self.span(*number).first) else {
            return self.add(key, span, rows);
        };
        self.rows += rows;
        let (mut whole, mut rows) = (span, rows);
        for number in near {
            let own = self.span(number);
            whole = Span { first: whole.first.min(own.first), last: whole.last.max(own.last) };
            rows += std::mem::take(&mut self.rows_of[number as usize]);
            if number != root {
                self.unlink(number);
                joined.0.insert(number, root);
            }
        }
        (self.spans[root as usize], self.rows_of[root as usize]) = (whole, rows);
        root
    }

    /// The sessions of a key that are near to a span.
    fn near(&self, key: u32, span: Span, gap: i64) -> impl Iterator<Item = u32> + use<'_> {
        // Between two of them there is a gap, so those that are near follow one another.
        let last = self.last_before(key, span.last.saturating_add(gap));
        self.backwards(last).take_while(move |number| self.span(*number).is_near(span, gap))
    }

    /// The latest session of a key that begins before a time.
    fn last_before(&self, key: u32, time: i64) -> u32 {
        let first = |entry: u32| self.spans[entry as usize - 1].first;
        let (mut at, earliest) = (self.latest[key as usize], self.earliest[key as usize]);
        if at == NONE || first(at) < time {
            return at;
        }
        if first(at).saturating_sub(time) <= time.saturating_sub(first(earliest)) {
            while at != NONE && first(at) >= time {
                at = self.earlier[at as usize - 1];
            }
            return at;
        }
        let (mut found, mut at) = (NONE, earliest);
        while first(at) < time {
            (found, at) = (at, self.later[at as usize - 1]);
        }
        found
    }

    /// A session and those of its key before it in time, the latest first.
    fn backwards(&self, entry: u32) -> impl Iterator<Item = u32> + use<'_> {
        let session = |entry: u32| entry.checked_sub(NONE + 1);
        std::iter::successors(session(entry), move |number| session(self.earlier[*number as usize]))
    }

    /// Whether a session of a key, by its number, is near to a span.
    pub fn is_near(&self, key: u32, span: Span, gap: i64) -> bool {
        self.near(key, span, gap).next().is_some()
    }

    /// The same for a key that there may not be.
    pub fn has_near(&self, key: &[u8], span: Span, gap: i64) -> bool {
        let number = self.keys.lookup(key);
        number.is_some_and(|number| self.is_near(number, span, gap))
    }

    /// The sessions of a key, the latest first.
    pub fn spans_of(&self, key: &[u8]) -> impl Iterator<Item = Span> + use<'_> {
        let latest = self.keys.lookup(key).map_or(NONE, |key| self.latest[key as usize]);
        self.backwards(latest).map(|number| self.span(number))
    }

    /// Forgets a session.
    pub fn remove(&mut self, number: u32) {
        self.rows -= std::mem::take(&mut self.rows_of[number as usize]);
        self.unlink(number);
    }

    fn unlink(&mut self, number: u32) {
        let (earlier, later) = (self.earlier[number as usize], self.later[number as usize]);
        let key = self.key_of[number as usize];
        self.set_later(key, earlier, later);
        self.set_earlier(key, later, earlier);
    }

    /// What stands behind a session; without one, which is the earliest of the key.
    fn set_later(&mut self, key: u32, of: u32, entry: u32) {
        match of {
            NONE => self.earliest[key as usize] = entry,
            of => self.later[of as usize - 1] = entry,
        }
    }

    /// What stands before a session; without one, which is the latest of the key.
    fn set_earlier(&mut self, key: u32, of: u32, entry: u32) {
        match of {
            NONE => self.latest[key as usize] = entry,
            of => self.earlier[of as usize - 1] = entry,
        }
    }

    pub fn memory_bytes(&self) -> usize {
        let ends = self.latest.capacity() + self.earliest.capacity();
        let small = ends + self.earlier.capacity() + self.later.capacity() + self.key_of.capacity();
        let spans = self.spans.capacity() * size_of::<Span>();
        self.keys.memory_bytes() + small * 4 + spans + self.rows_of.capacity() * 8
    }

    /// Writes sessions of these numbers.
    pub fn write(&self, keys: &Keys, numbers: &[u32], to: &mut Vec<u8>) {
        put_len(to, numbers.len());
        if keys.stride().is_none() {
            let mut end = 0;
            for number in numbers {
                end += self.key_of(*number).len() as u64;
                to.extend_from_slice(&end.to_le_bytes());
            }
        }
        numbers.iter().for_each(|number| to.extend_from_slice(self.key_of(*number)));
        put_each(to, numbers, |number| self.span(number).first.to_le_bytes());
        put_each(to, numbers, |number| self.span(number).last.to_le_bytes());
        put_each(to, numbers, |number| self.rows_of(number).to_le_bytes());
    }

    /// Reads what was written.
    ///
    /// # Errors
    /// When a key is none.
    pub fn read<'a>(keys: &Keys, from: &mut Reader<'a>) -> Result<Vec<Written<'a>>, StateError> {
        let read = read_keys(keys, from)?;
        let firsts = from.numbers(read.len(), i64::from_le_bytes)?;
        let lasts = from.numbers(read.len(), i64::from_le_bytes)?;
        let rows = from.numbers(read.len(), u64::from_le_bytes)?;
        let spans = firsts.into_iter().zip(lasts).map(|(first, last)| Span { first, last });
        Ok(read.into_iter().zip(spans).zip(rows).map(|((key, span), rows)| (key, span, rows)).collect())
    }
}

#[cfg(test)]
mod tests;
