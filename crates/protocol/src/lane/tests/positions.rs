//! What a partition's positions may do: begin, go on without a hole, be forgotten and come back.

use super::*;

#[test]
fn c1_ranges_of_successive_seals_touch() {
    let mut w = Writer::new();
    w.push(Body::Seal(seal(10, 20, &[0]))).expect("touches genesis");
    assert_eq!(rule(w.push(Body::Seal(seal(21, 30, &[1])))), "C1");
    assert_eq!(rule(w.push(Body::Seal(seal(19, 30, &[1])))), "C1");
    let mut twice = seal(20, 30, &[1]);
    twice.ranges.push(twice.ranges[0]);
    assert_eq!(rule(w.push(Body::Seal(twice))), "C1");
    w.push(Body::Seal(seal(20, 30, &[1]))).expect("touches");
    assert_eq!(w.lane.partitions[0].next, 30);
}

#[test]
fn c1_a_seal_has_one_range_of_a_partition_however_many_there_are() {
    let mut w = Writer::new();
    let more = (1..200).map(|index| PartitionGenesis {
        stream: "e".into(),
        index,
        next_low: 10,
        ..Default::default()
    });
    w.push(Body::Genesis(Genesis { partitions: more.collect(), ..Genesis::default() }))
        .expect("they are new");
    let mut whole = seal(10, 10, &[]);
    whole.ranges = (0..200).map(|partition| Range { partition, ..whole.ranges[0] }).collect();
    for partition in [0, 1, 63, 64, 65, 127, 128, 199] {
        let mut twice = whole.clone();
        twice.ranges.push(twice.ranges[partition]);
        assert_eq!(rule(w.push(Body::Seal(twice))), "C1", "{partition}");
    }
    w.push(Body::Seal(whole)).expect("one each");
}

#[test]
fn c1_a_partition_has_one_genesis() {
    let mut w = Writer::new();
    let again = PartitionGenesis { stream: "e".into(), ..Default::default() };
    assert_eq!(rule(w.push(Body::Genesis(Genesis { partitions: vec![again], ..Default::default() }))), "C1");
    let new = PartitionGenesis { stream: "f".into(), ..Default::default() };
    let twice = Genesis { partitions: vec![new.clone(), new], ..Default::default() };
    assert_eq!(rule(w.push(Body::Genesis(twice))), "C1");
    let tables = vec![TableGenesis::of_rows("d.new"), TableGenesis::of_dead_letters("d.new")];
    let tables = Genesis { tables, ..Default::default() };
    assert_eq!(rule(w.push(Body::Genesis(tables))), "order");
}

fn genesis_of(stream: &str, identity: &str, next: u64) -> Body {
    let p = PartitionGenesis {
        stream: stream.into(),
        identity: identity.into(),
        next_low: next,
        leader_epoch: -1,
        ..Default::default()
    };
    Body::Genesis(Genesis { partitions: vec![p], ..Default::default() })
}

fn forget(partition: u32, from_start: bool) -> Body {
    let partitions = vec![Forgotten { partition, from_start, at_ms: 0 }];
    Body::Forget(Forget { partitions, by: "test".into() })
}

#[test]
fn c1_what_is_forgotten_is_read_no_more_and_what_is_sealed_of_it_stays() {
    let mut w = Writer::new();
    w.push(Body::Seal(seal(10, 20, &[0]))).expect("read so far");
    assert_eq!(rule(w.push(forget(1, false))), "C1", "no such partition");
    w.push(forget(0, false)).expect("it was read");
    assert_eq!(rule(w.push(forget(0, false))), "C1", "it has left already");
    assert_eq!(rule(w.push(Body::Seal(seal(20, 30, &[1])))), "C1", "no more of it is sealed");
    assert_eq!((w.lane.partition(0, "e", 0), w.lane.spool_frames()), (None, 1));
    assert_eq!((w.lane.partitions.len(), w.lane.reading().count()), (1, 0));
}

#[test]
fn c1_a_forgotten_stream_comes_back_where_it_was_left() {
    let mut w = Writer::new();
    w.push(genesis_of("f", "id", 5)).expect("a new stream");
    let range = Range { time_ms_max: 0, ..Range::new(1, 5, 9) };
    w.push(Body::Seal(Seal { ranges: vec![range], ..Seal::default() })).expect("read");
    w.push(forget(1, false)).expect("it was read");
    for other in [0, 5, 8, 10] {
        assert_eq!(rule(w.push(genesis_of("f", "id", other))), "C1", "twice, or a gap");
    }
    assert_eq!(w.lane.left_at(0, "f", 0, "id").map(|p| p.next), Some(9));
    w.push(genesis_of("f", "id", 9)).expect("goes on");
    assert_eq!(w.lane.partition(0, "f", 0), Some(2), "under an index of its own");
    assert_eq!(w.lane.left_at(0, "f", 0, "id"), None, "it is read");
    w.push(forget(2, true)).expect("it was read again");
    assert_eq!(w.lane.left_at(0, "f", 0, "id"), None, "nor does its position count");
    w.push(genesis_of("f", "id", 0)).expect("a person has said so");
}

#[test]
fn c1_another_stream_of_a_forgotten_name_begins_where_it_likes() {
    let mut w = Writer::new();
    w.push(forget(0, false)).expect("it was read");
    w.push(genesis_of("e", "", 3)).expect("nobody knows whether it is the same");
    w.push(forget(1, false)).expect("it was read");
    w.push(genesis_of("e", "other", 0)).expect("another one");
    assert_eq!(w.lane.partition(0, "e", 0), Some(2));
}

#[test]
fn streams_of_one_name_are_counted_by_their_identities() {
    let mut w = Writer::new();
    for (at, identity) in ["id", "other", "id", "", ""].into_iter().enumerate() {
        w.push(genesis_of("f", identity, 5)).expect("a stream of that name");
        w.push(forget(at as u32 + 1, true)).expect("it was read");
    }
    assert_eq!(w.lane.nth_of_name(), [1, 1, 2, 1, 3, 4]);
}

#[test]
fn a_checkpoint_remembers_what_was_forgotten() {
    let mut w = Writer::new();
    w.push(genesis_of("f", "id", 5)).expect("a new stream");
    w.push(forget(0, true)).expect("it was read");
    w.push(forget(1, false)).expect("it was read");
    let image = w.lane.image(0);
    let body = Body::Checkpoint(Checkpoint { lane: Some(image), ..Default::default() });
    let lane = Lane::from_checkpoint(&w.record(body)).expect("a checkpoint");
    assert_eq!(lane.forgotten, w.lane.forgotten);
    assert_eq!(lane.left_at(0, "f", 0, "id").map(|p| p.next), Some(5));
}

/// A source of files begins with thousands of partitions, and every start folds that record: it must not compare each with each.
#[test]
fn a_genesis_of_thousands_of_partitions_is_compared_by_names() {
    let mut w = Writer::new();
    let named =
        |n: u32| PartitionGenesis { stream: format!("file-{n}"), leader_epoch: -1, ..Default::default() };
    let mut partitions: Vec<PartitionGenesis> = (0..20_000).map(named).collect();
    partitions.push(named(0));
    let twice = Genesis { partitions: partitions.clone(), ..Default::default() };
    assert_eq!(rule(w.push(Body::Genesis(twice))), "C1");
    partitions.pop();
    w.push(Body::Genesis(Genesis { partitions, ..Default::default() })).expect("each has one beginning");
}
