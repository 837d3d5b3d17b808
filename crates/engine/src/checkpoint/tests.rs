use std::ops::Range;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use protocol::names;
use protocol::record::{Genesis, PartitionGenesis, Record, TableGenesis};
use store::{Entry, Key, MemoryStore, Prefix, Put, Store, StoreError};

use super::*;
use crate::runtime::TokioRuntime;

const FOLDER: &str = "p/lane-0";

/// A store that never answers the first put of a record, though it has done it.
#[derive(Debug)]
struct SilentOnce {
    inner: MemoryStore,
    key: Key,
    was_silent: AtomicBool,
}

#[async_trait]
impl Store for SilentOnce {
    async fn put_if_absent(&self, key: &Key, body: Vec<Bytes>) -> Result<Put, StoreError> {
        let put = self.inner.put_if_absent(key, body).await;
        if *key == self.key && !self.was_silent.swap(true, Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        put
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

fn genesis() -> Body {
    Body::Genesis(Genesis {
        partitions: vec![PartitionGenesis { stream: "e".into(), leader_epoch: -1, ..Default::default() }],
        tables: vec![TableGenesis::of_rows("d.t"), TableGenesis::of_dead_letters("d.dead")],
        pipeline: "p".into(),
        inputs: vec!["source".into()],
        opened: vec![0],
        ..Default::default()
    })
}

/// A lane may end while a record is on its way, and a checkpoint is written beside it: what the record says is in the image, or a start from the checkpoint would never
/// know of it.
#[tokio::test]
async fn a_checkpoint_has_what_a_record_says_that_was_left_on_its_way() {
    let key = Key::new(names::journal(FOLDER, 1)).expect("a key");
    let store =
        Arc::new(SilentOnce { inner: MemoryStore::default(), key, was_silent: AtomicBool::new(false) });
    let runtime: Arc<dyn Runtime> = TokioRuntime::new(1);
    let pause = Duration::from_millis(1);
    let journal = Journal::claim(store.clone(), runtime.clone(), FOLDER.to_owned(), "test".to_owned(), pause);
    let mut journal = journal.await.expect("claims");
    let left = runtime.timeout(Duration::from_millis(20), journal.append(genesis())).await;
    assert!(left.is_none(), "nobody answers");

    let objects = Objects::new(store.clone(), runtime.clone(), FOLDER.to_owned(), (1, 7), pause);
    let (journal, status) = (Arc::new(Mutex::new(journal)), Arc::<Status>::default());
    let checkpoints = Checkpoints::new(runtime, Arc::new(objects), journal, status, &Settings::default());
    checkpoints.write(0, Snapshots::default()).await.expect("writes");

    let key = Key::new(names::journal(FOLDER, 2)).expect("a key");
    let bytes = store.get(&key, 1 << 20).await.expect("reads").expect("it is the next record");
    let Some(Body::Checkpoint(checkpoint)) = Record::from_bytes(2, &bytes).expect("a record").body else {
        panic!("a checkpoint")
    };
    let image = checkpoint.lane.expect("an image");
    assert_eq!((image.partitions.len(), image.tables.len()), (1, 2));
}
