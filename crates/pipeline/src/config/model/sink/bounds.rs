//! `batch:`, `spool:` and `dead_letters:`: how rows are cut into inserts, what waits for them, and where rejects go.
//!
//! Owns the keys and their defaults. Does not own rules that span several of them (`config::rules`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::values::{Period, Share, Size, TableName};

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
    /// The table, on the sink's server. Default: the name of the sink's table with `_rejected` appended; with `sinks`, the pipeline's name,
    /// with `_` for `-`, and `_rejected`.
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

fn default_true() -> bool {
    true
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
