//! `forebay dead-letters`: looks at records that could not go on, sends them through the pipeline again, deletes them.
//!
//! Owns the words of the command line. Reads the dead-letter table, the lane's journal and its replay log; only `purge`
//! changes a table, and only the one of dead letters.
//!
//! | module      | what it owns                                                        |
//! |-------------|---------------------------------------------------------------------|
//! | [`filter`]  | which letters: options to a condition that cannot reach beyond them |
//! | [`letters`] | reading letters from the table, in pages of bounded size            |
//! | [`list`]    | the table of letters, lines of JSON, counts by reason               |
//! | [`show`]    | one letter whole                                                    |
//! | [`choose`]  | which letters a replay takes, and their records                     |
//! | [`replay`]  | putting records into the replay log, the wait, the results          |
//! | [`results`] | the words of the results                                            |
//! | [`follow`]  | what the journal says of a replay meanwhile                         |
//! | [`purge`]   | the deletion                                                        |
//! | [`output`]  | columns for people                                                  |

mod choose;
mod filter;
mod follow;
mod letters;
mod list;
pub(crate) mod output;
mod purge;
mod replay;
mod results;
mod show;

use std::sync::Arc;

use anyhow::Context;
use clap::{Args, Subcommand};
use clickhouse::client::Client;
use dataflow::Runtime;
use engine::TokioRuntime;
use pipeline::config::model::Pipeline;
use pipeline::replays::{Log, STREAM};
use pipeline::wiring;
use protocol::Lane;
use store::Store;

use crate::cli::Exit;

/// Lists, shows, replays and deletes records that could not go on.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay dead-letters list user-events.yaml --summary
  forebay dead-letters show user-events.yaml user_events/2/1234
  forebay dead-letters replay user-events.yaml --reason out_of_range --since 2h
  forebay dead-letters purge user-events.yaml --until 30d --yes

A dead letter is named by the place of its record: stream/partition/position. Replayed records that could not go on again
are dead letters of the stream `@replays`; their header `forebay_origin` names the first place.")]
pub struct DeadLetters {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(list::List),
    Show(show::Show),
    Replay(replay::Replay),
    Purge(purge::Purge),
}

impl DeadLetters {
    /// Runs the command.
    ///
    /// # Errors
    /// When the table, the journal or the replay log cannot be read or written.
    pub fn execute(&self) -> anyhow::Result<Exit> {
        match &self.action {
            Action::List(list) => list.execute(),
            Action::Show(show) => show.execute(),
            Action::Replay(replay) => replay.execute(),
            Action::Purge(purge) => purge.execute(),
        }
    }
}

/// The dead-letter table of a pipeline, to be asked.
struct Table {
    client: Client,
    /// `database.table`, quoted for a statement.
    quoted: String,
    /// The same, for people.
    name: String,
    pipeline: String,
    /// The condition that names the pipeline's letters.
    of: String,
}

impl Table {
    /// The table that the file names. Connects with the first question.
    async fn new(pipeline: &Pipeline, runtime: &Arc<dyn Runtime>) -> anyhow::Result<Self> {
        // Letters can be read whatever has become of the journal; only those from under another name are not known without it.
        let former = match open_to_read(pipeline).await {
            Ok(Some((_, lane))) => lane.former_names,
            Ok(None) => Vec::new(),
            Err(error) => {
                tracing::warn!(
                    "dead letters from before the pipeline was last renamed, if it was, are left out: {error:#}"
                );
                Vec::new()
            }
        };
        let config = wiring::sink::dead_letters(pipeline);
        Ok(Self {
            client: wiring::sink::client(pipeline, runtime)?,
            quoted: config.quoted(),
            name: config.name(),
            pipeline: pipeline.pipeline.to_string(),
            of: wiring::sink::letters_of(pipeline.pipeline.as_str(), &former),
        })
    }
}

/// The clock and threads of these commands.
fn clock() -> Arc<dyn Runtime> {
    TokioRuntime::new(1)
}

/// The store and the lane's journal as it stands now; `None` if the pipeline has never run with this store.
async fn open_to_read(pipeline: &Pipeline) -> anyhow::Result<Option<(Arc<dyn Store>, Lane)>> {
    let opened = wiring::storage::open_to_read(pipeline).await;
    let Some(store) = opened.context("the store cannot be opened")? else { return Ok(None) };
    let lane = engine::journal::load(&*store, &wiring::lane_folder(pipeline)).await;
    let lane = lane.context("the journal cannot be read")?;
    Ok((lane.next_seq > 0).then_some((store, lane)))
}

/// Where the lane stands in the replay log.
fn position_in_log(lane: &Lane) -> u64 {
    lane.partition(STREAM, 0).map_or(0, |at| lane.partitions[at].next)
}

/// Which letters were replayed already; nothing where there is no store yet.
async fn memory(pipeline: &Pipeline) -> anyhow::Result<pipeline::replays::memory::Memory> {
    let Some((store, lane)) = open_to_read(pipeline).await? else { return Ok(Default::default()) };
    let log = Log::new(store, &wiring::lane_folder(pipeline));
    log.memory(position_in_log(&lane)).await.context("the replay log cannot be read")
}
