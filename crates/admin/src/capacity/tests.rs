use pipeline::config::{self, values::reference::Surroundings};
use serde_json::{Value, json};

use super::*;

fn of(steps: &str, store: &str) -> Pipeline {
    let text = format!(
        "pipeline: p\nstore: {store}\nsource:\n  kafka: {{ brokers: 'b:9092', topic: t }}\n  fields: {{ k: UInt32, v: Float64 }}\n{steps}\
         sink: {{ clickhouse: {{ url: 'http://c:8123', table: t }}, batch: {{ age: 1s, rows: 500000 }} }}\n"
    );
    let checked = config::check(&text, &Surroundings::of_process());
    checked.pipeline.unwrap_or_else(|| panic!("{}", checked.faults.render("p.yaml")))
}

const DEDUP: &str = "steps: [{ dedup: { key: [k], window: 8h } }]\n";
const WINDOW: &str =
    "steps: [{ window: { key: [k], size: 1m, lateness: 30s, aggregates: { n: 'count()', s: 'sum(v)' } } }]\n";

fn known() -> Coefficients {
    Coefficients {
        from: "a test".to_owned(),
        step: None,
        read_from: KAFKA,
        record_bytes: 200.0,
        records_per_cpu_s: 1e6,
        clickhouse_cpu_s_a_row: 1e-6,
        bytes_a_key: None,
    }
}

fn load(rate: f64) -> Load {
    Load { rate, keys: None, days: 30.0, record_bytes: None }
}

fn line(lines: &[Line], key: &str) -> Line {
    lines.iter().find(|line| line.key == key).unwrap_or_else(|| panic!("no {key} in {lines:?}")).clone()
}

#[test]
fn twice_the_load_takes_twice_the_cores_and_twice_the_bytes_as_well() {
    let pipeline = of("", "s3://bucket/p");
    let cores = |load| line(&lines(&pipeline, load, &known(), &Prices::default()), "forebay_cores").value;
    assert!((cores(load(1e6)) - 1.0 / BUSY).abs() < 1e-9);
    assert!((cores(load(2e6)) - 2.0 / BUSY).abs() < 1e-9);
    let long = Load { record_bytes: Some(400.0), ..load(1e6) };
    assert!((cores(long) - 2.0 / BUSY).abs() < 1e-9);
    let short = Load { record_bytes: Some(20.0), ..load(1e6) };
    assert!((cores(short) - 1.0 / BUSY).abs() < 1e-9, "a short record is taken to cost as much");
}

#[test]
fn a_window_writes_a_row_for_each_key_and_says_when_it_does_not_fit() {
    let pipeline = of(WINDOW, "./data");
    let of_keys = |keys| {
        let load = Load { keys: Some(keys), ..load(1e6) };
        lines(&pipeline, load, &known(), &Prices::default())
    };
    assert!((line(&of_keys(60e3), "rows_per_s").value - 1e3).abs() < 1e-9);
    // One that fills, one that waits for late records.
    let state = line(&of_keys(60e3), "state_bytes");
    // A key of 4 to 8 bytes, 19 of its own, and 8 for the sum of a Float.
    assert!((state.value - 2.0 * 60e3 * 35.0 / 1e6).abs() < 1e-9, "{state:?}");
    assert!(state.because.ends_with("which fits"), "{state:?}");
    let lines = of_keys(100e6);
    assert!(line(&lines, "state_bytes").because.contains("spilled to files"), "{lines:?}");
    let room = line(&lines, "store_bytes");
    assert!(room.value > 190e6 * 35.0 / 1e9, "{room:?}");
}

fn state_of(pipeline: &Pipeline, keys: Option<f64>) -> Line {
    line(&lines(pipeline, Load { keys, ..load(1e5) }, &known(), &Prices::default()), "state_bytes")
}

#[test]
fn windows_that_are_in_memory_alone_say_when_they_do_not_fit() {
    let step = |settings: &str| {
        let text =
            format!("steps: [{{ window: {{ key: [k], {settings}, aggregates: {{ n: 'count()' }} }} }}]\n");
        state_of(&of(&text, "./data"), Some(100e6)).because
    };
    let emits = step("size: 5m, emit: { early: 10s, version: version, sign: sign }");
    assert!(emits.contains("MORE than the step's `memory`"), "{emits}");
    for settings in ["size: 1h, slide: 1m", "gap: 1m", "size: 5m, emit: { early: 10s, version: version }"] {
        assert!(step(settings).contains("spilled to files"), "{settings}");
    }
}

#[test]
fn cumulative_windows_keep_each_key_once() {
    let step = "steps: [{ window: { key: [k], size: 1d, step: 1h, aggregates: { n: 'count()' } } }]\n";
    let state = state_of(&of(step, "./data"), Some(1e6));
    assert!((state.value - 27.0).abs() < 1e-9, "{state:?}");
}

#[test]
fn a_temporal_join_keeps_a_version_of_each_key_for_ever() {
    let text = "pipeline: p\nstore: ./data\ninputs:\n  a: { kafka: { brokers: 'b:9092', topic: a }, fields: { k: UInt32 } }\n  \
                b: { kafka: { brokers: 'b:9092', topic: b }, fields: { k: UInt32, v: Float64 } }\n\
                steps: [{ join: { left: a, right: b, on: [k], as_of: a } }]\n\
                sink: { clickhouse: { url: 'http://c:8123', table: t } }\n";
    let checked = config::check(text, &Surroundings::of_process());
    let pipeline = checked.pipeline.unwrap_or_else(|| panic!("{}", checked.faults.render("p.yaml")));
    let state = state_of(&pipeline, Some(1e6));
    assert!((state.value - 153.0).abs() < 1e-9 && state.because.contains("for ever"), "{state:?}");
    // Of a few times as many keys the versions are in files, and of too many their index does not fit.
    let state = state_of(&pipeline, Some(10e6));
    assert!(state.because.contains("spilled to files, with 33 MB of memory for their index"), "{state:?}");
    let lines_of = lines(&pipeline, Load { keys: Some(10e6), ..load(1e5) }, &known(), &Prices::default());
    let spool = pipeline.spool.bytes.bytes as f64 / 1e9;
    let in_files = line(&lines_of, "store_bytes").value - spool;
    assert!((in_files - (10e6 - 268_435_456.0 / 153.0) * 138.0 / 1e9).abs() < 1e-6, "{in_files}");
    // Without the number of keys each version is of a key of its own.
    let state = state_of(&pipeline, None);
    assert!(state.because.contains("MORE than the step's `memory`"), "{state:?}");
}

#[test]
fn keys_beyond_the_steps_memory_are_files_in_the_store() {
    let lines = lines(&of(DEDUP, "./data"), load(1e6), &known(), &Prices::default());
    let state = line(&lines, "state_bytes");
    assert!((state.value - 8.0 * 3_600.0 * 1e6 * 24.0 / 1e6).abs() < 1e-3, "{state:?}");
    assert!(state.because.contains("spilled to files"), "{state:?}");
    let room = line(&lines, "store_bytes");
    assert!(room.value > 8.0 * 3_600.0 * 1e6 * 16.0 / 1e9, "{room:?}");
}

#[test]
fn rows_of_an_interval_join_are_files_as_far_as_their_index_fits() {
    let of_interval = |within: &str| {
        let text = format!(
            "pipeline: p\nstore: ./data\ninputs:\n  a: {{ kafka: {{ brokers: 'b:9092', topic: a }}, fields: {{ k: UInt32 }} }}\n  \
             b: {{ kafka: {{ brokers: 'b:9092', topic: b }}, fields: {{ k: UInt32, v: Float64 }} }}\n\
             steps: [{{ join: {{ left: a, right: b, on: [k], within: {within} }} }}]\n\
             sink: {{ clickhouse: {{ url: 'http://c:8123', table: t }} }}\n"
        );
        let checked = config::check(&text, &Surroundings::of_process());
        let pipeline = checked.pipeline.unwrap_or_else(|| panic!("{}", checked.faults.render("p.yaml")));
        state_of(&pipeline, None).because
    };
    // A hundred thousand records a second, of which each waits for as long as the interval.
    assert!(of_interval("1s").ends_with("which fits"), "{}", of_interval("1s"));
    assert!(of_interval("2m").contains("spilled to files"), "{}", of_interval("2m"));
    assert!(of_interval("1h").contains("MORE than the step's `memory`"), "{}", of_interval("1h"));
}

#[test]
fn requests_cost_money_on_object_storage_alone() {
    let prices = Prices { core_hour: 0.0, gigabyte_month: 0.0, ..Prices::default() };
    let cost = |store| line(&lines(&of("", store), load(1e3), &known(), &prices), "cost").value;
    assert_eq!(cost("./data"), 0.0);
    // A seal a second: 2 puts and 3 gets, for 30 days.
    let expected = 30.0 * 86_400.0 * (2.0 * 0.005 + 3.0 * 0.0004) / 1e3;
    assert!((cost("s3://bucket/p") - expected).abs() < 1e-6, "{}", cost("s3://bucket/p"));
}

#[test]
fn each_table_has_inserts_and_requests_of_its_own() {
    let text = "pipeline: p\nstore: 's3://bucket/p'\nsource:\n  kafka: { brokers: 'b:9092', topic: t }\n  fields: { k: UInt32, v: Float64 }\n\
                sink: { clickhouse: { url: 'http://c:8123' } }\nsinks:\n  - clickhouse: { table: a }\n  - clickhouse: { table: b }\n  - clickhouse: { table: c }\n";
    let checked = config::check(text, &Surroundings::of_process());
    let pipeline = checked.pipeline.unwrap_or_else(|| panic!("{}", checked.faults.render("p.yaml")));
    let lines = lines(&pipeline, load(1e3), &known(), &Prices::default());
    // A seal of 2 puts and a get, and of each table 2 gets.
    assert_eq!(line(&lines, "store_requests_per_s").value, 9.0);
    assert_eq!(line(&lines, "parts_per_s").value, 3.0);
}

#[test]
fn more_than_a_process_can_do_in_order_is_several_processes() {
    let processes =
        |rate| line(&lines(&of("", "./data"), load(rate), &known(), &Prices::default()), "pipelines").value;
    assert_eq!(processes(1e6), 1.0);
    assert_eq!(processes(20e6), 4.0);
}

/// What is neither of the file nor measured is called so.
#[test]
fn a_figure_that_is_not_of_the_report_says_where_it_is_from() {
    let mut of_report = report();
    let because = |known: &Coefficients, key| {
        line(&lines(&of(DEDUP, "./data"), load(1e6), known, &Prices::default()), key).because
    };
    let known = Coefficients::of_report(&of_report, "r.json").expect("a report");
    assert!(
        because(&known, "forebay_cores").contains("2000000 a CPU-second (r.json, JSON events with `dedup`)")
    );
    assert!(because(&known, "state_bytes").contains("(measured by the report)"));
    of_report["summary"].as_object_mut().expect("an object").remove("state_bytes_per_key");
    let known = Coefficients::of_report(&of_report, "r.json").expect("a report");
    assert!(because(&known, "state_bytes").contains("(docs/design/state.md)"));
    for (key, said) in [
        ("forebay_cores", "busy to 70 % (assumed)"),
        ("pipelines", "docs/capacity.md; assumed for this pipeline"),
        ("memory_bytes", "a fifth (assumed)"),
        ("store_bytes_per_s", "of the records' bytes (assumed)"),
        ("store_requests_per_s", "(docs/stores.md)"),
        ("clickhouse_cores", "0.57 µs (assumed)"),
        ("partitions", "a partition (assumed)"),
        ("cost", "(list prices)"),
    ] {
        assert!(because(&known, key).contains(said), "{key}: {}", because(&known, key));
    }
}

/// A window reads a million records a second and lets a thousand rows out.
#[test]
fn rows_of_the_tables_fill_a_batch_and_records_do_not() {
    let seals = |steps| {
        let load = Load { keys: Some(60e3), record_bytes: Some(10.0), ..load(1e6) };
        line(&lines(&of(steps, "./data"), load, &known(), &Prices::default()), "store_requests_per_s").because
    };
    assert!(seals("").starts_with("2.0 seals a second (by `batch.rows`)"), "{}", seals(""));
    assert!(seals(WINDOW).starts_with("1.0 seals a second (by `batch.age`)"), "{}", seals(WINDOW));
}

#[test]
fn steps_whose_cost_was_not_measured_are_named() {
    let cores = |steps: &str, step| {
        let known = Coefficients { step, ..known() };
        line(&lines(&of(steps, "./data"), load(1e6), &known, &Prices::default()), "forebay_cores").because
    };
    let added = "nothing is added for `window` (assumed)";
    assert!(cores(WINDOW, Some(Kind::Dedup)).contains(added), "{}", cores(WINDOW, Some(Kind::Dedup)));
    assert!(!cores(WINDOW, Some(Kind::Window)).contains("nothing is added"));
    let both = "steps: [{ filter: v > 0 }, { dedup: { key: [k], window: 8h } }, { dedup: { key: [k], window: 1m } }]\n";
    let said = cores(both, Some(Kind::Dedup));
    assert!(said.contains("nothing is added for `dedup` and `filter` (assumed)"), "of the second: {said}");
    assert!(!cores("", None).contains("nothing is added"));
}

fn report() -> Value {
    json!({
        "setting": { "workload": "glassflow", "record_bytes": 200 }, "right": true,
        "summary": {
            "records_per_cpu_s": { "median": 2e6 }, "clickhouse_cpu_s": { "median": 4.0 },
            "state_bytes_per_key": { "median": 23.5 },
        },
        "runs": [{ "verdict": { "checks": [{ "what": "rows in the table", "expected": 2_000_000, "found": 2_000_000 }] } }],
    })
}

#[test]
fn coefficients_are_those_of_a_report() {
    let known = Coefficients::of_report(&report(), "r.json").expect("a report");
    assert_eq!((known.records_per_cpu_s, known.clickhouse_cpu_s_a_row), (2e6, 2e-6));
    assert_eq!((known.bytes_a_key(Kind::Dedup), known.measured_bytes_a_key(Kind::Window)), (23.5, None));
}

#[test]
fn a_source_that_was_not_measured_is_named() {
    let cores = |pipeline: &Pipeline, known: &Coefficients| {
        line(&lines(pipeline, load(1e6), known, &Prices::default()), "forebay_cores").because
    };
    let text = "pipeline: p\nstore: ./data\nsource:\n  pulsar: { service: 'pulsar://p:6650', topic: t }\n  fields: { k: UInt32, v: Float64 }\n\
                sink: { clickhouse: { url: 'http://c:8123', table: t } }\n";
    let pulsar = config::check(text, &Surroundings::of_process()).pipeline.expect("a pipeline");
    let said = cores(&pulsar, &known());
    assert!(said.contains("records of Pulsar are taken to cost what those of Kafka did"), "{said}");
    assert!(said.contains("forebay bench flink --pulsar"), "{said}");
    assert!(!cores(&of("", "./data"), &known()).contains("taken to cost"));

    let mut of_pulsar = report();
    of_pulsar["setting"]["pulsar"] = json!(true);
    let known = Coefficients::of_report(&of_pulsar, "r.json").expect("a report");
    assert!(!cores(&pulsar, &known).contains("taken to cost"));
    assert!(
        cores(&of("", "./data"), &known)
            .contains("records of Kafka are taken to cost what those of Pulsar did")
    );
}

#[test]
fn records_that_the_engine_made_are_not_taken_for_those_of_a_topic() {
    let mut of_generator = report();
    of_generator["setting"]["source"] = json!("a generator inside the engine");
    let known = Coefficients::of_report(&of_generator, "r.json").expect("a report");
    let said =
        line(&lines(&of("", "./data"), load(1e6), &known, &Prices::default()), "forebay_cores").because;
    assert!(said.contains("records of Kafka are taken to cost what those of a generator did"), "{said}");
    of_generator["setting"]["source"] = json!("Kafka, 3 partitions, batches packed by `none`");
    assert_eq!(Coefficients::of_report(&of_generator, "r.json").expect("a report").read_from, KAFKA);
}

#[test]
fn what_a_report_was_made_of_stands_beside_its_figures() {
    let from = |change: fn(&mut Value)| {
        let mut report = report();
        change(&mut report["setting"]);
        Coefficients::of_report(&report, "r.json").expect("a report").from
    };
    assert_eq!(from(|of| of["build"] = json!("release")), "r.json, JSON events with `dedup`");
    assert_eq!(from(|of| of["within_s"] = json!(60.0)), "r.json, joined events");
    assert_eq!(from(|of| of["workload"] = json!("flink")), "r.json, Avro readings in windows");
    assert!(from(|of| of["build"] = json!("development")).ends_with(", of a development build"));
    assert!(from(|of| of["rate"] = json!(50_000)).ends_with(", under a load"));
    assert!(from(|of| of["loads"] = json!([0.5])).ends_with(", under a load"));
    assert!(!from(|of| of["loads"] = json!([])).contains("load"));
}

#[test]
fn what_is_no_report_or_a_wrong_one_is_refused_with_the_reason() {
    let refused = |change: fn(&mut Value)| {
        let mut report = report();
        change(&mut report);
        Coefficients::of_report(&report, "r.json").expect_err("refused")
    };
    assert!(refused(|report| report["right"] = json!(false)).contains("all right"));
    assert!(refused(|report| report["setting"]["workload"] = json!("clients")).contains("`clients`"));
    assert!(refused(|report| report["setting"]["record_bytes"] = json!(null)).contains("`record_bytes`"));
    assert!(refused(|report| report["summary"] = json!({})).contains("`records_per_cpu_s`"));
    assert!(refused(|report| report["runs"] = json!([])).contains("how many rows"));
}
