//! Segments that are sealed and not written: what is settled soon costs no object, and what a crash leaves is made again from the source.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use dataflow::{
    Decoded, Decoder, Intake, Partition, PartitionStart, Position, ReadFrom, Reader, RecordBlock, Schema,
    Source, SourceError, Streams, Table,
};
use engine::problem::SOURCE;
use engine::{EngineError, Input, Outcome, Pipeline};
use futures::future::BoxFuture;
use protocol::lane::Piece;
use protocol::record::Part;
use sources::memory::MemoryHandle;
use store::Prefix;
use tokio::sync::watch;

use crate::start::{set_away, until_it_ends};
use crate::support::{AroundPuts, Bench, Fault, Numbers, Process, Told};
use crate::{give_ten_that_hang, give_ten_that_pass, run, wait_until};

/// A source that lets go of what is published, as a log does.
struct Releasing {
    inner: Arc<dyn Source>,
    feed: MemoryHandle,
}

#[async_trait]
impl Source for Releasing {
    fn streams(&self) -> Streams {
        Streams::Logs
    }

    fn releases(&self) -> bool {
        true
    }

    async fn partitions(&self) -> Result<Vec<PartitionStart>, SourceError> {
        self.inner.partitions().await
    }

    async fn ends(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        self.inner.ends().await
    }

    async fn read(&self, from: Vec<ReadFrom>) -> Result<Box<dyn Reader>, SourceError> {
        self.inner.read(from).await
    }

    async fn publish(&self, positions: &[(Partition, Position)]) -> Result<(), SourceError> {
        positions.iter().for_each(|(partition, next)| self.feed.forget(partition, *next));
        self.inner.publish(positions).await
    }

    async fn published(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        self.inner.published().await
    }

    async fn record(&self, at: ReadFrom) -> Result<Option<RecordBlock>, SourceError> {
        self.inner.record(at).await
    }
}

/// A pipeline without steps that reads such a source.
fn plain(bench: &Bench, drain: bool) -> Pipeline {
    let source = Arc::new(Releasing { inner: bench.source.clone(), feed: bench.feed.clone() });
    Pipeline { inputs: bench.inputs(source), steps: Vec::new(), ..bench.pipeline(drain) }
}

async fn drain(bench: &Bench) -> Result<Outcome, EngineError> {
    until_it_ends(plain(bench, true)).await
}

async fn segments(bench: &Bench) -> usize {
    let folder = Prefix::new("p/lane-0/segments").expect("a folder");
    bench.store.list(&folder, None, 1_000).await.expect("a store in memory").len()
}

async fn pending(bench: &Bench) -> Vec<Piece> {
    bench.lane().await.tables.iter().flat_map(|table| table.pending.iter().flatten().cloned()).collect()
}

/// Seals `ids` while the table takes nothing, and dies before a segment is written.
async fn sealed_and_not_written(bench: &Bench, ids: std::ops::Range<u64>) {
    set_away(bench, true);
    bench.push(ids.clone());
    let dies = Process::start(plain(bench, false));
    while bench.lane().await.counts.passed < ids.end {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    dies.kill().await;
    set_away(bench, false);
    assert_eq!(segments(bench).await, 0, "it died in time");
    let pending = pending(bench).await;
    assert!(!pending.is_empty() && pending.iter().all(|piece| piece.frame.made.is_some()));
}

#[test]
fn what_is_settled_soon_is_never_written() {
    run(async {
        let bench = Bench::new();
        bench.push(0..500);
        let (stop, asked) = watch::channel(false);
        let running = tokio::spawn(engine::run(plain(&bench, false), asked));
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 500).await;
        assert_eq!(segments(&bench).await, 0);
        stop.send(true).expect("it runs");
        assert_eq!(running.await.expect("no panic").expect("drains"), Outcome::Drained);
        assert_eq!(segments(&bench).await, 0);
        bench.assert_holds(0..500);
        // All was settled before it was let go.
        assert!(bench.feed.published().values().all(|next| *next == 250));
    });
}

/// Records come faster than the table takes them, and less than half of their bytes have room in memory.
#[test]
fn a_seal_waits_for_memory_while_the_table_answers() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.body_cache_bytes_max = 1_200 * 8;
        bench.table.world.lock().expect("no panic").insert_time = Duration::from_millis(60);
        let (stop, asked) = watch::channel(false);
        let running = tokio::spawn(engine::run(plain(&bench, false), asked));
        for first in (0..3_000).step_by(50) {
            bench.push(first..first + 50);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 3_000).await;
        assert_eq!(segments(&bench).await, 0);
        stop.send(true).expect("it runs");
        assert_eq!(running.await.expect("no panic").expect("drains"), Outcome::Drained);
        bench.assert_holds(0..3_000);
    });
}

#[test]
fn what_a_crash_leaves_unwritten_is_made_again() {
    run(async {
        let bench = Bench::new();
        sealed_and_not_written(&bench, 0..300).await;
        bench.push(300..400);
        // An insert under the sealed token lands, and its answer is lost: the table compares the bytes of each token.
        bench.table.world.lock().expect("no panic").faults.extend([Fault::LostAfter, Fault::LostBefore]);
        assert_eq!(drain(&bench).await.expect("drains"), Outcome::Complete);
        bench.assert_holds(0..400);
        let totals = bench.totals().await;
        assert_eq!((totals.records.read, totals.records.passed, totals.written), (400, 400, 400));
    });
}

#[test]
fn frames_of_several_crashes_are_made_again() {
    run(async {
        let bench = Bench::new();
        sealed_and_not_written(&bench, 0..100).await;
        // The next owner makes them again, and dies before one of them is settled.
        set_away(&bench, true);
        bench.push(100..200);
        let dies = Process::start(plain(&bench, false));
        while bench.lane().await.counts.passed < 200 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        dies.kill().await;
        set_away(&bench, false);
        assert_eq!(drain(&bench).await.expect("drains"), Outcome::Complete);
        bench.assert_holds(0..200);
    });
}

/// Numbers, and how many blocks were handed out at the most before one of them was decoded.
struct Watching {
    inner: Numbers,
    handed_out: Arc<AtomicUsize>,
    decoded: AtomicUsize,
    waiting_max: Arc<AtomicUsize>,
}

impl Decoder for Watching {
    fn schema(&self) -> &Schema {
        self.inner.schema()
    }

    fn decode(&self, block: &RecordBlock) -> Decoded {
        let decoded = self.decoded.fetch_add(1, Ordering::SeqCst);
        let waiting = self.handed_out.load(Ordering::SeqCst) - decoded;
        self.waiting_max.fetch_max(waiting, Ordering::SeqCst);
        self.inner.decode(block)
    }
}

/// What is written of records may be a small part of them: whoever held all records of an insert could need more memory than a run has.
#[test]
fn an_insert_is_made_again_block_by_block() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.in_flight_max = 1;
        sealed_and_not_written(&bench, 0..100).await;
        let told = Told::honest(bench.source.clone());
        let (handed_out, waiting_max) = (told.handed_out.clone(), Arc::new(AtomicUsize::new(0)));
        let source = Arc::new(Releasing { inner: Arc::new(told), feed: bench.feed.clone() });
        let inner = Numbers(bench.table.schema().clone());
        let decoded = AtomicUsize::new(0);
        let decoder = Watching { inner, handed_out, decoded, waiting_max: waiting_max.clone() };
        let input = Input { name: SOURCE.to_owned(), source, intake: Intake::new(Arc::new(decoder)) };
        let again = Pipeline { inputs: vec![input], ..plain(&bench, true) };
        assert_eq!(until_it_ends(again).await.expect("drains"), Outcome::Complete);
        bench.assert_holds(0..100);
        assert_eq!(waiting_max.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_row_that_is_refused_after_a_crash_is_a_dead_letter_of_its_record() {
    run(async {
        let bench = Bench::new();
        sealed_and_not_written(&bench, 0..100).await;
        bench.table.world.lock().expect("no panic").poison = vec![42];
        assert_eq!(drain(&bench).await.expect("drains"), Outcome::Complete);
        bench.assert_holds((0..100).filter(|id| *id != 42));
        let messages = bench.dead_letters.world.lock().expect("no panic").messages.clone();
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert!(!messages[0].contains("cannot be read again"), "{messages:?}");
    });
}

#[test]
fn what_is_not_settled_for_long_is_written_and_so_is_what_is_left_at_a_stop() {
    run(async {
        let bench = Bench::new();
        set_away(&bench, true);
        bench.push(0..100);
        let (stop, asked) = watch::channel(false);
        let pipeline = plain(&bench, false);
        let settings =
            engine::Settings { drain_time_max: Duration::from_secs(3), ..pipeline.settings.clone() };
        let running = tokio::spawn(engine::run(Pipeline { settings, ..pipeline }, asked));
        while bench.lane().await.counts.passed < 100 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        while segments(&bench).await < pending(&bench).await.len() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        bench.push(100..150);
        while bench.lane().await.counts.passed < 150 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        stop.send(true).expect("it runs");
        assert_eq!(running.await.expect("no panic").expect("ends"), Outcome::Interrupted);
        assert_eq!(segments(&bench).await, pending(&bench).await.len(), "nothing is left to be made again");
        set_away(&bench, false);
        assert_eq!(drain(&bench).await.expect("drains"), Outcome::Complete);
        bench.assert_holds(0..150);
    });
}

#[test]
fn records_that_were_taken_from_the_source_are_named_and_nothing_is_sent() {
    run(async {
        let bench = Bench::new();
        sealed_and_not_written(&bench, 0..100).await;
        bench.feed.forget(&Partition::new("e", 0), 10);
        let error = drain(&bench).await.expect_err("it cannot be made again");
        let words = error.to_string();
        assert!(matches!(error, EngineError::Mismatch(_)), "{words}");
        assert!(words.contains("cannot be made again") && words.contains("holds `10`"), "{words}");
        bench.assert_holds([]);
    });
}

#[test]
fn other_bytes_than_were_sealed_are_named_and_the_way_out_works() {
    run(async {
        let mut bench = Bench::new();
        bench.table.world.lock().expect("no panic").columns = vec![("id", "UInt64")];
        bench.table = bench.table.open_again(&[]);
        sealed_and_not_written(&bench, 0..100).await;
        // Frames are cut at another weight now: other bytes come out of the same records.
        bench.table.world.lock().expect("no panic").frame_weight_max = 40;
        let words = drain(&bench).await.expect_err("other frames").to_string();
        assert!(words.contains("inserts come out of its records instead of one"), "{words}");
        bench.assert_holds([]);
        bench.table.world.lock().expect("no panic").frame_weight_max = 0;
        assert_eq!(drain(&bench).await.expect("drains"), Outcome::Complete);
        bench.assert_holds(0..100);
    });
}

#[test]
fn another_pipeline_file_is_refused_while_inserts_must_be_made_again_by_the_old_one() {
    run(async {
        let bench = Bench::new();
        sealed_and_not_written(&bench, 0..100).await;
        let before = bench.lane().await;
        let filter = Part { kind: "step".into(), name: "filter".into(), text: "id > 50".into() };
        let changed = || Pipeline { parts: vec![filter.clone()], ..plain(&bench, true) };
        let error = until_it_ends(changed()).await.expect_err("it would make other bytes");
        let words = error.to_string();
        assert!(
            matches!(error, EngineError::Mismatch(_))
                && words.contains("put the old file back")
                && !words.contains("  "),
            "{words}"
        );
        assert_eq!(bench.lane().await.next_seq, before.next_seq, "nothing was recorded");
        assert_eq!(drain(&bench).await.expect("drains"), Outcome::Complete);
        // What is in the store needs no old file.
        set_away(&bench, true);
        bench.push(100..150);
        let dies = Process::start(plain(&bench, false));
        while bench.lane().await.counts.passed < 150 || segments(&bench).await < pending(&bench).await.len() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        dies.kill().await;
        set_away(&bench, false);
        assert!(pending(&bench).await.iter().any(|piece| piece.frame.made.is_some()), "written late");
        assert_eq!(until_it_ends(changed()).await.expect("drains"), Outcome::Complete);
        bench.assert_holds(0..150);
    });
}

/// The owner seals an insert between the look of a start at the journal and its claim.
#[test]
fn another_pipeline_file_is_refused_also_for_an_insert_that_is_sealed_while_it_claims() {
    run(async {
        let bench = Bench::new();
        bench.push(0..10);
        let dies = Process::start(plain(&bench, false));
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 10).await;
        while !pending(&bench).await.is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let (feed, world, inner) = (bench.feed.clone(), bench.table.world.clone(), bench.store.clone());
        let meanwhile = async move {
            {
                let mut world = world.lock().expect("no panic");
                (world.away, world.facts_away) = (true, false);
            }
            for id in 10..20_u64 {
                feed.push(&Partition::new("e", (id % 2) as u32), 1_000, id.to_string());
            }
            while engine::journal::load(&*inner, "p/lane-0").await.expect("it is sound").counts.passed < 20 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            dies.kill().await;
            world.lock().expect("no panic").away = false;
        };
        let meanwhile: Mutex<Option<BoxFuture<'static, ()>>> = Mutex::new(Some(Box::pin(meanwhile)));
        // Before the first record.
        let outrun = AroundPuts::new(bench.store.clone()).before(move |key| {
            let is_record = key.as_str().contains("/journal/");
            let meanwhile = if is_record { meanwhile.lock().expect("no panic").take() } else { None };
            meanwhile.unwrap_or_else(|| Box::pin(async {}))
        });
        let filter = Part { kind: "step".into(), name: "filter".into(), text: "id > 50".into() };
        let changed = Pipeline { parts: vec![filter], store: Arc::new(outrun), ..plain(&bench, true) };
        let ended = until_it_ends(changed).await;
        assert_eq!(segments(&bench).await, 0, "it died in time");
        let words = ended.expect_err("it would make other bytes").to_string();
        assert!(words.contains("put the old file back"), "{words}");
        assert!(bench.lane().await.parts.is_empty(), "the old file makes the insert again");
        assert_eq!(drain(&bench).await.expect("drains"), Outcome::Complete);
        bench.assert_holds(0..20);
    });
}

/// An insert hangs, and those behind it are in the table: nobody reads their segments, which were never written.
#[test]
fn another_pipeline_file_is_taken_though_settled_inserts_are_not_in_the_store() {
    run(async {
        let mut bench = Bench::new();
        give_ten_that_hang(&mut bench);
        let dies = Process::start(plain(&bench, false));
        let hang = give_ten_that_pass(&bench).await as usize;
        let is_settled = |pieces: &[Piece]| {
            let settled = pieces.iter().filter(|piece| piece.settled);
            settled.map(|piece| piece.frame.rows).sum::<u64>() == 10
        };
        while !is_settled(&pending(&bench).await) || segments(&bench).await < hang {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        dies.kill().await;
        let filter = Part { kind: "step".into(), name: "filter".into(), text: "id > 50".into() };
        let changed = Pipeline { parts: vec![filter], ..plain(&bench, true) };
        assert_eq!(until_it_ends(changed).await.expect("drains"), Outcome::Complete);
        bench.assert_holds(0..20);
    });
}
