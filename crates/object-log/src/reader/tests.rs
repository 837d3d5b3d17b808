use store::{ErrorKind, Operation, StoreError};

use crate::error::LogError;
use crate::names::QueueId;
use crate::partition::Edit;
use crate::support::{Gated, TestRuntime, append, owner, partition, partition_in, read_from};

use super::*;

async fn open(partition: &LogPartition, queue: QueueId, from: u64) -> Result<LogReader, LogError> {
    LogReader::open(partition.clone(), Partition::new("log", 0), queue, from).await
}

#[tokio::test]
async fn positions_that_are_not_held_and_logs_that_are_others_are_refused() {
    let partition = partition();
    let owner = owner(&partition).await;
    for number in 0..10 {
        owner.appender().append(append(None, &number.to_string())).await.expect("appends");
    }
    let queue = owner.root().queue_id();
    let mut running = open(&partition, queue, 0).await.expect("opens");
    partition.edit(Edit::Truncate(4)).await.expect("edits");
    assert!(matches!(open(&partition, queue, 3).await, Err(LogError::Truncated { low: 4, .. })));
    assert!(matches!(open(&partition, queue, 11).await, Err(LogError::Beyond { next: 10, .. })));
    assert!(matches!(open(&partition, QueueId(1), 5).await, Err(LogError::Recreated { .. })));
    assert_eq!(read_from(&partition, 4).await.len(), 6);
    // One that runs goes on with what it still finds, or is told.
    let Read::Block(block) = running.next().await.expect("was there") else { panic!("there are records") };
    assert_eq!(block.positions[0], 0);
}

#[tokio::test]
async fn a_reader_at_the_end_sees_what_comes_later() {
    let partition = partition();
    let owner = owner(&partition).await;
    let mut reader = open(&partition, owner.root().queue_id(), 0).await.expect("opens");
    assert!(matches!(reader.next().await.expect("reads"), Read::CaughtUp(0)));
    owner.appender().append(append(None, "later")).await.expect("appends");
    let Read::Block(block) = reader.next().await.expect("reads") else { panic!("there is a record") };
    assert_eq!((block.positions[0], block.payloads.get(0)), (0, &b"later"[..]));
    assert!(matches!(reader.next().await.expect("reads"), Read::CaughtUp(1)));
}

/// Each fetch waits for all others, which would never come if they came one after the other.
#[tokio::test]
#[allow(clippy::disallowed_methods, reason = "a test waits no longer than this for what must end")]
async fn objects_are_fetched_side_by_side_and_read_in_order() {
    let store = Gated::new(0);
    let partition = partition_in(store.clone(), TestRuntime::new());
    let owner = owner(&partition).await;
    for number in 0..FETCHES_MAX {
        owner.appender().append(append(None, &number.to_string())).await.expect("appends");
    }
    assert_eq!(owner.root().tail.len(), FETCHES_MAX, "an object each");
    store.meeting.set(tokio::sync::Barrier::new(FETCHES_MAX)).expect("it is set once");
    let reading = read_from(&partition, 0);
    let read = tokio::time::timeout(std::time::Duration::from_secs(60), reading).await.expect("they meet");
    let expected: Vec<_> = (0..FETCHES_MAX).map(|number| (number as u64, number.to_string())).collect();
    assert_eq!(read, expected);
}

#[tokio::test]
async fn a_missing_object_is_an_error_that_names_it() {
    let partition = partition();
    let owner = owner(&partition).await;
    owner.appender().append(append(None, "x")).await.expect("appends");
    let root = owner.root();
    let key = partition.names().object(root.queue_id(), root.tail[0].written());
    partition.store().delete(&key).await.expect("deletes");
    let mut reader = open(&partition, root.queue_id(), 0).await.expect("opens");
    let error = reader.next().await.expect_err("missing");
    assert!(error.to_string().contains(key.as_str()), "{error}");
    let (_, report) = crate::check::check(&partition).await.expect("checks");
    assert_eq!(report.finding_count, 1, "{report:?}");
}

/// A segment that is not found is looked for once more, behind the root; a store that is away then has lost nothing.
#[tokio::test]
async fn a_store_that_goes_away_behind_a_segment_that_was_not_found_is_no_damage() {
    let store = Gated::new(1_000);
    let partition = partition_in(store.clone(), TestRuntime::new());
    let owner = owner(&partition).await;
    for number in 0..70 {
        owner.appender().append(append(None, &number.to_string())).await.expect("appends");
    }
    let mut roots = owner.roots();
    drop(roots.wait_for(|root| !root.levels.is_empty()).await.expect("it runs"));
    let queue = owner.root().queue_id();
    let mut reader = open(&partition.clone().with_tries(2), queue, 0).await.expect("opens");
    let away = || Err(StoreError::new(ErrorKind::Io, Operation::Get, "log", "it is away"));
    store.gets.lock().expect("no test panics with it").extend([Ok(None), away(), away()]);
    let error = reader.next().await.expect_err("the store is away");
    assert!(error.is_transient() && !error.is_damage(), "{error}");
    let Read::Block(block) = reader.next().await.expect("reads") else { panic!("there are records") };
    assert_eq!(block.positions[0], 0);
}

/// An object is unpacked frame by frame: a small one that holds much does not fill the reader's memory.
#[tokio::test]
async fn what_an_object_holds_raw_is_not_unpacked_at_once() {
    let partition = partition();
    let settings =
        crate::Settings { linger_min: std::time::Duration::from_millis(200), ..crate::support::quick() };
    let owner = crate::Owner::start(partition.clone(), "test", settings).await.expect("claims");
    let text = "x".repeat(5 << 20);
    let appends: Vec<_> = (0..20).map(|_| append(None, &text)).collect();
    let appender = owner.appender();
    for answer in futures::future::join_all(appends.into_iter().map(|append| appender.append(append))).await {
        answer.expect("appends");
    }
    let root = owner.root();
    assert!(root.tail[0].raw_bytes > 50 << 20, "{:?}", root.tail);
    let mut reader = open(&partition, root.queue_id(), 0).await.expect("opens");
    for position in 0..20 {
        let Read::Block(block) = reader.next().await.expect("reads") else { panic!("there are records") };
        assert_eq!((block.positions[0], block.payloads.get(0).len()), (position, 5 << 20));
        assert!(reader.unpacked_bytes <= UNPACKED_BYTES_MAX, "{}", reader.unpacked_bytes);
    }
    assert!(matches!(reader.next().await.expect("reads"), Read::CaughtUp(20)));
    assert_eq!((reader.ahead_bytes, reader.unpacked_bytes), (0, 0));
}
