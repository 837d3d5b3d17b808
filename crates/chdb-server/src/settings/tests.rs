use super::*;

fn pair(name: &str) -> (String, String) {
    (name.to_owned(), "1".to_owned())
}

#[test]
fn an_unknown_setting_is_refused_with_the_nearest_known_name() {
    let known = Known::from_lines("max_threads\ninsert_deduplication_token\n");
    assert_eq!(known.check(&[pair("max_threads")]), Ok(()));
    let failure = known.check(&[pair("max_threads"), pair("insert_dedup_token")]).unwrap_err();
    assert_eq!((failure.code, failure.status.as_u16()), (115, 404));
    let failure = known.check(&[pair("insert_deduplication_tokn")]).unwrap_err();
    assert!(failure.text.contains("maybe you meant `insert_deduplication_token`"), "{}", failure.text);
}

#[test]
fn values_are_quoted() {
    assert_eq!(set_statement(&[("a".to_owned(), "it's \\ \n".to_owned())]), r"SET a = 'it\'s \\ \n'");
    assert_eq!(identifier("a`b"), r"`a\`b`");
}
