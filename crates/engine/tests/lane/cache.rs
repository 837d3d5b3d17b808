//! Which objects are written for somebody who reads them soon, and which are not.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use store::{Entry, Key, Prefix, Put, Store, StoreError};

use crate::run;
use crate::support::Bench;

/// A store that notes in which way an object of a kind came.
#[derive(Debug)]
struct Ways {
    inner: Arc<dyn Store>,
    cached: Mutex<BTreeSet<String>>,
    past_cache: Mutex<BTreeSet<String>>,
}

impl Ways {
    /// Folders of a lane whose objects came in each of the ways: through the cache, past it.
    fn take(&self) -> (BTreeSet<String>, BTreeSet<String>) {
        let take = |way: &Mutex<BTreeSet<String>>| std::mem::take(&mut *way.lock().expect("no panic"));
        (take(&self.cached), take(&self.past_cache))
    }
}

/// The third part of `pipeline/lane-0/segments/…`.
fn kind(key: &Key) -> String {
    key.as_str().split('/').nth(2).expect("below a lane").to_owned()
}

#[async_trait]
impl Store for Ways {
    async fn put_if_absent(&self, key: &Key, body: Vec<Bytes>) -> Result<Put, StoreError> {
        self.cached.lock().expect("no panic").insert(kind(key));
        self.inner.put_if_absent(key, body).await
    }

    async fn put_past_cache(&self, key: &Key, body: Vec<Bytes>) -> Result<Put, StoreError> {
        self.past_cache.lock().expect("no panic").insert(kind(key));
        self.inner.put_if_absent(key, body).await
    }

    async fn get(&self, key: &Key, bytes_max: u64) -> Result<Option<Bytes>, StoreError> {
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

#[test]
fn only_what_nobody_reads_before_the_next_start_passes_the_cache() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.checkpoint_records_max = 1;
        let ways = Arc::new(Ways {
            inner: bench.store.clone(),
            cached: Mutex::default(),
            past_cache: Mutex::default(),
        });
        bench.store = ways.clone();
        let mut next = 0;
        // A checkpoint is written beside the lane, and a drain does not wait for it.
        let mut kinds = (BTreeSet::new(), BTreeSet::new());
        while !kinds.1.contains("state") {
            assert!(next < 10_000, "no checkpoint was written");
            bench.push(next..next + 100);
            next += 100;
            bench.drain().await.expect("drains");
            let (cached, past_cache) = ways.take();
            kinds.0.extend(cached);
            kinds.1.extend(past_cache);
        }
        assert!(kinds.1.contains("segments"), "their bodies are kept: {kinds:?}");
        assert!(!kinds.0.contains("segments") && kinds.0.contains("journal"), "{kinds:?}");

        bench.settings.body_cache_bytes_max = 0;
        bench.settings.checkpoint_records_max = u64::MAX;
        bench.push(next..next + 100);
        bench.drain().await.expect("drains");
        bench.assert_holds(0..next + 100);
        let (cached, past_cache) = ways.take();
        assert!(cached.contains("segments"), "the delivery reads them: {cached:?}");
        assert!(!past_cache.contains("segments"), "{past_cache:?}");
    });
}
