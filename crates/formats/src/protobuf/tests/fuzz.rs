//! Bytes that no encoder would write: whatever comes, it is a row or a reject, and its neighbours are untouched.

use std::sync::Arc;

use dataflow::Decoded;
use testkit::Fuzz;

use super::super::Types;
use super::{ProtobufDecoder, ProtobufOptions, decode, decoder, hex};
use crate::schemas::{SchemaText, Schemas, Writer};
use crate::testing::{row, schema};

const BODY: &str = "message S { optional string city = 1; repeated double d = 2; S s = 3; }
    enum K { A = 0; B = 2; }
    int32 id = 1; string text = 2; repeated sint64 list = 3; map<string, K> map = 4; oneof o { S s = 5; bytes b = 6; }
    google.protobuf.Timestamp at = 7; google.protobuf.Duration took = 8; repeated google.protobuf.StringValue names = 9; fixed32 f = 10;";

const COLUMNS: [&str; 11] = [
    "id Int16",
    "text LowCardinality(Nullable(String))",
    "list Array(Int32)",
    "map Map(String, Enum8('A' = 1, 'B' = 2)) DEFAULT",
    "city Nullable(String) <- s.city",
    "inner Array(Float32) <- s.s.d",
    "b Nullable(FixedString(3))",
    "at Nullable(DateTime64(3))",
    "took Nullable(Decimal(18, 9))",
    "names Array(String)",
    "f UInt32",
];

#[test]
fn fuzz_protobuf_record() {
    let decoder = decoder(BODY, &COLUMNS);
    let good = hex(
        "08ac02 1203 61c3a9 1a03 020304 22 05 0a016b 1002 2a0f 0a0161 1a0a 1208 000000000000f83f 3a04 08011002 4204 08011002 4a03 0a0178 4a00 55 01000000",
    );
    let alone = decode(&decoder, &[&good]);
    assert_eq!(alone.rejects, []);
    let alone = row(&alone, 0);
    let words: Vec<Vec<u8>> = [
        "80",
        "ff",
        "00",
        "08",
        "12",
        "1a",
        "22",
        "2a",
        "32",
        "3a",
        "42",
        "4a",
        "55",
        "0b",
        "0c",
        "ffffffffffffffffff01",
        "ffffffffffffffffff7f",
        "ffffffff0f",
        "c328",
        "2a00",
        "3203616263",
        "2205 0a016b 1000",
        "3a0b 08ffffffffffffffff7f",
        "3a0b 08808080808080808080 01",
    ]
    .map(hex)
    .into();
    Fuzz::new("protobuf record").example(&good).words(&words).memory_max(1 << 20, 4_096).run(
        6_000,
        |record| {
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
        },
    );
}

/// The same of records with headers: a header that is changed costs its own record alone.
#[test]
fn fuzz_protobuf_framed() {
    let schemas = Arc::new(Schemas::default());
    let text = format!("syntax = \"proto3\"; package p; {} message M {{ {BODY} }}", super::IMPORTS);
    schemas.put(1, Writer::Texts([SchemaText::own(text)].into())).expect("room");
    let decoder = ProtobufDecoder::framed(schema(&COLUMNS), schemas, None, ProtobufOptions::default());
    let decoder = decoder.expect("columns");
    let good = hex("00 00000001 02 00 08ac02 1203 61c3a9");
    let alone = row(&decode(&decoder, &[&good]), 0);
    let words = ["00", "0000000001", "0000000002", "02", "0400", "80", "8000", "7f"].map(hex);
    Fuzz::new("protobuf framed").example(&good).words(&words).run(3_000, |record| {
        let decoded = decode(&decoder, &[&good[..], record, &good]);
        assert_eq!(decoded.batch.rows.num_rows() + decoded.rejects.len(), 3);
        let last = decoded.batch.rows.num_rows() - 1;
        assert!(row(&decoded, 0) == alone && row(&decoded, last) == alone, "a neighbour changed");
        let single = decode(&decoder, &[record]);
        let said = |decoded: &Decoded| {
            decoded.rejects.iter().map(|reject| reject.message.clone()).collect::<Vec<_>>()
        };
        assert_eq!(said(&single), said(&decoded));
    });
}

#[test]
fn fuzz_protobuf_schema() {
    let example = format!("syntax = \"proto3\"; package p; {} message M {{ {BODY} }}", super::IMPORTS);
    let words = [
        "message X {",
        "}",
        "{",
        "[",
        "]",
        "<",
        ">",
        "option (x) = {",
        "import \"a.proto\";",
        "oneof y {",
        "map<string, M> z = 7;",
        "syntax = \"proto2\";",
        "edition = \"2023\";",
        "extend M {",
        "group G = 9 {",
        "= 536870912;",
        "\"",
        "/*",
        "//",
    ];
    Fuzz::new("protobuf schema").example(&example).words(words).run(1_500, |text| {
        let text = String::from_utf8_lossy(text).into_owned();
        let types =
            Types::of_text("m.proto", Arc::new(move |name| Ok((name == "m.proto").then(|| text.clone()))));
        if let Ok(types) = types {
            drop(types.message("p.M"));
        }
    });
}

#[test]
fn fuzz_protobuf_set() {
    let set = super::types("proto3", BODY).pool.encode_to_vec();
    Fuzz::new("protobuf set").example(&set).run(1_500, |bytes| {
        if let Ok(types) = Types::of_set(bytes) {
            drop(types.message("p.M"));
        }
    });
}
