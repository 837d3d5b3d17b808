use futures::FutureExt;

use super::*;
use crate::conformance;

fn key(text: &str) -> Key {
    Key::new(text).expect("a key")
}

#[tokio::test]
async fn memory_conforms() {
    conformance::run(|| Arc::new(MemoryStore::default())).await;
}

#[tokio::test]
async fn a_full_store_refuses_and_has_room_again_after_a_delete() {
    let store = MemoryStore::new(10);
    assert_eq!(
        store.put_if_absent(&key("a"), vec![Bytes::from_static(&[1; 8])]).await.expect("fits"),
        Put::Created
    );
    let error = store.put_if_absent(&key("b"), vec![Bytes::from_static(&[1; 3])]).await.expect_err("no room");
    assert_eq!((error.kind, error.effect), (ErrorKind::Full, dataflow::Effect::None));
    assert_eq!(store.bytes(), 8);
    store.delete(&key("a")).await.expect("deletes");
    assert_eq!(store.bytes(), 0);
    assert_eq!(
        store.put_if_absent(&key("b"), vec![Bytes::from_static(&[1; 10])]).await.expect("fits"),
        Put::Created
    );
}

#[tokio::test]
async fn clones_share_their_content() {
    let store = MemoryStore::default();
    store.clone().put_if_absent(&key("a"), vec![]).await.expect("puts");
    assert_eq!(store.get(&key("a"), 0).await.expect("reads"), Some(Bytes::new()));
}

#[test]
fn threads_that_race_for_one_key_have_one_winner() {
    let store = MemoryStore::default();
    for round in 0..100 {
        let key = key(&format!("race/{round}"));
        let put = || {
            let put = store.put_if_absent(&key, vec![Bytes::from_static(b"x")]);
            put.now_or_never().expect("memory never waits").expect("puts")
        };
        let winners = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(put)).collect();
            threads.into_iter().map(|t| t.join().expect("no panic")).filter(|&p| p == Put::Created).count()
        });
        assert_eq!(winners, 1);
    }
}
