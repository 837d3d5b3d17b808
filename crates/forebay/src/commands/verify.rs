//! `forebay verify`: compares the table with the source, while the pipeline runs.
//!
//! Owns the options. Does not own the comparison ([`admin::verify`]).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use admin::verify::{Bound, Progress, Report, Work};
use anyhow::{Context, anyhow};
use clap::Args;
use dataflow::Runtime;
use engine::TokioRuntime;
use indicatif::ProgressBar;
use pipeline::config::model::Pipeline;
use pipeline::config::model::sink::Target;

use crate::console::{Exit, Mistake, PipelineFile, print};

/// Compares the table with the source and reports missing, duplicate and foreign rows. Only reads; the pipeline may be running.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay verify user-events.yaml
  forebay verify user-events.yaml --from 2026-07-01T00:00:00Z --to 2026-07-02T00:00:00Z
  forebay verify user-events.yaml --from user_events/0:1000 --to user_events/0:2000 --json
  forebay verify user-events.yaml --key event_id
  forebay verify user-events.yaml --values
  forebay verify user-events.yaml --table bots

Reads the source again with the pipeline's own decoder and steps, and compares it with the table by key: first the count and checksum of \
each bucket of keys, then the keys of buckets that differ. Records that are not read yet, or are sealed and not settled, do not count as \
missing. The source must still hold the records. Temporary files take 49 bytes per row. Of several tables each is compared in turn, \
unless --table names one.

Without --from and --to, everything that the pipeline has read is compared. A range shows which of its records are missing, which have too \
many rows (if there are any, the whole source is read once more to find out whether the rows belong to other records), and which dead \
letters are missing. Foreign rows have no record and therefore lie in no range; they are reported only when everything is compared.

If the table has a `_forebay` column, the rows of each frame that the journal still knows are counted as well. --values also compares the \
values of the other columns.

Exit codes: 0 if everything is correct; 4 if rows are missing, duplicate, foreign or different, if an insert does not have its rows, or if \
the accounts do not add up; 2 for an error in the file; 1 if the comparison was not possible.")]
pub struct Verify {
    #[command(flatten)]
    file: PipelineFile,

    /// Compares records from here on: a time (RFC 3339, compared with the source's time of a record), or `STREAM/PARTITION:POSITION`,
    /// which may be given for several partitions; partitions that are not named are then left out.
    #[arg(long, value_name = "TIME|POSITION")]
    from: Vec<Bound>,

    /// Compares records before this time or position.
    #[arg(long, value_name = "TIME|POSITION")]
    to: Vec<Bound>,

    /// Compares only this one of several tables: `table` or `database.table`.
    #[arg(long, value_name = "TABLE")]
    table: Option<String>,

    /// The columns to compare by, separated by commas. Default: the key of the `dedup` step, or else the sink's `unique_key`.
    #[arg(long, value_name = "COLUMN", value_delimiter = ',', value_parser = trimmed)]
    key: Vec<String>,

    /// Also compares the values of the other columns, which reads all columns of the table once.
    #[arg(long)]
    values: bool,

    /// Seconds to wait until everything that is sealed is settled, and for a replica that is behind.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u64,

    /// The folder for temporary files. Default: the system's.
    #[arg(long, value_name = "FOLDER")]
    scratch: Option<PathBuf>,

    /// How many rows of each kind to list at most.
    #[arg(long, value_name = "ROWS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(0..=10_000))]
    limit: u64,

    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// A name between commas, which people put spaces behind.
#[allow(clippy::unnecessary_wraps, reason = "the form of a parser")]
fn trimmed(name: &str) -> Result<String, std::convert::Infallible> {
    Ok(name.trim().to_owned())
}

impl Verify {
    /// Runs the command.
    ///
    /// # Errors
    /// When the comparison cannot be made.
    pub fn execute(&self) -> anyhow::Result<Exit> {
        let Some(pipeline) = super::load(&self.file.file)? else { return Ok(Exit::Fault) };
        let places = self.places(&pipeline)?;
        let reports = super::runtime()?.block_on(async {
            let mut reports = Vec::with_capacity(places.len());
            for place in places {
                reports.push(self.compare(&pipeline, place).await);
            }
            reports
        });
        // One table that cannot be compared says nothing of the others.
        let (mut compared, mut failed) = (Vec::new(), Vec::new());
        for report in reports {
            match report {
                Ok(report) => compared.push(report),
                Err(error) => failed.push(format!("{error:#}")),
            }
        }
        for report in &compared {
            print(&if self.json { report.json() } else { report.text() })?;
        }
        if !failed.is_empty() {
            anyhow::bail!(failed.join("\n"));
        }
        Ok(if compared.iter().all(Report::is_right) { Exit::Done } else { Exit::Person })
    }

    /// The tables to compare, by place.
    fn places(&self, pipeline: &Pipeline) -> anyhow::Result<Vec<usize>> {
        let targets = pipeline.targets();
        let Some(table) = &self.table else { return Ok((0..targets.len()).collect()) };
        let is_meant = |target: &Target| {
            let clickhouse = &target.clickhouse;
            clickhouse.table_name() == table || clickhouse.full_name() == *table
        };
        let Some(place) = targets.iter().position(is_meant) else {
            let names: Vec<String> =
                targets.iter().map(|target| format!("`{}`", target.clickhouse.full_name())).collect();
            return Err(Mistake::of(anyhow!(
                "the pipeline has no table `{table}`; its tables are {}",
                names.join(", ")
            )));
        };
        Ok(vec![place])
    }

    async fn compare(&self, pipeline: &Pipeline, place: usize) -> anyhow::Result<Report> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let runtime: Arc<dyn Runtime> = TokioRuntime::new(threads);
        let bar = super::store::bar();
        let work = Work {
            pipeline,
            place,
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
            progress: Arc::new(Bar(bar.clone())),
        };
        let report = work.compare().await;
        bar.finish_and_clear();
        report.with_context(|| {
            let target = &pipeline.targets()[place];
            format!("the table `{}` could not be compared", target.clickhouse.full_name())
        })
    }
}

/// A bar on the terminal.
struct Bar(ProgressBar);

impl Progress for Bar {
    fn begin(&self, what: &'static str) {
        self.0.set_message(what);
    }

    fn length(&self, all: u64) {
        self.0.set_length(all);
    }

    fn done(&self, so_far: u64) {
        self.0.set_position(so_far);
    }
}
