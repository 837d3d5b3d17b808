//! The options of `forebay bench buffer`.
//!
//! Owns the flags, their defaults and bounds, and the moment of an outage; S3's keys come from the environment. Does not own the run
//! (`crate::buffer`) or the flags that all workloads have (`options`).

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use pipeline::config::values::Size;
use workloads::buffer::{Spec, Workload};

use super::{Print, Shared, runtime, say};
use crate::buffer::{self, Bucket, Delay, Outage, Plan, Trouble};

/// By then a pipeline runs as it will.
const OUTAGE_AFTER: Duration = Duration::from_secs(10);

/// Sends log records of OpenTelemetry through a gateway and a log on object storage into ClickHouse.
#[derive(Debug, Args)]
#[command(
    long_about = "\
Sends log records of OpenTelemetry through a gateway and a log on object storage into ClickHouse: records per CPU-second of gateway and pipeline \
together, requests to the store and what they cost, memory, and compares the table with what was sent.

Without --rate each sender sends its next request when the one before it is answered: what the two processes can do. With --rate requests are sent at \
their time, and two latencies of each record are measured: from the sender's clock until a SELECT returns it, and, as the published system measures, from the \
gateway's receipt to the insert. Several rates are a sweep.

Through S3 the report has a table of what the requests that were counted and the bytes that were stored cost at list prices, a month and a TB, beside what the \
published system and its Kafka cluster cost.",
    after_help = "\
Examples:
  forebay bench buffer                                                # through a folder
  scripts/bench s3 buffer                                             # through S3, 60 ms a PUT and 30 ms a GET
  scripts/bench s3 buffer --record-bytes 300 --per-request 8192
  scripts/bench s3 buffer --over otlp-grpc --insert-compression none
  forebay bench buffer --direct --record-bytes 300 --per-request 8192
  scripts/bench s3 buffer --rate 40000 --batch-age-ms 500
  scripts/bench s3 buffer --rate 5000,10000,20000 --seconds 60 --repeat 3     # a row for each rate
  scripts/bench s3 buffer --rate 5000 --seconds 180 --outage-s 90             # the hour of an outage, in a fortieth
  scripts/bench s3 buffer --rate 5000 --seconds 240 --crash                   # every part killed in every stage, every record once
  scripts/bench s3 buffer --against otelcol                                   # beside a collector; `scripts/setup otel` builds it

Ends with code 1 when a record is missing, repeated or changed."
)]
pub struct Buffer {
    /// Records in all.
    #[arg(long, value_name = "N", default_value_t = 400_000)]
    records: u64,

    /// Bytes of a record, about: 300 to 65536.
    #[arg(long, value_name = "BYTES", default_value_t = 2_700)]
    record_bytes: usize,

    /// Records of a request, a multiple of 4.
    #[arg(long, value_name = "N", default_value_t = 1_024)]
    per_request: u32,

    /// The same seed gives the same records.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Records a second; several, separated by commas, are a sweep with a row for each. As fast as they are taken if left out.
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..))]
    rate: Vec<u64>,

    /// For how many seconds each rate is offered, in place of --records.
    #[arg(long, value_name = "S", requires = "rate", conflicts_with = "records", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: Option<u64>,

    /// Requests under way at a time.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    senders: u32,

    /// Straight into a pipeline that listens, without a gateway and a log.
    #[arg(long)]
    direct: bool,

    /// How senders speak.
    #[arg(long, value_enum, default_value_t = Over::OtlpHttp)]
    over: Over,

    /// How bodies are compressed.
    #[arg(long, value_enum, default_value_t = Compression::Zstd)]
    compression: Compression,

    /// How the bodies of the pipeline's inserts are compressed.
    #[arg(long, value_enum, default_value_t = Inserts::Lz4)]
    insert_compression: Inserts,

    /// Where S3 is, `http://host:port`; a folder without it.
    #[arg(long, value_name = "URL", env = "FOREBAY_S3")]
    s3: Option<String>,

    /// The bucket.
    #[arg(long, value_name = "NAME", env = "FOREBAY_S3_BUCKET", default_value = "forebay")]
    s3_bucket: String,

    /// Its region. The keys come from `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`.
    #[arg(long, value_name = "NAME", env = "AWS_REGION", default_value = "us-east-1")]
    s3_region: String,

    /// What S3 takes longer for a PUT.
    #[arg(long, value_name = "MS", default_value_t = 60)]
    put_ms: u64,

    /// What S3 takes longer for a GET.
    #[arg(long, value_name = "MS", default_value_t = 30)]
    get_ms: u64,

    /// How old a batch of the pipeline may get; its default if left out.
    #[arg(long, value_name = "MS")]
    batch_age_ms: Option<u64>,

    /// ClickHouse answers nobody for so many seconds, from the tenth second on. Needs --rate, and a ClickHouse of the benchmark's own.
    #[arg(long, value_name = "S", requires = "rate", conflicts_with = "clickhouse")]
    outage_s: Option<u64>,

    /// Kills the gateway, the pipeline, ClickHouse and the proxy before S3 by turns while records are sent, each in every stage of its work, and starts it again
    /// after a second. Needs --rate, a ClickHouse of the benchmark's own, and a load of 108 s (32 s without --s3); a longer one repeats the kills.
    #[arg(long, requires = "rate", conflicts_with_all = ["clickhouse", "outage_s", "direct"])]
    crash: bool,

    /// Also sends the same load to a collector of OpenTelemetry, in alternation: once it passes it on to the gateway, and once it inserts it into ClickHouse
    /// itself, by its own exporter. Its CPU stands beside ours.
    #[arg(long, value_name = "PEER", value_parser = ["otelcol"], conflicts_with_all = ["crash", "outage_s"])]
    against: Option<String>,

    /// The collector's program, with the exporters `otlp`, `otlphttp` and `clickhouse`; without it the one that `scripts/setup otel` has built.
    #[arg(long, value_name = "FILE", requires = "against")]
    otelcol: Option<PathBuf>,

    /// The pipeline's `memory`, such as `256MiB`; its default if left out.
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,

    #[command(flatten)]
    shared: Shared,
}

/// How a sender speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Over {
    /// OTLP over HTTP.
    OtlpHttp,
    /// OTLP over gRPC.
    OtlpGrpc,
    /// A request's body as one record of a stream.
    Stream,
}

/// How a body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "the names say it")]
enum Compression {
    None,
    Gzip,
    Zstd,
}

/// How the bodies of inserts are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "the names say it")]
enum Inserts {
    Lz4,
    None,
}

impl Buffer {
    /// Runs the command; true if every table was right.
    ///
    /// # Errors
    /// When a part does not start or fails.
    pub fn execute(&self, print: Print) -> anyhow::Result<bool> {
        let spec = Spec {
            seed: self.seed,
            requests: self.records.div_ceil(u64::from(self.per_request).max(1)),
            records_per_request: self.per_request,
            record_bytes: self.record_bytes,
            ..Spec::default()
        };
        let plan = Plan {
            common: self.shared.common(self.memory),
            workload: Workload::new(spec)?,
            bucket: self.bucket()?,
            delay: Delay { put: Duration::from_millis(self.put_ms), get: Duration::from_millis(self.get_ms) },
            direct: self.direct,
            over: match self.over {
                Over::OtlpHttp => buffer::Over::OtlpHttp,
                Over::OtlpGrpc => buffer::Over::OtlpGrpc,
                Over::Stream => buffer::Over::Stream,
            },
            compression: match self.compression {
                Compression::None => buffer::Compression::None,
                Compression::Gzip => buffer::Compression::Gzip,
                Compression::Zstd => buffer::Compression::Zstd,
            },
            inserts: match self.insert_compression {
                Inserts::Lz4 => buffer::Inserts::Lz4,
                Inserts::None => buffer::Inserts::None,
            },
            senders: self.senders,
            rates: self.rate.clone(),
            time: self.seconds.map(Duration::from_secs),
            batch_age: self.batch_age_ms.map(Duration::from_millis),
            trouble: match (self.outage_s, self.crash) {
                (Some(seconds), _) => {
                    Trouble::Outage(Outage { after: OUTAGE_AFTER, time: Duration::from_secs(seconds) })
                }
                (None, true) => Trouble::Crash,
                (None, false) => Trouble::None,
            },
            collector: self.collector()?,
        };
        let report = runtime()?.block_on(buffer::measure(&plan, &say))?;
        self.shared.show(&report, print)
    }

    fn collector(&self) -> anyhow::Result<Option<PathBuf>> {
        match (&self.against, &self.otelcol) {
            (None, _) => Ok(None),
            (Some(_), Some(program)) => Ok(Some(program.clone())),
            (Some(_), None) => buffer::collector().map(Some),
        }
    }

    fn bucket(&self) -> anyhow::Result<Option<Bucket>> {
        let Some(endpoint) = &self.s3 else { return Ok(None) };
        let key = |name: &str| {
            std::env::var(name).map_err(|_| anyhow::anyhow!("`{name}` is not set; S3 asks for a key"))
        };
        Ok(Some(Bucket {
            endpoint: endpoint.clone(),
            name: self.s3_bucket.clone(),
            region: self.s3_region.clone(),
            access_key: key("AWS_ACCESS_KEY_ID")?,
            secret_key: key("AWS_SECRET_ACCESS_KEY")?,
        }))
    }
}
