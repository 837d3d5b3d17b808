use super::*;

#[test]
fn a_session_rests_from_the_end_of_its_last_request_on() {
    let sessions = Sessions::default();
    let asked = SessionAsked { id: "s".to_owned(), timeout_s: 60, must_exist: false };
    let Some(long_ago) = Instant::now().checked_sub(Duration::from_secs(300)) else { return };
    drop(sessions.take(&asked).unwrap());
    let is_open = || sessions.open.lock().unwrap().contains_key("s");
    let took = |rests_since| {
        let mut open = sessions.open.lock().unwrap();
        let entry = open.get_mut("s").unwrap();
        entry.last_used = long_ago;
        entry.state.try_lock().unwrap().rests_since = rests_since;
    };
    // A request of five minutes that has just ended.
    took(Some(Instant::now()));
    sessions.sweep();
    assert!(is_open());
    took(Some(long_ago));
    sessions.sweep();
    assert!(!is_open());
}
