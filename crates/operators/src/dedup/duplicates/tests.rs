use super::*;

fn push(newest: &mut Newest, partition: &Partition, hash: u128, bucket: i64, position: u64) {
    newest.extend(partition, 0, &[(hash, bucket, position)]);
}

#[test]
fn copies_of_a_key_are_named_once_and_those_far_away_in_time_are_not() {
    let (a, b) = (Partition::new("t", 0), Partition::new("t", 1));
    let mut newest = Newest::default();
    push(&mut newest, &a, 1, 100, 7);
    push(&mut newest, &a, 2, 100, 8);
    push(&mut newest, &b, 1, 101, 9);
    push(&mut newest, &b, 1, 100_000, 10);
    let mut duplicates = Duplicates::default();
    newest.take(1, 100, &mut duplicates);
    assert_eq!(duplicates, Duplicates { count: 2, places: vec![(a.clone(), 7), (b.clone(), 9)] });
    let mut again = Duplicates::default();
    newest.take(1, 100, &mut again);
    assert_eq!(again.count, 0, "each copy is lost once");
    newest.take(2, 100, &mut again);
    newest.take(1, 100_000, &mut again);
    assert_eq!((again.count, newest.held, newest.groups.len()), (2, 0, 0));
}

#[test]
fn the_memory_of_copies_is_bounded_and_keeps_the_newest() {
    let mut newest = Newest::default();
    for n in 0..HELD_MAX as u64 + 10 {
        push(&mut newest, &Partition::new("t", (n % 2) as u32), u128::from(n), 0, n);
    }
    assert_eq!(newest.held, HELD_MAX);
    let mut duplicates = Duplicates::default();
    newest.take(9, 0, &mut duplicates);
    assert_eq!(duplicates.count, 0, "the oldest are forgotten");
    newest.take(10, 0, &mut duplicates);
    assert_eq!(duplicates.count, 1);
    assert!(newest.memory_bytes() < HELD_MAX * 400, "{}", newest.memory_bytes());
}

#[test]
fn the_memory_of_one_partitions_copies_is_their_bound() {
    let mut newest = Newest::default();
    (0..HELD_MAX as u64 * 2).for_each(|n| push(&mut newest, &Partition::new("t", 0), u128::from(n), 0, n));
    assert!(newest.memory_bytes() <= HELD_MAX * 28, "{}", newest.memory_bytes());
}

#[test]
fn more_at_once_than_is_held_leaves_the_newest() {
    let mut newest = Newest::default();
    let records = |from: u64, len: u64| (0..len).map(|n| (u128::from(n), 0, n + from)).collect::<Vec<_>>();
    newest.extend(&Partition::new("t", 0), 0, &records(0, HELD_MAX as u64));
    newest.extend(&Partition::new("t", 0), 0, &records(1_000_000, HELD_MAX as u64 + 5));
    assert_eq!(newest.held, HELD_MAX);
    let mut duplicates = Duplicates::default();
    newest.take(4, 0, &mut duplicates);
    assert_eq!(duplicates.count, 0);
    newest.take(5, 0, &mut duplicates);
    assert_eq!(duplicates.places, [(Partition::new("t", 0), 1_000_005)]);
}

#[test]
fn records_far_apart_are_named_right() {
    let (partition, mut newest) = (Partition::new("t", 0), Newest::default());
    let far =
        [(1, i64::MIN + 1, 5), (2, i64::MAX - 1, 6), (3, -1, u64::MAX), (4, -1, 0), (5, 1 << 40, 1 << 40)];
    newest.extend(&partition, 0, &far);
    for (hash, bucket, position) in far {
        let mut duplicates = Duplicates::default();
        newest.take(hash, bucket, &mut duplicates);
        assert_eq!(duplicates.places, [(partition.clone(), position.into())]);
    }
}

#[test]
fn records_that_lie_far_apart_by_turns_take_no_more_memory_than_single_ones() {
    let mut newest = Newest::default();
    let far = |n: u64| (u128::from(n), if n.is_multiple_of(2) { i64::MIN } else { 100 }, n);
    newest.extend(&Partition::new("t", 0), 0, &(0..10_000).map(far).collect::<Vec<_>>());
    assert_eq!(newest.held, 10_000);
    assert!(newest.memory_bytes() < 10_000 * 400, "{}", newest.memory_bytes());
}
