//! A batch is evaluated as its records one by one.

use dataflow::{Batch, Transform};
use proptest::prelude::*;

use super::cases::{decoded, lines};
use super::types;
use crate::Step;

const COLUMNS: &str = "a Nullable(Int64), b Nullable(Int64), s Nullable(String), u UInt64";

fn record() -> impl Strategy<Value = String> {
    let number = || {
        prop_oneof![3 => Just("0".to_owned()), 1 => Just("null".to_owned()),
        1 => Just(i64::MAX.to_string()), 5 => (-5_i64..6).prop_map(|n| n.to_string())]
    };
    let text = prop_oneof![Just("null"), Just("\"7\""), Just("\"x\""), Just("\"-1\""), Just("\"\"")];
    (number(), number(), text, 0_u64..5)
        .prop_map(|(a, b, s, u)| format!("{{\"a\": {a}, \"b\": {b}, \"s\": {s}, \"u\": {u}}}"))
}

/// Numbers, some of which fail.
fn number(depth: u32) -> BoxedStrategy<String> {
    let leaf = prop_oneof![
        Just("a".to_owned()),
        Just("b".to_owned()),
        Just("CAST(s AS Int64)".to_owned()),
        Just("CAST(u AS Int64)".to_owned()),
        (-3_i64..4).prop_map(|n| n.to_string()),
    ];
    leaf.prop_recursive(depth, 12, 3, |inner| {
        prop_oneof![
            (
                inner.clone(),
                prop_oneof![Just("+"), Just("-"), Just("*"), Just("/"), Just("%")],
                inner.clone()
            )
                .prop_map(|(a, op, b)| format!("({a} {op} {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("coalesce({a}, {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("nullif({a}, {b})")),
            (inner.clone(), inner.clone(), inner)
                .prop_map(|(a, b, c)| format!("CASE WHEN {a} > 0 THEN {b} ELSE {c} END")),
        ]
    })
    .boxed()
}

fn condition() -> BoxedStrategy<String> {
    let comparison = (number(2), prop_oneof![Just("="), Just("<>"), Just("<"), Just(">=")], number(2))
        .prop_map(|(a, op, b)| format!("{a} {op} {b}"));
    let leaf = prop_oneof![4 => comparison, 1 => Just("s IS NULL".to_owned()), 1 => Just("s LIKE '%7'".to_owned()),
        1 => Just("a IN (0, 1, 2, 3, 4)".to_owned())];
    leaf.prop_recursive(3, 10, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} AND {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} OR {b})")),
            inner.prop_map(|a| format!("NOT ({a})")),
        ]
    })
    .boxed()
}

/// Rows, rejects with their messages, and how many were filtered.
fn applied(step: &Step, batch: Batch) -> (Vec<String>, Vec<String>, u64) {
    let done = step.apply(batch).expect("the batch has the columns");
    let rejects = done.rejects.iter().map(|reject| format!("{}: {}", reject.position, reject.message));
    (lines(step.schema(), &done.batch), rejects.collect(), done.filtered)
}

fn one_by_one(step: &Step, batch: &Batch) -> (Vec<String>, Vec<String>, u64) {
    let mut all = (Vec::new(), Vec::new(), 0);
    for row in 0..batch.len() {
        let one = Batch {
            items: Vec::new(),
            era: 0,
            partition: batch.partition.clone(),
            rows: batch.rows.slice(row, 1),
            positions: vec![batch.positions[row]],
            times_ms: vec![batch.times_ms[row]],
        };
        let (rows, rejects, filtered) = applied(step, one);
        all.0.extend(rows);
        all.1.extend(rejects);
        all.2 += filtered;
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_filter_decides_for_a_batch_as_for_each_record(
        text in condition(), records in proptest::collection::vec(record(), 1..40),
    ) {
        let input = types::schema(COLUMNS);
        // A constant that has no value is a fault, rightly.
        if let Ok(step) = crate::filter(&input, &text, "filter") {
            let batch = decoded(&input, &records);
            prop_assert_eq!(applied(&step, batch.clone()), one_by_one(&step, &batch), "{}", text);
        }
    }

    #[test]
    fn columns_are_computed_for_a_batch_as_for_each_record(
        x in number(3), y in number(2), records in proptest::collection::vec(record(), 1..40),
    ) {
        let input = types::schema(COLUMNS);
        let items = [("x".to_owned(), x), ("y".to_owned(), y)];
        if let Ok(step) = crate::select(&input, &items, true, "select") {
            let batch = decoded(&input, &records);
            prop_assert_eq!(applied(&step, batch.clone()), one_by_one(&step, &batch), "{:?}", items);
        }
    }

    #[test]
    fn no_text_makes_the_compiler_panic(text in "[a-z0-9 ()'\"+*/<>=,.\\[\\]:|-]{0,40}") {
        let input = types::schema(COLUMNS);
        let _ = crate::filter(&input, &text, "filter");
        let _ = crate::query(&input, &format!("SELECT {text} FROM input"), "sql");
    }
}

#[test]
fn deep_and_long_texts_are_refused_before_they_fill_the_stack() {
    let input = types::schema(COLUMNS);
    let refused = |text: &str, word: &str| {
        let fault = crate::filter(&input, text, "filter").expect_err("beyond a bound");
        assert!(fault.message.contains(word), "{fault}");
    };
    refused(&vec!["a = 1"; 150].join(" OR "), "operators");
    refused(&format!("{}a{} > 1", "(".repeat(300), ")".repeat(300)), "within each other");
    refused(&format!("{} > 1", vec!["a"; 60].join(" + ")), "within each other");
    let batch = decoded(&input, &["{\"a\": 1, \"b\": 1, \"s\": \"x\", \"u\": 1}".to_owned()]);
    let accepted = |text: &str| {
        let step = crate::filter(&input, text, "filter").expect("within the bounds");
        step.apply(batch.clone()).expect("the batch has the columns");
    };
    accepted(&format!("{}s{} = 'x'", "lower(".repeat(24), ")".repeat(24)));
    accepted(&format!("{} > 1", vec!["a"; 28].join(" + ")));
    accepted(&vec!["a > b"; 95].join(" AND "));
    accepted(&vec!["a > b"; 95].join(" OR "));
    let list = (0..5_000).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    accepted(&format!("a IN ({list})"));
}
