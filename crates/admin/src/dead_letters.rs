//! Dead letters: the records that could not go on, what became of them, and which a replay takes.
//!
//! Owns the queries of the dead-letter table, the lane's journal and its replay log. Changes nothing, and does not own what does: putting
//! letters into the replay log, and deleting them, is done by the commands of the program (`dead_letters::replay`, `dead_letters::purge`).
//!
//! | module      | what it owns                                                        |
//! |-------------|---------------------------------------------------------------------|
//! | [`anew`]    | which are of records that are read anew                             |
//! | [`letters`] | reading letters from the table, in pages of bounded size            |
//! | [`choose`]  | which letters a replay takes, and their records                     |
//! | [`follow`]  | what the journal says of a replay meanwhile                         |
//! | [`results`] | what became of each                                                 |

pub mod anew;
pub mod choose;
pub mod follow;
pub mod letters;
pub mod results;

use dataflow::position;
use std::sync::Arc;

use anew::Anew;
use anyhow::Context;
use clickhouse::reader::Reader;
use dataflow::Runtime;
use dataflow::block::TABLE_HEADER;
use engine::{EngineError, TokioRuntime};
use letters::Whole;
use pipeline::config::model::Pipeline;
use pipeline::replays::source::INPUT_HEADER;
use pipeline::replays::{Log, STREAM, stands_at};
use pipeline::wiring;
use protocol::Lane;
use store::Store;

/// The dead-letter table of a pipeline, to be asked.
pub struct Table {
    /// Asks the server.
    pub reader: Reader,
    /// `database.table`, quoted for a statement.
    pub quoted: String,
    /// The same, for messages.
    pub name: String,
    /// The pipeline's name.
    pub pipeline: String,
    /// The condition that names the pipeline's letters.
    pub of: String,
    /// Topic or file, and the input that has read it; empty without a journal.
    pub inputs: Vec<(String, String)>,
    /// The tables of the file's rows, with and without their databases.
    pub tables: Vec<(String, String)>,
    /// The letters of records that are read anew.
    pub anew: Anew,
}

impl Table {
    /// The table that the file names. Connects with the first question.
    ///
    /// # Errors
    /// When the file does not say how the server is reached, or the pipeline has another name since.
    pub async fn new(pipeline: &Pipeline, runtime: &Arc<dyn Runtime>) -> anyhow::Result<Self> {
        // Letters can be read whatever has become of the journal; only those from under another name are not known without it.
        let lane = match open_any(pipeline).await {
            Ok(found) => found.map(|(_, lane)| lane).unwrap_or_default(),
            // Letters under a name that the pipeline has left, or is leaving, are those of its other name.
            Err(error) if matches!(error.downcast_ref(), Some(EngineError::Mismatch(_))) => {
                return Err(error);
            }
            Err(error) => {
                tracing::warn!(
                    "dead letters from before the pipeline was last renamed, if it was, are left out: {error:#}"
                );
                Default::default()
            }
        };
        let config = wiring::sink::dead_letters(pipeline);
        Ok(Self {
            reader: wiring::sink::client(pipeline, runtime)?.into(),
            quoted: config.quoted(),
            name: config.name(),
            pipeline: pipeline.pipeline.to_string(),
            of: wiring::sink::letters_of(pipeline.pipeline.as_str(), &lane),
            inputs: inputs(&lane),
            tables: (pipeline.targets().iter())
                .map(|target| (target.clickhouse.full_name(), target.clickhouse.table_name().to_owned()))
                .collect(),
            anew: Anew::of(&lane),
        })
    }

    /// The condition for letters of rows that this table did not take; it is named with or without its database.
    pub fn of_table(&self, name: &str) -> String {
        of_table(&self.tables, name)
    }

    /// The input of a letter, if the pipeline has had several.
    pub fn input_of(&self, letter: &Whole) -> Option<String> {
        let mut names = self.inputs.iter().map(|(_, input)| input);
        let first = names.next()?;
        if names.all(|name| name == first) {
            return None;
        }
        if letter.head.letter.source == STREAM {
            let named = letter.headers.iter().rfind(|(name, _)| name == INPUT_HEADER.as_bytes());
            return named.map(|(_, name)| String::from_utf8_lossy(name).into_owned());
        }
        let of = self.inputs.iter().find(|(stream, _)| *stream == letter.head.letter.source);
        of.map(|(_, input)| input.clone())
    }

    /// The condition for letters of one input.
    ///
    /// # Errors
    /// When the pipeline has never read such an input.
    pub fn of_input(&self, name: &str) -> anyhow::Result<String> {
        let quote = clickhouse::types::quote;
        let streams = self.inputs.iter().filter(|(_, input)| input == name);
        let streams: Vec<String> = streams.map(|(stream, _)| quote(stream)).collect();
        if streams.is_empty() {
            let mut known: Vec<String> = self.inputs.iter().map(|(_, input)| format!("`{input}`")).collect();
            known.dedup();
            let known = if known.is_empty() { "none yet".to_owned() } else { known.join(", ") };
            anyhow::bail!("the pipeline has read nothing from an input `{name}`; its inputs are: {known}");
        }
        let of_log =
            format!("source = {} AND headers[{}] = {}", quote(STREAM), quote(INPUT_HEADER), quote(name));
        Ok(format!("(source IN ({}) OR {of_log})", streams.join(", ")))
    }
}

/// A letter names its table as the message does, which is without the database where no other table has the same name. A table that the file does not name
/// any more may have letters too.
fn of_table(tables: &[(String, String)], name: &str) -> String {
    let mut names = vec![name];
    let of_file = tables.iter().filter(|(full, bare)| full == name || bare == name);
    names.extend(of_file.flat_map(|(full, bare)| [full.as_str(), bare.as_str()]));
    names.sort_unstable();
    names.dedup();
    let names: Vec<String> = names.into_iter().map(clickhouse::types::quote).collect();
    format!("headers[{}] IN ({})", clickhouse::types::quote(TABLE_HEADER), names.join(", "))
}

/// Every topic or file that a lane has read, with its input.
fn inputs(lane: &Lane) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for partition in lane.partitions.iter().filter(|partition| partition.stream != STREAM) {
        let Some(input) = lane.inputs.get(partition.input as usize) else { continue };
        let named = (partition.stream.clone(), input.name.clone());
        if !all.contains(&named) {
            all.push(named);
        }
    }
    all.sort_by(|(_, a), (_, b)| a.cmp(b));
    all
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
    Ok(open_any(pipeline).await?.filter(|(_, lane)| lane.has_run()))
}

/// The same behind a reset or deletion too.
async fn open_any(pipeline: &Pipeline) -> anyhow::Result<Option<(Arc<dyn Store>, Lane)>> {
    let opened = wiring::storage::open_to_read(pipeline).await;
    let Some(store) = opened.context("the store cannot be opened")? else { return Ok(None) };
    let lane = engine::journal::load(&*store, &wiring::lane_folder(pipeline)).await;
    let lane = lane.context("the journal cannot be read")?;
    Ok(Some((store, lane)))
}

/// Where the lane stands in the replay log.
pub fn position_in_log(lane: &Lane) -> u64 {
    stands_at(lane).map_or(lane.before.replays_from, position::low)
}

/// Records of the replay log that were not read yet.
///
/// # Errors
/// When the log cannot be read.
pub async fn replays_waiting(store: &Arc<dyn Store>, folder: &str, lane: &Lane) -> anyhow::Result<u64> {
    let extent = Log::new(store.clone(), folder).extent().await.context("the replay log cannot be read")?;
    Ok(extent.map_or(0, |(_, end)| end.saturating_sub(position_in_log(lane))))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_named_with_or_without_its_database() {
        let tables = ["a", "b"].map(|name| (format!("shop.{name}"), name.to_owned()));
        let of = |name: &str| of_table(&tables, name);
        assert_eq!(of("a"), "headers['forebay.table'] IN ('a', 'shop.a')");
        assert_eq!(of("shop.a"), of("a"));
        assert_eq!(of("gone'"), "headers['forebay.table'] IN ('gone\\'')");
    }
}
