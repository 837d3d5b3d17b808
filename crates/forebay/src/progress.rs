//! Lines that tell how far a pipeline is.
//!
//! Owns the arithmetic of rates and the fields of the lines. Reads the lane's snapshot, and nothing else.

use std::time::{Duration, Instant};

use engine::{Snapshot, Status};

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
            duplicates = now.1.sealed.duplicates + now.1.unsealed.duplicates,
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
    let sealed = &last.sealed;
    tracing::info!(
        read_total = sealed.read,
        written_total = sealed.written,
        duplicates_total = sealed.duplicates,
        filtered_total = sealed.filtered,
        late_total = sealed.late,
        late_kept_total = sealed.late_kept,
        dead_letters_total = sealed.dead_letters,
        settled_by_this_process = settled(last),
        spool_bytes = last.spool_bytes,
        "sum"
    );
}

/// Records read since genesis.
pub fn read(snapshot: &Snapshot) -> u64 {
    snapshot.sealed.read + snapshot.unsealed.read
}

/// Rows settled in all tables by this process.
pub fn settled(snapshot: &Snapshot) -> u64 {
    snapshot.tables.values().map(|table| table.rows_settled).sum()
}
