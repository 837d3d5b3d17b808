//! `forebay gateway`: takes records over HTTP into logs.
//!
//! Owns the way from a gateway's file to a running gateway, and how its end is told. Does not own what a gateway does (`gateway`), nor its file
//! (`pipeline::config::gateway`).

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use dataflow::Runtime;
use engine::TokioRuntime;
use gateway::options::{Csv, SecretFile};
use gateway::otlp::Signal;
use gateway::syslog::{SyslogOptions, Transport};
use gateway::{ClientOptions, End, Format, Gate, GatewayError, Limits, Options, OtlpStreams, StreamOptions};
use listener::{Edge, Tls, TlsFiles};
use object_log::decide::Retention;
use object_log::{LogError, Settings};
use pipeline::config;
use pipeline::config::gateway::{Gateway as File, Stream, StreamFormat};
use pipeline::config::model::source::NO_QUOTE;
use pipeline::config::values::reference::Surroundings;
use pipeline::config::values::{Identifier, Listen, Period};
use pipeline::wiring::storage;
use serde_json::{Value, json};
use store::{Remote, Store};
use tokio::sync::watch;

use super::place;
use crate::console::Exit;
use crate::http::{Server, View};
use crate::logging::{self, LogOptions};
use crate::recorder::Metrics;
use crate::signals::Signals;

/// Pause between two tries to reach a store at the start.
const AWAY_PAUSE: Duration = Duration::from_secs(2);

/// A body ends that sends nothing for this part of the time that it may take.
const BODY_WAITS: u32 = 3;

/// Takes records over HTTP into logs, and answers once they are durable there.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay gateway gateway.yaml
  forebay check gateway.yaml
  curl http://127.0.0.1:8686/v1/streams/orders --data-binary @orders.ndjson -H 'Idempotency-Key: 2026-11-24-1'

A small gateway file:
  gateway: edge
  streams:
    orders: {}

A pipeline reads what a gateway has taken: `source: { log: { url: ./forebay-logs/orders } }`.

On the first SIGTERM or SIGINT the gateway takes no more and answers what is under way, for at most `shutdown.timeout`; on the second one it stops at \
once. What was answered is durable either way.

Exit codes: 0 if the gateway was drained; 2 for an error in the file; 3 if another process has taken over one of its logs; 4 if you must decide \
something; 1 for any other failure.")]
pub struct Gateway {
    /// The gateway's file; `-` for standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Gateway {
    /// Runs the command.
    ///
    /// # Errors
    /// When the process itself cannot be set up, or a store refuses.
    pub fn execute(&self, log: &LogOptions) -> anyhow::Result<Exit> {
        place::leave()?;
        let text = config::load(&self.file)?;
        place::enter(&self.file)?;
        let checked = config::check_gateway(&text, &Surroundings::of_process());
        let shown = checked.faults.render(&self.file.display().to_string());
        std::io::stderr().write_all(shown.as_bytes()).context("cannot write to standard error")?;
        let Some(file) = checked.gateway else { return Ok(Exit::Fault) };
        logging::start(log, file.log.level, file.log.format)?;
        super::runtime()?.block_on(run(file))
    }
}

async fn run(file: File) -> anyhow::Result<Exit> {
    let mut signals = Signals::listen().context("cannot take over SIGTERM and SIGINT")?;
    let metrics = Metrics::install()?;
    let admin = match file.http.listen {
        Listen::None => None,
        Listen::At(_) => Some(Server::bind_free(&file.http.addresses(), file.http.allow_remote).await?),
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime: Arc<dyn Runtime> = TokioRuntime::new(threads);
    let opening = async {
        let options = options(&file, &runtime).await?;
        Ok::<_, anyhow::Error>(gateway::Server::open(options, runtime.clone()).await)
    };
    let server = tokio::select! {
        opened = opening => opened?,
        name = signals.next() => {
            tracing::info!(signal = name, "stopped before the logs were open");
            return Ok(Exit::Done);
        }
    };
    let server = match server {
        Ok(server) => server,
        Err(error) => return Ok(refused(&error)),
    };
    for address in server.addresses() {
        tracing::info!(%address, streams = file.streams.len(), "taking records over HTTP");
    }
    for address in server.syslog_addresses() {
        tracing::info!(%address, "taking messages of syslog");
    }
    let view = GatewayView { gate: server.gate(), address: server.address() };
    let telling = async {
        match admin {
            None => std::future::pending().await,
            Some(admin) => {
                tracing::info!(address = %admin.address(), "metrics, health and status over HTTP");
                match admin.serve(metrics, Arc::new(view)).await {
                    Ok(()) => anyhow::anyhow!("the HTTP server of the metrics ended by itself"),
                    Err(error) => anyhow::Error::new(error).context("the HTTP server of the metrics failed"),
                }
            }
        }
    };
    let (stop, mut asked) = watch::channel(false);
    let stopped = async move {
        // A sender that is gone has stopped too.
        let _ = asked.wait_for(|stop| *stop).await;
    };
    tokio::select! {
        ended = server.serve(axum::Router::new(), stopped) => Ok(match ended {
            Ok(End::Drained) => {
                tracing::info!("drained; all that was taken is durable");
                Exit::Done
            }
            Ok(End::OutOfTime) => {
                tracing::warn!("time ran out with requests under way, which were not answered; what was answered is durable");
                Exit::Done
            }
            Err(error) => refused(&error),
        }),
        exit = super::run::obey(&mut signals, &stop) => Ok(exit),
        error = telling => Err(error),
    }
}

/// Logs why a gateway did not start, or ended, and says what that means for whoever started it.
fn refused(error: &GatewayError) -> Exit {
    tracing::error!("{error}");
    match error {
        GatewayError::Secret(_) => Exit::Fault,
        GatewayError::Listen { .. } => Exit::Failed,
        GatewayError::Log { error: LogError::Fenced { .. }, .. } => Exit::Fenced,
        GatewayError::Log { error, .. } if error.is_transient() => Exit::Failed,
        GatewayError::Log { .. } => Exit::Person,
    }
}

/// From the file to what a gateway is made of; its logs' stores are open then.
async fn options(file: &File, runtime: &Arc<dyn Runtime>) -> anyhow::Result<Options> {
    let Listen::At(listen) = file.listen else { bail!("a gateway listens; write an address at `listen`") };
    let tls = file.tls.as_ref().map(|tls| {
        Tls::open(TlsFiles {
            cert: PathBuf::from(&tls.cert),
            key: PathBuf::from(&tls.key),
            client_ca: tls.client_ca.as_ref().map(PathBuf::from),
            http2: true,
        })
    });
    let edge = Edge { tls: tls.transpose().context("`tls`")?, http2: true };
    let syslog = syslog_options(file, edge.tls.as_ref());
    let tenant_header = file.tenant_header.as_ref().map(|name| name.parse()).transpose();
    let remote = storage::of_settings(file.object_storage.as_ref())?;
    let mut streams = Vec::new();
    for (name, stream) in &file.streams {
        let store = open(&file.log_of(name), &remote, runtime).await;
        let store = store.with_context(|| format!("the log of stream `{name}`"))?;
        streams.push(stream_options(file, (name, stream), store));
    }
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

/// Each address of syslog by itself.
fn syslog_options(file: &File, tls: Option<&Tls>) -> Vec<SyslogOptions> {
    let of = |syslog: &config::gateway::Syslog| {
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

fn bytes(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn time(period: Period) -> Duration {
    Duration::from_millis(period.ms)
}

/// Opens the store of a log, which is made if it is not there; waits while it is away.
async fn open(url: &str, remote: &Remote, runtime: &Arc<dyn Runtime>) -> anyhow::Result<Arc<dyn Store>> {
    let (url, remote) = (url.to_owned(), remote.clone());
    let store = tokio::task::spawn_blocking(move || store::open(&url, &remote)).await??;
    let mut is_told = false;
    loop {
        match store.probe(runtime.random()).await {
            Ok(()) => return Ok(store),
            Err(error) if error.kind.is_transient() => {
                if !is_told {
                    tracing::warn!(%error, "the store of a log is unavailable; trying again");
                }
                is_told = true;
                runtime.sleep(AWAY_PAUSE).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn stream_options(
    file: &File,
    (name, stream): (&Identifier, &Stream),
    store: Arc<dyn Store>,
) -> StreamOptions {
    let byte = |text: &str| text.as_bytes().first().copied().unwrap_or(b',');
    let format = match stream.format {
        StreamFormat::Json => Format::Json,
        StreamFormat::Message => Format::Message,
        StreamFormat::OtlpLogs => Format::Otlp(Signal::Logs),
        StreamFormat::OtlpTraces => Format::Otlp(Signal::Traces),
        StreamFormat::OtlpMetrics => Format::Otlp(Signal::Metrics),
        StreamFormat::Csv => Format::Csv(Csv {
            columns: stream.columns.clone(),
            delimiter: byte(&stream.delimiter),
            quote: (stream.quote != NO_QUOTE).then(|| byte(&stream.quote)),
        }),
    };
    let is_otlp = matches!(format, Format::Otlp(_));
    let retention = Retention {
        acknowledged: true,
        age_max: stream.keep.map(time),
        bytes_max: stream.keep_bytes.map(|size| size.bytes),
        keep_min: None,
    };
    StreamOptions {
        name: name.to_string(),
        store,
        partition: stream.partition,
        format,
        body_bytes_max: bytes(stream.body.bytes),
        memory_bytes: bytes(stream.memory.bytes),
        key_window: time(stream.keys_for),
        keys_max: bytes(stream.keys),
        drops_repeats: stream.drop_repeats.unwrap_or(is_otlp),
        settings: Settings {
            linger_min: Settings::default().linger_min.min(time(stream.linger)),
            linger_max: time(stream.linger),
            // The gateway's own bound is the one that is met.
            memory_bytes: bytes(file.limits.memory.bytes),
            retention,
            ..Settings::default()
        },
    }
}

fn client_options(name: &Identifier, client: &config::gateway::Client) -> ClientOptions {
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

/// What a running gateway tells.
struct GatewayView {
    gate: Gate,
    address: SocketAddr,
}

impl View for GatewayView {
    fn ready(&self) -> Result<(), String> {
        match self.gate.is_ready() {
            true => Ok(()),
            false => Err("the gateway is stopping".to_owned()),
        }
    }

    fn status(&self) -> Value {
        let stream = |stream: &Arc<gateway::Stream>| {
            json!({
                "stream": stream.name,
                "partition": stream.partition,
                "keys": stream.known_keys(),
                "memory_bytes": stream.held_bytes(),
            })
        };
        let streams: Vec<Value> = self.gate.streams().map(stream).collect();
        json!({
            "address": self.address.to_string(),
            "ready": self.gate.is_ready(),
            "memory_bytes": self.gate.held_bytes(),
            "streams": streams,
        })
    }
}
