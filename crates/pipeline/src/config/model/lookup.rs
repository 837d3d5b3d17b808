//! `lookup:` of `steps:`: columns of a row elsewhere that has the same key.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::source::Format;
use crate::config::values::{Identifier, Pairs, Period, Size};

/// Gives each row the columns of the row of a file or of a ClickHouse table that has the same key: a lookup join. The other side is held in memory, and read again after
/// `refresh`. While it cannot be read, records wait: none goes on with a NULL because of that.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["file"]}, {"required": ["clickhouse"]}], "x-later" = ["postgres"]))]
pub struct LookupStep {
    /// A file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<LookupFile>,

    /// A table, view or dictionary on the server of the sink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clickhouse: Option<LookupClickHouse>,

    /// The types of the other side's columns, as ClickHouse writes types: of those of the key, and of those that rows get.
    #[schemars(extend("minProperties" = 1, "maxProperties" = 1000, "x-why" = "as many as a table has columns"))]
    pub fields: Pairs,

    /// The columns whose values must be equal: a name that both have, or `own_name = other_name`. A row with a NULL in one of them has no match. The other side may have one
    /// row of a key.
    #[schemars(length(min = 1, max = 16), extend("x-why" = "a key of more columns is the whole row"))]
    pub on: Vec<String>,

    /// The columns that rows get: name to column of the other side.
    #[schemars(extend("minProperties" = 1, "maxProperties" = 1000, "x-why" = "as many as a table has columns"))]
    pub columns: Pairs,

    /// What becomes of rows without a match.
    #[serde(default)]
    pub kind: LookupKind,

    /// How old the other side may be when a record is read. It is read again then, a file only if it has changed.
    #[serde(default = "default_refresh")]
    #[schemars(extend("x-least" = "1s", "x-most" = "30d", "x-why" = "all of the other side is read each time"))]
    pub refresh: Period,

    /// Memory for the other side. If it is larger, records wait, and the reason is shown. Taken from the pipeline's `memory`, at most a quarter of it.
    #[serde(default = "default_memory")]
    #[schemars(extend("x-least" = "1MiB", "x-most" = "24GiB", "x-why" = "with less there is hardly a row"))]
    pub memory: Size,
}

/// A file with the rows of the other side.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LookupFile {
    /// The file. Replace it by renaming another one to its name: a file that is being written is read in part.
    pub path: String,

    /// How a row is written: JSON, one object a line, or CSV.
    #[serde(default)]
    pub format: Format,
}

/// A table of the sink's server.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["table"]}, {"required": ["dictionary"]}]))]
pub struct LookupClickHouse {
    /// The database. Default: the sink's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<Identifier>,

    /// The table or view. A table whose rows replace each other needs a view with `FINAL`, so that a key has one row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<Identifier>,

    /// The dictionary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dictionary: Option<Identifier>,
}

/// What becomes of rows without a match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LookupKind {
    /// They are dropped, and counted as filtered.
    #[default]
    Inner,
    /// They go on, with NULL in the columns of the other side.
    Left,
}

impl LookupStep {
    /// The columns of the key, of the rows and of the other side.
    pub fn pairs(&self) -> Vec<(String, String)> {
        super::join::pairs(&self.on)
    }
}

fn default_refresh() -> Period {
    Period { ms: 60_000 }
}

fn default_memory() -> Size {
    Size::mib(64)
}
