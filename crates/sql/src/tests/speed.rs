//! Rows per second of CPU time; run by hand: `cargo test --release -p sql -- --ignored --nocapture speed`.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use dataflow::{Batch, Partition, Transform};

use super::types;

const ROWS: usize = 8_192;
const ROUNDS: usize = 400;

fn batch(input: &dataflow::Schema) -> Batch {
    let hosts = (0..ROWS).map(|n| format!("Host-{}.Example.COM", n % 977));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(hosts)),
        Arc::new(Int64Array::from_iter_values((0..ROWS as i64).map(|n| n % 1_000))),
    ];
    Batch {
        items: Vec::new(),
        era: 0,
        partition: Partition::new("topic", 0),
        rows: RecordBatch::try_new(Arc::clone(input.arrow()), columns).expect("columns of the schema"),
        positions: (0..ROWS as u64).collect(),
        times_ms: vec![0; ROWS],
    }
}

fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[test]
#[ignore = "a measurement"]
fn speed_of_a_comparison_and_lower() {
    let input = types::schema("host String, n Int64");
    let texts =
        ["n > 500", "lower(host) = 'host-5.example.com'", "n > 500 AND lower(host) <> 'host-5.example.com'"];
    for text in texts {
        let step = crate::filter(&input, text, "filter").expect("a step");
        measure(&format!("filter {text}"), &step, &batch(&input));
    }
    let items = [("h".to_owned(), "lower(host)".to_owned()), ("m".to_owned(), "n + 1".to_owned())];
    let step = crate::select(&input, &items, true, "select").expect("a step");
    measure("select lower(host), n + 1", &step, &batch(&input));
    let failing = crate::filter(&input, "1000 / (n - 1) > 1", "filter").expect("a step");
    measure("filter with 1 of 1,000 rejected", &failing, &batch(&input));
}

fn measure(label: &str, step: &crate::Step, batch: &Batch) {
    let start = cpu_seconds();
    let mut rows = 0;
    for _ in 0..ROUNDS {
        rows += step.apply(batch.clone()).expect("the batch has the columns").batch.len();
    }
    let seconds = cpu_seconds() - start;
    println!("{label}: {:.1} M rows/s ({rows} rows went on)", (ROWS * ROUNDS) as f64 / seconds / 1e6);
}
