//! Questions whose answer a person, or a command, acts upon.
//!
//! Owns the settings that such a question names: those of [`crate::settings::LOOK`] that do not differ from table to table, as far as the server
//! has them. A profile with `limit`, `final` or a filter would otherwise make rows appear missing. Does not own the questions
//! ([`crate::reconcile`], the commands for dead letters), nor those of a running pipeline ([`crate::checks::read`]).

use std::sync::{Arc, Mutex, PoisonError};

use dataflow::Runtime;
use serde::de::DeserializeOwned;

use crate::checks::read;
use crate::client::{Client, QueryError};
use crate::config::ServerConfig;

/// The server's code for what a request that only reads may not do.
const READONLY: i32 = 164;
const ONLY_TABLES: &str = "the question reads tables and may do nothing else, but a condition in it, or a view in the table's place, would change something, or \
     reach a file or another server";

/// Settings by name: those of every question, and those with the one that forbids all but reading tables.
#[derive(Debug)]
struct Named {
    all: Vec<(&'static str, String)>,
    read_only: Vec<(&'static str, String)>,
}

/// A client that names those settings in each question.
pub struct Reader {
    client: Client,
    /// Read before the first question; the commands that ask end long before a server has others.
    settings: Mutex<Option<Arc<Named>>>,
}

impl Reader {
    /// Asks the server of `config`; opens no connection yet.
    ///
    /// # Errors
    /// When the server's settings do not do.
    pub fn new(config: ServerConfig, runtime: Arc<dyn Runtime>) -> Result<Self, QueryError> {
        Ok(Client::new(config, runtime)?.into())
    }

    /// The client, for what is no question.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Asks `sql` and reads each row of the answer as a tuple `T`. `params` fill `{name:Type}`.
    ///
    /// # Errors
    /// When the server does not answer, or this user's profile forbids one of the settings.
    pub async fn rows<T: DeserializeOwned>(
        &self,
        sql: &str,
        params: &[(&str, &str)],
    ) -> Result<Vec<T>, QueryError> {
        self.client.rows_with(sql, &read::borrowed(&self.settings().await?.all), params).await
    }

    /// As [`Reader::rows`], for SQL of which others may have written a part: it can read tables, and do nothing else.
    ///
    /// # Errors
    /// As [`Reader::rows`], and when the SQL would change something, or reach a file or another server.
    pub async fn rows_of_tables<T: DeserializeOwned>(&self, sql: &str) -> Result<Vec<T>, QueryError> {
        let named = self.settings().await?;
        let rows = self.client.rows_with(sql, &read::borrowed(&named.read_only), &[]).await;
        rows.map_err(|error| match error.code {
            // The user is not at fault: it is asked for.
            READONLY if named.read_only.len() > named.all.len() => {
                QueryError { message: ONLY_TABLES.to_owned(), ..error }
            }
            _ => error,
        })
    }

    /// As [`Reader::rows`], for a question that always has exactly one row as its answer.
    ///
    /// # Errors
    /// As [`Reader::rows`], and when there is no row or more than one.
    pub async fn one<T: DeserializeOwned>(
        &self,
        sql: &str,
        params: &[(&str, &str)],
    ) -> Result<T, QueryError> {
        self.client.one(sql, &read::borrowed(&self.settings().await?.all), params).await
    }

    async fn settings(&self) -> Result<Arc<Named>, QueryError> {
        let known = || self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known().clone();
        if let Some(settings) = before {
            return Ok(settings);
        }
        let server = read::known(&self.client).await?;
        let all = server.ask();
        let read_only = all.iter().cloned().chain(server.read_only()).collect();
        let settings = Arc::new(Named { all, read_only });
        *known() = Some(settings.clone());
        Ok(settings)
    }
}

impl From<Client> for Reader {
    fn from(client: Client) -> Self {
        Self { client, settings: Mutex::default() }
    }
}
