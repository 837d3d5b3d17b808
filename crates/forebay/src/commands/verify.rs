//! `forebay verify`: compares the table with the source, while the pipeline runs.
//!
//! Owns the options and the order of the comparison. Reads the journal, the source and the tables; claims, publishes, writes and
//! locks nothing.
//!
//! ```text
//! journal ─▶ source once more, up to what is sealed ─▶ wait until that is settled ─▶ digests of buckets ─▶ keys of those that
//! differ ─▶ look again at what differs: settled meanwhile, a dead letter, or newer than the look
//! ```
//!
//! There is no snapshot over a source and a table that both move. So the source's side ends at positions that one journal record
//! names, the table is only asked once all of that is settled, and a row that is in the table and not in that range counts as
//! foreign only if the source does not hold it further on, up to what is sealed *after* the table was asked.

mod expect;
mod frames;
mod letters;
mod reading;
mod report;
mod spill;
mod work;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use dataflow::Runtime;
use engine::TokioRuntime;
use pipeline::config::values::Start;

use crate::cli::{Exit, PipelineFile, print};

/// Compares the table with the source and reports missing, duplicate and foreign rows. Reads only; the pipeline may run.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay verify user-events.yaml
  forebay verify user-events.yaml --from 2026-07-01T00:00:00Z --to 2026-07-02T00:00:00Z
  forebay verify user-events.yaml --from user_events/0:1000 --to user_events/0:2000 --json
  forebay verify user-events.yaml --key event_id
  forebay verify user-events.yaml --values

Reads the source once more with the pipeline's own decoder and compares it with the table by key: buckets of keys by count and
checksum first, then the keys of buckets that differ. What is sealed and not settled, or not read yet, is not missing. Needs the
source to hold the records still; memory stays small, temporary files take 36 bytes a record.

Without --from and --to everything that the pipeline has read is compared. A range tells which of its records are missing, which have
too many rows (reading all of the source once more if there are such, to see whether they are another record's), and what its dead
letters lack. A row that came from nowhere (foreign) is in no range, so it is told only when everything is compared.

With a `_forebay` column the rows of each frame that the journal still knows are counted too. `--values` compares what stands in the
other columns.

Ends with code 0 if all is right, 4 if rows are missing, duplicate, foreign or different, a frame has other than its rows, or the
accounts do not add up, 1 if it could not be compared.")]
pub struct Verify {
    #[command(flatten)]
    file: PipelineFile,

    /// Looks at records from here on: a time (RFC 3339, the source's time of a record), or `STREAM/PARTITION:POSITION`, which may be
    /// given for several partitions; partitions that are not named are then left out.
    #[arg(long, value_name = "TIME|POSITION")]
    from: Vec<Bound>,

    /// Looks at records before this.
    #[arg(long, value_name = "TIME|POSITION")]
    to: Vec<Bound>,

    /// The columns to compare by. The key of the `dedup` step if left out, or else the sink's `unique_key`.
    #[arg(long, value_name = "COLUMN", value_delimiter = ',')]
    key: Vec<String>,

    /// Compares the values of the other columns too: reads all of the table's columns once.
    #[arg(long)]
    values: bool,

    /// How long to wait until what is sealed is settled.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u64,

    /// Where temporary files go. The system's place for them if left out.
    #[arg(long, value_name = "FOLDER")]
    scratch: Option<PathBuf>,

    /// Rows of each kind that are named.
    #[arg(long, value_name = "ROWS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(0..=10_000))]
    limit: u64,

    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// Where a range begins or ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// By the source's time of a record, Unix milliseconds.
    Time(i64),
    /// By a position.
    Position {
        /// The topic or file.
        stream: String,
        /// The partition.
        index: u32,
        /// The position.
        position: u64,
    },
}

impl std::str::FromStr for Bound {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let position = || {
            let (place, position) = text.rsplit_once(':')?;
            let (stream, index) = place.rsplit_once('/')?;
            let (index, position) = (index.parse().ok()?, position.parse().ok()?);
            Some(Self::Position { stream: stream.to_owned(), index, position })
        };
        if let Some(position) = position() {
            return Ok(position);
        }
        match text.parse::<Start>() {
            Ok(Start::At { ms }) => Ok(Self::Time(ms)),
            _ => Err("give a time such as `2026-07-01T00:00:00Z`, or `topic/0:1000`".into()),
        }
    }
}

impl Verify {
    /// Runs the command.
    ///
    /// # Errors
    /// When the comparison cannot be made.
    pub fn execute(&self) -> anyhow::Result<Exit> {
        let Some(pipeline) = super::load(&self.file.file)? else { return Ok(Exit::Fault) };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let report = super::runtime()?.block_on(async {
            let runtime: Arc<dyn Runtime> = TokioRuntime::new(threads);
            let bar = super::store::bar();
            let work = work::Work {
                pipeline: &pipeline,
                runtime,
                from: &self.from,
                to: &self.to,
                key: &self.key,
                values: self.values,
                wait: Duration::from_secs(self.wait),
                scratch: self
                    .scratch
                    .as_deref()
                    .map(super::place::given)
                    .transpose()?
                    .unwrap_or_else(std::env::temp_dir),
                limit: self.limit as usize,
                bar: bar.clone(),
            };
            let report = work.compare().await;
            bar.finish_and_clear();
            report.context("the table could not be compared")
        })?;
        print(&if self.json { report.json() } else { report.text() })?;
        Ok(if report.is_right() { Exit::Done } else { Exit::Person })
    }
}

#[cfg(test)]
mod tests;
