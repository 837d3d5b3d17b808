use super::*;
use crate::support::{Gated, TestRuntime, owner, partition, partition_in};

#[tokio::test]
async fn a_later_run_of_a_consumer_fences_the_earlier_and_positions_never_fall() {
    let partition = partition();
    owner(&partition).await.close().await.expect("ends");
    let queue = partition.root().await.unwrap().root.queue_id();
    assert_eq!(acknowledged(&partition, "reader", queue).await.unwrap(), None);
    let mut first = Acknowledger::claim(partition.clone(), "reader", queue).await.expect("claims");
    first.acknowledge(7).await.expect("acknowledges");
    first.acknowledge(3).await.expect("an earlier one changes nothing");
    assert_eq!(acknowledged(&partition, "reader", queue).await.unwrap(), Some(7));
    assert_eq!(partition.root().await.unwrap().root.consumers, ["reader"]);
    let mut second = Acknowledger::claim(partition.clone(), "reader", queue).await.expect("claims");
    assert_eq!(second.position(), 7, "goes on where the first was");
    let error = first.acknowledge(9).await.expect_err("fenced");
    assert!(matches!(error, LogError::ConsumerFenced { epoch: 2, .. }), "{error}");
    second.acknowledge(8).await.expect("acknowledges");
    let other = QueueId(1);
    assert_eq!(acknowledged(&partition, "reader", other).await.unwrap(), None, "of a log that was deleted");
    Acknowledger::claim(partition.clone(), "reader", other).await.expect_err("not this log");
}

/// A store that is read and takes no writes for a while is no other run of the consumer.
#[tokio::test(start_paused = true)]
async fn a_store_that_loses_many_answers_is_not_taken_for_another_run_of_the_consumer() {
    let store = Gated::new(0);
    let partition = partition_in(store.clone(), TestRuntime::new());
    let queue = partition.claim("test").await.expect("claims").root.queue_id();
    let doubts = |count: usize| store.doubts.store(count, std::sync::atomic::Ordering::Relaxed);
    doubts(50);
    let mut reader = Acknowledger::claim(partition.clone(), "reader", queue).await.expect("waits");
    doubts(50);
    reader.acknowledge(7).await.expect("waits");
    assert_eq!(acknowledged(&partition, "reader", queue).await.unwrap(), Some(7));

    // One that does not wait for so long says what the store said.
    doubts(50);
    let claimed = Acknowledger::claim(partition.clone().with_tries(4), "reader", queue).await;
    let error = claimed.expect_err("the store is away");
    assert!(error.is_transient() && error.to_string().contains("SlowDown"), "{error}");
}

/// A proxy or a lease that refuses every change for a while: another run would have left another value there.
#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_what_stands_there_is_not_taken_for_another_run_of_the_consumer() {
    let store = Gated::new(0);
    let partition = partition_in(store.clone(), TestRuntime::new());
    let queue = partition.claim("test").await.expect("claims").root.queue_id();
    let refusals = |count: usize| store.refusals.store(count, std::sync::atomic::Ordering::Relaxed);
    refusals(40);
    let mut reader = Acknowledger::claim(partition.clone(), "reader", queue).await.expect("waits");
    refusals(40);
    reader.acknowledge(7).await.expect("waits");
    assert_eq!(acknowledged(&partition, "reader", queue).await.unwrap(), Some(7));

    store.refuses_swaps.store(true, std::sync::atomic::Ordering::Relaxed);
    let stuck = reader.acknowledge(8).await.expect_err("it gives up");
    let claimed = Acknowledger::claim(partition.clone().with_tries(4), "reader", queue).await;
    for error in [stuck, claimed.expect_err("it gives up")] {
        let (text, key) = (error.to_string(), partition.names().ack("reader"));
        assert!(text.contains("nobody else has changed it") && text.contains(key.as_str()), "{text}");
    }
}

#[tokio::test]
async fn looking_at_a_log_changes_nothing() {
    let partition = partition();
    let owner = owner(&partition).await;
    owner.appender().append(crate::support::append(None, "x")).await.expect("appends");
    let before = partition.look().await.unwrap().unwrap();
    assert_eq!(crate::support::read_from(&partition, 0).await.len(), 1);
    crate::check::check(&partition).await.expect("checks");
    let after = partition.look().await.unwrap().unwrap();
    assert_eq!((before.root, before.tag), (after.root, after.tag), "L10");
    owner.appender().append(crate::support::append(None, "y")).await.expect("the owner is not fenced");
}

#[test]
fn fuzz_ack() {
    let ack = Ack { queue: vec![7; 16], epoch: 2, run: 9, position: 44, revision: 3 };
    testkit::Fuzz::new("log ack").example(ack.to_bytes()).memory_max(1 << 16, 200).run(3_000, |bytes| {
        let mut summed = bytes.to_vec();
        summed.truncate(bytes.len().saturating_sub(4));
        let crc = crc32c::crc32c(&summed);
        summed.extend_from_slice(&crc.to_le_bytes());
        if let Ok(ack) = Ack::from_bytes(&summed) {
            assert_eq!(Ack::from_bytes(&ack.to_bytes()).expect("reads"), ack);
        }
    });
}
