use super::super::tests::{Writer, rule, seal};
use super::*;
use crate::record::{Body, Change, Checkpoint, Genesis, Seal};

/// Two lanes of one pipeline without steps that keep state; the partition `e/0` is read by the first.
fn lanes() -> [Writer; 2] {
    let stateless = |mut lane: Writer| {
        lane.push(Body::Change(Change::default())).expect("the step goes");
        lane
    };
    let mut second = stateless(Writer::new());
    let away = HandOver { to: 9, partitions: vec![0] };
    second.push(Body::HandOver(away)).expect("its own `e/0` is read by a lane that is not looked at");
    [stateless(Writer::new()), second]
}

fn hand_over(to: u32, partitions: &[u32]) -> Body {
    Body::HandOver(HandOver { to, partitions: partitions.to_vec() })
}

fn take(partitions: Vec<PartitionGenesis>) -> Body {
    Body::Genesis(Genesis { partitions, ..Genesis::default() })
}

/// Records of a partition of which no row is made.
fn read(partition: u32, from: u64, next: u64) -> Body {
    let mut seal = Seal { states: Vec::new(), ..seal(from, next, &[]) };
    seal.ranges[0].partition = partition;
    Body::Seal(seal)
}

/// The lane as its next owner reads it from a checkpoint.
fn again(w: &mut Writer) {
    let body = Checkpoint { lane: Some(w.lane.image(0)), ..Checkpoint::default() };
    let record = Record::from_bytes(w.lane.next_seq, &w.record(Body::Checkpoint(body)).to_bytes());
    w.lane = Lane::from_checkpoint(&record.expect("it was just written")).expect("a sound checkpoint");
}

#[test]
fn a_partition_goes_over_at_its_position_and_comes_back() {
    let [mut a, mut b] = lanes();
    a.push(read(0, 10, 30)).expect("it is read here");
    assert_eq!(pending(0, &a.lane, 1, &b.lane), [], "nothing was handed over");
    a.push(hand_over(1, &[0])).expect("it is read here");
    assert_eq!(rule(a.push(read(0, 30, 40))), "C1", "it is not read here any more");
    // Whoever asks after a crash finds the same, and another lane nothing.
    again(&mut a);
    let to_b = pending(0, &a.lane, 1, &b.lane);
    assert_eq!(to_b.iter().map(PartitionGenesis::next).collect::<Vec<_>>(), [30]);
    assert_eq!(pending(0, &a.lane, 2, &b.lane), []);
    b.push(take(to_b.clone())).expect("it was handed over");
    let at = b.lane.partition(0, "e", 0).expect("it is read here now");
    assert_eq!((b.lane.partitions[at].next, b.lane.partitions[at].time_ms_max), (30, 30));
    assert_eq!(pending(0, &a.lane, 1, &b.lane), [], "it was taken");
    b.push(read(at as u32, 30, 50)).expect("it is read here now");
    // Back again, over a checkpoint of each.
    b.push(hand_over(0, &[at as u32])).expect("it is read here");
    [&mut a, &mut b].into_iter().for_each(again);
    a.push(take(pending(1, &b.lane, 0, &a.lane))).expect("it comes back");
    let at = a.lane.partition(0, "e", 0).expect("it is read here again");
    assert_eq!(a.lane.partitions[at].next, 50);
    assert_eq!((pending(1, &b.lane, 0, &a.lane), pending(0, &a.lane, 1, &b.lane)), (vec![], vec![]));
    a.push(hand_over(1, &[at as u32])).expect("once more");
    b.push(take(pending(0, &a.lane, 1, &b.lane))).expect("the second time is not the first");
    assert_eq!(rule(b.push(take(to_b))), "C1", "a sleeper that still has the first time in its hands");
}

#[test]
fn c1_nobody_reads_what_another_lane_reads() {
    let [mut a, mut b] = lanes();
    let own = PartitionGenesis { stream: "e".into(), ..Default::default() }.at(10);
    assert_eq!(rule(a.push(hand_over(1, &[1]))), "C1", "no such partition");
    assert_eq!(rule(a.push(hand_over(1, &[0, 0]))), "C1", "twice");
    a.push(hand_over(1, &[0])).expect("it is read here");
    assert_eq!(rule(a.push(hand_over(2, &[0]))), "C1", "it is gone");
    assert_eq!(rule(a.push(take(vec![own.clone()]))), "C1", "it is read elsewhere");
    let other = PartitionGenesis { identity: "made again".into(), ..own };
    a.push(take(vec![other])).expect("a stream of the same name that is another one");
    let to_b = pending(0, &a.lane, 1, &b.lane);
    b.push(take(to_b.clone())).expect("once");
    assert_eq!(rule(b.push(take(to_b.clone()))), "C1", "it is read here");
    b.push(hand_over(2, &[1])).expect("it is read here");
    assert_eq!(rule(b.push(take(to_b))), "C1", "not twice from the same record");
}

#[test]
fn c6_no_state_is_left_behind() {
    let mut a = Writer::new();
    assert_eq!(rule(a.push(hand_over(1, &[0]))), "C6");
}
