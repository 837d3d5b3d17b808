use std::sync::Arc;

use super::*;

#[test]
fn the_subquery_names_the_requests_that_are_here() {
    let running = Arc::new(Running::default());
    let _ticket = running.enter("it's", "INSERT").unwrap();
    let sql = b"SELECT 1 FROM system.processes WHERE 1";
    let text = String::from_utf8(rewrite(sql, &[(14, 30)], &running)).unwrap();
    assert!(text.starts_with("SELECT 1 FROM (SELECT") && text.ends_with(") WHERE 1"), "{text}");
    assert!(text.contains(r"('it\'s', "), "{text}");
}
