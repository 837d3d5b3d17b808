//! `forebay bench`: measures the engine on this machine.
//!
//! Owns the options and the exit code. Does not own the measurement (`bench`).

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::generate::Shape;
use crate::bench::{self, Feed, Plan, table};
use crate::cli::{Exit, print};
use crate::config::model::source::Workload;

/// Measures the engine on this machine, with a published workload.
#[derive(Debug, Args)]
#[command(
    long_about = "\
Measures the engine on this machine, with a published workload: records per CPU-second of the engine, wall rates, CPU of \
ClickHouse apart, memory, bytes of state a key, latencies, and whether the table is right.

The engine runs as a child process, `forebay run`, so that its CPU and memory are its own. Every run starts with an empty \
table and an empty store. A backlog (no --rate) is written to a topic first and then drained; with --rate the records are \
sent at that pace while the engine runs, which alone gives latencies that mean something: those of a backlog are its age.",
    after_help = "\
Examples:
  forebay bench glassflow --brokers localhost:9092 --repeat 5
  forebay bench glassflow --brokers localhost:9092 --rate 50000
  forebay bench glassflow --source generator --uniques 200000
  forebay bench glassflow --brokers localhost:9092 --json > report.json

Ends with code 1 when a table is wrong. Quote numbers of a release build only."
)]
pub struct Bench {
    /// The workload.
    #[arg(value_enum)]
    workload: Workload,

    #[command(flatten)]
    shape: Shape,

    /// From where the engine reads.
    #[arg(long, value_enum, default_value_t = From::Kafka)]
    source: From,

    /// Brokers to ask first, `host:port`, several joined by commas.
    #[arg(long, value_name = "BROKERS", env = "FOREBAY_BROKERS", required_if_eq("source", "kafka"))]
    brokers: Option<String>,

    /// Partitions of the topic, which is made for this measurement.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1024))]
    partitions: u32,

    /// How the producer packs batches in the topic.
    #[arg(long, value_name = "CODEC", default_value = "none", value_parser = ["none", "gzip", "snappy", "lz4", "zstd"])]
    topic_compression: String,

    /// Sends so many records a second while the engine runs, instead of filling the topic first.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    rate: Option<u64>,

    /// A ClickHouse that runs; without it one is started, and its CPU accounted apart.
    #[arg(long, value_name = "URL")]
    clickhouse: Option<String>,

    /// How many times.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,

    /// The folder for stores and logs, on the disk that is to be measured.
    #[arg(long, value_name = "DIR", default_value = "./forebay-bench")]
    dir: PathBuf,

    /// Leaves topic, tables, stores and logs where they are.
    #[arg(long)]
    keep: bool,

    /// Prints the report as JSON.
    #[arg(long)]
    json: bool,
}

/// From where the engine reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum From {
    /// A topic.
    Kafka,
    /// Records made inside the engine, which count as its work.
    Generator,
}

impl Bench {
    /// Runs the command.
    ///
    /// # Errors
    /// When a part does not start or the engine fails.
    pub fn execute(&self) -> anyhow::Result<Exit> {
        let plan = self.plan()?;
        let say = |line: &str| {
            // Progress is for people who wait; the report does not depend on it.
            let _ = writeln!(std::io::stderr(), "bench: {line}");
        };
        let report = super::runtime()?.block_on(bench::glassflow(&plan, &say))?;
        if self.json {
            let mut text = serde_json::to_string_pretty(&report)?;
            text.push('\n');
            print(&text)?;
        } else {
            print(&table::text(&report))?;
        }
        Ok(if report.right { Exit::Done } else { Exit::Failed })
    }

    fn plan(&self) -> anyhow::Result<Plan> {
        let Workload::Glassflow = self.workload;
        let feed = match (self.source, &self.brokers) {
            (From::Kafka, Some(brokers)) => Feed::Kafka {
                brokers: brokers.clone(),
                partitions: self.partitions,
                compression: self.topic_compression.clone(),
                rate: self.rate,
            },
            (From::Kafka, None) => anyhow::bail!("give `--brokers`"),
            (From::Generator, _) if self.rate.is_some() => {
                // The generator's records carry the workload's times, not the wall clock's.
                anyhow::bail!("`--rate` needs a topic: a generator's records have no time of sending")
            }
            (From::Generator, _) => Feed::Generator { source: self.generator() },
        };
        Ok(Plan {
            workload: self.shape.workload()?,
            feed,
            clickhouse: self.clickhouse.clone(),
            repeat: self.repeat,
            dir: self.dir.clone(),
            keep: self.keep,
        })
    }

    fn generator(&self) -> String {
        let Shape { uniques, publishers, seed, far_duplicates, cross_duplicates } = &self.shape;
        format!(
            "generator: {{ workload: glassflow, uniques: {uniques}, publishers: {publishers}, seed: {seed}, \
             far_duplicates: {far_duplicates}, cross_duplicates: {cross_duplicates} }}"
        )
    }
}
