use pipeline::config;
use pipeline::config::values::reference::Surroundings;

use super::*;

#[test]
fn a_plan_is_json_also_where_the_journal_cannot_be_read() {
    let text = "pipeline: p\nsource: { file: { paths: a.jsonl } }\n\
                sink: { clickhouse: { url: \"http://localhost:8123\", table: t } }\n";
    let pipeline = config::check(text, &Surroundings::of_process()).pipeline.expect("a pipeline");
    let problem = Problem {
        path: "store".into(),
        exit: Exit::Person,
        message: "the journal is damaged".into(),
        at: None,
    };
    let found = Found { problems: vec![problem], json: json!({ "running": null }), ..Found::default() };
    let (unread, read) = (unread(&pipeline, &found), super::json(&pipeline, &Lane::new(), &[], &found));
    assert_eq!((&unread["exit"], &unread["problems"][0]), (&4.into(), &"the journal is damaged".into()));
    assert!(unread["changes"].is_null() && read["changes"].is_boolean(), "{unread}");
    // What a program looks for is there in both.
    let keys =
        |value: &serde_json::Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&unread), keys(&read));
}
