//! A pipeline that is reset or deleted: no owner before that goes on, whatever it was doing, and a new one begins behind it.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use engine::journal::Journal;
use engine::remove::{RemoveError, Request, is_left_behind};
use engine::{EngineError, Outcome, Pipeline};
use protocol::record::{Body, Settle};
use protocol::{Lane, names};
use sources::memory::MemorySource;
use store::{Entry, Key, Prefix, Put, Store, StoreError};
use tokio::sync::Notify;

use crate::rename::{Mortal, busy, is_refused, objects, rename};
use crate::run;
use crate::start::until_it_ends;
use crate::support::{Bench, Process};

const FOLDER: &str = "p/lane-0";

/// A store whose process is suspended once, at its first put or at one of its lists of a whole pipeline.
#[derive(Debug)]
struct Suspended {
    inner: Arc<dyn Store>,
    /// Lists of a pipeline until it is suspended; below 0, a put suspends it.
    lists_left: AtomicI64,
    asleep: Notify,
    awake: Notify,
}

impl Suspended {
    fn at_list(inner: &Arc<dyn Store>, n: i64) -> Arc<Self> {
        let (asleep, awake) = (Notify::new(), Notify::new());
        Arc::new(Self { inner: inner.clone(), lists_left: AtomicI64::new(n), asleep, awake })
    }

    fn at_put(inner: &Arc<dyn Store>) -> Arc<Self> {
        Self::at_list(inner, -1)
    }

    async fn sleep(&self) {
        self.asleep.notify_one();
        self.awake.notified().await;
    }
}

#[async_trait]
impl Store for Suspended {
    async fn put_if_absent(&self, key: &Key, body: Vec<Bytes>) -> Result<Put, StoreError> {
        if self.lists_left.compare_exchange(-1, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            self.sleep().await;
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
        let is_whole = !prefix.as_str().contains('/') && after.is_none();
        let one_less = |left| (left > 0).then(|| left - 1);
        if is_whole && self.lists_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less) == Ok(1) {
            self.sleep().await;
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

async fn remove_in(bench: &Bench, store: Arc<dyn Store>) -> Result<(), RemoveError> {
    remove_after(bench, store, Duration::from_millis(100)).await
}

async fn remove_after(bench: &Bench, store: Arc<dyn Store>, quiet_min: Duration) -> Result<(), RemoveError> {
    engine::remove::remove(store, bench.runtime.clone(), &request("p", quiet_min)).await
}

fn request(pipeline: &str, quiet_min: Duration) -> Request {
    Request { pipeline: pipeline.into(), lane: 0, by: "test".into(), quiet_min, replays_end: 0 }
}

async fn remove(bench: &Bench) -> Result<(), RemoveError> {
    remove_in(bench, bench.store.clone()).await
}

#[test]
fn a_running_lane_says_where_the_replay_log_begins_that_it_reads() {
    run(async {
        let mut bench = Bench::new();
        bench.push(0..10);
        bench.drain_and_exit().await.expect("drains");
        assert_eq!(bench.status.snapshot().replays_from, 0);
        let of_seven = Request { replays_end: 7, ..request("p", Duration::from_millis(100)) };
        engine::remove::remove(bench.store.clone(), bench.runtime.clone(), &of_seven).await.expect("resets");
        prepare(&mut bench);
        bench.status = Arc::default();
        bench.drain_and_exit().await.expect("begins anew");
        assert_eq!(bench.status.snapshot().replays_from, 7);
    });
}

async fn claim(bench: &Bench) -> Journal {
    claim_of(bench, FOLDER).await
}

async fn claim_of(bench: &Bench, folder: &str) -> Journal {
    let pause = Duration::from_millis(10);
    let claimed =
        Journal::claim(bench.store.clone(), bench.runtime.clone(), folder.into(), "owner".into(), pause);
    claimed.await.expect("a sound journal")
}

/// The bench's pipeline under the name `q`.
fn named_q(bench: &Bench) -> Pipeline {
    Pipeline { name: "q".into(), ..bench.pipeline(true) }
}

/// Empties the table, and gives the source another group, as `reset` tells the operator to.
fn prepare(bench: &mut Bench) {
    bench.table.world.lock().expect("no panic").rows.clear();
    bench.source = Arc::new(MemorySource::new([("e", 2)]));
    bench.feed = bench.source.handle();
    bench.push(0..300);
}

/// The owner has slept since it wrote its last record, and wakes now: it looks, and it writes.
async fn is_fenced(mut owner: Journal) {
    assert!(!owner.ownership().look().await.expect("a store in memory"), "an insert would go on");
    let written = owner.append(Body::Settle(Settle::default())).await;
    assert!(matches!(written, Err(EngineError::Fenced { .. })), "{written:?}");
}

/// Only what fences the earlier owners is left.
async fn nothing_is_left(bench: &Bench) -> Lane {
    let lane = bench.lane().await;
    assert!(lane.is_removed() && !lane.has_run(), "{lane:?}");
    let left = objects(bench, "p").await;
    assert!(left.iter().all(|object| is_left_behind(&lane, FOLDER, object)), "{left:?}");
    assert_eq!(left.iter().filter(|object| object.contains("/journal/")).count(), 2, "{left:?}");
    lane
}

#[test]
fn an_owner_that_slept_through_a_removal_is_fenced_for_ever() {
    run(async {
        let mut bench = busy().await;
        let before = bench.lane().await;
        let (sleeper, one_more) = (claim(&bench).await, claim(&bench).await);
        remove(&bench).await.expect("nobody writes");
        let lane = nothing_is_left(&bench).await;
        assert!(lane.epoch > before.epoch + 2 && lane.next_seq > before.next_seq + 2, "{lane:?}");
        is_fenced(one_more).await;
        // A new pipeline of this name has gone far beyond the number that it would write next, and has retired it.
        prepare(&mut bench);
        for n in 0..6 {
            bench.push(300 + n * 20..320 + n * 20);
            bench.drain_and_exit().await.expect("begins anew");
        }
        let newest = bench.lane().await;
        assert!(newest.newest_checkpoint > lane.newest_checkpoint && newest.epoch > lane.epoch, "{newest:?}");
        is_fenced(sleeper).await;
        bench.push(420..440);
        bench.drain_and_exit().await.expect("nobody has written into its journal");
        bench.assert_holds(0..440);
    });
}

#[test]
fn an_owner_that_writes_refuses_a_removal_and_goes_on() {
    run(async {
        let bench = Bench::new();
        let runs = Process::start(bench.pipeline(false));
        let (feed, stop) = (bench.feed.clone(), Arc::new(AtomicU64::new(0)));
        let feeding = {
            let stop = stop.clone();
            tokio::spawn(async move {
                let mut id = 0;
                while stop.load(Ordering::SeqCst) == 0 {
                    let partition = dataflow::Partition::new("e", (id % 2) as u32);
                    feed.push(&partition, 1_000 + id as i64, id.to_string());
                    id += 1;
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                id
            })
        };
        while bench.lane().await.counts.passed < 20 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        // Longer than a busy machine keeps a writer waiting.
        let refused = remove_after(&bench, bench.store.clone(), Duration::from_secs(2)).await;
        assert!(matches!(refused, Err(RemoveError::Running)), "{refused:?}");
        stop.store(1, Ordering::SeqCst);
        let pushed = feeding.await.expect("no panic");
        while bench.lane().await.counts.passed < pushed {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert!(runs.kill().await.is_none(), "it was left alone");
    });
}

#[test]
fn an_idle_owner_that_runs_ends_when_its_pipeline_is_removed() {
    run(async {
        let bench = Bench::new();
        bench.push(0..50);
        let runs = Process::start(bench.pipeline(false));
        while bench.lane().await.spool_frames() > 0 || bench.lane().await.counts.passed < 50 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        // Its last settle may be a moment away.
        while matches!(remove(&bench).await, Err(RemoveError::Running)) {}
        bench.push(50..60);
        let ended = runs.ends().await;
        assert!(matches!(ended, Err(EngineError::Fenced { .. })), "{ended:?}");
        // It may have put a segment into the store meanwhile.
        remove(&bench).await.expect("nobody writes");
        nothing_is_left(&bench).await;
        bench.assert_holds(0..50);
    });
}

#[test]
fn a_removal_that_dies_at_any_write_is_finished_by_the_same_command() {
    run(async {
        let mut deaths = 0;
        for write in 1u64.. {
            let mut bench = busy().await;
            let sleeper = claim(&bench).await;
            let mortal = Mortal {
                inner: bench.store.clone(),
                writes_left: AtomicU64::new(write),
                last_is_done: write % 2 == 0,
            };
            let result = remove_in(&bench, Arc::new(mortal)).await;
            let lane = engine::journal::load_any(&*bench.store, FOLDER).await.expect("sound");
            // Whatever the moment, nobody begins anew beside objects of the earlier pipeline.
            match lane.removed {
                None => assert_eq!(lane.next_seq, sleeper.lane().next_seq, "nothing has changed"),
                Some(removed) if removed.is_done => {}
                Some(_) => is_refused(bench.drain().await, "`forebay reset FILE --yes`"),
            }
            if result.is_ok() {
                break;
            }
            deaths += 1;
            remove(&bench).await.expect("the same command goes on");
            nothing_is_left(&bench).await;
            is_fenced(sleeper).await;
            prepare(&mut bench);
            bench.drain().await.expect("begins anew");
            bench.assert_holds(0..300);
            assert_eq!(bench.lane().await.counts.passed, 300, "write {write}");
        }
        // Two records, a floor, and as many objects as the timing of the batches has made.
        assert!(deaths > 5, "a crash at each of its writes: {deaths}");
    });
}

/// Takes the record before the newest one out of the journal, and gives the newest one's owner.
async fn damage(bench: &Bench) -> Journal {
    // The floor is below all of these.
    let (_, middle, newest) = (claim(bench).await, claim(bench).await, claim(bench).await);
    let middle = names::journal(FOLDER, middle.lane().next_seq - 1);
    bench.store.delete(&Key::new(middle).expect("a valid name")).await.expect("a store in memory");
    let loaded = engine::journal::load_any(&*bench.store, FOLDER).await;
    assert!(matches!(loaded, Err(EngineError::Violation(_))), "{loaded:?}");
    newest
}

#[test]
fn a_damaged_pipeline_is_removed_and_fences_its_owners_too() {
    run(async {
        let mut bench = busy().await;
        let sleeper = damage(&bench).await;
        remove(&bench).await.expect("damage is a reason to remove it");
        let lane = nothing_is_left(&bench).await;
        assert!(lane.epoch > sleeper.lane().epoch && lane.next_seq > sleeper.lane().next_seq, "{lane:?}");
        is_fenced(sleeper).await;
        prepare(&mut bench);
        bench.drain().await.expect("begins anew");
        bench.assert_holds(0..300);

        // Of one whose every record is unreadable the names are left.
        let epoch = bench.lane().await.epoch;
        for record in objects(&bench, &format!("{FOLDER}/journal")).await {
            let key = Key::new(record).expect("it was listed");
            bench.store.delete(&key).await.expect("a store in memory");
            bench.store.put_if_absent(&key, vec!["no record".into()]).await.expect("room");
        }
        remove(&bench).await.expect("damage is a reason to remove it");
        let lane = nothing_is_left(&bench).await;
        assert!(lane.epoch >= epoch, "the newest segment's: {} and {epoch}", lane.epoch);
    });
}

#[test]
fn a_damaged_pipeline_whose_owner_writes_is_left_alone() {
    run(async {
        let bench = busy().await;
        let mut owner = damage(&bench).await;
        let over = Arc::new(AtomicU64::new(0));
        let until = over.clone();
        let writing = tokio::spawn(async move {
            while until.load(Ordering::SeqCst) == 0 {
                owner.append(Body::Settle(Settle::default())).await?;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Ok::<_, EngineError>(())
        });
        // Longer than a busy machine keeps a writer waiting; that it writes is seen at once.
        let refused = remove_after(&bench, bench.store.clone(), Duration::from_secs(10)).await;
        over.store(1, Ordering::SeqCst);
        assert!(matches!(refused, Err(RemoveError::Running)), "{refused:?}");
        writing.await.expect("no panic").expect("it was left alone");
    });
}

#[test]
fn a_store_that_cannot_be_read_is_no_reason_to_delete_anything() {
    run(async {
        let bench = busy().await;
        let before = objects(&bench, "p").await;
        let store =
            Mortal { inner: bench.store.clone(), writes_left: AtomicU64::new(0), last_is_done: false };
        let failed = remove_in(&bench, Arc::new(store)).await;
        assert!(matches!(failed, Err(RemoveError::Engine(EngineError::Store(_)))), "{failed:?}");
        assert_eq!(objects(&bench, "p").await, before);
    });
}

#[test]
fn a_name_that_was_deleted_takes_another_lane_and_its_owners_stay_fenced() {
    run(async {
        let mut bench = busy().await;
        // The pipeline `q` ran long ago, and somebody has it in a process that sleeps.
        let (source, feed) = (bench.source.clone(), bench.feed.clone());
        prepare(&mut bench);
        until_it_ends(named_q(&bench)).await.expect("drains");
        bench.table.world.lock().expect("no panic").rows.clear();
        (bench.source, bench.feed) = (source, feed);
        let sleeper = claim_of(&bench, "q/lane-0").await;
        let refused = rename(&bench, "p", "q").await.expect_err("the name is another's");
        assert!(refused.to_string().contains("`forebay delete FILE --yes`"), "{refused}");
        let request = request("q", Duration::from_millis(100));
        engine::remove::remove(bench.store.clone(), bench.runtime.clone(), &request).await.expect("idle");
        rename(&bench, "p", "q").await.expect("the name is free");
        is_fenced(sleeper).await;
        let ended = until_it_ends(named_q(&bench)).await;
        assert_eq!(ended.expect("goes on"), Outcome::Complete);
        let lane = engine::journal::load(&*bench.store, &names::lane_folder("q", 0)).await.expect("sound");
        assert_eq!((lane.counts.passed, lane.former_names.len()), (300, 1), "nothing was read again");
    });
}

#[test]
fn a_removal_that_slept_deletes_nothing_of_the_lane_that_took_the_name_meanwhile() {
    run(async {
        let bench = busy().await;
        // The name `q` has had more owners than the pipeline that takes it.
        for _ in 0..20 {
            claim_of(&bench, "q/lane-0").await;
        }
        let slow = Suspended::at_list(&bench.store, 2);
        let (store, runtime) = (slow.clone(), bench.runtime.clone());
        let request = request("q", Duration::from_millis(100));
        let first = tokio::spawn({
            let request = request.clone();
            async move { engine::remove::remove(store, runtime, &request).await }
        });
        slow.asleep.notified().await;
        engine::remove::remove(bench.store.clone(), bench.runtime.clone(), &request).await.expect("idle");
        rename(&bench, "p", "q").await.expect("the name is free");
        let before = objects(&bench, "q").await;
        slow.awake.notify_one();
        let ended = first.await.expect("no panic");
        assert!(matches!(ended, Err(RemoveError::Engine(EngineError::Fenced { .. }))), "{ended:?}");
        assert_eq!(objects(&bench, "q").await, before);
        assert_eq!(until_it_ends(named_q(&bench)).await.expect("goes on"), Outcome::Complete);
        bench.assert_holds(0..300);
    });
}

#[test]
fn a_start_that_a_removal_overtakes_begins_anew_or_is_refused() {
    run(async {
        // Before its claim it has seen the pipeline as it was.
        let mut bench = busy().await;
        prepare(&mut bench);
        let slow = Suspended::at_put(&bench.store);
        let starting = tokio::spawn(until_it_ends(Pipeline { store: slow.clone(), ..bench.pipeline(true) }));
        slow.asleep.notified().await;
        remove(&bench).await.expect("it has written nothing");
        slow.awake.notify_one();
        assert_eq!(starting.await.expect("no panic").expect("begins anew"), Outcome::Complete);
        bench.assert_holds(0..300);
        assert_eq!(bench.lane().await.counts.passed, 300);

        // Now the removal is not done when it claims.
        let slow = Suspended::at_put(&bench.store);
        let starting = tokio::spawn(until_it_ends(Pipeline { store: slow.clone(), ..bench.pipeline(true) }));
        slow.asleep.notified().await;
        let mortal =
            Mortal { inner: bench.store.clone(), writes_left: AtomicU64::new(2), last_is_done: true };
        remove_in(&bench, Arc::new(mortal)).await.expect_err("it dies behind its first two writes");
        slow.awake.notify_one();
        is_refused(starting.await.expect("no panic"), "`forebay reset FILE --yes`");
        remove(&bench).await.expect("the same command goes on");
        nothing_is_left(&bench).await;
    });
}
