//! `forebay try`: what a pipeline's steps make of some records.
//!
//! Owns the report. Does not own the plan or the steps. Reads the source from its beginning, or a file; writes nothing, moves no position and
//! creates nothing.
//!
//! | module       | what it owns                                                  |
//! |--------------|---------------------------------------------------------------|
//! | [`sample`]   | the records: lines of a file, or the oldest ones of a source  |
//! | [`outcomes`] | what became of each record, and which step dropped it         |
//! | [`requests`] | the same for each row of a request of OTLP                    |
//! | [`stateful`] | what steps with state make of the sample alone                |

mod exact;
mod outcomes;
mod requests;
mod sample;
mod stateful;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use dataflow::{Batch, RecordBlock, Runtime, printing};
use engine::TokioRuntime;
use pipeline::config::model::step::Step;
use pipeline::config::model::{Input, Pipeline};
use pipeline::plan::{LaneStep, Plans};
use pipeline::wiring;
use pipeline::wiring::steps::{Chain, InputChain};

use self::exact::Json;
use self::outcomes::{Outcome, Tried, outcomes};
use self::sample::{Records, from_source};
use super::explain;
use crate::console::{Exit, Mistake, PipelineFile, print};
use crate::progress::counted;

/// How long the source may take to give the sample.
const WAIT_MAX: Duration = Duration::from_secs(15);
/// Rows of requests that are shown of an input: a request may hold thousands.
const ROWS_MAX: usize = 1_000;
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

Reads the oldest records of the source, or the lines of a file. Of an OTLP request, every row is shown with its decoded fields. Steps without state run as they do in the pipeline. Duplicates are not \
detected, because that would need all earlier records. With a window or a join all steps run on the sample alone, as if every input ended \
there, and the results are shown after the records. Nothing is written, and no position changes.

Exit codes: 0; 2 if the file has an error; 1 if the source or ClickHouse does not answer.")]
pub struct Try {
    #[command(flatten)]
    file: PipelineFile,

    /// How many records to read from each input.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    sample: u32,

    /// Reads the records from the lines of this file instead of the source; `-` for standard input. An OTLP request in Protocol Buffers needs a file of its own.
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
        let records = self.records.as_ref().map(|path| Records::open(path)).transpose();
        let mut records = records.map_err(Mistake::of)?;
        let wanted = self.sample as usize;
        let Some((pipeline, checked)) = super::load_to_plan(&self.file.file)? else {
            return Ok(Exit::Fault);
        };
        if records.is_none() && pipeline.is_sent_to() {
            return Err(Mistake::of(anyhow::anyhow!(
                "`try` reads records from the source, and what is sent to the pipeline is not kept: write some into a file, one in each line, and give it with \
                 `forebay try FILE --records RECORDS`"
            )));
        }
        let inputs = pipeline.inputs();
        let chosen = self.chosen(&inputs, records.is_some()).map_err(Mistake::of)?;
        super::runtime()?.block_on(async {
            let tables = explain::columns(&pipeline).await?;
            let plans = match explain::planned(&pipeline, &tables) {
                Ok(plans) => plans,
                Err(faults) => return super::refuse(&self.file.file, &checked, &faults),
            };
            let is_of_several = plans.common().tables.len() > 1;
            let mut chain = wiring::steps::chain(&pipeline, &tables, 1).map_err(Mistake::of)?;
            let makes_rows = |step: &Step| step.window.is_some() || step.join.is_some();
            let is_stateful = pipeline.steps.iter().any(makes_rows) || pipeline.takes_rows_back();
            let runtime: Arc<dyn Runtime> = TokioRuntime::new(1);
            let read_ms = runtime.wall_ms();
            let (mut tried, mut batches, mut is_cut) = (Vec::new(), Vec::new(), false);
            for at in chosen {
                let (input, own) = (&inputs[at], &chain.inputs[at]);
                let blocks = match records.take() {
                    Some(records) => vec![records.read(input, wanted)?],
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
                    let (plan, parts, read) = (&plans.inputs[at].plan, (&chain, own), (&block, read_ms));
                    if own.intake.decoder().multiplies() {
                        let rows_left = ROWS_MAX.saturating_sub(of_input.len());
                        let (rows, is_more) =
                            requests::of_requests(plan, parts, read, onward.as_deref(), rows_left)?;
                        of_input.extend(rows);
                        is_cut |= is_more;
                    } else {
                        of_input.extend(outcomes(plan, parts, read, onward)?);
                    }
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
                let more = if is_cut {
                    format!("of each input, only the first {ROWS_MAX} rows are shown\n")
                } else {
                    String::new()
                };
                return print(&(text(&tried, is_of_several) + &more + &results));
            }
            let records = Json::List(tried.iter().map(Tried::json).collect());
            let mut all = vec![("records".to_owned(), records)];
            all.extend(is_cut.then(|| ("rows_shown_max".to_owned(), Json::of(ROWS_MAX))));
            all.extend(results.map(|results| ("results".to_owned(), results.json())));
            print(&format!("{}\n", Json::Object(all)))
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
    let named = |step: &LaneStep| match step {
        LaneStep::Upsert { .. } => Some("sink.upsert".to_owned()),
        other => other.at().map(|at| pipeline.step_in_file(at)),
    };
    steps.filter_map(named).next().unwrap_or_default()
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
            0 => "duplicates are not checked".to_owned(),
            rows => format!("{rows} go into steps with state"),
        },
    )
}

#[cfg(test)]
mod tests;
