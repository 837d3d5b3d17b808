use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use dataflow::{Event, Reader};
use engine::TokioRuntime;
use protocol::Record;
use protocol::record::{Before, Body, Removal};
use sources::memory::{MemoryHandle, MemorySource};
use store::{Entry, ErrorKind, Key, MemoryStore, Operation, Prefix, Put, Store, StoreError};

use super::super::tests::{log, replay};
use super::*;
use crate::aside::Aside;

/// A source with one partition beside an empty log.
fn world() -> (MemoryHandle, Log, WithReplays) {
    let inner = MemorySource::new([("events", 1)]);
    let (handle, log) = (inner.handle(), log());
    let source = WithReplays::new(Arc::new(inner), log.clone(), TokioRuntime::new(1));
    (handle, log, source)
}

fn from(start: &PartitionStart, next: u64) -> ReadFrom {
    ReadFrom {
        partition: start.partition.clone(),
        identity: start.identity.clone(),
        next: next.into(),
        leader_epoch: start.leader_epoch,
    }
}

async fn read_all(source: &WithReplays, log_from: u64) -> Box<dyn Reader> {
    let starts = source.partitions().await.expect("partitions");
    let at = |start: &PartitionStart| {
        if start.partition == partition() { log_from } else { dataflow::position::low(start.next) }
    };
    source.read(starts.iter().map(|start| from(start, at(start))).collect()).await.expect("a reader")
}

/// The next event of the log, in words; what the inner source says is left out.
async fn next(reader: &mut dyn Reader) -> String {
    loop {
        let event = tokio::time::timeout(Duration::from_secs(300), reader.next()).await.expect("an event");
        match event.expect("no fault") {
            Event::Block(block) if block.partition == partition() => {
                assert_eq!(block.len(), 1, "a block for each record");
                return format!("{}={}", block.positions[0], String::from_utf8_lossy(block.payloads.get(0)));
            }
            Event::CaughtUp { partition: at, next, .. } if at == partition() => {
                return format!("up to {next}");
            }
            Event::Ended { partition: at, next } if at == partition() => return format!("ended {next}"),
            Event::Removed { partition: at } if at == partition() => return "removed".to_owned(),
            Event::Found(start) => return format!("found {}", start.partition),
            _ => {}
        }
    }
}

#[tokio::test]
async fn the_log_is_taken_away_and_added_again_like_any_partition() {
    let (_, log, source) = world();
    log.append(&replay(0, [70, 80], 1)).await.expect("a put");
    let mut reader = read_all(&source, 0).await;
    assert_eq!(next(&mut *reader).await, "0=70");
    reader.remove(&partition());
    assert_eq!(next(&mut *reader).await, "removed", "behind the record that was handed out");
    let starts = source.partitions().await.expect("partitions");
    let start = starts.iter().find(|start| start.partition == partition()).expect("it is shown");
    reader.add(from(start, 1)).await.expect("it is read again");
    assert_eq!(next(&mut *reader).await, "1=80");
}

#[tokio::test]
async fn records_of_the_log_come_one_a_block_and_from_any_position() {
    let (_, log, source) = world();
    assert_eq!(source.partitions().await.expect("partitions").len(), 1, "an empty log is not shown");
    log.append(&replay(0, [70, 80], 1)).await.expect("a put");
    log.append(&replay(2, [90], 1)).await.expect("a put");
    assert_eq!(source.ends().await.expect("ends").last(), Some(&(partition(), 3)));
    for (begin, expected) in [
        (0, &["0=70", "1=80", "2=90", "up to 3"][..]),
        (1, &["1=80", "2=90", "up to 3"]),
        (2, &["2=90", "up to 3"]),
        (3, &["up to 3"]),
    ] {
        let mut reader = read_all(&source, begin).await;
        for event in expected {
            assert_eq!(next(&mut *reader).await, *event, "from {begin}");
        }
    }
    // What is put while it is read comes too, and the ends follow.
    let mut reader = read_all(&source, 3).await;
    assert_eq!(next(&mut *reader).await, "up to 3");
    log.append(&replay(3, [1], 1)).await.expect("a put");
    assert_eq!((next(&mut *reader).await, next(&mut *reader).await), ("3=1".into(), "up to 4".into()));
    assert_eq!(source.ends().await.expect("ends").last(), Some(&(partition(), 4)));
}

#[tokio::test]
async fn a_record_brings_its_key_headers_time_and_first_place() {
    let (_, log, source) = world();
    let mut object = replay(0, [7], 1);
    dataflow::block::push_header(&mut object.records[0].headers, "a", Some(b"b"));
    object.records[0].key = Some(b"k".to_vec());
    log.append(&object).await.expect("a put");
    let mut reader = read_all(&source, 0).await;
    let block = loop {
        if let Event::Block(block) = reader.next().await.expect("no fault") {
            break block;
        }
    };
    assert_eq!(block.times_ms, [1_007]);
    assert_eq!(block.keys.as_ref().map(|keys| keys.get(0)), Some(&b"k"[..]));
    let all: Vec<_> = headers(block.headers.as_ref().expect("headers").get(0)).collect();
    assert_eq!(all, [("a", Some(&b"b"[..])), (ORIGIN_HEADER, Some(&b"events/0/7"[..]))]);
    assert!(source.wants_fates(&partition()) && !source.wants_fates(&Partition::new("events", 0)));
}

#[tokio::test]
async fn the_first_replay_is_found_while_the_pipeline_runs() {
    let (_, log, source) = world();
    let mut reader = read_all(&source, 0).await;
    log.append(&replay(0, [7], 1)).await.expect("a put");
    assert_eq!(next(&mut *reader).await, "found @replays/0");
    let start = source.partitions().await.expect("partitions").pop().expect("the log");
    reader.add(from(&start, 0)).await.expect("it is read from now on");
    assert_eq!((next(&mut *reader).await, next(&mut *reader).await), ("0=7".into(), "up to 1".into()));
}

#[tokio::test]
async fn the_log_ends_with_the_last_other_partition_but_not_before_it_is_read() {
    let (handle, log, source) = world();
    log.append(&replay(0, [7], 1)).await.expect("a put");
    let mut reader = read_all(&source, 0).await;
    assert_eq!((next(&mut *reader).await, next(&mut *reader).await), ("0=7".into(), "up to 1".into()));
    log.append(&replay(1, [8], 1)).await.expect("a put");
    handle.end_all();
    let mut told = Vec::new();
    while told.last().is_none_or(|event: &String| !event.starts_with("ended")) {
        told.push(next(&mut *reader).await);
    }
    assert_eq!(told, ["1=8", "ended 2"]);
}

#[tokio::test]
async fn a_paused_log_waits_and_loses_nothing() {
    let (handle, log, source) = world();
    log.append(&replay(0, [7, 8], 1)).await.expect("a put");
    let mut reader = read_all(&source, 0).await;
    reader.pause(&partition());
    handle.push(&Partition::new("events", 0), 1, "1");
    let Ok(Event::Block(block)) = reader.next().await else { panic!("the other source goes on") };
    assert_eq!(&*block.partition.stream, "events");
    reader.resume(&partition());
    assert_eq!((next(&mut *reader).await, next(&mut *reader).await), ("0=7".into(), "1=8".into()));
}

#[tokio::test]
async fn a_log_that_is_not_what_the_journal_knows_is_refused() {
    let (_, log, source) = world();
    log.append(&replay(5, [7], 1)).await.expect("a put");
    let start = source.partitions().await.expect("partitions").pop().expect("the log");
    for (next, identity) in [(4, IDENTITY), (7, IDENTITY), (5, "another")] {
        let from = ReadFrom { identity: identity.into(), ..from(&start, next) };
        let error = source.read(vec![from]).await.err().expect("it is refused");
        assert_eq!(
            (error.fault, error.partition),
            (SourceFault::Refused, Some(partition())),
            "{next} {identity}"
        );
    }
}

#[tokio::test]
async fn one_record_is_read_again_from_either() {
    let (handle, log, source) = world();
    handle.push(&Partition::new("events", 0), 1, "x");
    log.append(&replay(0, [7, 8], 1)).await.expect("a put");
    let starts = source.partitions().await.expect("partitions");
    let theirs = source.record(from(&starts[0], 0)).await.expect("an answer").expect("a record");
    assert_eq!((&*theirs.partition.stream, theirs.payloads.get(0)), ("events", &b"x"[..]));
    let ours = source.record(from(&starts[1], 1)).await.expect("an answer").expect("a record");
    assert_eq!((ours.positions.as_slice(), ours.payloads.get(0)), (&[1][..], &b"8"[..]));
    assert!(source.record(from(&starts[1], 2)).await.expect("an answer").is_none(), "the log ends there");
}

#[tokio::test]
async fn a_stream_of_the_logs_name_is_a_fault_of_the_file() {
    let inner = MemorySource::new([(STREAM, 1)]);
    let log = Log::new(Arc::new(MemoryStore::default()), "p/lane-0");
    let source = WithReplays::new(Arc::new(inner), log, TokioRuntime::new(1));
    assert_eq!(source.partitions().await.err().map(|error| error.fault), Some(SourceFault::Config));
}

#[tokio::test]
async fn what_stands_aside_counts_as_read_wherever_it_stands() {
    let inner = MemorySource::new([("events", 4)]);
    inner.handle().push(&Partition::new("events", 3), 1, "x");
    let start = inner.partitions().await.expect("partitions").pop().expect("four of them");
    let aside = Aside::new(Arc::new(inner));
    let one = aside.record(from(&start, 0)).await.expect("an answer").expect("the record of a refused row");
    assert_eq!(one.payloads.get(0), b"x");
    let mut reader = aside.read(vec![from(&start, 99)]).await.expect("a reader");
    assert_eq!(aside.ends().await.expect("ends"), [(Partition::new("events", 3), 0)]);
    let told = reader.next().await.expect("an event");
    assert!(
        matches!(&told, Event::CaughtUp { partition, next: 99, .. } if *partition == start.partition),
        "{told:?}"
    );
    assert!(
        tokio::time::timeout(Duration::from_millis(50), reader.next()).await.is_err(),
        "it says nothing more"
    );
}

/// The log beside it is read, and the watermark waits for the rest.
#[tokio::test]
async fn what_stands_aside_says_so_beside_the_log_too() {
    let (_, _, source) = world();
    assert!(!source.stands_aside(), "a source that is read");
    let aside = Aside::new(Arc::new(MemorySource::new([("events", 1)])));
    assert!(aside.stands_aside());
    assert!(WithReplays::new(Arc::new(aside), log(), TokioRuntime::new(1)).stands_aside());
}

#[tokio::test]
async fn an_insert_that_was_not_written_is_made_again_of_a_source_that_stands_aside() {
    let inner = MemorySource::new([("events", 1)]);
    let start = inner.partitions().await.expect("partitions").pop().expect("one of them");
    inner.handle().push(&start.partition, 1, "x");
    let aside = Aside::new(Arc::new(inner));
    let is_silent = |told: &Event| matches!(told, Event::CaughtUp { next: 1, .. });
    // The lane reads on behind it; then an insert of the replay log is made again, and then one of the source.
    let mut lane = aside.read(vec![from(&start, 1)]).await.expect("a reader");
    assert!(is_silent(&lane.next().await.expect("an event")));
    drop(aside.read(Vec::new()).await.expect("a reader"));
    let mut insert = aside.read(vec![from(&start, 0)]).await.expect("a reader");
    let record = async {
        loop {
            if let Event::Block(block) = insert.next().await.expect("no fault") {
                return block;
            }
        }
    };
    let block = tokio::time::timeout(Duration::from_secs(300), record).await.expect("it is read");
    assert_eq!(block.payloads.get(0), b"x");
    assert_eq!(aside.ends().await.expect("ends"), [(start.partition.clone(), 0)]);
    let mut lane = aside.read(vec![from(&start, 1)]).await.expect("a reader");
    assert!(is_silent(&lane.next().await.expect("an event")), "nothing new is read");
}

#[test]
fn a_record_names_its_input_in_a_header_that_no_sender_can_forge() {
    let named = |input: &str, headers: &[(&str, &[u8])]| {
        let mut encoded = Vec::new();
        headers
            .iter()
            .for_each(|(name, value)| dataflow::block::push_header(&mut encoded, name, Some(value)));
        let record =
            Replayed { input: input.into(), origin: "t/0/1".into(), headers: encoded, ..Replayed::default() };
        input_of(&block(3, &record)).map(str::to_owned)
    };
    assert_eq!(named("orders", &[]).as_deref(), Some("orders"));
    assert_eq!(named("", &[]), None, "a pipeline with one input");
    assert_eq!(named("orders", &[(INPUT_HEADER, b"refunds")]).as_deref(), Some("orders"));
    let mut foreign = BlockBuilder::new(Partition::new("topic", 0), 0);
    foreign.push(0, 0, None);
    foreign.header(INPUT_HEADER, Some(b"orders"));
    foreign.header(ORIGIN_HEADER, Some(b"t/0/1"));
    assert_eq!(input_of(&foreign.take()), None, "no block of the log");
}

#[tokio::test]
async fn the_log_goes_on_where_another_input_does() {
    let (handle, log, source) = world();
    let source = source.outliving(true);
    log.append(&replay(0, [70], 1)).await.expect("a put");
    let mut reader = read_all(&source, 0).await;
    handle.end(&Partition::new("events", 0));
    assert_eq!(next(&mut *reader).await, "0=70");
    assert_eq!(next(&mut *reader).await, "up to 1");
    log.append(&replay(1, [80], 2)).await.expect("a put");
    assert_eq!(next(&mut *reader).await, "1=80");
}

/// A store that cannot make anything durable so many times.
#[derive(Debug)]
struct Soft {
    inner: MemoryStore,
    fails: AtomicU32,
}

#[async_trait]
impl Store for Soft {
    async fn put_if_absent(&self, key: &Key, body: Vec<Bytes>) -> Result<Put, StoreError> {
        self.inner.put_if_absent(key, body).await
    }

    async fn get(&self, key: &Key, bytes_max: u64) -> Result<Option<Bytes>, StoreError> {
        self.inner.get(key, bytes_max).await
    }

    async fn get_range(&self, key: &Key, range: std::ops::Range<u64>) -> Result<Option<Bytes>, StoreError> {
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
        self.inner.delete(key).await
    }

    async fn harden(&self, prefix: &Prefix) -> Result<(), StoreError> {
        let is_left = self.fails.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        match is_left {
            Ok(_) => Err(StoreError::new(
                ErrorKind::SyncFailed,
                Operation::Harden,
                prefix.as_str(),
                "made to fail".to_owned(),
            )),
            Err(_) => self.inner.harden(prefix).await,
        }
    }

    fn describe(&self) -> String {
        "soft://".to_owned()
    }
}

#[tokio::test]
async fn no_record_is_handed_out_before_its_object_is_durable() {
    let store = Arc::new(Soft { inner: MemoryStore::default(), fails: AtomicU32::new(0) });
    let log = Log::new(store.clone(), "p/lane-0");
    let inner = MemorySource::new([("events", 1)]);
    let source = WithReplays::new(Arc::new(inner), log.clone(), TokioRuntime::new(1));
    log.append(&replay(0, [70], 1)).await.expect("a put");
    let mut reader = read_all(&source, 0).await;
    assert_eq!((next(&mut *reader).await, next(&mut *reader).await), ("0=70".into(), "up to 1".into()));
    log.append(&replay(1, [80], 1)).await.expect("a put");
    store.fails.store(1, Ordering::SeqCst);
    let error = loop {
        match reader.next().await {
            // Of the source beside it, which has nothing.
            Ok(Event::CaughtUp { .. }) => {}
            Ok(event) => panic!("nothing is handed out: {event:?}"),
            Err(error) => break error,
        }
    };
    assert_eq!((error.fault, store.fails.load(Ordering::SeqCst)), (SourceFault::Store, 0), "{error}");
    assert!(error.message.contains("check the disk"), "{error}");
    let starts = source.partitions().await.expect("partitions");
    store.fails.store(1, Ordering::SeqCst);
    let error = source.read(vec![from(&starts[1], 1)]).await.err().expect("a start says so too");
    assert_eq!(error.fault, SourceFault::Store, "{error}");
    let mut reader = source.read(vec![from(&starts[1], 1)]).await.expect("a reader");
    assert_eq!(next(&mut *reader).await, "1=80");
}

/// The journal of a pipeline that was reset, whose log had ended at 7.
async fn reset(log: &Log) {
    let before = Before { until_ms: 70, replays_from: 7, letters_from_ms: 0 };
    for (seq, is_done) in [(0, false), (1, true)] {
        let removal = Removal { is_done, by: "test".into(), before: Some(before) };
        let body = Some(Body::Removal(removal));
        let record = Record { seq, epoch: 1, nonce: vec![1; 16], written_at_ms: 70, body };
        let key = Key::new(protocol::names::journal("p/lane-0", seq)).expect("a key");
        log.store.put_if_absent(&key, vec![record.to_bytes().into()]).await.expect("a put");
    }
}

/// The pipeline that had the name before has left letters `@replays/0/0` to `@replays/0/6`: none is to name two records.
#[tokio::test]
async fn a_log_behind_a_reset_begins_where_the_one_before_has_ended() {
    let (_handle, log, source) = world();
    reset(&log).await;
    let source = source.told_by_journal(true);
    let mut reader = read_all(&source, 0).await;
    log.append(&replay(7, [70], 1)).await.expect("a put");
    assert_eq!(next(&mut *reader).await, "found @replays/0");
    assert_eq!(source.partitions().await.expect("partitions")[1].first, 7);
    let mut reader = read_all(&source, 7).await;
    assert_eq!(next(&mut *reader).await, "7=70");
}

/// A record that was read as something else, which a proxy may answer once, must not make the run look for the log at 0 for ever.
#[tokio::test]
async fn where_a_log_begins_is_not_known_while_the_journal_cannot_be_read() {
    let (_handle, log, _source) = world();
    reset(&log).await;
    let key = Key::new(protocol::names::journal("p/lane-0", 2)).expect("a key");
    log.store.put_if_absent(&key, vec![Bytes::from_static(b"please log in")]).await.expect("a put");
    assert_eq!(log.first_of_lane().await.expect("the store answers"), None);
    log.store.delete(&key).await.expect("it is gone");
    assert_eq!(log.first_of_lane().await.expect("the store answers"), Some(7));
}
