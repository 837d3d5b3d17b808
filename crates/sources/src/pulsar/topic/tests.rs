use super::*;

#[test]
fn a_topic_has_one_name_however_it_is_written() {
    for name in ["events", "persistent://public/default/events", "public/default/events"] {
        assert_eq!(full(name).as_deref(), Ok("public/default/events"), "{name}");
    }
    assert_eq!(full("persistent://a/b/c-partition-3").as_deref(), Ok("a/b/c-partition-3"));
}

#[test]
fn what_is_no_stored_topic_is_refused_with_the_way_out() {
    let why = full("non-persistent://public/default/events").expect_err("is not stored");
    assert!(why.contains("exactly once") && why.contains("persistent://"), "{why}");
    for name in ["persistent://shop/web/orders-.*", "^orders", "persistent://shop/web/*"] {
        let why = full(name).expect_err("is a pattern");
        assert!(why.contains("`topics`"), "{why}");
    }
    for name in
        ["", "a/b", "a/b/c/d", "a//c", "kafka://a/b/c", "persistent://events", "persistent://a/b/", "a\n"]
    {
        assert!(full(name).is_err(), "{name:?}");
    }
}

#[test]
fn partitions_have_names_of_their_own() {
    assert_eq!(of_partition("a/b/c", 7, true), "persistent://a/b/c-partition-7");
    assert_eq!(of_partition("a/b/c", 0, false), whole("a/b/c"));
}
