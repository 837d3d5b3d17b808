use store::MemoryStore;

use super::*;
use crate::puts::AroundPuts;
use crate::runtime::TokioRuntime;

/// A store that takes nothing for so many tries.
fn away(tries: u64) -> Arc<dyn Store> {
    let tries_left = AtomicU64::new(tries);
    Arc::new(AroundPuts::new(Arc::new(MemoryStore::default())).instead(move |key, _| {
        let is_away = tries_left.load(Ordering::Relaxed) > 0;
        tries_left.fetch_sub(u64::from(is_away), Ordering::Relaxed);
        let error = StoreError::new(ErrorKind::Io, Operation::Put, &key, "it is away");
        Box::pin(async move { is_away.then_some(Err(error)) })
    }))
}

/// An owner that has made a segment again which an earlier one sealed, and whose frame has waited for long.
fn successor(store: &Arc<MemoryStore>) -> Objects {
    let runtime: Arc<dyn Runtime> = TokioRuntime::new(1);
    let objects = Objects::new(store.clone(), runtime, "p/lane-0".into(), (2, 7), Duration::from_millis(1));
    let pieces = [&b"body"[..], b"", b"origins"].map(Bytes::from_static);
    objects.unwritten.hold("p/lane-0/segments/s", (0, 9), pieces.to_vec(), Duration::ZERO);
    objects
}

async fn put(store: &MemoryStore, bytes: &'static [u8]) {
    let key = Key::new("p/lane-0/segments/s").expect("a key");
    store.put_if_absent(&key, vec![Bytes::from_static(bytes)]).await.expect("a put");
}

#[tokio::test]
async fn a_segment_that_its_earlier_owner_has_written_meanwhile_counts_as_written() {
    let store = Arc::new(MemoryStore::default());
    let objects = successor(&store);
    put(&store, b"bodyorigins").await;
    objects.write_unwritten(Duration::ZERO).await.expect("it is there");
    assert!(objects.unwritten.due(Duration::ZERO).is_empty());
}

#[tokio::test]
async fn a_segment_that_holds_other_bytes_is_damaged() {
    for other in [&b"bodyorigin"[..], b"bodyoriginss", b"bodyOrigins", b""] {
        let store = Arc::new(MemoryStore::default());
        let objects = successor(&store);
        put(&store, other).await;
        let error = objects.write_unwritten(Duration::ZERO).await.expect_err("another's");
        assert!(error.to_string().contains("written by someone else"), "{error}");
    }
}

#[tokio::test]
async fn an_object_that_a_proxy_has_put_twice_counts_as_written() {
    let pieces = || [&b"body"[..], b"", b"origins"].map(Bytes::from_static).to_vec();
    for reader in [NextReader::Soon, NextReader::Start] {
        let store = Arc::new(MemoryStore::default());
        let objects = successor(&store);
        // The first of both came through, and the second is answered.
        put(&store, b"bodyorigins").await;
        objects.write("p/lane-0/segments/s", pieces(), reader).await.expect("it is this one");
    }
    for other in [&b"bodyorigin"[..], b"bodyoriginss", b"bodyOrigins", b""] {
        let store = Arc::new(MemoryStore::default());
        let objects = successor(&store);
        put(&store, other).await;
        let written = objects.write("p/lane-0/segments/s", pieces(), NextReader::Soon).await;
        let error = written.expect_err("another's");
        assert!(error.to_string().contains("other bytes"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn segments_that_are_left_are_written_before_the_lane_is_opened_for_other_columns() {
    for is_reopening in [false, true] {
        // Most of a minute, with pauses of up to a second.
        let store = away(50);
        let runtime: Arc<dyn Runtime> = TokioRuntime::new(1);
        let pause = Duration::from_secs(1);
        let objects = Objects::new(store.clone(), runtime, "p/lane-0".into(), (2, 7), pause);
        let pieces = vec![Bytes::from_static(b"body")];
        objects.unwritten.hold("p/lane-0/segments/s", (0, 9), pieces, Duration::ZERO);
        let written = objects.write_left(is_reopening, Duration::from_secs(5)).await;
        written.expect("a store that is away refuses nothing for good");
        let key = Key::new("p/lane-0/segments/s").expect("a key");
        let found = store.get(&key, 16).await.expect("it can be read");
        assert_eq!(found.is_some(), is_reopening, "the next start makes it again, with the same columns");
    }
}
