//! Random documents against `serde_json`, and random damage against the contract.

use dataflow::Decoder;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::contract::EVERY_KIND;
use super::support::{block, decoder, one, row};
use crate::json::JsonOptions;

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(|f| json!(if f.is_finite() { f } else { 0.5 })),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// A record with a value for most columns of [`EVERY_KIND`], some of them bad, and fields that no column asks for.
fn any_record() -> impl Strategy<Value = String> {
    let maybe = |value: BoxedStrategy<Value>| prop_oneof![40 => value.prop_map(Some), 1 => any_json().prop_map(Some), 1 => Just(None)];
    let of = |values: &'static [&'static str]| prop::sample::select(values).prop_map(Value::from).boxed();
    let fields: Vec<(&str, BoxedStrategy<Value>)> = vec![
        ("int", any::<i32>().prop_map(Value::from).boxed()),
        ("big", any::<u64>().prop_map(Value::from).boxed()),
        ("float", any::<f32>().prop_map(|f| json!(if f.is_finite() { f } else { 1.0 })).boxed()),
        ("flag", any::<bool>().prop_map(Value::from).boxed()),
        ("text", any::<String>().prop_map(Value::from).boxed()),
        ("id", of(&["00112233-4455-6677-8899-aabbccddeeff", "00112233445566778899AABBCCDDEEFF"])),
        ("pad", of(&["", "ab", "abcd"])),
        ("time", of(&["2024-05-01 10:20:30", "2024-05-01T10:20:30.123456+02:00", "1714558830"])),
        ("price", of(&["1.25", "-0.0001", "1234567890123456"])),
        ("kind", of(&["a", "b"])),
        ("list", prop::collection::vec(any::<Option<String>>(), 0..4).prop_map(|list| json!(list)).boxed()),
        (
            "map",
            prop::collection::btree_map(any::<String>(), prop::collection::vec(any::<i8>(), 0..3), 0..3)
                .prop_map(|map| json!(map))
                .boxed(),
        ),
        ("o.tag", any::<String>().prop_map(Value::from).boxed()),
        ("o", any::<i64>().prop_map(|q| json!({"p": {"q": q}, "tag": "nested"})).boxed()),
    ];
    let fields: Vec<_> = fields
        .into_iter()
        .map(|(name, value)| maybe(value).prop_map(move |value| value.map(|value| (name.to_owned(), value))))
        .collect();
    (fields, any_json(), any::<bool>(), any::<prop::sample::Index>()).prop_map(
        |(mut fields, extra, pretty, first)| {
            // Another order than the schema's, so that the expected key is often not the one that comes.
            let middle = first.index(fields.len());
            fields.rotate_left(middle);
            fields[middle..].reverse();
            let mut record: Map<String, Value> = fields.into_iter().flatten().collect();
            record.insert("extra".into(), extra);
            let record = Value::Object(record);
            if pretty { serde_json::to_string_pretty(&record) } else { serde_json::to_string(&record) }
                .expect("a value can be written")
        },
    )
}

/// A byte changed, a byte left out, a byte put in, or the tail cut off; sometimes nothing.
fn damaged(record: String) -> impl Strategy<Value = Vec<u8>> {
    let bytes = record.into_bytes();
    let length = bytes.len();
    let byte = prop_oneof![any::<u8>(), prop::sample::select(&b"{}[]\",:\\u0-+.eE tfn\x00\x1f"[..])];
    (0..length + 1, 0..8u8, byte).prop_map(move |(at, how, byte)| {
        let mut bytes = bytes.clone();
        match how {
            0 if at < length => bytes[at] = byte,
            1 if at < length => drop(bytes.remove(at)),
            2 => bytes.insert(at, byte),
            3 => bytes.truncate(at),
            _ => {}
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_record_is_well_formed_exactly_when_serde_json_says_so(
        record in any_json().prop_filter("objects", Value::is_object).prop_flat_map(|v| damaged(v.to_string()))
    ) {
        let options = JsonOptions { coerce_to_string: true, ..JsonOptions::default() };
        let decoder = decoder(&["nothing Nullable(String) <- of_this_name"], options);
        let ours = one(&decoder, &record);
        match serde_json::from_slice::<Value>(&record) {
            Ok(value) => prop_assert_eq!(ours.is_ok(), value.is_object(), "{:?}", ours),
            // It holds numbers as floats, so it minds their size; to the grammar they are good.
            Err(error) if error.to_string().contains("out of range") => {}
            Err(error) => prop_assert!(ours.is_err(), "serde_json: {}", error),
        }
    }

    #[test]
    fn values_are_those_that_serde_json_reads(
        int in any::<i64>(), big in any::<u64>(), float in any::<f64>(), text in any::<String>(), key in any::<String>(),
        list in prop::collection::vec(any::<Option<i16>>(), 0..6), pretty in any::<bool>(),
    ) {
        prop_assume!(float.is_finite());
        let record = json!({"int": int, "text": text, "big": big, "float": float, "list": list, "map": {key.as_str(): text}});
        let written = if pretty { serde_json::to_string_pretty(&record) } else { serde_json::to_string(&record) }.unwrap();
        let columns =
            ["int Int64", "big UInt64", "float Float64", "text String", "list Array(Nullable(Int16))", "map Map(String, String)"];
        let decoder = decoder(&columns, JsonOptions::default());
        let items: Vec<_> = list.iter().map(|i| i.map_or("NULL".into(), |i| i.to_string())).collect();
        let expected = vec![
            int.to_string(), big.to_string(), format!("{float:?}"), format!("{text:?}"),
            format!("[{}]", items.join(", ")), format!("{{{key:?}: {text:?}}}"),
        ];
        prop_assert_eq!(one(&decoder, written), Ok(expected));
    }

    #[test]
    fn every_record_is_a_row_or_a_reject_and_none_touches_another(
        records in prop::collection::vec(any_record().prop_flat_map(damaged), 0..12)
    ) {
        let decoder = decoder(&EVERY_KIND, JsonOptions::default());
        let decoded = decoder.decode(&block(&records));
        prop_assert_eq!(decoded.batch.len() + decoded.rejects.len(), records.len());
        prop_assert_eq!(decoded.batch.len(), decoded.batch.rows.num_rows());
        let mut rows = 0;
        let mut rejects = decoded.rejects.iter();
        for (n, record) in records.iter().enumerate() {
            match one(&decoder, record) {
                Ok(alone) => {
                    prop_assert_eq!(decoded.batch.positions[rows], 100 + n as u64);
                    prop_assert_eq!(row(&decoded, rows), alone);
                    rows += 1;
                }
                Err(alone) => {
                    let reject = rejects.next().expect("as many rejects as records that fail alone");
                    prop_assert_eq!(reject.position, 100 + n as u128);
                    prop_assert_eq!(format!("{}: {}", reject.reason.as_str(), reject.message), alone);
                    prop_assert_eq!(&reject.raw, record);
                }
            }
        }
    }

    #[test]
    fn no_bytes_make_it_panic(records in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..64), 0..8)) {
        let decoder = decoder(&EVERY_KIND, JsonOptions::default());
        let decoded = decoder.decode(&block(&records));
        prop_assert_eq!(decoded.batch.len() + decoded.rejects.len(), records.len());
    }

    #[test]
    fn a_value_of_any_text_is_taken_or_turned_down(
        type_name in prop::sample::select(&[
            "Int64", "Float32", "Decimal(38, 19)", "UUID", "IPv4", "IPv6", "DateTime", "DateTime64(9, 'Europe/Berlin')",
            "Date32", "FixedString(3)", "Enum8('a' = 1)", "Map(DateTime64(3), Int8)",
        ][..]),
        text in prop_oneof![any::<String>(), "[0-9+-]{4}[-0-9]{6}[T ][0-9:]{8}[.Z+0-9-]{0,12}", "[-+]?[0-9.eE+-]{1,45}"],
    ) {
        let decoder = decoder(&[&format!("v {type_name}")], JsonOptions::default());
        for value in [json!(text), json!({text.as_str(): 1})] {
            if let Err(reject) = one(&decoder, json!({"v": value}).to_string()) {
                prop_assert!(reject.contains("field `v`: value `"), "{}", reject);
            }
        }
        let _ = one(&decoder, format!("{{\"v\": {text}}}"));
    }
}
