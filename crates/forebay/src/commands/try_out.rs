//! `forebay try`: what a pipeline's steps make of some records.
//!
//! Owns the report and the reading of a sample. Does not own the plan or the steps. Reads the source from its beginning, or a file; writes
//! nothing, moves no position and creates nothing.

mod stateful;

use dataflow::position;
use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use dataflow::block::{Found, NO_LEADER_EPOCH, TIME_UNKNOWN_MS};
use dataflow::{
    Batch, BlockBuilder, Event, Partition, ReadFrom, RecordBlock, Reject, Runtime, Selected, SourceFault,
    printing,
};
use engine::TokioRuntime;
use pipeline::config::model::{Input, Pipeline};
use pipeline::plan::{LaneStep, Place, Plan, Plans};
use pipeline::wiring;
use pipeline::wiring::source::Decoding;
use pipeline::wiring::steps::{Chain, InputChain};
use serde_json::{Value, json};

use super::explain;
use crate::console::{Exit, PipelineFile, print};
use crate::progress::counted;

/// How long the source may take to give the sample.
const WAIT_MAX: Duration = Duration::from_secs(15);
/// Bytes of a line of `--records`; a longer one is cut, and decoding says so.
const LINE_BYTES_MAX: u64 = 64 << 20;
/// Characters of a record that the table shows.
const SHOWN_MAX: usize = 120;

/// Runs the steps on a few records and shows each record before and after. Writes nothing.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay try orders.yaml --sample 20
  forebay try orders.yaml --records bad.jsonl
  head -n 5 orders.jsonl | forebay try orders.yaml --records -
  forebay try shop.yaml --input payments --records bad.jsonl    # one of several inputs

Reads the oldest records of the source, or the lines of a file. Steps without state run as they do in the pipeline. Duplicates are not \
detected, because that would need all earlier records. With a window or a join all steps run on the sample alone, as if every input ended \
there, and the results are shown behind the records. Nothing is written, and no position changes.

Exit codes: 0; 2 if the file has an error; 1 if the source or ClickHouse does not answer.")]
pub struct Try {
    #[command(flatten)]
    file: PipelineFile,

    /// How many records to read from each input.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    sample: u32,

    /// Reads the records from the lines of this file instead of the source; `-` for standard input.
    #[arg(long, value_name = "FILE")]
    records: Option<PathBuf>,

    /// Takes the records of this input only; with `--records` it says which of several inputs they are for.
    #[arg(long, value_name = "NAME")]
    input: Option<String>,

    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

impl Try {
    /// Runs the command.
    ///
    /// # Errors
    /// When the file cannot be read, or the source or the table does not answer.
    pub fn execute(&self) -> anyhow::Result<Exit> {
        // Before the pipeline file's folder is entered: this path is the caller's.
        let wanted = self.sample as usize;
        // One more, for a line that names the fields.
        let lines = self.records.as_ref().map(|path| lines(path, wanted + 1)).transpose()?;
        let Some(pipeline) = super::load(&self.file.file)? else { return Ok(Exit::Fault) };
        anyhow::ensure!(
            !pipeline.has_records_of_several_rows(),
            "`try` shows what becomes of each record as one line, and a request of OTLP has many rows; see `forebay explain` for the columns that they fill"
        );
        anyhow::ensure!(
            lines.is_some() || !pipeline.is_sent_to(),
            "`try` reads records from the source, and what is sent to the pipeline is not kept: give it some, `forebay try FILE --records RECORDS`"
        );
        super::runtime()?.block_on(async {
            let tables = explain::columns(&pipeline).await?;
            let plans = match wiring::steps::plan(&pipeline, &tables) {
                Ok(plans) => plans,
                Err(faults) => {
                    let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
                    anyhow::bail!("{}: {}", self.file.file.display(), faults.join("\n"));
                }
            };
            let is_of_several = plans.common().tables.len() > 1;
            let mut chain = wiring::steps::chain(&pipeline, &tables, 1)?;
            let is_stateful = pipeline.steps.iter().any(|step| step.window.is_some() || step.join.is_some());
            let inputs = pipeline.inputs();
            let chosen = self.chosen(&inputs, lines.is_some())?;
            let runtime: Arc<dyn Runtime> = TokioRuntime::new(1);
            let read_ms = runtime.wall_ms();
            let (mut tried, mut batches) = (Vec::new(), Vec::new());
            for at in chosen {
                let (input, own) = (&inputs[at], &chain.inputs[at]);
                let blocks = match &lines {
                    Some(lines) => vec![wiring::source::records(input, lines)?],
                    None => from_source(&pipeline, input, &own.decoding, wanted).await?,
                };
                let mut of_input = Vec::new();
                let mut left = wanted;
                for block in blocks {
                    let found = tokio::time::timeout(WAIT_MAX, own.decoding.look_up(block, &runtime)).await;
                    let block = found.with_context(|| {
                        format!("the lookup tables did not load within {} seconds", WAIT_MAX.as_secs())
                    })??;
                    let onward = if is_stateful { Some(onward(&pipeline, &plans, &chain, at)) } else { None };
                    of_input.extend(outcomes(
                        &plans.inputs[at].plan,
                        (&chain, own),
                        (&block, read_ms),
                        onward,
                    )?);
                    if is_stateful {
                        batches.push((at, sample_of(own, &block, read_ms, left)?));
                        left = left.saturating_sub(block.len());
                    }
                }
                truncate(&mut of_input, wanted);
                if inputs.len() > 1 {
                    of_input.iter_mut().for_each(|one| one.place = format!("{}:{}", input.name, one.place));
                }
                tried.extend(of_input);
            }
            let results = match is_stateful {
                true => Some(stateful::run(&mut chain, &plans, batches)?),
                false => None,
            };
            if !self.json {
                let results = results.map_or(String::new(), |results| results.text());
                return print(&(text(&tried, is_of_several) + &results));
            }
            let mut json = json!({ "records": tried.iter().map(Tried::json).collect::<Vec<_>>() });
            if let Some(results) = results {
                json["results"] = results.json();
            }
            print(&format!("{json:#}\n"))
        })
    }
}

impl Try {
    /// The places of the inputs whose records are taken.
    fn chosen(&self, inputs: &[Input<'_>], is_of_lines: bool) -> anyhow::Result<Vec<usize>> {
        let names = || inputs.iter().map(|input| format!("`{}`", input.name)).collect::<Vec<_>>().join(", ");
        match &self.input {
            Some(name) => match inputs.iter().position(|input| input.name == name) {
                Some(at) => Ok(vec![at]),
                None => anyhow::bail!("there is no input `{name}`; the inputs are {}", names()),
            },
            None if is_of_lines && inputs.len() > 1 => {
                anyhow::bail!(
                    "say which input the records of `--records` are for: `--input` with one of {}",
                    names()
                )
            }
            None => Ok((0..inputs.len()).collect()),
        }
    }
}

/// The step that the rows of the input at this place go to behind the decode job, by its key in the file.
fn onward(pipeline: &Pipeline, plans: &Plans, chain: &Chain, input: usize) -> String {
    let steps = plans.common().lane_steps.iter().skip(chain.flow.entry(input).step);
    let at = steps.filter_map(LaneStep::at).next();
    at.map_or(String::new(), |at| format!("steps[{at}].{}", pipeline.steps[at].word()))
}

/// The rows of the first records of a block, `records` in number, as they go on behind the decode job.
fn sample_of(own: &InputChain, block: &RecordBlock, read_ms: i64, records: usize) -> anyhow::Result<Batch> {
    let batch = own.intake.prepare(block, read_ms)?.batch;
    let end = block.positions.get(records).copied().unwrap_or(u64::MAX);
    let keep: Vec<bool> = batch.positions.iter().map(|position| *position < end).collect();
    batch.filter(&keep.into()).context("a batch cannot be filtered")
}

/// Leaves what is of the first records.
fn truncate(tried: &mut Vec<Tried>, records: usize) {
    let mut places = BTreeSet::new();
    let end = tried.iter().position(|one| {
        places.insert(one.place.clone());
        places.len() > records
    });
    tried.truncate(end.unwrap_or(tried.len()));
}

/// The first lines of a file as records.
fn lines(path: &Path, wanted: usize) -> anyhow::Result<RecordBlock> {
    let name = path.display().to_string();
    let input: Box<dyn std::io::Read> = match name.as_str() {
        "-" => Box::new(std::io::stdin()),
        _ => Box::new(std::fs::File::open(path).with_context(|| format!("cannot open `{name}`"))?),
    };
    let mut block = BlockBuilder::new(Partition::new(name.as_str(), 0), 0);
    let mut input = std::io::BufReader::new(input);
    let mut line = Vec::new();
    for position in 0..wanted as u64 {
        line.clear();
        let mut bounded = std::io::Read::take(&mut input, LINE_BYTES_MAX);
        if bounded.read_until(b'\n', &mut line).with_context(|| format!("cannot read `{name}`"))? == 0 {
            break;
        }
        let record = line.strip_suffix(b"\n").unwrap_or(&line);
        block.push(position, TIME_UNKNOWN_MS, Some(record.strip_suffix(b"\r").unwrap_or(record)));
    }
    Ok(block.take())
}

/// The oldest records that the source of an input holds.
async fn from_source(
    pipeline: &Pipeline,
    input: &Input<'_>,
    decoding: &Decoding,
    wanted: usize,
) -> anyhow::Result<Vec<RecordBlock>> {
    let runtime: Arc<dyn Runtime> = TokioRuntime::new(1);
    let source = decoding.ready(wiring::source::source(pipeline, input, &runtime)?, &runtime);
    let starts = tokio::time::timeout(WAIT_MAX, source.partitions()).await;
    let starts = starts.map_err(|_| anyhow::anyhow!("the source does not answer"))??;
    let mut open: BTreeSet<Partition> = starts.iter().map(|start| start.partition.clone()).collect();
    let from = starts.into_iter().map(|start| ReadFrom {
        partition: start.partition,
        identity: start.identity,
        next: start.first,
        leader_epoch: NO_LEADER_EPOCH,
    });
    let mut reader = source.read(from.collect()).await?;
    let (mut blocks, mut records) = (Vec::new(), 0);
    let deadline = tokio::time::Instant::now() + WAIT_MAX;
    while records < wanted && !open.is_empty() {
        match tokio::time::timeout_at(deadline, reader.next()).await {
            Err(_) => break,
            Ok(Err(error)) if error.fault == SourceFault::Away => {
                tracing::warn!(%error, "the source is away; trying again");
                tokio::time::sleep(Duration::from_millis(200)).await;
                if tokio::time::Instant::now() >= deadline {
                    return Err(error.into());
                }
            }
            Ok(Err(error)) => return Err(error.into()),
            Ok(Ok(Event::Block(mut block))) => {
                records += block.len();
                // Nobody prepares it before all are there: an earlier state of what it looks up would be held until then.
                block.found = Found::default();
                blocks.push(block);
            }
            Ok(Ok(Event::CaughtUp { partition, .. } | Event::Ended { partition, .. })) => {
                open.remove(&partition);
            }
            Ok(Ok(Event::Found(_) | Event::Removed { .. })) => {}
        }
    }
    Ok(blocks)
}

/// What became of a record, or of a row of it.
enum Outcome {
    /// Table and row, for each table that takes it.
    Rows(Vec<(String, String)>),
    Filtered(String),
    Rejected(Reject),
    /// It goes into the state of this step.
    Onward(String),
}

/// A record and what became of it; or, if it has become several rows, one of them.
struct Tried {
    place: String,
    before: String,
    /// The item of the record's array that this is the row of.
    item: Option<u32>,
    outcome: Outcome,
}

/// Runs the work before the lane on a block, step by step, so that it is known which one drops a record.
fn outcomes(
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
    let mut tried = Vec::with_capacity(block.len());
    for (row, position) in block.positions.iter().enumerate() {
        let rejected = rejects.remove(position).unwrap_or_default().into_iter();
        let mut all: Vec<(Option<u32>, Outcome)> =
            rejected.map(|reject| (reject.item, Outcome::Rejected(reject))).collect();
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
            all.push((None, Outcome::Filtered("sinks, for no table takes it".to_owned())));
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
    fn json(&self) -> Value {
        let mut told = json!({ "record": self.place, "before": self.before });
        if let Some(item) = self.item {
            told["item"] = item.into();
        }
        match &self.outcome {
            Outcome::Rows(rows) => {
                told["becomes"] = "row".into();
                let rows = rows.iter().map(|(table, row)| {
                    let row = serde_json::from_str(row).unwrap_or(Value::Null);
                    (table.clone(), row)
                });
                told["after"] = Value::Object(rows.collect());
            }
            Outcome::Filtered(step) => {
                told["becomes"] = "filtered".into();
                told["by"] = step.as_str().into();
            }
            Outcome::Onward(step) => {
                told["becomes"] = "state".into();
                told["of"] = step.as_str().into();
            }
            Outcome::Rejected(reject) => {
                told["becomes"] = "dead_letter".into();
                told["reason"] = reject.reason.as_str().into();
                told["column"] = reject.column.as_str().into();
                told["message"] = reject.message.as_str().into();
            }
        }
        told
    }

    /// The record's place, and the item of its array.
    fn shown_place(&self) -> String {
        let item = self.item.map_or(String::new(), |item| format!(" [{item}]"));
        printing::escaped(&self.place, SHOWN_MAX).into_owned() + &item
    }

    fn after(&self, is_of_several: bool) -> String {
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

/// A table: record, before, after.
fn text(tried: &[Tried], is_of_several: bool) -> String {
    let cell = |text: &str| printing::escaped(text, SHOWN_MAX).into_owned();
    let mut rows = vec![["record".to_owned(), "before".to_owned(), "after".to_owned()]];
    rows.extend(
        tried
            .iter()
            .map(|record| [record.shown_place(), cell(&record.before), cell(&record.after(is_of_several))]),
    );
    let mut out = String::new();
    explain::columns_of(&mut out, &rows);
    let of =
        |wanted: fn(&Outcome) -> bool| tried.iter().filter(|record| wanted(&record.outcome)).count() as u64;
    let records: BTreeSet<&str> = tried.iter().map(|record| record.place.as_str()).collect();
    out + &format!(
        "{}: {}, {} filtered, {}; {}, nothing was written\n",
        counted(records.len() as u64, "record"),
        counted(of(|outcome| matches!(outcome, Outcome::Rows(_))), "row"),
        of(|outcome| matches!(outcome, Outcome::Filtered(_))),
        counted(of(|outcome| matches!(outcome, Outcome::Rejected(_))), "dead letter"),
        match of(|outcome| matches!(outcome, Outcome::Onward(_))) {
            0 => "duplicates are not looked for".to_owned(),
            rows => format!("{rows} go into steps with state"),
        },
    )
}

#[cfg(test)]
mod tests;
