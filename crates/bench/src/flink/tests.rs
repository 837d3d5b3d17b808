use workloads::flink::Spec;

use super::*;
use crate::engine::no_fault;

#[test]
fn the_pipeline_file_has_no_fault() {
    // The check reads the schema's file.
    let schema = std::env::temp_dir().join(format!("forebay-bench-readings-{}.avsc", std::process::id()));
    std::fs::write(&schema, SCHEMA).expect("the folder for temporary files can be written");
    let topic = PulsarTopic::new("pulsar://127.0.0.1:6650", "readings", 64, "lz4").expect("packs by it");
    let sources = [
        kafka("127.0.0.1:9092", "readings", "bench_1", &schema),
        pulsar(&topic, "bench_1", &schema, "earliest"),
        pulsar(&topic, "bench_1", &schema, "latest"),
    ];
    let workload = Workload::new(Spec::default()).expect("valid");
    for source in sources {
        for age in [None, Some(Duration::from_millis(200))] {
            no_fault(pipeline_text(&source, "http://127.0.0.1:8123", "bench_1", &workload, age));
        }
    }
    std::fs::remove_file(schema).expect("it was just written");
}
