//! `sink:` and `sinks:`: the tables that rows end in.
//!
//! Owns the keys of a server and a table. Does not own which table takes which rows ([`targets`]), nor how rows are cut into inserts and what waits for
//! them ([`bounds`]).

mod bounds;
mod targets;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::values::{Field, HttpUrl, Identifier, OneOrMany, Pairs, Period, Secret, Size};
pub use bounds::{Batching, DeadLetters, Spool};
pub use targets::{SideOutput, Takes, Target};

/// The table that rows go to, and how they are cut into inserts. With `sinks` it is what they share: the server and the bounds of a batch.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sink {
    /// A table in ClickHouse.
    pub clickhouse: ClickHouse,

    /// When a batch is sealed: at whichever of the bounds comes first.
    #[serde(default)]
    pub batch: Batching,

    /// How many inserts may be in flight at the same time. With two, the server is busy while an answer is on its way. Tables whose engine depends on the order of inserts get one.
    #[serde(default = "default_in_flight")]
    #[schemars(
        range(min = 1, max = 64),
        extend("x-why" = "each holds its frame in memory, and may be in doubt after a crash")
    )]
    pub in_flight: u32,

    /// Rows replace each other by key: the table is a ReplacingMergeTree, and keeps the newest row of each key; or, with a `sign`, a CollapsingMergeTree. With
    /// `sinks`, each entry has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upsert: Option<Upsert>,
}

/// Rows with the same key replace each other. The table's engine is a ReplacingMergeTree, or with `sign` a CollapsingMergeTree, whose sorting key is the key, which
/// `create` makes, and `check --connect` checks. Of the rows of one batch only the newest of each key is sent.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Upsert {
    /// The columns of the table that make the key: those of its sorting key.
    #[schemars(
        length(min = 1, max = 16),
        extend("uniqueItems" = true, "x-why" = "a key of more columns is the whole row")
    )]
    pub key: Vec<Identifier>,

    /// The table's column that holds a row's version, filled by the records: of a key's rows that with the greatest version is the newest,
    /// and of equal versions the one that was read last. If it is left out, Forebay makes the versions, into a column `_version UInt64`: the row
    /// that was read last is the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Identifier>,

    /// The table's column that says that a key is deleted, of type UInt8, filled by the records with true or false, or 1 or 0. `SELECT … FINAL` does not
    /// show the keys whose newest row has it. With `sign` the table need not have the column: the last row of the key is taken back, and none comes in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<Identifier>,

    /// The Int8 column of a CollapsingMergeTree. Forebay keeps the last row of each key; a row that replaces it is written with 1, behind the one that was there with -1. For a
    /// pipeline with one table, and without a window, whose `emit` has a `sign` of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sign: Option<Identifier>,

    /// With `sign`: memory for the last rows, `256MiB` if left out. When it is full, those that came first are spilled to files in the store, at a few bytes of memory each. Taken from
    /// the pipeline's `memory`, at most a quarter of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "x-least" = "1MiB", "x-most" = "24GiB",
        "x-why" = "each spill writes files, which would be too small with less; more than a billion rows cannot be numbered"
    ))]
    pub memory: Option<Size>,
}

/// A table in ClickHouse, over its HTTP interface.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClickHouse {
    /// The server's HTTP interface.
    pub url: HttpUrl,

    /// The database.
    #[serde(default = "default_name")]
    pub database: Identifier,

    /// The table. With `sinks`, each entry names its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<Identifier>,

    /// The user.
    #[serde(default = "default_name")]
    pub user: Identifier,

    /// The user's password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,

    /// Allows the password to be sent unencrypted (`http://`) to another machine; anyone on the network can read it.
    #[serde(default)]
    pub allow_plaintext_password: bool,

    /// PEM file of the certificate authorities to trust. Default: the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,

    /// How long a request may take. An insert that takes longer is in doubt, and sent again with the same token.
    #[serde(default = "default_timeout")]
    #[schemars(extend(
        "x-least" = "1s", "x-most" = "30m",
        "x-why" = "shorter gives up on healthy servers, longer hides dead ones"
    ))]
    pub timeout: Period,

    /// How the bodies of inserts are compressed.
    #[serde(default)]
    pub compression: Compression,

    /// Sorts each batch by the table's sorting key before it is sent: less work for the server, more for Forebay.
    #[serde(default)]
    pub sort: bool,

    /// Whether the table must have a column `_forebay UUID`, which holds the id of the insert that a row came with; a table that Forebay creates
    /// then gets it. With it, the rows of an insert whose answer was lost can always be found. Without it, and without
    /// `unique_key`, Forebay stops in rare cases (the server dies in the middle of an insert) and asks. If the table has the
    /// column, it is filled in any case.
    #[serde(default)]
    pub provenance: bool,

    /// Columns whose values together never repeat in the table. By them the rows of an insert in doubt can be found even in a table
    /// without the column `_forebay`, except in tables whose merges combine or drop rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("uniqueItems" = true, "x-why" = "a key of more columns is the whole row")
    )]
    pub unique_key: Vec<Identifier>,

    /// What a first start does if the table already has rows. A pipeline without a journal reads its source from the start, so rows that were
    /// delivered from it before, with a store that is lost or under another name, would be in the table twice.
    #[serde(default)]
    pub existing_rows: ExistingRows,

    /// Creates the table if it does not exist: `true` for the table that the generator's workload comes with, or the
    /// table's description. Without it a missing table is an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create: Option<Create>,
}

impl ClickHouse {
    /// The table's name; empty in what several tables share.
    pub fn table_name(&self) -> &str {
        self.table.as_ref().map_or("", Identifier::as_str)
    }

    /// `database.table`.
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.database, self.table_name())
    }
}

/// One of several tables. A row goes to each table that takes it: by `where`, by `otherwise`, or because it has neither. A row that none
/// takes is filtered, and does not count as seen by `dedup`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TableSink {
    /// The table.
    pub clickhouse: OneTable,

    /// Columns that are filled by a field or column of another name, like the top-level `columns`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub columns: BTreeMap<Identifier, Field>,

    /// Takes the rows of a side output in place of rows behind the last step, for the window or join with `as: NAME`: `NAME.late` are the late records of a
    /// window, `NAME.left_unmatched` and `NAME.right_unmatched` the rows of one side of a join that no row of the other matched. They have the columns that
    /// came to the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,

    /// A SQL expression over the columns of the last step: the table takes the rows for which it is true. NULL counts as false. A record for
    /// which it cannot be computed becomes a dead letter.
    #[serde(default, rename = "where", skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,

    /// One table for each value of a column: `{column}` in `table` is replaced by the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<ByValue>,

    /// Takes the rows for which the `where` of no other table is true.
    #[serde(default, skip_serializing_if = "is_false")]
    pub otherwise: bool,

    /// As `sink.upsert`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upsert: Option<Upsert>,
}

/// One table for each value of a column. A row with another value, or with NULL, goes to none of them; with `where` it goes to the table of
/// its value if that is true as well.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ByValue {
    /// The column, of type String, as the last step gives it.
    pub column: Identifier,

    /// The values; each becomes part of a table's name.
    #[schemars(
        length(min = 1, max = 32),
        extend("uniqueItems" = true, "x-why" = "there is a table for each, and a pipeline has at most 32")
    )]
    pub values: Vec<Identifier>,
}

impl ByValue {
    /// What stands for the value in a table's name.
    pub fn placeholder(&self) -> String {
        format!("{{{}}}", self.column)
    }

    /// The SQL condition of one value.
    fn condition(&self, value: &Identifier) -> String {
        let column = self.column.as_str().replace('"', "\"\"");
        format!("\"{column}\" = '{}'", value.as_str().replace('\'', "''"))
    }
}

/// What is a table's own. Everything else is set under `sink.clickhouse`, for all tables.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OneTable {
    /// The database; that of `sink.clickhouse` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<Identifier>,

    /// The table.
    pub table: Identifier,

    /// As `sink.clickhouse.unique_key`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("uniqueItems" = true, "x-why" = "a key of more columns is the whole row")
    )]
    pub unique_key: Vec<Identifier>,

    /// Creates the table if it does not exist. Without it a missing table is an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create: Option<CreateTable>,
}

/// Whether and how to create the table.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum Create {
    /// `true`: the table of the generator's workload. `false`: as if left out.
    Workload(bool),
    /// The table's description.
    Table(CreateTable),
}

/// The description of a table to create: a MergeTree that remembers inserts.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateTable {
    /// Column to type, in the order of the table; types as ClickHouse writes them.
    #[schemars(extend("minProperties" = 1, "maxProperties" = 1000, "x-why" = "as many as ClickHouse handles well"))]
    pub columns: Pairs,

    /// The sorting key: columns or expressions.
    pub order_by: OneOrMany<String>,

    /// The partition key, an expression of columns. An insert touches one partition, so few partitions are best.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_by: Option<String>,
}

/// What a first start makes of rows that are in the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExistingRows {
    /// It ends with code 4 and asks, unless the source is read from its end.
    #[default]
    Ask,
    /// They are kept, and the source's rows are added.
    Keep,
}

/// How the bodies of inserts are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// LZ4: little work for either side.
    #[default]
    Lz4,
    /// No compression: for a server on the same machine.
    None,
}

fn default_name() -> Identifier {
    "default".parse().expect("the default is a name")
}

fn default_timeout() -> Period {
    Period::seconds(180)
}

fn is_false(value: &bool) -> bool {
    !value
}

fn default_in_flight() -> u32 {
    2
}
