use super::*;
use crate::bench::engine::no_fault;

#[test]
fn the_pipeline_file_has_no_fault() {
    for source in [
        kafka("127.0.0.1:9092", "events", "bench_1"),
        "generator: { workload: glassflow, uniques: 1000, publishers: 2, seed: 1 }".to_owned(),
    ] {
        for age in [None, Some(Duration::from_millis(200))] {
            for dedup in [true, false] {
                no_fault(pipeline_text(&source, "http://127.0.0.1:8123", "bench_1", age, dedup));
            }
        }
    }
}
