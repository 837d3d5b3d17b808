//! What many keys cost when most of them lie in files: memory, disk, CPU a key, the worst stall, checkpoints, recovery.
//!
//! Owns the measurement, and a stand-in for the lane that reads and writes files. Does not own keys that all fit into memory
//! (`dedup_cost`), nor the real reads and writes (`engine::state_files`).
//!
//! ```text
//! cargo run --release -p operators --example dedup_state -- /var/tmp/keys 1000000 10000000 100000000
//! ```
//!
//! For each number of keys: fills a step with UUID keys spread over a window of 30 days, in batches and seals as a lane does. Work
//! on files is done in between, one step after each batch, and counted apart. Then, at that size: a million new keys, a million known
//! ones out of files, a checkpoint, and a recovery from it. Times are CPU time of the one thread, reading files included; files are
//! written without fsync, which a store adds.

// A measurement needs a clock, and this program is on nobody's data path.
#![allow(clippy::disallowed_methods)]

mod support;

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use dataflow::operator::{Given, Need};
use dataflow::{Column, ColumnType, Operator, Schema, State, StateRead, StateWork};
use operators::dedup::{Dedup, DedupConfig, Late, OPEN_BYTES_DEFAULT};
use support::{BATCH_ROWS, SAMPLE, SEAL_ROWS, batch, cpu, mb, ns, peak_bytes, resident_bytes, timed};

const DAY_MS: i64 = 86_400_000;
const WINDOW_DAYS: u64 = 30;
const START_MS: i64 = 1_700_000_000_000;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().expect("a folder for the files"));
    for keys in arguments.map(|a| a.parse().expect("a number of keys")) {
        std::fs::create_dir_all(&folder).expect("a folder that can be made");
        measure(folder.clone(), keys);
        std::fs::remove_dir_all(&folder).expect("the folder just made");
    }
}

fn step(schema: &Schema) -> Dedup {
    let window = Some(Duration::from_secs(WINDOW_DAYS * 86_400));
    let config = DedupConfig { key: vec!["id".to_owned()], window, late: Late::Keep };
    Dedup::new(schema, config).expect("a valid configuration").with_memory(OPEN_BYTES_DEFAULT)
}

/// The lane's part: files, and work on them.
struct Lane {
    folder: PathBuf,
    files: BTreeMap<String, File>,
    works: Vec<(Box<dyn StateWork>, Given)>,
    next: u64,
    written_bytes: u64,
    background: Duration,
    reads: u64,
}

impl Lane {
    fn read(&mut self, reads: &[StateRead]) -> Vec<Vec<u8>> {
        self.reads += reads.len() as u64;
        let read = |read: &StateRead| {
            let mut bytes = vec![0; read.len as usize];
            self.files[&*read.object].read_exact_at(&mut bytes, read.offset).expect("a range of a file");
            bytes
        };
        reads.iter().map(read).collect()
    }

    /// One step of each piece of work.
    fn work(&mut self, step: &mut Dedup) {
        let before = cpu();
        for (mut work, given) in std::mem::take(&mut self.works) {
            let given = match work.step(given).expect("sound files") {
                Need::Read(reads) => Given::Read(self.read(&reads)),
                Need::Write(bytes) => {
                    let name = format!("runs-{:010}", self.next);
                    self.next += 1;
                    self.written_bytes += bytes.len() as u64;
                    let path = self.folder.join(&name);
                    std::fs::write(&path, &bytes).expect("room for the file");
                    self.files.insert(name.clone(), File::open(&path).expect("the file just written"));
                    Given::Written(name.into())
                }
                Need::Done => {
                    step.adopt(work).expect("its own work");
                    continue;
                }
            };
            self.works.push((work, given));
        }
        self.background += cpu() - before;
    }

    fn seal(&mut self, step: &mut Dedup, watermark_ms: i64) {
        step.seal(watermark_ms);
        while self.works.len() < 2 {
            let Some(work) = step.work() else { break };
            self.works.push((work, Given::Start));
        }
        // As much as the engine would wait.
        while step.is_crowded() {
            self.work(step);
        }
    }

    fn collect(&mut self, step: &Dedup) -> u64 {
        let needed: Vec<_> = step.files();
        let is_needed = |name: &String| needed.iter().any(|file| *file.object == **name);
        for name in self.files.keys().filter(|name| !is_needed(name)) {
            std::fs::remove_file(self.folder.join(name)).expect("a file of ours");
        }
        self.files.retain(|name, _| is_needed(name));
        needed.iter().map(|file| file.len).sum()
    }
}

fn measure(folder: PathBuf, keys: u64) {
    let schema = Schema::new(vec![Column::new("id", ColumnType::Uuid)]);
    let mut lane = Lane {
        folder,
        files: BTreeMap::new(),
        works: Vec::new(),
        next: 0,
        written_bytes: 0,
        background: Duration::ZERO,
        reads: 0,
    };
    let rss = resident_bytes();
    let mut dedup = step(&schema);
    // The records of `keys` keys over one window, so that nothing expires.
    let apart_ms = (WINDOW_DAYS as i64 * DAY_MS) as f64 / keys as f64;
    let time = move |n: u64| START_MS + (n.min(keys) as f64 * apart_ms) as i64;
    let mut costs = Costs::default();
    let mut seal = (Duration::ZERO, Duration::ZERO);
    for from in (0..keys).step_by(SEAL_ROWS as usize) {
        let until = (from + SEAL_ROWS).min(keys);
        run(&mut dedup, &mut lane, &schema, from..until, &time, &mut costs);
        let before = (cpu(), lane.background);
        lane.seal(&mut dedup, time(until));
        let cost = (cpu() - before.0).saturating_sub(lane.background - before.1);
        seal = (seal.0 + cost, seal.1.max(cost));
    }
    while !lane.works.is_empty() {
        lane.work(&mut dedup);
        if lane.works.is_empty() {
            lane.seal(&mut dedup, time(keys));
        }
    }
    let disk = lane.collect(&dedup);
    let (held, spilled) = (dedup.entries(), dedup.spilled_entries());
    let memory = dedup.memory_bytes();
    println!("keys {held:>11}, {spilled} spilled, {} runs, {} files", dedup.runs(), lane.files.len());
    println!(
        "  memory   {:7.1} MB by count, {:.1} MB resident, {:.1} MB at the most; {:.2} B a key",
        mb(memory),
        mb(resident_bytes().saturating_sub(rss)),
        mb(peak_bytes()),
        memory as f64 / held as f64
    );
    println!(
        "  disk     {:7.1} MB, {:.2} B a spilled key; {:.1} MB written, each key {:.1} times",
        mb(disk),
        disk as f64 / spilled.max(1) as f64,
        mb(lane.written_bytes),
        lane.written_bytes as f64 / disk.max(1) as f64
    );
    costs.print("fill", keys);
    println!(
        "  seal     {:7.1} ns a key, the worst {:.1} ms; files {:.1} ns a key beside the lane",
        ns(seal.0, keys),
        seal.1.as_secs_f64() * 1e3,
        ns(lane.background, keys)
    );
    let mut costs = Costs::default();
    let reads = lane.reads;
    run(&mut dedup, &mut lane, &schema, keys..keys + SAMPLE, &time, &mut costs);
    costs.print("new", SAMPLE);
    println!("           {:.4} blocks read for a new key", (lane.reads - reads) as f64 / SAMPLE as f64);
    let mut costs = Costs::default();
    run(&mut dedup, &mut lane, &schema, 0..SAMPLE.min(keys), &time, &mut costs);
    costs.print("known", SAMPLE.min(keys));
    let delta = dedup.seal(time(keys));
    println!("  delta    {:7.1} MB for {SAMPLE} keys", mb(delta.len() as u64));
    let (snapshot, cost) = timed(|| dedup.snapshot());
    println!("  snapshot {:7.1} MB in {:.1} ms", mb(snapshot.len() as u64), cost.as_secs_f64() * 1e3);
    let held = dedup.entries();
    drop(dedup);
    let mut twin = step(&schema);
    let mut footers = 0;
    let (_, cost) = timed(|| {
        for read in twin.restore(&snapshot).expect("its own snapshot") {
            footers += u64::from(read.len);
            let bytes = lane.read(std::slice::from_ref(&read)).remove(0);
            twin.open(&bytes).expect("its own file");
        }
    });
    assert_eq!(twin.entries(), held, "all of it is back");
    println!("  recovery {:7.1} ms, {:.1} MB read of files", cost.as_secs_f64() * 1e3, mb(footers));
}

#[derive(Default)]
struct Costs {
    probe: Duration,
    read: Duration,
    finish: Duration,
    worst: Duration,
}

impl Costs {
    fn print(&self, what: &str, rows: u64) {
        let [probe, read, finish] = [self.probe, self.read, self.finish].map(|cost| ns(cost, rows));
        println!(
            "  {what:<8} {:7.1} ns a key: probe {probe:.1}, read {read:.1}, finish {finish:.1}; the worst batch {:.1} ms",
            probe + read + finish,
            self.worst.as_secs_f64() * 1e3
        );
    }
}

fn run(
    step: &mut Dedup,
    lane: &mut Lane,
    schema: &Schema,
    ids: Range<u64>,
    time: &dyn Fn(u64) -> i64,
    costs: &mut Costs,
) {
    for from in ids.clone().step_by(BATCH_ROWS as usize) {
        let until = (from + BATCH_ROWS).min(ids.end);
        let batch = batch(schema, from..until, time);
        let (probed, probe) = timed(|| step.probe(batch).expect("a batch of the schema"));
        let (answers, read) = timed(|| lane.read(&probed.reads));
        let (out, finish) = timed(|| step.finish(probed, &answers).expect("probed"));
        std::hint::black_box(out.batch.len());
        costs.probe += probe;
        costs.read += read;
        costs.finish += finish;
        costs.worst = costs.worst.max(probe + read + finish);
        lane.work(step);
    }
}
