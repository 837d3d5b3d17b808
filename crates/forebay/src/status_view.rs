//! A running lane as JSON, for `/status` and `/readyz`.
//!
//! Owns the names of the fields. Does not own the numbers (`engine::status`). Holds nothing secret: no setting but the
//! pipeline's name is shown, and a hash that tells its store from others.

use std::sync::{Arc, OnceLock};

use admin::fields::{counts, position, survey, watermark};
use admin::running;
use dataflow::position::low;
use dataflow::{Budget, printing};
use engine::problem::Problem;
use engine::status::PartitionStatus;
use engine::{Phase, Snapshot, Status, TableStatus, problem, turns};
use pipeline::config::model::Pipeline;
use pipeline::config::values::StoreUrl;
use pipeline::replays;
use protocol::record::Counts;
use serde_json::{Value, json};

use crate::http::View;

/// The view of one lane.
pub struct LaneView {
    pipeline: String,
    store: StoreUrl,
    /// What tells the store from others, once it is there.
    known: OnceLock<String>,
    status: Arc<Status>,
}

impl LaneView {
    /// The view of `pipeline`, which keeps `status` up to date.
    pub fn new(pipeline: &Pipeline, status: Arc<Status>) -> Self {
        let (name, store) = (pipeline.pipeline.to_string(), pipeline.store.clone());
        Self { pipeline: name, store, known: OnceLock::new(), status }
    }

    fn store(&self) -> Option<&str> {
        if self.known.get().is_none()
            && let Some(store) = running::store(&self.store)
        {
            // Another request may have been first, and has found the same.
            let _ = self.known.set(store);
        }
        self.known.get().map(String::as_str)
    }
}

impl View for LaneView {
    fn ready(&self) -> Result<(), String> {
        let now = self.status.snapshot();
        let mut reasons = Vec::new();
        match now.phase {
            // A lane that is paused behind a slow table still delivers; behind one that takes nothing there is a problem.
            Phase::Running | Phase::Paused => {}
            Phase::Starting | Phase::Draining | Phase::Stopped => reasons.push(now.phase.as_str().to_owned()),
        }
        reasons.extend(now.problems.iter().map(|(place, found)| {
            let (state, remedy) = (found.state.word(), found.state.remedy());
            let [place, words] = [place, &found.words].map(|text| printing::escaped(text, usize::MAX));
            format!("{place}: {state}: {words}; way out: {remedy}")
        }));
        if reasons.is_empty() { Ok(()) } else { Err(reasons.join("\n")) }
    }

    fn status(&self) -> Value {
        let mut shown = snapshot(&self.pipeline, &self.status.snapshot());
        shown["store"] = self.store().into();
        shown
    }
}

fn snapshot(pipeline: &str, now: &Snapshot) -> Value {
    let partitions: serde_json::Map<String, Value> = now
        .partitions
        .iter()
        .map(|(name, partition)| {
            let lag = partition.lag();
            let mut value = json!({
                "next": position(partition.next), "sealed": position(partition.sealed), "end": partition.end.map(position), "lag": lag
            });
            if partition.expired > 0 {
                value["expired_max"] = partition.expired.into();
            }
            (name.clone(), value)
        })
        .collect();
    let tables: serde_json::Map<String, Value> = now
        .tables
        .iter()
        .map(|(name, table)| {
            let value = json!({
                "frames_sealed": table.frames_sealed, "frames_settled": table.frames_settled,
                "rows_sealed": table.rows_sealed, "rows_settled": table.rows_settled,
                "rows_refused": table.rows_refused,
                "send_window": table.window, "tokens": table.tokens.as_ref().map(tokens),
                "problem": now.problems.get(name).map(|problem| &problem.words),
                "reopened": table.turns.times, "servers_differ": table.turns.is_told.then_some(turns::WORDS)
            });
            (name.clone(), value)
        })
        .collect();
    let store: serde_json::Map<String, Value> = now
        .store_requests
        .iter()
        .map(|(kind, told)| {
            let value = json!({ "requests": told.requests, "errors": told.errors, "bytes": told.bytes });
            ((*kind).to_owned(), value)
        })
        .collect();
    let cpu: serde_json::Map<String, Value> =
        now.cpu.iter().map(|(stage, spent)| ((*stage).to_owned(), spent.as_secs_f64().into())).collect();
    json!({
        "pipeline": pipeline,
        "phase": now.phase.as_str(),
        "lag": lag(now),
        "sealed": counts(&now.sealed, low(replays(now).sealed).saturating_sub(now.replays_from)),
        "inputs": inputs(now),
        "accounts_add_up": now.inputs.values().all(Counts::add_up),
        "in_flight_rows": now.tables.values().map(TableStatus::rows_in_flight).sum::<u64>(),
        "unsealed": counts(&now.unsealed, low(replays(now).next.saturating_sub(replays(now).sealed))),
        "dead_letters_by_reason": now.dead_letters,
        "spool_bytes": now.spool_bytes,
        "cpu_s": cpu,
        "state": {
            "keys": now.state_keys, "keys_spilled": now.state_keys_spilled, "bytes": now.state_bytes,
            "file_bytes": now.state_file_bytes
        },
        "watermark_ms": watermark(now.watermark_ms),
        "source_problem": source_problem(now).map(|problem| &problem.words),
        "problems": problems(now),
        "store_at_last_sweep": now.store.as_ref().map(survey),
        "partitions": partitions,
        "tables": tables,
        "store_requests": store,
    })
}

/// What the records of each input became.
fn inputs(now: &Snapshot) -> Value {
    let counts = now.inputs.iter().map(|(name, counts)| (name.clone(), admin::fields::records(counts)));
    counts.collect::<serde_json::Map<_, _>>().into()
}

/// The problem of the first input that has one.
fn source_problem(now: &Snapshot) -> Option<&Problem> {
    now.problems
        .iter()
        .find(|(place, _)| *place == problem::SOURCE || now.inputs.contains_key(*place))
        .map(|(_, found)| found)
}

/// What the lane waits for, each as a state with the way out.
fn problems(now: &Snapshot) -> Vec<Value> {
    let shown = now.problems.iter().map(|(place, found)| {
        json!({
            "place": place, "state": found.state.word(), "since_ms": found.since_ms, "times": found.times,
            "effect": problem::effect_word(found.effect), "words": found.words, "remedy": found.state.remedy()
        })
    });
    shown.collect()
}

/// How long a table remembers tokens. Null for what is not measured yet, and for times without an end in sight.
fn tokens(budget: &Budget) -> Value {
    let seconds = |ms: u64| (ms != u64::MAX).then_some(ms as f64 / 1_000.0);
    json!({
        "remembered": budget.remembered, "used_per_s": budget.used_per_s.filter(|rate| rate.is_finite()),
        "is_bounded": budget.used_per_s.is_none_or(f64::is_finite), "used_per_s_max": budget.used_per_s_max, "memory_s": seconds(budget.memory_ms),
        "trusted_s": seconds(budget.trusted_ms), "needed_s": seconds(budget.needed_ms), "is_scarce": budget.is_scarce
    })
}

/// Records that wait in the source; `None` while its partitions or their ends are not known.
pub fn lag(now: &Snapshot) -> Option<u64> {
    if now.partitions.is_empty() { None } else { now.lag() }
}

/// How far the replay logs of the inputs were read: a running lane shows them like any other partition.
fn replays(now: &Snapshot) -> PartitionStatus {
    let name = format!("{}/0", replays::STREAM);
    let is_log =
        |shown: &str| shown.strip_suffix(&name).is_some_and(|input| input.is_empty() || input.ends_with(':'));
    let logs = now.partitions.iter().filter(|(shown, _)| is_log(shown));
    logs.fold(PartitionStatus::default(), |sum, (_, log)| PartitionStatus {
        next: sum.next + log.next,
        sealed: sum.sealed + log.sealed,
        ..sum
    })
}

#[cfg(test)]
mod tests;
