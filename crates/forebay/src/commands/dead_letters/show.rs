//! `forebay dead-letters show`: one letter, with every byte of its record.
//!
//! Owns the order of what is shown, and that a record's own bytes go to files and pipes alone. Does not own the letter's reading
//! (`admin::dead_letters`) or its form in JSON (`output`).

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};

use clap::Args;
use pipeline::config::model::Pipeline;
use pipeline::replays::object::Letter;

use super::filter::{Filter, place};
use super::output::{self, Standing};
use crate::console::{Exit, PipelineFile, print, say};
use admin::dead_letters::letters::{Head, Whole, is_letter};
use admin::dead_letters::{Table, clock, memory};

/// Shows one complete dead letter: where it comes from, why it could not be written, and every byte of the record.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay dead-letters show user-events.yaml user_events/2/1234
  forebay dead-letters show user-events.yaml --reason malformed           # the oldest of them
  forebay dead-letters show user-events.yaml user_events/2/1234 --raw > record.bin

Exit codes: 0; 1 if there is no such letter or the table cannot be read; 2 for an error in the command line or the file.")]
pub struct Show {
    #[command(flatten)]
    file: PipelineFile,

    /// The letter, as `list` shows it. Default: the oldest one that the filters select.
    #[arg(value_name = "STREAM/PARTITION/POSITION", value_parser = place)]
    letter: Option<Letter>,

    #[command(flatten)]
    filter: Filter,

    /// Writes only the bytes of the record's body to standard output.
    #[arg(long, conflicts_with = "json")]
    raw: bool,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

impl Show {
    /// Runs the command.
    ///
    /// # Errors
    /// When the table or the replay log cannot be read.
    pub fn execute(&self) -> anyhow::Result<Exit> {
        let Some(pipeline) = crate::commands::load(&self.file.file)? else { return Ok(Exit::Fault) };
        crate::commands::runtime()?.block_on(self.show(&pipeline))
    }

    async fn show(&self, pipeline: &Pipeline) -> anyhow::Result<Exit> {
        let runtime = clock();
        let table = Table::new(pipeline, &runtime).await?;
        let mut condition = self.filter.on(&table, runtime.wall_ms())?;
        if let Some(letter) = &self.letter {
            write!(condition, " AND {}", is_letter(letter))?;
        }
        let heads = table.pages(&condition).await?.next().await?;
        // Letters without a place that are equal in everything are told apart by their number alone.
        let is_meant = |head: &&Head| {
            self.letter.as_ref().is_none_or(|letter| !letter.source.is_empty() || *letter == head.letter)
        };
        let Some(first) = heads.iter().find(is_meant) else {
            say(&format!("forebay: no such dead letter in `{}`", table.name));
            return Ok(Exit::Failed);
        };
        let mut whole = table.whole(&condition, std::slice::from_ref(first)).await?;
        let Some(whole) = whole.first_mut() else { return Ok(Exit::Failed) };
        if self.raw {
            return write_bytes(&whole.raw);
        }
        let standing = Standing::of(&mut whole.head, &table.anew, &memory(pipeline).await?.taken);
        if self.json {
            return print(&format!("{:#}\n", output::json(whole, &table, standing)));
        }
        print(&for_people(whole, standing))?;
        if heads.len() > 1 {
            say("the filters name more letters; this is the oldest");
        }
        Ok(Exit::Done)
    }
}

fn for_people(whole: &Whole, standing: Standing) -> String {
    let head = &whole.head;
    let bytes = |bytes: &[u8]| match output::text_or_hex(bytes) {
        (text, true) => output::printable(&text),
        (hex, false) => format!("{hex} (hexadecimal)"),
    };
    let mut lines = vec![
        ("letter", head.letter.to_string()),
        ("written", output::time(head.time_ms)),
        ("reason", head.reason.clone()),
        ("column", head.column.clone()),
        ("message", output::printable(&whole.message)),
        ("record time", whole.record_time_ms.map_or_else(|| "none".to_owned(), output::time)),
        ("key", whole.key.as_ref().map_or_else(|| "none".to_owned(), |key| bytes(key))),
    ];
    for (name, value) in &whole.headers {
        lines.push(("header", format!("{}: {}", bytes(name), bytes(value))));
    }
    lines.push(("replayed", standing.word().to_owned()));
    let form = if std::str::from_utf8(&whole.raw).is_ok() { "" } else { ", hexadecimal" };
    lines.push(("record", format!("{} bytes{form}", whole.raw.len())));
    let mut out = String::new();
    for (name, text) in lines {
        writeln!(out, "{name:<12} {text}").expect("a String takes all that is written");
    }
    // Lines of a record stay lines; all else that could move a cursor is escaped.
    let (body, _) = output::text_or_hex(&whole.raw);
    for line in body.split('\n') {
        out.push_str(&output::printable(line));
        out.push('\n');
    }
    out
}

fn write_bytes(bytes: &[u8]) -> anyhow::Result<Exit> {
    let mut out = std::io::stdout().lock();
    if out.is_terminal() {
        // The bytes themselves are for files and pipes.
        return crate::console::print(&String::from_utf8_lossy(bytes));
    }
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(anyhow::Error::new(error).context("cannot write to standard output"))
        }
        _ => Ok(Exit::Done),
    }
}
