use std::sync::Arc;

use dataflow::{BlockBuilder, Decoder, Partition, Reason};

use super::{Keys, WithTombstones, key_columns};
use crate::avro::{AvroDecoder, AvroOptions};
use crate::json::{EpochUnit, JsonDecoder, JsonOptions};
use crate::schemas::{SchemaText, Schemas, Writer};
use crate::testing::{row, schema};

const COLUMNS: [&str; 5] =
    ["id UInt64", "name String", "at DateTime64(3)", "price Nullable(Decimal(9, 2))", "city String DEFAULT"];

/// The zone and unit of a format that says neither.
const TIMES: (&str, EpochUnit) = ("UTC", EpochUnit::ByMagnitude);

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// A decoder of records in JSON whose keys are in JSON too, or texts.
fn of_json(columns: &[&str], is_text: bool, key: &[&str], times: &[&str]) -> WithTombstones {
    let schema = schema(columns);
    let json = |schema| Arc::new(JsonDecoder::new(schema, JsonOptions::default()).expect("columns"));
    let keys = match is_text {
        true => Keys::Text(key[0].to_owned()),
        false => Keys::Records(json(key_columns(&schema, &names(key)))),
    };
    WithTombstones::new(json(schema), keys, &names(times), TIMES).expect("columns that a key fills")
}

/// The key and the body of a record.
type Record<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

/// The rows and the rejects of records with these keys and bodies, at positions from 10 and times from 1000.
fn read(decoder: &WithTombstones, records: &[Record<'_>]) -> (Vec<String>, Vec<String>) {
    let mut builder = BlockBuilder::new(Partition::new("events", 0), 10);
    for (n, (key, body)) in records.iter().enumerate() {
        builder.push(10 + n as u64, 1_000 + n as i64, *body);
        if let Some(key) = key {
            builder.key(key);
        }
    }
    let block = builder.take();
    let decoded = decoder.decode(&block);
    assert_eq!(decoded.batch.len() + decoded.rejects.len(), records.len());
    assert!(
        decoded.rejects.is_sorted_by_key(|reject| reject.position) && decoded.batch.positions.is_sorted()
    );
    let of_row = |at: usize| {
        let (position, time) = (decoded.batch.positions[at], decoded.batch.times_ms[at]);
        assert_eq!(position - 10, (time - 1_000) as u64);
        format!("{position}: {}", row(&decoded, at).join(" "))
    };
    let rejects = decoded.rejects.iter();
    let rejects =
        rejects.map(|r| format!("{} {} `{}` {}", r.position, r.reason.as_str(), r.column, r.message));
    ((0..decoded.batch.len()).map(of_row).collect(), rejects.collect())
}

const BODY: Option<&[u8]> =
    Some(br#"{"id": 1, "name": "Ada", "at": "2026-01-01 00:00:00", "price": "1.5", "city": "Turin"}"#);

#[test]
fn a_tombstone_has_the_fields_of_its_key_and_stands_between_its_neighbours() {
    let decoder = of_json(&COLUMNS, false, &["id"], &["at"]);
    let (rows, rejects) = read(
        &decoder,
        &[
            (None, BODY),
            (Some(br#"{"id": 18446744073709551615, "more": [1]}"#), None),
            (Some(br#"{"id": 3}"#), Some(b"{")),
            (Some(br#"{"id": 4}"#), None),
            (None, BODY),
        ],
    );
    let body = r#"1 "Ada" 1767225600000 150 "Turin""#;
    assert_eq!(
        rows,
        [
            format!("10: {body}"),
            r#"11: 18446744073709551615 "" 1001 NULL NULL"#.to_owned(),
            r#"13: 4 "" 1003 NULL NULL"#.to_owned(),
            format!("14: {body}"),
        ]
    );
    assert!(rejects.len() == 1 && rejects[0].starts_with("12 malformed"), "{rejects:?}");
}

/// As JSON converters with `schemas.enable` write values and keys.
#[test]
fn a_key_with_its_schema_inside_fills_the_fields_of_its_payload() {
    let columns = ["id UInt64 <- payload.id", "name String <- payload.name"];
    let decoder = of_json(&columns, false, &["payload.id"], &[]);
    let schema = r#""schema": {"type": "struct", "fields": [{"type": "int64", "field": "id"}]}"#;
    let key = format!(r#"{{{schema}, "payload": {{"id": 7}}}}"#);
    let body = format!(r#"{{{schema}, "payload": {{"id": 7, "name": "Ada"}}}}"#);
    let without = format!("{{{schema}}}");
    let (rows, rejects) = read(
        &decoder,
        &[(None, Some(body.as_bytes())), (Some(key.as_bytes()), None), (Some(without.as_bytes()), None)],
    );
    assert_eq!(rows, [r#"10: 7 "Ada""#, r#"11: 7 """#]);
    assert!(rejects.len() == 1 && rejects[0].starts_with("12 no_body `id`"), "{rejects:?}");
}

#[test]
fn a_key_that_is_text_is_the_value_of_its_field() {
    let decoder = of_json(&COLUMNS, true, &["id"], &[]);
    let (rows, rejects) = read(&decoder, &[(Some(b"42"), None), (Some(b"x"), None), (Some(b"-1"), None)]);
    assert_eq!(rows, [r#"10: 42 "" 0 NULL NULL"#]);
    assert_eq!(rejects.len(), 2);
    assert!(rejects[0].starts_with(
        "11 no_body `id` the record has no body (a tombstone), and its key, which fills `id`, "
    ));
    assert!(rejects[1].starts_with("12 no_body `id` "), "{rejects:?}");
    let decoder = of_json(&["id String", "n Int8"], true, &["id"], &[]);
    let (rows, rejects) = read(&decoder, &[(Some(b"a \"b\",\n\t"), None), (Some(b"\xff"), None)]);
    assert_eq!(rows, [r#"10: "a \"b\",\n\t" 0"#]);
    assert!(rejects.len() == 1 && rejects[0].contains("no UTF-8 text"), "{rejects:?}");
}

/// Or the row of another time would be deleted.
#[test]
fn times_in_a_key_have_the_zone_and_the_unit_of_times_in_a_body() {
    let options = JsonOptions {
        assume_timezone: "Europe/Berlin".into(),
        epoch_unit: EpochUnit::Milliseconds,
        ..JsonOptions::default()
    };
    let bodies = JsonDecoder::new(schema(&["at DateTime64(3)", "n UInt8"]), options).expect("columns");
    let times = ("Europe/Berlin", EpochUnit::Milliseconds);
    let keys = Keys::Text("at".to_owned());
    let decoder = WithTombstones::new(Arc::new(bodies), keys, &[], times).expect("columns that a key fills");
    let (rows, rejects) = read(
        &decoder,
        &[
            (None, Some(br#"{"at": "2026-01-01 00:00:00", "n": 1}"#)),
            (Some(b"2026-01-01 00:00:00"), None),
            (None, Some(br#"{"at": 7000000000, "n": 1}"#)),
            (Some(b"7000000000"), None),
        ],
    );
    assert_eq!(rejects, Vec::<String>::new());
    assert_eq!(rows, ["10: 1767222000000 1", "11: 1767222000000 0", "12: 7000000000 1", "13: 7000000000 0"]);
}

#[test]
fn a_tombstone_whose_key_says_nothing_stays_one() {
    let decoder = of_json(&COLUMNS, false, &["id"], &["at"]);
    let (rows, rejects) = read(
        &decoder,
        &[(None, None), (Some(b"plain"), None), (Some(br#"{"of": 3}"#), None), (Some(b"[1]"), None)],
    );
    assert_eq!(rows, Vec::<String>::new());
    assert_eq!(
        rejects[0],
        "10 no_body `` the record has no body (a tombstone), and it has no key that says what it deletes"
    );
    assert!(
        rejects[1].contains("no_body") && rejects[1].contains("its key is not one of this pipeline"),
        "{rejects:?}"
    );
    assert!(
        rejects[2].contains("no_body `id`") && rejects[2].contains("field `id` is missing"),
        "{rejects:?}"
    );
    assert_eq!(rejects.len(), 4);
}

#[test]
fn a_column_that_nothing_fills_has_what_the_server_has_in_one_of_its_type() {
    let columns = [
        "id Int32",
        "a Int8",
        "b Float64",
        "c Bool",
        "d String",
        "e FixedString(2)",
        "f UUID",
        "g IPv4",
        "h IPv6",
        "i Date",
        "j DateTime('Europe/Berlin')",
        "k DateTime64(6)",
        "l Decimal(9, 2)",
        "m Enum8('b' = 3, 'a' = -1)",
        "n Array(String)",
        "o Map(String, Int8)",
        "p LowCardinality(String)",
        "q JSON",
        "r LowCardinality(Nullable(String))",
    ];
    let (rows, rejects) = read(&of_json(&columns, true, &["id"], &[]), &[(Some(b"7"), None)]);
    assert_eq!(rejects, Vec::<String>::new());
    let zeros = "0".repeat(32);
    let wanted = format!(r#"10: 7 0 0.0 false "" 0000 {zeros} 0 {zeros} 0 0 0 0 -1 [] {{}} "" "{{}}" NULL"#);
    assert_eq!(rows, [wanted]);
}

#[test]
fn a_key_in_avro_names_its_own_schema() {
    let record =
        |name: &str, fields: &str| format!(r#"{{"type": "record", "name": "{name}", "fields": [{fields}]}}"#);
    let id = r#"{"name": "id", "type": "long"}"#;
    let schemas = Arc::<Schemas>::default();
    let text = |text: String| Writer::Texts(vec![SchemaText { name: String::new(), text }].into());
    let body = record("order", &format!(r#"{id}, {{"name": "name", "type": "string"}}"#));
    schemas.put(1, text(body)).expect("room");
    schemas.put(2, text(record("key", id))).expect("room");
    let columns = schema(&["id Int64", "name String"]);
    let framed =
        |columns| AvroDecoder::framed(columns, schemas.clone(), AvroOptions::default()).expect("columns");
    let keys = Keys::Records(Arc::new(framed(key_columns(&columns, &names(&["id"])))));
    let decoder = WithTombstones::new(Arc::new(framed(columns)), keys, &[], TIMES).expect("columns");
    let (rows, rejects) = read(
        &decoder,
        &[
            (Some(b"\0\0\0\0\x02\x0a"), Some(b"\0\0\0\0\x01\x0a\x02x")),
            (Some(b"\0\0\0\0\x02\x0c"), None),
            (Some(b"\0\0\0\0\x03\x0c"), None),
        ],
    );
    assert_eq!(rows, [r#"10: 5 "x""#, r#"11: 6 """#]);
    assert!(rejects.len() == 1 && rejects[0].starts_with("12 no_body"), "{rejects:?}");
}

#[test]
fn columns_that_no_key_fills_are_refused() {
    let columns = schema(&["name String"]);
    let inner = Arc::new(JsonDecoder::new(columns, JsonOptions::default()).expect("columns"));
    assert!(WithTombstones::new(inner, Keys::Text("id".into()), &[], TIMES).is_err());
}

#[test]
fn the_reason_of_a_reject_is_always_that_it_has_no_body() {
    let decoder = of_json(&COLUMNS, false, &["id"], &["at"]);
    let mut builder = BlockBuilder::new(Partition::new("events", 0), 0);
    builder.push(0, dataflow::block::TIME_UNKNOWN_MS, None);
    builder.key(br#"{"id": 1}"#);
    let decoded = decoder.decode(&builder.take());
    let reject = &decoded.rejects[0];
    assert_eq!((reject.reason, reject.raw.as_slice()), (Reason::NoBody, &b""[..]));
    assert_eq!(reject.key.as_deref(), Some(&br#"{"id": 1}"#[..]));
    assert!(reject.message.contains("no timestamp"), "{}", reject.message);
}
