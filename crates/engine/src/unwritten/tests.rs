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
    unwritten.settled(2, 6);
    assert!(!unwritten.was_never_written("s/1"), "it may still be written");
    unwritten.settled(2, 7);
    assert_eq!(unwritten.read("s/1", 0, 1), None);
    assert!(unwritten.was_never_written("s/1"));
    assert!(!unwritten.was_never_written("s/1"), "remembered until it is asked for");
}

#[test]
fn a_segment_that_is_settled_while_it_is_written_is_deleted_all_the_same() {
    let unwritten = held();
    assert!(unwritten.due(Duration::from_secs(4)).is_empty());
    assert_eq!(unwritten.due(Duration::from_secs(5)).len(), 1);
    unwritten.settled(2, 7);
    unwritten.written("s/1");
    assert!(!unwritten.was_never_written("s/1"));
}
