//! The short way for blocks of numbers gives what the long one gives, and leaves the others to it.

use proptest::prelude::*;

use super::written::long;
use super::{decoder, record};
use crate::avro::{AvroDecoder, AvroOptions};
use crate::schemas::{SchemaText, Schemas, Writer};
use crate::testing::{block, schema};

const FIELDS: &str = r#"{"name": "id", "type": "int"}, {"name": "kind", "type": "int"}, {"name": "a", "type": "double"},
    {"name": "b", "type": "double"}, {"name": "unused", "type": "double"}, {"name": "c", "type": "double"},
    {"name": "far", "type": "long"}, {"name": "half", "type": "float"}, {"name": "d", "type": "double"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}, {"name": "n", "type": "long"}"#;
const COLUMNS: [&str; 7] = [
    "n Int64",
    "at DateTime64(3)",
    "id UInt16",
    "d Float64",
    "a Float64",
    "c Nullable(Float32)",
    "b Float64",
];

/// One record: the numbers in the order of the fields.
fn written(whole: [i64; 5], doubles: [f64; 5]) -> Vec<u8> {
    let mut bytes = Vec::new();
    long(whole[0], &mut bytes);
    long(3, &mut bytes);
    doubles[..4].iter().for_each(|double| bytes.extend(double.to_le_bytes()));
    long(whole[2], &mut bytes);
    bytes.extend(1.5_f32.to_le_bytes());
    bytes.extend(doubles[4].to_le_bytes());
    long(whole[3], &mut bytes);
    long(whole[4], &mut bytes);
    bytes
}

fn numbers() -> impl Strategy<Value = Vec<u8>> {
    let whole =
        (0..70_000_i64, any::<i64>(), -3_000_000_000_000..9_000_000_000_000_i64, any::<i64>(), 0..64_u32);
    (whole, any::<[f64; 5]>()).prop_map(|((id, far, at, n, shift), doubles)| {
        written([id, 0, far >> shift, at, n >> shift], doubles)
    })
}

/// The rows of both ways as text; that of the short one only if it takes the block.
fn both(decoder: &AvroDecoder, records: &[Vec<u8>]) -> (Option<String>, String, usize) {
    let block = block(records);
    let shown = |decoded: &dataflow::Decoded| {
        format!("{:?} {:?} {:?}", decoded.batch.rows, decoded.batch.positions, decoded.batch.times_ms)
    };
    let (short, slow) = (decoder.flat(&block), decoder.each(&block));
    let rejects = short.as_ref().map_or(0, |decoded| decoded.rejects.len());
    assert_eq!(rejects, 0, "the short way rejects nothing");
    (short.as_ref().map(shown), shown(&slow), slow.rejects.len())
}

proptest! {
    #[test]
    fn a_block_of_numbers_is_the_same_both_ways(records in prop::collection::vec(numbers(), 0..40)) {
        let decoder = decoder(FIELDS, &COLUMNS).expect("the columns fit");
        let (short, slow, rejects) = both(&decoder, &records);
        // An id beyond UInt16 and a float beyond Float32 are rejects, which the short way has none of.
        prop_assert_eq!(short.is_some(), rejects == 0);
        if let Some(short) = short {
            prop_assert_eq!(short, slow);
        }
    }

    #[test]
    fn bytes_too_few_or_too_many_are_left_to_the_long_way(
        record in numbers(),
        at in any::<prop::sample::Index>(),
        more in any::<bool>(),
    ) {
        let decoder = decoder(FIELDS, &COLUMNS).expect("the columns fit");
        let mut changed = record.clone();
        if more {
            changed.push(0);
        } else {
            changed.truncate(at.index(record.len()));
        }
        let (short, _, rejects) = both(&decoder, &[record, changed]);
        prop_assert!(short.is_none());
        prop_assert!(rejects >= 1);
    }
}

#[test]
fn records_of_one_schema_of_a_registry_take_the_short_way_too() {
    let schemas = std::sync::Arc::new(Schemas::default());
    for id in [7, 8] {
        schemas.put(id, Writer::Texts([SchemaText::own(record(FIELDS))].into())).expect("there is room");
    }
    let decoder =
        AvroDecoder::framed(schema(&COLUMNS), schemas, AvroOptions::default()).expect("the columns fit");
    let of = |id: u8, n: i64| [vec![0, 0, 0, 0, id], written([n, 0, 2, 3, 4], [0.5; 5])].concat();
    let (short, slow, rejects) = both(&decoder, &[of(7, 1), of(7, 2)]);
    assert_eq!((short, rejects), (Some(slow), 0));
    assert!(both(&decoder, &[of(7, 1), of(8, 2)]).0.is_none(), "of two schemas");
    assert!(both(&decoder, &[of(7, 1), vec![0, 0]]).0.is_none(), "without a whole header");
    let other = [vec![1, 0, 0, 0, 7], of(7, 1)[5..].to_vec()].concat();
    assert!(both(&decoder, &[of(7, 1), other]).0.is_none(), "without a header");
}

#[test]
fn a_schema_with_anything_but_numbers_or_a_column_without_a_field_takes_the_long_way() {
    let number = r#"{"name": "id", "type": "int"}"#;
    let flat = |fields: &str, columns: &[&str]| {
        let decoder = decoder(fields, columns).expect("the columns fit");
        matches!(&decoder.writers, crate::avro::Writers::One(plan) if plan.flat.is_some())
    };
    assert!(flat(number, &["id Int32"]));
    assert!(!flat(number, &["id Int32", "again Int64 <- id"]));
    assert!(!flat(number, &["id Int32", "none Nullable(Int32)"]));
    assert!(!flat(&format!(r#"{number}, {{"name": "t", "type": "string"}}"#), &["id Int32"]));
    assert!(!flat(r#"{"name": "id", "type": ["null", "int"]}"#, &["id Nullable(Int32)"]));
}
