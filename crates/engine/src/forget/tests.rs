use protocol::lane::{InputState, TableState};

use super::*;

/// Inputs `one`, which carries the replay log, and `two`; a clock was ahead.
fn lane() -> Lane {
    let partition = |input, stream: &str| PartitionState {
        input,
        stream: stream.into(),
        index: 0,
        identity: "id".into(),
        next: 50,
        leader_epoch: -1,
        time_ms_max: 0,
        taken_over: None,
    };
    let input = |name: &str| InputState { name: name.into(), ..InputState::default() };
    Lane {
        pipeline: "p".into(),
        inputs: vec![input("one"), input("two")],
        partitions: vec![partition(0, "a"), partition(1, "b"), partition(0, REPLAYS)],
        newest_ms: 500,
        ..Lane::new()
    }
}

fn request(input: Option<&str>, stream: Option<&str>) -> Request {
    let named = Named { input: input.map(Into::into), stream: stream.map(Into::into), index: None };
    Request {
        named: vec![named],
        from_start: true,
        by: "test".into(),
        take_over: false,
        quiet_min: Duration::ZERO,
    }
}

#[test]
fn the_replay_log_keeps_its_position_when_its_input_is_forgotten_with_its_own() {
    let of = |input, stream| forgotten(&lane(), &request(input, stream), 100).expect("it is read");
    let gone = |partition, from_start| Forgotten { partition, from_start, at_ms: 501 };
    assert_eq!(of(Some("one"), None), [gone(0, true), gone(2, false)]);
    assert_eq!(of(Some("two"), None), [gone(1, true)]);
    assert_eq!(of(None, Some("a")), [gone(0, true)]);
    assert_eq!(of(None, Some(REPLAYS)), [gone(2, false)]);
}

#[test]
fn a_forget_is_behind_all_that_the_journal_names() {
    let at = |now_ms| {
        let gone = forgotten(&lane(), &request(None, Some("a")), now_ms).expect("it is read");
        gone.first().expect("one").at_ms
    };
    assert_eq!((at(100), at(900)), (501, 901));
}

#[test]
fn positions_are_kept_while_a_row_of_the_stream_may_still_be_refused() {
    let waits = |takes_dead_letters| TableState {
        takes_dead_letters,
        pending: std::iter::once(Vec::new()).collect(),
        ..TableState::default()
    };
    let of = |lane: &Lane, request: &Request| forgotten(lane, request, 100).map(|gone| gone.len());
    let mut lane = Lane { tables: vec![waits(true), waits(false)], ..lane() };
    let from_start = request(None, Some("a"));
    let refused =
        of(&lane, &from_start).expect_err("its dead letter would be of the records that are read again");
    assert!(refused.to_string().contains("1 sealed inserts wait"), "{refused}");
    // Read on where it was left, or never read again: there is one reading.
    assert_eq!(of(&lane, &Request { from_start: false, ..from_start.clone() }).expect("it is read"), 1);
    assert_eq!(of(&lane, &request(None, Some(REPLAYS))).expect("its position is kept"), 1);
    lane.tables.truncate(1);
    assert_eq!(of(&lane, &from_start).expect("nothing refuses a dead letter"), 1);
    lane.tables.push(waits(false));
    lane.partitions[0].identity.clear();
    assert_eq!(of(&lane, &from_start).expect("its letters say which of the streams they are of"), 1);
}
