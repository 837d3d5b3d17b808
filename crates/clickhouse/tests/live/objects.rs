//! Objects in columns of type JSON, whose paths the check must judge as the server does.

use super::*;

/// An object of the test below. Keys with a dot have no rest of their own beside them, so that no two values are at one path.
fn object(random: &mut Lcg, depth: u32, out: &mut String) {
    const KEYS: [&str; 9] = ["a", "b", "c d", "é", "x.y", "k`q", "", "^z", "a:`Int64`"];
    out.push('{');
    let skipped = random.below(1 << KEYS.len());
    let mut any = false;
    for (n, key) in KEYS.iter().enumerate() {
        if skipped >> n & 1 == 0 || depth > 0 && n % 3 != 0 {
            continue;
        }
        if any {
            out.push(',');
        }
        any = true;
        dataflow::json_object::quote(key, out);
        out.push(':');
        value(random, depth, out);
    }
    out.push('}');
}

fn value(random: &mut Lcg, depth: u32, out: &mut String) {
    const WORDS: [&str; 16] = [
        "",
        "x",
        "2024-02-30",
        "2024-01-01 00:00:00",
        "2024-01-01T00:00:00.5Z",
        "true",
        "12",
        "1.5",
        "null",
        "\0",
        "é✓😀",
        "a\"\\/\n",
        "{}",
        "[1]",
        "12:00:00",
        "1e5",
    ];
    const PLAIN: [&str; 18] = [
        "true",
        "false",
        "null",
        "0",
        "-0",
        "1",
        "-1",
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551615",
        "9007199254740993",
        "0.5",
        "-0.0",
        "3.0",
        "1e-7",
        "0.1",
        "1e300",
        "5e-324",
    ];
    match random.below(if depth < 3 { 8 } else { 5 }) {
        0 | 1 => dataflow::json_object::quote(random.pick::<&str>(&WORDS), out),
        2..=4 => out.push_str(random.pick::<&str>(&PLAIN)),
        5 | 6 => object(random, depth + 1, out),
        _ => {
            out.push('[');
            for n in 0..random.below(4) {
                if n > 0 {
                    out.push(',');
                }
                // Of a null beside arrays, and of large integers beside floats, the server makes something else.
                match random.below(3) {
                    0 => dataflow::json_object::quote(random.pick::<&str>(&WORDS), out),
                    1 => out.push_str(random.pick::<&str>(&["true", "1", "-7", "9007199254740993"])),
                    _ => object(random, depth + 1, out),
                }
            }
            out.push(']');
        }
    }
}

/// Every value of an object by its path, as the server has it: nulls and empty objects are none.
fn paths(prefix: Option<&str>, of: &serde_json::Value, out: &mut BTreeMap<String, String>) {
    let serde_json::Value::Object(entries) = of else { unreachable!("only objects are asked for") };
    for (key, value) in entries {
        let path = prefix.map_or(key.clone(), |prefix| format!("{prefix}.{key}"));
        match value {
            serde_json::Value::Object(_) => paths(Some(&path), value, out),
            serde_json::Value::Null => {}
            value => drop(out.insert(path, shown(value))),
        }
    }
}

fn shown(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Array(items) => format!("{:?}", items.iter().map(shown).collect::<Vec<_>>()),
        serde_json::Value::Object(_) => {
            let mut found = BTreeMap::new();
            paths(None, value, &mut found);
            format!("{found:?}")
        }
        // The server leaves out the point of a whole float.
        serde_json::Value::Number(number) if number.is_f64() => {
            number.as_f64().map_or_else(String::new, |number| {
                if number.fract() == 0.0 && number.abs() < 1e15 {
                    format!("{}", number as i64)
                } else {
                    format!("{number:e}")
                }
            })
        }
        other => other.to_string(),
    }
}

#[tokio::test]
async fn objects_that_pass_the_check_are_stored_as_they_were() {
    let server = server_or_skip!();
    server
        .query(&format!(
            "CREATE TABLE j (n Int32, j JSON(max_dynamic_paths=16)) ENGINE = MergeTree ORDER BY n {WINDOW}"
        ))
        .unwrap();
    let table = open(&server, "j").await;
    let mut random = Lcg::new(seed());
    let mut texts = Vec::new();
    while texts.len() < 3_000 {
        let mut text = String::new();
        object(&mut random, 0, &mut text);
        if dataflow::json_object::check(&text).is_ok() {
            texts.push(text);
        }
    }
    let rows = batch(vec![
        ("n", ints(0..texts.len() as i32)),
        ("j", Arc::new(StringArray::from_iter_values(&texts))),
    ]);
    send(&table, "t", &frames(&table, &[rows])[0].body).await.unwrap();
    let found = server.query("SELECT toString(j) FROM j ORDER BY n FORMAT TSVRaw").unwrap();
    assert_eq!(found.lines().count(), texts.len());
    for (text, found) in texts.iter().zip(found.lines()) {
        let by_path = |text: &str| {
            let mut values = BTreeMap::new();
            paths(None, &serde_json::from_str(text).unwrap(), &mut values);
            values
        };
        assert_eq!(by_path(text), by_path(found), "{text}");
    }
}

#[tokio::test]
async fn what_the_check_of_objects_refuses_the_server_refuses_with_the_rows_beside_it() {
    let server = server_or_skip!();
    server
        .query(&format!("CREATE TABLE j (n Int32, j JSON) ENGINE = MergeTree ORDER BY n {WINDOW}"))
        .unwrap();
    let table = open(&server, "j").await;
    for (n, text) in [
        "",
        "1",
        "[1]",
        "\"x\"",
        "{\"a\":1",
        "{\"a\":1} x",
        "{\"a\":1,}",
        "{\"a\":01}",
        "{\"a\":NaN}",
        "{\"a\":\"\\ud800\"}",
        "{\"a\":18446744073709551616}",
        "{\"a\":-9223372036854775809}",
        "{\"a\":1e400}",
        "{\"a\":1,\"a\":2}",
        "{\"a\":null,\"a\":1}",
        "{\"a.b\":1,\"a\":{\"b\":2}}",
        "{\"x\":[{\"a\\u002eb\":1,\"a\":{\"b\":2}}]}",
    ]
    .iter()
    .enumerate()
    {
        assert!(dataflow::json_object::check(text).is_err(), "{text}");
        let rows = batch(vec![("n", ints([0, 1])), ("j", Arc::new(StringArray::from(vec!["{}", text])))]);
        let error = send(&table, &format!("t{n}"), &frames(&table, &[rows])[0].body).await.expect_err(text);
        assert_eq!((error.effect, error.remedy), (Effect::None, Remedy::Divert), "{text}: {error}");
    }
    assert_eq!(server.query("SELECT count() FROM j").unwrap(), "0\n");
}
