//! Which objects are written for somebody who reads them soon, and which are not.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use engine::Outcome;
use store::{Entry, Key, Prefix, Put, Store, StoreError};
use tokio::sync::watch;

use crate::start::set_away;
use crate::support::Bench;
use crate::{run, wait_until};

/// A store that notes in which way an object of a kind came.
#[derive(Debug)]
struct Ways {
    inner: Arc<dyn Store>,
    cached: Mutex<Kinds>,
    past_cache: Mutex<Kinds>,
}

/// How many objects came of each kind.
type Kinds = BTreeMap<String, usize>;

impl Ways {
    /// In place of the store of a bench.
    fn of(bench: &mut Bench) -> Arc<Self> {
        let inner = bench.store.clone();
        let ways = Arc::new(Self { inner, cached: Mutex::default(), past_cache: Mutex::default() });
        bench.store = ways.clone();
        ways
    }

    /// The objects of a lane that came in each of the ways: through the cache, past it.
    fn take(&self) -> (Kinds, Kinds) {
        let take = |way: &Mutex<Kinds>| std::mem::take(&mut *way.lock().expect("no panic"));
        (take(&self.cached), take(&self.past_cache))
    }
}

fn note(way: &Mutex<Kinds>, key: &Key) {
    *way.lock().expect("no panic").entry(kind(key)).or_default() += 1;
}

/// The third part of `pipeline/lane-0/segments/…`.
fn kind(key: &Key) -> String {
    key.as_str().split('/').nth(2).expect("below a lane").to_owned()
}

#[async_trait]
impl Store for Ways {
    async fn put_if_absent(&self, key: &Key, body: Vec<Bytes>) -> Result<Put, StoreError> {
        note(&self.cached, key);
        self.inner.put_if_absent(key, body).await
    }

    async fn put_past_cache(&self, key: &Key, body: Vec<Bytes>) -> Result<Put, StoreError> {
        note(&self.past_cache, key);
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
        let ways = Ways::of(&mut bench);
        let mut next = 0;
        // A checkpoint is written beside the lane, and a drain does not wait for it.
        let mut kinds = (Kinds::new(), Kinds::new());
        while !kinds.1.contains_key("state") {
            assert!(next < 10_000, "no checkpoint was written");
            bench.push(next..next + 100);
            next += 100;
            bench.drain().await.expect("drains");
            let (cached, past_cache) = ways.take();
            kinds.0.extend(cached);
            kinds.1.extend(past_cache);
        }
        assert!(kinds.1.contains_key("segments"), "their bodies are kept: {kinds:?}");
        assert!(!kinds.0.contains_key("segments") && kinds.0.contains_key("journal"), "{kinds:?}");

        bench.settings.body_cache_bytes_max = 0;
        bench.settings.checkpoint_records_max = u64::MAX;
        bench.push(next..next + 100);
        bench.drain().await.expect("drains");
        bench.assert_holds(0..next + 100);
        let (cached, past_cache) = ways.take();
        assert!(cached.contains_key("segments"), "the delivery reads them: {cached:?}");
        assert!(!past_cache.contains_key("segments"), "{past_cache:?}");
    });
}

/// Records come faster than the table takes them, and less than half of their bytes have room in memory.
#[test]
fn a_seal_waits_a_moment_for_memory_while_the_table_answers() {
    run(async {
        let mut bench = Bench::new();
        let ways = Ways::of(&mut bench);
        bench.settings.body_cache_bytes_max = 1_200 * 8;
        bench.table.world.lock().expect("no panic").insert_time = Duration::from_millis(60);
        let (stop, asked) = watch::channel(false);
        let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
        for first in (0..3_000).step_by(50) {
            bench.push(first..first + 50);
            // A block is a batch, however slow the machine is.
            wait_until(|| bench.status.snapshot().read >= first + 50).await;
        }
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 3_000).await;
        stop.send(true).expect("it runs");
        assert_eq!(running.await.expect("no panic").expect("drains"), Outcome::Drained);
        bench.assert_holds(0..3_000);
        let (cached, past_cache) = ways.take();
        let of_segments = |kinds: &Kinds| kinds.get("segments").copied().unwrap_or_default();
        // A machine that stands still for longer than the wait lets some through.
        assert!(of_segments(&past_cache) > 4 * of_segments(&cached), "{cached:?}, {past_cache:?}");
    });
}

#[test]
fn a_seal_that_has_waited_for_memory_in_vain_goes_on() {
    run(async {
        let mut bench = Bench::new();
        let ways = Ways::of(&mut bench);
        bench.settings.body_cache_bytes_max = 60 * 8;
        set_away(&bench, true);
        bench.push(0..500);
        let (stop, asked) = watch::channel(false);
        let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
        while bench.lane().await.counts.passed < 500 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert!(ways.take().0.contains_key("segments"), "what has no room is read again");
        set_away(&bench, false);
        stop.send(true).expect("it runs");
        assert_eq!(running.await.expect("no panic").expect("drains"), Outcome::Drained);
        bench.assert_holds(0..500);
    });
}
