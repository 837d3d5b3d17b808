use pipeline::config;
use pipeline::config::values::reference::Surroundings;
use std::path::Path;

use dataflow::block::TIME_UNKNOWN_MS;
use dataflow::{BlockBuilder, Partition};
use serde_json::json;

use super::*;

const FILE: &str = r#"
pipeline: orders
source:
  file: { paths: orders.jsonl }
  fields: { cents: UInt32, state: String }
steps:
  - filter: state = 'paid'
  - select: { "*": "*", amount: 1000 / (cents - 7) }
  - dedup: { key: [id], window: unbounded }
sink:
  clickhouse:
    url: http://localhost:8123
    table: orders
    create:
      columns: { id: UInt8, amount: Int64 }
      order_by: id
"#;

#[test]
fn each_record_is_shown_before_and_after_with_the_step_that_drops_it() {
    let checked = config::check(FILE, &Surroundings::of_process());
    let pipeline = checked.pipeline.unwrap_or_else(|| panic!("{}", checked.faults.render("test")));
    let tables = wiring::sink::all_described(&pipeline).expect("the file describes it");
    let plans = wiring::steps::plan(&pipeline, &tables).unwrap_or_else(|faults| panic!("{faults:?}"));
    let chain = wiring::steps::chain(&pipeline, &tables, 1).expect("it can be made");
    let mut block = BlockBuilder::new(Partition::new("orders", 0), 0);
    let records = [
        r#"{"id": 1, "state": "paid", "cents": 9}"#,
        r#"{"id": 2, "state": "open", "cents": 9}"#,
        r#"{"id": 3, "state": "paid", "cents": 7}"#,
        "{",
    ];
    records.iter().zip(0..).for_each(|(record, n)| block.push(n, TIME_UNKNOWN_MS, Some(record.as_bytes())));
    let tried = outcomes(plans.common(), (&chain, &chain.inputs[0]), (&block.take(), 0), None)
        .expect("the steps run");
    let after: Vec<String> = tried.iter().map(|record| record.after(false)).collect();
    assert_eq!(after[0], r#"{"id":1,"amount":500}"#);
    assert_eq!(after[1], "filtered by steps[0].filter");
    assert!(after[2].starts_with("dead letter: expression: "), "{}", after[2]);
    assert!(after[3].starts_with("dead letter: malformed: "), "{}", after[3]);
    let text = text(&tried, false);
    assert!(text.contains("orders/0/1  {\"id\": 2"), "{text}");
    assert!(
        text.ends_with(
            "4 records: 1 row, 1 filtered, 2 dead letters; duplicates are not checked, nothing was written\n"
        ),
        "{text}"
    );
    assert_eq!(parsed(&tried[1].json())["by"], "steps[0].filter");
    assert_eq!(parsed(&tried[0].json())["after"]["orders"]["amount"], 500);
}

#[test]
fn with_several_tables_each_record_is_shown_with_those_that_it_goes_to() {
    let sinks = "sinks:\n  - { clickhouse: { table: small, create: { columns: { id: UInt8 }, order_by: id } }, where: id < 3 }\n  \
                 - { clickhouse: { table: odd, create: { columns: { id: UInt8, amount: Int8 }, order_by: id } }, where: id % 2 = 1 }\n";
    let file = FILE.split("    table: orders\n").next().expect("a part").replace(
        "  - select: { \"*\": \"*\", amount: 1000 / (cents - 7) }\n",
        "  - select: { id: id, amount: cents }\n",
    );
    let checked = config::check(&format!("{file}{sinks}"), &Surroundings::of_process());
    let pipeline = checked.pipeline.unwrap_or_else(|| panic!("{}", checked.faults.render("test")));
    let tables = wiring::sink::all_described(&pipeline).expect("the file describes them");
    let plans = wiring::steps::plan(&pipeline, &tables).unwrap_or_else(|faults| panic!("{faults:?}"));
    let chain = wiring::steps::chain(&pipeline, &tables, 1).expect("it can be made");
    let mut block = BlockBuilder::new(Partition::new("orders", 0), 0);
    for (id, cents) in [(1, 9), (2, 200), (3, 200), (4, 9)] {
        let record = format!(r#"{{"id": {id}, "state": "paid", "cents": {cents}}}"#);
        block.push(id, TIME_UNKNOWN_MS, Some(record.as_bytes()));
    }
    let tried = outcomes(plans.common(), (&chain, &chain.inputs[0]), (&block.take(), 0), None)
        .expect("the steps run");
    let after: Vec<String> = tried.iter().map(|record| record.after(true)).collect();
    assert_eq!(after[0], r#"small: {"id":1} odd: {"id":1,"amount":9}"#);
    assert_eq!(after[1], r#"small: {"id":2}"#, "an amount that does not fit is of no matter there");
    assert!(after[2].contains("does not fit column `amount` of table `odd`"), "{}", after[2]);
    assert_eq!(after[3], "filtered by sinks: no table takes it");
    assert_eq!(parsed(&tried[0].json())["after"]["odd"]["amount"], 9);
}

/// The example of `docs/formats.md`.
#[test]
fn lines_of_csv_are_joined_to_records_below_their_header() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
    let file = std::fs::read_to_string(folder.join("csv-files.yaml")).expect("the example is there");
    let checked = config::check(&file, &Surroundings::of_process());
    let pipeline = checked.pipeline.unwrap_or_else(|| panic!("{}", checked.faults.render("test")));
    let tables = wiring::sink::all_described(&pipeline).expect("the file describes it");
    let plans = wiring::steps::plan(&pipeline, &tables).unwrap_or_else(|faults| panic!("{faults:?}"));
    let chain = wiring::steps::chain(&pipeline, &tables, 1).expect("it can be made");
    let records = Records::open(&folder.join("orders-1.csv")).expect("the records are there");
    let block = records.read(&pipeline.inputs()[0], 100).expect("the settings are good");
    let tried =
        outcomes(plans.common(), (&chain, &chain.inputs[0]), (&block, 0), None).expect("the steps run");
    let after: Vec<String> = tried.iter().map(|record| record.after(false)).collect();
    assert_eq!(after.len(), 5);
    assert_eq!(
        after[0],
        r#"{"order_id":1001,"ordered_at":"2026-11-23T08:15:00Z","customer":"Ana Silva","amount":19.90,"note":null}"#
    );
    assert!(after[1].contains(r#""note":"ring twice\nthen leave it at the \"back\" door""#), "{}", after[1]);
    assert_eq!(after[2], "filtered by steps[0].filter");
    let letter = "dead letter: wrong_kind: field `amount`: value `12;50` cannot be read as Decimal(12, 2)";
    assert_eq!(after[3], letter);
}

#[test]
fn a_byte_order_mark_and_empty_lines_are_ignored_as_in_the_files_of_a_source() {
    let checked = config::check(FILE, &Surroundings::of_process());
    let pipeline = checked.pipeline.unwrap_or_else(|| panic!("{}", checked.faults.render("test")));
    let path = std::env::temp_dir().join(format!("forebay-try-mark-{}", std::process::id()));
    std::fs::write(&path, "\u{feff}{\"id\": 1}\r\n\r\n{\"id\": 2}\n\n").expect("writes");
    let records = Records::open(&path).expect("the records are there");
    let block = records.read(&pipeline.inputs()[0], 10).expect("they can be read");
    std::fs::remove_file(&path).expect("it is there");
    let bodies: Vec<&[u8]> = (0..block.len()).map(|row| block.payloads.get(row)).collect();
    assert_eq!(bodies, [&b"{\"id\": 1}"[..], b"{\"id\": 2}"]);
}

#[test]
fn a_record_of_several_rows_is_shown_once_with_every_row() {
    let file = FILE.replace("fields: { cents: UInt32, state: String }", "fields: { cents: Array(Int32), state: String }").replace(
        "  - select: { \"*\": \"*\", amount: 1000 / (cents - 7) }\n",
        "  - sql: SELECT id, UNNEST(cents) AS cent FROM input\n  - filter: cent > 0\n  - select: { id: id, amount: 1000 / (cent - 7) }\n",
    );
    let checked = config::check(&file, &Surroundings::of_process());
    let pipeline = checked.pipeline.unwrap_or_else(|| panic!("{}", checked.faults.render("test")));
    let tables = wiring::sink::all_described(&pipeline).expect("the file describes it");
    let plans = wiring::steps::plan(&pipeline, &tables).unwrap_or_else(|faults| panic!("{faults:?}"));
    let chain = wiring::steps::chain(&pipeline, &tables, 1).expect("it can be made");
    let mut block = BlockBuilder::new(Partition::new("orders", 0), 0);
    let records = [
        r#"{"id": 1, "state": "paid", "cents": [9, 0, 7, 107]}"#,
        r#"{"id": 2, "state": "open", "cents": [9]}"#,
        r#"{"id": 3, "state": "paid", "cents": []}"#,
        r#"{"id": 4, "state": "paid", "cents": [8]}"#,
    ];
    records.iter().zip(0..).for_each(|(record, n)| block.push(n, TIME_UNKNOWN_MS, Some(record.as_bytes())));
    let mut tried = outcomes(plans.common(), (&chain, &chain.inputs[0]), (&block.take(), 0), None)
        .expect("the steps run");
    let told: Vec<(String, String)> = tried.iter().map(|one| (one.shown_place(), one.after(false))).collect();
    let told: Vec<(&str, &str)> =
        told.iter().map(|(place, after)| (place.as_str(), after.as_str())).collect();
    assert_eq!(told[0], ("orders/0/0 [0]", r#"{"id":1,"amount":500}"#));
    assert_eq!(told[1], ("orders/0/0 [1]", "filtered by steps[2].filter"));
    assert!(told[2].0 == "orders/0/0 [2]" && told[2].1.starts_with("dead letter: expression: "), "{told:?}");
    assert_eq!(told[3], ("orders/0/0 [3]", r#"{"id":1,"amount":10}"#));
    assert_eq!(told[4], ("orders/0/1", "filtered by steps[0].filter"));
    assert_eq!(told[5], ("orders/0/2", "filtered by steps[1].sql"));
    assert_eq!(told[6], ("orders/0/3 [0]", r#"{"id":4,"amount":1000}"#));
    assert_eq!(parsed(&tried[3].json())["item"], 3);
    let text = text(&tried, false);
    assert!(text.contains("4 records: 3 rows, 3 filtered, 1 dead letter"), "{text}");
    truncate(&mut tried, 2);
    assert_eq!(tried.len(), 5);
}

/// The plan and the parts of a file.
fn made(file: &str) -> (pipeline::config::model::Pipeline, Plans, Chain) {
    let checked = config::check(file, &Surroundings::of_process());
    let pipeline = checked.pipeline.unwrap_or_else(|| panic!("{}", checked.faults.render("test")));
    let tables = wiring::sink::all_described(&pipeline).expect("the file describes it");
    let plans = wiring::steps::plan(&pipeline, &tables).unwrap_or_else(|faults| panic!("{faults:?}"));
    let chain = wiring::steps::chain(&pipeline, &tables, 1).expect("it can be made");
    (pipeline, plans, chain)
}

fn block_of(records: &[&str]) -> RecordBlock {
    let mut block = BlockBuilder::new(Partition::new("t", 0), 0);
    records.iter().zip(0..).for_each(|(record, n)| block.push(n, TIME_UNKNOWN_MS, Some(record.as_bytes())));
    block.take()
}

#[test]
fn windows_of_a_sample_close_at_its_end() {
    let file = r#"
pipeline: temperatures
source:
  file: { paths: readings.jsonl }
  fields: { device: String, at: DateTime64(3), celsius: Array(Int32) }
steps:
  - filter: device <> 'test'
  - sql: SELECT device, at, UNNEST(celsius) AS celsius FROM input
  - window: { key: [device], time: at, size: 1m, aggregates: { n: count(), hottest: max(celsius) } }
  - filter: hottest > 0
sink:
  clickhouse:
    url: http://localhost:8123
    table: temperatures
    create:
      columns: { device: String, window_start: "DateTime64(3, 'UTC')", n: UInt64, hottest: Nullable(Int32) }
      order_by: device
"#;
    let (pipeline, plans, mut chain) = made(file);
    let block = block_of(&[
        r#"{"device": "a", "at": "2026-11-24T10:00:01Z", "celsius": [7, 9]}"#,
        r#"{"device": "test", "at": "2026-11-24T10:00:01Z", "celsius": [7]}"#,
        r#"{"device": "a", "at": "2026-11-24T10:00:59Z", "celsius": [8]}"#,
        r#"{"device": "a", "at": "2026-11-24T10:01:00Z", "celsius": [1]}"#,
        r#"{"device": "b", "at": "2026-11-24T10:00:00Z", "celsius": [-1]}"#,
        r#"{"device": "c", "at": "2026-11-24T10:00:00Z", "celsius": [5]}"#,
    ]);
    let step = onward(&pipeline, &plans, &chain, 0);
    assert_eq!(step, "steps[2].window");
    let tried =
        outcomes(plans.common(), (&chain, &chain.inputs[0]), (&block, 0), Some(step)).expect("the steps run");
    let after: Vec<String> = tried.iter().map(|one| one.after(false)).collect();
    assert_eq!(
        after[..3],
        ["goes into steps[2].window", "goes into steps[2].window", "filtered by steps[0].filter"]
    );
    // Of the first five records: the sixth is beyond the sample.
    let batch = sample_of(&chain.inputs[0], &block, 0, 5).expect("the steps run");
    let results = stateful::run(&mut chain, &plans, vec![(0, batch)]).expect("the steps run");
    let json = parsed(&results.json());
    let rows: Vec<String> =
        json["rows"].as_array().expect("rows").iter().map(|row| row["row"].to_string()).collect();
    assert_eq!(
        rows,
        [
            r#"{"device":"a","window_start":"2026-11-24T10:00:00Z","n":3,"hottest":9}"#,
            r#"{"device":"a","window_start":"2026-11-24T10:01:00Z","n":1,"hottest":1}"#,
        ]
    );
    assert_eq!((&json["of_sample_alone"], &json["filtered"]), (&json!(true), &json!(1)), "{json}");
    assert!(
        results.text().contains("results of the sample alone, as if every input ended here"),
        "{}",
        results.text()
    );
    assert!(
        text(&tried, false).ends_with("6 go into steps with state, nothing was written\n"),
        "{}",
        text(&tried, false)
    );
}

#[test]
fn a_join_of_samples_has_its_pairs_and_its_unmatched_rows() {
    let file = r#"
pipeline: paid
inputs:
  orders: { file: { paths: orders.jsonl }, time: at, fields: { id: UInt64, at: DateTime64(3) } }
  payments: { file: { paths: payments.jsonl }, time: paid_at, fields: { order: UInt64, paid_at: DateTime64(3), amount: Int32 } }
steps:
  - { from: payments, dedup: { key: [order], window: 1h } }
  - join: { left: orders, right: payments, on: ["id = order"], before: 1m, after: 1h, kind: left, columns: { at: orders.at } }
sink:
  clickhouse:
    url: http://localhost:8123
    table: paid
    create:
      columns: { id: UInt64, amount: Nullable(Int32) }
      order_by: id
"#;
    let (pipeline, plans, mut chain) = made(file);
    let of = |chain: &Chain, at: usize, records: &[&str]| {
        (at, sample_of(&chain.inputs[at], &block_of(records), 0, 10).expect("the steps run"))
    };
    let orders = of(
        &chain,
        0,
        &[r#"{"id": 1, "at": "2026-11-24T10:00:00Z"}"#, r#"{"id": 2, "at": "2026-11-24T10:00:00Z"}"#],
    );
    let payment = r#"{"order": 2, "paid_at": "2026-11-24T10:10:00Z", "amount": 5}"#;
    let late = r#"{"order": 1, "paid_at": "2026-11-24T12:00:00Z", "amount": 6}"#;
    let payments = of(&chain, 1, &[payment, payment, late]);
    assert_eq!(onward(&pipeline, &plans, &chain, 1), "steps[0].dedup");
    assert_eq!(onward(&pipeline, &plans, &chain, 0), "steps[1].join");
    let results = stateful::run(&mut chain, &plans, vec![orders, payments]).expect("the steps run");
    let results = parsed(&results.json());
    let rows: Vec<String> =
        results["rows"].as_array().expect("rows").iter().map(|row| row["row"].to_string()).collect();
    assert_eq!(rows, [r#"{"id":2,"amount":5}"#, r#"{"id":1,"amount":null}"#]);
    assert_eq!((&results["duplicates"], &results["unmatched"]), (&json!(1), &json!(2)), "{results}");
}

/// An example of the documentation.
fn example(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
    std::fs::read_to_string(folder.join(name)).expect("the example is there")
}

#[test]
fn every_row_of_a_request_is_shown_with_its_fields_and_what_became_of_it() {
    let steps = "steps:\n  - filter: SeverityNumber > 4\n  - select: { '*': '*', Body: \"CASE WHEN Body = 'x' THEN CAST(1 / (SeverityNumber - 9) AS String) ELSE Body END\" }\nsink:\n";
    let file = example("kafka-otlp-logs.yaml")
        .replace("\nsink:\n", &format!("\n{steps}"))
        .replace("  format: otlp_logs\n", "  format: otlp_logs\n  fields: { Body: String }\n");
    let (_, plans, chain) = made(&file);
    let log = |severity: u32, body: &str| {
        format!(r#"{{"timeUnixNano":"1","severityNumber":{severity},"body":{{"stringValue":"{body}"}}}}"#)
    };
    let request = |logs: &[String]| {
        format!(
            r#"{{"resourceLogs":[{{"resource":{{"attributes":[{{"key":"service.name","value":{{"stringValue":"shop"}}}}]}},"scopeLogs":[{{"logRecords":[{}]}}]}}]}}"#,
            logs.join(",")
        )
    };
    let three = request(&[log(5, "kept"), log(1, "dropped"), log(9, "x"), log(300, "too severe")]);
    let block = block_of(&[&three, &request(&[]), "[1]", &request(&[log(7, "last")])]);
    let of = |rows_max| {
        let (tried, is_cut) =
            requests::of_requests(plans.common(), (&chain, &chain.inputs[0]), (&block, 0), None, rows_max)
                .expect("the steps run");
        (tried, is_cut)
    };
    let (mut tried, is_cut) = of(1_000);
    let told: Vec<(String, String)> = tried.iter().map(|one| (one.shown_place(), one.after(false))).collect();
    let places: Vec<&str> = told.iter().map(|(place, _)| place.as_str()).collect();
    assert_eq!(places, ["t/0/0 [0]", "t/0/0 [1]", "t/0/0 [2]", "t/0/0 [3]", "t/0/1", "t/0/2", "t/0/3 [0]"]);
    assert!(
        told[0].1.contains(r#""ServiceName":"shop""#) && told[0].1.contains(r#""Body":"kept""#),
        "{told:?}"
    );
    assert!(tried[0].before.contains(r#""SeverityNumber":5"#), "{}", tried[0].before);
    assert_eq!(told[1].1, "filtered by steps[0].filter");
    assert!(told[2].1.starts_with("dead letter: expression: "), "{told:?}");
    assert!(told[3].1.starts_with("dead letter: out_of_range: "), "{told:?}");
    assert_eq!(told[4].1, "filtered by decoding, because the request has no rows");
    assert!(told[5].1.starts_with("dead letter: malformed: "), "{told:?}");
    assert!(told[6].1.contains(r#""Body":"last""#), "{told:?}");
    assert!(!is_cut);
    assert_eq!(parsed(&tried[3].json())["item"], 3);
    let text = text(&tried, false);
    assert!(text.contains("4 records: 2 rows, 2 filtered, 3 dead letters"), "{text}");
    truncate(&mut tried, 1);
    assert_eq!(tried.len(), 4);
    let (first, is_cut) = of(2);
    assert!(first.len() == 2 && is_cut);
}

fn parsed(json: &Json) -> serde_json::Value {
    parsed_text(&json.to_string())
}

#[test]
fn numbers_keep_every_digit_as_json() {
    let text = r#"
pipeline: exact
source: { file: { paths: exact.jsonl } }
steps:
  - select: { "*": "*", half: "big * 1.5" }
sink:
  clickhouse:
    url: http://localhost:8123
    table: exact
    create:
      columns: { id: UInt64, big: UInt64, half: "Decimal(38, 1)", price: "Decimal(18, 2)" }
      order_by: id
"#;
    let checked = config::check(text, &Surroundings::of_process());
    let pipeline = checked.pipeline.unwrap_or_else(|| panic!("{}", checked.faults.render("test")));
    let tables = wiring::sink::all_described(&pipeline).expect("the file describes it");
    let plans = wiring::steps::plan(&pipeline, &tables).unwrap_or_else(|faults| panic!("{faults:?}"));
    let chain = wiring::steps::chain(&pipeline, &tables, 1).expect("it can be made");
    let mut block = BlockBuilder::new(Partition::new("exact", 0), 0);
    let record = r#"{"id": 1, "big": 18446744073709551615, "price": "21.00"}"#;
    block.push(0, TIME_UNKNOWN_MS, Some(record.as_bytes()));
    let tried = outcomes(plans.common(), (&chain, &chain.inputs[0]), (&block.take(), 0), None)
        .expect("the steps run");
    let json = tried[0].json().to_string();
    let row = r#"{"id":1,"big":18446744073709551615,"half":27670116110564327422.5,"price":21.00}"#;
    assert!(json.contains(&format!("\n    \"exact\": {row}\n")), "{json}");
    // What is within is laid out as `serde_json` would.
    let without = json.replace(row, "{}");
    assert_eq!(without, format!("{:#}", parsed_text(&without)));
}

fn parsed_text(json: &str) -> serde_json::Value {
    serde_json::from_str(json).expect("it is JSON")
}
