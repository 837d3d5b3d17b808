//! Dead letters: the records that could not go on, what became of them, and which a replay takes.
//!
//! Owns the questions to the dead-letter table, the lane's journal and its replay log. Changes nothing: what does is a few lines of the
//! command that a person gives.
//!
//! | module      | what it owns                                                        |
//! |-------------|---------------------------------------------------------------------|
//! | [`letters`] | reading letters from the table, in pages of bounded size            |
//! | [`choose`]  | which letters a replay takes, and their records                     |
//! | [`follow`]  | what the journal says of a replay meanwhile                         |
//! | [`results`] | what became of each                                                 |

pub mod choose;
pub mod follow;
pub mod letters;
pub mod results;

use std::sync::Arc;

use anyhow::Context;
use clickhouse::client::Client;
use dataflow::Runtime;
use engine::TokioRuntime;
use pipeline::config::model::Pipeline;
use pipeline::replays::{Log, STREAM};
use pipeline::wiring;
use protocol::Lane;
use store::Store;

/// The dead-letter table of a pipeline, to be asked.
pub struct Table {
    /// Asks the server.
    pub client: Client,
    /// `database.table`, quoted for a statement.
    pub quoted: String,
    /// The same, for people.
    pub name: String,
    /// The pipeline's name.
    pub pipeline: String,
    /// The condition that names the pipeline's letters.
    pub of: String,
}

impl Table {
    /// The table that the file names. Connects with the first question.
    ///
    /// # Errors
    /// When the file does not say how the server is reached.
    pub async fn new(pipeline: &Pipeline, runtime: &Arc<dyn Runtime>) -> anyhow::Result<Self> {
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
pub fn clock() -> Arc<dyn Runtime> {
    TokioRuntime::new(1)
}

/// The store and the lane's journal as it stands now; `None` if the pipeline has never run with this store.
///
/// # Errors
/// When the store or the journal cannot be read.
pub async fn open_to_read(pipeline: &Pipeline) -> anyhow::Result<Option<(Arc<dyn Store>, Lane)>> {
    let opened = wiring::storage::open_to_read(pipeline).await;
    let Some(store) = opened.context("the store cannot be opened")? else { return Ok(None) };
    let lane = engine::journal::load(&*store, &wiring::lane_folder(pipeline)).await;
    let lane = lane.context("the journal cannot be read")?;
    Ok((lane.next_seq > 0).then_some((store, lane)))
}

/// Where the lane stands in the replay log.
pub fn position_in_log(lane: &Lane) -> u64 {
    lane.partition(0, STREAM, 0).map_or(0, |at| lane.partitions[at].next)
}

/// Which letters were replayed already; nothing where there is no store yet.
///
/// # Errors
/// When the store, the journal or the log cannot be read.
pub async fn memory(pipeline: &Pipeline) -> anyhow::Result<pipeline::replays::memory::Memory> {
    let Some((store, lane)) = open_to_read(pipeline).await? else { return Ok(Default::default()) };
    let log = Log::new(store, &wiring::lane_folder(pipeline));
    log.memory(position_in_log(&lane)).await.context("the replay log cannot be read")
}
