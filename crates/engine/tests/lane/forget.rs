//! Streams that leave a pipeline, and come back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use dataflow::{
    Partition, PartitionStart, Position, ReadFrom, Reader, Source, SourceError, SourceFault, Streams,
};
use engine::forget::{ForgetError, Leaving, Named, REPLAYS, Request};
use engine::problem::SOURCE;
use engine::{EngineError, Pipeline};
use sources::memory::MemorySource;
use tokio::sync::watch;

use crate::start::{At, Refusing, set_away, until_it_ends, with};
use crate::support::{Bench, Process};
use crate::{run, wait_until};

fn request(stream: &str, index: Option<u32>, from_start: bool) -> Request {
    Request {
        named: vec![Named { input: None, stream: Some(stream.into()), index }],
        from_start,
        by: "test".into(),
        take_over: false,
        quiet_min: Duration::from_millis(100),
    }
}

async fn forget(bench: &Bench, request: &Request) -> Result<Leaving, ForgetError> {
    engine::forget::forget(bench.store.clone(), bench.runtime.clone(), "p/lane-0", request).await
}

/// The pipeline with a file that names these streams, the others being there all the same.
fn naming(bench: &Bench, names: Vec<&'static str>, source: &Arc<MemorySource>) -> Pipeline {
    let source = Refusing { names, ..Refusing::at(source, At::Nowhere) };
    with(bench, source, true)
}

/// A source that has the other topic only, as a broker shows it for a file that names it alone.
fn other() -> Arc<MemorySource> {
    let other = Arc::new(MemorySource::new([("f", 1)]));
    other.handle().push(&Partition::new("f", 0), 1, "1000");
    other
}

#[test]
fn a_topic_leaves_and_the_pipeline_goes_on_with_another_and_delivers_what_was_sealed() {
    run(async {
        let mut bench = Bench::new();
        bench.push(0..100);
        set_away(&bench, true);
        let dies = Process::start(bench.pipeline(false));
        while bench.lane().await.counts.passed < 100 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        dies.kill().await;
        let leaving = forget(&bench, &request("e", None, false)).await.expect("nobody runs it");
        assert_eq!(leaving.partitions.len(), 2);
        assert!(leaving.inserts > 0, "they are delivered all the same");
        set_away(&bench, false);
        bench.status = Arc::default();
        until_it_ends(naming(&bench, vec!["f"], &other())).await.expect("drains");
        bench.assert_holds((0..100).chain([1000]));
        assert_eq!(bench.lane().await.spool_frames(), 0);
        // One that is read no more has no end, and would leave the lag unknown for ever.
        let told: Vec<String> = bench.status.snapshot().partitions.into_keys().collect();
        assert_eq!(told, ["f/0"]);
    });
}

#[test]
fn a_topic_that_comes_back_goes_on_where_it_was_left() {
    run(async {
        let bench = Bench::new();
        bench.push(0..100);
        bench.drain().await.expect("drains");
        forget(&bench, &request("e", None, false)).await.expect("nobody runs it");
        until_it_ends(naming(&bench, vec!["f"], &other())).await.expect("drains");
        forget(&bench, &request("f", None, false)).await.expect("nobody runs it");
        bench.push(100..200);
        bench.drain().await.expect("drains");
        bench.assert_holds((0..200).chain([1000]));
        let lane = bench.lane().await;
        assert_eq!((lane.counts.read, lane.counts.duplicates), (201, 0), "no record was read twice");
        // And it can leave again, checkpoints or not.
        forget(&bench, &request("e", None, false)).await.expect("nobody runs it");
    });
}

#[test]
fn a_topic_that_is_forgotten_with_its_positions_is_read_from_its_start() {
    run(async {
        let bench = Bench::new();
        bench.push(0..100);
        bench.drain().await.expect("drains");
        forget(&bench, &request("e", None, true)).await.expect("nobody runs it");
        bench.drain().await.expect("drains");
        bench.drain().await.expect("what was published before says nothing of the new reading");
        let lane = bench.lane().await;
        let counts = lane.counts;
        assert_eq!((counts.read, counts.duplicates), (200, 100), "read again, and known by its keys");
        // A dead letter from before is of an earlier reading.
        for (at, _) in lane.reading() {
            let anew: Vec<_> = lane.passes_of(at).iter().map(|pass| (pass.from, pass.end)).collect();
            assert_eq!(anew, [(0, 50)]);
        }
    });
}

#[test]
fn a_topic_is_not_forgotten_with_its_positions_while_rows_of_it_wait() {
    run(async {
        let mut bench = Bench::new();
        bench.push(0..100);
        set_away(&bench, true);
        let dies = Process::start(bench.pipeline(false));
        while bench.lane().await.counts.passed < 100 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        dies.kill().await;
        let before = bench.lane().await;
        let refused = forget(&bench, &request("e", None, true)).await.expect_err("one may be refused later");
        assert!(matches!(refused, ForgetError::Pending { .. }), "{refused}");
        assert!(refused.to_string().contains("`forebay run FILE --drain`"), "{refused}");
        assert_eq!(bench.lane().await, before, "nothing was claimed");
        // Meanwhile the table takes one of them no more: the letter is of the only reading so far.
        bench.table.world.lock().expect("no panic").poison = vec![13];
        set_away(&bench, false);
        bench.status = Arc::default();
        bench.drain().await.expect("the way out");
        forget(&bench, &request("e", None, true)).await.expect("nothing waits");
        bench.table.world.lock().expect("no panic").poison.clear();
        bench.drain().await.expect("drains");
        bench.assert_holds(0..100);
        let counts = bench.lane().await.counts;
        assert_eq!((counts.read, counts.duplicates), (200, 99), "the key of the refused row was forgotten");
    });
}

#[test]
fn the_replay_log_is_read_on_where_it_stands_though_its_input_is_forgotten_with_its_positions() {
    run(async {
        let mut bench = Bench::new();
        bench.source = Arc::new(MemorySource::new([("e", 2), (REPLAYS, 1)]));
        bench.feed = bench.source.handle();
        bench.push(0..100);
        bench.feed.push(&Partition::new(REPLAYS, 0), 1, "1000");
        bench.drain().await.expect("drains");
        let whole = Named { input: Some(SOURCE.into()), stream: None, index: None };
        let request = Request { named: vec![whole], ..request("e", None, true) };
        forget(&bench, &request).await.expect("nobody runs it");
        bench.feed.push(&Partition::new(REPLAYS, 0), 1, "1001");
        bench.drain().await.expect("drains");
        bench.assert_holds((0..100).chain([1000, 1001]));
        let counts = bench.lane().await.counts;
        assert_eq!((counts.read, counts.duplicates), (101 + 101, 100), "of the log only what is new");
    });
}

#[test]
fn a_topic_that_was_made_anew_is_read_once_the_old_one_is_forgotten() {
    run(async {
        let bench = Bench::new();
        bench.push(0..100);
        bench.drain().await.expect("drains");
        bench.feed.open(Partition::new("e", 0));
        bench.feed.push(&Partition::new("e", 0), 1, "500");
        let error = bench.drain().await.expect_err("another stream");
        assert!(error.to_string().contains("`forebay forget FILE --stream e`"), "{error}");
        forget(&bench, &request("e", None, false)).await.expect("nobody runs it");
        bench.drain().await.expect("drains");
        bench.assert_holds((0..100).chain([500]));
    });
}

#[test]
fn a_file_that_has_grown_since_it_was_forgotten_goes_on_where_it_was_left() {
    run(async {
        let bench = Bench::new();
        let path = std::env::temp_dir().join(format!("forebay-forget-{}.txt", std::process::id()));
        let name = path.to_str().expect("a name of ASCII").to_owned();
        let write = |text: &str| std::fs::write(&path, text).expect("a temporary file");
        let drain = async || {
            let options = sources::file::FileOptions::new(vec![name.clone()]);
            let source = Arc::new(sources::file::FileSource::new(options).expect("a path"));
            until_it_ends(Pipeline { inputs: bench.inputs(source), ..bench.pipeline(false) }).await
        };
        write("1\n2\n3\n");
        drain().await.expect("reads it");
        forget(&bench, &request(&name, None, false)).await.expect("nobody runs it");
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).expect("a temporary file");
        std::io::Write::write_all(&mut file, b"4\n5\n").expect("a temporary file");
        drain().await.expect("goes on");
        let counts = bench.lane().await.counts;
        assert_eq!((counts.read, counts.duplicates), (5, 0), "no line was read twice");
        bench.assert_holds(1..6);
        std::fs::remove_file(&path).expect("a temporary file");
    });
}

/// Files that cannot be looked at, once.
struct Shaky {
    inner: sources::file::FileSource,
    fails: AtomicBool,
}

#[async_trait]
impl Source for Shaky {
    fn streams(&self) -> Streams {
        self.inner.streams()
    }

    fn covers(&self, stream: &str) -> bool {
        self.inner.covers(stream)
    }

    async fn partitions(&self) -> Result<Vec<PartitionStart>, SourceError> {
        self.inner.partitions().await
    }

    async fn recognize(
        &self,
        shown: Vec<PartitionStart>,
        known: Vec<ReadFrom>,
    ) -> Result<Vec<PartitionStart>, SourceError> {
        if self.fails.swap(false, Ordering::SeqCst) {
            return Err(SourceError::new(SourceFault::Away, "made to fail"));
        }
        self.inner.recognize(shown, known).await
    }

    async fn ends(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        self.inner.ends().await
    }

    async fn read(&self, from: Vec<ReadFrom>) -> Result<Box<dyn Reader>, SourceError> {
        self.inner.read(from).await
    }

    async fn publish(&self, positions: &[(Partition, Position)]) -> Result<(), SourceError> {
        self.inner.publish(positions).await
    }

    async fn published(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        self.inner.published().await
    }
}

#[test]
fn a_file_that_cannot_be_looked_at_when_it_comes_back_is_no_new_one() {
    run(async {
        let bench = Bench::new();
        let path = std::env::temp_dir().join(format!("forebay-forget-shaky-{}.txt", std::process::id()));
        let name = path.to_str().expect("a name of ASCII").to_owned();
        let drain = async |fails: bool| {
            let options = sources::file::FileOptions::new(vec![name.clone()]);
            let inner = sources::file::FileSource::new(options).expect("a path");
            let source = Arc::new(Shaky { inner, fails: AtomicBool::new(fails) });
            until_it_ends(Pipeline { inputs: bench.inputs(source), ..bench.pipeline(false) }).await
        };
        std::fs::write(&path, "1\n2\n3\n").expect("a temporary file");
        drain(false).await.expect("reads it");
        forget(&bench, &request(&name, None, false)).await.expect("nobody runs it");
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).expect("a temporary file");
        std::io::Write::write_all(&mut file, b"4\n5\n").expect("a temporary file");
        drain(true).await.expect("goes on");
        let counts = bench.lane().await.counts;
        assert_eq!((counts.read, counts.duplicates), (5, 0), "no line was read twice");
        bench.assert_holds(1..6);
        std::fs::remove_file(&path).expect("a temporary file");
    });
}

#[test]
fn positions_that_expired_are_given_up_for_one_partition() {
    run(async {
        let bench = Bench::new();
        bench.push(0..100);
        bench.drain().await.expect("drains");
        bench.push(100..200);
        bench.feed.forget(&Partition::new("e", 1), 75);
        assert!(bench.drain().await.is_err(), "25 records are lost, and a person has to know");
        forget(&bench, &request("e", Some(1), true)).await.expect("nobody runs it");
        bench.drain().await.expect("drains");
        bench.assert_holds((0..200).filter(|id| id % 2 == 0 || *id < 100 || *id >= 150));
    });
}

#[test]
fn what_is_not_read_cannot_be_forgotten_and_a_process_that_works_is_left_alone() {
    run(async {
        let bench = Bench::new();
        bench.push(0..10);
        bench.drain().await.expect("drains");
        let error = forget(&bench, &request("x", None, false)).await.expect_err("no such topic");
        assert!(error.to_string().contains("it reads `e`"), "{error}");
        assert!(forget(&bench, &request("e", Some(7), false)).await.is_err());
        assert_eq!(bench.lane().await.epoch, 1, "nothing was claimed");

        let (_stop, asked) = watch::channel(false);
        let owner = tokio::spawn(engine::run(bench.pipeline(false), asked));
        let feeding = tokio::spawn({
            let (feed, mut id) = (bench.feed.clone(), 10u64);
            async move {
                loop {
                    feed.push(&Partition::new("e", 0), id as i64, id.to_string());
                    id += 1;
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            }
        });
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() > 20).await;
        // Longer than a busy machine keeps the owner waiting; that it writes is seen at once.
        let patient = Request { quiet_min: Duration::from_secs(10), ..request("e", None, false) };
        let error = forget(&bench, &patient).await.expect_err("it runs");
        assert!(matches!(error, ForgetError::Running), "{error}");
        assert_eq!(bench.lane().await.epoch, 2, "nothing was claimed");
        let anyway = Request { take_over: true, ..request("e", None, false) };
        forget(&bench, &anyway).await.expect("a person says so");
        let ended = owner.await.expect("no panic");
        assert!(matches!(ended, Err(EngineError::Fenced { .. })), "{ended:?}");
        feeding.abort();
        assert!(bench.source.partitions().await.is_ok());
    });
}
