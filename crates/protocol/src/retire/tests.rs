use super::*;
use crate::names;
use crate::record::{StateFile, StateObject};

const FOLDER: &str = "p/lane-0";

fn lane(epoch: u64, nonce: u128) -> Lane {
    Lane { epoch, nonce: nonce.to_le_bytes().to_vec(), ..Lane::new() }
}

#[test]
fn only_what_nobody_needs_or_can_still_seal_goes() {
    let nonce = 0xabcd_0000_0007;
    let mut lane = lane(2, nonce);
    let old = names::segment(FOLDER, 1, 5, 4);
    lane.snapshots.push(StateObject { object: old.clone(), ..Default::default() });
    for object in [names::run(FOLDER, 2, nonce, 1), names::run(FOLDER, 1, nonce, 7)] {
        lane.files.push(StateFile { object, ..Default::default() });
    }
    let judge = Judge::new(&lane, Marks { segments: 2, splits: 1, state: 0, runs: 3 });
    let own = |number| names::segment(FOLDER, 2, nonce, number);
    for (object, standing) in [
        (old, Standing::Needed),
        (names::segment(FOLDER, 1, 5, 9), Standing::Garbage),
        (own(1), Standing::Garbage),
        (own(2), Standing::UnderWay),
        (own(900), Standing::UnderWay),
        (names::split(FOLDER, 2, nonce, 0), Standing::Garbage),
        (names::split(FOLDER, 2, nonce, 1), Standing::UnderWay),
        (names::snapshot(FOLDER, 2, nonce, 0, 0), Standing::UnderWay),
        (names::run(FOLDER, 2, nonce, 1), Standing::Needed),
        (names::run(FOLDER, 2, nonce, 2), Standing::Garbage),
        (names::run(FOLDER, 2, nonce, 3), Standing::UnderWay),
        (names::run(FOLDER, 1, nonce, 7), Standing::Needed),
        (names::run(FOLDER, 1, nonce, 8), Standing::Garbage),
        (names::segment(FOLDER, 2, nonce + 1, 0), Standing::UnderWay),
        (names::segment(FOLDER, 3, nonce, 0), Standing::UnderWay),
        (format!("{FOLDER}/segments/notes.txt"), Standing::Foreign),
    ] {
        assert_eq!(judge.standing(&object), standing, "{object}");
    }
}

#[test]
fn a_reader_sees_marks_behind_the_owners_and_never_before_what_is_needed() {
    let mut lane = lane(3, 9);
    assert_eq!(Marks::seen_in(&lane), Marks::default());
    lane.snapshots.push(StateObject { object: names::snapshot(FOLDER, 3, 9, 17, 0), ..Default::default() });
    lane.newest_checkpoint = Some(20);
    lane.state_seq = 17;
    let marks = Marks::seen_in(&lane);
    assert_eq!(marks, Marks { state: 18, ..Marks::default() });
    assert_eq!(Judge::new(&lane, marks).standing(&names::segment(FOLDER, 3, 9, 0)), Standing::UnderWay);
}

#[test]
fn every_kind_has_names_that_are_understood() {
    let names = [
        names::run(FOLDER, 1, 2, 3),
        names::segment(FOLDER, 1, 2, 3),
        names::split(FOLDER, 1, 2, 3),
        names::snapshot(FOLDER, 1, 2, 3, 4),
    ];
    assert_eq!(names.len(), KINDS.len());
    for (kind, name) in KINDS.iter().zip(names) {
        assert!(name.contains(&format!("/{kind}/")), "{name}");
        let parsed = Name::parse(&name).expect("a name of ours");
        assert_eq!((parsed.epoch, parsed.nonce, parsed.number), (1, 2, 3));
    }
}
