//! Rows of runs without a match, read before they are due.
//!
//! Owns which are read when, and their columns until they leave. A seal lets such rows out by time, and a run has them by key: so when a seal is about to release
//! the first that is not at hand, all up to a *horizon* are read, as many as fit [`Sizes::hand_bytes`](super::Sizes), and the seals up to there read nothing. A
//! seal releases nothing behind the horizon: what is due there leaves with the following ones. Does not own the order in which rows leave (`results`).
//!
//! What is at hand is no state: a start reads it again.

use std::collections::{BTreeMap, VecDeque};

use arrow_array::ArrayRef;
use arrow_schema::ArrowError;
use dataflow::{StateError, StateRead};

use super::file::Rows;
use super::{Run, Spilled};
use crate::join::codec::damaged;
use crate::join::columns;
use crate::join::plan::{JoinSide, Plan, SidePlan};

/// Parts of a stretch of time that rows are counted by, to find a horizon.
const PARTS: usize = 1_024;

/// Of the bytes that may be at hand, a reading gets this share (one in so many), however many are there still.
const SHARE_MIN: u64 = 4;

/// A row at hand.
#[derive(Clone, Copy, Debug)]
pub(in crate::join) struct AtHand {
    side: JoinSide,
    run: u64,
    place: u32,
    /// How many rows of the run arrived before it.
    arrival: u32,
    pub time_ms: i64,
    /// Where its columns are.
    chunk: u64,
    row: u32,
}

/// Columns of rows of one side that were read at one time.
struct Chunk {
    columns: Vec<ArrayRef>,
    bytes: usize,
}

/// A reading under way.
struct Reading {
    /// The horizon.
    until_ms: i64,
    /// Blocks that are still to be read: the run's number, and the block there.
    left: VecDeque<(u64, u32)>,
    /// Those that were asked for.
    asked: Vec<(u64, u32)>,
}

/// The rows at hand.
#[derive(Default)]
pub(in crate::join) struct Hand {
    rows: Vec<AtHand>,
    chunks: BTreeMap<u64, Chunk>,
    next: u64,
    reading: Option<Reading>,
}

impl Hand {
    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let chunks: usize = self.chunks.values().map(|chunk| chunk.bytes).sum();
        (chunks + self.rows.capacity() * size_of::<AtHand>()) as u64
    }

    /// The stored columns of rows of one side, in their order.
    ///
    /// # Errors
    /// When their texts take more than 2 GiB.
    pub fn gather(&self, rows: &[&AtHand]) -> Result<Vec<ArrayRef>, ArrowError> {
        let mut slots: BTreeMap<u64, usize> = BTreeMap::new();
        let mut concerned = Vec::new();
        let mut places = Vec::with_capacity(rows.len());
        for row in rows {
            let slot = *slots.entry(row.chunk).or_insert_with(|| {
                concerned.push(&self.chunks[&row.chunk]);
                concerned.len() - 1
            });
            places.push((slot, row.row as usize));
        }
        let count = concerned.first().map_or(0, |chunk| chunk.columns.len());
        let of = |at: usize| {
            columns::gather(concerned.iter().map(|chunk| chunk.columns[at].clone()).collect(), &places)
        };
        (0..count).map(of).collect()
    }

    /// Frees columns that no row at hand has.
    pub fn tidy(&mut self) {
        let mut used: Vec<u64> = self.rows.iter().map(|row| row.chunk).collect();
        used.sort_unstable();
        self.chunks.retain(|number, _| used.binary_search(number).is_ok());
        if self.rows.capacity() > 4 * self.rows.len().max(1_024) {
            self.rows.shrink_to(2 * self.rows.len());
        }
    }
}

impl Run {
    /// Whether a row must be read for seals up to a horizon.
    #[inline]
    fn is_wanted(&self, plan: &SidePlan, place: u32, (floor_ms, until_ms): (i64, i64)) -> bool {
        self.is_due(plan, place, (floor_ms.max(self.at_hand_until), until_ms)) && !self.is_matched(place)
    }

    /// Bytes of a row, about.
    fn row_bytes(&self) -> u64 {
        self.file.footer_at / u64::from(self.file.rows()).max(1)
    }
}

impl Spilled {
    /// The runs whose rows without a match leave, if the floor releases any of their rows.
    fn letting_out<'a>(
        &'a self,
        plan: &'a Plan,
        floor_ms: i64,
    ) -> impl Iterator<Item = (&'a Run, &'a SidePlan)> {
        let with_plan = self.runs.iter().map(|run| (run, plan.side(run.file.side)));
        with_plan.filter(move |(run, of_side)| of_side.lets_out() && of_side.is_due(run.next_ms, floor_ms))
    }

    /// Whether one seal can release by the floor `to_ms`, as far as what must be read for it goes.
    pub fn reaches(&self, plan: &Plan, to_ms: i64) -> bool {
        self.horizon(plan, to_ms).is_none_or(|until_ms| until_ms >= to_ms)
    }

    /// The floor up to `to_ms` that a seal can release by, with what has been read for it. Runs in memory are read now.
    ///
    /// # Errors
    /// When a file must be read, and was not.
    pub fn reached(&mut self, plan: &Plan, to_ms: i64) -> Result<i64, StateError> {
        if let Some(floor_ms) = self.at_hand(plan, to_ms) {
            return Ok(floor_ms);
        }
        match self.reads(plan, to_ms)?.is_empty() {
            true => Ok(self.at_hand(plan, to_ms).unwrap_or(self.floor_ms)),
            false => Err(damaged("is to let rows out that were not read")),
        }
    }

    /// The same if it is more than that of the last seal.
    fn at_hand(&self, plan: &Plan, to_ms: i64) -> Option<i64> {
        let lacking = self.letting_out(plan, to_ms).map(|(run, _)| run.at_hand_until);
        let until_ms = lacking.min().unwrap_or(to_ms).min(to_ms);
        (until_ms > self.floor_ms || until_ms == to_ms).then_some(until_ms)
    }

    /// Up to where rows must be read before a seal can release by the floor `to_ms`; `None` if nothing must be.
    fn horizon(&self, plan: &Plan, to_ms: i64) -> Option<i64> {
        let lacking = self.letting_out(plan, to_ms).filter(|(run, _)| run.at_hand_until < to_ms);
        // What releases the first of their rows, and what releases the last.
        let ends = lacking.map(|(run, of_side)| {
            let first_ms = run.next_ms.saturating_add(of_side.later_ms);
            (first_ms, run.file.times_ms().1.saturating_add(of_side.later_ms) + 1)
        });
        let (mut from_ms, mut until_ms) = ends.reduce(|all, own| (all.0.min(own.0), all.1.max(own.1)))?;
        let there = self.hand.memory_bytes();
        let most = self.sizes.hand_bytes.saturating_sub(there).max(self.sizes.hand_bytes / SHARE_MIN);
        loop {
            let part_ms = (until_ms - from_ms) / PARTS as i64 + 1;
            let mut parts = [0_u64; PARTS];
            for (run, of_side) in self.letting_out(plan, until_ms) {
                let row_bytes = run.row_bytes();
                for place in 0..run.file.rows() {
                    let due_ms = run.file.time_ms(place).saturating_add(of_side.later_ms);
                    if due_ms >= from_ms && run.is_wanted(of_side, place, (self.floor_ms, until_ms)) {
                        parts[((due_ms - from_ms) / part_ms) as usize] += row_bytes;
                    }
                }
            }
            let mut sum = 0;
            let over = parts.iter().position(|bytes| {
                sum += bytes;
                sum > most
            });
            // All rows that are lacking fit.
            let Some(over) = over else { return Some(until_ms.max(to_ms)) };
            let over_ms = from_ms + over as i64 * part_ms;
            if parts[..over].iter().any(|bytes| *bytes > 0) {
                return Some(over_ms);
            }
            if part_ms == 1 {
                // Rows of one millisecond leave together.
                return Some(over_ms + 1);
            }
            (from_ms, until_ms) = (over_ms, until_ms.min(over_ms + part_ms));
        }
    }

    /// What must be read next before a seal can release by the floor `to_ms`. It is [taken](Self::read), and asked again, until there is nothing.
    ///
    /// # Errors
    /// When a block is damaged.
    pub fn reads(&mut self, plan: &Plan, to_ms: i64) -> Result<Vec<StateRead>, StateError> {
        if self.hand.reading.is_none() {
            let Some(until_ms) = self.horizon(plan, to_ms) else { return Ok(Vec::new()) };
            let left = self.blocks_until(plan, until_ms);
            self.hand.reading = Some(Reading { until_ms, left, asked: Vec::new() });
        }
        loop {
            let Some(reading) = &mut self.hand.reading else { return Ok(Vec::new()) };
            let (mut reads, mut asked, mut sum) = (Vec::new(), Vec::new(), 0);
            while let Some((number, block)) =
                reading.left.front().copied().filter(|_| sum < self.sizes.read_bytes)
            {
                let at = self.runs.binary_search_by_key(&number, |run| run.number);
                let run = &self.runs[at.map_err(|_| super::file::no_such_row())?];
                let read = run.file.read(block);
                sum += u64::from(read.len);
                if run.bytes.is_none() {
                    reads.push(read);
                }
                asked.push((number, block));
                reading.left.pop_front();
            }
            if asked.is_empty() {
                let until_ms = reading.until_ms;
                self.end_reading(plan, until_ms);
                return Ok(Vec::new());
            }
            reading.asked = asked;
            if !reads.is_empty() {
                return Ok(reads);
            }
            self.read(plan, &[])?;
        }
    }

    /// The blocks with rows that must be read for seals up to a horizon, each once.
    fn blocks_until(&self, plan: &Plan, until_ms: i64) -> VecDeque<(u64, u32)> {
        let between = (self.floor_ms, until_ms);
        let of_run = |(run, of_side): (&Run, &SidePlan)| -> Vec<(u64, u32)> {
            let is_wanted =
                |block: &u32| run.file.places(*block).any(|place| run.is_wanted(of_side, place, between));
            (0..run.file.blocks()).filter(is_wanted).map(|block| (run.number, block)).collect()
        };
        self.letting_out(plan, until_ms).flat_map(of_run).collect()
    }

    fn end_reading(&mut self, plan: &Plan, until_ms: i64) {
        self.hand.reading = None;
        for run in &mut self.runs {
            if plan.side(run.file.side).lets_out() {
                run.at_hand_until = run.at_hand_until.max(until_ms);
            }
        }
    }

    /// Takes what was read.
    ///
    /// # Errors
    /// When a block is damaged, or was not asked for.
    pub fn read(&mut self, plan: &Plan, answers: &[Vec<u8>]) -> Result<(), StateError> {
        let reading =
            self.hand.reading.as_mut().ok_or_else(|| damaged("gets blocks that it did not ask for"))?;
        let (asked, between) = (std::mem::take(&mut reading.asked), (self.floor_ms, reading.until_ms));
        let mut answers = answers.iter();
        let mut read: [Vec<(u64, Rows)>; 2] = [Vec::new(), Vec::new()];
        for (number, block) in asked {
            let run = self.run(number)?;
            let rows = match &run.bytes {
                Some(bytes) => run.rows_in_memory(plan, block, bytes)?,
                None => {
                    let answer =
                        answers.next().ok_or_else(|| damaged("gets fewer blocks than it asked for"))?;
                    run.file.block(plan, block, answer)?
                }
            };
            read[rows.side() as usize].push((number, rows));
        }
        for (side, blocks) in JoinSide::BOTH.into_iter().zip(read) {
            self.keep(plan.side(side), &blocks, between)?;
        }
        Ok(())
    }

    /// Keeps the rows of blocks of one side that are wanted.
    fn keep(
        &mut self,
        of_side: &SidePlan,
        blocks: &[(u64, Rows)],
        between: (i64, i64),
    ) -> Result<(), StateError> {
        let (mut kept, mut places) = (Vec::new(), Vec::new());
        for (slot, (number, rows)) in blocks.iter().enumerate() {
            let run = self.run(*number)?;
            for (row, arrival) in rows.arrivals.iter().enumerate() {
                let place = rows.first + row as u32;
                if run.is_wanted(of_side, place, between) {
                    kept.push(AtHand {
                        side: rows.side(),
                        run: *number,
                        place,
                        arrival: *arrival,
                        time_ms: rows.taken.times_ms[row],
                        chunk: self.hand.next,
                        row: places.len() as u32,
                    });
                    places.push((slot, row));
                }
            }
        }
        if kept.is_empty() {
            return Ok(());
        }
        let of = |at: usize| {
            let columns = blocks.iter().map(|(_, rows)| rows.taken.rows.columns[at].clone()).collect();
            columns::gather(columns, &places).map_err(damaged)
        };
        let columns: Vec<ArrayRef> = (0..of_side.columns.len()).map(of).collect::<Result<_, _>>()?;
        let bytes = columns.iter().map(columns::memory_bytes).sum();
        self.hand.chunks.insert(self.hand.next, Chunk { columns, bytes });
        self.hand.next += 1;
        self.hand.rows.append(&mut kept);
        Ok(())
    }

    /// The rows without a match that a floor releases, of each side that lets them out, in the order of their arrival. Those that
    /// were matched since they were read stay behind.
    pub fn let_out(&mut self, plan: &Plan, floor_ms: i64) -> [Vec<AtHand>; 2] {
        let is_due = |row: &AtHand| plan.side(row.side).is_due(row.time_ms, floor_ms);
        let (due, rest): (Vec<AtHand>, _) = std::mem::take(&mut self.hand.rows).into_iter().partition(is_due);
        self.hand.rows = rest;
        let mut out = [Vec::new(), Vec::new()];
        for row in due {
            if self.run(row.run).is_ok_and(|run| !run.is_matched(row.place)) {
                out[row.side as usize].push(row);
            }
        }
        out.iter_mut().for_each(|rows| rows.sort_unstable_by_key(|row| (row.run, row.arrival)));
        out
    }

    /// The rows at hand.
    pub fn hand(&self) -> &Hand {
        &self.hand
    }

    /// Frees what the rows that left took.
    pub fn tidy(&mut self) {
        self.hand.tidy();
    }
}
