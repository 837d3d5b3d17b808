//! Bytes that no encoder would write: whatever comes, it is a row or a reject, and its neighbours are untouched.

use testkit::Fuzz;

use super::written::{hex, long, sized};
use super::{decode, decoder};
use crate::avro::schema::Types;
use crate::testing::row;

const FIELDS: &str = r#"
    {"name": "id", "type": "int"},
    {"name": "text", "type": ["null", "string"]},
    {"name": "list", "type": {"type": "array", "items": ["null", "long"]}},
    {"name": "map", "type": {"type": "map", "values": {"type": "array", "items": "double"}}},
    {"name": "skipped", "type": {"type": "record", "name": "tree", "fields": [
        {"name": "child", "type": ["null", "tree"]},
        {"name": "all", "type": {"type": "array", "items": ["tree", "null", "bytes", "float"]}},
        {"name": "none", "type": {"type": "map", "values": "null"}}]}},
    {"name": "kind", "type": {"type": "enum", "name": "kind", "symbols": ["a", "b"]}},
    {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 4}},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "in", "type": ["null", {"type": "record", "name": "in", "fields": [{"name": "flag", "type": "boolean"}]}]},
    {"name": "uuid", "type": {"type": "fixed", "name": "u", "size": 16, "logicalType": "uuid"}}"#;

const COLUMNS: [&str; 10] = [
    "id Int16",
    "text LowCardinality(Nullable(String))",
    "list Array(Nullable(Int64))",
    "map Map(String, Array(Float32)) DEFAULT",
    "kind Enum8('a' = 1, 'b' = 2)",
    "price Nullable(Decimal(20, 4))",
    "at DateTime64(3)",
    "flag Nullable(Bool) <- in.flag",
    "uuid UUID",
    "ticks Nullable(UInt64) <- at",
];

fn good() -> Vec<u8> {
    let mut bytes = Vec::new();
    long(-300, &mut bytes);
    long(1, &mut bytes);
    sized("aé".as_bytes(), &mut bytes);
    long(2, &mut bytes);
    bytes.extend(hex("00020e"));
    long(0, &mut bytes);
    long(-1, &mut bytes);
    long(12, &mut bytes);
    sized(b"k", &mut bytes);
    long(1, &mut bytes);
    bytes.extend(1.5f64.to_le_bytes());
    bytes.push(0);
    bytes.push(0);
    // A tree without a child, one number among `all`, nothing in `none`.
    bytes.extend(hex("0002060000c03f0002027800"));
    bytes.push(2);
    sized(&[0xff, 0x85], &mut bytes);
    long(1_714_558_830_123_456, &mut bytes);
    bytes.extend([2, 1]);
    bytes.extend([7; 16]);
    bytes
}

#[test]
fn fuzz_avro_record() {
    let decoder = decoder(FIELDS, &COLUMNS).expect("the columns fit");
    let good = good();
    let alone = decode(&decoder, &[&good]);
    assert_eq!(alone.rejects, []);
    let alone = row(&alone, 0);
    let words: Vec<Vec<u8>> = [
        "80",
        "ff",
        "00",
        "01",
        "02",
        "ffffffffffffffffff01",
        "feffffffffffffffff01",
        "ffffffffffffffffff7f",
        "808080808080",
        "c3a9",
        "c328",
        "0102",
        "03",
        "040000",
        "000000000000f07f",
        "000000000000f8ff",
    ]
    .map(hex)
    .into();
    Fuzz::new("avro record").example(&good).words(&words).run(6_000, |record| {
        let decoded = decode(&decoder, &[&good[..], record, &good]);
        assert_eq!(decoded.batch.rows.num_rows() + decoded.rejects.len(), 3);
        let last = decoded.batch.rows.num_rows() - 1;
        assert_eq!((decoded.batch.positions[0], decoded.batch.positions[last]), (100, 102));
        assert!(row(&decoded, 0) == alone && row(&decoded, last) == alone, "a neighbour changed");
        // What became of it does not hang on its neighbours, whose bytes stand behind it, either.
        let single = decode(&decoder, &[record]);
        assert_eq!(single.rejects.len(), decoded.rejects.len());
        match single.rejects.first() {
            Some(reject) => {
                assert_eq!(reject.message, decoded.rejects[0].message);
                let length = reject.message.len();
                assert!(length > 0 && length < 2_000, "{length}");
            }
            None => assert_eq!(row(&single, 0), row(&decoded, 1)),
        }
    });
}

#[test]
fn fuzz_avro_schema() {
    let example = super::record(FIELDS);
    let words = [
        "\"type\"",
        "\"record\"",
        "\"union\"",
        "[\"null\"]",
        "\"tree\"",
        "{",
        "}",
        "[",
        "]",
        "\"\"",
        "\"size\": 99999999999",
    ];
    Fuzz::new("avro schema").example(&example).words(words).run(3_000, |text| {
        if let Ok(types) = Types::read(&String::from_utf8_lossy(text)) {
            assert_eq!(types.empty().len(), types.len());
        }
    });
}
