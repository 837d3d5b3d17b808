//! The ClickHouse table: rows to Native blocks, blocks to inserts, answers to decisions.
//!
//! Owns everything that is ClickHouse's: type names, the block format, HTTP, error codes, table settings. Does not own when a frame may be
//! sent (`protocol`), nor retries and back-off (`engine`), nor the pipeline file (`pipeline::config`).
//!
//! | module           | what it owns                                                | does I/O |
//! |------------------|-------------------------------------------------------------|----------|
//! | [`types`]        | type names to `ColumnType` and back                         | no       |
//! | [`native`]       | Arrow rows to one Native block and back                     | no       |
//! | `convert`        | values of a column in another type, without losing any      | no       |
//! | [`json`]         | one row as JSON text                                        | no       |
//! | [`compress`]     | the framing of compressed chunks                            | no       |
//! | [`partition`]    | rows to groups of one table partition                       | no       |
//! | [`sort`]         | rows into the order of the sorting key                      | no       |
//! | [`upsert`]       | rows that later ones of their key replace                   | no       |
//! | [`response`]     | answers to effects and remedies                             | no       |
//! | `refused`        | the row that a refusal names                                | no       |
//! | [`settings`]     | the settings that requests name, and who forbids them       | no       |
//! | [`config`]       | plain values: server, table, secrets                        | no       |
//! | [`checks`]       | a table's facts to a plan or all its faults                 | reads    |
//! | [`client`]       | HTTP: questions and inserts                                 | yes      |
//! | [`reader`]       | questions of commands, with settings named                  | yes      |
//! | [`table`]        | [`ClickHouseTable`], the crate's [`dataflow::Table`]        | yes      |
//! | [`dead_letters`] | the table of records that could not go on                   | yes      |
//! | [`reconcile`]    | what a table holds, by key                                  | yes      |

pub mod checks;
pub mod client;
pub mod compress;
pub mod config;
mod convert;
pub mod dead_letters;
pub mod json;
pub mod native;
pub mod partition;
pub mod reader;
pub mod reconcile;
mod refused;
pub mod response;
pub mod settings;
pub mod sort;
pub mod table;
pub mod types;
pub mod upsert;

pub use checks::Fault;
pub use config::{CreateTable, Results, Secret, ServerConfig, TableConfig, Upsert};
pub use table::ClickHouseTable;

#[cfg(test)]
mod testing;

#[cfg(test)]
#[global_allocator]
static MEMORY: testkit::CountingAllocator = testkit::CountingAllocator;
