use super::*;

fn held() -> Unwritten {
    let unwritten = Unwritten::default();
    let pieces = [&b"body"[..], b"", b"pro", b"origins"].map(Bytes::from_static);
    unwritten.hold("s/1", (2, 7), pieces.to_vec(), Duration::from_secs(5));
    unwritten
}

#[test]
fn a_held_segment_is_read_as_if_it_were_written() {
    let unwritten = held();
    let read = |offset, len| unwritten.read("s/1", offset, len);
    assert_eq!(read(0, 4).as_deref(), Some(&b"body"[..]));
    assert_eq!(read(4, 3).as_deref(), Some(&b"pro"[..]));
    assert_eq!(read(2, 7).as_deref(), Some(&b"dyproor"[..]));
    assert_eq!(read(0, 14).as_deref(), Some(&b"bodyproorigins"[..]));
    assert_eq!(read(14, 0).as_deref(), Some(&b""[..]));
    assert_eq!(read(8, 7), None, "longer than it is");
    assert_eq!(read(u64::MAX, 1), None);
    assert_eq!(unwritten.read("s/2", 0, 1), None);
}

#[test]
fn what_was_never_written_need_not_be_deleted() {
    let unwritten = held();
    unwritten.settled(2, 6, Duration::from_secs(5));
    assert!(!unwritten.was_never_written("s/1"), "it may still be written");
    unwritten.settled(2, 7, Duration::from_secs(5));
    assert_eq!(unwritten.read("s/1", 0, 1), None);
    assert!(unwritten.was_never_written("s/1"));
    assert!(!unwritten.was_never_written("s/1"), "remembered until it is asked for");
}

#[test]
fn names_that_nothing_was_written_under_are_forgotten_where_garbage_is_listed() {
    let unwritten = held();
    unwritten.hold("s/2", (2, 8), vec![Bytes::from_static(b"other")], Duration::from_secs(5));
    unwritten.settled(2, 7, Duration::from_secs(5));
    unwritten.forget_never_written();
    assert!(unwritten.state().never.is_empty(), "a long run would keep the name of each of its segments");
    assert_eq!(unwritten.read("s/2", 0, 5).as_deref(), Some(&b"other"[..]));
}

#[test]
fn a_segment_that_is_settled_while_it_is_written_is_deleted_all_the_same() {
    let unwritten = held();
    assert!(unwritten.due(Duration::from_secs(4)).is_empty());
    assert_eq!(unwritten.due(Duration::from_secs(5)).len(), 1);
    unwritten.settled(2, 7, Duration::from_secs(5));
    unwritten.written("s/1");
    assert!(!unwritten.was_never_written("s/1"));
}

#[test]
fn a_segment_waits_while_its_table_settles_others_though_not_for_ever() {
    let (unwritten, at) = (held(), Duration::from_secs);
    unwritten.hold("s/2", (3, 0), vec![Bytes::from_static(b"other")], at(5));
    let due = |seconds| unwritten.due(at(seconds)).into_iter().map(|(object, _)| object).collect::<Vec<_>>();
    assert_eq!(due(5), ["s/1", "s/2"]);
    unwritten.settled(2, 6, at(8));
    assert_eq!(due(7), ["s/2"], "another table than the one that answers");
    assert_eq!(due(8), ["s/1", "s/2"], "it has settled nothing since");
    for second in 9..=33 {
        unwritten.settled(2, 6, at(second));
    }
    assert_eq!(due(32), ["s/2"]);
    assert_eq!(due(33), ["s/1", "s/2"], "28 s and the 2 that every segment waits");
}

#[test]
fn it_pays_to_wait_for_a_table_that_settles() {
    let (unwritten, at) = (held(), Duration::from_secs);
    assert_eq!(unwritten.patience(2, at(5)), Some(WRITE_AFTER));
    assert_eq!(unwritten.patience(2, at(7)), None, "it has settled nothing for so long");
    unwritten.settled(2, 6, at(8));
    assert_eq!(unwritten.patience(2, at(9)), Some(at(1)));
    assert_eq!(unwritten.patience(3, at(9)), None, "nothing of it is held");
    unwritten.settled(2, 7, at(9));
    assert_eq!(unwritten.patience(2, at(9)), None);
}
