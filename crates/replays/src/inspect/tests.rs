use std::sync::Arc;

use store::{Key, MemoryStore, Store};

use super::super::purged::Purged;
use super::super::tests::{partition, replay};
use super::*;

/// A lane that stands at `next` of the log.
fn lane(next: u64) -> Lane {
    Lane { partitions: vec![partition(next)], ..Lane::new() }
}

/// A log of three objects, and a snapshot.
async fn world() -> (Arc<MemoryStore>, Log) {
    let store = Arc::new(MemoryStore::default());
    let log = Log::new(store.clone(), "p/lane-0");
    for (first, count) in [(0, 2), (2, 3), (5, 1)] {
        assert!(log.append(&replay(first, 10 * first..10 * first + count, 1)).await.expect("room"));
    }
    let bytes = Snapshot { end: 2, ..Snapshot::default() }.to_bytes();
    store.put_if_absent(&log.key("replayed", 2), vec![bytes.into()]).await.expect("a put");
    (store, log)
}

async fn found(log: &Log, next: u64) -> (u64, Vec<String>) {
    let Inspected { objects, findings } = inspect(log, &lane(next)).await.expect("the store answers");
    (objects, findings.into_iter().map(|f| format!("{}: {}", f.object, f.what)).collect())
}

async fn flip(store: &MemoryStore, key: &Key) {
    let mut bytes = store.get(key, 1 << 20).await.expect("reads").expect("is there").to_vec();
    bytes[17] ^= 1;
    store.delete(key).await.expect("deletes");
    store.put_if_absent(key, vec![bytes.into()]).await.expect("puts");
}

#[tokio::test]
async fn a_sound_log_is_read_whole_and_what_was_retired_is_not_missed() {
    let (store, log) = world().await;
    assert_eq!(found(&log, 3).await, (4, vec![]));
    assert_eq!(
        inspect(&log, &Lane::new()).await.expect("reads").findings,
        [],
        "no record of it was read yet"
    );
    store.delete(&log.key("replays", 0)).await.expect("deletes");
    assert_eq!(found(&log, 2).await, (3, vec![]));
}

#[tokio::test]
async fn a_damaged_and_a_missing_object_are_named() {
    let (store, log) = world().await;
    flip(&store, &log.key("replays", 2)).await;
    flip(&store, &log.key("replayed", 2)).await;
    let (objects, names) = found(&log, 0).await;
    assert_eq!((objects, names.len()), (3, 2), "{names:?}");
    assert!(names[0].starts_with("p/lane-0/replays/00000000000000000002: is damaged"), "{names:?}");
    assert!(names[1].starts_with("p/lane-0/replayed/00000000000000000002: is damaged"), "{names:?}");

    let (store, log) = world().await;
    store.delete(&log.key("replays", 2)).await.expect("deletes");
    let (_, names) = found(&log, 1).await;
    assert_eq!(names.len(), 1);
    assert!(names[0].starts_with("p/lane-0/replays/00000000000000000002: missing"), "{names:?}");
    assert_eq!(found(&log, 5).await.1, [""; 0], "it was read before it went");
}

#[tokio::test]
async fn what_is_remembered_of_purges_is_verified_too() {
    let (store, log) = world().await;
    log.remember_purged(&Purged::default()).await.expect("puts");
    assert_eq!(found(&log, 3).await, (5, vec![]));
    flip(&store, &log.key("purged", 1)).await;
    let (_, names) = found(&log, 3).await;
    assert_eq!(names.len(), 1);
    assert!(names[0].starts_with("p/lane-0/purged/00000000000000000001: is damaged"), "{names:?}");
}
