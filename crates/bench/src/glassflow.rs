//! The workload `glassflow`: events with duplicates, from a topic into ClickHouse, once each.
//!
//! Owns its pipeline, its arms and its figures. Does not own the records and what the table must hold (`workloads::glassflow`), topics
//! (`glassflow::topics`), latency under a load (`glassflow::load`), nor what the figures are compared with (`glassflow::goals`).

mod capacity;
pub mod csv;
mod feed;
mod goals;
pub mod joined;
mod load;
mod peer;
mod topics;

use anyhow::Context;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use workloads::content::Content;
use workloads::glassflow::{RECORD_BYTES_MEAN, Workload, oracle};

use super::engine::{Accounts, Pipeline, Seen};
use super::figure::{Figure, Figures, Shown};
use super::peer::Peer;
use super::place::{Common, Place};
use super::report::{Report, Run, Setting, Verdict, of_content};
use super::server::Server;
use super::topic::Topic;
use super::{RUN_MAX, child, figure};
use capacity::Capacity;
use feed::Prepared;
use goals::{goals, goals_of_loads, load_name};

/// From the start of the sender to the first record: a producer connects first.
const LOAD_AHEAD: Duration = Duration::from_millis(500);

const PUBLISH_S: Figure =
    Figure::new("publish_s", "time in which the records were sent, s", Shown::Decimals(2));

/// To the look that saw them, 50 ms apart.
const FIRST_ROWS_S: Figure =
    Figure::new("first_rows_s", "from the start to the first rows in the table, s", Shown::Decimals(2));

const SETTLED_ROWS_PER_S: Figure =
    Figure::new("settled_rows_per_s", "rows per second, first to last", Shown::Whole);

const LATENCY: [Figure; 4] = [
    Figure::new("latency_p50_s", "latency by the engine, p50, s", Shown::Decimals(3)),
    Figure::new("latency_p90_s", "latency by the engine, p90, s", Shown::Decimals(3)),
    Figure::new("latency_p99_s", "latency by the engine, p99, s", Shown::Decimals(3)),
    Figure::new("latency_p999_s", "latency by the engine, p99.9, s", Shown::Decimals(3)),
];

const BACKLOG_AGE: [Figure; 4] = [
    Figure::new("latency_p50_s", "age of backlog, p50, s", Shown::Decimals(3)),
    Figure::new("latency_p90_s", "age of backlog, p90, s", Shown::Decimals(3)),
    Figure::new("latency_p99_s", "age of backlog, p99, s", Shown::Decimals(3)),
    Figure::new("latency_p999_s", "age of backlog, p99.9, s", Shown::Decimals(3)),
];

/// The arm that is measured, and the one that keeps the duplicates.
const FOREBAY: &str = "forebay";

const WITHOUT_DEDUP: &str = "forebay without dedup: duplicates stay";

const OTHER: &str = "the other program";

const FILTERED: &str = "forebay with a filter that half of the records pass";

/// The steps of an arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Steps {
    Dedup,
    None,
    FilterAndDedup,
    /// As `Dedup`, by the plan's other program.
    Other,
}

impl Steps {
    /// The arm's name, and what its tables and folders have behind the number.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Dedup => (FOREBAY, ""),
            Self::None => (WITHOUT_DEDUP, "_plain"),
            Self::FilterAndDedup => (FILTERED, "_filtered"),
            Self::Other => (OTHER, "_other"),
        }
    }

    /// What the pipeline file says.
    fn text(self) -> String {
        const DEDUP: &str = "  - dedup: { key: [event_id], window: 8h, time: created_at }\n";
        match self {
            Self::None => String::new(),
            Self::Dedup | Self::Other => format!("steps:\n{DEDUP}"),
            Self::FilterAndDedup => {
                format!("steps:\n  - filter: name < '{}'\n{DEDUP}", oracle::NAME_IN_THE_MIDDLE)
            }
        }
    }
}

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
    /// What every workload is given.
    pub common: Common,
    /// The records.
    pub workload: Workload,
    /// From where.
    pub feed: Feed,
    /// How old a batch may get, as the pipeline file says it; its default if left out.
    pub batch_age: Option<Duration>,
    /// Shares of the capacity at which latency is measured; none measures no latency but the engine's own.
    pub loads: Vec<f64>,
    /// Records a second that are taken for the capacity; `None` searches for it.
    pub capacity: Option<u64>,
    /// A peer that drains the same backlog, in turns.
    pub against: Option<Peer>,
    /// The same without the step `dedup`, in turns: what deduplication costs.
    pub without_dedup: bool,
    /// The same with a filter before `dedup` that half of the records pass, in turns: what a filter saves.
    pub filter: bool,
    /// Another build of the program, which drains the same backlog in turns: what a change costs or saves.
    pub beside: Option<PathBuf>,
}

impl Plan {
    /// Records a second that are sent while the engine runs.
    fn rate(&self) -> Option<u64> {
        match &self.feed {
            Feed::Kafka { rate, .. } => *rate,
            Feed::Generator { .. } => None,
        }
    }
}

/// Measures, and tells progress by `say`.
///
/// # Errors
/// When a part does not start or the engine fails. A wrong table is no error but a verdict.
pub async fn measure(plan: &Plan, say: &dyn Fn(&str)) -> anyhow::Result<Report> {
    let place = Place::make(&plan.common, say)?;
    let bench = Bench { plan, place: &place };
    let outcome = bench.measure().await;
    place.clear(outcome)
}

struct Bench<'a> {
    plan: &'a Plan,
    place: &'a Place<'a>,
}

impl Bench<'_> {
    async fn measure(&self) -> anyhow::Result<Report> {
        let server = self.place.server().await?;
        let expected = self.plan.workload.expected();
        let mut setting = self.setting(&server);
        let runs = match self.plan.loads.is_empty() {
            true => self.runs(&server, expected, self.plan.common.repeat).await,
            false => self.loads(&server, expected, &mut setting).await,
        };
        server.stop().await?;
        let (is_backlog, loads) = (self.rate().is_none(), &self.plan.loads);
        Ok(Report::new(setting, runs?, |arms| match loads.is_empty() {
            true if is_backlog => goals(arms, &self.plan.common),
            true => Vec::new(),
            false => goals_of_loads(arms, loads, &self.plan.common),
        }))
    }

    /// The whole workload so many times: from a backlog that is written once, or each at its pace.
    async fn runs(&self, server: &Server, expected: Content, repeat: u32) -> anyhow::Result<Vec<Run>> {
        let backlog = match &self.plan.feed {
            Feed::Kafka { rate: None, .. } => Some(self.topic(&self.place.name, false).await?),
            Feed::Kafka { rate: Some(_), .. } | Feed::Generator { .. } => None,
        };
        let runs = self.each_run(server, expected, repeat, backlog.as_ref()).await;
        // A topic of its own is of no use to anybody else, whatever became of the runs.
        if let Some(topic) = &backlog {
            self.drop_topic(topic).await;
        }
        runs
    }

    async fn each_run(
        &self,
        server: &Server,
        expected: Content,
        repeat: u32,
        backlog: Option<&Topic>,
    ) -> anyhow::Result<Vec<Run>> {
        let built = match self.plan.against {
            Some(peer) => {
                self.place.say(&format!("building {}", peer.name()));
                Some((peer, peer.build(&self.place.dir)?))
            }
            None => None,
        };
        let mut runs = Vec::new();
        for number in 1..=repeat {
            self.place.say(&format!("run {number} of {repeat}"));
            let run = self.run(number, server, expected, backlog, Steps::Dedup).await;
            runs.push(run.with_context(|| format!("run {number}"))?);
            if self.plan.without_dedup {
                self.place.say(&format!("run {number} of {repeat}: without dedup"));
                let run = self.run(number, server, expected, backlog, Steps::None).await;
                runs.push(run.with_context(|| format!("run {number} without dedup"))?);
            }
            if self.plan.filter {
                self.place.say(&format!("run {number} of {repeat}: with a filter"));
                let passing = self.plan.workload.expected_before(oracle::NAME_IN_THE_MIDDLE);
                let run = self.run(number, server, passing, backlog, Steps::FilterAndDedup).await;
                runs.push(run.with_context(|| format!("run {number} with a filter"))?);
            }
            if self.plan.beside.is_some() {
                self.place.say(&format!("run {number} of {repeat}: the other program"));
                let run = self.run(number, server, expected, backlog, Steps::Other).await;
                runs.push(run.with_context(|| format!("run {number} of the other program"))?);
            }
            if let (Some((peer, program)), Some(topic)) = (&built, backlog) {
                self.place.say(&format!("run {number} of {repeat}: {}", peer.name()));
                runs.push(self.consumer(*peer, program, number, server, expected, topic).await?);
            }
        }
        Ok(runs)
    }

    /// Every load in turn, after the capacity was measured.
    async fn loads(
        &self,
        server: &Server,
        expected: Content,
        setting: &mut Setting,
    ) -> anyhow::Result<Vec<Run>> {
        let (capacity, mut drains) = match self.plan.capacity {
            Some(capacity) => (Capacity::given(capacity as f64), Vec::new()),
            None => {
                let drains = self.runs(server, expected, 1).await?;
                let rate = drains.iter().find_map(|run| run.figures.get(figure::RECORDS_PER_S));
                (self.capacity(server, rate.context("a drain has no rate")?).await?, drains)
            }
        };
        drains.iter_mut().for_each(|run| "drain".clone_into(&mut run.arm));
        setting.sentences.push(capacity.found);
        setting.facts.insert("capacity_records_per_s".to_owned(), capacity.rate.into());
        let prepared = Arc::new(Prepared::new(&self.plan.workload)?);
        let mut runs = Vec::new();
        for round in 1..=self.plan.common.repeat {
            for (place, load) in self.plan.loads.iter().enumerate() {
                let (arm, table) = (load_name(*load), format!("{}_{round}_{place}", self.place.name));
                self.place.say(&format!("round {round} of {}: {arm}", self.plan.common.repeat));
                let rate = ((capacity.rate * load) as u64).max(1);
                let run = self.loaded(&arm, &table, rate, prepared.clone(), server).await;
                runs.push(run.with_context(|| format!("round {round}, {arm}"))?);
            }
        }
        runs.extend(drains);
        Ok(runs)
    }

    async fn run(
        &self,
        number: u32,
        server: &Server,
        expected: Content,
        backlog: Option<&Topic>,
        steps: Steps,
    ) -> anyhow::Result<Run> {
        let (arm, suffix) = steps.names();
        let table = format!("{}_{number}{suffix}", self.place.name);
        let dir = self.place.folder(&format!("run-{number}{suffix}"))?;
        let memory = self.plan.common.memory_line();
        let pipeline = |source: &str| Pipeline {
            program: match steps {
                Steps::Other => self.plan.beside.clone(),
                Steps::Dedup | Steps::None | Steps::FilterAndDedup => self.plan.common.program.clone(),
            },
            dir,
            store: None,
            rest: pipeline_text(source, server.url(), &table, self.plan.batch_age, steps) + &memory,
            table: table.clone(),
        };
        let touched = self.place.touch_memory()?;
        let before = server.usage()?;
        let mut not_valid = None;
        let (pipeline, end, seen, published) = match (&self.plan.feed, backlog) {
            (Feed::Generator { source }, _) => {
                let pipeline = pipeline(source);
                let (end, seen) = pipeline.start(true)?.watch(None, RUN_MAX).await?;
                (pipeline, end, seen, None)
            }
            (Feed::Kafka { brokers, .. }, Some(topic)) => {
                let pipeline = pipeline(&kafka(brokers, topic.name(), &table));
                let (end, seen) = pipeline.start(true)?.watch(None, RUN_MAX).await?;
                (pipeline, end, seen, topic.filled_in)
            }
            (Feed::Kafka { brokers, rate, .. }, None) => {
                let rate = rate.context("a topic that is not filled first needs a rate")?;
                let topic = self.topic(&table, true).await?;
                let pipeline = pipeline(&kafka(brokers, topic.name(), &table));
                let rows = match steps {
                    Steps::None => self.plan.workload.records_total(),
                    Steps::Dedup | Steps::FilterAndDedup | Steps::Other => expected.rows,
                };
                let (end, seen, sent) = self.paced(&pipeline, topic, rate, rows).await?;
                not_valid = crate::topic::not_valid(sent.late_max);
                (pipeline, end, seen, Some(sent.took))
            }
        };
        let clickhouse = server.usage()?.zip(before).map(|(after, before)| after.since(before));
        let checks = match steps {
            Steps::Dedup | Steps::FilterAndDedup | Steps::Other => {
                of_content(expected, server.content(&oracle::sql(&table)).await?).to_vec()
            }
            Steps::None => self.duplicates_stay(server, &table, expected).await?,
        };
        let counted = pipeline.accounts()?;
        let accounts = self.accounts(steps, expected, counted);
        let verdict = Verdict::of(checks.into_iter().chain(counted.checks(accounts)));
        self.place.drop_tables(server, &table).await?;
        let mut figures = self.figures(&end, &seen, clickhouse);
        figures.put_if(PUBLISH_S, published.map(|published| published.as_secs_f64()));
        figures.put_if(figure::FIRST_TOUCH_MS, touched);
        Ok(Run { arm: arm.to_owned(), figures, verdict, not_valid, trace: seen.trace })
    }

    fn figures(&self, end: &child::End, seen: &Seen, clickhouse: Option<child::Usage>) -> Figures {
        let records = self.plan.workload.records_total() as f64;
        let mut figures = Figures::default();
        figures.put(figure::RECORDS_PER_CPU_S, records / end.usage.cpu_s());
        figures.put(figure::RECORDS_PER_S, records / end.wall.as_secs_f64());
        if self.rate().is_none() {
            figures.put_if(FIRST_ROWS_S, seen.first.map(|(_, at)| at.as_secs_f64()));
        }
        figures.put_if(SETTLED_ROWS_PER_S, seen.settled_rows_per_s());
        end.put_into(&mut figures);
        figures.put_if(figure::CLICKHOUSE_CPU_S, clickhouse.map(|usage| usage.cpu_s()));
        figures.put(figure::STATE_KEYS, seen.state_keys as f64);
        figures.put_if(figure::STATE_BYTES_PER_KEY, seen.state_bytes_per_key());
        if let Some(latency) = seen.latency {
            let names = if self.rate().is_some() { LATENCY } else { BACKLOG_AGE };
            let values = [latency.p50_s, latency.p90_s, latency.p99_s, latency.p999_s];
            names.into_iter().zip(values).for_each(|(name, value)| figures.put(name, value));
        }
        figures
    }

    fn rate(&self) -> Option<u64> {
        self.plan.rate()
    }

    /// What the journal must have counted. How many duplicates pass the filter is left to it: the table shows that each was dropped.
    fn accounts(&self, steps: Steps, expected: Content, counted: Accounts) -> Accounts {
        let read = self.plan.workload.records_total();
        let (written, duplicates) = match steps {
            Steps::None => (read, 0),
            Steps::Dedup | Steps::Other => (expected.rows, self.plan.workload.duplicates_total()),
            Steps::FilterAndDedup => (expected.rows, counted.duplicates),
        };
        Accounts { read, written, duplicates, dead_letters: 0 }
    }

    fn setting(&self, server: &Server) -> Setting {
        let workload = &self.plan.workload;
        let (records, uniques, duplicates) =
            (workload.records_total(), workload.uniques_total(), workload.duplicates_total());
        let source = match &self.plan.feed {
            Feed::Kafka { partitions, compression, .. } => {
                format!("Kafka, {partitions} partitions, batches packed by `{compression}`")
            }
            Feed::Generator { .. } => "a generator inside the engine".to_owned(),
        };
        let how = match self.rate() {
            Some(rate) => {
                format!("sent at {} records a second while the engine runs", figure::whole(rate as f64))
            }
            None if !self.plan.loads.is_empty() => {
                "an open loop at shares of the capacity; from the time at which a record is due to the first count that \
                 includes its row"
                    .to_owned()
            }
            None => "a backlog, read to its end".to_owned(),
        };
        let whole = |number: u64| figure::whole(number as f64);
        let what = format!(
            "{} records, {} distinct, {} duplicates",
            whole(records),
            whole(uniques),
            whole(duplicates)
        );
        let facts = json!({
            "records": records, "record_bytes": RECORD_BYTES_MEAN, "uniques": uniques, "duplicates": duplicates,
            "source": source, "rate": self.rate(),
            "loads": self.plan.loads, "batch_age_s": self.plan.batch_age.map(|age| age.as_secs_f64()),
        });
        let sentences = vec![what, format!("from {source}: {how}")];
        self.place.setting("glassflow", server, sentences, facts.as_object().cloned().unwrap_or_default())
    }
}

fn pipeline_text(source: &str, url: &str, table: &str, batch_age: Option<Duration>, steps: Steps) -> String {
    let steps = steps.text();
    let batch = batch_age.map_or(String::new(), |age| format!("  batch: {{ age: {}ms }}\n", age.as_millis()));
    format!(
        "source:\n  {source}\n\
         {steps}\
         columns: {{ user_name: name, user_email: email }}\n\
         sink:\n  clickhouse:\n    url: {url}\n    table: {table}\n    provenance: true\n    create:\n      columns:\n\
         \u{20}       event_id: UUID\n        user_id: UUID\n        created_at: DateTime('UTC')\n\
         \u{20}       user_name: String\n        user_email: String\n\
         \u{20}     order_by: event_id\n{batch}"
    )
}

/// What `source:` says for a topic. The run's name makes a group of its own: every run begins with an empty store, and under one
/// group the second would be taken for one whose store was lost.
fn kafka(brokers: &str, topic: &str, run: &str) -> String {
    format!("kafka: {{ brokers: '{brokers}', topic: {topic}, group: forebay-{run}, start: earliest }}")
}

#[cfg(test)]
mod tests;
