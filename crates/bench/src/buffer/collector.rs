//! A collector of OpenTelemetry between the senders and the gateway: what `--against otelcol` measures.
//!
//! Owns its file, its process and where its program is looked for. Does not own the load, which is that of the run beside it. It has no queue and
//! no batches of its own: a sender is answered once the gateway has answered, as without it, so that an answer means the same.
//!
//! It does not write to ClickHouse itself here: its exporter speaks to a server over the native protocol, or over HTTP with blocks as the native protocol
//! has them, and the engine as a library gives neither.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tokio::net::TcpStream;

use super::crash::free_port;
use super::{Compression, Over};
use crate::START_MAX;
use crate::child::{Child, End};

/// It passes on what it has within this time.
const STOP_MAX: Duration = Duration::from_secs(60);
/// How often is looked whether it listens.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A collector that listens.
pub struct Collector {
    child: Child,
    address: String,
}

/// The program that `scripts/setup otel` builds, in the project that this program was built in.
///
/// # Errors
/// When it is not there.
pub fn program() -> anyhow::Result<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/otel/otelcol");
    if path.is_file() {
        return Ok(path);
    }
    bail!(
        "there is no `{}`: run `scripts/setup otel`, or name a collector with `--otelcol FILE`",
        path.display()
    )
}

/// Its file: it takes OTLP at `port`, and gives it to the gateway at `to`.
pub fn text(over: Over, compression: Compression, port: u16, to: &str) -> anyhow::Result<String> {
    let compression = match compression {
        Compression::None => "none",
        Compression::Gzip => "gzip",
        Compression::Zstd => "zstd",
    };
    let (protocol, exporter, endpoint) = match over {
        Over::OtlpHttp => ("http", "otlphttp", format!("http://{to}")),
        Over::OtlpGrpc => ("grpc", "otlp", to.to_owned()),
        Over::Stream => bail!("a collector takes OTLP alone: leave `--over stream` or `--against` out"),
    };
    Ok(format!(
        "receivers:\n  otlp:\n    protocols:\n      {protocol}: {{ endpoint: '127.0.0.1:{port}' }}\n\
         exporters:\n  {exporter}:\n    endpoint: '{endpoint}'\n    compression: {compression}\n    tls: {{ insecure: true }}\n    \
         sending_queue: {{ enabled: false }}\n\
         service:\n  telemetry: {{ metrics: {{ level: none }} }}\n  pipelines:\n    logs: {{ receivers: [otlp], exporters: [{exporter}] }}\n"
    ))
}

impl Collector {
    /// Starts one that gives what it takes to the gateway at `to`, and waits until it listens.
    ///
    /// # Errors
    /// When it ends before, or needs too long; its words are part of the error.
    pub async fn start(
        program: &Path,
        over: Over,
        compression: Compression,
        to: &str,
        dir: &Path,
    ) -> anyhow::Result<Self> {
        let (port, file) = (free_port()?, dir.join("collector.yaml"));
        std::fs::write(&file, text(over, compression, port, to)?)
            .context("cannot write the collector's file")?;
        let mut command = Command::new(program);
        command.arg("--config").arg(&file);
        let mut child = Child::start("collector", command, dir)?;
        let (address, begun) = (format!("127.0.0.1:{port}"), Instant::now());
        loop {
            if TcpStream::connect(&address).await.is_ok() {
                return Ok(Self { child, address });
            }
            if child.poll()?.is_some() || begun.elapsed() > START_MAX {
                let said = std::fs::read_to_string(dir.join("collector.err")).unwrap_or_default();
                bail!("the collector did not start: {}", said.trim());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Ends it.
    ///
    /// # Errors
    /// When it does not end well.
    pub async fn stop(mut self) -> anyhow::Result<End> {
        self.child.poll()?;
        self.child.terminate();
        let end = self.child.wait(STOP_MAX).await?;
        if !end.status.success() {
            bail!("the collector ended with {}", end.status);
        }
        Ok(end)
    }
}
