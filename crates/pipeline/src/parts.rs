//! What the pipeline file says that may change at any time, in words: written to the journal by the start that follows a change, so that the
//! next change can be shown beside it.
//!
//! Owns the words. Does not own what a change means (`engine::change`), nor what the journal knows better by itself: partitions, the tables'
//! columns, the settings that state depends on. No secret is in these words: each shows itself as `***`.

use protocol::record::Part;
use serde::Serialize;

use crate::config::model::sink::{SideOutput, Takes, Target};
use crate::config::model::source::Source;
use crate::config::model::step::Step;
use crate::config::model::{Input, Pipeline};

/// An input, how its records are read.
pub const INPUT: &str = "input";
/// A step, in the order of the file.
pub const STEP: &str = "step";
/// A table, and which rows it takes.
pub const TABLE: &str = "table";

/// The parts of a pipeline: inputs, steps, tables.
pub fn of(pipeline: &Pipeline) -> Vec<Part> {
    let steps = pipeline.steps.iter().map(|step| part(STEP, step.word(), settings(step)));
    let tables = pipeline
        .targets()
        .into_iter()
        .map(|target| part(TABLE, &target.clickhouse.full_name(), taken(&target)));
    let inputs = pipeline.inputs();
    inputs.iter().map(input).chain(steps).chain(tables).collect()
}

fn part(kind: &str, name: &str, text: String) -> Part {
    Part { kind: kind.to_owned(), name: name.to_owned(), text }
}

fn input(input: &Input<'_>) -> Part {
    let Source { format, fields, time, tombstones, .. } = input.source;
    let mut text = format!("format {}", json(format));
    if !fields.is_empty() {
        text.push_str(&format!(", fields {}", json(fields)));
    }
    if let Some(time) = time {
        text.push_str(&format!(", time {time}"));
    }
    if let Some(tombstones) = tombstones {
        text.push_str(&format!(", tombstones {}", json(tombstones)));
    }
    part(INPUT, input.name, text)
}

fn settings(step: &Step) -> String {
    let text = match step {
        Step { filter: Some(text), .. } | Step { sql: Some(text), .. } => text.clone(),
        Step { select: Some(columns), .. } => json(columns),
        Step { dedup: Some(dedup), .. } => json(dedup),
        Step { window: Some(window), .. } => json(window),
        Step { join: Some(join), .. } => json(join),
        Step { lookup: Some(lookup), .. } => json(lookup),
        _ => String::new(),
    };
    match &step.from {
        Some(from) => format!("{text}, from {}", json(from)),
        None => text,
    }
}

fn taken(target: &Target) -> String {
    let mut text = match &target.takes {
        Takes::Every => "every row".to_owned(),
        Takes::Where(condition) => format!("rows where {condition}"),
        Takes::Otherwise => "rows that no other table takes".to_owned(),
        Takes::Side(SideOutput::Late(step)) => format!("late records of steps[{step}]"),
        Takes::Side(SideOutput::Unmatched(step, side)) => {
            format!("unmatched {} rows of steps[{step}]", side.word())
        }
    };
    if !target.columns.is_empty() {
        text.push_str(&format!(", columns {}", json(&target.columns)));
    }
    text
}

/// As the file has it, on one line.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("a pipeline file is text, numbers and lists of them")
}
