//! What the tests of this crate share: a runtime, blocks, and partitions in a store in memory. Built for tests alone.
//!
//! Owns these helpers. Does not own a store that fails by chance, or several processes at once: `tests/simulation.rs` has both.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use dataflow::{BlockBuilder, Effect, Partition, RecordBlock, Runtime, Task};
use futures::future::BoxFuture;
use store::{ErrorKind, Key, MemoryStore, Operation, Prefix, Put, Store, StoreError, Swap, Tag};
use tokio::sync::{Barrier, Semaphore};

use crate::decide::Retention;
use crate::entry::Entry;
use crate::names::QueueId;
use crate::object::Append;
use crate::owner::{Owner, Settings};
use crate::partition::LogPartition;
use crate::reader::{LogReader, Read};
use crate::root::{Claim, Draft, Newest, ROOT_BYTES_MAX, Root};

/// tokio's clock and threads, and a wall clock that a test moves.
pub(crate) struct TestRuntime {
    began: Instant,
    pub wall_ms: AtomicU64,
    passed_us: AtomicU64,
    drawn: AtomicU64,
}

#[allow(clippy::disallowed_methods, reason = "the seam itself, for tests")]
impl TestRuntime {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            wall_ms: AtomicU64::new(1_000_000),
            passed_us: AtomicU64::new(0),
            drawn: AtomicU64::new(1),
        })
    }

    /// So much more of the process's own time has passed; the wall clock does not show it.
    pub(crate) fn pass(&self, time: Duration) {
        self.passed_us.fetch_add(time.as_micros() as u64, Ordering::Relaxed);
    }
}

#[allow(clippy::disallowed_methods, reason = "the seam itself, for tests")]
impl Runtime for TestRuntime {
    fn wall_ms(&self) -> i64 {
        self.wall_ms.load(Ordering::Relaxed) as i64
    }

    fn elapsed(&self) -> Duration {
        self.began.elapsed() + Duration::from_micros(self.passed_us.load(Ordering::Relaxed))
    }

    fn begin_ms(&self) -> i64 {
        1_000_000
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }

    fn spawn(&self, _name: &'static str, task: BoxFuture<'static, ()>) -> Task {
        let handle = tokio::spawn(task);
        Task::new(move || handle.abort())
    }

    fn compute(&self, job: Box<dyn FnOnce() + Send>) {
        tokio::task::spawn_blocking(job);
    }

    fn compute_threads(&self) -> usize {
        2
    }

    fn random(&self) -> u128 {
        u128::from(self.drawn.fetch_add(1, Ordering::Relaxed)) * 0x1_0001_0001
    }
}

pub(crate) fn partition_in(store: Arc<dyn Store>, runtime: Arc<TestRuntime>) -> LogPartition {
    LogPartition::new(store, &Prefix::new("log").unwrap(), 0, runtime).unwrap()
}

pub(crate) fn partition() -> LogPartition {
    partition_in(Arc::new(MemoryStore::default()), TestRuntime::new())
}

/// Short waits, and no housekeeping that the test has not asked for.
pub(crate) fn quick() -> Settings {
    Settings {
        linger_min: Duration::ZERO,
        linger_max: Duration::from_millis(2),
        retention: Retention::default(),
        collect_every: Duration::from_secs(3_600),
        look_every: Duration::from_secs(3_600),
        ..Settings::default()
    }
}

pub(crate) fn block<'a>(texts: impl IntoIterator<Item = &'a str>) -> RecordBlock {
    let mut builder = BlockBuilder::new(Partition::new("any", 0), 0);
    for (row, text) in texts.into_iter().enumerate() {
        builder.push(row as u64, row as i64, Some(text.as_bytes()));
    }
    builder.take()
}

pub(crate) fn append(producer: Option<(u128, u64)>, text: &str) -> Append {
    Append { producer, records: block([text]), packed: None, digest: None }
}

/// A draft of one row, as object `number` of the first owner.
pub(crate) fn draft(claim: Claim, number: u64, producers: &[(u128, u64)]) -> Draft {
    let entry = Entry {
        epoch: claim.epoch,
        run: claim.run,
        number,
        rows: 2,
        bytes: 100,
        raw_bytes: 300,
        crc32c: 7,
        time_min_ms: -5,
        time_max_ms: 9,
        appends: 1,
        ..Entry::default()
    };
    let newest = |&(id, ordinal)| (id, Newest { ordinal, digest: None });
    Draft { entry, producers: producers.iter().map(newest).collect() }
}

pub(crate) fn root() -> Root {
    Root::created(QueueId(0xabcd), 77, "host 1", 1_000)
}

/// All records from `from` on.
pub(crate) async fn read_from(partition: &LogPartition, from: u64) -> Vec<(u64, String)> {
    let queue = partition.root().await.unwrap().root.queue_id();
    let mut reader =
        LogReader::open(partition.clone(), Partition::new("log", 0), queue, from).await.expect("opens");
    let mut records = Vec::new();
    while let Read::Block(block) = reader.next().await.expect("reads") {
        for row in 0..block.len() {
            let text = String::from_utf8(block.payloads.get(row).to_vec()).unwrap();
            records.push((block.positions[row], text));
        }
    }
    records
}

pub(crate) async fn owner(partition: &LogPartition) -> Owner {
    Owner::start(partition.clone(), "test", quick()).await.expect("claims")
}

/// What a get is to answer.
type Got = Result<Option<Bytes>, StoreError>;

/// A store that lists and deletes only as often as it may, and does what else a test has asked for.
#[derive(Debug)]
pub(crate) struct Gated {
    inner: MemoryStore,
    lists: Semaphore,
    pub deletes: Semaphore,
    /// Has a permit for each delete that was asked for.
    pub asked: Semaphore,
    /// Deletes are not allowed.
    pub refuses_deletes: AtomicBool,
    /// So many puts are told that their object is there, which it is no longer.
    pub gone: AtomicUsize,
    /// So many swaps are not done, and their answers are lost.
    pub doubts: AtomicUsize,
    /// So many swaps are refused, whatever tag they name.
    pub refusals: AtomicUsize,
    /// Every swap is refused, whatever tag it names.
    pub refuses_swaps: AtomicBool,
    /// So many swaps come behind one of somebody else.
    pub rivals: AtomicUsize,
    /// How often a register was read.
    pub reads: AtomicUsize,
    /// Where gets wait for each other, once it is set.
    pub meeting: OnceLock<Barrier>,
    /// What the next gets answer, whatever is stored.
    pub gets: Mutex<VecDeque<Got>>,
}

impl Gated {
    pub(crate) fn new(lists: usize) -> Arc<Self> {
        let [lists, deletes, asked] = [lists, 0, 0].map(Semaphore::new);
        Arc::new(Self {
            inner: MemoryStore::default(),
            lists,
            deletes,
            asked,
            refuses_deletes: AtomicBool::new(false),
            gone: AtomicUsize::new(0),
            doubts: AtomicUsize::new(0),
            refusals: AtomicUsize::new(0),
            refuses_swaps: AtomicBool::new(false),
            rivals: AtomicUsize::new(0),
            reads: AtomicUsize::new(0),
            meeting: OnceLock::new(),
            gets: Mutex::default(),
        })
    }
}

/// Takes one off, if there is one.
fn is_one_of(left: &AtomicUsize) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

#[async_trait::async_trait]
impl Store for Gated {
    async fn put_if_absent(&self, key: &Key, body: Vec<Bytes>) -> Result<Put, StoreError> {
        if is_one_of(&self.gone) {
            return Ok(Put::Exists);
        }
        self.inner.put_if_absent(key, body).await
    }

    async fn get(&self, key: &Key, bytes_max: u64) -> Got {
        if let Some(meeting) = self.meeting.get() {
            meeting.wait().await;
        }
        let next = self.gets.lock().expect("no test panics with it").pop_front();
        match next {
            Some(next) => next,
            None => self.inner.get(key, bytes_max).await,
        }
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Got {
        self.inner.get_range(key, range).await
    }

    async fn list(
        &self,
        prefix: &Prefix,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<store::Entry>, StoreError> {
        self.lists.acquire().await.expect("never closed").forget();
        self.inner.list(prefix, after, limit).await
    }

    async fn delete(&self, key: &Key) -> Result<(), StoreError> {
        if self.refuses_deletes.load(Ordering::Relaxed) {
            return Err(StoreError::new(ErrorKind::Permission, Operation::Delete, key, "it is not allowed"));
        }
        self.asked.add_permits(1);
        self.deletes.acquire().await.expect("never closed").forget();
        self.inner.delete(key).await
    }

    async fn read_register(&self, key: &Key, bytes_max: u64) -> Result<Option<(Bytes, Tag)>, StoreError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.inner.read_register(key, bytes_max).await
    }

    async fn compare_and_set(
        &self,
        key: &Key,
        expected: Option<&Tag>,
        body: Bytes,
    ) -> Result<Swap, StoreError> {
        if is_one_of(&self.doubts) {
            let error = StoreError::new(ErrorKind::Io, Operation::Put, key, "it answered 503 `SlowDown`");
            return Err(error.with_effect(Effect::Unknown));
        }
        if self.refuses_swaps.load(Ordering::Relaxed) || is_one_of(&self.refusals) {
            return Ok(Swap::Refused);
        }
        if is_one_of(&self.rivals) {
            let found = self.inner.read_register(key, ROOT_BYTES_MAX).await?;
            let (bytes, tag) = found.expect("a test has created the root");
            let mut root = Root::from_bytes(&bytes).expect("it is whole");
            root.revision += 1;
            self.inner.compare_and_set(key, Some(&tag), Bytes::from(root.to_bytes())).await?;
        }
        self.inner.compare_and_set(key, expected, body).await
    }

    async fn harden(&self, prefix: &Prefix) -> Result<(), StoreError> {
        self.inner.harden(prefix).await
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}
