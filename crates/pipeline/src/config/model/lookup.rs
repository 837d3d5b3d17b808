//! `lookup:` of `steps:`: columns of a row elsewhere that has the same key.
//!
//! Owns the settings with their defaults and bounds, and which columns rows get. Does not own the rules that span several settings
//! (`config::rules::lookups`), the reading of the other side (`crate::lookups`) or the match (`operators::lookup`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::source::Format;
use crate::config::values::{Identifier, Pairs, Period, PostgresUrl, Secret, Size, TableName};

/// Gives each row the columns of the row of a file, or of a table in ClickHouse or PostgreSQL, that has the same key: a lookup join. The other side is held in memory, and read again after
/// `refresh`; or it is asked for the keys that records need (`cache: partial`). While it cannot be read, records wait: none goes on with a NULL because of that.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["file"]}, {"required": ["clickhouse"]}, {"required": ["postgres"]}]))]
pub struct LookupStep {
    /// A file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<LookupFile>,

    /// A table, view or dictionary on the server of the sink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clickhouse: Option<LookupClickHouse>,

    /// A table, view or query of a PostgreSQL server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub postgres: Option<LookupPostgres>,

    /// The types of the other side's columns, as ClickHouse writes types: of those of the key, and of those that rows get.
    #[schemars(extend("minProperties" = 1, "maxProperties" = 1000, "x-why" = "as many as a table has columns"))]
    pub fields: Pairs,

    /// The columns whose values must be equal: a name that both have, or `own_name = other_name`. A row with a NULL in one of them has no match. The other side may have one
    /// row of a key.
    #[schemars(length(min = 1, max = 16), extend("x-why" = "a key of more columns is the whole row"))]
    pub on: Vec<String>,

    /// The columns that rows get: name to column of the other side. Default: those of `fields` that are not in the key, under their own names.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    #[schemars(extend("minProperties" = 1, "maxProperties" = 1000, "x-why" = "as many as a table has columns"))]
    pub columns: Pairs,

    /// What becomes of rows without a match.
    #[serde(default)]
    pub kind: LookupKind,

    /// What of the other side is in memory: all of it, or the rows of the keys that were looked up last, for tables that do not fit.
    #[serde(default, skip_serializing_if = "LookupCache::is_default")]
    pub cache: LookupCache,

    /// How old the other side may be when a record is read. It is read again then, a file only if it has changed. With `cache: partial`, how long the row of a key is used, and
    /// for how long it is remembered that a key has none.
    #[serde(default = "default_refresh")]
    #[schemars(extend("x-least" = "1s", "x-most" = "30d", "x-why" = "all of the other side is read each time"))]
    pub refresh: Period,

    /// Memory for the other side. If it is larger, records wait, and the reason is shown. With `cache: partial` it bounds the rows that are remembered, and those that were used
    /// longest ago are forgotten first. Taken from the pipeline's `memory`, at most a quarter of it.
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

/// A table, view or query of a PostgreSQL server.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["table"]}, {"required": ["query"]}]))]
pub struct LookupPostgres {
    /// The server and the database.
    pub url: PostgresUrl,

    /// The user, who needs no more than to read.
    pub user: String,

    /// The user's password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,

    /// The table or view, as `table` or `schema.table`. Without the schema it is, as in SQL, in the first one of the user's `search_path` that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<TableName>,

    /// A `SELECT` with the columns of `fields`: to cast types that are not read as they are, to join tables, or to leave rows out. It runs in a transaction that cannot write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,

    /// Encryption, and what of the server's certificate is checked.
    #[serde(default)]
    pub sslmode: SslMode,

    /// PEM file of the certificate authorities to trust (`sslrootcert`). Default: the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,

    /// PEM file of the client's certificate (`sslcert`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert: Option<String>,

    /// PEM file of the client's private key (`sslkey`), without a password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,

    /// Allows the password to be sent unencrypted (`sslmode: disable`) to another machine; anyone on the network can read it.
    #[serde(default)]
    pub allow_plaintext_password: bool,

    /// How long a read may take, from the connection to the last row. The server ends a statement that takes longer.
    #[serde(default = "default_timeout")]
    #[schemars(extend("x-least" = "1s", "x-most" = "30m", "x-why" = "shorter gives up on healthy servers, longer hides dead ones"))]
    pub timeout: Period,
}

/// Encryption of a connection to PostgreSQL, in libpq's words. Its modes that check nothing (`require`, `prefer`, `allow`) are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SslMode {
    /// Encrypted; an authority that is trusted has signed the certificate, and it contains the server's host name.
    #[default]
    VerifyFull,
    /// The same without the host name, for servers whose certificates contain other names.
    VerifyCa,
    /// Not encrypted.
    Disable,
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

/// What of the other side of a lookup is in memory, in the words of Flink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LookupCache {
    /// All rows.
    #[default]
    Full,
    /// The rows of keys that records had. The other side is asked for others when a record needs them. A file is read as a whole.
    Partial,
}

impl LookupCache {
    /// Whether it is what a file without the word has.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl LookupStep {
    /// The columns of the key, of the rows and of the other side.
    pub fn pairs(&self) -> Vec<(String, String)> {
        super::join::pairs(&self.on)
    }

    /// The columns that rows get: their names, and the columns of the other side.
    pub fn gives(&self) -> Vec<(String, String)> {
        let names = |(name, from): &(Identifier, String)| (name.to_string(), from.clone());
        if !self.columns.is_empty() {
            return self.columns.0.iter().map(names).collect();
        }
        let keys = self.pairs();
        let others = self.fields.0.iter().map(|(name, _)| name.to_string());
        let others = others.filter(|name| !keys.iter().any(|(_, theirs)| theirs == name));
        others.map(|name| (name.clone(), name)).collect()
    }
}

fn default_refresh() -> Period {
    Period { ms: 60_000 }
}

fn default_timeout() -> Period {
    Period::seconds(180)
}

fn default_memory() -> Size {
    Size::mib(64)
}
