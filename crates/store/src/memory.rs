//! A store in the process's memory, for tests and `memory://`.
//!
//! Owns a sorted map with a bound on its bytes. Does not own faults: a store that loses answers or forgets what was not durable is the
//! simulation's (`sim::objects`). Does not outlive the process, and knows nothing of crashes: "durable" here means as long as one clone is
//! alive. Clones share their content.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Bound, Range};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};

use crate::limits::{check_bytes_max, check_range, check_register, check_size};
use crate::{Entry, ErrorKind, Key, LIST_LIMIT_MAX, Operation, Prefix, Put, Store, StoreError, Swap, Tag};

/// Bytes that [`MemoryStore::default`] holds: enough for a demo, little enough for a laptop.
pub const DEFAULT_BYTES_MAX: u64 = 1 << 30;

/// A bounded store in memory. Clones share their content.
#[derive(Clone)]
pub struct MemoryStore {
    inner: Arc<Mutex<Inner>>,
    bytes_max: u64,
}

#[derive(Default)]
struct Inner {
    objects: BTreeMap<Key, Bytes>,
    bytes: u64,
    /// Each with the number of the swap that gave it its value.
    registers: BTreeMap<Key, (Bytes, u64)>,
    swaps: u64,
}

impl MemoryStore {
    /// An empty store whose objects have at most `bytes_max` bytes altogether; beyond it puts fail with
    /// [`ErrorKind::Full`].
    pub fn new(bytes_max: u64) -> Self {
        Self { inner: Arc::default(), bytes_max }
    }

    /// The bytes of all objects, without keys and overhead.
    pub fn bytes(&self) -> u64 {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No code under the lock leaves the map half changed, so a panic elsewhere does no harm to it.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(DEFAULT_BYTES_MAX)
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.lock();
        f.debug_struct("MemoryStore")
            .field("objects", &inner.objects.len())
            .field("bytes", &inner.bytes)
            .field("bytes_max", &self.bytes_max)
            .finish()
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn put_if_absent(&self, key: &Key, body: Vec<Bytes>) -> Result<Put, StoreError> {
        let size_bytes = check_size(key, &body)?;
        let body = join(body);
        let mut inner = self.lock();
        if inner.objects.contains_key(key) {
            return Ok(Put::Exists);
        }
        if let Some(other) = inner.conflict(key) {
            let reason = format!("`{other}` exists");
            return Err(StoreError::new(ErrorKind::Conflict, Operation::Put, key, reason));
        }
        if size_bytes > self.bytes_max.saturating_sub(inner.bytes) {
            let reason = format!("the memory store holds at most `{}` bytes", self.bytes_max);
            return Err(StoreError::new(ErrorKind::Full, Operation::Put, key, reason));
        }
        inner.bytes += size_bytes;
        inner.objects.insert(key.clone(), body);
        Ok(Put::Created)
    }

    async fn get(&self, key: &Key, bytes_max: u64) -> Result<Option<Bytes>, StoreError> {
        let Some(body) = self.lock().objects.get(key).cloned() else { return Ok(None) };
        check_bytes_max(key, body.len() as u64, bytes_max)?;
        Ok(Some(body))
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Option<Bytes>, StoreError> {
        let Some(body) = self.lock().objects.get(key).cloned() else { return Ok(None) };
        check_range(key, body.len() as u64, &range)?;
        // Both ends are at most the length, which is a usize.
        Ok(Some(body.slice(range.start as usize..range.end as usize)))
    }

    async fn list(
        &self,
        prefix: &Prefix,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        // All keys below a folder share its name as their beginning, so they lie side by side in the map.
        let first = prefix.join("-").ok();
        let from = match (after, &first) {
            (Some(after), Some(first)) if after < first => Bound::Included(first),
            (Some(after), _) => Bound::Excluded(after),
            (None, Some(first)) => Bound::Included(first),
            (None, None) => Bound::Unbounded,
        };
        let inner = self.lock();
        let below = inner.objects.range::<Key, _>((from, Bound::Unbounded));
        let below = below.take_while(|(key, _)| prefix.contains(key));
        let entry = |(key, body): (&Key, &Bytes)| Entry { key: key.clone(), size_bytes: body.len() as u64 };
        Ok(below.take(limit.min(LIST_LIMIT_MAX)).map(entry).collect())
    }

    async fn delete(&self, key: &Key) -> Result<(), StoreError> {
        let mut inner = self.lock();
        if let Some(body) = inner.objects.remove(key) {
            inner.bytes -= body.len() as u64;
        }
        Ok(())
    }

    async fn read_register(&self, key: &Key, bytes_max: u64) -> Result<Option<(Bytes, Tag)>, StoreError> {
        let Some((body, swap)) = self.lock().registers.get(key).cloned() else { return Ok(None) };
        check_bytes_max(key, body.len() as u64, bytes_max)?;
        Ok(Some((body, Tag::new(swap.to_string()))))
    }

    async fn compare_and_set(
        &self,
        key: &Key,
        expected: Option<&Tag>,
        body: Bytes,
    ) -> Result<Swap, StoreError> {
        check_register(key, &body)?;
        let mut inner = self.lock();
        let found = inner.registers.get(key);
        if found.map(|(_, swap)| swap.to_string()).as_deref() != expected.map(Tag::as_str) {
            return Ok(Swap::Refused);
        }
        let (had, has) = (found.map_or(0, |(body, _)| body.len() as u64), body.len() as u64);
        if has > had + self.bytes_max.saturating_sub(inner.bytes) {
            let reason = format!("the memory store holds at most `{}` bytes", self.bytes_max);
            return Err(StoreError::new(ErrorKind::Full, Operation::Put, key, reason));
        }
        inner.bytes = inner.bytes + has - had;
        inner.swaps += 1;
        let swap = inner.swaps;
        inner.registers.insert(key.clone(), (body, swap));
        Ok(Swap::Done(Tag::new(swap.to_string())))
    }

    async fn harden(&self, _prefix: &Prefix) -> Result<(), StoreError> {
        Ok(())
    }

    fn describe(&self) -> String {
        "memory://".to_owned()
    }
}

impl Inner {
    /// An object that is a folder of `key`, or that has `key` as a folder.
    fn conflict(&self, key: &Key) -> Option<Key> {
        let mut folder = key.folder();
        while let Ok(above) = Key::new(folder.as_str()) {
            if self.objects.contains_key(&above) {
                return Some(above);
            }
            folder = above.folder();
        }
        // Keys below sort behind `key`, but names that extend its last segment may sort between: `a`, `a-b`, `a/b`.
        let first_below = key.join("-").ok()?;
        let folder = Prefix::from(key);
        let (below, _) = self.objects.range(first_below..).next()?;
        folder.contains(below).then(|| below.clone())
    }
}

fn join(mut body: Vec<Bytes>) -> Bytes {
    if body.len() == 1 {
        return body.pop().expect("the length was just checked");
    }
    let mut joined = BytesMut::with_capacity(body.iter().map(Bytes::len).sum());
    for piece in &body {
        joined.extend_from_slice(piece);
    }
    joined.freeze()
}

#[cfg(test)]
mod tests;
