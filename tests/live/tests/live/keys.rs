//! Keys and values that other programs took apart or glued together wrongly.

use live::{Accounts, Case};
use serde_json::{Value, json};

/// Records that differ pairwise in their key `(a, b, n, note)`, though a key glued from texts would not tell all of them apart.
fn keys() -> Vec<Value> {
    let key = |a: &str, b: &str, n: i64, note: Value| json!({ "a": a, "b": b, "n": n, "note": note });
    let texts = [
        ("ab", "c"),
        ("a", "bc"),
        ("", "abc"),
        ("abc", ""),
        ("", ""),
        ("a:", "b"),
        ("a", ":b"),
        ("a@b", ""),
        ("a", "@b"),
        ("a@", "b"),
        ("a b", ""),
        ("a", " b"),
        ("a ", "b"),
        (" ab", ""),
        ("a|b", "c"),
        ("a", "b|c"),
        ("a\u{0}b", "c"),
        ("a", "\u{0}bc"),
        ("a\"b", "\\"),
        ("A", "b"),
        ("\u{e9}", ""),
        ("e\u{301}", ""),
        ("null", ""),
        ("1000000", ""),
        ("1e6", ""),
        ("1e+06", ""),
    ];
    // A float of six digits writes the first four alike; a double cannot tell the last two apart.
    let numbers =
        [1_000_000, 1_000_001, 999_999, 10_000_000, -1_000_000, 9_007_199_254_740_992, 9_007_199_254_740_993];
    let notes = [json!(null), json!(""), json!("null"), json!("0")];
    let by_text = texts.map(|(a, b)| key(a, b, 0, json!("x")));
    let by_number = numbers.map(|n| key("", "", n, json!("x")));
    // What moves between the number and the text beside it.
    let by_edge = [key("", "1", 10, json!("x")), key("", "", 110, json!("x")), key("", "11", 0, json!("0x"))];
    let by_null = notes.map(|note| key("", "", 0, note));
    by_text.into_iter().chain(by_number).chain(by_edge).chain(by_null).collect()
}

#[test]
fn fault_05_keys_with_any_characters_large_integers_and_nulls_are_told_apart() {
    let Some(case) = Case::begin("fault_05") else { return };
    let keys = keys();
    let table = case.table("a String, b String, n Int64, note Nullable(String), copy UInt8", "n");
    let pipeline = case.pipeline().dedup("a, b, n, note", None);
    let copy = |copy: u8| {
        keys.iter().map(move |key| {
            let mut record = key.clone();
            record["copy"] = json!(copy);
            record.to_string()
        })
    };
    // In one batch, then from the state that another process left.
    case.feed().send(copy(0).chain(copy(1)));
    pipeline.drain();
    case.feed().send(copy(2).collect::<Vec<_>>().into_iter().rev());
    pipeline.drain();
    let count = keys.len() as u64;
    assert_eq!(table.count_and_distinct("(a, b, n, note)"), (count, count));
    assert_eq!(table.value("SELECT max(copy) FROM {t}"), "0", "the first copy stays");
    let accounts = Accounts { read: 3 * count, written: count, duplicates: 2 * count, ..Accounts::default() };
    assert_eq!(pipeline.accounts(), accounts);
}

#[test]
fn fault_05_a_filter_tells_texts_with_any_characters_and_large_integers_apart() {
    let Some(case) = Case::begin("fault_05_filter") else { return };
    let keys = keys();
    let table = case.table("a String, b String, n Int64, note Nullable(String)", "n");
    case.feed().send(keys.iter().map(Value::to_string));
    let condition =
        "n <> 9007199254740993 AND n <> 1000000 AND NOT (a = 'a@b' AND b = '') AND a <> 'a:' AND a <> 'a '";
    case.pipeline().step(&format!("filter: \"{condition}\"")).drain();
    let is_wanted = |key: &&Value| {
        let (a, n) = (key["a"].as_str().expect("a text"), key["n"].as_i64().expect("a number"));
        ![9_007_199_254_740_993, 1_000_000].contains(&n) && !["a@b", "a:", "a "].contains(&a)
    };
    let wanted = keys.iter().filter(is_wanted).count() as u64;
    assert_eq!(keys.len() as u64 - wanted, 5);
    assert_eq!(table.count_and_distinct("(a, b, n, note)"), (wanted, wanted));
    assert_eq!(table.value("SELECT count() FROM {t} WHERE n = 9007199254740992"), "1");
}

#[test]
fn fault_05_a_number_is_no_text_of_the_same_digits() {
    let Some(case) = Case::begin("fault_05_kinds") else { return };
    case.feed().send([
        r#"{"id":"1000000","v":1}"#,
        r#"{"id":1000000,"v":2}"#,
        r#"{"id":1e6,"v":3}"#,
        r#"{"id":"1000000","v":4}"#,
    ]);
    let table = case.table("id String, v UInt8", "v");
    let pipeline = case.pipeline().dedup("id", None);
    pipeline.drain();
    assert_eq!(
        table.column("(id, v)"),
        ["('1000000',1)"],
        "a text column takes no number unless it is told to"
    );
    let accounts = Accounts { read: 4, written: 1, duplicates: 1, dead_letters: 2, ..Accounts::default() };
    assert_eq!(pipeline.accounts(), accounts);
}

#[test]
fn fault_18_nested_values_arrive_whole_and_time_0_is_a_time() {
    let Some(case) = Case::begin("fault_18") else { return };
    case.feed().send([
        r#"{"id":1,"lists":[["a"],[],["b","c"]],"map":{"x":[1,2],"y":[]},"body":"<complex>","at":0}"#,
        r#"{"id":2,"lists":[],"map":{},"body":"","at":"1970-01-01T00:00:00Z"}"#,
        r#"{"id":3,"lists":[[]],"map":{"":[0]},"body":"text","at":null}"#,
        r#"{"id":4,"lists":[],"map":{},"body":{"deep":[1,{"x":null}]},"at":1}"#,
        r#"{"id":5,"lists":[],"map":{},"body":[1,2],"at":1}"#,
        r#"{"id":6,"lists":[[{}]],"map":{},"body":"","at":1}"#,
    ]);
    let columns = "id UInt8, lists Array(Array(String)), map Map(String, Array(Int32)), body String, \
        at Nullable(DateTime64(3, 'UTC'))";
    let table = case.table(columns, "id");
    let pipeline = case.pipeline();
    pipeline.drain();
    assert_eq!(
        table.column("(id, lists, map, body, at)"),
        [
            "(1,[['a'],[],['b','c']],{'x':[1,2],'y':[]},'<complex>','1970-01-01 00:00:00.000')",
            "(2,[],{},'','1970-01-01 00:00:00.000')",
            "(3,[[]],{'':[0]},'text',NULL)",
        ]
    );
    // What has no place in its column is said, with the record, and never replaced by a word for it.
    let letters = table.dead_letters().rows("SELECT position, column, raw FROM {t} ORDER BY position");
    let found: Vec<_> =
        letters.iter().map(|letter| (letter["position"].as_str(), letter["column"].as_str())).collect();
    assert_eq!(found, [(Some("3"), Some("body")), (Some("4"), Some("body")), (Some("5"), Some("lists"))]);
    assert!(
        letters[0]["raw"].as_str().is_some_and(|raw| raw.contains(r#"{"deep":[1,{"x":null}]}"#)),
        "{}",
        letters[0]
    );
    let accounts = Accounts { read: 6, written: 3, dead_letters: 3, ..Accounts::default() };
    assert_eq!(pipeline.accounts(), accounts);
}

#[test]
fn fault_18_a_record_of_time_0_is_not_taken_for_expired() {
    let Some(case) = Case::begin("fault_18_time") else { return };
    case.feed().send([r#"{"id":1,"at":0}"#, r#"{"id":1,"at":0}"#, r#"{"id":2,"at":1}"#]);
    let table = case.table("id UInt8, at DateTime64(3, 'UTC')", "id");
    let pipeline = case.pipeline().dedup("id", Some("at"));
    pipeline.drain();
    assert_eq!(table.column("(id, at)"), ["(1,'1970-01-01 00:00:00.000')", "(2,'1970-01-01 00:00:01.000')"]);
    assert_eq!(pipeline.accounts().duplicates, 1, "the wall clock has no part in it");
}

/// The first record of key 1 is open, the first of key 2 is paid; the amount of key 3 does not fit.
fn orders() -> [Value; 6] {
    let order = |id: u8, state: &str, amount: u32| json!({ "id": id, "state": state, "amount": amount });
    [
        order(1, "open", 1),
        order(1, "paid", 2),
        order(2, "paid", 3),
        order(2, "open", 4),
        order(3, "paid", 999),
        order(3, "paid", 5),
    ]
}

#[test]
fn behind_dedup_the_first_record_of_a_key_decides_and_before_it_the_first_that_passes() {
    for (name, is_behind, ids, accounts) in [
        (
            "keys_filter_behind",
            true,
            vec!["2", "3"],
            Accounts {
                read: 6,
                written: 2,
                filtered: 1,
                duplicates: 2,
                dead_letters: 1,
                ..Accounts::default()
            },
        ),
        (
            "keys_filter_before",
            false,
            vec!["1", "2", "3"],
            Accounts { read: 6, written: 3, filtered: 2, dead_letters: 1, ..Accounts::default() },
        ),
    ] {
        let Some(case) = Case::begin(name) else { return };
        let feed = case.feed();
        feed.send_to(0, orders().iter().map(Value::to_string));
        let table = case.table("id UInt8, amount UInt8, twice UInt16", "id");
        let pipeline = case.pipeline().field("state: String").field("amount: UInt32");
        let filter = "filter: state = 'paid'";
        let select = "select: { \"*\": \"*\", twice: 2 * amount }";
        let pipeline = match is_behind {
            true => pipeline.dedup("id", None).step(filter).step(select),
            false => pipeline.step(filter).step(select).dedup("id", None),
        };
        pipeline.drain();
        assert_eq!(table.column("id"), ids, "{name}");
        assert_eq!(table.value("SELECT countIf(twice != 2 * amount) FROM {t}"), "0");
        assert_eq!(pipeline.accounts(), accounts, "{name}");
    }
}
