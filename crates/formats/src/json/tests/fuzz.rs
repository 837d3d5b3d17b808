//! Records that nobody would write: whatever comes, it is a row or a reject, and its neighbours are untouched.

use testkit::Fuzz;

use super::contract::EVERY_KIND;
use super::support::{decode, decoder, row};
use crate::json::JsonOptions;

const GOOD: &str = r#"{"int": -7, "big": 18446744073709551615, "float": 1.5e-3, "flag": true, "text": "a\u00e9\n", "id":
    "123e4567-e89b-12d3-a456-426614174000", "pad": "abc", "time": "2026-11-20T12:00:00.123+01:00", "price": "12.3456", "kind": "b",
    "list": ["x", null, ""], "map": {"k": [1, -2], "": []}, "o": {"p": {"q": 9}, "tag": "t"}, "other": [{"x": [null]}]}"#;

/// What is taken as an object is one for another reader, too; what is called no JSON is none for it.
#[test]
fn fuzz_json_object() {
    let decoder = decoder(&["j JSON"], JsonOptions::default());
    let words = [
        "null",
        "{",
        "}",
        "[",
        "]",
        "\"",
        "\\u",
        "\\ud83d\\ude00",
        "\\ud800",
        "\u{0}",
        "1e400",
        "-0",
        "NaN",
        ",",
        ":",
        "\"a\":{\"b\":1}",
        "\"a.b\":1",
        "18446744073709551616",
        "1E-400",
        "[[[[[[[[",
        "{\"o\":{\"o\":{\"o\":",
        "\u{feff}",
        " ",
        "\\q",
        "01",
        ".",
    ];
    let examples = [
        r#"{"a":1,"b":[true,{"c":null,"d":"x\u00e9\n"}],"e":{"f":-1.5e3,"g":{}}}"#,
        r#" { "a.b" : 1 , "a" : { "c" : 18446744073709551615 } } "#,
        r#"{"a":{"a":{"a":{"a":[]}}},"":""}"#,
    ];
    Fuzz::new("json object").examples(examples).words(words).memory_max(1 << 16, 16).run(20_000, |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        let read = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text);
        match dataflow::json_object::check(text) {
            Ok(()) => {
                read.expect("an object");
                let record = format!("{{\"j\":{text}}}");
                let decoded = decode(&decoder, &[record.as_bytes()]);
                // Only the depth of the record is one more.
                assert!(decoded.rejects.iter().all(|reject| reject.message.contains("nested deeper")));
            }
            Err(unfit) => {
                assert!(!unfit.rule.is_empty() && unfit.rule.len() < 300, "{}", unfit.rule);
                let is_json = unfit.reason == dataflow::Reason::OutOfRange
                    || unfit.reason == dataflow::Reason::TooLarge;
                assert!(read.is_err() || is_json, "{}: {text}", unfit.rule);
            }
        }
    });
}

#[test]
fn fuzz_json_record() {
    let options = JsonOptions { coerce_to_string: true, ..JsonOptions::default() };
    let decoders = [decoder(&EVERY_KIND, JsonOptions::default()), decoder(&EVERY_KIND, options)];
    let alone: Vec<_> = decoders.iter().map(|decoder| row(&decode(decoder, &[GOOD]), 0)).collect();
    let words = [
        "null",
        "true",
        "{",
        "}",
        "[",
        "]",
        "\"",
        "\\u",
        "\\ud83d\\ude00",
        "\\ud800",
        "\u{0}",
        "1e400",
        "-0",
        "1e-400",
        "NaN",
        "\"o\":",
        "\"o.p.q\":",
        "\"p\":{\"q\":1}",
        "\"map\":{\"a\":[128]}",
        "\"int\":2147483648",
        "\"kind\":1",
        "\"time\":0",
        "\"time\":\"1677-01-01\"",
        "\"time\":9223372036854775807",
        "99999999999999999999999999999999999999999",
        "0.00000000000000000000000000000000000000001",
        "[[[[[[[[",
        "{\"o\":{\"o\":{\"o\":",
        "\u{feff}",
        ",",
        ":",
    ];
    let examples = [
        GOOD,
        r#"{"int": 1}"#,
        r#"{"int": 1, "o.p.q": 5, "o": {"p": {"q": "x"}}, "map": {"a": [1], "a": [2]}}"#,
        r#" { "int" : 1 , "time" : 1700000000.123 , "price" : -1e3 , "list" : [ ] } "#,
    ];
    Fuzz::new("json record").examples(examples).words(words).run(6_000, |record| {
        for (decoder, alone) in decoders.iter().zip(&alone) {
            let decoded = decode(decoder, &[GOOD.as_bytes(), record, GOOD.as_bytes()]);
            assert_eq!(decoded.batch.rows.num_rows() + decoded.rejects.len(), 3);
            let last = decoded.batch.rows.num_rows() - 1;
            assert_eq!(decoded.batch.positions[0], 100);
            assert_eq!(decoded.batch.positions[last], 102);
            assert!(row(&decoded, 0) == *alone && row(&decoded, last) == *alone, "a neighbour changed");
            // What became of it does not hang on its neighbours either.
            let single = decode(decoder, &[record]);
            assert_eq!(single.rejects.len(), decoded.rejects.len());
            match single.rejects.first() {
                Some(reject) => {
                    assert_eq!(reject.message, decoded.rejects[0].message);
                    assert!(
                        !reject.message.is_empty() && reject.message.len() < 2_000,
                        "{}",
                        reject.message.len()
                    );
                }
                None => assert_eq!(row(&single, 0), row(&decoded, 1)),
            }
        }
    });
}
