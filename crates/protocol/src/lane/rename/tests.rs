use super::super::tests::{Writer, rule, seal};
use super::*;
use crate::record::{Arrival, StateFile, StateObject};

fn rename(to: &str, is_done: bool) -> Body {
    Body::Rename(Rename { to: to.into(), is_done, by: "test".into() })
}

fn first(body: Body) -> Record {
    Record { seq: 0, epoch: 0, nonce: Vec::new(), written_at_ms: 0, body: Some(body) }
}

fn arrival(from: &str) -> Lane {
    let mut lane = Lane::new();
    lane.apply(&first(Body::Arrival(Arrival { from: from.into(), by: "test".into() }))).expect("a free name");
    lane
}

/// A lane with a frame in flight, state in a snapshot, a file and a delta.
fn busy() -> Writer {
    let mut w = Writer::new();
    let mut sealed = seal(10, 20, &[0]);
    sealed.segment = "p/lane-0/segments/1".into();
    w.push(Body::Seal(sealed)).expect("fine");
    let states = vec![StateObject { step: 0, object: "p/lane-0/state/1".into(), len: 5, crc32c: 7 }];
    let files = vec![StateFile { step: 0, object: "p/lane-0/runs/1".into(), len: 9 }];
    let lane = Some(w.lane.image(2));
    w.push(Body::Checkpoint(Checkpoint { lane, states, state_seq: 2, files })).expect("fine");
    let mut sealed = seal(20, 30, &[1]);
    sealed.segment = "p/lane-0/segments/2".into();
    w.push(Body::Seal(sealed)).expect("fine");
    w
}

#[test]
fn nothing_but_a_claim_follows_under_a_name_that_was_left() {
    let mut w = busy();
    w.push(rename("q", false)).expect("the owner may");
    assert_eq!(rule(w.push(Body::Seal(seal(30, 40, &[2])))), "order");
    assert_eq!(rule(w.push(rename("r", false))), "order", "it has left for another name");
    w.claim();
    assert_eq!(rule(w.push(Body::Seal(seal(30, 40, &[2])))), "order");
    assert!(!crate::retire::needed(&w.lane).is_empty(), "the copies are still to be made");
    w.push(rename("q", true)).expect("closed");
    assert!(crate::retire::needed(&w.lane).is_empty());
    assert_eq!(w.lane.renamed, Some(Renamed { to: "q".into(), is_done: true }));
    w.claim();
}

#[test]
fn a_name_that_waits_for_its_lane_takes_nothing_else() {
    let w = busy();
    let mut lane = arrival("p");
    let claim = Record { seq: 1, epoch: 1, nonce: vec![9; 16], ..first(Body::Claim(Default::default())) };
    assert_eq!(rule(lane.apply(&claim)), "order");
    let moved = w.lane.under_name("q", "p/lane-0", "q/lane-0", 77).expect("all lies in one folder");
    let moved = Record { seq: 1, ..w.record(Body::Checkpoint(moved)) };
    lane.apply(&moved).expect("the lane it waits for");
    assert_eq!(lane.next_seq, 2);
    let again = first(Body::Arrival(Arrival::default()));
    assert_eq!(rule(lane.apply(&Record { seq: 2, ..w.record(again.body.expect("it has one")) })), "order");
}

#[test]
fn a_lane_is_the_same_under_its_new_name() {
    let w = busy();
    let moved = w.lane.under_name("q", "p/lane-0", "q/lane-0", 77).expect("all lies in one folder");
    let mut lane = arrival("p");
    lane.apply(&Record { seq: 1, ..w.record(Body::Checkpoint(moved)) }).expect("the lane it waits for");
    assert_eq!(lane.former_names, [FormerName { name: "p".into(), until_ms: 77, from_ms: 0 }]);
    assert_eq!((lane.pipeline.as_str(), lane.epoch, &lane.nonce), ("q", w.lane.epoch, &w.lane.nonce));
    let objects: Vec<&str> = crate::retire::needed(&lane).into_iter().collect();
    assert_eq!(
        objects,
        ["q/lane-0/runs/1", "q/lane-0/segments/1", "q/lane-0/segments/2", "q/lane-0/state/1"]
    );
    assert_eq!(lane.deltas.len(), 1, "the delta that the snapshot does not hold");
    // Apart from the names and the numbers of its records nothing is another.
    let mut back = lane.clone();
    for piece in back.tables.iter_mut().flat_map(|t| t.pending.iter_mut().flatten()) {
        piece.segment = piece.segment.replace("q/", "p/");
    }
    assert_eq!(back.tables, w.lane.tables);
    assert_eq!(back.partitions, w.lane.partitions);
    assert_eq!((back.counts, back.watermark_ms), (w.lane.counts, w.lane.watermark_ms));

    // The next checkpoint leaves nothing behind of what came with the lane.
    let mut w = Writer { lane, ..w };
    let mut sealed = seal(30, 40, &[2]);
    sealed.segment = "q/lane-0/segments/3".into();
    w.push(Body::Seal(sealed)).expect("goes on");
    let lane = Some(w.lane.image(2));
    w.push(Body::Checkpoint(Checkpoint { lane, state_seq: 2, ..Checkpoint::default() })).expect("fine");
    assert!(w.lane.deltas.is_empty());
}

#[test]
fn an_object_of_another_folder_is_not_taken_along() {
    let w = busy();
    assert_eq!(w.lane.under_name("q", "x/lane-0", "q/lane-0", 0), None);
}

#[test]
fn the_next_step_follows_from_both_journals() {
    let (old, none) = (busy().lane, Lane::new());
    let step = |old: &Lane, new: &Lane, is_empty| next_step(old, new, is_empty, "p", "q");
    let renamed = |is_done| Lane { renamed: Some(Renamed { to: "q".into(), is_done }), ..old.clone() };
    let (left, done) = (renamed(false), renamed(true));
    let waiting = arrival("p");
    let former = vec![FormerName { name: "p".into(), until_ms: 0, from_ms: 0 }];
    let arrived = Lane { former_names: former, ..old.clone() };
    assert_eq!(step(&none, &none, true), Step::NotThere);
    assert_eq!(step(&old, &none, true), Step::Take);
    assert_eq!(step(&old, &none, false), Step::Taken, "something else lies there");
    assert_eq!(step(&old, &old, false), Step::Taken);
    assert_eq!(step(&old, &arrival("x"), false), Step::Taken);
    assert_eq!(step(&old, &waiting, false), Step::Leave);
    assert_eq!(step(&left, &none, true), Step::Take);
    assert_eq!(step(&left, &waiting, false), Step::HandOver);
    assert_eq!(step(&left, &arrived, false), Step::Close);
    assert_eq!(step(&left, &old, false), Step::Taken);
    assert_eq!(step(&done, &arrived, false), Step::Clean);
    assert_eq!(next_step(&left, &none, true, "p", "r"), Step::Elsewhere);
}
