use pipeline::config;
use pipeline::config::values::reference::Surroundings;

use super::*;

fn reads(consumer: &str) -> Pipeline {
    of_inputs(&format!("source: {{ log: {{ url: \"file:///no-such-folder/log\"{consumer} }} }}"))
}

fn of_inputs(inputs: &str) -> Pipeline {
    let text = format!(
        "pipeline: p\nstore: file:///no-such-folder/store\n{inputs}\n\
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

#[test]
fn a_command_names_a_log_and_a_file_with_blanks_as_a_shell_takes_them() {
    let said = readers_left(&of_inputs("source: { log: { url: \"file:///my logs/it's\" } }"), false);
    assert!(said.contains(r"`forebay log truncate 'file:///my logs/it'\''s' --forget-consumer p`"), "{said}");
    assert_eq!(place::quoted(std::path::Path::new("my pipelines/p.yaml")), "'my pipelines/p.yaml'");
    assert_eq!(place::quoted(std::path::Path::new("./p.yaml")), "./p.yaml");
}

#[test]
fn a_reset_lets_no_table_be_emptied_whose_rows_cannot_be_read_again() {
    let said = |inputs: &str| {
        let pipeline = of_inputs(inputs);
        words(End::Reset, &pipeline, 1, 1, Ok(0)).expect("the tables are named")
    };
    let (empty, alone) = ("empty the table first (`TRUNCATE TABLE ", "are in the tables alone");
    let file = said("source: { file: { paths: orders.jsonl } }");
    assert!(file.contains(empty) && file.contains("do not come back") && !file.contains(alone), "{file}");
    for inputs in [
        "source: { listen: {} }",
        "source: { kafka: { brokers: b, topic: t, start: latest } }",
        "source: { log: { url: \"file:///no-such-folder/log\", start: latest } }",
    ] {
        let said = said(inputs);
        assert!(said.contains(alone) && !said.contains("TRUNCATE"), "{said}");
    }
    let both = said("inputs: { sent: { listen: {} }, orders: { kafka: { brokers: b, topic: t } } }");
    assert!(both.contains(empty) && both.contains(&format!("the rows of input `sent` {alone}")), "{both}");
    let deleted = words(End::Delete, &of_inputs("source: { listen: {} }"), 1, 1, Ok(0)).expect("the same");
    assert!(!deleted.contains(alone), "{deleted}");
    // Their positions begin anew, so their letters cannot be told from those of records that are read again.
    let of_letters = |end, listens| Left::Some(2).words(end, "letters", listens);
    assert!(of_letters(End::Reset, true).contains("replay them before the reset"));
    assert!(!of_letters(End::Reset, false).contains("before the reset"));
    assert!(!of_letters(End::Delete, true).contains("before the reset"));
}
