//! The workload `glassflow` with a second topic: events with their actions, joined by key and time.
//!
//! Owns the two topics, the pipeline and the figures. Does not own the records (`workloads::glassflow::pairs`), nor the workload of one
//! topic (`crate::glassflow`).
//!
//! Both topics are filled first and then drained together. The join is inner; a tenth of either side has no match.

use std::time::Duration;

use anyhow::Context;
use serde_json::json;
use workloads::content::Content;
use workloads::glassflow::RECORD_BYTES_MEAN;
use workloads::glassflow::pairs::{ACTION_BYTES_MAX, ACTION_BYTES_MEAN, DELAY_S_MAX, Pairs, sql};

use super::PUBLISH_S;
use crate::RUN_MAX;
use crate::engine::{Accounts, Pipeline};
use crate::figure::{self, Figure, Figures, Shown};
use crate::place::{Common, Place};
use crate::report::{Arm, Goal, Report, Run, Setting, Verdict, of_content};
use crate::server::Server;
use crate::topic::{Records, Take, Topic};

/// Records of both topics per engine CPU-second that the release build is to reach.
const RECORDS_PER_CPU_S_GOAL: f64 = 700_000.0;
/// How far the rows of a topic are out of order at the most, and twice: publishers' streams are read side by side.
const LATENESS: Duration = Duration::from_secs(2 * DELAY_S_MAX);

const ROWS_PER_S: Figure = Figure::new("rows_per_s", "joined rows per second, start to end", Shown::Whole);
const STATE_BYTES: Figure = Figure::new("state_bytes", "state at the most, MB", Shown::Megabytes);
/// What the capacity planner takes for a row that waits.
const STATE_BYTES_PER_ROW: Figure = figure::STATE_BYTES_PER_KEY.labelled("state, bytes a row that waits");

/// The arm that is measured.
const FOREBAY: &str = "forebay";

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What every workload is given.
    pub common: Common,
    /// The records of both topics.
    pub pairs: Pairs,
    /// `host:port`, several joined by commas.
    pub brokers: String,
    /// Partitions of each topic.
    pub partitions: u32,
    /// librdkafka's word for how producers pack batches.
    pub compression: String,
    /// How far apart the times of a pair may be; at least [`DELAY_S_MAX`] seconds.
    pub within: Duration,
    /// How old a batch may get, as the pipeline file says it; its default if left out.
    pub batch_age: Option<Duration>,
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

/// The actions as they are sent: the publishers in turn, as the events are.
struct Actions(Pairs);

impl Bench<'_> {
    async fn measure(&self) -> anyhow::Result<Report> {
        let server = self.place.server().await?;
        let setting = self.setting(&server);
        let runs = self.runs(&server).await;
        server.stop().await?;
        Ok(Report::new(setting, runs?, |arms| goals(arms, &self.plan.common)))
    }

    async fn runs(&self, server: &Server) -> anyhow::Result<Vec<Run>> {
        let expected = self.plan.pairs.expected();
        let events = self.filled("events", self.plan.pairs.events().clone()).await?;
        let actions = match self.filled("actions", Actions(self.plan.pairs.clone())).await {
            Ok(actions) => actions,
            Err(error) => {
                self.drop_topic(&events).await;
                return Err(error);
            }
        };
        let mut runs = Vec::new();
        for number in 1..=self.plan.common.repeat {
            self.place.say(&format!("run {number} of {}", self.plan.common.repeat));
            let run = self.drain(number, server, expected, [&events, &actions]).await;
            runs.push(run.with_context(|| format!("run {number}")));
            if runs.last().is_some_and(Result::is_err) {
                break;
            }
        }
        // Topics of its own are of no use to anybody else, whatever became of the runs.
        self.drop_topic(&events).await;
        self.drop_topic(&actions).await;
        runs.into_iter().collect()
    }

    async fn drain(
        &self,
        number: u32,
        server: &Server,
        expected: Content,
        topics: [&Topic; 2],
    ) -> anyhow::Result<Run> {
        let table = format!("{}_{number}", self.place.name);
        let dir = self.place.folder(&format!("run-{number}"))?;
        let rest = pipeline_text(self.plan, server.url(), &table, topics.map(Topic::name));
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
        let found = server.content(&sql(&format!("`{table}`"))).await?;
        let read = self.plan.pairs.records_total();
        let accounts = Accounts { read, written: expected.rows, ..Accounts::default() };
        let checks = of_content(expected, found).into_iter().chain(pipeline.accounts()?.checks(accounts));
        let verdict = Verdict::of(checks);
        self.place.drop_tables(server, &table).await?;

        let wall_s = end.wall.as_secs_f64();
        let mut figures = Figures::default();
        figures.put(figure::RECORDS_PER_CPU_S, read as f64 / end.usage.cpu_s());
        figures.put(figure::RECORDS_PER_S, read as f64 / wall_s);
        figures.put(ROWS_PER_S, expected.rows as f64 / wall_s);
        end.put_into(&mut figures);
        figures.put(STATE_BYTES, seen.state_bytes as f64);
        figures.put_if(STATE_BYTES_PER_ROW, seen.state_bytes_per_key());
        figures.put_if(figure::CLICKHOUSE_CPU_S, clickhouse.map(|usage| usage.cpu_s()));
        let filled = topics.iter().map(|topic| topic.filled_in).sum::<Option<Duration>>();
        figures.put_if(PUBLISH_S, filled.map(|filled| filled.as_secs_f64()));
        figures.put_if(figure::FIRST_TOUCH_MS, touched);
        Ok(Run { arm: FOREBAY.to_owned(), figures, verdict, not_valid: None, trace: seen.trace })
    }

    /// A topic with all records of one side.
    async fn filled(&self, side: &str, records: impl Records + Send + 'static) -> anyhow::Result<Topic> {
        let name = format!("{}_{side}", self.place.name);
        let Plan { brokers, partitions, compression, .. } = self.plan;
        let mut topic = Topic::create(brokers, name, *partitions, compression).await?;
        self.place.say(&format!("filling topic `{}`", topic.name()));
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
        let Plan { pairs, partitions, compression, within, batch_age, .. } = self.plan;
        let each = pairs.events().uniques_total();
        let sentences = vec![
            format!(
                "{} events and as many actions, joined by their id within {} s; a tenth of either side has no match",
                figure::whole(each as f64),
                within.as_secs_f64()
            ),
            format!(
                "from two topics of {partitions} partitions in Kafka, batches packed by `{compression}`: a backlog, read to its end"
            ),
        ];
        let facts = json!({
            "records": pairs.records_total(), "record_bytes": (RECORD_BYTES_MEAN + ACTION_BYTES_MEAN) / 2, "events": each, "within_s": within.as_secs_f64(),
            "batch_age_s": batch_age.map(|age| age.as_secs_f64()),
        });
        self.place.setting("glassflow", server, sentences, facts.as_object().cloned().unwrap_or_default())
    }
}

impl Records for Actions {
    fn each(&self, partitions: u32, take: &mut Take<'_>) -> anyhow::Result<()> {
        let Self(pairs) = self;
        let spec = pairs.events().spec();
        let mut action = Vec::with_capacity(ACTION_BYTES_MAX);
        let mut number = 0;
        for ordinal in 0..spec.uniques {
            for publisher in 0..spec.publishers {
                action.clear();
                pairs.write_action(publisher, ordinal, &mut action);
                take(number, super::feed::sending(partitions, number, &action))?;
                number += 1;
            }
        }
        Ok(())
    }
}

fn goals(arms: &[Arm], common: &Common) -> Vec<Goal> {
    let of = |figure| arms.first().and_then(|arm| arm.summary.get(figure));
    let rate = of(figure::RECORDS_PER_CPU_S).map(|rate| rate.median >= RECORDS_PER_CPU_S_GOAL);
    let text = format!("{} records per engine CPU-second", figure::whole(RECORDS_PER_CPU_S_GOAL));
    vec![Goal { text, met: rate }, common.memory_goal(arms)]
}

fn pipeline_text(plan: &Plan, url: &str, table: &str, [events, actions]: [&str; 2]) -> String {
    let Plan { brokers, within, batch_age, .. } = plan;
    let batch = batch_age.map_or(String::new(), |age| format!("  batch: {{ age: {}ms }}\n", age.as_millis()));
    // The run's name makes a group of its own: every run begins with an empty store, and under one group the second would be
    // taken for one whose store was lost.
    let kafka = |topic: &str| {
        format!(
            "    kafka: {{ brokers: '{brokers}', topic: {topic}, group: forebay-{table}, start: earliest }}\n"
        )
    };
    format!(
        "inputs:\n  events:\n{}    fields: {{ event_id: UUID, user_id: UUID, created_at: DateTime('UTC'), name: String, \
         email: String }}\n    time: created_at\n  actions:\n{}    fields: {{ action_id: UUID, event_id: UUID, page: String, \
         duration_ms: UInt32, acted_at: DateTime('UTC') }}\n    time: acted_at\n\
         steps:\n  - join:\n      left: events\n      right: actions\n      on: [event_id]\n      within: {}s\n      \
         lateness: {}s\n      memory: 4GiB\n\
         columns: {{ user_name: name, user_email: email }}\n\
         sink:\n  clickhouse:\n    url: {url}\n    table: {table}\n    provenance: true\n    create:\n      columns:\n\
         \u{20}       event_id: UUID\n        user_id: UUID\n        created_at: DateTime('UTC')\n\
         \u{20}       user_name: String\n        user_email: String\n        action_id: UUID\n        page: String\n\
         \u{20}       duration_ms: UInt32\n        acted_at: DateTime('UTC')\n\
         \u{20}     order_by: event_id\n{batch}",
        kafka(events),
        kafka(actions),
        within.as_secs(),
        LATENESS.as_secs(),
    )
}

#[cfg(test)]
mod tests {
    use pipeline::config::values::Size;
    use workloads::glassflow::{Spec, Workload};

    use super::*;
    use crate::engine::no_fault;
    use crate::topic::Sending;

    fn plan() -> Plan {
        let workload = Workload::new(Spec { uniques: 50, ..Spec::default() }).expect("valid");
        Plan {
            common: Common {
                clickhouse: None,
                repeat: 1,
                dir: "bench".into(),
                keep: false,
                memory: None,
                program: None,
                touch: Size::mib(0),
            },
            pairs: Pairs::new(&workload).expect("valid"),
            brokers: "127.0.0.1:9092".to_owned(),
            partitions: 3,
            compression: "none".to_owned(),
            within: Duration::from_secs(60),
            batch_age: None,
        }
    }

    #[test]
    fn the_pipeline_file_has_no_fault() {
        for batch_age in [None, Some(Duration::from_millis(200))] {
            let plan = Plan { batch_age, ..plan() };
            no_fault(pipeline_text(&plan, "http://127.0.0.1:8123", "bench_1", ["events", "actions"]));
        }
    }

    #[test]
    fn every_action_is_sent_once_with_its_number() {
        let mut sent: Vec<(u64, u32)> = Vec::new();
        let all = Actions(plan().pairs).each(3, &mut |number, Sending { partition, payload, .. }| {
            assert!(payload.starts_with(b"{\"action_id\""));
            sent.push((number, partition));
            Ok(())
        });
        all.expect("taken");
        assert!(sent.iter().copied().eq((0..100).map(|number| (number, (number % 3) as u32))), "{sent:?}");
    }
}
