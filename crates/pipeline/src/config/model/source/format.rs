//! `format:` of a source: what a record is, by word alone or with options.
//!
//! Owns the words, their options and defaults. Does not own the decoders (`formats`), nor rules that span several keys (`config::rules`).

use formats::otlp::Signal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::values::{HttpUrl, Secret, Size};

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
    /// The options of Avro, as written or by default, if that is the format.
    pub fn avro(&self) -> Option<AvroFormat> {
        match self {
            Self::Word(FormatWord::Avro) => Some(AvroFormat::default()),
            Self::Word(_) => None,
            Self::Options(options) => options.avro.clone(),
        }
    }

    /// Whether it is Avro or Protocol Buffers, and the source itself has the schemas.
    pub fn is_of_the_source(&self) -> bool {
        let of_avro = self.avro().map(|avro| avro.schema_file.is_none() && avro.registry.is_none());
        let of_protobuf = || self.protobuf().map(|of| of.schema_file.is_none() && of.registry.is_none());
        of_avro.or_else(of_protobuf).unwrap_or(false)
    }

    /// The options of Protocol Buffers, as written or by default, if that is the format.
    pub fn protobuf(&self) -> Option<ProtobufFormat> {
        match self {
            Self::Word(FormatWord::Protobuf) => Some(ProtobufFormat::default()),
            Self::Word(_) => None,
            Self::Options(options) => options.protobuf.as_deref().cloned(),
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
            Self::Word(FormatWord::Json | FormatWord::Avro | FormatWord::Protobuf | FormatWord::Csv) => None,
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
        let of_protobuf = self.protobuf().map(|protobuf| protobuf.record_bytes_max);
        let of_csv = self.csv().map(|csv| csv.record_bytes_max);
        let of_otlp = self.otlp().map(|(_, otlp)| otlp.record_bytes_max);
        of_avro.or(of_protobuf).or(of_csv).or(of_otlp).unwrap_or_else(|| self.json().record_bytes_max).bytes
    }
}

/// A format by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(extend("x-later" = ["raw"]))]
pub enum FormatWord {
    /// One JSON object per record.
    Json,
    /// Avro whose schemas Pulsar's brokers have; from other sources it needs options: where the schema comes from.
    Avro,
    /// Protocol Buffers whose schemas Pulsar's brokers have; from other sources they need options: where the types come from.
    Protobuf,
    /// CSV, which needs options: where the names of the fields come from.
    Csv,
    /// One request of OTLP with log records, each of which is a row; in Protocol Buffers or JSON; from Kafka, Pulsar, a log or a listener.
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
        {"required": ["json"]}, {"required": ["avro"]}, {"required": ["protobuf"]}, {"required": ["csv"]}, {"required": ["otlp_logs"]},
        {"required": ["otlp_traces"]}, {"required": ["otlp_metrics"]}
    ],
    "x-later" = ["raw"]
))]
pub struct FormatOptions {
    /// One JSON object a record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json: Option<JsonFormat>,

    /// One Avro datum a record, in binary; from Kafka, Pulsar, a log or a listener.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avro: Option<AvroFormat>,

    /// One message of Protocol Buffers a record, in binary; from Kafka, Pulsar, a log or a listener.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protobuf: Option<Box<ProtobufFormat>>,

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

/// Options of Avro. Where the schema of a record comes from: exactly one of `schema_file` and `registry`, or, with Pulsar and neither, its brokers.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
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

impl Default for AvroFormat {
    fn default() -> Self {
        Self {
            schema_file: None,
            registry: None,
            timezone: default_timezone(),
            epoch_unit: EpochUnit::default(),
            record_bytes_max: default_record_bytes(),
        }
    }
}

/// Options of Protocol Buffers. Where the types of a record come from: exactly one of `schema_file` and `registry`, or, with Pulsar and neither, its brokers.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProtobufFormat {
    /// The file with the types of the records: a `.proto` file, or a descriptor set (`protoc --include_imports --descriptor_set_out`). A relative path is relative to the pipeline file's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_file: Option<String>,

    /// The registry that has the schema of each record under the number in its header (Confluent's wire format), which names the message as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<Box<Registry>>,

    /// The message that each record is, with its package: `shop.Order`. Needed with `schema_file`; otherwise, if it is written, records of other messages become dead letters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// Folders in which what a `.proto` file imports is looked for, after its own folder. The types of `google/protobuf` need no folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), extend("x-why" = "each is searched for every import"))]
    pub import_paths: Vec<String>,

    /// The time zone of texts with a date or time and no zone, by its name in the tz database. The server's zone is never used.
    #[serde(default = "default_timezone")]
    pub timezone: String,

    /// The unit of an integer that fills a column of times.
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

impl Default for ProtobufFormat {
    fn default() -> Self {
        Self {
            schema_file: None,
            registry: None,
            message: None,
            import_paths: Vec::new(),
            timezone: default_timezone(),
            epoch_unit: EpochUnit::default(),
            record_bytes_max: default_record_bytes(),
        }
    }
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
