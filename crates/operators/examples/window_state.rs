//! What many open windows cost when most of them lie in files: memory, disk, CPU a pair of key and window, checkpoints, recovery, and how fast their
//! results leave.
//!
//! Owns the measurement, and a stand-in for the lane that reads and writes files. Does not own the same for keys of `dedup`
//! (`dedup_state`), nor the real reads and writes (`engine::state_files`).
//!
//! ```text
//! cargo run --release -p operators --example window_state -- /var/tmp/windows 1000000 10000000 100000000
//! ```
//!
//! For each number of pairs: fills four windows of an hour with keys of eight bytes, count, sum, least and greatest of two columns, in batches and seals as a
//! lane does. Work on files is done in between, one step after each batch, and counted apart. Then, at that size: a checkpoint, a recovery from it, and the
//! closing of all windows, whose results are counted. Times are CPU time of the one thread, reading files included; files are written without
//! fsync, which a store adds.

// A measurement needs a clock, and this program is on nobody's data path.
#![allow(clippy::disallowed_methods)]

mod support;

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use dataflow::operator::{Given, Need};
use dataflow::{Batch, Column, ColumnType, Operator, Partition, Schema, State, StateRead, StateWork};
use operators::window::{Aggregate, Function, MEMORY_DEFAULT, Windows};
use operators::{Window, WindowConfig};
use support::{BATCH_ROWS, SEAL_ROWS, cpu, mb, ns, peak_bytes, resident_bytes, timed};

const HOUR_MS: i64 = 3_600_000;
const WINDOWS: u64 = 4;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().expect("a folder for the files"));
    for pairs in arguments.map(|a| a.parse().expect("a number of pairs")) {
        std::fs::create_dir_all(&folder).expect("a folder that can be made");
        measure(folder.clone(), pairs);
        std::fs::remove_dir_all(&folder).expect("the folder just made");
    }
}

fn schema() -> Schema {
    let columns = [("id", ColumnType::Int64), ("amount", ColumnType::Int64), ("heat", ColumnType::Float64)];
    Schema::new(columns.map(|(name, of_type)| Column::new(name, of_type)).to_vec())
}

fn step() -> Window {
    let mut aggregates = vec![Aggregate::new("n", Function::Count, None)];
    for column in ["amount", "heat"] {
        for function in [Function::Sum, Function::Min, Function::Max] {
            aggregates.push(Aggregate::new(&format!("{}_{column}", function.word()), function, Some(column)));
        }
    }
    let config = WindowConfig {
        key: vec!["id".to_owned()],
        windows: Windows::Tumbling { size: Duration::from_millis(HOUR_MS as u64) },
        // So that all of them are open at the same time.
        lateness: Duration::from_millis(WINDOWS * HOUR_MS as u64),
        emit: None,
        aggregates,
    };
    Window::new(&schema(), &config).expect("a valid configuration").with_memory(MEMORY_DEFAULT)
}

/// Rows of the pairs with these numbers: a window after the other, each with other keys in no order.
fn batch(schema: &Schema, from: u64, until: u64, pairs: u64) -> Batch {
    let rows = (until - from) as usize;
    let numbers = || from..until;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(
            numbers().map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) as i64),
        )),
        Arc::new(Int64Array::from_iter_values(numbers().map(|n| n as i64 % 1_000))),
        Arc::new(Float64Array::from_iter_values(numbers().map(|n| n as f64 / 7.0))),
    ];
    let window = |n: u64| (n * WINDOWS / pairs) as i64;
    Batch {
        items: Vec::new(),
        era: 0,
        partition: Partition::new("t", 0),
        rows: RecordBatch::try_new(schema.arrow().clone(), columns).expect("three columns"),
        positions: numbers().collect(),
        times_ms: numbers().map(|n| window(n) * HOUR_MS + n as i64 % HOUR_MS).take(rows).collect(),
    }
}

/// The lane's part: files, and work on them.
struct Lane {
    folder: PathBuf,
    files: BTreeMap<String, File>,
    works: Vec<(Box<dyn StateWork>, Given)>,
    next: u64,
    written_bytes: u64,
    background: Duration,
}

impl Lane {
    fn read(&self, reads: &[StateRead]) -> Vec<Vec<u8>> {
        let read = |read: &StateRead| {
            let mut bytes = vec![0; read.len as usize];
            self.files[&*read.object].read_exact_at(&mut bytes, read.offset).expect("a range of a file");
            bytes
        };
        reads.iter().map(read).collect()
    }

    /// One step of each piece of work.
    fn work(&mut self, step: &mut Window) {
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

    fn start(&mut self, step: &mut Window) {
        while self.works.len() < 2
            && let Some(work) = step.work()
        {
            self.works.push((work, Given::Start));
        }
        // As much as the engine would wait.
        while step.is_crowded() {
            self.work(step);
        }
    }

    fn collect(&mut self, step: &Window) -> u64 {
        let needed = step.files();
        let is_needed = |name: &String| needed.iter().any(|file| *file.object == **name);
        for name in self.files.keys().filter(|name| !is_needed(name)) {
            std::fs::remove_file(self.folder.join(name)).expect("a file of ours");
        }
        self.files.retain(|name, _| is_needed(name));
        needed.iter().map(|file| file.len).sum()
    }
}

fn measure(folder: PathBuf, pairs: u64) {
    let schema = schema();
    let mut lane = Lane {
        folder,
        files: BTreeMap::new(),
        works: Vec::new(),
        next: 0,
        written_bytes: 0,
        background: Duration::ZERO,
    };
    let begun = cpu();
    let rss = resident_bytes();
    let mut window = step();
    let (mut made, mut absorb, mut seal, mut worst) = Default::default();
    for from in (0..pairs).step_by(SEAL_ROWS as usize) {
        let until = (from + SEAL_ROWS).min(pairs);
        for from in (from..until).step_by(BATCH_ROWS as usize) {
            let batch = batch(&schema, from, (from + BATCH_ROWS).min(until), pairs);
            let (probed, cost) = timed(|| window.probe(batch).expect("a batch of the schema"));
            made += cost;
            let (out, cost) = timed(|| window.finish(probed, &[]).expect("probed"));
            assert_eq!(out.late, 0, "every window is open");
            absorb += cost;
            lane.work(&mut window);
        }
        let (_, cost) = timed(|| {
            assert!(window.advance(0).expect("it spills").is_empty(), "nothing is closed");
            State::seal(&mut window, 0).len()
        });
        seal += cost;
        worst = cost.max(worst);
        lane.start(&mut window);
    }
    while !lane.works.is_empty() {
        lane.work(&mut window);
        lane.start(&mut window);
    }
    let disk = lane.collect(&window);
    let (held, spilled) = (window.entries(), window.spilled_entries());
    assert_eq!((held, window.held()), (pairs, pairs), "every pair is there");
    println!("pairs {held:>11}, {spilled} spilled, {} files", lane.files.len());
    println!(
        "  memory   {:7.1} MB by count, {:.1} MB resident, {:.1} MB at the most",
        mb(window.memory_bytes()),
        mb(resident_bytes().saturating_sub(rss)),
        mb(peak_bytes())
    );
    println!(
        "  disk     {:7.1} MB, {:.1} B a spilled pair; {:.1} MB written",
        mb(disk),
        disk as f64 / spilled.max(1) as f64,
        mb(lane.written_bytes)
    );
    println!(
        "  fill     {:7.1} ns a pair in the lane: a batch {:.1}, a seal {:.1} (the worst {:.1} ms); beside it {:.1} for the partial, {:.1} for files",
        ns(absorb + seal, pairs),
        ns(absorb, pairs),
        ns(seal, pairs),
        worst.as_secs_f64() * 1e3,
        ns(made, pairs),
        ns(lane.background, pairs)
    );
    let (snapshot, cost) = timed(|| window.snapshot());
    println!("  snapshot {:7.1} MB in {:.1} ms", mb(snapshot.len() as u64), cost.as_secs_f64() * 1e3);
    drop(window);
    let mut window = step();
    let mut footers = 0;
    let (_, cost) = timed(|| {
        for read in window.restore(&snapshot).expect("its own snapshot") {
            footers += u64::from(read.len);
            let bytes = lane.read(std::slice::from_ref(&read)).remove(0);
            window.open(&bytes).expect("its own file");
        }
    });
    drop(snapshot);
    assert_eq!((window.entries(), window.held()), (pairs, pairs), "all of it is back");
    println!("  recovery {:7.1} ms, {:.1} MB read of files", cost.as_secs_f64() * 1e3, mb(footers));
    close(&mut lane, &mut window, pairs);
    println!(
        "  peak     {:7.1} MB resident; {:.1} s of CPU in all",
        mb(peak_bytes()),
        (cpu() - begun).as_secs_f64()
    );
}

/// Closes all windows and counts their results.
fn close(lane: &mut Lane, window: &mut Window, pairs: u64) {
    let watermark_ms = (2 * WINDOWS as i64 + 1) * HOUR_MS;
    let before = (cpu(), lane.background);
    let (mut results, mut rows, mut seals, mut largest, mut worst) = (0, 0, 0_u64, 0, Duration::ZERO);
    loop {
        let (outputs, cost) = timed(|| {
            let outputs = window.advance(watermark_ms).expect("it lets out");
            std::hint::black_box(State::seal(window, watermark_ms).len());
            outputs
        });
        worst = cost.max(worst);
        seals += 1;
        for output in &outputs {
            results += output.added;
            largest = output.added.max(largest);
            let counts = output.batch.rows.column_by_name("n").expect("a result");
            rows += counts.as_primitive::<UInt64Type>().values().iter().sum::<u64>();
        }
        drop(outputs);
        if !window.is_releasing() {
            break;
        }
        lane.start(window);
        while !lane.works.is_empty() && !window.is_due(watermark_ms) {
            lane.work(window);
            lane.start(window);
        }
    }
    assert_eq!((results, rows, window.held()), (pairs, pairs, 0), "every pair has a result, once");
    let cost = cpu() - before.0;
    let files = lane.background - before.1;
    println!(
        "  leave    {:7.1} ns a result: {:.1} in the lane (the worst seal {:.1} ms), {:.1} beside it; {seals} seals, up to {largest} results a piece",
        ns(cost, pairs),
        ns(cost.saturating_sub(files), pairs),
        worst.as_secs_f64() * 1e3,
        ns(files, pairs)
    );
    assert_eq!(lane.collect(window), 0, "no file is left");
}
