use super::*;

#[test]
fn what_is_only_counted_is_as_wrong_as_what_is_named() {
    let report = |letters| Report { letters, ..Report::default() };
    assert!(report(Letters::default()).is_right());
    // As with `--limit 0`.
    assert!(!report(Letters { missing_more: 1, ..Letters::default() }).is_right());
    assert!(!report(Letters { duplicate_more: 1, ..Letters::default() }).is_right());
    let named = vec!["events/0@7".to_owned()];
    assert!(!report(Letters { missing: named.clone(), ..Letters::default() }).is_right());
    assert!(!report(Letters { duplicate: named, ..Letters::default() }).is_right());
}
