use super::*;

#[test]
fn literals_have_a_value_and_all_else_has_none() {
    for (expression, of, expected) in [
        ("[1]", "Array(UInt8)", Some("[1]")),
        ("[1, -2, 9223372036854775807]", "Array(Int64)", Some("[1,-2,9223372036854775807]")),
        ("[18446744073709551615]", "Array(UInt64)", Some("[18446744073709551615]")),
        ("[1.5, 1e3]", "Array(Float64)", Some("[1.5,1000.0]")),
        ("['a', 'it\\'s', 'ü\\n']", "Array(String)", Some(r#"["a","it's","ü\n"]"#)),
        ("[[1], []]", "Array(Array(UInt8))", Some("[[1],[]]")),
        ("array(1, 2)", "Array(UInt8)", Some("[1,2]")),
        ("map('a', 1, 'b', 2)", "Map(String, UInt8)", Some(r#"{"a":1,"b":2}"#)),
        ("map('a', [1], 'b', [])", "Map(String, Array(UInt8))", Some(r#"{"a":[1],"b":[]}"#)),
        ("CAST([1], 'Array(UInt8)')", "Array(UInt8)", Some("[1]")),
        ("CAST('[1,2]', 'Array(UInt32)')", "Array(UInt32)", Some("[1,2]")),
        ("[NULL, true]", "Array(Nullable(Bool))", Some("[null,true]")),
        ("['2024-01-15']", "Array(Date)", Some(r#"["2024-01-15"]"#)),
        ("[1.25]", "Array(Decimal(9, 2))", Some("[1.25]")),
        ("['a']", "Array(LowCardinality(String))", Some(r#"["a"]"#)),
        // What the server makes another value of than a decoder would, or a decoder none.
        ("[1.9]", "Array(Int32)", None),
        ("[300]", "Array(UInt8)", None),
        ("[-1]", "Array(UInt64)", None),
        ("[20240115]", "Array(DateTime)", None),
        ("[19737]", "Array(Date)", None),
        ("[NULL]", "Array(UInt8)", None),
        ("[12345678901234567890.12]", "Array(Decimal(30, 2))", None),
        ("CAST('{\\'a\\':1}', 'Map(String, UInt8)')", "Map(String, UInt8)", None),
        ("[now()]", "Array(DateTime)", None),
        ("[id]", "Array(UInt8)", None),
        ("[1", "Array(UInt8)", None),
        ("[1] + [2]", "Array(UInt8)", None),
        ("[1 2]", "Array(UInt8)", None),
        ("map('a')", "Map(String, UInt8)", None),
        ("map('a', 1, 'a', 2)", "Map(String, UInt8)", None),
        ("['\\x41']", "Array(String)", None),
        ("range(3)", "Array(UInt8)", None),
        ("", "Array(UInt8)", None),
    ] {
        let column_type = crate::types::parse("c", of).unwrap();
        assert_eq!(json(expression, &column_type).as_deref(), expected, "{expression} of {of}");
    }
    assert_eq!(json(&"[".repeat(100_000), &ColumnType::String), None);
}
