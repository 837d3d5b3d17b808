use super::*;
use crate::config::{self, values::reference::Surroundings};

#[test]
fn the_address_is_taken_from_the_line_that_tells_it() {
    let log = "{\"level\":\"INFO\",\"message\":\"other\",\"address\":\"no\"}\n\
               {\"level\":\"INFO\",\"message\":\"metrics, health and status over HTTP\",\"address\":\"127.0.0.1:4\"}\n";
    assert_eq!(address(log).as_deref(), Some("127.0.0.1:4"));
    assert_eq!(address("{\"message\":\"metrics, health and status over HTTP\",\"addr"), None);
}

#[test]
fn the_pipeline_file_has_no_fault() {
    for source in [
        kafka("127.0.0.1:9092", "events", 1),
        "generator: { workload: glassflow, uniques: 1000, publishers: 2, seed: 1 }".to_owned(),
    ] {
        let pipeline = Pipeline {
            dir: "/var/tmp/bench".into(),
            source,
            url: "http://127.0.0.1:8123".into(),
            table: "bench_1".into(),
        };
        let checked = config::check(&pipeline.text(), &Surroundings::of_process());
        assert!(checked.pipeline.is_some(), "{}", checked.faults.render("pipeline.yaml"));
    }
}
