use super::*;

#[test]
fn no_crate_of_the_lock_file_has_a_known_advisory() {
    run().expect("no advisory");
}

#[test]
fn a_version_is_affected_unless_an_alternative_holds() {
    let list = List::parse("as-of 2026-01-31\nR-1 a >=2.0.1; >=1.5.2, <1.6.0; <0.2.0\n").expect("a list");
    let lock = |version: &str| format!("[[package]]\nname = \"a\"\nversion = \"{version}\"\n");
    for (version, affected) in [
        ("2.0.0", true),
        ("2.0.1", false),
        ("10.0.0+build", false),
        ("1.5.1", true),
        ("1.5.2", false),
        ("1.6.0", true),
        ("0.1.9", false),
        ("0.2.0", true),
    ] {
        assert_eq!(!list.affected(&lock(version)).is_empty(), affected, "{version}");
    }
    assert!(list.affected("[[package]]\nname = \"ab\"\nversion = \"2.0.0\"\n").is_empty(), "another crate");
}

#[test]
fn an_old_list_is_a_warning_and_no_failure() {
    let list = List::parse("as-of 2026-03-01\n").expect("a list");
    assert_eq!(days("1970-01-01"), Some(0));
    assert_eq!(days("2026-03-01"), Some(20_513));
    assert!(list.warning(20_513 + AGE_DAYS_MAX).is_none());
    assert!(list.warning(20_513 + AGE_DAYS_MAX + 1).expect("old").contains("121 days"));
}

#[test]
fn a_list_that_cannot_be_read_is_an_error() {
    for text in
        ["", "R-1 a >=1.0.0", "as-of yesterday", "as-of 2026-01-31\nR-1 a ~1.0.0", "as-of 2026-01-31\nR-1"]
    {
        assert!(List::parse(text).is_err(), "{text}");
    }
}
