//! The gateway's file to what a gateway is made of.
//!
//! Owns how settings become options, also those of a pipeline that listens ([`super::listening`]). Does not own what a gateway does (`gateway`).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use dataflow::Runtime;
use formats::avro::RecordSchema;
use formats::otlp::Signal;
use gateway::files::FilesOptions;
use gateway::options::{Csv, SecretFile};
use gateway::syslog::{SyslogOptions, Transport};
use gateway::{ClientOptions, Fills, Format, Limits, Options, OtlpStreams, StreamOptions};
use listener::{Edge, Tls, TlsFiles, Windows};
use object_log::Settings;
use object_log::decide::Retention;
use store::{Remote, Store};

use super::source::schema_text;
use super::storage;
use crate::config::gateway::{Client, FileLines, FileStart, Files, Gateway, Stream, StreamFormat, Syslog};
use crate::config::model::source::NO_QUOTE;
use crate::config::values::{Identifier, Listen, Period};

/// A body ends that sends nothing for this part of the time that it may take.
const BODY_WAITS: u32 = 3;
/// So great a part of `limits.memory`, on top of it, may have been sent over HTTP/2 and not been read: with the default, 56 connections send 1 MiB
/// ahead, and those after them less.
const PART_OF_WINDOWS: usize = 4;

/// What a gateway is made of; the stores of its logs are open then. Waits while one is away.
///
/// # Errors
/// When a certificate cannot be read, or a store refuses: then the cause is its [`store::StoreError`].
pub async fn options(file: &Gateway, runtime: &Arc<dyn Runtime>) -> anyhow::Result<Options> {
    let remote = storage::of_settings(file.object_storage.as_ref())?;
    let mut streams = Vec::new();
    for (name, stream) in &file.streams {
        let store = open(&file.log_of(name), &remote, &**runtime).await;
        let store = store.with_context(|| format!("the log of stream `{name}`"))?;
        streams.push(stream_options((name, stream), file.body_bytes_of(stream), log(file, stream, store))?);
    }
    with_streams(file, streams)
}

/// The same, but that `streams` are filled.
pub(super) fn with_streams(file: &Gateway, streams: Vec<StreamOptions>) -> anyhow::Result<Options> {
    let listen = match file.listen {
        Listen::At(address) => Some(address),
        Listen::None if file.syslog.is_empty() && file.files.is_empty() => {
            bail!("nothing is listened for; write an address at `listen`")
        }
        Listen::None => None,
    };
    let tls = file.tls.as_ref().map(|tls| {
        Tls::open(TlsFiles {
            cert: PathBuf::from(&tls.cert),
            key: PathBuf::from(&tls.key),
            client_ca: tls.client_ca.as_ref().map(PathBuf::from),
            http2: true,
        })
    });
    let windows = Windows::new(bytes(file.limits.memory.bytes) / PART_OF_WINDOWS);
    let edge = Edge { tls: tls.transpose().context("`tls`")?, http2: Some(windows) };
    let syslog = syslog_options(file, edge.tls.as_ref());
    let tenant_header = file.tenant_header.as_ref().map(|name| name.parse()).transpose();
    let also_listen = file.also_listen.iter().filter_map(|listen| match listen {
        Listen::None => None,
        Listen::At(address) => Some(*address),
    });
    Ok(Options {
        name: file.gateway.to_string(),
        listen,
        also_listen: also_listen.collect(),
        edge,
        streams,
        clients: file.clients.iter().map(|(name, client)| client_options(name, client)).collect(),
        tenant_header: tenant_header.context("`tenant_header`")?,
        otlp: OtlpStreams {
            logs: file.otlp.logs.to_string(),
            traces: file.otlp.traces.to_string(),
            metrics: file.otlp.metrics.to_string(),
        },
        syslog,
        files: file.files.iter().map(files_options).collect(),
        limits: Limits {
            memory_bytes: bytes(file.limits.memory.bytes),
            connections_max: file.limits.connections as usize,
            body_wait_max: time(file.limits.body_time) / BODY_WAITS,
            body_time_max: time(file.limits.body_time),
            answer_wait_max: time(file.limits.answer_time),
            drain_max: time(file.shutdown.timeout),
        },
    })
}

/// Whether the schemas of all streams can be read; for who only looks at the file.
///
/// # Errors
/// When one of them cannot.
pub fn check_schemas(file: &Gateway) -> anyhow::Result<()> {
    file.streams
        .iter()
        .try_for_each(|(name, stream)| format(stream).map(drop).with_context(|| format!("stream `{name}`")))
}

/// Each address of syslog by itself.
fn syslog_options(file: &Gateway, tls: Option<&Tls>) -> Vec<SyslogOptions> {
    let of = |syslog: &Syslog| {
        let tls = if syslog.encrypted { tls.cloned() } else { None };
        let tcp = Transport::Tcp { tls, connections_max: syslog.connections as usize };
        let transports = [(syslog.udp, Transport::Udp), (syslog.tcp, tcp)];
        let (stream, message_bytes_max) = (syslog.stream.to_string(), bytes(syslog.message.bytes));
        transports.into_iter().filter_map(move |(listen, transport)| match listen? {
            Listen::None => None,
            Listen::At(listen) => {
                Some(SyslogOptions { listen, transport, stream: stream.clone(), message_bytes_max })
            }
        })
    };
    file.syslog.iter().flat_map(of).collect()
}

fn files_options(files: &Files) -> FilesOptions {
    FilesOptions {
        paths: files.paths.clone(),
        exclude: files.exclude.clone(),
        stream: files.stream.to_string(),
        host: files.host.clone().unwrap_or_else(host),
        is_json: files.lines == FileLines::Json,
        from_end: files.start == FileStart::End,
        line_bytes_max: bytes(files.line.bytes),
        open_max: files.open as usize,
        ahead_bytes_max: bytes(files.ahead.bytes),
    }
}

/// This host's name; empty where it is not to be had.
fn host() -> String {
    let known = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let known = known.or_else(|| std::env::var("HOSTNAME").ok());
    known.map(|name| name.trim().to_owned()).unwrap_or_default()
}

fn bytes(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn time(period: Period) -> Duration {
    Duration::from_millis(period.ms)
}

/// Opens the store of a log, which is made if it is not there; waits while it is away.
async fn open(url: &str, remote: &Remote, runtime: &dyn Runtime) -> anyhow::Result<Arc<dyn Store>> {
    let (url, remote) = (url.to_owned(), remote.clone());
    let store = tokio::task::spawn_blocking(move || store::open(&url, &remote)).await??;
    storage::reach_log(&*store, "the store of a log", runtime).await?;
    Ok(store)
}

/// A stream that fills what is given.
///
/// # Errors
/// When the schema of its records cannot be read.
pub(super) fn stream_options(
    (name, stream): (&Identifier, &Stream),
    body_bytes: u64,
    fills: Fills,
) -> anyhow::Result<StreamOptions> {
    let format = format(stream).with_context(|| format!("stream `{name}`"))?;
    let is_otlp = matches!(format, Format::Otlp(_));
    Ok(StreamOptions {
        name: name.to_string(),
        fills,
        format,
        body_bytes_max: bytes(body_bytes),
        memory_bytes: bytes(stream.memory.bytes),
        key_window: time(stream.keys_for),
        keys_max: bytes(stream.keys),
        drops_repeats: stream.drop_repeats.unwrap_or(is_otlp),
    })
}

/// How bodies of a stream are divided into records.
fn format(stream: &Stream) -> anyhow::Result<Format> {
    let byte = |text: &str| text.as_bytes().first().copied().unwrap_or(b',');
    Ok(match stream.format {
        StreamFormat::Json => Format::Json,
        StreamFormat::Lines => Format::Lines,
        StreamFormat::Protobuf => Format::Protobuf,
        StreamFormat::Avro => {
            let path = stream.schema_file.as_deref().unwrap_or_default();
            let of_file = || format!("schema_file `{path}`");
            let text = schema_text(Path::new(path)).with_context(of_file)?;
            Format::Avro(Arc::new(RecordSchema::read(&text).with_context(of_file)?))
        }
        StreamFormat::Message => Format::Message,
        StreamFormat::OtlpLogs => Format::Otlp(Signal::Logs),
        StreamFormat::OtlpTraces => Format::Otlp(Signal::Traces),
        StreamFormat::OtlpMetrics => Format::Otlp(Signal::Metrics),
        StreamFormat::Csv => Format::Csv(Csv {
            columns: stream.columns.clone(),
            delimiter: byte(&stream.delimiter),
            quote: (stream.quote != NO_QUOTE).then(|| byte(&stream.quote)),
        }),
    })
}

/// A stream's own partition of a log.
fn log(file: &Gateway, stream: &Stream, store: Arc<dyn Store>) -> Fills {
    let retention = Retention {
        acknowledged: true,
        age_max: stream.keep.map(time),
        bytes_max: stream.keep_bytes.map(|size| size.bytes),
        keep_min: None,
    };
    let settings = Settings {
        linger_min: Settings::default().linger_min.min(time(stream.linger)),
        linger_max: time(stream.linger),
        object_bytes: bytes(stream.object.bytes),
        // The gateway's own bound is the one that is met.
        memory_bytes: bytes(file.limits.memory.bytes.min(stream.memory.bytes)),
        retention,
        ..Settings::default()
    };
    Fills::Log { store, partition: stream.partition, settings }
}

fn client_options(name: &Identifier, client: &Client) -> ClientOptions {
    let secret = match (&client.token_file, &client.user, &client.password_file) {
        (_, Some(user), Some(path)) => SecretFile::Passwords(user.clone(), PathBuf::from(path)),
        (path, _, _) => SecretFile::Tokens(PathBuf::from(path.as_deref().unwrap_or_default())),
    };
    let streams = client.streams.as_ref();
    ClientOptions {
        name: name.to_string(),
        secret,
        streams: streams.map(|streams| streams.iter().map(ToString::to_string).collect()),
        tenant: client.tenant.as_ref().map(ToString::to_string),
    }
}
