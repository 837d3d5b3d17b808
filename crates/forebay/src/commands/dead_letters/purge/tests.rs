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
