//! The client process: `crates/clickhouse` as a client library, and nothing else of the engine.
//!
//! Owns the measured loop. The clock and the counters start after the batches that warm up, so that start, file and columns are no
//! part of them.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use arrow_array::RecordBatch;
use async_trait::async_trait;
use bytes::Bytes;
use clickhouse::{ClickHouseTable, Fault, ServerConfig};
use dataflow::{Attempt, FrameId, Gate, Table};
use engine::TokioRuntime;

use super::{Outcome, WARM_UP, rows, table_config};
use crate::bench::child::Usage;

/// What to send, and how.
#[derive(Clone, Debug, clap::Args)]
pub struct Order {
    /// The server.
    #[arg(long)]
    pub url: String,
    /// The table, which is there.
    #[arg(long)]
    pub table: String,
    /// The file of rows: one batch.
    #[arg(long)]
    pub rows: PathBuf,
    /// Batches that are measured.
    #[arg(long)]
    pub batches: u64,
    /// Encodes the next batch while one is under way.
    #[arg(long)]
    pub pipelined: bool,
    /// Compresses blocks by LZ4.
    #[arg(long)]
    pub compressed: bool,
    /// Sends one block again and again.
    #[arg(long)]
    pub replay: bool,
}

impl Order {
    /// The same as arguments of a command.
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments: Vec<String> = [
            ("--url", self.url.clone()),
            ("--table", self.table.clone()),
            ("--rows", self.rows.display().to_string()),
            ("--batches", self.batches.to_string()),
        ]
        .into_iter()
        .flat_map(|(name, value)| [name.to_owned(), value])
        .collect();
        let flags =
            [(self.pipelined, "--pipelined"), (self.compressed, "--compressed"), (self.replay, "--replay")];
        arguments.extend(flags.into_iter().filter(|(set, _)| *set).map(|(_, flag)| flag.to_owned()));
        arguments
    }
}

/// Sends, and tells what it took.
///
/// # Errors
/// When the table or a batch is refused.
pub async fn send(order: &Order) -> anyhow::Result<Outcome> {
    let batch = rows::read(&order.rows)?;
    let config = table_config(&order.table, order.compressed);
    let table = ClickHouseTable::open(ServerConfig::new(&order.url), config, TokioRuntime::new(1)).await;
    let table = std::sync::Arc::new(table.map_err(|faults| refused(&faults))?);
    let mut sender = Sender { table, batch, ready: None, replay: order.replay, sent: 0 };
    for _ in 0..WARM_UP {
        sender.serial().await?;
    }
    let (began, before) = (Instant::now(), used()?);
    for left in (0..order.batches).rev() {
        match order.pipelined && !order.replay {
            true => sender.pipelined(left == 0).await?,
            false => sender.serial().await?,
        }
    }
    let (wall_s, after) = (began.elapsed().as_secs_f64(), used()?);
    let spent = after.since(before);
    Ok(Outcome {
        rows: order.batches * sender.batch.num_rows() as u64,
        wall_s,
        user_s: spent.user_s,
        system_s: spent.system_s,
        rss_bytes_max: after.rss_bytes_max,
    })
}

struct Sender {
    table: std::sync::Arc<ClickHouseTable>,
    batch: RecordBatch,
    /// A block that was encoded and not sent; the one that is sent again and again if it is a replay.
    ready: Option<Bytes>,
    replay: bool,
    sent: u64,
}

impl Sender {
    /// One batch: encode, send, wait.
    async fn serial(&mut self) -> anyhow::Result<()> {
        let body = match self.ready.take() {
            Some(body) => body,
            None => encode(&self.table, &self.batch)?,
        };
        if self.replay {
            self.ready = Some(body.clone());
        }
        self.insert(body).await
    }

    /// One batch is sent while the next is encoded on another thread, unless there is no next.
    async fn pipelined(&mut self, last: bool) -> anyhow::Result<()> {
        let body = match self.ready.take() {
            Some(body) => body,
            None => encode(&self.table, &self.batch)?,
        };
        let (table, batch) = (self.table.clone(), self.batch.clone());
        let next = (!last).then(|| tokio::task::spawn_blocking(move || encode(&table, &batch)));
        self.insert(body).await?;
        if let Some(next) = next {
            self.ready = Some(next.await.context("the encoder panicked")??);
        }
        Ok(())
    }

    async fn insert(&mut self, body: Bytes) -> anyhow::Result<()> {
        self.sent += 1;
        // Tokens of this process alone: no block may pass for one that was there.
        let token = format!("forebay-bench-{}-{}", std::process::id(), self.sent);
        let attempt = Attempt { token: &token, query_id: &token, body, gate: &Open };
        self.table.insert(attempt).await.with_context(|| format!("batch `{}`", self.sent))
    }
}

fn encode(table: &ClickHouseTable, batch: &RecordBatch) -> anyhow::Result<Bytes> {
    let mut frames = table.encode(std::slice::from_ref(batch), &mut || FrameId(0))?;
    match (frames.pop(), frames.is_empty()) {
        (Some(frame), true) => Ok(frame.body),
        _ => anyhow::bail!("a batch is not one frame"),
    }
}

/// Nobody else owns what a benchmark sends.
struct Open;

#[async_trait]
impl Gate for Open {
    async fn may_complete(&self) -> bool {
        true
    }
}

/// All faults of a table as one error.
pub fn refused(faults: &[Fault]) -> anyhow::Error {
    let faults: Vec<String> = faults.iter().map(Fault::to_string).collect();
    anyhow::anyhow!("the table cannot be used: {}", faults.join("; "))
}

fn used() -> anyhow::Result<Usage> {
    Usage::of_this_process().context("the system does not say what this process uses")
}
