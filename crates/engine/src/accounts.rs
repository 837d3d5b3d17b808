//! Do the accounts add up (C9)? Asked of every seal before it is written, of every frame when it is settled, and of a run when it
//! ends. A difference ends the run.
//!
//! Owns the comparison of what was gathered with the rows that really stand in frames, and the metrics of the accounts. Does not own
//! the equations of the two ledgers: the fold holds those, for writers and readers alike (`protocol::lane`).

use metrics::{Counter, counter, gauge};
use protocol::record::Counts;
use protocol::{Lane, Violation};

use crate::Snapshot;
use crate::status::TableStatus;

/// Compares the rows that a cut has for a table, without those that later ones replace, with the rows of its frames.
///
/// # Errors
/// When they differ: a fault of the program, and nothing of the cut becomes durable.
pub fn check(seq: u64, table: &str, gathered: u64, replaced: u64, in_frames: u64) -> Result<(), Violation> {
    if gathered.checked_sub(replaced) == Some(in_frames) {
        return Ok(());
    }
    let what = format!(
        "{gathered} rows were gathered for `{table}`, {replaced} are replaced, and its frames hold {in_frames}"
    );
    Err(mismatch(seq, what))
}

/// Counts a record that the fold refuses since its ledgers do not add up; any other error passes.
pub fn refused(error: &crate::EngineError) {
    if let crate::EngineError::Violation(Violation { rule: "C9", what, .. }) = error {
        mismatches().increment(1);
        tracing::error!(what, "the accounts do not add up");
    }
}

/// Shows the ledgers since genesis, and that no difference was found: a counter that is not there says nothing.
pub fn tell(lane: &Lane) {
    mismatches().increment(0);
    for input in &lane.inputs {
        let Counts { read, passed, filtered, duplicates, late, dead_letters, absorbed, .. } = input.counts;
        for (what, records) in [
            ("read", read),
            ("passed", passed),
            ("filtered", filtered),
            ("duplicates", duplicates),
            ("late", late),
            ("dead_letters", dead_letters),
            ("absorbed", absorbed),
        ] {
            let labels = [("input", input.name.clone()), ("what", what.to_owned())];
            gauge!("forebay_accounts_records", &labels).set(records as f64);
        }
    }
    for table in &lane.tables {
        let rows = table.rows;
        for (what, rows) in [
            ("sealed", rows.sealed),
            ("settled", rows.settled),
            ("refused", rows.refused),
            ("pending", rows.pending()),
            ("replaced", rows.replaced),
        ] {
            gauge!("forebay_accounts_rows", "table" => table.name.clone(), "what" => what).set(rows as f64);
        }
    }
    gauge!("forebay_accounts_add_up").set(f64::from(u8::from(do_add_up(lane))));
}

/// Whether the records of every input are accounted for.
pub fn do_add_up(lane: &Lane) -> bool {
    lane.inputs.iter().all(|input| input.counts.add_up())
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
