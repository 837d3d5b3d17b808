//! The options of `forebay bench nexmark`.
//!
//! Owns which queries can be asked for. Does not own what they are (the pipelines of `tests/nexmark`), their runs (`crate::nexmark`) or the
//! right rows (`workloads::nexmark`).

use clap::{Args, ValueEnum};
use pipeline::config::values::Size;
use workloads::nexmark::{Spec, Workload, oracle};

use super::{Print, Shared, runtime, say};
use crate::nexmark::{self, Plan};

/// Answers queries of Nexmark from three topics into ClickHouse.
#[derive(Debug, Args)]
#[command(
    long_about = "\
Answers queries of Nexmark over people, auctions and bids, from three topics into ClickHouse: events per CPU-second of the engine, wall \
rates and memory, and compares every row with the right one.

The topics are filled first and then drained, once for each query. q5, q7 and q8 are measured; more are compared with a batch reading in the \
tests (tests/nexmark).",
    after_help = "\
Examples:
  forebay bench nexmark --brokers localhost:9092
  forebay bench nexmark --brokers localhost:9092 --query q7 --events 20000000
  forebay bench nexmark --brokers localhost:9092 --against flink               # needs Maven and Java 17

Ends with code 1 when a row is wrong or missing."
)]
pub struct Nexmark {
    /// The queries, separated by commas.
    #[arg(long, value_enum, value_name = "QUERIES", value_delimiter = ',', default_values_t = [Query::Q5, Query::Q7, Query::Q8])]
    query: Vec<Query>,

    /// Events of all three streams; 92 of 100 are bids.
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    events: u64,

    /// Events that share a second of event time.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    events_per_second: u32,

    /// The same seed gives the same events.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Brokers to contact first, as `host:port`, separated by commas.
    #[arg(long, value_name = "BROKERS", env = "FOREBAY_BROKERS")]
    brokers: String,

    /// Partitions of each topic, which are created for this measurement.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    partitions: u32,

    /// Also drains the same backlog with Flink SQL, in alternation, into files; Maven and Java 17 fetch and compile it on this machine.
    #[arg(long, value_name = "PEER", value_parser = ["flink"])]
    against: Option<String>,

    /// The pipeline's `memory`, such as `256MiB`; its default if left out.
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,

    #[command(flatten)]
    shared: Shared,
}

/// A query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Query {
    /// The auction with the most bids of the last ten seconds, every two seconds.
    Q5,
    /// The highest bid of each ten seconds.
    Q7,
    /// Who has registered and opened an auction in the same ten seconds.
    Q8,
}

impl Nexmark {
    /// Runs the command; true if every table was right.
    ///
    /// # Errors
    /// When a part does not start or the engine fails.
    pub fn execute(&self, print: Print) -> anyhow::Result<bool> {
        let Self { seed, events, events_per_second, .. } = *self;
        let spec = Spec { seed, events, events_per_second, ..Spec::default() };
        let of = |query: &Query| match query {
            Query::Q5 => oracle::Query::Q5,
            Query::Q7 => oracle::Query::Q7,
            Query::Q8 => oracle::Query::Q8,
        };
        let plan = Plan {
            common: self.shared.common(self.memory),
            workload: Workload::new(spec)?,
            queries: self.query.iter().map(of).collect(),
            brokers: self.brokers.clone(),
            partitions: self.partitions,
            against_flink: self.against.is_some(),
        };
        let report = runtime()?.block_on(nexmark::measure(&plan, &say))?;
        self.shared.show(&report, print)
    }
}
