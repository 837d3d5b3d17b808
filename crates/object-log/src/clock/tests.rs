use std::sync::atomic::Ordering;
use std::time::Duration;

use store::MemoryStore;

use super::*;
use crate::acks::Acknowledger;
use crate::collect;
use crate::decide::Retention;
use crate::support::{TestRuntime, append, owner, partition_in};

const DAY_MS: u64 = 86_400_000;

/// Tests run for less than this, by the machine's own time.
const RUN_MS: i64 = 600_000;

#[test]
fn it_follows_the_wall_clock_and_goes_on_when_that_goes_back() {
    let runtime = TestRuntime::new();
    let clock = Clock::new(runtime.clone());
    let first = clock.now_ms();
    assert!((1_000_000..1_000_000 + RUN_MS).contains(&first), "{first}");
    runtime.wall_ms.fetch_add(DAY_MS, Ordering::Relaxed);
    let ahead = clock.now_ms();
    assert!(ahead >= 1_000_000 + DAY_MS as i64);
    runtime.wall_ms.fetch_sub(DAY_MS, Ordering::Relaxed);
    assert!((ahead..ahead + RUN_MS).contains(&clock.now_ms()), "it does not go back");
    runtime.pass(Duration::from_secs(3_600));
    let later = clock.clone().now_ms();
    assert!((ahead + 3_600_000..ahead + 3_600_000 + RUN_MS).contains(&later), "and does not stand still");
}

#[test]
fn it_goes_on_behind_a_stamp_and_loses_no_fractions() {
    let runtime = TestRuntime::new();
    let clock = Clock::new(runtime.clone());
    let stamp = 1_000_000 + DAY_MS as i64;
    assert!((stamp..stamp + RUN_MS).contains(&clock.behind(stamp)));
    for _ in 0..10_000 {
        runtime.pass(Duration::from_micros(700));
        clock.behind(stamp);
    }
    assert!(clock.now_ms() >= stamp + 7_000, "seven seconds have passed");
}

#[tokio::test]
async fn a_clock_that_was_ahead_once_does_not_stop_retention() {
    let runtime = TestRuntime::new();
    let partition = partition_in(Arc::new(MemoryStore::default()), runtime.clone());
    let first = owner(&partition).await;
    runtime.wall_ms.fetch_add(365 * DAY_MS, Ordering::Relaxed);
    first.appender().append(append(None, "ahead")).await.unwrap();
    runtime.wall_ms.fetch_sub(365 * DAY_MS, Ordering::Relaxed);
    first.appender().append(append(None, "right again")).await.unwrap();
    let queue = first.root().queue_id();
    let mut consumer = Acknowledger::claim(partition.clone(), "c", queue).await.expect("claims");
    consumer.acknowledge(2).await.expect("acknowledges");
    drop(first);

    // The next owner is another process: it knows the stamps, and the right time.
    let partition = partition_in(partition.store().clone(), runtime.clone());
    let next = owner(&partition).await;
    let root = next.root();
    let keep_min = Some(Duration::from_secs(3_600));
    let low = async |retention| collect::collect(&partition, &root, &retention, u64::MAX).await.unwrap().low;
    let acknowledged = Retention { acknowledged: true, keep_min, ..Retention::default() };
    let by_age = Retention { age_max: keep_min, ..Retention::default() };
    assert_eq!((low(acknowledged).await, low(by_age).await), (None, None), "they are young");
    runtime.pass(Duration::from_secs(2 * 3_600));
    assert_eq!((low(acknowledged).await, low(by_age).await), (Some(2), Some(2)), "two hours have passed");

    next.appender().append(append(None, "later")).await.unwrap();
    let stamps: Vec<i64> = next.root().tail.iter().map(|entry| entry.stamp_ms).collect();
    assert!(stamps.is_sorted() && stamps[2] >= stamps[1] + 7_200_000, "{stamps:?}");
}
