//! Objects that are not what was sealed, and a disk that fails for good: the lane stops and says so, and a supervisor that starts it
//! again and again would change nothing.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use dataflow::Effect;
use engine::{EngineError, Outcome};
use operators::dedup::spilled::Sizes;
use protocol::Record;
use protocol::record::{Body, Seal};
use store::{Entry, ErrorKind, Key, MemoryStore, Operation, Prefix, Put, Store, StoreError};
use tokio::sync::watch;

use crate::run;
use crate::start::{contents, set_away};
use crate::support::{Bench, Process};

/// How an object is spoilt.
#[derive(Clone, Copy, Debug)]
enum Spoil {
    Missing,
    Empty,
    Truncated,
    /// Another object of the same kind in its place.
    Swapped,
    /// The same bytes, in another order: as long as before.
    SameLength,
}

/// A store that holds all kinds of objects, all of which the next start needs or reads.
async fn sealed() -> BTreeMap<String, Bytes> {
    let mut bench = Bench::new();
    bench.settings.checkpoint_records_max = 6;
    bench.sizes = Sizes::new(1 << 12);
    set_away(&bench, true);
    let dies = Process::start(bench.pipeline(false));
    for from in (0..600).step_by(60) {
        bench.push(from..from + 60);
        while bench.lane().await.counts.passed < from + 60 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    dies.kill().await;
    let lane = bench.lane().await;
    assert!(
        lane.newest_checkpoint.is_some() && lane.spool_frames() > 0,
        "a checkpoint, and frames to deliver"
    );
    contents(&bench).await
}

fn spoilt(all: &BTreeMap<String, Bytes>, name: &str, spoil: Spoil) -> Option<Bytes> {
    let bytes = &all[name];
    let kind = |name: &str| name.split('/').nth(2).unwrap_or_default().to_owned();
    match spoil {
        Spoil::Missing => None,
        Spoil::Empty => Some(Bytes::new()),
        Spoil::Truncated => Some(bytes.slice(..bytes.len() / 2)),
        Spoil::Swapped => {
            let other = |(other, _): &(&String, &Bytes)| *other != name && kind(other) == kind(name);
            Some(all.iter().find(other).map_or(Bytes::new(), |(_, bytes)| bytes.clone()))
        }
        Spoil::SameLength => Some(bytes.iter().rev().copied().collect::<Vec<u8>>().into()),
    }
}

async fn store_of(all: &BTreeMap<String, Bytes>, name: &str, instead: Option<Bytes>) -> Arc<dyn Store> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(1 << 30));
    for (own, bytes) in all {
        let bytes = if own == name { instead.clone() } else { Some(bytes.clone()) };
        if let Some(bytes) = bytes {
            let key = Key::new(own.clone()).expect("it was a key");
            assert_eq!(store.put_if_absent(&key, vec![bytes]).await.expect("room"), Put::Created);
        }
    }
    store
}

#[test]
fn whatever_is_done_to_an_object_the_process_stops_for_a_person_or_did_not_need_it() {
    run(async {
        let all = sealed().await;
        let mut stopped: BTreeMap<String, usize> = BTreeMap::new();
        for name in all.keys() {
            for spoil in [Spoil::Missing, Spoil::Empty, Spoil::Truncated, Spoil::Swapped, Spoil::SameLength] {
                let instead = spoilt(&all, name, spoil);
                if instead.as_ref() == Some(&all[name]) {
                    continue;
                }
                let mut bench = Bench::new();
                bench.sizes = Sizes::new(1 << 12);
                bench.store = store_of(&all, name, instead).await;
                bench.push(0..600);
                match bench.drain().await {
                    // Nobody needed it, or its records are read again from the source.
                    Ok(outcome) => {
                        assert_eq!(outcome, Outcome::Complete);
                        bench.assert_holds(0..600);
                    }
                    Err(error) => {
                        let state = error.state();
                        assert!(
                            ["damaged", "record", "violation", "state"].contains(&state),
                            "{name} {spoil:?}: `{state}`, {error}"
                        );
                        *stopped.entry(name.split('/').nth(2).unwrap_or_default().to_owned()).or_default() +=
                            1;
                    }
                }
            }
        }
        for kind in ["journal", "segments", "state"] {
            assert!(stopped.get(kind).is_some_and(|stops| *stops >= 4), "{kind}: {stopped:?}");
        }
    });
}

/// A store with one sealed frame of 60 rows that is not delivered yet.
async fn one_frame() -> BTreeMap<String, Bytes> {
    let bench = Bench::new();
    set_away(&bench, true);
    // All of them before the first is read: those that come later may be sealed in a frame of their own.
    bench.push(0..60);
    let dies = Process::start(bench.pipeline(false));
    while bench.lane().await.counts.passed < 60 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    dies.kill().await;
    contents(&bench).await
}

/// The store with its seals changed by `forge`, checksums and all. Sealed bytes stay as they are.
async fn forged(
    all: &BTreeMap<String, Bytes>,
    forge: impl Fn(&mut Seal, &BTreeMap<String, Bytes>),
) -> Arc<dyn Store> {
    let mut all = all.clone();
    let whole = all.clone();
    for (name, bytes) in &mut all {
        let Some(seq) = protocol::names::number(name).filter(|_| name.contains("/journal/")) else {
            continue;
        };
        let mut record = Record::from_bytes(seq, bytes).expect("a record of ours");
        if let Some(Body::Seal(seal)) = &mut record.body {
            forge(seal, &whole);
        }
        *bytes = record.to_bytes().into();
    }
    store_of(&all, "", None).await
}

/// What a start ends with that finds a row which the server refuses, so that the frame is taken apart.
async fn taken_apart(store: Arc<dyn Store>) -> Result<Outcome, EngineError> {
    let mut bench = Bench::new();
    bench.store = store;
    bench.push(0..60);
    bench.table.world.lock().expect("no panic").poison = vec![7];
    tokio::time::timeout(Duration::from_secs(300), bench.drain()).await.expect("it ends")
}

#[test]
fn a_frame_whose_seal_claims_other_rows_than_it_holds_is_damaged_and_takes_no_memory() {
    run(async {
        let all = one_frame().await;
        taken_apart(forged(&all, |_, _| {}).await).await.expect("as it was sealed, it is delivered");
        for rows in [1, 59, 61, 1 << 20, 1 << 50] {
            let claimed = |seal: &mut Seal, whole: &BTreeMap<String, Bytes>| {
                let Some(frame) = seal.frames.first_mut() else { return };
                frame.rows = rows;
                // The bytes that tell where rows come from say the same number, in the few bytes that any number of rows may take.
                assert!(!whole[&seal.segment].is_empty());
                for counts in &mut seal.counts {
                    (counts.read, counts.passed) = (rows, rows);
                }
                seal.rows.iter_mut().for_each(|table| table.rows = rows);
                if let Some(range) = seal.ranges.first_mut() {
                    range.next_low = range.next_low.max(range.from_low + rows);
                }
            };
            let error = taken_apart(forged(&all, claimed).await).await.expect_err("it is forged");
            let EngineError::Damaged { object, what } = &error else { panic!("{rows}: {error}") };
            assert!(object.contains("/segments/") && what.contains("60 rows"), "{error}");
        }
    });
}

#[test]
fn sealed_bytes_with_a_right_checksum_that_are_no_frame_are_damaged() {
    run(async {
        let all = one_frame().await;
        // The body ends early, and the checksum is that of what is left.
        let shortened = |seal: &mut Seal, whole: &BTreeMap<String, Bytes>| {
            let Some(frame) = seal.frames.first_mut() else { return };
            frame.len -= 3;
            frame.probe_len += 3;
            let body = whole[&seal.segment].slice(frame.offset as usize..(frame.offset + frame.len) as usize);
            frame.crc32c = crc32c::crc32c(&body);
        };
        let error = taken_apart(forged(&all, shortened).await).await.expect_err("it is forged");
        assert!(
            matches!(&error, EngineError::Damaged { object, .. } if object.contains("/segments/")),
            "{error}"
        );
    });
}

/// From some moment on, every fsync of a folder fails: what was put is there, and nobody answers for it.
#[derive(Debug)]
struct FailsToSync {
    inner: Arc<dyn Store>,
    /// The folder of the lane whose puts fail.
    kind: &'static str,
    broken: AtomicBool,
}

impl FailsToSync {
    fn error(operation: Operation, place: &str) -> StoreError {
        StoreError::new(ErrorKind::SyncFailed, operation, place, "failed to fsync its folder: I/O error")
    }
}

#[async_trait]
impl Store for FailsToSync {
    async fn put_if_absent(&self, key: &Key, body: Vec<Bytes>) -> Result<Put, StoreError> {
        if !self.broken.load(Ordering::SeqCst) || !key.as_str().contains(self.kind) {
            return self.inner.put_if_absent(key, body).await;
        }
        self.inner.put_if_absent(key, body).await?;
        Err(Self::error(Operation::Put, key.as_str()).with_effect(Effect::Unknown))
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
        self.inner.delete(key).await
    }

    async fn harden(&self, prefix: &Prefix) -> Result<(), StoreError> {
        match self.broken.load(Ordering::SeqCst) {
            true => Err(Self::error(Operation::Harden, prefix.as_str())),
            false => self.inner.harden(prefix).await,
        }
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

#[test]
fn an_fsync_that_fails_for_good_stops_the_process_and_the_next_start_goes_on() {
    run(async {
        for (kind, from_the_start) in [("/journal/", false), ("/segments/", false), ("/journal/", true)] {
            let mut bench = Bench::new();
            let inner = bench.store.clone();
            let broken = AtomicBool::new(from_the_start);
            let store = Arc::new(FailsToSync { inner: inner.clone(), kind, broken });
            bench.store = store.clone();
            bench.push(0..100);
            let (_stop, asked) = watch::channel(false);
            let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
            if !from_the_start {
                crate::wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 100).await;
                store.broken.store(true, Ordering::SeqCst);
                bench.push(100..200);
            }
            let ended = tokio::time::timeout(Duration::from_secs(300), running).await;
            let error =
                ended.unwrap_or_else(|_| panic!("it hangs: {kind}")).expect("no panic").expect_err(kind);
            assert!(matches!(error, EngineError::Store(_)), "{kind}: {error}");
            assert!(error.to_string().contains("fsync"), "{error}");
            // The disk was replaced, or the machine was.
            bench.store = inner;
            bench.push(200..300);
            bench.drain().await.expect("drains");
            bench.assert_holds(if from_the_start {
                (0..100).chain(200..300)
            } else {
                (0..200).chain(200..300)
            });
        }
    });
}
