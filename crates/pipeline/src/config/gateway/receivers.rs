//! What fills streams beside requests of their own: OTLP, syslog, and files that are followed.
//!
//! Owns their keys, defaults and bounds. Does not own rules over several keys (`gateway::rules`), nor what receivers do (the crate
//! `gateway`). Doc comments are the reference page.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::values::{Identifier, Listen, Size};
use super::default_connections;

/// The streams that OTLP fills.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Otlp {
    /// The stream of log records, which needs `format: otlp_logs`.
    #[serde(default = "default_otlp_logs")]
    pub logs: Identifier,

    /// The stream of spans, which needs `format: otlp_traces`.
    #[serde(default = "default_otlp_traces")]
    pub traces: Identifier,

    /// The stream of data points of metrics, which needs `format: otlp_metrics`.
    #[serde(default = "default_otlp_metrics")]
    pub metrics: Identifier,
}

impl Default for Otlp {
    fn default() -> Self {
        Self { logs: default_otlp_logs(), traces: default_otlp_traces(), metrics: default_otlp_metrics() }
    }
}

/// Addresses at which messages of syslog are taken: `udp`, `tcp`, or both.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Syslog {
    /// An address for datagrams, with a message in each. What finds no room is dropped, and counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp: Option<Listen>,

    /// An address for connections, with messages that have their length before them or a line break behind them. What finds no room waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<Listen>,

    /// Encrypts the connections of `tcp` with the gateway's `tls`.
    #[serde(default)]
    pub encrypted: bool,

    /// The stream that is filled, of `format: json`.
    #[serde(default = "default_syslog")]
    pub stream: Identifier,

    /// A longer message is cut there, marked by `"truncated": true`, and counted.
    #[serde(default = "default_message")]
    #[schemars(extend("x-least" = "480", "x-most" = "1MiB", "x-why" = "every receiver takes 480 bytes, and a connection holds a message in memory"))]
    pub message: Size,

    /// Connections of `tcp` open at a time; one more is closed.
    #[serde(default = "default_connections")]
    #[schemars(range(min = 1, max = 100_000), extend("x-why" = "each takes a file descriptor and some memory"))]
    pub connections: u32,
}

/// Files whose lines become records of a stream. Renamed files are read to their end, and copies of emptied ones are recognised.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// Paths, and patterns with `*`, `?`, `[a-z]` and `**`. Files that appear later are followed too. Relative paths are relative to this file's folder.
    #[schemars(length(min = 1, max = 1000), extend("uniqueItems" = true, "x-why" = "each is looked for every second"))]
    pub paths: Vec<String>,

    /// Patterns of files that are left out, as their paths are matched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub exclude: Vec<String>,

    /// The stream that is filled, of `format: json`. Its log keeps how far each file was read, so no other files fill it.
    #[serde(default = "default_files")]
    pub stream: Identifier,

    /// What a line becomes.
    #[serde(default, rename = "as")]
    pub lines: FileLines,

    /// Where files are read from that are there at the first start. Files that appear later are read from their beginning.
    #[serde(default)]
    pub start: FileStart,

    /// What records say in `host`; the host's name if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,

    /// A longer line is cut there, marked by `"truncated": true`, and counted.
    #[serde(default = "default_message")]
    #[schemars(extend("x-least" = "16", "x-most" = "1MiB", "x-why" = "a piece of a file that is in memory has a whole line"))]
    pub line: Size,

    /// Files open at a time. Others are opened when they have grown, and those that were quiet for the longest time are closed for them.
    #[serde(default = "default_open")]
    #[schemars(range(min = 1, max = 100_000), extend("x-why" = "each takes a file descriptor"))]
    pub open: u32,

    /// Bytes that are read before the lines before them are durable.
    #[serde(default = "default_ahead")]
    #[schemars(extend("x-least" = "1MiB", "x-most" = "1GiB", "x-why" = "they are in memory, and in that of the stream"))]
    pub ahead: Size,
}

/// What a line of a file becomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileLines {
    /// A JSON object with the line, and with the file, the host and the offset that it has.
    #[default]
    Line,
    /// The line itself if it is a JSON object; otherwise the same as `line`.
    Json,
}

/// Where files are read from that are there at the first start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileStart {
    /// From their first line.
    #[default]
    Beginning,
    /// From the lines that are added later.
    End,
}

fn default_otlp_logs() -> Identifier {
    "otlp_logs".parse().expect("a name")
}

fn default_otlp_traces() -> Identifier {
    "otlp_traces".parse().expect("a name")
}

fn default_otlp_metrics() -> Identifier {
    "otlp_metrics".parse().expect("a name")
}

fn default_syslog() -> Identifier {
    "syslog".parse().expect("the default is a name")
}

fn default_files() -> Identifier {
    "files".parse().expect("the default is a name")
}

fn default_open() -> u32 {
    256
}

fn default_ahead() -> Size {
    Size::mib(16)
}

fn default_message() -> Size {
    Size { bytes: 64 << 10 }
}
