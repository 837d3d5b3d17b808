//! `forebay list`, `forebay reset` and `forebay delete`: the pipelines of a store, and their end.
//!
//! Owns what is shown and asked. Does not own what goes ([`admin::pipelines`]); a pipeline's table and its source are never touched.
//!
//! | command  | goes                                                        | stays                                                |
//! |----------|-------------------------------------------------------------|------------------------------------------------------|
//! | `list`   | nothing                                                     | everything; it reads the journals alone              |
//! | `reset --to` | nothing: see [`rewind`]                                 | everything                                           |
//! | `reset`  | the pipeline's journal, state, sealed rows and replay log    | its file, tables and source; the next start reads anew |
//! | `delete` | the same                                                    | the same; it is not expected to start again          |

use std::fmt::Write as _;
use std::time::Duration;

use admin::dead_letters;
use admin::pipelines::{self, End};
use admin::running;
use anyhow::{anyhow, bail};
use clap::Args;
use clickhouse::TableConfig;
use engine::journal;
use engine::remove::RemoveError;
use engine::{Status, TokioRuntime};
use files::names::quoted;
use pipeline::config::model::{Input, Pipeline};
use pipeline::wiring;
use protocol::Lane;
use serde_json::{Value, json};

use super::{place, rewind};
use crate::console::{self, Exit, Mistake, PipelineFile, print};
use crate::progress::counted;

/// How long the dead letters are counted: a server that is away is no reason not to go on.
const COUNT_MAX: Duration = Duration::from_secs(5);

/// Lists the pipelines in a store.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay list user-events.yaml                    # all pipelines in the store of this one
  forebay list --store file:///var/lib/forebay --json

Only reads the journals; running pipelines are not affected.

Exit codes: 0; 2 for an error in the command line or the file, or if there is no store at the address; 1 if the store cannot be read.")]
pub struct List {
    /// A pipeline file whose store to list; `-` for standard input.
    #[arg(value_name = "FILE", required_unless_present = "store")]
    file: Option<std::path::PathBuf>,

    /// The store's address, instead of a pipeline file; keys for object storage are then taken from the environment.
    #[arg(long, value_name = "URL", conflicts_with = "file")]
    store: Option<String>,

    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// What `reset` and `delete` are told.
#[derive(Debug, Args)]
struct Removal {
    #[command(flatten)]
    file: PipelineFile,

    /// Makes the change. Without this option the command only prints what would be deleted or moved, and what would be kept.
    #[arg(long)]
    yes: bool,

    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// Deletes a pipeline's journal and state, so that its next start reads the source from the beginning again; with --to, moves a stopped
/// pipeline to other positions and keeps everything else.
#[derive(Debug, Args)]
#[command(after_help = concat!("\
Examples:
  forebay reset user-events.yaml           # prints what would be deleted
  forebay reset user-events.yaml --yes
  forebay reset user-events.yaml --to earliest                        # prints what would be read again
  forebay reset user-events.yaml --to 2026-01-31T08:00:00Z --yes
  forebay reset user-events.yaml --to orders/0=1200,orders/1=900 --yes
  forebay reset user-events.yaml --to latest --topic returns --yes

With --to, the journal and the state stay. If the new position is earlier, the records in between are read again: their rows are written a \
second time, unless `dedup` still knows their keys. If it is later, the records in between are never read.

Without --to, the table keeps its rows: empty it first, or every row that is read again will be there twice. Rows of records that the source no longer \
holds, and of all that was sent to a pipeline that listens, do not come back. If the table is not empty, the next `forebay run` asks.

Exit codes: 0 if the pipeline was reset; 4 without --yes; 3 if a process runs the pipeline; 2 for an error in the file; 1 if the store or, with --to, the \
source does not answer.

", running_means!()))]
pub struct Reset {
    #[command(flatten)]
    removal: Removal,

    #[command(flatten)]
    moved: rewind::Options,
}

/// Deletes a pipeline from its store.
#[derive(Debug, Args)]
#[command(after_help = concat!("\
Examples:
  forebay delete user-events.yaml          # prints what would be deleted
  forebay delete user-events.yaml --yes

The tables and the source are not changed.

Exit codes: 0 if the pipeline was deleted; 4 without --yes; 3 if a process runs the pipeline; 2 for an error in the file.

A few hundred bytes stay in the store, so that a process that sleeps now is stopped when it wakes.

", running_means!()))]
pub struct Delete {
    #[command(flatten)]
    removal: Removal,
}

impl List {
    /// Runs the command.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn execute(&self) -> anyhow::Result<Exit> {
        let pipeline = match &self.file {
            None => None,
            Some(file) => match super::load(file)? {
                Some(pipeline) => Some(pipeline),
                None => return Ok(Exit::Fault),
            },
        };
        let found = super::runtime()?.block_on(async {
            let store = match (&pipeline, &self.store) {
                (Some(pipeline), _) => wiring::storage::open_to_read(pipeline).await,
                (None, Some(url)) => wiring::storage::open_url_to_read(url.clone()).await,
                (None, None) => bail!("neither a pipeline file nor a store is named"),
            };
            match store.map_err(|error| anyhow!("the store cannot be opened: {error}"))? {
                // A pipeline that has not run yet has no store yet.
                None if pipeline.is_some() => Ok(Vec::new()),
                None => {
                    let url = self.store.as_deref().unwrap_or_default();
                    Err(Mistake::of(anyhow!(
                        "there is no store at `{url}`; give the address as pipeline files do"
                    )))
                }
                Some(store) => pipelines::listed(&*store).await,
            }
        })?;
        if self.json {
            return print(&format!("{:#}\n", json!({ "pipelines": found })));
        }
        let mut text = String::new();
        for one in &found {
            if let Some(error) = one["error"].as_str() {
                let name = one["pipeline"].as_str().unwrap_or_default();
                writeln!(text, "{name}: its journal cannot be read: {error}")?;
                continue;
            }
            let sum = |key: &str| one["records"][key].to_string();
            writeln!(
                text,
                "{}: {}, {} read, {} written, {} rows in flight",
                one["pipeline"].as_str().unwrap_or_default(),
                one["state"].as_str().unwrap_or_default(),
                sum("read"),
                sum("written"),
                one["in_flight_rows"]
            )?;
        }
        if found.is_empty() {
            text.push_str("no pipeline in this store\n");
        }
        print(&text)
    }
}

impl Reset {
    /// Runs the command.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub fn execute(&self) -> anyhow::Result<Exit> {
        if !self.moved.is_given() {
            return self.removal.execute(End::Reset);
        }
        let Removal { file, yes, json } = &self.removal;
        let Some(pipeline) = super::load(&file.file)? else { return Ok(Exit::Fault) };
        let call = rewind::Call { file: &file.file, yes: *yes, json: *json };
        super::runtime()?.block_on(self.moved.execute(&pipeline, &call))
    }
}

impl Delete {
    /// Runs the command.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub fn execute(&self) -> anyhow::Result<Exit> {
        self.removal.execute(End::Delete)
    }
}

impl Removal {
    fn execute(&self, end: End) -> anyhow::Result<Exit> {
        let Some(pipeline) = super::load(&self.file.file)? else { return Ok(Exit::Fault) };
        let name = pipeline.pipeline.as_str();
        super::runtime()?.block_on(async {
            if running::ask(&pipeline).await.is_ok() {
                console::refuse(format_args!(
                    "a process on this machine runs pipeline `{name}`: stop it first; nothing was changed"
                ));
                return Ok(Exit::Fenced);
            }
            let Some(store) = wiring::storage::open_to_read(&pipeline).await? else {
                return self.tell(
                    &json!({ "pipeline": name, "done": false, "found": false }),
                    "no pipeline in this store\n",
                    Exit::Done,
                );
            };
            // A journal that cannot be read is one more reason to start anew; what is in flight is not known then.
            let lane = journal::load_any(&*store, &wiring::lane_folder(&pipeline)).await;
            let (objects, bytes) = pipelines::size(&*store, &pipeline, lane.as_ref().ok()).await?;
            if objects == 0 {
                let words = format!("pipeline `{name}` is not in this store\n");
                return self.tell(
                    &json!({ "pipeline": name, "done": false, "found": false }),
                    &words,
                    Exit::Done,
                );
            }
            if let Some(why) = lane.as_ref().ok().and_then(|lane| pipelines::kept(end, name, lane)) {
                console::refuse(format_args!("{why}; nothing was changed"));
                return Ok(Exit::Person);
            }
            let rows = lane.as_ref().map(|lane| pipelines::in_flight(lane).1).map_err(ToString::to_string);
            let mut plan = json!({
                "pipeline": name, "found": true, "done": self.yes, "objects": objects, "bytes": bytes,
                "in_flight_rows": rows.as_ref().ok(), "journal_problem": rows.as_ref().err(),
                "tables": wiring::sink::targets(&pipeline)?.iter().map(TableConfig::name).collect::<Vec<_>>()
            });
            let letters = left(&pipeline, lane.as_ref().ok()).await;
            plan["dead_letters"] = match &letters {
                Left::Some(count) => (*count).into(),
                Left::Unknown(_) | Left::Of(_) => Value::Null,
            };
            let mut words =
                words(end, &pipeline, objects, bytes, rows.as_ref().copied().map_err(String::as_str))?;
            let listens = pipeline.inputs().iter().any(|input| input.source.listen.is_some());
            words += &letters.words(end, &wiring::sink::dead_letters(&pipeline).name(), listens);
            if end == End::Delete {
                words += &readers_left(&pipeline, lane.as_ref().is_ok_and(|lane| lane.renamed.is_some()));
            }
            if !self.yes {
                let words = format!(
                    "{words}Nothing was changed. To do it: `forebay {} {} --yes`\n",
                    end.word(),
                    place::quoted(&self.file.file)
                );
                return self.tell(&plan, &words, Exit::Person);
            }
            let store = wiring::storage::open(&pipeline, &*TokioRuntime::new(1), &Status::default()).await?;
            if let Err(error) = pipelines::remove(store, &pipeline, end).await {
                return Ok(refuse(&error));
            }
            plan["done"] = true.into();
            self.tell(&plan, &words, Exit::Done)
        })
    }

    fn tell(&self, plan: &Value, words: &str, exit: Exit) -> anyhow::Result<Exit> {
        print(&if self.json { format!("{plan:#}\n") } else { words.to_owned() })?;
        Ok(exit)
    }
}

/// Says why the pipeline was not removed.
fn refuse(error: &RemoveError) -> Exit {
    console::refuse(error);
    match error {
        RemoveError::Running => Exit::Fenced,
        RemoveError::Endless => Exit::Failed,
        RemoveError::Engine(error) => super::run::exit_of(error),
    }
}

/// The dead letters that stay in their table.
enum Left {
    /// So many.
    Some(u64),
    /// Nobody knows, and why.
    Unknown(String),
    /// Those of the pipeline, under the name that it has now.
    Of(String),
}

/// Counts the dead letters of the pipeline.
async fn left(pipeline: &Pipeline, lane: Option<&Lane>) -> Left {
    if let Some(renamed) = lane.and_then(|lane| lane.renamed.as_ref()) {
        return Left::Of(renamed.to.clone());
    }
    let runtime = dead_letters::clock();
    let counted = async {
        let table = dead_letters::Table::new(pipeline, &runtime).await?;
        table.count(&table.of).await
    };
    match tokio::time::timeout(COUNT_MAX, counted).await {
        Ok(Ok(count)) => Left::Some(count),
        Ok(Err(error)) => Left::Unknown(format!("{error:#}")),
        Err(_) => Left::Unknown(format!("no answer within {} s", COUNT_MAX.as_secs())),
    }
}

impl Left {
    /// What becomes of them, as lines. `listens` says whether records were sent to the pipeline: their positions begin anew.
    fn words(&self, end: End, table: &str, listens: bool) -> String {
        let what = match self {
            Self::Some(0) => return format!("keeps        no dead letter is in `{table}`\n"),
            Self::Some(count) => format!("keeps        {} in `{table}`", counted(*count, "dead letter")),
            Self::Unknown(why) => {
                format!(
                    "keeps        dead letters in `{table}`, if there are any; they cannot be counted ({why})"
                )
            }
            Self::Of(name) => {
                return format!(
                    "keeps        the dead letters in `{table}`: they are those of pipeline `{name}`\n"
                );
            }
        };
        let then = match end {
            End::Reset => {
                "then         `dead-letters replay` passes over the letters of records that the next start reads again; those of other records can be \
                 replayed. To delete them all, do it first: `forebay dead-letters purge FILE --all --yes`"
            }
            End::Delete => {
                "then         it is no longer known which of them were replayed, and a later pipeline of this name treats them as its own. If nobody needs \
                 them, delete them first: `forebay dead-letters purge FILE --all --yes`"
            }
        };
        let sent = match end {
            End::Reset if listens => {
                "then         it also passes over those of records that were sent to the pipeline, although they do not come again: replay them before the \
                 reset, or after it with `--again`\n"
            }
            End::Reset | End::Delete => "",
        };
        format!("{what}\n{then}\n{sent}")
    }
}

/// What sources go on keeping for a pipeline that reads no more. A renamed one reads on, as whom its file names.
fn readers_left(pipeline: &Pipeline, is_renamed: bool) -> String {
    let name = pipeline.pipeline.as_str();
    let mut out = String::new();
    for input in pipeline.inputs() {
        let log = input.source.log.as_ref();
        if let Some(log) = log.filter(|log| !is_renamed || log.consumer.is_none()) {
            let consumer = log.consumer.as_ref().map_or_else(|| name.to_owned(), ToString::to_string);
            out += &format!(
                "then         the log keeps what consumer `{consumer}` has not acknowledged; if nothing else uses this consumer, remove it from each \
                 partition: `forebay log truncate {} --forget-consumer {consumer}`\n",
                quoted(&place::address(log.url.as_str()))
            );
        }
        let pulsar = input.source.pulsar.as_ref();
        if let Some(pulsar) = pulsar.filter(|pulsar| !is_renamed || pulsar.subscription.is_none()) {
            let subscription = pulsar.subscription.as_ref();
            let subscription = subscription.map_or_else(|| format!("forebay-{name}"), ToString::to_string);
            out += &format!(
                "then         Pulsar's brokers keep what subscription `{subscription}` has not acknowledged; delete it if nothing else uses \
                 it\n"
            );
        }
    }
    out
}

/// What the next start reads after a reset, and what that means for the rows that are in the tables.
fn read_again(pipeline: &Pipeline, tables: &[TableConfig]) -> String {
    let inputs = pipeline.inputs();
    // A generator makes the same records again.
    let is_again =
        |input: &&Input<'_>| wiring::sink::is_read_from_before(input) || input.source.generator.is_some();
    let mut out = String::new();
    if inputs.iter().any(|input| is_again(&input)) {
        for table in tables {
            out += &format!(
                "then         the next start reads the source from the beginning: empty the table first (`TRUNCATE TABLE {}`), or \
                 every row will be in it twice\n",
                table.quoted()
            );
        }
        out += "then         rows of records that the source does not hold any more do not come back: copy them before you empty a table\n";
    }
    for input in inputs.iter().filter(|input| !is_again(input)) {
        let of_input = if inputs.len() > 1 { format!(" of input `{}`", input.name) } else { String::new() };
        let what = match input.source.listen {
            Some(_) => "what was sent cannot be read again",
            None => "`start: latest` passes over what is there already",
        };
        out += &format!(
            "then         {what}: the rows{of_input} are in the tables alone, and are lost if a table is emptied\n"
        );
    }
    out
}

fn words(
    end: End,
    pipeline: &Pipeline,
    objects: u64,
    bytes: u64,
    rows: Result<u64, &str>,
) -> anyhow::Result<String> {
    let (name, tables) = (pipeline.pipeline.as_str(), wiring::sink::targets(pipeline)?);
    let mut out = String::new();
    writeln!(
        out,
        "deletes      journal, state and replay log of pipeline `{name}`: {objects} objects, {bytes} bytes"
    )?;
    match rows {
        Ok(0) => {}
        Ok(rows) => writeln!(
            out,
            "deletes      {rows} rows that are sealed and perhaps not in the table; to deliver them first: `forebay run FILE --drain`"
        )?,
        Err(why) => writeln!(
            out,
            "deletes      rows that are sealed and not in the table, if there are any: the journal cannot be read ({why})"
        )?,
    }
    writeln!(
        out,
        "keeps        the rows of {}, the source, and the pipeline file",
        tables.iter().map(|table| format!("`{}`", table.name())).collect::<Vec<_>>().join(", ")
    )?;
    if end == End::Reset {
        out += &read_again(pipeline, &tables);
        if pipeline.inputs().iter().any(|input| input.source.kafka.is_some()) {
            writeln!(
                out,
                "then         Kafka remembers how far this consumer group has read, and a start without its journal is refused: give the \
                 source another `group`"
            )?;
        }
        if pipeline.inputs().iter().any(|input| input.source.log.is_some()) {
            writeln!(
                out,
                "then         the log remembers how far this consumer has read, and a start without its journal is refused: give the source \
                 another `consumer`, and take this one out (`forebay log truncate LOG --forget-consumer NAME`), for the log keeps what it has \
                 not acknowledged"
            )?;
        }
        if pipeline.inputs().iter().any(|input| input.source.pulsar.is_some()) {
            writeln!(
                out,
                "then         Pulsar remembers how far this subscription has read, and a start without its journal is refused: give the \
                 source another `subscription`, and delete this one, for brokers keep what it has not acknowledged"
            )?;
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests;
