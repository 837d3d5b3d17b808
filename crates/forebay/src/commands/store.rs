//! `forebay store check`: reads everything of a pipeline in its store and verifies it.
//!
//! Owns how the report is shown. Does not own the look ([`admin::store`]).

use std::fmt::Write as _;
use std::io::IsTerminal;
use std::path::PathBuf;

use admin::fields;
use admin::store::{NoStore, Where, look};
use anyhow::bail;
use clap::{Args, Subcommand};
use engine::inspect::Report;
use engine::survey;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use protocol::retire::Standing;
use serde_json::{Value, json};

use crate::console::{Exit, Mistake, print};

/// Examines stores.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay store check user-events.yaml
  forebay store check --store file:///var/lib/forebay --json")]
pub struct Store {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(Check),
}

/// Reads and verifies the journal, the segments and the state of a pipeline. Never writes or locks anything.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay store check user-events.yaml
  forebay store check --store file:///var/lib/forebay --json | jq '.lanes[].findings'

Checks every journal record (checksum, number, and whether it may follow the previous one), every frame (checksum, and whether it \
decodes to the sealed number of rows), and all state. Lists what is damaged or missing, what that means and what to do, and objects \
that nothing refers to. The pipeline may be running.

Exit codes: 0 if everything is sound; 4 if something is damaged or missing; 2 for an error in the file, or if there is no store at the \
address; 1 if the store cannot be read.")]
struct Check {
    /// The pipeline file; `-` for standard input.
    #[arg(value_name = "FILE", required_unless_present = "store")]
    file: Option<PathBuf>,

    /// Checks every pipeline in this store instead.
    #[arg(long, value_name = "URL", conflicts_with = "file")]
    store: Option<String>,

    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

impl Store {
    /// Runs the command.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn execute(&self) -> anyhow::Result<Exit> {
        let Command::Check(check) = &self.command;
        let (place, pipeline) = match (&check.file, &check.store) {
            (Some(file), _) => {
                let Some(pipeline) = super::load(file)? else { return Ok(Exit::Fault) };
                let name = pipeline.pipeline.to_string();
                (Where::Pipeline(Box::new(pipeline)), Some(name))
            }
            (None, Some(url)) => (Where::Url(url.clone()), None),
            (None, None) => bail!("neither a pipeline file nor a store is named"),
        };
        let reports = super::runtime()?.block_on(async {
            let bar = bar();
            let told = |lane: &str, read: u64, all: u64| {
                bar.set_message(lane.to_owned());
                bar.set_length(all.max(read));
                bar.set_position(read);
            };
            let reports = look(place, pipeline.as_deref(), &told).await;
            bar.finish_and_clear();
            reports
        });
        let reports = match reports {
            Err(error) if error.is::<NoStore>() => return Err(Mistake::of(error)),
            reports => reports?,
        };
        let is_sound = reports.iter().all(Report::is_sound);
        let text = match check.json {
            true => format!(
                "{:#}\n",
                json!({ "sound": is_sound, "lanes": reports.iter().map(as_json).collect::<Vec<_>>() })
            ),
            false => for_people(&reports),
        };
        print(&text)?;
        Ok(if is_sound { Exit::Done } else { Exit::Person })
    }
}

/// A bar on a terminal, and nothing elsewhere.
pub fn bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    let style = ProgressStyle::with_template("{msg} [{wide_bar}] {bytes} of {total_bytes}, {bytes_per_sec}");
    bar.set_style(style.expect("the template is a constant"));
    match std::io::stderr().is_terminal() {
        true => bar.set_draw_target(ProgressDrawTarget::stderr()),
        false => bar.set_draw_target(ProgressDrawTarget::hidden()),
    }
    bar
}

fn as_json(report: &Report) -> Value {
    let findings: Vec<Value> = report
        .findings
        .iter()
        .map(|f| json!({ "object": f.object, "what": f.what, "means": f.means, "way_out": f.way_out }))
        .collect();
    let orphans: Vec<Value> = report
        .orphans
        .iter()
        .map(|(object, bytes, standing)| {
            json!({ "object": object, "bytes": bytes, "standing": survey::word(*standing) })
        })
        .collect();
    json!({
        "lane": report.folder,
        "sound": report.is_sound(),
        "floor": report.floor,
        "records": report.records,
        "objects": report.objects,
        "bytes": report.bytes,
        "frames": report.frames,
        "unwritten": report.unwritten,
        "rows": report.rows,
        "findings": findings,
        "findings_more": report.findings_more,
        "orphans": orphans,
        "store": fields::survey(&report.survey),
    })
}

fn for_people(reports: &[Report]) -> String {
    let mut out = String::new();
    for report in reports {
        write_people(&mut out, report).expect("a String takes all that is written");
    }
    if reports.is_empty() {
        out.push_str("nothing in this store: the pipeline has not run yet\n");
    }
    out
}

fn write_people(out: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(out, "lane         {}", report.folder)?;
    writeln!(out, "journal      {} records from {} on", report.records, report.floor)?;
    writeln!(
        out,
        "objects      {} read, {} bytes compared, {} frames of {} rows decoded",
        report.objects, report.bytes, report.frames, report.rows
    )?;
    if report.unwritten > 0 {
        writeln!(
            out,
            "unwritten    {} inserts are made of records that the source holds, and are not in the store",
            report.unwritten
        )?;
    }
    for (standing, name) in [
        (Standing::Needed, "needed"),
        (Standing::UnderWay, "under way"),
        (Standing::Garbage, "garbage"),
        (Standing::Foreign, "foreign"),
    ] {
        let tally = report.survey.of(standing);
        writeln!(out, "{name:<12} {} objects, {} bytes", tally.objects, tally.bytes)?;
    }
    for (object, bytes, standing) in &report.orphans {
        writeln!(out, "orphan       {object}: {bytes} bytes, {}", fate(*standing))?;
    }
    for finding in &report.findings {
        writeln!(out, "damage       {}: {}", finding.object, finding.what)?;
        writeln!(out, "             meaning: {}", finding.means)?;
        writeln!(out, "             way out: {}", finding.way_out)?;
    }
    if report.findings_more > 0 {
        writeln!(out, "damage       {} more", report.findings_more)?;
    }
    let verdict = if report.is_sound() { "sound" } else { "damaged" };
    writeln!(out, "verdict      {verdict}")
}

fn fate(standing: Standing) -> &'static str {
    match standing {
        Standing::Needed => "needed",
        Standing::UnderWay => "may be sealed soon",
        Standing::Garbage => "garbage, deleted at the pipeline's next sweep",
        Standing::Foreign => "not written by the pipeline, never touched",
    }
}
