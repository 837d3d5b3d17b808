//! The client process: `crates/clickhouse` as a client library, and nothing else of the engine.
//!
//! Owns the measured loop. Does not own how often and against whom it runs (`crate::clients`), nor the encoding and sending that it
//! measures (`clickhouse`). The clock and the counters start after the batches that warm up, so that start, file and columns are no part of
//! them. Each batch has a *ready* one beside it, a block that was encoded before: what the server takes at the most, over this connection
//! and at this moment. A server's rate drifts by a tenth within seconds (merges, the machine's other guests), so only what is measured side
//! by side can be compared.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use arrow_array::RecordBatch;
use async_trait::async_trait;
use bytes::Bytes;
use clickhouse::{ClickHouseTable, Fault, ServerConfig};
use dataflow::{Attempt, FrameId, Gate, Selected, Table};
use engine::TokioRuntime;

use super::{Ceiling, Outcome, Spent, WARM_UP, rows, table_config};
use crate::child::Usage;
use crate::report::Spread;

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
        let flags = [(self.pipelined, "--pipelined"), (self.compressed, "--compressed")];
        arguments.extend(flags.into_iter().filter(|(set, _)| *set).map(|(_, flag)| flag.to_owned()));
        arguments
    }
}

/// Sends, and says what it took.
///
/// # Errors
/// When the table or a batch is refused.
pub async fn send(order: &Order) -> anyhow::Result<Outcome> {
    let batch = rows::read(&order.rows)?;
    let config = table_config(&order.table, order.compressed);
    let table = ClickHouseTable::open(ServerConfig::new(&order.url), config, TokioRuntime::new(1)).await;
    let table = std::sync::Arc::new(table.map_err(|faults| refused(&faults))?);
    let mut sender = Sender { table, batch, next: None, pipelined: order.pipelined, sent: 0 };
    for _ in 0..WARM_UP {
        sender.send(order.batches == 0).await?;
    }
    // Before there is a ready block, which a client that is used does not hold.
    let rss_bytes_max = used()?.rss_bytes_max;
    let block = encode(&sender.table, &sender.batch)?;
    let (mut own, mut ready, mut shares) = (Spent::default(), Spent::default(), Vec::new());
    for pair in 0..order.batches {
        let is_last = pair + 1 == order.batches;
        let (of_own, of_ready);
        // In turns, so that neither is always the one behind the other.
        if pair % 2 == 0 {
            of_own = spent(sender.send(is_last)).await?;
            of_ready = spent(sender.insert(block.clone())).await?;
        } else {
            of_ready = spent(sender.insert(block.clone())).await?;
            of_own = spent(sender.send(is_last)).await?;
        }
        shares.push(of_ready.wall_s / of_own.wall_s);
        own.add(of_own);
        ready.add(of_ready);
    }
    let rows = order.batches * sender.batch.num_rows() as u64;
    let share = Spread::of(shares).map(|share| share.median);
    let ceiling = share.map(|share| Ceiling { spent: ready, share });
    Ok(Outcome { rows, spent: own, rss_bytes_max, ceiling })
}

/// What one batch takes.
async fn spent(batch: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<Spent> {
    let (began, before) = (Instant::now(), used()?);
    batch.await?;
    let (wall_s, cpu) = (began.elapsed().as_secs_f64(), used()?.since(before));
    Ok(Spent { wall_s, user_s: cpu.user_s, system_s: cpu.system_s })
}

struct Sender {
    table: std::sync::Arc<ClickHouseTable>,
    batch: RecordBatch,
    /// The block that was encoded while another was sent.
    next: Option<Bytes>,
    pipelined: bool,
    sent: u64,
}

impl Sender {
    /// One batch: encoded, sent, answered. A pipelined one is sent while the next is encoded on another thread, unless there is
    /// no next.
    async fn send(&mut self, is_last: bool) -> anyhow::Result<()> {
        let body = match self.next.take() {
            Some(body) => body,
            None => encode(&self.table, &self.batch)?,
        };
        let (table, batch) = (self.table.clone(), self.batch.clone());
        let next =
            (self.pipelined && !is_last).then(|| tokio::task::spawn_blocking(move || encode(&table, &batch)));
        self.insert(body).await?;
        if let Some(next) = next {
            self.next = Some(next.await.context("the encoder panicked")??);
        }
        Ok(())
    }

    async fn insert(&mut self, body: Bytes) -> anyhow::Result<()> {
        self.sent += 1;
        // Tokens of this process alone: no block may pass for one that was there.
        let token = format!("forebay-bench-{}-{}", std::process::id(), self.sent);
        let attempt = Attempt { token: &token, query_id: &token, body, layout: None, gate: &Open };
        self.table.insert(attempt).await.with_context(|| format!("batch `{}`", self.sent))
    }
}

fn encode(table: &ClickHouseTable, batch: &RecordBatch) -> anyhow::Result<Bytes> {
    let mut frames = table.encode(&[Selected::all(batch.clone())], &mut || FrameId(0))?;
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
