//! Tables of a case, and what they hold.
//!
//! Owns the statements. Does not own what the rows must be (each test). Asks the server directly, never through the proxy that a pipeline
//! may have to pass.

use std::time::Duration;

use serde_json::Value;
use testkit::{HttpClient, wait_until};

/// What a table holds, as the workload's own query tells it.
pub use workloads::glassflow::oracle::Content;

/// Rows are visible within the age of a batch and an insert; nothing but a hang takes as long as this.
pub const VISIBLE_WITHIN: Duration = crate::PATIENCE;

/// A table in the database `default`.
#[derive(Debug, Clone)]
pub struct Table {
    url: String,
    name: String,
}

impl Table {
    /// Makes a table that can be written exactly once: it remembers tokens and names each row's frame.
    ///
    /// # Panics
    /// When the server refuses.
    pub fn create(url: &str, name: &str, columns: &str, order_by: &str) -> Table {
        let table = Table { url: url.to_owned(), name: name.to_owned() };
        table.ask(&format!(
            "CREATE TABLE `{name}` ({columns}, _forebay UUID) ENGINE = MergeTree ORDER BY {order_by} \
             SETTINGS non_replicated_deduplication_window = 10000"
        ));
        table
    }

    /// A table that is there, or will be.
    pub fn at(url: &str, name: &str) -> Table {
        Table { url: url.to_owned(), name: name.to_owned() }
    }

    /// The dead letters of the pipeline that writes to this table.
    pub fn dead_letters(&self) -> Table {
        Table { name: format!("{}_rejected", self.name), ..self.clone() }
    }

    /// Its name, for SQL.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs a statement; `{t}` stands for the table.
    ///
    /// # Panics
    /// When the server refuses.
    pub fn ask(&self, sql: &str) -> String {
        self.try_ask(sql).unwrap_or_else(|error| panic!("{error}"))
    }

    /// As [`Table::ask`], for servers that may be away.
    ///
    /// # Errors
    /// The server's words, or that there were none.
    pub fn try_ask(&self, sql: &str) -> Result<String, String> {
        let sql = sql.replace("{t}", &format!("`{}`", self.name));
        let answer = HttpClient::new(&self.url).post("/?wait_end_of_query=1", sql.as_bytes());
        let answer = answer.map_err(|error| format!("`{sql}`: {error}"))?;
        if answer.status == 200 {
            Ok(answer.text())
        } else {
            Err(format!("`{sql}`: {}", answer.text().trim()))
        }
    }

    /// Rows of a `SELECT`, as objects.
    ///
    /// # Panics
    /// When the server refuses.
    pub fn rows(&self, sql: &str) -> Vec<Value> {
        self.rows_with(sql, true)
    }

    /// As [`Table::rows`], with numbers of 64 bits as numbers.
    ///
    /// # Panics
    /// As [`Table::rows`].
    pub fn rows_plain(&self, sql: &str) -> Vec<Value> {
        self.rows_with(sql, false)
    }

    fn rows_with(&self, sql: &str, quoted: bool) -> Vec<Value> {
        let quoted = u8::from(quoted);
        let text = self.ask(&format!(
            "{sql} FORMAT JSONEachRow SETTINGS output_format_json_quote_64bit_integers = {quoted}"
        ));
        text.lines().map(|line| serde_json::from_str(line).expect("a row is JSON")).collect()
    }

    /// The single value of a `SELECT`, as text.
    ///
    /// # Panics
    /// When the server refuses.
    pub fn value(&self, sql: &str) -> String {
        self.ask(sql).trim_end().to_owned()
    }

    /// One column, in its own order, as texts.
    pub fn column(&self, expression: &str) -> Vec<String> {
        let text = self.ask(&format!("SELECT {expression} FROM {{t}} ORDER BY {expression}"));
        text.lines().map(str::to_owned).collect()
    }

    /// Rows.
    ///
    /// # Panics
    /// When the server refuses.
    pub fn count(&self) -> u64 {
        self.value("SELECT count() FROM {t}").parse().expect("a count is a number")
    }

    /// Rows; `None` while the server is away.
    pub fn try_count(&self) -> Option<u64> {
        self.try_ask("SELECT count() FROM {t}").ok()?.trim().parse().ok()
    }

    /// Rows, and distinct values of an expression.
    ///
    /// # Panics
    /// When the server refuses.
    pub fn count_and_distinct(&self, expression: &str) -> (u64, u64) {
        let text = self.value(&format!("SELECT count(), uniqExact({expression}) FROM {{t}}"));
        let (rows, distinct) = text.split_once('\t').expect("two numbers");
        (rows.parse().expect("a count"), distinct.parse().expect("a count"))
    }

    /// Waits until there are at least so many rows.
    #[track_caller]
    pub fn wait_for(&self, rows: u64) {
        self.wait_for_within(rows, VISIBLE_WITHIN);
    }

    /// As [`Table::wait_for`], with a limit.
    #[track_caller]
    pub fn wait_for_within(&self, rows: u64, limit: Duration) {
        let what = format!("{rows} rows in `{}`", self.name);
        wait_until(limit, &what, || self.try_count().is_some_and(|found| found >= rows));
    }

    /// What it holds of the events workload.
    ///
    /// # Panics
    /// When the server refuses.
    pub fn content(&self) -> Content {
        let text = self.value(&workloads::glassflow::oracle::sql(&format!("`{}`", self.name)));
        let numbers: Vec<u64> = text.split('\t').map(|n| n.parse().expect("a number")).collect();
        let [rows, ids, checksum] = numbers[..] else { panic!("three numbers, not `{text}`") };
        Content { rows, ids, checksum }
    }
}
