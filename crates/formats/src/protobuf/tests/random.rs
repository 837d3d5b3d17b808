//! Random messages, written by another implementation (`prost-reflect`) that shares nothing with the decoder but the schema.

use std::sync::LazyLock;

use proptest::prelude::*;
use protox::prost_reflect::prost::Message;
use protox::prost_reflect::{DynamicMessage, MapKey, Value};

use super::{ProtobufDecoder, ProtobufOptions, decode, one, types};
use crate::testing::{row, schema};

const BODY: &str = "
    message Place { string city = 1; optional sint32 floor = 2; repeated fixed64 ids = 3; Place near = 4; }
    enum Kind { NONE = 0; FIRST = 1; LAST = 300; }
    int32 a = 1; sint64 b = 2; fixed32 c = 3; bool d = 4; double e = 5; string f = 6; bytes g = 7; Kind kind = 8;
    optional uint64 h = 9; repeated sint32 packed = 10; repeated int64 single = 11 [packed = false]; repeated string texts = 12;
    map<string, double> numbers = 13; map<int32, Kind> kinds = 14; Place place = 15; float far = 5000;
    oneof one { int32 x = 20; string y = 21; Place z = 22; }
    google.protobuf.Timestamp at = 30;";

const COLUMNS: [&str; 21] = [
    "a Int32",
    "b Int64",
    "c UInt32",
    "d Bool",
    "e Float64",
    "f String",
    "g String",
    "kind String",
    "number Int32 <- kind",
    "h Nullable(UInt64)",
    "packed Array(Int32)",
    "single Array(Int64)",
    "texts Array(LowCardinality(String))",
    "kinds Map(Int32, String)",
    "city Nullable(String) <- place.city",
    "floor Nullable(Int32) <- place.floor",
    "ids Array(UInt64) <- place.near.ids",
    "far Float32",
    "x Nullable(Int32)",
    "z Nullable(String) <- z.city",
    "at Nullable(DateTime64(9))",
];

/// A number of any length.
fn number() -> impl Strategy<Value = i64> {
    (any::<i64>(), 0u32..64).prop_map(|(value, shift)| value >> shift)
}

#[derive(Clone, Debug)]
struct Sent {
    numbers: Vec<i64>,
    texts: Vec<String>,
    kind: usize,
    one: u8,
    has: u32,
    double: f64,
}

fn sent() -> impl Strategy<Value = Sent> {
    let numbers = prop::collection::vec(number(), 8);
    let texts = prop::collection::vec("\\PC{0,9}", 0..5);
    (numbers, texts, 0usize..3, 0u8..4, any::<u32>(), any::<f64>())
        .prop_map(|(numbers, texts, kind, one, has, double)| Sent { numbers, texts, kind, one, has, double })
}

const KINDS: [(&str, i32); 3] = [("NONE", 0), ("FIRST", 1), ("LAST", 300)];

/// The message as the other implementation writes it, and the row that it stands for.
fn written(types: &super::Types, sent: &Sent) -> (Vec<u8>, Vec<String>) {
    let descriptor = types.message("p.M").expect("it is there");
    let place = types.message("p.M.Place").expect("it is there");
    let mut message = DynamicMessage::new(descriptor);
    let Sent { numbers: n, texts, kind, one, has, double } = sent;
    let text = texts.first().cloned().unwrap_or_default();
    let (word, number) = KINDS[*kind];
    // The other implementation does not send a zero with a sign.
    let far = if *double as f32 == 0.0 { 0.0 } else { *double as f32 };
    let double = if *double == 0.0 { &0.0 } else { double };
    let has = |bit: u32| has & (1 << bit) != 0;
    let nanos = n[6].rem_euclid(1_000_000_000) as i32;
    let seconds = n[7].rem_euclid(9_000_000_000);
    message.set_field_by_name("a", Value::I32(n[0] as i32));
    message.set_field_by_name("b", Value::I64(n[1]));
    message.set_field_by_name("c", Value::U32(n[2] as u32));
    message.set_field_by_name("d", Value::Bool(has(0)));
    message.set_field_by_name("e", Value::F64(*double));
    message.set_field_by_name("f", Value::String(text.clone()));
    message.set_field_by_name("g", Value::Bytes(text.clone().into_bytes().into()));
    message.set_field_by_name("kind", Value::EnumNumber(number));
    message.set_field_by_name("far", Value::F32(far));
    if has(1) {
        message.set_field_by_name("h", Value::U64(n[3] as u64));
    }
    message.set_field_by_name("packed", Value::List(n.iter().map(|n| Value::I32(*n as i32)).collect()));
    message.set_field_by_name("single", Value::List(n.iter().map(|n| Value::I64(*n)).collect()));
    message.set_field_by_name("texts", Value::List(texts.iter().cloned().map(Value::String).collect()));
    let entries = [(MapKey::I32(n[4] as i32), Value::EnumNumber(number))];
    message.set_field_by_name("kinds", Value::Map(entries.into()));
    let unneeded = texts.iter().map(|text| (MapKey::String(text.clone()), Value::F64(*double)));
    message.set_field_by_name("numbers", Value::Map(unneeded.collect()));
    if has(2) {
        let mut at = DynamicMessage::new(place.clone());
        at.set_field_by_name("city", Value::String(text.clone()));
        if has(3) {
            at.set_field_by_name("floor", Value::I32(n[5] as i32));
        }
        let mut near = DynamicMessage::new(place.clone());
        near.set_field_by_name("ids", Value::List(n.iter().map(|n| Value::U64(*n as u64)).collect()));
        at.set_field_by_name("near", Value::Message(near));
        message.set_field_by_name("place", Value::Message(at));
    }
    match one {
        1 => message.set_field_by_name("x", Value::I32(n[5] as i32)),
        2 => message.set_field_by_name("y", Value::String(text.clone())),
        3 => {
            let mut z = DynamicMessage::new(place);
            z.set_field_by_name("city", Value::String(text.clone()));
            message.set_field_by_name("z", Value::Message(z));
        }
        _ => {}
    }
    if has(4) {
        let mut at = DynamicMessage::new(types.message("google.protobuf.Timestamp").expect("it is there"));
        at.set_field_by_name("seconds", Value::I64(seconds));
        at.set_field_by_name("nanos", Value::I32(nanos));
        message.set_field_by_name("at", Value::Message(at));
    }
    let quoted = format!("{text:?}");
    let all = |show: &dyn Fn(i64) -> String| {
        format!("[{}]", n.iter().map(|n| show(*n)).collect::<Vec<_>>().join(", "))
    };
    let null = || "NULL".to_owned();
    let row = vec![
        (n[0] as i32).to_string(),
        n[1].to_string(),
        (n[2] as u32).to_string(),
        has(0).to_string(),
        format!("{double:?}"),
        quoted.clone(),
        quoted.clone(),
        format!("{word:?}"),
        number.to_string(),
        if has(1) { (n[3] as u64).to_string() } else { null() },
        all(&|n| (n as i32).to_string()),
        all(&|n| n.to_string()),
        format!("[{}]", texts.iter().map(|text| format!("{text:?}")).collect::<Vec<_>>().join(", ")),
        format!("{{{}: {word:?}}}", n[4] as i32),
        if has(2) { quoted.clone() } else { null() },
        if has(2) && has(3) { (n[5] as i32).to_string() } else { null() },
        if has(2) { all(&|n| (n as u64).to_string()) } else { "[]".into() },
        format!("{far:?}"),
        if *one == 1 { (n[5] as i32).to_string() } else { null() },
        if *one == 3 { quoted } else { null() },
        if has(4) { (seconds * 1_000_000_000 + i64::from(nanos)).to_string() } else { null() },
    ];
    (message.encode_to_vec(), row)
}

/// A field that no schema knows.
fn unknown() -> impl Strategy<Value = Vec<u8>> {
    // Numbers 100 to 111 are not in the schema.
    prop_oneof![
        (0u8..12, any::<[u8; 8]>()).prop_map(|(n, bytes)| [&[0xa1 + 8 * (n % 11), 6][..], &bytes].concat()),
        (0u8..12, prop::collection::vec(any::<u8>(), 0..20)).prop_map(|(n, bytes)| [
            &[0xa2 + 8 * (n % 11), 6, bytes.len() as u8][..],
            &bytes
        ]
        .concat()),
        Just(vec![0xa0, 6, 0xff, 0xff, 3]),
        Just(vec![0xa3, 6, 0xa5, 6, 1, 2, 3, 4, 0xa4, 6]),
    ]
}

/// Compiled once.
static TYPES: LazyLock<super::Types> = LazyLock::new(|| types("proto3", BODY));

proptest! {
    // Each is decoded as often as it has bytes.
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_another_implementation_writes_is_read_with_unknown_fields_around_it(
        sent in prop::collection::vec(sent(), 1..4),
        before in unknown(),
        after in unknown(),
    ) {
        let types = &*TYPES;
        let decoder = ProtobufDecoder::new(schema(&COLUMNS), types, "p.M", ProtobufOptions::default()).unwrap();
        let (records, rows): (Vec<_>, Vec<_>) = sent.iter().map(|sent| written(types, sent)).unzip();
        let decoded = decode(&decoder, &records);
        prop_assert_eq!(&decoded.rejects, &[]);
        for (n, expected) in rows.iter().enumerate() {
            prop_assert_eq!(&row(&decoded, n), expected);
        }
        let around = [&before[..], &records[0], &after].concat();
        prop_assert_eq!(one(&decoder, &around), Ok(rows[0].clone()));
        // The same message once more changes nothing but what is repeated; cut off anywhere it is a shorter message or none.
        for end in 0..records[0].len() {
            let cut = decode(&decoder, &[&records[0][..end], &records[0]]);
            let last = cut.batch.rows.num_rows() - 1;
            prop_assert_eq!(&row(&cut, last), &rows[0]);
            let is_message = DynamicMessage::decode(types.message("p.M").unwrap(), &records[0][..end]).is_ok();
            prop_assert_eq!(cut.rejects.is_empty(), is_message, "{} bytes of {:?}", end, records[0]);
        }
    }
}
