//! Do a seal's two ledgers add up (C9), and those of a lane?
//!
//! Owns the equations that `record::ledger` names: of records, of the rows of each table, and those that join both. Does not own
//! where the counts come from (`engine::cut`), nor whether a frame holds the rows that its record says (`engine::inspect`).

use super::{Framed, Lane, Piece, Violation, hostile, violation};
use crate::record::{Absorbed, Counts, Derived, Record, Seal};

/// The seal's rows in the tables of each kind.
#[derive(Clone, Copy, Debug, Default)]
struct Sealed {
    rows: u64,
    /// Not among `rows`.
    replaced: u64,
    dead_letters: u64,
    refused: u64,
}

/// Rows of a frame that the table has not refused: those of its pieces that no split has replaced.
pub(super) fn rows_of(pieces: &[Piece]) -> u64 {
    pieces.iter().filter(|piece| !piece.dead).map(|piece| piece.frame.rows).fold(0, u64::saturating_add)
}

/// Asked once every number of the seal is one that a lane counts with ([`hostile`]).
pub(super) fn check(lane: &Lane, record: &Record, seal: &Seal, framed: Vec<Framed>) -> Result<(), Violation> {
    let (counts, derived) = (check_inputs(lane, record, seal)?, seal.derived.unwrap_or_default());
    let absorbed = seal.absorbed.unwrap_or_default();
    if absorbed.discarded > 0 {
        let what = format!("a seal discards {} records that a state held", absorbed.discarded);
        return Err(violation(record, "C9", what));
    }
    check_absorbed(record, lane.absorbed.held, &counts, &derived, &absorbed)?;
    let mut sealed = check_rows(lane, record, seal, framed)?;
    for refusal in &seal.refusals {
        let Some(table) = lane.tables.get(refusal.table as usize).filter(|table| !table.takes_dead_letters)
        else {
            return Err(violation(record, "C9", format!("a dead letter is refused: {refusal:?}")));
        };
        let piece = table.pieces(refusal.ordinal).and_then(|pieces| pieces.get(refusal.piece as usize));
        sealed.refused += piece.map_or(0, |piece| piece.frame.rows);
    }
    check_both(record, &counts, &derived, sealed)
}

/// What states absorbed, and `held` before, they have released or hold.
fn check_absorbed(
    record: &Record,
    held: u64,
    counts: &Counts,
    derived: &Derived,
    after: &Absorbed,
) -> Result<(), Violation> {
    // Each is a number of a lane (`hostile`), so that a few of them fit together.
    if held + counts.absorbed + derived.absorbed == after.released + after.held + after.discarded {
        return Ok(());
    }
    let what = format!(
        "states held {held}, {} records and {} derived rows were absorbed, but {} are released, {} held and {} discarded",
        counts.absorbed, derived.absorbed, after.released, after.held, after.discarded
    );
    Err(violation(record, "C9", what))
}

/// The records of each input add up, and an input gives records only of partitions that have moved. Gives the sum over the inputs.
fn check_inputs(lane: &Lane, record: &Record, seal: &Seal) -> Result<Counts, Violation> {
    let has_moved = |input: u32| {
        let moved = seal.ranges.iter().filter(|range| range.next() > range.from());
        moved.map(|range| range.partition as usize).any(|at| lane.partitions[at].input == input)
    };
    // Before they are compared with each other.
    if seal.counts.len() > lane.inputs.len() {
        return Err(violation(record, "C9", format!("counts of {} inputs", seal.counts.len())));
    }
    let mut sum = Counts::default();
    for (n, said) in seal.counts.iter().enumerate() {
        let (input, counts) = (said.input, said.counts());
        let Some(known) = lane.inputs.get(input as usize) else {
            return Err(violation(record, "C9", format!("input {input} has no genesis")));
        };
        if seal.counts[..n].iter().any(|other| other.input == input) {
            return Err(violation(record, "C9", format!("two counts of input `{}`", known.name)));
        }
        if !counts.add_up() {
            let what = format!("the counts of input `{}` do not add up: {counts:?}", known.name);
            return Err(violation(record, "C9", what));
        }
        if counts.read > 0 && !has_moved(input) {
            let what = format!(
                "{} records are counted for input `{}`, of which none was read",
                counts.read, known.name
            );
            return Err(violation(record, "C9", what));
        }
        sum.add(&counts);
    }
    Ok(sum)
}

/// The frames hold the rows that the batch had for each table, and no others.
fn check_rows(
    lane: &Lane,
    record: &Record,
    seal: &Seal,
    mut framed: Vec<Framed>,
) -> Result<Sealed, Violation> {
    let mut sealed = Sealed::default();
    for said in &seal.rows {
        // A table that is said twice has none left.
        let found = framed.get_mut(said.table as usize).map(|framed| std::mem::take(&mut framed.rows));
        if found != Some(said.rows) || said.rows == 0 {
            let what = format!("table {} gets {} rows, and its frames hold {found:?}", said.table, said.rows);
            return Err(violation(record, "C9", what));
        }
        let table = &lane.tables[said.table as usize];
        if table.takes_dead_letters && said.replaced > 0 {
            return Err(violation(record, "C9", format!("dead letters of `{}` are replaced", table.name)));
        }
        if table.rows.sealed + said.rows > hostile::NUMBER_MAX
            || table.rows.replaced.saturating_add(said.replaced) > hostile::NUMBER_MAX
        {
            return Err(violation(record, "C9", format!("the rows of `{}` leave all bounds", table.name)));
        }
        let kind = if table.takes_dead_letters { &mut sealed.dead_letters } else { &mut sealed.rows };
        *kind = kind.saturating_add(said.rows);
        sealed.replaced = sealed.replaced.saturating_add(said.replaced);
    }
    match framed.iter().position(|framed| framed.rows > 0) {
        Some(table) => {
            let what = format!("frames hold {} rows for table {table}, which gets none", framed[table].rows);
            Err(violation(record, "C9", what))
        }
        None => Ok(sealed),
    }
}

/// What the records became is what the tables get.
fn check_both(record: &Record, counts: &Counts, derived: &Derived, sealed: Sealed) -> Result<(), Violation> {
    let made = u128::from(counts.passed) + u128::from(derived.rows);
    let found: u128 = [sealed.rows, sealed.replaced, derived.dropped, derived.absorbed, derived.dead_letters]
        .into_iter()
        .map(u128::from)
        .sum();
    if made != found {
        let what = format!(
            "{} records passed and {} rows were derived, but {} rows are sealed, {} were replaced, {} dropped, {} absorbed and {} became dead letters",
            counts.passed,
            derived.rows,
            sealed.rows,
            sealed.replaced,
            derived.dropped,
            derived.absorbed,
            derived.dead_letters
        );
        return Err(violation(record, "C9", what));
    }
    let letters = [counts.dead_letters, derived.dead_letters, sealed.refused];
    let expected: u128 = letters.into_iter().map(u128::from).sum();
    if expected != u128::from(sealed.dead_letters) {
        let what = format!(
            "{} records and {} derived rows became dead letters and {} rows were refused, but {} dead letters are sealed",
            counts.dead_letters, derived.dead_letters, sealed.refused, sealed.dead_letters
        );
        return Err(violation(record, "C9", what));
    }
    Ok(())
}

/// The ledgers of a lane that a checkpoint holds.
pub(super) fn check_image(record: &Record, lane: &Lane) -> Result<(), Violation> {
    if let Some(input) = lane.inputs.iter().find(|input| !input.counts.add_up()) {
        let what = format!("the counts of input `{}` do not add up: {:?}", input.name, input.counts);
        return Err(violation(record, "C9", what));
    }
    check_absorbed(record, 0, &lane.counts, &lane.derived, &lane.absorbed)?;
    let mut sealed = Sealed::default();
    for table in &lane.tables {
        let pending: u64 = table.pending.iter().map(|pieces| rows_of(pieces)).fold(0, u64::saturating_add);
        let parts = [table.rows.settled, table.rows.refused, pending];
        let sum = parts.iter().try_fold(0_u64, |sum, part| sum.checked_add(*part));
        if sum != Some(table.rows.sealed)
            || table.rows.sealed.max(table.rows.replaced) > hostile::NUMBER_MAX
            || table.takes_dead_letters && table.rows.replaced > 0
        {
            let what = format!("table `{}` has {:?}, and {pending} pending", table.name, table.rows);
            return Err(violation(record, "C9", what));
        }
        let kind = if table.takes_dead_letters { &mut sealed.dead_letters } else { &mut sealed.rows };
        *kind = kind.saturating_add(table.rows.sealed);
        sealed.replaced = sealed.replaced.saturating_add(table.rows.replaced);
        sealed.refused = sealed.refused.saturating_add(table.rows.refused);
    }
    check_both(record, &lane.counts, &lane.derived, sealed)
}

#[cfg(test)]
mod tests;
