use super::super::tests::{Writer, rule, seal};
use super::*;
use crate::record::{Arrival, Before, Claim, Genesis, PartitionGenesis};

fn removal(is_done: bool) -> Body {
    Body::Removal(Removal { is_done, by: "test".into(), before: None })
}

fn genesis() -> Body {
    Body::Genesis(Genesis { pipeline: "q".into(), ..Genesis::default() })
}

/// A new owner removes the lane.
fn remove(w: &mut Writer) {
    w.epoch += 1;
    w.nonce += 1;
    w.push(removal(false)).expect("a removal of the next epoch is fine");
}

/// A lane that was removed after a seal.
fn removed() -> Writer {
    let mut w = Writer::new();
    w.push(Body::Seal(seal(10, 20, &[0]))).expect("fine");
    remove(&mut w);
    w
}

#[test]
fn nothing_but_a_removal_follows_until_the_removal_is_done() {
    let mut w = removed();
    assert_eq!((w.lane.has_run(), w.lane.is_removed()), (false, false));
    assert!(crate::retire::needed(&w.lane).is_empty(), "its objects may be deleted");
    assert_eq!(rule(w.push(genesis())), "order");
    let claim = Record { epoch: w.epoch + 1, nonce: vec![99; 16], ..w.record(Body::Claim(Claim::default())) };
    assert_eq!(
        rule(w.lane.apply(&claim)),
        "order",
        "a start would read what is left of the earlier pipeline"
    );
    remove(&mut w);
    assert_eq!(w.lane.removed, Some(Removed { is_done: false }));
    w.push(removal(true)).expect("finished");
    assert!(w.lane.is_removed());
    assert_eq!(rule(w.push(removal(true))), "order");
    assert_eq!(rule(w.push(genesis())), "order", "whoever has removed it is no owner");
    assert_eq!(rule(w.push(Body::Seal(seal(20, 30, &[1])))), "order");
}

#[test]
fn a_first_start_behind_a_removal_has_the_next_number_and_epoch() {
    let mut w = removed();
    w.push(removal(true)).expect("finished");
    let (seq, epoch) = (w.lane.next_seq, w.lane.epoch);
    assert_eq!(crate::retire::floor(&w.lane), Some(seq - 2), "both records of it stay");
    // As a reader finds it, for whom the first of them is the oldest.
    let mut read =
        Lane::from_checkpoint(&Record { seq: seq - 2, ..w.record(removal(false)) }).expect("the oldest");
    read.apply(&Record { seq: seq - 1, ..w.record(removal(true)) }).expect("by the same owner");
    assert_eq!(read, w.lane);
    w.claim();
    assert_eq!((w.lane.next_seq, w.lane.epoch, w.lane.removed), (seq + 1, epoch + 1, None));
    w.push(genesis()).expect("a pipeline that never ran");
    assert_eq!((w.lane.pipeline.as_str(), w.lane.partitions.len(), w.lane.counts.read), ("q", 0, 0));
}

#[test]
fn only_a_new_owner_removes_and_a_name_that_was_removed_is_free() {
    let mut w = Writer::new();
    assert_eq!(rule(w.push(removal(false))), "C5", "the pipeline that runs removes nothing");
    assert_eq!(rule(w.push(removal(true))), "order");
    w.nonce += 1;
    assert_eq!(rule(w.push(removal(false))), "C5");
    w.epoch += 1;
    assert_eq!(rule(w.push(removal(true))), "order", "its objects are there");
    let mut w = removed();
    w.nonce += 1;
    w.epoch += 1;
    assert_eq!(rule(w.push(removal(true))), "order", "another has begun it");
    let mut w = removed();
    let arrival = || Body::Arrival(Arrival { from: "p".into(), by: "test".into() });
    assert_eq!(rule(w.push(arrival())), "order");
    w.push(removal(true)).expect("finished");
    w.push(arrival()).expect("the name is free");
    assert_eq!((w.lane.arriving_from.as_deref(), w.lane.removed), (Some("p"), None));
}

#[test]
fn a_name_that_was_left_or_not_reached_can_be_removed() {
    let mut w = Writer::new();
    w.push(Body::Rename(crate::record::Rename { to: "q".into(), is_done: true, by: "test".into() }))
        .expect("left");
    remove(&mut w);
    assert_eq!(w.lane.renamed, None);
    let mut w = Writer { lane: Lane::new(), epoch: 0, nonce: 0 };
    let arrival = Body::Arrival(Arrival { from: "p".into(), by: "test".into() });
    w.lane.apply(&Record { nonce: Vec::new(), ..w.record(arrival) }).expect("a free name");
    remove(&mut w);
    assert_eq!(w.lane.arriving_from, None);
}

#[test]
fn what_a_removal_says_of_the_pipeline_before_stays_and_its_positions_are_read_anew() {
    let before = Before { until_ms: 70, replays_from: 5, letters_from_ms: 60 };
    let removal = |is_done| Body::Removal(Removal { is_done, by: "test".into(), before: Some(before) });
    let mut w = Writer::new();
    w.push(Body::Seal(seal(10, 20, &[0]))).expect("fine");
    w.epoch += 1;
    w.nonce += 1;
    w.push(removal(false)).expect("fine");
    w.push(removal(true)).expect("finished");
    w.claim();
    let partition = PartitionGenesis { stream: "t".into(), next_low: 3, ..PartitionGenesis::default() };
    let genesis = Genesis {
        pipeline: "q".into(),
        inputs: vec!["i".into()],
        partitions: vec![partition],
        ..Genesis::default()
    };
    w.push(Body::Genesis(genesis)).expect("a first start");
    assert_eq!(w.lane.before, before);
    let [pass] = w.lane.passes_of(0) else { panic!("{:?}", w.lane.passes) };
    assert_eq!((pass.from, pass.end, pass.since_ms), (3, crate::record::Position::MAX, 70));
    let image = Lane::from_image(&w.lane.image(0));
    assert_eq!((image.before, &image.passes), (before, &w.lane.passes));
    // Under another name the letters of this one are those from then on.
    let moved =
        w.lane.under_name("r", "q/lane-0", "r/lane-0", 90).and_then(|moved| moved.lane).expect("a lane");
    assert_eq!(moved.before.map_or(0, |before| before.letters_from_ms), 0);
    assert_eq!((moved.former_names[0].from_ms, moved.former_names[0].until_ms), (60, 90));
}
