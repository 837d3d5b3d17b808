use pipeline::config;
use pipeline::config::values::reference::Surroundings;

use super::*;

#[test]
fn a_rename_names_the_consumer_for_which_a_log_goes_on_keeping_records() {
    let to: PipelineName = "clicks".parse().expect("a name");
    let rename = Rename { file: PipelineFile { file: "p.yaml".into() }, to, yes: false, json: false };
    let plan = Plan { from: "p".to_owned(), to: "clicks".to_owned(), step: Step::Take, inserts: 0 };
    for (consumer, is_told) in [("", true), (", consumer: other", false)] {
        let text = format!(
            "pipeline: p\nstore: file:///no-such-folder/store\n\
             source: {{ log: {{ url: \"file:///no-such-folder/log\"{consumer} }} }}\n\
             sink: {{ clickhouse: {{ url: \"http://127.0.0.1:1\", table: t }} }}\n"
        );
        let checked = config::check(&text, &Surroundings::of_process());
        let pipeline = checked.pipeline.unwrap_or_else(|| panic!("{}", checked.faults.render("test")));
        let said = rename.words(&pipeline, &plan).expect("words");
        let command = "`forebay log truncate file:///no-such-folder/log --forget-consumer p`";
        assert_eq!(said.contains(command), is_told, "{said}");
    }
}
