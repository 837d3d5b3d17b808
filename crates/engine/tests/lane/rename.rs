//! A pipeline that gets another name, with a crash behind every write.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use engine::rename::{Plan, RenameError, Request};
use engine::{EngineError, Outcome, Pipeline};
use store::{Entry, ErrorKind, Key, Operation, Prefix, Put, Store, StoreError};
use tokio::sync::watch;

use crate::run;
use crate::start::{set_away, until_it_ends};
use crate::support::{Bench, LONG, Process};

/// A store whose process ends at one of its writes: that one and all later ones fail, the first perhaps after it was done.
#[derive(Debug)]
pub struct Mortal {
    pub inner: Arc<dyn Store>,
    pub writes_left: AtomicU64,
    pub last_is_done: bool,
}

impl Mortal {
    fn ended(operation: Operation) -> StoreError {
        StoreError::new(ErrorKind::NotSupported, operation, "x", "the process has ended")
    }

    /// Whether the process ends with this write.
    fn dies(&self, operation: Operation) -> Result<bool, StoreError> {
        match self.writes_left.load(Ordering::SeqCst) {
            0 => Err(Self::ended(operation)),
            left => {
                self.writes_left.store(left - 1, Ordering::SeqCst);
                Ok(left == 1)
            }
        }
    }
}

#[async_trait]
impl Store for Mortal {
    async fn put_if_absent(&self, key: &Key, body: Vec<Bytes>) -> Result<Put, StoreError> {
        match self.dies(Operation::Put)? {
            true if !self.last_is_done => Err(Self::ended(Operation::Put)),
            true => self.inner.put_if_absent(key, body).await.and(Err(Self::ended(Operation::Put))),
            false => self.inner.put_if_absent(key, body).await,
        }
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
        match self.dies(Operation::Delete)? {
            true if !self.last_is_done => Err(Self::ended(Operation::Delete)),
            true => self.inner.delete(key).await.and(Err(Self::ended(Operation::Delete))),
            false => self.inner.delete(key).await,
        }
    }

    async fn harden(&self, prefix: &Prefix) -> Result<(), StoreError> {
        self.inner.harden(prefix).await
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

async fn rename_in(bench: &Bench, store: Arc<dyn Store>, from: &str, to: &str) -> Result<Plan, RenameError> {
    let request = Request {
        from: from.into(),
        to: to.into(),
        lane: 0,
        by: "test".into(),
        quiet_min: Duration::from_millis(20),
    };
    engine::rename::rename(store, bench.runtime.clone(), &request).await
}

pub async fn rename(bench: &Bench, from: &str, to: &str) -> Result<Plan, RenameError> {
    rename_in(bench, bench.store.clone(), from, to).await
}

/// Reads what there is, under a name.
async fn drain(bench: &Bench, name: &str) -> Result<Outcome, EngineError> {
    until_it_ends(Pipeline { name: name.into(), ..bench.pipeline(true) }).await
}

/// Keys in the state, some of them in files and snapshots; rows in flight, one of them in doubt.
pub async fn busy() -> Bench {
    let mut bench = Bench::new();
    bench.settings.checkpoint_records_max = 4;
    bench.settings.checkpoint_bytes_min = 1;
    for n in 0..6 {
        bench.push(n * 20..n * 20 + 20);
        bench.drain_and_exit().await.expect("drains");
    }
    set_away(&bench, true);
    bench.push(120..300);
    let dies = Process::start(bench.pipeline(false));
    while bench.lane().await.counts.passed < 300 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    dies.kill().await;
    set_away(&bench, false);
    bench
}

pub async fn objects(bench: &Bench, folder: &str) -> Vec<String> {
    let prefix = Prefix::new(folder).expect("a folder");
    let listed = bench.store.list(&prefix, None, 1_000).await.expect("a store in memory");
    listed.into_iter().map(|entry| entry.key.as_str().to_owned()).collect()
}

pub fn is_refused(result: Result<Outcome, EngineError>, says: &str) {
    let error = result.expect_err("it is refused");
    assert!(matches!(error, EngineError::Mismatch(_)), "a person has to act: {error:?}");
    assert!(error.to_string().contains(says), "{error}");
}

#[test]
fn a_pipeline_goes_on_under_its_new_name_with_all_that_it_had() {
    run(async {
        let bench = busy().await;
        let pending = bench.lane().await.spool_frames();
        assert!(pending > 0, "rows are in flight");
        let plan = rename(&bench, "p", "q").await.expect("nobody runs it");
        assert_eq!(plan.inserts, pending);
        is_refused(drain(&bench, "p").await, "Write `pipeline: q` into the pipeline file");
        bench.push(250..350);
        drain(&bench, "q").await.expect("goes on");
        bench.assert_holds(0..350);
        let lane = engine::journal::load(&*bench.store, "q/lane-0").await.expect("sound");
        assert_eq!(
            (lane.counts.read, lane.counts.duplicates),
            (400, 50),
            "no record was read twice, and keys are known"
        );
        let left = objects(&bench, "p").await;
        assert!(
            left.iter().all(|object| object.contains("/journal/") || object.contains("/floor/")),
            "{left:?}"
        );
        // And once more, to the same effect; then on, and back.
        rename(&bench, "p", "q").await.expect("done already");
        rename(&bench, "q", "r").await.expect("nobody runs it");
        bench.push(350..360);
        drain(&bench, "r").await.expect("goes on");
        bench.assert_holds(0..360);
        let error = rename(&bench, "r", "p").await.expect_err("a name that is remembered");
        assert!(error.to_string().contains("`forebay delete FILE --yes`"), "{error}");
        let lane = engine::journal::load(&*bench.store, "r/lane-0").await.expect("sound");
        let former: Vec<&str> = lane.former_names.iter().map(|former| former.name.as_str()).collect();
        assert_eq!(former, ["p", "q"]);
    });
}

#[test]
fn a_rename_that_dies_at_any_write_is_finished_by_the_same_command_and_loses_and_doubles_nothing() {
    run(async {
        let mut deaths = 0;
        for write in 1u64.. {
            let last_is_done = write % 2 == 0;
            let bench = busy().await;
            let store =
                Mortal { inner: bench.store.clone(), writes_left: AtomicU64::new(write), last_is_done };
            if rename_in(&bench, Arc::new(store), "p", "q").await.is_ok() {
                break;
            }
            deaths += 1;
            // Whatever the moment, at most one of the names goes on.
            let new = engine::journal::load_any(&*bench.store, "q/lane-0").await.expect("sound");
            let old = engine::journal::load_any(&*bench.store, "p/lane-0").await.expect("sound");
            if old.renamed.is_some() {
                is_refused(drain(&bench, "p").await, "q");
            } else if write % 3 == 0 {
                drain(&bench, "p").await.expect("nothing has left yet");
            }
            let has_arrived = new.next_seq > 0 && new.arriving_from.is_none();
            if new.arriving_from.is_some() {
                is_refused(drain(&bench, "q").await, "`forebay rename FILE q --yes`");
            } else if has_arrived && write % 3 == 0 {
                bench.push(300..310);
                drain(&bench, "q").await.expect("it has all that it needs");
            }
            // The file may name either.
            let named = if write % 4 < 2 || new.arriving_from.is_none() { "p" } else { "q" };
            rename(&bench, named, "q").await.expect("the same command goes on");
            is_refused(drain(&bench, "p").await, "Write `pipeline: q`");
            bench.push(300..310);
            drain(&bench, "q").await.expect("goes on");
            bench.assert_holds(0..310);
            let report = engine::journal::load(&*bench.store, "q/lane-0").await.expect("sound");
            assert_eq!(report.counts.passed, 310, "write {write}");
        }
        assert!(deaths > 8, "a crash at each of its writes: {deaths}");
    });
}

/// A service may have kept a part of a copy whose put broke off. The originals are deleted once all is copied.
#[test]
fn a_copy_that_holds_other_bytes_is_named_before_anything_is_deleted() {
    run(async {
        let is_copy = |object: &&String| object.starts_with("q/") && object.contains("/segments/");
        for write in 1.. {
            let bench = busy().await;
            let (inner, writes_left) = (bench.store.clone(), AtomicU64::new(write));
            let store = Mortal { inner, writes_left, last_is_done: true };
            rename_in(&bench, Arc::new(store), "p", "q").await.expect_err("it dies before all is copied");
            let copies = objects(&bench, "q").await;
            let Some(copy) = copies.iter().find(is_copy) else { continue };
            let copy = Key::new(copy).expect("a key");
            let whole = bench.store.get(&copy, 1 << 20).await.expect("reads").expect("it was listed");
            bench.store.delete(&copy).await.expect("a store in memory");
            let part = whole.slice(..whole.len() / 2);
            bench.store.put_if_absent(&copy, vec![part]).await.expect("a store in memory");

            let before = objects(&bench, "p").await;
            let error = rename(&bench, "p", "q").await.expect_err("a part is there").to_string();
            assert!(error.contains(&format!("Delete `{copy}` from the store")), "{error}");
            let after = objects(&bench, "p").await;
            assert!(before.iter().all(|object| after.contains(object)), "{before:?} became {after:?}");
            bench.store.delete(&copy).await.expect("a store in memory");
            rename(&bench, "p", "q").await.expect("the same command goes on");
            drain(&bench, "q").await.expect("goes on");
            bench.assert_holds(0..300);
            return;
        }
    });
}

#[test]
fn a_name_that_is_taken_or_unknown_is_refused_and_nothing_is_written() {
    run(async {
        let bench = Bench::new();
        bench.push(0..10);
        drain(&bench, "p").await.expect("drains");
        let before = objects(&bench, "p").await;
        let error = rename(&bench, "x", "y").await.expect_err("no such pipeline");
        assert!(matches!(error, RenameError::NotThere { .. }), "{error}");
        let error = rename(&bench, "p", "p").await.expect_err("its own name");
        assert!(matches!(error, RenameError::Taken { .. }), "{error}");
        let other = Bench { store: bench.store.clone(), ..Bench::new() };
        other.push(0..10);
        drain(&other, "q").await.expect("drains");
        let error = rename(&bench, "p", "q").await.expect_err("another pipeline");
        assert!(matches!(error, RenameError::Taken { .. }), "{error}");
        assert_eq!(objects(&bench, "p").await, before);
    });
}

#[test]
fn an_owner_that_wakes_after_its_pipeline_was_renamed_writes_nothing() {
    run(async {
        let bench = Bench::new();
        bench.push(0..100);
        let (_stop, asked) = watch::channel(false);
        let owner = tokio::spawn(engine::run(bench.pipeline(false), asked));
        while bench.lane().await.counts.passed < 100 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // It settles what it has, and then writes nothing: it is not seen.
        while bench.lane().await.spool_frames() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let mut renamed = rename(&bench, "p", "q").await;
        for _ in 0..100 {
            if !matches!(renamed, Err(RenameError::Running)) {
                break;
            }
            renamed = rename(&bench, "p", "q").await;
        }
        renamed.expect("it stands still");
        bench.push(100..200);
        let ended = tokio::time::timeout(LONG, owner).await.expect("it ends");
        assert!(matches!(ended.expect("no panic"), Err(EngineError::Fenced { .. })));
        drain(&bench, "q").await.expect("goes on");
        bench.assert_holds(0..200);
    });
}
