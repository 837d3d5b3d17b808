use dataflow::Transform;
use proptest::prelude::*;

use super::*;
use crate::tests::cases::{decoded, lines};
use crate::tests::types;

/// Rows with the item of each, rejects and filtered records of a query over records.
fn unnested(columns: &str, query: &str, records: &[String]) -> (Vec<String>, Vec<Reject>, u64) {
    let input = types::schema(columns);
    let step = crate::query(&input, query, "sql").expect("a step");
    let done = step.apply(decoded(&input, records)).expect("the batch has the columns");
    assert_eq!(done.batch.items.len(), done.batch.len(), "every row knows its item");
    let rows = lines(step.schema(), &done.batch).into_iter().zip(&done.batch.items);
    (rows.map(|(row, item)| format!("{row} @{item}")).collect(), done.rejects, done.filtered)
}

#[test]
fn a_row_knows_its_record_and_its_item() {
    let records =
        [r#"{"id": 1, "tags": ["a", "b"]}"#, r#"{"id": 2, "tags": []}"#, r#"{"id": 3, "tags": ["c"]}"#];
    let records = records.map(str::to_owned);
    let (rows, rejects, filtered) =
        unnested("id Int64, tags Array(String)", "SELECT id, UNNEST(tags) AS tag FROM input", &records);
    assert_eq!(rows, ["0: 1 | a @0", "0: 1 | b @1", "2: 3 | c @0"]);
    assert_eq!((rejects.len(), filtered), (0, 1));
}

#[test]
fn several_arrays_of_one_length_make_rows_together_and_others_a_dead_letter() {
    let records = [
        r#"{"id": 1, "keys": ["a", "b"], "values": [1, null]}"#,
        r#"{"id": 2, "keys": [], "values": []}"#,
        r#"{"id": 3, "keys": ["a", "b"], "values": [7]}"#,
        r#"{"id": 4, "keys": ["c"], "values": [8]}"#,
        r#"{"id": -5, "keys": ["c"], "values": [8]}"#,
        r#"{"id": -6, "keys": [], "values": [8]}"#,
    ];
    let records = records.map(str::to_owned);
    let columns = "id Int64, keys Array(String), values Array(Nullable(Int64))";
    let query =
        "SELECT UNNEST(CASE WHEN id > 0 THEN values END) AS value, id, UNNEST(keys) AS name FROM input";
    let (rows, rejects, filtered) = unnested(columns, query, &records);
    assert_eq!(rows, ["0: 1 | 1 | a @0", "0: NULL | 1 | b @1", "3: 8 | 4 | c @0"]);
    assert_eq!(filtered, 2, "no items, and NULL beside no items");
    let found: Vec<_> =
        rejects.iter().map(|reject| (reject.position, reject.reason, &*reject.column)).collect();
    assert_eq!(found, [(2, Reason::Expression, "name"), (4, Reason::Expression, "name")]);
    let message = "the array of `value` has `1` items and that of `name` has `2`; the arrays of several UNNESTs must have the same length in a record";
    assert_eq!(rejects[0].message, message);
}

/// A record with a number, a text, and an array of arrays of numbers that may be NULL.
fn record() -> impl Strategy<Value = (i64, String, Vec<Vec<Option<i64>>>)> {
    let number = prop_oneof![1 => Just(None), 3 => (-3_i64..3).prop_map(Some)];
    let inner = proptest::collection::vec(number, 0..4);
    (-2_i64..3, "[a-c]{0,3}", proptest::collection::vec(inner, 0..5))
}

/// A list with this word for NULL.
fn listed(all: &[Option<i64>], null: &str) -> String {
    let number = |number: &Option<i64>| number.map_or(null.to_owned(), |number| number.to_string());
    format!("[{}]", all.iter().map(number).collect::<Vec<_>>().join(", "))
}

proptest! {
    #[test]
    fn rows_are_those_of_a_naive_reading(records in proptest::collection::vec(record(), 0..20)) {
        let texts: Vec<String> = records.iter().map(|(n, text, lists)| {
            let lists: Vec<String> = lists.iter().map(|list| listed(list, "null")).collect();
            format!("{{\"n\": {n}, \"s\": \"{text}\", \"lists\": [{}]}}", lists.join(", "))
        }).collect();
        let columns = "n Int64, s String, lists Array(Array(Nullable(Int64)))";

        // Each inner array is a row; `n` is filtered by the condition.
        let (mut expected, mut filtered) = (Vec::new(), 0);
        for (at, (n, text, lists)) in records.iter().enumerate() {
            let lists: &[_] = if *n > 0 { lists } else { &[] };
            filtered += u64::from(lists.is_empty());
            expected.extend(lists.iter().enumerate().map(|(item, list)| {
                format!("{at}: {} | {} | {} @{item}", text, listed(list, "NULL"), n + 1)
            }));
        }
        let query = "SELECT s, UNNEST(lists) AS list, n + 1 AS more FROM input WHERE n > 0";
        let found = unnested(columns, query, &texts);
        prop_assert_eq!((&found.0, found.1.len(), found.2), (&expected, 0, filtered));

        // All numbers of all inner arrays.
        let (mut expected, mut filtered) = (Vec::new(), 0);
        for (at, (n, _, lists)) in records.iter().enumerate() {
            let all: Vec<Option<i64>> = lists.iter().flatten().copied().collect();
            filtered += u64::from(all.is_empty());
            expected.extend(all.iter().enumerate().map(|(item, one)| {
                format!("{at}: {} | {n} @{item}", one.map_or("NULL".to_owned(), |one| one.to_string()))
            }));
        }
        let found = unnested(columns, "SELECT UNNEST(flatten(lists)) AS x, n FROM input", &texts);
        prop_assert_eq!((&found.0, found.1.len(), found.2), (&expected, 0, filtered));
    }
}

#[test]
fn a_record_that_would_become_too_much_is_a_dead_letter_and_the_others_go_on() {
    let items = |count: usize| vec!["1"; count].join(",");
    let wide = "x".repeat(4_000);
    let records = [
        format!(r#"{{"s": "{wide}", "items": [{}]}}"#, items(100)),
        format!(r#"{{"s": "{wide}", "items": [{}]}}"#, items(1_000)),
        format!(r#"{{"s": "", "items": [{}]}}"#, items(ROWS_MAX + 1)),
        format!(r#"{{"s": "", "items": [{}]}}"#, items(5_000)),
    ];
    let (rows, rejects, filtered) =
        unnested("s String, items Array(Int64)", "SELECT s, UNNEST(items) AS item FROM input", &records);
    assert_eq!((rows.len(), filtered), (5_100, 0));
    let told: Vec<_> = rejects.iter().map(|reject| (reject.position, reject.reason, reject.item)).collect();
    assert_eq!(told, [(1, Reason::TooLarge, None), (2, Reason::TooLarge, None)]);
    assert!(
        rejects[0].message.contains("the `1000` rows of the record would repeat `3999996` bytes"),
        "{}",
        rejects[0].message
    );
    assert!(rejects[1].message.contains("has `1048577` items"), "{}", rejects[1].message);
}

#[test]
fn a_batch_holds_so_much_and_no_more() {
    assert_eq!(too_large(2, 1_000, 1_000, 0), None);
    let why = too_large(2, 1_000, 1_000, sizes::BATCH_BYTES_MAX - 999).expect("one byte too many");
    assert!(why.contains("replay the dead letter"), "{why}");
}
