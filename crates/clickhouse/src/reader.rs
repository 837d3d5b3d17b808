//! Questions whose answer a person, or a command, acts upon.
//!
//! Owns the settings that such a question names: those of [`crate::settings::LOOK`] that do not differ from table to table, as far as the server
//! has them. A profile with `limit`, `final` or a filter would otherwise make rows appear missing. So would a replica that is behind: what a question
//! [about a table](Reader::about) finds comes with that replica's lag, in one statement, and one that lags is waited for. Does not own the questions
//! ([`crate::reconcile`], the commands for dead letters), nor those of a running pipeline ([`crate::checks::read`]).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dataflow::{Remedy, Runtime, TableFault};
use serde::de::DeserializeOwned;

use crate::checks::sight::{self, Replica};
use crate::checks::{Engine, Place, read};
use crate::client::{Client, QueryError};
use crate::config::{ServerConfig, TableConfig};

/// The server's code for what a request that only reads may not do.
const READONLY: i32 = 164;
const ONLY_TABLES: &str = "the question reads tables and may do nothing else, but a condition in it, or a view in the table's place, would change something, or \
     reach a file or another server";

/// Pause between two tries of a question that a replica answered which is behind.
const LAG_PAUSE: Duration = Duration::from_millis(500);
/// Tries at least: a question may take longer than the wait, and a balancer may give it to another replica.
const LAG_TRIES_MIN: u32 = 3;

/// Settings by name: those of every question, and those with the one that forbids all but reading tables.
#[derive(Debug)]
struct Named {
    all: Vec<(&'static str, String)>,
    read_only: Vec<(&'static str, String)>,
    /// The table that is asked about, if one of its replicas may be behind.
    replicated: Option<Place>,
}

/// A table that questions are about.
struct About {
    database: String,
    table: String,
    /// How long a replica that is behind is waited for.
    wait: Duration,
    /// How far the replica was behind that was waited for in vain. Later questions do not wait again.
    lag: Mutex<Option<String>>,
    /// Whether its log had no entry for as many tries as are made at least. Then nobody has written to it, and it is not waited for.
    is_unwritten: AtomicBool,
}

/// A client that names those settings in each question.
pub struct Reader {
    client: Client,
    /// Read before the first question; the commands that ask end long before a server has others.
    settings: Mutex<Option<Arc<Named>>>,
    about: Option<About>,
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

    /// The same reader for questions about one table, of which a replica that is behind is waited for so long.
    pub fn about(self, config: &TableConfig, wait: Duration) -> Self {
        let (database, table) = (config.database.clone(), config.table.clone());
        Self {
            about: Some(About {
                database,
                table,
                wait,
                lag: Mutex::default(),
                is_unwritten: AtomicBool::default(),
            }),
            ..self
        }
    }

    /// As [`Reader::rows`], for a question about the table of [`Reader::about`]. Of a replicated table the replica that answers says in the same statement
    /// whether it has all that was written; the rows are sorted then. What one says that stays behind is given all the same: [`Reader::lag`] tells.
    ///
    /// # Errors
    /// As [`Reader::rows`].
    pub async fn rows_shown<T: DeserializeOwned>(&self, sql: &str) -> Result<Vec<T>, QueryError> {
        let named = self.settings().await?;
        let (Some(about), Some(place)) = (&self.about, &named.replicated) else {
            return self.rows(sql, &[]).await;
        };
        let beside = sight::beside_replica(place, sql);
        let runtime = self.client.runtime();
        let (begun, mut tries) = (runtime.elapsed(), 0);
        loop {
            let (before, rows, after): (Vec<Replica>, Vec<T>, Vec<Replica>) = self.one(&beside, &[]).await?;
            let Some(lag) = sight::lag_of(place, &before, &after) else { return Ok(rows) };
            tries += 1;
            if sight::is_unread(place, &before, &after) {
                if tries >= LAG_TRIES_MIN {
                    about.is_unwritten.store(true, Ordering::Relaxed);
                }
                if about.is_unwritten.load(Ordering::Relaxed) {
                    return Ok(rows);
                }
            }
            let is_over = tries >= LAG_TRIES_MIN && runtime.elapsed().saturating_sub(begun) >= about.wait;
            if is_over || self.lag().is_some() {
                about.lag.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(lag);
                return Ok(rows);
            }
            drop(rows);
            runtime.sleep(LAG_PAUSE).await;
        }
    }

    /// As [`Reader::rows_shown`], for a question that always has exactly one row as its answer.
    ///
    /// # Errors
    /// As [`Reader::one`].
    pub async fn one_shown<T: DeserializeOwned>(&self, sql: &str) -> Result<T, QueryError> {
        if self.settings().await?.replicated.is_none() {
            return self.one(sql, &[]).await;
        }
        let row = self.rows_shown(sql).await?.pop();
        row.ok_or_else(|| QueryError {
            remedy: Remedy::Resend,
            code: 0,
            kind: TableFault::Uncertain,
            message:
                "the answer to a count holds no number; look for a setting of this user that changes answers"
                    .into(),
        })
    }

    /// How far a replica was behind that was waited for in vain, and whose answers were taken all the same; `None` if there was none.
    pub fn lag(&self) -> Option<String> {
        let about = self.about.as_ref()?;
        about.lag.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn settings(&self) -> Result<Arc<Named>, QueryError> {
        let known = || self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known().clone();
        if let Some(settings) = before {
            return Ok(settings);
        }
        let server = read::known(&self.client).await?;
        let mut all = server.ask();
        let mut replicated = self.place(&all).await?;
        if replicated.take_if(|place| place.shared).is_some() {
            all.extend(server.sequential());
        }
        let read_only = all.iter().cloned().chain(server.read_only()).collect();
        let settings = Arc::new(Named { all, read_only, replicated });
        *known() = Some(settings.clone());
        Ok(settings)
    }

    /// The table that is asked about, if its nodes may know different rows of it.
    async fn place(&self, settings: &[(&'static str, String)]) -> Result<Option<Place>, QueryError> {
        let Some(About { database, table, .. }) = &self.about else { return Ok(None) };
        let sql = "SELECT groupArray((engine, engine_full)) FROM system.tables WHERE database = {database:String} AND name = {table:String}";
        let params = [("database", database.as_str()), ("table", table.as_str())];
        let (rows,): (Vec<(String, String)>,) =
            self.client.one(sql, &read::borrowed(settings), &params).await?;
        let engine = rows.first().and_then(|(engine, full)| Engine::read(engine, full).ok());
        Ok(engine.filter(|engine| engine.replicated).map(|engine| Place {
            database: database.clone(),
            table: table.clone(),
            replicated: true,
            shared: engine.is_shared(),
        }))
    }
}

impl From<Client> for Reader {
    fn from(client: Client) -> Self {
        Self { client, settings: Mutex::default(), about: None }
    }
}

#[cfg(test)]
mod tests;
