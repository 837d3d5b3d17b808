//! How many rows of each key the table may hold, and how what it holds differs.
//!
//! Owns the arithmetic, pure. Does not own how the two sides are read (`verify::reading`, `clickhouse::reconcile`), nor which record of a
//! key is the newest (`verify::newest`). The order in which the partitions were read is not known afterwards, so a key whose duplicates lie
//! at the edge of the window has bounds and not one number.

use std::collections::BTreeMap;

use clickhouse::reconcile::{Digest, SameRows, Value};
use dataflow::block::TIME_UNKNOWN_MS;

use super::newest::candidates;
use super::place::Places;
use super::spill::Entry;

/// How the records of a key become rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Every record is a row.
    EveryCopy,
    /// Of the records within the window only the first to be read.
    OneEver,
    /// The same for a window in milliseconds.
    OnePerWindow(i64),
    /// Of all records the newest, unless it deletes the key.
    Newest,
}

/// What is expected of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Rows at least.
    pub least: u64,
    /// Rows at most.
    pub most: u64,
    /// Its oldest record; of rows that replace each other the newest.
    pub first: Entry,
}

impl Expected {
    /// What is expected of the key of `copies`, which are sorted; at least one.
    pub fn of(rule: Rule, copies: &[Entry]) -> Self {
        if rule == Rule::Newest {
            return Self::of_newest(&candidates(copies));
        }
        let count = copies.len() as u64;
        let (least, most) = match rule {
            Rule::EveryCopy => (count, count),
            Rule::OneEver | Rule::Newest => (1, 1),
            Rule::OnePerWindow(_) if count == 1 => (1, 1),
            Rule::OnePerWindow(_) if copies.iter().any(|c| c.order == TIME_UNKNOWN_MS) => (1, count),
            Rule::OnePerWindow(window_ms) => within(window_ms, copies),
        };
        Self { least, most, first: copies[0] }
    }

    /// One row, or none if the newest record deletes the key; either if that is not known.
    fn of_newest(candidates: &[&Entry]) -> Self {
        let is_kept = |copy: &&&Entry| !copy.is_deleted;
        let kept = candidates.iter().filter(is_kept).count();
        let (least, most) = (u64::from(kept == candidates.len()), u64::from(kept > 0));
        Self { least, most, first: *candidates[0] }
    }
}

/// Time is cut into sixteenths of the window: records farther apart than a window may both stay, those farther apart than
/// 17/16 of it certainly do.
fn within(window_ms: i64, copies: &[Entry]) -> (u64, u64) {
    let surely = window_ms.saturating_add(window_ms / 16).saturating_add(1);
    let (mut least, mut most) = (1, 1);
    let mut kept = copies[0].order;
    for pair in copies.windows(2) {
        let time = pair[1].order;
        if time.saturating_sub(pair[0].order) > surely {
            least += 1;
        }
        if time.saturating_sub(kept) > window_ms {
            most += 1;
            kept = time;
        }
    }
    (least, most)
}

/// What a bucket must hold if all is well; `None` if that is not one number.
pub fn digest(expected: &[Expected]) -> Option<Digest> {
    let mut digest = Digest::default();
    for key in expected {
        if key.least != key.most {
            return None;
        }
        digest.add(key.first.hash, key.least);
    }
    Some(digest)
}

/// The keys of sorted entries, in order.
pub fn keys(rule: Rule, entries: &[Entry], refused: &Places) -> Vec<Expected> {
    let expected = |copies: &[Entry]| {
        let expected = Expected::of(rule, copies);
        match is_unknown(rule, copies, refused) {
            true => Expected { least: 0, most: 1, ..expected },
            false => expected,
        }
    };
    entries.chunk_by(|a, b| a.hash == b.hash).map(expected).collect()
}

/// Whether the row of a key cannot be known: the server has refused one of its records, and those of its batch that it replaced were not sent.
fn is_unknown(rule: Rule, copies: &[Entry], refused: &Places) -> bool {
    let is_refused = |copy: &Entry| copy.place.is_in(refused);
    rule == Rule::Newest && !refused.is_empty() && copies.iter().any(is_refused)
}

/// Keys of sorted entries whose newest record is not one, because several partitions have records of them.
pub fn without_order(rule: Rule, entries: &[Entry]) -> u64 {
    if rule != Rule::Newest {
        return 0;
    }
    let keys = entries.chunk_by(|a, b| a.hash == b.hash);
    keys.filter(|copies| candidates(copies).len() > 1).count() as u64
}

/// What the hashes of the values in a bucket must sum up to if all is well; `None` if that is not one number: copies of a key have
/// different values, and which of them became the row is not known; or a record left out what the server has filled in.
pub fn value_sum(rule: Rule, entries: &[Entry], refused: &Places) -> Option<u64> {
    entries.chunk_by(|a, b| a.hash == b.hash).try_fold(0_u64, |sum, copies| {
        if rule == Rule::Newest {
            return match candidates(copies)[..] {
                _ if is_unknown(rule, copies, refused) => None,
                [newest] if newest.is_deleted => Some(sum),
                [newest] if newest.missing == 0 => Some(sum.wrapping_add(newest.value)),
                _ => None,
            };
        }
        let Expected { least, most, first } = Expected::of(rule, copies);
        if copies.iter().any(|copy| copy.missing != 0) {
            return None;
        }
        if least == copies.len() as u64 {
            return Some(copies.iter().fold(sum, |sum, copy| sum.wrapping_add(copy.value)));
        }
        let is_one = least == most && copies.iter().all(|copy| copy.value == first.value);
        is_one.then(|| sum.wrapping_add(first.value.wrapping_mul(least)))
    })
}

/// Keys of rows whose values are those of no record of their key: the first record, and how many such rows. `found` has
/// rows of a range of hashes, ascending by key; `entries` are those of the same range. Keys without a record are left out.
pub fn different(rule: Rule, entries: &[Entry], found: &[SameRows], refused: &Places) -> Vec<(Entry, u64)> {
    let mut all: Vec<(Entry, u64)> = Vec::new();
    for same in found {
        let SameRows { key: hash, rows, .. } = same;
        let begin = entries.partition_point(|entry| entry.hash < *hash);
        let end = entries.partition_point(|entry| entry.hash <= *hash);
        let copies = &entries[begin..end];
        if copies.is_empty() || is_unknown(rule, copies, refused) {
            continue;
        }
        let copies: Vec<&Entry> = match rule {
            // A deleted key with a row is one row too many, whatever its values.
            Rule::Newest => candidates(copies).into_iter().filter(|copy| !copy.is_deleted).collect(),
            Rule::EveryCopy | Rule::OneEver | Rule::OnePerWindow(_) => copies.iter().collect(),
        };
        let Some(first) = copies.first().copied() else { continue };
        if copies.iter().any(|copy| same.are_of(Value { sum: copy.value, missing: copy.missing })) {
            continue;
        }
        match all.last_mut() {
            Some((last, more)) if last.hash == *hash => *more += rows,
            _ => all.push((*first, *rows)),
        }
    }
    all
}

/// How a table differs, by hash.
#[derive(Debug, Default)]
pub struct Differences {
    /// Keys of rows whose values are those of no record of theirs, with the first record and the number of such rows.
    pub different: BTreeMap<u64, (Entry, u64)>,
    /// Keys with fewer rows than expected, and the rows that are there.
    pub missing: BTreeMap<u64, (Expected, u64)>,
    /// Keys with more.
    pub duplicate: BTreeMap<u64, (Expected, u64)>,
    /// Rows of keys that are not expected at all.
    pub foreign: BTreeMap<u64, u64>,
    /// Differences beyond [`DIFFERENCES_MAX`], which are not checked again.
    pub more: u64,
}

/// Differences of each kind that are checked again; more are no stray rows, but another table.
pub const DIFFERENCES_MAX: usize = 1_000_000;

impl Differences {
    /// Compares the keys of a range of hashes with what the table holds there, both ascending by hash.
    pub fn compare(&mut self, expected: &[Expected], found: &[(u64, u64)]) {
        let (mut expected, mut found) = (expected.iter().peekable(), found.iter().peekable());
        loop {
            match (expected.peek(), found.peek()) {
                (None, None) => return,
                (Some(key), Some((hash, rows))) if key.first.hash == *hash => {
                    self.judge(key, *rows);
                    expected.next();
                    found.next();
                }
                (Some(key), other) if other.is_none_or(|(hash, _)| key.first.hash < *hash) => {
                    self.judge(key, 0);
                    expected.next();
                }
                (_, Some((hash, rows))) => {
                    if self.foreign.len() < DIFFERENCES_MAX {
                        self.foreign.insert(*hash, *rows);
                    } else {
                        self.more += 1;
                    }
                    found.next();
                }
                (Some(_), None) => unreachable!("the arm above takes it"),
            }
        }
    }

    /// The same for a part of the source only: keys that it does not hold are left out, and one with more rows may have records
    /// elsewhere ([`Differences::retain_beyond`]).
    pub fn compare_range(&mut self, expected: &[Expected], found: &[(u64, u64)]) {
        let mut range = Self::default();
        range.compare(expected, found);
        self.missing.append(&mut range.missing);
        self.duplicate.append(&mut range.duplicate);
        self.more += range.more;
    }

    /// Leaves among the duplicates of a range only keys with more rows than all records of theirs, wherever they stand, can have
    /// become. `records` counts those.
    pub fn retain_beyond(&mut self, rule: Rule, records: &BTreeMap<u64, u64>) {
        if matches!(rule, Rule::OneEver | Rule::Newest) {
            return;
        }
        self.duplicate.retain(|hash, (expected, rows)| {
            // Each record is one row at the most. Which of them lie within a window of each other is not looked into.
            expected.most = expected.most.max(records.get(hash).copied().unwrap_or(0));
            *rows > expected.most
        });
    }

    /// Strikes out rows beyond those that keys of records explain, if they are no more than records without a known key can have become, and
    /// gives their number. Too few are missing rows beside them; of too many, nobody can say which are foreign.
    pub fn explain_nameless(&mut self, expected: Expected) -> Option<u64> {
        let foreign: u64 = self.foreign.values().sum();
        let beyond: u64 = self.duplicate.values().map(|(key, rows)| rows - key.most).sum();
        let rows = foreign + beyond;
        if rows < expected.least {
            self.missing.insert(expected.first.hash, (expected, rows));
        }
        // Differences that were only counted may be such rows, too.
        if rows > expected.most || self.more > 0 {
            return None;
        }
        self.foreign.clear();
        self.duplicate.clear();
        Some(rows)
    }

    /// Remembers rows whose values are those of no record of their key.
    pub fn differ(&mut self, entry: Entry, rows: u64) {
        if self.different.len() < DIFFERENCES_MAX {
            self.different.insert(entry.hash, (entry, rows));
        } else {
            self.more += 1;
        }
    }

    fn judge(&mut self, key: &Expected, rows: u64) {
        let place = match rows {
            rows if rows < key.least => &mut self.missing,
            rows if rows > key.most => &mut self.duplicate,
            _ => return,
        };
        if place.len() < DIFFERENCES_MAX {
            place.insert(key.first.hash, (*key, rows));
        } else {
            self.more += 1;
        }
    }

    /// True if there is none.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty()
            && self.duplicate.is_empty()
            && self.foreign.is_empty()
            && self.more == 0
            && self.different.is_empty()
    }
}

#[cfg(test)]
mod tests;
