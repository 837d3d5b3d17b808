use super::*;

#[test]
fn letters_are_called_deleted_only_once_the_server_has_shown_it() {
    let row = |is_done| (is_done, 1, String::new());
    assert!(is_done(&[row(1)], 0) && is_done(&[row(1), row(1)], 0));
    assert!(!is_done(&[row(0)], 0) && !is_done(&[row(1), row(0)], 0));
    // A replica that has not heard of the deletion yet, and one that has forgotten it.
    assert!(!is_done(&[], 3));
    assert!(is_done(&[], 0));
}

#[test]
fn no_letter_is_deleted_that_is_newer_than_those_that_were_remembered() {
    let condition = "pipeline = 'p' AND (\ntime < now() - INTERVAL 7 DAY\n)";
    let bound = "fromUnixTimestamp64Milli(toInt64(1700), 'UTC')";
    assert_eq!(up_to(condition, Some(1_700)), format!("{condition} AND time <= {bound}"));
    // Where nothing is remembered, nothing is verified.
    assert_eq!(up_to(condition, None), condition);
}
