use super::*;

#[test]
fn only_the_body_of_a_good_answer_counts() {
    assert_eq!(body("HTTP/1.0 200 OK\r\na: b\r\n\r\n{}"), Some("{}"));
    for other in ["HTTP/1.0 403 Forbidden\r\n\r\n{}", "HTTP/1.0 200 OK\r\na: b", "", "200"] {
        assert_eq!(body(other), None, "{other}");
    }
}

#[test]
fn a_process_that_listens_everywhere_is_asked_on_this_machine() {
    let shown = |address: &str| here(address.parse().expect("an address")).to_string();
    assert_eq!(shown("0.0.0.0:9464"), "127.0.0.1:9464");
    assert_eq!(shown("[::]:9464"), "[::1]:9464");
    assert_eq!(shown("127.0.0.2:9464"), "127.0.0.2:9464");
}
