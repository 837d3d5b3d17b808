//! Do the accounts add up (C9)? Asked of every seal before it is written, of every frame when it is settled, and of a run when it
//! ends. A difference ends the run.
//!
//! Owns the comparison of counts with the rows that really stand in frames, and the metrics of the accounts. Does not own the rule
//! between the counts themselves: the fold holds that, for writers and readers alike (`protocol::lane`).

use metrics::{Counter, counter, gauge};
use protocol::Violation;
use protocol::record::Counts;

use crate::Snapshot;
use crate::context::TARGET;
use crate::status::TableStatus;

/// Compares what a cut says became of its records with the rows of its frames: `frames` gives each frame's table (by its place
/// among the targets) and rows, `refused` the rows of earlier seals that now become dead letters.
///
/// # Errors
/// When they differ: a fault of the program, and nothing of the cut becomes durable.
pub fn check(
    seq: u64,
    counts: &Counts,
    refused: u64,
    frames: impl Iterator<Item = (usize, u64)>,
) -> Result<(), Violation> {
    let (mut written, mut letters) = (0, 0);
    for (place, rows) in frames {
        *(if place == TARGET { &mut written } else { &mut letters }) += rows;
    }
    let letters_expected = counts.dead_letters + refused;
    if counts.add_up() && counts.written == written && letters == letters_expected {
        return Ok(());
    }
    let what = format!(
        "{} records read, {written} rows and {letters} dead letters in frames, but {} written, {} filtered, {} duplicates, {} late \
         and {letters_expected} dead letters counted",
        counts.read, counts.written, counts.filtered, counts.duplicates, counts.late
    );
    Err(mismatch(seq, what))
}

/// Shows the accounts since genesis, and that no difference was found: a counter that is not there says nothing.
pub fn tell(sealed: &Counts) {
    mismatches().increment(0);
    for (what, records) in [
        ("read", sealed.read),
        ("written", sealed.written),
        ("filtered", sealed.filtered),
        ("duplicates", sealed.duplicates),
        ("late", sealed.late),
        ("dead_letters", sealed.dead_letters),
    ] {
        gauge!("forebay_accounts_records", "what" => what).set(records as f64);
    }
    gauge!("forebay_accounts_add_up").set(f64::from(u8::from(sealed.add_up())));
}

/// Compares the rows of a settled frame with what became of them: `sealed` were to be delivered, `settled` are in the table and
/// `refused` are dead letters.
///
/// # Errors
/// When a row is lost or there twice: a fault of the program.
pub fn frame(
    seq: u64,
    table: &str,
    ordinal: u64,
    sealed: u64,
    settled: u64,
    refused: u64,
) -> Result<(), Violation> {
    if settled.checked_add(refused) == Some(sealed) {
        return Ok(());
    }
    let what = format!(
        "frame {ordinal} of `{table}` had {sealed} rows to deliver, and {settled} are settled and {refused} refused; run \
         `forebay verify`"
    );
    Err(mismatch(seq, what))
}

/// Compares, once all frames are settled, the rows that were sealed with those that were settled or refused. `seq` is the number
/// of the next record.
///
/// # Errors
/// When they differ: a fault of the program.
pub fn at_the_end(seq: u64, last: &Snapshot) -> Result<(), Violation> {
    for (table, status) in &last.tables {
        let TableStatus { frames_sealed, frames_settled, rows_sealed, rows_settled, rows_refused, .. } =
            status;
        if frames_settled == frames_sealed && rows_settled.checked_add(*rows_refused) != Some(*rows_sealed) {
            let what = format!(
                "all inserts of `{table}` are settled, {rows_sealed} rows were sealed, and {rows_settled} are settled and \
                 {rows_refused} refused; run `forebay verify`"
            );
            return Err(mismatch(seq, what));
        }
    }
    Ok(())
}

fn mismatch(seq: u64, what: String) -> Violation {
    mismatches().increment(1);
    tracing::error!(what, "the accounts do not add up");
    Violation { seq, rule: "C9", what }
}

fn mismatches() -> Counter {
    counter!("forebay_accounts_mismatches_total")
}

#[cfg(test)]
mod tests;
