use super::*;

fn json(text: &str) -> Result<String, &'static str> {
    parse(text.as_bytes()).map(|labels| Value::Object(labels).to_string())
}

#[test]
fn labels_are_read_as_go_writes_them() {
    for (text, expected) in [
        ("{}", "{}"),
        ("", "{}"),
        (r#"{app="web"}"#, r#"{"app":"web"}"#),
        (r#" { app = "web" , n="1", } "#, r#"{"app":"web","n":"1"}"#),
        (r#"{a="}, b=\"c"}"#, r#"{"a":"}, b=\"c"}"#),
        (r#"{a="\a\b\f\n\r\t\v\\\"\'"}"#, r#"{"a":"\u0007\b\f\n\r\t\u000b\\\"'"}"#),
        (r#"{a="\x41\u00fc\U0001f600\101"}"#, "{\"a\":\"A\u{fc}\u{1f600}A\"}"),
        (r#"{a="\xc3\xbc", b="\xff"}"#, "{\"a\":\"\u{fc}\",\"b\":\"\u{fffd}\"}"),
        (r#"{a=`\n"raw`}"#, r#"{"a":"\\n\"raw"}"#),
        (r#"{"with.dot"="x", "a b"="y"}"#, r#"{"with.dot":"x","a b":"y"}"#),
        (r#"{a="1",a="2"}"#, r#"{"a":"2"}"#),
    ] {
        assert_eq!(json(text).unwrap(), expected, "{text}");
    }
}

/// As Vector sends them.
#[test]
fn values_that_are_not_escaped_are_taken_as_they_stand() {
    for (text, expected) in [
        (r#"{path="C:\data\", b="c"}"#, r#"{"path":"C:\\data\\","b":"c"}"#),
        (r#"{a="the "first" one", b="{"x":"y"}"}"#, r#"{"a":"the \"first\" one","b":"{\"x\":\"y\"}"}"#),
        (r#" { a = ""q"" , b = "" } "#, r#"{"a":"\"q\"","b":""}"#),
        (r#"{a="x, b", c="d", e", f="g""}"#, r#"{"a":"x, b","c":"d\", e","f":"g\""}"#),
        (r#"{app="web" b="c"}"#, r#"{"app":"web\" b=\"c"}"#),
        (r#"{a="\q"}"#, r#"{"a":"\\q"}"#),
        (r#"{a="\x4"}"#, r#"{"a":"\\x4"}"#),
        (r#"{a="\ud800"}"#, r#"{"a":"\\ud800"}"#),
        (r#"{a="\u{200b}"}"#, r#"{"a":"\\u{200b}"}"#),
        (r#"{a="\400"}"#, r#"{"a":"\\400"}"#),
    ] {
        assert_eq!(json(text).unwrap(), expected, "{text}");
    }
}

#[test]
fn what_is_no_list_of_labels_is_refused() {
    for text in [
        "{",
        "}",
        "app",
        "{app}",
        "{app=}",
        "{app=web}",
        r#"{app="web}"#,
        r#"{="web"}"#,
        r#"{a="b"} c"#,
        r#"{a="\q", }"#,
        r#"{a="b, c"d"#,
        "{a=`b}",
        r#"{,}"#,
    ] {
        assert!(json(text).is_err(), "{text}");
    }
    assert!(parse(format!("{{a=\"{}\"}}", "x".repeat(TEXT_BYTES_MAX)).as_bytes()).is_err());
}

#[test]
fn fuzz_labels() {
    testkit::Fuzz::new("gateway loki labels")
        .examples([r#"{app="web", n="\x41\u00fc\101", "a b"=`c`}"#])
        .words(["=\"", "\\u", "\\U", "\\x", "\",", "`", "{", "}"])
        .memory_max(64 << 10, 400)
        .run(3_000, |text| {
            if let Ok(labels) = parse(text) {
                // What was read is read again from its own form in Go's quotes, as far as Rust writes the same.
                let pairs =
                    labels.iter().map(|(name, value)| format!("{name:?}={}", value)).collect::<Vec<_>>();
                let again = format!("{{{}}}", pairs.join(","));
                if !again.contains("\\u{") && !again.contains("\\0") {
                    assert_eq!(parse(again.as_bytes()), Ok(labels), "{again}");
                }
            }
        });
}
