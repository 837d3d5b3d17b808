//! What a column of type JSON takes; `clickhouse/tests/live` shows that the server takes the same.

use super::*;

fn refusal(text: &str) -> (Reason, String) {
    let unfit = check(text).expect_err(text);
    (unfit.reason, unfit.rule.into_owned())
}

#[test]
fn objects_are_taken() {
    for text in [
        "{}",
        " {\n\t} \r\n",
        r#"{"a":1,"b":-0,"c":[1,"x",null,[2],{}],"d":{"e":true,"f":false}}"#,
        r#"{"a":18446744073709551615,"b":-9223372036854775808,"c":1e308,"d":5E-324,"e":-0.0,"f":0.00e-999}"#,
        r#"{"a":"\u0000 \ud83d\ude00 \/ \\ \" é","":1,"a.":2,".a":3}"#,
        // A null and an empty object are no values, so they have no path.
        r#"{"a.b":null,"a":{"b":1},"c.d":{},"c":{"d":2}}"#,
        r#"{"a":1,"a.b":2,"b":[{"x":1},{"x":2}],"x":3}"#,
        r#"{"a.b":{"c":1},"a":{"b":{"d":2}}}"#,
    ] {
        assert_eq!(check(text), Ok(()), "{text}");
    }
}

#[test]
fn other_values_are_of_another_kind() {
    for text in ["", "  ", "1", "null", "\"x\"", "[{}]", "true", "x"] {
        assert_eq!(refusal(text).0, Reason::WrongKind, "{text}");
    }
}

#[test]
fn a_mistake_is_named_with_its_byte() {
    for (text, byte, what) in [
        (r#"{"a":1"#, 6, "`,` or the end"),
        (r#"{"a":1} x"#, 8, "follows"),
        (r#"{"a" 1}"#, 5, "`:`"),
        (r#"{a:1}"#, 1, "a key"),
        (r#"{"a":1,}"#, 7, "a key"),
        (r#"{"a":}"#, 5, "a value"),
        (r#"{"a":tru}"#, 5, "a value"),
        (r#"{"a":NaN}"#, 5, "a value"),
        (r#"{"a":01}"#, 7, "a zero"),
        (r#"{"a":1.}"#, 7, "a digit"),
        (r#"{"a":-}"#, 6, "a digit"),
        (r#"{"a":1e}"#, 7, "a digit"),
        ("{\"a\":\"x\ny\"}", 7, "a control byte"),
        (r#"{"a":"x"#, 7, "an open quote"),
        (r#"{"a":"\q"}"#, 6, "an escape"),
        (r#"{"a":"\ud800"}"#, 6, "an escape"),
        (r#"{"a":"\udc00"}"#, 6, "an escape"),
        (r#"{"a":"\ud800\u0041"}"#, 6, "an escape"),
        (r#"{"a":"\u12g4"}"#, 6, "an escape"),
        (r#"{"a":"\u12"#, 6, "an escape"),
        (r#"{"a":"\"#, 6, "an escape"),
    ] {
        let (reason, rule) = refusal(text);
        assert_eq!(reason, Reason::Malformed, "{text}");
        assert!(
            rule.starts_with(&format!("is no JSON: byte `{byte}`: ")) && rule.contains(what),
            "{text}: {rule}"
        );
    }
}

#[test]
fn numbers_that_the_server_has_no_type_for_are_out_of_range() {
    for number in
        ["18446744073709551616", "-9223372036854775809", "123456789012345678901234567890", "1e400", "-1e309"]
    {
        let (reason, rule) = refusal(&format!(r#"{{"a":[{number}]}}"#));
        assert!(reason == Reason::OutOfRange && rule.contains("at byte `6`"), "{rule}");
    }
    assert_eq!(
        check(&format!("{{\"a\":{}.5}}", "9".repeat(400))).map_err(|u| u.reason),
        Err(Reason::OutOfRange)
    );
}

#[test]
fn numbers_that_would_become_zero_are_out_of_range() {
    let zeros = "0".repeat(400);
    for number in ["1E-400", "-0.1e-400", "1e-324", &*format!("0.{zeros}1"), &*format!("-0.{zeros}1e1")] {
        let (reason, rule) = refusal(&format!(r#"{{"a":[{number}]}}"#));
        assert_eq!(reason, Reason::OutOfRange);
        assert_eq!(rule, "holds a number at byte `6` that is below the smallest Float64 and would become 0");
    }
    for number in [format!("0.{zeros}"), format!("0.{zeros}e-9"), format!("1.{zeros}1")] {
        assert_eq!(check(&format!(r#"{{"a":[{number}]}}"#)), Ok(()), "{number}");
    }
}

#[test]
fn what_stands_twice_is_named() {
    for (text, rule) in [
        (r#"{"a":1,"a":2}"#, "has the key `a` twice in one object"),
        (r#"{"a":1,"b":{"c":[{"d":1,"\u0064":{}}]}}"#, "has the key `d` twice in one object"),
        (r#"{"a":null,"a":{}}"#, "has the key `a` twice in one object"),
        (r#"{"a.b":1,"a":{"b":2}}"#, "has two values at the path `a.b`"),
        (r#"{"x":[{"a\u002eb":[],"a":{"b":2}}]}"#, "has two values at the path `a.b`"),
        (r#"{"é":{"\n.c":{"c":1}},"é.\n":{"c.c":1}}"#, "has two values at the path `é.\n.c.c`"),
    ] {
        assert_eq!(refusal(text), (Reason::OutOfRange, rule.to_owned()), "{text}");
    }
    let long = "k".repeat(200);
    let (_, rule) = refusal(&format!(r#"{{"{long}":1,"{long}":2}}"#));
    assert!(rule.contains(&format!("`{}…`", "k".repeat(SHOWN_BYTES_MAX))), "{rule}");
}

#[test]
fn depth_is_bounded() {
    let nested = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    assert_eq!(check(&nested(DEPTH_MAX as usize)), Ok(()));
    assert_eq!(refusal(&nested(DEPTH_MAX as usize + 1)).0, Reason::TooLarge);
    assert_eq!(refusal(&format!("{{\"a\":{}", "[".repeat(100_000))).0, Reason::TooLarge);
}
