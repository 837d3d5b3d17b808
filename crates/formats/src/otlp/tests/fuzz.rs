//! Bytes that no writer would write: whatever comes, the accounts add up and the neighbours are untouched.

use dataflow::Decoder;
use serde_json::Value;
use testkit::Fuzz;

use super::written::{log, request};
use super::{block, decode, decoder, logs};
use crate::otlp::{OtlpDecoder, Signal};
use crate::testing::{row, schema};

/// Requests of a signal from the corpus.
fn examples(signal: Signal) -> Vec<Vec<u8>> {
    let lines = include_str!("corpus.jsonl").lines();
    let lines = lines.map(|line| serde_json::from_str::<Value>(line).expect("a line is JSON"));
    let of_signal = lines.filter(|line| line["signal"] == signal.name());
    let hex = |line: Value| {
        let text = line["request"].as_str().expect("a request").to_owned();
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex")).collect()
    };
    of_signal.map(hex).filter(|request: &Vec<u8>| request.len() < 1_500).take(6).collect()
}

fn check(decoder: &OtlpDecoder, good: &[u8], input: &[u8]) {
    let decoded = decode(decoder, &[good, input, good]);
    let several = decoded.several.expect("requests hold several rows");
    let of_records = decoded.rejects.len() - several.rejected_rows;
    assert_eq!(several.records + several.empty + of_records as u64, 3);
    let last = decoded.batch.len() - 1;
    assert_eq!((decoded.batch.positions[0], decoded.batch.positions[last]), (100, 102));
    assert_eq!(row(&decoded, 0), row(&decoded, last), "a neighbour changed");
    assert!(decoded.rejects.iter().all(|reject| !reject.message.is_empty() && reject.message.len() < 2_000));
    // What a taker lets pass is no reject as a whole, and has as many rows.
    let signal = decoder.signal();
    let is_json = input.first() == Some(&b'{');
    let taken = crate::otlp::check(signal, input, is_json, 16 << 20);
    if let Ok(taken) = &taken {
        let rows = taken.rows + taken.broken.rows;
        // A decoder takes a request in JSON whole or not at all.
        if of_records == 0 {
            assert_eq!(rows, decoded.batch.len() + several.rejected_rows - 2);
        }
        assert_eq!(taken.broken.rows > 0, taken.broken.first.is_some());
        // The rows that are left are those that a decoder makes of the whole.
        let left = decode(decoder, &[good, &taken.request, good]);
        let of_left = left.several.expect("requests hold several rows").rejected_rows;
        assert_eq!(left.batch.len() + of_left, taken.rows + 2);
        if of_records == 0 {
            assert_eq!(
                (left.batch.len(), of_left + taken.broken.rows),
                (decoded.batch.len(), several.rejected_rows)
            );
            (0..left.batch.len()).for_each(|at| assert_eq!(row(&left, at), row(&decoded, at)));
        }
    }
    let is_in_part = taken.as_ref().is_ok_and(|taken| is_json && taken.broken.rows > 0);
    assert!(of_records == 0 || taken.is_err() || is_in_part);
    // Row by row it is the same.
    if of_records == 0 {
        let apart = decoder.split(&block(&[input]), 0).expect("it was taken");
        assert_eq!(apart.len(), decoded.batch.len() + several.rejected_rows - 2);
        let each: Vec<&[u8]> = (0..apart.len()).map(|at| apart.get(at)).collect();
        let alone = decode(decoder, &each);
        assert_eq!(alone.batch.len(), decoded.batch.len() - 2);
        for at in 0..alone.batch.len() {
            assert_eq!(row(&alone, at), row(&decoded, at + 1));
        }
        assert_eq!(alone.rejects.len(), decoded.rejects.len());
        for (alone, decoded) in alone.rejects.iter().zip(&decoded.rejects) {
            let rule = |message: &str| message.rsplit_once("; this is").map(|(rule, _)| rule.to_owned());
            assert_eq!((rule(&alone.message), &alone.raw), (rule(&decoded.message), &decoded.raw));
            let of_whole = decoded.item.expect("the number of its row") as usize;
            assert_eq!((alone.item, each[of_whole]), (Some(0), &*decoded.raw));
        }
    }
}

const WORDS: [&[u8]; 8] = [
    b"\x0a\x00",
    b"\x12\x02\x0a\x00",
    b"\xff\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x02",
    b"\x2a\x02\x08\x01",
    b"\xc3\x28",
    b"\x0b\x0c",
    b"\x39",
];

#[test]
fn fuzz_otlp_logs() {
    let decoder = logs();
    let good = request("a", &[log("x", 1)]);
    let fuzz = Fuzz::new("otlp logs").example(&good).examples(examples(Signal::Logs)).words(WORDS);
    fuzz.run(2_000, |input| check(&decoder, &good, input));
}

const SPANS: [&str; 12] = [
    "Timestamp DateTime64(9)",
    "Duration UInt64",
    "SpanKind String",
    "StatusCode String",
    "TraceId FixedString(32)",
    "Events.Timestamp Array(DateTime64(9))",
    "Events.Attributes Array(Map(String, String))",
    "Links.TraceId Array(String)",
    "ScopeAttributes String",
    "SpanAttributes JSON",
    "SpanAttributesKeys Array(String)",
    "Links.Attributes Array(JSON)",
];

#[test]
fn fuzz_otlp_traces() {
    let decoder = decoder(Signal::Traces, schema(&SPANS)).expect("the columns fit");
    let good = request("a", &[vec![]]);
    let fuzz = Fuzz::new("otlp traces").example(&good).examples(examples(Signal::Traces)).words(WORDS);
    fuzz.run(2_000, |input| check(&decoder, &good, input));
}

const POINTS: [&str; 13] = [
    "MetricType String",
    "MetricName String",
    "TimeUnix DateTime",
    "Value Float64",
    "Count UInt32",
    "Sum Nullable(Float64)",
    "BucketCounts Array(UInt64)",
    "ExplicitBounds Array(Float64)",
    "PositiveOffset Int32",
    "NegativeBucketCounts Array(UInt16)",
    "ValueAtQuantiles.Value Array(Float32)",
    "Exemplars.Value Array(Float64)",
    "Exemplars.FilteredAttributes Array(Map(String, String))",
];

#[test]
fn fuzz_otlp_metrics() {
    let decoder = decoder(Signal::Metrics, schema(&POINTS)).expect("the columns fit");
    let good = super::a_gauge();
    let fuzz = Fuzz::new("otlp metrics").example(&good).examples(examples(Signal::Metrics)).words(WORDS);
    fuzz.run(2_000, |input| check(&decoder, &good, input));
}

/// Changes requests of the corpus in JSON.
fn fuzz_json(name: &str, decoder: &OtlpDecoder, good: &[u8]) {
    let lines = include_str!("corpus.jsonl").lines();
    let lines = lines.map(|line| serde_json::from_str::<Value>(line).expect("a line is JSON"));
    let of_signal = lines.filter(|line| line["signal"] == decoder.signal().name());
    let json = of_signal.filter_map(|line| Some(line["json"].as_str()?.as_bytes().to_vec()));
    let json: Vec<Vec<u8>> = json.filter(|json| json.len() < 5_500).take(6).collect();
    assert!(!json.is_empty());
    let words = [
        "{\"",
        "\":",
        "[[[[",
        "{\"arrayValue\":{\"values\":[",
        "\\\"",
        "1e999",
        "-",
        "null",
        "\"#\":",
        "\\u0000",
    ];
    let fuzz = Fuzz::new(name).example(good).examples(json).words(words);
    fuzz.run(2_000, |input| check(decoder, good, input));
}

#[test]
fn fuzz_otlp_json() {
    fuzz_json("otlp json", &logs(), &request("a", &[log("x", 1)]));
}

#[test]
fn fuzz_otlp_json_of_traces() {
    let decoder = decoder(Signal::Traces, schema(&SPANS)).expect("the columns fit");
    fuzz_json("otlp json of traces", &decoder, &request("a", &[vec![]]));
}

#[test]
fn fuzz_otlp_json_of_metrics() {
    let decoder = decoder(Signal::Metrics, schema(&POINTS)).expect("the columns fit");
    fuzz_json("otlp json of metrics", &decoder, &super::a_gauge());
}
