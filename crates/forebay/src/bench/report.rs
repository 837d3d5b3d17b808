//! What a benchmark found: the numbers, their medians, the verdict.
//!
//! Owns the shape of `--json` and the arithmetic. Does not own the table for people (`table`).

use serde::Serialize;
use workloads::glassflow::oracle::Content;

use super::child::Usage;
use super::latency::Latency;

/// Records per engine CPU-second that the release build is to reach.
pub const RECORDS_PER_CPU_S_GOAL: f64 = 400_000.0;
/// Bytes of memory that the engine is to stay below.
pub const RSS_BYTES_GOAL: u64 = 1_000_000_000;

/// All runs of a benchmark.
#[derive(Debug, Serialize)]
pub struct Report {
    /// What was run where.
    pub setting: Setting,
    /// In the order in which they ran.
    pub runs: Vec<Run>,
    /// Medians and ranges over them.
    pub summary: Summary,
    /// True if every run gave the right table.
    pub right: bool,
    /// Whether the medians reach the goals; of a release build alone, and only for a backlog.
    pub goals_met: Option<bool>,
}

/// What was run where.
#[derive(Clone, Debug, Serialize)]
pub struct Setting {
    /// The workload's name.
    pub workload: &'static str,
    /// Records that are sent.
    pub records: u64,
    /// Records that the table must hold.
    pub uniques: u64,
    /// The rest.
    pub duplicates: u64,
    /// From where, in words.
    pub source: String,
    /// Records a second that are sent while the engine runs; `None` for a backlog.
    pub rate: Option<u64>,
    /// The version of the server.
    pub clickhouse: String,
    /// `release` or `development`.
    pub build: &'static str,
    /// The processor's name as the system tells it.
    pub processor: String,
    /// Cores that this process may use.
    pub cores: usize,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// From the engine's start to its end.
    pub wall_s: f64,
    /// Records over that time.
    pub records_per_s: f64,
    /// Rows between the first and the last that were seen to be settled, over the time between; `None` if all came at once.
    pub settled_rows_per_s: Option<f64>,
    /// What the engine used, start and end included.
    pub engine: Usage,
    /// Records over the engine's CPU-seconds.
    pub records_per_cpu_s: f64,
    /// What the server used while the engine ran; `None` for a server elsewhere.
    pub clickhouse: Option<Usage>,
    /// Keys in the state at the most.
    pub state_keys: u64,
    /// Bytes of the state at the most, by its own account.
    pub state_bytes: u64,
    /// Bytes of the state a key.
    pub state_bytes_per_key: Option<f64>,
    /// From a record's time to its visibility.
    pub latency: Option<Latency>,
    /// Whether the table is right.
    pub verdict: Verdict,
}

/// Whether the table holds what it must.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// True if nothing is wrong.
    pub right: bool,
    /// What it must hold: rows, different ids, checksum of the content.
    pub expected: Numbers,
    /// What it holds.
    pub found: Numbers,
    /// What is wrong, in words.
    pub faults: Vec<String>,
}

/// Rows, ids and checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Numbers {
    pub rows: u64,
    pub ids: u64,
    pub checksum: u64,
}

impl From<Content> for Numbers {
    fn from(content: Content) -> Self {
        let Content { rows, ids, checksum } = content;
        Self { rows, ids, checksum }
    }
}

/// What the journal says became of the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Accounts {
    pub read: u64,
    pub written: u64,
    pub duplicates: u64,
    pub dead_letters: u64,
}

impl Verdict {
    /// Compares the table with the workload, and the journal's accounts with both.
    pub fn new(setting: &Setting, expected: Content, found: Content, accounts: Accounts) -> Self {
        let mut faults = Vec::new();
        let mut same = |what: &str, found: u64, expected: u64| {
            if found != expected {
                faults.push(format!("{what}: `{found}`, but it must be `{expected}`"));
            }
        };
        same("rows in the table", found.rows, expected.rows);
        same("different ids in the table", found.ids, expected.ids);
        same("checksum of the table", found.checksum, expected.checksum);
        same("records read by the journal's account", accounts.read, setting.records);
        same("rows written by the journal's account", accounts.written, setting.uniques);
        same("duplicates by the journal's account", accounts.duplicates, setting.duplicates);
        same("dead letters by the journal's account", accounts.dead_letters, 0);
        Self { right: faults.is_empty(), expected: expected.into(), found: found.into(), faults }
    }
}

/// A median and the range around it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Half of the runs are at or below; of an even number of runs the mean of the two in the middle.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
}

impl Spread {
    /// `None` of no values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => (values[middle - 1] + values[middle]) / 2.0,
            _ => values[middle],
        };
        Some(Self { median, min, max })
    }
}

/// Medians and ranges over all runs; `None` where no run has the number.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs, reason = "each is the field of the same name in `Run`")]
pub struct Summary {
    pub records_per_cpu_s: Option<Spread>,
    pub records_per_s: Option<Spread>,
    pub settled_rows_per_s: Option<Spread>,
    pub wall_s: Option<Spread>,
    pub engine_cpu_s: Option<Spread>,
    pub engine_user_s: Option<Spread>,
    pub engine_system_s: Option<Spread>,
    pub engine_rss_bytes_max: Option<Spread>,
    pub clickhouse_cpu_s: Option<Spread>,
    pub state_bytes_per_key: Option<Spread>,
    pub latency_p50_s: Option<Spread>,
    pub latency_p90_s: Option<Spread>,
    pub latency_p99_s: Option<Spread>,
    pub latency_p999_s: Option<Spread>,
}

impl Summary {
    /// Over `runs`.
    pub fn of(runs: &[Run]) -> Self {
        let all = |value: &dyn Fn(&Run) -> Option<f64>| Spread::of(runs.iter().filter_map(value));
        Self {
            records_per_cpu_s: all(&|run| Some(run.records_per_cpu_s)),
            records_per_s: all(&|run| Some(run.records_per_s)),
            settled_rows_per_s: all(&|run| run.settled_rows_per_s),
            wall_s: all(&|run| Some(run.wall_s)),
            engine_cpu_s: all(&|run| Some(run.engine.cpu_s())),
            engine_user_s: all(&|run| Some(run.engine.user_s)),
            engine_system_s: all(&|run| Some(run.engine.system_s)),
            engine_rss_bytes_max: all(&|run| Some(run.engine.rss_bytes_max as f64)),
            clickhouse_cpu_s: all(&|run| Some(run.clickhouse?.cpu_s())),
            state_bytes_per_key: all(&|run| run.state_bytes_per_key),
            latency_p50_s: all(&|run| Some(run.latency?.p50_s)),
            latency_p90_s: all(&|run| Some(run.latency?.p90_s)),
            latency_p99_s: all(&|run| Some(run.latency?.p99_s)),
            latency_p999_s: all(&|run| Some(run.latency?.p999_s)),
        }
    }
}

impl Report {
    /// The report of `runs`.
    pub fn new(setting: Setting, runs: Vec<Run>) -> Self {
        let summary = Summary::of(&runs);
        let right = !runs.is_empty() && runs.iter().all(|run| run.verdict.right);
        let is_measured = setting.build == RELEASE && setting.rate.is_none();
        let goals_met = summary.records_per_cpu_s.zip(summary.engine_rss_bytes_max).filter(|_| is_measured);
        let goals_met = goals_met
            .map(|(rate, rss)| rate.median >= RECORDS_PER_CPU_S_GOAL && rss.max < RSS_BYTES_GOAL as f64);
        Self { setting, runs, summary, right, goals_met }
    }
}

/// The word for builds that may be quoted.
pub const RELEASE: &str = "release";

/// The word for this build.
pub fn build() -> &'static str {
    if cfg!(debug_assertions) { "development" } else { RELEASE }
}

#[cfg(test)]
mod tests;
