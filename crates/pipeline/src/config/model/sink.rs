//! `sink:`, `spool:` and `dead_letters:`: the table that rows end in, and what waits for it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::values::{HttpUrl, Identifier, OneOrMany, Pairs, Period, Secret, Share, Size, TableName};

/// The table that rows go to, and how they are cut into inserts.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sink {
    /// A table in ClickHouse.
    pub clickhouse: ClickHouse,

    /// When a batch is sealed: at whichever of the bounds comes first.
    #[serde(default)]
    pub batch: Batching,

    /// Inserts in flight at the same time. Two keep the server busy while an answer is on its way. Tables whose engine depends on the order of inserts get one.
    #[serde(default = "default_in_flight")]
    #[schemars(
        range(min = 1, max = 64),
        extend("x-why" = "each holds its frame in memory, and may be in doubt after a crash")
    )]
    pub in_flight: u32,
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

    /// The table.
    pub table: Identifier,

    /// The user.
    #[serde(default = "default_name")]
    pub user: Identifier,

    /// The user's password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,

    /// Allows the password to be sent unencrypted (`http://`) to another machine; anyone on the network can read it.
    #[serde(default)]
    pub allow_plaintext_password: bool,

    /// PEM file of the authorities to trust; the system's if left out.
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

    /// Whether the table must have a column `_forebay UUID` that names the insert a row came with; a table that is created
    /// gets it then. With it the rows of an insert whose answer was lost can be found, whatever else happens; without it, and without
    /// `unique_key`, Forebay stops in rare cases (the server dies in the middle of an insert) and asks. A table that has the
    /// column has it filled in any case.
    #[serde(default)]
    pub provenance: bool,

    /// Columns that together never repeat in the table. With them the rows of an insert in doubt can be found even in a table
    /// without the column `_forebay`; not in tables whose merges join rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("uniqueItems" = true, "x-why" = "a key of more columns is the whole row")
    )]
    pub unique_key: Vec<Identifier>,

    /// What a first start does about rows that are in the table already. A pipeline without a journal reads its source from the start, so
    /// rows that came from there before, with a store that is lost or under another name, would be there twice.
    #[serde(default)]
    pub existing_rows: ExistingRows,

    /// Creates the table if it does not exist: `true` for the table that the generator's workload comes with, or the
    /// table's description. Without it a missing table is an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create: Option<Create>,
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
    /// It ends with code 4 and asks, if the source is read from a place before its end.
    #[default]
    Ask,
    /// They are kept, and the source's rows are added.
    Keep,
}

/// How the bodies of inserts are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// By LZ4: little work for either side.
    #[default]
    Lz4,
    /// Not at all: for a server on the same machine with time to spare.
    None,
}

/// When a batch is sealed.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Batching {
    /// Rows.
    #[serde(default = "default_rows")]
    #[schemars(
        range(min = 1, max = 10_000_000),
        extend("x-why" = "a batch is one block in the server's memory")
    )]
    pub rows: u64,

    /// Bytes of decoded columns.
    #[serde(default = "default_bytes")]
    #[schemars(extend(
        "x-least" = "4KiB", "x-most" = "1GiB",
        "x-why" = "a batch and its frame are held in memory whole"
    ))]
    pub bytes: Size,

    /// Time since the batch's first row. It limits how late a row becomes visible when few records arrive.
    #[serde(default = "default_age")]
    #[schemars(extend(
        "x-least" = "10ms", "x-most" = "10m",
        "x-why" = "ClickHouse refuses too many small inserts, and what is not sealed is read again after a crash"
    ))]
    pub age: Period,
}

impl Default for Batching {
    fn default() -> Self {
        Self { rows: default_rows(), bytes: default_bytes(), age: default_age() }
    }
}

/// How much may wait in the store.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Spool {
    /// Bytes of sealed frames that are not in the table yet.
    #[serde(default = "default_spool_bytes")]
    #[schemars(extend(
        "x-least" = "16MiB", "x-most" = "64TiB",
        "x-why" = "less than a few batches would stop the source at every slow insert"
    ))]
    pub bytes: Size,

    /// Age of the oldest sealed frame that is not in the table yet.
    #[serde(default = "default_spool_age")]
    #[schemars(extend(
        "x-least" = "10s", "x-most" = "30d",
        "x-why" = "a shorter time than a server's restart would pause reading for nothing"
    ))]
    pub age: Period,
}

impl Default for Spool {
    fn default() -> Self {
        Self { bytes: default_spool_bytes(), age: default_spool_age() }
    }
}

/// The table for records that could not go on.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeadLetters {
    /// The table, on the sink's server; the sink's table with `_rejected` after its name if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<TableName>,

    /// Creates the table if it does not exist.
    #[serde(default = "default_true")]
    pub create: bool,

    /// The largest share of dead letters among the records read in one run that still counts as a success: a percentage or a
    /// fraction of 1. A run that ends with more ends with exit code 5; nothing is lost or undone by that, and it is not stopped
    /// earlier. If it is left out, only a run in which every record became a dead letter ends so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fail_above: Option<Share>,
}

impl Default for DeadLetters {
    fn default() -> Self {
        Self { table: None, create: true, fail_above: None }
    }
}

impl DeadLetters {
    /// Database and table of the dead letters of `sink`.
    pub fn place(&self, sink: &ClickHouse) -> (String, String) {
        let database = sink.database.as_str();
        match &self.table {
            Some(name) => {
                let (database, table) = name.split(database);
                (database.to_owned(), table.to_owned())
            }
            None => (database.to_owned(), format!("{}_rejected", sink.table)),
        }
    }
}

fn default_name() -> Identifier {
    "default".parse().expect("the default is a name")
}

fn default_timeout() -> Period {
    Period::seconds(180)
}

fn default_true() -> bool {
    true
}

fn default_in_flight() -> u32 {
    2
}

fn default_rows() -> u64 {
    500_000
}

fn default_bytes() -> Size {
    Size::mib(64)
}

fn default_age() -> Period {
    Period::seconds(1)
}

fn default_spool_bytes() -> Size {
    Size::mib(4 << 10)
}

fn default_spool_age() -> Period {
    Period::seconds(24 * 3600)
}
