//! What the dedup step costs: nanoseconds of CPU and bytes a key.
//!
//! Owns the measurement of keys in memory. Does not own keys in files (`dedup_state`), several shards (`dedup_shards`), nor the count of
//! instructions that CI compares (the crate `guards`).
//!
//! ```text
//! cargo run --release -p operators --example dedup_cost -- 2200000 20000000
//! ```
//!
//! For each number of keys: fills the step with UUID keys in batches and seals as a lane would; then, at that size, measures a
//! million new keys, a million known ones, a delta, a snapshot and a restore. Times are CPU time of the one thread.

// A measurement needs a clock, and this program is on nobody's data path.
#![allow(clippy::disallowed_methods)]

mod support;

use std::time::Duration;

use dataflow::{Column, ColumnType, Operator, Schema, State};
use operators::{Dedup, DedupConfig, Late};
use support::{BATCH_ROWS, SAMPLE, SEAL_ROWS, batch, ns, resident_bytes, timed};

const HOUR_MS: i64 = 3_600_000;
const START_MS: i64 = 1_700_000_000_000;

fn main() {
    let sizes: Vec<u64> = std::env::args().skip(1).map(|a| a.parse().expect("a number of keys")).collect();
    for keys in if sizes.is_empty() { vec![2_200_000] } else { sizes } {
        measure(keys);
    }
}

fn measure(keys: u64) {
    let schema = Schema::new(vec![Column::new("id", ColumnType::Uuid)]);
    let window = Some(Duration::from_secs(8 * 3600));
    let config = DedupConfig { key: vec!["id".to_owned()], window, late: Late::Keep };
    let mut step = Dedup::new(&schema, config.clone()).expect("a valid configuration");
    // The records of `keys` keys spread over one window, so that nothing expires.
    let apart_ms = (8 * HOUR_MS) as f64 / keys as f64;
    let time = move |n: u64| START_MS + (n.min(keys) as f64 * apart_ms) as i64;
    let (mut fill, mut peak, rss) = (Costs::default(), 0, resident_bytes());
    for from in (0..keys).step_by(SEAL_ROWS as usize) {
        let until = (from + SEAL_ROWS).min(keys);
        fill.add(&run(&mut step, &schema, from..until, &time));
        let (delta, cost) = timed(|| step.seal(time(until)));
        fill.seal += cost;
        peak = peak.max(step.memory_bytes());
        drop(delta);
    }
    println!("keys {:>11}", step.entries());
    let held = step.entries() as f64;
    let a_key = |bytes: u64| bytes as f64 / held;
    println!(
        "  memory  {:6.1} B a key; resident {:.1}",
        a_key(peak),
        a_key(resident_bytes().saturating_sub(rss))
    );
    fill.print("fill", keys);
    run(&mut step, &schema, keys..keys + SAMPLE, &time).print("new", SAMPLE);
    let (delta, cost) = timed(|| step.seal(time(keys)));
    println!("  delta   {:6.1} ns and {:.1} B a key", ns(cost, SAMPLE), delta.len() as f64 / SAMPLE as f64);
    // Far apart in the order of insertion, as far duplicates are.
    run(&mut step, &schema, 0..SAMPLE.min(keys), &|n| time(n)).print("known", SAMPLE.min(keys));
    let (snapshot, cost) = timed(|| step.snapshot());
    println!("  snapshot{:6.1} ns and {:.1} B a key", ns(cost, step.entries()), a_key(snapshot.len() as u64));
    let mut twin = Dedup::new(&schema, config).expect("a valid configuration");
    drop(step);
    let (_, cost) = timed(|| twin.restore(&snapshot).expect("its own snapshot"));
    println!("  restore {:6.1} ns a key", ns(cost, twin.entries()));
    let (_, cost) = timed(|| twin.seal(START_MS + 100 * HOUR_MS));
    println!("  expire  {:6.1} ms for the seal that frees all", cost.as_secs_f64() * 1e3);
}

#[derive(Default)]
struct Costs {
    probe: Duration,
    finish: Duration,
    seal: Duration,
}

impl Costs {
    fn add(&mut self, other: &Self) {
        self.probe += other.probe;
        self.finish += other.finish;
        self.seal += other.seal;
    }

    fn print(&self, what: &str, rows: u64) {
        let [probe, finish, seal] = [self.probe, self.finish, self.seal].map(|cost| ns(cost, rows));
        println!(
            "  {what:<7} {:6.1} ns a key: probe {probe:.1}, finish {finish:.1}, seal {seal:.1}",
            probe + finish + seal
        );
    }
}

fn run(step: &mut Dedup, schema: &Schema, ids: std::ops::Range<u64>, time: &dyn Fn(u64) -> i64) -> Costs {
    let mut costs = Costs::default();
    for from in ids.clone().step_by(BATCH_ROWS as usize) {
        let until = (from + BATCH_ROWS).min(ids.end);
        let batch = batch(schema, from..until, time);
        let (probed, cost) = timed(|| step.probe(batch).expect("a batch of the schema"));
        costs.probe += cost;
        let (out, cost) = timed(|| step.finish(probed, &[]).expect("probed"));
        costs.finish += cost;
        std::hint::black_box(out.batch.len());
    }
    costs
}
