use super::*;

#[test]
fn a_word_a_time_and_positions_are_told_apart() {
    let to = |text: &str| text.parse::<To>();
    assert_eq!(to("earliest"), Ok(To::Start(Start::Earliest)));
    assert_eq!(to("latest"), Ok(To::Start(Start::Latest)));
    assert_eq!(to("1970-01-01T00:00:01Z"), Ok(To::Start(Start::At { ms: 1_000 })));
    let positions = vec![("a/b".to_owned(), 0, 12), ("c".to_owned(), 3, dataflow::position::position(7, 9))];
    assert_eq!(to("a/b/0=12,c/3=7:9"), Ok(To::Positions(positions)));
    for wrong in ["soon", "a=1", "a/x=1", "a/1=", "/1=2", "a/1=2,", "2026-01-31"] {
        assert!(to(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_position_that_is_not_held_is_refused_with_those_that_are() {
    let partition = Partition::new("a", 0);
    let start = PartitionStart { partition, identity: String::new(), first: 10, next: 15, leader_epoch: 4 };
    let to = |text: &str| target(&start, Some(20), &text.parse().expect("a target"));
    let next =
        |text: &str| to(text).map(|target| target.map(|target| (target.next, target.leader_epoch))).ok();
    assert_eq!(next("earliest"), Some(Some((10, -1))));
    assert_eq!(next("latest"), Some(Some((20, -1))));
    assert_eq!(next("2026-01-31T08:00:00Z"), Some(Some((15, 4))));
    assert_eq!((next("a/0=20"), next("a/1=12")), (Some(Some((20, -1))), Some(None)));
    let refused = to("a/0=9").expect_err("retention took it").to_string();
    assert!(refused.contains("from 10 to 20"), "{refused}");
}

#[test]
fn only_partitions_that_positions_name_are_asked_for() {
    let of = |stream: &str, index: u32, input: u32| Partition::new(stream, index).of_input(input);
    // A topic, and a file, whose positions cannot be given.
    let meant = [of("orders", 0, 0), of("orders", 1, 0), of("returns.jsonl", 0, 1)];
    let to = |text: &str| text.parse::<To>().expect("a place");
    assert_eq!(moved_of(&meant, 0, &to("orders/1=5")), [&meant[1]]);
    assert!(moved_of(&meant, 1, &to("orders/1=5")).is_empty());
    assert_eq!(moved_of(&meant, 0, &to("earliest")), [&meant[0], &meant[1]]);
    assert_eq!(moved_of(&meant, 1, &to("earliest")), [&meant[2]]);
}
