//! The requests that are on their way, from the first byte of their head to the end of their statement.
//!
//! Owns their list by query id, and the mark of one that is killed before the engine has it. Does not own those that the engine runs, nor
//! what clients see of either (`processes`).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::response::{Failure, QUERY_CANCELLED, QUERY_WITH_SAME_ID};

/// Bytes of a statement that are kept to be shown.
const SHOWN_BYTES_MAX: usize = 4096;

/// All of them by query id.
#[derive(Default)]
pub struct Running {
    entries: Mutex<BTreeMap<String, Arc<Entry>>>,
}

struct Entry {
    /// The beginning of its statement, as far as it is known.
    query: Mutex<String>,
    /// When its head was read.
    since: Instant,
    killed: AtomicBool,
}

impl Running {
    /// Writes a request down; refuses the id of one that is still here.
    pub fn enter(self: &Arc<Running>, query_id: &str, query: &str) -> Result<Ticket, Failure> {
        let mut entries = self.lock();
        if entries.contains_key(query_id) {
            let message = format!(
                "query with id = {query_id} is already running. (QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING)"
            );
            return Err(Failure::new(QUERY_WITH_SAME_ID, &message));
        }
        let entry = Arc::new(Entry {
            query: Mutex::new(shown(query.as_bytes())),
            since: Instant::now(),
            killed: AtomicBool::new(false),
        });
        entries.insert(query_id.to_owned(), Arc::clone(&entry));
        Ok(Ticket { running: Arc::clone(self), query_id: query_id.to_owned(), entry })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// Whether a request of this id is here.
    pub fn holds(&self, query_id: &str) -> bool {
        self.lock().contains_key(query_id)
    }

    /// Each request's id, seconds since its head was read, and the beginning of its statement.
    pub fn all(&self) -> Vec<(String, f64, String)> {
        let describe = |(id, entry): (&String, &Arc<Entry>)| {
            let query = entry.query.lock().unwrap_or_else(PoisonError::into_inner).clone();
            (id.clone(), entry.since.elapsed().as_secs_f64(), query)
        };
        self.lock().iter().map(describe).collect()
    }

    /// Marks a request as killed; it fails when it would be handed to the engine.
    pub fn kill(&self, query_id: &str) {
        if let Some(entry) = self.lock().get(query_id) {
            entry.killed.store(true, Ordering::SeqCst);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Entry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request's line in the table; dropping it removes the line.
pub struct Ticket {
    running: Arc<Running>,
    query_id: String,
    entry: Arc<Entry>,
}

impl Ticket {
    /// The query's id.
    pub fn query_id(&self) -> &str {
        &self.query_id
    }

    /// Notes the statement, once it is known.
    pub fn show(&self, sql: &[u8]) {
        *self.entry.query.lock().unwrap_or_else(PoisonError::into_inner) = shown(sql);
    }

    /// To be called right before the engine is; fails if the request was killed while it waited.
    pub fn check(&self) -> Result<(), Failure> {
        match self.entry.killed.load(Ordering::SeqCst) {
            true => Err(Failure::new(QUERY_CANCELLED, "Query was cancelled. (QUERY_WAS_CANCELLED)")),
            false => Ok(()),
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.running.lock().remove(&self.query_id);
    }
}

fn shown(sql: &[u8]) -> String {
    String::from_utf8_lossy(&sql[..sql.len().min(SHOWN_BYTES_MAX)]).into_owned()
}

#[cfg(test)]
mod tests;
