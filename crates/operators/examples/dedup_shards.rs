//! What dividing the keys in memory into shards costs the dedup step, and what stays serial.
//!
//! Owns the measurement of shards, one job after the other. Does not own threads: who does which job is decided by `engine::jobs`.
//!
//! ```text
//! cargo run --release -p operators --example dedup_shards -- 2200000
//! ```
//!
//! For each number of shards: fills the step with UUID keys, then passes a million records in batches as a lane does, a tenth of them
//! copies. Jobs run one after the other on the one thread; times are its CPU time. What the lane does itself is `probe`, `divide`, `join`
//! and the delta. Of the jobs it waits for the longest, if there is a thread for each.

// A measurement needs a clock, and this program is on nobody's data path.
#![allow(clippy::disallowed_methods)]

mod support;

use std::time::Duration;

use dataflow::{Batch, Column, ColumnType, Divided, JobDone, Operator, Schema, State};
use operators::{Dedup, DedupConfig, Late};
use support::{SAMPLE, SEAL_ROWS, batch, ns, timed};

/// Records of a block at the most.
const BATCH_ROWS: u64 = 8_192;

/// One record in so many is a copy of one before.
const COPY_ONE_IN: u64 = 10;

const START_MS: i64 = 1_700_000_000_000;

fn main() {
    let keys = std::env::args().nth(1).map_or(2_200_000, |a| a.parse().expect("a number of keys"));
    println!("shards  probe  divide  jobs, all  longest  join  delta   all  serial");
    for shards in [1, 2, 4, 8, 16] {
        let costs = measure(keys, shards);
        let [probe, divide, jobs, longest, join, delta] = costs.map(|cost| ns(cost, SAMPLE));
        // With one shard all is decided in `divide`.
        let serial = probe + divide + join + delta;
        println!(
            "{shards:>6} {probe:>6.1} {divide:>7.1} {jobs:>10.1} {longest:>8.1} {join:>5.1} {delta:>6.1} {:>5.1} {serial:>7.1}",
            serial + jobs
        );
    }
}

fn measure(keys: u64, shards: usize) -> [Duration; 6] {
    let schema = Schema::new(vec![Column::new("id", ColumnType::Uuid)]);
    let window = Some(Duration::from_secs(8 * 3600));
    let config = DedupConfig { key: vec!["id".to_owned()], window, late: Late::Keep };
    let step = Dedup::new(&schema, config).expect("a valid configuration");
    let mut step = step.with_shards(shards).with_memory(operators::dedup::OPEN_BYTES_MAX);
    let mut costs = [Duration::ZERO; 6];
    for from in (0..keys + SAMPLE).step_by(BATCH_ROWS as usize) {
        if from < keys {
            costs = [Duration::ZERO; 6];
        }
        let until = (from + BATCH_ROWS).min(keys + SAMPLE);
        let mut rows = batch(&schema, from..until, &|n| START_MS + n as i64 / 1_000);
        if from >= keys {
            rows = with_copies(rows, &schema, from);
        }
        let (probed, cost) = timed(|| step.probe(rows).expect("a batch of the schema"));
        costs[0] += cost;
        let (divided, cost) = timed(|| step.divide(probed, &[]).expect("probed"));
        costs[1] += cost;
        if let Divided::Jobs(jobs) = divided {
            let (done, spent): (Vec<JobDone>, Vec<Duration>) = jobs.into_iter().map(timed).unzip();
            costs[2] += spent.iter().sum::<Duration>();
            costs[3] += spent.into_iter().max().unwrap_or_default();
            let (out, cost) = timed(|| step.join(done).expect("all jobs"));
            costs[4] += cost;
            std::hint::black_box(out.dropped.len());
        }
        if from / SEAL_ROWS != until / SEAL_ROWS {
            let (delta, cost) = timed(|| step.seal(START_MS));
            costs[5] += cost;
            drop(delta);
        }
    }
    costs
}

/// One row in ten has the key of a row from the beginning.
fn with_copies(rows: Batch, schema: &Schema, from: u64) -> Batch {
    let number = |n: u64| if n.is_multiple_of(COPY_ONE_IN) { n.wrapping_mul(7919) % from } else { n };
    let numbers: Vec<u64> = rows.positions.iter().map(|n| number(*n)).collect();
    let columns = support::keys(schema, numbers.into_iter());
    Batch { rows: columns, ..rows }
}
