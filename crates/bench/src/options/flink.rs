//! The options of `forebay bench flink`.
//!
//! Owns which flags exclude each other, the choice between Kafka and Pulsar, and the numbers that follow from the length of a window
//! (disorder, start). Does not own the number of readings at a pace (`flink::live`), the records (`workloads::flink`) or the measurement
//! (`crate::flink`).

use std::time::Duration;

use clap::Args;
use pipeline::config::values::Size;
use workloads::flink::{Spec, Workload};

use super::{Print, Shared, runtime, say};
use crate::flink::{self, Feed, Plan};

/// Aggregates Avro readings from a topic by sensor and window of event time.
#[derive(Debug, Args)]
#[command(
    long_about = "\
Aggregates Avro readings from a topic by sensor and window of event time into ClickHouse: a count, and sum, least, greatest and \
mean of four metrics. Reports messages per CPU-second of the engine, wall rates, memory and bytes of state, and compares every \
result with the right one, to the last bit.

A backlog is written to a topic first and then drained; with --rate the messages are sent at that pace while the engine runs, and \
latency is from the end of a window, and its lateness, to the first SELECT that sees a result. The published size is 100,000 sensors and windows of a minute with 600 \
readings of each sensor: 60 million messages a window. By default, 2,000 sensors and windows of 6 s keep that ratio.",
    after_help = "\
Examples:
  forebay bench flink --brokers localhost:9092
  forebay bench flink --brokers localhost:9092 --sensors 100000 --window-ms 60000 --readings 100 --windows 2
  forebay bench flink --brokers localhost:9092 --rate 100000 --windows 5 --batch-age-ms 200
  forebay bench flink --pulsar pulsar://localhost:6650 --pulsar-topic readings
  forebay bench flink --pulsar pulsar://localhost:6650 --pulsar-topic readings --rate 100000 --windows 5
  forebay bench flink --brokers localhost:9092 --against flink                  # needs Maven and Java 17
  forebay bench flink --brokers localhost:9092 --windows 3 --repeat 1 --json > report.json

Ends with code 1 when a result is wrong or missing."
)]
pub struct Flink {
    /// Sensors, which are the keys.
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    sensors: u32,

    /// The length of a window, in milliseconds; at least a second.
    #[arg(long, value_name = "MS", default_value_t = 6_000, value_parser = clap::value_parser!(u32).range(1_000..=86_400_000))]
    window_ms: u32,

    /// Windows that close. A quarter of one more is sent, so that the last one does.
    #[arg(long, value_name = "N", default_value_t = 10)]
    windows: u32,

    /// Readings of each sensor in a window, in the mean.
    #[arg(long, value_name = "N", default_value_t = 600)]
    readings: u32,

    /// How far records are out of order, in milliseconds; windows wait as long. A sixtieth of the window if left out.
    #[arg(long, value_name = "MS")]
    disorder_ms: Option<u32>,

    /// The same seed gives the same records.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Brokers to contact first, as `host:port`, separated by commas.
    #[arg(long, value_name = "BROKERS", env = "FOREBAY_BROKERS", required_unless_present = "pulsar")]
    brokers: Option<String>,

    /// Reads from this Pulsar in place of Kafka, as `pulsar://host:port`.
    #[arg(long, value_name = "URL", env = "FOREBAY_PULSAR", requires = "pulsar_topic", conflicts_with_all = ["brokers", "against"])]
    pulsar: Option<String>,

    /// With --pulsar: an empty topic with as many partitions as --partitions says, and with a subscription, so that messages are kept. With
    /// --rate each run reads what is sent after its start.
    #[arg(long, value_name = "TOPIC", env = "FOREBAY_PULSAR_TOPIC")]
    pulsar_topic: Option<String>,

    /// Partitions of the topic, which is created for this measurement. A sensor's records are in one of them.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1024))]
    partitions: u32,

    /// How the producer packs batches in the topic.
    #[arg(long, value_name = "CODEC", default_value = "none", value_parser = ["none", "gzip", "snappy", "lz4", "zstd"])]
    topic_compression: String,

    /// Sends about this many messages a second while the engine runs, instead of filling the topic first: `--readings` follows from it, and
    /// event times are those of the clock. The latency of results is measured.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000), conflicts_with = "readings")]
    rate: Option<u64>,

    /// Also drains the same backlog with Flink SQL, in alternation, into files; Maven and Java 17 fetch and compile it on this machine.
    #[arg(long, value_name = "PEER", value_parser = ["flink"], conflicts_with = "rate")]
    against: Option<String>,

    /// The maximum age of a batch, in milliseconds; the pipeline's default if left out.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(10..=600_000))]
    batch_age_ms: Option<u64>,

    /// The pipeline's `memory`, such as `256MiB`; its default if left out.
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,

    #[command(flatten)]
    shared: Shared,
}

impl Flink {
    /// Runs the command; true if every table was right.
    ///
    /// # Errors
    /// When a part does not start or the engine fails.
    pub fn execute(&self, print: Print) -> anyhow::Result<bool> {
        let report = runtime()?.block_on(flink::measure(&self.plan()?, &say))?;
        self.shared.show(&report, print)
    }

    fn plan(&self) -> anyhow::Result<Plan> {
        if self.against.is_some() && !self.window_ms.is_multiple_of(1_000) {
            anyhow::bail!(
                "`--against flink` needs windows of whole seconds: `--window-ms` is `{}`",
                self.window_ms
            );
        }
        Ok(Plan {
            common: self.shared.common(self.memory),
            workload: Workload::new(match self.rate {
                Some(rate) => flink::live::at_rate(&self.spec(), rate),
                None => self.spec(),
            })?,
            feed: match (&self.pulsar, &self.pulsar_topic, &self.brokers) {
                (Some(service), Some(topic), _) => {
                    Feed::Pulsar { service: service.clone(), topic: topic.clone() }
                }
                (_, _, Some(brokers)) => Feed::Kafka(brokers.clone()),
                (_, _, None) => anyhow::bail!("give `--brokers`, or `--pulsar` and `--pulsar-topic`"),
            },
            partitions: self.partitions,
            compression: self.topic_compression.clone(),
            batch_age: self.batch_age_ms.map(Duration::from_millis),
            rate: self.rate,
            against_flink: self.against.is_some(),
        })
    }

    fn spec(&self) -> Spec {
        let Self { seed, sensors, window_ms, windows, readings, .. } = *self;
        let start_time_ms = Spec::default().start_time_ms;
        Spec {
            seed,
            sensors,
            window_ms,
            windows,
            readings,
            disorder_ms: self.disorder_ms.unwrap_or(window_ms / 60),
            start_time_ms: start_time_ms - start_time_ms % i64::from(window_ms),
        }
    }
}
