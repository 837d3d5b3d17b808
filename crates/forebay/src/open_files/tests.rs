use super::*;

#[test]
fn the_limit_of_open_files_is_what_the_system_allows() {
    raise();
    let limit = limit().expect("it is known");
    assert_eq!(limit.rlim_cur, limit.rlim_max);
    raise();
}

#[test]
fn a_limit_below_what_the_settings_ask_for_is_told_with_the_way_out() {
    assert_eq!(lack_of(1_024, Some(1_024 + OTHERS)), None);
    assert_eq!(lack_of(u64::MAX, None), None, "there is no limit");
    let told = lack_of(10_000, Some(1_024)).expect("it is too low");
    for words in [
        "up to 10000",
        "may have 1024 files open",
        "LimitNOFILE=10128",
        "`ulimit -n 10128`",
        "lower `connections`",
    ] {
        assert!(told.contains(words), "{told}");
    }
}
