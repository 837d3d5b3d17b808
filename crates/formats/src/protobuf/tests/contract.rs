//! What the specification says of fields that come in several pieces or in another order, and what is refused.

use dataflow::{BlockBuilder, Decoder, Partition, Reason, Schema};

use super::super::Writers;
use super::{ConfigError, ProtobufDecoder, ProtobufOptions, decode, decoder, decoder_of, hex, one, types};
use crate::columns::ColumnsError;
use crate::testing::{row, schema};

fn refusal(body: &str, columns: &[&str]) -> String {
    decoder_of("proto2", body, columns).expect_err("the columns cannot be filled").to_string()
}

#[test]
fn the_last_of_several_values_counts_in_whatever_order_fields_come() {
    let decoder =
        decoder("int32 a = 1; string b = 2; double c = 3;", &["a Int32", "b String", "again Int64 <- a"]);
    // b, a, an unneeded c, b again, a again.
    let bytes = hex("12 01 78 08 07 19 0000000000000000 12 02 7979 08 ffffffffffffffffff01");
    assert_eq!(one(&decoder, &bytes).unwrap(), ["-1", r#""yy""#, "-1"]);
}

#[test]
fn pieces_of_a_message_are_merged() {
    let body = "message S { int32 a = 1; repeated int32 l = 2; message T { string x = 1; string y = 2; } T t = 3; } S s = 1;
        google.protobuf.Timestamp at = 2; google.protobuf.Int32Value w = 3;";
    let columns = [
        "a Int32 <- s.a",
        "l Array(Int32) <- s.l",
        "x String <- s.t.x",
        "y String <- s.t.y",
        "at DateTime64(3)",
        "w Nullable(Int32)",
    ];
    let decoder = decoder(body, &columns);
    // s {a 1, l [1, 2] packed, t {x "p"}}, s {a 5, l 3 unpacked, t {y "q"}}, at {seconds 1}, at {nanos 2e6}, w {4}, w {}.
    let bytes = hex(
        "0a0b 0801 12020102 1a03 0a0170  0a09 0805 1003 1a03 120171  1202 0801 1204 10 80897a  1a02 0804 1a00",
    );
    assert_eq!(one(&decoder, &bytes).unwrap(), ["5", "[1, 2, 3]", r#""p""#, r#""q""#, "1002", "4"]);
}

#[test]
fn of_a_oneof_only_the_last_field_counts_even_if_no_column_takes_it() {
    let body = "message S { int32 a = 1; repeated int32 l = 2; int32 b = 3; } oneof o { int32 i = 1; S s = 2; string t = 3; bytes none = 4; } int32 z = 5;";
    let columns = [
        "i Nullable(Int32)",
        "a Nullable(Int32) <- s.a",
        "l Array(Int32) <- s.l",
        "t Nullable(String)",
        "b Nullable(Int32) <- s.b",
    ];
    let decoder = decoder(body, &columns);
    let null = "NULL";
    for (bytes, expected) in [
        ("0807", ["7", null, "[]", null, null]),
        ("0807 1204 0801 1002", [null, "1", "[2]", null, "0"]),
        ("1204 0801 1002 0807", ["7", null, "[]", null, null]),
        // The same member twice is merged, unless another came between.
        ("1202 0801 1202 1002", [null, "1", "[2]", null, "0"]),
        ("1204 0801 1002 0807 1202 1803", [null, "0", "[]", null, "3"]),
        ("0807 1a0178", [null, null, "[]", r#""x""#, null]),
        ("0807 220178", [null, null, "[]", null, null]),
        ("2801", [null, null, "[]", null, null]),
    ] {
        assert_eq!(one(&decoder, &hex(bytes)).unwrap(), expected, "{bytes}");
    }
}

#[test]
fn unknown_fields_and_groups_are_skipped() {
    let decoder = decoder("int32 a = 1;", &["a Int32"]);
    // A varint, eight bytes, a text, four bytes, a group with another within, and a field whose number has four bytes.
    let unknown =
        ["10 01", "19 0000000000000000", "22 01 78", "2d 00000000", "33 3b 08 01 3c 0a 00 34", "8080804002"];
    for unknown in unknown {
        for bytes in [format!("{unknown} 0807"), format!("0807 {unknown}")] {
            assert_eq!(one(&decoder, &hex(&bytes)).unwrap(), ["7"], "{bytes}");
        }
    }
    let groups = |count: usize| [vec![0x33; count], vec![0x34; count], vec![8, 7]].concat();
    assert_eq!(one(&decoder, &groups(100)).unwrap(), ["7"]);
    let fault = one(&decoder, &groups(101)).unwrap_err();
    assert_eq!(fault, "malformed: byte `100`: groups nest deeper than `100`");
    for (bytes, expected) in [
        ("33", "byte `1`: the group of field number `6` does not end"),
        ("33 3c", "byte `1`: the group of field number `6` ends as one of `7`"),
        ("34", "byte `1`: field number `6` is in the encoding `4`, which begins no value"),
        (
            "0e",
            "byte `0`, field `a`: the value is written as no encoding, and the schema has a type that is written as a varint; was it written with another schema?",
        ),
    ] {
        assert_eq!(one(&decoder, &hex(bytes)).unwrap_err(), format!("malformed: {expected}"));
    }
}

#[test]
fn of_entries_with_one_key_the_last_counts() {
    let body = "map<string, int32> t = 1; map<sint32, string> n = 2;";
    let decoder = decoder(body, &["t Map(String, Int32)", "n Map(Int32, String)"]);
    let bytes = hex(
        "0a05 0a0161 1001  0a05 0a0162 1002  0a05 1003 0a0161  0a02 1009  0a00  1205 0801 120178  1203 120179  1205 0801 12017a",
    );
    assert_eq!(one(&decoder, &bytes).unwrap(), [r#"{"b": 2, "a": 3, "": 0}"#, r#"{0: "y", -1: "z"}"#]);
}

#[test]
fn a_record_that_fails_leaves_its_neighbours_alone() {
    let body = "int32 a = 1; repeated string l = 2; map<string, int32> m = 3; string s = 4;";
    let decoder = decoder(body, &["a Int8", "l Array(String)", "m Map(String, Int8)", "s String"]);
    let good = hex("0805 1201 78 1a05 0a0161 1001 2201 79");
    for (bytes, expected) in [
        ("08ac02", "out_of_range: field `a`: value `300` does not fit Int8 (-128 to 127)"),
        ("1201 78 1201 ff", "malformed: byte `5`, field `l`: byte `0xff` of a string is not UTF-8"),
        (
            "1201 78 1a06 0a0161 10ac02",
            "out_of_range: field `m`: value `300` does not fit Int8 (-128 to 127)",
        ),
        ("1a03 0801 10", "malformed: byte `2`, field `m`: the entry's part is written as another type"),
        (
            "2205 78",
            "malformed: byte `1`, field `s`: a value of `5` bytes does not fit the `1` that are left",
        ),
        ("08", "malformed: byte `1`, field `a`: the message ends before its last field"),
        ("0880", "malformed: byte `1`, field `a`: the number does not end within the message"),
        ("08 ffffffffffffffffff02", "malformed: byte `1`, field `a`: the number has more than 64 bits"),
        ("00", "malformed: byte `0`: `0` is no key of a field"),
        (
            "0d 00000000",
            "malformed: byte `0`, field `a`: the value is written as 4 bytes, and the schema has a type that is written as a varint; was it written with another schema?",
        ),
    ] {
        let decoded = decode(&decoder, &[&good, &hex(bytes), &good]);
        let [reject] = &decoded.rejects[..] else { panic!("{bytes}: {} rejects", decoded.rejects.len()) };
        assert_eq!(format!("{}: {}", reject.reason.as_str(), reject.message), expected);
        let whole = ["5", r#"["x"]"#, r#"{"a": 1}"#, r#""y""#];
        assert_eq!([row(&decoded, 0), row(&decoded, 1)], [whole, whole]);
    }
}

#[test]
fn columns_that_the_schema_can_never_fill_are_refused_with_field_and_type() {
    for (body, columns, expected) in [
        (
            "optional int64 v = 1;",
            "v UUID",
            "field `v`, column `v`: the schema has int64, and UUID does not take an integer",
        ),
        (
            "repeated double v = 1;",
            "v Array(Decimal(9, 2))",
            "field `v`, column `v`: the schema has double, and Decimal does not take a float",
        ),
        (
            "repeated int32 v = 1;",
            "v Int32",
            "field `v`, column `v`: the schema has repeated int32, and Int32 does not take an array",
        ),
        (
            "optional int32 v = 1;",
            "v Array(Int32)",
            "field `v`, column `v`: the schema has int32, and Array does not take an integer",
        ),
        (
            "map<string, int32> v = 1;",
            "v Array(String)",
            "field `v`, column `v`: the schema has map<string, int32>, and Array does not take a map",
        ),
        (
            "map<int32, int32> v = 1;",
            "v Map(String, Int32)",
            "field `v`, column `v`: the schema has int32, and String does not take an integer",
        ),
        (
            "optional int32 v = 1;",
            "w Int64 <- other",
            "field `other`, column `w`: the schema does not have it, and the column has neither NULL nor a DEFAULT",
        ),
        (
            "optional int32 v = 1;",
            "w Int64 <- v.x",
            "field `v.x`, column `w`: the column is filled from inside of a message, and the schema has int32",
        ),
        (
            "message S { optional int32 x = 1; } repeated S v = 1;",
            "w Int64 <- v.x",
            "field `v.x`, column `w`: the column is filled from inside of a message, and the schema has repeated message p.M.S",
        ),
        (
            "message S { optional int32 x = 1; } optional S v = 1;",
            "v String",
            "field `v`, column `v`: the schema has message p.M.S, which no column takes whole; name a field in it, as in `v.name`",
        ),
        (
            "optional group V = 1 { optional int32 x = 1; }",
            "w Int64 <- v.x",
            "field `v.x`, column `w`: the column is filled from inside of a message, and the schema has a group",
        ),
        (
            "enum K { A = 1; } optional K v = 1;",
            "v Date",
            "field `v`, column `v`: the schema has enum p.M.K, whose names fill String and Enum and whose numbers fill integers; Date takes neither",
        ),
        (
            "optional google.protobuf.Timestamp v = 1;",
            "v Int64",
            "field `v`, column `v`: the schema has google.protobuf.Timestamp, which is no number; name a field in it, as in `v.seconds`",
        ),
        (
            "optional google.protobuf.Timestamp v = 1;",
            "v String",
            "field `v`, column `v`: the schema has message google.protobuf.Timestamp, and String does not take a timestamp",
        ),
        (
            "optional google.protobuf.Duration v = 1;",
            "v DateTime",
            "field `v`, column `v`: the schema has google.protobuf.Duration, whose seconds fill Decimal, floats and, if they are whole, integers; DateTime is none of them",
        ),
        (
            "optional google.protobuf.BoolValue v = 1;",
            "v Date",
            "field `v`, column `v`: the schema has bool, and Date does not take a boolean",
        ),
    ] {
        assert_eq!(refusal(body, &[columns]), expected);
    }
    let types = types("proto3", "int32 v = 1;");
    let options = ProtobufOptions::default;
    let found = ProtobufDecoder::new(schema(&["v Int8"]), &types, "p.N", options()).unwrap_err();
    assert_eq!(found.to_string(), "no message `p.N`; there are `p.M`");
    let found = ProtobufDecoder::new(Schema::new(Vec::new()), &types, "p.M", options()).unwrap_err();
    assert_eq!(found, ConfigError::from(ColumnsError::NoColumns));
    let found = ProtobufDecoder::new(schema(&["v Int8", "v Int8"]), &types, "p.M", options()).unwrap_err();
    assert_eq!(found, ConfigError::from(ColumnsError::ColumnTwice { column: "v".into() }));
    let zone = ProtobufOptions { assume_timezone: "Mars/Phobos".into(), ..options() };
    let found = ProtobufDecoder::new(schema(&["v Int8"]), &types, "p.M", zone).unwrap_err();
    assert_eq!(found, ConfigError::from(ColumnsError::Zone { zone: "Mars/Phobos".into() }));
}

#[test]
fn what_is_required_and_was_not_sent_is_a_reject() {
    let body = "message S { required int32 a = 1; optional int32 b = 2; } optional S s = 1;";
    let decoder =
        decoder_of("proto2", body, &["a Nullable(Int32) <- s.a", "b Nullable(Int32) <- s.b"]).unwrap();
    assert_eq!(one(&decoder, &hex("0a02 0801")).unwrap(), ["1", "NULL"]);
    // Without the message there is nothing that requires it.
    assert_eq!(one(&decoder, &[]).unwrap(), ["NULL", "NULL"]);
    let fault = one(&decoder, &hex("0a02 1001")).unwrap_err();
    assert_eq!(fault, "missing: field `s.a` is missing, and the schema requires it");
}

#[test]
fn blocks_of_numbers_are_read_column_by_column_with_the_same_result() {
    let body = "int32 a = 1; sint64 b = 2; double c = 3; float d = 4; fixed64 e = 5; uint32 f = 6; int64 at = 7; string other = 8;";
    let columns =
        ["a Int16", "b Int64", "c Float64", "d Float32", "e UInt64", "f UInt32", "at DateTime64(3)"];
    let flat = decoder(body, &columns);
    let with_more: Vec<_> = columns.into_iter().chain(["other String"]).collect();
    let each = decoder(body, &with_more);
    let is_short =
        |decoder: &ProtobufDecoder| matches!(&decoder.writers, Writers::One(plan) if plan.flat.is_some());
    assert!(is_short(&flat) && !is_short(&each));
    let records: Vec<Vec<u8>> = [
        "0807 1001 19 000000000000f03f 25 0000c03f 29 0100000000000000 3005 38808088f7ce33",
        "",
        "08ffffffffffffffffff01 10ffffffffffffffffff01 420178",
        "3807 0801 0802",
        "29 ffffffffffffffff",
        "08808004",
        "19",
    ]
    .map(hex)
    .into();
    for some in [&records[..4], &records[..5], &records[..], &records[4..5]] {
        let (one, other) = (decode(&flat, some), decode(&each, some));
        assert_eq!(one.rejects, other.rejects);
        for n in 0..one.batch.rows.num_rows() {
            assert_eq!(row(&one, n), row(&other, n)[..7]);
        }
    }
}

#[test]
fn a_record_without_a_body_or_longer_than_allowed_is_a_reject() {
    let types = types("proto3", "int32 v = 1;");
    let options = ProtobufOptions { record_bytes_max: 4, ..ProtobufOptions::default() };
    let decoder = ProtobufDecoder::new(schema(&["v Int8"]), &types, "p.M", options).unwrap();
    let mut builder = BlockBuilder::new(Partition::new("t", 0), 0);
    builder.push(0, 0, Some(&[8, 1]));
    builder.push(1, 0, None);
    builder.push(2, 0, Some(&[8, 1, 8, 2, 8]));
    let decoded = decoder.decode(&builder.take());
    let reasons: Vec<_> = decoded.rejects.iter().map(|reject| reject.reason).collect();
    assert_eq!((reasons, decoded.batch.positions), (vec![Reason::NoBody, Reason::TooLarge], vec![0]));
}
