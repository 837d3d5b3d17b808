use store::MemoryStore;

use super::*;
use crate::runtime::TokioRuntime;

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
