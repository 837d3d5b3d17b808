//! `forebay status`: what the journal says of a pipeline, running or not.
//!
//! Owns the report. Reads the journal, asks the source for its ends and the process that runs the pipeline, if there is one on
//! this machine, for what it waits for; claims nothing and appends nothing, so a running pipeline is not disturbed.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use dataflow::{Runtime, Source};
use engine::TokioRuntime;
use engine::survey::{self, Survey};
use pipeline::config::model::Pipeline;
use pipeline::wiring;
use protocol::doubt::{StopReason, Verdict};
use protocol::{Lane, names};
use serde_json::{Value, json};

use crate::cli::{Exit, PipelineFile, print};
use crate::{running, status_view};

/// How long the source may take to say its ends; without an answer the lag is unknown, and all else is shown.
const ENDS_WAIT_MAX: Duration = Duration::from_secs(5);

/// Shows positions, lag, what is settled, the spool and dead letters of a pipeline.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay status user-events.yaml
  forebay status user-events.yaml --json | jq .spool_bytes

Reads the journal in the store; the pipeline may run meanwhile, here or elsewhere. If it runs on this machine, it is asked
at `http.listen` for what it waits for (a table that is missing, a wrong password, a store that does not answer) and for
how long its tables remember insert tokens. Ends with code 0, or 1 if the journal cannot be read.")]
pub struct Status {
    #[command(flatten)]
    file: PipelineFile,

    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

impl Status {
    /// Runs the command.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn execute(&self) -> anyhow::Result<Exit> {
        let Some(pipeline) = super::load(&self.file.file)? else { return Ok(Exit::Fault) };
        let report = super::runtime()?.block_on(report(&pipeline))?;
        let text = if self.json { format!("{report:#}\n") } else { for_people(&report) };
        let exit = print(&text)?;
        Ok(if report["journal_problem"].is_null() { exit } else { Exit::Failed })
    }
}

async fn report(pipeline: &Pipeline) -> anyhow::Result<Value> {
    let running = running::ask(pipeline).await;
    let (lane, survey) = match load(pipeline).await {
        Ok(loaded) => loaded,
        // What waits for the store can still say so.
        Err(error) if running.is_ok() => {
            return Ok(json!({
                "pipeline": pipeline.pipeline.as_str(), "journal_problem": format!("{error:#}"), "running": running.ok()
            }));
        }
        Err(error) => return Err(error.context("the journal cannot be read")),
    };
    let ends = ends(pipeline).await;
    let partitions: Vec<Value> = lane
        .reading()
        .map(|(_, partition)| {
            let end = ends.as_ref().ok().and_then(|ends| {
                let of = |(p, _): &&(dataflow::Partition, u64)| {
                    *p.stream == *partition.stream && p.index == partition.index
                };
                ends.iter().find(of).map(|(_, end)| *end)
            });
            json!({
                "stream": partition.stream, "index": partition.index, "next": partition.next, "end": end,
                "lag": end.map(|end| end.saturating_sub(partition.next))
            })
        })
        .collect();
    let tables: Vec<Value> = lane
        .tables
        .iter()
        .map(|table| {
            json!({
                "name": table.name, "frames_sealed": table.next_ordinal, "frames_settled": table.frontier,
                "frames_pending": table.pending.len(), "bytes_pending": table.pending_bytes()
            })
        })
        .collect();
    Ok(json!({
        "pipeline": pipeline.pipeline.as_str(),
        "has_run": lane.next_seq > 0,
        "records": status_view::counts(&lane.counts, status_view::replayed(&lane)),
        "accounts_add_up": lane.counts.add_up(),
        "in_flight": in_flight(&lane),
        "spool_bytes": lane.spool_bytes(),
        "watermark_ms": status_view::watermark(lane.watermark_ms),
        "state": {
            "steps": lane.steps,
            "bytes_checkpointed": lane.snapshots.iter().map(|snapshot| snapshot.len).sum::<u64>(),
            "files": lane.files.len(),
            "file_bytes": lane.files.iter().map(|file| file.len).sum::<u64>(),
            "bytes_since": lane.deltas.iter().filter_map(|delta| delta.delta).map(|delta| delta.len).sum::<u64>(),
        },
        "store": status_view::survey(&survey),
        "epoch": lane.epoch,
        "journal_records": lane.next_seq,
        "questions": questions(&lane),
        "partitions": partitions,
        "tables": tables,
        "source_problem": ends.err(),
        "not_running": running.as_ref().err(),
        "running": running.ok(),
    }))
}

/// Rows that are sealed, and not settled as far as the journal knows.
fn in_flight(lane: &Lane) -> Value {
    let live =
        lane.tables.iter().flat_map(|table| table.pending.iter().flatten()).filter(|piece| piece.is_live());
    let (frames, rows) = live.fold((0_u64, 0), |(frames, rows), piece| (frames + 1, rows + piece.frame.rows));
    json!({ "frames": frames, "rows": rows })
}

/// What waits for a person, or was answered and waits for the next run.
fn questions(lane: &Lane) -> Vec<Value> {
    let pieces = lane.tables.iter().flat_map(|t| t.pending.iter().flatten().map(move |p| (t, p)));
    let asked = pieces.filter_map(|(table, piece)| {
        let question = piece.question.as_ref().filter(|_| !piece.dead)?;
        let reason = StopReason::from_number(question.reason)?;
        Some(json!({
            "frame": engine::answer::frame_name(piece), "table": table.name, "ordinal": piece.frame.ordinal,
            "rows": piece.frame.rows, "reason": reason.word(), "asked_at_ms": question.asked_at_ms,
            "what": reason.explain(), "question": reason.question(),
            "answer": match piece.verdict {
                None => Value::Null,
                Some(Verdict::Present) => "present".into(),
                Some(Verdict::Absent) => "absent".into(),
            },
        }))
    });
    asked.collect()
}

async fn load(pipeline: &Pipeline) -> anyhow::Result<(Lane, Survey)> {
    let Some(store) = wiring::storage::open_to_read(pipeline).await? else {
        return Ok((Lane::new(), Survey::default()));
    };
    let folder = names::lane_folder(pipeline.pipeline.as_str(), 0);
    let lane = engine::journal::load(&*store, &folder).await?;
    let survey = survey::survey(&*store, &folder, &lane).await?;
    Ok((lane, survey))
}

/// The ends of the source's partitions, or why they are not known.
async fn ends(pipeline: &Pipeline) -> Result<Vec<(dataflow::Partition, u64)>, String> {
    let runtime: Arc<dyn Runtime> = TokioRuntime::new(1);
    let source: Arc<dyn Source> =
        wiring::source_to_look_at(pipeline, &runtime).await.map_err(|error| error.to_string())?;
    match tokio::time::timeout(ENDS_WAIT_MAX, source.ends()).await {
        Ok(ends) => ends.map_err(|error| error.to_string()),
        Err(_) => Err(format!("the source did not answer within {} seconds", ENDS_WAIT_MAX.as_secs())),
    }
}

fn for_people(report: &Value) -> String {
    let mut out = String::new();
    write_people(&mut out, report).expect("a String takes all that is written");
    out
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "unknown".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// What the running process says: its phase, what it waits for, and how long its tables remember tokens.
fn write_running(out: &mut String, report: &Value) -> std::fmt::Result {
    let running = &report["running"];
    if running.is_null() {
        return writeln!(out, "running      not as seen from here: {}", text(&report["not_running"]));
    }
    writeln!(out, "running      phase {}, lag {}", text(&running["phase"]), text(&running["lag"]))?;
    for problem in running["problems"].as_array().into_iter().flatten() {
        let since = problem["since_ms"].as_i64().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
        let since = since.map_or_else(String::new, |since| format!(" since {since:.0}"));
        let rows = if problem["effect"] == "none" { "nothing was written by it" } else { IN_DOUBT };
        writeln!(
            out,
            "waiting      {}: {}{since}, met {} times; {rows}",
            text(&problem["place"]),
            text(&problem["state"]),
            text(&problem["times"])
        )?;
        writeln!(out, "             {}", text(&problem["words"]))?;
        writeln!(out, "             way out: {}", text(&problem["remedy"]))?;
    }
    for (table, told) in running["tables"].as_object().into_iter().flatten() {
        let tokens = &told["tokens"];
        if tokens.is_null() {
            continue;
        }
        let unknown = match tokens["is_bounded"].as_bool() {
            Some(false) => "nothing bounds how many other writers use",
            _ => "the rate is not known yet",
        };
        let used = tokens["used_per_s"]
            .as_f64()
            .map_or(unknown.to_owned(), |n| format!("all writers use up to {n:.1} a second"));
        let lasts = tokens["memory_s"]
            .as_f64()
            .map_or("no end in sight".to_owned(), |s| format!("they last {s:.0} s"));
        let number = |key: &str| tokens[key].as_f64().unwrap_or_default();
        writeln!(
            out,
            "tokens       {table}: remembers {}; {used}; {lasts}. A doubt needs {:.0} s within half of that: {}, up to {:.1} a second",
            text(&tokens["remembered"]),
            number("needed_s"),
            if tokens["is_scarce"] == true { "TOO SHORT" } else { "enough" },
            number("used_per_s_max")
        )?;
    }
    Ok(())
}

/// What an unknown effect means for rows.
const IN_DOUBT: &str = "whether rows were written is not known, and is found out before they are sent again";

fn write_people(out: &mut String, report: &Value) -> std::fmt::Result {
    writeln!(out, "pipeline     {}", text(&report["pipeline"]))?;
    if let Some(problem) = report["journal_problem"].as_str() {
        writeln!(out, "journal      cannot be read: {problem}")?;
        return write_running(out, report);
    }
    if report["has_run"] == false {
        return writeln!(out, "journal      none in this store: the pipeline has not run yet");
    }
    writeln!(
        out,
        "journal      {} records, epoch {}",
        text(&report["journal_records"]),
        text(&report["epoch"])
    )?;
    let records = &report["records"];
    for key in ["read", "replayed", "written", "duplicates", "filtered", "late", "late_kept", "dead_letters"]
    {
        // Most pipelines never replay anything.
        if key == "replayed" && records[key] == 0 {
            continue;
        }
        writeln!(out, "{:<12} {}", key.replace('_', " "), text(&records[key]))?;
    }
    let verdict = if report["accounts_add_up"] == true { "add up" } else { "DO NOT ADD UP: report this" };
    writeln!(
        out,
        "accounts     {verdict}; {} rows in {} frames are in flight",
        text(&report["in_flight"]["rows"]),
        text(&report["in_flight"]["frames"])
    )?;
    writeln!(out, "spool        {} bytes", text(&report["spool_bytes"]))?;
    let state = &report["state"];
    writeln!(
        out,
        "state        {} bytes at the last checkpoint, {} bytes since; {} bytes in {} files",
        text(&state["bytes_checkpointed"]),
        text(&state["bytes_since"]),
        text(&state["file_bytes"]),
        text(&state["files"])
    )?;
    let store = &report["store"];
    writeln!(
        out,
        "store        {} objects needed ({} bytes), {} under way ({} bytes), {} of garbage ({} bytes)",
        text(&store["needed"]["objects"]),
        text(&store["needed"]["bytes"]),
        text(&store["under_way"]["objects"]),
        text(&store["under_way"]["bytes"]),
        text(&store["garbage"]["objects"]),
        text(&store["garbage"]["bytes"])
    )?;
    for table in report["tables"].as_array().into_iter().flatten() {
        writeln!(
            out,
            "table        {}: {} of {} frames settled, {} bytes pending",
            text(&table["name"]),
            text(&table["frames_settled"]),
            text(&table["frames_sealed"]),
            text(&table["bytes_pending"])
        )?;
    }
    for asked in report["questions"].as_array().into_iter().flatten() {
        let frame = text(&asked["frame"]);
        writeln!(
            out,
            "question     {} rows for {} (frame {frame}): {}",
            text(&asked["rows"]),
            text(&asked["table"]),
            text(&asked["what"])
        )?;
        match asked["answer"].as_str() {
            Some(answer) => writeln!(out, "             answered `{answer}`; the next run goes on with it")?,
            None => {
                writeln!(out, "             {}", text(&asked["question"]))?;
                writeln!(out, "             forebay answer FILE --frame {frame} --present")?;
                writeln!(out, "             forebay answer FILE --frame {frame} --absent")?;
            }
        }
    }
    for partition in report["partitions"].as_array().into_iter().flatten() {
        writeln!(
            out,
            "partition    {}/{}: next {}, end {}, lag {}",
            text(&partition["stream"]),
            text(&partition["index"]),
            text(&partition["next"]),
            text(&partition["end"]),
            text(&partition["lag"])
        )?;
    }
    if let Some(problem) = report["source_problem"].as_str() {
        writeln!(out, "source       {problem}")?;
    }
    write_running(out, report)
}
