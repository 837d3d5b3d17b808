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
