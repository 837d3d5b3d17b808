use std::sync::Arc;

use testkit::Fuzz;

use super::super::{Errors, Unit, parse};
use super::*;
use crate::budget::Budget;
use crate::options::Format;
use crate::support::roomy;

/// Written by fastavro with `order.avsc`: 20 records, in blocks of some 400 bytes.
const NULL: &[u8] = include_bytes!("null.avro");
const DEFLATE: &[u8] = include_bytes!("deflate.avro");
const SNAPPY: &[u8] = include_bytes!("snappy.avro");
const ZSTANDARD: &[u8] = include_bytes!("zstandard.avro");
const SCHEMA: &str = include_str!("order.avsc");
const SYNC: &[u8] = b"0123456789abcdef";

fn own() -> Format {
    Format::Avro(Arc::new(RecordSchema::read(SCHEMA).unwrap()))
}

fn taken(format: &Format, kind: &str, body: &[u8]) -> Result<(Vec<Vec<u8>>, Errors), Refusal> {
    let parsed = parse(format, &(kind.to_owned(), String::new()), (body, 1 << 20), 5, roomy())?;
    let records = &parsed.records.payloads;
    Ok(((0..parsed.records.len()).map(|row| records.get(row).to_vec()).collect(), parsed.errors))
}

fn good(format: &Format, kind: &str, body: &[u8]) -> Vec<Vec<u8>> {
    let (records, errors) = taken(format, kind, body).unwrap();
    assert_eq!(errors, Errors { unit: Unit::Record, ..Errors::default() });
    records
}

/// A number as Avro writes it.
fn long(value: i64) -> Vec<u8> {
    let (mut rest, mut bytes) = ((value << 1 ^ value >> 63) as u64, Vec::new());
    while rest > 0x7f {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
    bytes
}

fn sized(bytes: &[u8]) -> Vec<u8> {
    [long(bytes.len() as i64), bytes.to_vec()].concat()
}

/// A file of this schema and codec, with these blocks.
fn file(schema: &str, codec: &str, blocks: &[(i64, Vec<u8>)]) -> Vec<u8> {
    let entry = |name: &str, value: &str| [sized(name.as_bytes()), sized(value.as_bytes())].concat();
    let head = [
        b"Obj\x01".to_vec(),
        long(2),
        entry("avro.schema", schema),
        entry("avro.codec", codec),
        vec![0],
        SYNC.to_vec(),
    ];
    let blocks = blocks.iter().map(|(records, bytes)| [long(*records), sized(bytes), SYNC.to_vec()].concat());
    head.into_iter().chain(blocks).flatten().collect()
}

const TEXT: &str = r#"{"type": "record", "name": "r", "fields": [{"name": "s", "type": "string"}]}"#;

#[test]
fn each_record_of_another_programs_file_is_a_record_whatever_its_codec() {
    let records = good(&own(), "application/avro", NULL);
    assert_eq!(records.len(), 20);
    for (codec, bytes) in [("deflate", DEFLATE), ("snappy", SNAPPY), ("zstandard", ZSTANDARD)] {
        for kind in ["avro/binary", "", "application/octet-stream"] {
            assert_eq!(good(&own(), kind, bytes), records, "{codec}");
        }
    }
    // A record without a head is what the file has.
    assert_eq!(good(&own(), "application/avro", &records[7]), records[7..8]);
}

#[test]
fn a_stream_of_json_takes_files_of_any_schema_as_objects() {
    for kind in ["application/avro", "", "application/x-www-form-urlencoded"] {
        let records = good(&Format::Json, kind, DEFLATE);
        assert_eq!(records.len(), 20);
        assert_eq!(
            String::from_utf8_lossy(&records[2]),
            "{\"id\":2,\"note\":\"note \\\"2\\\" \u{e9}\",\"tags\":[\"x\",\"x\"],\"prices\":{\"a\":2.5},\"total\":1.93,\"at\":\"2024-05-01T10:20:32.5Z\",\
             \"day\":\"2024-05-01\",\"kind\":\"NEW\",\"site\":{\"city\":\"K\u{f6}ln 2\"},\"key\":\"00000000-0000-0000-0000-000000000002\"}"
        );
    }
    let refused = taken(&Format::Json, "application/avro", b"{}").unwrap_err();
    assert!(
        refused.kind == Kind::Malformed && refused.message.contains("begins with `Obj`"),
        "{}",
        refused.message
    );
    assert_eq!(taken(&Format::Json, "application/json", NULL).unwrap_err().kind, Kind::Malformed);
}

#[test]
fn a_file_of_another_schema_is_refused_with_what_differs_and_where_it_can_go() {
    let refused = taken(&own(), "application/avro", &file(TEXT, "null", &[])).unwrap_err();
    assert_eq!(refused.kind, Kind::Malformed);
    for words in
        ["its field number 1 is `s` instead of `id`", "nothing was stored", "a stream of `format: json`"]
    {
        assert!(refused.message.contains(words), "{}", refused.message);
    }
    let refused = taken(&own(), "", &file(SCHEMA, "bzip2", &[])).unwrap_err();
    assert!(refused.kind == Kind::Media && refused.message.contains("`bzip2`"), "{}", refused.message);
    assert_eq!(taken(&own(), "application/json", NULL).unwrap_err().kind, Kind::Media);
}

#[test]
fn a_value_that_json_cannot_hold_costs_its_record_alone() {
    let text = |text: &[u8]| sized(text);
    let body = file(TEXT, "null", &[(3, [text(b"one"), text(b"\xff"), text(b"three")].concat())]);
    let (records, errors) = taken(&Format::Json, "", &body).unwrap();
    assert_eq!(records, [&br#"{"s":"one"}"#[..], br#"{"s":"three"}"#]);
    assert_eq!((errors.count, errors.shown[0].0), (1, 2), "{errors:?}");
}

#[test]
fn a_block_that_cannot_hold_its_records_is_refused() {
    for count in [i64::MAX, 5] {
        let body = file(TEXT, "null", &[(count, sized(b"one"))]);
        let refused = taken(&Format::Json, "", &body).unwrap_err();
        assert_eq!(refused.kind, Kind::Malformed);
        assert!(refused.message.contains("has `4` bytes, and cannot hold"), "{}", refused.message);
    }
}

/// A schema whose records have no bytes, and hold each other deeper than JSON is written.
fn nested() -> String {
    let (mut innermost, mut fields) = ("\"null\"".to_owned(), Vec::new());
    // Each field's record is the innermost of the next one's: a text may not nest as deep.
    for n in 0..4 {
        let record = |of: String, depth: usize| {
            format!(r#"{{"type":"record","name":"r{n}_{depth}","fields":[{{"name":"v","type":{of}}}]}}"#)
        };
        let of = (0..35).fold(innermost, record);
        fields.push(format!(r#"{{"name":"f{n}","type":{of}}}"#));
        innermost = format!("\"r{n}_34\"");
    }
    format!(r#"{{"type":"record","name":"r","fields":[{}]}}"#, fields.join(","))
}

const ENDLESS: &str = r#"{"type":"record","name":"r","fields":[{"name":"r","type":"r"}]}"#;

#[test]
fn a_block_of_records_without_bytes_ends_however_many_it_claims() {
    for (schema, why) in [
        (ENDLESS.to_owned(), "field `r`: a record there holds itself"),
        (nested(), "block 1 has a record without bytes that has no form in JSON"),
    ] {
        let (tell, told) = std::sync::mpsc::channel();
        let body = file(&schema, "null", &[(i64::MAX, Vec::new())]);
        let work = move || tell.send(taken(&Format::Json, "", &body).map(drop));
        std::thread::spawn(work);
        let refused = told.recv_timeout(std::time::Duration::from_secs(60)).expect("it ends").unwrap_err();
        assert_eq!(refused.kind, Kind::Malformed);
        assert!(refused.message.contains(why), "{}", refused.message);
    }
}

/// Each record has two bytes, and is no JSON; a file of a megabyte would have kept a thread busy for hours.
#[test]
fn records_of_many_fields_without_bytes_are_bounded_together() {
    let nulls: Vec<String> = (0..20_000).map(|n| format!(r#"{{"name":"n{n}","type":"null"}}"#)).collect();
    let schema = format!(
        r#"{{"type":"record","name":"r","fields":[{{"name":"b","type":"string"}},{}]}}"#,
        nulls.join(",")
    );
    let records = |count: usize| file(&schema, "null", &[(count as i64, [2, 0xff].repeat(count))]);
    let refused = taken(&Format::Json, "", &records(1 << 15)).unwrap_err();
    assert_eq!(refused.kind, Kind::TooLarge);
    assert!(refused.message.contains("Send them in several files"), "{}", refused.message);
    let (_, errors) = taken(&Format::Json, "", &records(3)).unwrap();
    assert_eq!(errors.count, 3);
}

#[test]
fn a_schema_that_is_too_long_is_refused_before_memory_is_asked_for() {
    let long = format!("{TEXT}{}", " ".repeat(1 << 20));
    let refused = taken(&Format::Json, "", &file(&long, "null", &[])).unwrap_err();
    assert_eq!(refused.kind, Kind::Malformed, "{}", refused.message);
}

#[test]
fn an_invalid_record_and_the_rest_of_its_block_are_errors() {
    let format = Format::Avro(Arc::new(RecordSchema::read(TEXT).unwrap()));
    let text = |text: &str| sized(text.as_bytes());
    let body = file(
        TEXT,
        "null",
        &[
            (1, text("one")),
            (4, [text("two"), long(-9), text("lost"), text("too")].concat()),
            (1, text("six")),
            // One more than there is.
            (3, [text("seven"), text("eight")].concat()),
        ],
    );
    let (records, errors) = taken(&format, "", &body).unwrap();
    assert_eq!(records, [text("one"), text("two"), text("six"), text("seven"), text("eight")]);
    assert_eq!(errors.count, 4);
    let shown: Vec<_> = errors.shown.iter().map(|(number, why)| (*number, why.as_str())).collect();
    assert_eq!(
        shown,
        [
            (
                3,
                "byte `0`, field `s`: a string cannot have `-9` bytes; the `2` records behind it in its block cannot be told apart"
            ),
            (9, "byte `0`, field `s`: the record ends before its last field"),
        ]
    );
    let refusal = errors.refusal();
    assert!(
        refusal.message.starts_with("4 records are not valid, so nothing was stored"),
        "{}",
        refusal.message
    );
    assert_eq!(errors.to_json()[0]["record"], 3);
    let fewer = file(TEXT, "null", &[(1, [text("one"), text("two")].concat())]);
    let refused = taken(&format, "", &fewer).unwrap_err();
    assert!(
        refused.message.contains("block 1 has `4` bytes behind the last of its `1` records"),
        "{}",
        refused.message
    );
    let (records, errors) = taken(&format, "application/avro", b"\x04a").unwrap();
    assert_eq!((records.len(), errors.shown[0].0), (0, 1));
}

#[test]
fn blocks_that_grow_without_end_or_are_damaged_are_refused() {
    let format = Format::Avro(Arc::new(RecordSchema::read(TEXT).unwrap()));
    let zeros = vec![0; 3 << 20];
    let deflate = {
        use std::io::Write;
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(&zeros).unwrap();
        encoder.finish().unwrap()
    };
    let behind = {
        use std::io::Write;
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(&sized(b"one")).unwrap();
        [encoder.finish().unwrap(), b"no end".to_vec()].concat()
    };
    let snappy = [snap::raw::Encoder::new().compress_vec(&zeros).unwrap(), vec![0; 4]].concat();
    let zstandard = zstd::bulk::compress(&zeros, 3).unwrap();
    let said = [&[0xff, 0xff, 0xff, 0xff, 0x0f, 0][..], &[0; 4]].concat();
    for (codec, packed, kind) in [
        ("deflate", &deflate, Kind::TooLarge),
        ("snappy", &snappy, Kind::TooLarge),
        ("zstandard", &zstandard, Kind::TooLarge),
        ("snappy", &said, Kind::Malformed),
        ("snappy", &[0, 1, 2].to_vec(), Kind::Malformed),
        ("deflate", &b"no deflate".to_vec(), Kind::Malformed),
        ("deflate", &behind, Kind::Malformed),
        ("zstandard", &b"no zstandard".to_vec(), Kind::Malformed),
    ] {
        let body = file(TEXT, codec, &[(1, packed.clone())]);
        let refused = taken(&format, "", &body).unwrap_err();
        assert_eq!(refused.kind, kind, "{codec}: {}", refused.message);
        // Many that are each short enough are too many together.
        if kind == Kind::TooLarge {
            let refused = taken(&Format::Json, "", &file(TEXT, codec, &[(0, packed.clone())])).unwrap_err();
            assert_eq!(refused.kind, kind, "{codec}");
        }
    }
    let mut wrong_sum = snap::raw::Encoder::new().compress_vec(&sized(b"one")).unwrap();
    wrong_sum.extend([1, 2, 3, 4]);
    assert_eq!(
        taken(&format, "", &file(TEXT, "snappy", &[(1, wrong_sum)])).unwrap_err().kind,
        Kind::Malformed
    );
    let half = sized(&vec![b'x'; 600 << 10]);
    let pack = |bytes: &[u8]| zstd::bulk::compress(bytes, 1).unwrap();
    let one = file(TEXT, "zstandard", &[(1, pack(&half))]);
    assert_eq!(good(&format, "", &one).len(), 1);
    let two = file(TEXT, "zstandard", &[(1, pack(&half)), (1, pack(&half))]);
    assert_eq!(taken(&format, "", &two).unwrap_err().kind, Kind::TooLarge);
    // Records without bytes take memory that nothing in the body pays for.
    let nothing = r#"{"type": "record", "name": "r", "fields": []}"#;
    let none = Format::Avro(Arc::new(RecordSchema::read(nothing).unwrap()));
    let refused = taken(&none, "", &file(nothing, "null", &[(i64::MAX, Vec::new())])).unwrap_err();
    assert_eq!(refused.kind, Kind::TooLarge);
}

#[test]
fn what_a_file_grows_to_is_held_before_it_is_made() {
    let budget = Budget::new("a test", 256 << 10);
    let parse = |format: &Format, body: &[u8]| {
        let held = Held::none(&budget, &budget);
        parse(format, &("application/avro".to_owned(), String::new()), (body, 16 << 20), 5, held).map(drop)
    };
    assert!(parse(&own(), DEFLATE).is_ok());
    // Each byte is a record, and each record 2,000 bytes as JSON.
    let name = "n".repeat(2_000);
    let wide =
        format!(r#"{{"type": "record", "name": "r", "fields": [{{"name": "{name}", "type": "boolean"}}]}}"#);
    let body = file(&wide, "null", &[(4_000, vec![1; 4_000])]);
    assert_eq!(parse(&Format::Json, &body).unwrap_err().kind, Kind::Busy);
    let packed = zstd::bulk::compress(&sized(&vec![0; 1 << 20]), 3).unwrap();
    assert_eq!(parse(&Format::Json, &file(TEXT, "zstandard", &[(1, packed)])).unwrap_err().kind, Kind::Busy);
    let long = format!("{TEXT}{}", " ".repeat(8 << 10));
    assert_eq!(parse(&Format::Json, &file(&long, "null", &[])).unwrap_err().kind, Kind::Busy, "its schema");
    assert_eq!(budget.held_bytes(), 0);
}

/// Files of all codecs under change: memory stays within what the budget of the test, a decoder's window and a schema take, and what is taken as JSON is JSON.
#[test]
fn fuzz_avro_files() {
    let own = own();
    let claims = [ENDLESS, nested().as_str()].map(|schema| file(schema, "null", &[(i64::MAX, Vec::new())]));
    Fuzz::new("avro files")
        .examples([NULL, DEFLATE, SNAPPY, ZSTANDARD])
        .examples(claims)
        .words([&b"deflate"[..], b"snappy", b"zstandard", b"null", SYNC, b"\"type\"", b"[\"null\",", b"{}"])
        .memory_max(12 << 20, 4 << 10)
        .run(2_000, |body| {
            if let Ok((records, _)) = taken(&Format::Json, "application/avro", body) {
                for record in records {
                    assert!(serde_json::from_slice::<serde_json::Value>(&record).unwrap().is_object());
                }
            }
            let _ = taken(&own, "", body);
        });
}
