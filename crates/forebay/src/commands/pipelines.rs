//! `forebay list`, `forebay reset` and `forebay delete`: the pipelines of a store, and their end.
//!
//! Owns what is shown, and which objects go. Does not own a pipeline's table or its source: neither is ever touched here.
//!
//! | command  | goes                                                        | stays                                                |
//! |----------|-------------------------------------------------------------|------------------------------------------------------|
//! | `list`   | nothing                                                     | everything; it reads the journals alone              |
//! | `reset`  | the pipeline's journal, state, sealed rows and replay log    | its file, tables and source; the next start reads anew |
//! | `delete` | the same                                                    | the same; it is not expected to start again          |
//!
//! Before anything goes the lane is claimed, so a process that runs the pipeline without being seen from here is fenced: it ends.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use dataflow::Runtime;
use engine::journal::{self, Journal};
use engine::{Status, TokioRuntime, inspect};
use pipeline::config::model::Pipeline;
use pipeline::wiring;
use protocol::Lane;
use protocol::lane::Renamed;
use serde_json::{Value, json};
use store::{Prefix, Store};

use crate::cli::{Exit, PipelineFile, print};
use crate::{running, status_view};

/// Objects asked for in one listing.
const LISTED_MAX: usize = 1_000;

/// Rounds of listing and deleting; the second finds only what a fenced owner had on its way.
const ROUNDS_MAX: usize = 8;

/// Lists the pipelines in a store.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay list user-events.yaml                    # all that share its store
  forebay list --store file:///var/lib/forebay --json

Reads the journals; running pipelines are not disturbed.")]
pub struct List {
    /// A pipeline file whose store is listed; `-` for standard input.
    #[arg(value_name = "FILE", required_unless_present = "store")]
    file: Option<std::path::PathBuf>,

    /// The store's address instead; keys for object storage come from the environment.
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

    /// Does it. Without it, only says what would go and what would stay.
    #[arg(long)]
    yes: bool,

    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// Forgets all that a pipeline has read, so that its next start reads the source from the start again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay reset user-events.yaml           # says what would go
  forebay reset user-events.yaml --yes

The table keeps its rows: empty it first, or they are there twice. The next `forebay run` asks if it is not empty.
Ends with code 0 when it is done, 4 without `--yes`, 3 while a process runs the pipeline.")]
pub struct Reset {
    #[command(flatten)]
    removal: Removal,
}

/// Takes a pipeline out of its store.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay delete user-events.yaml          # says what would go
  forebay delete user-events.yaml --yes

The tables and the source stay as they are.
Ends with code 0 when it is done, 4 without `--yes`, 3 while a process runs the pipeline.")]
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
                (None, None) => bail!("name a pipeline file or a store"),
            };
            match store.context("the store cannot be opened")? {
                None => Ok(Vec::new()),
                Some(store) => listed(&*store).await,
            }
        })?;
        if self.json {
            return print(&format!("{:#}\n", json!({ "pipelines": found })));
        }
        let mut text = String::new();
        for one in &found {
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

async fn listed(store: &dyn Store) -> anyhow::Result<Vec<Value>> {
    let mut found = Vec::new();
    for folder in inspect::lanes(store, None).await.context("the store cannot be read")? {
        let name = folder.split('/').next().unwrap_or_default().to_owned();
        // A damaged journal must not hide the others.
        let one = match journal::load_any(store, &folder).await {
            Err(error) => {
                json!({ "pipeline": name, "lane": folder, "state": "unreadable", "error": error.to_string() })
            }
            Ok(lane) => {
                let (frames, rows) = in_flight(&lane);
                json!({
                    "pipeline": name, "lane": folder, "state": state(&lane), "epoch": lane.epoch,
                    "records": status_view::counts(&lane.counts, status_view::replayed(&lane)),
                    "in_flight_frames": frames, "in_flight_rows": rows
                })
            }
        };
        found.push(one);
    }
    Ok(found)
}

fn state(lane: &Lane) -> String {
    let pieces = || {
        lane.tables.iter().flat_map(|table| table.pending.iter().flatten()).filter(|piece| piece.is_live())
    };
    if let Some(from) = &lane.arriving_from {
        return format!("the new name of {from}, which is not renamed yet");
    }
    if let Some(Renamed { to, is_done }) = &lane.renamed {
        let not_yet = if *is_done { "" } else { ", which is not finished" };
        return format!("renamed to {to}{not_yet}");
    }
    let state = if lane.pipeline.is_empty() {
        "never read"
    } else if pieces().any(|piece| piece.question.is_some()) {
        "waits for an answer"
    } else if pieces().next().is_some() {
        "rows in flight"
    } else {
        "delivered"
    };
    state.to_owned()
}

/// Frames and rows that are sealed and not known to be in the table.
fn in_flight(lane: &Lane) -> (u64, u64) {
    let live =
        lane.tables.iter().flat_map(|table| table.pending.iter().flatten()).filter(|piece| piece.is_live());
    live.fold((0, 0), |(frames, rows), piece| (frames + 1, rows + piece.frame.rows))
}

impl Reset {
    /// Runs the command.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub fn execute(&self) -> anyhow::Result<Exit> {
        self.removal.execute("reset")
    }
}

impl Delete {
    /// Runs the command.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub fn execute(&self) -> anyhow::Result<Exit> {
        self.removal.execute("delete")
    }
}

impl Removal {
    fn execute(&self, command: &str) -> anyhow::Result<Exit> {
        let Some(pipeline) = super::load(&self.file.file)? else { return Ok(Exit::Fault) };
        let name = pipeline.pipeline.as_str();
        super::runtime()?.block_on(async {
            if running::ask(&pipeline).await.is_ok() {
                tracing::error!(
                    "a process on this machine runs pipeline `{name}`: stop it first; nothing was changed"
                );
                return Ok(Exit::Fenced);
            }
            let Some(store) = wiring::storage::open_to_read(&pipeline).await? else {
                return self.tell(
                    &json!({ "pipeline": name, "done": false, "found": false }),
                    "no pipeline in this store\n",
                    Exit::Done,
                );
            };
            let prefix = Prefix::new(name).context("the pipeline's folder")?;
            let (objects, bytes) = size(&*store, &prefix).await?;
            if objects == 0 {
                let words = format!("pipeline `{name}` is not in this store\n");
                return self.tell(
                    &json!({ "pipeline": name, "done": false, "found": false }),
                    &words,
                    Exit::Done,
                );
            }
            // A journal that cannot be read is one more reason to start anew; what is in flight is not known then.
            let lane = journal::load_any(&*store, &wiring::lane_folder(&pipeline)).await;
            if let Some(why) = lane.as_ref().ok().and_then(|lane| kept(command, name, lane)) {
                tracing::error!("{why}; nothing was changed");
                return Ok(Exit::Person);
            }
            let rows = lane.as_ref().map(|lane| in_flight(lane).1).map_err(ToString::to_string);
            let mut plan = json!({
                "pipeline": name, "found": true, "done": self.yes, "objects": objects, "bytes": bytes,
                "in_flight_rows": rows.as_ref().ok(), "journal_problem": rows.as_ref().err(),
                "table": wiring::sink::target(&pipeline)?.name()
            });
            let words =
                words(command, &pipeline, objects, bytes, rows.as_ref().copied().map_err(String::as_str))?;
            if !self.yes {
                let words = format!(
                    "{words}Nothing was changed. To do it: `forebay {command} {} --yes`\n",
                    self.file.file.display()
                );
                return self.tell(&plan, &words, Exit::Person);
            }
            remove(&pipeline).await?;
            plan["done"] = true.into();
            self.tell(&plan, &words, Exit::Done)
        })
    }

    fn tell(&self, plan: &Value, words: &str, exit: Exit) -> anyhow::Result<Exit> {
        print(&if self.json { format!("{plan:#}\n") } else { words.to_owned() })?;
        Ok(exit)
    }
}

/// Why the pipeline is not to be deleted or reset now.
fn kept(command: &str, name: &str, lane: &Lane) -> Option<String> {
    let Renamed { to, is_done } = lane.renamed.as_ref()?;
    match (is_done, command) {
        (false, _) => Some(format!(
            "pipeline `{name}` is being renamed to `{to}`, and what is read and in flight may still lie under the old name: finish it \
             first, with `forebay rename FILE {to} --yes`"
        )),
        (true, "reset") => Some(format!(
            "pipeline `{name}` was renamed to `{to}`: write `pipeline: {to}` into the pipeline file, and reset that one"
        )),
        (true, _) => None,
    }
}

fn words(
    command: &str,
    pipeline: &Pipeline,
    objects: u64,
    bytes: u64,
    rows: Result<u64, &str>,
) -> anyhow::Result<String> {
    let (name, table) = (pipeline.pipeline.as_str(), wiring::sink::target(pipeline)?);
    let letters = wiring::sink::dead_letters(pipeline);
    let mut out = String::new();
    writeln!(
        out,
        "goes         journal, state and replay log of pipeline `{name}`: {objects} objects, {bytes} bytes"
    )?;
    match rows {
        Ok(0) => {}
        Ok(rows) => writeln!(
            out,
            "goes         {rows} rows that are sealed and perhaps not in the table; to deliver them first: `forebay run FILE --drain`"
        )?,
        Err(why) => writeln!(
            out,
            "goes         rows that are sealed and not in the table, if there are any: the journal cannot be read ({why})"
        )?,
    }
    writeln!(
        out,
        "stays        the rows of `{}` and `{}`, the source, and the pipeline file",
        table.name(),
        letters.name()
    )?;
    if command == "reset" {
        writeln!(
            out,
            "then         the next start reads the source from the start: empty the table first (`TRUNCATE TABLE {}`), or every row is \
             there twice",
            table.quoted()
        )?;
        if pipeline.source.kafka.is_some() {
            writeln!(
                out,
                "then         Kafka remembers how far this consumer group has read, and a start without its journal is refused: give the \
                 source another `group`"
            )?;
        }
    }
    Ok(out)
}

/// Objects of the pipeline and their bytes.
async fn size(store: &dyn Store, prefix: &Prefix) -> anyhow::Result<(u64, u64)> {
    let (mut objects, mut bytes, mut after) = (0, 0, None);
    loop {
        let entries = store.list(prefix, after.as_ref(), LISTED_MAX).await?;
        let Some(last) = entries.last() else { return Ok((objects, bytes)) };
        after = Some(last.key.clone());
        objects += entries.len() as u64;
        bytes += entries.iter().map(|entry| entry.size_bytes).sum::<u64>();
    }
}

/// Claims the lane, so that no other process goes on with it, and deletes all of the pipeline.
async fn remove(pipeline: &Pipeline) -> anyhow::Result<()> {
    let runtime: Arc<dyn Runtime> = TokioRuntime::new(1);
    let store = wiring::storage::open(pipeline, &*runtime, &Status::default()).await?;
    let folder = wiring::lane_folder(pipeline);
    // One that is damaged cannot be claimed, nor can anybody else go on with it.
    if let Err(error) =
        Journal::claim(store.clone(), runtime, folder, wiring::owner(), Duration::from_secs(1)).await
    {
        tracing::warn!(%error, "the journal cannot be claimed; its objects are deleted all the same");
    }
    let prefix = Prefix::new(pipeline.pipeline.as_str()).context("the pipeline's folder")?;
    for _ in 0..ROUNDS_MAX {
        let mut after = None;
        let mut deleted = 0;
        loop {
            let entries = store.list(&prefix, after.as_ref(), LISTED_MAX).await?;
            let Some(last) = entries.last() else { break };
            after = Some(last.key.clone());
            for entry in &entries {
                store.delete(&entry.key).await?;
                deleted += 1;
            }
        }
        if deleted == 0 {
            return Ok(());
        }
    }
    bail!(
        "objects of the pipeline appear again and again: another process still writes them; stop it and try again"
    )
}
