//! A replay that does not look whether its place was retired.
//!
//! Owns a store that hides which places are retired. Does not own the replay that it misleads (`replays`), or which variant does so
//! (`replayer`).

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use store::{Entry, Key, Prefix, Put, Store, StoreError};

/// A store that, right after an object was put into the replay log, tells of nothing that was retired, and still has each object that was read.
pub struct ForgetfulStore {
    inner: Arc<dyn Store>,
    has_put: AtomicBool,
    /// Objects of the log as they were read: they are still there for whoever asks again.
    read: Mutex<BTreeMap<Key, Bytes>>,
}

impl ForgetfulStore {
    /// Around an honest one.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, has_put: AtomicBool::new(false), read: Mutex::default() }
    }
}

impl fmt::Debug for ForgetfulStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ForgetfulStore({:?})", self.inner)
    }
}

#[async_trait]
impl Store for ForgetfulStore {
    async fn put_if_absent(&self, key: &Key, body: Vec<Bytes>) -> Result<Put, StoreError> {
        self.has_put.store(key.as_str().contains("/replays/"), Ordering::Relaxed);
        self.inner.put_if_absent(key, body).await
    }

    async fn get(&self, key: &Key, bytes_max: u64) -> Result<Option<Bytes>, StoreError> {
        let found = self.inner.get(key, bytes_max).await?;
        let mut read = self.read.lock().expect("no panic");
        if let Some(bytes) = found.as_ref().filter(|_| key.as_str().contains("/replays/")) {
            read.insert(key.clone(), bytes.clone());
        }
        Ok(found.or_else(|| read.get(key).cloned()))
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
        if prefix.as_str().ends_with("/replayed") && self.has_put.swap(false, Ordering::Relaxed) {
            return Ok(Vec::new());
        }
        self.inner.list(prefix, after, limit).await
    }

    async fn delete(&self, key: &Key) -> Result<(), StoreError> {
        self.inner.delete(key).await
    }

    async fn harden(&self, prefix: &Prefix) -> Result<(), StoreError> {
        self.inner.harden(prefix).await
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}
