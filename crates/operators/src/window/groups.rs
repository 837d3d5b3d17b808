//! The groups of one window: a key each, the number of its rows, and its aggregates, in columns.
//!
//! Owns the way from a key to its group: an index of four bytes an entry, at most three quarters full, over hashes of eight bytes. Two
//! keys are the same if their bytes are. Comparing a key of eight bytes, which most are, costs no more than comparing its hash, so that is not kept.
//! Does not own how keys are made (`key`) or what is computed (`accumulator`).

use arrow_array::RecordBatch;
use dataflow::StateError;
use xxhash_rust::xxh3::xxh3_64;

use super::accumulator::{Accumulators, Rows};
use super::aggregate::Bound;
use super::encoding::{Reader, damaged, put_each, put_len};
use super::key::{Encoded, Keys};
use super::plan::Plan;
use super::values::{grow_to, spare};

/// An entry of the index that stands for no group.
const FREE: u32 = 0;

/// Rows of one window at the most, as read from a store that others may write to: three days of a billion a second, and sums of many such
/// numbers still fit into theirs.
const ROWS_MAX: u64 = 1 << 48;

/// Groups of one window at the most: their numbers have 32 bits.
pub const GROUPS_MAX: usize = (u32::MAX - 1) as usize;

/// The hash of a key of eight bytes: both halves of a product, of which the high one depends on all bits of the key, and the index is of the low bits. Floats of few digits
/// differ in their high bits alone, or have the same low ones, and so have numbers that were shifted to the left. Of some of those the halves still agree in too many
/// bits, which a second product spreads.
#[inline]
fn hash_of_eight(key: [u8; 8]) -> u64 {
    let product = u128::from(u64::from_le_bytes(key) ^ 0xa076_1d64_78bd_642f) * 0xe703_7ed1_a0b4_28db;
    let folded = product as u64 ^ (product >> 64) as u64;
    folded.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32)
}

/// Makes room for so many more, and some on top.
fn make_room<T>(values: &mut Vec<T>, more: usize) {
    if values.capacity() - values.len() < more {
        values.reserve_exact(more + spare(values.len()));
    }
}

/// The same with half as much as there is on top.
fn make_ample_room<T>(values: &mut Vec<T>, more: usize) {
    if values.capacity() - values.len() < more {
        values.reserve_exact(more.max(values.len() / 2));
    }
}

/// Gives room back beyond what a column gets when it grows slowly.
fn give_room_back<T>(values: &mut Vec<T>) {
    values.shrink_to(values.len() + spare(values.len()));
}

/// The groups of one window.
pub(super) struct Groups {
    /// One more than the group's number, or [`FREE`]; a power of two of them.
    index: Vec<u32>,
    /// The hash of each key, unless all have eight bytes.
    hashes: Vec<u64>,
    len: usize,
    /// The keys, one after the other.
    keys: Vec<u8>,
    /// Where each ends, unless all have as many bytes.
    ends: Vec<u64>,
    stride: Option<usize>,
    /// Rows of each group.
    pub(super) counts: Vec<u64>,
    /// Rows of all groups.
    rows: u64,
    /// The seal that each last had rows in, where results come before a window is closed; otherwise empty.
    seals: Vec<u64>,
    pub(super) accumulators: Accumulators,
}

impl Groups {
    /// None.
    pub fn new(keys: &Keys, aggregates: &[Bound]) -> Self {
        Self {
            index: vec![FREE; 16],
            hashes: Vec::new(),
            len: 0,
            keys: Vec::new(),
            ends: Vec::new(),
            stride: keys.stride(),
            counts: Vec::new(),
            rows: 0,
            seals: Vec::new(),
            accumulators: Accumulators::new(aggregates),
        }
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The rows that went into them.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The key of a group.
    pub fn key(&self, group: usize) -> &[u8] {
        match self.stride {
            Some(stride) => &self.keys[group * stride..(group + 1) * stride],
            None => {
                let begin = group.checked_sub(1).map_or(0, |before| self.ends[before]);
                &self.keys[begin as usize..self.ends[group] as usize]
            }
        }
    }

    /// The groups of rows by their keys; those that are new are added. Their aggregates grow with [`grow`](Self::grow).
    pub fn groups_of(&mut self, keys: &Encoded, rows: &[u32]) -> Vec<u32> {
        match keys.eights() {
            Some(keys) => rows.iter().map(|row| self.find_eight(keys[*row as usize])).collect(),
            None => rows.iter().map(|row| self.find(keys.get(*row as usize))).collect(),
        }
    }

    /// The group of a key, which is added if it is new.
    pub(super) fn find(&mut self, key: &[u8]) -> u32 {
        match key.try_into() {
            Ok(key) if self.stride == Some(8) => self.find_eight(key),
            _ => self.find_any(xxh3_64(key), key),
        }
    }

    /// The same where all keys have eight bytes.
    fn find_eight(&mut self, key: [u8; 8]) -> u32 {
        let hash = hash_of_eight(key);
        let mask = self.index.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            match self.index[at] {
                FREE => return self.add(at, hash, &key),
                entry if self.keys.as_chunks::<8>().0[entry as usize - 1] == key => return entry - 1,
                _ => at = (at + 1) & mask,
            }
        }
    }

    fn find_any(&mut self, hash: u64, key: &[u8]) -> u32 {
        let mask = self.index.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            match self.index[at] {
                FREE => return self.add(at, hash, key),
                entry => {
                    let group = entry as usize - 1;
                    if self.hashes[group] == hash && self.key(group) == key {
                        return group as u32;
                    }
                }
            }
            at = (at + 1) & mask;
        }
    }

    /// Adds a group whose entry is free.
    fn add(&mut self, at: usize, hash: u64, key: &[u8]) -> u32 {
        assert!(self.len < GROUPS_MAX, "memory ends before the numbers of groups do");
        if self.stride != Some(8) {
            make_room(&mut self.hashes, 1);
            self.hashes.push(hash);
        }
        self.len += 1;
        make_room(&mut self.keys, key.len());
        self.keys.extend_from_slice(key);
        if self.stride.is_none() {
            make_room(&mut self.ends, 1);
            self.ends.push(self.keys.len() as u64);
        }
        self.index[at] = self.len as u32;
        if self.len * 4 > self.index.len() * 3 {
            self.rebuild();
        }
        self.len as u32 - 1
    }

    /// The group of a key, if there is one.
    pub(super) fn lookup(&self, key: &[u8]) -> Option<u32> {
        let eight = key.try_into().ok().filter(|_| self.stride == Some(8));
        let hash = eight.map_or_else(|| xxh3_64(key), hash_of_eight);
        let mask = self.index.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let group = (self.index[at] as usize).checked_sub(1)?;
            if self.key(group) == key {
                return Some(group as u32);
            }
            at = (at + 1) & mask;
        }
    }

    fn rebuild(&mut self) {
        let len = self.index.len() * 2;
        self.index.clear();
        self.index.resize(len, FREE);
        for group in 0..self.len {
            let hash = match self.hashes.get(group) {
                Some(hash) => *hash,
                None => hash_of_eight(self.keys.as_chunks::<8>().0[group]),
            };
            let mut at = hash as usize & (len - 1);
            while self.index[at] != FREE {
                at = (at + 1) & (len - 1);
            }
            self.index[at] = group as u32 + 1;
        }
    }

    /// Gives groups that were added their counts and aggregates.
    pub(super) fn grow(&mut self) {
        let len = self.len();
        grow_to(&mut self.counts, len, 0);
        self.accumulators.grow(len);
    }

    /// Takes rows of a batch in, whose groups [`groups_of`](Self::groups_of) said.
    ///
    /// # Errors
    /// When a column is missing or of another form.
    pub fn update(&mut self, batch: &RecordBatch, aggregates: &[Bound], of: Rows<'_>) -> Result<(), String> {
        self.grow();
        of.groups.iter().for_each(|group| self.counts[*group as usize] += 1);
        self.rows += of.groups.len() as u64;
        self.accumulators.update(batch, aggregates, of)
    }

    /// Takes later groups in.
    pub fn merge(&mut self, later: &Self) {
        let moves = self.find_all(later);
        self.merge_found(later, &moves);
    }

    /// The same with ample room for keys that are new: for groups that grow fast, and [give room back](Self::give_room_back) soon. Room for their counts and aggregates is made only
    /// once it is known that there are new ones: most batches bring keys that are there.
    pub fn merge_amply(&mut self, later: &Self) {
        let before = self.len;
        make_ample_room(&mut self.keys, later.keys.len());
        if self.stride != Some(8) {
            make_ample_room(&mut self.hashes, later.len);
        }
        if self.stride.is_none() {
            make_ample_room(&mut self.ends, later.len);
        }
        let moves = self.find_all(later);
        if self.len > self.counts.capacity() {
            let ample = self.len.max(before + before / 2);
            self.counts.reserve_exact(ample - self.counts.len());
            self.accumulators.reserve(ample);
        }
        self.merge_found(later, &moves);
    }

    /// Takes no more room than groups that grow slowly.
    pub fn give_room_back(&mut self) {
        give_room_back(&mut self.keys);
        give_room_back(&mut self.hashes);
        give_room_back(&mut self.ends);
        give_room_back(&mut self.counts);
        self.accumulators.give_room_back();
    }

    /// Each of the later groups, and the one here; those that are new are added.
    fn find_all(&mut self, later: &Self) -> Vec<(u32, u32)> {
        (0..later.len() as u32).map(|from| (from, self.find_of(later, from as usize))).collect()
    }

    fn merge_found(&mut self, later: &Self, moves: &[(u32, u32)]) {
        self.grow();
        moves.iter().for_each(|(from, to)| self.counts[*to as usize] += later.counts[*from as usize]);
        self.rows += later.rows;
        self.stamp_as(later, moves);
        self.accumulators.merge(&later.accumulators, moves);
    }

    /// As [`merge`](Self::merge), of some of them alone.
    pub fn merge_some(&mut self, later: &Self, numbers: std::ops::Range<u32>) {
        let moves: Vec<(u32, u32)> = numbers.map(|from| (from, self.find_of(later, from as usize))).collect();
        self.grow();
        for (from, to) in &moves {
            self.counts[*to as usize] += later.counts[*from as usize];
            self.rows += later.counts[*from as usize];
        }
        self.stamp_as(later, &moves);
        self.accumulators.merge(&later.accumulators, &moves);
    }

    /// Groups that took others in had rows when those last had any, if that is kept.
    fn stamp_as(&mut self, later: &Self, moves: &[(u32, u32)]) {
        if later.seals.is_empty() {
            return;
        }
        self.seals.resize(self.len(), 0);
        for (from, to) in moves {
            let seal = later.seals[*from as usize];
            self.seals[*to as usize] = self.seals[*to as usize].max(seal);
        }
    }

    /// Takes groups of others in: each pair is a group there, and the one here, which [`find`](Self::find) has given.
    pub fn merge_moves(&mut self, others: &Self, moves: &[(u32, u32)]) {
        self.grow();
        for (from, to) in moves {
            let count = others.counts[*from as usize];
            self.counts[*to as usize] += count;
            self.rows += count;
        }
        self.accumulators.merge(&others.accumulators, moves);
    }

    /// Takes what `others` keep in, under keys that are none of these yet: of each its key, its number there, and its rows.
    pub fn take_as(&mut self, others: &Accumulators, all: impl Iterator<Item = (Vec<u8>, u32, u64)>) {
        let mut moves = Vec::new();
        for (key, from, rows) in all {
            let to = self.find(&key);
            grow_to(&mut self.counts, self.len, 0);
            self.counts[to as usize] = rows;
            self.rows += rows;
            moves.push((from, to));
        }
        self.grow();
        self.accumulators.merge(others, &moves);
    }

    /// Behind which of the groups, which are sorted by key, a key ends.
    pub fn end_of(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.len);
        while low < high {
            let middle = low.midpoint(high);
            if self.key(middle) <= key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The group of a key of others, which is added if it is new.
    fn find_of(&mut self, others: &Self, group: usize) -> u32 {
        match others.hashes.get(group) {
            Some(hash) => self.find_any(*hash, others.key(group)),
            None => self.find(others.key(group)),
        }
    }

    /// All of them had rows in this seal.
    pub fn stamp(&mut self, seal: u64) {
        self.seals = vec![seal; self.len()];
    }

    /// The newest seal that any had rows in; 0 if that is not kept.
    pub fn newest(&self) -> u64 {
        self.seals.iter().copied().max().unwrap_or(0)
    }

    /// Those that had rows after a seal.
    pub fn changed_after(&self, seal: u64) -> Vec<u32> {
        (0..).zip(&self.seals).filter(|(_, own)| **own > seal).map(|(number, _)| number).collect()
    }

    /// Some of them, in this order, each once.
    pub fn picked(&self, plan: &Plan, numbers: &[u32]) -> Self {
        let mut picked = Self::new(&plan.keys, &plan.aggregates);
        let moves: Vec<(u32, u32)> =
            numbers.iter().map(|from| (*from, picked.find_of(self, *from as usize))).collect();
        picked.grow();
        moves.iter().for_each(|(from, to)| picked.counts[*to as usize] = self.counts[*from as usize]);
        picked.stamp_as(self, &moves);
        picked.accumulators.merge(&self.accumulators, &moves);
        picked
    }

    /// Takes some groups of others in, which are none of these yet, with their seals.
    pub fn take_stamped(&mut self, others: &Self, numbers: &[u32]) {
        let moves: Vec<(u32, u32)> =
            numbers.iter().map(|from| (*from, self.find_of(others, *from as usize))).collect();
        self.grow();
        self.seals.resize(self.len(), 0);
        for (from, to) in &moves {
            let count = others.counts[*from as usize];
            self.counts[*to as usize] = count;
            self.rows += count;
            self.seals[*to as usize] = others.seals[*from as usize];
        }
        self.accumulators.merge(&others.accumulators, &moves);
    }

    /// The seal that each last had rows in, or was written with; empty if that is not kept.
    pub fn seals(&self) -> &[u64] {
        &self.seals
    }

    /// Writes the seals that they had rows in, for a snapshot.
    pub(super) fn write_seals(&self, to: &mut Vec<u8>) {
        put_each(to, &self.seals, u64::to_le_bytes);
    }

    /// Reads them.
    ///
    /// # Errors
    /// When one is none of those up to `newest`.
    pub(super) fn read_seals(&mut self, newest: u64, from: &mut Reader<'_>) -> Result<(), StateError> {
        self.seals = from.numbers(self.len(), u64::from_le_bytes)?;
        match self.seals.iter().all(|seal| (1..=newest).contains(seal)) {
            true => Ok(()),
            false => Err(damaged("has a key of a seal that was not")),
        }
    }

    /// Writes them with the seals that they had rows in, where results come before a window is closed.
    pub(super) fn write_stamped(&self, plan: &Plan, to: &mut Vec<u8>) {
        self.write(to);
        if plan.emit.is_some() {
            self.write_seals(to);
        }
    }

    /// Reads what was written so.
    ///
    /// # Errors
    /// As [`read`](Self::read), and when a seal is none.
    pub(super) fn read_stamped(plan: &Plan, from: &mut Reader<'_>) -> Result<Self, StateError> {
        let mut groups = Self::read(&plan.keys, &plan.aggregates, from)?;
        if plan.emit.is_some() {
            groups.read_seals(u64::MAX, from)?;
        }
        Ok(groups)
    }

    /// Writes them for a seal.
    pub(super) fn write(&self, to: &mut Vec<u8>) {
        put_len(to, self.len());
        put_each(to, &self.ends, u64::to_le_bytes);
        to.extend_from_slice(&self.keys);
        put_each(to, &self.counts, u64::to_le_bytes);
        self.accumulators.write(to);
    }

    /// Reads what was written.
    ///
    /// # Errors
    /// When a key is none or there twice, or the aggregates cannot be those of so many rows.
    pub(super) fn read(keys: &Keys, aggregates: &[Bound], from: &mut Reader<'_>) -> Result<Self, StateError> {
        let mut groups = Self::new(keys, aggregates);
        for (at, key) in read_keys(keys, from)?.into_iter().enumerate() {
            if groups.find(key) as usize != at {
                return Err(damaged("has a key twice"));
            }
        }
        groups.counts = from.numbers(groups.len(), u64::from_le_bytes)?;
        groups.recount().ok_or_else(|| damaged("has more rows than there can be"))?;
        groups.accumulators.read(from, &groups.counts)?;
        Ok(groups)
    }

    /// Counts the rows again after the counts were read; `None` if they are more than [`ROWS_MAX`].
    fn recount(&mut self) -> Option<()> {
        let add = |sum: u64, count: &u64| sum.checked_add(*count).filter(|sum| *sum <= ROWS_MAX);
        self.rows = self.counts.iter().try_fold(0, add)?;
        Some(())
    }

    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.index.capacity() * 4
            + self.hashes.capacity() * 8
            + self.keys.capacity()
            + self.ends.capacity() * 8
            + self.counts.capacity() * 8
            + self.seals.capacity() * 8
            + self.accumulators.memory_bytes()
    }
}

/// Keys that were written behind their number: where each ends unless all have as many bytes, then all of them.
///
/// # Errors
/// When one is no key.
pub(super) fn read_keys<'a>(keys: &Keys, from: &mut Reader<'a>) -> Result<Vec<&'a [u8]>, StateError> {
    let wrong = || damaged("has a key that is none");
    let len = from.len()?;
    let ends: Option<Vec<u64>> = match keys.stride() {
        // Keys without columns take no bytes, but the numbers behind them do.
        Some(0) if len > from.0.len() => return Err(wrong()),
        Some(_) => None,
        None => Some(from.numbers(len, u64::from_le_bytes)?),
    };
    // Each is in the bytes before anything is kept for it: there are no more than bytes.
    let (mut begin, mut read) = (0, Vec::new());
    for at in 0..len {
        let key_len = match (&ends, keys.stride()) {
            (Some(ends), _) => ends[at].checked_sub(begin).ok_or_else(wrong)?,
            (None, stride) => stride.unwrap_or(0) as u64,
        };
        begin += key_len;
        let key = from.take(usize::try_from(key_len).map_err(|_| wrong())?)?;
        if !keys.is_key(key) {
            return Err(wrong());
        }
        read.push(key);
    }
    Ok(read)
}

#[cfg(test)]
mod tests;
