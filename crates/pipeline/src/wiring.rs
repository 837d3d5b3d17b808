//! From the settings of a pipeline file to the parts of a running pipeline.
//!
//! Owns the single place where a name in a pipeline file becomes a constructor, and the order in which parts are made. Does
//! not own what the parts do, nor the file's own rules (`config`). Nothing here claims a lane: that is the engine's first act.
//!
//! ```text
//! source connects, tables open ─▶ plan ─▶ decoder ─▶ steps ─▶ store ─▶ replays
//! ```
//! The tables are opened side by side; a fault of one for rows is reported before one of the dead letters. No table is created for steps that do not
//! fit it.
//!
//! | module     | from                    | to                                           |
//! |------------|-------------------------|----------------------------------------------|
//! | [`source`] | `source:`, each of `inputs:` | [`dataflow::Source`], [`dataflow::Decoder`]  |
//! | [`steps`]  | `steps:`                | [`dataflow::Intake`], [`dataflow::Operator`]s |
//! | [`sink`]   | `sink:`, `sinks:`, `dead_letters:` | [`clickhouse::ClickHouseTable`]s  |
//! | [`lookups`] | `lookup:` of `steps:`   | [`crate::lookups::Lookups`]                  |
//! | `texts`    | SQL in steps            | what the planner binds                       |
//! | [`storage`]| `store:`, `object_storage:` | [`store::Store`]                     |
//! | `noted`    | a source of files       | one that shows when its store was rolled back |
//! | [`replayed`] | one of the inputs     | the one that carries the replay log          |
//! | [`listening`] | `listen:`            | a [`gateway::Server`](::gateway::Server) before the lane |
//! | [`gateway`] | the gateway's file     | [`gateway::Options`](::gateway::Options)     |
//! | [`bounds`] | sizes and times         | [`engine::Settings`]                         |

pub mod bounds;
pub mod gateway;
pub mod listening;
pub mod lookups;
mod noted;
pub mod replayed;
pub mod sink;
pub mod source;
pub mod steps;
pub mod storage;
mod texts;

use std::collections::BTreeMap;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;

use clickhouse::TableConfig;
use dataflow::{Column, Runtime, Schema, Source, Table};
use engine::Status;
use engine::change::NewState;
use futures::future::{Either, select, try_join_all};

use crate::config::model::sink::Target;
use crate::config::model::{self as config, Pipeline};
use crate::replays::aside::Aside;
use noted::{Note, Noted};
use steps::{Chain, InputChain};

/// Why a pipeline cannot be put together.
#[derive(Debug, thiserror::Error)]
pub enum WiringError {
    /// The settings do not fit the table or each other; the file must change.
    #[error("{0}")]
    Settings(String),
    /// The steps do not fit the records, the table or each other; the file must change.
    #[error("{}", one_a_line(.0))]
    Steps(Vec<crate::plan::Fault>),
    /// The table cannot be written exactly once; the operator must change it.
    #[error("table `{table}` cannot be used:{}", listed(faults))]
    Table {
        /// The table.
        table: String,
        /// All reasons, each with the statement that fixes it.
        faults: Vec<String>,
    },
    /// An address cannot be listened at.
    #[error("{0}")]
    Listen(String),
    /// The store cannot be opened.
    #[error("store: {0}")]
    Store(#[from] store::StoreError),
}

fn listed(faults: &[String]) -> String {
    faults.iter().map(|fault| format!("\n  - {fault}")).collect()
}

fn one_a_line(faults: &[crate::plan::Fault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// What a pipeline reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// Its source, and replayed dead letters beside it.
    All,
    /// Replayed dead letters alone; the source is left alone.
    Replays,
}

/// What an earlier run of this process has learned of the tables' columns.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// By table, the columns that were added after it was first written: a record need not give them.
    pub added: BTreeMap<String, Vec<String>>,
    /// Whether the tables were opened before: then a new column that cannot be written is left out, and is no reason to end.
    pub is_open_again: bool,
    /// Steps that are to begin with empty state.
    pub new_state: NewState,
    /// How what is sent to this process comes into the lane.
    pub ways: listening::Ways,
}

/// Opens the tables and makes all parts. Waits while ClickHouse is away.
///
/// # Errors
/// When the table or the settings do not do; nothing was claimed or written by then but tables that the file says to create.
pub async fn assemble(
    pipeline: &Pipeline,
    runtime: Arc<dyn Runtime>,
    status: Arc<Status>,
    drain: bool,
    reads: Reads,
    known: &Known,
) -> Result<engine::Pipeline, WiringError> {
    // What needs no server first, so that a fault there shows at once.
    let inputs = pipeline.inputs();
    let claims = Arc::default();
    let source = |input: &config::Input<'_>| {
        let source = match (known.ways.source(input.name), reads) {
            (Some(sent), _) => Arc::new(sent) as Arc<dyn Source>,
            (None, Reads::All) if input.source.listen.is_some() => {
                let message = format!("nobody listens for input `{}`; report this", input.name);
                return Err(WiringError::Settings(message));
            }
            (None, _) => source::source_beside(pipeline, input, &runtime, &claims, drain)?,
        };
        Ok(match reads {
            Reads::All => source,
            Reads::Replays => Arc::new(Aside::new(source)) as Arc<dyn Source>,
        })
    };
    let sources = inputs.iter().map(source).collect::<Result<Vec<Arc<dyn Source>>, WiringError>>()?;
    let mut targets = sink::targets(pipeline)?;
    for target in &mut targets {
        target.added = known.added.get(&target.name()).cloned().unwrap_or_default();
        target.leaves_out = known.is_open_again;
    }
    // What takes time goes on side by side.
    sources.iter().for_each(|source| source.connect());
    fits_what_it_creates(pipeline, &targets, &runtime, &status).await?;
    let letters = sink::open(sink::dead_letters(pipeline), pipeline, &runtime, &status);
    let targets = targets.into_iter().map(|target| sink::open(target, pipeline, &runtime, &status));
    let (tables, letters) = both(try_join_all(targets), letters).await?;
    for table in &tables {
        table.notes().iter().for_each(|note| tracing::warn!(table = table.name(), "{note}"));
    }
    let schemas: Vec<Schema> = tables.iter().map(|table| table.schema().clone()).collect();
    let chain = steps::chain(pipeline, &schemas, runtime.compute_threads());
    let Chain { inputs: chains, steps, flow, router, sides } = chain.map_err(|error| match error {
        WiringError::Steps(mut faults) => {
            faults.extend(sink::unlike_described(pipeline, &schemas));
            WiringError::Steps(faults)
        }
        other => other,
    })?;
    let settings = bounds::settings(pipeline, tables.iter().any(|table| table.order_dependent()));
    let dead_letters = letters?;
    let store = storage::open(pipeline, &*runtime, &status).await?;
    let carrier = replayed::carrier(pipeline, &store).await;
    let others = replayed::Others::of(&chains);
    let mut named = Vec::with_capacity(inputs.len());
    for ((input, source), InputChain { name, intake, decoding }) in inputs.iter().zip(sources).zip(chains) {
        let source = match reads {
            Reads::All => noted(source, pipeline, input, &*store, true).await,
            Reads::Replays => source,
        };
        let (source, intake) = match carrier.as_deref() == Some(input.name) {
            true => (replayed::beside(source, pipeline, &store, &runtime), others.within(input.name, intake)),
            false => (source, intake),
        };
        named.push(engine::Input { name, source: decoding.ready(source, &runtime), intake });
    }
    Ok(engine::Pipeline {
        name: pipeline.pipeline.to_string(),
        lane: LANE,
        owner: owner(),
        inputs: named,
        steps,
        flow,
        parts: crate::parts::of(pipeline),
        new_state: known.new_state.clone(),
        tables: tables.into_iter().map(|table| Arc::new(table) as Arc<dyn Table>).collect(),
        router,
        sides,
        dead_letters: Arc::new(dead_letters),
        store,
        runtime,
        settings,
        status,
        drain,
    })
}

/// Binds the steps to the tables that the file describes and that are not there, before one is created: behind that, the column's type in the file
/// would change nothing any more.
async fn fits_what_it_creates(
    pipeline: &Pipeline,
    targets: &[TableConfig],
    runtime: &Arc<dyn Runtime>,
    status: &Status,
) -> Result<(), WiringError> {
    let of_targets = pipeline.targets();
    let described: Vec<Option<Schema>> = of_targets.iter().map(sink::described).collect();
    if described.iter().all(Option::is_none) {
        return Ok(());
    }
    let all: Option<Vec<Schema>> = described.iter().cloned().collect();
    let fits = |schemas: &[Schema]| steps::plan(pipeline, schemas).map(drop).map_err(WiringError::Steps);
    if all.is_some_and(|all| fits(&all).is_ok()) {
        return Ok(());
    }
    // What is there counts, whatever the file says of it.
    let (mut schemas, mut creates) = (Vec::with_capacity(targets.len()), false);
    for (target, described) in targets.iter().zip(described) {
        let there = TableConfig { create: None, ..target.clone() };
        match (sink::open(there, pipeline, runtime, status).await, described) {
            (Ok(table), _) => schemas.push(table.schema().clone()),
            (Err(_), Some(described)) => {
                creates = true;
                schemas.push(described);
            }
            // The table is opened again, and its faults are reported.
            (Err(_), None) => return Ok(()),
        }
    }
    if creates { fits(&schemas) } else { Ok(()) }
}

/// The certificates that the setting `key` names.
fn pem(path: &Path, key: &str) -> Result<Vec<u8>, WiringError> {
    // A system's whole bundle of authorities is a quarter of this.
    const BYTES_MAX: u64 = 1 << 20;
    let shown = path.display();
    let fault = |why: String| WiringError::Settings(format!("`{key}`: `{shown}` {why}"));
    let length = std::fs::metadata(path).map_err(|error| fault(format!("cannot be read: {error}")))?.len();
    if length > BYTES_MAX {
        return Err(fault(format!("has {length} bytes, more than certificates have ({BYTES_MAX})")));
    }
    std::fs::read(path).map_err(|error| fault(format!("cannot be read: {error}")))
}

/// Opens the targets and the dead letters side by side. A target that cannot be used is reported at once, whatever the others wait for.
async fn both<T, L, E>(
    target: impl Future<Output = Result<T, E>>,
    letters: impl Future<Output = Result<L, E>>,
) -> Result<(T, Result<L, E>), E> {
    match select(pin!(target), pin!(letters)).await {
        Either::Left((target, letters)) => Ok((target?, letters.await)),
        Either::Right((letters, target)) => Ok((target.await?, letters)),
    }
}

/// The source of an input and the replay log beside it, for those who only look. Nothing is connected yet, nothing is created.
///
/// # Errors
/// When the settings make no source, or the store cannot be read.
pub async fn source_to_look_at(
    pipeline: &Pipeline,
    input: &config::Input<'_>,
    runtime: &Arc<dyn Runtime>,
) -> Result<Arc<dyn Source>, WiringError> {
    let source = source::source(pipeline, input, runtime)?;
    let store = storage::open_to_read(pipeline).await?;
    Ok(match store {
        None => source,
        Some(store) => {
            let source = noted(source, pipeline, input, &*store, false).await;
            match replayed::carrier(pipeline, &store).await.as_deref() == Some(input.name) {
                true => replayed::beside(source, pipeline, &store, runtime),
                false => source,
            }
        }
    })
}

/// A source of files with the note of how far they were read; others keep that themselves, or make their records anew.
async fn noted(
    source: Arc<dyn Source>,
    pipeline: &Pipeline,
    input: &config::Input<'_>,
    store: &dyn store::Store,
    is_reading: bool,
) -> Arc<dyn Source> {
    let is_of_files = input.source.file.as_ref().is_some_and(|files| {
        // Standard input is never read twice.
        files.paths.as_slice().iter().all(|path| path != "-")
    });
    match Note::of(store, &lane_folder(pipeline), input.name).filter(|_| is_of_files) {
        Some(note) => Arc::new(Noted::new(source, note, store, is_reading).await),
        None => source,
    }
}

/// The number of the lane that a program runs. A pipeline has one so far; whoever needs its folder asks [`lane_folder`].
pub const LANE: u32 = 0;

/// The folder of the pipeline's lane.
pub fn lane_folder(pipeline: &Pipeline) -> String {
    protocol::names::lane_folder(pipeline.pipeline.as_str(), LANE)
}

/// The table's columns, filled by the fields that its `columns:` names.
///
/// # Errors
/// When `columns:` names a column that the table does not have.
pub fn with_fields(schema: &Schema, target: &Target) -> Result<Schema, WiringError> {
    let known: Vec<&str> = schema.columns().iter().map(|column| column.name.as_str()).collect();
    if let Some(unknown) = target.columns.keys().find(|name| schema.index_of(name.as_str()).is_none()) {
        let near = crate::config::nearest::nearest(unknown.as_str(), &known);
        let near = near.map_or(String::new(), |near| format!(", did you mean `{near}`?"));
        return Err(WiringError::Settings(format!(
            "`{}`: the table has no column `{unknown}`{near}",
            target.columns_path
        )));
    }
    let field = |column: &Column| {
        let named = target.columns.iter().find(|(name, _)| name.as_str() == column.name);
        named.map_or_else(|| column.field.clone(), |(_, field)| field.as_str().to_owned())
    };
    let columns = schema.columns().iter().map(|column| Column { field: field(column), ..column.clone() });
    Ok(Schema::new(columns.collect()))
}

/// Host and process, for operators who read the journal's claims.
pub fn owner() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    format!("{}/{}", if host.is_empty() { "unknown-host" } else { host }, std::process::id())
}

#[cfg(test)]
mod tests;
