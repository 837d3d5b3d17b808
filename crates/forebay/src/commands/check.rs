//! `forebay check`: everything that is wrong with pipeline files, at once.
//!
//! Owns the report. Reads the files and the environment; with `--connect` it also asks the source and the table. Never
//! writes, creates or locks anything.

mod connect;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use serde_json::json;

use super::place;
use crate::cli::{Exit, print};
use crate::config;
use crate::config::model::Pipeline;
use crate::config::values::reference::Surroundings;

/// Checks pipeline files: every fault at once, with line and column. Never writes or locks.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay check user-events.yaml
  forebay check pipelines/*.yaml --json
  CLICKHOUSE_PASSWORD=… forebay check user-events.yaml --connect

A small pipeline file:
  pipeline: user-events
  source:
    kafka: { brokers: localhost:9092, topic: user_events }
  steps:
    - dedup: { key: [event_id], window: 8h, time: created_at }
  sink:
    clickhouse: { url: \"http://localhost:8123\", table: user_events }

Ends with code 0 if all files can run, 2 if one has a fault.")]
pub struct Check {
    /// Pipeline files; `-` for standard input.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Prints the findings as JSON on standard output.
    #[arg(long)]
    json: bool,

    /// Also asks the source and the tables whether the pipeline could start. Reads only: no table is created, no lane
    /// claimed, no consumer group touched.
    #[arg(long)]
    connect: bool,
}

impl Check {
    /// Runs the command.
    ///
    /// # Errors
    /// When an output cannot be written. A file that cannot be read is a finding.
    pub fn execute(&self) -> anyhow::Result<Exit> {
        let mut reports: Vec<Report> = self.files.iter().map(|path| Report::of(path)).collect();
        if self.connect {
            let runtime = super::runtime()?;
            for report in &mut reports {
                let path = PathBuf::from(&report.file);
                place::within(&path, || runtime.block_on(report.connect()));
            }
        }
        let all_good = reports.iter().all(|report| report.can_run);
        if self.json {
            let files: Vec<_> = reports.iter().map(|report| &report.json).collect();
            let text = serde_json::to_string_pretty(&json!({ "ok": all_good, "files": files }))?;
            print(&format!("{text}\n"))?;
        } else {
            for report in &reports {
                std::io::stderr()
                    .write_all(report.text.as_bytes())
                    .context("cannot write to standard error")?;
                if report.can_run {
                    print(&format!("{}: ok\n", report.file))?;
                }
            }
        }
        Ok(if all_good { Exit::Done } else { Exit::Fault })
    }
}

struct Report {
    file: String,
    /// The settings, if the file has no fault.
    pipeline: Option<Pipeline>,
    can_run: bool,
    text: String,
    json: serde_json::Value,
}

impl Report {
    fn of(path: &Path) -> Self {
        let file = path.display().to_string();
        match config::load(path) {
            Err(error) => {
                let message = format!("{error:#}");
                let json = json!({ "file": file, "ok": false, "error": message, "findings": [] });
                Self { text: format!("{file}: {message}\n"), json, file, pipeline: None, can_run: false }
            }
            Ok(text) => {
                let checked = place::within(path, || config::check(&text, &Surroundings::of_process()));
                let can_run = checked.pipeline.is_some();
                let name = checked.pipeline.as_ref().map(|pipeline| pipeline.pipeline.to_string());
                let findings = checked.faults.sorted();
                let faults = checked.faults.count();
                let json = json!({
                    "file": file, "ok": can_run, "pipeline": name, "faults": faults, "findings": findings
                });
                Self { text: checked.faults.render(&file), json, file, pipeline: checked.pipeline, can_run }
            }
        }
    }

    /// Adds what the source and the tables say.
    async fn connect(&mut self) {
        let Some(pipeline) = &self.pipeline else { return };
        let problems = connect::problems(pipeline).await;
        self.can_run = problems.is_empty();
        for problem in &problems {
            self.text.push_str(&format!("{}: {problem}\n", self.file));
        }
        self.json["ok"] = self.can_run.into();
        self.json["problems"] = problems.into();
    }
}
