//! The options of `forebay bench glassflow`.
//!
//! Owns the sizes of the published sweep, and which feeds, loads and arms go together. Does not own the counts of records
//! (`options::shape`), the measurements (`crate::glassflow`, `glassflow::joined`), nor the columns of `--format` (`glassflow::csv`).

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use pipeline::config::values::Size;
use workloads::glassflow::pairs::{DELAY_S_MAX, Pairs};

use super::{Print, Shape, Shared, runtime, say};
use crate::glassflow::{self, Feed, Plan, csv, joined};
use crate::peer::Peer;
use crate::report::Report;

/// How old a batch gets at the most while latency is measured.
const LOAD_BATCH_AGE_MS: u64 = 200;

/// Deduplicates events from a topic into ClickHouse.
#[derive(Debug, Args)]
#[command(
    long_about = "\
Deduplicates events from a topic into ClickHouse: records per CPU-second of the engine, wall rates, memory, bytes of state a \
key, latencies.

A backlog (no --rate) is written to a topic first and then drained; with --rate the records are sent at that pace while the \
engine runs. The engine's own latencies end with the answer to an insert, and those of a backlog are its age.

With --load the records are sent at shares of the capacity as an open loop, and a latency is from the time at which a record \
was due to the first SELECT that sees it.

With --join a second topic has an action for each event, and the two are joined by their id and time in place of being \
deduplicated; a tenth of either side has no match. With --sweep either is measured for 2 to 12 publishers and 5 to 20 million \
distinct records, as was published.",
    after_help = "\
Examples:
  forebay bench glassflow --brokers localhost:9092
  forebay bench glassflow --brokers localhost:9092 --rate 50000 --repeat 1
  forebay bench glassflow --brokers localhost:9092 --load 50%,80% --html latency.html
  forebay bench glassflow --brokers localhost:9092 --load 50% --capacity 400000 --batch-age-ms 1000
  forebay bench glassflow --source generator --uniques 200000 --repeat 1
  forebay bench glassflow --brokers localhost:9092 --against franz-go     # needs Go
  forebay bench glassflow --brokers localhost:9092 --without-dedup        # what deduplication costs
  forebay bench glassflow --brokers localhost:9092 --format glassflow-csv > results.csv
  forebay bench glassflow --brokers localhost:9092 --join --within 60
  forebay bench glassflow --brokers localhost:9092 --join --sweep 10% --repeat 1 --format glassflow-csv > sweep.csv
  forebay bench glassflow --brokers localhost:9092 --json > report.json

Ends with code 1 when a table is wrong."
)]
pub struct Glassflow {
    #[command(flatten)]
    shape: Shape,

    /// Where the engine reads from.
    #[arg(long, value_enum, default_value_t = From::Kafka)]
    source: From,

    /// Brokers to contact first, as `host:port`, separated by commas.
    #[arg(long, value_name = "BROKERS", env = "FOREBAY_BROKERS", required_if_eq("source", "kafka"))]
    brokers: Option<String>,

    /// Partitions of the topic, which is created for this measurement.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1024))]
    partitions: u32,

    /// How the producer packs batches in the topic.
    #[arg(long, value_name = "CODEC", default_value = "none", value_parser = ["none", "gzip", "snappy", "lz4", "zstd"])]
    topic_compression: String,

    /// Sends this many records a second while the engine runs, instead of filling the topic first.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    rate: Option<u64>,

    /// Measures latency at these shares of the capacity, such as `50%,80%`: sends records at that rate and measures when a SELECT first
    /// returns them.
    #[arg(long, value_name = "SHARES", value_delimiter = ',', value_parser = share, conflicts_with = "rate")]
    load: Vec<f64>,

    /// The capacity, in records a second. Without it, the benchmark drains a backlog and then searches, with six short loads, for the
    /// highest rate below that drain's which the machine sustains with the sender running.
    #[arg(long, value_name = "N", requires = "load", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    capacity: Option<u64>,

    /// The maximum age of a batch, in milliseconds. Default: 200 under a load, else the pipeline's default.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    batch_age_ms: Option<u64>,

    /// Also drains the same backlog with a peer program, in alternation; it is built with Go on this machine.
    #[arg(long, value_name = "PEER", value_parser = [Peer::FranzGo.name()], conflicts_with_all = ["rate", "load"])]
    against: Option<String>,

    /// Also drains the same backlog without the `dedup` step, in alternation, to show what deduplication costs.
    #[arg(long, conflicts_with_all = ["rate", "load"])]
    without_dedup: bool,

    /// Also drains the same backlog with a filter that half of the records pass, in alternation, to show what a filter saves.
    #[arg(long, conflicts_with_all = ["rate", "load"])]
    filter: bool,

    /// Also drains the same backlog with another build of the program, in alternation, to show what a change costs or saves.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rate", "load"])]
    beside: Option<PathBuf>,

    /// Joins events from one topic with actions from another, in place of deduplicating events.
    #[arg(long, conflicts_with_all = ["rate", "load", "against", "without_dedup", "filter", "beside", "far_duplicates", "cross_duplicates"])]
    join: bool,

    /// With --join: how many seconds the times of an event and its action may be apart.
    #[arg(long, value_name = "S", default_value_t = 60, requires = "join", value_parser = clap::value_parser!(u64).range(DELAY_S_MAX..=86_400))]
    within: u64,

    /// Measures every combination of the published sweep: 2, 4, 6, 8, 10 and 12 publishers with 5, 10, 15 and 20 million distinct
    /// records, or a share of them, such as `10%`.
    #[arg(long, value_name = "SHARE", num_args = 0..=1, default_missing_value = "100%", value_parser = share,
          conflicts_with_all = ["load", "uniques", "publishers", "html"])]
    sweep: Option<f64>,

    /// Prints one line per run in the columns of GlassFlow's own load tests, with corrected ones beside them.
    #[arg(long, value_name = "FORMAT", value_parser = ["glassflow-csv"], conflicts_with = "json")]
    format: Option<String>,

    /// The pipeline's `memory`, such as `256MiB`; its default if left out.
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,

    #[command(flatten)]
    shared: Shared,
}

/// `50%` as 0.5.
fn share(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    match number {
        Some(number) if number > 0.0 && number <= 200.0 => Ok(number / 100.0),
        _ => Err("write a share of the capacity like `50%`, above 0 % and up to 200 %".to_owned()),
    }
}

/// From where the engine reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum From {
    /// A topic.
    Kafka,
    /// Records made inside the engine, which count as its work.
    Generator,
}

/// The published sweep.
const SWEEP_PUBLISHERS: [u32; 6] = [2, 4, 6, 8, 10, 12];
const SWEEP_RECORDS: [u64; 4] = [5_000_000, 10_000_000, 15_000_000, 20_000_000];

impl Glassflow {
    /// Runs the command; true if every table was right.
    ///
    /// # Errors
    /// When a part does not start or the engine fails.
    pub fn execute(&self, print: Print) -> anyhow::Result<bool> {
        if self.format.is_some() {
            print(&csv::head())?;
        }
        let mut is_right = true;
        for shape in self.shapes() {
            if self.sweep.is_some() {
                say(&format!("{} publishers, {} distinct records", shape.publishers, shape.uniques));
            }
            is_right &= self.one(&shape, print)?;
        }
        Ok(is_right)
    }

    /// Every size that is asked for.
    fn shapes(&self) -> Vec<Shape> {
        let Some(share) = self.sweep else { return vec![self.shape.clone()] };
        let of = |publishers: u32, records: u64| {
            let each = (records as f64 * share) as u64 / u64::from(publishers);
            Shape { uniques: each.max(1) * u64::from(publishers), publishers, ..self.shape.clone() }
        };
        SWEEP_PUBLISHERS
            .into_iter()
            .flat_map(|publishers| SWEEP_RECORDS.map(|records| of(publishers, records)))
            .collect()
    }

    /// Measures one size, and shows it as it was asked for.
    fn one(&self, shape: &Shape, print: Print) -> anyhow::Result<bool> {
        let (report, sent) = match self.join {
            true => {
                let plan = self.joined(shape)?;
                (runtime()?.block_on(joined::measure(&plan, &say))?, csv::Sent::joined(&plan))
            }
            false => {
                let plan = self.plan(shape)?;
                (runtime()?.block_on(glassflow::measure(&plan, &say))?, csv::Sent::of(&plan))
            }
        };
        self.shown(&report, &sent, print)
    }

    fn shown(&self, report: &Report, sent: &csv::Sent, print: Print) -> anyhow::Result<bool> {
        match self.format {
            None => self.shared.show(report, print),
            Some(_) => {
                let now = jiff::Timestamp::now().to_string();
                self.shared.finish(report, &csv::lines(report, sent, &now), print)
            }
        }
    }

    fn joined(&self, shape: &Shape) -> anyhow::Result<joined::Plan> {
        let (From::Kafka, Some(brokers)) = (self.source, &self.brokers) else {
            anyhow::bail!("`--join` needs two topics: give `--brokers`");
        };
        Ok(joined::Plan {
            common: self.shared.common(self.memory),
            pairs: Pairs::new(&shape.workload()?)?,
            brokers: brokers.clone(),
            partitions: self.partitions,
            compression: self.topic_compression.clone(),
            within: Duration::from_secs(self.within),
            batch_age: self.batch_age_ms.map(Duration::from_millis),
        })
    }

    fn plan(&self, shape: &Shape) -> anyhow::Result<Plan> {
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
            (From::Generator, _) => Feed::Generator { source: generator(shape) },
        };
        if self.against.is_some() && self.source == From::Generator {
            anyhow::bail!("`--against` needs a topic: a peer cannot read the generator");
        }
        if !self.load.is_empty() && self.source == From::Generator {
            anyhow::bail!("`--load` needs a topic: a generator's records have no time of sending");
        }
        let batch_age_ms = self.batch_age_ms.or((!self.load.is_empty()).then_some(LOAD_BATCH_AGE_MS));
        Ok(Plan {
            common: self.shared.common(self.memory),
            workload: shape.workload()?,
            feed,
            batch_age: batch_age_ms.map(Duration::from_millis),
            loads: self.load.clone(),
            capacity: self.capacity,
            // The only one that the command line lets through.
            against: self.against.as_ref().map(|_| Peer::FranzGo),
            without_dedup: self.without_dedup,
            filter: self.filter,
            beside: self.beside.clone(),
        })
    }
}

fn generator(shape: &Shape) -> String {
    let Shape { uniques, publishers, seed, far_duplicates, cross_duplicates } = shape;
    format!(
        "generator: {{ workload: glassflow, uniques: {uniques}, publishers: {publishers}, seed: {seed}, \
         far_duplicates: {far_duplicates}, cross_duplicates: {cross_duplicates} }}"
    )
}
