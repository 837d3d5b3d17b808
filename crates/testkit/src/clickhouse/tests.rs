use super::*;

#[test]
fn a_callers_parameter_replaces_ours() {
    let target =
        target(&[("query", "SELECT 1"), ("async_insert", "0")], &[("async_insert", "1"), ("q", "a b")]);
    assert_eq!(target, "/?query=SELECT%201&async_insert=1&q=a%20b");
}
