//! Damage of every kind, in a store in memory and on disk: each is found, named, and told what it means.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use engine::inspect::{self, Report};
use engine::survey::Pages;
use operators::dedup::spilled::Sizes;
use protocol::retire::Standing;
use protocol::{Body, Record, names};
use store::{Inline, Key, Put, Store};
use tokio::sync::watch;

use crate::run;
use crate::support::{Bench, Process};

const FOLDER: &str = "p/lane-0";

/// The frames of the small world are numbers of eight bytes, without a probe.
struct Numbers;

impl inspect::Reader for Numbers {
    fn frame(&self, body: &[u8]) -> Result<u64, String> {
        Ok(body.len() as u64 / 8)
    }

    fn probe(&self, probe: &[u8]) -> Result<(), String> {
        if probe.is_empty() { Ok(()) } else { Err("not empty".into()) }
    }

    fn file(&self, object: &str, bytes: &[u8]) -> Result<(), String> {
        operators::dedup::spilled::part::verify(object, bytes).map(|_| ()).map_err(|error| error.to_string())
    }
}

async fn look(store: &Arc<dyn Store>) -> Report {
    inspect::inspect(&**store, FOLDER, &Numbers, &|_, _| {}).await.expect("the store answers")
}

async fn keys(store: &Arc<dyn Store>, kind: &str) -> Vec<Key> {
    let mut pages = Pages::new(&**store, FOLDER, kind);
    let mut all = Vec::new();
    while let Some(page) = pages.next().await.expect("lists") {
        all.extend(page.into_iter().map(|entry| entry.key));
    }
    all
}

async fn bytes_of(store: &Arc<dyn Store>, key: &Key) -> Bytes {
    store.get(key, 1 << 30).await.expect("reads").expect("is there")
}

/// Puts other bytes in the place of an object; none at all deletes it.
async fn replace(store: &Arc<dyn Store>, key: &Key, bytes: Option<Vec<u8>>) {
    store.delete(key).await.expect("deletes");
    if let Some(bytes) = bytes {
        assert_eq!(store.put_if_absent(key, vec![bytes.into()]).await.expect("puts"), Put::Created);
    }
}

/// A lane with a checkpoint, state deltas behind it, frames that are not settled, and a split one among them.
async fn lane_with_everything(store: Arc<dyn Store>) -> Arc<dyn Store> {
    let mut bench = Bench::new();
    bench.store = store;
    bench.settings.checkpoint_records_max = 4;
    for round in 0..5 {
        bench.push(round * 60..round * 60 + 60);
        bench.drain().await.expect("drains");
    }
    bench.settings.checkpoint_records_max = 1_000;
    bench.table.world.lock().expect("no panic").poison = vec![1_013, 1_041];
    for round in 0..50 {
        bench.push(1_000 + round * 50..1_050 + round * 50);
        let running = Process::start(bench.pipeline(false));
        for _ in 0..2_000 {
            let lane = bench.lane().await;
            if lane.tables[0].pending.iter().flatten().any(|p| p.segment.contains("/splits/") && !p.dead) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        running.kill().await;
        let lane = bench.lane().await;
        if lane.tables[0].pending.iter().flatten().any(|p| p.segment.contains("/splits/") && !p.dead) {
            break;
        }
        bench.table.world.lock().expect("no panic").poison = vec![1_063 + round * 50];
    }
    let lane = bench.lane().await;
    assert!(lane.newest_checkpoint.is_some() && !lane.deltas.is_empty() && !lane.snapshots.is_empty());
    assert!(lane.tables[0].pending.iter().flatten().any(|p| p.segment.contains("/splits/")));
    bench.store.clone()
}

/// A folder that goes with the test.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("forebay-inspect-{name}-{}", std::process::id()));
        // An earlier process of this id may have been killed.
        std::fs::remove_dir_all(&path).ok();
        std::fs::create_dir(&path).expect("a fresh folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// A store in memory with that lane, and one on disk.
async fn stores(dir: &Folder) -> [Arc<dyn Store>; 2] {
    let disk =
        store::open_with(&format!("file://{}", dir.0.display()), Arc::new(Inline), &store::Remote::default())
            .expect("a folder");
    [lane_with_everything(Arc::new(store::MemoryStore::new(1 << 30))).await, lane_with_everything(disk).await]
}

/// A seal is looked at before it is known that it breaks a rule, so its numbers may be any.
#[test]
fn lengths_that_no_program_writes_are_damage() {
    run(async {
        for (len, probe_len) in [(u64::MAX, 1), (1, u64::MAX), (1 << 63, 1 << 63), (1 << 62, 0)] {
            let store = lane_with_everything(Arc::new(store::MemoryStore::new(1 << 30))).await;
            for key in keys(&store, "journal").await {
                let seq = names::number(key.as_str()).expect("a record's name");
                let record =
                    Record::from_bytes(seq, &bytes_of(&store, &key).await).expect("as it was written");
                let Some(Body::Seal(mut seal)) = record.body.clone() else { continue };
                for frame in &mut seal.frames {
                    (frame.len, frame.probe_len) = (len, probe_len);
                }
                let altered = Record { body: Some(Body::Seal(seal)), ..record };
                replace(&store, &key, Some(altered.to_bytes())).await;
            }
            let report = look(&store).await;
            let is_told = report.findings.iter().any(|found| found.what.contains("is malformed"));
            assert!(is_told, "{:?}", report.findings);
        }
    });
}

#[test]
fn a_sound_lane_is_read_to_the_last_byte_and_left_as_it_is() {
    run(async {
        let dir = Folder::new("sound");
        for store in stores(&dir).await {
            let before = everything(&store).await;
            let report = look(&store).await;
            assert!(report.is_sound(), "{:?}", report.findings);
            assert!(report.records > 3 && report.objects >= 3 && report.frames >= 3 && report.bytes > 100);
            assert_eq!(report.survey.of(Standing::Foreign).objects, 0);
            assert_eq!(everything(&store).await, before, "nothing is written, claimed or deleted");
            assert_eq!(inspect::lanes(&*store, None).await.expect("lists"), [FOLDER]);
            assert_eq!(inspect::lanes(&*store, Some("p")).await.expect("lists"), [FOLDER]);
            assert!(inspect::lanes(&*store, Some("q")).await.expect("lists").is_empty());
        }
    });
}

#[test]
fn files_of_state_are_read_whole_and_a_damaged_one_is_named() {
    run(async {
        let mut bench = Bench::new();
        bench.sizes = Sizes { open_keys_max: 20, part_pairs: 32, block_pairs: 4, runs_max: 4 };
        bench.settings.checkpoint_bytes_min = 1;
        bench.push(0..600);
        bench.drain().await.expect("drains");
        let report = look(&bench.store).await;
        assert!(report.is_sound() && !report.lane.files.is_empty(), "{:?}", report.findings);
        let key = Key::new(report.lane.files[0].object.as_str()).expect("a key");
        let mut bytes = bytes_of(&bench.store, &key).await.to_vec();
        bytes[9] ^= 1;
        bench.store.delete(&key).await.expect("deletes");
        bench.store.put_if_absent(&key, vec![bytes.into()]).await.expect("puts");
        let findings = look(&bench.store).await.findings;
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].object == key.as_str() && findings[0].what.contains("block `0`"), "{findings:?}");
        assert!(findings[0].means.contains("keys of step `dedup`"), "{findings:?}");
        assert!(findings[0].way_out.contains("--new-state STEP --yes"), "{findings:?}");
    });
}

async fn everything(store: &Arc<dyn Store>) -> Vec<(Key, Bytes)> {
    let mut all = Vec::new();
    for kind in engine::survey::FOLDERS {
        for key in keys(store, kind).await {
            let bytes = bytes_of(store, &key).await;
            all.push((key, bytes));
        }
    }
    all
}

#[test]
fn a_flipped_byte_a_cut_and_a_missing_object_of_every_kind_are_found_and_named() {
    run(async {
        let dir = Folder::new("damage");
        for store in stores(&dir).await {
            let lane = look(&store).await.lane;
            let needed = protocol::retire::needed(&lane);
            let mut kinds = std::collections::BTreeSet::new();
            let mut objects = keys(&store, "journal").await;
            objects.retain(|key| protocol::names::number(key.as_str()) >= lane.newest_checkpoint);
            objects.extend(needed.iter().map(|object| Key::new(*object).expect("a key")));
            let last_record = Key::new(protocol::names::journal(FOLDER, lane.next_seq - 1)).expect("a key");
            for key in objects {
                let whole = bytes_of(&store, &key).await.to_vec();
                kinds.insert(key.as_str().split('/').nth(2).expect("a kind").to_owned());
                for flip in [0, whole.len() / 2, whole.len() - 1] {
                    let mut bent = whole.clone();
                    bent[flip] ^= 0x01;
                    replace(&store, &key, Some(bent)).await;
                    let report = look(&store).await;
                    assert_eq!(first(&report), key.as_str(), "byte {flip} of {}", whole.len());
                    let is_record = key.as_str().contains("/journal/");
                    assert!(!is_record || report.orphans.is_empty(), "who knows what it pointed to");
                }
                replace(&store, &key, Some(whole[..whole.len() - 1].to_vec())).await;
                assert_eq!(first(&look(&store).await), key.as_str(), "one byte is cut off");
                replace(&store, &key, None).await;
                let report = look(&store).await;
                // Nobody can know of the newest record once it is gone: the one before it is then the newest.
                if key != last_record {
                    assert_eq!(first(&report), key.as_str(), "{:?}", report.findings);
                    assert!(report.findings[0].what.starts_with("missing"), "{:?}", report.findings[0]);
                    assert!(!report.findings[0].means.is_empty());
                }
                replace(&store, &key, Some(whole)).await;
            }
            assert!(look(&store).await.is_sound(), "all was put back");
            assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["journal", "segments", "splits", "state"]);
        }
    });
}

fn first(report: &Report) -> &str {
    report.findings.first().map_or("nothing was found", |finding| finding.object.as_str())
}

#[test]
fn what_nobody_points_to_is_listed_and_is_no_damage() {
    run(async {
        let store = lane_with_everything(Arc::new(store::MemoryStore::new(1 << 30))).await;
        let orphan = protocol::names::segment(FOLDER, 1, 0xdead_beef, 77);
        let foreign = format!("{FOLDER}/state/notes.txt");
        for name in [&orphan, &foreign] {
            let key = Key::new(name.as_str()).expect("a key");
            replace(&store, &key, Some(b"left behind".to_vec())).await;
        }
        let report = look(&store).await;
        assert!(report.is_sound());
        assert!(report.orphans.contains(&(orphan, 11, Standing::Garbage)), "{:?}", report.orphans);
        assert!(report.orphans.contains(&(foreign, 11, Standing::Foreign)));
    });
}

#[test]
fn a_look_beside_the_owner_finds_no_damage_and_never_fences() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.checkpoint_records_max = 4;
        let (stop, asked) = watch::channel(false);
        let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
        for round in 0..60 {
            bench.push(round * 20..round * 20 + 20);
            tokio::time::sleep(Duration::from_millis(5)).await;
            let report = look(&bench.store).await;
            assert!(report.is_sound(), "round {round}: {:?}", report.findings);
        }
        // What is not read yet when it is asked to stop stays in the source.
        while bench.table.world.lock().expect("no panic").ids().len() < 1_200 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stop.send(true).expect("it runs");
        running.await.expect("no panic").expect("drains");
        bench.assert_holds(0..1_200);
        assert_eq!(bench.lane().await.epoch, 1);
    });
}
