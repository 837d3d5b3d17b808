//! Records that name their message: each is read by its own, and one whose message or schema is of no use is a reject of its own.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use dataflow::{Decoded, Decoder, Reason, RecordBlock};

use super::{ProtobufDecoder, ProtobufOptions, Types, hex};
use crate::schemas::{SchemaText, Schemas, Writer};
use crate::testing::{block, row, schema};

const SHOP: &str = r#"syntax = "proto3"; package shop; import "geo/place.proto";
    message Order { geo.Place at = 1; int64 id = 2; message Item { message Part { int64 id = 3; } string name = 1; int64 id = 2; } }
    message Count { int64 id = 1; double level = 2; }"#;
const PLACE: &str = r#"syntax = "proto3"; package geo; message Place { string city = 1; }"#;

fn named(name: &str, text: &str) -> SchemaText {
    SchemaText { name: name.into(), text: text.into() }
}

/// Schema 1: the shop's. Schema 4: none. Schema 5: no text of Protobuf. Schema 6: one that cannot fill the columns.
fn schemas() -> Arc<Schemas> {
    let schemas = Arc::new(Schemas::default());
    let texts = |texts: Vec<SchemaText>| Writer::Texts(texts.into());
    schemas.put(1, texts(vec![named("geo/place.proto", PLACE), SchemaText::own(SHOP)])).expect("room");
    schemas.put(4, Writer::Unusable("the registry has none of this number".into())).expect("room");
    schemas.put(5, texts(vec![SchemaText::own("message {")])).expect("room");
    let other = r#"syntax = "proto3"; message M { bytes id = 1; }"#;
    schemas.put(6, texts(vec![SchemaText::own(other)])).expect("room");
    schemas
}

fn framed(columns: &[&str], message: Option<&str>) -> ProtobufDecoder {
    ProtobufDecoder::framed(schema(columns), schemas(), message, ProtobufOptions::default()).expect("columns")
}

/// A record of schema `id` whose header goes on with `place`, and ends with the message `rest`.
fn of(id: u32, place: &str, rest: &str) -> Vec<u8> {
    [&[0][..], &id.to_be_bytes(), &hex(place), &hex(rest)].concat()
}

fn says(decoded: &Decoded) -> Vec<String> {
    decoded.rejects.iter().map(|reject| reject.message.clone()).collect()
}

#[test]
fn each_record_is_read_by_the_message_that_its_header_names() {
    let decoder = framed(&["id Int64", "name Nullable(String)", "city Nullable(String) <- at.city"], None);
    // The first message in its short and its long form, then ones by their places: 0.0, 0.0.0 and 1.
    let kinds = [
        of(1, "00", "0a 03 0a01 78 10 07"),
        of(1, "02 00", "0a 03 0a01 79 10 08"),
        of(1, "04 00 00", "0a 01 7a 10 09"),
        of(1, "06 00 00 00", "18 0a"),
        of(1, "02 02", "08 0b 11 0000000000000000"),
        // The same place in more bytes than it needs.
        of(1, "82 00 82 00", "08 0c"),
        // A message without a byte.
        of(1, "00", ""),
    ];
    let wanted = [
        ["7", "NULL", r#""x""#],
        ["8", "NULL", r#""y""#],
        ["9", r#""z""#, "NULL"],
        ["10", "NULL", "NULL"],
        ["11", "NULL", "NULL"],
        ["12", "NULL", "NULL"],
        ["0", "NULL", "NULL"],
    ];
    // In runs and in turns.
    let records: Vec<usize> = (0..90).map(|n| if n < 20 { n / 5 } else { n * 3 % kinds.len() }).collect();
    let decoded = decoder.decode(&block(&records.iter().map(|kind| &kinds[*kind]).collect::<Vec<_>>()));
    assert!(decoded.rejects.is_empty(), "{:?}", says(&decoded));
    for (at, kind) in records.iter().enumerate() {
        assert_eq!(row(&decoded, at), wanted[*kind], "{kind}");
    }
}

#[test]
fn more_kinds_of_records_than_are_at_hand_are_read_all_the_same() {
    let schemas = schemas();
    let text = SchemaText::own(r#"syntax = "proto3"; message M { int64 id = 1; }"#);
    for id in 20..40 {
        schemas.put(id, Writer::Texts([text.clone()].into())).expect("room");
    }
    let columns = schema(&["id Int64"]);
    let decoder =
        ProtobufDecoder::framed(columns, schemas, None, ProtobufOptions::default()).expect("columns");
    let records: Vec<Vec<u8>> =
        (0..400).map(|n| of(20 + n * 7 % 20, "00", &format!("08 {:02x}", n % 100))).collect();
    let decoded = decoder.decode(&block(&records));
    assert!(decoded.rejects.is_empty(), "{:?}", says(&decoded));
    assert!((0..400).all(|n| row(&decoded, n) == [(n % 100).to_string()]));
}

#[test]
fn a_record_that_cannot_be_read_takes_no_other_along() {
    let decoder = framed(&["id UInt8"], None);
    let bad: [(Vec<u8>, Reason, &str); 15] = [
        (of(4, "00", ""), Reason::Schema, "schema `4`: the registry has none of this number"),
        (of(5, "00", ""), Reason::Schema, "schema `5`: schema.proto:1:9: "),
        (of(6, "00", ""), Reason::Schema, "schema `6`: field `id`, column `id`: "),
        (of(9, "00", ""), Reason::Schema, "schema `9`: no usable schema is known for it"),
        (of(1, "02 04", ""), Reason::Schema, "schema `1`: the record is of the message number `2`, which "),
        (of(1, "04 02 00", ""), Reason::Schema, "schema `1`: the record is of the message number `1.0`, "),
        (vec![], Reason::Malformed, "byte `0`: the record has `0` bytes; a header alone has `6`; is it "),
        (vec![0, 0, 0, 1], Reason::Malformed, "byte `0`: the record has `4` bytes; "),
        (
            hex("10 07"),
            Reason::Malformed,
            "byte `0`: the record begins with `0x10`, and a header with `0x00`",
        ),
        (of(1, "", ""), Reason::Malformed, "byte `5`: the header does not end within the record; is it "),
        (of(1, "04 00 80", ""), Reason::Malformed, "byte `8`: the header does not end within the record; "),
        (of(1, "01 00", ""), Reason::Malformed, "byte `5`: `-1` numbers name no message; "),
        (of(1, "82 01", ""), Reason::Malformed, "byte `5`: `65` numbers name no message; "),
        (of(1, "02 01", ""), Reason::Malformed, "byte `6`: the number of a message is none; "),
        (of(1, "02 02", "08 80"), Reason::Malformed, "byte `8`, field `id`: "),
    ];
    let good = of(1, "02 02", "08 01");
    let records: Vec<&[u8]> = bad.iter().flat_map(|(record, ..)| [&good[..], record]).collect();
    let decoded = decoder.decode(&block(&records));
    assert_eq!(decoded.batch.rows.num_rows(), bad.len());
    assert_eq!(decoded.rejects.len(), bad.len(), "{:?}", says(&decoded));
    for (reject, (_, reason, message)) in decoded.rejects.iter().zip(&bad) {
        assert_eq!(reject.reason, *reason, "{}", reject.message);
        assert!(reject.message.starts_with(message), "{}", reject.message);
    }
    let endless = decoder.decode(&block(&[of(1, "80 80 80 80 80 80 80 80 80 80 80", "")]));
    assert!(
        says(&endless)[0].starts_with("byte `15`: a number in the header does not end; "),
        "{:?}",
        says(&endless)
    );
}

#[test]
fn of_one_message_alone_others_are_rejects() {
    for message in ["shop.Count", ".shop.Count"] {
        let decoder = framed(&["id Int64"], Some(message));
        let decoded = decoder.decode(&block(&[of(1, "02 02", "08 05"), of(1, "00", "10 07")]));
        assert_eq!(row(&decoded, 0), ["5"]);
        let says = says(&decoded);
        let wanted = format!(
            "schema `1`: the record is of the message `shop.Order`, and the pipeline reads `{message}`"
        );
        assert_eq!(says, [wanted]);
        assert_eq!(decoded.rejects[0].reason, Reason::Schema);
    }
}

/// Blocks of numbers under one header go another way, by whole columns; a block that is not such a one must not.
#[test]
fn a_block_of_numbers_is_read_the_same_alone_and_among_others() {
    let decoder = framed(&["level Float64", "id Int64"], None);
    let count = |n: u8, place: &str| {
        let level = f64::from(n).to_le_bytes().map(|byte| format!("{byte:02x}")).concat();
        of(1, place, &format!("08 {n:02x} 11 {level}"))
    };
    for places in [["02 02", "02 02"], ["02 02", "82 00 02"]] {
        let records: Vec<Vec<u8>> = (0..100).map(|n| count(n, places[usize::from(n / 60)])).collect();
        let decoded = decoder.decode(&block(&records));
        assert!(decoded.rejects.is_empty(), "{:?}", says(&decoded));
        assert!((0..100).all(|n| row(&decoded, n) == [format!("{n}.0"), n.to_string()]));
    }
    let mut records: Vec<Vec<u8>> = (0..100).map(|n| count(n, "02 02")).collect();
    // Shorter than its header, and of another schema.
    records[7].truncate(6);
    records[9] = of(6, "00", "");
    let decoded = decoder.decode(&block(&records));
    assert_eq!((decoded.batch.rows.num_rows(), decoded.rejects.len()), (98, 2));
    assert_eq!(row(&decoded, 97), ["99.0", "99"]);
}

#[test]
fn one_name_for_two_texts_is_refused_and_one_for_the_same_text_is_not() {
    let same = [named("geo/place.proto", PLACE), named("geo/place.proto", PLACE), SchemaText::own(SHOP)];
    assert!(Types::of_texts(&same).is_ok());
    let two = [named("geo/place.proto", PLACE), named("geo/place.proto", SHOP), SchemaText::own(SHOP)];
    let error = Types::of_texts(&two).unwrap_err().to_string();
    assert_eq!(error, "it refers to two different schemas as `geo/place.proto`");
    let error = Types::of_texts(&[SchemaText::own(SHOP)]).unwrap_err().to_string();
    assert!(error.contains("geo/place.proto"), "{error}");
    // The name that a schema's own text goes by may be one that it imports.
    let text = r#"syntax = "proto3"; import "schema.proto"; message M { geo.Place at = 1; }"#;
    let types = Types::of_texts(&[named("schema.proto", PLACE), SchemaText::own(text)]).unwrap();
    assert_eq!(types.message_at(&[0], None).unwrap().full_name(), "M");
    assert!(Types::of_texts(&[]).is_err());
}

#[test]
fn what_serializers_take_to_be_known_needs_no_reference() {
    let text = r#"syntax = "proto3"; import "confluent/meta.proto"; import "confluent/type/decimal.proto";
        option (confluent.file_meta).doc = "orders";
        message M { option (confluent.message_meta).tags = "PII"; confluent.type.Decimal price = 1 [(confluent.field_meta).doc = "in euro"]; }"#;
    let types = Types::of_texts(&[SchemaText::own(text)]).unwrap_or_else(|error| panic!("{error}"));
    let price = types.message("confluent.type.Decimal").unwrap();
    let mut fields: Vec<_> = price.fields().map(|field| (field.number(), field.name().to_owned())).collect();
    fields.sort();
    assert_eq!(fields, [(1, "value".into()), (2, "precision".into()), (3, "scale".into())]);
    // A registry that has it all the same is believed.
    let own = r#"syntax = "proto3"; package confluent.type; message Decimal { string text = 1; }"#;
    let text = r#"syntax = "proto3"; import "confluent/type/decimal.proto"; message M { confluent.type.Decimal price = 1; }"#;
    let types =
        Types::of_texts(&[named("confluent/type/decimal.proto", own), SchemaText::own(text)]).unwrap();
    assert!(types.message("confluent.type.Decimal").unwrap().get_field_by_name("text").is_some());
}

/// A schema of a broker with this message.
fn of_broker(types: &Types, message: &str) -> String {
    let set = STANDARD.encode(types.pool.encode_to_vec());
    format!(
        r#"{{"fileDescriptorSet":"{set}","rootMessageTypeName":"{message}","rootFileDescriptorName":"shop.proto"}}"#
    )
}

#[test]
fn a_block_that_names_its_schema_is_read_by_it_and_one_that_names_none_is_of_no_use() {
    let types = Types::of_texts(&[named("geo/place.proto", PLACE), SchemaText::own(SHOP)]).expect("types");
    let schemas = || {
        let schemas = Arc::new(Schemas::<Arc<str>>::default());
        let put = |name: &str, text: &str| {
            let texts = Writer::Texts([SchemaText::own(text)].into());
            schemas.put(name.into(), texts).expect("room");
        };
        put("t:0", &of_broker(&types, "shop.Order"));
        put("t:1", &of_broker(&types, "shop.Count"));
        put("t:2", &of_broker(&types, "shop.None"));
        put("t:3", "{}");
        put("t:4", r#"{"fileDescriptorSet":"?","rootMessageTypeName":"M"}"#);
        put("t:5", r#"{"fileDescriptorSet":"AAAA","rootMessageTypeName":"M"}"#);
        schemas
    };
    let of = |message: Option<&str>| {
        let columns = schema(&["id Int64", "city Nullable(String) <- at.city"]);
        let options = ProtobufOptions::default();
        ProtobufDecoder::of_blocks(columns, schemas(), message, options).expect("columns")
    };
    let decode = |decoder: &ProtobufDecoder, name: Option<&str>, records: &[Vec<u8>]| {
        decoder.decode(&RecordBlock { schema: name.map(Into::into), ..block(records) })
    };
    let any = of(None);
    let orders = decode(&any, Some("t:0"), &[hex("0a 03 0a01 78 10 07"), hex("10 08")]);
    assert_eq!(
        (row(&orders, 0), row(&orders, 1)),
        (vec!["7".into(), r#""x""#.into()], vec!["8".into(), "NULL".into()])
    );
    let counts = decode(&any, Some("t:1"), &[hex("08 05")]);
    assert_eq!(row(&counts, 0), ["5", "NULL"]);
    let none = "the brokers' schema is none of Protobuf: ";
    for (name, says) in [
        (None, "the message names no schema: ".to_owned()),
        (Some("t:2"), "schema `t:2`: no message `shop.None`; there are `geo.Place`, ".to_owned()),
        (Some("t:3"), format!("schema `t:3`: {none}it has no text `fileDescriptorSet`")),
        (Some("t:4"), format!("schema `t:4`: {none}`fileDescriptorSet`: ")),
        (Some("t:5"), "schema `t:5`: no usable set of descriptors: ".to_owned()),
        (Some("t:6"), "schema `t:6`: no usable schema is known for it".to_owned()),
    ] {
        let decoded = decode(&any, name, &[hex("08 05"), hex("08 06")]);
        assert_eq!((decoded.batch.rows.num_rows(), decoded.rejects.len()), (0, 2));
        for reject in &decoded.rejects {
            assert_eq!(reject.reason, Reason::Schema);
            assert!(reject.message.starts_with(&says), "{}", reject.message);
        }
    }
    let decoded = decode(&of(Some("shop.Count")), Some("t:0"), &[hex("08 05")]);
    assert!(says(&decoded)[0].ends_with("of the message `shop.Order`, and the pipeline reads `shop.Count`"));
    // Numbers alone go by whole columns.
    let numbers = schema(&["level Float64", "id Int64"]);
    let decoder = ProtobufDecoder::of_blocks(numbers, schemas(), None, ProtobufOptions::default()).unwrap();
    let records: Vec<Vec<u8>> = (0..50).map(|n| hex(&format!("08 {n:02x}"))).collect();
    let decoded = decode(&decoder, Some("t:1"), &records);
    assert!((0..50).all(|n| row(&decoded, n) == ["0.0".to_owned(), n.to_string()]));
}
