//! The groups of one window: a key each, the number of its rows, and its aggregates, in columns.
//!
//! Owns the way from a key to its group: an index of four bytes an entry, at most three quarters full, over hashes of eight bytes. Two
//! keys are the same if their bytes are. Does not own how keys are made (`key`) or what is computed (`accumulator`).

use arrow_array::cast::AsArray;
use arrow_array::{Array, BooleanArray, RecordBatch};
use arrow_buffer::NullBuffer;
use dataflow::StateError;
use xxhash_rust::xxh3::xxh3_64;

use super::accumulator::{self, Accumulator, Rows};
use super::aggregate::Bound;
use super::encoding::{Reader, damaged, put_each, put_len};
use super::key::{Encoded, Keys};
use super::values::{grow_to, spare};

/// An entry of the index that stands for no group.
const FREE: u32 = 0;

/// Rows of one window at the most, as read from a store that others may write to: three days of a billion a second, and sums of many such
/// numbers still fit into theirs.
const ROWS_MAX: u64 = 1 << 48;

/// Groups of one window at the most: their numbers have 32 bits.
pub const GROUPS_MAX: usize = (u32::MAX - 1) as usize;

/// Makes room for so many more, and some on top.
fn make_room<T>(values: &mut Vec<T>, more: usize) {
    if values.capacity() - values.len() < more {
        values.reserve_exact(more + spare(values.len()));
    }
}

/// The groups of one window.
pub(super) struct Groups {
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
    pub(super) accumulators: Vec<Box<dyn Accumulator>>,
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
            accumulators: aggregates.iter().filter_map(accumulator::new).collect(),
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

    /// The group of a key, if there is one.
    pub(super) fn lookup(&self, hash: u64, key: &[u8]) -> Option<u32> {
        let mask = self.index.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let group = (self.index[at] as usize).checked_sub(1)?;
            if self.hashes[group] == hash && self.key(group) == key {
                return Some(group as u32);
            }
            at = (at + 1) & mask;
        }
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
        update(&mut self.accumulators, batch, aggregates, of)
    }

    /// Takes later groups in.
    pub fn merge(&mut self, later: &Self) {
        let all = 0..later.len() as u32;
        let moves: Vec<(u32, u32)> = all
            .map(|from| {
                let group = from as usize;
                (from, self.find(later.hashes[group], later.key(group)))
            })
            .collect();
        self.grow();
        moves.iter().for_each(|(from, to)| self.counts[*to as usize] += later.counts[*from as usize]);
        self.rows += later.rows;
        for (own, later) in self.accumulators.iter_mut().zip(&later.accumulators) {
            own.merge(later.as_ref(), &moves);
        }
    }

    /// Writes them for a seal.
    pub(super) fn write(&self, to: &mut Vec<u8>) {
        put_len(to, self.len());
        put_each(to, &self.ends, u64::to_le_bytes);
        to.extend_from_slice(&self.keys);
        put_each(to, &self.counts, u64::to_le_bytes);
        self.accumulators.iter().for_each(|accumulator| accumulator.write(to));
    }

    /// Reads what was written.
    ///
    /// # Errors
    /// When a key is none or there twice, or the aggregates cannot be those of so many rows.
    pub(super) fn read(keys: &Keys, aggregates: &[Bound], from: &mut Reader<'_>) -> Result<Self, StateError> {
        let mut groups = Self::new(keys, aggregates);
        for (at, key) in read_keys(keys, from)?.into_iter().enumerate() {
            if groups.find(xxh3_64(key), key) as usize != at {
                return Err(damaged("has a key twice"));
            }
        }
        groups.counts = from.numbers(groups.len(), u64::from_le_bytes)?;
        groups.recount().ok_or_else(|| damaged("has more rows than there can be"))?;
        for accumulator in &mut groups.accumulators {
            accumulator.read(from, &groups.counts)?;
        }
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
        let accumulators: usize =
            self.accumulators.iter().map(|accumulator| accumulator.memory_bytes()).sum();
        self.index.capacity() * 4
            + self.hashes.capacity() * 8
            + self.keys.capacity()
            + self.ends.capacity() * 8
            + self.counts.capacity() * 8
            + accumulators
    }
}

/// Takes rows of a batch into aggregates.
///
/// # Errors
/// When a column is missing or of another form.
pub(super) fn update(
    accumulators: &mut [Box<dyn Accumulator>],
    batch: &RecordBatch,
    aggregates: &[Bound],
    of: Rows<'_>,
) -> Result<(), String> {
    let with_state = aggregates.iter().filter(|bound| bound.keeps_state());
    for (accumulator, bound) in accumulators.iter_mut().zip(with_state) {
        let first = bound.input.as_ref().map(|input| column(batch, &input.name)).transpose()?;
        let by = bound.by.as_ref().map(|by| column(batch, &by.name)).transpose()?;
        let condition = bound.aggregate.condition.as_ref();
        let condition = condition.map(|name| column(batch, name)).transpose()?;
        let counting = Counting::new(of, [first, by, condition], condition)?;
        let types = (bound.input.as_ref(), bound.by.as_ref());
        let input = accumulator::Input {
            column: first.zip(types.0).map(|(array, input)| (array, &input.column_type)),
            by: by.zip(types.1).map(|(array, by)| (array, &by.column_type)),
        };
        accumulator.update(&input, counting.rows(of))?;
    }
    Ok(())
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

fn column<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a dyn Array, String> {
    let array = batch.column_by_name(name).ok_or_else(|| format!("the batch has no column `{name}`"))?;
    Ok(array.as_ref())
}

/// The rows that count for an aggregate: without a null in what it reads, and with its condition true.
enum Counting {
    All,
    Some { rows: Vec<u32>, groups: Vec<u32> },
}

impl Counting {
    fn new(
        of: Rows<'_>,
        columns: [Option<&dyn Array>; 3],
        condition: Option<&dyn Array>,
    ) -> Result<Self, String> {
        let nulls = columns.into_iter().flatten().filter_map(|array| array.nulls());
        let nulls = NullBuffer::union_many(nulls.map(Some)).filter(|nulls| nulls.null_count() > 0);
        let condition = condition
            .map(|array| array.as_boolean_opt().ok_or("the condition of an aggregate is not Bool"))
            .transpose()?
            .map(BooleanArray::values);
        if nulls.is_none() && condition.is_none() {
            return Ok(Self::All);
        }
        let counts = |row: usize| {
            nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
                && condition.is_none_or(|condition| condition.value(row))
        };
        let pairs = of.rows.iter().copied().zip(of.groups.iter().copied());
        let (rows, groups) = pairs.filter(|(row, _)| counts(*row as usize)).unzip();
        Ok(Self::Some { rows, groups })
    }

    fn rows<'a>(&'a self, of: Rows<'a>) -> Rows<'a> {
        match self {
            Self::All => of,
            Self::Some { rows, groups } => Rows { rows, groups, ..of },
        }
    }
}
