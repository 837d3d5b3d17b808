use super::*;
use crate::refusal::Kind;

fn key(id: u128) -> Key {
    Key { id, tag: 7 }
}

fn stored(first: u64) -> Stored {
    Stored { first: Some(first), rows: 2, is_repeat: false }
}

fn known(begin: Begin) -> Option<u64> {
    match begin {
        Begin::Known(stored) => {
            assert!(stored.is_repeat);
            stored.first
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_name_is_new_then_on_its_way_then_known_until_its_window_ends() {
    let mut keys = Keys::new(1_000, 10);
    let Begin::New(..) = keys.begin(key(1), 0) else { panic!("new") };
    let Begin::OnItsWay(_) = keys.begin(key(1), 5_000) else { panic!("however long it takes") };
    keys.end(key(1), &Ok(stored(40)), 5_000);
    assert_eq!(known(keys.begin(key(1), 6_000)), Some(40));
    let Begin::Differs = keys.begin(Key { tag: 8, ..key(1) }, 6_000) else { panic!("other records") };
    let Begin::New(..) = keys.begin(key(1), 6_001) else { panic!("too late: a new request") };
}

#[test]
fn what_is_not_in_the_log_is_forgotten() {
    let mut keys = Keys::new(1_000, 10);
    let Begin::New(..) = keys.begin(key(1), 0) else { panic!("new") };
    keys.end(key(1), &Err(Refusal::new(Kind::Unavailable, "no")), 1);
    assert!(keys.is_empty());
    let Begin::New(..) = keys.begin(key(1), 2) else { panic!("a retry is new") };
}

#[test]
fn no_more_names_are_known_than_may_be() {
    let mut keys = Keys::new(1_000, 3);
    for id in 0..3 {
        let Begin::New(..) = keys.begin(key(id), 0) else { panic!("new") };
        keys.end(key(id), &Ok(stored(0)), id as i64);
    }
    let Begin::Full = keys.begin(key(9), 500) else { panic!("none is old enough to go") };
    assert_eq!(known(keys.begin(key(2), 500)), Some(0), "those that are known still are");
    let Begin::New(..) = keys.begin(key(9), 1_001) else { panic!("the first has expired") };
    assert_eq!(keys.len(), 3);
}

#[test]
fn what_the_log_says_is_known_and_the_first_of_a_name_counts() {
    let mut keys = Keys::new(1_000, 10);
    keys.restore(key(1), 5, 2, 100);
    keys.restore(key(2), 7, 2, 300);
    keys.restore(key(1), 9, 2, 400);
    assert_eq!(known(keys.begin(key(1), 1_000)), Some(5));
    let Begin::New(..) = keys.begin(key(1), 1_101) else { panic!("from its first answer on") };
    assert_eq!(known(keys.begin(key(2), 1_300)), Some(7));
}

#[test]
fn a_clock_that_goes_back_expires_nothing_too_early() {
    let mut keys = Keys::new(1_000, 10);
    for (id, at_ms) in [(1, 5_000), (2, 1_000)] {
        let Begin::New(..) = keys.begin(key(id), at_ms) else { panic!("new") };
        keys.end(key(id), &Ok(stored(id as u64)), at_ms);
    }
    assert_eq!(known(keys.begin(key(2), 5_900)), Some(2));
    assert_eq!(known(keys.begin(key(1), 6_000)), Some(1));
}
