//! Requests of OTLP from topics, as the collector's Kafka exporter writes them, into the tables of its ClickHouse exporter.
//!
//! The requests and their rows are the corpus of the format's own tests, whose rows Python's classes of the protocol have read; here what the
//! server has in its tables is compared with them, as multisets of rows.

use std::process::Command;

use live::{Case, Feed, Pipeline, Table};
use serde_json::{Value, json};
use sources::kafka::produce::Outgoing;

use super::objects;

const CORPUS: &str = include_str!("../../../../crates/formats/src/otlp/tests/corpus.jsonl");

/// A request and its rows.
pub(super) struct Request {
    bytes: Vec<u8>,
    time_ms: i64,
    pub(super) rows: Vec<Value>,
}

/// The requests of a signal whose records have a time: a broker gives a record without one its own.
pub(super) fn requests(signal: &str) -> Vec<Request> {
    let lines = CORPUS.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line is JSON"));
    let of_signal = lines.filter(|line| line["signal"] == signal && line["time_ms"].as_i64() > Some(0));
    let request = |line: Value| {
        let hex = line["request"].as_str().expect("a request");
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
        Request {
            bytes: (0..hex.len()).step_by(2).map(byte).collect(),
            time_ms: line["time_ms"].as_i64().expect("a time"),
            rows: line["rows"].as_array().expect("rows").clone(),
        }
    };
    of_signal.map(request).collect()
}

pub(super) fn send(feed: &Feed, requests: &[Request]) {
    for (n, request) in (0..).zip(requests) {
        feed.put(&Outgoing {
            partition: Some(n % 3),
            payload: Some(&request.bytes),
            time_ms: Some(request.time_ms),
            ..Outgoing::default()
        });
    }
    feed.flush();
}

/// Makes the tables of a signal in a database of the case's name, by the statements of the program.
pub fn tables(case: &Case, args: &[&str]) -> Table {
    let database = Table::at(&case.server().url(), case.name());
    database.ask("CREATE DATABASE {t}");
    make(&database, case, args);
    database
}

/// Runs the statements of the program in the case's database.
fn make(database: &Table, case: &Case, args: &[&str]) {
    let mut command = Command::new(live::case::binary().expect("the program was built"));
    let output = command.arg("otel-tables").args(args).args(["--database", case.name()]).output();
    let statements =
        String::from_utf8(output.expect("the program runs").stdout).expect("statements are text");
    for statement in statements.split(';').filter(|statement| !statement.trim().is_empty()) {
        database.ask(statement);
    }
}

/// What a column looks like in the corpus.
fn shown(name: &str, kind: &str) -> String {
    let bits = |value: &str| format!("leftPad(lower(hex(reinterpretAsUInt64({value}))), 16, '0')");
    let pairs = |value: &str| format!("CAST({value}, 'Array(Tuple(String, String))')");
    let column = format!("`{name}`");
    let form = match kind {
        "DateTime64(9)" => format!("toUnixTimestamp64Nano({column})"),
        "Array(DateTime64(9))" => format!("arrayMap(x -> toUnixTimestamp64Nano(x), {column})"),
        "Float64" => bits(&column),
        "Array(Float64)" => format!("arrayMap(x -> {}, {column})", bits("x")),
        "Map(LowCardinality(String), String)" => pairs(&column),
        "Array(Map(LowCardinality(String), String))" => format!("arrayMap(x -> {}, {column})", pairs("x")),
        "JSON" => format!("toString({column})"),
        "Array(JSON)" => format!("arrayMap(x -> toString(x), {column})"),
        _ => column.clone(),
    };
    format!("{form} AS `shown {name}`")
}

/// The rows of a table in the form of the corpus, and those expected, with the columns that the table has; both sorted.
pub fn compare(database: &Table, case: &Case, table: &str, expected: &[Value]) {
    let columns = database.rows(&format!(
        "SELECT name, type FROM system.columns WHERE database = '{}' AND table = '{table}' AND default_kind = '' AND name != '_forebay' \
         ORDER BY position",
        case.name()
    ));
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let columns: Vec<(String, String)> =
        columns.iter().map(|column| (text(&column["name"]), text(&column["type"]))).collect();
    assert!(columns.len() > 10, "{columns:?}");
    let items: Vec<String> = columns.iter().map(|(name, kind)| shown(name, kind)).collect();
    // Quoted, numbers of 64 bits would be texts in the text of an object.
    let rows = database.rows_plain(&format!("SELECT {} FROM {{t}}.`{table}`", items.join(", ")));
    // A NULL that no column takes is 0.
    let plain = |value: &Value| match value {
        Value::Null => json!("0".repeat(16)),
        Value::Number(number) => json!(number.to_string()),
        other => other.clone(),
    };
    fn deep(value: &Value, plain: &dyn Fn(&Value) -> Value) -> Value {
        match value {
            Value::Array(items) => items.iter().map(|item| deep(item, plain)).collect(),
            other => plain(other),
        }
    }
    let sorted = |rows: &[Value], prefix: &str| {
        let row = |row: &Value| {
            let cells = columns.iter().map(|(name, kind)| {
                let cell = &row[format!("{prefix}{name}")];
                let is_object = kind == "JSON" || kind == "Array(JSON)";
                (name.clone(), if is_object { objects::by_path(cell) } else { deep(cell, &plain) })
            });
            Value::Object(cells.collect()).to_string()
        };
        let mut rows: Vec<String> = rows.iter().map(row).collect();
        rows.sort();
        rows
    };
    let (found, expected) = (sorted(&rows, "shown "), sorted(expected, ""));
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
}

#[test]
fn logs_of_a_topic_fill_the_exporters_table_and_a_bad_row_is_a_dead_letter_alone() {
    let Some(case) = Case::begin("otlp_logs") else { return };
    let database = tables(&case, &["logs"]);
    let feed = case.feed();
    let requests = requests("logs");
    send(&feed, &requests);
    // Two logs of one resource, of which the first has a severity that no UInt8 holds; and bytes that are no request.
    let severe = b"\x10\xac\x02";
    let good = b"\x09\x01\x00\x00\x00\x00\x00\x00\x00\x10\x07";
    let request = |logs: &[&[u8]]| {
        let logs: Vec<u8> = logs.iter().flat_map(|log| field(2, log)).collect();
        field(1, &field(2, &logs))
    };
    feed.push(0, &request(&[severe, good]));
    feed.push(1, b"[1]");
    // The same good log, in the other encoding.
    feed.push(
        2,
        br#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":"1","severityNumber":7}]}]}]}"#,
    );
    feed.flush();
    let pipeline = into(&case, "otlp_logs", "otel_logs");
    pipeline.check(&["--connect"]);
    pipeline.drain();

    let mut rows: Vec<Value> = requests.iter().flat_map(|request| request.rows.clone()).collect();
    let count = rows.len() as u64;
    assert!(count > 20);
    let plain = json!({
        "Timestamp": 1, "TraceId": "", "SpanId": "", "TraceFlags": 0, "SeverityText": "", "SeverityNumber": 7, "ServiceName": "", "Body": "",
        "ResourceSchemaUrl": "", "ResourceAttributes": [], "ScopeSchemaUrl": "", "ScopeName": "", "ScopeVersion": "", "ScopeAttributes": [],
        "LogAttributes": [], "EventName": "",
    });
    rows.extend([plain.clone(), plain]);
    compare(&database, &case, "otel_logs", &rows);
    let letters = Table::at(&case.server().url(), "otlp_logs_rejected")
        .rows("SELECT reason, column, hex(raw) AS raw FROM {t} ORDER BY reason");
    let alone = hex(&request(&[severe]));
    assert_eq!(
        letters,
        [
            json!({ "reason": "malformed", "column": "", "raw": hex(b"[1]") }),
            json!({ "reason": "out_of_range", "column": "SeverityNumber", "raw": alone }),
        ]
    );
    // The same is seen before it runs, of the topic and of requests in files.
    let tried = pipeline.tool(&["try"], &["--json", "--sample", "1000"], 0);
    let outcomes = tried["records"].as_array().expect("a list");
    let of = |kind: &str| outcomes.iter().filter(|one| one["becomes"] == kind).count() as u64;
    assert_eq!((of("row"), of("dead_letter")), (count + 2, 2), "{tried:#}");
    let record = |name: &str, bytes: &[u8]| {
        let path = case.dir().join(name);
        std::fs::write(&path, bytes).expect("the case's folder can be written");
        pipeline.tool(&["try"], &["--json", "--records", &path.display().to_string()], 0)
    };
    let tried = record("request.pb", &request(&[severe, good]));
    assert_eq!(tried["records"][0]["column"], "SeverityNumber", "{tried:#}");
    let row = &tried["records"][1];
    assert_eq!(
        (&row["item"], &row["after"]["otel_logs"]["SeverityNumber"]),
        (&json!(1), &json!(7)),
        "{tried:#}"
    );
    let in_json =
        br#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"severityNumber":3},{"severityNumber":4}]}]}]}"#;
    let tried = record("requests.jsonl", &[in_json, &b"\n"[..], in_json].concat());
    assert_eq!(tried["records"].as_array().map(Vec::len), Some(4), "{tried:#}");
    // Each request with rows has passed, and its rows beyond the first are derived.
    let with_rows = requests.iter().filter(|request| !request.rows.is_empty()).count() as u64;
    let records = &pipeline.status()["records"];
    assert_eq!(records["read"], requests.len() as u64 + 3);
    assert_eq!(records["filtered"], requests.len() as u64 - with_rows);
    assert_eq!((&records["dead_letters"], &records["written"]), (&json!(2), &json!(count + 2)));
}

/// As earlier versions of the exporter made it, but for the indexes and with the memory for inserts that `check` asks for.
const EARLIER_LOGS: &str = "
CREATE TABLE {t}.otel_logs
(
    `Timestamp` DateTime64(9) CODEC(Delta(8), ZSTD(1)),
    `TimestampTime` DateTime DEFAULT toDateTime(Timestamp),
    `TraceId` String CODEC(ZSTD(1)),
    `SpanId` String CODEC(ZSTD(1)),
    `TraceFlags` UInt8,
    `SeverityText` LowCardinality(String) CODEC(ZSTD(1)),
    `SeverityNumber` UInt8,
    `ServiceName` LowCardinality(String) CODEC(ZSTD(1)),
    `Body` String CODEC(ZSTD(1)),
    `ResourceSchemaUrl` LowCardinality(String) CODEC(ZSTD(1)),
    `ResourceAttributes` Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    `ScopeSchemaUrl` LowCardinality(String) CODEC(ZSTD(1)),
    `ScopeName` String CODEC(ZSTD(1)),
    `ScopeVersion` LowCardinality(String) CODEC(ZSTD(1)),
    `ScopeAttributes` Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    `LogAttributes` Map(LowCardinality(String), String) CODEC(ZSTD(1))
)
ENGINE = MergeTree
PARTITION BY toDate(TimestampTime)
PRIMARY KEY (ServiceName, TimestampTime)
ORDER BY (ServiceName, TimestampTime, Timestamp)
SETTINGS non_replicated_deduplication_window = 10000";

/// It is divided and sorted by a column of whole seconds, whose DEFAULT is removed as `check` says.
#[test]
fn logs_fill_a_table_that_an_earlier_exporter_made() {
    let Some(case) = Case::begin("otlp_earlier_logs") else { return };
    let database = Table::at(&case.server().url(), case.name());
    database.ask("CREATE DATABASE {t}");
    database.ask(EARLIER_LOGS);
    let requests = requests("logs");
    send(&case.feed(), &requests);
    let pipeline = into(&case, "otlp_logs", "otel_logs");
    pipeline.tool_fails(&["check"], &["--connect"], 4, "MODIFY COLUMN `TimestampTime` REMOVE DEFAULT");
    database.ask("ALTER TABLE {t}.otel_logs MODIFY COLUMN `TimestampTime` REMOVE DEFAULT");
    pipeline.check(&["--connect"]);
    pipeline.drain();
    let other = "SELECT countIf(TimestampTime != toDateTime(Timestamp)) FROM {t}.otel_logs";
    assert_eq!(database.value(other), "0");
    let rows: Vec<Value> = requests.iter().flat_map(|request| request.rows.clone()).collect();
    // The corpus does not have that column.
    database
        .ask("CREATE TABLE {t}.seen ENGINE = Memory AS SELECT * EXCEPT (TimestampTime) FROM {t}.otel_logs");
    compare(&database, &case, "seen", &rows);
}

/// A field of a message of less than 128 bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
}

/// The pipeline from the case's topic to a table in its database.
pub(super) fn into(case: &Case, format: &str, table: &str) -> Pipeline {
    let sink = format!("{{ clickhouse: {{ database: {}, table: {table} }} }}", case.name());
    case.pipeline().format(format).one_of(&sink).batch("{ age: 100ms }")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

#[test]
fn spans_of_a_topic_fill_the_exporters_table_and_its_view() {
    let Some(case) = Case::begin("otlp_traces") else { return };
    let database = tables(&case, &["traces"]);
    spans(&case, &database);
    let ids = |from: &str| {
        database.value(&format!("SELECT uniqExact(TraceId) FROM {{t}}.{from} WHERE TraceId != ''"))
    };
    assert_eq!(ids("otel_traces_trace_id_ts"), ids("otel_traces"));
}

/// Sends the corpus's spans and compares the table with them; gives their rows.
fn spans(case: &Case, database: &Table) -> Vec<Value> {
    let requests = requests("traces");
    send(&case.feed(), &requests);
    into(case, "otlp_traces", "otel_traces").drain();
    let rows: Vec<Value> = requests.iter().flat_map(|request| request.rows.clone()).collect();
    compare(database, case, "otel_traces", &rows);
    rows
}

#[test]
fn points_of_all_five_kinds_fill_a_table_each() {
    let Some(case) = Case::begin("otlp_metrics") else { return };
    let database = tables(&case, &["metrics"]);
    points(&case, &database);
}

const KINDS: [&str; 5] = ["gauge", "sum", "histogram", "exponential_histogram", "summary"];

/// Sends the corpus's points and compares the tables with them; gives their rows.
fn points(case: &Case, database: &Table) -> Vec<Value> {
    let requests = requests("metrics");
    send(&case.feed(), &requests);
    let pipeline = KINDS.iter().fold(
        case.pipeline().format("otlp_metrics").field("MetricType: String").batch("{ age: 100ms }"),
        |pipeline, kind| {
            let table = format!("database: {}, table: otel_metrics_{kind}", case.name());
            pipeline.one_of(&format!("{{ clickhouse: {{ {table} }}, where: MetricType = '{kind}' }}"))
        },
    );
    pipeline.drain();
    let rows: Vec<Value> = requests.iter().flat_map(|request| request.rows.clone()).collect();
    for kind in KINDS {
        let of_kind: Vec<Value> = rows.iter().filter(|row| row["MetricType"] == kind).cloned().collect();
        assert!(!of_kind.is_empty(), "no {kind} in the corpus");
        compare(database, case, &format!("otel_metrics_{kind}"), &of_kind);
    }
    let records = &pipeline.status()["records"];
    assert_eq!((&records["written"], &records["dead_letters"]), (&json!(rows.len()), &json!(0)));
    rows
}

/// What the exporter's tables have no column for is in the columns that `--complete` adds, also where the exporter's tables are in use.
#[test]
fn complete_tables_hold_every_field_of_the_corpus() {
    let Some(case) = Case::begin("otlp_complete_logs") else { return };
    let database = tables(&case, &["logs"]);
    make(&database, &case, &["logs", "--complete", "--clickstack"]);
    let requests = requests("logs");
    send(&case.feed(), &requests);
    into(&case, "otlp_logs", "otel_logs").drain();
    let rows: Vec<Value> = requests.iter().flat_map(|request| request.rows.clone()).collect();
    compare(&database, &case, "otel_logs", &rows);
    has_columns(&database, &case, "otel_logs", &rows, &[]);
    // What earlier dashboards of ClickStack search by; the pipeline fills it as the server would.
    let other = "SELECT countIf(TimestampTime != toDateTime(Timestamp)) FROM {t}.otel_logs";
    assert_eq!(database.value(other), "0");
    let unnamed = "SELECT countIf(_forebay = toUUIDOrZero('')) FROM {t}.otel_logs";
    assert_eq!(database.value(unnamed), "0", "each row names its insert");

    let Some(case) = Case::begin("otlp_complete_traces") else { return };
    let database = tables(&case, &["traces"]);
    // As the exporter inserts: by names, before and after.
    let exporters = "INSERT INTO {t}.otel_traces (Timestamp, TraceId, `Events.Timestamp`, `Events.Name`, `Events.Attributes`, `Links.TraceId`, \
                     `Links.SpanId`, `Links.TraceState`, `Links.Attributes`) \
                     VALUES (1, 'exporter', [1, 2], ['a', 'b'], [map(), map()], ['l'], ['s'], [''], [map()])";
    database.ask(exporters);
    make(&database, &case, &["traces", "--complete"]);
    // Another row: the table remembers the first one's insert.
    database.ask(&exporters.replace("'exporter'", "'exporter again'"));
    let found = "SELECT `Events.DroppedAttrCount`, `Links.Flags`, ScopeSchemaUrl FROM {t}.otel_traces";
    assert_eq!(database.ask(found).trim_end_matches('\n'), "[0,0]\t[0]\t\n[0,0]\t[0]\t");
    database.ask("TRUNCATE TABLE {t}.otel_traces");
    // The flags of a span hold those of its trace.
    has_columns(&database, &case, "otel_traces", &spans(&case, &database), &["TraceFlags"]);

    let Some(case) = Case::begin("otlp_complete_metrics") else { return };
    let database = tables(&case, &["metrics", "--complete"]);
    let rows = points(&case, &database);
    for kind in KINDS {
        let of_kind: Vec<Value> = rows.iter().filter(|row| row["MetricType"] == kind).cloned().collect();
        has_columns(&database, &case, &format!("otel_metrics_{kind}"), &of_kind, &["MetricType"]);
    }
}

/// Every field that the rows have is a column, but for `others`, which say nothing that is not elsewhere.
#[track_caller]
fn has_columns(database: &Table, case: &Case, table: &str, rows: &[Value], others: &[&str]) {
    let columns = database.ask(&format!(
        "SELECT name FROM system.columns WHERE database = '{}' AND table = '{table}'",
        case.name()
    ));
    let columns: Vec<&str> = columns.lines().collect();
    for row in rows {
        for (field, value) in row.as_object().expect("a row") {
            // What another kind of metric has is the default here.
            let is_default =
                [json!(null), json!(0), json!(false), json!([]), json!(""), json!("0".repeat(16))];
            let has_none = is_default.contains(value) || others.contains(&field.as_str());
            assert!(
                has_none || columns.contains(&field.as_str()),
                "`{table}` has no `{field}`, which is {value}"
            );
        }
    }
}
