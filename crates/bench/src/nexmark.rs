//! The workload `nexmark`: queries q5, q7 and q8 over people, auctions and bids, from three topics into ClickHouse.
//!
//! Owns the topics, the runs and the figures. Does not own the pipelines, which are those of `tests/nexmark` and which a test compares row
//! by row with a batch reading; nor the events and what the tables must hold (`workloads::nexmark`), nor how Flink is run (`flink::peer`).

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::json;
use workloads::nexmark::oracle::{self, Query, Row};
use workloads::nexmark::{EVENT_BYTES_MAX, Stream, Workload};

use crate::RUN_MAX;
use crate::engine::Pipeline;
use crate::figure::{self, Figures};
use crate::flink::peer::{ARM, Flink, files};
use crate::place::{Common, Place};
use crate::report::{Arm, Check, Goal, Report, Run, Setting, Verdict, of_content};
use crate::server::Server;
use crate::topic::{Records, Sending, Take, Topic};
use crate::trace::Trace;

const JOB: &str = include_str!("../peers-flink/Nexmark.java");
/// How many times Flink's events for a CPU-second ours are to be.
const FLINK_RATIO_GOAL: f64 = 3.0;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What every workload is given.
    pub common: Common,
    /// The events.
    pub workload: Workload,
    /// The queries, each an arm.
    pub queries: Vec<Query>,
    /// `host:port`, several joined by commas.
    pub brokers: String,
    /// Partitions of each topic.
    pub partitions: u32,
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

/// The topics of people, auctions and bids.
type Topics = [Topic; 3];

/// The events of one stream, in the order of time, the partitions in turn.
struct OfStream(Workload, Stream);

impl Records for OfStream {
    fn each(&self, partitions: u32, take: &mut Take<'_>) -> anyhow::Result<()> {
        let Self(workload, stream) = self;
        let mut event = Vec::with_capacity(EVENT_BYTES_MAX);
        for (number, n) in (0..).zip(workload.numbers(*stream)) {
            event.clear();
            workload.write(n, &mut event);
            let partition = (number % u64::from(partitions)) as u32;
            take(number, Sending { partition, key: None, payload: &event })?;
        }
        Ok(())
    }
}

impl Bench<'_> {
    async fn measure(&self) -> anyhow::Result<Report> {
        let server = self.place.server().await?;
        let setting = self.setting(&server);
        let runs = self.runs(&server).await;
        server.stop().await?;
        Ok(Report::new(setting, runs?, |arms| goals(arms, self.plan)))
    }

    async fn runs(&self, server: &Server) -> anyhow::Result<Vec<Run>> {
        let flink = match self.plan.against_flink {
            true => {
                self.place.say("fetching Flink's jars, unless they are here, and compiling its job");
                Some(Flink::build(&std::path::absolute(&self.plan.common.dir)?, "Nexmark", JOB)?)
            }
            false => None,
        };
        let expected = expected(&self.plan.workload, &self.plan.queries)?;
        let mut topics = Vec::new();
        for (name, stream) in
            [("people", Stream::People), ("auctions", Stream::Auctions), ("bids", Stream::Bids)]
        {
            topics.push(self.filled(name, stream).await?);
        }
        let topics: Topics = topics.try_into().ok().context("three topics")?;
        let runs = self.each_run(server, &expected, &topics, flink.as_ref()).await;
        for topic in &topics {
            self.drop_topic(topic).await;
        }
        runs
    }

    async fn each_run(
        &self,
        server: &Server,
        expected: &[(Query, BTreeSet<Row>)],
        topics: &Topics,
        flink: Option<&Flink>,
    ) -> anyhow::Result<Vec<Run>> {
        let mut runs = Vec::new();
        for number in 1..=self.plan.common.repeat {
            for (query, rows) in expected {
                self.place.say(&format!("run {number} of {}: {}", self.plan.common.repeat, query.name()));
                let run = self.drain(number, server, *query, rows, topics).await;
                runs.push(run.with_context(|| format!("run {number} of {}", query.name()))?);
                if let Some(flink) = flink {
                    let run = self.flink(flink, number, *query, rows, topics).await;
                    runs.push(run.with_context(|| format!("run {number} of Flink, {}", query.name()))?);
                }
            }
        }
        Ok(runs)
    }

    async fn drain(
        &self,
        number: u32,
        server: &Server,
        query: Query,
        rows: &BTreeSet<Row>,
        topics: &Topics,
    ) -> anyhow::Result<Run> {
        let table = format!("{}_{}_{number}", self.place.name, query.name());
        let dir = self.place.folder(&format!("run-{}-{number}", query.name()))?;
        let names = topics.each_ref().map(Topic::name);
        let rest = pipeline_text(query, &self.plan.brokers, names, server.url(), &table);
        let pipeline = Pipeline {
            program: self.plan.common.program.clone(),
            dir,
            rest: rest + &self.plan.common.memory_line(),
            store: None,
            table: table.clone(),
        };
        let touched = self.place.touch_memory()?;
        let (end, seen) = pipeline.start(true)?.watch(None, RUN_MAX).await?;
        let until_ms = self.plan.workload.until_ms();
        let found = server.content(&query.sql(&format!("`{table}`"), until_ms)).await?;
        let read = Check {
            what: "records read by the journal's account",
            expected: self.events(query),
            found: pipeline.accounts()?.read,
        };
        let verdict = Verdict::of(of_content(oracle::content(rows), found).into_iter().chain([read]));
        self.place.drop_tables(server, &table).await?;
        let mut figures = Figures::default();
        let events = self.events(query) as f64;
        figures.put(figure::RECORDS_PER_CPU_S, events / end.usage.cpu_s());
        figures.put(figure::RECORDS_PER_S, events / end.wall.as_secs_f64());
        end.put_into(&mut figures);
        figures.put_if(figure::FIRST_TOUCH_MS, touched);
        Ok(Run { arm: query.name().to_owned(), figures, verdict, not_valid: None, trace: seen.trace })
    }

    async fn flink(
        &self,
        flink: &Flink,
        number: u32,
        query: Query,
        rows: &BTreeSet<Row>,
        topics: &Topics,
    ) -> anyhow::Result<Run> {
        let dir = self.place.folder(&format!("run-{}-{number}-flink", query.name()))?;
        let results = dir.join("results");
        let touched = self.place.touch_memory()?;
        let mut arguments = vec![query.name().to_owned(), self.plan.brokers.clone()];
        arguments.extend(topics.iter().map(|topic| topic.name().to_owned()));
        arguments.push(format!("{}-flink-{}-{number}", self.place.name, query.name()));
        arguments.extend([results.display().to_string(), crate::place::cores().to_string()]);
        let end = flink.run(&arguments, &dir).await?;
        let found = rows_of_flink(query, &results, self.plan.workload.until_ms())?;
        let verdict = Verdict::of(of_content(oracle::content(rows), oracle::content(&found)));
        let mut figures = Figures::default();
        let events = self.events(query) as f64;
        figures.put(figure::RECORDS_PER_CPU_S, events / end.usage.cpu_s());
        figures.put(figure::RECORDS_PER_S, events / end.wall.as_secs_f64());
        end.put_into(&mut figures);
        figures.put_if(figure::FIRST_TOUCH_MS, touched);
        let arm = format!("{}: {ARM}", query.name());
        Ok(Run { arm, figures, verdict, not_valid: None, trace: Trace::default() })
    }

    /// Events of the streams that a query reads.
    fn events(&self, query: Query) -> u64 {
        let of = |stream| self.plan.workload.events(stream);
        match query {
            Query::Q5 | Query::Q7 => of(Stream::Bids),
            Query::Q8 => of(Stream::People) + of(Stream::Auctions),
        }
    }

    async fn filled(&self, name: &str, stream: Stream) -> anyhow::Result<Topic> {
        let name = format!("{}_{name}", self.place.name);
        let mut topic = Topic::create(&self.plan.brokers, name, self.plan.partitions, "none").await?;
        self.place.say(&format!("filling topic `{}`", topic.name()));
        let records = OfStream(self.plan.workload.clone(), stream);
        let filling = tokio::task::spawn_blocking(move || {
            topic.filled_in = Some(topic.fill(&records)?);
            Ok(topic)
        });
        filling.await.context("the sender panicked")?
    }

    async fn drop_topic(&self, topic: &Topic) {
        if self.plan.common.keep {
            return;
        }
        if let Err(error) = topic.delete().await {
            // The measurement stands; what is left over is the broker's.
            self.place.say(&format!("topic `{}` is left over: {error:#}", topic.name()));
        }
    }

    fn setting(&self, server: &Server) -> Setting {
        let Plan { workload, partitions, .. } = self.plan;
        let spec = workload.spec();
        let of_s = Duration::from_secs(spec.events / u64::from(spec.events_per_second));
        let sentences = vec![
            format!("{} events of {} s", figure::whole(spec.events as f64), of_s.as_secs()),
            format!("from three topics of {partitions} partitions in Kafka: a backlog, read to its end"),
        ];
        let facts = json!({ "events": spec.events, "events_per_second": spec.events_per_second, "partitions": partitions });
        self.place.setting("nexmark", server, sentences, facts.as_object().cloned().unwrap_or_default())
    }
}

/// The right rows of each query: some of each, for a table without rows would be right otherwise, whatever the engine did.
fn expected(workload: &Workload, queries: &[Query]) -> anyhow::Result<Vec<(Query, BTreeSet<Row>)>> {
    let of = |query: &Query| {
        let rows = workload.rows_of(*query);
        ensure!(
            !rows.is_empty(),
            "`{}` has no row in `{}` events, so there is nothing to compare; give more `--events`, or fewer `--events-per-second`",
            query.name(),
            workload.spec().events
        );
        Ok((*query, rows))
    };
    queries.iter().map(of).collect()
}

/// The rows in the files of a folder whose window is not behind this time.
fn rows_of_flink(query: Query, folder: &Path, until_ms: u64) -> anyhow::Result<BTreeSet<Row>> {
    let mut rows = BTreeSet::new();
    for file in files(folder)? {
        let text =
            std::fs::read_to_string(&file).with_context(|| format!("cannot read `{}`", file.display()))?;
        for line in text.lines() {
            let values: Vec<&str> = line.split(',').map(|value| value.trim_matches('"')).collect();
            let (time, row) = match (query, &values[..]) {
                (Query::Q5 | Query::Q7, [end, number, ..]) => (end, format!("{end}|{number}")),
                (Query::Q8, [id, name, started]) => (started, format!("{id}|{name}|{started}")),
                _ => anyhow::bail!("`{line}` is no result"),
            };
            if time.parse::<u64>().with_context(|| format!("`{line}` is no result"))? <= until_ms {
                rows.insert(row);
            }
        }
    }
    Ok(rows)
}

fn goals(arms: &[Arm], plan: &Plan) -> Vec<Goal> {
    let rate = |name: &str| {
        let arm = arms.iter().find(|arm| arm.name == name)?;
        Some(arm.summary.get(figure::RECORDS_PER_CPU_S)?.median)
    };
    let of = |query: &Query| {
        let ratio = rate(query.name())? / rate(&format!("{}: {ARM}", query.name()))?;
        let text = format!(
            "{}: {FLINK_RATIO_GOAL} times Flink's events for a CPU-second ({ratio:.1} times)",
            query.name()
        );
        Some(Goal { text, met: Some(ratio >= FLINK_RATIO_GOAL) })
    };
    // Flink has a heap of its own, and no budget of ours.
    let is_ours = |arm: &&Arm| plan.queries.iter().any(|query| query.name() == arm.name);
    let memory = plan.common.memory_goal(arms.iter().filter(is_ours));
    plan.queries.iter().filter_map(of).chain([memory]).collect()
}

/// What the queries say of the end of their files. A topic has none.
const AT_END: &str = ", at_end => 'close'";

/// A pipeline of `tests/nexmark` over topics, without what closes windows at the end of files.
fn pipeline_text(query: Query, brokers: &str, topics: [&str; 3], url: &str, table: &str) -> String {
    let text = match query {
        Query::Q5 => include_str!("../../../tests/nexmark/q5/pipeline.yaml"),
        Query::Q7 => include_str!("../../../tests/nexmark/q7/pipeline.yaml"),
        Query::Q8 => include_str!("../../../tests/nexmark/q8/pipeline.yaml"),
    };
    let kafka = |topic: &str| {
        format!("kafka: {{ brokers: '{brokers}', topic: {topic}, group: forebay-{table}, start: earliest }}")
    };
    let [people, auctions, bids] = topics.map(kafka);
    let is_kept = |line: &&str| {
        !line.starts_with('#') && !line.starts_with("pipeline:") && !line.trim_start().starts_with("at_end:")
    };
    let text: String = text.lines().filter(is_kept).map(|line| format!("{line}\n")).collect();
    text.replace(AT_END, "")
        .replace("$PEOPLE", &people)
        .replace("$AUCTIONS", &auctions)
        .replace("$BIDS", &bids)
        .replace("$URL", url)
        .replace("$TABLE", table)
}

#[cfg(test)]
mod tests;
