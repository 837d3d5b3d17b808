use dataflow::block::TIME_UNKNOWN_MS;
use dataflow::{BlockBuilder, Partition};
use pipeline::config;
use pipeline::config::values::reference::Surroundings;
use pipeline::wiring::{self, steps::Chain};

use super::*;

/// What a sample of these records says, and the same for programs.
fn told(file: &str, records: &[&str]) -> (Vec<String>, Value) {
    let checked = config::check(file, &Surroundings::of_process());
    let pipeline = checked.pipeline.unwrap_or_else(|| panic!("{}", checked.faults.render("test")));
    let tables = wiring::sink::all_described(&pipeline).expect("the file describes them");
    let Chain { inputs, router, .. } = wiring::steps::chain(&pipeline, &tables, 1).expect("it can be made");
    let mut sampler = Sampler::new(&pipeline, (inputs[0].intake.clone(), router), &tables, (10, 0));
    let mut block = BlockBuilder::new(Partition::new("readings", 0), 0);
    records.iter().zip(0..).for_each(|(record, n)| block.push(n, TIME_UNKNOWN_MS, Some(record.as_bytes())));
    sampler.take(&block.take());
    let mut found = Found { json: json!({}), ..Found::default() };
    sampler.tell(true, None, &mut found);
    (found.notes, found.json)
}

#[test]
fn a_sample_of_a_pipeline_with_windows_says_that_records_go_into_its_state() {
    let of_tables = |sinks: &str| {
        format!(
            r#"
pipeline: temperatures
source:
  file: {{ paths: readings.jsonl }}
  fields: {{ device: String, at: DateTime64(3), celsius: Int32 }}
steps:
  - filter: device <> 'test'
  - window: {{ key: [device], time: at, size: 1m, aggregates: {{ hottest: max(celsius) }} }}
{sinks}"#
        )
    };
    let columns = r#"device: String, window_start: "DateTime64(3, 'UTC')", hottest: Nullable(Int32)"#;
    let create = format!("create: {{ columns: {{ {columns} }}, order_by: device }}");
    let url = "sink:\n  clickhouse:\n    url: http://localhost:8123\n";
    let one = of_tables(&format!("{url}    table: hot\n    {create}\n"));
    let several = of_tables(&format!(
        "{url}sinks:\n  - {{ clickhouse: {{ table: hot, {create} }}, where: hottest > 30 }}\n  \
         - {{ clickhouse: {{ table: all, {create} }} }}\n"
    ));
    let records = [
        r#"{"device": "a", "at": "2026-11-24T10:00:01Z", "celsius": 31}"#,
        r#"{"device": "test", "at": "2026-11-24T10:00:02Z", "celsius": 7}"#,
        "{",
    ];
    // No table has a row of the records themselves.
    for file in [one, several] {
        let (notes, json) = told(&file, &records);
        assert_eq!(
            notes[..3],
            [
                "sample of 3 records that a start would read next: 0 rows, 1 dead letter, 1 filtered (1 into steps with state)",
                "  readings/0/0: goes into steps with state",
                "  readings/0/1: filtered",
            ]
        );
        assert!(notes[3].starts_with("  readings/0/2: dead letter: malformed: "), "{}", notes[3]);
        let records = &json["sample"]["records"];
        assert_eq!(records[0]["becomes"], "state", "{json}");
        assert_eq!(records[0].get("rows"), None, "{json}");
    }
}

#[test]
fn a_record_that_a_step_behind_dedup_drops_is_no_row_of_a_sample() {
    let file = "
pipeline: orders
source:
  file: { paths: orders.jsonl }
steps:
  - dedup: { key: [id], window: unbounded }
  - filter: id < 2
sink:
  clickhouse:
    url: http://localhost:8123
    table: orders
    create: { columns: { id: UInt8 }, order_by: id }
";
    let (notes, json) = told(file, &[r#"{"id": 1}"#, r#"{"id": 2}"#]);
    assert_eq!(
        notes,
        [
            "sample of 2 records that a start would read next: 1 row, 0 dead letters, 1 filtered (duplicates are not checked)",
            r#"  readings/0/0: row {"default.orders":{"id":1}}"#,
            "  readings/0/1: filtered",
        ]
    );
    assert_eq!(json["sample"]["records"][1]["becomes"], "filtered", "{json}");
}

#[test]
fn of_a_record_with_several_rows_the_first_is_shown_in_a_sample() {
    let file = r#"
pipeline: tags
source:
  file: { paths: posts.jsonl }
  fields: { tags: "Array(String)" }
steps:
  - sql: SELECT id, UNNEST(tags) AS tag FROM input
sink:
  clickhouse:
    url: http://localhost:8123
    table: tags
    create: { columns: { id: UInt8, tag: String }, order_by: id }
"#;
    let records =
        [r#"{"id": 1, "tags": ["a", "b", "c"]}"#, r#"{"id": 2, "tags": []}"#, r#"{"id": 3, "tags": ["d"]}"#];
    let (notes, json) = told(file, &records);
    assert_eq!(
        notes,
        [
            "sample of 3 records that a start would read next: 4 rows, 0 dead letters, 1 filtered (duplicates are not checked)",
            r#"  readings/0/0: row {"default.tags":{"id":1,"tag":"a"}} and 2 more"#,
            "  readings/0/1: filtered",
            r#"  readings/0/2: row {"default.tags":{"id":3,"tag":"d"}}"#,
        ]
    );
    assert_eq!(json["sample"]["records"][0]["more_rows"], 2, "{json}");
}
