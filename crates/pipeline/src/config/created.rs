//! Tables that the file describes, for a start that creates them.
//!
//! Owns the way from the keys of a table to what `clickhouse` judges. Does not own the judgement (`clickhouse::checks`), nor how a table is opened (`wiring`).

use clickhouse::checks::{ColumnFault, declared};
use clickhouse::{CreateTable, TableConfig};
use dataflow::Schema;

use super::model::sink::{self, Create, Target};

/// The columns that rows of a table need which the file describes; `None` if it does not describe it.
///
/// # Errors
/// What is wrong with the description. Of a file that was checked there is nothing.
pub fn columns(target: &Target) -> Option<Result<Schema, Vec<ColumnFault>>> {
    Some(judged(target, &description(target)?))
}

/// Whether what is wrong with the description of a table is its key of partitions: without one nothing is.
pub fn is_of_partitions(target: &Target) -> bool {
    let without = description(target).map(|create| CreateTable { partition_by: String::new(), ..create });
    without.is_some_and(|create| judged(target, &create).is_ok())
}

/// What the file makes of the table; `None` if it makes none.
fn description(target: &Target) -> Option<CreateTable> {
    match &target.clickhouse.create {
        None | Some(Create::Workload(false)) => None,
        Some(Create::Workload(true)) => Some(workload_table()),
        Some(Create::Table(table)) => Some(described(table)),
    }
}

fn judged(target: &Target, create: &CreateTable) -> Result<Schema, Vec<ColumnFault>> {
    let sink = &target.clickhouse;
    let mut config = TableConfig::new(sink.database.as_str(), sink.table_name());
    config.named = target.columns.keys().map(ToString::to_string).collect();
    config.provenance = sink.provenance;
    config.unique_key = sink.unique_key.iter().map(ToString::to_string).collect();
    config.upsert = upsert(target);
    declared(&config, create)
}

/// The description of a table, in the words of ClickHouse.
pub fn described(table: &sink::CreateTable) -> CreateTable {
    CreateTable {
        columns: table.columns.0.iter().map(|(name, kind)| (name.to_string(), kind.clone())).collect(),
        order_by: table.order_by.as_slice().join(", "),
        partition_by: table.partition_by.clone().unwrap_or_default(),
    }
}

/// How rows of a table replace each other, if they do.
pub fn upsert(target: &Target) -> Option<clickhouse::Upsert> {
    target.upsert.as_ref().map(|upsert| clickhouse::Upsert {
        key: upsert.key.iter().map(ToString::to_string).collect(),
        version: upsert.version.as_ref().map(ToString::to_string),
        deleted: upsert.deleted.as_ref().map(ToString::to_string),
        sign: upsert.sign.as_ref().map(ToString::to_string),
    })
}

/// The table that the published experiment writes to; its fields have the names of the columns.
pub fn workload_table() -> CreateTable {
    let columns = [
        ("event_id", "UUID"),
        ("user_id", "UUID"),
        ("created_at", "DateTime('UTC')"),
        ("name", "String"),
        ("email", "String"),
    ];
    CreateTable {
        columns: columns.map(|(name, kind)| (name.to_owned(), kind.to_owned())).to_vec(),
        order_by: "event_id".into(),
        partition_by: String::new(),
    }
}
