//! Lanes that are opened again for a table, as it is told.
//!
//! Owns the count in the status and the metric, the lines of the log, and the pause of a start. Does not own the bounds and the words ([`crate::turns`]), nor
//! what a lane is opened again for ([`crate::layouts`]).
//!
//! | metric                        | labels  | meaning                                                    |
//! |-------------------------------|---------|------------------------------------------------------------|
//! | `forebay_lane_reopened_total` | `table` | times that the lane was opened again for what the table feeds, or for a column that it had back |

use std::time::Duration;

use dataflow::Runtime;
use futures::future::select;
use metrics::counter;

use crate::Status;
use crate::turns::{Turns, WORDS};

/// Pause of a start that sees a table otherwise than it has just opened it, again and again.
const START_PAUSE: Duration = Duration::from_secs(5);

/// Whether the lane may be opened again now for what `table` feeds, or for what concerns its `inserts` themselves.
pub fn may_open(status: &Status, table: &str, inserts: bool, now: Duration) -> bool {
    let mut may = true;
    status.update(|s| may = s.tables.get(table).is_none_or(|table| table.turns.may_open(inserts, now)));
    may
}

/// The lane is opened again for `table`.
pub fn opened(status: &Status, table: &str, now: Duration) {
    counter!("forebay_lane_reopened_total", "table" => table.to_owned()).increment(1);
    turn(status, table, now, |turns| turns.opened(now));
}

/// A poll saw the table.
pub fn saw(status: &Status, table: &str, feeds_views: bool, now: Duration) {
    turn(status, table, now, |turns| turns.saw(feeds_views, now));
}

fn turn(status: &Status, table: &str, now: Duration, happens: impl FnOnce(&mut Turns)) {
    let mut told = None;
    status.update(|s| {
        let turns = &mut s.tables.entry(table.to_owned()).or_default().turns;
        happens(turns);
        told = turns.tell(now);
    });
    match told {
        None => {}
        Some(true) => tracing::warn!(table, "{WORDS}"),
        Some(false) => tracing::info!(table, "the table has been seen alike for a while"),
    }
}

/// A start has opened `table` without a column that rows which wait hold, and sees the column: it is opened again, at once or, where that is so again and
/// again, after a pause that `asked` ends.
pub async fn column_is_back(
    status: &Status,
    table: &str,
    runtime: &dyn Runtime,
    asked: impl Future<Output = ()>,
) {
    tracing::info!(
        table,
        "the table was opened without a column that rows which wait hold, and has it now; it is opened again"
    );
    let now = runtime.elapsed();
    opened(status, table, now);
    if !may_open(status, table, false, now) {
        select(runtime.sleep(START_PAUSE), std::pin::pin!(asked)).await;
    }
}

#[cfg(test)]
mod tests;
