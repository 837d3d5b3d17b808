//! What is deleted, and what never is: owners that freeze, collections that die, and what a round costs.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use engine::{EngineError, survey};
use protocol::retire::{Judge, Marks, Standing};
use store::{Entry, ErrorKind, Key, Operation, Prefix, Put, Store, StoreError};
use tokio::sync::{Notify, watch};

use crate::run;
use crate::support::Bench;

/// A store that counts requests, fails deletes when told to, and freezes one writer between its segment and its record.
#[derive(Debug)]
struct Watched {
    inner: Arc<dyn Store>,
    requests: Mutex<BTreeMap<(&'static str, String), u64>>,
    no_deletes: AtomicBool,
    freeze: AtomicBool,
    is_frozen: AtomicBool,
    thaw: Notify,
}

impl Watched {
    fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            requests: Mutex::default(),
            no_deletes: AtomicBool::new(false),
            freeze: AtomicBool::new(false),
            is_frozen: AtomicBool::new(false),
            thaw: Notify::new(),
        })
    }

    fn count(&self, kind: &'static str, place: &str) {
        let folder = place.split('/').nth(2).unwrap_or_default().to_owned();
        *self.requests.lock().expect("no panic").entry((kind, folder)).or_default() += 1;
    }

    /// Requests of a kind to a folder so far.
    fn counted(&self, kind: &'static str, folder: &str) -> u64 {
        self.requests.lock().expect("no panic").get(&(kind, folder.to_owned())).copied().unwrap_or(0)
    }
}

#[async_trait]
impl Store for Watched {
    async fn put_if_absent(&self, key: &Key, body: Vec<Bytes>) -> Result<Put, StoreError> {
        self.count("put", key.as_str());
        if is_seal(key, &body) && self.freeze.swap(false, Ordering::SeqCst) {
            self.is_frozen.store(true, Ordering::SeqCst);
            self.thaw.notified().await;
        }
        self.inner.put_if_absent(key, body).await
    }

    async fn get(&self, key: &Key, bytes_max: u64) -> Result<Option<Bytes>, StoreError> {
        self.count("get", key.as_str());
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
        self.count("list", prefix.as_str());
        self.inner.list(prefix, after, limit).await
    }

    async fn delete(&self, key: &Key) -> Result<(), StoreError> {
        self.count("delete", key.as_str());
        if self.no_deletes.load(Ordering::SeqCst) {
            return Err(StoreError::new(ErrorKind::Io, Operation::Delete, key, "made to fail"));
        }
        self.inner.delete(key).await
    }

    async fn harden(&self, prefix: &Prefix) -> Result<(), StoreError> {
        self.inner.harden(prefix).await
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

/// True for a record that seals a batch: its segment is in the store already.
fn is_seal(key: &Key, body: &[Bytes]) -> bool {
    let Some(seq) = protocol::names::number(key.as_str()).filter(|_| key.as_str().contains("/journal/"))
    else {
        return false;
    };
    let record = protocol::Record::from_bytes(seq, &body.concat()).expect("a record is put whole");
    matches!(record.body, Some(protocol::Body::Seal(_)))
}

async fn survey_of(bench: &Bench) -> survey::Survey {
    survey::survey(&*bench.store, "p/lane-0", &bench.lane().await).await.expect("lists")
}

async fn wait_until(mut done: impl FnMut() -> bool) {
    for _ in 0..60_000 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("not within five minutes");
}

/// Runs until all is in the table and a checkpoint has been retired behind it.
async fn drain_with_checkpoint(bench: &Bench) {
    let before = bench.lane().await.newest_checkpoint;
    let (stop, asked) = watch::channel(false);
    let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
    // A minute at the least: only what never comes takes as long.
    for round in 0..3_000 {
        bench.push([1_000_000 + round]);
        tokio::time::sleep(Duration::from_millis(20)).await;
        if bench.lane().await.newest_checkpoint > before && bench.status.snapshot().store.is_some() {
            break;
        }
    }
    stop.send(true).expect("it runs");
    running.await.expect("no panic").expect("drains");
    assert!(bench.lane().await.newest_checkpoint > before);
}

#[test]
fn fault_15_a_frozen_writers_object_goes_only_when_it_can_win_no_slot_and_does_no_harm() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.checkpoint_records_max = 4;
        let shared = bench.store.clone();
        let slow = Watched::new(shared.clone());
        bench.store = slow.clone();
        bench.push(0..50);
        let (_stop, asked) = watch::channel(false);
        let older = tokio::spawn(engine::run(bench.pipeline(false), asked));
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 50).await;
        slow.freeze.store(true, Ordering::SeqCst);
        bench.push(50..100);
        wait_until(|| slow.is_frozen.load(Ordering::SeqCst)).await;

        bench.store = shared;
        let uploaded = list(&bench, "segments").await.pop().expect("it was uploaded before the freeze");
        let lane = bench.lane().await;
        let judge = Judge::new(&lane, Marks::seen_in(&lane));
        assert_eq!(
            judge.standing(&uploaded),
            Standing::UnderWay,
            "not sealed yet, and not to be taken for garbage"
        );
        bench.status = Arc::default();
        // The drain may end a collection before its last delete; the next owner's first round finds what is left.
        let mut of_epoch_1 = usize::MAX;
        for _ in 0..5 {
            drain_with_checkpoint(&bench).await;
            let segments = list(&bench, "segments").await;
            of_epoch_1 = segments.into_iter().filter(|o| o.contains("/0000000001-")).count();
            if of_epoch_1 == 0 {
                break;
            }
            bench.status = Arc::default();
        }
        let left = survey_of(&bench).await;
        assert_eq!(of_epoch_1, 0, "the claim has filled the slot that it was for: {left:?}");

        slow.thaw.notify_one();
        let error = older.await.expect("no panic").expect_err("the older one is fenced");
        assert!(matches!(error, EngineError::Fenced { .. }), "{error}");
        let extra: Vec<u64> = bench.table.world.lock().expect("no panic").ids().into_keys().collect();
        bench.assert_holds(extra.iter().copied());
        assert_eq!(extra.iter().filter(|id| **id < 100).count(), 100);
        // What it put under a retired number, if anything, goes with the next owner's first round.
        bench.status = Arc::default();
        drain_with_checkpoint(&bench).await;
        let left = list(&bench, "segments").await;
        assert!(left.iter().all(|o| !o.contains("/0000000001-")), "{left:?}");
    });
}

async fn list(bench: &Bench, kind: &str) -> Vec<String> {
    let mut pages = survey::Pages::new(&*bench.store, "p/lane-0", kind);
    let mut all = Vec::new();
    while let Some(page) = pages.next().await.expect("lists") {
        all.extend(page.into_iter().map(|entry| entry.key.as_str().to_owned()));
    }
    all
}

#[test]
fn leftovers_of_a_collection_that_failed_go_next_time() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.checkpoint_records_max = 4;
        let watched = Watched::new(bench.store.clone());
        bench.store = watched.clone();
        watched.no_deletes.store(true, Ordering::SeqCst);
        for round in 0..6 {
            bench.push(round * 100..round * 100 + 100);
            bench.drain().await.expect("a failed delete stops nothing");
        }
        let lane = bench.lane().await;
        let left = survey_of(&bench).await.of(Standing::Garbage);
        assert!(lane.newest_checkpoint.is_some() && left.objects > 10, "{left:?}");
        watched.no_deletes.store(false, Ordering::SeqCst);
        drain_with_checkpoint(&bench).await;
        let status = bench.status.snapshot().store.expect("a sweep");
        assert!(status.of(Standing::Garbage).objects <= 1, "all but the floor before this one: {status:?}");
        let journal = list(&bench, "journal").await;
        let floor = lane.newest_checkpoint.expect("just seen");
        assert!(
            journal.iter().all(|key| protocol::names::number(key).is_some_and(|n| n > floor)),
            "{journal:?}"
        );
    });
}

#[test]
fn what_replays_and_purges_have_left_is_counted_by_a_look_and_by_a_sweep() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.checkpoint_records_max = 4;
        bench.push(0..10);
        bench.drain().await.expect("drains");
        for kind in ["purged", "replayed", "replays"] {
            let key = Key::new(format!("p/lane-0/{kind}/00000000000000000001")).expect("a valid key");
            bench.store.put_if_absent(&key, vec![Bytes::from_static(b"abc")]).await.expect("puts");
        }
        bench.status = Arc::default();
        drain_with_checkpoint(&bench).await;
        let swept = bench.status.snapshot().store.expect("a sweep");
        for counted in [survey_of(&bench).await, swept] {
            for kind in ["purged", "replayed", "replays"] {
                let tally = counted.tallies.get(&(kind, Standing::Needed)).copied();
                assert_eq!(tally, Some(survey::Tally { objects: 1, bytes: 3 }), "{kind}");
            }
        }
    });
}

#[test]
fn an_ordinary_round_lists_nothing_and_leaves_little() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.checkpoint_records_max = 8;
        let watched = Watched::new(bench.store.clone());
        bench.store = watched.clone();
        let (stop, asked) = watch::channel(false);
        let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
        let mut checkpoints = std::collections::BTreeSet::new();
        let mut garbage_max = 0;
        for id in 0..300u64 {
            bench.push([id]);
            wait_until(|| bench.table.world.lock().expect("no panic").ids().len() as u64 > id).await;
            if id % 30 == 29 {
                let lane = bench.lane().await;
                checkpoints.extend(lane.newest_checkpoint);
                garbage_max = garbage_max.max(survey_of(&bench).await.of(Standing::Garbage).objects);
            }
        }
        stop.send(true).expect("it runs");
        running.await.expect("no panic").expect("drains");
        let rounds = watched.counted("put", "floor");
        assert!(rounds >= 10, "{rounds} rounds");
        // The test's own looks list too: six folders' worth each, twice for the last page.
        let looks = 10 * 2;
        let listed: u64 =
            ["segments", "splits", "state"].iter().map(|kind| watched.counted("list", kind)).sum();
        assert!(listed <= 3 * (looks + 2 * (1 + rounds / 64)), "{listed} listings in {rounds} rounds");
        // Between two rounds: the records since the last floor and the segments that they settled, twice over at most
        // (a round may run beside the look).
        assert!(garbage_max <= 60, "{garbage_max} objects of garbage");
        bench.assert_holds(0..300);
    });
}
