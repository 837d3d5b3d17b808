use std::ops::Range;
use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use dataflow::conformance::source::{self, Fixture};
use dataflow::{BlockBuilder, Event};
use object_log::partition::Edit;
use object_log::{Append, Owner, Settings};
use store::{ErrorKind, FileStore, Inline, Key, MemoryStore, Operation, Put, Tag};

use super::*;
use crate::test_runtime::TestRuntime;

struct LogFixture {
    source: LogSource,
    store: Arc<dyn Store>,
    runtime: Arc<TestRuntime>,
    folder: Option<testkit::TestDir>,
}

/// One for all, for what it draws must differ.
fn runtime() -> Arc<TestRuntime> {
    static RUNTIME: OnceLock<Arc<TestRuntime>> = OnceLock::new();
    RUNTIME.get_or_init(|| Arc::new(TestRuntime::new())).clone()
}

fn partition(store: &Arc<dyn Store>, index: u32) -> LogPartition {
    LogPartition::new(store.clone(), &Prefix::root(), index, runtime()).expect("a partition")
}

/// Appends records to a partition, as an owner that begins and ends.
async fn append(store: &Arc<dyn Store>, index: u32, bodies: &[Vec<u8>]) {
    let settings = Settings {
        object_bytes: 60,
        linger_min: Duration::ZERO,
        linger_max: Duration::from_millis(1),
        ..Settings::default()
    };
    let owner = Owner::start(partition(store, index), "test", settings).await.expect("claims");
    for body in bodies {
        let mut builder = BlockBuilder::new(Partition::new("any", 0), 0);
        builder.push(0, 7, Some(body));
        let records = builder.take();
        owner
            .appender()
            .append(Append { producer: None, records, packed: None, digest: None })
            .await
            .expect("appends");
    }
    owner.close().await.expect("ends");
}

fn bodies() -> Vec<Vec<u8>> {
    (0..40).map(|n| format!("{{\"n\":{n}}}").into_bytes()).collect()
}

fn source_of(store: &Arc<dyn Store>, runtime: &Arc<TestRuntime>) -> LogSource {
    let opened = store.clone();
    let options = LogOptions {
        open: Arc::new(move |_| Ok(Some(opened.clone()))),
        name: "orders".to_owned(),
        consumer: "pipeline".to_owned(),
        from_latest: false,
        ahead_bytes_max: 1 << 20,
    };
    LogSource::new(options, runtime.clone())
}

async fn fixture(store: Arc<dyn Store>, folder: Option<testkit::TestDir>) -> LogFixture {
    let runtime = runtime();
    for index in 0..3 {
        append(&store, index, &bodies()).await;
    }
    LogFixture { source: source_of(&store, &runtime), store, runtime, folder }
}

#[async_trait]
impl Fixture for LogFixture {
    fn source(&self) -> &dyn Source {
        &self.source
    }

    fn runtime(&self) -> Arc<dyn Runtime> {
        self.runtime.clone()
    }

    async fn append(&self, partition: &Partition, payload: &[u8]) -> bool {
        append(&self.store, partition.index, &[payload.to_vec()]).await;
        true
    }

    async fn forget(&self, partition: &Partition, position: Position) -> bool {
        let log = self::partition(&self.store, partition.index);
        log.edit(Edit::Truncate(position::low(position))).await.expect("edits");
        true
    }

    async fn recreate(&self, partition: &Partition) -> bool {
        let Some(folder) = &self.folder else { return false };
        std::fs::remove_dir_all(folder.path().join(format!("log/p/{}", partition.index))).expect("removes");
        append(&self.store, partition.index, &bodies()).await;
        true
    }

    async fn open(&self) -> Option<Partition> {
        append(&self.store, 3, &[]).await;
        Some(Partition::new("orders", 3))
    }
}

fn in_memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::default())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_conforms() {
    source::run(|| async { Box::new(fixture(in_memory(), None).await) as Box<dyn Fixture> }).await;
}

/// On local disk a partition can be deleted and made again behind the source's back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_is_made_anew_is_refused() {
    let folder = testkit::TestDir::new("log-source").expect("a folder");
    let store = FileStore::open(&folder.path().join("log"), Arc::new(Inline)).expect("a store");
    let mut made = fixture(Arc::new(store), None).await;
    made.folder = Some(folder);
    source::a_stream_made_anew_is_refused(&made).await;
}

#[tokio::test]
async fn what_is_published_is_acknowledged_and_a_later_run_fences_an_earlier() {
    let made = fixture(in_memory(), None).await;
    let (store, runtime) = (&made.store, &made.runtime);
    let orders = Partition::new("orders", 1);
    assert_eq!(made.source.published().await.expect("reads"), [], "looking has registered nothing");
    made.source.publish(&[(orders.clone(), 7)]).await.expect("acknowledges");
    made.source.publish(&[(orders.clone(), 5)]).await.expect("an earlier position changes nothing");
    assert_eq!(made.source.published().await.expect("reads"), [(orders.clone(), 7)]);
    let root = partition(store, 1).root().await.expect("reads").root;
    assert_eq!(root.consumers, ["pipeline"], "retention waits for it");

    let later = source_of(store, runtime);
    later.partitions().await.expect("looks");
    made.source.publish(&[(orders.clone(), 8)]).await.expect("who looks fences nobody");
    later.publish(&[(orders.clone(), 9)]).await.expect("acknowledges");
    let error = made.source.publish(&[(orders.clone(), 10)]).await.expect_err("fenced");
    assert_eq!(error.fault, SourceFault::Refused, "{error}");
    assert_eq!(later.published().await.expect("reads"), [(orders, 9)]);
}

#[tokio::test]
async fn a_partition_that_cannot_be_acknowledged_keeps_no_other_from_it() {
    let made = fixture(in_memory(), None).await;
    let key = partition(&made.store, 0).names().ack("pipeline");
    let swapped = made.store.compare_and_set(&key, None, b"damaged".to_vec().into()).await;
    assert!(matches!(swapped, Ok(store::Swap::Done(_))), "{swapped:?}");
    let positions = [0, 1, 2].map(|index| (Partition::new("orders", index), Position::from(7 + index)));
    for _ in 0..2 {
        let error = made.source.publish(&positions).await.expect_err("of one it is said");
        assert!(error.message.contains(key.as_str()), "{error}");
    }
    for index in [1, 2] {
        let log = partition(&made.store, index);
        let queue = log.root().await.expect("reads").root.queue_id();
        let at = acks::acknowledged(&log, "pipeline", queue).await.expect("reads");
        assert_eq!(at, Some(7 + u64::from(index)));
    }
}

/// Positions of a log mean nothing in one that was made anew under its name.
#[tokio::test]
async fn a_first_acknowledgement_never_hits_a_log_that_was_made_anew() {
    let folder = testkit::TestDir::new("log-source-anew").expect("a folder");
    let store = FileStore::open(&folder.path().join("log"), Arc::new(Inline)).expect("a store");
    let mut made = fixture(Arc::new(store), None).await;
    made.folder = Some(folder);
    let starts = made.source.partitions().await.expect("looks");
    let from = |start: &PartitionStart| ReadFrom {
        partition: start.partition.clone(),
        identity: start.identity.clone(),
        next: start.next,
        leader_epoch: start.leader_epoch,
    };
    let mut reader = made.source.read(vec![from(&starts[0])]).await.expect("reads");
    reader.add(from(&starts[1])).await.expect("reads");
    for partition in [starts[0].partition.clone(), starts[1].partition.clone()] {
        assert!(made.recreate(&partition).await);
        let error = made.source.publish(&[(partition, 7)]).await.expect_err("another log");
        assert_eq!(error.fault, SourceFault::Refused, "{error}");
        assert!(error.message.contains("was"), "{error}");
    }
    assert_eq!(made.source.published().await.expect("reads"), [], "nothing is acknowledged in the new one");
    let root = partition(&made.store, 0).root().await.expect("reads").root;
    assert!(root.consumers.is_empty(), "and nothing waits for this pipeline: {:?}", root.consumers);
}

#[tokio::test]
async fn a_log_that_is_not_there_is_refused_and_not_made() {
    let store = in_memory();
    let source = source_of(&store, &runtime());
    let error = source.partitions().await.expect_err("absent");
    assert_eq!(error.fault, SourceFault::Refused);
    assert!(error.message.contains("forebay log append"), "{error}");
    assert_eq!(store.read_register(&Key::new("p/0/root").expect("a key"), 10).await.expect("reads"), None);
}

/// As when a gateway creates its log while a pipeline that reads it starts.
#[tokio::test]
async fn a_partition_that_is_created_between_the_listing_and_the_read_is_found() {
    let made = fixture(in_memory(), None).await;
    let starts = made.source.partitions().await.expect("looks");
    append(&made.store, 3, &bodies()).await;
    let from = starts.iter().map(|start| source::at(start, start.next)).collect();
    let mut reader = made.source.read(from).await.expect("reads");
    loop {
        if let Event::Found(start) = reader.next().await.expect("reads") {
            assert_eq!((start.partition, start.next), (Partition::new("orders", 3), 0));
            return;
        }
    }
}

#[tokio::test]
async fn a_source_that_begins_at_the_end_sees_what_comes_later() {
    let made = fixture(in_memory(), None).await;
    let mut options = made.source.options.clone();
    options.from_latest = true;
    let source = LogSource::new(options, made.runtime.clone());
    let starts = source.partitions().await.expect("looks");
    assert_eq!((starts[0].next, starts[0].first), (40, 0));
    let from = |start: &PartitionStart| ReadFrom {
        partition: start.partition.clone(),
        identity: start.identity.clone(),
        next: start.next,
        leader_epoch: start.leader_epoch,
    };
    let mut reader = source.read(vec![from(&starts[0])]).await.expect("reads");
    append(&made.store, 0, &[b"later".to_vec()]).await;
    loop {
        if let Event::Block(block) = reader.next().await.expect("reads") {
            assert_eq!((block.positions[0], block.payloads.get(0)), (40, &b"later"[..]));
            return;
        }
    }
}

/// A store that does not answer for the roots of partitions while it is told so.
#[derive(Debug)]
struct Failing {
    inner: Arc<dyn Store>,
    fails: AtomicBool,
}

#[async_trait]
impl Store for Failing {
    async fn put_if_absent(&self, key: &Key, body: Vec<Bytes>) -> Result<Put, StoreError> {
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
    ) -> Result<Vec<store::Entry>, StoreError> {
        self.inner.list(prefix, after, limit).await
    }

    async fn delete(&self, key: &Key) -> Result<(), StoreError> {
        self.inner.delete(key).await
    }

    async fn read_register(&self, key: &Key, bytes_max: u64) -> Result<Option<(Bytes, Tag)>, StoreError> {
        if self.fails.load(Ordering::Relaxed) {
            return Err(StoreError::new(ErrorKind::Io, Operation::Get, key, "made to fail"));
        }
        self.inner.read_register(key, bytes_max).await
    }

    async fn harden(&self, prefix: &Prefix) -> Result<(), StoreError> {
        self.inner.harden(prefix).await
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

/// After an outage, what is read stands behind all that was said of it.
#[tokio::test]
async fn that_a_log_is_away_is_not_said_again_before_it_was_heard() {
    let made = fixture(in_memory(), None).await;
    let failing = Arc::new(Failing { inner: made.store.clone(), fails: AtomicBool::new(false) });
    let store: Arc<dyn Store> = failing.clone();
    let log = source_of(&store, &made.runtime);
    let starts = log.partitions().await.expect("looks");
    let mut reader =
        log.read(starts.iter().map(|start| source::at(start, 40)).collect()).await.expect("reads");
    failing.fails.store(true, Ordering::Relaxed);
    while let Ok(event) = reader.next().await {
        assert!(matches!(event, Event::CaughtUp { .. }), "all was read: {event:?}");
    }
    // Long enough for each partition to find out some times.
    made.runtime.sleep(Duration::from_secs(3)).await;
    failing.fails.store(false, Ordering::Relaxed);
    for index in 0..3 {
        append(&made.store, index, &[b"later".to_vec()]).await;
    }
    let (mut blocks, mut said) = (0, 0);
    while blocks < 3 {
        match reader.next().await {
            Ok(Event::Block(_)) => blocks += 1,
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.fault, SourceFault::Away, "{error}");
                said += 1;
            }
        }
    }
    assert!(said <= 1, "{said} times, and three partitions wait");
}
