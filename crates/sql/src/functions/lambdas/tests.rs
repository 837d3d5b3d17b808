use dataflow::{Reason, Transform};

use crate::tests::cases::{decoded, lines};
use crate::tests::types;

#[test]
fn a_record_whose_items_repeat_too_much_of_it_fails_and_the_others_go_on() {
    let items = |count: usize| vec!["1"; count].join(",");
    let wide = "x".repeat(40_000);
    let records = [
        format!(r#"{{"s": "{wide}", "n": 1, "a": [{}]}}"#, items(100)),
        format!(r#"{{"s": "{wide}", "n": 1, "a": [{}]}}"#, items(1_000)),
        format!(r#"{{"s": "x", "n": 2, "a": [{}]}}"#, items(50_000)),
        r#"{"s": "x", "n": 1, "a": []}"#.to_owned(),
    ];
    let input = types::schema("s String, n Int64, a Array(Int64)");
    let batch = decoded(&input, &records);
    let count = |call: &str| {
        let items = [("x".to_owned(), format!("array_length({call})"))];
        let step = crate::select(&input, &items, false, "select").expect("a step");
        let done = step.apply(batch.clone()).expect("the batch has the columns");
        (lines(step.schema(), &done.batch), done.rejects)
    };
    let (rows, rejects) = count("array_filter(a, x -> character_length(s) > x)");
    assert_eq!(rows, ["0: 100", "2: 0", "3: 0"]);
    let told: Vec<_> = rejects.iter().map(|reject| (reject.position, reject.reason)).collect();
    assert_eq!(told, [(1, Reason::Expression)]);
    assert!(
        rejects[0].message.contains("a function over `1000` items would repeat `39963996` bytes"),
        "{}",
        rejects[0].message
    );
    let (rows, rejects) = count("array_filter(a, x -> n = x)");
    assert_eq!(rows, ["0: 100", "1: 1000", "2: 0", "3: 0"]);
    assert!(rejects.is_empty(), "{rejects:?}");
    // Not what the items are called with, but what is made of each is too much.
    let (rows, rejects) = count("array_transform(a, x -> repeat('x', 20000 * x))");
    assert_eq!(rows, ["0: 100", "1: 1000", "3: 0"]);
    assert!(
        rejects[0].message.contains("would produce `1000000000` bytes for the items of one record"),
        "{}",
        rejects[0].message
    );
}
