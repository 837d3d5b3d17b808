//! `source:` and each of `inputs:`: Kafka, Pulsar, a log, a listener, files, or a generator, and the format of the records.

use std::collections::BTreeMap;

use formats::otlp::Signal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::listen::ListenSource;
use crate::config::values::{
    Broker, Consumer, HttpUrl, Identifier, OneOrMany, Pairs, PulsarTopic, PulsarUrl, Secret, Size, Start,
    StoreUrl, Topic,
};

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

    /// How a record is read: `json`, `otlp_logs`, `otlp_traces` or `otlp_metrics`, or `{ json: { … } }`, `{ avro: { … } }`, `{ csv: { … } }` and so on with options.
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
}

impl Source {
    /// Whether the source has no end: more may always come.
    pub fn is_endless(&self) -> bool {
        self.kafka.is_some() || self.pulsar.is_some() || self.log.is_some() || self.listen.is_some()
    }
}

/// Topics of a Kafka cluster. Read without a consumer group's help: positions live in the journal.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["topic"]}, {"required": ["topics"]}]))]
pub struct Kafka {
    /// Brokers to ask first, `host:port`; a list, or a text with commas.
    pub brokers: OneOrMany<Broker>,

    /// The topic to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<Topic>,

    /// The topics to read, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1000), extend("uniqueItems" = true))]
    pub topics: Option<Vec<Topic>>,

    /// Where a pipeline that has never run begins. Later starts go on from the journal. A partition that is added to
    /// the topic while the pipeline runs is read from its beginning.
    #[serde(default = "default_start")]
    pub start: Start,

    /// The consumer group under which read positions are published for lag tools; `forebay-` and the pipeline's
    /// name if left out. It is never read from; only a store that is behind it is refused, as lost or rolled back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Identifier>,

    /// Encryption and login.
    #[serde(default)]
    pub security: Security,

    /// Who fetches the records.
    #[serde(default)]
    pub fetch: Fetch,

    /// Further properties of librdkafka, as in its documentation. Those that decide what is read or how one logs in
    /// have settings of their own here and are refused.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<Identifier, Secret>,
}

/// Who fetches the records of a topic. What is read and what is guaranteed is the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Fetch {
    /// `direct` where that can be done, else `librdkafka`; the log says which.
    #[default]
    Auto,
    /// Forebay itself, at a fifth of the cost: from Kafka 3.1 on, with properties that concern fetching, encryption and a login by
    /// password only; not with tokens, a private key's password, or a broker's certificate that is an authority itself. A pipeline
    /// for which that does not hold is not started.
    Direct,
    /// librdkafka.
    Librdkafka,
}

/// Encryption and login.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Security {
    /// Encrypts connections. `{}` trusts the authorities that the system trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,

    /// Logs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sasl: Option<Sasl>,
}

/// Topics of a Pulsar cluster. Read without a cursor: positions live in the journal.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["topic"]}, {"required": ["topics"]}]))]
pub struct Pulsar {
    /// Brokers or proxies to ask first: `pulsar://host:port`, or `pulsar+ssl://host:port` for TLS. Further hosts follow after commas.
    pub service: PulsarUrl,

    /// The topic to read: `persistent://tenant/namespace/topic`, or a name in `public/default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<PulsarTopic>,

    /// The topics to read, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1000), extend("uniqueItems" = true))]
    pub topics: Option<Vec<PulsarTopic>>,

    /// Where a pipeline that has never run begins. Later starts go on from the journal. A time is compared with the time of publishing. A
    /// partition that is added to the topic while the pipeline runs is read from its beginning.
    #[serde(default = "default_start")]
    pub start: Start,

    /// The subscription under which read positions are published for lag tools, and for which brokers keep what was not read; `forebay-` and
    /// the pipeline's name if left out. It is never read from; only a store that is behind it is refused, as lost or rolled back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscription: Option<Identifier>,

    /// The listener whose addresses brokers give, where they have several (`advertisedListeners`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listener: Option<Identifier>,

    /// Encryption and login.
    #[serde(default)]
    pub security: PulsarSecurity,
}

/// Encryption and login at Pulsar.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PulsarSecurity {
    /// Whom to trust, with `pulsar+ssl://`; the authorities that the system trusts if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<PulsarTls>,

    /// The token to log in with (a JWT).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Secret>,

    /// Where tokens come from that expire, as those of OAuth 2.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oauth: Option<OAuth>,

    /// Allows a token to be sent unencrypted (`pulsar://`) to another machine; anyone on the network can read it.
    #[serde(default)]
    pub allow_plaintext_password: bool,
}

/// Whom to trust, and how to show who one is.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PulsarTls {
    /// PEM file of the authorities to trust; the system's if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,

    /// PEM file of the client's certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert: Option<String>,

    /// PEM file of the client's private key, without a password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,

    /// Whether the broker's certificate must contain the broker's host name. Turn this off only if the certificates contain other names;
    /// the certificate authority is still checked.
    #[serde(default = "default_true")]
    pub verify_host: bool,
}

/// Encryption by TLS.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// PEM file of the authorities to trust; the system's if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,

    /// PEM file of the client's certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert: Option<String>,

    /// PEM file of the client's private key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,

    /// The private key's password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_password: Option<Secret>,

    /// Whether the broker's certificate must contain the broker's host name. Turn this off only if the certificates contain other names;
    /// the certificate authority is still checked.
    #[serde(default = "default_true")]
    pub verify_host: bool,
}

/// Login by SASL.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sasl {
    /// How to log in.
    pub mechanism: Mechanism,

    /// The user, for PLAIN and SCRAM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,

    /// The password, for PLAIN and SCRAM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,

    /// Where tokens come from, for OAUTHBEARER.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oauth: Option<OAuth>,

    /// Allows a password or token to be sent unencrypted to another machine; anyone on the network can read it.
    #[serde(default)]
    pub allow_plaintext_password: bool,
}

/// A SASL mechanism, named as the broker names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[allow(missing_docs, reason = "the names are Kafka's")]
pub enum Mechanism {
    #[serde(rename = "PLAIN")]
    Plain,
    #[serde(rename = "SCRAM-SHA-256")]
    ScramSha256,
    #[serde(rename = "SCRAM-SHA-512")]
    ScramSha512,
    #[serde(rename = "OAUTHBEARER")]
    OAuthBearer,
}

impl Mechanism {
    /// The broker's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
            Self::OAuthBearer => "OAUTHBEARER",
        }
    }
}

/// Where tokens come from. A token is asked for anew before the last one expires.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["token_file"]}, {"required": ["token_command"]}]))]
pub struct OAuth {
    /// A file with the token, which another program refreshes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<String>,

    /// A program that prints the token, and its arguments; not a shell command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100))]
    pub token_command: Option<Vec<String>>,
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

/// How a record is read.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum Format {
    /// A format without options.
    Word(FormatWord),
    /// A format with options.
    Options(FormatOptions),
}

impl Default for Format {
    fn default() -> Self {
        Self::Word(FormatWord::Json)
    }
}

impl Format {
    /// The options of Avro, if that is the format.
    pub fn avro(&self) -> Option<&AvroFormat> {
        match self {
            Self::Word(_) => None,
            Self::Options(options) => options.avro.as_ref(),
        }
    }

    /// The options of CSV, if that is the format.
    pub fn csv(&self) -> Option<&CsvFormat> {
        match self {
            Self::Word(_) => None,
            Self::Options(options) => options.csv.as_deref(),
        }
    }

    /// The signal of OTLP and its options, if that is the format.
    pub fn otlp(&self) -> Option<(Signal, OtlpFormat)> {
        match self {
            Self::Word(FormatWord::OtlpLogs) => Some((Signal::Logs, OtlpFormat::default())),
            Self::Word(FormatWord::OtlpTraces) => Some((Signal::Traces, OtlpFormat::default())),
            Self::Word(FormatWord::OtlpMetrics) => Some((Signal::Metrics, OtlpFormat::default())),
            Self::Word(FormatWord::Json | FormatWord::Avro | FormatWord::Csv) => None,
            Self::Options(options) => {
                let of = |signal, otlp: &Option<OtlpFormat>| otlp.clone().map(|otlp| (signal, otlp));
                of(Signal::Logs, &options.otlp_logs)
                    .or_else(|| of(Signal::Traces, &options.otlp_traces))
                    .or_else(|| of(Signal::Metrics, &options.otlp_metrics))
            }
        }
    }

    /// The options of JSON, as written or by default.
    pub fn json(&self) -> JsonFormat {
        match self {
            Self::Word(_) => JsonFormat::default(),
            Self::Options(options) => options.json.clone().unwrap_or_default(),
        }
    }

    /// The length from which on a record becomes a dead letter.
    pub fn record_bytes_max(&self) -> u64 {
        let of_avro = self.avro().map(|avro| avro.record_bytes_max);
        let of_csv = self.csv().map(|csv| csv.record_bytes_max);
        let of_otlp = self.otlp().map(|(_, otlp)| otlp.record_bytes_max);
        of_avro.or(of_csv).or(of_otlp).unwrap_or_else(|| self.json().record_bytes_max).bytes
    }
}

/// A format by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(extend("x-later" = ["protobuf", "raw"]))]
pub enum FormatWord {
    /// One JSON object per record.
    Json,
    /// Avro, which needs options: where the schema comes from.
    Avro,
    /// CSV, which needs options: where the names of the fields come from.
    Csv,
    /// One request of OTLP with log records, each of which is a row; in Protocol Buffers or JSON; from Kafka, Pulsar or a log.
    OtlpLogs,
    /// The same with spans.
    OtlpTraces,
    /// The same with data points of metrics.
    OtlpMetrics,
}

/// A format with its options: exactly one of them.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend(
    "oneOf" = [
        {"required": ["json"]}, {"required": ["avro"]}, {"required": ["csv"]}, {"required": ["otlp_logs"]}, {"required": ["otlp_traces"]},
        {"required": ["otlp_metrics"]}
    ],
    "x-later" = ["protobuf", "raw"]
))]
pub struct FormatOptions {
    /// One JSON object a record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json: Option<JsonFormat>,

    /// One Avro datum a record, in binary; from Kafka, Pulsar or a log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avro: Option<AvroFormat>,

    /// One line of CSV or TSV a record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub csv: Option<Box<CsvFormat>>,

    /// One request of OTLP with log records a record, each of which is a row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otlp_logs: Option<OtlpFormat>,

    /// One request of OTLP with spans a record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otlp_traces: Option<OtlpFormat>,

    /// One request of OTLP with data points of metrics a record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otlp_metrics: Option<OtlpFormat>,
}

/// Options of OTLP.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OtlpFormat {
    /// A longer request becomes a dead letter.
    #[serde(default = "default_record_bytes")]
    #[schemars(extend(
        "x-least" = "1KiB", "x-most" = "512MiB",
        "x-why" = "a record is held in memory whole, next to others"
    ))]
    pub record_bytes_max: Size,
}

impl Default for OtlpFormat {
    fn default() -> Self {
        Self { record_bytes_max: default_record_bytes() }
    }
}

/// Options of JSON.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JsonFormat {
    /// The zone of times that name none, by its name in the tz database. Never the server's zone.
    #[serde(default = "default_timezone")]
    pub timezone: String,

    /// The unit of numbers that fill a column of dates or times.
    #[serde(default)]
    pub epoch_unit: EpochUnit,

    /// A longer record becomes a dead letter.
    #[serde(default = "default_record_bytes")]
    #[schemars(extend(
        "x-least" = "1KiB", "x-most" = "512MiB",
        "x-why" = "a record is held in memory whole, next to others"
    ))]
    pub record_bytes_max: Size,
}

impl Default for JsonFormat {
    fn default() -> Self {
        Self {
            timezone: default_timezone(),
            epoch_unit: EpochUnit::default(),
            record_bytes_max: default_record_bytes(),
        }
    }
}

/// Options of Avro. Where the schema of a record comes from: exactly one of `schema_file` and `registry`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["schema_file"]}, {"required": ["registry"]}]))]
pub struct AvroFormat {
    /// The file with the schema that all records were written with, in JSON (`.avsc`); a relative path is relative to the pipeline file's folder. Records have no header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_file: Option<String>,

    /// The registry that has the schema of each record under the number in its header (Confluent's wire format).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<Box<Registry>>,

    /// The time zone of local timestamps, dates and texts without one, by its name in the tz database. The server's zone is never used.
    #[serde(default = "default_timezone")]
    pub timezone: String,

    /// The unit of an `int` or `long` without a logical type that fills a column of times.
    #[serde(default)]
    pub epoch_unit: EpochUnit,

    /// A longer record becomes a dead letter.
    #[serde(default = "default_record_bytes")]
    #[schemars(extend(
        "x-least" = "1KiB", "x-most" = "512MiB",
        "x-why" = "a record is held in memory whole, next to others"
    ))]
    pub record_bytes_max: Size,
}

/// Stands for the quote where quotes have no meaning.
pub const NO_QUOTE: &str = "none";

/// Options of CSV. What the fields are called: either `columns`, or `header: true` for files that say it themselves.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CsvFormat {
    /// The names of a record's fields, in order; also of those that no column takes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10_000), extend("x-why" = "a record is searched for each of them"))]
    pub columns: Vec<String>,

    /// The first line of each file names the fields, in an order of its own. Not with Kafka or Pulsar.
    #[serde(default)]
    pub header: bool,

    /// The character between two fields; `"\t"` for TSV.
    #[serde(default = "default_delimiter")]
    pub delimiter: String,

    /// The character around fields that hold delimiters, line breaks or, doubled, itself; `none` if quotes have no meaning.
    #[serde(default = "default_quote")]
    pub quote: String,

    /// What an unquoted field holds that is NULL. An unquoted field that is empty is NULL too, or the DEFAULT, or the empty String.
    #[serde(default = "default_null")]
    pub null: String,

    /// The zone of times that name none, by its name in the tz database. Never the server's zone.
    #[serde(default = "default_timezone")]
    pub timezone: String,

    /// The unit of numbers that fill a column of times.
    #[serde(default)]
    pub epoch_unit: EpochUnit,

    /// A longer record becomes a dead letter.
    #[serde(default = "default_record_bytes")]
    #[schemars(extend(
        "x-least" = "1KiB", "x-most" = "512MiB",
        "x-why" = "a record is held in memory whole, next to others"
    ))]
    pub record_bytes_max: Size,
}

/// A schema registry that speaks Confluent's protocol.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Registry {
    /// The registry's address, with a path if it has one.
    pub url: HttpUrl,

    /// The user, for basic authentication.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,

    /// The user's password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,

    /// A bearer token, instead of a user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Secret>,

    /// Allows the password or token to be sent unencrypted (`http://`) to another machine; anyone on the network can read it.
    #[serde(default)]
    pub allow_plaintext_password: bool,

    /// PEM file of the authorities to trust; the system's if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
}

/// The unit of numbers since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EpochUnit {
    /// By the number's size: seconds, milliseconds, microseconds or nanoseconds, whichever gives a year near ours.
    #[default]
    Auto,
    /// Seconds.
    S,
    /// Milliseconds.
    Ms,
    /// Microseconds.
    Us,
    /// Nanoseconds.
    Ns,
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

fn default_timezone() -> String {
    "UTC".into()
}

fn default_delimiter() -> String {
    ",".into()
}

fn default_quote() -> String {
    "\"".into()
}

fn default_null() -> String {
    "\\N".into()
}

fn default_record_bytes() -> Size {
    Size::mib(16)
}
