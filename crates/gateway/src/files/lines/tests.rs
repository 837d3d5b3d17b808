use super::*;

fn of(piece: &str, offset: u64, bytes_max: usize) -> Vec<(u64, String, bool, u64)> {
    let lines = lines(piece.as_bytes(), offset, bytes_max);
    lines.map(|l| (l.offset, String::from_utf8_lossy(l.text).into_owned(), l.is_cut, l.next)).collect()
}

#[test]
fn whole_lines_have_their_places_and_the_rest_waits() {
    assert_eq!(
        of("\u{feff}one\r\n\ntwo\r\nthr", 0, 100),
        [(0, "one".to_owned(), false, 8), (8, String::new(), false, 9), (9, "two".to_owned(), false, 14)]
    );
    assert_eq!(of("\u{feff}one\n", 7, 100)[0].1, "\u{feff}one", "only a file's first bytes are a mark");
    assert_eq!(of("", 3, 100), []);
}

#[test]
fn a_long_line_is_cut_between_characters() {
    assert_eq!(of("abcdef\ngh\n", 0, 4), [(0, "abcd".to_owned(), true, 7), (7, "gh".to_owned(), false, 10)]);
    assert_eq!(of("abcd\r\n", 0, 4), [(0, "abcd".to_owned(), false, 6)], "the return is no part of it");
    for (bytes_max, text) in [(3, "a\u{e4}"), (2, "a"), (5, "a\u{e4}b"), (8, "a\u{e4}b\u{1f600}")] {
        assert_eq!(
            of("a\u{e4}b\u{1f600}c\n", 0, bytes_max)[0],
            (0, text.to_owned(), true, 10),
            "{bytes_max}"
        );
    }
}

#[test]
fn a_record_says_where_its_line_was() {
    let record = |text: &[u8], bytes_max, is_json| {
        let mut out = Vec::new();
        let origin = Origin { path: "/var/log/\"a\".log", host: "web1", read_ms: 1_700_000_000_123 };
        write_record(&mut out, line(text, 40, bytes_max, 99), origin, is_json);
        String::from_utf8(out).unwrap()
    };
    let wrapped = |line: &str, cut: bool| {
        format!(
            "{{\"file\":\"/var/log/\\\"a\\\".log\",\"host\":\"web1\",\"offset\":40,\"read\":1700000000123,\"line\":{line},\"truncated\":{cut}}}"
        )
    };
    assert_eq!(record(b"a \"b\"\t\xff", 100, false), wrapped("\"a \\\"b\\\"\\t\u{fffd}\"", false));
    assert_eq!(record(b"abc", 2, false), wrapped("\"ab\"", true));
    let json = "{\"a\": [1]}";
    assert_eq!(record(json.as_bytes(), 100, true), json, "as it is");
    assert_eq!(record(json.as_bytes(), 100, false), wrapped("\"{\\\"a\\\": [1]}\"", false));
    for other in ["{\"a\": 1", "[1]", "1", "{} {}"] {
        let quoted = serde_json::to_string(other).unwrap();
        assert_eq!(record(other.as_bytes(), 100, true), wrapped(&quoted, false), "{other}");
    }
    assert_eq!(record(json.as_bytes(), 9, true), wrapped("\"{\\\"a\\\": [1]\"", true), "a part is no JSON");
}
