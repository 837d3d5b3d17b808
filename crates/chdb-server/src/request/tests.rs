use super::*;

fn read_text(method: Method, query: &str) -> Result<Asked, Failure> {
    read(&method, query, &HeaderMap::new())
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[test]
fn parameters_of_the_interface_settings_and_substitutions_are_kept_apart() {
    let asked = read_text(
        Method::POST,
        "query=SELECT%20{x:Int8}+%2B+1&param_x=5&max_threads=2&database=db&query_id=q&decompress=1&wait_end_of_query=1",
    )
    .unwrap();
    assert_eq!(asked.query, "SELECT {x:Int8} + 1");
    assert_eq!(asked.parameters, [pair("x", "5")]);
    assert_eq!(asked.settings, [pair("max_threads", "2")]);
    assert_eq!((asked.database.as_deref(), asked.query_id.as_deref()), (Some("db"), Some("q")));
    assert!(asked.decompress && !asked.compress);
}

#[test]
fn a_get_changes_nothing() {
    assert_eq!(read_text(Method::GET, "query=x").unwrap().settings, [pair("readonly", "2")]);
    assert_eq!(read_text(Method::POST, "query=x").unwrap().settings, []);
    for (asked, held) in [
        ("readonly=0", "2"),
        ("readonly=1", "1"),
        ("readonly=2", "2"),
        ("readonly=", "2"),
        ("readonly=1&readonly=0", "1"),
        ("readonly=false&%72eadonly=0", "2"),
    ] {
        for method in [Method::GET, Method::HEAD] {
            let settings = read_text(method, &format!("query=x&{asked}&max_threads=1")).unwrap().settings;
            assert_eq!(settings, [pair("max_threads", "1"), pair("readonly", held)], "{asked}");
        }
    }
}

#[test]
fn a_header_yields_to_the_query_string() {
    let mut headers = HeaderMap::new();
    headers.insert("x-clickhouse-database", "from_header".parse().unwrap());
    headers.insert("x-clickhouse-format", "JSON".parse().unwrap());
    let asked = read(&Method::POST, "database=from_query", &headers).unwrap();
    assert_eq!(asked.database.as_deref(), Some("from_query"));
    assert_eq!(asked.default_format.as_deref(), Some("JSON"));
}

#[test]
fn what_makes_no_sense_is_refused() {
    for query in ["decompress=2", "query=%ff", "query_id=a%0Ab", "session_id=a%00b"] {
        assert_eq!(read_text(Method::POST, query).unwrap_err().status.as_u16(), 400, "{query}");
    }
    assert_eq!(read_text(Method::POST, "session_id=a&session_timeout=9999").unwrap_err().code, 374);
}

#[test]
fn fuzz_query_string() {
    let example = "query=SELECT%20%7Bx:Int8%7D+%2B+1&param_x=5&max_threads=2&session_id=s&session_timeout=60&decompress=1";
    let words = [
        "%",
        "%00",
        "%ff",
        "%C3%A9",
        "&",
        "=",
        "+",
        "session_check=1",
        "session_timeout=-1",
        "compress=2",
        "\u{e9}",
    ];
    testkit::Fuzz::new("query string").example(example).words(words).run(10_000, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        if let Ok(asked) = read_text(Method::POST, &text) {
            assert!(asked.query.len() <= text.len());
        }
    });
}
