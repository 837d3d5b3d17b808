//! Sessions: connections that stay open under a client's name, with their temporary tables and `SET` statements.
//!
//! Owns which sessions are open and for how long, and that a request leaves their settings as it found them. Does not own a session's
//! parameters (`request`) or what a connection does (`ffi`).
//!
//! A session runs one request at a time (code 373 for the second) and is dropped after its time of rest. Settings
//! and the database in a request's query string hold for that request: they are set before and put back after. A connection whose settings
//! cannot be put back is closed, and the session goes on with a new one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::OwnedMutexGuard;

use crate::engine::{Engine, choose_database, run_all};
use crate::ffi::{Answer, Connection};
use crate::insert::Script;
use crate::request::{Asked, SessionAsked};
use crate::response::{Failure, SESSION_IS_LOCKED, SESSION_NOT_FOUND, TOO_MANY_QUERIES};
use crate::settings;

/// Sessions at a time: each holds a connection, and clients that make one for every request must not fill the memory.
const SESSIONS_MAX: usize = 1024;

/// The open sessions.
#[derive(Default)]
pub struct Sessions {
    open: Mutex<HashMap<String, Entry>>,
}

struct Entry {
    state: Arc<tokio::sync::Mutex<State>>,
    timeout: Duration,
    last_used: Instant,
}

/// A session's connection, made when it is first used.
#[derive(Default)]
pub struct State {
    connection: Option<Connection>,
    /// When the last request ended that ran in it.
    rests_since: Option<Instant>,
}

/// The right to use a session until it is dropped.
pub type Held = OwnedMutexGuard<State>;

impl Sessions {
    /// Takes the session for one request, making it unless it must exist.
    pub fn take(&self, asked: &SessionAsked) -> Result<Held, Failure> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        expire(&mut open);
        if !open.contains_key(&asked.id) {
            if asked.must_exist {
                return Err(Failure::new(
                    SESSION_NOT_FOUND,
                    &format!("session `{}` does not exist", asked.id),
                ));
            }
            if open.len() >= SESSIONS_MAX {
                let message = format!("`{SESSIONS_MAX}` sessions are open; try again when one has expired");
                return Err(Failure::new(TOO_MANY_QUERIES, &message)
                    .with_status(axum::http::StatusCode::SERVICE_UNAVAILABLE));
            }
        }
        let entry = open.entry(asked.id.clone()).or_insert_with(|| Entry {
            state: Arc::default(),
            timeout: Duration::ZERO,
            last_used: Instant::now(),
        });
        entry.timeout = Duration::from_secs(asked.timeout_s);
        entry.last_used = Instant::now();
        Arc::clone(&entry.state).try_lock_owned().map_err(|_| {
            Failure::new(SESSION_IS_LOCKED, &format!("session `{}` runs another query now", asked.id))
        })
    }

    /// Drops the sessions that rested too long.
    pub fn sweep(&self) {
        expire(&mut self.open.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Drops all sessions.
    pub fn clear(&self) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// One in use is not resting, however long ago it was taken; one that ran for long rests only since its end.
fn expire(open: &mut HashMap<String, Entry>) {
    open.retain(|_, entry| {
        let Ok(state) = entry.state.try_lock() else { return true };
        let since = state.rests_since.map_or(entry.last_used, |since| since.max(entry.last_used));
        since.elapsed() < entry.timeout
    });
}

/// Runs `script` in a session.
pub fn run(
    engine: &Engine,
    held: &mut Held,
    asked: &Asked,
    script: &Script,
    format: &str,
) -> Result<Answer, Failure> {
    let result = run_in(engine, held, asked, script, format);
    held.rests_since = Some(Instant::now());
    result
}

fn run_in(
    engine: &Engine,
    held: &mut Held,
    asked: &Asked,
    script: &Script,
    format: &str,
) -> Result<Answer, Failure> {
    let connection = match &mut held.connection {
        Some(connection) => connection,
        empty => empty.insert(engine.connect(&[])?),
    };
    let database = asked.database.is_some().then(|| text_of(connection, "SELECT currentDatabase()"));
    let database = database.transpose()?;
    let before = values_of(connection, &asked.settings)?;
    let result = choose_database(connection, asked)
        .and_then(|()| apply(connection, &asked.settings))
        .and_then(|()| run_all(connection, asked, script, format));
    let mut restored = restore(connection, &before, database.as_deref());
    if result.is_err() {
        // The engine lists a failed statement as running until its connection gets another one.
        restored = restored.and_then(|()| text_of(connection, "SELECT 1").map(drop));
    }
    if restored.is_err() {
        // A session with a stranger's settings is worse than none: the next request starts it again.
        held.connection = None;
    }
    result
}

fn apply(connection: &mut Connection, settings: &[(String, String)]) -> Result<(), Failure> {
    if settings.is_empty() {
        return Ok(());
    }
    let statement = settings::set_statement(settings);
    connection.run(statement.as_bytes(), "Null", &[]).map(drop).map_err(Failure::from_engine)
}

/// The values that `settings` have now; `None` for one that has its default.
fn values_of(
    connection: &mut Connection,
    settings: &[(String, String)],
) -> Result<Vec<(String, Option<String>)>, Failure> {
    let mut values = Vec::new();
    for (name, _) in settings {
        let name_literal = settings::literal(name);
        let sql = format!("SELECT changed, value FROM system.settings WHERE name = {name_literal}");
        let line = text_of(connection, &sql)?;
        let (changed, value) = line.split_once('\t').unwrap_or(("0", ""));
        values.push((name.clone(), (changed == "1").then(|| value.to_owned())));
    }
    Ok(values)
}

/// The only row of an answer.
fn text_of(connection: &mut Connection, sql: &str) -> Result<String, Failure> {
    let answer = connection.run(sql.as_bytes(), "TabSeparatedRaw", &[]).map_err(Failure::from_engine)?;
    let text = String::from_utf8_lossy(&answer.body);
    Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned())
}

fn restore(
    connection: &mut Connection,
    before: &[(String, Option<String>)],
    database: Option<&str>,
) -> Result<(), Failure> {
    for (name, value) in before {
        let value = value.as_deref().map_or("DEFAULT".to_owned(), settings::literal);
        let statement = format!("SET {name} = {value}");
        connection.run(statement.as_bytes(), "Null", &[]).map_err(Failure::from_engine)?;
    }
    if let Some(database) = database {
        let statement = format!("USE {}", settings::identifier(database));
        connection.run(statement.as_bytes(), "Null", &[]).map_err(Failure::from_engine)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
