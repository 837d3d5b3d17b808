//! What is turned down, and what stays.

use dataflow::{Decoder, Reason};

use super::written::{attribute, field, fixed, log, number, request};
use super::{block, decode, decoder, logs};
use crate::otlp::{Checked, Invalid, Signal};
use crate::testing::{row, schema};

#[test]
fn rows_of_a_request_share_its_position_and_its_resource() {
    let decoded = decode(&logs(), &[request("a", &[log("x", 9), log("y", 1)]), request("b", &[log("z", 2)])]);
    assert_eq!(decoded.rejects, []);
    assert_eq!(decoded.batch.positions, [100, 100, 101]);
    let several = decoded.several.expect("requests hold several rows");
    assert_eq!((several.records, several.empty, several.rejected_rows), (2, 0, 0));
    let services: Vec<String> = (0..3).map(|at| row(&decoded, at)[8].clone()).collect();
    assert_eq!(services, ["\"a\"", "\"a\"", "\"b\""]);
    assert_eq!(
        row(&decoded, 1)[10..14],
        ["\"resource url\"", "{\"service.name\": \"a\"}", "0", "\"scope url\""]
    );
}

#[test]
fn a_request_without_rows_is_empty() {
    let decoded = decode(&logs(), &[vec![], request("a", &[])]);
    assert_eq!((decoded.batch.len(), decoded.rejects.len()), (0, 0));
    assert_eq!(decoded.several.expect("set").empty, 2);
}

/// What is wrong with a row, without which row of its request it is.
fn rule_of(reject: &dataflow::Reject) -> &str {
    reject.message.rsplit_once("; this is the row of item").map_or(&reject.message, |(rule, _)| rule)
}

#[test]
fn a_row_that_does_not_fit_is_a_reject_of_its_own_that_can_be_read_again() {
    let decoder = logs();
    // A severity that no UInt8 holds, a body that is no UTF-8, and a log that ends within a field.
    let bad_text = [fixed(1, 5), field(5, field(1, b"\xff\xfe"))].concat();
    let cut = [fixed(1, 5), vec![0x22, 40]].concat();
    let rows = [log("before", 1), log("worse", 300), bad_text, cut, log("after", 2)];
    let decoded = decode(&decoder, &[request("a", &rows)]);
    assert_eq!(decoded.batch.len(), 2);
    assert_eq!(decoded.several.expect("set").rejected_rows, 3);
    let told: Vec<(Reason, &str, &str)> =
        decoded.rejects.iter().map(|reject| (reject.reason, &*reject.column, rule_of(reject))).collect();
    assert_eq!(
        told,
        [
            (
                Reason::OutOfRange,
                "SeverityNumber",
                "field `SeverityNumber`: value `300` does not fit UInt8 (0 to 255)"
            ),
            (Reason::Malformed, "Body", "field `Body`: the text `\u{fffd}\u{fffd}` is not UTF-8"),
            (Reason::Malformed, "", "in `LogRecord`, field `4` is cut off"),
        ]
    );
    let numbers: Vec<Option<u32>> = decoded.rejects.iter().map(|reject| reject.item).collect();
    assert_eq!(numbers, [Some(1), Some(2), Some(3)]);
    // The dead letter holds that row alone, with all that stands around it.
    assert_eq!(decoded.rejects[0].raw, request("a", &[log("worse", 300)]));
    let wide: Vec<&str> = super::LOGS
        .iter()
        .map(|column| if column.starts_with("SeverityN") { "SeverityNumber Int32" } else { column })
        .collect();
    let wide = super::decoder(Signal::Logs, schema(&wide)).expect("the columns fit");
    let again = decode(&wide, &[&decoded.rejects[0].raw]);
    let whole = decode(&wide, &[request("a", &rows)]);
    assert_eq!(row(&again, 0), row(&whole, 1));
}

#[test]
fn a_resource_that_does_not_fit_takes_its_rows_with_it_and_no_others() {
    let columns = ["Body String", "ResourceDroppedAttrCount UInt8", "ScopeName String"];
    let decoder = decoder(Signal::Logs, schema(&columns)).expect("the columns fit");
    let group = |dropped: u64, body: &str| {
        let scope = [field(1, field(1, "s")), field(2, log(body, 1)), field(2, log(body, 1))].concat();
        field(1, [field(1, number(2, dropped)), field(2, scope)].concat())
    };
    let decoded = decode(&decoder, &[[group(1, "a"), group(256, "b"), group(3, "c")].concat()]);
    let rows: Vec<Vec<String>> = (0..decoded.batch.len()).map(|at| row(&decoded, at)).collect();
    let expected = |body: &str, dropped: &str| vec![format!("\"{body}\""), dropped.into(), "\"s\"".into()];
    assert_eq!(rows, [expected("a", "1"), expected("a", "1"), expected("c", "3"), expected("c", "3")]);
    assert_eq!(decoded.rejects.len(), 2);
    assert!(decoded.rejects.iter().all(|reject| reject.column == "ResourceDroppedAttrCount"));
}

#[test]
fn a_broken_request_is_one_reject_and_leaves_nothing() {
    let good = request("a", &[log("x", 1)]);
    let broken = [good.clone(), vec![0x0a, 0x7f, 1]].concat();
    let decoded = decode(&logs(), &[&good, &broken, &good]);
    assert_eq!(decoded.batch.positions, [100, 102]);
    assert_eq!(row(&decoded, 0), row(&decoded, 1));
    assert_eq!(decoded.rejects.len(), 1);
    assert_eq!(decoded.rejects[0].message, "the bytes are no request of logs");
    assert_eq!(decoded.rejects[0].raw, broken);
    let text = decode(&logs(), &[b"[{\"resourceLogs\":[]}]"]);
    assert_eq!(text.rejects[0].reason, Reason::Malformed);
}

#[test]
fn a_resource_that_would_fill_memory_is_refused() {
    // A megabyte of attributes, and half a million rows of two bytes that each would repeat it.
    let resource = field(1, field(1, attribute("k", &"v".repeat(1 << 20))));
    let rows: Vec<u8> = (0..500_000).flat_map(|_| field(2, [])).collect();
    let request = field(1, [resource, field(2, rows)].concat());
    let decoded = decode(&logs(), &[&request, &super::written::request("a", &[log("x", 1)])]);
    assert_eq!(decoded.batch.len(), 1);
    assert_eq!(decoded.rejects[0].reason, Reason::TooLarge);
    assert!(decoded.rejects[0].message.contains("send fewer attributes"), "{}", decoded.rejects[0].message);
}

#[test]
fn rows_of_a_large_request_take_no_more_memory_than_is_bounded() {
    // A megabyte of attributes above rows of two bytes, and padding that allows 128 bytes for each of its own.
    let resource = field(1, field(1, attribute("k", &"v".repeat(1 << 20))));
    let padding = field(1, field(1, field(1, attribute("p", &"p".repeat(2 << 20)))));
    let of = |rows: usize| {
        let rows: Vec<u8> = (0..rows).flat_map(|_| field(2, [])).collect();
        [field(1, [resource.clone(), field(2, rows)].concat()), padding.clone()].concat()
    };
    let (broad, narrow) = (of(200), of(100));
    let (decoded, peak) = testkit::peak_bytes(|| decode(&logs(), &[&broad]));
    assert_eq!((decoded.batch.len(), decoded.rejects.len()), (0, 1));
    assert_eq!(decoded.rejects[0].reason, Reason::TooLarge);
    let message = &decoded.rejects[0].message;
    assert!(message.contains("`134217728` bytes (the most for a request)"), "{message}");
    assert!(peak < 64 << 20, "{peak}");
    // A gateway says the same before it answers, and of the way out too.
    assert_eq!(count(Signal::Logs, &broad).unwrap_err().message, *message);
    assert_eq!(count(Signal::Logs, &narrow).expect("half as many rows are taken"), 100);
    assert_eq!(decode(&logs(), &[&narrow]).batch.len(), 100);
}

#[test]
fn values_nest_no_deeper_than_is_bounded() {
    let nested = |depth: usize| (0..depth).fold(field(1, "x"), |inner, _| field(5, field(1, inner)));
    let body = |value: Vec<u8>| field(5, value);
    let decoded =
        decode(&logs(), &[request("a", &[body(nested(40)), body(nested(60)), body(nested(2_000))])]);
    assert_eq!(decoded.batch.len(), 1);
    assert!(row(&decoded, 0)[9].starts_with("\"[[[["));
    assert!(decoded.rejects.iter().all(|reject| reject.message.contains("nest deeper than `48`")));
}

#[test]
fn a_time_that_was_not_set_is_that_of_the_next_best_place() {
    let columns = ["Timestamp DateTime64(9)"];
    let logs = decoder(Signal::Logs, schema(&columns)).expect("the columns fit");
    let mut of_records = block(&[request("a", &[fixed(11, 7), vec![]])]);
    of_records.times_ms[0] = 1_000;
    let decoded = logs.decode(&of_records);
    assert_eq!([row(&decoded, 0), row(&decoded, 1)], [["7"], ["1000000000"]]);
    let late = decode(&logs, &[request("a", &[fixed(1, u64::MAX)])]);
    assert_eq!(late.rejects[0].reason, Reason::OutOfRange);
}

/// As the tables of newer versions of the exporter have them.
#[test]
fn times_of_points_fill_columns_of_whole_seconds() {
    let columns = ["TimeUnix DateTime", "StartTimeUnix DateTime", "Exemplars.TimeUnix Array(DateTime)"];
    let decoder = decoder(Signal::Metrics, schema(&columns)).expect("the columns fit");
    let time = 1_764_000_000_999_999_999;
    let exemplar = field(5, fixed(2, time));
    let point = [fixed(2, time - 1_000_000_000), fixed(3, time), exemplar].concat();
    let metric = [field(1, "name"), field(5, field(1, point))].concat();
    let decoded = decode(&decoder, &[request("a", &[metric])]);
    assert_eq!(decoded.rejects, []);
    assert_eq!(row(&decoded, 0), ["1764000000", "1763999999", "[1764000000]"]);
}

#[test]
fn attributes_fill_a_text_as_json() {
    let decoder = decoder(Signal::Logs, schema(&["LogAttributes String"])).expect("the columns fit");
    let attributes =
        [field(6, attribute("a\"", "1")), field(6, [field(1, "b"), field(2, number(3, 2))].concat())];
    let decoded = decode(&decoder, &[request("a", &[attributes.concat()])]);
    assert_eq!(row(&decoded, 0), [format!("{:?}", r#"{"a\"":"1","b":2}"#)]);
}

#[test]
fn attributes_fill_json_with_their_types_and_their_paths_a_list() {
    let columns =
        ["LogAttributes JSON", "LogAttributesKeys Array(LowCardinality(String))", "Body Nullable(JSON)"];
    let decoder = decoder(Signal::Logs, schema(&columns)).expect("the columns fit");
    let pair = |key: &str, value: Vec<u8>| [field(1, key), field(2, value)].concat();
    let list =
        |pairs: &[Vec<u8>]| field(6, pairs.iter().flat_map(|pair| field(1, pair)).collect::<Vec<u8>>());
    let attributes = [
        attribute("z", "1"),
        pair("http", list(&[pair("status", number(3, 200)), pair("ok", number(2, 1)), attribute("z", "")])),
        pair("d", fixed(4, 1.5f64.to_bits())),
        pair("wide", fixed(4, 123_456_789_012_345_680_000f64.to_bits())),
        pair("nothing", vec![]),
        pair("empty", list(&[])),
        pair("b", field(7, [0xff])),
        pair("l", field(5, field(1, list(&[attribute("in", "x")])))),
    ];
    let all: Vec<u8> = attributes.iter().flat_map(|attribute| field(6, attribute)).collect();
    let body = field(5, list(&[attribute("a", "b")]));
    let twice = [field(6, attribute("k", "1")), field(6, attribute("k", "2"))].concat();
    let at_one_path =
        [field(6, attribute("a.b", "1")), field(6, pair("a", list(&[attribute("b", "2")])))].concat();
    let rows = [[all, body].concat(), vec![], twice, at_one_path, field(5, field(1, "text"))];
    let decoded = decode(&decoder, &[request("a", &rows)]);
    assert_eq!(
        row(&decoded, 0),
        [
            format!(
                "{:?}",
                r#"{"z":"1","http":{"status":200,"ok":true,"z":""},"d":1.5,"wide":1.2345678901234568e+20,"nothing":null,"empty":{},"b":"/w==","l":[{"in":"x"}]}"#
            ),
            r#"["b", "d", "http.ok", "http.status", "http.z", "l", "nothing", "wide", "z"]"#.to_owned(),
            format!("{:?}", r#"{"a":"b"}"#),
        ]
    );
    // A text is no object, and nothing of a body is none either.
    let told: Vec<(&str, &str)> =
        decoded.rejects.iter().map(|reject| (&*reject.column, reject.message.as_str())).collect();
    let rule = |text: &str| told.iter().filter(|(_, message)| message.contains(text)).count();
    assert_eq!((decoded.batch.len(), told.len()), (1, 4), "{told:?}");
    assert_eq!((rule("has the key `k` twice"), rule("two values at the path `a.b`")), (1, 1), "{told:?}");
    assert_eq!(rule("field `Body`: value"), 2, "{told:?}");
}

#[test]
fn ten_thousand_attributes_of_a_row_are_all_there() {
    let attributes: Vec<u8> =
        (0..10_000).flat_map(|n| field(6, attribute(&format!("key.{n}"), &n.to_string()))).collect();
    let request = request("a", &[attributes, log("x", 1)]);
    let filled = |column: &str| {
        let decoder = decoder(Signal::Logs, schema(&[column])).expect("the columns fit");
        let decoded = decode(&decoder, &[&request]);
        assert_eq!((decoded.batch.len(), decoded.rejects.len()), (2, 0), "{column}");
        row(&decoded, 0).remove(0)
    };
    let map = filled("LogAttributes Map(LowCardinality(String), String)");
    assert_eq!((map.matches("\"key.").count(), map.contains("\"key.9999\": \"9999\"")), (10_000, true));
    let object = filled("LogAttributes JSON");
    assert_eq!(object.matches("\\\"key.").count(), 10_000);
    let paths = filled("LogAttributesKeys Array(LowCardinality(String))");
    assert_eq!((paths.matches("\"key.").count(), paths.ends_with("\"key.9999\"]")), (10_000, true));
}

#[test]
fn a_body_of_any_floats_fills_json() {
    let decoder = decoder(Signal::Logs, schema(&["Body JSON"])).expect("the columns fit");
    let pair = |key: &str, value: f64| [field(1, key), field(2, fixed(4, value.to_bits()))].concat();
    let map =
        [field(1, pair("wide", 1e20)), field(1, pair("less", -1e19)), field(1, pair("d", 0.5))].concat();
    let decoded = decode(&decoder, &[request("a", &[field(5, field(6, map))])]);
    assert_eq!(decoded.rejects, []);
    assert_eq!(row(&decoded, 0), [format!("{:?}", r#"{"wide":1e+20,"less":-1e+19,"d":0.5}"#)]);
}

#[test]
fn paths_that_repeat_a_long_key_are_bounded() {
    let decoder =
        decoder(Signal::Logs, schema(&["LogAttributesKeys Array(String)"])).expect("the columns fit");
    let inner: Vec<u8> = (0..2_000).flat_map(|n| field(1, attribute(&n.to_string(), ""))).collect();
    let long = [field(1, "k".repeat(1_000)), field(2, field(6, inner))].concat();
    let (decoded, peak) = testkit::peak_bytes(|| decode(&decoder, &[request("a", &[field(6, long)])]));
    assert_eq!(decoded.rejects[0].reason, Reason::TooLarge);
    let message = &decoded.rejects[0].message;
    assert!(message.contains("the paths of the attributes have more than `"), "{message}");
    assert!(peak < 8 << 20, "{peak}");
}

/// A request of 80 KB, whose thousand empty rows share four hundred paths of a resource or of a scope.
#[test]
fn paths_that_rows_share_take_little_memory_and_cost_no_more_than_these_rows() {
    let rows: Vec<u8> = (0..1_000).flat_map(|_| field(2, field(5, field(1, "x".repeat(64))))).collect();
    let inner: Vec<u8> = (0..400).flat_map(|n| field(1, attribute(&n.to_string(), ""))).collect();
    for (key_bytes, is_taken) in [(40, true), (2_500, false)] {
        let pair = [field(1, "k".repeat(key_bytes)), field(2, field(6, &inner))].concat();
        let of_resource = field(1, [field(1, field(1, &pair)), field(2, &rows)].concat());
        let of_scope = field(1, field(2, [field(1, field(3, &pair)), rows.clone()].concat()));
        for (column, request) in [("ResourceAttributesKeys", of_resource), ("ScopeAttributesKeys", of_scope)]
        {
            let column = format!("{column} Array(String)");
            let decoder = decoder(Signal::Logs, schema(&[column.as_str()])).expect("the columns fit");
            let (decoded, peak) = testkit::peak_bytes(|| decode(&decoder, &[&request]));
            let (taken, turned) = if is_taken { (1_000, 0) } else { (0, 1_000) };
            assert_eq!((decoded.batch.len(), decoded.rejects.len()), (taken, turned), "{column}");
            assert!(decoded.rejects.iter().all(|reject| reject.reason == Reason::TooLarge));
            assert!(peak < 256 << 20, "{column}: {peak}");
            // Values are the decoder's matter: the gateway takes the request, and no more than its rows are dead letters.
            assert_eq!(count(Signal::Logs, &request), Ok(1_000));
        }
    }
}

#[test]
fn rows_are_taken_apart_into_requests_of_their_own() {
    let rows = [log("x", 1), log("y", 2), log("z", 300)];
    let of_requests = block(&[request("a", &rows)]);
    let apart = logs().split(&of_requests, 0).expect("it is a request");
    let each: Vec<&[u8]> = (0..apart.len()).map(|at| apart.get(at)).collect();
    assert_eq!(each, rows.map(|row| request("a", &[row])));
    // A metric's rows keep what the metric says of them.
    let sum = [field(1, fixed(4, 1)), field(1, fixed(4, 2)), number(2, 2), number(3, 1)].concat();
    let metric = [field(1, "name"), field(3, "By"), field(7, sum), field(12, attribute("k", "v"))].concat();
    let request = request("a", &[metric]);
    let columns = [
        "MetricName String",
        "MetricMetadata Map(String, String)",
        "IsMonotonic Bool",
        "AggregationTemporality Int32",
        "Value Float64",
    ];
    let decoder = decoder(Signal::Metrics, schema(&columns)).expect("the columns fit");
    let whole = decode(&decoder, &[&request]);
    let apart = decoder.split(&block(&[&request]), 0).expect("it is a request");
    assert_eq!(apart.len(), 2);
    for at in 0..2 {
        assert_eq!(row(&decode(&decoder, &[apart.get(at)]), 0), row(&whole, at));
    }
}

#[test]
fn columns_that_no_field_can_fill_are_refused() {
    let refused =
        |signal, columns: &[&str]| super::decoder(signal, schema(columns)).expect_err("refused").to_string();
    let unknown = refused(Signal::Logs, &["Body String", "Nope UInt8"]);
    assert!(unknown.starts_with("column `Nope`: rows of `otlp_logs` have no field `Nope`"), "{unknown}");
    assert!(unknown.contains("`SeverityNumber`"));
    assert_eq!(
        refused(Signal::Traces, &["Events.Name Array(UInt8)", "SpanAttributes UInt8"]),
        "column `SpanAttributes`: the field `SpanAttributes` is a map of texts; JSON takes it with its types, and a String its JSON, which its type does not take"
    );
    assert!(super::decoder(Signal::Logs, schema(&["Body String", "Nope Nullable(UInt8)"])).is_ok());
}

fn check(signal: Signal, request: &[u8]) -> Result<Checked<'_>, Invalid> {
    crate::otlp::check(signal, request, false, 16 << 20)
}

/// Rows of a request of which none is broken.
fn count(signal: Signal, request: &[u8]) -> Result<usize, Invalid> {
    let checked = check(signal, request)?;
    assert_eq!((checked.broken.rows, &*checked.request), (0, request));
    Ok(checked.rows)
}

fn from_json(signal: Signal, request: &[u8], bytes_max: usize) -> Result<Vec<u8>, Invalid> {
    crate::otlp::check(signal, request, true, bytes_max).map(|checked| checked.request.into_owned())
}

/// The rows that are left, how many are broken, and the words for the first of them.
fn in_part(signal: Signal, request: &[u8], is_json: bool) -> (Vec<u8>, usize, usize, (usize, String)) {
    let checked = crate::otlp::check(signal, request, is_json, 16 << 20).expect("it is divided into rows");
    let (number, first) = checked.broken.first.expect("a row is broken");
    (checked.request.into_owned(), checked.rows, checked.broken.rows, (number, first.message))
}

#[test]
fn rows_whose_fields_are_broken_are_left_out_of_a_request_and_nothing_else() {
    // A field of another wire type, one that is cut off, and bytes that are no field.
    let broken = [vec![0x0a, 1, 0], vec![0x2a, 9, 0], vec![0xff]];
    for bad in &broken {
        let rows = |rows: &[&Vec<u8>]| rows.iter().map(|row| (*row).clone()).collect::<Vec<_>>();
        let (x, y) = (log("x", 1), log("y", 2));
        let (kept, left, turned, (first, why)) =
            in_part(Signal::Logs, &request("a", &rows(&[&x, bad, &y, bad])), false);
        assert_eq!((left, turned, first), (2, 2, 2), "{why}");
        assert_eq!(kept, request("a", &[x.clone(), y.clone()]), "all around is as it was");
        assert!(why.contains("LogRecord"), "{why}");
    }
    // The rows under a resource that cannot be read, beside those of another one.
    let spoilt = field(1, [field(1, [0x0f]), field(2, field(2, log("z", 3)))].concat());
    let good = request("a", &[log("x", 1)]);
    let both = [spoilt, good.clone()].concat();
    let (kept, left, turned, (first, why)) = in_part(Signal::Logs, &both, false);
    assert_eq!((left, turned, first), (1, 1, 1), "{why}");
    assert!(kept.ends_with(&good) && why.contains("`Resource`"), "{why}");
    let span = [field(1, [7; 16]), field(5, "name")].concat();
    let (kept, left, turned, (first, why)) =
        in_part(Signal::Traces, &request("a", &[vec![0x08, 1], span.clone()]), false);
    assert_eq!((kept, left, turned, first), (request("a", &[span]), 1, 1, 1), "{why}");
    for kind in [5, 7, 9, 10, 11] {
        let points = |points: &[&[u8]]| {
            let points: Vec<u8> = points.iter().flat_map(|point| field(1, point)).collect();
            let data = [points, number(2, 1)].concat();
            request("a", &[[field(1, "name"), field(kind, data)].concat()])
        };
        let point = fixed(3, 1_764_000_000_000_000_000);
        let (kept, left, turned, (first, why)) =
            in_part(Signal::Metrics, &points(&[&point, &[0x18, 1], &[], &[0x1a, 0]]), false);
        assert_eq!((kept, left, turned, first), (points(&[&point, &[]]), 2, 2, 2), "{why}");
    }
    // A broken row may be what the bound on the others was reckoned by.
    let resource = field(1, field(1, attribute("k", &"v".repeat(100_000))));
    let rows: Vec<u8> = (0..200).flat_map(|_| field(2, [])).collect();
    let padding = field(2, [&[0x0a, 1, 0][..], &[0; 200_000]].concat());
    let heavy = field(1, [resource, field(2, [rows, padding].concat())].concat());
    let refused = check(Signal::Logs, &heavy).expect_err("without it they are too many");
    assert_eq!(refused.reason, Reason::TooLarge, "{refused}");
}

#[test]
fn rows_whose_values_have_another_form_are_left_out_of_a_request_in_json() {
    let logs = |rows: &str| format!(r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{rows}]}}]}}]}}"#);
    let good = r#"{"body":{"stringValue":"x"}}"#;
    let (kept, left, turned, (first, why)) = in_part(
        Signal::Logs,
        logs(&format!(r#"{good},{{"timeUnixNano":"soon"}},7,{{"traceId":"xyz","body":{{}}}},{good}"#))
            .as_bytes(),
        true,
    );
    assert_eq!((left, turned, first), (2, 3, 2), "{why}");
    assert_eq!(kept, from_json(Signal::Logs, logs(&format!("{good},{good}")).as_bytes(), 1_000).unwrap());
    assert_eq!(why, "field `timeUnixNano`: `soon` is not of its form");
    // What is no JSON, or is broken around the rows, costs the request.
    for bad in [logs(r#"{"body":}"#), logs("{").replace(']', ""), r#"{"resourceLogs":[7]}"#.to_owned()] {
        assert!(crate::otlp::check(Signal::Logs, bad.as_bytes(), true, 16 << 20).is_err(), "{bad}");
    }
    // A record that a pipeline reads is not divided: it is a dead letter as a whole.
    let decoded = decode(&super::logs(), &[logs(&format!("{good},7")).as_bytes()]);
    assert_eq!((decoded.batch.len(), decoded.rejects.len()), (0, 1));
}

#[test]
fn a_request_is_counted_and_refused_by_what_is_broken_around_its_rows() {
    let good = request("a", &[log("x", 1), log("y", 2)]);
    assert_eq!(count(Signal::Logs, &good), Ok(2));
    assert_eq!(count(Signal::Traces, &[]), Ok(0));
    assert_eq!(count(Signal::Metrics, &super::a_gauge()), Ok(1));
    let told = |signal, request: &[u8]| check(signal, request).unwrap_err().message;
    assert_eq!(told(Signal::Logs, &good[..good.len() - 1]), "the bytes are no request of logs");
    assert_eq!(told(Signal::Logs, b"no request"), "the bytes are no request of logs");
    let (.., (_, why)) = in_part(Signal::Logs, &request("a", &[vec![0x0a, 1, 0]]), false);
    assert_eq!(why, "in `LogRecord`, field `1` has the unexpected wire type `2`");
    // A value is the pipeline's matter.
    assert_eq!(count(Signal::Logs, &request("a", &[field(5, [0xff])])), Ok(1));
}

#[test]
fn json_takes_no_more_memory_than_its_bound_and_nests_no_deeper() {
    let numbers = |many: usize| {
        let list = "1,".repeat(many);
        format!(
            r#"{{"resourceMetrics":[{{"scopeMetrics":[{{"metrics":[{{"histogram":{{"dataPoints":[{{"explicitBounds":[{list}1]}}]}}}}]}}]}}]}}"#
        )
    };
    let json = numbers(1 << 20);
    let (refused, peak) =
        testkit::peak_bytes(|| from_json(Signal::Metrics, json.as_bytes(), 4 << 20).unwrap_err());
    assert_eq!((refused.reason, peak < 12 << 20), (dataflow::Reason::TooLarge, true), "{refused} {peak}");
    let wire = from_json(Signal::Metrics, numbers(999).as_bytes(), 1 << 20).unwrap();
    assert_eq!(count(Signal::Metrics, &wire), Ok(1));
    let unknown = format!(r#"{{"x":[{}0]}}"#, "0,".repeat(1 << 20));
    let (wire, peak) = testkit::peak_bytes(|| from_json(Signal::Logs, unknown.as_bytes(), 4 << 20).unwrap());
    assert!(wire.is_empty() && peak < 5 << 20, "{peak}");
    for deep in [
        format!(
            r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{{"body":{}"#,
            r#"{"arrayValue":{"values":["#.repeat(1_000_000)
        ),
        format!(r#"{{"x":{}"#, "[".repeat(1_000_000)),
    ] {
        let refused = from_json(Signal::Logs, deep.as_bytes(), 16 << 20).unwrap_err();
        assert!(refused.message.contains("deeper than"), "{refused}");
    }
}

#[test]
fn json_is_read_to_the_last_digit_and_its_faults_are_named() {
    let columns =
        ["Timestamp DateTime64(9)", "Body String", "TraceId String", "LogAttributes Map(String, String)"];
    let decoder = decoder(Signal::Logs, schema(&columns)).expect("the columns fit");
    let with =
        |log: &str| format!(r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{log}]}}]}}],"unknown":1}}"#);
    let log = r#"{"timeUnixNano":"1764000000000000007","body":{"intValue":9223372036854775807},"traceId":"0A0b0000000000000000000000000001",
        "attributes":[{"key":"d","value":{"doubleValue":1.0000000000000002}},{"key":"n","value":{"doubleValue":"NaN"}},
        {"key":"b","value":{"bytesValue":"_w=="}},{"key":"s","value":{"stringValue":"1\"2"}},{"key":"e"}]}"#;
    let decoded = decode(&decoder, &[with(log)]);
    assert_eq!(decoded.rejects, []);
    assert_eq!(
        row(&decoded, 0),
        [
            "1764000000000000007",
            "\"9223372036854775807\"",
            "\"0a0b0000000000000000000000000001\"",
            r#"{"d": "1.0000000000000002", "n": "NaN", "b": "/w==", "s": "1\"2", "e": ""}"#
        ]
    );
    let told = |log: &str| decode(&decoder, &[with(log)]).rejects[0].message.clone();
    assert_eq!(told(r#"{"traceId":"xy"}"#), "field `traceId`: `xy` is not of its form");
    assert_eq!(told(r#"{"severityText":7}"#), "field `severityText`: `7` is not of its form");
    assert_eq!(told(r#"{"flags":4294967296}"#), "field `flags`: `4294967296` is not of its form");
    assert_eq!(told(r#"{"timeUnixNano":1.5}"#), "field `timeUnixNano`: `1.5` is not of its form");
    assert_eq!(told(r#"{"timeUnixNano":"-1"}"#), "field `timeUnixNano`: `-1` is not of its form");
    assert_eq!(
        told(r#"{"droppedAttributesCount":-1}"#),
        "field `droppedAttributesCount`: `-1` is not of its form"
    );
    assert_eq!(
        told(r#"{"severityNumber":2147483648}"#),
        "field `severityNumber`: `2147483648` is not of its form"
    );
    let too_large = r#"{"body":{"intValue":"9223372036854775808"}}"#;
    assert_eq!(told(too_large), "field `intValue`: `9223372036854775808` is not of its form");
    assert!(told("{").starts_with("the request is no JSON: "));
    // A row that does not fit is a request in the other encoding.
    let late = decode(
        &decoder,
        &[with(&format!(r#"{log},{{"timeUnixNano":18446744073709551615,"body":{{"stringValue":"x"}}}}"#))],
    );
    assert_eq!((late.batch.len(), late.rejects.len()), (1, 1));
    let expected = field(1, field(2, field(2, [fixed(1, u64::MAX), field(5, field(1, "x"))].concat())));
    assert_eq!(late.rejects[0].raw, expected);
}

#[test]
fn json_may_name_enums_and_fields_as_libraries_of_protocol_buffers_do() {
    let same = |signal, one: &str, other: &str| {
        let one = from_json(signal, one.as_bytes(), 1_000).expect("a request");
        assert_eq!(from_json(signal, other.as_bytes(), 1_000).expect("a request"), one);
        assert_eq!(count(signal, &one), Ok(1));
    };
    same(
        Signal::Logs,
        r#"{"resourceLogs":[{"schemaUrl":"u","scopeLogs":[{"logRecords":[{"timeUnixNano":"7","severityNumber":9,"body":{"stringValue":"x"},
            "droppedAttributesCount":1}]}]}]}"#,
        r#"{"resource_logs":[{"schema_url":"u","scope_logs":[{"log_records":[{"time_unix_nano":"7","severity_number":"SEVERITY_NUMBER_INFO",
            "body":{"string_value":"x"},"dropped_attributes_count":1}]}]}]}"#,
    );
    same(
        Signal::Traces,
        r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"kind":3,"status":{"code":2}}]}]}]}"#,
        r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"kind":"SPAN_KIND_CLIENT","status":{"code":"STATUS_CODE_ERROR"}}]}]}]}"#,
    );
    let sum = |temporality: &str, value: &str| {
        format!(
            r#"{{"resourceMetrics":[{{"scopeMetrics":[{{"metrics":[{{"sum":{{"aggregationTemporality":{temporality},"dataPoints":[{{"{value}":"1"}}]}}}}]}}]}}]}}"#
        )
    };
    same(Signal::Metrics, &sum("2", "asInt"), &sum("\"AGGREGATION_TEMPORALITY_CUMULATIVE\"", "as_int"));
    // Other spellings are names of nothing, and other names are of no enum.
    let log = |log: &str| format!(r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{log}]}}]}}]}}"#);
    same(
        Signal::Logs,
        &log("{}"),
        &log(r#"{"time_unix_nano_":1,"timeunixnano":1,"time_Unix_Nano":1,"time":1}"#),
    );
    let (.., (_, why)) = in_part(Signal::Logs, log(r#"{"severityNumber":"LOUD"}"#).as_bytes(), true);
    assert_eq!(why, "field `severityNumber`: `LOUD` is not of its form");
}
