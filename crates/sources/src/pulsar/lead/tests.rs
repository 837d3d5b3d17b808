use dataflow::block::NO_LEADER_EPOCH;

use super::super::chunks::Chunk;
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
        (entry(3, 8).position(), entry(3, 9)),
        (entry(3, 8).position(), entry(3, 6)),
        (entry(3, 8).position(), entry(4, 0)),
        (entry(3, 8).position(), entry(4, 8)),
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
fn the_next_message_proves_its_place_where_a_marker_of_a_transaction_stands_before_it() {
    // A first start at the oldest message, a start by time, and the record of a row that was refused: each begins with this very message.
    let mut lead = lead(entry(3, 8).position());
    assert_eq!(lead.came(entry(3, 8)), Came::Read { from: 0 }, "no broker delivers what stands before it");
    assert_eq!(lead.came(entry(3, 10)), Came::Read { from: 0 });
    // What waits behind an incomplete message comes again from that message on, whatever stands before it.
    let chunk = Chunk { producer: b"a", uuid: b"a-0", chunks: 2, payload: b"x", ..Chunk::default() };
    let at = entry(3, 12);
    lead.slot.chunks.take((at, &b"body"[..], 0), chunk, (100, 10_000)).expect("there is room");
    lead.slot.next = at.end();
    lead.subscribed(3, 4);
    assert_eq!(lead.came(at), Came::Read { from: 0 });
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

/// The entries of a topic, read from where the lead stands until nothing more comes; how often another consumer was needed. The first of `chunk` is one of an incomplete message, and
/// everything behind it waits.
fn read_all(lead: &mut Lead, topic: &[Entry], chunk: Entry) -> u32 {
    let incomplete = Chunk { producer: b"a", uuid: b"a-0", chunks: 2, payload: b"x", ..Chunk::default() };
    let other = Chunk { producer: b"b", ..Chunk::default() };
    for consumers in 0..20 {
        // A consumer begins with the entry before the next position.
        let next = lead.slot.next;
        let from = topic.iter().rposition(|at| at.position() < next).unwrap_or(0);
        let is_read = topic[from..].iter().all(|at| match lead.came(*at) {
            Came::Read { .. } => {
                let says = if *at == chunk { incomplete } else { other };
                lead.slot.chunks.take((*at, &b"body"[..], 0), says, (100, 10_000)).expect("there is room");
                lead.slot.next = at.end();
                true
            }
            Came::Skip => true,
            Came::Prove => false,
            Came::Refuse(trouble) => panic!("{trouble:?}"),
        });
        if is_read {
            return consumers;
        }
        lead.subscribed(3, 4);
    }
    panic!("it reads the same again and again");
}

/// A message is incomplete while its topic moves from broker to broker: each begins a ledger.
#[test]
fn ledgers_behind_an_incomplete_message_are_passed_once_each_is_proved() {
    let topic = [entry(3, 7), entry(3, 8), entry(3, 9), entry(5, 0), entry(5, 1), entry(6, 0), entry(9, 0)];
    let mut lead = lead(entry(3, 8).position());
    assert_eq!(read_all(&mut lead, &topic, entry(3, 8)), 3, "one for each ledger");
    assert_eq!(lead.slot.next, entry(9, 1).position());
    // Another broker serves it: what was proved is passed at once.
    lead.subscribed(5, 6);
    assert_eq!(lead.slot.next, entry(3, 8).position(), "what waits comes again");
    assert_eq!(read_all(&mut lead, &topic, entry(3, 8)), 0);
    assert_eq!(lead.slot.next, entry(9, 1).position());
}

#[test]
fn a_ledger_is_not_passed_behind_less_than_was_read_of_the_one_before() {
    let mut lead = lead(entry(3, 8).position());
    let topic = [entry(3, 7), entry(3, 8), entry(3, 9), entry(5, 0)];
    assert_eq!(read_all(&mut lead, &topic, entry(3, 8)), 1);
    // It is deleted in the middle of a reading that begins with what waits once more.
    lead.subscribed(5, 6);
    assert_eq!(lead.came(entry(3, 7)), Came::Skip);
    assert_eq!(lead.came(entry(3, 8)), Came::Read { from: 0 });
    lead.slot.next = entry(3, 9).position();
    assert_eq!(lead.came(entry(5, 0)), Came::Prove);
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
    lead.ask(3, Duration::ZERO);
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
        lead.ask(7, Duration::ZERO);
        assert_eq!(lead.came(entry(5, 0)), Came::Read { from: 0 });
        lead.slot.next = entry(5, 2).position();
        lead.asked = None;
        assert!(!matches!(lead.heard(last), Standing::Refuse(_)), "{last:?}");
        assert!(lead.should_ask(), "{last:?}");
    }
    // What had come before it was asked for must be there.
    let mut lead = lead(entry(5, 2).position());
    lead.ask(8, Duration::ZERO);
    lead.slot.next = entry(5, 4).position();
    assert_eq!(lead.heard(Some(entry(5, 2))), Standing::Behind);
    assert!(matches!(lead.heard(Some(entry(5, 0))), Standing::Refuse(Trouble::NotHeld(_))));
    assert!(matches!(lead.heard(None), Standing::Refuse(Trouble::NotHeld(_))));
}

#[test]
fn a_broker_that_has_lost_a_question_is_left() {
    let mut lead = lead(0);
    // Each look finds nothing else.
    let silent = |lead: &mut Lead| (0..UNANSWERED_MAX).any(|_| lead.is_forgotten());
    assert!(!silent(&mut lead) && !lead.is_forgotten(), "it was asked nothing");
    lead.subscribed(3, 4);
    assert!(!silent(&mut lead), "it may load the topic still");
    lead.has_consumer();
    assert!(!lead.is_forgotten(), "it has answered");
    for request in [5, 6] {
        lead.ask(request, Duration::ZERO);
        assert!(!silent(&mut lead), "another question, another wait");
    }
    assert!(lead.is_forgotten());
    lead.subscribed(7, 8);
    assert!(!silent(&mut lead), "it is asked once more");
    assert!(lead.is_forgotten());
    // It is paused: nothing is asked any more.
    lead.unsubscribed();
    assert!(!lead.is_forgotten());
}

/// Asks for the newest entry at this time; the broker answers `last`.
fn asked(lead: &mut Lead, last: Entry, asked_s: u64) {
    assert!(lead.should_ask(), "{asked_s}");
    lead.ask(asked_s, Duration::from_secs(asked_s));
    lead.asked = None;
    lead.heard(Some(last));
}

#[test]
fn an_incomplete_message_is_silent_while_all_that_is_stored_was_read_and_not_while_more_is() {
    let chunk = Chunk { producer: b"a", uuid: b"a-0", chunks: 2, payload: b"x", ..Chunk::default() };
    let other = |sequence| Chunk { producer: b"b", sequence, ..Chunk::default() };
    let mut lead = lead(0);
    let take = |lead: &mut Lead, n: u64, says: Chunk<'_>| {
        let at = entry(5, n);
        assert_eq!(lead.came(at), Came::Read { from: 0 });
        lead.slot.chunks.take((at, &b"body"[..], 0), says, (100, 10_000)).expect("there is room");
        lead.slot.next = at.end();
    };
    take(&mut lead, 0, chunk);
    asked(&mut lead, entry(5, 0), 1);
    assert!(!lead.should_ask(), "it is asked for again once in a while");
    // Others publish all the time, and the reader has read all of it each time.
    for n in 1..=6 {
        take(&mut lead, n, other(n));
        asked(&mut lead, entry(5, n), 10 * n);
    }
    assert_eq!(lead.slot.chunks.given_up(), []);
    // A minute is over, and it is not known yet that there is nothing more.
    take(&mut lead, 7, other(7));
    asked(&mut lead, entry(5, 9), 75);
    assert_eq!(lead.slot.chunks.given_up(), [], "all was read at 10 s, and the newest answer is of 60 s");
    assert!(!lead.should_ask() && !lead.recheck(), "what is stored comes first");
    take(&mut lead, 8, other(8));
    take(&mut lead, 9, other(9));
    assert!(!lead.should_ask() && lead.recheck());
    // All that was stored at 75 s was read.
    asked(&mut lead, entry(5, 9), 200);
    assert_eq!(lead.slot.chunks.given_up(), [(entry(5, 0), "no more of it came for a minute")]);
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
