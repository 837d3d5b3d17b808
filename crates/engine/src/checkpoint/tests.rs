use std::time::Duration;

use protocol::names;
use protocol::record::{Genesis, PartitionGenesis, Record, TableGenesis};
use store::{Key, MemoryStore, Store};

use super::*;
use crate::puts::AroundPuts;
use crate::runtime::TokioRuntime;

const FOLDER: &str = "p/lane-0";

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
    // The genesis is put, and nobody is told so.
    let (key, was_silent) = (names::journal(FOLDER, 1), AtomicBool::new(false));
    let store = Arc::new(AroundPuts::new(Arc::new(MemoryStore::default())).behind(move |put| {
        let is_silent = put.as_str() == key && !was_silent.swap(true, Ordering::SeqCst);
        Box::pin(async move {
            if is_silent {
                std::future::pending::<()>().await;
            }
        })
    }));
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
