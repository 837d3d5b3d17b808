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

#[test]
fn names_of_bytes_make_room_for_any_and_others_for_none() {
    let of_bytes = |n: u8| Key::of_bytes("shop", &[n], &[1]);
    let mut keys = Keys::new(1_000, 3);
    let take = |keys: &mut Keys, key, at_ms| {
        let Begin::New(..) = keys.begin(key, at_ms) else { panic!("new") };
        keys.end(key, &Ok(stored(at_ms as u64)), at_ms);
    };
    take(&mut keys, key(1), 0);
    take(&mut keys, of_bytes(1), 1);
    take(&mut keys, of_bytes(2), 2);
    take(&mut keys, of_bytes(3), 3);
    assert_eq!(known(keys.begin(of_bytes(2), 4)), Some(2));
    take(&mut keys, key(2), 5);
    take(&mut keys, key(3), 6);
    assert_eq!(known(keys.begin(key(1), 7)), Some(0), "what a client has named is never forgotten early");
    let Begin::Full = keys.begin(of_bytes(4), 7) else { panic!("only names of clients are left") };
    let Begin::New(tell, _) = keys.begin(of_bytes(4), 1_001) else { panic!("the first has expired") };
    let Begin::Full = keys.begin(key(4), 1_001) else { panic!("one that is on its way stays") };
    drop(tell);
    assert_eq!(keys.len(), 3);
}

#[test]
fn of_what_the_log_says_names_of_clients_are_known_before_those_of_bytes() {
    let of_bytes = |n: u8| Key::of_bytes("shop", &[n], &[1]);
    let restored = |named: &[(u8, Key)]| {
        let mut keys = Keys::new(1_000, 3);
        named.iter().for_each(|(at, key)| keys.restore(*key, u64::from(*at), 2, i64::from(*at)));
        assert!(keys.len() <= 3);
        keys
    };
    let is_known = |keys: &mut Keys, key| matches!(keys.begin(key, 10), Begin::Known(_));
    let log =
        [(0, key(1)), (1, of_bytes(1)), (2, of_bytes(2)), (3, key(2)), (4, of_bytes(3)), (5, of_bytes(4))];
    let mut keys = restored(&log);
    for known in [key(1), key(2), of_bytes(4)] {
        assert!(is_known(&mut keys, known), "{known:?}");
    }
    assert!(!is_known(&mut keys, of_bytes(3)), "the newest of those made of bytes are known");
    // Only names of clients, and more than may be known: the newest.
    let mut keys = restored(&[(0, key(1)), (1, key(2)), (2, key(3)), (3, of_bytes(1)), (4, key(4))]);
    for known in [key(2), key(3), key(4)] {
        assert!(is_known(&mut keys, known), "{known:?}");
    }
    let Begin::Full = keys.begin(key(1), 10) else { panic!("there is no room for it") };
}

#[test]
fn equal_bytes_of_one_client_have_one_name_and_no_others() {
    let name = |client: &str, bytes: &[u8], ends: &[u32]| Key::of_bytes(client, bytes, ends);
    assert_eq!(name("shop", b"ab", &[2]), name("shop", b"ab", &[2]));
    for other in [
        name("", b"ab", &[2]),
        name("shop", b"ac", &[2]),
        name("shop", b"ab", &[1, 2]),
        name("shop", b"ab", &[]),
        Key::named("shop", b"ab", 9),
        Key::named("shop", b"\x02\0\0\0ab", 9),
    ] {
        assert_ne!(name("shop", b"ab", &[2]).id, other.id, "{other:?}");
    }
    assert!(name("shop", b"ab", &[2]).is_of_bytes() && !Key::named("shop", b"ab", 9).is_of_bytes());
}
