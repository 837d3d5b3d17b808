use pipeline::config;
use pipeline::config::values::reference::Surroundings;

use super::*;

#[test]
fn a_key_is_compared_by_the_column_that_holds_it_and_by_no_other_of_its_name() {
    let text = "pipeline: p\nstore: ./data\nsource: { kafka: { brokers: 'b:9092', topic: t } }\n\
                steps: [{ dedup: { key: [id], window: 8h } }]\nsink: { clickhouse: { url: 'http://c:8123' } }\nsinks:\n  \
                - clickhouse: { table: same }\n  \
                - { clickhouse: { table: renamed }, columns: { event_id: id } }\n  \
                - { clickhouse: { table: other }, columns: { id: user_id } }\n";
    let checked = config::check(text, &Surroundings::of_process());
    let pipeline = checked.pipeline.unwrap_or_else(|| panic!("{}", checked.faults.render("p.yaml")));
    let found: Vec<anyhow::Result<String>> =
        pipeline.targets().iter().map(|target| column_of(&pipeline, target, "id")).collect();
    let [same, renamed, other] = &found[..] else { panic!("three tables") };
    assert_eq!(same.as_deref().ok(), Some("id"));
    assert_eq!(renamed.as_deref().ok(), Some("event_id"));
    let why = other.as_ref().map_or_else(ToString::to_string, Clone::clone);
    assert!(why.contains("does not hold it") && why.contains(".other`"), "{why}");
}
