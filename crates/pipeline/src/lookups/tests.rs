//! A block waits for the other side, is never lost while it waits, and keeps what it was handed out with.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, Int64Array, RecordBatch};
use clickhouse::ServerConfig;
use dataflow::{
    Batch, Column, ColumnType, Event, Partition, ReadFrom, Reader, RecordBlock, Runtime, Schema, Source,
    SourceError, SourceFault, Task, Transform,
};
use engine::TokioRuntime;
use formats::csv::{CsvDecoder, CsvOptions};
use formats::json::{JsonDecoder, JsonOptions};
use futures::future::BoxFuture;
use operators::lookup::LookupKeyer;
use operators::{Lookup, LookupConfig};
use sources::file::Csv;
use sources::memory::{MemoryHandle, MemorySource};

use super::asked::Place;
use super::source::{Looks, WithLookups};
use super::walk::Walks;
use super::{From, Load, Lookups, Rules, step_of};

const NUMBER: u32 = 2;

fn side() -> Schema {
    Schema::new(vec![Column::new("shop", ColumnType::Int64), Column::new("rank", ColumnType::Int64)])
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("forebay-lookups-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn of_file(path: PathBuf, bytes_max: u64) -> Load {
    Load { from: Arc::new(From::File { path, csv: None }), rules: rules(bytes_max) }
}

fn rules(bytes_max: u64) -> Rules {
    Rules {
        step: "steps[2].lookup".to_owned(),
        side: "file `shops.json`".to_owned(),
        decoder: Arc::new(JsonDecoder::new(side(), JsonOptions::default()).expect("a decoder")),
        keyer: LookupKeyer::new(&side(), &["shop".to_owned()]).expect("a key"),
        bytes_max,
    }
}

struct World {
    source: WithLookups,
    feed: MemoryHandle,
    file: PathBuf,
}

fn world(name: &str, refresh: Duration) -> World {
    world_on(name, refresh, TokioRuntime::new(1))
}

fn world_on(name: &str, refresh: Duration, runtime: Arc<dyn Runtime>) -> World {
    let file = folder(name).join("shops.json");
    let inner = MemorySource::new([("orders", 1)]);
    let feed = inner.handle();
    let lookups = Arc::new(Lookups::new(vec![(NUMBER, refresh, of_file(file.clone(), 1 << 20))], Vec::new()));
    let looks = Looks { lookups, walks: Arc::new(Walks::new(Vec::new())), own: 0, ahead: 1 };
    World { source: WithLookups::new(Arc::new(inner), looks, runtime), feed, file }
}

impl World {
    fn push(&self) {
        self.feed.push(&Partition::new("orders", 0), 0, "{}");
    }

    /// As a file is replaced: at once.
    fn writes(&self, text: &str) {
        let new = self.file.with_extension("new");
        std::fs::write(&new, text).expect("writes");
        std::fs::rename(&new, &self.file).expect("renames");
    }

    async fn reader(&self) -> Box<dyn Reader> {
        let starts = self.source.partitions().await.expect("it is there");
        let from = |start: dataflow::PartitionStart| ReadFrom {
            partition: start.partition,
            identity: start.identity,
            next: start.next,
            leader_epoch: start.leader_epoch,
        };
        self.source.read(starts.into_iter().map(from).collect()).await.expect("it reads")
    }
}

async fn next(reader: &mut dyn Reader) -> Result<RecordBlock, SourceError> {
    loop {
        if let Event::Block(block) = reader.next().await? {
            return Ok(block);
        }
    }
}

/// The rank that a record of this shop finds.
fn rank(block: &RecordBlock, shop: i64) -> Option<i64> {
    let input = Schema::new(vec![Column::new("of", ColumnType::Int64)]);
    let config = LookupConfig {
        number: NUMBER,
        on: vec![("of".into(), "shop".into())],
        columns: vec![("rank".into(), "rank".into())],
        is_outer: true,
    };
    let step = Lookup::new(&input, &side(), &config).expect("a step");
    let rows = RecordBatch::try_new(input.arrow().clone(), vec![Arc::new(Int64Array::from(vec![shop]))]);
    let batch = Batch {
        items: Vec::new(),
        era: 0,
        partition: block.partition.clone(),
        rows: rows.expect("a row"),
        positions: vec![0],
        times_ms: vec![0],
    };
    let made = step.apply_of(batch, block).expect("it was looked up");
    let ranks = made.batch.rows.column(1).as_primitive::<Int64Type>().clone();
    ranks.is_valid(0).then(|| ranks.value(0))
}

const LONG: Duration = Duration::from_secs(3_600);

#[tokio::test]
async fn a_block_waits_while_the_other_side_is_away_and_finds_it_when_it_is_back() {
    let world = world("away", LONG);
    world.push();
    let mut reader = world.reader().await;
    for _ in 0..2 {
        let error = next(&mut *reader).await.expect_err("there is no file");
        assert_eq!(error.fault, SourceFault::Lookup);
        assert!(
            error.message.starts_with("`steps[2].lookup`, file `shops.json`: it cannot be read"),
            "{error}"
        );
        assert_eq!(step_of(&error), Some("steps[2].lookup"));
    }
    world.writes("{\"shop\":1,\"rank\":\"5\"}\n\n{\"shop\":9007199254740993,\"rank\":6}\n");
    let block = next(&mut *reader).await.expect("it is there");
    assert_eq!((block.len(), rank(&block, 1), rank(&block, 9_007_199_254_740_993)), (1, Some(5), Some(6)));
    assert_eq!(rank(&block, 9_007_199_254_740_992), None, "numbers are exact");
}

#[tokio::test]
async fn what_cannot_be_used_is_named_with_its_row_and_records_wait() {
    let world = world("unusable", LONG);
    world.push();
    let mut reader = world.reader().await;
    let mut says = async |text: &str| {
        world.writes(text);
        next(&mut *reader).await.expect_err("it cannot be used").message
    };
    let message = says("{\"shop\":1,\"rank\":1}\n{\"shop\":2,\"rank\":\"x\"}\n{\"shop\":3}\n").await;
    assert!(
        message.contains("row `2`") && message.contains("`rank`") && message.contains("`1` rows more"),
        "{message}"
    );
    let message = says("{\"shop\":1,\"rank\":1}\n{\"shop\":2,\"rank\":2}\n{\"shop\":1,\"rank\":3}\n").await;
    assert!(message.contains("rows `1` and `3`") && message.contains("FINAL"), "{message}");
    let message = says(&"{\"shop\":1,\"rank\":1}\n".repeat(60_000)).await;
    assert!(message.contains("`memory` of the step"), "{message}");
    world.writes("{\"shop\":1,\"rank\":1}\n");
    assert_eq!(rank(&next(&mut *reader).await.expect("it is mended"), 1), Some(1));
}

#[tokio::test]
async fn the_other_side_is_read_again_when_it_is_too_old_and_a_block_keeps_what_it_came_with() {
    let world = world("again", Duration::from_millis(40));
    world.writes("{\"shop\":1,\"rank\":5}\n");
    world.push();
    let mut reader = world.reader().await;
    let first = next(&mut *reader).await.expect("a block");
    world.writes("{\"shop\":1,\"rank\":6000}\n");
    tokio::time::sleep(Duration::from_millis(60)).await;
    world.push();
    let second = next(&mut *reader).await.expect("a block");
    assert_eq!((rank(&second, 1), rank(&first, 1)), (Some(6_000), Some(5)));
    assert_eq!(rank(&first.one(0).expect("its record"), 1), Some(5), "a part of a block keeps it too");
    let again = ReadFrom {
        partition: Partition::new("orders", 0),
        identity: "memory-1".to_owned(),
        next: 0,
        leader_epoch: -1,
    };
    let record = world.source.record(again).await.expect("it reads").expect("the record");
    assert_eq!(rank(&record, 1), Some(6_000), "what was read last when the record is read again");
    drop((first, second, record));
    // A file that has not changed is not read again, and one that is away is waited for.
    tokio::time::sleep(Duration::from_millis(60)).await;
    world.push();
    assert_eq!(rank(&next(&mut *reader).await.expect("a block"), 1), Some(6_000));
    // One of the same length and time is another file all the same.
    let modified = std::fs::metadata(&world.file).and_then(|file| file.modified()).expect("a time");
    world.writes("{\"shop\":1,\"rank\":7000}\n");
    std::fs::File::options()
        .write(true)
        .open(&world.file)
        .and_then(|file| file.set_modified(modified))
        .expect("a time");
    tokio::time::sleep(Duration::from_millis(60)).await;
    world.push();
    assert_eq!(rank(&next(&mut *reader).await.expect("a block"), 1), Some(7_000));
    std::fs::remove_file(&world.file).expect("removes");
    tokio::time::sleep(Duration::from_millis(60)).await;
    world.push();
    assert!(next(&mut *reader).await.is_err(), "what is too old is not used");
}

/// A machine that was suspended: its wall clock went on, and its other clock stood still.
pub(super) struct Suspended {
    inner: Arc<TokioRuntime>,
    suspended_ms: AtomicI64,
}

impl Suspended {
    pub(super) fn new(compute_threads: usize) -> Arc<Self> {
        Arc::new(Self { inner: TokioRuntime::new(compute_threads), suspended_ms: AtomicI64::new(0) })
    }

    /// It was suspended for so long in all.
    pub(super) fn for_ms(&self, suspended_ms: i64) {
        self.suspended_ms.store(suspended_ms, Ordering::Relaxed);
    }
}

impl Runtime for Suspended {
    fn wall_ms(&self) -> i64 {
        self.inner.wall_ms() + self.suspended_ms.load(Ordering::Relaxed)
    }

    fn elapsed(&self) -> Duration {
        self.inner.elapsed()
    }

    fn begin_ms(&self) -> i64 {
        self.inner.begin_ms()
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        self.inner.sleep(time)
    }

    fn spawn(&self, name: &'static str, task: BoxFuture<'static, ()>) -> Task {
        self.inner.spawn(name, task)
    }

    fn compute(&self, job: Box<dyn FnOnce() + Send>) {
        self.inner.compute(job);
    }

    fn compute_threads(&self) -> usize {
        self.inner.compute_threads()
    }

    fn random(&self) -> u128 {
        self.inner.random()
    }
}

#[tokio::test]
async fn a_machine_that_was_suspended_reads_the_other_side_again() {
    let runtime = Suspended::new(1);
    let world = world_on("suspended", LONG, runtime.clone());
    world.writes("{\"shop\":1,\"rank\":5}\n");
    let mut reader = world.reader().await;
    let mut finds = async |suspended_ms: i64| {
        runtime.for_ms(suspended_ms);
        world.push();
        rank(&next(&mut *reader).await.expect("a block"), 1)
    };
    assert_eq!(finds(0).await, Some(5));
    world.writes("{\"shop\":1,\"rank\":6000}\n");
    assert_eq!(finds(0).await, Some(5));
    assert_eq!(finds(3_700_000).await, Some(6_000));
    world.writes("{\"shop\":1,\"rank\":7000}\n");
    assert_eq!(finds(0).await, Some(6_000), "a clock that is set back makes nothing older");
}

#[tokio::test]
async fn memory_holds_two_states_and_never_three() {
    let world = world("states", Duration::from_millis(20));
    let mut reader = world.reader().await;
    let mut blocks = Vec::new();
    for rank in 1..=2 {
        world.writes(&format!("{{\"shop\":1,\"rank\":{rank}}}\n"));
        world.push();
        tokio::time::sleep(Duration::from_millis(30)).await;
        blocks.push(next(&mut *reader).await.expect("a block"));
    }
    world.writes("{\"shop\":1,\"rank\":3}\n");
    world.push();
    tokio::time::sleep(Duration::from_millis(30)).await;
    let again = ReadFrom {
        partition: Partition::new("orders", 0),
        identity: "memory-1".to_owned(),
        next: 0,
        leader_epoch: -1,
    };
    let waits = tokio::time::timeout(Duration::from_millis(100), next(&mut *reader)).await;
    assert!(waits.is_err(), "two states are held by blocks");
    let record = world.source.record(again).await.expect("it reads").expect("the record");
    assert_eq!(rank(&record, 1), Some(2), "a record that is read again waits for nobody");
    blocks.remove(0);
    let third = next(&mut *reader).await.expect("the block that waited");
    assert_eq!((rank(&third, 1), rank(&blocks[0], 1)), (Some(3), Some(2)));
}

#[tokio::test]
async fn a_block_is_kept_while_next_is_dropped() {
    let world = world("dropped", LONG);
    world.writes("{\"shop\":1,\"rank\":5}\n");
    world.push();
    let mut reader = world.reader().await;
    let found = async {
        loop {
            let mut asked = Box::pin(next(&mut *reader));
            if let std::task::Poll::Ready(block) = futures::poll!(&mut asked) {
                return block.expect("a block");
            }
            drop(asked);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let block = tokio::time::timeout(Duration::from_secs(300), found).await.expect("the block was lost");
    assert_eq!(rank(&block, 1), Some(5));
}

#[tokio::test]
async fn csv_is_read_with_its_header_and_quotes() {
    let csv = Csv { delimiter: b';', quote: Some(b'"'), has_head: true };
    let side =
        Schema::new(vec![Column::new("name", ColumnType::String), Column::new("shop", ColumnType::Int64)]);
    let options =
        CsvOptions { delimiter: b';', quote: Some(b'"'), columns: Vec::new(), ..CsvOptions::default() };
    let path = folder("csv").join("shops.csv");
    std::fs::write(&path, "shop;name\r\n1;\"a;b\nc\"\r\n2;d\r\n").expect("writes");
    let load = Load {
        from: Arc::new(From::File { path, csv: Some(csv) }),
        rules: Rules {
            step: "steps[2].lookup".to_owned(),
            side: "file `shops.csv`".to_owned(),
            decoder: Arc::new(CsvDecoder::new(side.clone(), options).expect("a decoder")),
            keyer: LookupKeyer::new(&side, &["name".to_owned()]).expect("a key"),
            bytes_max: 1 << 20,
        },
    };
    let runtime: Arc<dyn Runtime> = TokioRuntime::new(1);
    let read = load.load(&runtime, None).await;
    let super::Rows::New(table, _) = read.unwrap_or_else(|why| panic!("{why}")) else { panic!("it is new") };
    assert_eq!(table.len(), 2);
}

#[tokio::test]
async fn a_byte_order_mark_in_front_of_a_file_is_ignored() {
    let path = folder("mark").join("shops.json");
    std::fs::write(&path, "\u{feff}{\"shop\": 1, \"rank\": 2}\r\n{\"shop\": 2, \"rank\": 3}\n")
        .expect("writes");
    let runtime: Arc<dyn Runtime> = TokioRuntime::new(1);
    let read = of_file(path, 1 << 20).load(&runtime, None).await;
    let super::Rows::New(table, _) = read.unwrap_or_else(|why| panic!("{why}")) else { panic!("it is new") };
    assert_eq!(table.len(), 2);
}

#[tokio::test]
async fn a_file_of_csv_without_its_format_says_what_to_write() {
    let path = folder("format").join("shops.csv");
    std::fs::write(&path, "shop,rank\n1,2\n").expect("writes");
    let runtime: Arc<dyn Runtime> = TokioRuntime::new(1);
    let why = of_file(path, 1 << 20).load(&runtime, None).await.err().expect("it is no JSON");
    assert!(why.contains("write `format: { csv: { header: true } }` beside its `path`"), "{why}");
}

#[tokio::test]
async fn a_server_that_is_away_is_waited_for() {
    let load = Load {
        from: Arc::new(From::ClickHouse {
            server: ServerConfig::new("http://127.0.0.1:1"),
            place: Place {
                database: "shop".to_owned(),
                name: "shops".to_owned(),
                is_dictionary: false,
                columns: side(),
                keys: vec!["shop".to_owned()],
            },
        }),
        ..of_file(PathBuf::new(), 1 << 20)
    };
    let runtime: Arc<dyn Runtime> = TokioRuntime::new(1);
    let why = load.load(&runtime, None).await.err().expect("nobody listens");
    assert!(why.contains("127.0.0.1:1"), "{why}");
}
