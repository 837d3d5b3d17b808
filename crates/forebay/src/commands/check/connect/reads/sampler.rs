//! Some records of the source, taken through the steps.
//!
//! Owns how many are taken, and what is reported of those that are rejected. Does not own the read ([`super`]).

use std::sync::Arc;

use admin::fields;
use dataflow::{Batch, Intake, Prepared, RecordBlock, Router, Schema, Selected};
use pipeline::config::model::Pipeline;
use pipeline::config::model::step::Step;
use serde_json::{Value, json};

use crate::commands::check::connect::Found;
use crate::commands::dead_letters::output::printable;
use crate::progress::counted;

/// Partitions that are described one by one.
pub(super) const SHOWN_MAX: usize = 10;

/// Decodes the first records that come.
pub(super) struct Sampler {
    /// Without the steps of the lane: whether a record is a duplicate depends on all before it.
    intake: Intake,
    /// Whether the rows go into a window or join: its results go to the tables, not they themselves.
    is_stateful: bool,
    router: Option<Arc<dyn Router>>,
    /// Name and columns of each table for rows.
    tables: Vec<(String, Schema)>,
    read_ms: i64,
    wanted: usize,
    seen: Vec<Value>,
}

impl Sampler {
    pub(super) fn new(
        pipeline: &Pipeline,
        (intake, router): (Intake, Option<Arc<dyn Router>>),
        schemas: &[Schema],
        (wanted, read_ms): (usize, i64),
    ) -> Self {
        let names = pipeline.targets().into_iter().map(|target| target.clickhouse.full_name());
        let tables = names.zip(schemas.iter().cloned()).collect();
        let makes_rows = |step: &Step| step.window.is_some() || step.join.is_some();
        let is_stateful = pipeline.steps.iter().any(makes_rows) || pipeline.takes_rows_back();
        Self { intake, is_stateful, router, tables, read_ms, wanted, seen: Vec::new() }
    }

    /// Table and row, for each table that takes row `row`.
    pub(super) fn rows(&self, parts: &[(usize, Selected)], row: usize) -> serde_json::Map<String, Value> {
        let is_in = |part: &Selected| part.stretches().iter().any(|rows| rows.contains(&(row as u32)));
        let rows = parts.iter().filter(|(_, part)| is_in(part)).map(|(place, part)| {
            let (name, columns) = &self.tables[*place];
            let text = clickhouse::json::row(columns, part.batch(), row);
            (name.clone(), serde_json::from_str(&text).unwrap_or(Value::Null))
        });
        rows.collect()
    }

    pub(super) fn is_full(&self) -> bool {
        self.seen.len() >= self.wanted
    }

    pub(super) fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// What becomes of each record of a block, as long as more are wanted.
    pub(super) fn take(&mut self, block: &RecordBlock) {
        if self.is_full() {
            return;
        }
        let Ok(Prepared { batch, rejects, .. }) = self.intake.prepare(block, self.read_ms) else { return };
        let all = Selected::all(batch.rows.clone());
        let parts = match &self.router {
            _ if self.is_stateful => Vec::new(),
            Some(router) => router.route(&all),
            None => vec![(0, all)],
        };
        for (row, position) in block.positions.iter().enumerate().take(self.wanted - self.seen.len()) {
            let record = json!({
                "stream": &*block.partition.stream, "index": block.partition.index,
                "position": fields::position(block.position(row))
            });
            let became =
                if let Some(reject) = rejects.iter().find(|reject| reject.position == block.position(row)) {
                    json!({
                        "becomes": "dead_letter", "reason": reject.reason.as_str(), "column": reject.column,
                        "message": reject.message
                    })
                } else {
                    self.became(&batch, *position, &parts)
                };
            let (mut all, became) = (record, became);
            if let (Some(all), Value::Object(became)) = (all.as_object_mut(), became) {
                all.extend(became);
            }
            self.seen.push(all);
        }
    }

    /// What becomes of the record at a position that was not rejected: it may have several rows, of which the first that a table takes is shown.
    fn became(&self, batch: &Batch, position: u64, parts: &[(usize, Selected)]) -> Value {
        let first = batch.positions.partition_point(|other| *other < position);
        let behind = batch.positions.partition_point(|other| *other <= position);
        if self.is_stateful && first < behind {
            return json!({ "becomes": "state" });
        }
        // A step behind `dedup` may drop them.
        let mut taken = (first..behind).map(|row| self.rows(parts, row)).filter(|rows| !rows.is_empty());
        match (taken.next(), taken.count()) {
            (None, _) => json!({ "becomes": "filtered" }),
            (Some(rows), 0) => json!({ "becomes": "row", "rows": rows }),
            (Some(rows), more) => json!({ "becomes": "row", "rows": rows, "more_rows": more }),
        }
    }

    pub(super) fn tell(self, is_new: bool, input: Option<&str>, found: &mut Found) {
        let of_input = input.map_or(String::new(), |input| format!(" of input `{input}`"));
        let of = |word: &str| self.seen.iter().filter(|record| record["becomes"] == word).count() as u64;
        let whence = if is_new {
            "that a start would read next"
        } else {
            "that were read before, as there are no new ones"
        };
        let more = |record: &Value| record["more_rows"].as_u64().unwrap_or(0);
        let rows = of("row") + self.seen.iter().map(more).sum::<u64>();
        let checked = match self.is_stateful {
            true => format!("{} into steps with state", of("state")),
            false => "duplicates are not checked".to_owned(),
        };
        found.notes.push(match self.seen.len() {
            0 => format!("no sample{of_input}: the source holds no record"),
            all => format!(
                "sample of {}{of_input} {whence}: {}, {}, {} filtered ({checked})",
                counted(all as u64, "record"),
                counted(rows, "row"),
                counted(of("dead_letter"), "dead letter"),
                of("filtered")
            ),
        });
        for record in &self.seen {
            let text = |key: &str| printable(record[key].as_str().unwrap_or_default());
            let at = format!("  {}/{}/{}", text("stream"), record["index"], record["position"]);
            found.notes.push(match record["becomes"].as_str() {
                Some("dead_letter") => format!("{at}: dead letter: {}: {}", text("reason"), text("message")),
                // JSON escapes what a terminal would obey.
                Some("row") => match more(record) {
                    0 => format!("{at}: row {}", record["rows"]),
                    more => format!("{at}: row {} and {more} more", record["rows"]),
                },
                Some("state") => format!("{at}: goes into steps with state"),
                _ => format!("{at}: filtered"),
            });
        }
        let sample = json!({ "is_new": is_new, "records": self.seen });
        match input {
            Some(input) => found.json["sample"][input] = sample,
            None => found.json["sample"] = sample,
        }
    }
}

#[cfg(test)]
mod tests;
