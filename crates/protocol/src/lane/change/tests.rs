use super::super::tests::{Writer, of_input, rule, seal};
use super::super::{Lane, TIME_UNKNOWN_MS};
use crate::record::{
    Absorbed, Body, Change, Checkpoint, Counts, EnumName, Frontier, KeptEnum, KeptState, Move, Part, Record,
    Rewind, Seal, Settle, StateFile, StateObject, StepShape,
};

fn shapes(steps: &[(&str, &str)]) -> Vec<StepShape> {
    steps.iter().map(|(name, shape)| StepShape::new(*name, *shape)).collect()
}

fn change(steps: &[(&str, &str)], kept: &[(u32, u32)], discarded: u64) -> Body {
    let kept = kept.iter().map(|(step, before)| KeptState { step: *step, before: *before }).collect();
    Body::Change(Change { steps: shapes(steps), kept, discarded, ..Change::default() })
}

fn moved(from: u64, next: u64) -> Move {
    Move::new(0, from.into(), next.into(), -1)
}

fn rewind(moves: Vec<Move>, emptied: &[u32], discarded: u64) -> Body {
    Body::Rewind(Rewind { moves, emptied: emptied.to_vec(), discarded, by: "test".into(), at_ms: 0 })
}

/// Records that go into a state, none of which is released.
fn absorbing(from: u64, next: u64, held: u64) -> Seal {
    let counts = Counts { read: next - from, absorbed: next - from, ..Counts::default() };
    let absorbed = Some(Absorbed { released: 0, held, discarded: 0 });
    Seal { counts: of_input(counts), absorbed, ..seal(from, next, &[]) }
}

fn settle(frontier: u64) -> Body {
    let settled = vec![Frontier { table: 0, frontier, window: 2, sent_below: None }];
    Body::Settle(Settle { settled, ..Settle::default() })
}

/// The lane as the next owner reads it from a checkpoint.
fn again(w: &Writer) -> Lane {
    let state_seq = w.lane.state_seq;
    let (states, files) = (w.lane.snapshots.clone(), w.lane.files.clone());
    let body = Checkpoint { lane: Some(w.lane.image(state_seq)), states, state_seq, files };
    let record = Record::from_bytes(w.lane.next_seq, &w.record(Body::Checkpoint(body)).to_bytes());
    Lane::from_checkpoint(&record.expect("it was just written")).expect("a sound checkpoint")
}

#[test]
fn a_kept_state_goes_on_under_its_new_index_and_the_others_end() {
    let mut w = Writer::new();
    w.push(change(&[("dedup", "key"), ("window", "1m")], &[(0, 0)], 0)).expect("a step is added");
    w.push(Body::Seal(absorbing(10, 20, 10))).expect("into the state of both");
    let mut both = seal(20, 30, &[]);
    both.states[0].step = 1;
    both.absorbed = Some(Absorbed { released: 0, held: 10, discarded: 0 });
    w.push(Body::Seal(both)).expect("of the second");
    let object = |step| StateObject { step, object: format!("o{step}"), len: 3, crc32c: 0 };
    w.lane.snapshots = vec![object(0), object(1)];
    w.lane.files = vec![StateFile { step: 1, object: "f".into(), len: 3 }];
    w.push(change(&[("window", "1m")], &[(0, 1)], 0)).expect("the first is taken out");
    assert_eq!(w.lane.snapshots, [StateObject { step: 0, ..object(1) }]);
    assert_eq!(w.lane.files.iter().map(|file| file.step).collect::<Vec<_>>(), [0]);
    let deltas: Vec<u32> = w.lane.deltas.iter().filter_map(|d| d.delta).map(|d| d.step).collect();
    assert_eq!(deltas, [0], "of the first step's there is none left");
    assert_eq!(w.lane.absorbed, Absorbed { released: 0, held: 10, discarded: 0 });
    assert_eq!(again(&w).steps, shapes(&[("window", "1m")]));
}

#[test]
fn c6_a_state_goes_on_only_with_a_step_of_its_name_and_shape() {
    let mut w = Writer::new();
    assert_eq!(rule(w.push(change(&[("dedup", "other")], &[(0, 0)], 0))), "C6");
    assert_eq!(rule(w.push(change(&[("window", "key")], &[(0, 0)], 0))), "C6");
    assert_eq!(rule(w.push(change(&[("dedup", "key")], &[(1, 0)], 0))), "C6");
    assert_eq!(rule(w.push(change(&[("dedup", "key")], &[(0, 1)], 0))), "C6");
    let twice = [("dedup", "key"), ("dedup", "key")];
    assert_eq!(rule(w.push(change(&twice, &[(0, 0), (1, 0)], 0))), "C6");
    w.push(change(&twice, &[(1, 0)], 0)).expect("one of them");
    assert_eq!(rule(w.push(change(&twice, &[(1, 0), (0, 1)], 0))), "C6");
}

#[test]
fn c6_a_state_goes_on_only_while_its_enums_keep_their_names_and_numbers() {
    let with = |names: &[(&str, i32)]| {
        let names = names.iter().map(|(name, number)| EnumName { name: (*name).into(), number: *number });
        let enums = vec![KeptEnum { of: "k".into(), names: names.collect() }];
        let steps = vec![StepShape { enums, ..StepShape::new("dedup", "k") }];
        let kept = vec![KeptState { step: 0, before: 0 }];
        Body::Change(Change { steps, kept, ..Change::default() })
    };
    let mut w = Writer::new();
    w.push(change(&[("dedup", "k")], &[], 0)).expect("another step");
    assert_eq!(rule(w.push(with(&[("low", 1)]))), "C6", "nothing says what the names were");
    let Body::Change(first) = with(&[("low", 1), ("high", 2)]) else { unreachable!("a change") };
    w.push(Body::Change(Change { kept: Vec::new(), ..first })).expect("with empty state");
    assert_eq!(rule(w.push(with(&[("low", 1)]))), "C6");
    assert_eq!(rule(w.push(with(&[("low", 1), ("high", 3)]))), "C6");
    assert_eq!(rule(w.push(change(&[("dedup", "k")], &[(0, 0)], 0))), "C6");
    w.push(with(&[("mid", 3), ("high", 2), ("low", 1)])).expect("one more name");
    assert_eq!(again(&w).steps[0].enums[0].number_of("mid"), Some(3));
}

#[test]
fn c9_what_a_given_up_state_held_is_discarded_and_the_ledger_adds_up() {
    let mut w = Writer::new();
    w.push(Body::Seal(absorbing(10, 25, 15))).expect("15 records are held");
    let other = [("dedup", "other")];
    assert_eq!(rule(w.push(change(&other, &[], 16))), "C9");
    assert_eq!(rule(w.push(change(&[("dedup", "key")], &[(0, 0)], 1))), "C9");
    w.push(change(&other, &[], 15)).expect("all that it held");
    assert_eq!(w.lane.absorbed, Absorbed { released: 0, held: 0, discarded: 15 });
    assert_eq!(again(&w).absorbed, w.lane.absorbed);
    w.push(Body::Seal(absorbing(25, 30, 5))).expect("it begins at nothing");
    assert_eq!(rule(w.push(Body::Seal(absorbing(30, 31, 21)))), "C9");
    let mut discards = absorbing(30, 31, 5);
    discards.absorbed = Some(Absorbed { released: 0, held: 5, discarded: 1 });
    assert_eq!(rule(w.push(Body::Seal(discards))), "C9");
}

#[test]
fn c10_no_state_is_given_up_while_frames_are_pending() {
    let mut w = Writer::new();
    w.push(Body::Seal(seal(10, 20, &[0]))).expect("a frame");
    assert_eq!(rule(w.push(change(&[("dedup", "other")], &[], 0))), "C10");
    w.push(change(&[("dedup", "key"), ("dedup", "other")], &[(0, 0)], 0)).expect("nothing is given up");
    assert_eq!(rule(w.push(rewind(vec![], &[1], 0))), "C9");
    w.push(settle(1)).expect("settled");
    w.push(change(&[("dedup", "other")], &[(0, 1)], 0)).expect("now it may");
}

#[test]
fn c1_a_rewind_moves_what_is_read_from_where_it_stands() {
    let mut w = Writer::new();
    w.push(Body::Seal(seal(10, 20, &[]))).expect("read");
    assert_eq!(rule(w.push(rewind(vec![moved(19, 10)], &[], 0))), "C1");
    assert_eq!(rule(w.push(rewind(vec![Move { partition: 1, ..moved(20, 10) }], &[], 0))), "C1");
    assert_eq!(rule(w.push(rewind(vec![moved(20, 10), moved(20, 10)], &[], 0))), "C1");
    assert_eq!(rule(w.push(rewind(vec![moved(20, 1 << 61)], &[], 0))), "C1");
    w.push(rewind(vec![moved(20, 10)], &[], 0)).expect("back");
    assert_eq!(rule(w.push(Body::Seal(seal(20, 30, &[])))), "C1");
    w.push(Body::Seal(seal(10, 30, &[]))).expect("read again from there");
}

#[test]
fn c9_a_rewind_leaves_no_row_that_may_be_refused_behind_the_position() {
    let mut w = Writer::new();
    w.push(Body::Seal(seal(10, 20, &[0]))).expect("a frame");
    assert_eq!(rule(w.push(rewind(vec![moved(20, 10)], &[], 0))), "C9");
    w.push(settle(1)).expect("settled");
    w.push(rewind(vec![moved(20, 10)], &[], 0)).expect("drained");
}

#[test]
fn c9_no_state_holds_a_record_twice() {
    let mut w = Writer::new();
    let steps = vec![StepShape::new("dedup", "key"), StepShape::new("window", "1m").absorbing()];
    let kept = vec![KeptState { step: 0, before: 0 }];
    w.push(Body::Change(Change { steps, kept, ..Change::default() })).expect("a window");
    w.push(Body::Seal(absorbing(10, 20, 10))).expect("held");
    for emptied in [&[][..], &[0], &[1]] {
        assert_eq!(rule(w.push(rewind(vec![moved(20, 10)], emptied, 0))), "C9");
    }
    assert_eq!(rule(w.push(rewind(vec![moved(20, 10)], &[0, 1], 11))), "C9");
    w.push(rewind(vec![moved(20, 40)], &[], 0)).expect("on");
    w.push(rewind(vec![moved(40, 10)], &[0, 1], 10)).expect("given up");
    assert_eq!(w.lane.absorbed, Absorbed { released: 0, held: 0, discarded: 10 });
    w.push(Body::Seal(absorbing(10, 20, 10))).expect("counted as read again");
    assert_eq!((w.lane.counts.read, w.lane.counts.absorbed), (20, 20));
}

#[test]
fn time_begins_again_only_where_no_state_has_counted_on_it() {
    let read = || {
        let mut w = Writer::new();
        let watermark_ms = 15;
        w.push(Body::Seal(Seal { watermark_ms, ..seal(10, 20, &[]) })).expect("read");
        w
    };
    let mut w = read();
    w.push(rewind(vec![moved(20, 10)], &[], 0)).expect("back");
    assert_eq!((w.lane.watermark_ms, w.lane.partitions[0].time_ms_max), (15, 20));
    let mut w = read();
    w.push(rewind(vec![moved(20, 30)], &[0], 0)).expect("on");
    assert_eq!((w.lane.watermark_ms, w.lane.partitions[0].time_ms_max), (15, 20));
    let mut w = read();
    w.push(rewind(vec![moved(20, 10)], &[0], 0)).expect("back");
    assert_eq!((w.lane.watermark_ms, w.lane.partitions[0].time_ms_max), (TIME_UNKNOWN_MS, TIME_UNKNOWN_MS));
}

#[test]
fn what_the_file_said_and_where_reading_was_are_known_to_the_next_owner() {
    let mut w = Writer::new();
    w.push(Body::Seal(seal(10, 20, &[]))).expect("read");
    let parts = vec![Part { kind: "step".into(), name: "1".into(), text: "filter: a > 1".into() }];
    let kept = vec![KeptState { step: 0, before: 0 }];
    let steps = shapes(&[("dedup", "key")]);
    let said = Change { steps, kept, parts, ..Change::default() };
    w.push(Body::Change(said)).expect("nothing of the state changes");
    w.push(rewind(vec![moved(20, 12)], &[], 0)).expect("back");
    w.push(rewind(vec![moved(12, 11)], &[], 0)).expect("and further");
    let lane = again(&w);
    assert_eq!((lane.read_to(0), lane.partitions[0].next), (20, 11));
    assert_eq!((&lane.parts, &lane.rewound), (&w.lane.parts, &w.lane.rewound));
}
