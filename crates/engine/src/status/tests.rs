use dataflow::SourceFault;

use super::*;

#[test]
fn a_problem_that_comes_and_goes_is_logged_once_a_minute() {
    let status = Status::default();
    let (table, state) = ("default.events", State::RowsRefused);
    assert!(status.should_log(table, state, 1_000));
    assert!(status.should_log_end(table, state));
    for now_ms in [1_001, 30_000, 60_999] {
        assert!(!status.should_log(table, state, now_ms), "each refused row begins and ends it anew");
        assert!(!status.should_log_end(table, state));
    }
    assert!(status.should_log("default.others", state, 1_001), "another table has problems of its own");
    assert!(status.should_log(table, State::SourceAway, 1_001));
    assert!(status.should_log(table, state, 61_000));
    assert!(status.should_log_end(table, state));
    assert!(status.should_log(table, state, 5), "a clock that went back hides nothing");
}

#[test]
fn an_input_that_refuses_is_told_of_until_the_process_ends_though_its_source_goes_and_comes_back() {
    let status = Status::default();
    let told = || status.snapshot().problems.get("orders").map(|problem| problem.state);
    let away = SourceError::new(SourceFault::Away, "no answer");
    status.source_away("orders", &away, 1_000);
    assert_eq!(told(), Some(State::SourceAway));
    status.source_is_back("orders");
    assert_eq!(told(), None);
    status.source_away("orders", &SourceError::new(SourceFault::Lookup, "no table"), 1_500);
    assert_eq!(told(), Some(State::LookupAway));
    status.source_is_back("orders");
    assert_eq!(told(), Some(State::LookupAway), "the source alone is asked for its ends");
    status.source_refuses("orders", true, "the topic was made anew", 2_000);
    status.source_away("orders", &away, 3_000);
    assert_eq!(told(), Some(State::InputRefuses));
    status.source_is_back("orders");
    assert_eq!(told(), Some(State::InputRefuses));
}
