use std::sync::Arc;

use dataflow::types::{StateFunction, StateType};
use proptest::prelude::*;

use super::*;

fn read(text: &str) -> ColumnType {
    parse("c", text).unwrap()
}

fn refused(text: &str) -> String {
    parse("c", text).unwrap_err().to_string()
}

#[test]
fn names_of_the_server_are_read() {
    use ColumnType as T;
    let utc = Some(Arc::from("Europe/Berlin"));
    assert_eq!(read("DateTime64(3, 'Europe/Berlin')"), T::DateTime64 { precision: 3, timezone: utc.clone() });
    assert_eq!(read("DateTime('Europe/Berlin')"), T::DateTime { timezone: utc });
    assert_eq!(read("DateTime"), T::DateTime { timezone: None });
    assert_eq!(read("DateTime64(0)"), T::DateTime64 { precision: 0, timezone: None });
    assert_eq!(read("Decimal(38, 4)"), T::Decimal { precision: 38, scale: 4 });
    assert_eq!(read("Decimal64(4)"), T::Decimal { precision: 18, scale: 4 });
    assert_eq!(read("Decimal( 7 )"), T::Decimal { precision: 7, scale: 0 });
    assert_eq!(read("FixedString(5)"), T::FixedString(5));
    assert_eq!(read("SimpleAggregateFunction(max, Nullable(Int8))"), T::Nullable(Box::new(T::Int8)));
    let arguments = vec![T::String, T::DateTime { timezone: None }];
    let state = StateType { function: StateFunction::ArgMax, arguments, levels: Vec::new() };
    assert_eq!(read("AggregateFunction(argMax, String, DateTime)"), T::State(Arc::new(state.clone())));
    assert_eq!(name(&T::State(Arc::new(state))), "AggregateFunction(argMax, String, DateTime)");
    let count = StateType { function: StateFunction::Count, arguments: Vec::new(), levels: Vec::new() };
    assert_eq!(read("AggregateFunction(count)"), T::State(Arc::new(count)));
    let digest = "AggregateFunction(quantilesTDigest(0.5, 0.999999, 1, 0), Nullable(Int8))";
    let T::State(state) = read(digest) else { panic!("a state") };
    assert_eq!(state.levels, [500_000, 999_999, 1_000_000, 0]);
    assert_eq!(name(&T::State(state)), digest);
    assert_eq!(
        read("LowCardinality(Nullable(String))"),
        T::LowCardinality(Box::new(T::Nullable(Box::new(T::String))))
    );
    assert_eq!(
        read("Map(String, Array(Nullable(Int32)))"),
        T::Map(Box::new(T::String), Box::new(T::Array(Box::new(T::Nullable(Box::new(T::Int32))))))
    );
}

#[test]
fn enum_names_may_hold_quotes_escapes_and_negative_numbers() {
    let want: Vec<EnumName<i8>> =
        vec![("a'b".into(), 1), ("c\\d".into(), -2), ("it's\n".into(), 3), ("=), (".into(), 4)];
    assert_eq!(
        read(r"Enum8('a\'b' = 1, 'c\\d' = -2, 'it''s\x0a'=3, '=), (' = 4)"),
        ColumnType::Enum8(want.into())
    );
}

#[test]
fn errors_name_the_column_and_the_type() {
    for (text, words) in [
        ("AggregateFunction(uniqExact, UInt64)", "materialized view"),
        ("AggregateFunction(argMax, UInt64)", "materialized view"),
        ("AggregateFunction(quantileTDigest(1.5), UInt64)", "`1.5` is no level"),
        ("AggregateFunction(quantileTDigest(0.1234567), UInt64)", "six digits"),
        ("AggregateFunction(quantileTDigest(), UInt64)", "no level"),
        ("AggregateFunction(quantileTDigest, UInt64)", "needs its level here"),
        ("AggregateFunction(quantilesTDigest(0.5, UInt64)", "no level"),
        ("Array(AggregateFunction(count))", "materialized view"),
        ("Array(SimpleAggregateFunction(sum, UInt64))", "within another type"),
        ("Tuple(a UInt8)", "column of its own"),
        ("Int256", "not supported"),
        ("Nullable(Array(String))", "cannot hold"),
        ("Nullable(Nullable(String))", "cannot hold"),
        ("LowCardinality(LowCardinality(String))", "cannot hold"),
        ("Map(Nullable(String), UInt8)", "map's key"),
        ("Decimal(39, 4)", "38 digits"),
        ("Decimal(5, 6)", "not between"),
        ("DateTime64(10)", "not between"),
        ("FixedString(0)", "not between"),
        ("Enum8('a' = 1, 'b' = 1)", "twice"),
        ("Enum8('a' = 1, 'a' = 2)", "twice"),
        ("Enum8('a' = 128)", "not between"),
        ("Enum8('a')", "no number"),
        ("Enum8('a = 1)", "not closed"),
        ("String)", "follows"),
        ("Array(String", "expected"),
        ("", "expected"),
        ("Array(99999999999999999999)", "not supported"),
    ] {
        let message = refused(text);
        assert!(message.contains("column `c`"), "{message}");
        assert!(message.contains(words), "{text}: {message}");
    }
}

#[test]
fn nesting_is_bounded() {
    let deep = format!("{}String{}", "Array(".repeat(100_000), ")".repeat(100_000));
    assert!(refused(&deep).contains("16 deep"), "a deep name is refused and does not overflow the stack");
    let fine = format!("{}String{}", "Array(".repeat(16), ")".repeat(16));
    assert!(parse("c", &fine).is_ok());
}

#[test]
fn identifiers_cannot_break_out_of_their_quotes() {
    assert_eq!(identifier("a`; DROP"), "`a\\`; DROP`");
    assert_eq!(identifier("it's\\"), "`it's\\\\`");
}

fn scalar() -> impl Strategy<Value = ColumnType> {
    use ColumnType as T;
    prop_oneof![
        Just(T::Int8),
        Just(T::Int64),
        Just(T::UInt16),
        Just(T::Float64),
        Just(T::Bool),
        Just(T::String),
        Just(T::Uuid),
        Just(T::Date),
        Just(T::Date32),
        Just(T::Ipv4),
        Just(T::Ipv6),
        (1u32..1000).prop_map(T::FixedString),
        proptest::option::of("[A-Za-z/_]{1,20}").prop_map(|z| T::DateTime { timezone: z.map(Into::into) }),
        (0u8..=9, proptest::option::of("[A-Za-z/_]{1,20}"))
            .prop_map(|(precision, z)| T::DateTime64 { precision, timezone: z.map(Into::into) }),
        (1u8..=38)
            .prop_flat_map(|p| (Just(p), 0..=p))
            .prop_map(|(precision, scale)| T::Decimal { precision, scale }),
        proptest::collection::btree_map(any::<i8>(), ".{0,8}", 1..20).prop_map(|m| {
            let names: Vec<EnumName<i8>> =
                m.into_iter().map(|(n, t)| (format!("{t}{n}").into(), n)).collect();
            T::Enum8(names.into())
        }),
    ]
}

fn any_type() -> impl Strategy<Value = ColumnType> {
    use ColumnType as T;
    let column = prop_oneof![
        scalar(),
        scalar().prop_map(|t| T::Nullable(Box::new(t))),
        Just(T::Json { parameters: None }),
        "[a-z.]{1,8} (UInt8|Array\\(String\\)), SKIP `[a-z()']{0,5}`"
            .prop_map(|p| T::Nullable(Box::new(T::Json { parameters: Some(p.into()) }))),
        scalar().prop_map(|t| T::LowCardinality(Box::new(T::Nullable(Box::new(t))))),
    ];
    column.prop_recursive(4, 16, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|t| T::Array(Box::new(t))),
            (scalar(), inner).prop_map(|(k, v)| T::Map(Box::new(k), Box::new(v))),
        ]
    })
}

proptest! {
    #[test]
    fn every_type_reads_back_from_its_name(column_type in any_type()) {
        prop_assert_eq!(parse("c", &name(&column_type)).unwrap(), column_type);
    }

    #[test]
    fn no_text_panics(text in "[A-Za-z0-9(),' =\\\\-]{0,60}") {
        let _ = parse("c", &text);
    }
}

#[test]
fn what_json_has_in_parentheses_is_kept_as_it_is() {
    for text in [
        "JSON",
        r"JSON(max_dynamic_paths=7, `x.y z` Array(String), SKIP `q.w`, SKIP REGEXP 'b[c\')]')",
        "Nullable(JSON(a Enum8('(' = 1, ')' = 2)))",
        "Array(Array(JSON(`a\\`)` UInt8)))",
        "Map(LowCardinality(String), JSON(SKIP a))",
    ] {
        let read = read(text);
        assert!(read.holds_json() && name(&read) == text, "{read:?}");
    }
    assert_eq!(read("JSON( )"), ColumnType::Json { parameters: None });
    for (text, why) in [
        ("JSON(a", "a parenthesis is not closed"),
        ("JSON('a)", "a parenthesis is not closed"),
        ("JSON(a))", "`)` follows the type"),
        ("LowCardinality(JSON)", "`LowCardinality` cannot hold `JSON`"),
        ("Map(JSON, String)", "`JSON` cannot be a map's key"),
        ("AggregateFunction(any, JSON)", "`AggregateFunction`: "),
        ("Object('json')", "`Object`: "),
    ] {
        assert!(refused(text).contains(why), "{text}: {}", refused(text));
    }
}

#[test]
fn fuzz_type_name() {
    let examples = [
        "Map(LowCardinality(String), Array(Nullable(Decimal(38, 10))))",
        "Enum8('a\\'b' = -1, 'c' = 2)",
        "DateTime64(9, 'Asia/Tokyo')",
        "Tuple(a Int8, b String)",
        "SimpleAggregateFunction(sum, UInt64)",
        "FixedString(16)",
    ];
    let words = [
        "Nullable(",
        "LowCardinality(",
        "Array(",
        ")",
        "'",
        "\\",
        ", ",
        " = ",
        "18446744073709551616",
        "-129",
        "Decimal(77, 77)",
    ];
    testkit::Fuzz::new("type name").examples(examples).words(words).run(20_000, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        if let Ok(column_type) = parse("c", &text) {
            let again = parse("c", &name(&column_type)).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(again, column_type, "{text}");
        }
    });
}
