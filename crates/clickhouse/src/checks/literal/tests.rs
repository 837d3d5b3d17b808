use super::*;

#[test]
fn literals_have_a_value_and_all_else_has_none() {
    for (expression, expected) in [
        ("[1]", Some("[1]")),
        ("[1, -2, 18446744073709551615]", Some("[1,-2,18446744073709551615]")),
        ("[1.5, 1e3]", Some("[1.5,1000.0]")),
        ("['a', 'it\\'s', 'ü\\n']", Some(r#"["a","it's","ü\n"]"#)),
        ("[[1], []]", Some("[[1],[]]")),
        ("array(1, 2)", Some("[1,2]")),
        ("map('a', 1, 'b', 2)", Some(r#"{"a":1,"b":2}"#)),
        ("map('a', [1], 'b', [])", Some(r#"{"a":[1],"b":[]}"#)),
        ("CAST([1], 'Array(UInt8)')", Some("[1]")),
        ("[NULL, true]", Some("[null,true]")),
        ("[now()]", None),
        ("[id]", None),
        ("[1", None),
        ("[1] + [2]", None),
        ("[1 2]", None),
        ("map('a')", None),
        ("map('a', 1, 'a', 2)", None),
        ("['\\x41']", None),
        ("range(3)", None),
        ("", None),
    ] {
        assert_eq!(json(expression).as_deref(), expected, "{expression}");
    }
    assert_eq!(json(&"[".repeat(100_000)), None);
}
