//! A collector of OpenTelemetry between the senders and the gateway, or between the senders and ClickHouse: what `--against otelcol` measures.
//!
//! Owns its file, its process and where its program is looked for. Does not own the load, which is that of the run beside it. It has no queue and
//! no batches of its own: a sender is answered once the gateway, or ClickHouse, has answered, so that an answer means the same.
//!
//! Its exporter speaks to ClickHouse over HTTP here, since the engine as a library has no native port, and through a server that adds to two of its answers
//! what clickhouse-go expects (`buffer::answers`).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tokio::net::TcpStream;

use super::crash::free_port;
use super::{Compression, Inserts, Over};
use crate::START_MAX;
use crate::child::{Child, End};

/// It passes on what it has within this time.
const STOP_MAX: Duration = Duration::from_secs(60);
/// What an insert may take: the senders are as many as the server has to do at a time.
const INSERT_MAX_S: u32 = 60;
/// How often is looked whether it listens.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Where a collector gives what it takes.
#[derive(Clone, Copy, Debug)]
pub enum To<'a> {
    /// A gateway at this `host:port`, as it came.
    Gateway(&'a str),
    /// A table of ClickHouse, by its own exporter.
    Table {
        /// `http://host:port`.
        url: &'a str,
        /// The table's name.
        table: &'a str,
        /// How the bodies of inserts are compressed.
        inserts: Inserts,
    },
}

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

/// Its file: it takes OTLP at `port`.
pub fn text(over: Over, compression: Compression, port: u16, to: To<'_>) -> anyhow::Result<String> {
    let compression = match compression {
        Compression::None => "none",
        Compression::Gzip => "gzip",
        Compression::Zstd => "zstd",
    };
    let (protocol, exporter, scheme) = match over {
        Over::OtlpHttp => ("http", "otlphttp", "http://"),
        Over::OtlpGrpc => ("grpc", "otlp", ""),
        Over::Stream => bail!("a collector takes OTLP alone: leave `--over stream` or `--against` out"),
    };
    let (exporter, settings) = match to {
        To::Gateway(address) => {
            let settings = format!(
                "    endpoint: '{scheme}{address}'\n    compression: {compression}\n    tls: {{ insecure: true }}\n"
            );
            (exporter, settings)
        }
        To::Table { url, table, inserts } => {
            let compress = match inserts {
                Inserts::Lz4 => "lz4",
                Inserts::None => "none",
            };
            let settings = format!(
                "    endpoint: '{url}'\n    database: default\n    logs_table_name: '{table}'\n    create_schema: false\n    async_insert: false\n    \
                 compress: {compress}\n    timeout: {INSERT_MAX_S}s\n"
            );
            ("clickhouse", settings)
        }
    };
    Ok(format!(
        "receivers:\n  otlp:\n    protocols:\n      {protocol}: {{ endpoint: '127.0.0.1:{port}' }}\n\
         exporters:\n  {exporter}:\n{settings}    sending_queue: {{ enabled: false }}\n\
         service:\n  telemetry: {{ metrics: {{ level: none }} }}\n  pipelines:\n    logs: {{ receivers: [otlp], exporters: [{exporter}] }}\n"
    ))
}

impl Collector {
    /// Starts one, and waits until it listens.
    ///
    /// # Errors
    /// When it ends before, or needs too long; its words are part of the error.
    pub async fn start(
        program: &Path,
        over: Over,
        compression: Compression,
        to: To<'_>,
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
