use dataflow::Decoder;
use testkit::Fuzz;

use super::*;
use crate::avro::tests::written::{hex, long, sized};
use crate::avro::{AvroDecoder, AvroOptions};
use crate::json::{JsonDecoder, JsonOptions};
use crate::testing::{block, row, schema};

/// The schema of a record with these fields.
fn of(fields: &str) -> RecordSchema {
    RecordSchema::read(&text_of(fields)).unwrap()
}

fn text_of(fields: &str) -> String {
    format!(r#"{{"type": "record", "name": "r", "fields": [{fields}]}}"#)
}

/// The schema of a record whose field `v` has this type.
fn of_type(json: &str) -> RecordSchema {
    of(&format!(r#"{{"name": "v", "type": {json}}}"#))
}

fn json(schema: &RecordSchema, record: &[u8]) -> Result<String, String> {
    let mut out = Vec::new();
    match schema.to_json(record, 0, (&mut out, 1 << 20)) {
        Ok(end) => {
            assert_eq!(Ok(end), schema.end_of(record, 0), "both ends are the same");
            Ok(String::from_utf8(out).unwrap())
        }
        Err(NoJson::Refused(why)) => Err(why),
        Err(NoJson::TooLong) => panic!("it is short"),
    }
}

fn number(value: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    long(value, &mut bytes);
    bytes
}

fn text(value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    sized(value, &mut bytes);
    bytes
}

#[test]
fn a_record_ends_where_its_last_field_does() {
    let schema = of(r#"{"name": "a", "type": "string"}, {"name": "b", "type": ["null", "int"]}"#);
    let bytes = [text(b"one"), number(0), text(b""), number(1), number(-7), vec![9, 9]].concat();
    assert_eq!(schema.end_of(&bytes, 0), Ok(5));
    assert_eq!(schema.end_of(&bytes, 5), Ok(8));
    assert_eq!(
        schema.end_of(&bytes, 8),
        Err("byte `0`, field `a`: a string cannot have `-5` bytes".to_owned())
    );
    assert_eq!(
        schema.end_of(&bytes, bytes.len()).unwrap_err(),
        "byte `0`, field `a`: the record ends before its last field"
    );
    assert!(RecordSchema::read("\"int\"").unwrap_err().to_string().contains("a pipeline reads records"));
}

#[test]
fn a_schema_of_which_no_record_can_exist_is_refused_with_its_field() {
    let message =
        |fields: &str| RecordSchema::read(&text_of(fields)).map(drop).map_err(|error| error.to_string());
    let inner = r#"{"type": "record", "name": "s", "fields": [{"name": "r", "type": "r"}]}"#;
    for fields in [
        r#"{"name": "n", "type": "int"}, {"name": "v", "type": "r"}"#.to_owned(),
        r#"{"name": "v", "type": ["r"]}"#.to_owned(),
        format!(r#"{{"name": "v", "type": {inner}}}"#),
    ] {
        let refused = message(&fields).expect_err("no record ends");
        assert!(
            refused.contains("field `v`: a record there holds itself")
                && refused.contains("a union of `null`"),
            "{refused}"
        );
    }
    // The way out.
    for field in [r#"["null", "r"]"#, r#"{"type": "array", "items": "r"}"#] {
        assert_eq!(message(&format!(r#"{{"name": "v", "type": {field}}}"#)), Ok(()));
    }
}

/// What a pipeline that reads JSON makes of the record is what one that reads Avro does.
#[test]
fn each_type_has_a_form_in_json_that_fills_the_same_columns() {
    let instant = |unit: &str| format!(r#"{{"type": "long", "logicalType": "timestamp-{unit}"}}"#);
    let decimal = r#"{"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3}"#;
    for (avro, column, bytes, expected) in [
        ("\"boolean\"", "Bool", vec![1], "true"),
        ("\"int\"", "Int32", number(-70_000), "-70000"),
        ("\"long\"", "Int64", number(i64::MIN), "-9223372036854775808"),
        ("\"float\"", "Float32", 0.1f32.to_le_bytes().to_vec(), "0.10000000149011612"),
        ("\"double\"", "Float64", 1e300f64.to_le_bytes().to_vec(), "1e300"),
        ("\"double\"", "Float64", f64::NEG_INFINITY.to_le_bytes().to_vec(), "\"-inf\""),
        ("\"double\"", "Float64", f64::NAN.to_le_bytes().to_vec(), "\"nan\""),
        ("\"string\"", "String", text("a\"\n\u{e9}".as_bytes()), "\"a\\\"\\n\u{e9}\""),
        ("\"bytes\"", "String", text(b"ab"), "\"ab\""),
        (r#"{"type": "fixed", "name": "f", "size": 2}"#, "FixedString(2)", b"xy".to_vec(), "\"xy\""),
        (
            r#"{"type": "enum", "name": "e", "symbols": ["A", "B"]}"#,
            "Enum8('A' = 1, 'B' = 2)",
            number(1),
            "\"B\"",
        ),
        (decimal, "Decimal(20, 3)", text(&(-7i64).to_be_bytes()), "-0.007"),
        (decimal, "Decimal(20, 3)", text(&123_456i64.to_be_bytes()), "123.456"),
        (decimal, "Decimal(20, 3)", text(b""), "0.000"),
        (
            r#"{"type": "fixed", "name": "u", "size": 16, "logicalType": "uuid"}"#,
            "UUID",
            (0..16).collect(),
            "\"00010203-0405-0607-0809-0a0b0c0d0e0f\"",
        ),
        (r#"{"type": "int", "logicalType": "date"}"#, "Date32", number(-1), "\"1969-12-31\""),
        (&instant("millis"), "DateTime64(3)", number(1_714_558_830_500), "\"2024-05-01T10:20:30.5Z\""),
        (&instant("micros"), "DateTime64(6)", number(-1), "\"1969-12-31T23:59:59.999999Z\""),
        (&instant("nanos"), "DateTime64(9)", number(1), "\"1970-01-01T00:00:00.000000001Z\""),
        (
            r#"{"type": "long", "logicalType": "local-timestamp-millis"}"#,
            "DateTime64(3)",
            number(0),
            "\"1970-01-01T00:00:00\"",
        ),
        (r#"{"type": "array", "items": "int"}"#, "Array(Int32)", vec![4, 2, 4, 0], "[1,2]"),
        (
            r#"{"type": "map", "values": "int"}"#,
            "Map(String, Int32)",
            [vec![2], text(b"k"), number(5), vec![0]].concat(),
            "{\"k\":5}",
        ),
        (r#"["null", "long"]"#, "Nullable(Int64)", number(0), "null"),
    ] {
        let written = json(&of_type(avro), &bytes).unwrap_or_else(|why| panic!("{avro}: {why}"));
        assert_eq!(written, format!("{{\"v\":{expected}}}"), "{avro}");
        let columns = [format!("v {column}")];
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let fields = format!(r#"{{"name": "v", "type": {avro}}}"#);
        let of_avro = AvroDecoder::new(schema(&columns), &text_of(&fields), AvroOptions::default()).unwrap();
        let of_json = JsonDecoder::new(schema(&columns), JsonOptions::default()).unwrap();
        let (one, two) = (of_avro.decode(&block(&[&bytes])), of_json.decode(&block(&[written.as_bytes()])));
        assert_eq!((one.rejects.len(), two.rejects.len()), (0, 0), "{avro}: {:?}", two.rejects);
        assert_eq!(row(&one, 0), row(&two, 0), "{avro}");
    }
}

#[test]
fn the_first_and_the_last_day_and_time_have_a_text() {
    let text = |avro: &str, value: i64| json(&of_type(avro), &number(value)).unwrap();
    let date = r#"{"type": "int", "logicalType": "date"}"#;
    assert!(text(date, 2_932_896).contains("\"9999-12-31\""));
    assert!(text(date, -719_528).contains("\"0000-01-01\""));
    let time = r#"{"type": "long", "logicalType": "timestamp-millis"}"#;
    assert!(text(time, 253_402_300_799_999).contains("\"9999-12-31T23:59:59.999Z\""));
    assert!(text(time, -62_167_219_200_000).contains("\"0000-01-01T00:00:00Z\""));
    assert!(text(time, -1).contains("\"1969-12-31T23:59:59.999Z\""));
    assert!(json(&of_type(time), &number(253_402_300_800_000)).is_err());
}

#[test]
fn what_json_cannot_hold_is_refused_with_the_way_out() {
    let refused = json(&of_type("\"bytes\""), &text(b"\xff")).unwrap_err();
    assert!(refused.contains("not UTF-8") && refused.contains("`format: avro` takes them"), "{refused}");
    let date = of_type(r#"{"type": "int", "logicalType": "date"}"#);
    assert!(json(&date, &number(i32::MAX.into())).unwrap_err().contains("no date of the years 0 to 9999"));
    assert!(json(&date, &number(2_932_897)).is_err() && json(&date, &number(-719_529)).is_err());
    let nulls = of_type(r#"{"type": "array", "items": "null"}"#);
    let many = [number(1 << 60), vec![0]].concat();
    assert!(json(&nulls, &many).unwrap_err().contains("items without bytes"));
    assert_eq!(nulls.end_of(&many, 0), Ok(many.len()), "nothing is done for each of them");
    let deep = of_type(r#"["null", "r"]"#);
    assert!(json(&deep, &vec![2; 1_000]).unwrap_err().contains("nest deeper than"));
    let mut out = Vec::new();
    let names = of_type(
        r#"{"type": "array", "items": {"type": "record", "name": "long_name_of_it", "fields": [{"name": "a_long_name", "type": "boolean"}]}}"#,
    );
    let items = [number(200), vec![1; 200], vec![0]].concat();
    assert_eq!(names.to_json(&items, 0, (&mut out, 1_000)), Err(NoJson::TooLong));
    assert!(out.len() <= 1_000, "{}", out.len());
}

#[test]
fn schemas_are_the_same_if_their_records_are() {
    let own = of(
        r#"{"name": "a", "type": "long", "doc": "x", "default": 1}, {"name": "in", "type": {"type": "record", "name": "i", "fields": [
        {"name": "k", "type": {"type": "enum", "name": "k", "symbols": ["A", "B"]}}, {"name": "next", "type": ["null", "i"]}]}}"#,
    );
    let same = of(
        r#"{"name": "a", "type": {"type": "long"}}, {"name": "in", "type": {"type": "record", "name": "other", "namespace": "n", "fields": [
        {"name": "k", "type": {"type": "enum", "name": "kk", "symbols": ["A", "B"]}}, {"name": "next", "type": ["null", "n.other"]}]}}"#,
    );
    assert_eq!(own.difference(&same), None);
    let of_two = |first: &str, second: &str| {
        own.difference(&of(&format!("{first}, {second}"))).expect("it is another one")
    };
    let (a, inner) = (
        r#"{"name": "a", "type": "long"}"#,
        r#"{"name": "in", "type": {"type": "record", "name": "i", "fields": [@]}}"#,
    );
    for (first, second, expected) in [
        (r#"{"name": "a", "type": "int"}"#, inner, "field `a`: it is int instead of long"),
        (
            r#"{"name": "a", "type": {"type": "long", "logicalType": "timestamp-millis"}}"#,
            inner,
            "field `a`: it is timestamp-millis instead of long",
        ),
        (a, r#"{"name": "out", "type": "int"}"#, "its field number 2 is `out` instead of `in`"),
        (
            a,
            &inner.replace('@', r#"{"name": "k", "type": {"type": "enum", "name": "k", "symbols": ["A"]}}"#),
            "field `in.k`: its enum has other symbols, another size or another scale",
        ),
        (
            a,
            &inner.replace(
                '@',
                r#"{"name": "k", "type": {"type": "enum", "name": "k", "symbols": ["A", "B"]}}"#,
            ),
            "field `in`: its field number 2 is nothing instead of `next`",
        ),
        (
            a,
            r#"{"name": "in", "type": ["null", "int"]}, {"name": "more", "type": "int"}"#,
            "field `in`: it is union of null, int instead of record",
        ),
    ] {
        assert_eq!(of_two(first, &second.replace('@', "")), expected);
    }
}

/// Whatever the bytes are: the record ends within them or is none, its JSON is an object of the same record, and no memory is taken for what is not there.
#[test]
fn fuzz_avro_record_as_json() {
    let schema = of(r#"{"name": "text", "type": ["null", "string"]},
        {"name": "list", "type": {"type": "array", "items": ["null", "long"]}},
        {"name": "tree", "type": {"type": "record", "name": "tree", "fields": [{"name": "all", "type": {"type": "array", "items": ["tree", "bytes", "float"]}}]}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 4}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}}"#);
    let good = [
        number(1),
        text(b"a"),
        number(1),
        number(1),
        number(7),
        vec![0],
        hex("0202"),
        text(b"b"),
        vec![0],
        text(&[1, 2]),
        number(9),
        number(3),
    ]
    .concat();
    assert_eq!(
        json(&schema, &good).unwrap(),
        r#"{"text":"a","list":[7],"tree":{"all":["b"]},"price":0.0258,"at":"1970-01-01T00:00:00.000009Z","day":"1970-01-04"}"#
    );
    Fuzz::new("avro record as JSON").example(&good).memory_max(64 << 10, 64).run(6_000, |bytes| {
        let mut out = Vec::with_capacity(4 << 10);
        match schema.to_json(bytes, 0, (&mut out, 4 << 10)) {
            Ok(end) => {
                assert!(end <= bytes.len());
                assert!(serde_json::from_slice::<serde_json::Value>(&out).unwrap().is_object());
            }
            Err(NoJson::Refused(why)) => assert!(!why.is_empty() && why.len() < 2_000),
            Err(NoJson::TooLong) => assert!(out.len() <= 4 << 10),
        }
        if let Ok(end) = schema.end_of(bytes, 0) {
            assert!(end <= bytes.len());
        }
    });
}
