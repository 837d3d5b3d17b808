//! `forebay gateway`: takes records over HTTP into logs.
//!
//! Owns the way from a gateway's file to a running gateway, and how its end is reported. Does not own what a gateway does (`gateway`), nor
//! its file (`pipeline::config::gateway`).

use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, OnceLock};

use anyhow::Context;
use clap::Args;
use dataflow::Runtime;
use engine::TokioRuntime;
use gateway::{End, Gate, GatewayError};
use object_log::LogError;
use pipeline::config;
use pipeline::config::gateway::Gateway as File;
use pipeline::config::values::Listen;
use pipeline::config::values::reference::Surroundings;
use pipeline::wiring;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::place;
use crate::console::{self, Exit, Mistake};
use crate::http::{Server, View};
use crate::logging::{self, LogOptions};
use crate::open_files;
use crate::recorder::Metrics;
use crate::signals::Signals;

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

On the first SIGTERM or SIGINT the gateway accepts no more requests and answers those under way, for at most `shutdown.timeout`; on the second one it \
stops at once. Either way, every record whose request was answered with success is durable.

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
        let text = config::load(&self.file).map_err(Mistake::of)?;
        if config::is_pipeline(&text) {
            let file = place::quoted(&self.file);
            return Err(Mistake::of(anyhow::anyhow!(
                "`{file}` is a pipeline file, not a gateway file; `forebay run {file}` runs it, and `forebay check {file}` checks it"
            )));
        }
        place::enter(&self.file)?;
        let checked = config::check_gateway(&text, &Surroundings::of_process());
        console::tell(&checked.faults.render(&self.file.display().to_string()));
        let Some(file) = checked.gateway else { return Ok(Exit::Fault) };
        if let Err(error) = wiring::gateway::check_schemas(&file) {
            console::say(&format!("{}: {error:#}", self.file.display()));
            return Ok(Exit::Fault);
        }
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
        let options = wiring::gateway::options(&file, &runtime).await?;
        Ok::<_, anyhow::Error>(gateway::Server::open(options, runtime.clone()).await)
    };
    let view = Arc::new(GatewayView::default());
    let mut telling = pin!(tell(admin, metrics, view.clone()));
    let opened = tokio::select! {
        opened = opening => opened,
        error = telling.as_mut() => return Err(error),
        name = signals.next() => {
            tracing::info!(signal = name, "stopped before the logs were open");
            return Ok(Exit::Done);
        }
    };
    let server = match opened {
        Ok(Ok(server)) => server,
        Ok(Err(error)) => return Ok(refused(&error)),
        Err(error) => match error.downcast_ref::<store::StoreError>() {
            Some(refused) => {
                tracing::error!("{error:#}");
                logging::refuse_unless_logged(format_args!("{error:#}"));
                return Ok(super::run::exit_of_store(refused));
            }
            None => return Err(error),
        },
    };
    if let Some(lack) = open_files::lack(file.open_max()) {
        tracing::warn!("{lack}");
    }
    for address in server.addresses() {
        tracing::info!(%address, streams = file.streams.len(), "taking records over HTTP");
    }
    for address in server.syslog_addresses() {
        tracing::info!(%address, "taking messages of syslog");
    }
    for files in &file.files {
        tracing::info!(paths = files.paths.join(", "), stream = %files.stream, "following files");
    }
    // It is set here alone.
    let _ = view.open.set(Open { gate: server.gate(), address: server.address() });
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
                // Their senders have no answer that could be missing.
                let syslog = match file.syslog.is_empty() {
                    true => "",
                    false => "; messages of syslog that were read just before may be lost",
                };
                tracing::warn!("time ran out with requests under way, which were not answered; what was answered is durable{syslog}");
                Exit::Done
            }
            Err(error) => refused(&error),
        }),
        exit = super::run::obey(&mut signals, &stop) => Ok(exit),
        error = telling => Err(error),
    }
}

/// Tells metrics, health and status, from the start on: whoever asks whether the process lives must not take a store that is away for its death. Ends only
/// by failing.
async fn tell(admin: Option<Server>, metrics: Metrics, view: Arc<GatewayView>) -> anyhow::Error {
    let Some(admin) = admin else { return std::future::pending().await };
    tracing::info!(address = %admin.address(), "metrics, health and status over HTTP");
    match admin.serve(metrics, view).await {
        Ok(()) => anyhow::anyhow!("the HTTP server of the metrics ended by itself"),
        Err(error) => anyhow::Error::new(error).context("the HTTP server of the metrics failed"),
    }
}

/// Logs why a gateway did not start, or ended, and says what that means for whoever started it.
fn refused(error: &GatewayError) -> Exit {
    tracing::error!("{error}");
    logging::refuse_unless_logged(error);
    match error {
        GatewayError::Secret(_) => Exit::Fault,
        GatewayError::Listen { .. } => Exit::Failed,
        GatewayError::Log { error: LogError::Fenced { .. }, .. } => Exit::Fenced,
        GatewayError::Log { error, .. } if error.is_transient() => Exit::Failed,
        GatewayError::Log { .. } => Exit::Person,
    }
}

/// What a gateway tells.
#[derive(Default)]
struct GatewayView {
    /// Not there before the logs are open.
    open: OnceLock<Open>,
}

/// A gateway that takes records.
struct Open {
    gate: Gate,
    /// `None` where nothing is taken over HTTP.
    address: Option<SocketAddr>,
}

impl View for GatewayView {
    fn ready(&self) -> Result<(), String> {
        let why = match self.open.get() {
            Some(open) if open.gate.is_ready() => return Ok(()),
            Some(_) => "the gateway is stopping",
            None => "the gateway is starting, and opens its logs; while their store is unavailable it waits",
        };
        Err(why.to_owned())
    }

    fn status(&self) -> Value {
        let Some(Open { gate, address }) = self.open.get() else {
            return json!({ "address": null, "ready": false, "memory_bytes": 0, "streams": [] });
        };
        let stream = |stream: &Arc<gateway::Stream>| {
            json!({
                "stream": stream.name,
                "partition": stream.partition,
                "keys": stream.known_keys(),
                "memory_bytes": stream.held_bytes(),
            })
        };
        let streams: Vec<Value> = gate.streams().map(stream).collect();
        json!({
            "address": address.map(|address| address.to_string()),
            "ready": gate.is_ready(),
            "memory_bytes": gate.held_bytes(),
            "streams": streams,
        })
    }
}
