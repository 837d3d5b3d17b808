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

/// Settings by name.
type Named = Arc<Vec<(&'static str, String)>>;

/// A client that names those settings in each question.
pub struct Reader {
    client: Client,
    /// Read before the first question; the commands that ask end long before a server has others.
    settings: Mutex<Option<Named>>,
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
        self.client.rows_with(sql, &read::borrowed(&self.settings().await?), params).await
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
        self.client.one(sql, &read::borrowed(&self.settings().await?), params).await
    }

    async fn settings(&self) -> Result<Named, QueryError> {
        let known = || self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known().clone();
        if let Some(settings) = before {
            return Ok(settings);
        }
        let settings = Arc::new(read::known(&self.client).await?.ask());
        *known() = Some(settings.clone());
        Ok(settings)
    }
}

impl From<Client> for Reader {
    fn from(client: Client) -> Self {
        Self { client, settings: Mutex::default() }
    }
}
