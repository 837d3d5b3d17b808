//! The sessions of keys by number, without their aggregates: when each begins and ends, how many rows it has, and which others are of its key.
//!
//! Owns the order of the sessions of a key, and which of them a record joins together. Does not own when one is closed.

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
    /// The newest session of each key.
    heads: Vec<u32>,
    /// Of each session the next one of its key.
    next: Vec<u32>,
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
            heads: Vec::new(),
            next: Vec::new(),
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
        self.heads.resize(self.keys.len(), NONE);
        number
    }

    /// A new session, which is near to none of its key.
    pub fn add(&mut self, key: u32, span: Span, rows: u64) -> u32 {
        let number = self.spans.len() as u32;
        self.next.push(std::mem::replace(&mut self.heads[key as usize], number + 1));
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
        let session = |entry: u32| entry.checked_sub(NONE + 1);
        let first = session(self.heads[key as usize]);
        let of_key = std::iter::successors(first, move |number| session(self.next[*number as usize]));
        of_key.filter(move |number| self.span(*number).is_near(span, gap))
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

    /// The sessions of a key, in no order.
    pub fn spans_of(&self, key: &[u8]) -> impl Iterator<Item = Span> + use<'_> {
        let session = |entry: u32| entry.checked_sub(NONE + 1);
        let first = self.keys.lookup(key).and_then(|key| session(self.heads[key as usize]));
        let of_key = std::iter::successors(first, move |number| session(self.next[*number as usize]));
        of_key.map(|number| self.span(number))
    }

    /// Forgets a session.
    pub fn remove(&mut self, number: u32) {
        self.rows -= std::mem::take(&mut self.rows_of[number as usize]);
        self.unlink(number);
    }

    fn unlink(&mut self, number: u32) {
        let after = self.next[number as usize];
        let head = &mut self.heads[self.key_of[number as usize] as usize];
        if *head == number + 1 {
            *head = after;
            return;
        }
        let mut before = *head as usize - 1;
        while self.next[before] != number + 1 {
            before = self.next[before] as usize - 1;
        }
        self.next[before] = after;
    }

    pub fn memory_bytes(&self) -> usize {
        let small = self.heads.capacity() + self.next.capacity() + self.key_of.capacity();
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
