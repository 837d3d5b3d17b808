//! What lookups take their answers from: the rows of files and tables, no older than the file allows. A side is in memory as a whole, or is asked for the keys that records need.
//!
//! Owns when the other side is read, and what a record waits for. Does not own the rows' meaning ([`operators::lookup`]), nor the place of the step ([`crate::plan::lookups`]).
//!
//! | module   | what it owns                                                   |
//! |----------|----------------------------------------------------------------|
//! | `load`   | from a file, or an answer of ClickHouse or PostgreSQL, to a table of all rows |
//! | [`keyed`] | a side that is asked for keys: bounds, questions, answers     |
//! | `cache`  | what is remembered of answers                                  |
//! | [`asked`] | what ClickHouse is asked                                      |
//! | [`walk`] | from a block to the keys that its records have                 |
//! | [`source`] | a source whose blocks are handed out with what their records may look up |
//! | `ahead`  | its reader, where sides are asked for keys                      |
//! | `age`    | how old what was read is, also on a machine that was suspended   |
//!
//! | the other side, as a whole …                  | a block …                                                        |
//! |-----------------------------------------------|------------------------------------------------------------------|
//! | was read less than `refresh` ago              | goes on with it                                                   |
//! | was read before that                          | waits until it is read again; a file that has not changed is not  |
//! | cannot be read, or not used                   | is kept, and the read fails with [`SourceFault::Lookup`] and the reason |
//! | is still held by blocks as it was *two* reads ago | waits until these have gone their way: memory holds two states, never three |
//!
//! All inputs of a pipeline, and the records of the replay log, share one state of each other side. A block keeps the one that it was handed out with, so its records find the same
//! whenever they are prepared again; a record that is read again later (`Source::record`) finds what was read last, however old, for it must not wait for blocks that wait for it.

pub mod age;
mod ahead;
pub mod asked;
mod cache;
pub mod keyed;
mod load;
pub mod source;
pub mod walk;

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use dataflow::block::Found;
use dataflow::{Runtime, SourceError, SourceFault};
use metrics::{counter, gauge};
use operators::LookupTable;
use operators::lookup::Unmatched;

use age::Moment;
use keyed::Keyed;
pub use load::{From, Load, Rows, Rules};

/// How often it is asked whether blocks still hold an earlier state: they go their way within the age of a batch.
const HELD_ASK_EVERY: Duration = Duration::from_millis(5);

/// The other sides of a pipeline's lookups.
pub struct Lookups {
    /// Those that are in memory as a whole.
    whole: Vec<Side>,
    /// Those that are asked for keys.
    keyed: Vec<Arc<Keyed>>,
}

/// One of them.
struct Side {
    /// The number of its step.
    number: u32,
    refresh: Duration,
    load: Load,
    now: Mutex<Option<Now>>,
    /// Held by whoever reads it: the state before that of `now`, while blocks hold it.
    reading: futures::lock::Mutex<Option<Weak<dyn Any + Send + Sync>>>,
}

/// The rows as of some moment.
#[derive(Clone)]
struct Now {
    table: Arc<dyn Any + Send + Sync>,
    read_at: Moment,
    /// By what a file is known to have changed.
    version: Option<load::Version>,
}

/// Says of a step, by its key in the file, how many rows found no match.
pub fn reports(step: String) -> Unmatched {
    Arc::new(move |rows| counter!("forebay_lookup_unmatched_total", "step" => step.clone()).increment(rows))
}

/// What records wait for.
fn away(message: String) -> SourceError {
    SourceError::new(SourceFault::Lookup, message)
}

/// The step that an [error of a lookup](SourceFault::Lookup) names, which is a key of the pipeline file.
pub fn step_of(error: &SourceError) -> Option<&str> {
    let is_of_lookup = error.fault == SourceFault::Lookup;
    error.message.split('`').nth(1).filter(|_| is_of_lookup)
}

impl Lookups {
    /// The other sides: those that are in memory as a whole, each with the number of its step and how old it may be, and those that are asked for keys.
    pub fn new(sides: Vec<(u32, Duration, Load)>, keyed: Vec<Arc<Keyed>>) -> Self {
        let side = |(number, refresh, load)| Side {
            number,
            refresh,
            load,
            now: Mutex::default(),
            reading: futures::lock::Mutex::default(),
        };
        Self { whole: sides.into_iter().map(side).collect(), keyed }
    }

    /// Whether one of them is asked for keys.
    pub fn asks_for_keys(&self) -> bool {
        !self.keyed.is_empty()
    }

    /// Those that are asked for keys.
    pub fn keyed(&self) -> &[Arc<Keyed>] {
        &self.keyed
    }

    /// What records that are handed out now look up; `None` if any of it has to be read first.
    fn fresh(&self, runtime: &dyn Runtime) -> Option<Found> {
        let now = Moment::now(runtime);
        let of = |side: &Side| Some((side.number, side.fresh(now)?));
        Some(Found::of(self.whole.iter().map(of).collect::<Option<_>>()?))
    }

    /// What was read last, however old; what was never read is read.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) async fn newest(&self, runtime: &Arc<dyn Runtime>) -> Result<Found, SourceError> {
        let mut all = Vec::with_capacity(self.whole.len());
        for side in &self.whole {
            let table = match side.now() {
                Some(now) => now.table,
                None => side.read(runtime).await?,
            };
            all.push((side.number, table));
        }
        Ok(Found::of(all))
    }

    /// Reads each of them once, whether it is too old or not: its key in the file, with the number of its rows, or, as a whole sentence, why it cannot be used. Of one that is
    /// asked for keys, whether it can be.
    pub async fn try_each(&self, runtime: &Arc<dyn Runtime>) -> Vec<(String, Result<Option<usize>, String>)> {
        let mut all = Vec::with_capacity(self.whole.len());
        for side in &self.whole {
            let rows = side.load.load(runtime, None).await.map(|rows| match rows {
                Rows::Same => Some(0),
                Rows::New(table, _) => Some(table.len()),
            });
            all.push((side.load.rules.step.clone(), rows.map_err(|why| side.load.rules.sentence(&why))));
        }
        for side in &self.keyed {
            let checked = side.check(runtime).await.map(|()| None);
            all.push((side.rules().step.clone(), checked.map_err(|why| side.rules().sentence(&why))));
        }
        all
    }

    /// Reads what is too old, and gives all of it.
    ///
    /// # Errors
    /// When one of them cannot be read, or what was read not be used: [`SourceFault::Lookup`].
    async fn read(&self, runtime: &Arc<dyn Runtime>) -> Result<Found, SourceError> {
        let mut all = Vec::with_capacity(self.whole.len());
        for side in &self.whole {
            all.push((side.number, side.read(runtime).await?));
        }
        Ok(Found::of(all))
    }
}

impl Side {
    fn now(&self) -> Option<Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn fresh(&self, at: Moment) -> Option<Arc<dyn Any + Send + Sync>> {
        let now = self.now()?;
        (now.read_at.age(at) < self.refresh).then_some(now.table)
    }

    async fn read(&self, runtime: &Arc<dyn Runtime>) -> Result<Arc<dyn Any + Send + Sync>, SourceError> {
        let mut previous = self.reading.lock().await;
        if let Some(table) = self.fresh(Moment::now(&**runtime)) {
            return Ok(table);
        }
        while previous.as_ref().is_some_and(|table| table.strong_count() > 0) {
            runtime.sleep(HELD_ASK_EVERY).await;
        }
        let before = self.now();
        let known = before.as_ref().and_then(|now| now.version);
        // What was read is as old as the moment at which it was asked for.
        let read_at = Moment::now(&**runtime);
        let away = |why: String| away(self.load.rules.sentence(&why));
        let (table, version) = match self.load.load(runtime, known).await.map_err(away)? {
            Rows::Same => (before.expect("only what was read before can be the same").table, known),
            Rows::New(table, version) => {
                *previous = before.map(|now| Arc::downgrade(&now.table));
                self.tell(&table);
                (Arc::new(table) as Arc<dyn Any + Send + Sync>, version)
            }
        };
        let now = Now { table: table.clone(), read_at, version };
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        Ok(table)
    }

    fn tell(&self, table: &LookupTable) {
        let name = self.load.rules.step.clone();
        counter!("forebay_lookup_reads_total", "step" => name.clone()).increment(1);
        gauge!("forebay_lookup_rows", "step" => name.clone()).set(table.len() as f64);
        tracing::debug!(
            step = name,
            rows = table.len(),
            bytes = table.memory_bytes(),
            "the other side was read"
        );
    }
}

#[cfg(test)]
mod tests;
