//! A claimant against an owner that writes faster than it, and an owner whose own record is in its way.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use engine::TokioRuntime;
use engine::journal::Journal;
use engine::ownership::Ownership;
use futures::future::BoxFuture;
use protocol::record::{Body, Genesis, Settle};
use store::{Entry, Key, MemoryStore, Prefix, Put, Store, StoreError};
use tokio::sync::{Mutex, Notify};

use crate::support::AroundPuts;

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

/// Hangs once, when it is told to.
#[derive(Default)]
struct Hang {
    is_due: AtomicBool,
    hanging: Notify,
}

impl Hang {
    fn around(self: &Arc<Self>) -> impl Fn(&Key) -> BoxFuture<'static, ()> + use<> {
        let hang = self.clone();
        move |_| {
            let hang = hang.clone();
            Box::pin(async move {
                if hang.is_due.swap(false, Ordering::SeqCst) {
                    hang.hanging.notify_one();
                    std::future::pending::<()>().await;
                }
            })
        }
    }
}

/// A table that asks the operator leaves its other inserts, one of which may be appending; the other tables go on with the journal.
#[tokio::test]
async fn a_record_whose_writer_was_ended_before_the_answer_is_not_taken_for_another_owners() {
    // One put is not answered: it has not been made yet, or it has.
    let (before, behind) = (Arc::new(Hang::default()), Arc::new(Hang::default()));
    let store = AroundPuts::new(Arc::new(MemoryStore::default()));
    let store = Arc::new(store.before(before.around()).behind(behind.around()));
    let (runtime, pause) = (TokioRuntime::new(1), Duration::from_millis(10));
    let claim = Journal::claim(store.clone(), runtime, FOLDER.into(), "one".into(), pause);
    let mut journal = claim.await.expect("an empty lane");
    let genesis = Genesis { pipeline: "p".into(), ..Genesis::default() };
    journal.append(Body::Genesis(genesis)).await.expect("a genesis");
    for (hang, input) in [(before, "a"), (behind, "b")] {
        let seq = journal.lane().next_seq;
        hang.is_due.store(true, Ordering::SeqCst);
        tokio::select! {
            biased;
            appended = journal.append(Body::Settle(Settle::default())) => panic!("no answer was given: {appended:?}"),
            () = hang.hanging.notified() => {}
        }
        let genesis = Genesis { inputs: vec![input.into()], ..Genesis::default() };
        let appended = journal.append(Body::Genesis(genesis)).await.expect("nobody else owns the lane");
        assert_eq!(appended, seq + 1, "the record that was left has its number");
        assert!(!journal.ownership().is_fenced());
        let lane = engine::journal::load(&*store, FOLDER).await.expect("the journal is whole");
        assert_eq!((lane.next_seq, lane.input(input)), (seq + 2, journal.lane().input(input)));
    }
}

/// A machine that is set back to a snapshot, with the process in it, or a copy of it that runs beside the first: its memory names the same claim, and the
/// frames that it takes for unsent were sent by what it does not know of.
#[tokio::test]
async fn a_process_that_was_set_back_to_a_moment_from_before_completes_no_insert() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let (runtime, pause) = (TokioRuntime::new(1), Duration::from_millis(10));
    let claim = Journal::claim(store.clone(), runtime, FOLDER.into(), "one".into(), pause);
    let mut journal = claim.await.expect("an empty lane");
    let genesis = Genesis { pipeline: "p".into(), ..Genesis::default() };
    journal.append(Body::Genesis(genesis)).await.expect("a genesis");
    let owner = journal.ownership();
    let copy = Ownership::new(store, FOLDER.into(), owner.nonce().to_vec(), owner.next_seq());
    for (appended, is_owner) in [(0, true), (1, true), (2, false), (3, false)] {
        let found = copy.look().await.expect("the store answers");
        assert_eq!(found, is_owner, "{appended} records more; one may be its own, on its way");
        assert!(owner.look().await.expect("the store answers"));
        journal.append(Body::Settle(Settle::default())).await.expect("nobody else owns the lane");
    }
}
