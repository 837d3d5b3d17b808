//! Lines that tell how far a pipeline is, and at its end what became of the records.
//!
//! Owns the arithmetic of rates, the words of the last line, and when a run has too many dead letters. Reads the lane's snapshot
//! (`engine::status`), and nothing else. Does not own the exit code (`commands::run`).

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use engine::totals::Totals;
use engine::{Outcome, Snapshot, Status, TableStatus};
use pipeline::config::values::Share;
use protocol::record::Counts;

use crate::status_view;

/// Tells every `every`, for ever.
pub async fn tell(status: &Status, every: Duration) {
    let mut before = (Instant::now(), status.snapshot());
    loop {
        tokio::time::sleep(every).await;
        let now = (Instant::now(), status.snapshot());
        let seconds = now.0.duration_since(before.0).as_secs_f64().max(0.001);
        let rate = |from: u64, to: u64| (to.saturating_sub(from) as f64 / seconds).round() as u64;
        tracing::info!(
            phase = now.1.phase.as_str(),
            read_per_s = rate(read(&before.1), read(&now.1)),
            settled_per_s = rate(settled(&before.1), settled(&now.1)),
            lag = status_view::lag(&now.1),
            duplicates = now.1.sealed.records.duplicates + now.1.unsealed.records.duplicates,
            dead_letters = now.1.sealed.dead_letters + now.1.unsealed.dead_letters,
            spool_bytes = now.1.spool_bytes,
            state_keys = now.1.state_keys,
            "progress"
        );
        before = now;
    }
}

/// What became of all records, once at the end. `total` counts since the pipeline's genesis.
pub fn sum(last: &Snapshot) {
    let (total, run) = (&last.sealed, of_this_run(last));
    let (of_run, of_all) = (run.records, total.records);
    tracing::info!(
        read = of_run.read,
        written = run.written,
        filtered = of_run.filtered,
        duplicates = of_run.duplicates,
        late = of_run.late,
        late_kept = of_run.late_kept,
        dead_letters = run.dead_letters,
        replayed = last.replayed,
        read_total = of_all.read,
        written_total = total.written,
        duplicates_total = of_all.duplicates,
        filtered_total = of_all.filtered,
        late_total = of_all.late,
        late_kept_total = of_all.late_kept,
        dead_letters_total = total.dead_letters,
        settled_by_this_process = settled(last),
        rows_in_flight = in_flight(last),
        spool_bytes = last.spool_bytes,
        "sum"
    );
}

/// How a run ended, in one sentence: what it read and what became of that. It says that all is in the table only of a run whose
/// every record is. `letters` names the table of the dead letters.
pub fn verdict(outcome: &Outcome, last: &Snapshot, letters: &str) -> String {
    let run = of_this_run(last);
    let mut text = match outcome {
        Outcome::Complete => "all was read".to_owned(),
        Outcome::Drained => "drained".to_owned(),
        Outcome::Interrupted | Outcome::Reopen { .. } => "stopped before all was delivered".to_owned(),
    };
    let is_delivered = matches!(outcome, Outcome::Complete | Outcome::Drained);
    let all = if *outcome == Outcome::Complete { "all of it" } else { "all that was read" };
    match run.records.read {
        0 if is_delivered && settled(last) > 0 => {
            text += ": nothing new was read, and what waited in the store is delivered"
        }
        0 => text += ": nothing new was read",
        read if is_delivered && run.records.passed == read && run.dead_letters == 0 => {
            text += &format!(", and {all} is in the table: {}", counted(read, "record"));
        }
        read => text += &format!(": {} read, {}", counted(read, "record"), kinds(&run)),
    }
    if last.replayed > 0 {
        text += &format!(" ({} of them replayed)", last.replayed);
    }
    if !is_delivered {
        let waiting = in_flight(last);
        let rows = match waiting {
            // A start that has not come to its journal knows nothing of what is there.
            0 if last.inputs.is_empty() => "whatever waited in the store waits there still".to_owned(),
            1 => "1 row waits in the store".to_owned(),
            waiting => format!("{waiting} rows wait in the store"),
        };
        text += &format!("; {rows}, and the next start continues from the journal");
    }
    if run.dead_letters > 0 {
        text += &format!(
            "; the dead letters are in `{letters}`, and `forebay dead-letters list FILE --summary` says why"
        );
    }
    text
}

/// Why this run has too many dead letters, if it has: more than the share `fail_above` of its records; without such a share, as many as
/// records, and no row.
pub fn too_many_dead_letters(last: &Snapshot, fail_above: Option<Share>) -> Option<String> {
    let run = of_this_run(last);
    let (read, dead_letters) = (run.records.read, run.dead_letters);
    // A record that two tables refuse, and a result of a window, are dead letters beyond the records.
    let what = match dead_letters <= read {
        true => format!("{dead_letters} of the {} read became dead letters", counted(read, "record")),
        false => format!("{dead_letters} dead letters came of {} read", counted(read, "record")),
    };
    match fail_above {
        Some(share) if share.is_exceeded(dead_letters, read) => {
            Some(format!("{what}, more than the {share} that `dead_letters.fail_above` allows"))
        }
        None if read > 0 && dead_letters >= read && run.written == 0 => {
            Some(format!("{what}, and none a row"))
        }
        _ => None,
    }
}

/// What the records that were sealed in this run became. A row of an earlier run that the server has refused in this one counts as
/// a dead letter here, though its record was read before.
fn of_this_run(last: &Snapshot) -> Totals {
    last.sealed.since(&last.sealed_at_start)
}

/// `4 rows written, 1 filtered, 3 dead letters`: rows always, the others where there are any.
fn kinds(run: &Totals) -> String {
    let mut text = format!("{} written", counted(run.written, "row"));
    let Counts { filtered, duplicates, late, absorbed, .. } = run.records;
    let others = [
        (absorbed, "taken into steps with state".to_owned()),
        (filtered, "filtered".to_owned()),
        (duplicates, plural(duplicates, "duplicate")),
        (late, "late".to_owned()),
        (run.replaced, "replaced by later rows".to_owned()),
        (run.dead_letters, plural(run.dead_letters, "dead letter")),
    ];
    for (records, word) in others.into_iter().filter(|(records, _)| *records > 0) {
        write!(text, ", {records} {word}").expect("a String takes all that is written");
    }
    text
}

/// A number of things that one `word` names.
pub fn counted(n: u64, word: &str) -> String {
    format!("{n} {}", plural(n, word))
}

fn plural(n: u64, word: &str) -> String {
    if n == 1 { word.to_owned() } else { format!("{word}s") }
}

/// Records that this process has read, replayed ones among them. What an earlier process has read does not count.
pub fn read(snapshot: &Snapshot) -> u64 {
    snapshot.read + snapshot.replayed
}

/// Rows settled in all tables by this process.
pub fn settled(snapshot: &Snapshot) -> u64 {
    snapshot.tables.values().map(|table| table.rows_settled).sum()
}

/// Rows that are sealed and in no table yet.
fn in_flight(snapshot: &Snapshot) -> u64 {
    snapshot.tables.values().map(TableStatus::rows_in_flight).sum()
}

#[cfg(test)]
mod tests;
