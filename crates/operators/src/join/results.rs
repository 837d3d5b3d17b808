//! From pairs, and from rows without a match, to rows of the output.
//!
//! Owns the columns of the output and their order. Does not own which rows match (`store`).

use arrow_array::{ArrayRef, RecordBatch, new_null_array};
use arrow_schema::ArrowError;
use dataflow::{Batch, Partition};

use super::NAME;
use super::columns;
use super::lonely::Lonely;
use super::plan::{self, JoinSide, Origin, Plan, StandIn};
use super::spilled::file::Rows;
use super::spilled::look::Found;
use super::store::Store;

/// Rows without a match in one batch of the output.
pub(super) const ROWS_MAX: usize = 65_536;

/// The pairs that a batch makes.
#[derive(Default)]
pub(super) struct Pairs {
    /// The rows of the batch.
    pub own: Vec<u32>,
    /// The held rows of the other side.
    pub others: Vec<u32>,
    /// The later of the two times of each.
    pub times_ms: Vec<i64>,
}

impl Pairs {
    #[inline]
    pub fn push(&mut self, own: u32, other: u32, time_ms: i64) {
        self.own.push(own);
        self.others.push(other);
        self.times_ms.push(time_ms);
    }
}

/// The columns that rows of the output are made of.
pub(super) struct Sides {
    /// The stored columns of both sides.
    pub stored: [Vec<ArrayRef>; 2],
    /// For each of [`Plan::stand_ins`] the column with the other side's values where its own has no row; empty if every row is of both sides.
    pub filled: Vec<ArrayRef>,
}

/// Bytes of the values that [`joined`] would put together.
pub(super) fn bytes(store: &Store, (side, own): (JoinSide, &[ArrayRef]), pairs: &Pairs) -> u64 {
    let of_own = |column: &ArrayRef| columns::bytes(column, pairs.own.iter().map(|row| *row as usize));
    own.iter().map(of_own).sum::<u64>() + store.side(side.other()).gathered_bytes(&pairs.others)
}

/// The rows of pairs that a batch of `side` made, whose stored columns are `own`. Their positions begin with `first`.
///
/// # Errors
/// When their texts take more than 2 GiB.
pub(super) fn joined(
    plan: &Plan,
    store: &Store,
    (side, own): (JoinSide, &[ArrayRef]),
    pairs: Pairs,
    first: u64,
) -> Result<Batch, ArrowError> {
    if pairs.own.is_empty() {
        return batch(plan, None, Vec::new(), first);
    }
    let of_others = store.side(side.other()).gather(&pairs.others)?;
    paired(plan, (side, own), (&pairs.own, of_others), pairs.times_ms, first)
}

/// The rows of pairs, of which these are the stored columns of the other side.
fn paired(
    plan: &Plan,
    (side, own): (JoinSide, &[ArrayRef]),
    (rows, of_others): (&[u32], Vec<ArrayRef>),
    times_ms: Vec<i64>,
    first: u64,
) -> Result<Batch, ArrowError> {
    let is_each = own.first().is_none_or(|column| column.len() == rows.len())
        && rows.iter().enumerate().all(|(at, row)| at == *row as usize);
    let of_own = if is_each {
        own.to_vec()
    } else {
        let places: Vec<(usize, usize)> = rows.iter().map(|row| (0, *row as usize)).collect();
        let of = |column: &ArrayRef| columns::gather(vec![column.clone()], &places);
        own.iter().map(of).collect::<Result<_, _>>()?
    };
    let stored = match side {
        JoinSide::Left => [of_own, of_others],
        JoinSide::Right => [of_others, of_own],
    };
    batch(plan, Some(&Sides { stored, filled: Vec::new() }), times_ms, first)
}

/// Bytes of the values of pairs with rows of runs.
pub(super) fn bytes_of_found(own: &[ArrayRef], found: &[Found], blocks: &[Rows]) -> u64 {
    let of_own = |column: &ArrayRef| columns::bytes(column, found.iter().map(|found| found.own as usize));
    let places: Vec<(usize, usize)> =
        found.iter().map(|found| (found.at.0 as usize, found.at.1 as usize)).collect();
    let stored = blocks.first().map_or(0, |rows| rows.taken.rows.columns.len());
    let of_others = |at: usize| {
        let of: Vec<&ArrayRef> = blocks.iter().map(|rows| &rows.taken.rows.columns[at]).collect();
        columns::bytes_in(&of, &places)
    };
    own.iter().map(of_own).sum::<u64>() + (0..stored).map(of_others).sum::<u64>()
}

/// As [`joined`], with pairs of rows of runs: those of a row of the batch stand behind its pairs with rows in memory, which arrived later. `times_ms` are
/// those of the batch.
///
/// # Errors
/// As [`joined`].
pub(super) fn joined_with_runs(
    plan: &Plan,
    store: &Store,
    (side, own): (JoinSide, &[ArrayRef]),
    (pairs, found): (&Pairs, &[Found]),
    (blocks, times_ms): (&[Rows], &[i64]),
    first: u64,
) -> Result<Batch, ArrowError> {
    let (mut rows, mut all_times_ms, mut places) = (Vec::new(), Vec::new(), Vec::new());
    let mut in_memory = pairs.own.iter().zip(&pairs.times_ms).enumerate().peekable();
    let mut take_in_memory =
        |until: Option<u32>, rows: &mut Vec<u32>, times: &mut Vec<i64>, places: &mut Vec<_>| {
            while let Some((nth, (row, time_ms))) =
                in_memory.next_if(|(_, (row, _))| until.is_none_or(|until| **row <= until))
            {
                rows.push(*row);
                times.push(*time_ms);
                places.push((0, nth));
            }
        };
    for Found { own, time_ms, at, .. } in found {
        take_in_memory(Some(*own), &mut rows, &mut all_times_ms, &mut places);
        rows.push(*own);
        all_times_ms.push(times_ms[*own as usize].max(*time_ms));
        places.push((1 + at.0 as usize, at.1 as usize));
    }
    take_in_memory(None, &mut rows, &mut all_times_ms, &mut places);
    let of_memory = if pairs.others.is_empty() {
        // No row is taken from it.
        blocks.first().map(|rows| rows.taken.rows.columns.clone()).unwrap_or_default()
    } else {
        store.side(side.other()).gather(&pairs.others)?
    };
    let gathered = of_memory.into_iter().enumerate().map(|(at, of_memory)| {
        let of_blocks = blocks.iter().map(|rows| rows.taken.rows.columns[at].clone());
        columns::gather(std::iter::once(of_memory).chain(of_blocks).collect(), &places)
    });
    let of_others = gathered.collect::<Result<_, _>>()?;
    paired(plan, (side, own), (&rows, of_others), all_times_ms, first)
}

/// A row without a match: its time, its side, its number there.
type Lone = (i64, usize, u32);

/// The rows of lonely ones of outer sides, by time, then side, then arrival: in batches, whose positions begin with `first`.
///
/// # Errors
/// When a value is of a form that cannot be gathered.
pub(super) fn unmatched(plan: &Plan, lonely: &Lonely<'_>, mut first: u64) -> Result<Vec<Batch>, ArrowError> {
    let mut rows: Vec<Lone> = Vec::new();
    for side in JoinSide::BOTH.into_iter().filter(|side| plan.side(*side).is_outer) {
        rows.extend(lonely.rows(side).into_iter().map(|(time_ms, number)| (time_ms, side as usize, number)));
    }
    rows.sort_unstable();
    in_parts(&rows, |part| {
        let sides = lone_columns(plan, lonely, part)?;
        let times_ms = part.iter().map(|(time_ms, ..)| *time_ms).collect();
        let made = batch(plan, Some(&sides), times_ms, first)?;
        first += part.len() as u64;
        Ok(made)
    })
}

/// The rows beside the output that lonely ones of a side become, by time and then by arrival: in batches, whose positions begin with `first`. None if the
/// side's rows go nowhere. Of each there are the time and the number that `gather` knows it by.
///
/// # Errors
/// When the texts of one row take more than 2 GiB.
pub(super) fn aside(
    plan: &Plan,
    side: JoinSide,
    mut rows: Vec<(i64, u32)>,
    gather: impl Fn(&[u32]) -> Result<Vec<ArrayRef>, ArrowError>,
    mut first: u64,
) -> Result<Vec<Batch>, ArrowError> {
    let Some(plan::Aside { at, output }) = &plan.side(side).aside else { return Ok(Vec::new()) };
    rows.sort_unstable();
    in_parts(&rows, |part| {
        let stored = gather(&part.iter().map(|(_, number)| *number).collect::<Vec<_>>())?;
        let columns: Vec<ArrayRef> = at.iter().map(|at| stored[*at].clone()).collect();
        let rows = RecordBatch::try_new(plan::arrow(output, &columns), columns)?;
        let made = numbered(rows, part.iter().map(|(time_ms, _)| *time_ms).collect(), first);
        first += part.len() as u64;
        Ok(made)
    })
}

/// What `make` makes of the rows, in as few batches as their number and their texts allow.
///
/// # Errors
/// When it fails for a single row.
pub(super) fn in_parts<T>(
    rows: &[T],
    mut make: impl FnMut(&[T]) -> Result<Batch, ArrowError>,
) -> Result<Vec<Batch>, ArrowError> {
    let mut batches = Vec::new();
    let mut parts: Vec<&[T]> = rows.chunks(ROWS_MAX).rev().collect();
    while let Some(part) = parts.pop() {
        match make(part) {
            Ok(made) => batches.push(made),
            // Texts of more than 2 GiB: each half has less, and one value fits.
            Err(_) if part.len() > 1 => {
                let (front, back) = part.split_at(part.len() / 2);
                parts.extend([back, front]);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(batches)
}

/// The stored columns of both sides, with nulls for the side that a row is not of.
fn lone_columns(plan: &Plan, lonely: &Lonely<'_>, rows: &[Lone]) -> Result<Sides, ArrowError> {
    let of = |side: JoinSide| -> Result<Vec<ArrayRef>, ArrowError> {
        let is_own = |row: &&Lone| row.1 == side as usize;
        let ids: Vec<u32> = rows.iter().filter(is_own).map(|row| row.2).collect();
        let forms = plan.side(side).columns.iter().map(|stored| &stored.form);
        if ids.is_empty() {
            return Ok(forms.map(|form| new_null_array(form, rows.len())).collect());
        }
        let own = lonely.gather(side, &ids)?;
        if ids.len() == rows.len() {
            return Ok(own);
        }
        let mut taken = 0;
        let place = |row: &Lone| match row.1 == side as usize {
            true => {
                taken += 1;
                (0, taken - 1)
            }
            false => (1, 0),
        };
        let places: Vec<(usize, usize)> = rows.iter().map(place).collect();
        let with_nulls =
            |(column, form): (ArrayRef, _)| columns::gather(vec![column, new_null_array(form, 1)], &places);
        own.into_iter().zip(forms).map(with_nulls).collect()
    };
    let stored = [of(JoinSide::Left)?, of(JoinSide::Right)?];
    let fill = |StandIn { side, at, partner }: &StandIn| {
        let both = vec![stored[*side as usize][*at].clone(), stored[side.other() as usize][*partner].clone()];
        let place = |(nth, row): (usize, &Lone)| (usize::from(row.1 != *side as usize), nth);
        columns::gather(both, &rows.iter().enumerate().map(place).collect::<Vec<_>>())
    };
    let filled = plan.stand_ins.iter().map(fill).collect::<Result<_, _>>()?;
    Ok(Sides { stored, filled })
}

/// A batch of the output; without columns it has no row.
///
/// # Errors
/// When a column is of another form than the output's.
pub(super) fn batch(
    plan: &Plan,
    sides: Option<&Sides>,
    times_ms: Vec<i64>,
    first: u64,
) -> Result<Batch, ArrowError> {
    let rows = match sides {
        None => RecordBatch::new_empty(plan.output.arrow().clone()),
        Some(sides) => {
            let column = |Origin { side, at, stand_in }: &Origin| {
                let filled = stand_in.and_then(|nth| sides.filled.get(nth));
                filled.unwrap_or(&sides.stored[*side as usize][*at]).clone()
            };
            let columns: Vec<ArrayRef> = plan.from.iter().map(column).collect();
            RecordBatch::try_new(plan::arrow(&plan.output, &columns), columns)?
        }
    };
    Ok(numbered(rows, times_ms, first))
}

/// Rows of the step's making, whose positions begin with `first`.
fn numbered(rows: RecordBatch, times_ms: Vec<i64>, first: u64) -> Batch {
    Batch {
        items: Vec::new(),
        era: 0,
        partition: Partition::new(format!("@{NAME}"), 0),
        rows,
        positions: (first..first + times_ms.len() as u64).collect(),
        times_ms,
    }
}
