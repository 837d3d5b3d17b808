//! A `dedup` with `keep: last`, as the `upsert` of the tables that it stands for.
//!
//! Owns when a table can keep the last record of a key: nothing stands between the step and the table, and every record of a key goes there. Does not
//! own what is asked of the table (`clickhouse::checks`), nor which row is the newest (docs/upserts.md).

use std::collections::BTreeMap;

use super::faults::Faults;
use super::model::Pipeline;
use super::model::sink::Upsert;
use super::model::step::{Dedup, Keep, Late, Step};
use super::rules;
use super::spans::Node;
use super::values::{Field, Identifier, Window};

/// Takes the step out, which is the last one, and gives each table its `upsert`. A step that cannot be one stays, with its faults.
pub(super) fn lowered(pipeline: &mut Pipeline, tree: &Node, faults: &mut Faults) {
    let found = pipeline.steps.iter().enumerate().find_map(|(at, step)| {
        let dedup = step.dedup.as_ref().filter(|dedup| dedup.keep == Keep::Last)?;
        Some((at, step.clone(), dedup.clone()))
    });
    let Some((at, step, dedup)) = found else { return };
    let mut wrong = of_step(pipeline, tree, (at, &step, &dedup));
    wrong.extend(of_tables(pipeline));
    wrong.extend(of_names(pipeline, &dedup));
    if wrong.is_empty() {
        pipeline.steps.truncate(at);
        give(pipeline, &dedup);
    }
    for (path, message) in wrong {
        let (path, _) = pipeline.in_file(&path, None);
        faults.fault(rules::place(tree, &path), path, message);
    }
}

/// What is wrong: a key of the file, and the sentence.
type Wrong = (String, &'static str);

fn of_step(pipeline: &Pipeline, tree: &Node, (at, step, dedup): (usize, &Step, &Dedup)) -> Vec<Wrong> {
    let path = format!("steps[{at}].dedup");
    let mut wrong = Vec::new();
    if at + 1 < pipeline.steps.len() {
        let message =
            "the table keeps the last record, so no step can stand between; move this one to the end";
        wrong.push((format!("{path}.keep"), message));
    }
    if dedup.window != Window::Unbounded {
        let message = "the table replaces the row of a key however old it is, so no two of them stay; write `window: unbounded`";
        wrong.push((format!("{path}.window"), message));
    }
    if step.from.is_some() {
        let message =
            "the table takes the rows of all inputs, and keeps the last of each key among them; remove it";
        wrong.push((format!("steps[{at}].from"), message));
    }
    let is_given = [
        ("late", dedup.late != Late::Keep),
        ("future_max", dedup.future_max.is_some()),
        ("memory", rules::node(tree, &pipeline.in_file(&format!("{path}.memory"), None).0).is_some()),
    ];
    for (setting, _) in is_given.into_iter().filter(|(_, is_given)| *is_given) {
        let message = "with `keep: last` the step holds no keys, and no record comes too late; remove it";
        wrong.push((format!("{path}.{setting}"), message));
    }
    wrong
}

fn of_tables(pipeline: &Pipeline) -> Vec<Wrong> {
    const TWICE: &str =
        "the `dedup` with `keep: last` says by what rows replace each other; remove it, or the step";
    const PARTS: &str = "with `keep: last` a table takes every row, for one that takes some would keep the row of a key whose last record goes elsewhere; remove it, or write \
                         `upsert` at each table in place of the step";
    let mut wrong = Vec::new();
    if pipeline.sink.upsert.is_some() {
        wrong.push(("sink.upsert".to_owned(), TWICE));
    }
    for (at, sink) in pipeline.sinks.iter().enumerate().filter(|(_, sink)| sink.from.is_none()) {
        let parts =
            [("where", sink.condition.is_some()), ("by", sink.by.is_some()), ("otherwise", sink.otherwise)];
        let parts = parts.into_iter().filter(|(_, is_given)| *is_given);
        wrong.extend(parts.map(|(setting, _)| (format!("sinks[{at}].{setting}"), PARTS)));
        if sink.upsert.is_some() {
            wrong.push((format!("sinks[{at}].upsert"), TWICE));
        }
    }
    wrong
}

/// A column of the last step whose name a table gives to another one, and that fills no column there: rows would replace each other by the other one.
fn of_names(pipeline: &Pipeline, dedup: &Dedup) -> Vec<Wrong> {
    const OTHER: &str = "a column that the `dedup` with `keep: last` names is filled by another one here, and the table keeps no value of it; give it a column of the table too";
    let named = || dedup.key.iter().chain(&dedup.time);
    let is_lost = |columns: &BTreeMap<Identifier, Field>, name: &Identifier| {
        columns.contains_key(name) && !columns.values().any(|from| from.as_str() == name.as_str())
    };
    let sinks = pipeline.sinks.iter().enumerate().filter(|(_, sink)| sink.from.is_none());
    let sinks = sinks.filter(|(_, sink)| named().any(|name| is_lost(&sink.columns, name)));
    sinks.map(|(at, _)| (format!("sinks[{at}].columns"), OTHER)).collect()
}

/// Each table for rows of the last step replaces by the key. With `sinks` a key is named as the last step gives it, and the table may have it under
/// another name.
fn give(pipeline: &mut Pipeline, dedup: &Dedup) {
    let of = |columns: &BTreeMap<Identifier, Field>| {
        let name = |key: &Identifier| {
            let renamed = columns.iter().find(|(_, from)| from.as_str() == key.as_str());
            renamed.map_or_else(|| key.clone(), |(column, _)| column.clone())
        };
        let key = dedup.key.iter().map(name).collect();
        Upsert { key, version: dedup.time.as_ref().map(name), deleted: None, sign: None, memory: None }
    };
    if pipeline.sinks.is_empty() {
        pipeline.sink.upsert = Some(of(&BTreeMap::new()));
    }
    for sink in pipeline.sinks.iter_mut().filter(|sink| sink.from.is_none()) {
        sink.upsert = Some(of(&sink.columns));
    }
}
