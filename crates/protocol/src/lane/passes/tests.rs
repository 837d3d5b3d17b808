use super::*;

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
