use super::*;

#[test]
fn what_a_replica_that_is_behind_does_not_show_is_not_called_missing() {
    let lag = "the table's replica is 4 log entries behind";
    let mut right = Report::default();
    judge_behind(&mut right, Rule::EveryCopy, "d.t", lag).expect("what must be there is");
    assert!(right.notes.len() == 1 && right.notes[0].contains(lag), "{:?}", right.notes);
    let mut wrong = Report::default();
    wrong.missing.keys = 1;
    let error = judge_behind(&mut wrong, Rule::EveryCopy, "d.t", lag).expect_err("nobody knows").to_string();
    assert!(error.contains(lag) && error.contains("SYSTEM SYNC REPLICA d.t"), "{error}");
}

#[test]
fn what_a_replica_that_is_behind_shows_too_often_is_told_all_the_same() {
    let lag = "the table's replica is 4 log entries behind";
    let mut twice = Report::default();
    (twice.missing.keys, twice.duplicate.keys) = (1, 1);
    judge_behind(&mut twice, Rule::EveryCopy, "d.t", lag).expect("what is there twice is");
    assert!(!twice.is_right() && twice.notes[0].contains("may be there"), "{:?}", twice.notes);
    assert!(judge_behind(&mut twice, Rule::Newest, "d.t", lag).is_err(), "a newer row may be missing");
}
