//! A claimant against an owner that writes faster than it.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use engine::TokioRuntime;
use engine::journal::Journal;
use protocol::record::{Body, Genesis, Settle};
use store::{Entry, Key, MemoryStore, Prefix, Put, Store, StoreError};
use tokio::sync::Mutex;

const FOLDER: &str = "p/lane-0";

/// A store on whose every put another process's record comes first, so many times.
#[derive(Debug)]
struct Behind {
    inner: Arc<dyn Store>,
    owner: Mutex<Owner>,
    beaten: AtomicU64,
    lists: AtomicU64,
    times: u64,
}

struct Owner(Journal);

impl std::fmt::Debug for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Owner")
    }
}

#[async_trait]
impl Store for Behind {
    async fn put_if_absent(&self, key: &Key, body: Vec<Bytes>) -> Result<Put, StoreError> {
        if self.beaten.fetch_add(1, Ordering::SeqCst) < self.times {
            let settle = Body::Settle(Settle::default());
            self.owner.lock().await.0.append(settle).await.expect("the owner is not replaced yet");
        }
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
        self.lists.fetch_add(1, Ordering::SeqCst);
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

#[tokio::test]
async fn a_claimant_that_is_beaten_hundreds_of_times_takes_over_in_the_end() {
    let inner: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let runtime = TokioRuntime::new(1);
    let claim = |store: Arc<dyn Store>, owner: &str| {
        Journal::claim(store, runtime.clone(), FOLDER.into(), owner.into(), Duration::from_millis(10))
    };
    let mut owner = claim(inner.clone(), "old").await.expect("an empty lane");
    let genesis = Genesis { pipeline: "p".into(), ..Genesis::default() };
    owner.append(Body::Genesis(genesis)).await.expect("a genesis");
    let times = 300;
    let store = Arc::new(Behind {
        inner,
        owner: Mutex::new(Owner(owner)),
        beaten: AtomicU64::new(0),
        lists: AtomicU64::new(0),
        times,
    });
    let newer = claim(store.clone(), "new").await.expect("the owner cannot beat it for ever");
    assert_eq!((newer.lane().epoch, newer.lane().next_seq), (2, times + 3));
    let lists = store.lists.load(Ordering::SeqCst);
    assert!(lists < 20, "a lost try lists nothing, which costs ten times a get: {lists} lists");
    let settle = Body::Settle(Settle::default());
    let replaced = store.owner.lock().await.0.append(settle).await;
    assert!(matches!(replaced, Err(engine::EngineError::Fenced { .. })), "{replaced:?}");
}
