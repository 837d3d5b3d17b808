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
  - select: { "*": "*", amount: cents / 100, day: "date_trunc('day', at)" }
  - dedup: { key: [id], window: 8h, time: at }
sink:
  clickhouse:
    url: http://localhost:8123
    table: orders
    create:
      columns: { id: UUID, at: DateTime64(3), amount: Int64, note: Nullable(String) }
      order_by: id
"#;

fn pipeline(text: &str) -> Pipeline {
    let checked = config::check(text, &Surroundings::of_process());
    checked.pipeline.unwrap_or_else(|| panic!("{}", checked.faults.render("test")))
}

#[test]
fn the_plan_is_shown_for_people_and_for_programs() {
    let pipeline = pipeline(&FILE.replace(", day: \"date_trunc('day', at)\"", ""));
    let tables = sink::all_described(&pipeline).expect("the file describes it");
    let plans = wiring::steps::plan(&pipeline, &tables).unwrap_or_else(|faults| panic!("{faults:?}"));
    let report = Report { pipeline: &pipeline, plans: &plans };
    let expected = "\
pipeline `orders`

decoded from each record
  id     UUID              fills id; read by steps[2].dedup
  at     DateTime64(3)     fills at; the event time
  note   Nullable(String)  fills note
  cents  UInt32            read by steps[1].select
  state  String            read by steps[0].filter

steps
  steps[0].filter  in the decode job, on all cores  reads state
  steps[1].select  in the decode job, on all cores  reads cents
    gives id UUID, at DateTime64(3), note Nullable(String), cents UInt32, state String, amount Int64
  steps[2].dedup   in the lane, in order            reads id

table `orders`
  id UUID                from id      as decoded
  at DateTime64(3)       from at      as decoded
  amount Int64           from amount  of the same type
  note Nullable(String)  from note    as decoded
";
    assert_eq!(report.text(), expected);
    let json = report.json();
    assert_eq!(json["steps"][0]["runs_in"], "decode_job");
    assert_eq!(json["tables"][0]["columns"][2]["how"], "same");
    assert_eq!(json["decoded"][3]["read_by"][0], "steps[1].select");
}

#[test]
fn the_types_between_the_steps_and_before_a_conversion_are_shown() {
    let text = FILE
        .replace("day: \"date_trunc('day', at)\"", "tags: \"[state, note]\"")
        .replace("amount: Int64,", "amount: Int32, tags: Array(String),");
    let pipeline = pipeline(&text);
    let tables = sink::all_described(&pipeline).expect("the file describes it");
    let plans = wiring::steps::plan(&pipeline, &tables).unwrap_or_else(|faults| panic!("{faults:?}"));
    let report = Report { pipeline: &pipeline, plans: &plans };
    let text = report.text();
    let expected = "
  steps[1].select  in the decode job, on all cores  reads note, cents, state
    gives id UUID, at DateTime64(3), note Nullable(String), cents UInt32, state String,
          amount Int64, tags Array(Nullable(String))
  steps[2].dedup   in the lane, in order            reads id
";
    assert!(text.contains(expected), "{text}");
    for line in [
        "  amount Int32           from amount Int64                  converted; a value that does not fit",
        "  tags Array(String)     from tags Array(Nullable(String))  converted; a value that does not fit",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert_eq!(report.json()["tables"][0]["columns"][2]["from_type"], "Int64");
}

#[test]
fn a_column_that_nothing_takes_is_a_fault() {
    let pipeline = pipeline(FILE);
    let faults =
        wiring::steps::plan(&pipeline, &sink::all_described(&pipeline).expect("it is described")).err();
    let faults = faults.expect("`day` is no column");
    assert_eq!(faults[0].path, "steps[1].select.day");
}

/// The example of a page is a part of its file, and the page shows the file's plan.
fn page_shows_the_plan_of(page: &str, example: &str) {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let read = |name: &str| std::fs::read_to_string(docs.join(name)).expect("the page is there");
    let file = read(example);
    let pipeline = pipeline(&file);
    let tables = sink::all_described(&pipeline).expect("the file describes them");
    let plans = wiring::steps::plan(&pipeline, &tables).unwrap_or_else(|faults| panic!("{faults:?}"));
    let text = Report { pipeline: &pipeline, plans: &plans }.text();
    let shown = read(page);
    assert!(shown.contains(&text), "docs/{page} should show:\n{text}");
    let mut blocks = shown.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    assert!(blocks.any(|part| file.contains(part)), "an example of docs/{page} is that of docs/{example}");
}

#[test]
fn the_page_about_steps_shows_the_plan_of_its_example() {
    page_shows_the_plan_of("steps.md", "examples/paid-orders.yaml");
}

#[test]
fn the_page_about_tables_shows_the_plan_of_its_example() {
    page_shows_the_plan_of("tables.md", "examples/web-access.yaml");
}

#[test]
fn the_page_about_upserts_shows_the_plan_of_its_example() {
    page_shows_the_plan_of("upserts.md", "examples/upserts.yaml");
}

#[test]
fn the_page_about_inputs_shows_the_plan_of_its_example() {
    page_shows_the_plan_of("inputs.md", "examples/shop.yaml");
    page_shows_the_plan_of("joins.md", "examples/paid-joined.yaml");
}

#[test]
fn each_input_has_a_plan_of_its_own_for_programs() {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/shop.yaml");
    let pipeline = pipeline(&std::fs::read_to_string(docs).expect("the example is there"));
    let tables = sink::all_described(&pipeline).expect("the file describes it");
    let plans = wiring::steps::plan(&pipeline, &tables).unwrap_or_else(|faults| panic!("{faults:?}"));
    let json = Report { pipeline: &pipeline, plans: &plans }.json();
    assert_eq!(json["inputs"]["orders"]["steps"][0]["step"], "steps[0].filter");
    assert_eq!(json["inputs"]["refunds"]["steps"][0]["step"], "steps[1].select");
    assert_eq!(json["inputs"]["refunds"]["tables"][0]["columns"][4]["how"], "absent");
}

#[test]
fn the_steps_of_the_example_run_where_its_page_says() {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let text = std::fs::read_to_string(docs.join("examples/rollup.yaml")).expect("the example is there");
    let pipeline = pipeline(&text);
    let tables = sink::all_described(&pipeline).expect("the file describes it");
    let plans = wiring::steps::plan(&pipeline, &tables).unwrap_or_else(|faults| panic!("{faults:?}"));
    let told = Report { pipeline: &pipeline, plans: &plans }.text();
    let page = std::fs::read_to_string(docs.join("windows.md")).expect("the page is there");
    let steps = &told[told.find("steps\n").expect("a section")..told.find("\ntable").expect("a section")];
    assert!(page.contains(steps), "{steps}");
    assert!(told.contains("device       String         read by steps[2].window\n"), "{told}");
}

#[test]
fn the_page_about_formats_shows_the_plan_of_its_example() {
    page_shows_the_plan_of("formats.md", "examples/csv-files.yaml");
}
