use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use store::MemoryStore;

use super::*;
use crate::acks::Acknowledger;
use crate::owner::Owner;
use crate::partition::{Edit, LogPartition};
use crate::support::{TestRuntime, append, owner, partition_in, read_from};

const HOUR_MS: u64 = 3_600_000;

struct Bench {
    partition: LogPartition,
    runtime: std::sync::Arc<TestRuntime>,
    owner: Owner,
}

/// A log of `objects` objects with one record each, an hour apart.
async fn bench(objects: u64) -> Bench {
    let runtime = TestRuntime::new();
    let partition = partition_in(std::sync::Arc::new(MemoryStore::default()), runtime.clone());
    let owner = owner(&partition).await;
    for number in 0..objects {
        runtime.wall_ms.store(1_000_000 + HOUR_MS * number, Ordering::Relaxed);
        owner.appender().append(append(None, &number.to_string())).await.expect("appends");
    }
    Bench { partition, runtime, owner }
}

impl Bench {
    /// Passes until nothing is left to do, each written into the root as the owner would; returns how many objects went.
    async fn collect(&self, retention: &Retention) -> usize {
        let mut deleted = 0;
        loop {
            let root = self.partition.root().await.unwrap().root;
            let pass = collect(&self.partition, &root, retention, u64::MAX).await.expect("collects");
            deleted += pass.deleted;
            if let Some(low) = pass.low {
                self.partition.edit(Edit::Truncate(low)).await.expect("edits");
            }
            if let Some((to, bytes)) = pass.cleaned {
                self.partition.edit(Edit::Cleaned(to, bytes)).await.expect("edits");
            }
            if pass.low.is_none() && !pass.is_more && pass.cleaned.is_none() {
                return deleted;
            }
        }
    }

    async fn stored(&self) -> usize {
        let mut count = 0;
        for folder in [self.partition.names().data(), self.partition.names().segments()] {
            list(&self.partition, &folder, |_| count += 1).await.expect("lists");
        }
        count
    }
}

#[tokio::test]
async fn what_all_consumers_have_acknowledged_goes_with_its_segments_and_nothing_else() {
    let bench = bench(300).await;
    let by_acks = Retention { acknowledged: true, ..Retention::default() };
    assert_eq!(bench.collect(&by_acks).await, 0, "without a consumer nothing goes");
    let queue = bench.owner.root().queue_id();
    let mut first = Acknowledger::claim(bench.partition.clone(), "first", queue).await.expect("claims");
    let mut second = Acknowledger::claim(bench.partition.clone(), "second", queue).await.expect("claims");
    first.acknowledge(250).await.expect("acknowledges");
    assert_eq!(bench.collect(&by_acks).await, 0, "the second has not begun");
    second.acknowledge(200).await.expect("acknowledges");
    // 200 objects, and the four segments of 48 that lie wholly below.
    assert_eq!(bench.collect(&by_acks).await, 204);
    let records = read_from(&bench.partition, 200).await;
    assert_eq!((records.len(), records[0].clone()), (100, (200, "200".to_owned())));
    let root = bench.partition.root().await.unwrap().root;
    assert_eq!((root.low, root.cleaned), (200, 200));
    assert_eq!(
        root.bytes,
        root.spans().map(|span| span.bytes).sum::<u64>() - {
            // The segment that is held in part still counts what went of it.
            let part = bench.partition.entries_from(&root, 192).await.unwrap();
            part.iter().filter(|entry| entry.end() <= 200).map(|entry| entry.bytes).sum::<u64>()
        }
    );
    // The owner goes on, for an edit of another fences nobody.
    bench.owner.appender().append(append(None, "more")).await.expect("appends");
}

#[tokio::test]
async fn age_and_bytes_let_go_of_what_nobody_has_acknowledged() {
    let bench = bench(200).await;
    bench.runtime.wall_ms.store(1_000_000 + 200 * HOUR_MS, Ordering::Relaxed);
    let by_age = Retention {
        age_max: Some(Duration::from_millis(100 * HOUR_MS + HOUR_MS / 2)),
        ..Retention::default()
    };
    bench.collect(&by_age).await;
    assert_eq!(bench.partition.root().await.unwrap().root.low, 100);
    let one = bench.owner.root().tail[0].bytes;
    let by_bytes = Retention { bytes_max: Some(10 * one), ..Retention::default() };
    bench.collect(&by_bytes).await;
    let root = bench.partition.root().await.unwrap().root;
    assert_eq!(root.low, 190);
    assert_eq!(read_from(&bench.partition, root.low).await.len() as u64, 200 - root.low);
}

/// A segment of which a part is deleted still counts that part, and the log does not.
#[tokio::test]
async fn as_many_bytes_stay_as_are_to_be_kept_whatever_was_deleted_of_a_segment_before() {
    let bench = bench(200).await;
    let one = bench.owner.root().tail[0].bytes;
    for (kept, low) in [(100, 100), (60, 140), (50, 150), (49, 151)] {
        let by_bytes = Retention { bytes_max: Some(kept * one), ..Retention::default() };
        bench.collect(&by_bytes).await;
        let root = bench.partition.root().await.unwrap().root;
        assert_eq!((root.low, root.cleaned, root.bytes), (low, low, kept * one));
    }
}

/// A crash behind each step: what was deleted and not recorded is deleted again.
#[tokio::test]
async fn a_pass_that_was_not_recorded_is_made_again() {
    let bench = bench(120).await;
    bench.partition.edit(Edit::Truncate(110)).await.expect("edits");
    let root = bench.partition.root().await.unwrap().root;
    let first = collect(&bench.partition, &root, &Retention::default(), u64::MAX).await.expect("collects");
    let again = collect(&bench.partition, &root, &Retention::default(), u64::MAX).await.expect("collects");
    assert_eq!((first.cleaned.map(|c| c.0), again.cleaned.map(|c| c.0)), (Some(110), Some(110)));
    assert_eq!(first.cleaned, again.cleaned, "and counts the same bytes");
    assert_eq!(bench.stored().await, 10);
    assert_eq!(read_from(&bench.partition, 110).await.len(), 10);
}

/// A crash behind the delete of a segment of which a part was deleted, and counted, before.
#[tokio::test]
async fn a_pass_that_is_made_again_takes_no_bytes_off_twice() {
    let bench = bench(120).await;
    bench.partition.edit(Edit::Truncate(10)).await.expect("edits");
    bench.collect(&Retention::default()).await;
    bench.partition.edit(Edit::Truncate(60)).await.expect("edits");
    let root = bench.partition.root().await.unwrap().root;
    assert!(root.cleaned == 10 && !root.levels.is_empty(), "the first ten are in a segment");
    let first = collect(&bench.partition, &root, &Retention::default(), u64::MAX).await.expect("collects");
    assert_eq!(first.deleted, 51, "fifty objects, and the segment of the first 48");
    let again = collect(&bench.partition, &root, &Retention::default(), u64::MAX).await.expect("collects");
    assert_eq!(again.cleaned, first.cleaned);
    let (to, bytes) = again.cleaned.expect("all below the low");
    bench.partition.edit(Edit::Cleaned(to, bytes)).await.expect("edits");
    let root = bench.partition.root().await.unwrap().root;
    let (mut at, mut held) = (to, 0);
    while at < root.next {
        let entries = bench.partition.entries_from(&root, at).await.expect("reads");
        held += entries.iter().map(|entry| entry.bytes).sum::<u64>();
        at = entries.last().expect("not the end").end();
    }
    assert_eq!((to, root.bytes), (60, held));
}

#[tokio::test]
async fn a_sweep_takes_what_earlier_owners_left_and_spares_the_log_and_the_present_owner() {
    let bench = bench(100).await;
    let (root, names) = (bench.owner.root(), bench.partition.names());
    let partition = &bench.partition;
    let put = |key: Key| async move {
        partition.store().put_if_absent(&key, vec![Bytes::from_static(b"x")]).await.expect("puts");
    };
    let first = root.claim();
    let next = owner(&bench.partition).await;
    let second = next.root().claim();
    let written = |epoch, run, number| Written { epoch, run, number };
    let queue = root.queue_id();
    put(names.object(queue, written(first.epoch, first.run, 100))).await;
    put(names.segment(queue, written(first.epoch, first.run, 55))).await;
    put(names.object(QueueId(5), written(9, 9, 9))).await;
    let kept = names.object(queue, written(second.epoch, second.run, 7));
    put(kept.clone()).await;
    let before = bench.stored().await;
    let swept = sweep(&bench.partition, second).await.expect("sweeps");
    // The owner's own first sweep may have been quicker with some.
    assert!(swept.deleted <= 3 && before - bench.stored().await <= 3);
    assert_eq!(bench.partition.store().get(&kept, 10).await.unwrap().as_deref(), Some(&b"x"[..]));
    for gone in [
        names.object(queue, written(first.epoch, first.run, 100)),
        names.segment(queue, written(first.epoch, first.run, 55)),
        names.object(QueueId(5), written(9, 9, 9)),
    ] {
        assert_eq!(bench.partition.store().get(&gone, 10).await.unwrap(), None, "{gone}");
    }
    assert_eq!(read_from(&bench.partition, 0).await.len(), 100);
    let error = sweep(&bench.partition, first).await;
    assert!(
        !matches!(error, Ok(Collected { deleted: 1.., .. })),
        "an earlier owner deletes nothing: {error:?}"
    );
}

#[tokio::test]
async fn what_the_log_holds_takes_no_place_in_a_sweep() {
    let bench = bench(130).await;
    let (root, names) = (bench.owner.root(), bench.partition.names());
    assert!(!root.levels.is_empty(), "some are in segments");
    let first = root.claim();
    // Behind all that the log has, in the order of names.
    for number in [500, 501] {
        let orphan = Written { epoch: first.epoch, run: first.run, number };
        for key in [names.object(root.queue_id(), orphan), names.segment(root.queue_id(), orphan)] {
            bench.partition.store().put_if_absent(&key, vec![Bytes::from_static(b"x")]).await.expect("puts");
        }
    }
    let next = bench.partition.claim("next").await.expect("claims").root.claim();
    let before = bench.stored().await;
    let sweep = async || sweep_some(&bench.partition, next, 3).await.expect("sweeps").deleted;
    assert_eq!((sweep().await, sweep().await, sweep().await), (3, 1, 0), "the bound is one of orphans");
    assert_eq!(bench.stored().await, before - 4);
    assert_eq!(read_from(&bench.partition, 0).await.len(), 130);
}

#[tokio::test]
async fn a_low_within_an_object_does_not_keep_retention_from_going_on() {
    let bench = bench(1).await;
    let rows = crate::support::block(["a", "b", "c"]);
    let wide = crate::Append { producer: None, records: rows, packed: None, digest: None };
    bench.owner.appender().append(wide).await.expect("appends");
    for text in ["d", "e"] {
        bench.owner.appender().append(append(None, text)).await.expect("appends");
    }
    let by_acks = Retention { acknowledged: true, ..Retention::default() };
    let queue = bench.owner.root().queue_id();
    let mut consumer = Acknowledger::claim(bench.partition.clone(), "one", queue).await.expect("claims");
    consumer.acknowledge(2).await.expect("acknowledges");
    assert_eq!(bench.collect(&by_acks).await, 1, "the object that is acknowledged in part stays");
    consumer.acknowledge(5).await.expect("acknowledges");
    assert_eq!(bench.collect(&by_acks).await, 2);
    let root = bench.partition.root().await.unwrap().root;
    assert_eq!((root.low, root.cleaned, root.next), (5, 5, 6));
}

#[tokio::test]
async fn what_is_pinned_stays_whoever_drops_it() {
    let bench = bench(10).await;
    let all = Retention { bytes_max: Some(0), ..Retention::default() };
    let pass = async |pinned| {
        let root = bench.partition.root().await.unwrap().root;
        collect(&bench.partition, &root, &all, pinned).await.expect("collects")
    };
    assert_eq!((pass(4).await.low, pass(0).await.low), (Some(4), None));
    // An operator's word is not retention's: its records are dropped, and their objects stay until they are not pinned.
    bench.partition.edit(Edit::Truncate(8)).await.expect("edits");
    assert_eq!(pass(0).await, Collected::default());
    assert_eq!(pass(4).await.cleaned.map(|(to, _)| to), Some(4));
    assert_eq!(bench.stored().await, 6);
    let labels = async |position| {
        let root = bench.partition.root().await.unwrap().root;
        let note = crate::Note { position, body: Vec::new() };
        crate::labels::since(&bench.partition, &root, &crate::Found { note, gone_below: 0 }, |_| {}).await
    };
    bench.partition.edit(Edit::Cleaned(4, 0)).await.expect("edits");
    labels(4).await.expect("they are dropped, and can be read");
    assert!(matches!(labels(3).await, Err(LogError::Truncated { position: 3, low: 4, .. })));
}
