use protocol::lane::PartitionState;
use protocol::record::{Before, Forgotten};

use super::*;

fn head(letter: Letter, time_ms: i64, origin: &str) -> Head {
    Head {
        letter,
        time_ms,
        reason: String::new(),
        column: String::new(),
        raw_bytes: 0,
        origin: origin.into(),
    }
}

/// `a.jsonl` was read to 100, and moved back to 40 at the time 70.
fn moved() -> Anew {
    let pass = Pass { from: 40, end: 100, since_ms: 70, earlier_ms: 0 };
    Anew { passes: BTreeMap::from([(("a.jsonl".to_owned(), 0, 1), vec![pass])]), until_ms: 0 }
}

#[test]
fn a_letter_from_before_a_move_back_is_of_an_earlier_reading_and_one_from_then_is_another() {
    let judged = |position, time_ms| {
        let mut head = head(Letter::at("a.jsonl", 0, position), time_ms, "");
        (moved().judge(&mut head), head.letter.since_ms)
    };
    assert_eq!(judged(40, 70), (true, 70));
    assert_eq!(judged(99, 3), (true, 70));
    assert_eq!(judged(40, 71), (false, 70));
    // Behind the move, and before it.
    assert_eq!(judged(100, 3), (false, 0));
    assert_eq!(judged(39, 3), (false, 0));
}

#[test]
fn a_letter_from_before_a_reset_is_of_any_stream_of_its_name() {
    let pass = Pass { from: 0, end: u128::MAX, since_ms: 70, earlier_ms: 0 };
    let reset = Anew { passes: BTreeMap::from([(("t".to_owned(), 0, 1), vec![pass])]), until_ms: 70 };
    let judged = |partition, nth, time_ms| {
        reset.judge(&mut head(Letter { nth, ..Letter::at("t", partition, 5) }, time_ms, ""))
    };
    assert!(judged(0, 2, 70) && judged(0, 0, 70));
    assert!(!judged(1, 2, 70) && !judged(0, 2, 71), "another partition; the second stream since the reset");
}

#[test]
fn a_letter_of_a_stream_that_is_not_read_anew_is_all_that_its_record_has() {
    for letter in [Letter::at("b.jsonl", 0, 50), Letter { nth: 2, ..Letter::at("a.jsonl", 0, 50) }] {
        assert!(!moved().judge(&mut head(letter, 3, "")));
    }
}

#[test]
fn a_letter_of_a_replay_goes_with_the_first_place_of_its_record() {
    let judged =
        |anew: &Anew, time_ms, origin| anew.judge(&mut head(Letter::at(STREAM, 0, 7), time_ms, origin));
    assert!(judged(&moved(), 70, "a.jsonl/0/50"));
    assert!(judged(&moved(), 70, "a.jsonl/0/50#0000000000000002"));
    assert!(!judged(&moved(), 71, "a.jsonl/0/50"));
    assert!(!judged(&moved(), 70, "a.jsonl/0/50~2"));
    assert!(!judged(&moved(), 70, "b.jsonl/0/50"));
    // The letter of the first place stands for it: the log has begun anew.
    let reset = Anew { until_ms: 70, ..Anew::default() };
    assert!(judged(&reset, 70, "b.jsonl/0/50"));
    assert!(!judged(&reset, 71, "b.jsonl/0/50"));
}

#[test]
fn those_who_compare_ask_for_the_letters_of_the_newest_reading() {
    assert_eq!(
        moved().without("pipeline = 'p'".to_owned()),
        "pipeline = 'p' AND NOT ((source = 'a.jsonl' AND partition = 0 AND toUInt32OrZero(headers['forebay.stream']) IN (0, 1) AND position >= 40 AND \
         position < 100 AND time <= fromUnixTimestamp64Milli(toInt64(70), 'UTC')))"
    );
    assert_eq!(Anew::default().without("pipeline = 'p'".to_owned()), "pipeline = 'p'");
}

#[test]
fn a_place_is_read_as_it_is_shown() {
    for letter in [
        Letter::at("a/b#c~d.jsonl", 0, 17),
        Letter { era: 3, nth: 2, print: 5, ..Letter::at("t", 1, 17) },
        Letter { print: 0, ..Letter::at("t", 1, 0) },
    ] {
        let read = first_place(&letter.to_string());
        assert_eq!(read, Some(Letter { print: 0, ..letter }));
    }
    assert_eq!(first_place("#00ff/0"), None);
}

fn partition(stream: &str) -> PartitionState {
    PartitionState {
        input: 0,
        stream: stream.into(),
        index: 0,
        identity: "id".into(),
        next: 50,
        leader_epoch: -1,
        time_ms_max: 0,
        taken_over: None,
    }
}

#[test]
fn letters_are_chosen_anew_behind_a_reset_a_move_and_a_forget() {
    let chosen = Lane { partitions: vec![partition("t")], ..Lane::new() };
    let pass = Pass { from: 0, end: 50, since_ms: 70, earlier_ms: 0 };
    let reset = Lane { before: Before { until_ms: 70, ..Before::default() }, ..chosen.clone() };
    let moved_back = Lane { passes: BTreeMap::from([(0, vec![pass])]), ..chosen.clone() };
    // By a program that said no time.
    let moved_before = Lane { rewound: BTreeMap::from([(0, 50)]), ..chosen.clone() };
    let gone = Forgotten { partition: 0, from_start: true, at_ms: 70 };
    let forgotten = Lane { forgotten: BTreeMap::from([(0, gone)]), ..chosen.clone() };
    let came_back = Lane {
        partitions: vec![partition("t"), partition("t")],
        passes: BTreeMap::from([(1, vec![pass])]),
        ..forgotten.clone()
    };
    for now in [&reset, &moved_back, &moved_before, &forgotten] {
        assert!(has_moved(&chosen, now), "{now:?}");
    }
    assert!(has_moved(&forgotten, &came_back));
}

#[test]
fn letters_stay_chosen_while_the_pipeline_goes_on_and_finds_other_streams() {
    let pass = |since_ms| vec![Pass { from: 0, end: u128::MAX, since_ms, earlier_ms: 0 }];
    let chosen = Lane {
        partitions: vec![partition("t")],
        passes: BTreeMap::from([(0, pass(70))]),
        before: Before { until_ms: 70, ..Before::default() },
        ..Lane::new()
    };
    let read_on = PartitionState { next: 60, ..partition("t") };
    let now = Lane {
        next_seq: 9,
        epoch: 2,
        newest_ms: 90,
        partitions: vec![read_on, partition("new")],
        passes: BTreeMap::from([(0, pass(70)), (1, pass(70))]),
        ..chosen.clone()
    };
    assert!(!has_moved(&chosen, &now));
}
