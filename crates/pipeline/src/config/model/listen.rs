//! `listen:` of a pipeline and of its inputs: records that are sent to the pipeline itself.
//!
//! Owns what such a pipeline may say, and how that is a gateway's file whose streams are the inputs. Does not own the gateway's rules (`config::gateway`),
//! nor what is done with requests (the crate `gateway`).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::source::{Format, Source};
use super::{Input, Pipeline};
use crate::config::gateway::{self, Client, Gateway, Limits, Otlp, ServerTls, Stream, StreamFormat, Syslog};
use crate::config::values::{Identifier, Listen, Period, Size};

/// What is sent to this process over HTTP, gRPC or syslog, as to a [gateway](../gateway.md) but without a log: a request is answered once its records are sealed, which takes
/// as long as a batch is filled (`sink.batch.age`). `listen` beside `pipeline` says where, and who may send.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListenSource {
    /// The stream's name in requests, and in the journal. If left out, `otlp_logs`, `otlp_traces` and `otlp_metrics` for these formats, and the pipeline's name for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<Identifier>,

    /// A longer body is refused, by its length as it comes and inflated. At most a quarter of `memory` and of `listen.limits.memory`; 16 MiB, or such a quarter if that
    /// is less, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-least" = "1KiB", "x-most" = "16MiB", "x-why" = "all of a request is taken at once, or nothing"))]
    pub body: Option<Size>,

    /// Memory for requests of this stream that were not answered; beyond it they are answered 429, whatever others leave.
    #[serde(default = "gateway::default_stream_memory")]
    #[schemars(extend("x-least" = "1MiB", "x-most" = "64GiB", "x-why" = "a body is held as it came, inflated and as records"))]
    pub memory: Size,

    /// For how long a request is recognised by its `Idempotency-Key` after its records were sealed, and as long as the process runs: the next one does not know it.
    #[serde(default = "gateway::default_keys_for")]
    #[schemars(extend("x-least" = "1s", "x-most" = "7d", "x-why" = "names take memory"))]
    pub keys_for: Period,

    /// Requests that are recognised at a time; beyond it those with a new `Idempotency-Key` are answered 429.
    #[serde(default = "gateway::default_keys")]
    #[schemars(range(min = 1, max = 50_000_000), extend("x-why" = "each takes about 120 bytes of memory"))]
    pub keys: u64,

    /// Whether a request without `Idempotency-Key` is recognised by its bytes, as in a gateway's file: `true` for the formats of OTLP, otherwise `false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drop_repeats: Option<bool>,
}

impl Default for ListenSource {
    fn default() -> Self {
        Self {
            stream: None,
            body: None,
            memory: gateway::default_stream_memory(),
            keys_for: gateway::default_keys_for(),
            keys: gateway::default_keys(),
            drop_repeats: None,
        }
    }
}

/// Where a pipeline with inputs that `listen` takes requests, and who may send them. All means what it means in a gateway's file.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Listening {
    /// The address to listen on; port 0 for any free port (the log says which).
    #[serde(default = "gateway::default_listen")]
    pub address: Listen,

    /// Further addresses for the same requests, such as those that senders of OTLP use by default: `127.0.0.1:4317` for gRPC, `127.0.0.1:4318` for HTTP.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-why" = "each has connections of its own"))]
    pub also: Vec<Listen>,

    /// Lets `address` be one that other machines can reach although there are no `clients`: everybody may then send.
    #[serde(default)]
    pub allow_anyone: bool,

    /// Lets tokens and passwords come unencrypted from other machines, without `tls`: for a pipeline behind a proxy that ends TLS.
    #[serde(default)]
    pub allow_plaintext: bool,

    /// Encrypts connections. The files are read again when they change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<ServerTls>,

    /// Who may send, by a name that is shown in logs; everybody if there are none. The files are read again when they change.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 1000, "x-why" = "each request is compared with all of them"))]
    pub clients: BTreeMap<Identifier, Client>,

    /// The header that names the tenant of a request, such as `X-Scope-OrgID`. A tenant's streams are called `TENANT.NAME` at the inputs, and `NAME` in requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_header: Option<String>,

    /// Where messages of syslog are taken, each as a JSON object. Nobody is answered, so a message that was taken and is not yet sealed is lost with the process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub syslog: Vec<Syslog>,

    /// The streams that OTLP fills.
    #[serde(default)]
    pub otlp: Otlp,

    /// Bounds of all requests together.
    #[serde(default)]
    pub limits: Limits,
}

impl Default for Listening {
    fn default() -> Self {
        Self {
            address: gateway::default_listen(),
            also: Vec::new(),
            allow_anyone: false,
            allow_plaintext: false,
            tls: None,
            clients: BTreeMap::new(),
            tenant_header: None,
            syslog: Vec::new(),
            otlp: Otlp::default(),
            limits: Limits::default(),
        }
    }
}

impl Pipeline {
    /// The inputs that listen, each with the name of its stream.
    pub fn listening_inputs(&self) -> Vec<(Input<'_>, Identifier)> {
        let named = self.inputs().into_iter().map(|input| {
            let stream = stream_of(self, input.source);
            (input, stream)
        });
        named.filter_map(|(input, stream)| Some((input, stream?))).collect()
    }

    /// The file of the gateway that stands before the inputs that listen; `None` if none does. Its logs are not used.
    pub fn gateway(&self) -> Option<Gateway> {
        let inputs = self.listening_inputs();
        if inputs.is_empty() {
            return None;
        }
        let own = self.listen.clone().unwrap_or_default();
        let streams = inputs.iter().filter_map(|(input, name)| Some((name.clone(), stream(input.source)?)));
        Some(Gateway {
            gateway: self.pipeline.clone(),
            listen: own.address,
            also_listen: own.also,
            allow_anyone: own.allow_anyone,
            allow_plaintext: own.allow_plaintext,
            tls: own.tls,
            clients: own.clients,
            tenant_header: own.tenant_header,
            store: gateway::default_store(),
            object_storage: None,
            syslog: own.syslog,
            files: Vec::new(),
            streams: streams.collect(),
            otlp: own.otlp,
            limits: own.limits,
            http: self.http.clone(),
            shutdown: self.shutdown.clone(),
            log: self.log.clone(),
        })
    }
}

/// The stream that is sent to an input, if it listens.
pub fn stream_of(pipeline: &Pipeline, source: &Source) -> Option<Identifier> {
    let listen = source.listen.as_ref()?;
    let usual = || match source.format.otlp() {
        Some((signal, _)) => signal.format().to_owned(),
        None => pipeline.pipeline.to_string(),
    };
    Some(listen.stream.clone().unwrap_or_else(|| usual().parse().expect("a name")))
}

/// How bodies of an input's stream are divided into its records.
fn stream(source: &Source) -> Option<Stream> {
    let listen = source.listen.as_ref()?;
    let csv = source.format.csv();
    Some(Stream {
        format: format(&source.format),
        schema_file: source.format.avro().and_then(|avro| avro.schema_file),
        columns: csv.map_or_else(Vec::new, |csv| csv.columns.clone()),
        delimiter: csv.map_or_else(gateway::default_delimiter, |csv| csv.delimiter.clone()),
        quote: csv.map_or_else(gateway::default_quote, |csv| csv.quote.clone()),
        body: listen.body,
        memory: listen.memory,
        keys_for: listen.keys_for,
        keys: listen.keys,
        drop_repeats: listen.drop_repeats,
        ..Stream::default()
    })
}

fn format(format: &Format) -> StreamFormat {
    use formats::otlp::Signal;

    match format.otlp() {
        Some((Signal::Logs, _)) => StreamFormat::OtlpLogs,
        Some((Signal::Traces, _)) => StreamFormat::OtlpTraces,
        Some((Signal::Metrics, _)) => StreamFormat::OtlpMetrics,
        None if format.csv().is_some() => StreamFormat::Csv,
        // What stands before a record with a number of its schema is no part of the record.
        None if format.avro().is_some_and(|avro| avro.schema_file.is_some()) => StreamFormat::Avro,
        None if format.protobuf().is_some_and(|of| of.schema_file.is_some()) => StreamFormat::Protobuf,
        None if format.avro().is_some() || format.protobuf().is_some() => StreamFormat::Message,
        None => StreamFormat::Json,
    }
}
