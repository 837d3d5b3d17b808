//! Numbers and images that this program never writes.
//!
//! Owns the greatest numbers that a lane counts with, and what makes a checkpoint one that the fold could have made. Does not own the
//! invariants of single records (`lane`) or the ledgers' equations (`lane::ledger`).
//!
//! A journal is read from a store that others may have written to. What its records say is therefore checked before anything is
//! computed from it: a record that breaks a rule is a [`Violation`], never an overflow or an index out of bounds.

use super::{Lane, PASSES_MAX, Pass, TableState, Violation, check_frame_numbers, ledger, violation};
use crate::record::{Absorbed, Counts, Derived, Position, Record, Seal, parted};

/// The largest number that a lane counts with. A lane that writes a billion records a second reaches it in 36 years, and sums of a few
/// such numbers still fit into their type.
pub(super) const NUMBER_MAX: u64 = 1 << 60;

/// Versions are milliseconds since 1970, times 2^20: this one is of the year 2109, and signed numbers hold it.
pub(super) const VERSION_MAX: u64 = 1 << 62;

/// The record's own numbers.
pub(super) fn check_place(record: &Record) -> Result<(), Violation> {
    check_numbers(record, "order", [record.seq, record.epoch].into_iter())
}

/// What a seal's numbers make of the lane's.
pub(super) fn check_seal(lane: &Lane, record: &Record, seal: &Seal) -> Result<(), Violation> {
    let leaves = |(now, more): (u64, u64)| now.saturating_add(more) > NUMBER_MAX;
    let mut counts = lane.counts;
    seal.counts.iter().for_each(|of_input| counts.add(&of_input.counts()));
    let derived = seal.derived.as_ref().map(each_derived).unwrap_or_default();
    let absorbed = seal.absorbed.unwrap_or_default();
    if each(&counts).into_iter().any(|sum| sum > NUMBER_MAX)
        || each_derived(&lane.derived).into_iter().zip(derived).any(leaves)
        || leaves((lane.absorbed.released, absorbed.released))
        || absorbed.held.max(absorbed.discarded) > NUMBER_MAX
    {
        return Err(violation(record, "C9", format!("the counts leave all bounds: {counts:?}, {derived:?}")));
    }
    check_number(record, "C1", seal.segment_bytes)
}

/// The lane that a checkpoint holds: one that the fold could have made.
pub(super) fn check_image(record: &Record, lane: &Lane) -> Result<(), Violation> {
    check_place(record)?;
    check_counts(record, &lane.counts)?;
    let both = each_derived(&lane.derived).into_iter().chain(each_absorbed(&lane.absorbed));
    check_numbers(record, "C9", both)?;
    let positions = lane.partitions.iter().map(|partition| most(partition.next));
    let fates = lane.fates.iter().map(|fates| fates.from);
    check_numbers(
        record,
        "C1",
        positions.chain(fates).chain(lane.rewound.values().map(|read_to| most(*read_to))),
    )?;
    let of_none = |(partition, passes): (&u32, &Vec<Pass>)| {
        let is_wrong = |pass: &Pass| pass.from >= pass.end;
        *partition as usize >= lane.partitions.len()
            || passes.len() > PASSES_MAX
            || passes.iter().any(is_wrong)
    };
    if lane.passes.iter().any(of_none) || lane.before.replays_from > NUMBER_MAX {
        return Err(violation(record, "C1", "positions that are read anew of no partition, or none at all"));
    }
    if lane.partitions.iter().any(|partition| partition.input as usize >= lane.inputs.len()) {
        return Err(violation(record, "C1", "a partition of an input that the checkpoint does not hold"));
    }
    check_version(record, lane.next_version)?;
    check_numbers(record, "order", lane.snapshots.iter().map(|snapshot| snapshot.len))?;
    for table in &lane.tables {
        check_table(record, table)?;
    }
    let lost = lane.deltas.iter().any(|delta| {
        delta.delta.is_some_and(|delta| {
            delta.step as usize >= lane.steps.len() || delta.offset.checked_add(delta.len).is_none()
        })
    });
    let steps =
        lane.snapshots.iter().map(|object| object.step).chain(lane.files.iter().map(|file| file.step));
    if lost || steps.into_iter().any(|step| step as usize >= lane.steps.len()) {
        return Err(violation(record, "order", "a state delta points nowhere"));
    }
    ledger::check_image(record, lane)
}

/// The greater half of a position: numbers are added to the low one, and both are written.
pub(super) fn most(position: Position) -> u64 {
    let (era, low) = parted(position);
    era.max(low)
}

/// The pending frames are those from the frontier on, without a gap, each with its pieces in their order.
fn check_table(record: &Record, table: &TableState) -> Result<(), Violation> {
    let wrong =
        |what: &str| Err(violation(record, "C4", format!("table `{}` of the checkpoint {what}", table.name)));
    if table.next_ordinal > NUMBER_MAX
        || table.next_ordinal.checked_sub(table.frontier) != Some(table.pending.len() as u64)
    {
        return wrong("has other frames pending than those from its frontier on");
    }
    for (ordinal, pieces) in (table.frontier..).zip(&table.pending) {
        for (number, piece) in pieces.iter().enumerate() {
            if piece.frame.ordinal != ordinal
                || piece.piece as usize != number
                || piece.first_row > NUMBER_MAX
            {
                return wrong("has pieces out of their order");
            }
            check_frame_numbers(record, &piece.frame, u64::MAX)?;
        }
    }
    Ok(())
}

fn check_counts(record: &Record, counts: &Counts) -> Result<(), Violation> {
    check_numbers(record, "C9", each(counts).into_iter())
}

fn each(counts: &Counts) -> [u64; 8] {
    let Counts { read, passed, filtered, duplicates, late, dead_letters, absorbed, late_kept } = *counts;
    [read, passed, filtered, duplicates, late, dead_letters, absorbed, late_kept]
}

fn each_derived(derived: &Derived) -> [u64; 4] {
    let Derived { rows, dropped, dead_letters, absorbed } = *derived;
    [rows, dropped, dead_letters, absorbed]
}

fn each_absorbed(absorbed: &Absorbed) -> [u64; 3] {
    let Absorbed { released, held, discarded } = *absorbed;
    [released, held, discarded]
}

fn check_numbers(
    record: &Record,
    rule: &'static str,
    mut numbers: impl Iterator<Item = u64>,
) -> Result<(), Violation> {
    numbers.try_for_each(|number| check_number(record, rule, number))
}

/// A version of rows.
pub(super) fn check_version(record: &Record, version: u64) -> Result<(), Violation> {
    if version > VERSION_MAX {
        return Err(violation(record, "C6", format!("{version} is no version of a row")));
    }
    Ok(())
}

/// One number of a record.
pub(super) fn check_number(record: &Record, rule: &'static str, number: u64) -> Result<(), Violation> {
    if number > NUMBER_MAX {
        return Err(violation(record, rule, format!("{number} is no number of a lane")));
    }
    Ok(())
}
