use super::*;

fn guard() -> Guard {
    Guard::new(&Token::Given("p&ss: w\u{f6}rd".to_owned())).unwrap()
}

fn with(name: &'static str, value: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(name, axum::http::HeaderValue::from_bytes(value.as_bytes()).unwrap());
    headers
}

#[test]
fn each_start_draws_another_token() {
    let draw = || Guard::new(&Token::Drawn).unwrap().token().unwrap().to_owned();
    let (first, second) = (draw(), draw());
    assert_eq!(first.len(), 2 * DRAWN_BYTES);
    assert_ne!(first, second);
}

#[test]
fn the_token_is_taken_where_clickhouse_takes_a_password() {
    let none = HeaderMap::new();
    assert!(guard().check("query=SELECT+1&password=p%26ss:+w%C3%B6rd", &none).is_ok());
    assert!(guard().check("", &with("x-clickhouse-key", "p&ss: w\u{f6}rd")).is_ok());
    let login = format!("basic {}", STANDARD.encode("default:p&ss: w\u{f6}rd"));
    assert!(guard().check("", &with("authorization", &login)).is_ok());
    assert!(guard().check("user=anyone", &with("x-clickhouse-key", "p&ss: w\u{f6}rd")).is_ok());
}

#[test]
fn everything_else_is_refused_with_clickhouses_code() {
    let wrong = [
        ("", HeaderMap::new()),
        ("password=", HeaderMap::new()),
        ("password=p", HeaderMap::new()),
        ("user=p%26ss:+w%C3%B6rd", HeaderMap::new()),
        ("", with("x-clickhouse-key", "")),
        ("", with("x-clickhouse-user", "p&ss: w\u{f6}rd")),
        ("", with("authorization", "Basic !!!")),
        ("", with("authorization", "Bearer cDpw")),
        ("", with("authorization", &format!("Basic {}", STANDARD.encode("p&ss")))),
    ];
    for (query, headers) in wrong {
        let failure = guard().check(query, &headers).unwrap_err();
        assert_eq!((failure.code, failure.status.as_u16()), (516, 403), "{query} {headers:?}");
        assert!(!failure.text.contains("p&ss"), "the token is not told: {}", failure.text);
    }
}

#[test]
fn a_server_without_token_asks_nobody() {
    let open = Guard::new(&Token::Off).unwrap();
    assert!(open.token().is_none() && open.check("", &HeaderMap::new()).is_ok());
}

#[test]
fn a_token_is_not_shown() {
    assert!(!format!("{:?}", Token::Given("secret".to_owned())).contains("secret"));
}
