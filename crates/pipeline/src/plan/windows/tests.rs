use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray, UInt64Array};
use dataflow::{Batch, BlockBuilder, Column, ColumnType, Partition, Schema};
use operators::Window;

use crate::config;
use crate::config::values::reference::Surroundings;
use crate::plan::chain::LaneStep;
use crate::wiring::steps;

fn checked(fields: &str, steps: &str) -> Result<config::model::Pipeline, String> {
    let text = format!(
        "pipeline: p\nsink: {{ clickhouse: {{ url: \"http://localhost:8123\", table: t }} }}\n\
         source: {{ kafka: {{ brokers: b, topic: t }}, fields: {{ {fields} }} }}\nsteps: [{steps}]"
    );
    let around = Surroundings { env: &|_| Ok(None), file: &|_| Err("no".into()) };
    let checked = config::check(&text, &around);
    checked.pipeline.ok_or_else(|| checked.faults.render("test"))
}

fn table(more: &[(&str, ColumnType)]) -> Schema {
    let time = || ColumnType::DateTime64 { precision: 3, timezone: None };
    let mut columns = vec![
        Column::new("device", ColumnType::String),
        Column::new("window_start", time()),
        Column::new("n", ColumnType::UInt32),
        Column::new("total", ColumnType::Int64),
    ];
    columns.extend(more.iter().map(|(name, of_type)| Column::new(*name, of_type.clone())));
    Schema::new(columns)
}

/// The plan in lines, or its faults.
fn planned(fields: &str, steps: &str, table: &Schema) -> String {
    let pipeline = checked(fields, steps).unwrap_or_else(|faults| panic!("{faults}"));
    let schema = |schema: &Schema| {
        let column = |c: &Column| format!("{} {}", c.name, clickhouse::types::name(&c.column_type));
        schema.columns().iter().map(column).collect::<Vec<_>>().join(", ")
    };
    match steps::plan(&pipeline, std::slice::from_ref(table)) {
        Err(faults) => faults.iter().map(|fault| format!("{fault}\n")).collect(),
        Ok(plans) => {
            let plan = plans.inputs.into_iter().next().expect("one input").plan;
            let mut told = format!("input: {}\ntime: {:?}\n", schema(&plan.input), plan.time);
            for stage in &plan.stages {
                told += &format!("{} in {:?}: {}\n", stage.path, stage.place, schema(&stage.output));
            }
            for mapped in &plan.tables[0].mapping {
                told += &format!("{} from {:?} {:?}\n", mapped.column, mapped.from, mapped.conversion);
            }
            told
        }
    }
}

const FIELDS: &str = "device: String, at: DateTime64(3), amount: Int32, noise: String";
const WINDOW: &str =
    "{ window: { key: [device], time: at, size: 1m, aggregates: { n: count(), total: sum(amount) } } }";

#[test]
fn a_window_reads_declared_fields_alone_and_its_results_fill_the_table() {
    let told =
        planned(FIELDS, WINDOW, &table(&[("note", ColumnType::Nullable(Box::new(ColumnType::String)))]));
    let expected = "\
input: device String, amount Int32, at DateTime64(3)
time: Some(\"at\")
steps[0].window in Lane: device String, window_start DateTime64(3, 'UTC'), window_end DateTime64(3, 'UTC'), n UInt64, total Int64
device from Some(\"device\") Same
window_start from Some(\"window_start\") Same
n from Some(\"n\") Checked
total from Some(\"total\") Same
note from None Same
";
    assert_eq!(told, expected);
}

#[test]
fn an_array_of_the_key_fills_a_column_of_the_table() {
    let fields = "device: String, tags: Array(String), at: DateTime64(3), amount: Int32";
    let steps = WINDOW.replace("key: [device]", "key: [device, tags]");
    let tags = ColumnType::Array(Box::new(ColumnType::String));
    let told = planned(fields, &steps, &table(&[("tags", tags)]));
    let gives = "steps[0].window in Lane: device String, tags Array(String), window_start";
    assert!(told.contains(gives) && told.contains("tags from Some(\"tags\") Same\n"), "{told}");
}

#[test]
fn steps_before_a_window_run_where_they_did() {
    let steps = "{ filter: amount > 0 }, { select: { \"*\": \"*\", doubled: amount * 2 } }, { dedup: { key: [noise], window: 1h } }, \
                 { window: { key: [device], time: at, size: 1m, aggregates: { n: count(), total: sum(doubled) } } }";
    let told = planned(FIELDS, steps, &table(&[]));
    let places: Vec<&str> =
        told.lines().filter_map(|line| line.split_once(':').map(|(place, _)| place)).collect();
    let expected = [
        "input",
        "time",
        "steps[0].filter in DecodeJob",
        "steps[1].select in DecodeJob",
        "steps[2].dedup in Lane",
        "steps[3].window in Lane",
    ];
    assert_eq!(places[..6], expected, "{told}");
}

#[test]
fn the_parts_of_a_window_are_the_step_and_the_mapping_behind_it() {
    let pipeline = checked(FIELDS, WINDOW).expect("it is valid");
    let chain = steps::chain(&pipeline, &[table(&[])], 2).expect("it can be made");
    let names: Vec<&str> = chain.steps.iter().map(|step| step.name()).collect();
    assert_eq!((chain.inputs[0].intake.is_timed(), names), (true, vec!["window", "mapping"]));
}

#[test]
fn what_a_window_cannot_be_is_said_at_its_place() {
    let fault = |fields: &str, steps: &str, table: &Schema| match checked(fields, steps) {
        Err(faults) => faults,
        Ok(_) => planned(fields, steps, table),
    };
    let window = |change: (&str, &str)| WINDOW.replace(change.0, change.1);
    let says = |told: String, what: &[&str]| {
        assert!(what.iter().all(|what| told.contains(what)), "{told}");
    };
    let none = table(&[]);
    says(
        fault("at: DateTime64(3)", WINDOW, &none),
        &["steps[0].window.key[0]", "fields: { device: String }", "aggregates.total"],
    );
    says(
        fault(FIELDS, &window(("sum(amount)", "sum(noise)")), &none),
        &["steps[0].window", "`noise`", "use an integer"],
    );
    says(
        fault(FIELDS, &window(("sum(amount)", "summ(amount)")), &none),
        &["there is no aggregate `summ`, did you mean `sum`"],
    );
    says(fault(FIELDS, &window(("sum(amount)", "'sum(amount, 2)'")), &none), &["`sum` takes one column"]);
    says(
        fault(FIELDS, &window(("n: count()", "m: count()")), &none),
        &["aggregates.m", "the table has no column `m`"],
    );
    says(fault(FIELDS, &window(("time: at", "time: att")), &none), &["steps[0].window.time", "`att`"]);
    let two = format!(
        "{{ dedup: {{ key: [noise], window: 1h, time: at }} }}, {}",
        window(("time: at", "time: noise"))
    );
    says(fault(FIELDS, &two, &none), &["the event time is `at`", "steps[1].window.time"]);
}

#[test]
fn a_second_dedup_gives_a_window_behind_it_no_other_time_than_the_window_names() {
    let fields = format!("{FIELDS}, seen: DateTime64(3)");
    let with = |time: &str| {
        let steps = format!(
            "{{ dedup: {{ key: [noise], window: 1h, time: at }} }}, {{ dedup: {{ key: [device], window: 1h{time} }} }}, {WINDOW}"
        );
        planned(&fields, &steps, &table(&[]))
    };
    let told = with(", time: seen");
    assert!(told.starts_with("`steps[1].dedup.time`: ") && told.contains("write `at` here"), "{told}");
    for same in [", time: at", ""] {
        let told = with(same);
        assert!(told.starts_with("input: "), "{told}");
    }
}

#[test]
fn what_an_aggregate_computes_is_computed_before_the_window_and_before_any_key_counts_as_seen() {
    let steps = "{ filter: amount > 0 }, { dedup: { key: [noise], window: 1h } }, \
                 { window: { key: [device], time: at, size: 1m, aggregates: { n: countIf(amount > 3), total: sum(amount * 2) where noise = 'x' } } }";
    let told = planned(FIELDS, steps, &table(&[]));
    let places: Vec<&str> =
        told.lines().filter_map(|line| line.split_once(": ").map(|(place, _)| place)).collect();
    let expected = [
        "input",
        "time",
        "steps[0].filter in DecodeJob",
        "steps[2].window in DecodeJob",
        "steps[1].dedup in Lane",
        "steps[2].window in Lane",
    ];
    assert_eq!(places, expected, "{told}");
    assert!(told.contains("amount > 3 Bool") && told.contains("amount * 2 Int64"), "{told}");
    let wrong = steps.replace("amount * 2", "amuont * 2");
    let told = planned(FIELDS, &wrong, &table(&[]));
    assert!(told.starts_with("`steps[2].window.aggregates.total`: ") && told.contains("`amount`"), "{told}");
}

#[test]
fn a_query_fills_states_and_takes_conditional_aggregates_as_the_step_does() {
    let query = "SELECT device, countIf(amount > 3) AS n, sumState(amount) AS total FROM TUMBLE(input, at, INTERVAL '1 minute') \
                 GROUP BY window_start, window_end, device HAVING countIf(amount > 3) > 1";
    let state = clickhouse::types::parse("total", "AggregateFunction(sum, Int32)").expect("it is a type");
    let columns = [("device", ColumnType::String), ("n", ColumnType::UInt64), ("total", state)];
    let table = Schema::new(columns.into_iter().map(|(name, of_type)| Column::new(name, of_type)).collect());
    let told = planned(FIELDS, &format!("{{ sql: \"{query}\" }}"), &table);
    for name in ["device", "n", "total"] {
        assert!(told.contains(&format!("{name} from Some(\"{name}\") Same\n")), "{told}");
    }
}

#[test]
fn the_kind_of_windows_follows_from_the_lengths_that_are_given() {
    use operators::window::Windows;
    let kind = |lengths: &str| {
        let window = WINDOW.replace("size: 1m", lengths);
        let pipeline = checked(FIELDS, &window)?;
        let config = crate::config::windows::config(pipeline.steps[0].window.as_ref().unwrap(), "w");
        config.map(|config| config.windows).map_err(|faults| faults[0].message.clone())
    };
    let seconds = std::time::Duration::from_secs;
    let day = seconds(86_400);
    for (lengths, expected) in [
        ("size: 1m", Windows::Tumbling { size: seconds(60) }),
        ("size: 1m, slide: 10s", Windows::Hopping { size: seconds(60), slide: seconds(10) }),
        ("size: 1m, step: 10s", Windows::Cumulative { size: seconds(60), step: seconds(10) }),
        ("gap: 30s", Windows::Session { gap: seconds(30), max: day }),
        ("gap: 30s, max: 1m", Windows::Session { gap: seconds(30), max: seconds(60) }),
    ] {
        assert_eq!(kind(lengths), Ok(expected), "{lengths}");
    }
    for (lengths, expected) in [
        ("lateness: 1s", "write `size: 1m`"),
        ("slide: 1m", "needs a `size`"),
        ("size: 1m, gap: 1m", "no `size`"),
        ("size: 1m, slide: 1m, step: 1m", "not both"),
        ("size: 1m, max: 1m", "only sessions"),
        ("size: 1m, slide: 2m", "more than the `size`"),
        ("size: 1m, step: 7s", "whole multiple"),
        ("size: 365d, slide: 1s", "31536000"),
        ("gap: 1m, max: 30s", "less than their `gap`"),
    ] {
        let told = kind(lengths).unwrap_err();
        assert!(told.contains(expected), "{lengths}: {told}");
    }
}

/// Nobody has decoded the bounds of a window, and an event time may be far before those that the column's type reaches.
#[test]
fn bounds_of_a_window_beyond_their_type_are_rejected() {
    let pipeline = checked(FIELDS, WINDOW).unwrap_or_else(|faults| panic!("{faults}"));
    let plans = steps::plan(&pipeline, &[table(&[])]).expect("a good plan");
    let plan = plans.inputs.into_iter().next().expect("one input").plan;
    let mut steps = plan.lane_steps.into_iter();
    let output = steps.by_ref().find_map(|step| match step {
        LaneStep::Window { config, columns, .. } => {
            Some(Window::new(&columns, &config).expect("a valid step").output().clone())
        }
        _ => None,
    });
    let Some(LaneStep::Stateless { step: mapping, .. }) = steps.next() else {
        panic!("results are looked at")
    };
    let year_1 = -62_135_596_800_000_i64;
    let (bounds, totals) = ([year_1, 0], [7_i64, 8]);
    let time = || TimestampMillisecondArray::from_iter_values(bounds).with_timezone("UTC");
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(vec!["a", "b"])),
        Arc::new(time()),
        Arc::new(time()),
        Arc::new(UInt64Array::from(vec![1, 1])),
        Arc::new(Int64Array::from_iter_values(totals)),
    ];
    let schema = output.expect("a window");
    let rows = RecordBatch::try_new(schema.arrow().clone(), columns).expect("the columns of results");
    let batch = Batch {
        items: Vec::new(),
        era: 0,
        partition: Partition::new("@window", 0),
        rows,
        positions: vec![0, 1],
        times_ms: vec![0, 1],
    };
    let made = mapping.apply(batch).expect("applies");
    assert_eq!((made.batch.len(), made.rejects.len()), (1, 1));
    assert_eq!(made.rejects[0].column, "window_start");
}

#[test]
fn results_that_others_replace_need_the_column_of_their_version() {
    let emits = WINDOW.replace("size: 1m,", "size: 1m, emit: { early: 10s, updates: true, version: v },");
    let told = planned(FIELDS, &emits, &table(&[]));
    assert!(told.starts_with("`steps[0].window.emit.version`: the table has no column `v`"), "{told}");
    let told = planned(FIELDS, &emits, &table(&[("v", ColumnType::UInt64)]));
    assert!(told.contains("v from Some(\"v\") Same"), "{told}");
}

#[test]
fn what_could_keep_a_later_result_from_its_place_is_refused_behind() {
    let emits = WINDOW.replace("size: 1m,", "size: 1m, emit: { updates: true, version: v },");
    let refused = |behind: &str, what: &str| {
        let told = checked(FIELDS, &format!("{emits}, {behind}")).expect_err("it is refused");
        assert!(told.contains(what), "{told}");
    };
    refused("{ filter: n > 1 }", "a `filter` behind");
    refused("{ dedup: { key: [device], window: 1h } }", "the `dedup` behind");
    refused("{ window: { key: [device], size: 1h, aggregates: { n: sum(n) } } }", "the window behind");
    let kept = format!("{emits}, {{ select: {{ \"*\": \"*\", double: n * 2 }} }}");
    assert!(checked(FIELDS, &kept).is_ok());
}

#[test]
fn a_window_may_go_by_the_time_when_records_were_read() {
    let told = planned(FIELDS, &WINDOW.replace("time: at", "time: _ingested"), &table(&[]));
    assert!(told.contains("time: Some(\"_ingested\")"), "{told}");
    let pipeline = checked(FIELDS, &WINDOW.replace("time: at", "time: _ingested")).expect("it is valid");
    let chain = steps::chain(&pipeline, &[table(&[])], 2).expect("it can be made");
    let mut block = BlockBuilder::new(Partition::new("t", 0), 0);
    block.push(0, 1_000, Some(br#"{"device":"a","at":2000,"amount":1,"noise":""}"#));
    let prepared = chain.inputs[0].intake.prepare(&block.take(), 3_000).expect("it is read");
    assert_eq!(prepared.batch.times_ms, [3_000], "neither the broker's nor the record's");
}

#[test]
fn unnest_stands_before_a_window_and_not_behind_it() {
    let unnest = "{ sql: \"SELECT device, at, UNNEST(amounts) AS amount FROM input\" }";
    let fields = "device: String, at: DateTime64(3), amounts: Array(Int32)";
    let told = planned(fields, &format!("{unnest}, {WINDOW}"), &table(&[]));
    let before = "steps[0].sql in DecodeJob: device String, at DateTime64(3), amount Int32\n";
    assert!(told.contains(before) && told.contains("total from"), "{told}");
    let behind = "{ sql: \"SELECT device, window_start, n, UNNEST([total]) AS total FROM input\" }";
    let told = planned(FIELDS, &format!("{WINDOW}, {behind}"), &table(&[]));
    assert!(told.starts_with("`steps[1].sql`: UNNEST is not supported after `steps[0].window`"), "{told}");
}
