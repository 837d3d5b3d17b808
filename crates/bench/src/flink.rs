//! The workload `flink`: Avro readings from a topic, aggregated by sensor and window of event time, into ClickHouse.
//!
//! Owns its topic, its runs and its figures. Does not own the records and what the table must hold (`workloads::flink`), nor the text of
//! its pipeline (`flink::pipeline`).
//!
//! | module    | what it owns                                                        |
//! |-----------|---------------------------------------------------------------------|
//! | `feed`    | the records as they are sent                                        |
//! | `live`    | the load at a pace, and the latency of results under it             |
//! | `peer`    | Flink SQL over the same backlog                                     |
//! | `pipeline` | the text of the pipeline file, for each feed                       |

mod feed;
pub mod live;
pub(crate) mod peer;
mod pipeline;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::json;
use workloads::content::Content;
use workloads::flink::{RECORD_BYTES_MEAN, SCHEMA, Workload, oracle};

use super::engine::{Accounts, Pipeline, Seen};
use super::figure::{Figure, Figures, Shown};
use super::place::{Common, Place};
use super::pulsar_topic::PulsarTopic;
use super::report::{Arm, Goal, Report, Run, Setting, Verdict, of_content};
use super::server::Server;
use super::topic::{Pace, Sent, Topic};
use super::{RUN_MAX, child, figure};
use peer::Flink;
use pipeline::{kafka, pipeline_text, pulsar};

/// Messages per engine CPU-second that the release build is to reach from a backlog.
const RECORDS_PER_CPU_S_GOAL: f64 = 2_500_000.0;

/// The same from Pulsar.
const RECORDS_PER_CPU_S_GOAL_PULSAR: f64 = 1_000_000.0;

/// Bytes of state that a pair of a sensor and an open window may take, with a count and sum, least, greatest and mean of four metrics: 96 for
/// those of two, and 24 for each of the others.
const STATE_BYTES_GOAL: f64 = 144.0;

/// Of the original's report: messages by the second and the processors of the machine, whoever used them.
const RECORDS_PER_S_AND_CORE: Figure =
    Figure::new("records_per_s_per_core", "messages per second and core of the machine", Shown::Whole);

/// Of the original's report: what is left for the database to do.
const ROWS_PER_S: Figure =
    Figure::new("rows_per_s", "rows per second that ClickHouse received", Shown::Whole);

const PUBLISH_S: Figure =
    Figure::new("publish_s", "time in which the messages were sent, s", Shown::Decimals(2));

const FIRST_ROWS_S: Figure =
    Figure::new("first_rows_s", "from the start to the first results in the table, s", Shown::Decimals(2));

const STATE_BYTES: Figure =
    Figure::new("state_bytes_max", "state of open windows at the most, MB", Shown::Megabytes);

const SEALS: Figure = Figure::new("seals", "seals, which are Flink's checkpoints", Shown::Whole);

const SEAL_P50_S: Figure = Figure::new("seal_p50_s", "  duration, p50, s", Shown::Decimals(3));

const SEAL_P99_S: Figure = Figure::new("seal_p99_s", "  duration, p99, s", Shown::Decimals(3));

const BACKPRESSURE: Figure =
    Figure::new("backpressure_share", "share of the time under back-pressure", Shown::Percent);

/// The stages, by the engine's words for them.
const STAGES: [(&str, Figure); 6] = [
    ("fetch", Figure::new("fetch_cpu_s", "CPU: fetch, s", Shown::Decimals(2))),
    ("decode", Figure::new("decode_cpu_s", "CPU: decode, s", Shown::Decimals(2))),
    ("aggregate", Figure::new("aggregate_cpu_s", "CPU: aggregate, s", Shown::Decimals(2))),
    ("steps", Figure::new("merge_cpu_s", "CPU: merge, s", Shown::Decimals(2))),
    ("emit", Figure::new("emit_cpu_s", "CPU: emit, s", Shown::Decimals(2))),
    ("seal", Figure::new("seal_cpu_s", "CPU: seal, s", Shown::Decimals(2))),
];

/// How much later than the batch's age a result may be, 99 times of 100.
const P99_S_GOAL: f64 = 1.0;

/// The age of a batch where the plan says none: the pipeline's default.
const BATCH_AGE: Duration = Duration::from_secs(1);

/// The arm that is measured.
const FOREBAY: &str = "forebay";

/// From where the engine reads.
#[derive(Clone, Debug)]
pub enum Feed {
    /// A topic of its own on these brokers: `host:port`, several joined by commas.
    Kafka(String),
    /// This empty topic of a Pulsar, which has the plan's partitions and whose messages are kept by a subscription.
    Pulsar {
        /// `pulsar://host:port`.
        service: String,
        /// Its name.
        topic: String,
    },
}

/// A topic of either kind, empty or filled.
#[derive(Clone)]
enum AnyTopic {
    /// With the brokers.
    Kafka(String, Topic),
    Pulsar(PulsarTopic),
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
    /// Partitions of the topic.
    pub partitions: u32,
    /// librdkafka's word for how producers pack batches.
    pub compression: String,
    /// How old a batch may get, as the pipeline file says it; its default if left out.
    pub batch_age: Option<Duration>,
    /// Messages a second that are sent while the engine runs, which the workload's readings follow; `None` fills the topic first.
    pub rate: Option<u64>,
    /// Flink SQL drains the same backlog, in turns.
    pub against_flink: bool,
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

impl AnyTopic {
    fn filled_in(&self) -> Option<Duration> {
        match self {
            Self::Kafka(_, topic) => topic.filled_in,
            Self::Pulsar(topic) => topic.filled_in,
        }
    }

    /// Sends every record as fast as the brokers take them. Blocks.
    fn fill(&mut self, records: &Workload) -> anyhow::Result<()> {
        match self {
            Self::Kafka(_, topic) => topic.filled_in = Some(topic.fill(records)?),
            Self::Pulsar(topic) => topic.filled_in = Some(topic.fill(records)?),
        }
        Ok(())
    }

    /// Sends every record at a pace. Blocks.
    fn send(&self, records: &Workload, pace: Pace) -> anyhow::Result<Sent> {
        match self {
            Self::Kafka(_, topic) => topic.send(records, pace),
            Self::Pulsar(topic) => topic.send(records, pace),
        }
    }

    /// What `source:` says. A topic of Kafka is the run's or the backlog's own, so that it is read from its beginning in any case.
    fn source(&self, run: &str, schema: &Path, start: &str) -> String {
        match self {
            Self::Kafka(brokers, topic) => kafka(brokers, topic.name(), run, schema),
            Self::Pulsar(topic) => pulsar(topic, run, schema, start),
        }
    }
}

impl Bench<'_> {
    async fn measure(&self) -> anyhow::Result<Report> {
        let server = self.place.server().await?;
        let schema = self.place.dir.join("readings.avsc");
        std::fs::write(&schema, SCHEMA).with_context(|| format!("cannot write `{}`", schema.display()))?;
        let setting = self.setting(&server);
        let runs = match self.plan.rate {
            Some(_) => self.lives(&server, &schema).await,
            None => self.backlog(&server, &schema).await,
        };
        server.stop().await?;
        Ok(Report::new(setting, runs?, |arms| goals(arms, self.plan)))
    }

    /// The whole workload at its pace, so many times.
    async fn lives(&self, server: &Server, schema: &Path) -> anyhow::Result<Vec<Run>> {
        let mut runs = Vec::new();
        for number in 1..=self.plan.common.repeat {
            self.place.say(&format!("run {number} of {}", self.plan.common.repeat));
            let run = self.live(number, server, schema).await;
            runs.push(run.with_context(|| format!("run {number}"))?);
        }
        Ok(runs)
    }

    /// Drains one topic, which is filled before, so many times.
    async fn backlog(&self, server: &Server, schema: &Path) -> anyhow::Result<Vec<Run>> {
        self.place.say("computing what the table must hold");
        let expected = self.plan.workload.expected();
        let flink = match self.plan.against_flink {
            true => {
                self.place.say("fetching Flink's jars, unless they are here, and compiling its job");
                Some(Flink::windows(&std::path::absolute(&self.plan.common.dir)?)?)
            }
            false => None,
        };
        let topic = self.filled(&self.place.name).await?;
        let runs = self.each_run(server, expected, schema, &topic, flink.as_ref()).await;
        self.drop_topic(&topic).await;
        runs
    }

    async fn each_run(
        &self,
        server: &Server,
        expected: Content,
        schema: &Path,
        topic: &AnyTopic,
        flink: Option<&Flink>,
    ) -> anyhow::Result<Vec<Run>> {
        let mut runs = Vec::new();
        for number in 1..=self.plan.common.repeat {
            self.place.say(&format!("run {number} of {}", self.plan.common.repeat));
            let run = self.drain(number, server, expected, schema, topic).await;
            runs.push(run.with_context(|| format!("run {number}"))?);
            if let (Some(flink), AnyTopic::Kafka(_, topic)) = (flink, topic) {
                self.place.say(&format!("run {number} of {}: Flink", self.plan.common.repeat));
                let run = self.flink(flink, number, expected, topic).await;
                runs.push(run.with_context(|| format!("run {number} of Flink"))?);
            }
        }
        Ok(runs)
    }

    async fn drain(
        &self,
        number: u32,
        server: &Server,
        expected: Content,
        schema: &Path,
        topic: &AnyTopic,
    ) -> anyhow::Result<Run> {
        let table = format!("{}_{number}", self.place.name);
        let dir = self.place.folder(&format!("run-{number}"))?;
        let source = topic.source(&table, schema, "earliest");
        let rest = pipeline_text(&source, server.url(), &table, &self.plan.workload, self.plan.batch_age);
        let pipeline = Pipeline {
            program: self.plan.common.program.clone(),
            dir,
            rest: rest + &self.plan.common.memory_line(),
            store: None,
            table: table.clone(),
        };
        let touched = self.place.touch_memory()?;
        let before = server.usage()?;
        let (end, seen) = pipeline.start(true)?.watch(None, RUN_MAX).await?;
        let clickhouse = server.usage()?.zip(before).map(|(after, before)| after.since(before));
        let verdict = self.verdict(&pipeline, server, &self.plan.workload, expected).await?;
        self.place.drop_tables(server, &table).await?;

        let mut figures = self.figures(&end, &seen, expected);
        figures.put_if(figure::CLICKHOUSE_CPU_S, clickhouse.map(|usage| usage.cpu_s()));
        figures.put_if(PUBLISH_S, topic.filled_in().map(|filled| filled.as_secs_f64()));
        figures.put_if(figure::FIRST_TOUCH_MS, touched);
        Ok(Run { arm: FOREBAY.to_owned(), figures, verdict, not_valid: None, trace: seen.trace })
    }

    /// That every result is in the table and right to the last bit, and that the journal has counted every record: all of them where the topic was
    /// read to its end.
    async fn verdict(
        &self,
        pipeline: &Pipeline,
        server: &Server,
        workload: &Workload,
        expected: Content,
    ) -> anyhow::Result<Verdict> {
        let found = server.content(&oracle::sql(&format!("`{}`", pipeline.table))).await?;
        let counted = pipeline.accounts()?;
        // A load ends with the last result, before what follows the last window is read.
        let read = if self.plan.rate.is_some() { counted.read } else { workload.records_total() };
        let accounts = Accounts { read, written: expected.rows, ..Accounts::default() };
        Ok(Verdict::of(of_content(expected, found).into_iter().chain(counted.checks(accounts))))
    }

    fn figures(&self, end: &child::End, seen: &Seen, expected: Content) -> Figures {
        let (records, wall_s) = (self.plan.workload.records_total() as f64, end.wall.as_secs_f64());
        let mut figures = Figures::default();
        figures.put(figure::RECORDS_PER_CPU_S, records / end.usage.cpu_s());
        figures.put(figure::RECORDS_PER_S, records / wall_s);
        figures.put(RECORDS_PER_S_AND_CORE, records / wall_s / super::place::cores() as f64);
        figures.put(ROWS_PER_S, expected.rows as f64 / wall_s);
        figures.put_if(FIRST_ROWS_S, seen.first.map(|(_, at)| at.as_secs_f64()));
        end.put_into(&mut figures);
        self.put_state(seen, end.wall, &mut figures);
        figures
    }

    /// What the original's dashboards show beside the rates: state, checkpoints and back-pressure.
    fn put_state(&self, seen: &Seen, wall: Duration, figures: &mut Figures) {
        figures.put(figure::STATE_KEYS, seen.state_keys as f64);
        figures.put(STATE_BYTES, seen.state_bytes as f64);
        figures.put_if(figure::STATE_BYTES_PER_KEY, seen.state_bytes_per_key());
        if let Some(seals) = seen.seals {
            figures.put(SEALS, seals.samples as f64);
            figures.put(SEAL_P50_S, seals.p50_s);
            figures.put(SEAL_P99_S, seals.p99_s);
        }
        let share = |waited_s: f64| waited_s / wall.as_secs_f64();
        figures.put_if(BACKPRESSURE, seen.backpressure_s.map(share));
        for (stage, figure) in STAGES {
            figures.put_if(figure, seen.trace.stages.get(stage).copied());
        }
    }

    fn brokers(&self) -> anyhow::Result<&str> {
        match &self.plan.feed {
            Feed::Kafka(brokers) => Ok(brokers),
            Feed::Pulsar { .. } => bail!("Flink reads from Kafka alone"),
        }
    }

    /// An empty topic of this name; of Pulsar, the one that the plan names.
    async fn topic(&self, name: &str) -> anyhow::Result<AnyTopic> {
        let Plan { feed, partitions, compression, .. } = self.plan;
        Ok(match feed {
            Feed::Kafka(brokers) => {
                let topic = Topic::create(brokers, name.to_owned(), *partitions, compression).await?;
                AnyTopic::Kafka(brokers.clone(), topic)
            }
            Feed::Pulsar { service, topic } => {
                AnyTopic::Pulsar(PulsarTopic::new(service, topic, *partitions, compression)?)
            }
        })
    }

    /// A topic with all records.
    async fn filled(&self, name: &str) -> anyhow::Result<AnyTopic> {
        let workload = self.plan.workload.clone();
        let messages = figure::whole(workload.records_total() as f64);
        self.place.say(&format!("filling a topic with {messages} messages"));
        let mut topic = self.topic(name).await?;
        let filling = tokio::task::spawn_blocking(move || topic.fill(&workload).map(|()| topic));
        filling.await.context("the sender panicked")?
    }

    /// Deletes a topic that was made for this benchmark: it is of no use to anybody else, whatever became of the runs.
    async fn drop_topic(&self, topic: &AnyTopic) {
        let AnyTopic::Kafka(_, topic) = topic else { return };
        if self.plan.common.keep {
            return;
        }
        if let Err(error) = topic.delete().await {
            // The measurement stands; what is left over is the broker's.
            self.place.say(&format!("topic `{}` is left over: {error:#}", topic.name()));
        }
    }

    fn setting(&self, server: &Server) -> Setting {
        let Plan { workload, partitions, compression, batch_age, rate, .. } = self.plan;
        let spec = workload.spec();
        let whole = |number: u64| figure::whole(number as f64);
        let sentences = vec![
            format!(
                "{} messages of {} sensors, {} windows of {} s with {} readings of each sensor",
                whole(workload.records_total()),
                whole(spec.sensors.into()),
                spec.windows,
                f64::from(spec.window_ms) / 1e3,
                whole(spec.readings.into())
            ),
            format!(
                "from {}, {partitions} partitions by the sensor, batches packed by `{compression}`: {}",
                match self.plan.feed {
                    Feed::Kafka(_) => "Kafka",
                    Feed::Pulsar { .. } => "Pulsar",
                },
                match rate {
                    Some(rate) =>
                        format!("sent at about {} messages a second while the engine runs", whole(*rate)),
                    None => "a backlog, read to its end".to_owned(),
                }
            ),
        ];
        let facts = json!({
            "records": workload.records_total(), "record_bytes": RECORD_BYTES_MEAN, "sensors": spec.sensors, "windows": spec.windows,
            "window_ms": spec.window_ms, "readings": spec.readings, "disorder_ms": spec.disorder_ms,
            "partitions": partitions, "rate": rate, "pulsar": matches!(self.plan.feed, Feed::Pulsar { .. }), "batch_age_s": batch_age.map(|age| age.as_secs_f64()),
        });
        self.place.setting("flink", server, sentences, facts.as_object().cloned().unwrap_or_default())
    }
}

fn goals(arms: &[Arm], plan: &Plan) -> Vec<Goal> {
    let of = |figure| arms.first().and_then(|arm| arm.summary.get(figure));
    let first = match plan.rate {
        None => {
            let least = match plan.feed {
                Feed::Kafka(_) => RECORDS_PER_CPU_S_GOAL,
                Feed::Pulsar { .. } => RECORDS_PER_CPU_S_GOAL_PULSAR,
            };
            Goal {
                text: format!("{} messages per engine CPU-second", figure::whole(least)),
                met: of(figure::RECORDS_PER_CPU_S).map(|rate| rate.median >= least),
            }
        }
        Some(_) => {
            let age_s = plan.batch_age.unwrap_or(BATCH_AGE).as_secs_f64();
            Goal {
                text: format!(
                    "99 of 100 results visible within {P99_S_GOAL} s and the batch's age of {age_s} s of their window's end and lateness"
                ),
                met: of(live::LATENCY_P99).map(|p99_s| p99_s.median < P99_S_GOAL + age_s),
            }
        }
    };
    vec![
        first,
        Goal {
            text: format!(
                "state up to {STATE_BYTES_GOAL} bytes for each pair of a sensor and an open window"
            ),
            met: of(figure::STATE_BYTES_PER_KEY).map(|bytes| bytes.median <= STATE_BYTES_GOAL),
        },
        // The budget is ours alone.
        plan.common.memory_goal(&arms[..arms.len().min(1)]),
    ]
}

#[cfg(test)]
mod tests;
