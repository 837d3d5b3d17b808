//! One run of the gateway: `forebay gateway` as a child.
//!
//! Owns its file, its start and its end. Does not own what is sent to it (`buffer::send`), nor what it costs (`crate::buffer`).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::store::Store;
use super::{Over, Plan};
use crate::START_MAX;
use crate::child::{Child, End};
use crate::engine::{address, program};

/// What it says when it can be sent to.
pub const LISTENS: &str = "taking records over HTTP";
/// Within this time it must answer the requests under way and end.
const STOP_MAX: Duration = Duration::from_secs(60);

/// A gateway.
pub struct Gateway {
    child: Child,
    /// Where it writes what it says.
    said: PathBuf,
    /// Empty until it is known to listen.
    address: String,
}

/// Memory of its stream, as of the whole gateway: objects are of 64 MiB then, and fewer of them make up the published load.
pub const STREAM_MIB: u64 = 256;

/// The file of a gateway with one stream, `logs`; it listens at any free port if `port` is 0.
pub fn text(store: &Store, over: Over, port: u16) -> String {
    let (format, otlp) = match over {
        Over::Stream => ("message", ""),
        Over::OtlpHttp | Over::OtlpGrpc => ("otlp_logs", "otlp: { logs: logs }\n"),
    };
    format!(
        "gateway: bench\nlisten: '127.0.0.1:{port}'\nhttp: {{ listen: none }}\n{}{otlp}streams:\n  logs: {{ format: {format}, memory: \
         {STREAM_MIB}MiB }}\n",
        store.lines("log")
    )
}

impl Gateway {
    /// Starts one and waits until it listens: at `port`, or at any free one if that is 0.
    ///
    /// # Errors
    /// When it ends before, or needs too long.
    pub async fn start(plan: &Plan, store: &Store, dir: &Path, port: u16) -> anyhow::Result<Self> {
        let mut gateway = Self::launch(plan, store, dir, port)?;
        gateway.ready().await?;
        Ok(gateway)
    }

    /// Starts one at `port`.
    ///
    /// # Errors
    /// When its file cannot be written or the program does not start.
    pub fn launch(plan: &Plan, store: &Store, dir: &Path, port: u16) -> anyhow::Result<Self> {
        let file: PathBuf = dir.join("gateway.yaml");
        std::fs::write(&file, text(store, plan.over, port)).context("cannot write the gateway's file")?;
        let mut command = match &plan.common.program {
            Some(program) => Command::new(program),
            None => program()?,
        };
        command.args(["--log-format", "json", "--log-level", "info", "gateway"]).arg(&file);
        command.env_remove("FOREBAY_LOG");
        let child = Child::start("gateway", command, dir)?;
        Ok(Self { child, said: dir.join("gateway.err"), address: String::new() })
    }

    /// Waits until it listens.
    ///
    /// # Errors
    /// When it ends before, or needs too long.
    pub async fn ready(&mut self) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            let said = std::fs::read_to_string(&self.said).unwrap_or_default();
            if let Some(address) = address(&said, LISTENS) {
                self.address = address;
                return Ok(());
            }
            if self.child.poll()?.is_some() || begun.elapsed() > START_MAX {
                bail!("the gateway did not start: {}", said.trim());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Kills it; says what it had used.
    ///
    /// # Errors
    /// When the system does not let it go.
    pub async fn kill(mut self) -> anyhow::Result<End> {
        self.child.kill().await
    }

    /// Checks that it has not ended.
    ///
    /// # Errors
    /// When it has; its last words are part of the error.
    pub fn is_running(&mut self) -> anyhow::Result<()> {
        let Some(end) = self.child.poll()? else { return Ok(()) };
        let said = std::fs::read_to_string(&self.said).unwrap_or_default();
        bail!("the gateway ended ({}): {}", end.status, said.lines().last().unwrap_or_default())
    }

    /// Ends it.
    ///
    /// # Errors
    /// When it does not end well.
    pub async fn stop(&mut self) -> anyhow::Result<End> {
        self.child.poll()?;
        self.child.terminate();
        let end = self.child.wait(STOP_MAX).await?;
        if !end.status.success() {
            bail!("the gateway ended with {}", end.status);
        }
        Ok(end)
    }
}
