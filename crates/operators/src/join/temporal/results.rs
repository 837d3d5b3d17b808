//! From left rows and their versions to rows of the output.
//!
//! Owns the columns of the output and their order. Does not own which version a row gets (`versions`).

use arrow_schema::ArrowError;
use dataflow::Batch;

use super::super::columns;
use super::super::plan::{JoinSide, Plan, StandIn};
use super::super::results::{Sides, batch, in_parts};
use super::super::side::Side;
use super::versions::Versions;
use super::{NONE, UNLINKED};

/// A left row, and the version that it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub time_ms: i64,
    pub row: u32,
    /// [`NONE`] if it is without a match.
    pub version: u32,
}

/// These left rows with their versions, by time, and of one time in the order of arrival.
pub(super) fn by_time(left: &Side, right: &Versions, due: &[u32]) -> Vec<Found> {
    let of = |id: &u32| {
        let row = left.arena.get(*id);
        (row.time_ms, *id, (row.newer != UNLINKED).then_some(row.hash))
    };
    let mut rows: Vec<(i64, u32, Option<u128>)> = due.iter().map(of).collect();
    rows.sort_unstable_by_key(|(time_ms, id, _)| (*time_ms, *id));
    let asked = rows.iter().map(|(time_ms, _, hash)| (*hash, *time_ms));
    let versions = right.holding(asked);
    let found = |((time_ms, row, _), version)| Found { time_ms, row, version };
    rows.into_iter().zip(versions).map(found).collect()
}

/// The rows of the output, whose positions begin with `first`: in batches.
///
/// # Errors
/// When the texts of one row take more than 2 GiB.
pub(super) fn joined(
    plan: &Plan,
    (left, right): (&Side, &Versions),
    mut found: Vec<Found>,
    mut first: u64,
) -> Result<Vec<Batch>, ArrowError> {
    if !plan.side(JoinSide::Left).is_outer {
        found.retain(|found| found.version != NONE);
    }
    in_parts(&found, |part| {
        let sides = of_part(plan, (left, right), part)?;
        let times_ms = part.iter().map(|found| found.time_ms).collect();
        let made = batch(plan, Some(&sides), times_ms, first)?;
        first += part.len() as u64;
        Ok(made)
    })
}

/// The stored columns of both sides, with nulls where there is no version.
fn of_part(plan: &Plan, (left, right): (&Side, &Versions), part: &[Found]) -> Result<Sides, ArrowError> {
    let rows: Vec<u32> = part.iter().map(|found| found.row).collect();
    let versions: Vec<u32> = part.iter().map(|found| found.version).collect();
    let stored = [left.gather(&rows)?, right.gather(plan, &versions)?];
    // Every row has a left one, so only columns of the right side are filled.
    let fill = |StandIn { at, partner, .. }: &StandIn| {
        let both = vec![stored[1][*at].clone(), stored[0][*partner].clone()];
        let place = |(row, version): (usize, &u32)| (usize::from(*version == NONE), row);
        columns::gather(both, &versions.iter().enumerate().map(place).collect::<Vec<_>>())
    };
    let filled = plan.stand_ins.iter().map(fill).collect::<Result<_, _>>()?;
    Ok(Sides { stored, filled })
}
