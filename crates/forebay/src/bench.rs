//! Measures the whole engine, as its users run it.
//!
//! Owns the order of a measurement: server, topic, runs, verdicts. The engine is a child process, so that its CPU and memory
//! are its own; ClickHouse is another. Every run starts with an empty table and an empty store, and every run is judged
//! by the table's content: a fast wrong answer is no result.
//!
//! | module      | what it owns                                           |
//! |-------------|--------------------------------------------------------|
//! | [`child`]   | processes and what they used                           |
//! | [`server`]  | ClickHouse, and questions about the table              |
//! | [`feed`]    | the topic and its records                              |
//! | [`engine`]  | one run of `forebay run`, and what is seen of it       |
//! | [`latency`] | quantiles of the engine's histogram                    |
//! | [`report`]  | numbers, medians, verdict                              |
//! | [`table`]   | the report for people                                  |

mod child;
mod engine;
mod feed;
mod latency;
pub mod report;
pub mod server;
pub mod table;

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use serde_json::Value;
use workloads::glassflow::Workload;
use workloads::glassflow::oracle::Content;

use engine::Pipeline;
use feed::Topic;
use report::{Accounts, Report, Run, Setting, Verdict};
use server::Server;

/// A run that takes longer than this hangs: at 10,000 records a second, ten million records.
const RUN_MAX: Duration = Duration::from_secs(1_000);

/// A start that takes longer than this hangs.
const START_MAX: Duration = Duration::from_secs(60);

/// From where the engine reads.
#[derive(Clone, Debug)]
pub enum Feed {
    /// A topic of its own on these brokers.
    Kafka {
        /// `host:port`, several joined by commas.
        brokers: String,
        /// Partitions of the topic.
        partitions: u32,
        /// librdkafka's word for how producers pack batches.
        compression: String,
        /// Records a second that are sent while the engine runs; `None` fills the topic first.
        rate: Option<u64>,
    },
    /// The records are made inside the engine: no broker, and their making counts as the engine's work.
    Generator {
        /// What `source:` says.
        source: String,
    },
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The records.
    pub workload: Workload,
    /// From where.
    pub feed: Feed,
    /// A server that runs; `None` starts one.
    pub clickhouse: Option<String>,
    /// How many times; at least 1.
    pub repeat: u32,
    /// The folder for everything that is written.
    pub dir: PathBuf,
    /// Leaves the folder, the tables and the topic where they are.
    pub keep: bool,
}

/// Measures, and tells progress by `say`.
///
/// # Errors
/// When a part does not start or the engine fails. A wrong table is no error but a verdict.
pub async fn glassflow(plan: &Plan, say: &dyn Fn(&str)) -> anyhow::Result<Report> {
    // Of this run alone: the names of its folder, topic and tables.
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock stands before 1970")?;
    let name = format!("bench_{}_{}", since_epoch.as_secs(), std::process::id());
    let dir = std::path::absolute(plan.dir.join(&name)).context("the folder has no absolute path")?;
    engine::new_folder(&dir)?;
    let bench = Bench { plan, say, name, dir };
    let outcome = bench.measure().await;
    if plan.keep {
        say(&format!("kept `{}`", bench.dir.display()));
    } else if let Err(error) = std::fs::remove_dir_all(&bench.dir) {
        say(&format!("`{}` could not be removed: {error}", bench.dir.display()));
    }
    outcome
}

struct Bench<'a> {
    plan: &'a Plan,
    say: &'a dyn Fn(&str),
    name: String,
    dir: PathBuf,
}

impl Bench<'_> {
    async fn measure(&self) -> anyhow::Result<Report> {
        let server = match &self.plan.clickhouse {
            Some(url) => Server::at(url).await?,
            None => Server::start(&self.dir).await?,
        };
        let expected = self.plan.workload.expected();
        let setting = self.setting(&server);
        let backlog = match &self.plan.feed {
            Feed::Kafka { rate: None, .. } => Some(self.topic(&self.name, None).await?),
            Feed::Kafka { rate: Some(_), .. } | Feed::Generator { .. } => None,
        };
        let runs = self.runs(&server, &setting, expected, backlog.as_ref()).await;
        // A topic of its own is of no use to anybody else, whatever became of the runs.
        if let Some(topic) = &backlog {
            self.drop_topic(topic).await;
        }
        server.stop().await?;
        Ok(Report::new(setting, runs?))
    }

    async fn runs(
        &self,
        server: &Server,
        setting: &Setting,
        expected: Content,
        backlog: Option<&Topic>,
    ) -> anyhow::Result<Vec<Run>> {
        let mut runs = Vec::new();
        for number in 1..=self.plan.repeat {
            (self.say)(&format!("run {number} of {}", self.plan.repeat));
            let run = self.run(number, server, setting, expected, backlog).await;
            runs.push(run.with_context(|| format!("run {number}"))?);
        }
        Ok(runs)
    }

    async fn run(
        &self,
        number: u32,
        server: &Server,
        setting: &Setting,
        expected: Content,
        backlog: Option<&Topic>,
    ) -> anyhow::Result<Run> {
        let table = format!("{}_{number}", self.name);
        let dir = self.dir.join(format!("run-{number}"));
        engine::new_folder(&dir)?;
        let pipeline = |source| Pipeline { dir, source, url: server.url().to_owned(), table: table.clone() };
        let before = server.usage()?;
        let (pipeline, end, seen) = match (&self.plan.feed, backlog) {
            (Feed::Generator { source }, _) => {
                let pipeline = pipeline(source.clone());
                let (end, seen) = pipeline.start(true)?.watch(None, RUN_MAX).await?;
                (pipeline, end, seen)
            }
            (Feed::Kafka { brokers, .. }, Some(topic)) => {
                let pipeline = pipeline(engine::kafka(brokers, topic.name(), number));
                let (end, seen) = pipeline.start(true)?.watch(None, RUN_MAX).await?;
                (pipeline, end, seen)
            }
            (Feed::Kafka { brokers, rate, .. }, None) => {
                let topic = self.topic(&table, *rate).await?;
                let pipeline = pipeline(engine::kafka(brokers, topic.name(), number));
                let (end, seen) = self.paced(&pipeline, topic, *rate, expected.rows).await?;
                (pipeline, end, seen)
            }
        };
        let after = server.usage()?;
        let found = server.content(&table).await?;
        let verdict = Verdict::new(setting, expected, found, accounts(&pipeline.accounts()?)?);
        if !self.plan.keep {
            server.ask(&format!("DROP TABLE `{table}`")).await?;
            server.ask(&format!("DROP TABLE IF EXISTS `{table}_rejected`")).await?;
        }
        let records = setting.records as f64;
        let (wall_s, cpu_s) = (end.wall.as_secs_f64(), end.usage.cpu_s());
        Ok(Run {
            wall_s,
            records_per_s: records / wall_s,
            settled_rows_per_s: rate_between(&seen),
            engine: end.usage,
            records_per_cpu_s: records / cpu_s,
            clickhouse: before.zip(after).map(|(before, after)| child::Usage {
                user_s: after.user_s - before.user_s,
                system_s: after.system_s - before.system_s,
                rss_bytes_max: after.rss_bytes_max,
            }),
            state_keys: seen.state_keys,
            state_bytes: seen.state_bytes,
            state_bytes_per_key: (seen.state_keys > 0)
                .then(|| seen.state_bytes as f64 / seen.state_keys as f64),
            latency: seen.latency,
            verdict,
        })
    }

    /// Sends while the engine runs, and ends the engine when all is in the table.
    async fn paced(
        &self,
        pipeline: &Pipeline,
        topic: Topic,
        rate: Option<u64>,
        rows: u64,
    ) -> anyhow::Result<(child::End, engine::Seen)> {
        let mut engine = pipeline.start(false)?;
        if let Err(error) = engine.ready(START_MAX).await {
            self.drop_topic(&topic).await;
            return Err(error);
        }
        let workload = self.plan.workload.clone();
        let (topic, sent) = {
            let sending = tokio::task::spawn_blocking(move || {
                let sent = topic.fill(&workload, rate);
                (topic, sent)
            });
            let (watched, sent) = tokio::join!(engine.watch(Some(rows), RUN_MAX), sending);
            let (topic, sent) = sent.context("the sender panicked")?;
            (topic, sent.and(watched))
        };
        self.drop_topic(&topic).await;
        sent
    }

    /// A topic for this run, filled unless it is filled at a pace later.
    async fn topic(&self, name: &str, rate: Option<u64>) -> anyhow::Result<Topic> {
        let Feed::Kafka { brokers, partitions, compression, .. } = &self.plan.feed else {
            bail!("a generator has no topic");
        };
        let topic = Topic::create(brokers, name.to_owned(), *partitions, compression).await?;
        if rate.is_some() {
            return Ok(topic);
        }
        (self.say)(&format!("filling topic `{name}`"));
        let workload = self.plan.workload.clone();
        let filled = tokio::task::spawn_blocking(move || topic.fill(&workload, None).map(|()| topic)).await;
        filled.context("the sender panicked")?
    }

    async fn drop_topic(&self, topic: &Topic) {
        if self.plan.keep {
            return;
        }
        if let Err(error) = topic.delete().await {
            // The measurement stands; what is left over is the broker's.
            (self.say)(&format!("topic `{}` is left over: {error:#}", topic.name()));
        }
    }

    fn setting(&self, server: &Server) -> Setting {
        let workload = &self.plan.workload;
        let (source, rate) = match &self.plan.feed {
            Feed::Kafka { partitions, compression, rate, .. } => {
                (format!("Kafka, {partitions} partitions, batches packed by `{compression}`"), *rate)
            }
            Feed::Generator { .. } => ("a generator inside the engine".to_owned(), None),
        };
        Setting {
            workload: "glassflow",
            records: workload.records_total(),
            uniques: workload.uniques_total(),
            duplicates: workload.duplicates_total(),
            source,
            rate,
            clickhouse: server.version().to_owned(),
            build: report::build(),
            processor: processor(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

fn rate_between(seen: &engine::Seen) -> Option<f64> {
    let (first_rows, first_at) = seen.first?;
    let (last_rows, last_at) = seen.last;
    let time_s = last_at.saturating_sub(first_at).as_secs_f64();
    (time_s > 0.0).then(|| (last_rows - first_rows) as f64 / time_s)
}

fn accounts(records: &Value) -> anyhow::Result<Accounts> {
    let number = |key: &str| records[key].as_u64().with_context(|| format!("`status` tells no `{key}`"));
    Ok(Accounts {
        read: number("read")?,
        written: number("written")?,
        duplicates: number("duplicates")?,
        dead_letters: number("dead_letters")?,
    })
}

/// The processor's name, for people who compare reports.
fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find_map(|line| line.strip_prefix("model name"));
    line.and_then(|line| line.split_once(':'))
        .map_or("an unknown processor", |(_, name)| name.trim())
        .to_owned()
}
