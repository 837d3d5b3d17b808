use super::*;

#[test]
fn names_of_every_allowed_kind_are_keys() {
    for text in ["a", "A.b_c=d-e/0", "lane=0/journal/00000000000000000007", "-", "a..b", "a."] {
        assert_eq!(Key::new(text).expect("allowed").as_str(), text);
    }
}

#[test]
fn names_that_could_leave_the_store_are_refused() {
    for text in ["..", ".", "../a", "a/../b", "a/./b", "a/.tmp"] {
        assert!(matches!(Key::new(text), Err(KeyError::LeadingDot { .. })), "`{text}`");
    }
    for text in ["", "/", "/a", "a/", "a//b"] {
        assert!(matches!(Key::new(text), Err(KeyError::EmptySegment { .. })), "`{text}`");
    }
    for text in ["a b", "a\\b", "a\0b", "C:", "é", "a\nb", "%2e", "~"] {
        assert!(matches!(Key::new(text), Err(KeyError::Character { .. })), "`{text}`");
    }
}

#[test]
fn lengths_are_bounded_to_the_byte() {
    assert!(Key::new("a".repeat(SEGMENT_BYTES_MAX)).is_ok());
    assert!(matches!(Key::new("a".repeat(SEGMENT_BYTES_MAX + 1)), Err(KeyError::TooLong { .. })));
    let long = |bytes| {
        "a".repeat(100) + &("/".to_owned() + &"b".repeat(99)).repeat(6) + "/" + &"c".repeat(bytes - 701)
    };
    assert_eq!(long(KEY_BYTES_MAX).len(), KEY_BYTES_MAX);
    assert!(Key::new(long(KEY_BYTES_MAX)).is_ok());
    assert!(matches!(Key::new(long(KEY_BYTES_MAX + 1)), Err(KeyError::TooLong { .. })));
    assert!(Key::new(["a"; SEGMENTS_MAX].join("/")).is_ok());
    assert!(matches!(Key::new(["a"; SEGMENTS_MAX + 1].join("/")), Err(KeyError::TooLong { .. })));
}

#[test]
fn the_error_of_a_huge_key_is_short() {
    let error = Key::new("x".repeat(1 << 20)).expect_err("too long");
    assert!(error.to_string().len() < 300, "{error}");
}

#[test]
fn a_prefix_holds_what_is_below_it_and_not_what_looks_alike() {
    let key = |text: &str| Key::new(text).expect("a key");
    let prefix = Prefix::new("a/b/").expect("a prefix");
    assert!(prefix.contains(&key("a/b/c")));
    assert!(prefix.contains(&key("a/b/c/d")));
    assert!(!prefix.contains(&key("a/b")));
    assert!(!prefix.contains(&key("a/b-c/d")));
    assert!(!prefix.contains(&key("a/bb/c")));
    assert!(Prefix::root().contains(&key("a")));
    assert_eq!(key("a/b/c").folder(), prefix);
    assert_eq!(key("a").folder(), Prefix::root());
    assert_eq!(prefix.join("c").expect("a key"), key("a/b/c"));
    assert!(Prefix::new("/").is_err());
}
