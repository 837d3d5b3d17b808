//! The table against ClickHouse's own engine. Needs the server's binary in `FOREBAY_SERVER_BIN`; skips loudly without it.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests run in real time and may panic")]

#[path = "../src/testing.rs"]
mod testing;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, Int32Builder, ListBuilder, MapBuilder, StringBuilder};
use arrow_array::*;
use bytes::Bytes;
use clickhouse::{ClickHouseTable, CreateTable, Fault, ServerConfig, TableConfig, Upsert};
use dataflow::{Attempt, Effect, Fit, FrameId, InsertError, Presence, Remedy, Selected, Table, TableFault};
use testing::{Fixed, RealTime};
use testkit::{ClickHouse, ClickHouseOptions, Fault as Trouble, FaultProxy, Lcg, Rule, seed};

fn start() -> Option<ClickHouse> {
    match std::env::var("FOREBAY_SERVER_BIN") {
        Ok(binary) => Some(ClickHouse::start(ClickHouseOptions::default().binary(binary)).unwrap()),
        Err(_) => {
            eprintln!("SKIPPED: FOREBAY_SERVER_BIN does not name the server's binary");
            None
        }
    }
}

macro_rules! server_or_skip {
    () => {
        match start() {
            Some(server) => server,
            None => return,
        }
    };
}

const WINDOW: &str = "SETTINGS non_replicated_deduplication_window = 100";

async fn open_with(server: &ClickHouse, config: TableConfig) -> Result<ClickHouseTable, Vec<Fault>> {
    ClickHouseTable::open(ServerConfig::new(server.url()), config, RealTime::shared()).await
}

async fn open(server: &ClickHouse, table: &str) -> ClickHouseTable {
    match open_with(server, TableConfig::new("default", table)).await {
        Ok(table) => table,
        Err(faults) => panic!("{faults:?}"),
    }
}

async fn send(table: &ClickHouseTable, token: &str, body: &Bytes) -> Result<(), InsertError> {
    static ATTEMPTS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let attempt = ATTEMPTS.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    let query_id = format!("forebay-live-{attempt}");
    table
        .insert(Attempt { token, query_id: &query_id, body: body.clone(), layout: None, gate: &Fixed(true) })
        .await
}

/// Encodes rows with the ids 1, 2, …
fn frames(table: &ClickHouseTable, rows: &[RecordBatch]) -> Vec<dataflow::Encoded> {
    let mut id = 0;
    let mut next = || {
        id += 1;
        FrameId(id)
    };
    let all: Vec<Selected> = rows.iter().cloned().map(Selected::all).collect();
    table.encode(&all, &mut next).unwrap()
}

fn batch(arrays: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(arrays.into_iter().map(|(n, a)| (n, a, true))).unwrap()
}

fn ints(values: impl IntoIterator<Item = i32>) -> ArrayRef {
    Arc::new(Int32Array::from_iter_values(values))
}

fn fixed<const N: usize>(values: [[u8; N]; 2]) -> ArrayRef {
    Arc::new(FixedSizeBinaryArray::try_from_iter(values.iter()).unwrap())
}

/// What the rules read of a sighting.
fn facts(seen: &dataflow::Sighting) -> tokens::Facts {
    tokens::Facts::of(seen).expect("the table was seen")
}

#[tokio::test]
async fn every_type_arrives_as_it_was() {
    let server = server_or_skip!();
    // Type, rows, and what the server shows for them, written by hand.
    let mut list = ListBuilder::new(Int32Builder::new());
    list.values().append_option(Some(-1));
    list.values().append_null();
    list.append(true);
    list.append(true);
    let mut words = ListBuilder::new(StringBuilder::new());
    words.values().append_value("x");
    words.values().append_value("y");
    words.append(true);
    words.append(true);
    let mut map = MapBuilder::new(None, StringBuilder::new(), BinaryBuilder::new());
    map.keys().append_value("b");
    map.values().append_value(b"1");
    map.keys().append_value("a");
    map.values().append_value(b"2");
    map.append(true).unwrap();
    map.append(true).unwrap();
    let mut objects = ListBuilder::new(StringBuilder::new());
    objects.values().append_value(r#"{"x":"it's"}"#);
    objects.values().append_value("{}");
    objects.append(true);
    objects.append(true);
    let decimal = |p, s, v: [i128; 2]| -> ArrayRef {
        Arc::new(Decimal128Array::from(v.to_vec()).with_precision_and_scale(p, s).unwrap())
    };
    let mut ip6 = [[0u8; 16]; 2];
    (ip6[0][0], ip6[0][1], ip6[0][15], ip6[1][15]) = (0x20, 0x01, 0x0f, 1);
    let uuid: [u8; 16] = std::array::from_fn(|i| i as u8 * 0x11);
    let cases: Vec<(&str, ArrayRef, [&str; 2])> = vec![
        ("Int8", Arc::new(Int8Array::from(vec![i8::MIN, 1])), ["-128", "1"]),
        ("Int16", Arc::new(Int16Array::from(vec![i16::MIN, 1])), ["-32768", "1"]),
        ("Int32", Arc::new(Int32Array::from(vec![i32::MIN, 1])), ["-2147483648", "1"]),
        ("Int64", Arc::new(Int64Array::from(vec![i64::MIN, 1])), ["-9223372036854775808", "1"]),
        ("UInt8", Arc::new(UInt8Array::from(vec![u8::MAX, 1])), ["255", "1"]),
        ("UInt16", Arc::new(UInt16Array::from(vec![u16::MAX, 1])), ["65535", "1"]),
        ("UInt32", Arc::new(UInt32Array::from(vec![u32::MAX, 1])), ["4294967295", "1"]),
        (
            "UInt64",
            Arc::new(UInt64Array::from(vec![u64::MAX, 9_007_199_254_740_993])),
            ["18446744073709551615", "9007199254740993"],
        ),
        ("Float32", Arc::new(Float32Array::from(vec![1.5, -0.25])), ["1.5", "-0.25"]),
        ("Float64", Arc::new(Float64Array::from(vec![1e100, -0.5])), ["1e100", "-0.5"]),
        ("Bool", Arc::new(BooleanArray::from(vec![true, false])), ["true", "false"]),
        ("String", Arc::new(StringArray::from(vec!["héé", ""])), ["héé", ""]),
        ("String", Arc::new(BinaryArray::from(vec![b"bytes".as_slice(), b"z"])), ["bytes", "z"]),
        ("FixedString(3)", fixed([*b"abc", *b"xyz"]), ["abc", "xyz"]),
        (
            "UUID",
            fixed([uuid, [0xff; 16]]),
            ["00112233-4455-6677-8899-aabbccddeeff", "ffffffff-ffff-ffff-ffff-ffffffffffff"],
        ),
        ("Date", Arc::new(Date32Array::from(vec![19_782, 65_535])), ["2024-02-29", "2149-06-06"]),
        ("Date32", Arc::new(Date32Array::from(vec![-1, 120_529])), ["1969-12-31", "2299-12-31"]),
        (
            "DateTime('UTC')",
            Arc::new(TimestampSecondArray::from(vec![0, 4_294_967_295])),
            ["1970-01-01 00:00:00", "2106-02-07 06:28:15"],
        ),
        (
            "DateTime('Europe/Berlin')",
            Arc::new(TimestampSecondArray::from(vec![0, 1_719_835_200])),
            ["1970-01-01 01:00:00", "2024-07-01 14:00:00"],
        ),
        (
            "DateTime64(0, 'UTC')",
            Arc::new(TimestampSecondArray::from(vec![-1, 1])),
            ["1969-12-31 23:59:59", "1970-01-01 00:00:01"],
        ),
        (
            "DateTime64(3, 'UTC')",
            Arc::new(TimestampMillisecondArray::from(vec![-1, 1_001])),
            ["1969-12-31 23:59:59.999", "1970-01-01 00:00:01.001"],
        ),
        (
            "DateTime64(5, 'UTC')",
            Arc::new(TimestampMicrosecondArray::from(vec![10, 1_000_010])),
            ["1970-01-01 00:00:00.00001", "1970-01-01 00:00:01.00001"],
        ),
        (
            "DateTime64(9, 'UTC')",
            Arc::new(TimestampNanosecondArray::from(vec![1, 1_000_000_001])),
            ["1970-01-01 00:00:00.000000001", "1970-01-01 00:00:01.000000001"],
        ),
        ("Decimal(9, 2)", decimal(9, 2, [-125, 999_999_999]), ["-1.25", "9999999.99"]),
        ("Decimal(18, 4)", decimal(18, 4, [-1, 999_999_999_999_999_999]), ["-0.0001", "99999999999999.9999"]),
        (
            "Decimal(38, 10)",
            decimal(38, 10, [-1, 99_999_999_999_999_999_999_999_999_999_999_999_999]),
            ["-0.0000000001", "9999999999999999999999999999.9999999999"],
        ),
        ("Enum8('a' = 1, 'it\\'s' = -2)", Arc::new(Int8Array::from(vec![-2, 1])), ["it\\'s", "a"]),
        ("Enum16('x' = -300, 'y' = 300)", Arc::new(Int16Array::from(vec![-300, 300])), ["x", "y"]),
        ("IPv4", Arc::new(UInt32Array::from(vec![0x0102_0304, u32::MAX])), ["1.2.3.4", "255.255.255.255"]),
        ("IPv6", fixed(ip6), ["2001::f", "::1"]),
        ("LowCardinality(String)", Arc::new(StringArray::from(vec!["l", "l"])), ["l", "l"]),
        (
            "LowCardinality(Nullable(String))",
            Arc::new(StringArray::from(vec![None, Some("l")])),
            ["\\N", "l"],
        ),
        ("LowCardinality(FixedString(2))", fixed([*b"ab", *b"cd"]), ["ab", "cd"]),
        ("Nullable(Int32)", Arc::new(Int32Array::from(vec![None, Some(5)])), ["\\N", "5"]),
        (
            "Nullable(UUID)",
            Arc::new(
                FixedSizeBinaryArray::try_from_sparse_iter_with_size([None, Some([0u8; 16])].into_iter(), 16)
                    .unwrap(),
            ),
            ["\\N", "00000000-0000-0000-0000-000000000000"],
        ),
        (
            "Nullable(DateTime64(3, 'UTC'))",
            Arc::new(TimestampMillisecondArray::from(vec![None, Some(7)])),
            ["\\N", "1970-01-01 00:00:00.007"],
        ),
        ("Array(Nullable(Int32))", Arc::new(list.finish()), ["[-1,NULL]", "[]"]),
        ("Array(LowCardinality(String))", Arc::new(words.finish()), ["['x','y']", "[]"]),
        ("Map(LowCardinality(String), String)", Arc::new(map.finish()), ["{'b':'1','a':'2'}", "{}"]),
        (
            "JSON",
            Arc::new(StringArray::from(vec![r#"{"b.c":[true,1],"a":"2024-02-30"}"#, "{}"])),
            [r#"{"a":"2024-02-30","b":{"c":[true,1]}}"#, "{}"],
        ),
        (
            "JSON(max_dynamic_paths=0, a.b UInt8, SKIP x, SKIP REGEXP '^y')",
            Arc::new(StringArray::from(vec![r#"{"x":1,"yy":2,"z":3}"#, r#"{"a":{"b":255}}"#])),
            [r#"{"a":{"b":0},"z":3}"#, r#"{"a":{"b":255}}"#],
        ),
        (
            "Nullable(JSON)",
            Arc::new(StringArray::from(vec![None, Some(r#"{"n":18446744073709551615}"#)])),
            ["\\N", r#"{"n":18446744073709551615}"#],
        ),
        ("Array(JSON)", Arc::new(objects.finish()), [r#"['{"x":"it\'s"}','{}']"#, "[]"]),
    ];
    let columns: Vec<String> = cases.iter().enumerate().map(|(i, (t, _, _))| format!("c{i} {t}")).collect();
    server
        .query(&format!(
            "CREATE TABLE types (n Int32, {}, _forebay UUID) ENGINE = MergeTree ORDER BY n {WINDOW}",
            columns.join(", ")
        ))
        .unwrap();
    let table = open(&server, "types").await;
    let names: Vec<String> = (0..cases.len()).map(|i| format!("c{i}")).collect();
    let mut arrays: Vec<(&str, ArrayRef)> = vec![("n", ints([0, 1]))];
    arrays.extend(names.iter().zip(&cases).map(|(n, (_, a, _))| (n.as_str(), a.clone())));
    let rows = batch(arrays);
    let frame = &frames(&table, std::slice::from_ref(&rows))[0];
    send(&table, "t", &frame.body).await.unwrap();
    for (name, (type_name, _, wanted)) in names.iter().zip(&cases) {
        let shown = server.query(&format!("SELECT {name} FROM types ORDER BY n FORMAT TSV")).unwrap();
        assert_eq!(shown, format!("{}\n{}\n", wanted[0], wanted[1]), "{type_name}");
    }
    assert_eq!(
        server.query("SELECT DISTINCT _forebay FROM types").unwrap(),
        "00000000-0000-0000-0000-000000000001\n"
    );
    let back = table.decode(&frame.body).unwrap();
    let again = table.encode(&[Selected::all(back)], &mut || FrameId(1)).unwrap();
    assert_eq!(again[0].body, frame.body, "a frame read back and encoded again is the same bytes");
}

#[tokio::test]
async fn a_token_makes_the_second_insert_a_no_op() {
    let server = server_or_skip!();
    server
        .query(&format!("CREATE TABLE t (n Int32, _forebay UUID) ENGINE = MergeTree ORDER BY n {WINDOW}"))
        .unwrap();
    let table = open(&server, "t").await;
    let frame = &frames(&table, &[batch(vec![("n", ints(0..1000))])])[0];
    for (token, rows) in [("a", 1000), ("a", 1000), ("b", 2000), ("a", 2000)] {
        send(&table, token, &frame.body).await.unwrap();
        assert_eq!(server.query("SELECT count() FROM t").unwrap(), format!("{rows}\n"), "token {token}");
    }
    assert_eq!(
        server.query("SELECT count() FROM system.parts WHERE table = 't'").unwrap(),
        "2\n",
        "one part a frame"
    );

    // Longer than any bound on blocks that the server has by default.
    let config = TableConfig {
        frame_rows_max: 3_000_000,
        frame_bytes_max: 1 << 30,
        ..TableConfig::new("default", "t")
    };
    let table = open_with(&server, config).await.unwrap_or_else(|f| panic!("{f:?}"));
    let frame = &frames(&table, &[batch(vec![("n", ints(0..2_500_000))])])[0];
    for _ in 0..2 {
        send(&table, "long", &frame.body).await.unwrap();
    }
    let parts =
        "SELECT max(rows), sum(rows) FROM system.parts WHERE table = 't' AND level = 0 AND rows > 1000";
    assert_eq!(server.query(parts).unwrap(), "2500000\t2500000\n");
}

#[tokio::test]
async fn nulls_become_the_default() {
    let server = server_or_skip!();
    server
        .query(&format!(
            "CREATE TABLE t (n Int32, a UInt8 DEFAULT 7, s String DEFAULT concat('n=', toString(n)), \
             l LowCardinality(String) DEFAULT 'low', d Decimal(10, 2) DEFAULT 1.5, e Enum8('x' = 1, 'y' = 2) DEFAULT 'y', \
             m Map(String, String) DEFAULT map(), j JSON(SKIP s) DEFAULT '{{\"d\":1}}', _forebay UUID) ENGINE = MergeTree ORDER BY n {WINDOW}"
        ))
        .unwrap();
    let table = open(&server, "t").await;
    let mut map = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    map.append(false).unwrap();
    map.keys().append_value("k");
    map.values().append_value("v");
    map.append(true).unwrap();
    let decimal = Decimal128Array::from(vec![None, Some(250)]).with_precision_and_scale(10, 2).unwrap();
    let rows = batch(vec![
        ("n", ints([1, 2])),
        ("a", Arc::new(UInt8Array::from(vec![None, Some(0)]))),
        ("s", Arc::new(StringArray::from(vec![None, Some("")]))),
        ("l", Arc::new(StringArray::from(vec![None, Some("")]))),
        ("d", Arc::new(decimal)),
        ("e", Arc::new(Int8Array::from(vec![None, Some(1)]))),
        ("m", Arc::new(map.finish())),
        ("j", Arc::new(StringArray::from(vec![None, Some("{\"s\":1,\"t\":2}")]))),
    ]);
    send(&table, "t", &frames(&table, &[rows])[0].body).await.unwrap();
    let shown = server.query("SELECT * EXCEPT _forebay FROM t ORDER BY n FORMAT CSV").unwrap();
    assert_eq!(
        shown,
        "1,7,\"n=1\",\"low\",1.5,\"y\",\"{}\",\"{\"\"d\"\":1}\"\n2,0,\"\",\"\",2.5,\"x\",\"{'k':'v'}\",\"{\"\"t\"\":2}\"\n"
    );
}

/// An object of the test below. Keys with a dot have no rest of their own beside them, so that no two values are at one path.
fn object(random: &mut Lcg, depth: u32, out: &mut String) {
    const KEYS: [&str; 9] = ["a", "b", "c d", "é", "x.y", "k`q", "", "^z", "a:`Int64`"];
    out.push('{');
    let skipped = random.below(1 << KEYS.len());
    let mut any = false;
    for (n, key) in KEYS.iter().enumerate() {
        if skipped >> n & 1 == 0 || depth > 0 && n % 3 != 0 {
            continue;
        }
        if any {
            out.push(',');
        }
        any = true;
        dataflow::json_object::quote(key, out);
        out.push(':');
        value(random, depth, out);
    }
    out.push('}');
}

fn value(random: &mut Lcg, depth: u32, out: &mut String) {
    const WORDS: [&str; 16] = [
        "",
        "x",
        "2024-02-30",
        "2024-01-01 00:00:00",
        "2024-01-01T00:00:00.5Z",
        "true",
        "12",
        "1.5",
        "null",
        "\0",
        "é✓😀",
        "a\"\\/\n",
        "{}",
        "[1]",
        "12:00:00",
        "1e5",
    ];
    const PLAIN: [&str; 18] = [
        "true",
        "false",
        "null",
        "0",
        "-0",
        "1",
        "-1",
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551615",
        "9007199254740993",
        "0.5",
        "-0.0",
        "3.0",
        "1e-7",
        "0.1",
        "1e300",
        "5e-324",
    ];
    match random.below(if depth < 3 { 8 } else { 5 }) {
        0 | 1 => dataflow::json_object::quote(random.pick::<&str>(&WORDS), out),
        2..=4 => out.push_str(random.pick::<&str>(&PLAIN)),
        5 | 6 => object(random, depth + 1, out),
        _ => {
            out.push('[');
            for n in 0..random.below(4) {
                if n > 0 {
                    out.push(',');
                }
                // Of a null beside arrays, and of large integers beside floats, the server makes something else.
                match random.below(3) {
                    0 => dataflow::json_object::quote(random.pick::<&str>(&WORDS), out),
                    1 => out.push_str(random.pick::<&str>(&["true", "1", "-7", "9007199254740993"])),
                    _ => object(random, depth + 1, out),
                }
            }
            out.push(']');
        }
    }
}

/// Every value of an object by its path, as the server has it: nulls and empty objects are none.
fn paths(prefix: Option<&str>, of: &serde_json::Value, out: &mut BTreeMap<String, String>) {
    let serde_json::Value::Object(entries) = of else { unreachable!("only objects are asked for") };
    for (key, value) in entries {
        let path = prefix.map_or(key.clone(), |prefix| format!("{prefix}.{key}"));
        match value {
            serde_json::Value::Object(_) => paths(Some(&path), value, out),
            serde_json::Value::Null => {}
            value => drop(out.insert(path, shown(value))),
        }
    }
}

fn shown(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Array(items) => format!("{:?}", items.iter().map(shown).collect::<Vec<_>>()),
        serde_json::Value::Object(_) => {
            let mut found = BTreeMap::new();
            paths(None, value, &mut found);
            format!("{found:?}")
        }
        // The server leaves out the point of a whole float.
        serde_json::Value::Number(number) if number.is_f64() => {
            number.as_f64().map_or_else(String::new, |number| {
                if number.fract() == 0.0 && number.abs() < 1e15 {
                    format!("{}", number as i64)
                } else {
                    format!("{number:e}")
                }
            })
        }
        other => other.to_string(),
    }
}

#[tokio::test]
async fn objects_that_pass_the_check_are_stored_as_they_were() {
    let server = server_or_skip!();
    server
        .query(&format!(
            "CREATE TABLE j (n Int32, j JSON(max_dynamic_paths=16)) ENGINE = MergeTree ORDER BY n {WINDOW}"
        ))
        .unwrap();
    let table = open(&server, "j").await;
    let mut random = Lcg::new(seed());
    let mut texts = Vec::new();
    while texts.len() < 3_000 {
        let mut text = String::new();
        object(&mut random, 0, &mut text);
        if dataflow::json_object::check(&text).is_ok() {
            texts.push(text);
        }
    }
    let rows = batch(vec![
        ("n", ints(0..texts.len() as i32)),
        ("j", Arc::new(StringArray::from_iter_values(&texts))),
    ]);
    send(&table, "t", &frames(&table, &[rows])[0].body).await.unwrap();
    let found = server.query("SELECT toString(j) FROM j ORDER BY n FORMAT TSVRaw").unwrap();
    assert_eq!(found.lines().count(), texts.len());
    for (text, found) in texts.iter().zip(found.lines()) {
        let by_path = |text: &str| {
            let mut values = BTreeMap::new();
            paths(None, &serde_json::from_str(text).unwrap(), &mut values);
            values
        };
        assert_eq!(by_path(text), by_path(found), "{text}");
    }
}

#[tokio::test]
async fn what_the_check_of_objects_refuses_the_server_refuses_with_the_rows_beside_it() {
    let server = server_or_skip!();
    server
        .query(&format!("CREATE TABLE j (n Int32, j JSON) ENGINE = MergeTree ORDER BY n {WINDOW}"))
        .unwrap();
    let table = open(&server, "j").await;
    for (n, text) in [
        "",
        "1",
        "[1]",
        "\"x\"",
        "{\"a\":1",
        "{\"a\":1} x",
        "{\"a\":1,}",
        "{\"a\":01}",
        "{\"a\":NaN}",
        "{\"a\":\"\\ud800\"}",
        "{\"a\":18446744073709551616}",
        "{\"a\":-9223372036854775809}",
        "{\"a\":1e400}",
        "{\"a\":1,\"a\":2}",
        "{\"a\":null,\"a\":1}",
        "{\"a.b\":1,\"a\":{\"b\":2}}",
        "{\"x\":[{\"a\\u002eb\":1,\"a\":{\"b\":2}}]}",
    ]
    .iter()
    .enumerate()
    {
        assert!(dataflow::json_object::check(text).is_err(), "{text}");
        let rows = batch(vec![("n", ints([0, 1])), ("j", Arc::new(StringArray::from(vec!["{}", text])))]);
        let error = send(&table, &format!("t{n}"), &frames(&table, &[rows])[0].body).await.expect_err(text);
        assert_eq!((error.effect, error.remedy), (Effect::None, Remedy::Divert), "{text}: {error}");
    }
    assert_eq!(server.query("SELECT count() FROM j").unwrap(), "0\n");
}

#[tokio::test]
async fn frames_touch_one_partition_and_a_mistake_is_refused() {
    let server = server_or_skip!();
    server
        .query(&format!(
            "CREATE TABLE t (n Int32, at DateTime('Asia/Tokyo'), day Date MATERIALIZED toDate(at), _forebay UUID) ENGINE = MergeTree \
             PARTITION BY (toYYYYMM(day), n % 3) ORDER BY n {WINDOW}"
        ))
        .unwrap();
    server
        .query(&format!(
            "CREATE TABLE plain (n Int32, at DateTime, _forebay UUID) ENGINE = MergeTree ORDER BY n {WINDOW}"
        ))
        .unwrap();
    let table = open(&server, "t").await;
    // Every 7 hours from the end of 2023 on, with negative numbers among the keys.
    let at = TimestampSecondArray::from_iter_values((0..500).map(|i| 1_703_900_000 + i * 25_200));
    let rows = batch(vec![("n", ints(-250..250)), ("at", Arc::new(at))]);
    let cut = frames(&table, std::slice::from_ref(&rows));
    for frame in &cut {
        send(&table, &frame.id.to_string(), &frame.body)
            .await
            .unwrap_or_else(|e| panic!("{}: {e}", frame.table_partition));
    }
    assert_eq!(server.query("SELECT count(), sum(n) FROM t").unwrap(), "500\t-250\n");
    let parts = server
        .query("SELECT uniqExact(partition), count() FROM system.parts WHERE table = 't' AND level = 0")
        .unwrap();
    let (partitions, parts) = parts.trim().split_once('\t').unwrap();
    assert_eq!(
        partitions.parse::<usize>().unwrap(),
        cut.iter().map(|f| &f.table_partition).collect::<std::collections::BTreeSet<_>>().len()
    );
    assert_eq!(parts.parse::<usize>().unwrap(), cut.len());
    // The same rows uncut, as a table without partitions encodes them.
    let plain = open(&server, "plain").await;
    let error = send(&table, "uncut", &frames(&plain, &[rows])[0].body).await.unwrap_err();
    assert_eq!(
        (error.code, error.kind, error.effect, error.remedy),
        (252, TableFault::TooManyPartitions, Effect::None, Remedy::Stop)
    );
    assert_eq!(
        server.query("SELECT count() FROM t").unwrap(),
        "500\n",
        "the refused frame left nothing behind"
    );
}

#[tokio::test]
async fn refusals_say_what_they_did_and_what_to_do() {
    let server = server_or_skip!();
    server
        .query(&format!("CREATE TABLE t (n Int32, CONSTRAINT positive CHECK n > 0, _forebay UUID) ENGINE = MergeTree ORDER BY n {WINDOW}"))
        .unwrap();
    let table = open(&server, "t").await;
    let frame = &frames(&table, &[batch(vec![("n", ints([1, -1]))])])[0];
    let error = send(&table, "a", &frame.body).await.unwrap_err();
    assert_eq!((error.code, error.effect, error.remedy), (469, Effect::None, Remedy::Divert), "{error}");
    let mut damaged = frame.body.to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    let error = send(&table, "a", &damaged.into()).await.unwrap_err();
    assert_eq!((error.effect, error.remedy), (Effect::None, Remedy::Resend), "{error}");
    assert_eq!(server.query("SELECT count() FROM t").unwrap(), "0\n");
    server.query("DROP TABLE t").unwrap();
    let error = send(&table, "a", &frame.body).await.unwrap_err();
    assert_eq!((error.code, error.effect, error.remedy), (60, Effect::None, Remedy::Stop), "{error}");
    assert!(table.see().await.unwrap_err().message.contains("does not exist"));
}

#[tokio::test]
async fn a_shut_gate_leaves_no_rows() {
    let server = server_or_skip!();
    server
        .query(&format!("CREATE TABLE t (n Int32, _forebay UUID) ENGINE = MergeTree ORDER BY n {WINDOW}"))
        .unwrap();
    let table = open(&server, "t").await;
    let frame = &frames(&table, &[batch(vec![("n", ints(0..100_000))])])[0];
    let attempt = Attempt {
        token: "a",
        query_id: "forebay-shut",
        body: frame.body.clone(),
        layout: None,
        gate: &Fixed(false),
    };
    let error = table.insert(attempt).await.unwrap_err();
    assert_eq!((error.effect, error.kind), (Effect::None, TableFault::Fenced));
    assert_eq!(server.query("SELECT count() FROM t").unwrap(), "0\n");
    send(&table, "a", &frame.body).await.unwrap();
    assert_eq!(server.query("SELECT count() FROM t").unwrap(), "100000\n");
}

/// Every way out that the checks of a table print, run: the table is made, the fault is found, and after the statement there is none.
#[tokio::test]
async fn every_statement_that_the_checks_print_is_a_way_out() {
    let server = server_or_skip!();
    let plain = "ENGINE = MergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = 10000";
    let keyed = |columns: &str| format!("({columns}) {plain}");
    let cases = [
        ("does not remember insert tokens", "(n Int32) ENGINE = MergeTree ORDER BY n".to_owned()),
        ("remembers 3 insert tokens", keyed("n Int32").replace("10000", "3")),
        ("has no column `_forebay`", keyed("n Int32")),
        ("`_forebay` must be a plain `UUID`", keyed("n Int32, _forebay Nullable(UUID)")),
        ("`_forebay` must be a plain `UUID`", keyed("n Int32, _forebay UUID MATERIALIZED generateUUIDv4()")),
        ("`_forebay` must be a plain `UUID`", keyed("n Int32, _forebay UUID ALIAS generateUUIDv4()")),
        ("`_forebay` must be a plain `UUID`", keyed("n Int32, _forebay Nullable(String)")),
        ("`Tuple(a Int8)`", keyed("n Int32, c Tuple(a Int8)")),
        ("`Tuple(a String, b UInt8)`", keyed("n Int32, c Tuple(a String, b UInt8)")),
        ("`Int128`", keyed("n Int32, c Int128")),
        ("`UInt256`", keyed("n Int32, c UInt256")),
        ("`Decimal(76, 2)`", keyed("n Int32, c Decimal(76, 2)")),
        ("AggregateFunction", keyed("n Int32, c AggregateFunction(uniqExact, UInt64)")),
        ("Array(Tuple", keyed("n Int32, c Array(Tuple(a Int8))")),
        ("`Map(String, Tuple", keyed("n Int32, `odd 'name` Map(String, Tuple(a Int8))")),
    ];
    for (n, (part, table)) in cases.iter().enumerate() {
        let name = format!("way_out_{n}");
        server.query(&format!("CREATE TABLE {name} {table}")).unwrap_or_else(|e| panic!("{table}: {e}"));
        server
            .query(&format!("INSERT INTO {name} (n) VALUES (-1)"))
            .unwrap_or_else(|e| panic!("{table}: {e}"));
        let config = || TableConfig {
            provenance: part.contains("_forebay"),
            ..TableConfig::new("default", name.as_str())
        };
        let faults = open_with(&server, config()).await.err().unwrap_or_else(|| panic!("{table}: no fault"));
        let text: Vec<String> = faults.iter().map(Fault::to_string).collect();
        assert!(text.join("\n").contains(part), "{part} in {text:?}");
        for fault in &faults {
            let fix = fault.fix.as_ref().unwrap_or_else(|| panic!("no way out: {fault}"));
            server.query(fix).unwrap_or_else(|e| panic!("{fix}: {e}"));
        }
        let table = open_with(&server, config()).await.unwrap_or_else(|faults| panic!("{part}: {faults:?}"));
        let written: Vec<&str> = table.schema().columns().iter().map(|column| column.name.as_str()).collect();
        if written == ["n"] {
            let rows = batch(vec![("n", ints(0..10))]);
            send(&table, "a", &frames(&table, &[rows])[0].body).await.unwrap();
            assert_eq!(server.query(&format!("SELECT count() FROM {name}")).unwrap(), "11\n", "{part}");
        } else {
            assert_eq!(written, ["n", "_forebay_before"]);
        }
    }
}

#[tokio::test]
async fn every_fault_comes_at_once_and_its_statement_mends_it() {
    let server = server_or_skip!();
    server
        .query("CREATE TABLE t (n Int32, t Tuple(a Int8), at DateTime DEFAULT now()) ENGINE = MergeTree PARTITION BY toYYYYMM(at) ORDER BY n")
        .unwrap();
    server.query("CREATE TABLE target (n Int32) ENGINE = MergeTree ORDER BY n").unwrap();
    server.query("CREATE MATERIALIZED VIEW v TO target AS SELECT n FROM t").unwrap();
    let asking = TableConfig { provenance: true, ..TableConfig::new("default", "t") };
    let faults = open_with(&server, asking).await.err().unwrap();
    let text: Vec<String> = faults.iter().map(Fault::to_string).collect();
    let text = text.join("\n");
    for part in [
        "table `default.t` does not remember insert tokens",
        "ALTER TABLE `default`.`t` MODIFY SETTING non_replicated_deduplication_window = 10000",
        "table `default.target` does not remember",
        "ALTER TABLE `default`.`target` MODIFY SETTING",
        "column `t` has the type `Tuple(a Int8)`",
        "ALTER TABLE `default`.`t` ADD COLUMN `_forebay` UUID",
        "DEFAULT `now()`, which is not constant",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    for fix in faults.iter().filter_map(|f| f.fix.as_ref()) {
        server.query(fix).unwrap_or_else(|e| panic!("{fix}: {e}"));
    }
    server.query("ALTER TABLE t MODIFY COLUMN at REMOVE DEFAULT").unwrap();
    let config =
        TableConfig { columns: Some(vec!["n".into(), "at".into()]), ..TableConfig::new("default", "t") };
    let table = open_with(&server, config).await.unwrap_or_else(|faults| panic!("{faults:?}"));
    let rows = batch(vec![
        ("n", ints(0..10)),
        ("at", Arc::new(TimestampSecondArray::from(vec![1_700_000_000; 10]))),
    ]);
    let frame = &frames(&table, &[rows])[0];
    for _ in 0..3 {
        send(&table, "a", &frame.body).await.unwrap();
    }
    assert_eq!(server.query("SELECT count() FROM t").unwrap(), "10\n");
    assert_eq!(
        server.query("SELECT count() FROM target").unwrap(),
        "10\n",
        "the view's target knows the token too"
    );
}

/// Frames wait for a column that no insert may name any more; the statement that they are given is one.
#[tokio::test]
async fn a_column_that_is_not_sent_any_more_is_given_back_by_the_statement_that_is_printed() {
    let server = server_or_skip!();
    let changes = ["MATERIALIZED 3", "ALIAS 3", "EPHEMERAL 3"].map(|kind| format!("UInt8 {kind}"));
    let changes = changes.into_iter().chain(["Variant(UInt8, String)".to_owned()]);
    for (number, (change, default)) in changes.flat_map(|c| [(c.clone(), ""), (c, " DEFAULT 7")]).enumerate()
    {
        // A DEFAULT that is a number is none of a variant's.
        if change.starts_with("Variant") && !default.is_empty() {
            continue;
        }
        let name = format!("given_back_{number}");
        let order = "ENGINE = MergeTree ORDER BY id";
        server.query(&format!("CREATE TABLE {name} (id Int32, d UInt8{default}) {order} {WINDOW}")).unwrap();
        let table = open(&server, &name).await;
        let layout = table.layout();
        assert_eq!(table.fit(&layout), Fit::AsIs);
        server.query(&format!("ALTER TABLE {name} MODIFY COLUMN d {change}")).unwrap();
        table.see().await.unwrap();
        let Fit::No { words } = table.fit(&layout) else { panic!("{change}{default} takes no value of it") };
        let begin = words.find("ALTER TABLE").unwrap_or_else(|| panic!("no statement: {words}"));
        server.query(&words[begin..]).unwrap_or_else(|why| panic!("{change}{default}: {words}: {why}"));
        table.see().await.unwrap();
        assert!(!matches!(table.fit(&layout), Fit::No { .. }), "{change}{default}: {words}");
    }
}

#[tokio::test]
async fn engines_that_remember_no_tokens_are_refused() {
    let server = server_or_skip!();
    for (name, engine) in [
        ("m", "Memory"),
        ("nul", "Null"),
        ("l", "Log"),
        ("b", "Buffer(default, m, 1, 10, 100, 10, 100, 10, 100)"),
    ] {
        server.query(&format!("CREATE TABLE {name} (n Int32, _forebay UUID) ENGINE = {engine}")).unwrap();
        let faults = open_with(&server, TableConfig::new("default", name)).await.err().unwrap();
        assert!(faults.iter().any(|f| f.message.contains("engine")), "{engine}: {faults:?}");
    }
    server.query("CREATE VIEW w AS SELECT 1 AS n").unwrap();
    assert!(open_with(&server, TableConfig::new("default", "w")).await.is_err());
    let faults = open_with(&server, TableConfig::new("default", "gone")).await.err().unwrap();
    assert!(faults[0].message.contains("does not exist"), "{faults:?}");
}

#[tokio::test]
async fn a_table_is_made_if_the_pipeline_says_how() {
    let server = server_or_skip!();
    let create = CreateTable {
        columns: vec![
            ("id".into(), "UUID".into()),
            ("at".into(), "DateTime DEFAULT '2020-01-01 00:00:00'".into()),
        ],
        order_by: "id".into(),
        partition_by: "toYYYYMM(at)".into(),
    };
    let config =
        TableConfig { create: Some(create), provenance: true, ..TableConfig::new("default", "made") };
    let faults = ClickHouseTable::check(ServerConfig::new(server.url()), &config, RealTime::shared()).await;
    assert_eq!(faults, [], "a check takes a table that would be made for granted");
    assert_eq!(server.query("EXISTS TABLE made").unwrap(), "0\n", "and writes nothing");
    for _ in 0..2 {
        let table = open_with(&server, config.clone()).await.unwrap_or_else(|f| panic!("{f:?}"));
        assert_eq!(table.schema().columns().len(), 2);
    }
}

#[tokio::test]
async fn facts_and_probes_see_the_frame() {
    let mut server = server_or_skip!();
    server
        .query(&format!("CREATE TABLE t (n Int32, _forebay UUID) ENGINE = MergeTree ORDER BY n {WINDOW}"))
        .unwrap();
    let table = open(&server, "t").await;
    let frame = frames(&table, &[batch(vec![("n", ints(0..1000))])]).remove(0);
    let before = table.see().await.unwrap();
    let told = facts(&before);
    assert_eq!((told.token_window, told.tokens_per_frame, told.token_age_ms_max), (100, 1, None));
    assert_eq!(table.probe(frame.id, 1000, &frame.probe).await.unwrap(), Presence::None);
    send(&table, "a", &frame.body).await.unwrap();
    let after = table.see().await.unwrap();
    assert!(facts(&after).block_number > told.block_number, "{before:?} {after:?}");
    assert_eq!(after.table_uuid, before.table_uuid);
    let later = facts(&after);
    assert!((later.start_ms - told.start_ms).abs() <= 2000, "{told:?} {later:?}");
    assert!(later.start_ms <= later.seen_ms);
    assert_eq!(table.probe(frame.id, 1000, &frame.probe).await.unwrap(), Presence::All);
    server.query("ALTER TABLE t DELETE WHERE n < 10 SETTINGS mutations_sync = 1").unwrap();
    let part = Presence::Part { found: 990, expected: 1000 };
    assert_eq!(table.probe(frame.id, 1000, &frame.probe).await.unwrap(), part);
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    server.kill9().unwrap();
    server.restart().unwrap();
    let restarted = table.see().await.unwrap();
    assert!(facts(&restarted).start_ms > later.start_ms + 1000, "{later:?} {:?}", facts(&restarted));
    assert_eq!(restarted.table_uuid, before.table_uuid);
    server.query("DROP TABLE t SYNC").unwrap();
    server
        .query(&format!("CREATE TABLE t (n Int32, _forebay UUID) ENGINE = MergeTree ORDER BY n {WINDOW}"))
        .unwrap();
    assert_ne!(table.see().await.unwrap().table_uuid, before.table_uuid, "a table made again is another one");
    assert_eq!(table.end_attempts("forebay-live").await.unwrap(), 0);
    assert!(table.end_attempts("x' OR 1").await.is_err());
}

#[tokio::test]
async fn a_unique_key_finds_the_frame_without_a_provenance_column() {
    let server = server_or_skip!();
    server
        .query(&format!(
            "CREATE TABLE t (id UUID, s LowCardinality(String), f FixedString(2), at DateTime64(3), d Date, u UInt64, p DateTime('Asia/Tokyo'), q DateTime64(5)) ENGINE = MergeTree ORDER BY id {WINDOW}"
        ))
        .unwrap();
    let unique_key = ["id", "s", "f", "at", "d", "u", "p", "q"].map(str::to_owned).to_vec();
    let config = TableConfig { unique_key, ..TableConfig::new("default", "t") };
    let table = open_with(&server, config).await.unwrap_or_else(|f| panic!("{f:?}"));
    let rows = |from: u64| {
        let range = || from..from + 1000;
        batch(vec![
            (
                "id",
                Arc::new(
                    FixedSizeBinaryArray::try_from_iter(range().map(|i| (u128::from(i) * 7).to_be_bytes()))
                        .unwrap(),
                ) as ArrayRef,
            ),
            ("s", Arc::new(StringArray::from_iter_values(range().map(|i| format!("it's {}", i % 3))))),
            ("f", Arc::new(FixedSizeBinaryArray::try_from_iter(range().map(|i| [b'a', i as u8])).unwrap())),
            ("at", Arc::new(TimestampMillisecondArray::from_iter_values(range().map(|i| i as i64 - 500)))),
            ("d", Arc::new(Date32Array::from_iter_values(range().map(|i| i as i32)))),
            ("u", Arc::new(UInt64Array::from_iter_values(range().map(|i| u64::MAX - i)))),
            ("p", Arc::new(TimestampSecondArray::from_iter_values(range().map(|i| i as i64)))),
            ("q", Arc::new(TimestampMicrosecondArray::from_iter_values(range().map(|i| i as i64 * 10)))),
        ])
    };
    let (first, second) = (frames(&table, &[rows(0)]).remove(0), frames(&table, &[rows(1000)]).remove(0));
    send(&table, "a", &first.body).await.unwrap();
    assert_eq!(table.probe(first.id, 1000, &first.probe).await.unwrap(), Presence::All);
    assert_eq!(table.probe(second.id, 1000, &second.probe).await.unwrap(), Presence::None);
    assert_eq!(table.probe(second.id, 1000, &[]).await.unwrap(), Presence::Inadmissible);
}

/// A table in a database whose tables have identities.
fn atomic(server: &ClickHouse, engine: &str) -> TableConfig {
    server.query("CREATE DATABASE IF NOT EXISTS a ENGINE = Atomic").unwrap();
    server
        .query(&format!(
            "CREATE TABLE a.t (n Int32, v Int32, at DateTime, _forebay UUID) ENGINE = {engine} {WINDOW}"
        ))
        .unwrap();
    TableConfig::new("a", "t")
}

fn dated(keys: std::ops::Range<i32>, value: i32, at: i64) -> RecordBatch {
    let count = keys.len();
    batch(vec![
        ("n", ints(keys)),
        ("v", ints(vec![value; count])),
        ("at", Arc::new(TimestampSecondArray::from(vec![at; count]))),
    ])
}

#[tokio::test]
async fn an_exchanged_table_is_another_and_a_truncated_one_is_not() {
    let server = server_or_skip!();
    let table = open_with(&server, atomic(&server, "MergeTree ORDER BY n")).await.unwrap();
    server.query("CREATE TABLE a.copy AS a.t").unwrap();
    let frame = frames(&table, &[dated(0..10, 1, 1_700_000_000)]).remove(0);
    send(&table, "a", &frame.body).await.unwrap();
    let before = table.see().await.unwrap();
    server.query("EXCHANGE TABLES a.t AND a.copy").unwrap();
    let exchanged = table.see().await.unwrap();
    assert_ne!(exchanged.table_uuid, before.table_uuid, "nothing else tells");
    assert_eq!(table.probe(frame.id, 10, &frame.probe).await.unwrap(), Presence::None);
    server.query("EXCHANGE TABLES a.t AND a.copy").unwrap();
    assert_eq!(table.see().await.unwrap().table_uuid, before.table_uuid, "put back");
    server.query("TRUNCATE TABLE a.t").unwrap();
    let truncated = table.see().await.unwrap();
    assert_eq!(truncated.table_uuid, before.table_uuid);
    assert!(facts(&truncated).block_number <= facts(&before).block_number, "{before:?} {truncated:?}");
    send(&table, "a", &frame.body).await.unwrap();
    assert_eq!(server.query("SELECT count() FROM a.t").unwrap(), "10\n", "its tokens are gone with its rows");
}

#[tokio::test]
async fn a_table_of_a_moved_database_is_missing_and_keeps_its_identity() {
    let server = server_or_skip!();
    let table = open_with(&server, atomic(&server, "MergeTree ORDER BY n")).await.unwrap();
    let before = table.see().await.unwrap();
    server.query("RENAME DATABASE a TO b").unwrap();
    let missing = table.see().await.unwrap_err();
    assert!(missing.to_string().contains("`a.t` does not exist"), "{missing}");
    server.query("RENAME DATABASE b TO a").unwrap();
    assert_eq!(table.see().await.unwrap().table_uuid, before.table_uuid);
}

#[tokio::test]
async fn rows_that_merges_take_away_prove_nothing_unless_one_is_left() {
    for engine in
        ["ReplacingMergeTree ORDER BY n", "SummingMergeTree(v) ORDER BY n", "AggregatingMergeTree ORDER BY n"]
    {
        let server = server_or_skip!();
        let table = open_with(&server, atomic(&server, engine)).await.unwrap();
        let at = 1_700_000_000;
        let [first, same, unsent] = [1, 2, 3].map(|n| {
            table.encode(&[Selected::all(dated(0..10, n, at))], &mut || FrameId(n as u128)).unwrap().remove(0)
        });
        send(&table, "a", &first.body).await.unwrap();
        assert_eq!(table.probe(first.id, 10, &first.probe).await.unwrap(), Presence::All, "{engine}");
        send(&table, "b", &same.body).await.unwrap();
        server.query("OPTIMIZE TABLE a.t FINAL").unwrap();
        let found = [
            table.probe(first.id, 10, &first.probe).await.unwrap(),
            table.probe(same.id, 10, &same.probe).await.unwrap(),
        ];
        assert!(found.contains(&Presence::Inadmissible), "{engine}: one took the other's place: {found:?}");
        assert!(!found.contains(&Presence::None), "{engine}: {found:?}");
        assert_eq!(table.probe(unsent.id, 10, &unsent.probe).await.unwrap(), Presence::Inadmissible);
    }
}

#[tokio::test]
async fn rows_that_expired_prove_nothing() {
    let server = server_or_skip!();
    let engine = "MergeTree ORDER BY n TTL at + INTERVAL 1 DAY";
    let table = open_with(&server, atomic(&server, engine)).await.unwrap();
    let frame = frames(&table, &[dated(0..10, 1, 1_000_000_000)]).remove(0);
    send(&table, "a", &frame.body).await.unwrap();
    server.query("OPTIMIZE TABLE a.t FINAL").unwrap();
    assert_eq!(server.query("SELECT count() FROM a.t").unwrap(), "0\n", "they were years old");
    assert_eq!(table.probe(frame.id, 10, &frame.probe).await.unwrap(), Presence::Inadmissible);
}

#[tokio::test]
async fn a_views_target_is_seen_with_writers_of_its_own() {
    let server = server_or_skip!();
    let config = atomic(&server, "MergeTree ORDER BY n");
    server.query(&format!("CREATE TABLE a.target (n Int32) ENGINE = MergeTree ORDER BY n {WINDOW}")).unwrap();
    server.query("CREATE MATERIALIZED VIEW a.v1 TO a.target AS SELECT n FROM a.t").unwrap();
    server.query("CREATE MATERIALIZED VIEW a.v2 TO a.target AS SELECT n FROM a.t").unwrap();
    let table = open_with(&server, config).await.unwrap();
    let before = table.see().await.unwrap();
    let told = facts(&before);
    assert_eq!((told.view_blocks.len(), told.tokens_per_frame), (1, 2), "one target, fed twice");
    server.query("INSERT INTO a.target SELECT 1").unwrap();
    let after = table.see().await.unwrap();
    assert!(facts(&after).view_blocks[0] > told.view_blocks[0], "{before:?} {after:?}");
    assert_eq!(facts(&after).block_number, told.block_number);
}

#[tokio::test]
async fn a_provenance_column_that_came_later_finds_no_earlier_frame() {
    let server = server_or_skip!();
    server.query(&format!("CREATE TABLE t (n Int32) ENGINE = MergeTree ORDER BY n {WINDOW}")).unwrap();
    let table = open(&server, "t").await;
    let frame = frames(&table, &[batch(vec![("n", ints(0..10))])]).remove(0);
    send(&table, "a", &frame.body).await.unwrap();
    server.query("ALTER TABLE t ADD COLUMN _forebay UUID").unwrap();
    let table = open(&server, "t").await;
    assert_eq!(
        table.probe(frame.id, 10, &frame.probe).await.unwrap(),
        Presence::Inadmissible,
        "none would be taken for absent, and written twice"
    );
}

#[tokio::test]
async fn rows_that_are_sorted_here_are_in_the_servers_order() {
    let server = server_or_skip!();
    server
        .query(&format!(
            "CREATE TABLE t (id UUID, n Int32, _forebay UUID) ENGINE = MergeTree ORDER BY id {WINDOW}"
        ))
        .unwrap();
    server
        .query(
            "CREATE TABLE k (s LowCardinality(String), i Nullable(Int32), d Decimal(20, 2), id UUID, e Enum8('z' = -1, 'a' = 1), n Int32, _forebay UUID) \
             ENGINE = MergeTree ORDER BY (s, i, d, e, id) SETTINGS non_replicated_deduplication_window = 100, allow_nullable_key = 1"
        )
        .unwrap();
    let count = 2000i32;
    let mut state = 12345u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 11
    };
    let ids: Vec<[u8; 16]> = (0..count)
        .map(|_| (u128::from(random() % 5) << 64 | u128::from(random() << 40)).to_be_bytes())
        .collect();
    let decimals = Decimal128Array::from_iter_values((0..count).map(|_| i128::from(random() as i64 % 7) - 3));
    let arrays: Vec<(&str, ArrayRef)> = vec![
        (
            "s",
            Arc::new(StringArray::from_iter_values(
                (0..count).map(|_| ["é", "z", "", "Z"][random() as usize % 4]),
            )),
        ),
        (
            "i",
            Arc::new(
                (0..count)
                    .map(|_| (random() % 3 > 0).then(|| random() as i32 % 3 - 1))
                    .collect::<Int32Array>(),
            ),
        ),
        ("d", Arc::new(decimals.with_precision_and_scale(20, 2).unwrap())),
        ("id", Arc::new(FixedSizeBinaryArray::try_from_iter(ids.iter()).unwrap())),
        (
            "e",
            Arc::new(Int8Array::from_iter_values((0..count).map(|_| if random() % 2 == 0 { 1 } else { -1 }))),
        ),
        ("n", ints(0..count)),
    ];
    let rows = batch(arrays);
    for (name, key, columns) in [("t", "id", vec![3, 5]), ("k", "s, i, d, e, id", vec![0, 1, 2, 3, 4, 5])] {
        let config = TableConfig { sort: true, ..TableConfig::new("default", name) };
        let table = open_with(&server, config).await.unwrap_or_else(|f| panic!("{f:?}"));
        assert_eq!(table.notes(), [] as [String; 0]);
        let frame = frames(&table, &[rows.project(&columns).unwrap()]).remove(0);
        send(&table, "a", &frame.body).await.unwrap();
        let ours = table.decode(&frame.body).unwrap();
        let ours = ours
            .column(ours.num_columns() - 1)
            .as_any()
            .downcast_ref::<Int32Array>()
            .unwrap()
            .values()
            .to_vec();
        let theirs = server.query(&format!("SELECT n FROM {name} ORDER BY {key}, n")).unwrap();
        let theirs: Vec<i32> = theirs.lines().map(|l| l.parse().unwrap()).collect();
        assert_eq!(
            ours, theirs,
            "{name}: the key is unique but for its ties, which stand in their own order"
        );
    }
}

#[tokio::test]
async fn dead_letters_have_a_table_of_their_own() {
    let server = server_or_skip!();
    let config = ServerConfig::new(server.url());
    let table = clickhouse::dead_letters::open(config, "default", "rejects", RealTime::shared()).await;
    let table = table.unwrap_or_else(|f| panic!("{f:?}"));
    let reject = dataflow::Reject {
        item: None,
        partition: dataflow::Partition::new("events", 2),
        position: 17,
        time_ms: 1_700_000_000_123,
        reason: dataflow::Reason::OutOfRange,
        column: "n".into(),
        message: "field `n`: `300` is not between 0 and 255".into(),
        key: None,
        headers: Vec::new(),
        raw: b"{\"n\":300}\xff".to_vec(),
    };
    let rows = dataflow::reject::to_rows("p", 1_700_000_001_000, &[reject]);
    let frame = frames(&table, &[rows]).remove(0);
    for _ in 0..2 {
        send(&table, "a", &frame.body).await.unwrap();
    }
    let shown = server.query("SELECT * EXCEPT (_forebay, raw), hex(raw) FROM rejects FORMAT CSV").unwrap();
    assert_eq!(
        shown,
        "\"2023-11-14 22:13:21.000\",\"p\",\"events\",2,17,\"2023-11-14 22:13:20.123\",\\N,\"{}\",\"out_of_range\",\"n\",\
         \"field `n`: `300` is not between 0 and 255\",\"7B226E223A3330307DFF\"\n"
    );
}

#[tokio::test]
async fn a_lost_answer_is_unknown_and_the_resend_is_a_no_op() {
    let server = server_or_skip!();
    server
        .query(&format!("CREATE TABLE t (n Int32, _forebay UUID) ENGINE = MergeTree ORDER BY n {WINDOW}"))
        .unwrap();
    let proxy = FaultProxy::start(&server.url()).unwrap();
    let config = ServerConfig::new(proxy.url());
    let table = ClickHouseTable::open(config, TableConfig::new("default", "t"), RealTime::shared()).await;
    let table = table.unwrap_or_else(|f| panic!("{f:?}"));
    let frame = frames(&table, &[batch(vec![("n", ints(0..100_000))])]).remove(0);

    proxy.add(Rule::next(1, Trouble::CutRequest { body_bytes: 1000 }).query("INSERT"));
    let error = send(&table, "a", &frame.body).await.unwrap_err();
    assert_eq!(error.remedy, Remedy::Resend, "{error}");
    assert_eq!(server.query("SELECT count() FROM t").unwrap(), "0\n", "a cut request leaves nothing behind");

    proxy.add(Rule::next(1, Trouble::SwallowAnswer).query("INSERT"));
    let error = send(&table, "a", &frame.body).await.unwrap_err();
    assert_eq!((error.effect, error.remedy), (Effect::Unknown, Remedy::Resend), "{error}");
    assert_eq!(server.query("SELECT count() FROM t").unwrap(), "100000\n", "the rows did land");

    send(&table, "a", &frame.body).await.unwrap();
    assert_eq!(server.query("SELECT count() FROM t").unwrap(), "100000\n", "and the resend added none");

    proxy.refuse().unwrap();
    // The connection that was kept breaks; a new one is refused. Neither reached the server.
    for kind in [TableFault::Broken, TableFault::Connection] {
        let error = send(&table, "b", &frame.body).await.unwrap_err();
        assert_eq!((error.effect, error.remedy, error.kind), (Effect::None, Remedy::Resend, kind), "{error}");
    }
    assert_eq!(table.see().await.unwrap_err().remedy, Remedy::Resend);
}

#[tokio::test]
async fn a_view_that_fails_leaves_the_effect_unknown() {
    let server = server_or_skip!();
    server
        .query(&format!("CREATE TABLE t (n Int32, _forebay UUID) ENGINE = MergeTree ORDER BY n {WINDOW}"))
        .unwrap();
    server.query(&format!("CREATE TABLE target (n Int32) ENGINE = MergeTree ORDER BY n {WINDOW}")).unwrap();
    server.query("CREATE MATERIALIZED VIEW v TO target AS SELECT n + throwIf(n = 7) AS n FROM t").unwrap();
    let table = open(&server, "t").await;
    let frame = frames(&table, &[batch(vec![("n", ints(0..10))])]).remove(0);
    let error = send(&table, "a", &frame.body).await.unwrap_err();
    assert_eq!(
        (error.effect, error.remedy, error.kind),
        (Effect::Unknown, Remedy::Stop, TableFault::View),
        "{error}"
    );
    eprintln!(
        "after a view's failure the table has {} rows",
        server.query("SELECT count() FROM t").unwrap().trim()
    );
    server.query("ALTER TABLE v MODIFY QUERY SELECT n FROM t").unwrap();
    for _ in 0..2 {
        send(&table, "a", &frame.body).await.unwrap();
    }
    let counts = server.query("SELECT (SELECT count() FROM t), (SELECT count() FROM target)").unwrap();
    assert_eq!(counts, "10\t10\n", "once the view is mended the resend completes the frame, once");
}

#[tokio::test]
async fn a_known_token_without_rows_still_feeds_the_views() {
    let server = server_or_skip!();
    server
        .query(&format!("CREATE TABLE t (n Int32, _forebay UUID) ENGINE = MergeTree ORDER BY n {WINDOW}"))
        .unwrap();
    server.query(&format!("CREATE TABLE target (n Int32) ENGINE = MergeTree ORDER BY n {WINDOW}")).unwrap();
    let table = open(&server, "t").await;
    let frame = frames(&table, &[batch(vec![("n", ints(0..10))])]).remove(0);
    send(&table, "a", &frame.body).await.unwrap();
    // As a crash between the token's line and the rows leaves it: a lightweight DELETE keeps the token.
    server.query("DELETE FROM t WHERE 1").unwrap();
    server.query("CREATE MATERIALIZED VIEW v TO target AS SELECT n FROM t").unwrap();
    let table = open(&server, "t").await;
    let counts = || server.query("SELECT (SELECT count() FROM t), (SELECT count() FROM target)").unwrap();
    send(&table, "a", &frame.body).await.unwrap();
    assert_eq!(counts(), "0\t10\n", "the table knows the token, the target does not");
    send(&table, "b", &frame.body).await.unwrap();
    assert_eq!(counts(), "10\t20\n", "a new token repeats them in the target, so a person is asked");
}

#[tokio::test]
async fn a_partitioned_target_takes_a_frame_of_several_partitions() {
    let server = server_or_skip!();
    server
        .query(&format!("CREATE TABLE t (n Int32, _forebay UUID) ENGINE = MergeTree ORDER BY n {WINDOW}"))
        .unwrap();
    server
        .query(&format!(
            "CREATE TABLE target (n Int32) ENGINE = MergeTree PARTITION BY n % 4 ORDER BY n {WINDOW}0"
        ))
        .unwrap();
    server.query("CREATE MATERIALIZED VIEW v TO target AS SELECT n FROM t").unwrap();
    let table = open(&server, "t").await;
    assert_eq!(facts(&table.see().await.unwrap()).tokens_per_frame, 100);
    let frame = frames(&table, &[batch(vec![("n", ints(0..100))])]).remove(0);
    for _ in 0..2 {
        send(&table, "a", &frame.body).await.unwrap();
    }
    assert_eq!(server.query("SELECT count() FROM target").unwrap(), "100\n");
}

/// Run with `--ignored --nocapture`: what a sorted frame saves the server.
#[tokio::test]
#[ignore = "a measurement, not a rule"]
async fn cost_of_unsorted_frames_to_the_server() {
    let server = server_or_skip!();
    let mut state = 1u128;
    let mut random = || {
        state = state
            .wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645)
            .wrapping_add(0x5851_f42d_4c95_7f2d_1405_7b7e_f767_814f);
        (state ^ (state >> 67)).to_be_bytes()
    };
    let ids: Vec<[u8; 16]> = (0..500_000).map(|_| random()).collect();
    let users: Vec<[u8; 16]> = (0..500_000).map(|_| random()).collect();
    let rows = batch(vec![
        ("event_id", Arc::new(FixedSizeBinaryArray::try_from_iter(ids.iter()).unwrap()) as ArrayRef),
        ("user_id", Arc::new(FixedSizeBinaryArray::try_from_iter(users.iter()).unwrap())),
        (
            "created_at",
            Arc::new(TimestampSecondArray::from_iter_values((0..500_000).map(|i| 1_700_000_000 + i))),
        ),
        (
            "user_name",
            Arc::new(StringArray::from_iter_values(
                ids.iter().map(|i| format!("user {:08}", u32::from(i[0]) * 77_777)),
            )),
        ),
        (
            "user_email",
            Arc::new(StringArray::from_iter_values(
                ids.iter().map(|i| format!("mail{:06}@example.com", u32::from(i[1]) * 3_901)),
            )),
        ),
    ]);
    server.query(&format!("CREATE TABLE t (event_id UUID, user_id UUID, created_at DateTime, user_name String, user_email String, _forebay UUID) ENGINE = MergeTree ORDER BY event_id {WINDOW}")).unwrap();
    server.query("SYSTEM STOP MERGES").unwrap();
    for round in 0..3 {
        for sort in [false, true] {
            let table = open_with(&server, TableConfig { sort, ..TableConfig::new("default", "t") })
                .await
                .unwrap_or_else(|f| panic!("{f:?}"));
            let frame = frames(&table, std::slice::from_ref(&rows)).remove(0);
            let before = server.usage().unwrap();
            for n in 0..4 {
                send(&table, &format!("{round} {sort} {n}"), &frame.body).await.unwrap();
            }
            let after = server.usage().unwrap();
            println!("sort={sort}: before {before:?} after {after:?}, 2 million rows");
        }
    }
}

fn by_key(version: Option<&str>, deleted: Option<&str>) -> Upsert {
    let name = |name: &str| name.to_owned();
    Upsert { key: vec!["id".into()], version: version.map(name), deleted: deleted.map(name) }
}

/// Rows with an id, a value, whether they are deleted, and a version of their own or of the engine.
fn keyed(ids: &[i32], values: &[i32], deleted: &[bool], version: (&str, ArrayRef)) -> RecordBatch {
    batch(vec![
        ("id", ints(ids.iter().copied())),
        ("v", ints(values.iter().copied())),
        ("gone", Arc::new(BooleanArray::from(deleted.to_vec()))),
        version,
    ])
}

#[tokio::test]
async fn rows_replace_each_other_in_a_table_that_is_created_for_it() {
    let server = server_or_skip!();
    let columns = [("id", "Int32"), ("v", "Int32"), ("gone", "UInt8")];
    let create = CreateTable {
        columns: columns.map(|(name, kind)| (name.to_owned(), kind.to_owned())).to_vec(),
        order_by: "id".into(),
        partition_by: "id % 2".into(),
    };
    let config = TableConfig {
        create: Some(create),
        upsert: Some(by_key(None, Some("gone"))),
        ..TableConfig::new("default", "t")
    };
    let table = open_with(&server, config.clone()).await.unwrap();
    assert_eq!(table.version_column().map(|column| column.name.as_str()), Some("_version"));
    let versions = |from: u64| -> ArrayRef { Arc::new(UInt64Array::from_iter_values(from..from + 4)) };
    let newer =
        keyed(&[1, 2, 3, 4], &[10, 20, 30, 40], &[false, false, true, false], ("_version", versions(1_000)));
    let older =
        keyed(&[1, 2, 3, 5], &[11, 21, 31, 51], &[false, true, false, false], ("_version", versions(10)));
    // Frames of the older rows arrive last, and change nothing but the key that the newer ones do not have.
    for (n, rows) in [newer, older].iter().enumerate() {
        for (m, frame) in frames(&table, std::slice::from_ref(rows)).iter().enumerate() {
            send(&table, &format!("{n}-{m}"), &frame.body).await.unwrap();
        }
    }
    let newest = "SELECT id, v FROM t FINAL ORDER BY id";
    assert_eq!(server.query(newest).unwrap(), "1\t10\n2\t20\n4\t40\n5\t51\n");
    server.query("OPTIMIZE TABLE t FINAL").unwrap();
    assert_eq!(server.query(newest).unwrap(), "1\t10\n2\t20\n4\t40\n5\t51\n", "merged");
    assert_eq!(open_with(&server, config).await.map(|_| ()).map_err(|faults| format!("{faults:?}")), Ok(()));
}

#[tokio::test]
async fn rows_of_one_batch_that_are_replaced_are_those_that_a_merge_would_drop() {
    let server = server_or_skip!();
    for name in ["all", "newest"] {
        let statement =
            "(id Int32, v Int32, gone UInt8, at Int64) ENGINE = ReplacingMergeTree(at, gone) ORDER BY id";
        server.query(&format!("CREATE TABLE {name} {statement} {WINDOW}")).unwrap();
    }
    let config = |name| TableConfig {
        upsert: Some(by_key(Some("at"), Some("gone"))),
        ..TableConfig::new("default", name)
    };
    let (all, newest) = (
        open_with(&server, config("all")).await.unwrap(),
        open_with(&server, config("newest")).await.unwrap(),
    );
    assert!(all.order_dependent(), "rows may have the same version");
    let count = 500;
    let ids: Vec<i32> = (0..count).map(|n| n * 7_919 % 37).collect();
    let at: Vec<i64> = (0..count).map(|n| i64::from(n * 104_729 % 11) - 5).collect();
    let deleted: Vec<bool> = (0..count).map(|n| n % 13 == 0).collect();
    let values: Vec<i32> = (0..count).collect();
    let rows = keyed(&ids, &values, &deleted, ("at", Arc::new(Int64Array::from(at))));
    let given = [Selected::all(rows.clone())];
    let replaced = newest.replaced(&given).unwrap();
    assert_eq!(replaced.len(), 500 - 37, "one row of each key is left");
    let left = [given[0].except(&replaced)];
    for (table, rows) in [(&all, &given), (&newest, &left)] {
        let frame = table.encode(rows, &mut || FrameId(1)).unwrap().remove(0);
        send(table, "a", &frame.body).await.unwrap();
    }
    let of = |name: &str| server.query(&format!("SELECT * FROM {name} FINAL ORDER BY id")).unwrap();
    assert_eq!(of("newest"), of("all"));
    assert!(of("all").lines().count() > 20, "{}", of("all"));
}

#[tokio::test]
async fn a_new_journal_does_not_begin_below_the_versions_of_the_table() {
    let server = server_or_skip!();
    server
        .query(&format!(
            "CREATE TABLE t (id Int32, _version UInt64) ENGINE = ReplacingMergeTree(_version) ORDER BY id {WINDOW}"
        ))
        .unwrap();
    let config = TableConfig { upsert: Some(by_key(None, None)), ..TableConfig::new("default", "t") };
    let table = open_with(&server, config).await.unwrap();
    assert!(table.may_object_to_first_start());
    assert_eq!(table.objects_to_first_start().await.unwrap(), None, "it is empty");
    server.query("INSERT INTO t SELECT 1, bitShiftLeft(toUInt64(1700000000000), 20)").unwrap();
    assert_eq!(table.objects_to_first_start().await.unwrap(), None, "the clock has passed them");
    server.query("INSERT INTO t SELECT 2, bitShiftLeft(toUInt64(4000000000000), 20)").unwrap();
    let why = table.objects_to_first_start().await.unwrap().expect("the clock is behind");
    assert!(why.contains("so that its rows would never replace those"), "{why}");
}
