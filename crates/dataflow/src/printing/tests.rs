use super::*;

#[test]
fn what_a_terminal_obeys_is_escaped() {
    for (text, shown) in [
        ("plain, größer, 日本語, 🦀", "plain, größer, 日本語, 🦀"),
        ("a\u{1b}[2Jb", "a\\u{1b}[2Jb"),
        ("a\nWARN forged\r\tb", "a\\nWARN forged\\r\\tb"),
        ("a\u{7f}\u{9b}31m\0", "a\\u{7f}\\u{9b}31m\\u{0}"),
        ("user\u{202e}gpj.exe\u{2066}", "user\\u{202e}gpj.exe\\u{2066}"),
        ("a\u{200b}b\u{2028}c\u{feff}", "a\\u{200b}b\\u{2028}c\\u{feff}"),
        ("\u{e0041}", "\\u{e0041}"),
    ] {
        assert_eq!(escaped(text, 100), shown);
    }
    assert_eq!(escaped_lines("one\ntwo\u{1b}[0m\n"), "one\ntwo\\u{1b}[0m\n");
}

#[test]
fn a_long_text_is_cut() {
    assert_eq!(escaped("ééééé", 3), "ééé…");
    assert_eq!(escaped("ééé", 3), "ééé");
    assert_eq!(escaped(&"\0".repeat(1 << 20), 2), "\\u{0}\\u{0}…");
}

#[test]
fn values_that_a_server_quotes_are_left_out() {
    for (words, told) in [
        (
            "code 6: Cannot parse string 'secret' as UInt8: syntax error",
            "code 6: Cannot parse string '…' as UInt8: syntax error",
        ),
        (
            "Constraint `positive` for table default.t is violated at row 1. Expression: (a > 0). Column values: a = -5, b = 'x'",
            "Constraint `positive` for table default.t is violated at row 1. Expression: (a > 0).",
        ),
        ("ERROR: text \"secret\" is not like Int8", "ERROR: text \"…\" is not like Int8"),
        ("before: 'it\\'s secret': while reading", "before: '…': while reading"),
        ("before: 'it's secret': while reading", "before: '…': while reading"),
        ("never closed 'secret", "never closed '…'"),
        ("the table's column isn't there", "the table's column isn't there"),
        ("before: 'a', after: 'b'", "before: '…', after: '…'"),
        ("", ""),
    ] {
        assert_eq!(without_values(words), told);
    }
}

#[test]
fn json_stays_json_of_the_same_values() {
    let shown = escaped_json("{\"text\":\"a\u{9b}2J\u{202e}é\\n\u{1f600}\u{e0001}\"}").into_owned();
    assert_eq!(shown, r#"{"text":"a\u009b2J\u202eé\n😀\udb40\udc01"}"#);
    assert!(matches!(escaped_json("{}"), Cow::Borrowed("{}")));
}
