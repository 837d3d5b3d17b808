//! Faults found in other programs, by their numbers, and the document of the states that a lane stops in.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use dataflow::Effect;
use dataflow::Partition;
use engine::{EngineError, Pipeline};
use protocol::doubt::StopReason;
use sources::memory::MemorySource;
use store::{Entry, ErrorKind, Key, Operation, Prefix, Put, Store, StoreError};

use crate::run;
use crate::support::{AroundPuts, Bench, Damaged, Process, Told};

/// A store whose puts happen and are not answered, every few of them; and whose journal is slow, so that a segment that was
/// uploaded waits for its record while others are retired.
#[derive(Debug)]
struct LosesAnswers {
    inner: Arc<dyn Store>,
    every: u64,
    puts: AtomicU64,
    lost: AtomicU64,
    journal_pause: Duration,
    deleted: Mutex<BTreeSet<String>>,
}

impl LosesAnswers {
    fn over(inner: Arc<dyn Store>, every: u64, journal_pause: Duration) -> Arc<Self> {
        let (puts, lost) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { inner, every, puts, lost, journal_pause, deleted: Mutex::default() })
    }
}

#[async_trait]
impl Store for LosesAnswers {
    async fn put_if_absent(&self, key: &Key, body: Vec<Bytes>) -> Result<Put, StoreError> {
        if key.as_str().contains("/journal/") {
            tokio::time::sleep(self.journal_pause).await;
        }
        let put = self.inner.put_if_absent(key, body).await?;
        if self.puts.fetch_add(1, Ordering::SeqCst) % self.every == self.every - 1 {
            self.lost.fetch_add(1, Ordering::SeqCst);
            let lost = StoreError::new(ErrorKind::Io, Operation::Put, key.as_str(), "the answer was lost");
            return Err(lost.with_effect(Effect::Unknown));
        }
        Ok(put)
    }

    async fn get(&self, key: &Key, bytes_max: u64) -> Result<Option<Bytes>, StoreError> {
        self.inner.get(key, bytes_max).await
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Option<Bytes>, StoreError> {
        self.inner.get_range(key, range).await
    }

    async fn list(
        &self,
        prefix: &Prefix,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        self.inner.list(prefix, after, limit).await
    }

    async fn delete(&self, key: &Key) -> Result<(), StoreError> {
        self.deleted.lock().expect("no panic").insert(key.as_str().to_owned());
        self.inner.delete(key).await
    }

    async fn harden(&self, prefix: &Prefix) -> Result<(), StoreError> {
        self.inner.harden(prefix).await
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

#[test]
fn fault_13_a_put_whose_answer_is_lost_is_recognised_and_nothing_is_appended_twice() {
    run(async {
        let mut bench = Bench::new();
        let store = LosesAnswers::over(bench.store.clone(), 3, Duration::ZERO);
        bench.store = store.clone();
        for round in 0..4u64 {
            bench.push(round * 100..round * 100 + 130);
            bench.drain().await.expect("drains");
        }
        bench.assert_holds(0..430);
        assert!(store.lost.load(Ordering::SeqCst) >= 5, "answers were lost");
        let lane = bench.lane().await;
        assert_eq!((lane.counts.read, lane.counts.passed), (520, 430), "each record was sealed once");
    });
}

#[test]
fn fault_15_an_uploaded_object_of_a_slow_writer_stays_and_garbage_goes() {
    run(async {
        let mut bench = Bench::new();
        let store = LosesAnswers::over(bench.store.clone(), u64::MAX, Duration::from_millis(15));
        bench.store = store.clone();
        // Bodies are read back from the store, so that a segment that went too early is missed at once.
        bench.settings.body_cache_bytes_max = 0;
        bench.settings.checkpoint_records_max = 2;
        let running = Process::start(bench.pipeline(false));
        for round in 0..20u64 {
            bench.push(round * 50..round * 50 + 50);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // A crash with a segment under way leaves an orphan, which the next owners clear away.
        running.kill().await;
        for round in 20..30u64 {
            bench.push(round * 50..round * 50 + 50);
            bench.drain().await.expect("no sealed object is missing");
        }
        bench.assert_holds(0..1_500);
        let deleted = store.deleted.lock().expect("no panic").clone();
        assert!(deleted.iter().any(|key| key.contains("/segments/")), "garbage goes");
        let lane = bench.lane().await;
        let needed = protocol::retire::needed(&lane);
        assert!(needed.iter().all(|object| !deleted.contains(*object)), "what is needed stays");
    });
}

#[test]
fn c1_a_source_that_hands_out_a_block_twice_ends_the_run_and_no_row_is_twice() {
    run(async {
        let bench = Bench::new();
        bench.push(0..200);
        let (_stop, asked) = tokio::sync::watch::channel(false);
        let twice = Told { twice_from: 50, ..Told::honest(bench.source.clone()) };
        // A status of its own, as a process has: a task that ends a moment after the run may still report to it.
        let (source, status) = (Arc::new(twice), Arc::default());
        let error =
            engine::run(Pipeline { inputs: bench.inputs(source), status, ..bench.pipeline(true) }, asked)
                .await;
        let error = error.expect_err("nothing is read twice").to_string();
        assert!(error.contains("C1") && error.contains("again, which was read up to"), "{error}");
        bench.drain().await.expect("an honest source");
        bench.assert_holds(0..200);
        assert_eq!(bench.lane().await.counts.read, 200);
    });
}

#[test]
fn what_was_read_before_a_source_refuses_is_delivered_before_the_run_ends() {
    run(async {
        let bench = Bench::new();
        // One partition, so that no other end comes first.
        let source = MemorySource::new([("e", 1)]);
        for id in 0..300 {
            source.handle().push(&Partition::new("e", 0), id, id.to_string());
        }
        let (_stop, asked) = tokio::sync::watch::channel(false);
        let damaged = Damaged { inner: Arc::new(source), ends_at: None };
        let error =
            engine::run(Pipeline { inputs: bench.inputs(Arc::new(damaged)), ..bench.pipeline(false) }, asked)
                .await;
        let error = error.expect_err("the source refuses");
        assert!(matches!(error.cause(), EngineError::Source(_)), "{error}");
        bench.assert_holds(0..300);
        let lane = bench.lane().await;
        assert_eq!((lane.counts.read, lane.spool_frames()), (300, 0));
    });
}

#[test]
fn a_drain_of_a_stream_that_ends_before_the_position_is_for_the_reader_to_refuse() {
    run(async {
        let bench = Bench::new();
        bench.push(0..100);
        bench.drain().await.expect("reads all");
        let (_stop, asked) = tokio::sync::watch::channel(false);
        let cut = Damaged { inner: bench.source.clone(), ends_at: Some(10) };
        let error =
            engine::run(Pipeline { inputs: bench.inputs(Arc::new(cut)), ..bench.pipeline(true) }, asked)
                .await;
        let error = error.expect_err("a stream that was cut is no stream that was read to its end");
        assert!(error.to_string().contains("damaged"), "{error}");
    });
}

#[test]
fn every_state_that_a_lane_stops_in_is_in_the_document_and_no_other() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/design/stop-states.md");
    let text = std::fs::read_to_string(path).expect("the document is there");
    let headings: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("## `")?.strip_suffix('`')).collect();
    let states: BTreeSet<&str> = EngineError::STATES.into_iter().collect();
    assert_eq!(headings, states, "one section for each state, named by it");
    // A wrapped line in the document is a space in the sentence.
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for reason in StopReason::ALL {
        assert!(states.contains(reason.word()));
        for words in [reason.explain(), reason.question()] {
            assert!(flat.contains(words), "`{}` must say: {words}", reason.word());
        }
    }
}

/// No service may keep a part of an object whose put broke off, and some do. Sealed rows that stand there in part would be lost.
#[test]
fn what_a_store_has_kept_in_part_is_not_sealed_and_the_next_start_goes_on() {
    run(async {
        let mut bench = Bench::new();
        let (inner, has_broken) = (bench.store.clone(), Arc::new(AtomicBool::new(false)));
        bench.store = Arc::new(AroundPuts::new(bench.store.clone()).instead(move |key, body| {
            let (inner, has_broken) = (inner.clone(), has_broken.clone());
            Box::pin(async move {
                if !key.as_str().contains("/segments/") || has_broken.swap(true, Ordering::SeqCst) {
                    return None;
                }
                let whole = body.concat();
                let part = Bytes::copy_from_slice(&whole[..whole.len() / 2]);
                inner.put_if_absent(&key, vec![part]).await.expect("a store in memory");
                let broken = StoreError::new(ErrorKind::Io, Operation::Put, &key, "it broke off");
                Some(Err(broken.with_effect(Effect::Unknown)))
            })
        }));
        bench.push(0..100);
        let error = bench.drain().await.expect_err("a part is there");
        // Whoever restarts the process after such an error does the right thing.
        assert!(
            matches!(&error, EngineError::Store(_)) && error.to_string().contains("next start goes on"),
            "{error}"
        );
        bench.drain().await.expect("drains");
        bench.assert_holds(0..100);
    });
}
