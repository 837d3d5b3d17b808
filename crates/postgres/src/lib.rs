//! Rows of a PostgreSQL server, read for lookups: all of a table or of a query, or those of some keys, as JSON lines, within a bound of memory.
//!
//! Owns the connection (its encryption too), the question, which of PostgreSQL's types are read and as what, and the sentence for what fails. Does not own the values' meaning,
//! which is that of JSON ([`Side::read`]), when rows are read, nor whom an encrypted connection trusts ([`Trust`]).
//!
//! | module    | what it owns                                                          |
//! |-----------|-----------------------------------------------------------------------|
//! | `keyed`   | the rows of some keys, over connections that are kept                  |
//! | `connect` | a session: TCP, TLS, login; polled beside what is asked                |
//! | `wire`    | the bound of a message, checked before memory is taken for it          |
//! | `types`   | PostgreSQL's types against those of our columns, and the question      |
//! | `fault`   | what went wrong, with the way out                                      |
//!
//! All of a read is one statement in a transaction that cannot write, so the rows are those of one moment.

mod connect;
mod fault;
mod keyed;
mod types;
mod wire;

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use dataflow::{Runtime, Schema};
use futures::TryStreamExt;
use tokio_postgres::Client;

pub use connect::Trust;
use connect::{Error, Session};
pub use fault::Fault;
pub use keyed::Keyed;

/// A server, and who asks it.
#[derive(Clone)]
pub struct Server {
    /// Its name or address; certificates must hold it.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The database.
    pub database: String,
    /// The user.
    pub user: String,
    /// The password, if there is one. Never shown.
    pub password: Option<String>,
    /// Whom an encrypted connection trusts; `None` for one that is not encrypted.
    pub tls: Option<Trust>,
    /// How long a read may take, from the connection to the last row.
    pub timeout: Duration,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, database, user, .. } = self;
        write!(f, "{user}@{host}:{port}/{database}")
    }
}

/// Which rows are read: those of a table, or of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rows {
    /// A table or view.
    Table {
        /// Its schema; without one it is searched for as in SQL.
        schema: Option<String>,
        /// Its name.
        table: String,
    },
    /// The rows of a query.
    Query(String),
}

/// Columns of a table or of a query.
#[derive(Clone, Debug)]
pub struct Side {
    /// The server.
    pub server: Server,
    /// What is read of it.
    pub rows: Rows,
    /// The columns: each has its own name there, and the type that its values are for.
    pub columns: Schema,
}

impl Side {
    /// All rows, each as a JSON object and a line break, of at most `bytes_max` bytes together. Values are exact: a number of any size, a time with its zone or in UTC, `json` as text.
    ///
    /// # Errors
    /// When the server cannot be asked, does not answer in time, refuses, or has a column of a type that does not serve; or when the rows take more memory.
    pub async fn read(&self, runtime: &Arc<dyn Runtime>, bytes_max: usize) -> Result<Vec<u8>, Fault> {
        let timeout = self.server.timeout;
        let asked = async {
            let (client, mut session) = Session::open(&self.server, runtime, bytes_max).await?;
            let rows = session.beside(self.read_by(&client, bytes_max)).await?;
            session.close(client, runtime).await;
            Ok(rows)
        };
        match runtime.timeout(timeout, asked).await {
            Some(read) => read.map_err(|error| self.explain(error)),
            None => Err(self.too_slow()),
        }
    }

    async fn read_by(&self, client: &Client, bytes_max: usize) -> Result<Vec<u8>, Error> {
        client.batch_execute(&begin(self.server.timeout)).await?;
        let described = client.prepare(&types::columns(&self.rows, &self.columns)).await?;
        let found: Vec<_> =
            described.columns().iter().map(|column| (column.name(), column.type_())).collect();
        let question = types::question(&self.rows, &self.columns, &found, None).map_err(Error::Types)?;
        let mut text = Vec::new();
        let mut rows = pin!(client.query_raw::<_, &str, _>(&question, []).await?);
        while let Some(row) = rows.try_next().await? {
            keyed::push(&mut text, &row, bytes_max)?;
        }
        client.batch_execute("COMMIT").await?;
        Ok(text)
    }
}

/// Begins a transaction that only reads, with the settings by which values have their exact forms.
fn begin(timeout: Duration) -> String {
    let seconds = timeout.as_secs().max(1);
    format!(
        "BEGIN READ ONLY; SET LOCAL statement_timeout = '{seconds}s'; SET LOCAL TimeZone = 'UTC'; SET LOCAL DateStyle = 'ISO, YMD'; SET LOCAL extra_float_digits = 3"
    )
}
