use store::{FileStore, Inline, MemoryStore};

use super::*;
use crate::patient::Patient;
use crate::runtime::TokioRuntime;

/// `store` as a lane has it: its reads wait, and are counted.
fn lanes(store: Arc<dyn Store>) -> (Arc<dyn Store>, Arc<Status>) {
    let (runtime, status) = (TokioRuntime::new(1), Arc::new(Status::default()));
    let measured = Arc::new(Measured::new(store, runtime.clone(), status.clone()));
    (Arc::new(Patient::new(measured, runtime, Duration::from_secs(1))), status)
}

fn gets(status: &Status) -> (u64, u64, u64) {
    let told = status.snapshot().store_requests["get"].clone();
    (told.requests, told.bytes, told.errors)
}

#[tokio::test]
async fn many_ranges_of_a_file_are_one_request_and_of_an_object_as_many_as_there_are() {
    let folder = std::env::temp_dir().join(format!("forebay-measured-{}", std::process::id()));
    let disk = FileStore::open(&folder, Arc::new(Inline)).unwrap();
    let object = Key::new("lane/runs/1").unwrap();
    let ranges = [3..5, 0..1, 7..10_u64];
    for (store, requests) in [(Arc::new(disk) as Arc<dyn Store>, 1), (Arc::new(MemoryStore::new(1 << 20)), 3)]
    {
        let (store, status) = lanes(store);
        store.put_if_absent(&object, vec![Bytes::from_static(b"0123456789")]).await.unwrap();
        let found = store.get_ranges(&object, &ranges).await.unwrap().unwrap();
        assert_eq!(found, [&b"34"[..], b"0", b"789"]);
        assert_eq!(gets(&status), (requests, 6, 0));
        assert_eq!(store.get_ranges(&Key::new("lane/runs/2").unwrap(), &ranges).await.unwrap(), None);
        assert_eq!(gets(&status), (2 * requests, 6, 0));
        store.get_ranges(&object, &[0..1, 9..11, 2..3]).await.unwrap_err();
        assert_eq!(gets(&status), (3 * requests, 6, 1));
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn a_full_store_is_full_until_it_takes_an_object_as_large_again() {
    let (store, status) = lanes(Arc::new(MemoryStore::new(100)));
    let state = || status.snapshot().problems.get(STORE).map(|problem| problem.state);
    let key = |n: u32| Key::new(format!("lane/segments/{n}")).unwrap();
    let body = |bytes: usize| vec![Bytes::from(vec![0; bytes])];
    store.put_if_absent(&key(1), body(60)).await.unwrap();
    store.put_if_absent(&key(2), body(60)).await.unwrap_err();
    assert_eq!(state(), Some(State::StoreFull), "told at once");
    // It can be read, and small objects still fit: neither makes room for a segment.
    store.get(&key(1), 1_000).await.unwrap();
    assert_eq!(state(), Some(State::StoreFull));
    store.put_if_absent(&key(3), body(5)).await.unwrap();
    assert_eq!(state(), Some(State::StoreFull));
    store.delete(&key(1)).await.unwrap();
    assert_eq!(state(), Some(State::StoreFull), "that there is room is known once it is used");
    store.put_if_absent(&key(2), body(60)).await.unwrap();
    assert_eq!(state(), None);
}
