//! What became of each record of a sample, step by step.
//!
//! Owns which step drops a record, and how a record and its rows are shown. Does not own the steps, nor the reading ([`super::sample`]).

use std::collections::{BTreeMap, BTreeSet};

use dataflow::{RecordBlock, Reject, Selected, position, printing};
use pipeline::plan::{Place, Plan};
use pipeline::wiring::steps::{Chain, InputChain};

use super::SHOWN_MAX;
use super::exact::Json;

/// What became of a record, or of a row of it.
pub(super) enum Outcome {
    /// Table and row, for each table that takes it.
    Rows(Vec<(String, String)>),
    Filtered(String),
    Rejected(Reject),
    /// It goes into the state of this step.
    Onward(String),
}

/// A record and what became of it; or, if it has become several rows, one of them.
pub(super) struct Tried {
    pub(super) place: String,
    pub(super) before: String,
    /// The item of the record's array, or the row of the request, that this is.
    pub(super) item: Option<u32>,
    pub(super) outcome: Outcome,
}

/// Runs the work before the lane on a block, step by step, so that it is known which one drops a record.
pub(super) fn outcomes(
    plan: &Plan,
    (Chain { router, .. }, InputChain { intake, .. }): (&Chain, &InputChain),
    (block, read_ms): (&RecordBlock, i64),
    onward: Option<String>,
) -> anyhow::Result<Vec<Tried>> {
    // By the item of the record's array, of rows of items.
    let mut dropped: BTreeMap<(u64, Option<u32>), String> = BTreeMap::new();
    let stages = plan.stages.iter().filter(|stage| stage.place == Place::DecodeJob);
    let mut before: Option<BTreeSet<(u64, Option<u32>)>> = None;
    let names = std::iter::once("decoding").chain(stages.map(|stage| stage.path.as_str()));
    for (steps, name) in names.enumerate() {
        let part = intake.clone().with_steps(intake.steps()[..steps].to_vec());
        let batch = part.prepare(block, read_ms)?.batch;
        let left: BTreeSet<(u64, Option<u32>)> =
            (0..batch.len()).map(|row| (batch.positions[row], batch.item(row))).collect();
        let is_left = |place: &(u64, Option<u32>)| {
            let has_rows = || left.range((place.0, None)..).next().is_some_and(|(at, _)| *at == place.0);
            left.contains(place) || (place.1.is_none() && has_rows())
        };
        for place in before.iter().flatten().filter(|place| !is_left(place)) {
            dropped.insert(*place, name.to_owned());
        }
        before = Some(left);
    }
    let prepared = intake.prepare(block, read_ms)?;
    let mut rejects: BTreeMap<u64, Vec<Reject>> = BTreeMap::new();
    for reject in prepared.rejects {
        rejects.entry(position::low(reject.position)).or_default().push(reject);
    }
    let batch = prepared.batch;
    let parts = match router {
        _ if onward.is_some() => Vec::new(),
        Some(router) => router.route(&Selected::all(batch.rows.clone())),
        None => vec![(0, Selected::all(batch.rows.clone()))],
    };
    // Columns behind a table's are for steps with state.
    let rows_of = |row: usize| -> Vec<(String, String)> {
        let parts = parts
            .iter()
            .filter(|(_, part)| part.stretches().iter().any(|stretch| stretch.contains(&(row as u32))));
        let rows = parts.map(|(place, part)| {
            let table = &plan.tables[*place];
            (table.name.clone(), clickhouse::json::row(&table.columns, part.batch(), row))
        });
        rows.collect()
    };
    // Of a record with several rows each is tried by itself, and it is all of its record then.
    let holds_rows = intake.decoder().multiplies();
    let item_of = |reject: &Reject| reject.item.filter(|_| !holds_rows);
    let mut tried = Vec::with_capacity(block.len());
    for (row, position) in block.positions.iter().enumerate() {
        let rejected = rejects.remove(position).unwrap_or_default().into_iter();
        let mut all: Vec<(Option<u32>, Outcome)> =
            rejected.map(|reject| (item_of(&reject), Outcome::Rejected(reject))).collect();
        let first = batch.positions.partition_point(|other| other < position);
        let count = batch.positions[first..].iter().take_while(|other| *other == position).count();
        all.extend((first..first + count).map(|row| match rows_of(row) {
            _ if onward.is_some() => (batch.item(row), Outcome::Onward(onward.clone().unwrap_or_default())),
            rows if rows.is_empty() => {
                (batch.item(row), Outcome::Filtered("a step behind `dedup`".to_owned()))
            }
            rows => (batch.item(row), Outcome::Rows(rows)),
        }));
        let known: BTreeSet<Option<u32>> = all.iter().map(|(item, _)| *item).collect();
        let dropped = dropped.range((*position, None)..=(*position, Some(u32::MAX)));
        let dropped = dropped.filter(|((_, item), _)| !known.contains(item));
        all.extend(dropped.map(|((_, item), by)| (*item, Outcome::Filtered(by.clone()))));
        if all.is_empty() {
            all.push((None, Outcome::Filtered("sinks: no table takes it".to_owned())));
        }
        all.sort_by_key(|(item, _)| *item);
        let mut before = String::from_utf8_lossy(block.payloads.get(row)).into_owned();
        let place = format!("{}/{}", block.partition, position::shown(block.position(row)));
        for (item, outcome) in all {
            let before = std::mem::replace(&mut before, "(as above)".to_owned());
            tried.push(Tried { place: place.clone(), before, item, outcome });
        }
    }
    Ok(tried)
}

impl Tried {
    pub(super) fn json(&self) -> Json {
        let mut all: Vec<(&str, Json)> =
            vec![("record", Json::of(self.place.as_str())), ("before", Json::of(self.before.as_str()))];
        all.extend(self.item.map(|item| ("item", Json::of(item))));
        match &self.outcome {
            Outcome::Rows(rows) => {
                let rows = rows.iter().map(|(table, row)| (table.clone(), Json::Row(row.clone())));
                all.extend([("becomes", Json::of("row")), ("after", Json::Object(rows.collect()))]);
            }
            Outcome::Filtered(step) => {
                all.extend([("becomes", Json::of("filtered")), ("by", Json::of(step.as_str()))]);
            }
            Outcome::Onward(step) => {
                all.extend([("becomes", Json::of("state")), ("of", Json::of(step.as_str()))])
            }
            Outcome::Rejected(reject) => all.extend([
                ("becomes", Json::of("dead_letter")),
                ("reason", Json::of(reject.reason.as_str())),
                ("column", Json::of(reject.column.as_str())),
                ("message", Json::of(reject.message.as_str())),
            ]),
        }
        Json::Object(all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// The record's place, and the item of its array.
    pub(super) fn shown_place(&self) -> String {
        let item = self.item.map_or(String::new(), |item| format!(" [{item}]"));
        printing::escaped(&self.place, SHOWN_MAX).into_owned() + &item
    }

    pub(super) fn after(&self, is_of_several: bool) -> String {
        match &self.outcome {
            Outcome::Rows(rows) => match rows.as_slice() {
                [(_, row)] if !is_of_several => row.clone(),
                rows => {
                    let rows: Vec<String> =
                        rows.iter().map(|(table, row)| format!("{table}: {row}")).collect();
                    rows.join(" ")
                }
            },
            Outcome::Filtered(step) => format!("filtered by {step}"),
            Outcome::Onward(step) => format!("goes into {step}"),
            Outcome::Rejected(reject) => {
                format!("dead letter: {}: {}", reject.reason.as_str(), reject.message)
            }
        }
    }
}
