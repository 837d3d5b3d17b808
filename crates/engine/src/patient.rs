//! A store whose reads wait until it answers.
//!
//! Owns the retries around reading: while a lane starts it reads hundreds of objects, and one lost answer among them is no reason to end a
//! process that a supervisor would only start again. Does not own puts and deletes, which pass through: what a lost answer to those means
//! is for their callers to find out. Nor the pauses ([`crate::retry`]) or the counts of requests ([`crate::measured`]). An owner's tries
//! have no bound in number and end when the caller is dropped.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use dataflow::Runtime;
use store::{Entry, Key, Prefix, Put, Store, StoreError, Swap, Tag};

use crate::retry::Backoff;

/// A store whose reads are repeated until it answers.
pub struct Patient {
    store: Arc<dyn Store>,
    runtime: Arc<dyn Runtime>,
    pause_max: Duration,
    tries_max: u64,
}

impl Patient {
    /// Reads of `store` with pauses up to `pause_max`.
    pub fn new(store: Arc<dyn Store>, runtime: Arc<dyn Runtime>, pause_max: Duration) -> Self {
        Self { store, runtime, pause_max, tries_max: u64::MAX }
    }

    /// Gives up a read after so many tries: for those who only look, and should say soon that the store is away.
    #[must_use]
    pub fn tries(self, tries_max: u64) -> Self {
        Self { tries_max, ..self }
    }

    async fn until_answered<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        ask: impl Fn() -> F,
    ) -> Result<T, StoreError> {
        let mut backoff = Backoff::new(self.pause_max);
        loop {
            match ask().await {
                Err(error) if error.kind.is_transient() && backoff.tries() + 1 < self.tries_max => {
                    if backoff.should_log() {
                        tracing::warn!(%error, "the store does not answer; trying again");
                    }
                    backoff.pause(&*self.runtime).await;
                }
                result => return result,
            }
        }
    }
}

#[async_trait]
impl Store for Patient {
    async fn put_if_absent(&self, key: &Key, body: Vec<Bytes>) -> Result<Put, StoreError> {
        self.store.put_if_absent(key, body).await
    }

    async fn put_past_cache(&self, key: &Key, body: Vec<Bytes>) -> Result<Put, StoreError> {
        self.store.put_past_cache(key, body).await
    }

    async fn get(&self, key: &Key, bytes_max: u64) -> Result<Option<Bytes>, StoreError> {
        self.until_answered(|| self.store.get(key, bytes_max)).await
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Option<Bytes>, StoreError> {
        self.until_answered(|| self.store.get_range(key, range.clone())).await
    }

    async fn get_ranges(&self, key: &Key, ranges: &[Range<u64>]) -> Result<Option<Vec<Bytes>>, StoreError> {
        self.until_answered(|| self.store.get_ranges(key, ranges)).await
    }

    fn requests_for(&self, ranges: &[Range<u64>]) -> u64 {
        self.store.requests_for(ranges)
    }

    async fn list(
        &self,
        prefix: &Prefix,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        self.until_answered(|| self.store.list(prefix, after, limit)).await
    }

    async fn delete(&self, key: &Key) -> Result<(), StoreError> {
        self.store.delete(key).await
    }

    async fn read_register(&self, key: &Key, bytes_max: u64) -> Result<Option<(Bytes, Tag)>, StoreError> {
        self.until_answered(|| self.store.read_register(key, bytes_max)).await
    }

    async fn compare_and_set(
        &self,
        key: &Key,
        expected: Option<&Tag>,
        body: Bytes,
    ) -> Result<Swap, StoreError> {
        self.store.compare_and_set(key, expected, body).await
    }

    async fn harden(&self, prefix: &Prefix) -> Result<(), StoreError> {
        self.until_answered(|| self.store.harden(prefix)).await
    }

    fn describe(&self) -> String {
        self.store.describe()
    }
}

impl std::fmt::Debug for Patient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Patient").field("store", &self.store).finish_non_exhaustive()
    }
}
