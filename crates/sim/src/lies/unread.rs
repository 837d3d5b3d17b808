//! A journal record that is there already counts as another's, unread.
//!
//! Owns a store that shows nothing to whoever reads such a record back. Does not own who puts a record twice (`objects`).

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use store::{Entry, Key, Prefix, Put, Store, StoreError};

/// A store in which the first reading of a record finds nothing whose put has found it there.
pub struct UnreadStore {
    inner: Arc<dyn Store>,
    /// Records that were there when they were put, and were not read since.
    there: Mutex<BTreeSet<Key>>,
}

impl UnreadStore {
    /// Around an honest one.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, there: Mutex::default() }
    }
}

impl fmt::Debug for UnreadStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UnreadStore({:?})", self.inner)
    }
}

#[async_trait]
impl Store for UnreadStore {
    async fn put_if_absent(&self, key: &Key, body: Vec<Bytes>) -> Result<Put, StoreError> {
        let put = self.inner.put_if_absent(key, body).await?;
        if put == Put::Exists && key.as_str().contains("/journal/") {
            self.there.lock().expect("no panic").insert(key.clone());
        }
        Ok(put)
    }

    async fn get(&self, key: &Key, bytes_max: u64) -> Result<Option<Bytes>, StoreError> {
        let is_hidden = self.there.lock().expect("no panic").remove(key);
        if is_hidden {
            return Ok(None);
        }
        self.inner.get(key, bytes_max).await
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
