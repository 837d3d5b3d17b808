//! The table of dead letters, read for a comparison.
//!
//! Owns the two questions: how often each letter is there, page by page, and the raw rows that the server refused. Does not own the condition that names a
//! pipeline's letters (its caller), nor which letters are expected (`admin::verify`).

use std::time::Duration;

use crate::client::QueryError;
use crate::config::{ServerConfig, TableConfig};
use crate::reader::Reader;
use crate::types::quote;

/// A row among the dead letters.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
pub struct Letter {
    /// Topic, file or publisher group; empty for refused rows that do not know it.
    pub source: String,
    /// Number inside of it.
    pub partition: u32,
    /// Which of the streams that had its name it is of; 0 for the first.
    pub nth: u32,
    /// Position.
    pub position: u64,
    /// Of a row of an item of the record's array the item's number and one; otherwise 0.
    pub item: u64,
    /// The rule that was broken.
    pub reason: String,
    /// How often it is there.
    pub copies: u64,
}

/// [`Letter::item`] as an expression ([`dataflow::block::ITEM_HEADER`]).
const ITEM: &str =
    "if(mapContains(headers, 'forebay.item'), toUInt64OrZero(headers['forebay.item']) + 1, toUInt64(0))";

/// [`Letter::nth`] as an expression ([`dataflow::block::STREAM_HEADER`]).
const NTH: &str = "toUInt32OrZero(headers['forebay.stream'])";

/// The dead letters of a pipeline, for those who compare.
pub struct Letters {
    reader: Reader,
    table: String,
}

impl Letters {
    /// The table of `config`; nothing is asked yet. A replica that is behind is waited for so long with the first question that meets one.
    ///
    /// # Errors
    /// When the server's settings do not do.
    pub fn new(
        server: ServerConfig,
        (config, wait): (&TableConfig, Duration),
        runtime: std::sync::Arc<dyn dataflow::Runtime>,
    ) -> Result<Self, QueryError> {
        Ok(Self { reader: Reader::new(server, runtime)?.about(config, wait), table: config.quoted() })
    }

    /// How far a replica was behind whose answers were taken all the same; `None` if there was none.
    pub fn lag(&self) -> Option<String> {
        self.reader.lag()
    }

    /// Up to `limit` of the letters behind `after`, in order. `of` is the condition that names the pipeline's letters; the table is read
    /// by its sorting key's first column.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn page(
        &self,
        of: &str,
        after: Option<&Letter>,
        limit: usize,
    ) -> Result<Vec<Letter>, QueryError> {
        let behind = match after {
            None => String::new(),
            Some(l) => format!(
                " AND (toString(source), partition, {NTH}, position, {ITEM}, toString(reason)) > ({}, {}, {}, {}, {}, {})",
                quote(&l.source),
                l.partition,
                l.nth,
                l.position,
                l.item,
                quote(&l.reason)
            ),
        };
        let sql = format!(
            "SELECT toString(source) AS s, partition, {NTH} AS n, position, {ITEM} AS i, toString(reason) AS r, count() FROM {} WHERE {of}{behind} \
             GROUP BY s, partition, n, position, i, r ORDER BY s, partition, n, position, i, r LIMIT {limit}",
            self.table
        );
        self.reader.rows_shown(&sql).await
    }

    /// The raw rows, as JSON, of letters that the server refused; `limit` at the most, `skip` left out. `of` as for a page.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn refused(&self, of: &str, skip: usize, limit: usize) -> Result<Vec<String>, QueryError> {
        let sql = format!(
            "SELECT raw FROM {} WHERE {of} AND reason = 'refused' ORDER BY time, raw LIMIT {skip}, {limit}",
            self.table
        );
        let rows: Vec<(String,)> = self.reader.rows_shown(&sql).await?;
        Ok(rows.into_iter().map(|(raw,)| raw).collect())
    }
}
