//! `forebay reset --to`: partitions of a stopped pipeline are read on elsewhere.
//!
//! Owns the options and what is printed. Does not own where a word leads ([`admin::rewind`]), nor the conditions and the record
//! (`engine::rewind`).

use admin::dead_letters::{Table, clock, replays_waiting};
use admin::fields;
use dataflow::position;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use admin::rewind::{Chosen, To, left_out, targets};
use admin::running;
use clap::Args;
use dataflow::{Runtime, SourceError, SourceFault};
use engine::rewind::{Request, RewindError};
use engine::{Status, TokioRuntime, change};
use pipeline::config::model::Pipeline;
use pipeline::replays::STREAM;
use pipeline::wiring;
use protocol::Lane;
use protocol::record::{Move, Rewind};
use serde_json::{Value, json};

use crate::console::{self, Exit, print};

/// How long the journal must stand still before it counts as nobody's: an owner that works settles within a second.
const QUIET: Duration = Duration::from_secs(3);

/// How long the dead letters are counted: a server that is away is no reason not to go on.
const COUNT_MAX: Duration = Duration::from_secs(5);

/// Partitions whose letters are counted, each of them a range in the statement.
const RANGES_MAX: usize = 200;

/// What is moved, and where.
#[derive(Debug, Args)]
pub struct Options {
    /// Moves the pipeline instead of deleting its journal: it then continues at the oldest record, after the newest one, at a time
    /// (RFC 3339), or at positions (`topic/partition=offset,…`).
    #[arg(long, value_name = "earliest|latest|TIME|POSITIONS")]
    to: Option<To>,

    /// With `--to`: only this Kafka topic; may be given more than once.
    #[arg(long, value_name = "NAME", requires = "to")]
    topic: Vec<String>,

    /// With `--to`: only this partition of a topic.
    #[arg(long, value_name = "TOPIC/NUMBER", value_parser = partition, requires = "to")]
    partition: Vec<(String, u32)>,

    /// With `--to`: only this file of a file source, by the path that `forebay status` shows.
    #[arg(long = "file", value_name = "PATH", requires = "to")]
    files: Vec<String>,

    /// With `--to`: only this input.
    #[arg(long, value_name = "NAME", requires = "to")]
    input: Option<String>,

    /// With `--to`: this step starts with empty state; may be given more than once.
    #[arg(long, value_name = "STEP", requires = "to")]
    new_state: Vec<String>,

    /// With `--to`: takes over a pipeline that is running; its process stops with code 3.
    #[arg(long, requires = "to")]
    take_over: bool,
}

/// How it is called, and what of it is printed.
pub struct Call<'a> {
    /// The pipeline file.
    pub file: &'a Path,
    /// Do it.
    pub yes: bool,
    /// Print JSON.
    pub json: bool,
}

impl Options {
    /// Whether partitions are moved.
    pub fn is_given(&self) -> bool {
        self.to.is_some()
    }

    /// Moves the partitions, or says what would be moved.
    ///
    /// # Errors
    /// When the store or the source cannot be used.
    pub async fn execute(&self, pipeline: &Pipeline, call: &Call<'_>) -> anyhow::Result<Exit> {
        let Some(to) = &self.to else { return Ok(Exit::Done) };
        let folder = wiring::lane_folder(pipeline);
        let Some(store) = wiring::storage::open_to_read(pipeline).await? else {
            console::refuse(format_args!(
                "pipeline `{}` has never run with this store, so there is nothing to move",
                pipeline.pipeline
            ));
            return Ok(Exit::Fault);
        };
        if !self.take_over && running::ask(pipeline).await.is_ok() {
            return refuse(&RewindError::Running);
        }
        let lane = match engine::journal::load(&*store, &folder).await {
            Ok(lane) => lane,
            Err(error) => return refuse(&error.into()),
        };
        let runtime: Arc<dyn Runtime> = TokioRuntime::new(1);
        let targets = match targets(pipeline, &lane, to, &self.chosen(), &runtime).await {
            Ok(targets) => targets,
            Err(error) => {
                console::refuse(format_args!("{error:#}; nothing was moved"));
                return Ok(exit_of_asking(&error));
            }
        };
        let left_out = left_out(pipeline, &lane, &self.chosen());
        let request = Request {
            targets,
            new_state: self.new_state.clone(),
            by: wiring::owner(),
            take_over: self.take_over,
            quiet_min: QUIET,
        };
        let planned = match engine::rewind::plan(&lane, &request) {
            Ok(planned) => planned,
            Err(error) => return refuse(&error),
        };
        let waiting = replays_waiting(&store, &folder, &lane).await?;
        if waiting > 0 && planned.moves.iter().any(Move::is_back) {
            console::refuse(format_args!(
                "{waiting} records of dead letters wait to be replayed, and would be read a second time behind the new position, so nothing was moved. Deliver \
                 them first: `forebay run FILE --drain`"
            ));
            return Ok(Exit::Person);
        }
        let is_nothing = planned.moves.is_empty() && planned.emptied.is_empty();
        let letters = letters(pipeline, &lane, &planned).await;
        let mut told = Told { rewind: &planned, left_out: &left_out, letters, done: false };
        if !call.yes && is_nothing {
            let words = words(pipeline, &lane, &told)?;
            return tell(pipeline, &lane, &told, call, &words, Exit::Done);
        }
        if !call.yes {
            let words = words(pipeline, &lane, &told)?;
            let again = "Nothing was changed. To do it, add `--yes`\n";
            return tell(pipeline, &lane, &told, call, &format!("{words}{again}"), Exit::Person);
        }
        let store = wiring::storage::open(pipeline, &*runtime, &Status::default()).await?;
        match engine::rewind::rewind(store, runtime, &folder, &request).await {
            Ok(done) => {
                (told.rewind, told.done) = (&done, true);
                tell(pipeline, &lane, &told, call, &words(pipeline, &lane, &told)?, Exit::Done)
            }
            Err(error) => refuse(&error),
        }
    }

    fn chosen(&self) -> Chosen {
        let streams = self.topic.iter().chain(&self.files).cloned().collect();
        Chosen { input: self.input.clone(), streams, partitions: self.partition.clone() }
    }
}

/// The letters of records that are read again, and the others, if the server says how many they are.
async fn letters(pipeline: &Pipeline, lane: &Lane, rewind: &Rewind) -> Option<(u64, u64)> {
    let range = |moved: &Move| {
        let p = &lane.partitions[moved.partition as usize];
        let (from, end) = (position::plain(moved.next())?, position::plain(moved.from())?);
        let source = clickhouse::types::quote(&p.stream);
        Some(format!(
            "source = {source} AND partition = {} AND position >= {from} AND position < {end}",
            p.index
        ))
    };
    let back = rewind.moves.iter().filter(|moved| moved.is_back());
    let ranges = back.map(range).collect::<Option<Vec<String>>>()?;
    if ranges.is_empty() || ranges.len() > RANGES_MAX {
        return None;
    }
    let counted = async {
        let table = Table::new(pipeline, &clock()).await.ok()?;
        let again = table.count(&format!("{} AND ({})", table.of, ranges.join(" OR "))).await.ok()?;
        let all = format!("{} AND source != {}", table.of, clickhouse::types::quote(STREAM));
        Some((again, table.count(&all).await.ok()?.saturating_sub(again)))
    };
    tokio::time::timeout(COUNT_MAX, counted).await.ok()?
}

/// What a move back means for dead letters.
fn meaning_for_letters(letters: Option<(u64, u64)>) -> String {
    let again =
        "`dead-letters replay` passes over them from then on, and a record that fails again is a new letter";
    match letters {
        Some((0, _)) => "no dead letter is of a record that is read again".to_owned(),
        Some((count, others)) => format!(
            "{count} dead letters are of records that are read again: {again}; {others} others can be replayed as before"
        ),
        None => format!(
            "dead letters of records that are read again, if there are any, stay in their table: {again}"
        ),
    }
}

fn partition(text: &str) -> Result<(String, u32), String> {
    let (stream, index) =
        text.rsplit_once('/').filter(|(stream, _)| !stream.is_empty()).ok_or("write it as `topic/number`")?;
    let index = index.parse().map_err(|_| format!("`{index}` is no partition's number"))?;
    Ok((stream.to_owned(), index))
}

fn name(lane: &Lane, moved: &Move) -> String {
    let p = &lane.partitions[moved.partition as usize];
    let input = lane.inputs.get(p.input as usize).filter(|_| lane.inputs.len() > 1);
    let input = input.map_or(String::new(), |input| format!("{}:", input.name));
    format!("{input}{}/{}", p.stream, p.index)
}

/// What is moved and what it means.
fn words(pipeline: &Pipeline, lane: &Lane, told: &Told<'_>) -> anyhow::Result<String> {
    let Told { rewind, left_out, letters, .. } = told;
    let mut out = String::new();
    for moved in &rewind.moves {
        let (from, to) = (moved.from(), moved.next());
        let means = match (moved.is_back(), position::between(from.min(to), from.max(to))) {
            (true, Some(count)) => format!("{count} positions are read again"),
            (true, None) => "all between is read again".to_owned(),
            (false, Some(count)) => format!("{count} positions are never read"),
            (false, None) => "all between is never read".to_owned(),
        };
        let (from, to) = (position::shown(from), position::shown(to));
        writeln!(out, "moves        {} from {from} to {to}: {means}", name(lane, moved))?;
    }
    if rewind.moves.is_empty() {
        writeln!(out, "moves        nothing: pipeline `{}` stands there already", pipeline.pipeline)?;
    }
    for input in *left_out {
        writeln!(out, "unchanged    input `{input}`, which is no longer in the pipeline file")?;
    }
    for line in meaning(lane, rewind, *letters) {
        writeln!(out, "means        {line}")?;
    }
    Ok(out)
}

/// What follows for the rows of the tables, each a whole sentence.
fn meaning(lane: &Lane, rewind: &Rewind, letters: Option<(u64, u64)>) -> Vec<String> {
    let labels = change::labels(&lane.steps);
    let mut lines = Vec::new();
    for step in &rewind.emptied {
        lines.push(format!("step `{}` begins with empty state", labels[*step as usize]));
    }
    if rewind.discarded > 0 {
        lines.push(format!(
            "{} records that are held by {} are discarded: they are in no further result",
            rewind.discarded,
            change::absorbing(&lane.steps)
        ));
    }
    if rewind.moves.iter().any(Move::is_back) {
        let kept = (0..).zip(&lane.steps).filter(|(at, _)| !rewind.emptied.contains(at));
        let known: Vec<String> =
            kept.map(|(at, step)| format!("`{}` ({})", labels[at as usize], step.shape)).collect();
        lines.push(match known.is_empty() {
            true => "rows that are in the tables already are written a second time: delete them first".to_owned(),
            false => format!(
                "rows that are in the tables already are written a second time, except those whose key is known to {}; a record that is older \
                 than its window, counted from the newest record, is late",
                known.join(" or ")
            ),
        });
    }
    if rewind.moves.iter().any(Move::is_back) {
        lines.push(meaning_for_letters(letters));
    }
    if rewind.moves.iter().any(|moved| !moved.is_back()) {
        lines.push(
            "records that are skipped are in no table and no count; the journal names their positions"
                .to_owned(),
        );
    }
    lines
}

/// What is printed of a move, made or planned.
struct Told<'a> {
    rewind: &'a Rewind,
    /// Inputs that are not in the file, and so not moved.
    left_out: &'a [String],
    /// Dead letters of records that are read again, and others.
    letters: Option<(u64, u64)>,
    done: bool,
}

fn tell(
    pipeline: &Pipeline,
    lane: &Lane,
    told: &Told<'_>,
    call: &Call<'_>,
    words: &str,
    exit: Exit,
) -> anyhow::Result<Exit> {
    let Told { rewind, left_out, letters, done } = told;
    let labels = change::labels(&lane.steps);
    let moves: Vec<Value> = rewind
        .moves
        .iter()
        .map(|moved| {
            let p = &lane.partitions[moved.partition as usize];
            let input = lane.inputs.get(p.input as usize).map(|input| &input.name);
            json!({ "input": input, "stream": p.stream, "index": p.index, "from": fields::position(moved.from()), "to": fields::position(moved.next()) })
        })
        .collect();
    let emptied: Vec<&String> = rewind.emptied.iter().map(|step| &labels[*step as usize]).collect();
    let value = json!({
        "pipeline": pipeline.pipeline.as_str(), "file": call.file.display().to_string(), "done": done, "moves": moves,
        "left_out": left_out, "new_state": emptied, "discarded": rewind.discarded, "means": meaning(lane, rewind, *letters)
    });
    print(&if call.json { format!("{value:#}\n") } else { words.to_owned() })?;
    Ok(exit)
}

/// What it means that nobody could say where the words lead: they are a mistake, or the source does not answer at the moment.
fn exit_of_asking(error: &anyhow::Error) -> Exit {
    match error.downcast_ref::<SourceError>().map(|error| error.fault) {
        Some(SourceFault::Away | SourceFault::Lookup | SourceFault::Store) => Exit::Failed,
        Some(SourceFault::Refused | SourceFault::Config) | None => Exit::Fault,
    }
}

/// Says why nothing was moved.
fn refuse(error: &RewindError) -> anyhow::Result<Exit> {
    let exit = match error {
        RewindError::NotRead { .. } | RewindError::NoStep { .. } | RewindError::Some { .. } => Exit::Fault,
        RewindError::Pending { .. } | RewindError::Counted { .. } => Exit::Person,
        RewindError::Running => Exit::Fenced,
        RewindError::Engine(error) => super::run::exit_of(error),
    };
    console::refuse(error);
    Ok(exit)
}

#[cfg(test)]
mod tests;
