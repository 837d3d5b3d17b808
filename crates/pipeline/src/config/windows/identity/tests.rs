use super::{Identity, in_table};
use crate::config;
use crate::config::model::Pipeline;
use crate::config::values::reference::Surroundings;

const SINK: &str = "sink: { clickhouse: { url: \"http://localhost:8123\", table: t } }";

fn checked(steps: &str, sink: &str) -> Result<Pipeline, String> {
    let text = format!(
        "pipeline: p\nsource: {{ kafka: {{ brokers: b, topic: t }}, fields: {{ device: String, at: DateTime64(3) }} }}\n\
         steps: [{steps}]\n{sink}\n"
    );
    let around = Surroundings { env: &|_| Ok(None), file: &|_| Err("no".into()) };
    let checked = config::check(&text, &around);
    checked.pipeline.ok_or_else(|| checked.faults.render("test"))
}

/// A window with these settings beside key, time and aggregates.
fn window(settings: &str) -> String {
    format!("{{ window: {{ key: [device], time: at, {settings}, aggregates: {{ n: count() }} }} }}")
}

/// What is known of the last table.
fn identity(steps: &str, sink: &str) -> Option<Identity> {
    let pipeline = checked(steps, sink).unwrap_or_else(|faults| panic!("{faults}"));
    in_table(&pipeline, pipeline.targets().last().expect("a table"))
}

/// Its lists, each as `a|b`, and behind them what is computed.
fn told(steps: &str, sink: &str) -> String {
    let Some(Identity { columns, computed, .. }) = identity(steps, sink) else { return "unknown".to_owned() };
    let lists: Vec<String> = columns.iter().map(|columns| columns.join("|")).collect();
    match computed.is_empty() {
        true => lists.join(" "),
        false => format!("{} + {}", lists.join(" "), computed.join("|")),
    }
}

#[test]
fn windows_that_grow_are_told_apart_by_their_end_and_all_others_by_either_bound() {
    let (either, end) = ("device window_start|window_end", "device window_end");
    for (lengths, expected, overlaps) in [
        ("size: 1h", either, false),
        ("size: 1h, slide: 1h", either, false),
        ("size: 1h, slide: 5m", either, true),
        ("size: 1d, step: 1h", end, true),
        ("size: 1h, step: 1h", either, false),
        ("gap: 30m", either, false),
    ] {
        assert_eq!(told(&window(lengths), SINK), expected, "{lengths}");
        let found = identity(&window(lengths), SINK).expect("a window");
        assert_eq!((found.overlaps, found.replaces), (overlaps, false), "{lengths}");
    }
    let emits = window("size: 1d, step: 1h, emit: { early: 10s, version: v }");
    assert!(identity(&emits, SINK).expect("a window").replaces);
    // Of windows behind each other the last one gives the results.
    let behind = "{ window: { size: 1d, aggregates: { n: sum(n) } } }";
    assert_eq!(told(&format!("{}, {behind}", window("size: 1h")), SINK), "window_start|window_end");
}

#[test]
fn the_columns_of_a_result_are_followed_to_the_table() {
    let mapped = format!("{SINK}\ncolumns: {{ began: window_start, device: n }}");
    for (steps, sink, expected) in [
        ("{ filter: n > 1 }", SINK, "device window_end"),
        ("{ select: { \"*\": \"*\", twice: n * 2 } }", SINK, "device window_end + twice"),
        ("{ select: { \"*\": \"*\", id: device } }", SINK, "device|id window_end"),
        ("{ select: { device: device, until: '\"window_end\"', n: n } }", SINK, "device until"),
        // What is dropped can be in no sorting key.
        ("{ select: { device: device, n: n } }", SINK, "device"),
        ("{ select: { \"*\": \"*\", device: upper(device) } }", SINK, "window_end + device"),
        (
            "{ select: { \"*\": \"*\", id: \"concat(device, 'x')\" } }, { select: { key: id, window_end: window_end } }",
            SINK,
            "window_end + key",
        ),
        ("{ sql: \"SELECT device, window_end, n FROM input\" }", SINK, "unknown"),
        // Here the table's `device` is no device, and `began` is not what tells windows that grow apart.
        ("{ filter: n > 1 }", &mapped, "window_end"),
    ] {
        assert_eq!(told(&format!("{}, {steps}", window("size: 1d, step: 1h")), sink), expected, "{steps}");
    }
    assert_eq!(
        told(&window("size: 1h"), &format!("{SINK}\ncolumns: {{ began: window_start }}")),
        "device window_start|window_end|began"
    );
}

#[test]
fn records_and_late_records_are_no_results() {
    assert_eq!(told("{ filter: device = 'a' }", SINK), "unknown");
    let late = "sink: { clickhouse: { url: \"http://localhost:8123\" } }\n\
                sinks: [ { clickhouse: { table: a } }, { clickhouse: { table: b }, from: w.late } ]";
    assert_eq!(told(&window("as: w, size: 1h"), late), "unknown");
}

#[test]
fn results_that_replace_each_other_do_so_by_key_and_window() {
    let emit = "emit: { early: 10s, updates: true, version: v }";
    let upsert = |key: &str| {
        format!(
            "sink: {{ clickhouse: {{ url: \"http://localhost:8123\", table: t }}, upsert: {{ key: {key}, version: v }} }}"
        )
    };
    let growing = window(&format!("size: 1d, step: 1h, {emit}"));
    let tumbling = window(&format!("size: 1h, {emit}"));
    for (steps, key, missing, advice) in [
        (&growing, "[device, window_start]", "`window_end`", "`key: [device, window_start, window_end]`"),
        (&growing, "[device]", "`window_end`", "`key: [device, window_end]`"),
        (&tumbling, "[device]", "`window_start`", "`key: [device, window_start]`"),
        (&tumbling, "[window_end]", "`device`", "`key: [window_end, device]`"),
        (&tumbling, "[n]", "`device`, `window_start`", "`key: [n, device, window_start]`"),
    ] {
        let faults = checked(steps, &upsert(key)).expect_err("it is refused");
        assert!(faults.contains(&format!("without {missing} ")), "{faults}");
        assert!(faults.contains(advice), "{faults}");
    }
    for (steps, key) in [
        (&growing, "[device, window_end]"),
        (&growing, "[window_start, window_end, device]"),
        (&tumbling, "[device, window_start]"),
        (&tumbling, "[device, window_end]"),
        // The newest window of each device: each result is written once, and a later one replaces it.
        (&window("size: 1h"), "[device]"),
        (&window("size: 1d, step: 1h"), "[device, window_start]"),
        // Nobody knows here what the expression makes of it.
        (&format!("{growing}, {{ select: {{ \"*\": \"*\", id: \"concat(device, n)\" }} }}"), "[id]"),
    ] {
        let found = checked(steps, &upsert(key));
        assert!(found.is_ok(), "{key}: {}", found.expect_err("it is refused"));
    }
}

#[test]
fn a_table_that_is_created_is_sorted_by_key_and_window() {
    let steps = window("size: 1d, step: 1h, emit: { early: 10s, version: v }");
    let sink = |key: &str| {
        format!(
            "sink: {{ clickhouse: {{ url: \"http://localhost:8123\", table: t, create: {{ columns: {{ device: String, \
             window_start: DateTime64(3), window_end: DateTime64(3), n: UInt64, v: UInt64 }}, order_by: {key} }} }}, \
             upsert: {{ key: {key}, version: v }} }}"
        )
    };
    let faults = checked(&steps, &sink("[device, window_start]")).expect_err("it is refused");
    let advice = "write `key: [device, window_start, window_end]`, and `order_by` with the same columns";
    assert!(faults.contains(advice), "{faults}");
    assert!(checked(&steps, &sink("[device, window_start, window_end]")).is_ok());
    // Rows of a MergeTree stay beside each other, and queries take the newest.
    let plain = sink("[device]").replace(", upsert: { key: [device], version: v }", "");
    assert!(checked(&steps, &plain).is_ok());
}
