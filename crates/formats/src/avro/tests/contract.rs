//! What holds for whole records, whole blocks, and schemas that do not fit the columns.

use arrow_array::Array;
use dataflow::{BlockBuilder, Column, Decoder, Partition, Reason, Schema};

use super::written::{hex, long, sized};
use super::{AvroDecoder, AvroOptions, ConfigError, decode, decoder, one, record};
use crate::columns::ColumnsError;
use crate::testing::{column_type, row, schema};

fn refusal(fields: &str, columns: &[&str]) -> String {
    decoder(fields, columns).expect_err("the columns cannot be filled").to_string()
}

#[test]
fn fields_fill_columns_by_name_in_any_order_and_others_are_skipped() {
    let fields = r#"{"name": "skipped", "type": "string"}, {"name": "b", "type": "int"}, {"name": "list", "type": {"type": "array", "items": "long"}},
        {"name": "a", "type": "string"}, {"name": "pair", "type": {"type": "record", "name": "p", "fields": [{"name": "x", "type": "float"}]}}"#;
    let decoder = decoder(fields, &["a String", "c Nullable(Int8)", "b Int32", "again Int64 <- b"]).unwrap();
    let mut bytes = Vec::new();
    sized(b"never mind", &mut bytes);
    long(7, &mut bytes);
    long(2, &mut bytes);
    long(1, &mut bytes);
    long(-1, &mut bytes);
    long(0, &mut bytes);
    sized(b"text", &mut bytes);
    bytes.extend(1.5f32.to_le_bytes());
    assert_eq!(one(&decoder, &bytes).unwrap(), [r#""text""#, "NULL", "7", "7"]);
}

#[test]
fn a_dotted_name_takes_the_field_of_a_record_within() {
    let user = r#"{"name": "user", "type": ["null", {"type": "record", "name": "u", "fields": [
        {"name": "id", "type": "long"}, {"name": "skip", "type": "string"},
        {"name": "home", "type": {"type": "record", "name": "h", "fields": [{"name": "city", "type": "string"}]}}]}]}"#;
    let columns = ["id Nullable(Int64) <- user.id", "city String DEFAULT <- user.home.city"];
    let decoder = decoder(user, &columns).unwrap();
    assert_eq!(one(&decoder, &hex("020e027808526f6d65")).unwrap(), ["7", r#""Rome""#]);
    // Null stands for an absent record.
    assert_eq!(one(&decoder, &[0]).unwrap(), ["NULL", "NULL"]);
    let required = super::decoder(user, &["id Int64 <- user.id"]).unwrap();
    let expected = "missing: field `user.id` is missing, and its column has neither NULL nor a DEFAULT";
    assert_eq!(one(&required, &[0]).unwrap_err(), expected);
    let fault = one(&decoder, &hex("020e027808526fff65")).unwrap_err();
    assert_eq!(fault, "malformed: byte `7`, field `user.home.city`: byte `0xff` of a string is not UTF-8");
}

#[test]
fn a_union_of_records_fills_each_column_once_whatever_the_branch() {
    let fields = r#"{"name": "e", "type": [
        {"type": "record", "name": "a", "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "string"}]},
        {"type": "record", "name": "b", "fields": [{"name": "y", "type": "string"}]}]}"#;
    let decoder = decoder(fields, &["x Nullable(Int32) <- e.x", "y String <- e.y"]).unwrap();
    assert_eq!(one(&decoder, &hex("000e0261")).unwrap(), ["7", r#""a""#]);
    assert_eq!(one(&decoder, &hex("020262")).unwrap(), ["NULL", r#""b""#]);
    let fault = one(&decoder, &hex("04")).unwrap_err();
    assert_eq!(fault, "malformed: byte `0`, field `e`: branch number `2` is not one of the schema's `2`");
}

#[test]
fn a_union_that_names_a_type_twice_is_refused() {
    let fields = r#"{"name": "a", "type": {"type": "enum", "name": "e", "symbols": ["x"]}}, {"name": "b", "type": ["e", "null", "e"]}"#;
    assert!(refusal(fields, &["b String"]).contains("a union has the same type twice"));
}

#[test]
fn columns_that_the_schema_can_never_fill_are_refused_with_field_and_type() {
    let long = r#"{"name": "v", "type": "long"}"#;
    for (fields, columns, expected) in [
        (long, "v UUID", "field `v`, column `v`: the schema has long, and UUID does not take an integer"),
        (
            r#"{"name": "v", "type": ["null", "string", "boolean"]}"#,
            "v String",
            "field `v`, column `v`: the schema has boolean, and String does not take a boolean",
        ),
        (
            r#"{"name": "v", "type": {"type": "array", "items": "double"}}"#,
            "v Array(Decimal(9, 2))",
            "field `v`, column `v`: the schema has double, and Decimal does not take a float",
        ),
        (
            r#"{"name": "v", "type": {"type": "array", "items": "int"}}"#,
            "v Int32",
            "field `v`, column `v`: the schema has array, and Int32 does not take an array",
        ),
        (
            r#"{"name": "v", "type": {"type": "array", "items": "null"}}"#,
            "v Array(Nullable(Int8))",
            "field `v`, column `v`: the schema has an array whose items have no bytes, so that nothing bounds their number",
        ),
        (
            long,
            "w Int64 <- other",
            "field `other`, column `w`: the schema does not have it, and the column has neither NULL nor a DEFAULT",
        ),
        (
            long,
            "w Int64 <- v.x",
            "field `v.x`, column `w`: the column is filled from inside of a record, and the schema has long",
        ),
        (
            r#"{"name": "v", "type": {"type": "record", "name": "s", "fields": [{"name": "x", "type": "int"}]}}"#,
            "v String",
            "field `v`, column `v`: the schema has a record, which no column takes whole; name a field in it, as in `v.name`",
        ),
    ] {
        assert_eq!(refusal(fields, &[columns]), expected);
    }
    let options = AvroOptions::default;
    let found = AvroDecoder::new(schema(&["v Int8"]), r#""int""#, options()).unwrap_err();
    assert_eq!(found.to_string(), "the schema is of the type `int`; a pipeline reads records");
    let found = AvroDecoder::new(Schema::new(Vec::new()), &record(long), options()).unwrap_err();
    assert_eq!(found, ConfigError::from(ColumnsError::NoColumns));
    let found = AvroDecoder::new(schema(&["v Int8", "v Int8"]), &record(long), options()).unwrap_err();
    assert_eq!(found, ConfigError::from(ColumnsError::ColumnTwice { column: "v".into() }));
    let zone = AvroOptions { assume_timezone: "Mars/Phobos".into(), ..options() };
    let found = AvroDecoder::new(schema(&["v Int8"]), &record(long), zone).unwrap_err();
    assert_eq!(found, ConfigError::from(ColumnsError::Zone { zone: "Mars/Phobos".into() }));
}

#[test]
fn damaged_bytes_are_rejects_that_name_field_and_byte() {
    let fields = r#"{"name": "n", "type": "int"}, {"name": "t", "type": "string"}, {"name": "l", "type": {"type": "array", "items": "long"}},
        {"name": "f", "type": "boolean"}, {"name": "x", "type": "double"}"#;
    let decoder = decoder(fields, &["n Int32", "t String", "l Array(Int64)", "f Bool", "x Float64"]).unwrap();
    let good = "02 0261 040204 00 01 0000000000000000";
    for (bytes, expected) in [
        ("", "byte `0`, field `n`: the record ends before its last field"),
        ("80", "byte `0`, field `n`: the number does not end within the record"),
        ("ffffffffff7f", "byte `0`, field `n`: the number `-2199023255552` is beyond the 32 bits of an int"),
        ("ffffffffffffffffff7f", "byte `0`, field `n`: the number has more than 64 bits"),
        ("02 0861", "byte `1`, field `t`: a string of `4` bytes does not fit the `1` that are left"),
        ("02 0161", "byte `1`, field `t`: a string cannot have `-1` bytes"),
        (
            "02 feffffffffffffffff01",
            "byte `1`, field `t`: a string of `9223372036854775807` bytes does not fit the `0` that are left",
        ),
        ("02 02c3", "byte `2`, field `t`: byte `0xc3` of a string is not UTF-8"),
        ("02 0261 fefffffffffffff101", "byte `3`, field `l`: a block of"),
        (
            "02 0261 0602",
            "byte `3`, field `l`: a block of `3` items does not fit the `1` bytes that are left",
        ),
        ("02 0261 01 0602", "byte `4`, field `l`: a block of `3` bytes does not fit the `1` that are left"),
        ("02 0261 01 0402 00 01", "byte `6`, field `l`: a block of `2` bytes has `1`"),
        (
            "02 0261 ffffffffffffffffff01 00",
            "byte `3`, field `l`: a block of `9223372036854775808` items does not fit the `0` bytes that are left",
        ),
        ("02 0261 00 02", "byte `4`, field `f`: a boolean is 0 or 1, not `0x02`"),
        (
            "02 0261 00 01 00000000",
            "byte `5`, field `x`: a double of `8` bytes does not fit the `4` that are left",
        ),
        (
            "02 0261 00 01 0000000000000000 ff",
            "byte `13`: `1` bytes follow the record's last field; was it written with another schema?",
        ),
    ] {
        let good = hex(&good.replace(' ', ""));
        let bytes = hex(&bytes.replace(' ', ""));
        let decoded = decode(&decoder, &[&good[..], &bytes, &good]);
        let [reject] = &decoded.rejects[..] else { panic!("{bytes:02x?}: {:?}", decoded.rejects) };
        assert_eq!((reject.reason, reject.position), (Reason::Malformed, 101));
        assert!(reject.message.starts_with(expected), "{bytes:02x?}: {}", reject.message);
        assert_eq!(decoded.batch.positions, [100, 102]);
        assert_eq!(row(&decoded, 0), row(&decoded, 1));
        assert_eq!(row(&decoded, 0), ["1", r#""a""#, "[1, 2]", "true", "0.0"]);
    }
}

#[test]
fn a_skipped_value_is_as_bounded_as_one_that_is_read() {
    let fields = r#"{"name": "tree", "type": {"type": "record", "name": "t", "fields": [{"name": "child", "type": ["null", "t"]}]}},
        {"name": "nothing", "type": {"type": "array", "items": "null"}}, {"name": "v", "type": "int"}"#;
    let decoder = decoder(fields, &["v Int32"]).unwrap();
    let with = |depth: usize, nothing: &[i64]| {
        let mut bytes = vec![2; depth];
        bytes.push(0);
        nothing.iter().for_each(|n| long(*n, &mut bytes));
        long(7, &mut bytes);
        bytes
    };
    assert_eq!(one(&decoder, &with(3, &[0])).unwrap(), ["7"]);
    // Items without bytes cost nothing, however many they are.
    assert_eq!(one(&decoder, &with(0, &[i64::MAX, i64::MAX, 0])).unwrap(), ["7"]);
    let fault = one(&decoder, &with(10_000, &[0])).unwrap_err();
    assert!(fault.contains("values nest deeper than `128`"), "{fault}");
    assert!(fault.len() < 500, "{fault}");
}

#[test]
fn a_default_that_is_no_null_is_filled_in() {
    let column = |name: &str, type_name: &str, json: &str| Column {
        default: Some("x".into()),
        default_json: Some(json.into()),
        ..Column::new(name, column_type(type_name))
    };
    let columns = vec![
        column("list", "Array(Int8)", "[1, 2]"),
        column("map", "Map(String, Array(UInt64))", r#"{"a": [18446744073709551615]}"#),
        column("gone", "Array(String)", r#"["x"]"#),
    ];
    let fields = r#"{"name": "list", "type": ["null", {"type": "array", "items": "int"}]},
        {"name": "map", "type": ["null", {"type": "map", "values": {"type": "array", "items": "long"}}]}"#;
    let decoder = AvroDecoder::new(Schema::new(columns), &record(fields), AvroOptions::default()).unwrap();
    let default_map = r#"{"a": [18446744073709551615]}"#;
    assert_eq!(one(&decoder, &hex("0000")).unwrap(), ["[1, 2]", default_map, r#"["x"]"#]);
    assert_eq!(one(&decoder, &hex("0202060000")).unwrap()[0], "[3]");
}

#[test]
fn tombstones_and_long_records_are_rejects_and_the_rest_keeps_its_origin() {
    let options = AvroOptions { record_bytes_max: 4, ..AvroOptions::default() };
    let writer = record(r#"{"name": "v", "type": "int"}"#);
    let decoder = AvroDecoder::new(schema(&["v Int32"]), &writer, options).unwrap();
    let mut builder = BlockBuilder::new(Partition::new("readings", 0), 5);
    builder.push(5, 50, Some(&[2]));
    builder.push(6, 60, None);
    builder.push(8, 80, Some(&[0x80; 5]));
    builder.push(9, 90, Some(&[4]));
    let decoded = decoder.decode(&builder.take());
    assert_eq!((decoded.batch.positions, decoded.batch.times_ms), (vec![5, 9], vec![50, 90]));
    let rejects: Vec<_> = decoded.rejects.iter().map(|reject| (reject.position, reject.reason)).collect();
    assert_eq!(rejects, [(6, Reason::NoBody), (8, Reason::TooLarge)]);
    assert_eq!(decoded.batch.rows.column(0).len(), 2);
}
