use super::*;

#[test]
fn a_name_holds_the_topic_and_the_version_whatever_these_are() {
    for (version, shown) in [
        (3_u64.to_be_bytes().to_vec(), "a/b/c:3"),
        (u64::MAX.to_be_bytes().to_vec(), "a/b/c:18446744073709551615"),
        (vec![1, 0xab], "a/b/c:0x01ab"),
    ] {
        assert_eq!(&*name("a/b/c", &version), shown);
        assert_eq!(parsed(shown), Some(("a/b/c".into(), version)));
    }
    assert_eq!(parsed("a/b/c:d:1").map(|(topic, _)| topic).as_deref(), Some("a/b/c:d"));
    for none in ["", "a/b/c", "a/b/c:", "a/b/c:x", "a/b/c:0x1", "a/b/c:0xzz", "a/b/c:0xéé", "a/b/c:-1"] {
        assert_eq!(parsed(none), None, "{none}");
    }
}

#[test]
fn messages_without_a_version_have_no_schema() {
    let mut naming = Naming::new("a/b/c".into());
    let mut named = |version: &[u8]| naming.of(version).map(|name| name.to_string());
    assert_eq!(named(&[]), None);
    assert_eq!(named(&1_u64.to_be_bytes()).as_deref(), Some("a/b/c:1"));
    assert_eq!(named(&1_u64.to_be_bytes()).as_deref(), Some("a/b/c:1"));
    assert_eq!(named(&[]), None);
    assert_eq!(named(&[7; VERSION_BYTES_MAX + 1]), None);
    assert_eq!(named(&2_u64.to_be_bytes()).as_deref(), Some("a/b/c:2"));
}

#[test]
fn a_kind_and_its_number_agree() {
    for number in 0..30 {
        assert_eq!(SchemaKind::of(number).number(), number);
    }
    assert_eq!((SchemaKind::of(4), SchemaKind::of(2)), (SchemaKind::Avro, SchemaKind::Json));
}
