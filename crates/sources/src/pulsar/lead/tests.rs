use dataflow::block::NO_LEADER_EPOCH;

use super::*;

fn entry(ledger: u64, entry: u64) -> Entry {
    Entry { ledger, entry }
}

fn lead(next: Position) -> Lead {
    let from = ReadFrom {
        partition: Partition::new("a/b/c", 0),
        identity: String::new(),
        next,
        leader_epoch: NO_LEADER_EPOCH,
    };
    let mut lead = Lead::new(Slot::new(from, "persistent://a/b/c".into(), 1 << 20));
    lead.subscribed(1, 2);
    lead.subscribing = None;
    lead
}

#[test]
fn a_read_goes_on_behind_the_entry_that_was_read_last() {
    let mut lead = lead(entry(3, 8).position());
    assert_eq!(lead.came(entry(3, 7)), Came::Skip);
    assert_eq!(lead.came(entry(3, 8)), Came::Read { from: 0 });
    let mut lead = self::lead(entry(3, 8).message(4));
    assert_eq!(lead.came(entry(3, 8)), Came::Read { from: 4 }, "it was read in part");
    let mut lead = self::lead(0);
    assert_eq!(lead.came(entry(9, 9)), Came::Read { from: 0 }, "nothing was read before");
}

#[test]
fn another_first_entry_is_refused_with_the_place_where_the_topic_goes_on() {
    for (next, came) in [
        (entry(3, 8).position(), entry(3, 8)),
        (entry(3, 8).position(), entry(4, 0)),
        (entry(3, 0).position(), entry(4, 0)),
        (entry(3, 8).message(4), entry(5, 0)),
    ] {
        let Came::Refuse(Trouble::NotHeld(why)) = lead(next).came(came) else {
            panic!("{came:?} is not what must come")
        };
        for named in [position::shown(next).to_string(), position::shown(came.position()).to_string()] {
            assert!(why.contains(&named), "{named}: {why}");
        }
    }
}

#[test]
fn another_ledger_is_read_once_the_one_before_is_known_to_be_held_still() {
    let mut lead = lead(entry(3, 8).position());
    assert_eq!(lead.came(entry(3, 7)), Came::Skip);
    assert_eq!(lead.came(entry(5, 0)), Came::Prove);
    lead.subscribed(3, 4);
    assert_eq!(lead.came(entry(3, 7)), Came::Skip, "it is held");
    assert_eq!(lead.came(entry(5, 0)), Came::Read { from: 0 });
    // What another ledger begins is proved anew.
    lead.slot.next = entry(5, 1).position();
    assert_eq!(lead.came(entry(6, 0)), Came::Prove);
    lead.subscribed(5, 6);
    assert!(
        matches!(lead.came(entry(6, 0)), Came::Refuse(Trouble::NotHeld(_))),
        "the entry before it is gone"
    );
}

#[test]
fn all_was_read_only_behind_the_newest_entry_and_after_the_proof() {
    let mut lead = lead(entry(3, 8).position());
    assert_eq!(lead.heard(Some(entry(3, 7))), Standing::Behind, "what must come first has not come");
    lead.came(entry(3, 7));
    assert!(lead.should_ask());
    assert_eq!(lead.heard(Some(entry(3, 7))), Standing::CaughtUp);
    assert_eq!(lead.heard(Some(entry(3, 9))), Standing::Behind);
    assert!(!lead.should_ask(), "more comes by itself");
    lead.ask(3);
    for last in [entry(3, 5), entry(2, 99)] {
        assert!(matches!(lead.heard(Some(last)), Standing::Refuse(Trouble::NotHeld(_))), "{last:?}");
    }
    assert!(matches!(lead.heard(None), Standing::Refuse(Trouble::NotHeld(_))), "a topic that holds nothing");
    assert_eq!(self::lead(0).heard(None), Standing::CaughtUp, "a topic that never held anything");
    assert_eq!(self::lead(0).heard(Some(entry(3, 0))), Standing::Behind);
}

#[test]
fn an_answer_that_is_older_than_what_has_come_meanwhile_is_no_loss() {
    // Two entries come before the answer that names the first of them, or none.
    for last in [None, Some(entry(5, 0)), Some(entry(5, 1))] {
        let mut lead = lead(0);
        lead.ask(7);
        assert_eq!(lead.came(entry(5, 0)), Came::Read { from: 0 });
        lead.slot.next = entry(5, 2).position();
        lead.asked = None;
        assert!(!matches!(lead.heard(last), Standing::Refuse(_)), "{last:?}");
        assert!(lead.should_ask(), "{last:?}");
    }
    // What had come before it was asked for must be there.
    let mut lead = lead(entry(5, 2).position());
    lead.ask(8);
    lead.slot.next = entry(5, 4).position();
    assert_eq!(lead.heard(Some(entry(5, 2))), Standing::Behind);
    assert!(matches!(lead.heard(Some(entry(5, 0))), Standing::Refuse(Trouble::NotHeld(_))));
    assert!(matches!(lead.heard(None), Standing::Refuse(Trouble::NotHeld(_))));
}

#[test]
fn a_partition_that_is_not_there_is_refused_with_the_command_that_gives_it_up() {
    let partition = Partition::new("a/b/c", 7);
    let error = check(&partition, None).expect_err("the topic is gone");
    assert!(error.message.contains("forebay forget FILE --topic a/b/c"), "{error}");
    let error =
        check(&partition, Some(&Topic { is_partitioned: true, partitions: 7 })).expect_err("it has seven");
    assert!(error.message.contains("forebay forget FILE --partition a/b/c/7"), "{error}");
    assert!(check(&partition, Some(&Topic { is_partitioned: true, partitions: 8 })).is_ok());
}
