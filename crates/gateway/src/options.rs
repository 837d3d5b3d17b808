//! What a gateway is made of: every setting as a value with its unit.
//!
//! Owns those types, and the streams' default names for OTLP. Does not own the gateway's file, its defaults and rules
//! (`pipeline::config::gateway`), nor the way from one to the other (`pipeline::wiring::gateway`).

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderName;
use formats::avro::RecordSchema;
use formats::otlp::Signal;
use listener::{Edge, Tls};
use object_log::Settings;
use store::Store;

use crate::direct::Direct;

/// Everything that a gateway is made of.
pub struct Options {
    /// Its name, for the owners of the logs.
    pub name: String,
    /// Where it listens for HTTP; nowhere if it is filled by syslog and files alone.
    pub listen: Option<SocketAddr>,
    /// Where it listens too, for senders that expect ports of their own.
    pub also_listen: Vec<SocketAddr>,
    /// TLS and HTTP/2.
    pub edge: Edge,
    /// What is filled. A name is used once.
    pub streams: Vec<StreamOptions>,
    /// Who may fill them; everybody if there are none.
    pub clients: Vec<ClientOptions>,
    /// The header that names the tenant of a request whose client has none of its own.
    pub tenant_header: Option<HeaderName>,
    /// The streams that OTLP fills.
    pub otlp: OtlpStreams,
    /// Where syslog is listened for.
    pub syslog: Vec<SyslogOptions>,
    /// Files that are followed.
    pub files: Vec<FilesOptions>,
    /// Bounds of all requests together.
    pub limits: Limits,
}

/// The names of the streams that OTLP fills, one for each signal. They need not be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpStreams {
    /// Log records.
    pub logs: String,
    /// Spans.
    pub traces: String,
    /// Data points of metrics.
    pub metrics: String,
}

impl Default for OtlpStreams {
    /// Each is called as the format of its signal.
    fn default() -> Self {
        let name = |signal: Signal| signal.format().to_owned();
        Self { logs: name(Signal::Logs), traces: name(Signal::Traces), metrics: name(Signal::Metrics) }
    }
}

/// Bounds of all requests together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes in memory for requests that were not answered: bodies as they came, inflated, and as records.
    pub memory_bytes: usize,
    /// Connections open at a time, of each address.
    pub connections_max: usize,
    /// The longest wait for the next piece of a body.
    pub body_wait_max: Duration,
    /// The longest time for a whole body.
    pub body_time_max: Duration,
    /// The longest wait for records to become durable, before a client is told that nobody knows yet.
    pub answer_wait_max: Duration,
    /// The longest wait for requests and appends under way at the end.
    pub drain_max: Duration,
}

/// One stream: a partition of a log, under a name.
pub struct StreamOptions {
    /// Its name in requests.
    pub name: String,
    /// What it fills.
    pub fills: Fills,
    /// What a body holds.
    pub format: Format,
    /// Bytes of a body, inflated; at most [`object_log::object::APPEND_BYTES_MAX`].
    pub body_bytes_max: usize,
    /// Bytes in memory for requests of this stream.
    pub memory_bytes: usize,
    /// For how long a request's name is known after its answer.
    pub key_window: Duration,
    /// Names known at a time; at least 1.
    pub keys_max: usize,
    /// A request without a name is named after its client and its bytes, so that one that comes again is recognised.
    pub drops_repeats: bool,
}

/// Where the records of a stream become durable.
pub enum Fills {
    /// In a log.
    Log {
        /// The store whose root is the log's folder.
        store: Arc<dyn Store>,
        /// The partition that this gateway owns.
        partition: u32,
        /// How appends become objects, and what goes.
        settings: Settings,
    },
    /// In the seals of a pipeline of this process.
    Pipeline(Arc<Direct>),
}

/// What the body of a request holds.
#[derive(Clone, Debug)]
pub enum Format {
    /// JSON objects: one a line, or an array of them; or an object container file of Avro, whose records become such objects.
    Json,
    /// Records of Avro that have this schema: an object container file, or one without a head.
    Avro(Arc<RecordSchema>),
    /// Messages of Protocol Buffers: one, or several behind their lengths.
    Protobuf,
    /// Lines of text, each of which becomes a JSON object.
    Lines,
    /// Lines of CSV.
    Csv(Csv),
    /// One record, whatever is in it.
    Message,
    /// One request of OTLP, in Protocol Buffers or JSON; the record is in Protocol Buffers.
    Otlp(Signal),
}

/// How lines of CSV are told apart and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Csv {
    /// The names of the fields, in order.
    pub columns: Vec<String>,
    /// Between two fields.
    pub delimiter: u8,
    /// Around fields that hold delimiters or line breaks; `None` if quotes have no meaning.
    pub quote: Option<u8>,
}

/// A client, how it shows who it is, and which streams it may fill.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientOptions {
    /// Its name in logs and metrics. No secret.
    pub name: String,
    /// How it shows who it is.
    pub secret: SecretFile,
    /// The streams that it may fill, by their whole names; all if `None`.
    pub streams: Option<BTreeSet<String>>,
    /// Its tenant, whose streams are called `TENANT.NAME`.
    pub tenant: Option<String>,
}

/// Where a client's secrets are: a file with one in each line, all of which are good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretFile {
    /// Bearer tokens.
    Tokens(PathBuf),
    /// Passwords of this user.
    Passwords(String, PathBuf),
}

/// An address for messages of syslog, and the stream that they fill.
pub struct SyslogOptions {
    /// The address.
    pub listen: SocketAddr,
    /// How messages come.
    pub transport: Transport,
    /// The stream that they fill, by its whole name; of JSON.
    pub stream: String,
    /// Bytes of a message; what is longer is cut. At least 480, which every receiver has to take.
    pub message_bytes_max: usize,
}

/// How messages of syslog reach an address.
#[derive(Clone)]
pub enum Transport {
    /// In connections, each message with its length before it or a line break behind it.
    Tcp {
        /// Encrypts connections.
        tls: Option<Tls>,
        /// Connections open at a time.
        connections_max: usize,
    },
    /// A message in each datagram.
    Udp,
}

/// Files that are followed, and the stream that their lines fill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilesOptions {
    /// Paths, and patterns with `*`, `?`, `[a-z]` and `**`.
    pub paths: Vec<String>,
    /// Patterns of files that are left out.
    pub exclude: Vec<String>,
    /// The stream that they fill, by its whole name; of JSON. No other files fill it.
    pub stream: String,
    /// This host, in records.
    pub host: String,
    /// Lines that are JSON objects are records as they are.
    pub is_json: bool,
    /// Files that are there at the first start are read from their end.
    pub from_end: bool,
    /// Bytes of a line; what is longer is cut. 1 to 1 MiB.
    pub line_bytes_max: usize,
    /// Files open at a time; at least 1.
    pub open_max: usize,
    /// Bytes of files that are read ahead of the log.
    pub ahead_bytes_max: usize,
}
