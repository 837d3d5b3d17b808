//! `forebay check`: everything that is wrong with pipeline files, at once.
//!
//! Owns the report. Does not own the rules of a file (`pipeline::config`), nor what `--connect` asks the store, the source and the tables
//! (`check::connect`). Reads the files and the environment; never writes, creates or locks anything.

pub(super) mod connect;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use dataflow::printing;
use pipeline::config::values::reference::Surroundings;
use pipeline::config::{self, Checked};
use pipeline::wiring;
use serde_json::json;

use super::place;
use crate::console::{Exit, print};

/// Checks pipeline files and gateway files, and lists every error with its line and column. Never writes or locks anything.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay check user-events.yaml
  forebay check pipelines/*.yaml --json
  CLICKHOUSE_PASSWORD=… forebay check user-events.yaml --connect
  forebay check user-events.yaml --connect --sample 10

A small pipeline file:
  pipeline: user-events
  source:
    kafka: { brokers: localhost:9092, topic: user_events }
  steps:
    - dedup: { key: [event_id], window: 8h, time: created_at }
  sink:
    clickhouse: { url: \"http://localhost:8123\", table: user_events }

Without --connect the command contacts no server. The expressions of the steps are then checked only if the file describes every table \
(`create: { columns: … }`), because the types of their columns come from the tables.

With --connect the command makes the checks of a start: of the store (journal, sealed inserts that wait, open questions, state of the \
steps), of the source (partitions, available positions, lag) and of the tables (settings, columns). It lists every error with its line in \
the file, and says what a start would do. --sample decodes that many records as the pipeline would, and shows which become rows, which \
become dead letters, and why. Of a gateway file, only the file itself is checked.

Exit codes: 0 if all files are correct, 2 if one has an error. With --connect, the code that `forebay run` would end with: 0; 2 for an error \
in the file; 4 if you must decide something; 1 if `run` would fail or wait, for example because a server, broker or store does not answer.")]
pub struct Check {
    /// Pipeline files and gateway files; `-` for standard input.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Prints the findings as JSON.
    #[arg(long)]
    json: bool,

    /// Also checks the store, the source and the tables: could the pipeline start? Only reads: creates, claims and writes nothing, and
    /// touches no consumer group.
    #[arg(long)]
    connect: bool,

    /// Decodes this many records of the source as the pipeline would, and shows what becomes of each.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "connect", value_parser = clap::value_parser!(u32).range(..=10_000))]
    sample: u32,
}

impl Check {
    /// Runs the command.
    ///
    /// # Errors
    /// When an output cannot be written. A file that cannot be read is a finding.
    pub fn execute(&self) -> anyhow::Result<Exit> {
        let mut reports: Vec<Report> = self.files.iter().map(|path| Report::of(path)).collect();
        named_alike(&mut reports);
        if self.connect {
            let runtime = super::runtime()?;
            for report in &mut reports {
                let path = PathBuf::from(&report.file);
                place::within(&path, || runtime.block_on(report.connect(self.sample as usize)));
            }
        } else {
            reports.iter_mut().for_each(Report::leave_open);
        }
        let exit = reports.iter().map(|report| report.exit).find(|exit| *exit != Exit::Done);
        let exit = exit.unwrap_or(Exit::Done);
        if self.json {
            let files: Vec<_> = reports.iter().map(|report| &report.json).collect();
            let text = serde_json::to_string_pretty(
                &json!({ "ok": exit == Exit::Done, "exit": exit as u8, "files": files }),
            )?;
            print(&format!("{text}\n"))?;
        } else {
            for report in &reports {
                std::io::stderr()
                    .write_all(report.text.as_bytes())
                    .context("cannot write to standard error")?;
                let ok =
                    if report.exit == Exit::Done { format!("{}: ok\n", report.file) } else { String::new() };
                print(&(report.notes.clone() + &ok))?;
            }
        }
        Ok(exit)
    }
}

/// What a check without `--connect` says of a file whose steps it could not read: the types of their columns come from the tables.
const NOT_PLANNED: &str = "not checked: the expressions of the steps, which need the columns of the tables; `forebay check FILE --connect` checks them";

/// Adds the faults of steps that do not fit the tables, if the file describes them all; false if there are any. Other tables are asked by `--connect`.
fn plan(checked: &mut Checked) -> bool {
    let Some(pipeline) = &checked.pipeline else { return true };
    let Some(tables) = wiring::sink::all_described(pipeline) else { return true };
    let plans = match wiring::steps::plan(pipeline, &tables) {
        Ok(plans) => plans,
        Err(faults) => {
            for fault in &faults {
                let at = checked.place_in(&fault.path, fault.at.as_ref().map(|at| at.start));
                checked.faults.fault(at, fault.path.as_str(), fault.to_string());
            }
            return false;
        }
    };
    let lane_steps = plans.common().lane_steps.clone();
    let faults = wiring::steps::lane_faults(pipeline, lane_steps, 1);
    let faults = faults.into_iter().map(|(path, error)| (path, error.to_string()));
    let faults: Vec<(String, String)> = faults.collect();
    for (path, message) in &faults {
        checked.faults.fault(checked.place_in(path, None), path.as_str(), message.clone());
    }
    faults.is_empty()
}

/// Adds the files that would be read twice, of those that are there; false if there are any.
fn files(checked: &mut Checked) -> bool {
    let Some(pipeline) = &checked.pipeline else { return true };
    let shared = wiring::source::shared_files(pipeline);
    for (path, why) in &shared {
        let at = checked.place_in(path, None);
        checked.faults.fault(at, path.as_str(), format!("`{path}`: {why}"));
    }
    shared.is_empty()
}

/// Adds that the pipeline's journal is where an earlier release kept it; false if it is. The file's folder is entered.
fn stored_here(checked: &mut Checked) -> bool {
    let Some(pipeline) = &checked.pipeline else { return true };
    // Without a working directory there is no store in it.
    let Some(why) = place::store_elsewhere(pipeline).ok().flatten() else { return true };
    let at = checked.place_in("store", None);
    checked.faults.fault(at, "store", why);
    false
}

/// Tells of files that are of one pipeline, as a copy is whose name was left as it was. Two versions of a file are, too.
fn named_alike(reports: &mut [Report]) {
    let mut seen: BTreeMap<(String, String), String> = BTreeMap::new();
    for report in reports {
        let Some(checked) = &mut report.checked else { continue };
        let Some(pipeline) = checked.pipeline.as_ref().filter(|pipeline| !pipeline.store.is_memory()) else {
            continue;
        };
        let store = match pipeline.store.as_str() {
            url if url.contains("://") => url.to_owned(),
            path => place::within(Path::new(&report.file), || place::address(path)),
        };
        let name = pipeline.pipeline.to_string();
        let first = seen.entry((store, name)).or_insert_with(|| report.file.clone());
        if *first == report.file {
            continue;
        }
        // The name may come from a reference.
        let message = format!(
            "`{}` has this name too, and the same store: a run of either file takes over from the other and continues its journal; if they are \
             two pipelines, give one of them another name",
            printing::escaped(first, usize::MAX)
        );
        let at = checked.place_in("pipeline", None);
        checked.faults.hint(at, "pipeline", message);
        report.text = checked.faults.render(&report.file);
        report.describe();
    }
}

struct Report {
    file: String,
    /// The settings, if the file has no fault, and the places in the file.
    checked: Option<Checked>,
    /// What `run` would end with before it has done anything; [`Exit::Done`] if it could start.
    exit: Exit,
    /// What is wrong, for users.
    text: String,
    /// What a start would do, for users.
    notes: String,
    json: serde_json::Value,
}

impl Report {
    fn of(path: &Path) -> Self {
        let file = path.display().to_string();
        let (exit, notes) = (Exit::Fault, String::new());
        match config::load(path) {
            Err(error) => {
                let message = format!("{error:#}");
                let json = json!({ "file": file, "ok": false, "error": message, "findings": [] });
                Self { text: format!("{file}: {message}\n"), json, file, checked: None, exit, notes }
            }
            Ok(text) if config::is_gateway(&text) => Self::of_gateway(path, &text),
            Ok(text) => {
                let mut checked = place::within(path, || config::check(&text, &Surroundings::of_process()));
                let does_fit = place::within(path, || files(&mut checked) & stored_here(&mut checked));
                let does_plan = plan(&mut checked) & does_fit;
                let exit = if checked.pipeline.is_some() && does_plan { Exit::Done } else { Exit::Fault };
                let text = checked.faults.render(&file);
                let mut report = Self { text, json: json!({}), file, checked: Some(checked), exit, notes };
                report.describe();
                report
            }
        }
    }

    /// A gateway's file: there is nothing to connect to but its stores, which a start opens.
    fn of_gateway(path: &Path, text: &str) -> Self {
        let file = path.display().to_string();
        let checked = place::within(path, || config::check_gateway(text, &Surroundings::of_process()));
        let read = checked.gateway.as_ref().map(|gateway| {
            let read = place::within(path, || wiring::gateway::check_schemas(gateway));
            read.map_err(|error| format!("{error:#}"))
        });
        let exit = if matches!(read, Some(Ok(()))) { Exit::Done } else { Exit::Fault };
        let lacking = read.and_then(Result::err);
        let mut json = json!({
            "file": file,
            "ok": exit == Exit::Done,
            "gateway": checked.gateway.as_ref().map(|gateway| gateway.gateway.to_string()),
            "faults": checked.faults.count(),
            "findings": checked.faults.sorted(),
        });
        let mut text = checked.faults.render(&file);
        if let Some(lacking) = lacking {
            text += &format!("{file}: {lacking}\n");
            json["error"] = lacking.into();
        }
        Self { text, json, file, checked: None, exit, notes: String::new() }
    }

    /// The JSON of the file's own findings.
    fn describe(&mut self) {
        let Some(checked) = &self.checked else { return };
        let name = checked.pipeline.as_ref().map(|pipeline| pipeline.pipeline.to_string());
        self.json["file"] = self.file.as_str().into();
        self.json["ok"] = (self.exit == Exit::Done).into();
        self.json["pipeline"] = name.into();
        self.json["faults"] = checked.faults.count().into();
        self.json["findings"] = json!(checked.faults.sorted());
    }

    /// Says what is not checked here, so that "ok" does not stand for it.
    fn leave_open(&mut self) {
        let pipeline = self.checked.as_ref().and_then(|checked| checked.pipeline.as_ref());
        let Some(pipeline) = pipeline.filter(|_| self.exit == Exit::Done) else { return };
        if !pipeline.steps.is_empty() && wiring::sink::all_described(pipeline).is_none() {
            self.notes = format!("{}: {NOT_PLANNED}\n", self.file);
            self.json["notes"] = json!([NOT_PLANNED]);
        }
    }

    /// Adds what the store, the source and the tables say.
    async fn connect(&mut self, sample: usize) {
        let Some(checked) = &mut self.checked else { return };
        let Some(pipeline) = checked.pipeline.as_ref().filter(|_| self.exit == Exit::Done) else { return };
        let found = connect::look(pipeline, sample).await;
        for problem in &found.problems {
            let at = checked.place_in(&problem.path, problem.at);
            checked.faults.fault(at, problem.path.as_str(), problem.message.as_str());
        }
        self.exit = found.exit();
        self.text = checked.faults.render(&self.file);
        for note in &found.notes {
            self.notes.push_str(&format!("{}: {note}\n", self.file));
        }
        self.describe();
        self.json["problems"] = found.problems.iter().map(|problem| problem.message.as_str()).collect();
        self.json["notes"] = json!(found.notes);
        self.json["start"] = found.json;
    }
}

#[cfg(test)]
mod tests;
