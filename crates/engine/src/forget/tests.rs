use protocol::lane::InputState;

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
