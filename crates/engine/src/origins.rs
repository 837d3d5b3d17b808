//! Which record each row of a frame was: kept beside the frame until it is settled, and asked for one row that the server
//! refuses.
//!
//! Owns what is written of each row. Does not own how numbers become bytes ([`numbers`]), where they stand ([`crate::segment`]) or what a refused row
//! becomes ([`crate::refuse`]).
//! Written for every row and read for almost none, so writing is one pass and the bytes are few:
//!
//! | what                      | how                                                          | bytes a row                      |
//! |---------------------------|--------------------------------------------------------------|----------------------------------|
//! | partition                 | once for each stretch of ascending positions                 | nearly 0                         |
//! | position, source's time   | the gap to the row before, in runs of "the next one" / "the same time" | 0.01 for an untouched topic, 3 for lines of files |
//! | item of the record's array, of rows made of such | the step from the item before, or from none, in runs of "the next one" | 1 a record |
//! | order of a frame that is sorted or cut | a permutation, ⌈log₂ rows⌉ bits each                    | 2.4 at 500,000 rows              |
//!
//! Bytes: version `2`, or `3` for a frame with rows of items; flags (1: permuted); the watermark that the frame's rows were judged by (zigzag varint); rows; stretches,
//! each with partition, rows, era, first place in it, first time; the gaps of the positions and of the times, each behind its length; the
//! permutation; CRC-32C (little-endian) of everything before it. Numbers are LEB128 varints. Another version is refused.
//!
//! In version `3` rows of one record may follow each other in a stretch: the gap of the positions is 0 there, and one more than in version `2` elsewhere.
//! Behind the times stand the items, behind their length too: a number for every row. An item counts from 1, and 0 is none; the number is what it is more
//! than the next one of the row before, if that is of the same record in the same stretch, and the item itself otherwise.

mod numbers;

use std::ops::Range;

use dataflow::RowsFrom;
use dataflow::position::{self, Position};

use numbers::{Bytes, Gaps, Order, Ungaps, pack, put, unzigzag, zigzag};

/// The version that is written.
const VERSION: u8 = 2;

/// The version that is written where rows were made of items of their records' arrays.
const VERSION_OF_ITEMS: u8 = 3;

/// Set if the rows stand in another order than the records.
const PERMUTED: u8 = 1;

/// From here on a partition's index stands for a step with state that made the row: no lane has so many partitions.
const OF_STEPS: u32 = 1 << 31;

/// What stands in place of a partition for rows that the step with that index made: each has a number and the step's own time for it.
pub fn of_step(step: u32) -> u32 {
    OF_STEPS + step
}

/// The record that a row was made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// The partition's index in the lane.
    pub partition: u32,
    /// The era of its position there.
    pub era: u64,
    /// Its place in the era.
    pub low: u64,
    /// The item of the record's array that the row was made of; `None` if it is all of its record.
    pub item: Option<u32>,
    /// The time that the source gave it, Unix milliseconds.
    pub time_ms: i64,
}

impl Origin {
    /// Its position in the partition.
    pub fn position(&self) -> Position {
        position::position(self.era, self.low)
    }

    /// The step that made the row, by its index among those with state; `None` for a row of a record.
    pub fn step(&self) -> Option<u32> {
        self.partition.checked_sub(OF_STEPS)
    }
}

/// Rows of one partition and one era, in the partition's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// The partition's index in the lane.
    pub partition: u32,
    /// The era of their positions.
    pub era: u64,
    /// The place of each row in the era.
    pub positions: Vec<u64>,
    /// The source's time of each row, Unix milliseconds; same length as `positions`.
    pub times_ms: Vec<i64>,
    /// The item of its record's array that each row was made of; same length as `positions`, or empty if each row is all of its record.
    pub items: Vec<u32>,
}

impl Part {
    /// Takes out these rows: their numbers, ascending.
    pub fn remove(&mut self, rows: &[u32]) {
        let retain = |len: usize| {
            let mut left = rows.iter().peekable();
            (0..len as u32).map(move |row| left.next_if_eq(&&row).is_none())
        };
        let mut stays = retain(self.positions.len());
        self.positions.retain(|_| stays.next().unwrap_or(true));
        let mut stays = retain(self.times_ms.len());
        self.times_ms.retain(|_| stays.next().unwrap_or(true));
        let mut stays = retain(self.items.len());
        self.items.retain(|_| stays.next().unwrap_or(true));
    }
}

/// The origins of all rows of a cut, in the order in which they were gathered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origins {
    /// One part a batch.
    pub parts: Vec<Part>,
    /// The watermark that the steps went by: of the cut before.
    pub watermark_ms: i64,
}

/// The origins of the rows of one frame, in the frame's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameOrigins {
    /// As in [`Origins`].
    pub watermark_ms: i64,
    /// One a row.
    pub rows: Vec<Origin>,
}

impl Origins {
    /// The bytes for a frame with these rows of the cut.
    pub fn encode(&self, rows: &RowsFrom) -> Vec<u8> {
        let head = Head { watermark_ms: self.watermark_ms, has_items: self.has_items() };
        match rows {
            RowsFrom::Run(range) => {
                let (skip, count) = (range.start as usize, range.len());
                encode(head, self.iter().skip(skip).take(count), None)
            }
            RowsFrom::Picked(picked) if picked.is_sorted() => {
                let mut wanted = picked.iter().copied().peekable();
                let chosen = (0u32..).zip(self.iter()).filter(|(n, _)| wanted.next_if_eq(n).is_some());
                encode(head, chosen.map(|(_, origin)| origin), None)
            }
            RowsFrom::Picked(picked) => {
                // The rank of each picked row among those picked: what the permutation counts in.
                let mut ranks = vec![u32::MAX; self.parts.iter().map(|p| p.positions.len()).sum()];
                picked.iter().for_each(|row| ranks[*row as usize] = 0);
                for (next, rank) in (0..).zip(ranks.iter_mut().filter(|rank| **rank == 0)) {
                    *rank = next;
                }
                let chosen = ranks.iter().zip(self.iter()).filter(|(rank, _)| **rank != u32::MAX);
                let order: Vec<u32> = picked.iter().map(|row| ranks[*row as usize]).collect();
                encode(head, chosen.map(|(_, origin)| origin), Some(&order))
            }
        }
    }

    fn has_items(&self) -> bool {
        self.parts.iter().any(|part| !part.items.is_empty())
    }

    fn iter(&self) -> impl Iterator<Item = Origin> + '_ {
        self.parts.iter().flat_map(|part| {
            let rows = part.positions.iter().zip(&part.times_ms).enumerate();
            rows.map(|(row, (position, time_ms))| Origin {
                partition: part.partition,
                era: part.era,
                low: *position,
                item: part.items.get(row).copied(),
                time_ms: *time_ms,
            })
        })
    }
}

impl FrameOrigins {
    /// These rows of the frame; panics when there are fewer.
    pub fn slice(&self, rows: Range<usize>) -> Self {
        Self { watermark_ms: self.watermark_ms, rows: self.rows[rows].to_vec() }
    }

    /// The bytes for a piece with these rows of the frame: the half of one that was split.
    pub fn encode(&self, rows: &RowsFrom) -> Vec<u8> {
        let chosen: Vec<Origin> = (0..rows.len()).map(|at| self.rows[rows.get(at) as usize]).collect();
        let mut sorted: Vec<(Origin, u32)> = chosen.into_iter().zip(0..).collect();
        let is_sorted = sorted.is_sorted();
        sorted.sort_unstable();
        let mut order = vec![0; sorted.len()];
        for (rank, (_, row)) in sorted.iter().enumerate() {
            order[*row as usize] = rank as u32;
        }
        let order = (!is_sorted).then_some(order.as_slice());
        let has_items = sorted.iter().any(|(origin, _)| origin.item.is_some());
        let head = Head { watermark_ms: self.watermark_ms, has_items };
        encode(head, sorted.into_iter().map(|(origin, _)| origin), order)
    }

    /// Reads what an `encode` wrote for a frame of `rows` rows. Takes 40 bytes of memory a row, and a few bytes may stand for any
    /// number of rows: `rows` is to be what the frame's own body holds, and not what a journal record claims.
    ///
    /// # Errors
    /// When the bytes are damaged, of another version, or for another number of rows.
    pub fn decode(bytes: &[u8], rows: usize) -> Result<Self, String> {
        let Parsed { watermark_ms, stretches, least, mut positions, mut times, mut items, order } =
            parse(bytes, rows as u64)?;
        let mut origins = Vec::with_capacity(rows);
        for Stretch { first, rows } in stretches {
            let mut origin = first;
            if let Some(items) = &mut items {
                origin.item = item(items.next()?);
            }
            origins.push(origin);
            for _ in 1..rows {
                let gap = positions.next()?.checked_add(least).ok_or("a position beyond any")?;
                if let Some(items) = &mut items {
                    let number = items.next()?;
                    let next = if gap == 0 { code(origin.item).wrapping_add(1) } else { 0 };
                    origin.item = item(next.wrapping_add(number));
                }
                let low = origin.low.checked_add(gap);
                origin.low = low.ok_or("a position beyond any")?;
                origin.time_ms = origin.time_ms.wrapping_add(unzigzag(times.next()?));
                origins.push(origin);
            }
        }
        let rows = match order {
            None => origins,
            Some(order) => order.map(|at| Ok(origins[at? as usize])).collect::<Result<_, String>>()?,
        };
        Ok(Self { watermark_ms, rows })
    }

    /// Checks what an `encode` wrote for a frame of `rows` rows, without taking memory for the rows.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub fn verify(bytes: &[u8], rows: u64) -> Result<(), String> {
        let Parsed { stretches, least, mut positions, mut times, mut items, order, .. } = parse(bytes, rows)?;
        for Stretch { first, rows } in stretches {
            let gaps = positions.sum(rows - 1)?;
            let further = (rows - 1).checked_mul(least).and_then(|further| gaps.checked_add(further));
            let last = further.and_then(|further| first.low.checked_add(further));
            last.ok_or("a position beyond any")?;
            times.skip(rows - 1)?;
            items.iter_mut().try_for_each(|items| items.skip(rows))?;
        }
        order.into_iter().flatten().try_for_each(|at| at.map(drop))
    }
}

/// Whether a row is of the same stretch as the one before it.
#[inline]
fn goes_on(before: &Origin, origin: &Origin) -> bool {
    (origin.partition, origin.era) == (before.partition, before.era) && origin.low > before.low
}

/// The same where rows may be of items: further ones of the same record too.
#[inline]
fn goes_on_in_items(before: &Origin, origin: &Origin) -> bool {
    let is_further = origin.low == before.low && origin.item > before.item;
    goes_on(before, origin)
        || (is_further && (origin.partition, origin.era) == (before.partition, before.era))
}

/// An item as it is written: 0 is none.
fn code(item: Option<u32>) -> u64 {
    item.map_or(0, |item| u64::from(item) + 1)
}

/// The item that a number stands for. Numbers beyond all items are none that is written; they stand for some item, so that bytes can be checked without
/// being read row by row.
fn item(code: u64) -> Option<u32> {
    code.checked_sub(1).map(|item| item as u32)
}

/// What all rows of a frame have in common.
#[derive(Clone, Copy)]
struct Head {
    watermark_ms: i64,
    /// Whether any row was made of an item.
    has_items: bool,
}

/// Ascending positions of one partition and one era.
struct Stretch {
    first: Origin,
    /// At least 1.
    rows: u64,
}

/// The parts of the bytes, before any row.
struct Parsed<'a> {
    watermark_ms: i64,
    /// Together as many rows as the frame has.
    stretches: Vec<Stretch>,
    /// What a position is at least more than the one before, in a stretch.
    least: u64,
    positions: Ungaps<'a>,
    times: Ungaps<'a>,
    /// Of every row, if rows were made of items.
    items: Option<Ungaps<'a>>,
    order: Option<Order<'a>>,
}

fn parse(bytes: &[u8], rows: u64) -> Result<Parsed<'_>, String> {
    let (head, crc) = bytes.split_last_chunk::<4>().ok_or("too short")?;
    if crc32c::crc32c(head) != u32::from_le_bytes(*crc) {
        return Err("damaged (checksum)".into());
    }
    let mut from = Bytes(head);
    let has_items = match from.byte()? {
        VERSION => false,
        VERSION_OF_ITEMS => true,
        other => {
            return Err(format!(
                "of version `{other}`, this program reads `{VERSION}` and `{VERSION_OF_ITEMS}`"
            ));
        }
    };
    let flags = from.byte()?;
    let watermark_ms = unzigzag(from.number()?);
    if from.number()? != rows {
        return Err(format!("not for `{rows}` rows"));
    }
    let stretches = stretches(&mut from, rows)?;
    let mut gaps = || Ok::<_, String>(Ungaps::new(from.part()?));
    let (positions, times) = (gaps()?, gaps()?);
    let (least, items) = if has_items { (0, Some(gaps()?)) } else { (1, None) };
    let order = if flags & PERMUTED == 0 { None } else { Some(Order::new(from.0, rows)?) };
    Ok(Parsed { watermark_ms, stretches, least, positions, times, items, order })
}

fn stretches(from: &mut Bytes<'_>, rows: u64) -> Result<Vec<Stretch>, String> {
    let mut stretches = Vec::new();
    let mut left = rows;
    for _ in 0..from.number()? {
        let partition = u32::try_from(from.number()?).map_err(|_| "a partition beyond any")?;
        let rows = from.number()?;
        if rows == 0 || rows > left {
            return Err("more rows than the frame has".into());
        }
        left -= rows;
        let (era, low) = (from.number()?, from.number()?);
        let first = Origin { partition, era, low, item: None, time_ms: unzigzag(from.number()?) };
        stretches.push(Stretch { first, rows });
    }
    if left > 0 {
        return Err("fewer rows than the frame has".into());
    }
    Ok(stretches)
}

/// Writes origins in the order of the records; `order` says for each row of the frame which of them is its own.
fn encode(head: Head, origins: impl Iterator<Item = Origin>, order: Option<&[u32]>) -> Vec<u8> {
    let Head { watermark_ms, has_items } = head;
    let mut stretches = Vec::new();
    let (mut positions, mut times, mut items) = (Gaps::default(), Gaps::default(), Gaps::default());
    let mut stretch: Option<(Origin, u64)> = None;
    let (mut count, mut stretch_count) = (0, 0);
    let mut before = Origin { partition: 0, era: 0, low: 0, item: None, time_ms: 0 };
    let mut end = |stretch: Option<(Origin, u64)>| {
        if let Some((first, rows)) = stretch {
            stretch_count += 1;
            put(&mut stretches, u64::from(first.partition));
            put(&mut stretches, rows);
            put(&mut stretches, first.era);
            put(&mut stretches, first.low);
            put(&mut stretches, zigzag(first.time_ms));
        }
    };
    for origin in origins {
        count += 1;
        if has_items {
            let is_of_same =
                stretch.is_some() && goes_on_in_items(&before, &origin) && origin.low == before.low;
            let next = if is_of_same { code(before.item) + 1 } else { 0 };
            items.push(code(origin.item) - next);
        }
        match &mut stretch {
            Some((_, rows)) if has_items && goes_on_in_items(&before, &origin) => {
                *rows += 1;
                positions.push(origin.low - before.low);
                times.push(zigzag(origin.time_ms.wrapping_sub(before.time_ms)));
            }
            Some((_, rows)) if !has_items && goes_on(&before, &origin) => {
                *rows += 1;
                positions.push(origin.low - before.low - 1);
                times.push(zigzag(origin.time_ms.wrapping_sub(before.time_ms)));
            }
            _ => end(stretch.replace((origin, 1))),
        }
        before = origin;
    }
    end(stretch);
    let (positions, times, items) = (positions.finish(), times.finish(), items.finish());
    let mut out =
        Vec::with_capacity(32 + stretches.len() + positions.len() + times.len() + count as usize * 3);
    let version = if has_items { VERSION_OF_ITEMS } else { VERSION };
    out.extend_from_slice(&[version, if order.is_some() { PERMUTED } else { 0 }]);
    put(&mut out, zigzag(watermark_ms));
    put(&mut out, count);
    put(&mut out, stretch_count);
    out.extend_from_slice(&stretches);
    for gaps in [Some(positions), Some(times), Some(items).filter(|_| has_items)].into_iter().flatten() {
        put(&mut out, gaps.len() as u64);
        out.extend_from_slice(&gaps);
    }
    if let Some(order) = order {
        pack(order, &mut out);
    }
    let crc = crc32c::crc32c(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

#[cfg(test)]
mod tests;
