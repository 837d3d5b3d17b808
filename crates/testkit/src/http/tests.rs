use super::*;

#[test]
fn values_survive_the_query_string() {
    for text in ["INSERT INTO t (a, b) FORMAT Native", "50% + ü&=?", ""] {
        let pairs = query_pairs(&format!("/?x=1&query={}&flag", encode(text)));
        let text = text.to_owned();
        assert_eq!(pairs, [("x".into(), "1".into()), ("query".into(), text), ("flag".into(), String::new())]);
    }
    assert_eq!(query_pairs("/?a=b+c%2"), [("a".to_owned(), "b c%2".to_owned())]);
    assert_eq!(query_pairs("/ping"), []);
}

#[test]
fn a_port_where_nobody_listens_is_told_from_a_broken_answer() {
    let nobody = HttpClient::new(&format!("http://127.0.0.1:{}", crate::free_port()));
    assert!(matches!(nobody.get("/"), Err(HttpError::Connect(_))));

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let client = HttpClient::new(&format!("http://{}", listener.local_addr().unwrap()));
    let server = std::thread::spawn(move || drop(listener.accept().unwrap()));
    assert!(matches!(client.get("/"), Err(HttpError::Broken(_))));
    server.join().unwrap();
}
