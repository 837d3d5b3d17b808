use serde_json::{Value as Json, json};

use super::super::labels::{LABEL_BYTES_MAX, LABELS_MAX};
use super::*;
use crate::support::roomy;
use crate::wire::testing::{double, number, packed, signed, sized};

pub(in super::super) fn pair(name: &str, value: &str) -> Vec<u8> {
    [sized(1, name), sized(2, value)].concat()
}

pub(in super::super) fn sample(value: f64, time: i64) -> Vec<u8> {
    [double(1, value), number(2, time.cast_unsigned())].concat()
}

fn exemplar(trace: &str) -> Vec<u8> {
    [sized(1, pair("trace_id", trace)), double(2, 3.0), number(3, 7)].concat()
}

fn histogram() -> Vec<u8> {
    let span = [number(1, signed(1)), number(2, 2)].concat();
    [
        number(1, 3),
        double(3, 9.5),
        number(4, signed(3)),
        sized(11, span),
        packed(12, &[signed(2), signed(-1)]),
        number(15, 8),
    ]
    .concat()
}

fn series_of_one() -> Vec<u8> {
    let labels = [("__name__", "hits"), ("job", "a \"b\""), ("env", "x")];
    [
        labels.iter().flat_map(|(name, value)| sized(1, pair(name, value))).collect(),
        sized(2, sample(1.5, 1_700_000_000_000)),
        sized(2, sample(f64::from_bits(STALE), 6)),
        sized(3, exemplar("a1")),
        sized(4, histogram()),
    ]
    .concat()
}

fn metadata_of_one() -> Vec<u8> {
    [number(1, 1), sized(2, "hits"), sized(4, "How \"often\""), sized(5, "1")].concat()
}

const SYMBOLS: [&str; 12] =
    ["", "__name__", "hits", "job", "a \"b\"", "env", "x", "trace_id", "a1", "How \"often\"", "1", "other"];

pub(in super::super) fn request_of_two(series: &[Vec<u8>]) -> Vec<u8> {
    let symbols = SYMBOLS.iter().flat_map(|symbol| sized(4, symbol));
    symbols.chain(series.iter().flat_map(|series| sized(5, series))).collect()
}

pub(in super::super) fn series_of_two() -> Vec<u8> {
    let exemplar = [packed(1, &[7, 8]), double(2, 3.0), number(3, 7)].concat();
    [
        packed(1, &[1, 2, 3, 4, 5, 6]),
        sized(2, sample(1.5, 1_700_000_000_000)),
        sized(2, sample(f64::from_bits(STALE), 6)),
        sized(4, exemplar),
        sized(3, histogram()),
        sized(5, [number(1, 1), number(3, 9), number(4, 10)].concat()),
    ]
    .concat()
}

fn texts(found: &Found) -> Vec<String> {
    let payloads = &found.parsed.records.payloads;
    let text = |row| String::from_utf8(payloads.get(row).to_vec()).expect("UTF-8");
    (0..found.parsed.records.len()).map(text).collect()
}

fn of_one(body: &[u8]) -> Result<Found, Refusal> {
    one(body, Rows::new(5, roomy(), body.len())?)
}

fn of_two(body: &[u8]) -> Result<Found, Refusal> {
    two(body, Rows::new(5, roomy(), body.len())?, roomy())
}

#[test]
fn both_versions_make_the_same_records() {
    let body = [sized(1, series_of_one()), sized(3, metadata_of_one())].concat();
    let found = of_one(&body).unwrap();
    let head = r#""name":"hits","labels":{"env":"x","job":"a \"b\""}"#;
    let records = texts(&found);
    assert_eq!(
        records[0],
        format!("{{\"kind\":\"sample\",{head},\"timestamp\":1700000000000,\"value\":1.5}}")
    );
    assert_eq!(
        records[1],
        format!("{{\"kind\":\"sample\",{head},\"timestamp\":6,\"value\":\"nan\",\"stale\":true}}")
    );
    let expected = format!(
        "{{\"kind\":\"exemplar\",{head},\"timestamp\":7,\"value\":3.0,\"exemplar_labels\":{{\"trace_id\":\"a1\"}}}}"
    );
    assert_eq!(records[2], expected);
    let histogram: Json = serde_json::from_str(&records[3]).unwrap();
    assert!(
        records[3].starts_with(&format!("{{\"kind\":\"histogram\",{head},\"timestamp\":8,")),
        "{}",
        records[3]
    );
    assert_eq!(
        (&histogram["positive_indexes"], &histogram["positive_counts"]),
        (&json!([1, 2]), &json!([2, 1]))
    );
    assert_eq!(
        records[4],
        r#"{"kind":"metadata","name":"hits","type":"counter","help":"How \"often\"","unit":"1"}"#
    );
    assert_eq!(found.written, Written { samples: 2, histograms: 1, exemplars: 1, metadata: 1 });
    assert_eq!(found.refused.refusal(), None);

    let found = of_two(&request_of_two(&[series_of_two(), series_of_two()])).unwrap();
    let twice = [&records[..], &records[..4]].concat();
    assert_eq!(texts(&found), twice, "the metadata of a family is there once");
    // A table behind what uses it is a message too.
    let (symbols, series) = (request_of_two(&[]), sized(5, series_of_two()));
    assert_eq!(texts(&of_two(&[series, symbols].concat()).unwrap()), records);
}

#[test]
fn times_of_a_start_are_there_if_they_were_sent() {
    let one = [sample(1.0, 9), number(3, 4)].concat();
    let series = [packed(1, &[1, 2]), sized(2, sample(0.5, 8)), sized(2, one), number(6, 3)].concat();
    let head = r#"{"kind":"sample","name":"hits","labels":{},"timestamp""#;
    let expected = [
        format!("{head}:8,\"start_timestamp\":3,\"value\":0.5}}"),
        format!("{head}:9,\"start_timestamp\":4,\"value\":1.0}}"),
    ];
    assert_eq!(texts(&of_two(&request_of_two(&[series])).unwrap()), expected);
}

#[test]
fn floats_are_written_as_they_are_read() {
    let values = [0.0, -0.0, 1e300, 5e-324, 0.1, f64::MAX, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    for value in values {
        let mut out = Vec::new();
        write_float(&mut out, value);
        let text = String::from_utf8(out).unwrap();
        let read: f64 = text.trim_matches('"').parse().unwrap();
        assert!(read.to_bits() == value.to_bits() || read.is_nan() && value.is_nan(), "{text}");
    }
}

#[test]
fn parts_that_are_none_are_left_out_and_the_others_taken() {
    let good = sized(1, series_of_one());
    let name = sized(1, pair("__name__", "hits"));
    let one = sized(2, sample(1.0, 1));
    let long = "x".repeat(LABEL_BYTES_MAX);
    for (part, why) in [
        ([name.clone(), sized(1, pair("a", "1")), sized(1, pair("a", "2")), one.clone()].concat(), "twice"),
        ([sized(1, pair("", "1")), one.clone()].concat(), "without a name"),
        ([sized(1, pair("a", &long)), one.clone()].concat(), "64 KiB"),
        ([sized(1, pair("a", "1")).repeat(LABELS_MAX + 1), one.clone()].concat(), "1000 labels"),
        ([name.clone(), sized(4, number(14, 7))].concat(), "reset_hint"),
        ([name.clone(), sized(3, sized(1, pair("a", "1")).repeat(2))].concat(), "twice"),
    ] {
        let found = of_one(&[good.clone(), sized(1, part), good.clone()].concat()).unwrap();
        let told = found.refused.refusal().expect("one").message;
        assert!(found.refused.count == 1 && told.contains(why), "{told}");
        assert_eq!(found.written, Written { samples: 4, histograms: 2, exemplars: 2, metadata: 0 }, "{why}");
    }
    for (part, why) in [
        ([packed(1, &[1, 2, 3]), one.clone()].concat(), "without a value"),
        ([packed(1, &[1, 2, 3, 12]), one.clone()].concat(), "table"),
        ([packed(1, &[1, u64::MAX]), one.clone()].concat(), "table"),
        ([packed(1, &[1, 2]), sized(5, [number(1, 1), number(3, 99)].concat())].concat(), "table"),
        ([packed(1, &[1, 2]), sized(5, number(1, 9))].concat(), "unknown type"),
        ([packed(1, &[1, 2]), sized(4, packed(1, &[7]))].concat(), "without a value"),
    ] {
        let found = of_two(&request_of_two(&[series_of_two(), part])).unwrap();
        let told = found.refused.refusal().expect("one").message;
        assert!(found.refused.count == 1 && told.contains(why), "{told}");
        assert_eq!((found.written.samples, found.written.histograms), (2, 1), "{why}");
    }
}

#[test]
fn what_is_no_message_or_has_too_many_faults_is_refused_whole() {
    for body in [
        vec![0x0a, 5, 1],
        number(1, 7),
        sized(1, number(2, 7)),
        sized(1, sized(2, sized(1, "x"))),
        sized(1, sized(1, number(1, 1))),
        sized(3, number(2, 1)),
        sized(1, [sized(1, pair("", "")), sized(2, sample(1.0, 1))].concat())
            .repeat(REFUSED_MAX as usize + 1),
    ] {
        let refused = of_one(&body).unwrap_err();
        assert!(
            refused.kind == Kind::Malformed && refused.message.contains("nothing was stored"),
            "{refused:?}"
        );
    }
    for body in [number(4, 1), number(5, 1), sized(5, sized(1, [0x80])), sized(5, sized(5, sized(1, "x")))] {
        assert_eq!(of_two(&body).unwrap_err().kind, Kind::Malformed);
    }
}

#[test]
fn few_bytes_that_name_long_texts_meet_the_bound_of_an_append() {
    let symbols = [sized(4, "a"), sized(4, "\u{1}".repeat(LABEL_BYTES_MAX - 1))].concat();
    let series = sized(5, [packed(1, &[0, 1]), sized(2, sample(1.0, 1))].concat());
    let body = [symbols, series.repeat(10_000)].concat();
    let (refused, peak) = testkit::peak_bytes(|| of_two(&body).unwrap_err());
    assert_eq!(refused.kind, Kind::TooLarge);
    assert!(peak < 64 << 20, "{peak}");
}

/// Texts of the table that differ at their ends alone: to compare them for every label that names them would take half an hour.
#[test]
fn long_texts_that_every_label_names_are_not_compared() {
    let long = "a".repeat(4 << 20);
    let symbols: Vec<u8> = ["", "__name__", &format!("{long}b"), &format!("{long}c")]
        .iter()
        .flat_map(|text| sized(4, text))
        .collect();
    let labels = packed(1, &[3_u64, 2, 2, 3].repeat(250));
    for series in [
        [labels.clone(), sized(2, sample(1.0, 1))].concat(),
        sized(4, labels),
        [packed(1, &[1, 2]), sized(5, number(1, 1))].concat(),
    ] {
        let body = [symbols.clone(), sized(5, series).repeat(REFUSED_MAX as usize)].concat();
        let begun = std::time::Instant::now();
        let found = of_two(&body).unwrap();
        assert_eq!((found.refused.count, found.parsed.records.len()), (REFUSED_MAX, 0));
        assert!(begun.elapsed() < std::time::Duration::from_secs(120), "{:?}", begun.elapsed());
    }
}

#[test]
fn a_family_with_a_long_name_is_compared_with_no_other_one() {
    let long = "a".repeat(FAMILY_BYTES_MAX + 1);
    let symbols: Vec<u8> = ["", "__name__", "hits", &long].iter().flat_map(|text| sized(4, text)).collect();
    let family = |name: u64| sized(5, [packed(1, &[1, name]), sized(5, number(1, 1))].concat());
    let found = of_two(&[symbols, family(2), family(3), family(2), family(3)].concat()).unwrap();
    assert_eq!((found.written.metadata, found.refused.count), (3, 0));
}

#[test]
fn fuzz_remote_write() {
    let bodies = [
        [sized(1, series_of_one()), sized(3, metadata_of_one())].concat(),
        request_of_two(&[series_of_two()]),
    ];
    for (version, body) in bodies.into_iter().enumerate() {
        testkit::Fuzz::new(&format!("gateway remote write {}", version + 1))
            .examples([body])
            .words([
                &b"\x0a\x02"[..],
                b"\x12\x10",
                b"\x22\x05",
                b"\x2a\x0a",
                b"\x5a\x04",
                b"\xff\xff\xff\xff\x7f",
            ])
            .memory_max(1 << 20, 6_000)
            .run(3_000, |body| {
                let found = if version == 0 { of_one(body) } else { of_two(body) };
                let Ok(found) = found else { return };
                let records = texts(&found);
                let Written { samples, histograms, exemplars, metadata } = found.written;
                assert_eq!(records.len() as u64, samples + histograms + exemplars + metadata);
                for record in records {
                    serde_json::from_str::<Json>(&record).expect("a record is JSON");
                }
            });
    }
}
