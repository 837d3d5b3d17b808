//! `forebay log cat`: the records of a log.
//!
//! Owns what of a record a terminal, a pipe and `--json` get. Does not own the reading ahead (`object_log::reader`).

use std::io::{IsTerminal, Write};

use anyhow::Context;
use clap::Args;
use dataflow::{Partition, RecordBlock, block, printing};
use object_log::LogReader;
use object_log::reader::Read;
use serde_json::{Map, Value, json};

use super::Place;
use crate::console::Exit;

/// Prints records of a log, one a line.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay log cat /var/lib/forebay/logs/orders | head
  forebay log cat s3://my-bucket/logs/orders --partition 1 --from 1200 --limit 10
  forebay log cat s3://my-bucket/logs/orders --json | jq .time_ms

Only reads: consumers are not affected, and nothing is acknowledged. A record without a body is printed as an empty line; with --json its body is null.")]
pub struct Cat {
    #[command(flatten)]
    place: Place,

    /// The partition.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    partition: u32,

    /// The position to begin at. Default: the oldest record that the log holds.
    #[arg(long, value_name = "POSITION")]
    from: Option<u64>,

    /// Stops after this many records. Default: at the end of the log.
    #[arg(long, value_name = "RECORDS")]
    limit: Option<u64>,

    /// Prints each record as JSON, with position, time, key and headers.
    #[arg(long)]
    json: bool,
}

impl Cat {
    pub async fn execute(&self) -> anyhow::Result<Exit> {
        let store = self.place.to_read().await?;
        let partition = super::partition(&store, self.partition)?;
        let root = super::root(&store, &partition).await?;
        let (from, mut left) = (self.from.unwrap_or(root.low), self.limit.unwrap_or(u64::MAX));
        let shown = Partition::new("log", self.partition);
        let mut reader = LogReader::open(partition, shown, root.queue_id(), from).await?;
        let stdout = std::io::stdout();
        let is_terminal = stdout.is_terminal();
        let mut out = std::io::BufWriter::new(stdout.lock());
        while left > 0
            && let Read::Block(block) = reader.next().await?
        {
            for row in 0..block.len() {
                if left == 0 {
                    break;
                }
                left -= 1;
                match self.write(&mut out, &block, row, is_terminal) {
                    // Whoever reads has seen enough.
                    Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(Exit::Done),
                    result => result.context("cannot write to standard output")?,
                }
            }
        }
        match out.flush() {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(Exit::Done),
            result => result.context("cannot write to standard output").map(|()| Exit::Done),
        }
    }

    fn write(
        &self,
        out: &mut impl Write,
        block: &RecordBlock,
        row: usize,
        is_terminal: bool,
    ) -> std::io::Result<()> {
        match (self.json, is_terminal) {
            (true, false) => writeln!(out, "{}", json_of(block, row)),
            (true, true) => writeln!(out, "{}", printing::escaped_json(&json_of(block, row).to_string())),
            // What a record holds must not steer a user's terminal; a pipe gets it as it is.
            (false, true) => {
                let text = String::from_utf8_lossy(block.payloads.get(row));
                writeln!(out, "{}", printing::escaped_lines(&text))
            }
            (false, false) => {
                out.write_all(block.payloads.get(row))?;
                out.write_all(b"\n")
            }
        }
    }
}

fn json_of(block: &RecordBlock, row: usize) -> Value {
    let text = |bytes: &[u8]| Value::from(String::from_utf8_lossy(bytes).into_owned());
    let is_absent = block.absent.binary_search(&(row as u32)).is_ok();
    let time_ms = block.times_ms[row];
    let mut headers = Map::new();
    for (name, value) in block.headers.iter().flat_map(|all| block::headers(all.get(row))) {
        headers.insert(name.to_owned(), value.map_or(Value::Null, text));
    }
    let key = block.keys.as_ref().map(|keys| keys.get(row)).filter(|key| !key.is_empty());
    json!({
        "position": block.positions[row],
        "time_ms": object_log::object::is_time(time_ms).then_some(time_ms),
        "key": key.map(text),
        "headers": headers,
        "body": (!is_absent).then(|| text(block.payloads.get(row))),
    })
}
