//! `forebay log append`: lines of standard input into a log.
//!
//! Owns which lines of an input are left out because the log has them, and that the log has them of this input. Does not own what the log
//! keeps of a producer (`object_log::root`) or who owns the partition (`object_log::owner`).
//!
//! The ordinals of a producer number its lines, and beside the newest the log keeps a digest of all lines up to there. So an input that has
//! grown is read on behind that line, wherever its appends ended before, and an input with another beginning is refused.

use std::io::{BufRead, Read};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use dataflow::{BlockBuilder, Partition, RecordBlock, Runtime};
use futures::StreamExt;
use futures::stream::FuturesOrdered;
use object_log::root::Producer;
use object_log::{Append as Records, Appended, Owner, Root, Settings, object};
use serde_json::json;
use tokio::sync::mpsc;

use super::Place;
use crate::console::{Exit, print};

/// Appends under way at a time; the owner bounds their bytes.
const APPENDS_MAX: usize = 64;

/// Blocks of lines that are read ahead.
const BLOCKS_AHEAD: usize = 4;

/// Lines of one append: enough that appending costs little for each, and few enough that the first are under way while others are read.
const LINES: usize = 1_000;
/// Bytes at which an append ends. With a line that may have as many again it is within the bound.
const BYTES: usize = object::APPEND_BYTES_MAX / 2;

/// Appends the lines of standard input to a log, one record a line.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay log append /var/lib/forebay/logs/orders < orders.ndjson
  forebay log append s3://my-bucket/logs/orders --producer 6f1c2a < orders.ndjson   # may be repeated: no line is appended twice

The log is created if it does not exist. While the command runs, it owns the partition: another process that appends to it is fenced, and says so. With \
--producer, a command that was interrupted can be run again with the same producer and the same input: lines that are already in the log are skipped. Each \
input needs a producer of its own. The input may have grown since; one that begins with other lines than those in the log is refused.

A last line without a line break is appended as a record. With --producer it is not, and the command fails once the lines before it are in the log: the \
program that wrote the input may have died within that line, and the complete line would be another record.")]
pub struct Append {
    #[command(flatten)]
    place: Place,

    /// The partition. Partitions are numbered from 0 without a gap, so the next new one is the highest number so far plus 1.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    partition: u32,

    /// A hexadecimal number that identifies this input, so that the command can be repeated.
    #[arg(long, value_name = "HEX", value_parser = producer)]
    producer: Option<u128>,

    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// How long what was acknowledged stays at the least: the ten minutes of a gateway's `keys_for` and one more.
const KEEP_MIN: Duration = Duration::from_secs(660);

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
        // As long as a gateway knows requests by default: labels go with their records.
        let mut settings = Settings::default();
        settings.retention.keep_min = Some(KEEP_MIN);
        let owner = Owner::start(partition.clone(), &owner, settings).await?;
        // What a gateway has not noted yet of the files that it follows, labels behind its note alone say.
        owner.keep_behind_note(&partition).await?;
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
        let in_log = self.in_log(&owner.root())?;
        let (pieces, mut read) = mpsc::channel(BLOCKS_AHEAD);
        let clock = runtime.clone();
        // A thread of its own: one that waits for input must not keep a command that has failed.
        std::thread::spawn(move || {
            let input = Input { from: std::io::stdin().lock(), line: Vec::new(), count: 0, digest: 0 };
            if let Err(error) = input.read(in_log, &pieces, &*clock) {
                // Nobody takes it if the command has failed.
                let _ = pieces.blocking_send(Err(error));
            }
        });
        let mut under_way = FuturesOrdered::new();
        let (mut sum, mut failed, mut is_end) = (Sum::default(), None, false);
        while !is_end || !under_way.is_empty() {
            tokio::select! {
                biased;
                Some((rows, answer)) = under_way.next(), if !under_way.is_empty() => match answer? {
                    Appended::At(_) => sum.records += rows,
                    Appended::Known => sum.known += rows,
                },
                piece = read.recv(), if !is_end && under_way.len() < APPENDS_MAX => match piece {
                    None => is_end = true,
                    // What was read before is appended first.
                    Some(Err(error)) => (failed, is_end) = (Some(error), true),
                    Some(Ok(Piece::InLog(lines))) => sum.known += lines,
                    Some(Ok(Piece::Lines { records, last, digest })) => {
                        let (appender, rows) = (appender.clone(), records.len() as u64);
                        let producer = self.producer.map(|id| (id, last));
                        let digest = self.producer.map(|_| digest);
                        let append = Records { producer, records: *records, packed: None, digest };
                        under_way.push_back(async move { (rows, appender.append(append).await) });
                    }
                },
            }
        }
        failed.map_or(Ok(sum), Err)
    }

    /// How many lines of the input the log has, and their digest; `None` without a producer.
    fn in_log(&self, root: &Root) -> anyhow::Result<Option<(u64, u32)>> {
        let Some(id) = self.producer else { return Ok(None) };
        match root.producer(id) {
            None => Ok(Some((0, 0))),
            Some(Producer { ordinal, digest: Some(digest), .. }) => Ok(Some((ordinal + 1, *digest))),
            Some(_) => bail!(
                "producer `{id:x}` was begun by an earlier version of this program, which did not count lines, so it cannot be told how many lines are in the \
                 log; nothing was appended. Find its last record with `forebay log cat`, and append the lines behind it under another producer"
            ),
        }
    }
}

/// What the thread that reads hands on.
enum Piece {
    /// So many lines are in the log already.
    InLog(u64),
    /// The next lines: the number of the last one, from 0, and the digest of all up to it.
    Lines { records: Box<RecordBlock>, last: u64, digest: u32 },
}

/// Lines, counted.
struct Input<R> {
    from: R,
    /// The one that was read last, without its end.
    line: Vec<u8>,
    /// Lines that were read.
    count: u64,
    /// The digest of all of them.
    digest: u32,
}

impl<R: BufRead> Input<R> {
    /// Reads to the end, or until nobody takes the pieces. `in_log`: as [`Append::in_log`] says.
    fn read(
        mut self,
        in_log: Option<(u64, u32)>,
        pieces: &mpsc::Sender<anyhow::Result<Piece>>,
        clock: &dyn Runtime,
    ) -> anyhow::Result<()> {
        let is_named = in_log.is_some();
        let (known, digest) = in_log.unwrap_or_default();
        while self.count < known {
            if !self.next(is_named)? {
                // A shorter input: there is nothing to append, nor a digest to compare.
                let _ = pieces.blocking_send(Ok(Piece::InLog(self.count)));
                return Ok(());
            }
        }
        if self.digest != digest {
            bail!(
                "the first {known} lines of the input are not those that the log has of this producer; nothing was appended. A producer is for one input: give \
                 that input, or another producer"
            );
        }
        let mut is_taken = pieces.blocking_send(Ok(Piece::InLog(known))).is_ok();
        let mut more = Ok(true);
        while is_taken && matches!(more, Ok(true)) {
            let mut block = BlockBuilder::new(Partition::new("stdin", 0), 0);
            more = self.fill(&mut block, is_named, clock.wall_ms());
            if !block.is_empty() {
                let (records, last) = (Box::new(block.take()), self.count - 1);
                let piece = Piece::Lines { records, last, digest: self.digest };
                is_taken = pieces.blocking_send(Ok(piece)).is_ok();
            }
        }
        more.map(|_| ())
    }

    /// The next lines into a block; false at the end of the input.
    fn fill(&mut self, block: &mut BlockBuilder, is_named: bool, now_ms: i64) -> anyhow::Result<bool> {
        let mut bytes = 0;
        while block.len() < LINES && bytes < BYTES {
            if !self.next(is_named)? {
                return Ok(false);
            }
            bytes += self.line.len() + 1;
            let position = block.len() as u64;
            block.push(position, now_ms, Some(&self.line));
        }
        Ok(true)
    }

    /// The next line; false at the end of the input. With a name (`is_named`), a line without an end is an error.
    fn next(&mut self, is_named: bool) -> anyhow::Result<bool> {
        self.line.clear();
        let read = self.from.by_ref().take(BYTES as u64).read_until(b'\n', &mut self.line);
        if read.context("cannot read standard input")? == 0 {
            return Ok(false);
        }
        match self.line.last() {
            Some(b'\n') => drop(self.line.pop()),
            _ if self.line.len() == BYTES => {
                bail!("a line has more than {BYTES} bytes, which no record may have")
            }
            _ if is_named => bail!(
                "the input ends within line {}, which has no line break: what wrote the input may have died there. The lines before it are in the log, this one \
                 is not; run the command again once the input is whole, or end its last line with a line break",
                self.count + 1
            ),
            _ => {}
        }
        self.count += 1;
        if is_named {
            self.digest = object::digest(self.digest, &self.line);
        }
        Ok(true)
    }
}
