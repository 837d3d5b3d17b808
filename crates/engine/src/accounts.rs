//! Do the accounts add up (C9)? Asked of every seal before it is written, and of a run when it ends.
//!
//! Owns the comparison of counts with the rows that really stand in frames, and the metrics of the accounts. Does not own the rule
//! between the counts themselves: the fold holds that, for writers and readers alike (`protocol::lane`).

use metrics::{counter, gauge};
use protocol::Violation;
use protocol::record::Counts;

use crate::Snapshot;
use crate::context::TARGET;

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
    Err(Violation { seq, rule: "C9", what })
}

/// Shows the accounts since genesis.
pub fn tell(sealed: &Counts) {
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

/// Compares, once all frames are settled, the rows that were sealed with those that were settled.
pub fn at_the_end(last: &Snapshot) {
    for (table, status) in &last.tables {
        let is_settled = status.frames_settled == status.frames_sealed;
        if is_settled && status.rows_settled != status.rows_sealed {
            counter!("forebay_accounts_mismatches_total").increment(1);
            tracing::error!(
                table,
                rows_sealed = status.rows_sealed,
                rows_settled = status.rows_settled,
                "all inserts are settled, but not as many rows as were sealed; run `forebay verify`, and report this"
            );
        }
    }
}

#[cfg(test)]
mod tests;
