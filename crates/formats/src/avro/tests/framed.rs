//! Records that name their schema: each is read by its own, and one whose schema is of no use is a reject of its own.

use std::sync::Arc;

use dataflow::{Decoder, Reason};

use super::super::{AvroDecoder, AvroOptions};
use super::record;
use super::written::{long, sized};
use crate::schemas::{
    SCHEMAS_MAX, SchemaText, Schemas, SchemasFull, UNUSABLE_MAX, Writer, schema_id, schema_ids,
};
use crate::testing::{block, row, schema};

fn texts<const N: usize>(texts: [&str; N]) -> Writer {
    Writer::Texts(texts.map(SchemaText::own).to_vec().into())
}

fn framed(columns: &[&str], schemas: &Arc<Schemas>) -> AvroDecoder {
    AvroDecoder::framed(schema(columns), schemas.clone(), AvroOptions::default()).expect("columns")
}

/// A record of schema `id` that ends with the datum `rest`.
fn of(id: u32, rest: &[u8]) -> Vec<u8> {
    [&[0][..], &id.to_be_bytes(), rest].concat()
}

fn number(value: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    long(value, &mut bytes);
    bytes
}

fn named_number(name: &str, value: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    sized(name.as_bytes(), &mut bytes);
    long(value, &mut bytes);
    bytes
}

/// Schema 1: a number. Schema 9: a name, then a number.
fn two() -> Arc<Schemas> {
    let schemas = Arc::new(Schemas::default());
    let n = r#"{"name": "n", "type": "long"}"#;
    schemas.put(1, texts([&record(n)])).expect("room");
    schemas.put(9, texts([&record(&format!(r#"{{"name": "s", "type": "string"}}, {n}"#))])).expect("room");
    schemas
}

#[test]
fn each_record_is_read_by_the_schema_that_it_names() {
    let decoder = framed(&["n Int64", "s Nullable(String)"], &two());
    let records: Vec<Vec<u8>> =
        (0..40).map(|n| if n % 3 == 0 { of(9, &named_number("x", n)) } else { of(1, &number(n)) }).collect();
    let decoded = decoder.decode(&block(&records));
    assert!(decoded.rejects.is_empty(), "{:?}", decoded.rejects);
    for n in 0..40 {
        let s = if n % 3 == 0 { r#""x""# } else { "NULL" };
        assert_eq!(row(&decoded, n), [n.to_string(), s.to_owned()]);
    }
}

#[test]
fn more_kinds_of_records_than_are_at_hand_are_read_all_the_same() {
    let schemas = Arc::new(Schemas::default());
    let text = record(r#"{"name": "n", "type": "long"}"#);
    (0..40).for_each(|id| assert_eq!(schemas.put(id, texts([&text])), Ok(true)));
    let decoder = framed(&["n Int64"], &schemas);
    let records: Vec<Vec<u8>> = (0..400).map(|n| of(n * 7 % 40, &number(i64::from(n)))).collect();
    let decoded = decoder.decode(&block(&records));
    assert!(decoded.rejects.is_empty(), "{:?}", decoded.rejects);
    assert!((0..400).all(|n| row(&decoded, n) == [n.to_string()]));
}

#[test]
fn a_schema_may_use_types_that_others_define() {
    let schemas = Arc::new(Schemas::default());
    let place = r#"{"type": "record", "name": "place", "namespace": "geo", "fields": [{"name": "city", "type": "string"}]}"#;
    let text = record(r#"{"name": "at", "type": "geo.place"}, {"name": "n", "type": "long"}"#);
    schemas.put(3, texts([place, &text])).expect("room");
    let decoder = framed(&["city String <- at.city", "n Int64"], &schemas);
    let decoded = decoder.decode(&block(&[of(3, &named_number("Rome", 7))]));
    assert_eq!(row(&decoded, 0), [r#""Rome""#, "7"]);
}

#[test]
fn a_record_that_cannot_be_read_takes_no_other_along() {
    let schemas = two();
    schemas.put(4, Writer::Unusable("the registry has none of this number".into())).expect("room");
    schemas.put(5, texts([&record(r#"{"name": "n", "type": "boolean"}"#)])).expect("room");
    schemas.put(6, texts(["{"])).expect("room");
    let decoder = framed(&["n UInt32"], &schemas);
    let bad: [(Vec<u8>, Reason, &str); 8] = [
        (of(4, &number(7)), Reason::Schema, "schema `4`: the registry has none of this number"),
        (
            of(5, &number(7)),
            Reason::Schema,
            "schema `5`: field `n`, column `n`: the schema has boolean, and UInt32 does not take a boolean",
        ),
        (of(6, &number(7)), Reason::Schema, "schema `6`: the schema is not a valid Avro schema: "),
        (
            of(8, &number(7)),
            Reason::Schema,
            "schema `8`: no usable schema is known for it, nor for many others",
        ),
        (
            vec![],
            Reason::Malformed,
            "byte `0`: the record has `0` bytes; a header alone has `5`; is it written ",
        ),
        (vec![0, 0, 0, 1], Reason::Malformed, "byte `0`: the record has `4` bytes; "),
        (
            number(7),
            Reason::Malformed,
            "byte `0`: the record begins with `0x0e`, and a header with `0x00`; is it written ",
        ),
        (of(1, &[]), Reason::Malformed, "byte `5`, field `n`: "),
    ];
    let records: Vec<Vec<u8>> =
        bad.iter().flat_map(|(record, ..)| [of(1, &number(1)), record.clone()]).collect();
    let decoded = decoder.decode(&block(&records));
    assert_eq!(decoded.batch.rows.num_rows(), bad.len());
    assert_eq!(decoded.rejects.len(), bad.len());
    for (reject, (_, reason, message)) in decoded.rejects.iter().zip(&bad) {
        assert_eq!(reject.reason, *reason, "{}", reject.message);
        assert!(reject.message.starts_with(message), "{}", reject.message);
    }
}

#[test]
fn a_number_that_the_registry_learns_later_is_read_from_then_on() {
    let schemas = Arc::new(Schemas::default());
    schemas.put(1, Writer::Unusable("none yet".into())).expect("room");
    let decoder = framed(&["n Int64"], &schemas);
    let records = [of(1, &number(7))];
    assert_eq!(decoder.decode(&block(&records)).rejects.len(), 1);
    schemas.put(1, texts([&record(r#"{"name": "n", "type": "long"}"#)])).expect("room");
    assert_eq!(row(&decoder.decode(&block(&records)), 0), ["7"]);
    // And it stays, whatever is said of it afterwards.
    schemas.put(1, Writer::Unusable("gone".into())).expect("room");
    assert_eq!(row(&decoder.decode(&block(&records)), 0), ["7"]);
}

#[test]
fn numbers_of_a_block_are_told_once_a_run_and_their_count_is_bounded() {
    let records = [of(7, b"a"), of(7, b"b"), vec![1], of(9, b""), of(7, b"c")];
    assert_eq!(schema_ids(&block(&records)).collect::<Vec<_>>(), [7, 9, 7]);
    assert_eq!((schema_id(&of(u32::MAX, b"")), schema_id(b"\0\0\0\0")), (Some(u32::MAX), None));
    let schemas = Schemas::default();
    let none = || Writer::Unusable("none".into());
    assert!((0..UNUSABLE_MAX as u32).all(|id| schemas.put(id, none()) == Ok(true)));
    assert_eq!(schemas.put(u32::MAX, none()), Ok(false), "it is not kept, and stops nothing");
    assert_eq!(schemas.put(0, none()), Ok(true));
    assert_eq!(schemas.get(&u32::MAX), None);
    let text = || texts(["{}"]);
    assert!(
        (0..SCHEMAS_MAX as u32).all(|id| schemas.put(id, text()) == Ok(true)),
        "they have room of their own"
    );
    assert_eq!(schemas.put(u32::MAX, text()), Err(SchemasFull));
    assert_eq!(schemas.get(&0), Some(text()));
}

#[test]
fn a_block_that_names_its_schema_is_read_by_it_and_one_that_names_none_is_of_no_use() {
    let schemas = Arc::new(Schemas::<Arc<str>>::default());
    let n = r#"{"name": "n", "type": "long"}"#;
    schemas.put("t:0".into(), texts([&record(n)])).expect("room");
    schemas
        .put("t:1".into(), texts([&record(&format!(r#"{{"name": "s", "type": "string"}}, {n}"#))]))
        .expect("room");
    schemas.put("t:2".into(), Writer::Unusable("it is a schema of JSON".into())).expect("room");
    schemas.put("t:3".into(), texts([&record(r#"{"name": "n", "type": "boolean"}"#)])).expect("room");
    let columns = schema(&["n Int64", "s Nullable(String)"]);
    let decoder = AvroDecoder::of_blocks(columns, schemas, AvroOptions::default()).expect("columns");
    let decode = |name: Option<&str>, records: &[Vec<u8>]| {
        decoder.decode(&dataflow::RecordBlock { schema: name.map(Into::into), ..block(records) })
    };
    let first = decode(Some("t:0"), &[number(7), number(8)]);
    assert_eq!(
        (row(&first, 0), row(&first, 1)),
        (vec!["7".into(), "NULL".into()], vec!["8".into(), "NULL".into()])
    );
    let second = decode(Some("t:1"), &[named_number("x", 9)]);
    assert_eq!(row(&second, 0), ["9", r#""x""#]);
    for (name, says) in [
        (None, "the message names no schema: "),
        (Some("t:2"), "schema `t:2`: it is a schema of JSON"),
        (Some("t:3"), "schema `t:3`: field `n`, column `n`: "),
        (Some("t:4"), "schema `t:4`: no usable schema is known for it"),
    ] {
        let decoded = decode(name, &[number(7), number(8)]);
        assert_eq!(decoded.batch.rows.num_rows(), 0);
        for reject in &decoded.rejects {
            assert_eq!(reject.reason, Reason::Schema);
            assert!(reject.message.starts_with(says), "{}", reject.message);
            let kept = name.map(|name| (dataflow::block::SCHEMA_HEADER, Some(name.as_bytes())));
            assert_eq!(dataflow::block::headers(&reject.headers).next(), kept);
        }
        assert_eq!(decoded.rejects.len(), 2);
    }
}

/// Records that are nothing but numbers go another way, by whole columns.
#[test]
fn a_block_of_numbers_that_names_its_schema_is_read_by_it() {
    let schemas = Arc::new(Schemas::<Arc<str>>::default());
    let both = r#"{"name": "a", "type": "long"}, {"name": "b", "type": "int"}"#;
    schemas.put("t:0".into(), texts([&record(both)])).expect("room");
    let decoder = AvroDecoder::of_blocks(schema(&["b Int32", "a Int64"]), schemas, AvroOptions::default())
        .expect("columns");
    let records: Vec<Vec<u8>> = (0..50).map(|n| [number(n), number(-n)].concat()).collect();
    let decoded = decoder.decode(&dataflow::RecordBlock { schema: Some("t:0".into()), ..block(&records) });
    assert!(decoded.rejects.is_empty(), "{:?}", decoded.rejects);
    assert!((0..50).all(|n| row(&decoded, n as usize) == [(-n).to_string(), n.to_string()]));
}

#[test]
fn a_record_whose_number_is_one_of_too_many_is_a_dead_letter() {
    let decoder = framed(&["n Int64"], &Arc::new(Schemas::default()));
    let decoded = decoder.decode(&block(&[of(77, &number(1))]));
    let reject = &decoded.rejects[0];
    assert_eq!(reject.reason, Reason::Schema);
    assert!(reject.message.contains("which nobody has registered"), "{}", reject.message);
}
