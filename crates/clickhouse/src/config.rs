//! How a ClickHouse table is reached and written: plain values, made by whoever reads the pipeline file.
//!
//! Owns the fields with their units and defaults. Does not own their names in a file.

use std::time::Duration;

use crate::compress::Method;

/// Text that must not be seen: `Debug` and `Display` hide it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// A secret with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one header that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// `text` without the secret in it.
    pub fn scrub(&self, text: &str) -> String {
        if self.0.is_empty() { text.to_owned() } else { text.replace(&self.0, "***") }
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

impl std::fmt::Display for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// A server and who we are there.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// `http://host:port` or `https://host:port`, with a path if a proxy needs one; without user and password.
    pub url: String,
    /// The user; empty for the server's default.
    pub user: String,
    /// The password.
    pub password: Secret,
    /// Certificates (PEM) that are trusted instead of the system's.
    pub ca_pem: Option<Vec<u8>>,
    /// For a question about the table.
    pub query_timeout: Duration,
    /// For one insert, from the first byte to the answer; the server is told to stop a little earlier.
    pub insert_timeout: Duration,
}

impl ServerConfig {
    /// The server at `url`, with the defaults.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            user: String::new(),
            password: Secret::default(),
            ca_pem: None,
            query_timeout: Duration::from_secs(30),
            insert_timeout: Duration::from_secs(180),
        }
    }
}

/// A table and how it is written.
#[derive(Clone, Debug)]
pub struct TableConfig {
    /// The database.
    pub database: String,
    /// The table.
    pub table: String,
    /// The columns to write, in order; `None` takes every column that can be written.
    pub columns: Option<Vec<String>>,
    /// The columns that the pipeline fills by name: EPHEMERAL ones are sent only then, and a DEFAULT is not left to the server.
    pub named: Vec<String>,
    /// Columns that were added to the table after it was written: if they have neither NULL nor a DEFAULT, a record without them
    /// gets the type's own zero value, as the rows before have.
    pub added: Vec<String>,
    /// Whether a column of a type that cannot be written is left out, with a note, rather than a fault.
    pub leaves_out: bool,
    /// How frames are compressed.
    pub compression: Method,
    /// Whether rows are sorted by the table's sorting key before they are sent.
    pub sort: bool,
    /// True if the table must have the provenance column; one that is made gets it then. It is used wherever it is.
    pub provenance: bool,
    /// Columns whose values together name a row: the probe uses them if the table has no provenance column.
    pub unique_key: Vec<String>,
    /// Inserts that may be under way at the same time; at least 1. The table must remember the tokens of four times as many
    /// (`tokens::trust::tokens_min`).
    pub inserts_in_flight: u64,
    /// The longest that one insert may take: [`ServerConfig::insert_timeout`]. A table that forgets tokens by age must remember
    /// them for more than twice as long.
    pub insert_time_max: Duration,
    /// What comes on top of it before an insert without an answer is repeated: the polls of the server before it and after it.
    pub resend_margin: Duration,
    /// Rows of a frame at the most; at least 1.
    pub frame_rows_max: usize,
    /// Bytes of a frame before compression at the most, judged by the mean row; at least 1.
    pub frame_bytes_max: usize,
    /// What to create if the table is not there.
    pub create: Option<CreateTable>,
    /// The way out if it is not there and nothing is to be created, in the words of whoever wrote this.
    pub if_missing: &'static str,
    /// Whether an operator must decide about rows that are there when a pipeline without a journal starts.
    pub asks_if_filled: bool,
    /// Whether a row replaces the one before with the same key.
    pub upsert: Option<Upsert>,
    /// What tells the rows apart if they are results of a window; `None` if they are none, or it is not known.
    pub results: Option<Results>,
}

/// What tells the results of a window apart in a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Results {
    /// A sorting key with a column of each list tells them apart. No list is empty.
    pub columns: Vec<Vec<String>>,
    /// Columns that are computed behind the window: a sorting key with one of them may tell the results apart.
    pub computed: Vec<String>,
    /// Whether results of a window replace each other or take each other back.
    pub replaces: bool,
    /// Whether windows share records.
    pub overlaps: bool,
}

impl TableConfig {
    /// That table, with the defaults.
    pub fn new(database: impl Into<String>, table: impl Into<String>) -> Self {
        Self {
            database: database.into(),
            table: table.into(),
            columns: None,
            named: Vec::new(),
            added: Vec::new(),
            leaves_out: false,
            compression: Method::Lz4,
            sort: false,
            provenance: false,
            unique_key: Vec::new(),
            inserts_in_flight: 2,
            insert_time_max: Duration::from_secs(180),
            resend_margin: Duration::from_secs(10),
            // Half a million rows cost the server a third of what five thousand cost it, a row.
            frame_rows_max: 500_000,
            frame_bytes_max: 64 << 20,
            create: None,
            if_missing: "create it",
            asks_if_filled: false,
            upsert: None,
            results: None,
        }
    }

    /// True if the pipeline fills that column by name.
    pub fn is_named(&self, column: &str) -> bool {
        self.named.iter().any(|named| named == column)
    }

    /// `database.table`, for messages.
    pub fn name(&self) -> String {
        format!("{}.{}", self.database, self.table)
    }

    /// The same, quoted for a statement.
    pub fn quoted(&self) -> String {
        format!("{}.{}", crate::types::identifier(&self.database), crate::types::identifier(&self.table))
    }
}

/// How rows replace each other: in a ReplacingMergeTree, or with a sign in a CollapsingMergeTree, whose sorting key is the key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Upsert {
    /// The columns of the key; at least one.
    pub key: Vec<String>,
    /// The column of the version, which the rows have: of a key's rows that with the greatest one stays. `None` for
    /// [`VERSION`](crate::upsert::VERSION), which gets versions in the order in which rows are sealed.
    pub version: Option<String>,
    /// The column that says that a key is deleted, if there is one. With a sign it need not be one of the table.
    pub deleted: Option<String>,
    /// The column of the sign, in a CollapsingMergeTree: rows come with those that they replace.
    pub sign: Option<String>,
}

/// A table to be made.
#[derive(Clone, Debug, Default)]
pub struct CreateTable {
    /// Name and type of each column, as ClickHouse writes types, with `DEFAULT …` after the type where wanted.
    pub columns: Vec<(String, String)>,
    /// The sorting key as an expression; empty for none.
    pub order_by: String,
    /// The partition key as an expression; empty for none.
    pub partition_by: String,
}
