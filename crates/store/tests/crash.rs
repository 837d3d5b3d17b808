//! A writer that is killed at any instant loses nothing that it has acknowledged, and leaves nothing torn.
//!
//! The test starts itself again as the writer, kills it with SIGKILL after a number of puts that a seed gives, and reads
//! what it left. This shows the order of writes and answers, not the fsyncs: those survive in the page cache here, and
//! their order is shown by the store's own tests.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use store::conformance::at_page;
use store::{FileStore, Inline, Key, Prefix, Put, Store};

const FOLDER: &str = "STORE_CRASH_FOLDER";
const FIRST: &str = "STORE_CRASH_FIRST";

const ROUNDS: u64 = 15;
const PUTS_A_ROUND_MAX: u64 = 60;

#[test]
fn a_killed_writer_loses_nothing_that_it_has_acknowledged() {
    let folder = std::env::temp_dir().join(format!("store-crash-{}", std::process::id()));
    // An earlier run of this id may have been killed itself.
    std::fs::remove_dir_all(&folder).ok();
    let mut acknowledged = 0;
    let mut leftovers = 0;
    for round in 0..ROUNDS {
        let puts = 1 + mix(round) % PUTS_A_ROUND_MAX;
        acknowledged = run_and_kill(&folder, acknowledged, puts);
        let temps = || std::fs::read_dir(folder.join(".tmp")).expect("is there").count();
        leftovers += temps();
        let store = open(&folder);
        assert_eq!(temps(), 0, "round {round}: the next open removes what the dead left");

        let found = read_all(&store);
        for n in 0..acknowledged {
            assert_eq!(found.get(&n), Some(&body(n)), "round {round}: object {n} was acknowledged");
        }
        assert!(found.len() as u64 <= acknowledged + 1, "round {round}: only the last put is in doubt");
        for (n, content) in &found {
            assert_eq!(*content, body(*n), "round {round}: object {n} is torn");
        }
        // The put in doubt may have landed.
        acknowledged = found.len() as u64;
    }
    std::fs::remove_dir_all(&folder).expect("removes");
    println!("{acknowledged} objects in {ROUNDS} rounds, {leftovers} temporary files left by the dead");
}

/// Not a test: the writer, run by the test above.
#[test]
#[ignore = "the writer that the crash test starts"]
fn writer() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let first: u64 = std::env::var(FIRST).expect("given with the folder").parse().expect("a number");
    let store = open(Path::new(&folder));
    let mut out = std::io::stdout();
    for n in first..first + 100_000 {
        let key = key(n);
        let put = if is_large(n) {
            store.put_past_cache(&key, vec![at_page(&body(n))]).now_or_never()
        } else {
            let pieces = body(n).chunks(10_000).map(Bytes::copy_from_slice).collect();
            store.put_if_absent(&key, pieces).now_or_never()
        };
        assert_eq!(put.expect("inline never waits").expect("puts"), Put::Created);
        writeln!(out, "acknowledged {n}").and_then(|()| out.flush()).expect("the reader lives");
    }
}

/// Starts a writer at object `first`, kills it once it has reported `puts` objects, and returns how many it has reported in all.
fn run_and_kill(folder: &Path, first: u64, puts: u64) -> u64 {
    let mut child = Command::new(std::env::current_exe().expect("a path"))
        .args(["--ignored", "--exact", "writer", "--nocapture"])
        .env(FOLDER, folder)
        .env(FIRST, first.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut acknowledged = first;
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut next =
        || lines.find_map(|line| line.expect("reads").strip_prefix("acknowledged ").map(str::to_owned));
    while let Some(n) = next() {
        assert_eq!(n.parse(), Ok(acknowledged), "in order");
        acknowledged += 1;
        if acknowledged == first + puts {
            // Some work, so that the kill falls anywhere within the next put.
            std::hint::black_box((0..mix(acknowledged) % 2_000_000).fold(0, |sum, n| mix(sum ^ n)));
            child.kill().expect("kills");
        }
    }
    child.wait().expect("ends");
    assert!(acknowledged >= first + puts, "the writer ended early");
    acknowledged
}

fn open(folder: &Path) -> FileStore {
    FileStore::open(folder, Arc::new(Inline)).expect("opens")
}

fn read_all(store: &FileStore) -> BTreeMap<u64, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut after = None;
    loop {
        let page =
            store.list(&Prefix::root(), after.as_ref(), 100).now_or_never().expect("inline never waits");
        let page = page.expect("lists");
        let Some(last) = page.last() else { return found };
        after = Some(last.key.clone());
        for entry in page {
            let content = store.get(&entry.key, entry.size_bytes).now_or_never().expect("inline never waits");
            let n = entry.key.name().parse().expect("named by its number");
            found.insert(n, content.expect("reads").expect("was listed").to_vec());
        }
    }
}

fn key(n: u64) -> Key {
    Key::new(format!("lane/{}/{n:08}", n / 100)).expect("a key")
}

/// One in sixteen is large, and goes past the page cache where that can be done.
fn is_large(n: u64) -> bool {
    n % 16 == 3
}

/// Up to 200 KB, or 600 to 800 KB, that depend on `n` at every place.
fn body(n: u64) -> Vec<u8> {
    let bytes = mix(n) % 200_000 + if is_large(n) { 600_000 } else { 0 };
    let mut body = Vec::new();
    (0..bytes.div_ceil(8)).for_each(|at| body.extend_from_slice(&mix(n ^ (at << 20)).to_le_bytes()));
    body.truncate(bytes as usize);
    body
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
