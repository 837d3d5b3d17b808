//! A source whose blocks are handed out once every schema that they name is known.
//!
//! Owns when the registry is asked: once for each number (or name), before the first block that names it. Does not own the answers' meaning
//! ([`crate::client`]), nor anything that the inner source decides.
//!
//! | the registry …            | the block …                                                                              |
//! |---------------------------|------------------------------------------------------------------------------------------|
//! | has the schema            | is handed on                                                                             |
//! | does not have it          | waits for [`MISSING_TRIES`] answers, because a registry may be slower than the producer; then it is handed on, and its records become dead letters |
//! | is unavailable            | is kept, and the read fails as for a source that is unavailable                          |
//! | refuses us                | is kept, and the read ends with what to change; once the registry has answered, only after [`REFUSALS_MAX`] refusals in a row |
//!
//! A number that the registry did not have is asked for again once a minute, so that records replayed later are read.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use dataflow::{
    Event, Partition, PartitionStart, Position, ReadFrom, Reader, RecordBlock, Runtime, Source, SourceError,
    SourceFault, Streams,
};
use formats::schemas::{Schemas, Writer, schema_ids};
use futures::future::BoxFuture;

use crate::client::{Client, Found, RegistryError};

/// How often the registry must say that it does not have a schema before it is believed.
const MISSING_TRIES: u32 = 6;
/// Missing numbers that are asked for so often. With more of them a producer writes broken headers, and each would hold up all records for
/// the pauses; further ones are asked for once.
const MISSING_PATIENT_MAX: usize = 10;
/// Unknown numbers of one block that are still asked for when no more unusable ones can be remembered: they would be asked for with
/// each block, and a registry that limits requests would never let the block pass. The others' records become dead letters.
const BEYOND_MAX: usize = 64;
/// The pause between two of these questions.
const MISSING_PAUSE: Duration = Duration::from_secs(1);
/// A registry that has let us in may refuse us for a while: its password is on its way to all of its servers, or a proxy before it answers in its place. With
/// the pauses between two reads it is more than a minute.
const REFUSALS_MAX: u32 = 20;
/// It has not answered yet: whoever it refuses has made a mistake.
const NEVER_LET_IN: u32 = u32::MAX;
/// What the registry did not have is asked for again after so long.
const ASK_AGAIN: Duration = Duration::from_secs(60);

/// A place that has the schemas which blocks name: a registry, or Pulsar's brokers.
///
/// 1. [`Registry::named`] gives what a block names, without asking anybody.
/// 2. [`Registry::schema`] takes seconds at the most, and may be dropped.
/// 3. A schema that was found under a key never changes.
#[async_trait]
pub trait Registry: Send + Sync + 'static {
    /// What a block names a schema by.
    type Key: Ord + Clone + Display + Send + Sync + 'static;

    /// Each schema that `block` names, at least once.
    fn named(&self, block: &RecordBlock) -> Vec<Self::Key>;

    /// What is there under `key`.
    ///
    /// # Errors
    /// When the registry is unavailable, or refuses the login.
    async fn schema(&self, key: &Self::Key) -> Result<Found, RegistryError>;

    /// Called before a pipeline's positions are compared with the source's: refuses what no record could be read by.
    ///
    /// # Errors
    /// As [`schema`](Self::schema), and when the pipeline file has to be changed.
    async fn check(&self) -> Result<(), RegistryError> {
        Ok(())
    }
}

#[async_trait]
impl Registry for Client {
    type Key = u32;

    fn named(&self, block: &RecordBlock) -> Vec<u32> {
        let mut ids: Vec<u32> = schema_ids(block).collect();
        if self.reads_keys() && !block.absent.is_empty() {
            let rows: Vec<usize> = block.absent.iter().map(|row| *row as usize).collect();
            ids.extend(schema_ids(&block.of_keys(&rows)));
        }
        ids
    }

    async fn schema(&self, id: &u32) -> Result<Found, RegistryError> {
        Client::schema(self, *id).await
    }
}

/// A source of records that name their schemas, and the registry of these.
pub struct WithSchemas<R: Registry> {
    inner: Arc<dyn Source>,
    asks: Arc<Asks<R>>,
}

/// What is asked of the registry, and when.
struct Asks<R: Registry> {
    client: R,
    schemas: Arc<Schemas<R::Key>>,
    runtime: Arc<dyn Runtime>,
    /// When the registry last said that it does not have a schema. No more of them than [`formats::schemas::SCHEMAS_MAX`].
    missing: Mutex<BTreeMap<R::Key, Duration>>,
    /// How often it has refused us since it gave all that a block names; [`NEVER_LET_IN`] before its first answer.
    refusals: AtomicU32,
}

impl<R: Registry> WithSchemas<R> {
    /// `inner`, whose records name schemas of the registry; what is found is put among `schemas`, for the decoder.
    pub fn new(
        inner: Arc<dyn Source>,
        client: R,
        schemas: Arc<Schemas<R::Key>>,
        runtime: Arc<dyn Runtime>,
    ) -> Self {
        let (missing, refusals) = (Mutex::default(), AtomicU32::new(NEVER_LET_IN));
        Self { inner, asks: Arc::new(Asks { client, schemas, runtime, missing, refusals }) }
    }
}

impl<R: Registry> Asks<R> {
    /// What a block names and has to be asked for.
    fn open(&self, block: &RecordBlock) -> Vec<R::Key> {
        let (mut open, mut seen) = (Vec::new(), BTreeSet::new());
        for id in self.client.named(block) {
            let is_open = match self.schemas.get(&id) {
                Some(Writer::Texts(_)) => false,
                Some(Writer::Unusable(_)) => self.is_due(&id),
                None => true,
            };
            if is_open && seen.insert(id.clone()) {
                open.push(id);
            }
        }
        if self.schemas.is_full_of_unusable() {
            open.truncate(BEYOND_MAX);
        }
        open
    }

    fn is_due(&self, id: &R::Key) -> bool {
        let missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        missing.get(id).is_some_and(|asked| self.runtime.elapsed() >= *asked + ASK_AGAIN)
    }

    fn missing_count(&self) -> usize {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// What the registry has under a key. A refusal is one that may pass, unless it has come too often.
    async fn schema(&self, id: &R::Key) -> Result<Found, SourceError> {
        match self.client.schema(id).await {
            Ok(found) => {
                // Another schema that the block names may be refused each time: a count is over only once all of them are there.
                if self.refusals.load(Ordering::Relaxed) == NEVER_LET_IN {
                    self.refusals.store(0, Ordering::Relaxed);
                }
                Ok(found)
            }
            Err(error) if error.fault == SourceFault::Config => {
                let before = self.refusals.load(Ordering::Relaxed);
                if before >= REFUSALS_MAX {
                    return Err(fault(error));
                }
                self.refusals.store(before + 1, Ordering::Relaxed);
                Err(SourceError::new(SourceFault::Away, error.message))
            }
            Err(error) => Err(fault(error)),
        }
    }

    /// Asks for each of `ids` and keeps what is found.
    async fn ask(&self, ids: Vec<R::Key>) -> Result<(), SourceError> {
        let asks_any = !ids.is_empty();
        for id in ids {
            let is_new = self.schemas.get(&id).is_none() && !self.schemas.is_full_of_unusable();
            let is_patient = is_new && self.missing_count() < MISSING_PATIENT_MAX;
            let tries = if is_patient { MISSING_TRIES } else { 1 };
            let mut found = self.schema(&id).await?;
            for _ in 1..tries {
                if !matches!(found, Found::Missing(_)) {
                    break;
                }
                self.runtime.sleep(MISSING_PAUSE).await;
                found = self.schema(&id).await?;
            }
            let is_missing = matches!(found, Found::Missing(_));
            let writer = match found {
                Found::Texts(texts) => {
                    tracing::info!(schema = %id, "a schema was fetched from the registry");
                    Writer::Texts(texts.into())
                }
                Found::Unusable(why) | Found::Missing(why) => Writer::Unusable(why.into()),
            };
            let full = |error: formats::schemas::SchemasFull| {
                SourceError::new(SourceFault::Refused, error.to_string())
            };
            let why = match &writer {
                Writer::Unusable(why) => Some(why.clone()),
                Writer::Texts(_) => None,
            };
            let is_kept = self.schemas.put(id.clone(), writer).map_err(full)?;
            if let Some(why) = why.filter(|_| is_kept) {
                // One line a number, and no more lines than numbers are kept.
                tracing::warn!(schema = %id, "records of this schema become dead letters: {why}");
            }
            let now = self.runtime.elapsed();
            let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
            match is_missing && is_kept {
                true => missing.insert(id, now),
                false => missing.remove(&id),
            };
        }
        if asks_any {
            self.refusals.store(0, Ordering::Relaxed);
        }
        Ok(())
    }
}

fn fault(error: RegistryError) -> SourceError {
    SourceError::new(error.fault, error.message)
}

#[async_trait]
impl<R: Registry> Source for WithSchemas<R> {
    fn streams(&self) -> Streams {
        self.inner.streams()
    }

    fn connect(&self) {
        self.inner.connect();
    }

    fn covers(&self, stream: &str) -> bool {
        self.inner.covers(stream)
    }

    async fn partitions(&self) -> Result<Vec<PartitionStart>, SourceError> {
        let partitions = self.inner.partitions().await?;
        self.asks.client.check().await.map_err(fault)?;
        Ok(partitions)
    }

    async fn recognize(
        &self,
        shown: Vec<PartitionStart>,
        known: Vec<ReadFrom>,
    ) -> Result<Vec<PartitionStart>, SourceError> {
        self.inner.recognize(shown, known).await
    }

    async fn ends(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        self.inner.ends().await
    }

    async fn behind(&self, from: &[(Partition, Position)]) -> Result<Vec<(Partition, u64)>, SourceError> {
        self.inner.behind(from).await
    }

    async fn read(&self, from: Vec<ReadFrom>) -> Result<Box<dyn Reader>, SourceError> {
        let inner = self.inner.read(from).await?;
        Ok(Box::new(ReaderWithSchemas { inner, asks: self.asks.clone(), held: None }))
    }

    async fn publish(&self, positions: &[(Partition, Position)]) -> Result<(), SourceError> {
        self.inner.publish(positions).await
    }

    async fn published(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        self.inner.published().await
    }

    fn reader(&self) -> Option<&'static str> {
        self.inner.reader()
    }

    fn releases(&self) -> bool {
        self.inner.releases()
    }

    fn stands_aside(&self) -> bool {
        self.inner.stands_aside()
    }

    fn wants_seals(&self) -> bool {
        self.inner.wants_seals()
    }

    fn sealed(&self, positions: &[(Partition, Position)]) {
        self.inner.sealed(positions);
    }

    fn wants_fates(&self, partition: &Partition) -> bool {
        self.inner.wants_fates(partition)
    }

    async fn record(&self, at: ReadFrom) -> Result<Option<RecordBlock>, SourceError> {
        let record = self.inner.record(at).await?;
        if let Some(block) = &record {
            self.asks.ask(self.asks.open(block)).await?;
        }
        Ok(record)
    }
}

/// A block whose schemas are being asked for.
struct Held {
    block: RecordBlock,
    /// The question under way: kept, for `next` may be dropped.
    asking: Option<BoxFuture<'static, Result<(), SourceError>>>,
}

struct ReaderWithSchemas<R: Registry> {
    inner: Box<dyn Reader>,
    asks: Arc<Asks<R>>,
    held: Option<Held>,
}

impl<R: Registry> ReaderWithSchemas<R> {
    fn ask(asks: &Arc<Asks<R>>, block: &RecordBlock) -> BoxFuture<'static, Result<(), SourceError>> {
        let (asks, ids) = (asks.clone(), asks.open(block));
        Box::pin(async move { asks.ask(ids).await })
    }
}

#[async_trait]
impl<R: Registry> Reader for ReaderWithSchemas<R> {
    async fn next(&mut self) -> Result<Event, SourceError> {
        if self.held.is_none() {
            match self.inner.next().await? {
                Event::Block(block) if self.asks.open(&block).is_empty() => return Ok(Event::Block(block)),
                Event::Block(block) => self.held = Some(Held { block, asking: None }),
                other => return Ok(other),
            }
        }
        if let Some(held) = &mut self.held {
            let asking = held.asking.get_or_insert_with(|| Self::ask(&self.asks, &held.block));
            let asked = asking.await;
            held.asking = None;
            asked?;
        }
        let held = self.held.take().expect("a block was held, and nobody else takes it");
        Ok(Event::Block(held.block))
    }

    async fn add(&mut self, from: ReadFrom) -> Result<(), SourceError> {
        self.inner.add(from).await
    }

    fn remove(&mut self, partition: &Partition) {
        self.inner.remove(partition);
    }

    fn pause(&mut self, partition: &Partition) {
        self.inner.pause(partition);
    }

    fn resume(&mut self, partition: &Partition) {
        self.inner.resume(partition);
    }
}

#[cfg(test)]
mod tests;
