//! A store that lies.
//!
//! Owns what it says of a put, a list and a record, and what it takes for durable. Does not own what a replay looks for in a store ([`super::replays`]).

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use protocol::Record;
use protocol::record::Body;
use store::{Entry, Key, Prefix, Put, Store, StoreError};

use crate::variant::Variant;
use crate::world::World;

/// How long a record is taken for durable before it is, microseconds.
const EARLY_US: u64 = 50_000;

/// A store that lies.
pub struct LyingStore {
    /// The honest one.
    pub inner: Arc<dyn Store>,
    /// Where it is.
    pub world: Arc<World>,
    /// The lie.
    pub variant: Variant,
}

impl fmt::Debug for LyingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LyingStore({:?})", self.variant)
    }
}

#[async_trait]
impl Store for LyingStore {
    async fn put_if_absent(&self, key: &Key, body: Vec<Bytes>) -> Result<Put, StoreError> {
        let is_record = key.as_str().contains("/journal/");
        if self.variant == Variant::SendBeforeSeal && is_record {
            let (inner, executor, key) = (self.inner.clone(), self.world.executor.clone(), key.clone());
            self.world.spawn(async move {
                executor.sleep_us(EARLY_US).await;
                // Whatever it says, nobody listens: that is the fault.
                let _ = inner.put_if_absent(&key, body).await;
            });
            return Ok(Put::Created);
        }
        let put = self.inner.put_if_absent(key, body).await;
        match (self.variant, put) {
            (Variant::SyncFailedIsCreated, Err(error)) if error.kind == store::ErrorKind::SyncFailed => {
                Ok(Put::Created)
            }
            (Variant::NoReadBack, Err(error)) if error.effect == dataflow::Effect::Unknown => {
                Ok(Put::Created)
            }
            (Variant::ExistsIsCreated, Ok(Put::Exists)) if is_record => Ok(Put::Created),
            (Variant::CollectOneRecordEarly, Ok(put)) if key.as_str().contains("/floor/") => {
                let record = key.as_str().replace("/floor/", "/journal/");
                self.inner.delete(&Key::new(record).expect("a valid key")).await?;
                Ok(put)
            }
            (_, put) => put,
        }
    }

    async fn get(&self, key: &Key, bytes_max: u64) -> Result<Option<Bytes>, StoreError> {
        let found = self.inner.get(key, bytes_max).await?;
        let is_record = key.as_str().contains("/journal/");
        Ok(match found {
            Some(bytes) if self.variant == Variant::NewStateKeepsTheOld && is_record => {
                Some(without_new_state(key, bytes))
            }
            found => found,
        })
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Option<Bytes>, StoreError> {
        self.inner.get_range(key, range).await
    }

    async fn list(
        &self,
        prefix: &Prefix,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        if self.variant == Variant::IgnoreTheFloor && prefix.as_str().ends_with("/floor") {
            return Ok(Vec::new());
        }
        self.inner.list(prefix, after, limit).await
    }

    async fn delete(&self, key: &Key) -> Result<(), StoreError> {
        self.inner.delete(key).await
    }

    async fn harden(&self, prefix: &Prefix) -> Result<(), StoreError> {
        match self.variant {
            Variant::NoHarden | Variant::TornReplayIsRead => Ok(()),
            _ => self.inner.harden(prefix).await,
        }
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

/// The record as it would be if it gave up no state.
fn without_new_state(key: &Key, bytes: Bytes) -> Bytes {
    let seq = protocol::names::number(key.as_str()).unwrap_or_default();
    let Ok(mut record) = Record::from_bytes(seq, &bytes) else { return bytes };
    let Some(Body::Rewind(rewind)) = &mut record.body else { return bytes };
    rewind.emptied.clear();
    record.to_bytes().into()
}
