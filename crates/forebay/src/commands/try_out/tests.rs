use pipeline::config;
use pipeline::config::values::reference::Surroundings;

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
    let tables = explain::all_described(&pipeline).expect("the file describes it");
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
    let tried =
        outcomes(plans.common(), &chain, &chain.inputs[0], (&block.take(), 0)).expect("the steps run");
    let after: Vec<String> = tried.iter().map(|record| record.after(false)).collect();
    assert_eq!(after[0], r#"{"id":1,"amount":500}"#);
    assert_eq!(after[1], "filtered by steps[0].filter");
    assert!(after[2].starts_with("dead letter: expression: "), "{}", after[2]);
    assert!(after[3].starts_with("dead letter: malformed: "), "{}", after[3]);
    let text = text(&tried, false);
    assert!(text.contains("orders/0/1  {\"id\": 2"), "{text}");
    assert!(text.ends_with("4 records: 1 row, 1 filtered, 2 dead letters; duplicates are not looked for, nothing was written\n"), "{text}");
    assert_eq!(tried[1].json()["by"], "steps[0].filter");
    assert_eq!(tried[0].json()["after"]["orders"]["amount"], 500);
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
    let tables = explain::all_described(&pipeline).expect("the file describes them");
    let plans = wiring::steps::plan(&pipeline, &tables).unwrap_or_else(|faults| panic!("{faults:?}"));
    let chain = wiring::steps::chain(&pipeline, &tables, 1).expect("it can be made");
    let mut block = BlockBuilder::new(Partition::new("orders", 0), 0);
    for (id, cents) in [(1, 9), (2, 200), (3, 200), (4, 9)] {
        let record = format!(r#"{{"id": {id}, "state": "paid", "cents": {cents}}}"#);
        block.push(id, TIME_UNKNOWN_MS, Some(record.as_bytes()));
    }
    let tried =
        outcomes(plans.common(), &chain, &chain.inputs[0], (&block.take(), 0)).expect("the steps run");
    let after: Vec<String> = tried.iter().map(|record| record.after(true)).collect();
    assert_eq!(after[0], r#"small: {"id":1} odd: {"id":1,"amount":9}"#);
    assert_eq!(after[1], r#"small: {"id":2}"#, "an amount that does not fit is of no matter there");
    assert!(after[2].contains("does not fit column `amount` of table `odd`"), "{}", after[2]);
    assert_eq!(after[3], "filtered by sinks, for no table takes it");
    assert_eq!(tried[0].json()["after"]["odd"]["amount"], 9);
}

/// The example of `docs/formats.md`.
#[test]
fn lines_of_csv_are_joined_to_records_below_their_header() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
    let file = std::fs::read_to_string(folder.join("csv-files.yaml")).expect("the example is there");
    let checked = config::check(&file, &Surroundings::of_process());
    let pipeline = checked.pipeline.unwrap_or_else(|| panic!("{}", checked.faults.render("test")));
    let tables = explain::all_described(&pipeline).expect("the file describes it");
    let plans = wiring::steps::plan(&pipeline, &tables).unwrap_or_else(|faults| panic!("{faults:?}"));
    let chain = wiring::steps::chain(&pipeline, &tables, 1).expect("it can be made");
    let lines = lines(&folder.join("orders-1.csv"), 100).expect("the records are there");
    let block = wiring::source::records(&pipeline.inputs()[0], &lines).expect("the settings are good");
    let tried = outcomes(plans.common(), &chain, &chain.inputs[0], (&block, 0)).expect("the steps run");
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
