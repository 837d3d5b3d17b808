use testkit::Fuzz;

use super::*;
use crate::budget::Budget;
use crate::options::Csv;
use crate::support::roomy;

fn media_of(kind: &str) -> (String, String) {
    let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, kind.parse().unwrap())]);
    media(&headers)
}

fn csv(columns: &[&str]) -> Format {
    let columns = columns.iter().map(ToString::to_string).collect();
    Format::Csv(Csv { columns, delimiter: b',', quote: Some(b'"') })
}

/// Records, and errors by line.
type Told = (Vec<String>, Vec<(u64, String)>);

fn parsed(format: &Format, kind: &str, body: &[u8]) -> Result<Told, Refusal> {
    let parsed = parse(format, &media_of(kind), (body, 1 << 20), 5, roomy())?;
    let block = parsed.records;
    assert_eq!(block.positions, (0..block.len() as u64).collect::<Vec<_>>());
    assert!(block.times_ms.iter().all(|time| *time == 5));
    let text = |row| String::from_utf8_lossy(block.payloads.get(row)).into_owned();
    assert!(parsed.errors.count >= parsed.errors.shown.len() as u64);
    Ok(((0..block.len()).map(text).collect(), parsed.errors.shown))
}

fn good(format: &Format, kind: &str, body: &str) -> Vec<String> {
    let (records, errors) = parsed(format, kind, body.as_bytes()).unwrap();
    assert_eq!(errors, [], "{body}");
    records
}

fn wrong(kind: &str, body: &str) -> String {
    let refusal = parsed(&Format::Json, kind, body.as_bytes()).unwrap_err();
    assert_eq!(refusal.kind, Kind::Malformed);
    refusal.message
}

#[test]
fn a_line_of_json_is_a_record_and_a_bad_one_is_named_by_its_number() {
    let body = b"{\"a\":1}\r\n\n  {\"a\":{\"b\":[1,2]}} \n[1]\n{\"a\":}\n{\"a\":1}{\"a\":2}\n{\"a\":\"\xff\"}\n{\"a\":3}";
    for kind in ["application/x-ndjson", "application/jsonl; charset=utf-8", "text/plain"] {
        let (records, errors) = parsed(&Format::Json, kind, body).unwrap();
        assert_eq!(records, ["{\"a\":1}", "{\"a\":{\"b\":[1,2]}}", "{\"a\":3}"]);
        let lines: Vec<u64> = errors.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [4, 5, 6, 7], "{errors:?}");
        assert_eq!(errors[0].1, "is no JSON object");
        assert_eq!(errors[1].1, "is no JSON: expected value at column 6");
        assert_eq!(errors[3].1, "is not UTF-8");
    }
    assert_eq!(good(&Format::Json, "application/x-ndjson", " \n\n"), [""; 0]);
}

#[test]
fn a_record_that_is_one_too_many_takes_no_room() {
    let mut rows = Rows::new(5, roomy(), 0).unwrap();
    rows.push(&vec![b'x'; object_log::object::APPEND_BYTES_MAX - 100]).unwrap();
    let held = rows.held.bytes();
    for _ in 0..1_000 {
        assert_eq!(rows.push(&[b'y'; 1_000]).unwrap_err().kind, Kind::TooLarge);
    }
    let parsed = rows.done();
    assert_eq!((parsed.records.len(), parsed.held.bytes()), (1, held));
}

#[test]
fn a_copy_of_each_record_is_held_too() {
    let held = |rows: Result<Rows, Refusal>| {
        let mut rows = rows.unwrap();
        (0..64).for_each(|_| rows.push(&[b'x'; 4 << 10]).unwrap());
        rows.done().held.bytes()
    };
    let once = held(Rows::new(5, roomy(), 0));
    let twice = held(Rows::new(5, roomy(), 0).map(Rows::twice));
    assert!(once >= 256 << 10 && twice >= 512 << 10, "{once} {twice}");
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_record() {
    let ab = csv(&["a", "b"]);
    for (format, kind, body, expected) in [
        (&Format::Json, "application/x-ndjson", "{\"a\":1}\n{\"a\":2}", ["{\"a\":1}", "{\"a\":2}"]),
        (&Format::Json, "application/json", "[{\"a\":1},{\"a\":2}]", ["{\"a\":1}", "{\"a\":2}"]),
        (&ab, "text/csv", "1,2\n3,4\n", ["1,2", "3,4"]),
        (&ab, "text/csv; header=present", "a,b\n1,2\n3,4\n", ["1,2", "3,4"]),
        (&Format::Lines, "text/plain", "x\ny", ["{\"line\":\"x\"}", "{\"line\":\"y\"}"]),
    ] {
        assert_eq!(good(format, kind, &format!("\u{feff}{body}")), expected, "{kind}");
    }
    // Of a message every byte counts.
    assert_eq!(good(&Format::Message, "", "\u{feff}x"), ["\u{feff}x"]);
}

#[test]
fn values_of_json_come_in_an_array_or_one_after_the_other() {
    let one = "application/json";
    for body in [
        "[{\"a\":1}, {\"a\":2}\n]",
        " {\"a\":1}\n{\"a\":2} ",
        "{\"a\":1}{\"a\":2}",
        "[{\"a\":1},{\"a\":2}]\n",
    ] {
        assert_eq!(good(&Format::Json, one, body), ["{\"a\":1}", "{\"a\":2}"], "{body}");
    }
    assert_eq!(good(&Format::Json, one, "{\n \"a\": [\n1]\n}"), ["{\n \"a\": [\n1]\n}"]);
    for body in ["[]", " [ ] ", "", "\n"] {
        assert_eq!(good(&Format::Json, one, body), [""; 0], "{body}");
    }
    let (records, errors) =
        parsed(&Format::Json, one, b"[1,\n\"x\",\n[{}],\n{\"a\":1},\nnull,\ntrue, -2.5e3]").unwrap();
    assert_eq!(records, ["{\"a\":1}"]);
    assert_eq!(errors.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1, 2, 3, 5, 6, 6]);
    for (body, why) in [
        ("[{\"a\":1}", "the array has no end"),
        ("[{\"a\":1},", "the array has no end"),
        ("[{\"a\":1} {\"a\":2}]", "`,` or `]` is missing"),
        ("[{\"a\":1}] x", "something follows the array"),
        ("[{\"a\":1},\n{\"a\":}]", "at line 2: expected value"),
        ("{\"a\":1}\n}", "at line 2: is no JSON value"),
        ("[1,,2]", "is no JSON value"),
        ("[nul]", "is no JSON value"),
    ] {
        let message = wrong(one, body);
        assert!(message.contains(why) && message.ends_with("nothing was stored"), "{body}: {message}");
    }
    assert!(parsed(&Format::Json, one, b"{\"a\":\"\xff\"}").unwrap_err().message.contains("not UTF-8"));
}

#[test]
fn a_deep_value_overflows_no_stack() {
    let deep = "[".repeat(200_000);
    assert!(wrong("application/json", &deep).contains("is no JSON"));
    let (_, errors) = parsed(&Format::Json, "", format!("{{\"a\":{deep}").as_bytes()).unwrap();
    assert_eq!(errors.len(), 1);
    let whole = format!("{{\"a\":{deep}{}}}", "]".repeat(200_000));
    parsed(&Format::Json, "", whole.as_bytes()).unwrap();
}

#[test]
fn a_line_of_csv_is_a_record_with_its_quoted_breaks_and_as_many_fields_as_the_stream() {
    let format = csv(&["id", "name"]);
    let body = "1,a\r\n2,\"b\n\"\"c\"\"\"\n\n3,d,e\n4\n5,f\"g\n6,\"open\n7,x";
    let (records, errors) = parsed(&format, "text/csv", body.as_bytes()).unwrap();
    assert_eq!(records, ["1,a", "2,\"b\n\"\"c\"\"\"", "5,f\"g"]);
    let errors: Vec<_> = errors.iter().map(|(line, why)| (*line, why.as_str())).collect();
    assert_eq!(
        errors,
        [
            (5, "has 3 fields, and the stream has 2"),
            (6, "has 1 fields, and the stream has 2"),
            (8, "has a quote without an end; the `1` lines behind it are part of it")
        ]
    );
    let head = "text/csv; charset=utf-8; header=present";
    assert_eq!(good(&format, head, "id,\"name\"\n1,a\n"), ["1,a"]);
    let refusal = parsed(&format, head, b"name,id\na,1\n").unwrap_err();
    assert!(refusal.message.contains("which are: id, name"), "{}", refusal.message);
    let plain = Format::Csv(Csv { columns: vec!["a".into(), "b".into()], delimiter: b'\t', quote: None });
    assert_eq!(good(&plain, "text/tab-separated-values", "\"\tx\n"), ["\"\tx"]);
}

#[test]
fn lines_behind_a_quote_without_an_end_count_as_left_out() {
    let format = csv(&["id", "name"]);
    for (body, count, why) in [
        (
            &b"1,a\n2,\"b\n3,c\n4,d\n"[..],
            3,
            "has a quote without an end; the `2` lines behind it are part of it",
        ),
        (&b"1,a\n2,\"b\n"[..], 1, "has a quote without an end"),
        (&b"1,a\n2,\"b"[..], 1, "has a quote without an end"),
    ] {
        let found = parse(&format, &media_of("text/csv"), (body, 1 << 20), 5, roomy()).unwrap();
        let shown = vec![(2, why.to_owned())];
        assert_eq!((found.records.len(), found.errors.count, found.errors.shown), (1, count, shown));
    }
}

#[test]
fn a_message_is_one_record_and_other_forms_than_the_streams_are_refused() {
    let body = b"\x00\xff any\nbytes";
    let block =
        parse(&Format::Message, &media_of("application/avro"), (body, 1 << 20), 5, roomy()).unwrap().records;
    assert_eq!((block.len(), block.payloads.get(0)), (1, &body[..]));
    for (format, kind) in [
        (Format::Json, "text/csv"),
        (Format::Json, "application/x-protobuf"),
        (csv(&["a"]), "application/json"),
        (csv(&["a"]), "application/avro"),
        (Format::Protobuf, "application/json"),
        (Format::Protobuf, "application/avro"),
    ] {
        assert_eq!(parsed(&format, kind, b"x").unwrap_err().kind, Kind::Media);
    }
}

#[test]
fn a_line_of_text_is_an_object_with_that_line() {
    let (records, errors) = parsed(&Format::Lines, "text/plain", b"one \"1\"\r\n\n{\"a\":1}\n\xff").unwrap();
    assert_eq!(records, [r#"{"line":"one \"1\""}"#, r#"{"line":"{\"a\":1}"}"#, "{\"line\":\"\u{fffd}\"}"]);
    assert_eq!(errors, []);
}

#[test]
fn a_hundred_errors_are_shown_and_all_are_counted() {
    let parsed =
        parse(&Format::Json, &media_of("text/plain"), (&b"x\n".repeat(250), 1 << 20), 5, roomy()).unwrap();
    assert_eq!((parsed.errors.count, parsed.errors.shown.len()), (250, 100));
    let refusal = parsed.errors.refusal();
    assert!(refusal.message.starts_with("250 lines are not valid records"), "{}", refusal.message);
}

#[test]
fn many_small_records_are_held_for_what_they_take() {
    let budget = Budget::new("a test", 1 << 20);
    let body = b"{}\n".repeat(100_000);
    let refused =
        parse(&Format::Json, &media_of(""), (&body, 1 << 20), 5, Held::none(&budget, &budget)).unwrap_err();
    assert_eq!(refused.kind, Kind::Busy);
    assert_eq!(budget.held_bytes(), 0);
    let parsed = parse(&Format::Json, &media_of(""), (&body, 1 << 20), 5, roomy()).unwrap();
    assert!(parsed.held.bytes() >= 100_000 * (ROW_BYTES + 2), "{}", parsed.held.bytes());
    let refused = parse(&Format::Json, &media_of(""), (&b"{}\n".repeat(ROWS_MAX + 1), 1 << 20), 5, roomy());
    assert_eq!(refused.unwrap_err().kind, Kind::TooLarge);
}

/// What is taken is part of the body, and every line is a record, an error or blank.
#[test]
fn fuzz_bodies() {
    Fuzz::new("gateway bodies")
        .examples([
            "{\"a\":1}\n{\"b\":[1,\"x\"]}\n",
            "[{\"a\":1},{\"b\":null},3]",
            "1,\"a\nb\"\n2,c\r\n",
            "id,name\n1,\"x\"\"y\"\n",
        ])
        .words(["{}", "[", "]", ",", "\"", "\n", "\r\n", "null", "\\u0000", "\\"])
        .memory_max(1 << 20, 64)
        .run(3_000, |body| {
            for (format, kind) in [
                (Format::Json, "application/json"),
                (Format::Json, "application/x-ndjson"),
                (csv(&["id", "name"]), "text/csv"),
                (csv(&["id", "name"]), "text/csv; header=present"),
                (Format::Message, ""),
            ] {
                let Ok(parsed) = parse(&format, &media_of(kind), (body, 1 << 20), 5, roomy()) else {
                    continue;
                };
                let block = &parsed.records;
                assert!(block.payloads.bytes.len() <= body.len());
                let lines = body.iter().filter(|byte| **byte == b'\n').count() + 1;
                if kind == "application/x-ndjson" {
                    assert!(block.len() + parsed.errors.count as usize <= lines);
                }
                if matches!(format, Format::Json) {
                    for row in 0..block.len() {
                        serde_json::from_slice::<serde::de::IgnoredAny>(block.payloads.get(row)).unwrap();
                    }
                }
            }
        });
}
