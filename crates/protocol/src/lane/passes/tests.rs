use super::super::tests::{Writer, seal};
use super::*;
use crate::record::{
    Before, Body, Checkpoint, Forget, Forgotten, Genesis, Range, Record, Removal, Rewind, Seal,
};

fn pass(from: Position, end: Position, since_ms: i64, earlier_ms: i64) -> Pass {
    Pass { from, end, since_ms, earlier_ms }
}

#[test]
fn what_is_moved_back_over_is_read_anew_since_then() {
    let mut lane = Lane::new();
    lane.pass(3, 100, 40, 7);
    assert_eq!(lane.passes_of(3), [pass(40, 100, 7, 0)]);
    assert_eq!(lane.passes_of(2), []);
    // Read to 80, and moved back once more.
    lane.pass(3, 80, 60, 9);
    assert_eq!(lane.passes_of(3), [pass(40, 60, 7, 0), pass(60, 80, 9, 7), pass(80, 100, 7, 0)]);
    lane.pass(3, 120, 0, 11);
    assert_eq!(
        lane.passes_of(3),
        [
            pass(0, 40, 11, 0),
            pass(40, 60, 11, 7),
            pass(60, 80, 11, 9),
            pass(80, 100, 11, 7),
            pass(100, 120, 11, 0)
        ]
    );
    assert_eq!(from_image(&lane.passes_image()), lane.passes);
}

#[test]
fn a_move_back_that_is_taken_back_leaves_what_was_so_before() {
    let mut lane = Lane::new();
    lane.pass(0, 100, 40, 7);
    let before = lane.clone();
    lane.pass(0, 120, 0, 9);
    lane.pass(0, 0, 120, 10);
    assert_eq!(lane, before);
    // A part of what is moved over was read by then.
    lane.pass(0, 120, 0, 11);
    lane.pass(0, 50, 120, 12);
    assert_eq!(lane.passes_of(0), [pass(0, 40, 11, 0), pass(40, 50, 11, 7), pass(50, 100, 7, 0)]);
}

#[test]
fn a_partition_that_is_read_first_behind_a_reset_is_read_anew_from_there() {
    let mut lane = Lane::new();
    lane.pass_from_start(0, 5);
    assert_eq!(lane.passes_of(0), []);
    lane.before.until_ms = 70;
    lane.pass_from_start(0, 5);
    assert_eq!(lane.passes_of(0), [pass(5, Position::MAX, 70, 0)]);
}

#[test]
fn a_record_of_an_earlier_program_says_no_time_and_begins_nothing() {
    let mut lane = Lane::new();
    lane.pass(0, 100, 40, 0);
    assert_eq!(lane.passes_of(0), []);
}

#[test]
fn many_moves_take_bounded_room_and_no_old_letter_counts_as_new() {
    let mut lane = Lane::new();
    let nights = 1_000;
    for night in 1..=nights {
        // Each night the last day once more.
        lane.pass(0, 100 * night, 100 * night - 90, night as i64);
    }
    let passes = lane.passes_of(0);
    assert_eq!(passes.len(), PASSES_MAX);
    assert_eq!((passes[0].from, passes[0].since_ms), (10, i64::MAX));
    assert_eq!(passes[PASSES_MAX - 1], pass(100 * nights - 90, 100 * nights, nights as i64, 0));
    assert!(passes.windows(2).all(|two| two[0].end <= two[1].from), "{passes:?}");
}

/// The stream `f` begins in an input, and so does the input where it is new.
fn begins(input: u32, identity: &str, next: u64) -> Body {
    let f = PartitionGenesis {
        input,
        stream: "f".into(),
        identity: identity.into(),
        next_low: next,
        leader_epoch: -1,
        ..PartitionGenesis::default()
    };
    let inputs = if input == 0 { Vec::new() } else { vec![format!("input {input}")] };
    Body::Genesis(Genesis { partitions: vec![f], inputs, ..Genesis::default() })
}

fn read(partition: u32, from: u64, next: u64) -> Body {
    let range = Range { time_ms_max: 0, ..Range::new(partition, from.into(), next.into()) };
    Body::Seal(Seal { ranges: vec![range], ..Seal::default() })
}

fn forget(partition: u32, from_start: bool, at_ms: i64) -> Body {
    let partitions = vec![Forgotten { partition, from_start, at_ms }];
    Body::Forget(Forget { partitions, by: "test".into() })
}

/// A record that is written at this time.
fn written(w: &mut Writer, at_ms: i64, body: Body) {
    let record = Record { written_at_ms: at_ms, ..w.record(body) };
    w.lane.apply(&record).expect("a sound record");
}

#[test]
fn a_stream_that_was_forgotten_and_begins_before_its_position_is_read_anew_since_it_came_back() {
    let mut w = Writer::new();
    w.push(begins(0, "id", 5)).expect("a new stream");
    w.push(read(1, 5, 100)).expect("read");
    w.push(forget(1, true, 70)).expect("it was read");
    written(&mut w, 90, begins(0, "id", 0));
    assert_eq!(w.lane.passes_of(2), [pass(0, 100, 90, 0)]);
    // Read to 30, forgotten once more, and read by another input from 10 on.
    w.push(read(2, 0, 30)).expect("read again");
    w.push(forget(2, true, 110)).expect("it was read");
    written(&mut w, 120, begins(1, "id", 10));
    assert_eq!(w.lane.passes_of(3), [pass(0, 10, 90, 0), pass(10, 100, 120, 90)]);
    assert_eq!(from_image(&w.lane.passes_image()), w.lane.passes);
}

#[test]
fn a_stream_that_goes_on_where_it_was_left_or_is_another_one_is_not_read_anew() {
    for (from_start, at_ms, begins) in [
        (false, 70, begins(0, "id", 100)),
        (true, 70, begins(0, "other", 0)),
        (true, 70, begins(0, "", 0)),
        // An earlier program said no time.
        (true, 0, begins(0, "id", 0)),
    ] {
        let mut w = Writer::new();
        w.push(self::begins(0, "id", 5)).expect("a new stream");
        w.push(read(1, 5, 100)).expect("read");
        w.push(forget(1, from_start, at_ms)).expect("it was read");
        written(&mut w, 90, begins);
        assert_eq!(w.lane.passes_of(2), []);
    }
}

#[test]
fn a_stream_that_is_read_in_another_input_beside_the_first_is_not_read_anew() {
    let mut w = Writer::new();
    w.push(begins(0, "id", 5)).expect("a new stream");
    w.push(read(1, 5, 100)).expect("read");
    written(&mut w, 90, begins(1, "id", 0));
    assert_eq!(w.lane.passes_of(2), []);
}

#[test]
fn what_was_read_anew_behind_a_reset_stays_so_for_a_stream_that_comes_back() {
    let mut w = Writer::new();
    w.lane.before.until_ms = 60;
    w.push(begins(0, "id", 5)).expect("a new stream");
    w.push(read(1, 5, 100)).expect("read");
    w.push(forget(1, true, 70)).expect("it was read");
    written(&mut w, 90, begins(0, "id", 0));
    let all = [pass(0, 5, 90, 0), pass(5, 100, 90, 60), pass(100, Position::MAX, 60, 0)];
    assert_eq!(w.lane.passes_of(2), all);
}

#[test]
fn a_moment_is_behind_each_that_the_journal_names_though_a_clock_was_ahead() {
    let mut w = Writer::new();
    written(&mut w, 500, Body::Seal(seal(10, 20, &[])));
    // Another owner, whose clock is right.
    w.claim();
    assert_eq!((w.lane.moment_after(100), w.lane.moment_after(900)), (501, 901));
    let image = Checkpoint { lane: Some(w.lane.image(0)), ..Checkpoint::default() };
    let again = Lane::from_checkpoint(&w.record(Body::Checkpoint(image))).expect("a sound checkpoint");
    assert_eq!(again.moment_after(100), 501);
    w.push(Body::Rewind(Rewind { at_ms: 501, ..Rewind::default() })).expect("nothing is pending");
    assert_eq!(w.lane.moment_after(100), 502, "two moves are told apart");
    w.push(forget(0, true, 502)).expect("it was read");
    assert_eq!(w.lane.moment_after(100), 503);
    let before = Some(Before { until_ms: 503, ..Before::default() });
    let removal = Removal { is_done: false, by: "test".into(), before };
    let removed = Lane::from_checkpoint(&w.record(Body::Removal(removal))).expect("a removal");
    assert_eq!(removed.moment_after(100), 504);
}
