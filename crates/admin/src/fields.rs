//! What several answers say in the same JSON fields: what records became, what lies in the store.
//!
//! Owns the names of these fields, which `/status` and the commands share. Does not own the sums (`protocol::lane`, `engine::survey`).

use dataflow::position::{self, Position};
use engine::survey::{self, Survey, Tally};
use engine::totals::Totals;
use pipeline::replays;
use protocol::Lane;
use protocol::record::Counts;
use protocol::retire::Standing;
use serde_json::{Value, json};

/// What records became, `replayed` of which came from the replay log and not from the source: `read` and `replayed` together are
/// the sum of `passed`, `filtered`, `duplicates`, `late`, `rejected` and `absorbed`. `written`, `replaced` and
/// `dead_letters` are rows.
pub fn counts(totals: &Totals, replayed: u64) -> Value {
    let counts = &totals.records;
    let replayed = replayed.min(counts.read);
    json!({
        "read": counts.read - replayed, "replayed": replayed, "passed": counts.passed,
        "duplicates": counts.duplicates, "filtered": counts.filtered, "late": counts.late,
        "late_kept": counts.late_kept, "rejected": counts.dead_letters, "absorbed": counts.absorbed,
        "written": totals.written, "replaced": totals.replaced, "dead_letters": totals.dead_letters
    })
}

/// What the records of one input became, replayed ones among them: `read` is the sum of the others but `late_kept`.
pub fn records(counts: &Counts) -> Value {
    json!({
        "read": counts.read, "passed": counts.passed, "duplicates": counts.duplicates, "filtered": counts.filtered,
        "late": counts.late, "late_kept": counts.late_kept, "rejected": counts.dead_letters, "absorbed": counts.absorbed
    })
}

/// Records of the replay log that the lane has sealed: their positions count them, from where the log of an earlier pipeline of the name has ended.
pub fn replayed(lane: &Lane) -> u64 {
    let read = replays::stands_at(lane).map_or(0, position::low);
    read.saturating_sub(lane.before.replays_from)
}

/// A position: a number, or `"era:place"` where it has an era.
pub fn position(at: Position) -> Value {
    position::plain(at).map_or_else(|| position::shown(at).to_string().into(), Value::from)
}

/// What lies in the store: objects and bytes by standing, and of each kind.
pub fn survey(survey: &Survey) -> Value {
    let tally = |tally: Tally| json!({ "objects": tally.objects, "bytes": tally.bytes });
    let mut kinds = serde_json::Map::new();
    for ((kind, standing), found) in &survey.tallies {
        kinds.entry(*kind).or_insert_with(|| json!({}))[survey::word(*standing)] = tally(*found);
    }
    json!({
        "needed": tally(survey.of(Standing::Needed)),
        "under_way": tally(survey.of(Standing::UnderWay)),
        "garbage": tally(survey.of(Standing::Garbage)),
        "foreign": tally(survey.of(Standing::Foreign)),
        "kinds": kinds,
    })
}

/// The watermark in Unix milliseconds; null before there is one.
pub fn watermark(ms: i64) -> Option<i64> {
    (ms != i64::MIN).then_some(ms)
}

#[cfg(test)]
mod tests;
