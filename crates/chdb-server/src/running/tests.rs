use super::*;

#[test]
fn an_id_is_free_again_when_its_request_ends() {
    let running = Arc::new(Running::default());
    let first = running.enter("a", "SELECT 1").unwrap();
    assert_eq!(running.enter("a", "SELECT 2").err().unwrap().code, QUERY_WITH_SAME_ID);
    drop(first);
    assert!(running.enter("a", "SELECT 2").is_ok());
    assert_eq!(running.count(), 0);
}

#[test]
fn a_request_killed_while_it_waits_never_reaches_the_engine() {
    let running = Arc::new(Running::default());
    let ticket = running.enter("a", "").unwrap();
    assert!(ticket.check().is_ok());
    running.kill("a");
    assert_eq!(ticket.check().unwrap_err().code, QUERY_CANCELLED);
}
