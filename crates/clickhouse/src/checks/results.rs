//! Whether a table that merges rows keeps the results of different windows apart.
//!
//! Owns the note about a sorting key that does not. Does not own which columns identify a result (the pipeline), nor tables that are written by
//! `upsert` ([`super::upsert`]), whose key the pipeline's rules judge.

use dataflow::Schema;

use super::Engine;
use super::read::TableRow;
use crate::config::TableConfig;
use crate::partition;

/// Says which columns the sorting key lacks. A note and no fault: a table that keeps the newest window of a key alone may be meant.
pub(super) fn note(
    table: &TableRow,
    engine: &Engine,
    schema: &Schema,
    config: &TableConfig,
    notes: &mut Vec<String>,
) {
    let (Some(results), None) = (&config.results, &config.upsert) else { return };
    let what = match () {
        () if results.replaces && engine.is_replacing => "replace each other",
        () if results.replaces && engine.is_collapsing => "take each other away",
        () if results.overlaps && engine.merges && !engine.is_replacing && !engine.is_collapsing => {
            "are joined, and what counts or sums has a record more than once"
        }
        () => return,
    };
    let Some(key) = partition::plain_columns(&table.sorting_key) else { return };
    // A column that the server fills, or a step behind the window has computed, may tell them apart.
    let is_unknown = |column: &String| results.computed.contains(column) || schema.index_of(column).is_none();
    if key.iter().any(is_unknown) {
        return;
    }
    let missing = results.columns.iter().filter(|columns| !columns.iter().any(|column| key.contains(column)));
    let missing: Vec<String> = missing.map(|columns| format!("`{}`", columns.join("` or `"))).collect();
    if !missing.is_empty() {
        notes.push(format!(
            "table `{}` has the engine `{}` and is sorted by `{}`, without {}: results of different keys or windows {what}. If that is not meant, give \
             it a sorting key with all of these",
            config.name(),
            engine.name,
            table.sorting_key,
            missing.join(" and "),
        ));
    }
}
