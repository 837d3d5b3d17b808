//! The table of records that could not go on.
//!
//! Owns its declaration. Does not own its columns ([`dataflow::reject::schema`]) or the delivery: rejects are sealed and
//! inserted like every other row.

use std::sync::Arc;

use dataflow::{Runtime, reject};

use crate::checks::Fault;
use crate::config::{CreateTable, ServerConfig, TableConfig};
use crate::table::ClickHouseTable;
use crate::types;

/// What a dead-letter table is made of.
pub fn declaration() -> CreateTable {
    let schema = reject::schema();
    let columns = schema.columns().iter().map(|c| (c.name.clone(), types::name(&c.column_type))).collect();
    CreateTable { columns, order_by: "pipeline, time".into(), partition_by: String::new() }
}

/// Opens the dead-letter table `database.table`, and makes it if it is not there. One that is there may have more columns,
/// and is refused if it lacks any.
pub async fn open(
    server: ServerConfig,
    database: &str,
    table: &str,
    runtime: Arc<dyn Runtime>,
) -> Result<ClickHouseTable, Vec<Fault>> {
    ClickHouseTable::open(server, config(database, table), runtime).await
}

/// How the dead-letter table is written: its columns by name, whatever else the table has.
pub fn config(database: &str, table: &str) -> TableConfig {
    let schema = reject::schema();
    let columns = schema.columns().iter().map(|c| c.name.clone()).collect();
    TableConfig {
        columns: Some(columns),
        create: Some(declaration()),
        // The table is our own: a dead letter in doubt must never need an operator.
        provenance: true,
        ..TableConfig::new(database, table)
    }
}

#[cfg(test)]
mod tests;
