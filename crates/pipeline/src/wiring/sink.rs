//! `sink:`, `sinks:` and `dead_letters:` to ClickHouse tables.
//!
//! Owns the settings that a table is opened with, the wait for a server that is away, and the condition for a pipeline's own dead letters.
//! Does not own what a table must be (`clickhouse::checks`), nor which rows go there (`plan`).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clickhouse::client::Client;
use clickhouse::compress::Method;
use clickhouse::types::{self, quote};
use clickhouse::{
    ClickHouseTable, Fault, Results, Secret, ServerConfig, TableConfig, dead_letters as letters,
};
use dataflow::{Effect, Remedy, Runtime, Schema, TableFault};
use engine::Status;
use engine::problem::Noticed;
use protocol::Lane;

use super::{WiringError, bounds};
use crate::config::created;
use crate::config::model::sink::{ClickHouse, Compression, Create, ExistingRows, Target};
use crate::config::model::source::LogStart;
use crate::config::model::{Input, Pipeline};
use crate::config::values::Start;
use crate::config::windows::identity;
use crate::plan;

/// The longest pause between two attempts to reach a server that is away.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// A question about the table is small; one that takes longer than this has no answer.
const QUERY_TIMEOUT_MAX: Duration = Duration::from_secs(30);

/// Opens a table; waits while the server is away.
///
/// # Errors
/// When an operator must change the table, the server or the file.
pub async fn open(
    config: TableConfig,
    pipeline: &Pipeline,
    runtime: &Arc<dyn Runtime>,
    status: &Status,
) -> Result<ClickHouseTable, WiringError> {
    let server = server(&pipeline.sink.clickhouse)?;
    let name = config.name();
    let mut pause = Duration::from_millis(200);
    loop {
        let opened = ClickHouseTable::open(server.clone(), config.clone(), runtime.clone()).await;
        let faults = match opened {
            Ok(table) => {
                status.ended(&name, Noticed::Asking);
                return Ok(table);
            }
            Err(faults) => faults,
        };
        if faults.iter().any(|fault| fault.remedy != Remedy::Resend) {
            return Err(refused(&config, &faults));
        }
        if let Some(fault) = faults.first() {
            let why = fault.to_string();
            status.unanswered(&name, fault.kind, &why, Effect::None, runtime.wall_ms());
            let what = match fault.kind {
                TableFault::Connection | TableFault::Timeout | TableFault::Broken => {
                    "ClickHouse does not answer"
                }
                _ => "ClickHouse cannot serve the table now",
            };
            tracing::warn!(table = name, "{what}, trying again: {why}");
        }
        runtime.sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Opens a table that is there, without creating or waiting; `None` if it cannot be opened now.
///
/// # Errors
/// When the settings of the server cannot be used.
pub async fn open_once(
    config: TableConfig,
    pipeline: &Pipeline,
    runtime: &Arc<dyn Runtime>,
) -> Result<Option<ClickHouseTable>, WiringError> {
    let config = TableConfig { create: None, ..config };
    let server = server(&pipeline.sink.clickhouse)?;
    Ok(ClickHouseTable::open(server, config, runtime.clone()).await.ok())
}

/// Every fault of the tables, without creating or changing anything.
///
/// # Errors
/// When the settings of the server cannot be used.
pub async fn faults(
    pipeline: &Pipeline,
    runtime: &Arc<dyn Runtime>,
) -> Result<Vec<(String, Vec<Fault>)>, WiringError> {
    let server = server(&pipeline.sink.clickhouse)?;
    let mut all = Vec::new();
    for config in targets(pipeline)?.into_iter().chain([dead_letters(pipeline)]) {
        let faults = ClickHouseTable::check(server.clone(), &config, runtime.clone()).await;
        all.push((config.name(), faults));
    }
    Ok(all)
}

/// A client of the server, for questions about its tables.
///
/// # Errors
/// When the settings of the server cannot be used.
pub fn client(pipeline: &Pipeline, runtime: &Arc<dyn Runtime>) -> Result<Client, WiringError> {
    let client = Client::new(server(&pipeline.sink.clickhouse)?, runtime.clone());
    client.map_err(|error| WiringError::Settings(format!("`sink.clickhouse`: {error}")))
}

/// The tables that rows go to, in the order of the file.
///
/// # Errors
/// When the table of a workload is asked for and there is no workload.
pub fn targets(pipeline: &Pipeline) -> Result<Vec<TableConfig>, WiringError> {
    pipeline.targets().iter().map(|target| self::target(pipeline, target)).collect()
}

/// One of the tables that rows go to.
///
/// # Errors
/// As [`targets`].
pub fn target(pipeline: &Pipeline, target: &Target) -> Result<TableConfig, WiringError> {
    let sink = &target.clickhouse;
    let mut config = TableConfig::new(sink.database.as_str(), sink.table_name());
    config.named = target.columns.keys().map(ToString::to_string).collect();
    config.compression = compression(sink.compression);
    config.sort = sink.sort;
    config.provenance = sink.provenance;
    config.if_missing = match pipeline.sinks.is_empty() {
        true => {
            "create it, or describe it in the pipeline file and the next start creates it: \
             `sink.clickhouse.create: { columns: { name: type }, order_by: name }`"
        }
        false => {
            "create it, or describe it in the pipeline file and the next start creates it: give its entry of `sinks` a \
             `clickhouse.create: { columns: { name: type }, order_by: name }`"
        }
    };
    config.inserts_in_flight = u64::from(pipeline.sink.in_flight);
    remember_long_enough(&mut config, pipeline);
    config.unique_key = sink.unique_key.iter().map(ToString::to_string).collect();
    config.frame_rows_max = usize::try_from(pipeline.sink.batch.rows).unwrap_or(usize::MAX);
    config.frame_bytes_max = usize::try_from(bounds::batch_bytes(pipeline)).unwrap_or(usize::MAX);
    config.asks_if_filled = sink.existing_rows == ExistingRows::Ask && reads_what_was_there(pipeline);
    config.upsert = created::upsert(target);
    config.results = identity::in_table(pipeline, target).map(|of| Results {
        columns: of.columns,
        computed: of.computed,
        replaces: of.replaces,
        overlaps: of.overlaps,
    });
    config.create = match &sink.create {
        None | Some(Create::Workload(false)) => None,
        Some(Create::Workload(true)) if is_made_up(pipeline) => Some(created::workload_table()),
        Some(Create::Workload(true)) => {
            return Err(WiringError::Settings("`sink.clickhouse.create: true` needs a generator".into()));
        }
        Some(Create::Table(table)) => Some(created::described(table)),
    };
    Ok(config)
}

/// The columns of all tables, if the file describes each of them.
pub fn all_described(pipeline: &Pipeline) -> Option<Vec<Schema>> {
    pipeline.targets().iter().map(described).collect()
}

/// The columns of a table that the file describes and that is not there yet.
pub fn described(target: &Target) -> Option<Schema> {
    created::columns(target).map(|columns| columns.expect("the rules have judged the description"))
}

/// Columns that have another type in a table than `create` says of it: for the fault of steps that fit one of them.
pub fn unlike_described(pipeline: &Pipeline, schemas: &[Schema]) -> Vec<plan::Fault> {
    let mut faults = Vec::new();
    for (target, schema) in pipeline.targets().iter().zip(schemas) {
        let described = described(target);
        for column in described.iter().flat_map(Schema::columns) {
            let Some(at) = schema.index_of(&column.name) else { continue };
            let found = &schema.columns()[at].column_type;
            if *found == column.column_type {
                continue;
            }
            let (path, table, name) = (&target.path, target.clickhouse.table_name(), &column.name);
            let (found, said) = (types::name(found), types::name(&column.column_type));
            faults.push(plan::Fault {
                path: format!("{path}.clickhouse.create.columns.{name}"),
                at: None,
                message: format!(
                    "table `{table}` exists, and its column `{name}` is of type {found}, not {said}: `create` is for a table that does not \
                     exist, and changes none"
                ),
            });
        }
    }
    faults
}

/// Whether a first start reads records that were in the source before. A generator makes new ones.
fn reads_what_was_there(pipeline: &Pipeline) -> bool {
    pipeline.inputs().iter().any(is_read_from_before)
}

/// Whether a first start reads what was in this input before.
pub fn is_read_from_before(input: &Input<'_>) -> bool {
    let (kafka, pulsar) = (input.source.kafka.as_ref(), input.source.pulsar.as_ref());
    input.source.file.is_some()
        || kafka.is_some_and(|kafka| kafka.start != Start::Latest)
        || pulsar.is_some_and(|pulsar| pulsar.start != Start::Latest)
        || input.source.log.as_ref().is_some_and(|log| log.start != LogStart::Latest)
}

/// Whether an input is a generator.
fn is_made_up(pipeline: &Pipeline) -> bool {
    pipeline.inputs().iter().any(|input| input.source.generator.is_some())
}

/// The table of dead letters.
pub fn dead_letters(pipeline: &Pipeline) -> TableConfig {
    let sink = &pipeline.sink.clickhouse;
    let (database, table) = pipeline.letters_place();
    let mut config = letters::config(&database, &table);
    config.compression = compression(sink.compression);
    config.inserts_in_flight = u64::from(pipeline.sink.in_flight);
    remember_long_enough(&mut config, pipeline);
    if !pipeline.dead_letters.create {
        config.create = None;
        config.if_missing = "create it, or let the next start do so with `dead_letters: { create: true }`";
    }
    config
}

/// The condition that names a pipeline's letters in the table, those from under its former names among them. What is newer under a
/// former name is another pipeline's, and so is what is older than a pipeline that has taken the name of another.
pub fn letters_of(pipeline: &str, lane: &Lane) -> String {
    let moment = |ms: i64| format!("fromUnixTimestamp64Milli(toInt64({ms}), 'UTC')");
    let named = |name: &str, from_ms: i64, until_ms: Option<i64>| {
        let mut of = format!("pipeline = {}", quote(name));
        if from_ms > 0 {
            of.push_str(&format!(" AND time > {}", moment(from_ms)));
        }
        if let Some(until_ms) = until_ms {
            of.push_str(&format!(" AND time <= {}", moment(until_ms)));
        }
        of
    };
    let now = named(pipeline, lane.before.letters_from_ms, None);
    let former = lane.former_names.iter();
    let former = former.map(|former| named(&former.name, former.from_ms, Some(former.until_ms)));
    match std::iter::once(now).chain(former).collect::<Vec<_>>() {
        one if one.len() == 1 => one.concat(),
        all => format!("({})", all.join(" OR ")),
    }
}

/// For how long a token must be trusted: as the engine's bounds have it.
fn remember_long_enough(config: &mut TableConfig, pipeline: &Pipeline) {
    let bounds = bounds::settings(pipeline, false);
    config.insert_time_max = bounds.insert_time_max;
    config.resend_margin = bounds.token_needed().saturating_sub(bounds.insert_time_max);
}

/// The server of a sink, for questions that may take up to `query_time_max`.
///
/// # Errors
/// When its settings cannot be used.
pub fn server_for(sink: &ClickHouse, query_time_max: Duration) -> Result<ServerConfig, WiringError> {
    Ok(ServerConfig { query_timeout: query_time_max, ..server(sink)? })
}

/// The server of a sink.
///
/// # Errors
/// When its settings cannot be used.
pub(super) fn server(sink: &ClickHouse) -> Result<ServerConfig, WiringError> {
    let mut config = ServerConfig::new(sink.url.as_str());
    config.user = sink.user.to_string();
    config.password = Secret::new(sink.password.as_ref().map_or("", |password| password.reveal()));
    config.insert_timeout = sink.timeout.duration();
    config.query_timeout = sink.timeout.duration().min(QUERY_TIMEOUT_MAX);
    config.ca_pem =
        sink.ca.as_deref().map(|path| super::pem(Path::new(path), "sink.clickhouse.ca")).transpose()?;
    Ok(config)
}

fn compression(word: Compression) -> Method {
    match word {
        Compression::Lz4 => Method::Lz4,
        Compression::None => Method::None,
    }
}

fn refused(config: &TableConfig, faults: &[Fault]) -> WiringError {
    WiringError::Table { table: config.name(), faults: faults.iter().map(ToString::to_string).collect() }
}
