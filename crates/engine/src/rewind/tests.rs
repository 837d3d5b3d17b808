use protocol::lane::{InputState, PartitionState};
use protocol::record::{Absorbed, StepShape};

use super::*;

fn lane(steps: Vec<StepShape>) -> Lane {
    let partition = |index| PartitionState {
        input: 0,
        stream: "e".into(),
        index,
        identity: String::new(),
        next: 50,
        leader_epoch: -1,
        time_ms_max: 0,
        taken_over: None,
    };
    let inputs = vec![InputState { name: "source".into(), ..InputState::default() }];
    Lane { pipeline: "p".into(), inputs, partitions: vec![partition(0), partition(1)], steps, ..Lane::new() }
}

fn request(targets: &[(u32, u64)], new_state: &[&str]) -> Request {
    let target = |(index, next): &(u32, u64)| Target {
        partition: Partition::new("e", *index),
        next: (*next).into(),
        leader_epoch: -1,
    };
    Request {
        targets: targets.iter().map(target).collect(),
        new_state: new_state.iter().map(|step| (*step).to_owned()).collect(),
        by: "test".into(),
        take_over: false,
        quiet_min: Duration::ZERO,
    }
}

#[test]
fn a_partition_that_stands_there_already_is_not_moved() {
    let rewind = plan(&lane(Vec::new()), &request(&[(0, 50), (1, 20)], &[])).expect("nothing is in the way");
    assert_eq!(rewind.moves, [Move::new(1, 50, 20, -1)]);
    let refused = plan(&lane(Vec::new()), &request(&[(2, 0)], &[])).expect_err("there is no such partition");
    assert!(refused.to_string().contains("it reads `e/0`, `e/1`"), "{refused}");
}

#[test]
fn a_window_is_not_moved_back_with_what_it_holds() {
    let mut lane = lane(vec![StepShape::new("dedup", "id"), StepShape::new("window", "1m").absorbing()]);
    lane.absorbed = Absorbed { held: 7, ..Absorbed::default() };
    for steps in [&[][..], &["window"], &["dedup"]] {
        let refused = plan(&lane, &request(&[(0, 0)], steps)).expect_err("it would count twice");
        assert!(refused.to_string().contains("`--new-state dedup --new-state window`"), "{refused}");
    }
    let words = plan(&lane, &request(&[(0, 0)], &[])).expect_err("it would count twice").to_string();
    let twice = "would be in the results of `window` twice, or dropped by `dedup` as duplicates";
    assert!(words.contains(twice) && words.contains("7 records that are held by `window`"), "{words}");
    let both = plan(&lane, &request(&[(0, 0)], &["window", "dedup"])).expect("given up");
    assert_eq!((both.emptied, both.discarded), (vec![0, 1], 7));
    let on = plan(&lane, &request(&[(0, 90)], &[])).expect("nothing is read again");
    assert_eq!((on.emptied, on.discarded), (vec![], 0));
    let refused = plan(&lane, &request(&[(0, 90)], &["join"])).expect_err("no such step");
    assert!(refused.to_string().contains("`dedup`, `window`"), "{refused}");
}

#[test]
fn a_refused_move_names_the_steps_that_hold_records_whatever_their_kind() {
    let steps =
        vec![StepShape::new("join", "left, 1h").absorbing(), StepShape::new("window", "1m").absorbing()];
    let words =
        plan(&lane(steps), &request(&[(0, 0)], &[])).expect_err("they would be joined twice").to_string();
    assert!(words.contains("in the results of `join` and `window` twice. Nothing was moved"), "{words}");
    assert!(words.contains("`--new-state join --new-state window`"), "{words}");
}

#[test]
fn a_move_is_behind_all_that_the_journal_names_though_a_clock_was_ahead() {
    let lane = Lane { newest_ms: 500, ..lane(Vec::new()) };
    let at = |now_ms| moved(&lane, &request(&[(0, 20)], &[]), now_ms).expect("nothing is in the way").at_ms;
    assert_eq!((at(100), at(900)), (501, 901));
}
