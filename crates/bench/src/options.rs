//! `forebay bench`: measures the engine on this machine.
//!
//! Owns the options that all workloads have, and what becomes of a report. Does not own the measurement (a module a workload), nor
//! standard output and exit codes, which are the program's. Each workload's own options stand in a file of its name.

mod buffer;
mod clients;
mod dedup;
mod flink;
mod glassflow;
mod nexmark;
mod shape;

pub use shape::Shape;

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Subcommand};
use pipeline::config::values::Size;

use crate::html;
use crate::place::Common;
use crate::report::Report;
use crate::table;

/// Writes to the standard output of the program.
pub type Print<'a> = &'a dyn Fn(&str) -> anyhow::Result<()>;

/// Measures the engine on this machine, with a published workload.
#[derive(Debug, Args)]
#[command(
    long_about = "\
Measures the engine on this machine, with a published workload: records per CPU-second of the engine, wall-clock rates, the CPU \
of ClickHouse separately, memory, and whether the table is correct.

The engine runs as a child process, `forebay run`, so that its CPU and memory are its own. Every run starts with an empty \
table and an empty store.",
    after_help = "\
Examples:
  forebay bench glassflow --brokers localhost:9092
  forebay bench glassflow --source generator --uniques 200000 --repeat 1
  forebay bench dedup --minutes 21024
  forebay bench clients --compression none
  forebay bench flink --brokers localhost:9092
  forebay bench nexmark --brokers localhost:9092
  forebay bench buffer
  forebay bench dedup --json > report.json
  forebay bench dedup --html report.html

Ends with code 1 if a table is wrong. Quote only figures of a release build."
)]
pub struct Bench {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Debug, Subcommand)]
enum Workload {
    Glassflow(glassflow::Glassflow),
    Dedup(dedup::Dedup),
    Clients(clients::Clients),
    Flink(flink::Flink),
    Nexmark(nexmark::Nexmark),
    Buffer(buffer::Buffer),
    #[command(hide = true)]
    Client(clients::Client),
}

/// Where and how often to measure, and what to do with the report.
#[derive(Clone, Debug, Args)]
struct Shared {
    /// A ClickHouse that runs; without it one is started, and its CPU accounted apart.
    #[arg(long, value_name = "URL")]
    clickhouse: Option<String>,

    /// How many times each arm runs; arms take turns.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,

    /// The program that is measured, such as an older build; this one if left out.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,

    /// The folder for stores and logs, on the disk that is to be measured.
    #[arg(long, value_name = "DIR", default_value = "./forebay-bench")]
    dir: PathBuf,

    /// Memory that is touched and given back before each run: a virtual machine may have handed what was free to its host, and the
    /// run would pay for getting it back. `0B` touches none.
    #[arg(long, value_name = "SIZE", default_value = "2GiB")]
    touch: Size,

    /// Leaves topic, tables, stores and logs where they are.
    #[arg(long)]
    keep: bool,

    /// Prints the report as JSON.
    #[arg(long)]
    json: bool,

    /// Writes the report, with plots over time, to a page that opens without a network.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Bench {
    /// Runs the command; true if every table was right.
    ///
    /// # Errors
    /// When a part does not start or the engine fails.
    pub fn execute(&self, print: Print) -> anyhow::Result<bool> {
        match &self.workload {
            Workload::Glassflow(workload) => workload.execute(print),
            Workload::Dedup(workload) => workload.execute(print),
            Workload::Clients(workload) => workload.execute(print),
            Workload::Flink(workload) => workload.execute(print),
            Workload::Nexmark(workload) => workload.execute(print),
            Workload::Buffer(workload) => workload.execute(print),
            Workload::Client(client) => client.execute(print),
        }
    }
}

impl Shared {
    /// `memory` is what the pipeline file says of it.
    fn common(&self, memory: Option<Size>) -> Common {
        Common {
            clickhouse: self.clickhouse.clone(),
            repeat: self.repeat,
            dir: self.dir.clone(),
            keep: self.keep,
            memory,
            program: self.program.clone(),
            touch: self.touch,
        }
    }

    /// Shows the report as it was asked for.
    fn show(&self, report: &Report, print: Print) -> anyhow::Result<bool> {
        if !self.json {
            return self.finish(report, &table::text(report), print);
        }
        let mut text = serde_json::to_string_pretty(report)?;
        text.push('\n');
        self.finish(report, &text, print)
    }

    /// Prints `text`, writes the page if one is wanted, and says whether all was right.
    fn finish(&self, report: &Report, text: &str, print: Print) -> anyhow::Result<bool> {
        print(text)?;
        if let Some(path) = &self.html {
            std::fs::write(path, html::page(report))
                .with_context(|| format!("cannot write `{}`", path.display()))?;
        }
        Ok(report.right)
    }
}

/// Progress is for people who wait; the report does not depend on it.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "bench: {line}");
}

/// The tokio runtime of a measurement.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("cannot start the threads that wait for sockets")
}
