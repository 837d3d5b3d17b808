//! What holds for whole records and whole blocks.

use arrow_array::Array;
use dataflow::{BlockBuilder, Column, ColumnType, Decoder, Partition, Reason, Schema};

use super::support::{block, column_type, decode, decoder, one, row, schema};
use crate::json::{DEPTH_MAX, JsonDecoder, JsonOptions};

/// One column of every way to hold values.
pub const EVERY_KIND: [&str; 14] = [
    "int Int32",
    "big Nullable(UInt64)",
    "float Nullable(Float64)",
    "flag Nullable(Bool)",
    "text Nullable(String)",
    "id Nullable(UUID)",
    "pad FixedString(4) DEFAULT",
    "time Nullable(DateTime64(3))",
    "price Nullable(Decimal(20, 4))",
    "kind Nullable(Enum8('a' = 1, 'b' = 2))",
    "list Array(Nullable(String)) DEFAULT",
    "map Map(String, Array(Int8)) DEFAULT",
    "deep Nullable(Int64) <- o.p.q",
    "tag LowCardinality(Nullable(String)) <- o.tag",
];

fn found(columns: &[&str], record: &str) -> String {
    let decoder = decoder(columns, JsonOptions::default());
    one(&decoder, record).map_or_else(|reject| reject, |row| row.join(", "))
}

#[test]
fn a_dotted_name_takes_the_flat_key_first_and_then_the_nested_one() {
    let columns = ["m Nullable(UInt8) <- request.method"];
    let missing = "NULL";
    for (record, expected) in [
        (r#"{"request.method": 1}"#, "1"),
        (r#"{"request": {"method": 2}}"#, "2"),
        (r#"{"request": {"path": "/", "method": 2, "x": {}}, "y": 1}"#, "2"),
        (r#"{"request.method": 1, "request": {"method": 2}}"#, "1"),
        (r#"{"request": {"method": 2}, "request.method": 1}"#, "1"),
        (r#"{"request": {"method": 2}, "request.method": null}"#, missing),
        (r#"{"request.method": null, "request": {"method": 2}}"#, missing),
        (r#"{"request": {"method": null}}"#, missing),
        (r#"{"request": {}}"#, missing),
        (r#"{"request": null}"#, missing),
        (r#"{}"#, missing),
        // What the flat key outdoes is no fault, wherever it stands.
        (r#"{"request": {"method": "x"}, "request.method": 1}"#, "1"),
        (r#"{"request.method": 1, "request": {"method": "x"}}"#, "1"),
        (r#"{"request": "GET /", "request.method": 1}"#, "1"),
        (r#"{"request.method": 1, "request": [2]}"#, "1"),
        // Alone it is one.
        (
            r#"{"request": {"method": "x"}}"#,
            "wrong_kind: field `request.method`: value `\"x\"` cannot be read as UInt8",
        ),
        (
            r#"{"request": {"method": 300}}"#,
            "out_of_range: field `request.method`: value `300` does not fit UInt8 (0 to 255)",
        ),
        (
            r#"{"request": "GET /"}"#,
            "wrong_kind: field `request.method`: value `\"GET /\"` is not an object, and the column is filled from \
             inside of it",
        ),
        // The object's rest must be well formed all the same.
        (
            r#"{"request.method": 1, "request": {"method": x}}"#,
            "malformed: byte `44`: expected a value, found `x`",
        ),
    ] {
        assert_eq!(found(&columns, record), expected, "{record}");
    }
}

#[test]
fn a_column_of_json_takes_the_objects_own_text_and_nothing_else() {
    let columns = ["a JSON <- o.attributes", "n Nullable(JSON)"];
    for (record, expected) in [
        (
            r#"{"o": {"attributes": {"k" : [1, {"x": null}],  "é\u00e9":"\n"} }}"#,
            r#""{\"k\" : [1, {\"x\": null}],  \"é\\u00e9\":\"\\n\"}", NULL"#,
        ),
        (r#"{"o.attributes": {}, "n": {"a":1}}"#, r#""{}", "{\"a\":1}""#),
        (
            r#"{"o": {"attributes": [1]}}"#,
            "wrong_kind: field `o.attributes`: value `[1]` cannot be read as JSON",
        ),
        (
            r#"{"o": {"attributes": "{}"}}"#,
            "wrong_kind: field `o.attributes`: value `\"{}\"` cannot be read as JSON",
        ),
        (
            r#"{"o": {"attributes": {"a":1,"a":2}}}"#,
            "out_of_range: field `o.attributes`: value `{\"a\":1,\"a\":2}` has the key `a` twice in one object",
        ),
        (
            r#"{"o": {"attributes": {"a":1e999}}}"#,
            "out_of_range: field `o.attributes`: value `{\"a\":1e999}` holds a number at byte `5` that does not fit Float64",
        ),
        (r#"{"o": {"attributes": {"a":x}}}"#, "malformed: byte `26`: expected a value, found `x`"),
        (
            r#"{"o": {"attributes": null}}"#,
            "missing: field `o.attributes`: value `null` is refused, because its column has neither NULL nor a DEFAULT",
        ),
    ] {
        assert_eq!(found(&columns, record), expected, "{record}");
    }
}

#[test]
fn dotted_names_reach_as_deep_as_they_are_written() {
    let columns = ["a Int8 <- x.y.z", "b Int8 <- x.y.w", "c Int8 <- x.v"];
    assert_eq!(found(&columns, r#"{"x": {"v": 3, "y": {"w": 2, "z": 1}}}"#), "1, 2, 3");
    assert_eq!(found(&columns, r#"{"x.y.w": 2, "x": {"y": {"z": 1}}, "x.v": 3}"#), "1, 2, 3");
    let reject = "missing: field `x.y.z` is missing, and its column has neither NULL nor a DEFAULT";
    assert_eq!(found(&columns, r#"{"x": {"v": 3, "y": {"w": 2}}}"#), reject);
    // Only wholly flat and wholly nested count.
    assert_eq!(found(&columns, r#"{"x.y": {"z": 1}, "x": {"v": 3, "y": {"w": 2}}}"#), reject);
}

#[test]
fn a_field_may_fill_several_columns_and_hold_others_inside() {
    let columns =
        ["a Map(String, Int8) <- o", "b Nullable(Int8) <- o.k", "c Int64 <- n", "d Nullable(String) <- n"];
    let options = JsonOptions { coerce_to_string: true, ..JsonOptions::default() };
    let decoder = decoder(&columns, options);
    assert_eq!(
        one(&decoder, r#"{"o": {"k": 1, "l": 2}, "n": 17}"#).unwrap().join(" "),
        r#"{"k": 1, "l": 2} 1 17 "17""#
    );
    assert_eq!(one(&decoder, r#"{"n": 17, "o": {}}"#).unwrap().join(" "), r#"{} NULL 17 "17""#);
}

#[test]
fn an_unknown_field_is_skipped_but_must_be_well_formed() {
    let columns = ["v Int8"];
    for skipped in
        ["0", "-1.5e-7", "true", "null", r#""\u00e9\\""#, "[]", r#"[{"a": [1, {}]}, "x"]"#, "1e999"]
    {
        for record in [format!(r#"{{"x": {skipped}, "v": 1}}"#), format!(r#"{{"v": 1, "x":{skipped}}}"#)] {
            assert_eq!(found(&columns, &record), "1", "{record}");
        }
    }
    for broken in [
        "",
        "tru",
        "01",
        "[1,]",
        r#"{"a"}"#,
        r#"{"a": 1,}"#,
        r#""\x""#,
        r#""\ud800""#,
        "'x'",
        "[",
        "\"\u{1}\"",
    ] {
        let record = format!(r#"{{"x": {broken}, "v": 1}}"#);
        assert!(found(&columns, &record).starts_with("malformed: byte `"), "{record}");
    }
}

#[test]
fn keys_come_in_any_order_and_with_escapes() {
    let columns =
        ["a Int8", "b Int8", "a_rather_long_name_of_a_column Int8", "d Int8", "e Int8", "f Nullable(Int8)"];
    let decoder = decoder(&columns, JsonOptions::default());
    let records = [
        r#"{"a":1,"b":2,"a_rather_long_name_of_a_column":3,"d":4,"e":5,"f":6}"#,
        r#"{"f":6,"e":5,"d":4,"a_rather_long_name_of_a_column":3,"b":2,"a":1}"#,
        r#" { "d" : 4 , "a" : 1 , "\u0062" : 2 , "e" : 5 , "a_rather_long_name_of_a_c\u006flumn" : 3 , "f" : 6 } "#,
        "\t{\r\n\"a\":1,\"x\":0,\"b\":2,\"aa\":7,\"a_rather_long_name_of_a_column\":3,\"d\":4,\"e\":5,\"f\":6}\n",
    ];
    let decoded = decode(&decoder, &records);
    assert_eq!(decoded.rejects, []);
    for (n, record) in records.iter().enumerate() {
        assert_eq!(row(&decoded, n), ["1", "2", "3", "4", "5", "6"], "{record}");
    }
}

#[test]
fn what_led_to_a_key_in_one_place_is_not_believed_in_another() {
    let decoder = decoder(&["a Int8", "b Nullable(Int8)", "c Nullable(Int8) <- o.a"], JsonOptions::default());
    let records = [
        // Learns what stands in front of `a` behind an unknown key, at the start, behind `b`, and inside of `o`.
        r#"{"x": 0, "a": 1, "b": 2, "o": {"x": 0, "a": 3}}"#,
        r#"{"b": 2, "a": 1, "o": {"a": 3}}"#,
        r#"{, "a": 1, "b": 2}"#,
        r#"{"b": 2 "a": 1}"#,
        r#"{"b": 2, "o": {, "a": 3}, "a": 1}"#,
        r#"{"a": 1, "b": 2, "a": 1}"#,
        r#"{"a":  1 , "b":	2, "o": { "a": 3} }"#,
        r#"{"b": 2, "a": 1, "o": {"x": 0, "a": 3}}"#,
    ];
    let decoded = decode(&decoder, &records);
    assert_eq!(
        decoded.rejects.iter().map(|reject| reject.position).collect::<Vec<_>>(),
        [102, 103, 104, 105]
    );
    assert_eq!(decoded.batch.positions, [100, 101, 106, 107]);
    assert!((0..4).all(|n| row(&decoded, n) == ["1", "2", "3"]));
}

#[test]
fn a_known_key_twice_is_a_reject_as_it_is_to_clickhouse() {
    let columns = ["v Nullable(Int8)", "w Nullable(Int8) <- o.w"];
    for (record, at, key) in [
        (r#"{"v": 1, "v": 1}"#, 14, "v"),
        (r#"{"v": null, "x": 2, "\u0076": 1}"#, 30, "v"),
        (r#"{"o": {"w": 1, "w": 1}}"#, 20, "w"),
        (r#"{"o": {"w": 1}, "o": {}}"#, 21, "o"),
    ] {
        let expected = format!("malformed: byte `{at}`: the key `{key}` appears twice in one object");
        assert_eq!(found(&columns, record), expected, "{record}");
    }
    assert_eq!(found(&columns, r#"{"x": 1, "x": 2, "v": 3}"#), "3, NULL");
}

#[test]
fn a_missing_field_is_null_where_the_column_takes_it_and_never_a_zero() {
    let columns =
        ["a Nullable(Int8)", "b Int8 DEFAULT", "c LowCardinality(Nullable(String))", "d Array(Int8) DEFAULT"];
    assert_eq!(found(&columns, "{}"), "NULL, NULL, NULL, NULL");
    for column in ["v Int8", "v String", "v Map(String, Int8)", "v DateTime", "v Bool"] {
        let reject = "missing: field `v` is missing, and its column has neither NULL nor a DEFAULT";
        assert_eq!(found(&[column], r#"{"x": 1}"#), reject, "{column}");
    }
}

#[test]
fn what_is_not_one_json_object_is_malformed_with_the_byte() {
    let empty = "malformed: byte `0`: the record is empty; a record is one JSON object";
    for (record, expected) in [
        (&b""[..], empty),
        (b" \t\r\n", "malformed: byte `4`: the record is empty; a record is one JSON object"),
        (b"[1]", "malformed: byte `0`: found an array; a record is one JSON object"),
        (b" 17", "malformed: byte `1`: found a number; a record is one JSON object"),
        (b"\"x\"", "malformed: byte `0`: found a string; a record is one JSON object"),
        (b"null", "malformed: byte `0`: expected `{`, found `n`"),
        (
            b"\xef\xbb\xbf{\"v\": 1}",
            "malformed: byte `0`: the record starts with a byte order mark; send it without",
        ),
        (
            b"\0\0\0\0\x07{\"v\": 1}",
            "malformed: byte `0`: the record starts with the header of a schema registry, a zero byte and a schema's number, which the format `json` does not read; write it with a serializer of JSON that registers no schema",
        ),
        (
            b"\0\0\0\x01\xc8{\"v\": 1}",
            "malformed: byte `0`: the record starts with the header of a schema registry, a zero byte and a schema's number, which the format `json` does not read; write it with a serializer of JSON that registers no schema",
        ),
        (b" \0\0\0\0\x07{\"v\": 1}", "malformed: byte `1`: expected `{`, found byte `0x00`"),
        (
            b"{\"v\": 1} {\"v\": 2}",
            "malformed: byte `9`: `{` follows the record's object; a record is one object",
        ),
        (
            b"{\"v\": 1}\n{\"v\": 2}",
            "malformed: byte `9`: `{` follows the record's object; a record is one object",
        ),
        (b"{\"v\": 1},", "malformed: byte `8`: `,` follows the record's object; a record is one object"),
        (
            b"{\"v\": 1}\0",
            "malformed: byte `8`: byte `0x00` follows the record's object; a record is one object",
        ),
        (b"{\"v\": 1", "malformed: byte `7`: expected `,` or `}` after a field, but the record ends here"),
        (b"{\"v\": ", "malformed: byte `6`: expected a value, but the record ends here"),
        (b"{\"v\"", "malformed: byte `4`: expected `:` after a key, but the record ends here"),
        (b"{\"v", "malformed: byte `3`: the record ends inside a string"),
        (b"{", "malformed: byte `1`: expected a key, but the record ends here"),
        (b"{\"v\": 1,}", "malformed: byte `8`: expected a key, found `}`"),
        (b"{\"v\": 1 \"x\": 2}", "malformed: byte `8`: expected `,` or `}` after a field, found `\"`"),
        (b"{v: 1}", "malformed: byte `1`: expected a key, found `v`"),
        (b"{\"v\": 1, \"x\": \"\xff\"}", "malformed: byte `15`: byte `0xff` is not UTF-8 here"),
        (b"{\"v\": 1, \"x\": \"\xed\xa0\x80\"}", "malformed: byte `15`: byte `0xed` is not UTF-8 here"),
        (b"{\"v\": 1, \"x\": \"\xe4\xb8", "malformed: byte `15`: byte `0xe4` is not UTF-8 here"),
        (b"{\"v\": 1\0}", "malformed: byte `7`: expected `,` or `}` after a field, found byte `0x00`"),
    ] {
        let decoder = decoder(&["v Int8"], JsonOptions::default());
        let found = one(&decoder, record).map_or_else(|reject| reject, |row| row.join(", "));
        assert_eq!(found, expected, "{}", String::from_utf8_lossy(record));
    }
}

#[test]
fn every_prefix_of_a_record_is_malformed() {
    let record = r#"{"v": [1, {"a": "\u00e9 x"}, true], "w": -1.5e3, "o": {"p": null}}"#;
    let decoder = decoder(&["v Nullable(Int8) <- o.p"], JsonOptions::default());
    assert_eq!(one(&decoder, record).unwrap(), ["NULL"]);
    for end in 0..record.len() {
        let reject = one(&decoder, &record[..end]).unwrap_err();
        assert!(reject.starts_with("malformed: "), "{end}: {reject}");
    }
}

#[test]
fn nesting_is_bounded_in_skipped_and_in_wanted_values() {
    let decoder = decoder(&["v Nullable(Int8) <- a.a"], JsonOptions::default());
    let inside = DEPTH_MAX as usize - 1;
    let nested = |open: &str, close: &str, count: usize| {
        format!("{{\"x\": {}0{}}}", open.repeat(count), close.repeat(count))
    };
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        assert!(one(&decoder, nested(open, close, inside)).is_ok());
        let reject = one(&decoder, nested(open, close, inside + 1)).unwrap_err();
        assert!(reject.contains("nested deeper than 64 levels"), "{reject}");
        // Far beyond any stack.
        assert!(one(&decoder, nested(open, close, 100_000)).is_err());
    }
    assert!(one(&decoder, "[".repeat(1_000_000)).is_err());
}

#[test]
fn a_record_without_body_and_one_too_long_are_not_read() {
    let options = JsonOptions { record_bytes_max: 10, ..JsonOptions::default() };
    let decoder = decoder(&["v Int8"], options);
    let mut builder = BlockBuilder::new(Partition::new("events", 0), 0);
    builder.push(0, 5, Some(br#"{"v":  12}"#));
    builder.push(1, 6, None);
    builder.push(2, 7, Some(br#"{"v":   13}"#));
    builder.push(3, 8, Some(b""));
    builder.push(4, 9, Some(br#"{"v": 14}"#));
    let decoded = decoder.decode(&builder.take());
    assert_eq!(
        (decoded.batch.positions.as_slice(), decoded.batch.times_ms.as_slice()),
        (&[0, 4][..], &[5, 9][..])
    );
    let rejects: Vec<_> =
        decoded.rejects.iter().map(|r| (r.position, r.reason, r.message.as_str())).collect();
    assert_eq!(
        rejects,
        [
            (1, Reason::NoBody, "the record has no body (a tombstone)"),
            (2, Reason::TooLarge, "the record has `11` bytes, more than `record_bytes_max` (10)"),
            (3, Reason::Malformed, "byte `0`: the record is empty; a record is one JSON object"),
        ]
    );
}

#[test]
fn the_rows_around_a_reject_are_untouched_whatever_was_read_before_it_failed() {
    let decoder = decoder(&EVERY_KIND, JsonOptions::default());
    let good = r#"{"int": 1, "big": 18446744073709551615, "float": 0.5, "flag": true, "text": "t", "id":
        "00112233-4455-6677-8899-aabbccddeeff", "pad": "ab", "time": "2024-05-01 10:20:30", "price": "1.5", "kind": "b",
        "list": ["x", null], "map": {"k": [1, 2], "l": []}, "o": {"p": {"q": 7}, "tag": "v"}}"#;
    let sparse = r#"{"int": 2}"#;
    // The fault comes last, when all columns hold a part of the record, or in the midst of an item.
    let poison = [
        good.replace("\"v\"}}", "17}}"),
        good.replace("\"v\"}}", "\"v\"}"),
        good.replace("[1, 2], \"l\": []", "[1, 2], \"l\": [3, 300]"),
        good.replace("null]", "1]"),
        good.replace("\"int\": 1,", ""),
        good.replace("\"q\": 7", "\"q\": 7.5"),
        format!("{good}x"),
    ];
    let expected = [one(&decoder, good).unwrap(), one(&decoder, sparse).unwrap()];
    for poison in &poison {
        let decoded = decode(&decoder, &[good, poison, sparse, poison, poison, good, poison]);
        assert_eq!(decoded.rejects.len(), 4, "{poison}");
        assert_eq!(decoded.batch.positions, [100, 102, 105]);
        assert_eq!([row(&decoded, 0), row(&decoded, 1)], expected, "{poison}");
        assert_eq!(row(&decoded, 2), expected[0], "{poison}");
        // Nothing is left in the buffers either: the arrays are those of the good records alone.
        let alone = decode(&decoder, &[good, sparse, good]);
        for (with, without) in decoded.batch.rows.columns().iter().zip(alone.batch.rows.columns()) {
            assert_eq!(with.to_data(), without.to_data());
        }
    }
}

#[test]
fn a_reject_carries_the_record_and_names_column_field_value_and_rule() {
    let decoder = decoder(&["code UInt16 <- http.status"], JsonOptions::default());
    let record = r#"{"http": {"status": 70000}}"#;
    let decoded = decode(&decoder, &[record]);
    let reject = &decoded.rejects[0];
    assert_eq!((reject.reason, reject.position, reject.time_ms), (Reason::OutOfRange, 100, 1_000));
    assert_eq!(reject.column, "code");
    assert_eq!(reject.message, "field `http.status`: value `70000` does not fit UInt16 (0 to 65535)");
    assert_eq!(reject.raw, record.as_bytes());
}

#[test]
fn a_long_value_is_shortened_and_made_printable() {
    let decoder = decoder(&["v Int8"], JsonOptions::default());
    let reject = one(&decoder, format!("{{\"v\": \"{}\"}}", "é".repeat(5_000_000))).unwrap_err();
    let shown = "é".repeat(63);
    assert_eq!(reject, format!("wrong_kind: field `v`: value `\"{shown}…` cannot be read as Int8"));
    let reject = one(&decoder, "{\"v\": [\n\t1,\u{7f}\"\u{85}\"]}").unwrap_err();
    assert!(!reject.chars().any(char::is_control), "{reject:?}");
}

#[test]
fn an_empty_block_and_a_block_of_rejects_give_a_batch_without_rows() {
    let decoder = decoder(&EVERY_KIND, JsonOptions::default());
    let none: [&str; 0] = [];
    for decoded in [decode(&decoder, &none), decode(&decoder, &["x", "{}"])] {
        assert!(decoded.batch.is_empty());
        assert_eq!(decoded.batch.rows.num_rows(), 0);
        assert_eq!(&decoded.batch.rows.schema(), decoder.schema().arrow());
    }
}

#[test]
fn one_block_gives_one_result() {
    let decoder = decoder(&["a Nullable(Int8)", "b Nullable(Int8)"], JsonOptions::default());
    let block = block(&[r#"{"b": 1, "a": 2}"#, "x", r#"{"a": 3}"#]);
    let (first, second) = (decoder.decode(&block), decoder.decode(&block));
    assert_eq!(first.batch.rows, second.batch.rows);
    assert_eq!(first.rejects, second.rejects);
}

#[test]
fn what_no_record_can_be_decoded_with_is_an_error_at_the_start() {
    let refused =
        |schema: Schema, options: JsonOptions| JsonDecoder::new(schema, options).unwrap_err().to_string();
    for (type_name, why) in [
        ("Nullable(Array(Int8))", "a Nullable holds neither Nullable, LowCardinality, Array nor Map"),
        ("Array(Nullable(Array(Int8)))", "a Nullable holds neither Nullable, LowCardinality, Array nor Map"),
        ("Nullable(Map(String, Int8))", "a Nullable holds neither Nullable, LowCardinality, Array nor Map"),
        (
            "Nullable(LowCardinality(String))",
            "a Nullable holds neither Nullable, LowCardinality, Array nor Map",
        ),
        (
            "LowCardinality(Array(String))",
            "a LowCardinality holds neither LowCardinality, Array, Map nor JSON",
        ),
        ("Map(Nullable(String), Int8)", "a Map's key is neither Nullable, Array, Map nor JSON"),
        ("Map(Array(String), Int8)", "a Map's key is neither Nullable, Array, Map nor JSON"),
        ("DateTime('Mars/Olympus')", "`Mars/Olympus` is no time zone of the IANA database"),
        ("DateTime64(10)", "a DateTime64 has 0 to 9 digits"),
        ("Decimal(39, 0)", "a Decimal has 1 to 38 digits, and a scale within them"),
        ("Decimal(5, 6)", "a Decimal has 1 to 38 digits, and a scale within them"),
        ("FixedString(0)", "a FixedString may have 1 to 65536 bytes"),
        ("Enum8('a' = 1, 'b' = 1)", "an enum has at least one name, and no name or number twice"),
    ] {
        let schema = Schema::new(vec![Column::new("c", column_type(type_name))]);
        assert_eq!(refused(schema, JsonOptions::default()), format!("column `c`: {why}"), "{type_name}");
    }
    assert_eq!(refused(Schema::new(vec![]), JsonOptions::default()), "the target has no columns");
    assert_eq!(
        refused(schema(&["a Int8", "a Int8"]), JsonOptions::default()),
        "the column `a` appears twice in the schema"
    );
    let mut deep = ColumnType::Int8;
    for _ in 0..20 {
        deep = ColumnType::Array(Box::new(deep));
    }
    let schema_of = |column_type| Schema::new(vec![Column::new("c", column_type)]);
    assert_eq!(
        refused(schema_of(deep), JsonOptions::default()),
        "column `c`: types may nest 16 deep at the most"
    );
    let zone = JsonOptions { assume_timezone: "Nowhere".into(), ..JsonOptions::default() };
    assert_eq!(
        refused(schema(&["a Int8"]), zone),
        "`timezone`: `Nowhere` is no time zone of the IANA database"
    );
}

#[test]
fn a_missing_array_or_map_takes_its_default() {
    let mut columns =
        schema(&["n Int8", "list Array(Int32) DEFAULT", "map Map(String, Int8) DEFAULT"]).columns().to_vec();
    columns[1].default_json = Some("[1,2]".into());
    columns[2].default_json = Some(r#"{"a":1}"#.into());
    let with =
        |columns: &[Column]| JsonDecoder::new(Schema::new(columns.to_vec()), JsonOptions::default()).unwrap();
    let decoder = with(&columns);
    let full = one(&decoder, r#"{"n":1,"list":[1,2],"map":{"a":1}}"#);
    for record in [r#"{"n":1}"#, r#"{"n":1,"list":null,"map":null}"#, r#"{"list":[1,2],"n":1}"#] {
        assert_eq!(one(&decoder, record), full, "{record}");
    }
    assert_ne!(one(&decoder, r#"{"n":1,"list":[]}"#), full, "an empty one is no missing one");
    // A record that is taken back leaves nothing of the default behind.
    let decoded = decode(&decoder, &[r#"{"n":1}"#, r#"{"n":"x"}"#, r#"{"n":1}"#]);
    assert_eq!((decoded.batch.len(), decoded.rejects.len()), (2, 1));
    assert_eq!(row(&decoded, 1), full.unwrap());
    columns[1].default_json = Some(r#"["no number"]"#.into());
    assert!(one(&with(&columns), r#"{"n":1}"#).unwrap_err().starts_with("missing: field `list`"));
}

/// The tables in `cases` have more of these.
#[test]
fn small_numbers_are_no_silent_zero_and_a_number_that_reads_as_a_day_is_no_time_of_1970() {
    let columns = [
        "small Nullable(Float32)",
        "wide Nullable(Float64)",
        "time Nullable(DateTime('UTC'))",
        "day Nullable(Date)",
    ];
    let decoder = decoder(&columns, JsonOptions::default());
    for record in
        [r#"{"small":1e-46}"#, r#"{"wide":1e-400}"#, r#"{"wide":"-1e-400"}"#, r#"{"time":20240115}"#]
    {
        assert!(one(&decoder, record).unwrap_err().starts_with("out_of_range"), "{record}");
    }
    for (record, same) in [
        (r#"{"small":1e-45,"wide":0e-999}"#, r#"{"small":1.401298464324817e-45,"wide":0}"#),
        (r#"{"time":"20240115","day":"20240115"}"#, r#"{"time":"2024-01-15 00:00:00","day":"2024-01-15"}"#),
        (r#"{"time":"20240115T103000Z"}"#, r#"{"time":"2024-01-15T10:30:00Z"}"#),
    ] {
        assert_eq!(one(&decoder, record).unwrap(), one(&decoder, same).unwrap(), "{record}");
    }
}
