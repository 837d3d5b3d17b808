use dataflow::{Column, ColumnType};

use super::*;

const GAP: i64 = 10;

fn chains() -> Chains {
    Chains::new(&Keys::new(&[Column::new("id", ColumnType::Int32)]).expect("a column with one value a row"))
}

fn span(first: i64, last: i64) -> Span {
    Span { first, last }
}

#[test]
fn the_sessions_of_a_key_stand_in_the_order_of_time_however_they_come() {
    let mut chains = chains();
    let key = 7_i64.to_le_bytes();
    let number = chains.key(&key);
    let mut joined = Joined::default();
    for first in [300, 100, 900, 500, 700, 0] {
        chains.join(number, span(first, first), 1, GAP, &mut joined);
    }
    let firsts = |chains: &Chains| chains.spans_of(&key).map(|span| span.first).collect::<Vec<_>>();
    assert_eq!(firsts(&chains), [900, 700, 500, 300, 100, 0]);
    assert!(joined.is_empty());
    for (at, is_near) in
        [(290, false), (291, true), (309, true), (310, false), (9, true), (10, false), (-10, false)]
    {
        assert_eq!(chains.is_near(number, span(at, at), GAP), is_near, "{at}");
    }
    // What is near to several of them makes one of them, and no other.
    let root = chains.join(number, span(295, 705), 1, GAP, &mut joined);
    assert_eq!((chains.span(root), chains.rows_of(root)), (span(295, 705), 4));
    assert_eq!(firsts(&chains), [900, 295, 100, 0]);
    assert_eq!(joined.all().count(), 2);
    for last in [(100, vec![900, 295, 0]), (900, vec![295, 0]), (0, vec![295]), (295, vec![])] {
        let number = chains.open().find(|number| chains.span(*number).first == last.0).unwrap();
        chains.remove(number);
        assert_eq!(firsts(&chains), last.1);
    }
    chains.add(number, span(5, 6), 2);
    assert_eq!((firsts(&chains), chains.rows()), (vec![5], 2));
}

/// With a walk along all of them this would take hours.
#[test]
fn a_key_with_many_sessions_takes_no_time_for_each_record() {
    let mut chains = chains();
    let number = chains.key(&7_i64.to_le_bytes());
    let mut joined = Joined::default();
    for at in 0..300_000 {
        chains.join(number, span(at * 100, at * 100), 1, GAP, &mut joined);
    }
    for at in 0..300_000 {
        // Nearly late, or beside the latest: neither is near to any.
        assert!(!chains.is_near(number, span(at * 100 + 50, at * 100 + 50), GAP));
        chains.remove(at as u32);
    }
    assert_eq!((chains.rows(), chains.open().count()), (0, 0));
}
