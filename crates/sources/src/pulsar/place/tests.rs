use super::*;

fn entry(ledger: u64, entry: u64) -> Entry {
    Entry { ledger, entry }
}

#[test]
fn positions_are_ordered_as_messages_are() {
    let positions = [
        0,
        entry(3, 0).position(),
        entry(3, 0).message(1),
        entry(3, 0).message(INDEX_MAX),
        entry(3, 0).end(),
        entry(3, 7).position(),
        entry(3, ENTRY_MAX).position(),
        entry(9, 0).position(),
    ];
    assert!(positions.is_sorted(), "{positions:?}");
    // What follows the last message that an entry can hold is the next entry.
    assert_eq!(entry(3, 0).message(INDEX_MAX) + 1, entry(3, 1).position());
    for at in [entry(0, 1), entry(5, 77), entry(u64::MAX - 1, ENTRY_MAX)] {
        assert_eq!(Entry::at(at.message(12)), at);
    }
}

#[test]
fn what_must_come_first_is_the_newest_entry_that_was_read() {
    assert_eq!(Proof::of(0), Proof::Any);
    assert_eq!(Proof::of(entry(3, 0).position()), Proof::Ledger(3));
    assert_eq!(Proof::of(entry(3, 8).position()), Proof::Entry(entry(3, 7)));
    assert_eq!(Proof::of(entry(3, 8).message(2)), Proof::Entry(entry(3, 8)), "it was read in part");
    assert!(Proof::Ledger(3).is_given_by(entry(3, 4)) && !Proof::Ledger(3).is_given_by(entry(4, 0)));
    assert!(
        Proof::Entry(entry(3, 7)).is_given_by(entry(3, 7))
            && !Proof::Entry(entry(3, 7)).is_given_by(entry(3, 8))
    );
}

#[test]
fn the_newest_entry_that_was_read_is_never_acknowledged() {
    for (next, acknowledged_up_to) in [
        (0, None),
        (entry(3, 0).position(), None),
        (entry(3, 1).position(), None),
        (entry(3, 2).position(), Some(entry(3, 0))),
        (entry(3, 9).position(), Some(entry(3, 7))),
        (entry(3, 9).message(4), Some(entry(3, 8))),
        (entry(3, 0).message(4), None),
    ] {
        assert_eq!(acknowledged(next), acknowledged_up_to, "{}", shown(next));
    }
}

#[test]
fn an_entry_before_the_first_is_none() {
    let id = |ledger, entry| MessageId { ledger, entry, partition: None, batch_index: None };
    assert_eq!(Entry::of(&id(3, u64::MAX)), None);
    assert_eq!(Entry::of(&id(u64::MAX, u64::MAX)), None);
    assert_eq!(Entry::of(&id(3, 0)), Some(entry(3, 0)));
    assert_eq!((end(None), end(Some(entry(3, 0)))), (0, entry(3, 1).position()));
}
