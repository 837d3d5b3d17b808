//! `forebay log append`: lines of standard input into a log.
//!
//! Owns where an append ends: after a number of lines or bytes of the input alone, so that a repeat makes the same appends. Does not own
//! what makes a repeat harmless (`object_log::decide`) or who owns the partition (`object_log::owner`).

use std::io::{BufRead, Read};
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
use dataflow::{BlockBuilder, Partition, RecordBlock, Runtime};
use futures::StreamExt;
use futures::stream::FuturesOrdered;
use object_log::{Append as Records, Appended, Owner, Settings, object};
use serde_json::json;
use tokio::sync::mpsc;

use super::Place;
use crate::console::{Exit, print};

/// Appends under way at a time; the owner bounds their bytes.
const APPENDS_MAX: usize = 64;

/// Blocks of lines that are read ahead.
const BLOCKS_AHEAD: usize = 4;

/// Lines of one append. The number is fixed, so that a repeat under the same producer finds the same appends.
const LINES: usize = 1_000;

/// Appends the lines of standard input to a log, one record a line.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay log append /var/lib/forebay/logs/orders < orders.ndjson
  forebay log append s3://my-bucket/logs/orders --producer 6f1c2a < orders.ndjson   # may be repeated: nothing comes twice

The log is made if it is not there. While the command runs it owns the partition: another process that appends to it is fenced, and says so. With \
--producer, a command that broke off is started again with the same producer and the same input, and what was there already is left out. A producer is for \
one input: a longer file with the same beginning is fine, any other is not.")]
pub struct Append {
    #[command(flatten)]
    place: Place,

    /// The partition. A log has those up to the highest that was ever appended to, so begin with 0.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    partition: u32,

    /// A number that names this input, in hexadecimal, by which a repeat is recognised.
    #[arg(long, value_name = "HEX", value_parser = producer)]
    producer: Option<u128>,

    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

fn producer(text: &str) -> Result<u128, String> {
    match u128::from_str_radix(text, 16) {
        Ok(0) | Err(_) => Err("give 1 to 32 hexadecimal digits, not all of them 0".to_owned()),
        Ok(id) => Ok(id),
    }
}

/// What was appended.
#[derive(Default)]
struct Sum {
    records: u64,
    known: u64,
}

impl Append {
    pub async fn execute(&self) -> anyhow::Result<Exit> {
        let store = self.place.to_write().await?;
        if self.partition > 0 && super::partition(&store, self.partition - 1)?.look().await?.is_none() {
            bail!("the log has no partition {}; partitions are numbered without a gap", self.partition - 1);
        }
        let partition = super::partition(&store, self.partition)?;
        let runtime = partition.runtime().clone();
        let owner = format!("forebay log append, process {}", std::process::id());
        let owner = Owner::start(partition, &owner, Settings::default()).await?;
        let sum = self.lines(&owner, &runtime).await?;
        let next = owner.root().next;
        owner.close().await?;
        match self.json {
            true => {
                print(&format!("{:#}\n", json!({ "records": sum.records, "known": sum.known, "next": next })))
            }
            false => print(&format!(
                "appended {} records{}; the log ends at {next}\n",
                sum.records,
                if sum.known > 0 { format!(", {} were there already", sum.known) } else { String::new() }
            )),
        }
    }

    async fn lines(&self, owner: &Owner, runtime: &Arc<dyn Runtime>) -> anyhow::Result<Sum> {
        let appender = owner.appender();
        let (blocks, mut read) = mpsc::channel(BLOCKS_AHEAD);
        let clock = runtime.clone();
        // A thread of its own: one that waits for input must not keep a command that has failed.
        std::thread::spawn(move || read_all(&blocks, &*clock));
        let mut under_way = FuturesOrdered::new();
        let (mut sum, mut ordinal, mut is_end) = (Sum::default(), 0, false);
        while !is_end || !under_way.is_empty() {
            tokio::select! {
                biased;
                Some((rows, answer)) = under_way.next(), if !under_way.is_empty() => match answer? {
                    Appended::At(_) => sum.records += rows,
                    Appended::Known => sum.known += rows,
                },
                block = read.recv(), if !is_end && under_way.len() < APPENDS_MAX => match block.transpose()? {
                    None => is_end = true,
                    Some(records) => {
                        let (appender, rows) = (appender.clone(), records.len() as u64);
                        let producer = self.producer.map(|id| (id, ordinal));
                        ordinal += 1;
                        let append = Records { producer, records, packed: None };
                        under_way.push_back(async move { (rows, appender.append(append).await) });
                    }
                },
            }
        }
        Ok(sum)
    }
}

/// Reads standard input to its end, or until nobody takes its blocks.
fn read_all(blocks: &mpsc::Sender<anyhow::Result<RecordBlock>>, clock: &dyn Runtime) {
    let mut input = std::io::stdin().lock();
    loop {
        let mut builder = BlockBuilder::new(Partition::new("stdin", 0), 0);
        let read = read_lines(&mut input, &mut builder, clock.wall_ms());
        let is_over = !matches!(read, Ok(false));
        let is_sent = match (read, builder.is_empty()) {
            (Err(error), _) => blocks.blocking_send(Err(error)),
            (Ok(_), false) => blocks.blocking_send(Ok(builder.take())),
            (Ok(_), true) => Ok(()),
        };
        if is_over || is_sent.is_err() {
            return;
        }
    }
}

/// The next lines into a block; true at the end of the input.
fn read_lines(input: &mut impl BufRead, block: &mut BlockBuilder, now_ms: i64) -> anyhow::Result<bool> {
    let mut line = Vec::new();
    let mut bytes = 0;
    // Cut by lines and bytes of the input alone, so that a repeat makes the same appends.
    while block.len() < LINES && bytes < object::APPEND_BYTES_MAX / 2 {
        line.clear();
        let line_max = object::APPEND_BYTES_MAX as u64 / 2;
        let read = input.by_ref().take(line_max).read_until(b'\n', &mut line);
        if read.context("cannot read standard input")? == 0 {
            return Ok(true);
        }
        if line.last() != Some(&b'\n') && line.len() as u64 == line_max {
            bail!("a line has more than {line_max} bytes, which no record may have");
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        bytes += line.len() + 1;
        let position = block.len() as u64;
        block.push(position, now_ms, Some(&line));
    }
    Ok(false)
}
