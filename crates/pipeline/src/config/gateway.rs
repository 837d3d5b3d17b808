//! The gateway's file as types: keys, defaults, bounds, and the rules that span several keys.
//!
//! Owns what a gateway's file may say. Does not own what it does (the crate `gateway`). As with the pipeline file, doc comments are the reference page.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::model::source::NO_QUOTE;
use super::model::{Http, Log, ObjectStorage, Shutdown};
use super::values::{Identifier, Listen, Period, PipelineName, Size, StoreUrl};

/// A gateway takes records over HTTP into logs, and answers once they are durable.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Forebay gateway file", extend("x-called" = "the gateway"))]
pub struct Gateway {
    /// The gateway's name, by which the owner of its logs is shown.
    pub gateway: PipelineName,

    /// The address to listen on; port 0 for any free port (the log says which).
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

    /// A longer body is refused, by its length as it comes and inflated.
    #[serde(default = "default_body")]
    #[schemars(extend("x-least" = "1KiB", "x-most" = "16MiB", "x-why" = "all of a request is taken at once, or nothing"))]
    pub body: Size,

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

    /// The longest wait for others that share an object and a commit under load. While nothing is under way a request waits 5 ms only.
    #[serde(default = "default_linger")]
    #[schemars(extend("x-least" = "1ms", "x-most" = "30s", "x-why" = "a client waits for as long at the least"))]
    pub linger: Period,

    /// Records go that were taken longer ago than this, whether pipelines have read them or not. Left out, they stay until all have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<Period>,

    /// The oldest records go while the log has more bytes than this, whether pipelines have read them or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_bytes: Option<Size>,
}

impl Default for Stream {
    fn default() -> Self {
        Self {
            log: None,
            partition: 0,
            format: StreamFormat::default(),
            columns: Vec::new(),
            delimiter: default_delimiter(),
            quote: default_quote(),
            body: default_body(),
            memory: default_stream_memory(),
            keys_for: default_keys_for(),
            keys: default_keys(),
            drop_repeats: None,
            linger: default_linger(),
            keep: None,
            keep_bytes: None,
        }
    }
}

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

/// What the body of a request holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StreamFormat {
    /// JSON objects: one a line, or an array of them.
    #[default]
    Json,
    /// Lines of CSV; needs `columns`.
    Csv,
    /// One record, whatever is in it: a message in Avro, for example.
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

/// Characters of a stream's name.
const STREAM_MAX: usize = 128;

const FORGETS: &str = "`memory://` forgets what was answered when the process ends; give a path";

/// Finds what the schema cannot say; `fault` takes the path of a key and the message.
pub fn rules(gateway: &Gateway, fault: &mut dyn FnMut(&str, String)) {
    let also =
        gateway.also_listen.iter().enumerate().map(|(at, listen)| (format!("also_listen[{at}]"), *listen));
    let mut remote = None;
    for (path, listen) in std::iter::once(("listen".to_owned(), gateway.listen)).chain(also) {
        match listen {
            Listen::None => fault(&path, "a gateway listens; write an address".to_owned()),
            Listen::At(address) if !address.ip().is_loopback() => remote = remote.or(Some((path, listen))),
            Listen::At(_) => {}
        }
    }
    let is_remote = remote.is_some();
    let asks = !gateway.clients.is_empty() || gateway.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
    if let (Some((path, listen)), false, false) = (&remote, asks, gateway.allow_anyone) {
        let message = format!(
            "`{}` can be reached by other machines, and there are no `clients`: add some, or write `allow_anyone: true`",
            listen
        );
        fault(path, message);
    }
    if is_remote && !gateway.clients.is_empty() && gateway.tls.is_none() && !gateway.allow_plaintext {
        let message = "tokens and passwords are sent in clear by other machines; add `tls`, or write `allow_plaintext: true` behind a proxy that \
                       ends TLS";
        fault("clients", message.to_owned());
    }
    for (name, client) in &gateway.clients {
        let path = format!("clients.{name}");
        if client.user.is_some() != client.password_file.is_some() {
            fault(&path, "`user` and `password_file` go together".to_owned());
        }
        for (at, stream) in client.streams.iter().flatten().enumerate() {
            if !gateway.streams.contains_key(stream) {
                fault(&format!("{path}.streams[{at}]"), format!("there is no stream `{stream}`"));
            }
        }
        if let Some(tenant) = &client.tenant
            && !is_word(tenant.as_str(), &['-', '_'], 64)
        {
            let message = "a tenant's name has 1 to 64 letters, digits, `-` and `_`";
            fault(&format!("{path}.tenant"), message.to_owned());
        }
    }
    if let Some(name) = &gateway.tenant_header
        && !is_word(name, &['-', '_'], 64)
    {
        fault("tenant_header", "is no name of a header".to_owned());
    }
    syslog(gateway, fault);
    files(gateway, fault);
    streams(gateway, fault);
    otlp(gateway, fault);
}

/// A stream that OTLP fills has the format of its signal, and one that the file names is there.
fn otlp(gateway: &Gateway, fault: &mut dyn FnMut(&str, String)) {
    let (own, usual) = (&gateway.otlp, Otlp::default());
    for (key, named, usual, format, word) in [
        ("logs", &own.logs, usual.logs, StreamFormat::OtlpLogs, "otlp_logs"),
        ("traces", &own.traces, usual.traces, StreamFormat::OtlpTraces, "otlp_traces"),
        ("metrics", &own.metrics, usual.metrics, StreamFormat::OtlpMetrics, "otlp_metrics"),
    ] {
        // Those of tenants too.
        let is_meant = |name: &Identifier| {
            let front = name.as_str().strip_suffix(named.as_str());
            front.is_some_and(|front| front.is_empty() || front.ends_with('.'))
        };
        let mut meant = gateway.streams.iter().filter(|(name, _)| is_meant(name)).peekable();
        if meant.peek().is_none() && *named != usual {
            fault(&format!("otlp.{key}"), format!("there is no stream `{named}`"));
        }
        for (name, _) in meant.filter(|(_, stream)| stream.format != format) {
            let message = format!(
                "`/v1/{key}` fills this stream: write `format: {word}`, or name another one at `otlp.{key}`"
            );
            fault(&format!("streams.{name}.format"), message);
        }
    }
}

/// The room of a stream for its longest message or line: escaped, and beside those of others.
const ROOM_OF_MESSAGE: u64 = 8;

fn files(gateway: &Gateway, fault: &mut dyn FnMut(&str, String)) {
    for (at, files) in gateway.files.iter().enumerate() {
        let path = format!("files[{at}]");
        let name = &files.stream;
        match gateway.streams.get(name) {
            None => fault(&format!("{path}.stream"), format!("there is no stream `{name}`")),
            Some(stream) if stream.format != StreamFormat::Json => {
                fault(&format!("{path}.stream"), format!("stream `{name}` does not take JSON"));
            }
            Some(stream) if stream.memory.bytes / ROOM_OF_MESSAGE < files.line.bytes => {
                let message = format!("is more than an eighth of the `memory` of stream `{name}`");
                fault(&format!("{path}.line"), message);
            }
            Some(_) => {}
        }
        if gateway.files[..at].iter().any(|before| before.stream == *name) {
            let message =
                format!("other files fill stream `{name}`: add the paths there, or name another stream");
            fault(&format!("{path}.stream"), message);
        }
    }
}

fn syslog(gateway: &Gateway, fault: &mut dyn FnMut(&str, String)) {
    let asks = gateway.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
    for (at, syslog) in gateway.syslog.iter().enumerate() {
        let path = format!("syslog[{at}]");
        for (key, listen, asks) in
            [("udp", &syslog.udp, false), ("tcp", &syslog.tcp, syslog.encrypted && asks)]
        {
            match listen {
                Some(Listen::None) => {
                    fault(&format!("{path}.{key}"), "leave it out, or write an address".to_owned())
                }
                Some(Listen::At(address))
                    if !address.ip().is_loopback() && !asks && !gateway.allow_anyone =>
                {
                    let message = format!(
                        "`{address}` can be reached by other machines, and syslog knows no login: use `tcp` with `encrypted: true` and \
                         `tls.client_ca`, or write `allow_anyone: true`"
                    );
                    fault(&format!("{path}.{key}"), message);
                }
                Some(Listen::At(_)) | None => {}
            }
        }
        if syslog.udp.is_none() && syslog.tcp.is_none() {
            fault(&path, "needs an address: write `udp`, `tcp`, or both".to_owned());
        }
        if syslog.encrypted && (syslog.tcp.is_none() || gateway.tls.is_none()) {
            let message = "only `tcp` can be encrypted, by the gateway's `tls`".to_owned();
            fault(&format!("{path}.encrypted"), message);
        }
        match gateway.streams.get(&syslog.stream) {
            None => fault(&format!("{path}.stream"), format!("there is no stream `{}`", syslog.stream)),
            Some(stream) if stream.format != StreamFormat::Json => {
                fault(&format!("{path}.stream"), format!("stream `{}` does not take JSON", syslog.stream));
            }
            Some(stream) if stream.memory.bytes / ROOM_OF_MESSAGE < syslog.message.bytes => {
                let message = format!("is more than an eighth of the `memory` of stream `{}`", syslog.stream);
                fault(&format!("{path}.message"), message);
            }
            Some(_) => {}
        }
    }
}

fn streams(gateway: &Gateway, fault: &mut dyn FnMut(&str, String)) {
    let mut places: BTreeMap<(String, u32), &Identifier> = BTreeMap::new();
    if gateway.store.is_memory() && gateway.streams.values().any(|stream| stream.log.is_none()) {
        fault("store", FORGETS.to_owned());
    }
    for (name, stream) in &gateway.streams {
        let path = format!("streams.{name}");
        if !is_word(name.as_str(), &['-', '_', '.'], STREAM_MAX) || name.as_str().starts_with('.') {
            let message = format!(
                "`{}` cannot be the name of a stream: it has 1 to {STREAM_MAX} letters, digits, `-`, `_` and `.`, and no dot first",
                dataflow::printing::escaped(name.as_str(), STREAM_MAX)
            );
            fault(&path, message);
        }
        if stream.log.as_ref().is_some_and(StoreUrl::is_memory) {
            fault(&format!("{path}.log"), FORGETS.to_owned());
        }
        if let Some(other) = places.insert((gateway.log_of(name), stream.partition), name) {
            fault(&path, format!("stream `{other}` fills that partition of the log too"));
        }
        match (stream.format, stream.columns.is_empty()) {
            (StreamFormat::Csv, true) => {
                fault(&path, "CSV needs the names of its fields: write `columns: [id, name]`".to_owned());
            }
            (_, false) if stream.format != StreamFormat::Csv => {
                fault(&format!("{path}.columns"), "`columns` go with `format: csv`".to_owned());
            }
            _ => {}
        }
        let is_one =
            |text: &str| matches!(text.as_bytes(), [byte] if byte.is_ascii() && !b"\r\n".contains(byte));
        if !is_one(&stream.delimiter) {
            let message = "`delimiter` is one ASCII character and no line break; `\"\\t\"` is a tab";
            fault(&format!("{path}.delimiter"), message.to_owned());
        }
        if stream.quote != NO_QUOTE && (!is_one(&stream.quote) || stream.quote == stream.delimiter) {
            let message = "`quote` is one ASCII character, neither a line break nor the delimiter; `none` gives quotes no meaning";
            fault(&format!("{path}.quote"), message.to_owned());
        }
        if stream.keep.is_some_and(|keep| keep < stream.keys_for) {
            let message = "records go before their `Idempotency-Key` does; give `keys_for` or more";
            fault(&format!("{path}.keep"), message.to_owned());
        }
    }
}

fn is_word(text: &str, more: &[char], chars_max: usize) -> bool {
    let is_known = |c: char| c.is_ascii_alphanumeric() || more.contains(&c);
    (1..=chars_max).contains(&text.len()) && text.chars().all(is_known)
}

impl Gateway {
    /// The URL of the log that a stream fills.
    pub fn log_of(&self, name: &Identifier) -> String {
        match self.streams.get(name).and_then(|stream| stream.log.as_ref()) {
            Some(log) => log.to_string(),
            None => format!("{}/{name}", self.store.as_str().trim_end_matches('/')),
        }
    }
}

pub(super) fn default_listen() -> Listen {
    Listen::At(std::net::SocketAddr::from(([127, 0, 0, 1], 8686)))
}

pub(super) fn default_store() -> StoreUrl {
    "./forebay-logs".parse().expect("the default is a path")
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

pub(super) fn default_delimiter() -> String {
    ",".into()
}

pub(super) fn default_quote() -> String {
    "\"".into()
}

pub(super) fn default_body() -> Size {
    Size::mib(16)
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
