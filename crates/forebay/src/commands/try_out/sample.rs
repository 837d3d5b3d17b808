//! The records that `forebay try` is given: lines of a file, or the oldest ones of a source.
//!
//! Owns how many are read, and how long that may take. Moves no position. Does not own what becomes of them ([`super::outcomes`]).

use std::collections::BTreeSet;
use std::io::{BufRead, Read};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use dataflow::block::{Found, NO_LEADER_EPOCH, TIME_UNKNOWN_MS};
use dataflow::{BlockBuilder, Event, Partition, ReadFrom, RecordBlock, Runtime, SourceFault};
use engine::TokioRuntime;
use pipeline::config::model::{Input, Pipeline};
use pipeline::wiring;
use pipeline::wiring::source::Decoding;
use std::time::Duration;

use super::WAIT_MAX;
use crate::console::Mistake;

/// Bytes of a line of `--records`; a longer one is cut, and decoding says so.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// What some programs put in front of a file in UTF-8, which is ignored as in the files of a source.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// A file of records.
pub(super) struct Records {
    name: String,
    input: Box<dyn BufRead>,
}

impl Records {
    /// Opens the file; `-` is standard input.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let input: Box<dyn Read> = match name.as_str() {
            "-" => Box::new(std::io::stdin()),
            _ => Box::new(std::fs::File::open(path).with_context(|| format!("cannot open `{name}`"))?),
        };
        Ok(Self { input: Box::new(std::io::BufReader::new(input)), name })
    }

    /// The first records of the file, in the format of `input`: one in each line, or one request of OTLP in Protocol Buffers.
    pub(super) fn read(mut self, input: &Input<'_>, wanted: usize) -> anyhow::Result<RecordBlock> {
        let cannot = format!("cannot read `{}`", self.name);
        let is_json = |begin: &[u8]| begin.strip_prefix(MARK).unwrap_or(begin).first() == Some(&b'{');
        let is_lines = |begin: &[u8]| input.source.format.otlp().is_none() || is_json(begin);
        let is_lines = is_lines(self.input.fill_buf().with_context(|| cannot.clone())?);
        let mut block = BlockBuilder::new(Partition::new(self.name.as_str(), 0), 0);
        let mut line = Vec::new();
        let mut position = 0;
        // One more, for a line that names the fields.
        while block.len() <= wanted {
            let at = position;
            position += 1;
            line.clear();
            let mut bounded = self.input.by_ref().take(LINE_BYTES_MAX);
            let read = match is_lines {
                true => bounded.read_until(b'\n', &mut line),
                false => bounded.read_to_end(&mut line),
            };
            if read.with_context(|| cannot.clone())? == 0 {
                break;
            }
            if is_lines && line.last() == Some(&b'\n') {
                line.pop();
                line.pop_if(|last| *last == b'\r');
            }
            if is_lines && at == 0 && line.starts_with(MARK) {
                line.drain(..MARK.len());
            }
            // Within the quotes of CSV an empty line belongs to its record.
            if is_lines && line.is_empty() && input.source.format.csv().is_none() {
                continue;
            }
            block.push(at, TIME_UNKNOWN_MS, Some(&line));
        }
        Ok(wiring::source::records(input, &block.take())?)
    }
}

/// The oldest records that the source of an input holds.
pub(super) async fn from_source(
    pipeline: &Pipeline,
    input: &Input<'_>,
    decoding: &Decoding,
    wanted: usize,
) -> anyhow::Result<Vec<RecordBlock>> {
    let runtime: Arc<dyn Runtime> = TokioRuntime::new(1);
    let source = decoding.ready(wiring::source::source(pipeline, input, &runtime)?, &runtime);
    // As a start does, which refuses the name of a file that is not there.
    let shown = async {
        match source.partitions().await {
            Ok(shown) => source.recognize(shown, Vec::new()).await,
            Err(error) => Err(error),
        }
    };
    let starts = tokio::time::timeout(WAIT_MAX, shown).await;
    let starts = match starts.map_err(|_| anyhow::anyhow!("the source does not answer"))? {
        Err(error) if error.fault == SourceFault::Config => return Err(Mistake::of(error)),
        starts => starts?,
    };
    let mut open: BTreeSet<Partition> = starts.iter().map(|start| start.partition.clone()).collect();
    let from = starts.into_iter().map(|start| ReadFrom {
        partition: start.partition,
        identity: start.identity,
        next: start.first,
        leader_epoch: NO_LEADER_EPOCH,
    });
    let mut reader = source.read(from.collect()).await?;
    let (mut blocks, mut records) = (Vec::new(), 0);
    let deadline = tokio::time::Instant::now() + WAIT_MAX;
    while records < wanted && !open.is_empty() {
        match tokio::time::timeout_at(deadline, reader.next()).await {
            Err(_) if records == 0 => {
                let waited = WAIT_MAX.as_secs();
                anyhow::bail!("the source returned no record within {waited} s");
            }
            Err(_) => break,
            Ok(Err(error)) if error.fault.may_pass() => {
                tracing::warn!(%error, "the source is unavailable; trying again");
                tokio::time::sleep(Duration::from_millis(200)).await;
                if tokio::time::Instant::now() >= deadline {
                    return Err(error.into());
                }
            }
            Ok(Err(error)) => return Err(error.into()),
            Ok(Ok(Event::Block(mut block))) => {
                records += block.len();
                // Nobody prepares it before all are there: an earlier state of what it looks up would be held until then.
                block.found = Found::default();
                blocks.push(block);
            }
            Ok(Ok(Event::CaughtUp { partition, .. } | Event::Ended { partition, .. })) => {
                open.remove(&partition);
            }
            Ok(Ok(Event::Found(_) | Event::Removed { .. })) => {}
        }
    }
    Ok(blocks)
}
