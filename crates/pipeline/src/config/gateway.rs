//! The gateway's file as types: keys, defaults, bounds, and the rules that span several keys.
//!
//! Owns what a gateway's file may say. Does not own what it does (the crate `gateway`). As with the pipeline file, doc comments are the reference page.
//!
//! | module        | what it owns                                     |
//! |---------------|--------------------------------------------------|
//! | [`receivers`] | OTLP, syslog and files, which fill streams       |
//! | [`rules`]     | what the schema cannot say                       |

mod receivers;
mod rules;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::model::{Http, Log, ObjectStorage, Shutdown};
use super::values::{Identifier, Listen, Period, PipelineName, Size, StoreUrl};

pub use receivers::{FileLines, FileStart, Files, Otlp, Syslog};
pub use rules::rules;

/// A gateway takes records over HTTP into logs, and answers once they are durable.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Forebay gateway file", extend("x-called" = "the gateway"))]
pub struct Gateway {
    /// The gateway's name, by which the owner of its logs is shown.
    pub gateway: PipelineName,

    /// The address to listen on; port 0 for any free port (the log says which). With `none` nothing is taken over HTTP, and the streams are filled by `syslog` and
    /// `files` alone.
    #[serde(default = "default_listen")]
    pub listen: Listen,

    /// Further addresses for the same requests, such as those that senders of OTLP use by default: `127.0.0.1:4317` for gRPC, `127.0.0.1:4318` for HTTP.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-why" = "each has connections of its own"))]
    pub also_listen: Vec<Listen>,

    /// Lets `listen` be an address that other machines can reach although there are no `clients`: everybody may then fill the streams.
    #[serde(default)]
    pub allow_anyone: bool,

    /// Lets tokens and passwords come unencrypted from other machines, without `tls`: for a gateway behind a proxy that ends TLS.
    #[serde(default)]
    pub allow_plaintext: bool,

    /// Encrypts connections. The files are read again when they change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<ServerTls>,

    /// Who may fill streams, by a name that is shown in logs; everybody if there are none. The files are read again when they change.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 1000, "x-why" = "each request is compared with all of them"))]
    pub clients: BTreeMap<Identifier, Client>,

    /// The header that names the tenant of a request, such as `X-Scope-OrgID`. A tenant's streams are called `TENANT.NAME` under `streams`, and `NAME` in
    /// requests. A client that has a `tenant` is held to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_header: Option<String>,

    /// Where the logs of streams without a `log` are kept, each in a folder of its stream's name. A relative path is relative to this file's folder.
    #[serde(default = "default_store")]
    pub store: StoreUrl,

    /// How to connect to logs on object storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_storage: Option<ObjectStorage>,

    /// Where messages of syslog are taken, RFC 5424 and RFC 3164, each as a JSON object. Nobody is answered, so a message that was taken and is not yet durable is lost
    /// with the process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub syslog: Vec<Syslog>,

    /// Files of this host whose lines are followed, each line once, over restarts and kills of the gateway.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub files: Vec<Files>,

    /// What can be filled, by name: 1 to 128 letters, digits, `-`, `_` and `.`.
    #[schemars(extend(
        "minProperties" = 1, "maxProperties" = 1000,
        "x-why" = "each is a log that this process owns, with tasks of its own"
    ))]
    pub streams: BTreeMap<Identifier, Stream>,

    /// What OTLP fills, by the names of streams. A request of a tenant fills the tenant's stream of that name.
    #[serde(default)]
    pub otlp: Otlp,

    /// Bounds of all requests together.
    #[serde(default)]
    pub limits: Limits,

    /// Metrics over HTTP, on an address of their own.
    #[serde(default)]
    pub http: Http,

    /// What happens on SIGTERM and SIGINT.
    #[serde(default)]
    pub shutdown: Shutdown,

    /// What is logged, and how.
    #[serde(default)]
    pub log: Log,
}

/// A server's certificate.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerTls {
    /// PEM file of the certificate, and of those between it and its authority.
    pub cert: String,

    /// PEM file of the private key, without a password.
    pub key: String,

    /// PEM file of the authorities of clients' certificates. With it a client without such a certificate is not let in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_ca: Option<String>,
}

/// Who may fill streams. Shows a token, or a user and a password.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["token_file"]}, {"required": ["password_file"]}]))]
pub struct Client {
    /// The file with the client's bearer tokens, one a line; all of them are good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<String>,

    /// The client's user name, for basic authentication.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,

    /// The file with the user's passwords, one a line; all of them are good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_file: Option<String>,

    /// The streams that it may fill, as they are called under `streams`; all if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1000), extend("uniqueItems" = true))]
    pub streams: Option<Vec<Identifier>>,

    /// The client's tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Identifier>,
}

/// A stream: a partition of a log, which pipelines read.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// The log's folder, if it is not the one of the stream's name in `store`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<StoreUrl>,

    /// The partition that this gateway fills. Several gateways may fill one log, each a partition of its own, from 0 on without a gap.
    #[serde(default)]
    #[schemars(range(max = 4095), extend("x-why" = "a log has no more"))]
    pub partition: u32,

    /// What the body of a request holds.
    #[serde(default)]
    pub format: StreamFormat,

    /// The file with the schema of the records, in JSON (`.avsc`), with `format: avro`: the one that pipelines read them by. A relative path is relative to this
    /// file's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_file: Option<String>,

    /// The names of a record's fields, in order, with `format: csv`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10_000), extend("x-why" = "a record is searched for each of them"))]
    pub columns: Vec<String>,

    /// The character between two fields, with `format: csv`; `"\t"` for TSV.
    #[serde(default = "default_delimiter")]
    pub delimiter: String,

    /// The character around fields that hold delimiters, line breaks or, doubled, itself, with `format: csv`; `none` if quotes have no meaning.
    #[serde(default = "default_quote")]
    pub quote: String,

    /// A longer body is refused, by its length as it comes and inflated. At most a quarter of `memory` and of `limits.memory`; 16 MiB, or such a quarter if that is
    /// less, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-least" = "1KiB", "x-most" = "16MiB", "x-why" = "all of a request is taken at once, or nothing"))]
    pub body: Option<Size>,

    /// Memory for requests of this stream; beyond it they are answered 429, whatever others leave.
    #[serde(default = "default_stream_memory")]
    #[schemars(extend("x-least" = "1MiB", "x-most" = "64GiB", "x-why" = "a body is held as it came, inflated and as records"))]
    pub memory: Size,

    /// For how long a request is recognised by its `Idempotency-Key` after its records became durable. The log holds its records as long.
    #[serde(default = "default_keys_for")]
    #[schemars(extend("x-least" = "1s", "x-most" = "7d", "x-why" = "a start reads the names of that time from the log"))]
    pub keys_for: Period,

    /// Requests that are recognised at a time; beyond it those with a new `Idempotency-Key` are answered 429.
    #[serde(default = "default_keys")]
    #[schemars(range(min = 1, max = 50_000_000), extend("x-why" = "each takes about 120 bytes of memory"))]
    pub keys: u64,

    /// Whether a request without `Idempotency-Key` is recognised by its bytes when the same client sends it again within `keys_for`, and is then answered
    /// without being appended a second time: requests of OTLP, `POST /v1/streams/NAME` and remote write. With more than `keys` such requests the oldest
    /// are forgotten. `true` for the formats of OTLP, whose senders send again what was not answered; otherwise `false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drop_repeats: Option<bool>,

    /// The log's objects are cut at so many bytes, as they are stored, also before `linger` has passed. Less means more requests to object storage, more means more
    /// memory. Requests below 16 KiB count as they came. An object has at most a quarter of `memory` and of `limits.memory`: the next one grows while it is uploaded.
    #[serde(default = "default_object")]
    #[schemars(extend("x-least" = "64KiB", "x-most" = "64MiB", "x-why" = "a reader holds a whole object"))]
    pub object: Size,

    /// The longest wait for others that share an object and a commit under load. If the last commit was at least as long ago, a request waits 5 ms only.
    #[serde(default = "default_linger")]
    #[schemars(extend("x-least" = "1ms", "x-most" = "30s", "x-why" = "a client waits for as long at the least"))]
    pub linger: Period,

    /// Records go that were taken longer ago than this, whether pipelines have read them or not. Left out, they stay until all have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<Period>,

    /// The oldest records go as long as at least this many bytes stay in the log without them, whether pipelines have read them or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_bytes: Option<Size>,
}

impl Default for Stream {
    fn default() -> Self {
        Self {
            log: None,
            partition: 0,
            format: StreamFormat::default(),
            schema_file: None,
            columns: Vec::new(),
            delimiter: default_delimiter(),
            quote: default_quote(),
            body: None,
            memory: default_stream_memory(),
            keys_for: default_keys_for(),
            keys: default_keys(),
            drop_repeats: None,
            object: default_object(),
            linger: default_linger(),
            keep: None,
            keep_bytes: None,
        }
    }
}

/// What the body of a request holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StreamFormat {
    /// JSON objects: one a line, or an array of them. Also object container files of Avro of any schema, each of whose records becomes such an object.
    #[default]
    Json,
    /// Lines of CSV; needs `columns`.
    Csv,
    /// Records of Avro: an object container file, or one record without a head; needs `schema_file`.
    Avro,
    /// Messages of Protocol Buffers: one, or with `Content-Type: application/x-protobuf; encoding=delimited` several, each behind its length.
    Protobuf,
    /// Lines of text, each of which becomes a JSON object with the field `line`.
    Lines,
    /// One record, whatever is in it: one with the number of its schema in front, for example.
    Message,
    /// One request of OTLP with log records, in Protocol Buffers or JSON. It is one record, which a pipeline reads by `format: otlp_logs`.
    OtlpLogs,
    /// The same with spans.
    OtlpTraces,
    /// The same with data points of metrics.
    OtlpMetrics,
}

/// Bounds of all requests together.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Memory for requests that were not answered, of all connections; beyond it they are answered 429.
    #[serde(default = "default_memory")]
    #[schemars(extend("x-least" = "8MiB", "x-most" = "1TiB", "x-why" = "a body is held as it came, inflated and as records"))]
    pub memory: Size,

    /// Connections open at a time, of each address; one more is answered 503 and closed.
    #[serde(default = "default_connections")]
    #[schemars(range(min = 1, max = 100_000), extend("x-why" = "each takes a file descriptor and some memory"))]
    pub connections: u32,

    /// The longest time for a body; a wait of a third of it for the next piece ends it too.
    #[serde(default = "default_body_time")]
    #[schemars(extend("x-least" = "1s", "x-most" = "1h", "x-why" = "a body that comes slowly holds memory"))]
    pub body_time: Period,

    /// The longest wait for records to become durable. A client is then told 503, and that they may still become so.
    #[serde(default = "default_answer_time")]
    #[schemars(extend("x-least" = "1s", "x-most" = "1h", "x-why" = "most clients and proxies give up earlier"))]
    pub answer_time: Period,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: default_memory(),
            connections: default_connections(),
            body_time: default_body_time(),
            answer_time: default_answer_time(),
        }
    }
}

impl Gateway {
    /// Connections and files that may be open at a time, by all of the file's bounds.
    pub fn open_max(&self) -> u64 {
        let addresses = u64::from(self.listen != Listen::None) + self.also_listen.len() as u64;
        let of_http = u64::from(self.limits.connections) * addresses;
        let of_syslog = self.syslog.iter().filter(|syslog| syslog.tcp.is_some());
        let of_syslog: u64 = of_syslog.map(|syslog| u64::from(syslog.connections)).sum();
        let of_files: u64 = self.files.iter().map(|files| u64::from(files.open)).sum();
        of_http + of_syslog + of_files
    }

    /// The longest body of a request for a stream, in bytes.
    pub fn body_bytes_of(&self, stream: &Stream) -> u64 {
        let room = stream.memory.bytes.min(self.limits.memory.bytes) / rules::ROOM_OF_BODY;
        stream.body.map_or(BODY_BYTES.min(room), |body| body.bytes)
    }

    /// The URL of the log that a stream fills.
    pub fn log_of(&self, name: &Identifier) -> String {
        match self.streams.get(name).and_then(|stream| stream.log.as_ref()) {
            Some(log) => log.to_string(),
            None => format!("{}/{name}", self.store.as_str().trim_end_matches('/')),
        }
    }
}

/// The longest body where the file does not say and memory allows it.
const BODY_BYTES: u64 = 16 << 20;

pub(super) fn default_listen() -> Listen {
    Listen::At(std::net::SocketAddr::from(([127, 0, 0, 1], 8686)))
}

pub(super) fn default_store() -> StoreUrl {
    "./forebay-logs".parse().expect("the default is a path")
}

pub(super) fn default_delimiter() -> String {
    ",".into()
}

pub(super) fn default_quote() -> String {
    "\"".into()
}

pub(super) fn default_stream_memory() -> Size {
    Size::mib(128)
}

pub(super) fn default_keys_for() -> Period {
    Period::seconds(600)
}

pub(super) fn default_keys() -> u64 {
    250_000
}

fn default_object() -> Size {
    Size::mib(64)
}

fn default_linger() -> Period {
    Period { ms: 500 }
}

fn default_memory() -> Size {
    Size::mib(256)
}

fn default_connections() -> u32 {
    1_024
}

fn default_body_time() -> Period {
    Period::seconds(60)
}

fn default_answer_time() -> Period {
    Period::seconds(30)
}

#[cfg(test)]
mod tests;
