//! From left rows and their versions to rows of the output.
//!
//! Owns the columns of the output and their order. Does not own which version a row gets (`versions`, and `spilled` for those in files).

use arrow_array::ArrayRef;
use arrow_schema::ArrowError;
use dataflow::Batch;

use super::super::columns;
use super::super::plan::{JoinSide, Plan, StandIn};
use super::super::results::{Sides, batch, in_parts};
use super::super::side::Side;
use super::UNLINKED;
use super::versions::{Holds, Versions};

/// Where the columns of a version are that was read from a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub chunk: u32,
    pub row: u32,
}

/// The version that a row gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// The row is without a match.
    None,
    InMemory(u32),
    Read(Place),
}

/// A left row, and what is in memory for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    pub time_ms: i64,
    pub row: u32,
    /// `None` if its key has a NULL.
    pub hash: Option<u128>,
    pub holds: Holds,
}

/// A left row, and the version that it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub time_ms: i64,
    pub row: u32,
    pub version: Version,
}

/// These left rows with what is in memory for them, by time, and of one time in the order of arrival.
pub(super) fn by_time(left: &Side, right: &Versions, due: &[u32]) -> Vec<Due> {
    let of = |id: &u32| {
        let row = left.arena.get(*id);
        (row.time_ms, *id, (row.newer != UNLINKED).then_some(row.hash))
    };
    let mut rows: Vec<(i64, u32, Option<u128>)> = due.iter().map(of).collect();
    rows.sort_unstable_by_key(|(time_ms, id, _)| (*time_ms, *id));
    let asked = rows.iter().map(|(time_ms, _, hash)| (*hash, *time_ms));
    let holding = right.holding(asked);
    let due = |((time_ms, row, hash), holds)| Due { time_ms, row, hash, holds };
    rows.into_iter().zip(holding).map(due).collect()
}

/// Where the rows of the output come from: both sides in memory, and the columns of versions that were read.
#[derive(Clone, Copy)]
pub(super) struct From<'a> {
    pub left: &'a Side,
    pub right: &'a Versions,
    pub chunks: &'a [&'a [ArrayRef]],
}

/// The rows of the output, whose positions begin with `first`: in batches.
///
/// # Errors
/// When the texts of one row take more than 2 GiB.
pub(super) fn joined(
    plan: &Plan,
    from: From<'_>,
    mut found: Vec<Found>,
    mut first: u64,
) -> Result<Vec<Batch>, ArrowError> {
    if !plan.side(JoinSide::Left).is_outer {
        found.retain(|found| found.version != Version::None);
    }
    in_parts(&found, |part| {
        let sides = of_part(plan, from, part)?;
        let times_ms = part.iter().map(|found| found.time_ms).collect();
        let made = batch(plan, Some(&sides), times_ms, first)?;
        first += part.len() as u64;
        Ok(made)
    })
}

/// The stored columns of both sides, with nulls where there is no version.
fn of_part(plan: &Plan, from: From<'_>, part: &[Found]) -> Result<Sides, ArrowError> {
    let rows: Vec<u32> = part.iter().map(|found| found.row).collect();
    let versions: Vec<Version> = part.iter().map(|found| found.version).collect();
    let stored = [from.left.gather(&rows)?, from.right.gather(plan, &versions, from.chunks)?];
    // Every row has a left one, so only columns of the right side are filled.
    let fill = |StandIn { at, partner, .. }: &StandIn| {
        let both = vec![stored[1][*at].clone(), stored[0][*partner].clone()];
        let place = |(row, version): (usize, &Version)| (usize::from(*version == Version::None), row);
        columns::gather(both, &versions.iter().enumerate().map(place).collect::<Vec<_>>())
    };
    let filled = plan.stand_ins.iter().map(fill).collect::<Result<_, _>>()?;
    Ok(Sides { stored, filled })
}
