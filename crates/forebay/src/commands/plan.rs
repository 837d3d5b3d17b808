//! `forebay plan`: what the next run would change; and with a rate, what hardware it takes ([`capacity`]).
//!
//! Owns the words. Does not own the comparison ([`admin::plan`]), nor the questions behind it, which are those of `check --connect`
//! ([`super::check::connect`]).

mod capacity;

use std::fmt::Write as _;

use admin::pipelines::in_flight;
use admin::plan::{About, Becomes, Item, compare};
use clap::Args;
use pipeline::config::model::Pipeline;
use pipeline::parts;
use protocol::Lane;
use serde_json::json;

use super::check::connect::{self, Found, Looked, Problem};
use crate::console::{self, Exit, PipelineFile, print};
use crate::progress::counted;

/// Partitions that are shown one by one.
const SHOWN_MAX: usize = 10;

/// Compares a pipeline file with the journal, the tables and the source, and shows what the next `run` would change. With `--rate`,
/// estimates the hardware that the pipeline needs instead.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay plan user-events.yaml
  forebay plan user-events.yaml --json
  forebay plan user-events.yaml --rate 1M/s --keys 100k --days 30
  forebay plan user-events.yaml --rate 250k/s --record-bytes 1KiB --from report.json --prices prices.json

Writes nothing and claims nothing; a running pipeline is not affected.

Exit codes: 0 if the next run can start, with or without changes; 4 if you must decide something first; 2 for an error in the \
file; 1 if the store, the source or ClickHouse does not answer.")]
pub struct Plan {
    #[command(flatten)]
    file: PipelineFile,

    /// Prints JSON.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    capacity: capacity::Capacity,
}

impl Plan {
    /// Runs the command.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn execute(&self) -> anyhow::Result<Exit> {
        let Some((pipeline, places)) = super::load_with_places(&self.file.file)? else {
            return Ok(Exit::Fault);
        };
        if let Some(exit) = self.capacity.execute(&pipeline, self.json)? {
            return Ok(exit);
        }
        let (mut found, looked) = super::runtime()?.block_on(connect::look_closer(&pipeline));
        for problem in found.problems.iter_mut().filter(|problem| problem.exit == Exit::Fault) {
            problem.message = places.said(&problem.path, problem.at, &problem.message);
        }
        let exit = found.exit();
        let Some(lane) = &looked.lane else {
            for problem in &found.problems {
                console::refuse(&problem.message);
            }
            if self.json {
                print(&format!("{:#}\n", unread(&pipeline, &found)))?;
            }
            return Ok(exit);
        };
        let said = parts::of(&pipeline);
        let Looked { made, tables, .. } = &looked;
        let items = compare(lane, &said, made.as_ref(), tables, &found.partitions);
        match self.json {
            true => print(&format!("{:#}\n", json(&pipeline, lane, &items, &found))),
            false => print(&text(&pipeline, lane, &items, &found)?),
        }?;
        Ok(exit)
    }
}

/// The same fields where the journal cannot be read, so that nothing is known of what would change.
fn unread(pipeline: &Pipeline, found: &Found) -> serde_json::Value {
    json!({
        "pipeline": pipeline.pipeline.as_str(), "has_run": null, "changes": null, "items": null, "in_flight": null, "dead_letters": null,
        "problems": problems(found), "running": found.json["running"], "exit": found.exit() as u8
    })
}

fn problems(found: &Found) -> Vec<&str> {
    found.problems.iter().map(|problem| problem.message.as_str()).collect()
}

fn json(pipeline: &Pipeline, lane: &Lane, items: &[Item], found: &Found) -> serde_json::Value {
    let (frames, rows) = in_flight(lane);
    json!({
        "pipeline": pipeline.pipeline.as_str(), "has_run": !lane.pipeline.is_empty(),
        "changes": items.iter().any(Item::is_change), "items": items,
        "in_flight": { "frames": frames, "rows": rows }, "dead_letters": dead_letters(lane),
        "problems": problems(found),
        "running": found.json["running"], "exit": found.exit() as u8
    })
}

/// Dead letters that were sealed so far.
fn dead_letters(lane: &Lane) -> u64 {
    lane.tables.iter().filter(|table| table.takes_dead_letters).map(|table| table.rows.sealed).sum()
}

fn text(pipeline: &Pipeline, lane: &Lane, items: &[Item], found: &Found) -> anyhow::Result<String> {
    let mut out = String::new();
    let name = pipeline.pipeline.as_str();
    match lane.pipeline.is_empty() {
        true => writeln!(out, "pipeline `{name}` has never run with this store: everything is new")?,
        // Also where nothing of the file has changed: the store or a table asks.
        false if found.exit() == Exit::Person => {
            writeln!(out, "pipeline `{name}`: the next run cannot start before you have decided")?;
        }
        false if !items.iter().any(Item::is_change) => {
            writeln!(out, "pipeline `{name}`: the next run changes nothing")?;
        }
        false => writeln!(out, "pipeline `{name}`: what the next run changes")?,
    }
    let partitions = items.iter().filter(|item| item.about == About::Partition).count();
    let mut shown = 0;
    for item in items {
        shown += usize::from(item.about == About::Partition);
        if item.about == About::Partition && shown > SHOWN_MAX {
            continue;
        }
        let colon = if item.words.is_empty() { "" } else { ": " };
        writeln!(out, "{:10} {}{}{colon}{}", item.about.word(), item.name, becomes(item), item.words)?;
        if shown == SHOWN_MAX && item.about == About::Partition && partitions > SHOWN_MAX {
            writeln!(out, "{:10} and {} more", "partition", partitions - SHOWN_MAX)?;
        }
    }
    let (frames, rows) = in_flight(lane);
    if frames > 0 {
        writeln!(
            out,
            "{:10} {rows} rows in {frames} sealed inserts wait: the next run delivers them",
            "in flight"
        )?;
    }
    match dead_letters(lane) {
        0 => {}
        letters => writeln!(out, "{:10} {} so far", "letters", counted(letters, "dead letter"))?,
    }
    if !found.json["running"].is_null() {
        writeln!(out, "{:10} a process runs this pipeline now: a start takes it over", "running")?;
    }
    for Problem { exit, message, .. } in &found.problems {
        let word = if *exit == Exit::Person { "decide" } else { "problem" };
        writeln!(out, "{word:10} {message}")?;
    }
    Ok(out)
}

fn becomes(item: &Item) -> &'static str {
    match item.becomes {
        // Where it is read on is said beside it.
        Becomes::Same if item.about == About::Partition => "",
        Becomes::Same if item.about == About::State => " is kept",
        Becomes::Same => " stays",
        Becomes::New => " is new",
        Becomes::Gone => " is gone",
        Becomes::Changed => " changes",
        Becomes::Undecided => " needs a decision",
    }
}

#[cfg(test)]
mod tests;
