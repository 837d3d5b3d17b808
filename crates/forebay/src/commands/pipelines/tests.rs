use pipeline::config;
use pipeline::config::values::reference::Surroundings;

use super::*;

fn reads(consumer: &str) -> Pipeline {
    let text = format!(
        "pipeline: p\nstore: file:///no-such-folder/store\n\
         source: {{ log: {{ url: \"file:///no-such-folder/log\"{consumer} }} }}\n\
         sink: {{ clickhouse: {{ url: \"http://127.0.0.1:1\", table: t }} }}\n"
    );
    let checked = config::check(&text, &Surroundings::of_process());
    checked.pipeline.unwrap_or_else(|| panic!("{}", checked.faults.render("test")))
}

#[test]
fn a_delete_names_the_consumer_for_which_a_log_goes_on_keeping_records() {
    let (own, named) = (reads(""), reads(", consumer: other"));
    let command =
        |name: &str| format!("`forebay log truncate file:///no-such-folder/log --forget-consumer {name}`");
    for (pipeline, consumer) in [(&own, "p"), (&named, "other")] {
        let said = readers_left(pipeline, false);
        assert!(said.contains(&command(consumer)) && said.lines().count() == 1, "{said}");
    }
    // The old name of a pipeline that reads on under its new one: as `other` still, and as `p` no more.
    assert!(readers_left(&own, true).contains(&command("p")));
    assert_eq!(readers_left(&named, true), "");
}
