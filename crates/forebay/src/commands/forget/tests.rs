use super::*;

#[test]
fn a_partition_is_named_by_its_topic_and_number() {
    let named =
        |stream: &str, index| Ok(Named { input: None, stream: Some(stream.into()), index: Some(index) });
    assert_eq!(partition("orders/3"), named("orders", 3));
    assert_eq!(partition("a/b/0"), named("a/b", 0));
    for wrong in ["orders", "/3", "orders/", "orders/x", "orders/-1"] {
        assert!(partition(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn replays_that_wait_are_read_before_their_carrier_or_a_position_is_forgotten() {
    let leaving = |stream: &str| Leaving {
        partitions: vec![Left { partition: Partition::new(stream, 0), next: 5 }],
        inserts: 0,
    };
    let refused = |waiting, from_start, stream| refused_for_replays(waiting, from_start, &leaving(stream));
    for (from_start, stream) in [(true, replays::STREAM), (false, replays::STREAM), (true, "orders")] {
        let why = refused(3, from_start, stream).expect("they wait");
        assert!(why.contains("`forebay run FILE --drain`"), "{why}");
        assert_eq!(refused(0, from_start, stream), None);
    }
    assert_eq!(refused(3, false, "orders"), None, "each is read once");
}
