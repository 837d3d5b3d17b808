use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;
use protocol::lane::PartitionState;
use protocol::record::Forgotten;
use store::{Entry, MemoryStore, Operation};

use super::object::{Letter, Replayed};
use super::*;

/// Letters at these positions of `events/0`, at `first` of the log.
pub(super) fn replay(first: u64, positions: impl IntoIterator<Item = u64>, nonce: u8) -> Replay {
    let record = |position: u64| Replayed {
        letter: Some(Letter::at("events", 0, position)),
        origin: format!("events/0/{position}"),
        time_ms: 1_000 + position as i64,
        body: Some(position.to_string().into_bytes()),
        ..Replayed::default()
    };
    let records = positions.into_iter().map(record).collect();
    Replay { first, nonce: vec![nonce; 16], records, ..Replay::default() }
}

/// The log as the partition of a lane that has read it up to `next`.
pub(crate) fn partition(next: u64) -> PartitionState {
    PartitionState {
        input: 0,
        stream: STREAM.into(),
        index: 0,
        identity: String::new(),
        next: next.into(),
        leader_epoch: -1,
        time_ms_max: 0,
        taken_over: None,
    }
}

pub(super) fn log() -> Log {
    Log::new(Arc::new(MemoryStore::default()), "p/lane-0")
}

#[test]
fn a_lane_stands_in_its_log_where_it_stopped_though_the_input_that_carries_the_log_is_forgotten() {
    let mut lane = Lane::new();
    assert_eq!(stands_at(&lane), None);
    lane.partitions.push(partition(7));
    lane.forgotten.insert(0, Forgotten { partition: 0, from_start: false, at_ms: 1 });
    assert_eq!(stands_at(&lane), Some(7));
    lane.partitions.push(PartitionState { stream: "events".into(), ..partition(3) });
    lane.partitions.push(partition(9));
    assert_eq!(stands_at(&lane), Some(9), "the newest one of the name");
}

#[tokio::test]
async fn of_two_writers_at_one_place_one_wins() {
    let log = log();
    assert!(log.append(&replay(0, [7, 9], 1)).await.expect("there is room"));
    assert!(!log.append(&replay(0, [7], 2)).await.expect("an answer"));
    assert!(log.append(&replay(2, [8], 2)).await.expect("there is room"));
    assert_eq!(log.begins().await.expect("names"), [0, 2]);
    assert_eq!(log.extent().await.expect("heads"), Some((0, 3)));
    assert_eq!(log.at(0).await.expect("sound"), Some(replay(0, [7, 9], 1)));
    assert_eq!(log.end_of(3).await.expect("an answer"), None);
}

#[tokio::test]
async fn a_writer_takes_back_its_own_object_alone() {
    let log = log();
    assert!(log.append(&replay(4, [7, 9], 1)).await.expect("there is room"));
    log.take_back(&replay(4, [7, 9], 2)).await.expect("an answer");
    assert_eq!(log.begins().await.expect("names"), [4], "another writer's");
    assert!(log.append(&replay(6, [8], 2)).await.expect("there is room"));
    log.take_back(&replay(4, [7, 9], 1)).await.expect("an answer");
    assert_eq!(log.begins().await.expect("names"), [4, 6], "it would leave a gap");
    log.take_back(&replay(6, [8], 2)).await.expect("an answer");
    log.take_back(&replay(4, [7, 9], 1)).await.expect("an answer");
    assert_eq!(log.begins().await.expect("names"), [0; 0]);
    log.take_back(&replay(4, [7, 9], 1)).await.expect("it is gone already");
}

#[tokio::test]
async fn a_damaged_object_is_named() {
    let store = Arc::new(MemoryStore::default());
    let key = Key::new("p/lane-0/replays/00000000000000000000").expect("a key");
    store.put_if_absent(&key, vec!["no replay at all, but long enough".into()]).await.expect("a put");
    let error = Log::new(store, "p/lane-0").at(0).await.expect_err("it is damaged").to_string();
    assert!(error.contains(key.as_str()) && error.contains("damaged"), "{error}");
}

/// A store that does not answer.
#[derive(Debug)]
struct Away;

impl Away {
    fn error() -> StoreError {
        StoreError::new(ErrorKind::Io, Operation::List, "p", "made to fail")
    }
}

#[async_trait]
impl Store for Away {
    async fn put_if_absent(&self, _key: &Key, _body: Vec<Bytes>) -> Result<Put, StoreError> {
        Err(Self::error())
    }

    async fn get(&self, _key: &Key, _bytes_max: u64) -> Result<Option<Bytes>, StoreError> {
        Err(Self::error())
    }

    async fn get_range(&self, _key: &Key, _range: Range<u64>) -> Result<Option<Bytes>, StoreError> {
        Err(Self::error())
    }

    async fn list(
        &self,
        _prefix: &Prefix,
        _after: Option<&Key>,
        _limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        Err(Self::error())
    }

    async fn delete(&self, _key: &Key) -> Result<(), StoreError> {
        Err(Self::error())
    }

    async fn harden(&self, _prefix: &Prefix) -> Result<(), StoreError> {
        Err(Self::error())
    }

    fn describe(&self) -> String {
        "away://".to_owned()
    }
}

#[tokio::test]
async fn a_reset_asks_for_the_end_of_the_log_until_the_store_says_it() {
    let log = log();
    assert_eq!(log.behind_all().await.expect("an answer"), 0);
    assert!(log.append(&replay(4, [7, 9], 1)).await.expect("there is room"));
    assert_eq!(log.behind_all().await.expect("an answer"), 6);
    let store = Arc::new(MemoryStore::default());
    let key = Key::new("p/lane-0/replays/00000000000000000004").expect("a key");
    store.put_if_absent(&key, vec!["no replay at all, but long enough".into()]).await.expect("a put");
    assert_eq!(Log::new(store, "p/lane-0").behind_all().await.expect("damage is no obstacle"), 4 + 4_096);
    // A log that begins at 0 again would give new letters the names of old ones.
    let error = Log::new(Arc::new(Away), "p/lane-0").behind_all().await.expect_err("nobody knows");
    assert!(matches!(error, LogError::Store(_)), "{error}");
}

/// A proxy that sends a put twice is told the second time that the object is there already.
#[tokio::test]
async fn an_object_of_this_writer_that_is_there_already_was_put_by_it() {
    let store = Arc::new(MemoryStore::default());
    let key = Key::new("p/lane-0/replays/00000000000000000004").expect("a key");
    let own = replay(4, [7, 9], 1);
    store.put_if_absent(&key, vec![own.to_bytes().into()]).await.expect("a put");
    let log = Log::new(store, "p/lane-0");
    assert!(log.append(&own).await.expect("an answer"));
    assert!(!log.append(&replay(4, [7, 9], 2)).await.expect("an answer"), "that of another writer");
}
