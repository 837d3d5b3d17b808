//! The groups of one window: a key each, the number of its rows, and its aggregates, in columns.
//!
//! Owns the way from a key to its group: an index of four bytes an entry, at most three quarters full, over hashes of eight bytes. Two
//! keys are the same if their bytes are. Does not own how keys are made (`key`) or what is computed (`accumulator`).

use arrow_array::RecordBatch;
use xxhash_rust::xxh3::xxh3_64;

use super::accumulator::{Accumulator, Rows};
use super::aggregate::Bound;
use super::key::{Encoded, Keys};
use super::values::grow_to;

/// An entry of the index that stands for no group.
const FREE: u32 = 0;

/// Rows of one window at the most, as read from a store that others may write to: three days of a billion a second, and sums of many such
/// numbers still fit into theirs.
const ROWS_MAX: u64 = 1 << 48;

/// Groups of one window at the most: their numbers have 32 bits.
pub const GROUPS_MAX: usize = (u32::MAX - 1) as usize;

/// Makes room for so many more, and a sixteenth on top.
fn make_room<T>(values: &mut Vec<T>, more: usize) {
    if values.capacity() - values.len() < more {
        values.reserve_exact(more + (values.len() / 16).max(16));
    }
}

/// The groups of one window.
#[derive(Clone, Debug)]
pub struct Groups {
    /// One more than the group's number, or [`FREE`]; a power of two of them.
    index: Vec<u32>,
    hashes: Vec<u64>,
    /// The keys, one after the other.
    keys: Vec<u8>,
    /// Where each ends, unless all have as many bytes.
    ends: Vec<u64>,
    stride: Option<usize>,
    /// Rows of each group.
    pub(super) counts: Vec<u64>,
    /// Rows of all groups.
    rows: u64,
    /// One for each aggregate that needs one.
    pub(super) accumulators: Vec<Accumulator>,
}

impl Groups {
    /// None.
    pub fn new(keys: &Keys, aggregates: &[Bound]) -> Self {
        Self {
            index: vec![FREE; 16],
            hashes: Vec::new(),
            keys: Vec::new(),
            ends: Vec::new(),
            stride: keys.stride(),
            counts: Vec::new(),
            rows: 0,
            accumulators: aggregates.iter().filter_map(Accumulator::new).collect(),
        }
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.hashes.len()
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

    /// The group of a row's key, which is added if it is new. Its aggregates grow with [`grow`](Self::grow).
    pub fn group_of(&mut self, keys: &Encoded, row: usize) -> u32 {
        let key = keys.get(row);
        self.find(xxh3_64(key), key)
    }

    /// The same for a key that is known by its bytes alone.
    pub(super) fn find(&mut self, hash: u64, key: &[u8]) -> u32 {
        let mask = self.index.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            match self.index[at] {
                FREE => break,
                entry => {
                    let group = entry as usize - 1;
                    if self.hashes[group] == hash && self.key(group) == key {
                        return group as u32;
                    }
                }
            }
            at = (at + 1) & mask;
        }
        assert!(self.hashes.len() < GROUPS_MAX, "memory ends before the numbers of groups do");
        make_room(&mut self.hashes, 1);
        self.hashes.push(hash);
        make_room(&mut self.keys, key.len());
        self.keys.extend_from_slice(key);
        if self.stride.is_none() {
            make_room(&mut self.ends, 1);
            self.ends.push(self.keys.len() as u64);
        }
        self.index[at] = self.hashes.len() as u32;
        if self.hashes.len() * 4 > self.index.len() * 3 {
            self.rebuild();
        }
        self.hashes.len() as u32 - 1
    }

    fn rebuild(&mut self) {
        let len = self.index.len() * 2;
        self.index.clear();
        self.index.resize(len, FREE);
        for (group, hash) in self.hashes.iter().enumerate() {
            let mut at = *hash as usize & (len - 1);
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
        self.accumulators.iter_mut().for_each(|accumulator| accumulator.grow(len));
    }

    /// Takes rows of a batch in, whose groups [`group_of`](Self::group_of) said.
    ///
    /// # Errors
    /// When a column is missing or of another form.
    pub fn update(&mut self, batch: &RecordBatch, aggregates: &[Bound], of: Rows<'_>) -> Result<(), String> {
        self.grow();
        of.groups.iter().for_each(|group| self.counts[*group as usize] += 1);
        self.rows += of.groups.len() as u64;
        let with_state = aggregates.iter().filter_map(|bound| Some((bound, bound.input.as_ref()?)));
        for (accumulator, (bound, (column_type, _))) in self.accumulators.iter_mut().zip(with_state) {
            let name = bound.aggregate.column.as_deref().unwrap_or_default();
            let array =
                batch.column_by_name(name).ok_or_else(|| format!("the batch has no column `{name}`"))?;
            accumulator.update(array.as_ref(), column_type, of)?;
        }
        Ok(())
    }

    /// Takes later groups in.
    pub fn merge(&mut self, later: &Self) {
        let to: Vec<u32> =
            (0..later.len()).map(|group| self.find(later.hashes[group], later.key(group))).collect();
        self.grow();
        to.iter().zip(&later.counts).for_each(|(group, count)| self.counts[*group as usize] += count);
        self.rows += later.rows;
        for (own, later) in self.accumulators.iter_mut().zip(&later.accumulators) {
            own.merge(later, &to);
        }
    }

    /// The keys one after the other, and where each ends unless all have as many bytes.
    pub(super) fn raw_keys(&self) -> (&[u64], &[u8]) {
        (&self.ends, &self.keys)
    }

    /// Counts the rows again after the counts were read; `None` if they are more than [`ROWS_MAX`].
    pub(super) fn recount(&mut self) -> Option<()> {
        let add = |sum: u64, count: &u64| sum.checked_add(*count).filter(|sum| *sum <= ROWS_MAX);
        self.rows = self.counts.iter().try_fold(0, add)?;
        Some(())
    }

    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> usize {
        let accumulators: usize = self.accumulators.iter().map(Accumulator::memory_bytes).sum();
        self.index.capacity() * 4
            + self.hashes.capacity() * 8
            + self.keys.capacity()
            + self.ends.capacity() * 8
            + self.counts.capacity() * 8
            + accumulators
    }
}
