//! `forebay status`: what the journal says of a pipeline, running or not.
//!
//! Owns how the report is shown. Does not own what it says ([`admin::status`]).

use std::fmt::Write as _;

use admin::status;
use clap::Args;
use dataflow::printing;
use serde_json::Value;

use crate::console::{Exit, PipelineFile, print};

/// Shows a pipeline's positions and lag, what was delivered, what waits, and open questions.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay status user-events.yaml
  forebay status user-events.yaml --json | jq .spool_bytes

Reads the journal in the store; the pipeline may be running, here or on another machine. If it runs on this machine, the \
command also asks it (at `http.listen`) what it waits for, such as a missing table, a wrong password or a store that does \
not answer, and how long its tables remember insert tokens.

Exit codes: 0; 1 if the journal cannot be read; 2 for an error in the file.")]
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
        let report = super::runtime()?.block_on(status::report(&pipeline))?;
        let text = if self.json { format!("{report:#}\n") } else { for_people(&report) };
        let exit = print(&text)?;
        Ok(if report["journal_problem"].is_null() { exit } else { Exit::Failed })
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
        return writeln!(out, "running      not known: {}", text(&report["not_running"]));
    }
    writeln!(out, "running      phase {}, lag {}", text(&running["phase"]), text(&running["lag"]))?;
    for problem in running["problems"].as_array().into_iter().flatten() {
        let since = problem["since_ms"].as_i64().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
        let since = since.map_or_else(String::new, |since| format!(" since {since:.0}"));
        let rows = if problem["effect"] == "none" { "nothing was written by it" } else { IN_DOUBT };
        writeln!(
            out,
            "waiting      {}: {}{since}, {} times; {rows}",
            text(&problem["place"]),
            text(&problem["state"]),
            text(&problem["times"])
        )?;
        writeln!(out, "             {}", text(&problem["words"]))?;
        writeln!(out, "             way out: {}", text(&problem["remedy"]))?;
    }
    for (table, told) in running["tables"].as_object().into_iter().flatten() {
        if let Some(words) = told["servers_differ"].as_str() {
            writeln!(out, "reopened     {table}: {} times in this run: {words}", text(&told["reopened"]))?;
        }
        let tokens = &told["tokens"];
        if tokens.is_null() {
            continue;
        }
        let unknown = match tokens["is_bounded"].as_bool() {
            Some(false) => "the use by other writers has no known limit",
            _ => "the rate is not known yet",
        };
        let used = tokens["used_per_s"]
            .as_f64()
            .map_or(unknown.to_owned(), |n| format!("all writers use up to {n:.1} a second"));
        let lasts = tokens["memory_s"]
            .as_f64()
            .map_or("they last indefinitely".to_owned(), |s| format!("they last {s:.0} s"));
        let number = |key: &str| tokens[key].as_f64().unwrap_or_default();
        writeln!(
            out,
            "tokens       {table}: remembers {}; {used}; {lasts}. To resolve a doubt, half of that must last {:.0} s: {}, up to {:.1} a second",
            text(&tokens["remembered"]),
            number("needed_s"),
            if tokens["is_scarce"] == true { "TOO SHORT" } else { "enough" },
            number("used_per_s_max")
        )?;
    }
    Ok(())
}

/// What an unknown effect means for rows.
const IN_DOUBT: &str =
    "it is not known whether rows were written; that is checked before they are sent again";

fn write_people(out: &mut String, report: &Value) -> std::fmt::Result {
    writeln!(out, "pipeline     {}", text(&report["pipeline"]))?;
    if let Some(problem) = report["journal_problem"].as_str() {
        writeln!(out, "journal      cannot be read: {problem}")?;
        return write_running(out, report);
    }
    if report["has_run"] == false {
        if report["running"].is_null() {
            return writeln!(out, "journal      none in this store: the pipeline has not run yet");
        }
        writeln!(
            out,
            "journal      none in this store: the process below is starting, or keeps its journal in memory"
        )?;
        return write_running(out, report);
    }
    writeln!(
        out,
        "journal      {} records, epoch {}",
        text(&report["journal_records"]),
        text(&report["epoch"])
    )?;
    write_records(out, report)?;
    write_kept(out, report)?;
    write_tables(out, report)?;
    write_questions(out, report)?;
    write_partitions(out, report)?;
    if let Some(problem) = report["source_problem"].as_str() {
        writeln!(out, "source       {problem}")?;
    }
    write_running(out, report)
}

/// What became of the records, of all inputs together and of each.
fn write_records(out: &mut String, report: &Value) -> std::fmt::Result {
    let records = &report["records"];
    for key in [
        "read",
        "replayed",
        "passed",
        "duplicates",
        "filtered",
        "late",
        "late_kept",
        "rejected",
        "absorbed",
        "written",
        "replaced",
        "dead_letters",
    ] {
        // Most pipelines never replay anything, keep no records in windows, and have no rows that replace each other.
        if matches!(key, "replayed" | "absorbed" | "replaced") && records[key] == 0 {
            continue;
        }
        let more = if key == "absorbed" { in_states(&report["state"]) } else { String::new() };
        writeln!(out, "{:<12} {}{more}", key.replace('_', " "), text(&records[key]))?;
    }
    let inputs = report["inputs"].as_object();
    // The only input has the account above.
    for (name, of) in inputs.filter(|inputs| inputs.len() > 1).into_iter().flatten() {
        let kinds = ["read", "passed", "duplicates", "filtered", "late", "rejected", "absorbed"];
        let shown = kinds.iter().filter(|kind| **kind != "absorbed" || of[**kind] != 0);
        let each: Vec<String> = shown.map(|kind| format!("{} {kind}", text(&of[*kind]))).collect();
        writeln!(out, "input        {name}: {}", each.join(", "))?;
    }
    Ok(())
}

/// What became of the records that steps with state took.
fn in_states(state: &Value) -> String {
    let [released, held, discarded] = ["released", "held", "discarded"].map(|kind| text(&state[kind]));
    format!(" ({released} released with a result, {held} held, {discarded} discarded)")
}

/// Whether the accounts add up, and what is kept in the store.
fn write_kept(out: &mut String, report: &Value) -> std::fmt::Result {
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
        "store        {} objects needed ({} bytes), {} under way ({} bytes), {} garbage ({} bytes)",
        text(&store["needed"]["objects"]),
        text(&store["needed"]["bytes"]),
        text(&store["under_way"]["objects"]),
        text(&store["under_way"]["bytes"]),
        text(&store["garbage"]["objects"]),
        text(&store["garbage"]["bytes"])
    )?;
    Ok(())
}

/// How far each table is.
fn write_tables(out: &mut String, report: &Value) -> std::fmt::Result {
    for table in report["tables"].as_array().into_iter().flatten() {
        writeln!(
            out,
            "table        {}: {} of {} frames settled, {} bytes pending; rows: {} sealed = {} settled + {} refused + {} pending",
            text(&table["name"]),
            text(&table["frames_settled"]),
            text(&table["frames_sealed"]),
            text(&table["bytes_pending"]),
            text(&table["rows"]["sealed"]),
            text(&table["rows"]["settled"]),
            text(&table["rows"]["refused"]),
            text(&table["rows"]["pending"])
        )?;
    }
    Ok(())
}

/// What is asked of the operator, and the commands that answer.
fn write_questions(out: &mut String, report: &Value) -> std::fmt::Result {
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
            Some(answer) => {
                writeln!(out, "             answered `{answer}`; the next run continues with it")?
            }
            None => {
                writeln!(out, "             {}", text(&asked["question"]))?;
                writeln!(out, "             forebay answer FILE --frame {frame} --present")?;
                writeln!(out, "             forebay answer FILE --frame {frame} --absent")?;
            }
        }
    }
    Ok(())
}

/// Where each partition is read, and how far behind that is.
fn write_partitions(out: &mut String, report: &Value) -> std::fmt::Result {
    let has_several = report["inputs"].as_object().is_some_and(|inputs| inputs.len() > 1);
    for partition in report["partitions"].as_array().into_iter().flatten() {
        let input = partition["input"].as_str().filter(|_| has_several);
        writeln!(
            out,
            "partition    {}{}/{}: next {}, end {}, lag {}",
            input.map_or(String::new(), |input| format!("{input}:")),
            printing::escaped(&text(&partition["stream"]), usize::MAX),
            text(&partition["index"]),
            text(&partition["next"]),
            text(&partition["end"]),
            text(&partition["lag"])
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
