use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use store::MemoryStore;

use super::*;
use crate::collect;
use crate::decide::Retention;
use crate::object::Append;
use crate::owner::Appended;
use crate::partition::Edit;
use crate::support::{TestRuntime, append, block, owner, partition, partition_in};

fn labelled(id: u128, tag: u64, texts: &[&str]) -> Append {
    Append {
        producer: Some(label(id, tag)),
        records: block(texts.iter().copied()),
        packed: None,
        digest: None,
    }
}

async fn read_since(partition: &LogPartition, root: &Root, since_ms: i64) -> Vec<Label> {
    let mut labels = Vec::new();
    read(partition, root, since_ms, |label| labels.push(label)).await.unwrap();
    labels
}

#[tokio::test]
async fn labels_are_read_back_with_their_positions() {
    let partition = partition();
    let first = owner(&partition).await;
    let appender = first.appender();
    appender.append(append(None, "plain")).await.unwrap();
    appender.append(append(Some((7, 0)), "counted")).await.unwrap();
    let at = appender.append(labelled(11, 5, &["a", "b"])).await.unwrap();
    assert_eq!(at, Appended::At(2));
    drop(appender);
    first.close().await.unwrap();

    let later = owner(&partition).await;
    // A label is no ordinal: nothing is known by it, and as many as there are take no place in the root.
    later.appender().append(labelled(11, 5, &["again"])).await.unwrap();
    let root = later.root();
    assert_eq!(root.producers.len(), 1);
    let found = read_since(&partition, &root, 0).await;
    let found: Vec<_> = found.iter().map(|label| (label.id, label.tag, label.first, label.rows)).collect();
    assert_eq!(found, [(11, 5, 2, 2), (11, 5, 4, 1)]);
}

#[tokio::test]
async fn labels_of_one_object_and_of_segments_are_found_and_old_ones_are_not() {
    let runtime = TestRuntime::new();
    let partition = partition_in(Arc::new(MemoryStore::default()), runtime.clone());
    let owner = owner(&partition).await;
    for id in 1..=150u128 {
        // Some share an object, and there are more objects than the root has entries.
        let appends = (0..3).map(|n| {
            let appender = owner.appender();
            async move { appender.append(labelled(id * 10 + n, 0, &["x"])).await }
        });
        futures::future::try_join_all(appends).await.unwrap();
        runtime.wall_ms.fetch_add(1_000, Ordering::Relaxed);
    }
    let root = owner.root();
    assert!(!root.levels.is_empty(), "some of them are in segments");
    let all = read_since(&partition, &root, 0).await;
    assert_eq!(all.len(), 450);
    assert!(all.iter().enumerate().all(|(at, label)| label.first == at as u64), "one after the other");
    let since = root.stamp_ms - 10_000;
    let young = read_since(&partition, &root, since).await;
    assert!((30..=36).contains(&young.len()), "{}", young.len());
    assert!(young.iter().all(|label| label.stamp_ms >= since));
}

#[tokio::test]
async fn retention_keeps_labels_for_some_time_although_all_is_acknowledged() {
    let runtime = TestRuntime::new();
    let partition = partition_in(Arc::new(MemoryStore::default()), runtime.clone());
    let owner = owner(&partition).await;
    owner.appender().append(labelled(1, 0, &["old"])).await.unwrap();
    runtime.wall_ms.fetch_add(100_000, Ordering::Relaxed);
    owner.appender().append(labelled(2, 0, &["young"])).await.unwrap();
    let queue = owner.root().queue_id();
    let mut consumer = crate::acks::Acknowledger::claim(partition.clone(), "c", queue).await.expect("claims");
    consumer.acknowledge(2).await.unwrap();
    let root = partition.root().await.unwrap().root;
    let retention = |keep_min| Retention { acknowledged: true, keep_min, ..Retention::default() };
    let low = async |retention| collect::collect(&partition, &root, &retention, u64::MAX).await.unwrap().low;
    assert_eq!(low(retention(None)).await, Some(2));
    assert_eq!(low(retention(Some(Duration::from_secs(60)))).await, Some(1), "the young one stays");
    assert_eq!(low(retention(Some(Duration::from_secs(600)))).await, None);

    partition.edit(Edit::Truncate(1)).await.unwrap();
    let root = partition.root().await.unwrap().root;
    let left = read_since(&partition, &root, 0).await;
    assert_eq!(left.len(), 1, "what is below the low is not looked for: {left:?}");
}
