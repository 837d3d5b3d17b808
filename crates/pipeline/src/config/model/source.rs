//! `source:` and each of `inputs:`: Kafka, Pulsar, a log, a listener, files, or a generator, and the format of the records.
//!
//! Owns that it is exactly one of them, and the keys of those that are short: a log, files, a generator. Does not own the keys of Kafka, Pulsar and the
//! format (the modules below), nor what a process listens at (`listen`).

mod format;
mod kafka;
mod pulsar;
mod tombstones;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::listen::ListenSource;
use crate::config::values::{Consumer, Identifier, OneOrMany, Pairs, Period, Start, StoreUrl};
pub use format::{
    AvroFormat, CsvFormat, EpochUnit, Format, FormatOptions, FormatWord, JsonFormat, NO_QUOTE, OtlpFormat,
    ProtobufFormat, Registry,
};
pub use kafka::{Fetch, Kafka, Mechanism, OAuth, Sasl, Security, Tls};
pub use pulsar::{Pulsar, PulsarSecurity, PulsarTls};
pub use tombstones::{KeyFormat, Tombstones};

/// Where records come from: exactly one of `kafka`, `pulsar`, `log`, `listen`, `file`, `generator`, and the records' `format`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend(
    "oneOf" = [
        {"required": ["kafka"]}, {"required": ["pulsar"]}, {"required": ["log"]}, {"required": ["listen"]}, {"required": ["file"]},
        {"required": ["generator"]}
    ]
))]
pub struct Source {
    /// Topics of a Kafka cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kafka: Option<Kafka>,

    /// Topics of a Pulsar cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pulsar: Option<Pulsar>,

    /// A log, which the gateway or `forebay log append` fills.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogSource>,

    /// What is sent to this process over HTTP, gRPC or syslog.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<ListenSource>,

    /// Files of JSON lines or CSV.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<FileSource>,

    /// Records generated from a seed, the same in every run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator: Option<Generator>,

    /// How a record is read: `json`, `otlp_logs`, `otlp_traces` or `otlp_metrics`, or `{ json: { … } }`, `{ avro: { … } }`, `{ protobuf: { … } }`, `{ csv: { … } }` and so on with options.
    #[serde(default)]
    pub format: Format,

    /// Types of the records' fields: field to type, as ClickHouse writes types. Only fields that expressions read need one; a field that
    /// goes untouched into a column has the column's type. A record must have the field unless its type is `Nullable(…)`.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    #[schemars(extend("maxProperties" = 1000, "x-why" = "as many as a table has columns"))]
    pub fields: Pairs,

    /// The field that holds a record's time, which no step may compute. If left out, the column that `time` of the first `dedup` or of the `window`
    /// names; without that the broker's timestamp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Identifier>,

    /// Makes rows of records without a body, which say by their keys what was deleted; from Kafka and Pulsar. They are dead letters if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tombstones: Option<Tombstones>,

    /// How far ahead of the others of its partition, or of this machine's clock, a record may move the watermark. With less, a sender whose clock is wrong closes no window
    /// early; but where records of one partition are further apart, the watermark stays several of them behind. `1h`, or a quarter of the shortest `size`, `slide`, `step`
    /// or `gap` of a window, of the interval of a join, or of the window of a `dedup`, whichever is least, if left out; with a `dedup` at most a quarter of its window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "x-least" = "1ms", "x-most" = "3650d",
        "x-why" = "no record would move the watermark with less"
    ))]
    pub future_max: Option<Period>,

    /// How long a partition that was read to its end holds the watermark while no record of it comes. Records that come later may be late. `30s` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "x-least" = "1s", "x-most" = "1d",
        "x-why" = "a broker answers within a second; results of the other partitions wait as long"
    ))]
    pub idle_after: Option<Period>,
}

impl Source {
    /// Whether the source has no end: more may always come.
    pub fn is_endless(&self) -> bool {
        let is_followed = self.file.as_ref().is_some_and(|file| file.follow);
        self.delimits_records() || is_followed
    }

    /// Whether the source says where a record ends, so that it may hold any bytes.
    pub fn delimits_records(&self) -> bool {
        self.kafka.is_some() || self.pulsar.is_some() || self.log.is_some() || self.listen.is_some()
    }
}

/// A log on local disk or object storage. Its partitions are found by themselves; positions live in the journal.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogSource {
    /// The log's folder: a path, `s3://bucket/prefix`, `gs://…` or `az://…`. A relative path is relative to the pipeline file's folder. A log on the
    /// kind of object storage that `store` is on is reached as `object_storage` says; any other, by what the environment says.
    pub url: StoreUrl,

    /// Where a pipeline that has never run begins. Later starts go on from the journal. A partition that is added to the log while the
    /// pipeline runs is read from its beginning.
    #[serde(default)]
    pub start: LogStart,

    /// The name under which the pipeline acknowledges what is settled, so that the log can let it go; the pipeline's name if left
    /// out. It is never read from; only a store that is behind it is refused, as lost or rolled back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer: Option<Consumer>,
}

/// Where a log is read from when the pipeline has never read it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogStart {
    /// The oldest record that the log still holds.
    #[default]
    Earliest,
    /// The first record appended after the pipeline's first start.
    Latest,
}

/// Files of JSON lines or CSV. Each file is a partition; a file must not change after it was read.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileSource {
    /// Paths, with `*`, `?` and `[…]` as in a shell; `-` is standard input, which cannot be read again after a crash.
    pub paths: OneOrMany<String>,

    /// Whether files are followed: they are read on as they grow and are rotated, and new ones are read as they appear. A run reads until it is
    /// stopped, and compressed files are left out. Otherwise a run reads each file to its end, and ends.
    #[serde(default)]
    pub follow: bool,

    /// How the files are compressed.
    #[serde(default)]
    pub compression: FileCompression,
}

/// How files are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileCompression {
    /// Gzip, zstd or not at all, by the first bytes of each file.
    #[default]
    Auto,
}

/// Records made up from a seed.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Generator {
    /// What the records look like.
    pub workload: Workload,

    /// Distinct records of all publishers together; a multiple of `publishers`.
    #[serde(default = "default_uniques")]
    #[schemars(range(min = 1, max = 10_000_000_000u64), extend("x-why" = "ids are spread over 64 bits"))]
    pub uniques: u64,

    /// Independent streams of records, each a partition.
    #[serde(default = "default_publishers")]
    #[schemars(range(min = 1, max = 1024), extend("x-why" = "each is a partition, with buffers of its own"))]
    pub publishers: u32,

    /// The same seed gives the same records.
    #[serde(default = "default_seed")]
    pub seed: u64,

    /// Duplicates of records from anywhere in the publisher's past, besides the near ones; a multiple of `publishers`.
    #[serde(default)]
    pub far_duplicates: u64,

    /// Duplicates of records of other publishers; a multiple of `publishers`, of which there must be at least two.
    #[serde(default)]
    pub cross_duplicates: u64,

    /// Records per second of all publishers together. Default: as fast as possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000u64), extend("x-why" = "no machine makes more"))]
    pub rate: Option<u64>,
}

/// A made-up stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// User events of about 200 bytes with duplicates: event_id, user_id, name, email, created_at.
    Glassflow,
}

fn default_start() -> Start {
    Start::Earliest
}

fn default_true() -> bool {
    true
}

fn default_uniques() -> u64 {
    2_000_000
}

fn default_seed() -> u64 {
    1
}

fn default_publishers() -> u32 {
    2
}
