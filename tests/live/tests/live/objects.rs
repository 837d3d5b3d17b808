//! Columns of type JSON: objects of records and of steps, and the attributes of OTLP in the tables that the collector's exporter makes with `json: true`.
//!
//! What is expected of OTLP is what Python's classes of the protocol read (`otlp_objects.py`), for the same corpus as in [`super::otlp`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use live::{Case, Table};
use serde_json::{Value, json};

use super::otlp::{Request, compare, into, requests, send, tables};

/// An object, a text that holds one, or a list of these, as the values by their paths: ClickHouse keeps nothing of a null and of an empty object, and
/// nests what has a dot in its key. Numbers in arrays have one type there, so they are compared as floats.
pub(super) fn by_path(of: &Value) -> Value {
    match of {
        Value::String(text) => by_path(&serde_json::from_str(text).expect("the server writes JSON")),
        Value::Array(items) => items.iter().map(by_path).collect(),
        Value::Object(_) => {
            let mut paths = BTreeMap::new();
            add(None, of, &mut paths);
            Value::Object(paths.into_iter().collect())
        }
        other => panic!("`{other}` is no object"),
    }
}

fn add(prefix: Option<&str>, of: &Value, paths: &mut BTreeMap<String, Value>) {
    for (key, value) in of.as_object().expect("an object") {
        let path = prefix.map_or(key.clone(), |prefix| format!("{prefix}.{key}"));
        match value {
            Value::Object(_) => add(Some(&path), value, paths),
            Value::Null => {}
            value => drop(paths.insert(path, plain(value, false))),
        }
    }
}

fn plain(value: &Value, is_item: bool) -> Value {
    match value {
        Value::Array(items) => items.iter().map(|item| plain(item, true)).collect(),
        Value::Object(_) => by_path(value),
        // Beside arrays the server makes an empty one of a null.
        Value::Null if is_item => json!([]),
        Value::Number(number) if is_item => json!(format!("{:e}", number.as_f64().expect("a number"))),
        // A whole float has no point in the server's text.
        Value::Number(number) if number.is_f64() => match number.as_f64().expect("a float") {
            whole if whole.fract() == 0.0 && whole.abs() < 1e15 => json!(whole as i64),
            other => json!(format!("{other:e}")),
        },
        other => other.clone(),
    }
}

/// Puts the attributes as objects, and their paths, into the rows of the corpus; leaves out those that a column of the table cannot hold, and counts them.
fn with_objects(
    signal: &str,
    requests: Vec<Request>,
    is_column: impl Fn(&str) -> bool,
) -> (Vec<Request>, usize) {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let corpus = here.join("../../crates/formats/src/otlp/tests/corpus.jsonl");
    let lines = std::fs::read_to_string(&corpus).expect("the corpus");
    let python =
        std::env::var_os("FOREBAY_PYTHON").expect("the ladder names a Python with the protocol's classes");
    let output = Command::new(python).arg(here.join("tests/live/otlp_objects.py")).arg(&corpus).output();
    let output = output.expect("Python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = String::from_utf8(output.stdout).expect("text");
    let of_signal = lines.lines().zip(output.lines()).filter(|(line, _)| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        line["signal"] == signal && line["time_ms"].as_i64() > Some(0)
    });
    let objects: Vec<Vec<Value>> =
        of_signal.map(|(_, rows)| serde_json::from_str(rows).expect("a list of rows")).collect();
    assert_eq!(objects.len(), requests.len());
    let mut lost = 0;
    let mut with = |(mut request, objects): (Request, Vec<Value>)| {
        assert_eq!(request.rows.len(), objects.len());
        let rows = request.rows.into_iter().zip(objects);
        let mut fit = |(_, of): &(Value, Value)| {
            let twice = of["twice"].as_array().expect("a list");
            let fits = !twice.iter().any(|name| is_column(name.as_str().expect("a name")));
            lost += usize::from(!fits);
            fits
        };
        let filled = |(mut row, of): (Value, Value)| {
            for group in ["objects", "keys"] {
                for (name, value) in of[group].as_object().expect("an object") {
                    row[name] = value.clone();
                }
            }
            row
        };
        request.rows = rows.filter(&mut fit).map(filled).collect();
        request
    };
    let filled = requests.into_iter().zip(objects).map(&mut with).collect();
    (filled, lost)
}

#[test]
fn attributes_of_logs_are_objects_with_their_types() {
    let Some(case) = Case::begin("objects_logs") else { return };
    let database = tables(&case, &["logs", "--json"]);
    let corpus = requests("logs");
    send(&case.feed(), &corpus);
    let (corpus, lost) = with_objects("logs", corpus, |_| true);
    let pipeline = into(&case, "otlp_logs", "otel_logs");
    pipeline.check(&["--connect"]);
    pipeline.drain();
    let rows: Vec<Value> = corpus.into_iter().flat_map(|request| request.rows).collect();
    assert!(rows.len() > 20 && lost > 0, "{} {lost}", rows.len());
    compare(&database, &case, "otel_logs", &rows);
    let records = &pipeline.status()["records"];
    assert_eq!((&records["written"], &records["dead_letters"]), (&json!(rows.len()), &json!(lost)));
    let letters = Table::at(&case.server().url(), "objects_logs_rejected");
    let told = letters.value("SELECT countIf(message LIKE '%twice in one object%' OR message LIKE '%two values at the path%') FROM {t}");
    assert_eq!(told, lost.to_string());
    // A path is read as the exporter's own queries read it.
    let by_path = "SELECT groupUniqArray(ResourceAttributes.service.name.:String) FROM {t}.otel_logs WHERE ServiceName = 'checkout'";
    assert_eq!(database.value(by_path), "['checkout']");
}

#[test]
fn attributes_of_spans_their_events_and_links_are_objects() {
    let Some(case) = Case::begin("objects_traces") else { return };
    let database = tables(&case, &["traces", "--json"]);
    let corpus = requests("traces");
    send(&case.feed(), &corpus);
    // The exporter's table has no column for the attributes of a scope.
    let (corpus, lost) = with_objects("traces", corpus, |name| name != "ScopeAttributes");
    let pipeline = into(&case, "otlp_traces", "otel_traces");
    pipeline.drain();
    let rows: Vec<Value> = corpus.into_iter().flat_map(|request| request.rows).collect();
    compare(&database, &case, "otel_traces", &rows);
    let records = &pipeline.status()["records"];
    assert_eq!((&records["written"], &records["dead_letters"]), (&json!(rows.len()), &json!(lost)));
}

#[test]
fn attributes_of_points_of_all_five_kinds_are_objects() {
    let Some(case) = Case::begin("objects_metrics") else { return };
    let database = tables(&case, &["metrics", "--json"]);
    let corpus = requests("metrics");
    send(&case.feed(), &corpus);
    let (corpus, lost) = with_objects("metrics", corpus, |_| true);
    let kinds = ["gauge", "sum", "histogram", "exponential_histogram", "summary"];
    let pipeline = kinds.iter().fold(
        case.pipeline().format("otlp_metrics").field("MetricType: String").batch("{ age: 100ms }"),
        |pipeline, kind| {
            let table = format!("database: {}, table: otel_metrics_{kind}", case.name());
            pipeline.one_of(&format!("{{ clickhouse: {{ {table} }}, where: MetricType = '{kind}' }}"))
        },
    );
    pipeline.drain();
    let rows: Vec<Value> = corpus.into_iter().flat_map(|request| request.rows).collect();
    for kind in kinds {
        let of_kind: Vec<Value> = rows.iter().filter(|row| row["MetricType"] == kind).cloned().collect();
        assert!(!of_kind.is_empty(), "no {kind} in the corpus");
        compare(&database, &case, &format!("otel_metrics_{kind}"), &of_kind);
    }
    let records = &pipeline.status()["records"];
    assert_eq!((&records["written"], &records["dead_letters"]), (&json!(rows.len()), &json!(lost)));
}

#[test]
fn an_object_is_stored_whole_and_one_that_does_not_fit_costs_no_neighbour() {
    const RECORDS: u64 = 3_000;
    let Some(case) = Case::begin("objects") else { return };
    let columns = "id UInt64, payload JSON(n UInt8, max_dynamic_paths=8, SKIP secret), built JSON, labels Nullable(JSON), user LowCardinality(String)";
    let table = case.table(columns, "id");
    let feed = case.feed();
    let good = |id: u64| {
        format!(
            r#"{{"id":{id},"event":{{"n":{},"secret":"x", "when":"2024-02-30","user":{{"name":"u{}","tags":[true,1,"a"]}},"big":18446744073709551615}}}}"#,
            id % 256,
            id % 7
        )
    };
    for id in 0..RECORDS {
        feed.push((id % 3) as u32, good(id).as_bytes());
    }
    // What is known before: no object, a key twice, two values at a path, a number without a type. What the server alone knows: a path's type.
    let bad = [
        (r#"{"id":900001,"event":[1]}"#, "wrong_kind"),
        (r#"{"id":900002,"event":"{}"}"#, "wrong_kind"),
        (r#"{"id":900003,"event":{"a":1,"a":2}}"#, "out_of_range"),
        (r#"{"id":900004,"event":{"a.b":1,"a":{"b":2}}}"#, "out_of_range"),
        (r#"{"id":900005,"event":{"a":18446744073709551616}}"#, "out_of_range"),
        (r#"{"id":900006,"event":{"n":300}}"#, "refused"),
        (r#"{"id":900007,"event":{"n":"many"}}"#, "refused"),
        // The step's text is no object.
        (r#"{"id":900008,"event":{"n":8},"raw":"[8]"}"#, "out_of_range"),
    ];
    for (n, (record, _)) in (0..).zip(&bad) {
        feed.push(n % 3, record.as_bytes());
    }
    feed.push(
        0,
        br#"{"id":900009,"event":{"n":9},"labels":{"k":null,"l":{}},"raw":"{\"from\": \"a step\"}"}"#,
    );
    feed.flush();
    let pipeline = case
        .pipeline()
        .field("event: JSON")
        .field("raw: Nullable(String)")
        .step(
            "sql: >-\n      SELECT id, event AS payload, coalesce(raw, '{\"id\":' || CAST(id AS String) || '}') AS built, labels, \
             coalesce(json_get_string(event, 'user', 'name'), '') AS user FROM input",
        )
        .dedup("id", None)
        .batch("{ rows: 1000, age: 100ms }");
    pipeline.check(&["--connect"]);
    pipeline.drain();

    assert_eq!(table.value("SELECT (count(), uniqExact(id)) FROM {t}"), format!("({0},{0})", RECORDS + 1));
    let wrong = table.value(
        "SELECT countIf(payload.n != id % 256 OR payload.when.:String != '2024-02-30' OR payload.user.name.:String != user \
         OR user != concat('u', toString(id % 7)) OR toString(payload.user.tags) != '[true,1,\\'a\\']' OR payload.big.:UInt64 != 18446744073709551615 \
         OR has(JSONAllPaths(payload), 'secret') OR toUInt64(built.id) != id OR labels IS NOT NULL) FROM {t} WHERE id < 900000",
    );
    assert_eq!(
        wrong,
        "0",
        "{}",
        table.ask("SELECT payload, built, labels, user, toString(payload.user.tags) FROM {t} LIMIT 3")
    );
    let special = table.rows("SELECT toString(payload) AS p, toString(built) AS b, toString(labels) AS l FROM {t} WHERE id = 900009");
    assert_eq!(special, [json!({ "p": "{\"n\":9}", "b": "{\"from\":\"a step\"}", "l": "{}" })]);

    let letters = Table::at(&case.server().url(), "objects_rejected");
    let letters = letters.rows("SELECT reason, column, raw, message FROM {t} ORDER BY raw");
    assert_eq!(letters.len(), bad.len(), "{letters:#?}");
    for (letter, (record, reason)) in letters.iter().zip(&bad) {
        assert_eq!((&letter["raw"], &letter["reason"]), (&json!(record), &json!(reason)), "{letter:#}");
        let column = match *reason {
            "refused" => "",
            _ if record.contains("raw") => "built",
            _ => "event",
        };
        assert!(*reason == "refused" || letter["column"] == column, "{letter:#}");
    }
    // What stands in such a column has no text to compare by, and is named.
    let report = pipeline.tool(&["verify"], &["--values", "--json"], 0);
    let values = json!({ "compared": ["user"], "left_out": ["payload", "built", "labels"] });
    assert_eq!(report["values"], values, "{report:#}");
}
