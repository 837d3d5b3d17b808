//! Starts whose source is away or refuses: what is sealed is delivered, and what cannot work writes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use dataflow::{
    Effect, Event, Partition, PartitionStart, Position, ReadFrom, Reader, Remedy, Source, SourceError,
    SourceFault, Streams, TableFault,
};
use engine::{EngineError, Outcome, Pipeline};
use sources::memory::MemorySource;
use store::Prefix;
use tokio::sync::watch;

use crate::support::{Bench, Process};
use crate::{run, wait_until};

/// Where a source refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum At {
    #[default]
    Nowhere,
    /// When it is asked what it has.
    Partitions,
    /// When a read begins.
    Read,
    /// The same, but it does not answer before it is told to refuse now.
    SlowRead,
    /// With the first event, though it let the read begin.
    FirstEvent,
    /// Twice, when a partition that it found is to be read.
    Found,
    /// When a partition that it found is to be read, until it is told otherwise.
    FoundLong,
    /// Nowhere; but a read begins slowly.
    Slow,
    /// When a read is to begin below this position: the records there are gone.
    Below(u64),
    /// Nowhere; but it stands aside, and shows no partition.
    Aside,
}

/// A source that refuses at a place of its own.
pub struct Refusing {
    pub inner: Arc<MemorySource>,
    pub at: At,
    pub fault: SourceFault,
    /// Set to refuse in the middle of a read, or at a slow beginning of one; or to let a partition be read that was found long ago.
    pub now: Arc<AtomicBool>,
    /// Streams that the pipeline file names.
    pub names: Vec<&'static str>,
}

impl Refusing {
    pub fn at(inner: &Arc<MemorySource>, at: At) -> Self {
        let (now, fault) = (Arc::default(), SourceFault::Refused);
        Self { inner: inner.clone(), at, fault, now, names: vec!["e"] }
    }

    fn refusal(&self) -> SourceError {
        SourceError::new(self.fault, "made to refuse")
    }
}

struct RefusingReader {
    inner: Box<dyn Reader>,
    first: Option<SourceError>,
    found: Vec<SourceError>,
    /// For partitions that it finds: set to let them be read.
    lets_add: Option<Arc<AtomicBool>>,
    now: Arc<AtomicBool>,
    fault: SourceFault,
}

#[async_trait]
impl Source for Refusing {
    fn streams(&self) -> Streams {
        Streams::Topics
    }

    fn covers(&self, stream: &str) -> bool {
        self.names.contains(&stream)
    }

    async fn partitions(&self) -> Result<Vec<PartitionStart>, SourceError> {
        match self.at {
            At::Partitions => Err(self.refusal()),
            At::Aside => Ok(Vec::new()),
            _ => self.inner.partitions().await,
        }
    }

    async fn ends(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        self.inner.ends().await
    }

    async fn read(&self, from: Vec<ReadFrom>) -> Result<Box<dyn Reader>, SourceError> {
        if self.at == At::Read {
            return Err(self.refusal());
        }
        if matches!(self.at, At::SlowRead | At::Slow) {
            while !self.now.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        let is_refused = match self.at {
            At::SlowRead => true,
            At::Below(first) => from.iter().any(|from| from.next < first.into()),
            _ => false,
        };
        if is_refused {
            return Err(self.refusal());
        }
        let first = (self.at == At::FirstEvent).then(|| self.refusal());
        let found = if self.at == At::Found { vec![self.refusal(), self.refusal()] } else { Vec::new() };
        let inner = self.inner.read(from).await?;
        let lets_add = (self.at == At::FoundLong).then(|| self.now.clone());
        let now = if matches!(self.at, At::Slow | At::FoundLong) { Arc::default() } else { self.now.clone() };
        Ok(Box::new(RefusingReader { inner, first, found, lets_add, now, fault: self.fault }))
    }

    async fn publish(&self, positions: &[(Partition, Position)]) -> Result<(), SourceError> {
        self.inner.publish(positions).await
    }

    async fn published(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        self.inner.published().await
    }

    fn stands_aside(&self) -> bool {
        self.at == At::Aside
    }
}

#[async_trait]
impl Reader for RefusingReader {
    async fn next(&mut self) -> Result<Event, SourceError> {
        if let Some(error) = self.first.take() {
            return Err(error);
        }
        loop {
            if self.now.load(Ordering::SeqCst) {
                return Err(SourceError::new(self.fault, "the topic was deleted"));
            }
            let next = tokio::time::timeout(Duration::from_millis(5), self.inner.next());
            if let Ok(event) = next.await {
                return event;
            }
        }
    }

    async fn add(&mut self, from: ReadFrom) -> Result<(), SourceError> {
        if self.lets_add.as_ref().is_some_and(|lets| !lets.load(Ordering::SeqCst)) {
            return Err(SourceError::new(self.fault, "made to refuse"));
        }
        match self.found.pop() {
            Some(error) => Err(error),
            None => self.inner.add(from).await,
        }
    }

    fn remove(&mut self, partition: &Partition) {
        self.inner.remove(partition);
    }

    fn pause(&mut self, partition: &Partition) {
        self.inner.pause(partition);
    }

    fn resume(&mut self, partition: &Partition) {
        self.inner.resume(partition);
    }
}

pub fn with(bench: &Bench, source: Refusing, drain: bool) -> Pipeline {
    Pipeline { inputs: bench.inputs(Arc::new(source)), ..bench.pipeline(drain) }
}

/// Runs without an end of its own, for at most 20 seconds.
pub async fn until_it_ends(pipeline: Pipeline) -> Result<Outcome, EngineError> {
    let (_stop, asked) = watch::channel(false);
    let run = engine::run(pipeline, asked);
    tokio::time::timeout(Duration::from_secs(300), run).await.expect("it ends by itself")
}

/// Everything in the store, by name.
pub async fn contents(bench: &Bench) -> BTreeMap<String, Bytes> {
    let prefix = Prefix::new("p").expect("a name");
    let mut contents = BTreeMap::new();
    for entry in bench.store.list(&prefix, None, 1_000).await.expect("a store in memory") {
        let bytes = bench.store.get(&entry.key, 1 << 30).await.expect("a store in memory");
        contents.insert(entry.key.as_str().to_owned(), bytes.expect("it was listed"));
    }
    contents
}

/// 100 records are sealed while the table takes none; then the process dies, and the table comes back.
async fn sealed_and_not_delivered(bench: &Bench) {
    bench.push(0..100);
    set_away(bench, true);
    let dies = Process::start(bench.pipeline(false));
    while bench.lane().await.counts.passed < 100 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    dies.kill().await;
    set_away(bench, false);
    assert!(bench.lane().await.spool_frames() > 0);
    bench.assert_holds([]);
}

/// Inserts find nobody; questions are answered.
pub fn set_away(bench: &Bench, away: bool) {
    let mut world = bench.table.world.lock().expect("no panic");
    (world.away, world.facts_away) = (away, false);
}

fn delivered(error: &EngineError) -> u64 {
    match error {
        EngineError::Delivered { rows, .. } => *rows,
        other => panic!("not after a delivery: {other}"),
    }
}

#[test]
fn what_is_sealed_is_delivered_though_the_source_refuses() {
    run(async {
        let partitions = [Partition::new("e", 0), Partition::new("e", 1)];
        for spoil in ["expired", "made anew", "no partitions", "no read", "no first event", "misconfigured"] {
            let bench = Bench::new();
            sealed_and_not_delivered(&bench).await;
            let mut source = Refusing::at(&bench.source, At::Nowhere);
            match spoil {
                "expired" => {
                    bench.push(100..300);
                    partitions.iter().for_each(|p| bench.feed.forget(p, 120));
                }
                "made anew" => bench.feed.open(partitions[0].clone()),
                "no partitions" => source.at = At::Partitions,
                "no read" => source.at = At::Read,
                "no first event" => source.at = At::FirstEvent,
                _ => (source.at, source.fault) = (At::Partitions, SourceFault::Config),
            }
            let error = until_it_ends(with(&bench, source, false)).await.expect_err(spoil);
            assert_eq!(delivered(&error), 100, "{spoil}: {error}");
            assert!(error.to_string().contains("has delivered 100 rows"), "{spoil}: {error}");
            bench.assert_holds(0..100);
            let lane = bench.lane().await;
            assert_eq!(
                (lane.spool_frames(), lane.counts.read),
                (0, 100),
                "{spoil}: settled, and nothing read"
            );
        }
    });
}

#[test]
fn what_is_sealed_is_delivered_while_the_source_is_away_and_reading_follows() {
    run(async {
        let bench = Bench::new();
        sealed_and_not_delivered(&bench).await;
        bench.feed.fail(u32::MAX);
        let (stop, asked) = watch::channel(false);
        let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 100).await;
        bench.feed.fail(0);
        bench.push(100..200);
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 200).await;
        stop.send(true).expect("it runs");
        assert_eq!(running.await.expect("no panic").expect("drains"), Outcome::Drained);
        bench.assert_holds(0..200);
    });
}

#[test]
fn a_process_whose_source_is_away_stops_when_it_is_asked_to() {
    run(async {
        for pending in [true, false] {
            let bench = Bench::new();
            if pending {
                sealed_and_not_delivered(&bench).await;
            }
            bench.feed.fail(u32::MAX);
            let (stop, asked) = watch::channel(false);
            let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
            if pending {
                wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 100).await;
            } else {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            stop.send(true).expect("it runs");
            let ended = tokio::time::timeout(Duration::from_secs(120), running).await.expect("it ends");
            let outcome = ended.expect("no panic").expect("no failure");
            assert_eq!(outcome, if pending { Outcome::Drained } else { Outcome::Interrupted });
        }
    });
}

#[test]
fn a_refused_row_becomes_a_dead_letter_though_the_source_refuses() {
    run(async {
        let bench = Bench::new();
        sealed_and_not_delivered(&bench).await;
        bench.table.world.lock().expect("no panic").poison = vec![42];
        let source = Refusing::at(&bench.source, At::Partitions);
        let error = until_it_ends(with(&bench, source, false)).await.expect_err("it refuses");
        assert_eq!(delivered(&error), 100, "{error}");
        bench.assert_holds((0..100).filter(|id| *id != 42));
        let totals = bench.totals().await;
        assert_eq!((totals.written, totals.dead_letters), (99, 1));
    });
}

#[test]
fn a_start_whose_source_refuses_writes_nothing() {
    run(async {
        for at in [At::Partitions, At::Read, At::FirstEvent] {
            let bench = Bench::new();
            bench.push(0..100);
            let first = until_it_ends(with(&bench, Refusing::at(&bench.source, at), true)).await;
            assert!(matches!(first, Err(EngineError::Source(_))), "{at:?}: {first:?}");
            assert_eq!(contents(&bench).await, BTreeMap::new(), "{at:?}: a first start");
            bench.drain().await.expect("the right source");
            let before = contents(&bench).await;
            bench.feed.open(Partition::new("f", 0));
            let later = until_it_ends(with(&bench, Refusing::at(&bench.source, at), true)).await;
            assert!(matches!(later, Err(EngineError::Source(_))), "{at:?}: {later:?}");
            assert_eq!(contents(&bench).await, before, "{at:?}: a later start");
            bench.drain().await.expect("the right source");
            bench.assert_holds(0..100);
        }
    });
}

#[test]
fn a_start_that_refuses_leaves_an_owner_that_runs_alone() {
    run(async {
        let mut bench = Bench::new();
        // Longer than a busy machine keeps the owner waiting; that it writes is seen at once.
        bench.settings.owner_quiet_min = Duration::from_secs(10);
        bench.push(0..50);
        let (stop, asked) = watch::channel(false);
        let owner = tokio::spawn(engine::run(bench.pipeline(false), asked));
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 50).await;
        // What is in the table is recorded as settled, so that what waits from here on stays.
        while bench.lane().await.spool_frames() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // Frames wait, and the owner goes on sealing.
        set_away(&bench, true);
        let feeding = tokio::spawn({
            let (feed, mut id) = (bench.feed.clone(), 50u64);
            async move {
                loop {
                    feed.push(&Partition::new("e", (id % 2) as u32), id as i64, id.to_string());
                    id += 1;
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            }
        });
        while bench.lane().await.spool_frames() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let mistaken = with(&bench, Refusing::at(&bench.source, At::Read), false);
        let error = until_it_ends(mistaken).await.expect_err("it refuses");
        assert!(matches!(error, EngineError::LeftAlone { inserts: 1.., .. }), "{error}");
        assert_eq!(bench.lane().await.epoch, 1, "nobody was fenced");
        feeding.abort();
        set_away(&bench, false);
        stop.send(true).expect("it runs");
        assert_eq!(owner.await.expect("no panic").expect("drains"), Outcome::Drained);
    });
}

/// One insert may take minutes, and one that the server does not take is tried again for ever: nothing is sealed or settled meanwhile.
#[test]
fn an_owner_that_has_nothing_to_record_while_its_inserts_wait_is_not_taken_for_gone() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.owner_check_every = Duration::from_millis(50);
        bench.settings.owner_quiet_min = Duration::from_secs(1);
        bench.table.world.lock().expect("no panic").says =
            Some((TableFault::TooManyParts, Remedy::Resend, Effect::None, false));
        bench.push(0..50);
        let (stop, asked) = watch::channel(false);
        let owner = tokio::spawn(engine::run(bench.pipeline(false), asked));
        wait_until(|| bench.status.snapshot().sealed.records.read == 50).await;
        let mistaken = with(&bench, Refusing::at(&bench.source, At::Read), false);
        let error = until_it_ends(mistaken).await.expect_err("it refuses");
        assert!(matches!(error, EngineError::LeftAlone { inserts: 1.., .. }), "{error}");
        assert_eq!(bench.lane().await.epoch, 1, "nobody was fenced");
        bench.table.world.lock().expect("no panic").says = None;
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 50).await;
        // With nothing that waits, it has nothing to show.
        while bench.lane().await.spool_frames() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let records = bench.lane().await.next_seq;
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(bench.lane().await.next_seq, records);
        stop.send(true).expect("it runs");
        assert_eq!(owner.await.expect("no panic").expect("drains"), Outcome::Drained);
    });
}

/// A start may be suspended while its source answers. What was pending before may then be settled, and its owner idle.
#[test]
fn a_start_that_is_refused_late_leaves_an_idle_owner_alone() {
    run(async {
        let bench = Bench::new();
        bench.push(0..50);
        let (stop, asked) = watch::channel(false);
        let owner = tokio::spawn(engine::run(bench.pipeline(false), asked));
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 50).await;
        set_away(&bench, true);
        bench.push(50..60);
        while bench.lane().await.spool_frames() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let slow = Refusing::at(&bench.source, At::SlowRead);
        let refuse = slow.now.clone();
        let mistaken = tokio::spawn(until_it_ends(with(&bench, slow, false)));
        tokio::time::sleep(Duration::from_millis(200)).await;
        set_away(&bench, false);
        bench.push(60..70);
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 70).await;
        while bench.lane().await.spool_frames() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        refuse.store(true, Ordering::SeqCst);
        let error = mistaken.await.expect("no panic").expect_err("it refuses");
        assert!(matches!(error, EngineError::Source(_)), "{error}");
        assert_eq!(bench.lane().await.epoch, 1, "nobody was fenced");
        stop.send(true).expect("it runs");
        assert_eq!(owner.await.expect("no panic").expect("drains"), Outcome::Drained);
    });
}

#[test]
fn a_store_that_was_rolled_back_delivers_nothing() {
    run(async {
        let bench = Bench::new();
        sealed_and_not_delivered(&bench).await;
        // Somebody with the newer store has read, and published, more than this one knows.
        bench.push(100..300);
        let published = [(Partition::new("e", 0), 140)];
        bench.source.publish(&published).await.expect("a source in memory");
        let before = contents(&bench).await;
        let error = until_it_ends(bench.pipeline(false)).await.expect_err("rolled back");
        assert!(error.to_string().contains("rolled back"), "{error}");
        assert_eq!(contents(&bench).await, before);
        bench.assert_holds([]);
    });
}

#[test]
fn a_store_from_before_a_partition_was_added_is_told_by_what_was_published_of_it() {
    run(async {
        let bench = Bench::new();
        bench.push(0..10);
        bench.drain().await.expect("drains");
        let late = Partition::new("e", 2);
        bench.feed.open(late.clone());
        (10..15).for_each(|id: u64| {
            bench.feed.push(&late, id as i64, id.to_string());
        });
        // Somebody with the newer store has read it.
        bench.source.publish(&[(late.clone(), 3)]).await.expect("a source in memory");
        let before = contents(&bench).await;
        let error = until_it_ends(bench.pipeline(true)).await.expect_err("rolled back");
        assert!(error.to_string().contains("before the partition was added"), "{error}");
        assert_eq!(contents(&bench).await, before, "nothing was claimed");
        // What retention took since is not read twice.
        bench.feed.forget(&late, 3);
        bench.drain().await.expect("nothing comes twice");
        bench.assert_holds((0..10).chain(13..15));
    });
}

/// A source that cannot say at first where its partitions begin, as that of a topic without leaders.
struct Unasked(Arc<MemorySource>);

#[async_trait]
impl Source for Unasked {
    fn streams(&self) -> Streams {
        Streams::Topics
    }

    async fn partitions(&self) -> Result<Vec<PartitionStart>, SourceError> {
        let mut shown = self.0.partitions().await?;
        shown.iter_mut().for_each(|start| (start.next, start.first) = (Position::MAX, 0));
        Ok(shown)
    }

    async fn recognize(
        &self,
        _shown: Vec<PartitionStart>,
        _known: Vec<ReadFrom>,
    ) -> Result<Vec<PartitionStart>, SourceError> {
        self.0.partitions().await
    }

    async fn ends(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        self.0.ends().await
    }

    async fn read(&self, from: Vec<ReadFrom>) -> Result<Box<dyn Reader>, SourceError> {
        self.0.read(from).await
    }

    async fn publish(&self, positions: &[(Partition, Position)]) -> Result<(), SourceError> {
        self.0.publish(positions).await
    }

    async fn published(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        self.0.published().await
    }
}

#[test]
fn a_lost_store_is_told_once_the_source_can_say_where_its_partitions_begin() {
    run(async {
        let bench = Bench::new();
        bench.push(0..20);
        let drain = || Pipeline {
            inputs: bench.inputs(Arc::new(Unasked(bench.source.clone()))),
            ..bench.pipeline(true)
        };
        let partition = Partition::new("e", 0);
        bench.source.publish(&[(partition.clone(), 3)]).await.expect("a source in memory");
        let before = contents(&bench).await;
        let error = until_it_ends(drain()).await.expect_err("it was read before");
        assert!(error.to_string().contains("the store was lost"), "{error}");
        assert_eq!(contents(&bench).await, before, "nothing was claimed");
        // Of what retention took since, nothing comes twice.
        bench.feed.forget(&partition, 3);
        until_it_ends(drain()).await.expect("begins behind it");
        bench.assert_holds((0..20).filter(|id| id % 2 == 1 || *id >= 6));
    });
}

#[test]
fn a_partition_that_is_found_while_the_source_is_away_is_read_once_it_is_back() {
    run(async {
        let bench = Bench::new();
        let source = Refusing { fault: SourceFault::Away, ..Refusing::at(&bench.source, At::Found) };
        let (stop, asked) = watch::channel(false);
        let running = tokio::spawn(engine::run(with(&bench, source, false), asked));
        bench.push(0..10);
        let found = Partition::new("e", 2);
        bench.feed.open(found.clone());
        bench.feed.push(&found, 1_010, "10");
        while bench.lane().await.counts.passed < 11 {
            assert!(!running.is_finished(), "it is only away");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stop.send(true).expect("it runs");
        running.await.expect("no panic").expect("drains");
        bench.assert_holds(0..11);
    });
}

#[test]
fn a_source_that_refuses_while_it_is_read_ends_the_pipeline_once_all_is_delivered() {
    run(async {
        let bench = Bench::new();
        let source = Refusing::at(&bench.source, At::Nowhere);
        let now = source.now.clone();
        let running = tokio::spawn(until_it_ends(with(&bench, source, false)));
        set_away(&bench, true);
        bench.push(0..100);
        while bench.lane().await.counts.passed < 100 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        now.store(true, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!running.is_finished(), "100 rows are sealed and not delivered");
        set_away(&bench, false);
        let error = running.await.expect("no panic").expect_err("it refuses");
        assert_eq!((delivered(&error), error.state()), (100, "source"));
        bench.assert_holds(0..100);
        assert_eq!(bench.lane().await.spool_frames(), 0);
    });
}

#[test]
fn a_stream_that_the_file_names_no_more_is_asked_about() {
    run(async {
        let bench = Bench::new();
        bench.push(0..10);
        bench.drain().await.expect("drains");
        let before = contents(&bench).await;
        let renamed = Refusing { names: vec!["f"], ..Refusing::at(&bench.source, At::Nowhere) };
        let error = until_it_ends(with(&bench, renamed, true)).await.expect_err("it asks");
        assert_eq!(error.state(), "mismatch");
        assert!(error.to_string().contains("`forebay forget FILE --topic e`"), "{error}");
        assert_eq!(contents(&bench).await, before, "nothing is written before the answer");
    });
}

/// Two stores, one table, and both starts found it empty: the one that sends first is alone.
#[test]
fn of_two_first_starts_at_once_only_one_writes() {
    run(async {
        let one = Bench::new();
        one.table.world.lock().expect("no panic").asks_if_filled = true;
        let other = Bench { table: one.table.clone(), ..Bench::new() };
        let (_stop, asked) = tokio::sync::watch::channel(false);
        let running = tokio::spawn(engine::run(other.pipeline(false), asked));
        while other.lane().await.partitions.is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        one.push(0..100);
        one.drain().await.expect("the first one goes on");
        one.drain().await.expect("and again, for the rows are its own");
        other.push(0..100);
        let refused = running.await.expect("no panic").expect_err("the table is another's by now");
        assert!(matches!(&refused, EngineError::Mismatch(why) if why.contains("has rows")), "{refused:?}");
        // What it has sealed by then changes nothing: the next start asks too.
        let again = other.drain().await.expect_err("still");
        assert!(matches!(again, EngineError::Mismatch(_)), "{again:?}");
        one.assert_holds(0..100);
        // A person has decided: these are other rows.
        one.table.world.lock().expect("no panic").asks_if_filled = false;
        other.push(100..150);
        other.drain().await.expect("is told to");
        one.table.world.lock().expect("no panic").asks_if_filled = true;
        other.push(150..200);
        other.drain().await.expect("asked once");
        assert_eq!(one.table.world.lock().expect("no panic").ids().values().sum::<u64>(), 300);
    });
}
