use super::*;

fn of() -> Of {
    Of { partitions_max: 1, seconds: 175, question_seconds: 30, zone: "UTC".into(), shared: false }
}

fn shown(value: &str) -> Shown {
    Shown { value: value.into(), ..Shown::default() }
}

/// A server with every setting that we know, at values that are not ours.
fn every() -> Known {
    let settings = Known::names().map(|name| (name.to_owned(), shown("other"))).collect();
    Known { user: "writer".into(), settings }
}

fn value<'a>(named: &'a [(&'static str, String)], name: &str) -> Option<&'a str> {
    named.iter().find(|(n, _)| *n == name).map(|(_, v)| v.as_str())
}

#[test]
fn every_setting_that_the_guarantee_rests_on_is_named() {
    let named = every().insert(&of());
    for (name, wanted) in [
        ("async_insert", "0"),
        ("wait_for_async_insert", "1"),
        ("async_insert_max_data_size", "1"),
        ("insert_deduplicate", "1"),
        ("deduplicate_insert", "enable"),
        ("deduplicate_blocks_in_dependent_materialized_views", "1"),
        ("use_strict_insert_block_limits", "0"),
        ("max_insert_block_size_bytes", "0"),
        ("input_format_connection_handling", "0"),
        ("max_partitions_per_insert_block", "1"),
        ("session_timezone", "UTC"),
        ("max_execution_time", "175"),
        ("replace_running_query", "0"),
        ("input_format_defaults_for_omitted_fields", "1"),
        // Each of these was seen to lose rows of a view's target without an error.
        ("limit", "0"),
        ("offset", "0"),
        ("additional_result_filter", ""),
        ("additional_table_filters", "{}"),
        ("group_by_overflow_mode", "throw"),
        ("join_overflow_mode", "throw"),
        ("set_overflow_mode", "throw"),
        ("read_overflow_mode_leaf", "throw"),
    ] {
        assert_eq!(value(&named, name), Some(wanted), "{name}");
    }
    assert_eq!(value(&named, "insert_deduplication_token"), None, "it comes with the attempt");
    assert_eq!(value(&named, "insert_quorum"), None, "it is left to the profile");
}

#[test]
fn a_setting_that_the_server_does_not_have_is_not_named() {
    let mut old = every();
    for name in ["deduplicate_insert", "use_strict_insert_block_limits", "session_timezone"] {
        old.settings.remove(name);
        assert!(!old.has(name));
        assert_eq!(value(&old.insert(&of()), name), None, "{name}");
    }
    assert_eq!(old.faults(&of(), (23, 3)), []);
    assert_eq!(value(&old.insert(&of()), "insert_deduplicate"), Some("1"));
}

#[test]
fn a_profile_that_forbids_a_setting_is_refused_with_the_statement() {
    let mut known = every();
    known.settings.insert("deduplicate_insert".into(), Shown { fixed: true, ..shown("disable") });
    known.settings.insert("async_insert".into(), Shown { min: Some("1".into()), ..shown("1") });
    known.settings.insert("insert_deduplicate".into(), Shown { fixed: true, ..shown("1") });
    let faults: Vec<String> = known.faults(&of(), (26, 2)).iter().map(Fault::to_string).collect();
    assert_eq!(faults.len(), 2, "a fixed value that is ours is no fault: {faults:?}");
    assert!(
        faults[0].starts_with("the profile of user `writer` keeps at `1` or more the setting `async_insert`")
    );
    assert!(
        faults[0].ends_with("fix it with: ALTER USER `writer` MODIFY SETTING async_insert = 0"),
        "{}",
        faults[0]
    );
    assert!(faults[1].contains("fixes at `disable` the setting `deduplicate_insert`"), "{}", faults[1]);
    assert!(faults[1].ends_with("MODIFY SETTING deduplicate_insert = 'enable'"), "{}", faults[1]);
    assert!(faults.iter().all(|fault| crate::testing::is_parsed_by_a_server(fault)), "{faults:?}");
    // Before 24.12 the statement replaces the other settings, and says so.
    let faults: Vec<String> = known.faults(&of(), (24, 8)).iter().map(Fault::to_string).collect();
    assert!(faults[0].contains("SETTINGS async_insert = 0 /* repeat"), "{}", faults[0]);
    assert!(crate::testing::is_parsed_by_a_server(&faults[0]), "{}", faults[0]);
}

#[test]
fn a_user_that_only_reads_is_one_fault_and_not_one_for_each_setting() {
    let mut known = every();
    known.settings.values_mut().for_each(|shown| shown.fixed = true);
    known.settings.insert("readonly".into(), Shown { fixed: true, ..shown("1") });
    let faults: Vec<String> = known.faults(&of(), (26, 2)).iter().map(Fault::to_string).collect();
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(
        faults[0].ends_with("fix it with: ALTER USER `writer` MODIFY SETTING readonly = 0"),
        "{}",
        faults[0]
    );
    assert!(crate::testing::is_parsed_by_a_server(&faults[0]), "{}", faults[0]);
}

#[test]
fn a_lower_limit_of_time_is_obeyed() {
    let mut known = every();
    let limits = Shown { max: Some("60".into()), ..shown("30") };
    known.settings.insert("max_execution_time".into(), limits);
    assert_eq!(value(&known.insert(&of()), "max_execution_time"), Some("60"));
    assert_eq!(known.faults(&of(), (26, 2)), []);
    let limits = Shown { max: Some("1".into()), ..shown("1") };
    known.settings.insert("max_insert_block_size".into(), limits);
    let fault = known.faults(&of(), (26, 2)).pop().expect("a block would be cut").to_string();
    assert!(fault.contains("keeps at `1` or less the setting `max_insert_block_size`"), "{fault}");
}

#[test]
fn a_setting_that_can_only_refuse_a_question_is_left_where_it_is_forbidden() {
    let mut known = every();
    assert_eq!(value(&known.look(&of()), "max_rows_to_read"), Some("0"));
    let fixed = Shown { fixed: true, ..shown("1000000") };
    known.settings.insert("max_rows_to_read".into(), fixed);
    assert_eq!(value(&known.look(&of()), "max_rows_to_read"), None);
    assert_eq!(known.faults(&of(), (26, 2)), []);
}

#[test]
fn an_empty_answer_to_a_count_is_ruled_out_by_settings() {
    let named = every().look(&of());
    for name in ["empty_result_for_aggregation_by_empty_set", "limit", "offset", "use_query_cache", "final"] {
        assert_eq!(value(&named, name), Some("0"), "{name}");
    }
    for name in ["read_overflow_mode", "read_overflow_mode_leaf", "timeout_overflow_mode_leaf"] {
        assert_eq!(value(&named, name), Some("throw"), "{name}: a count would be that of the rows so far");
    }
    assert_eq!(value(&named, "select_sequential_consistency"), Some("0"));
    let shared = every().look(&Of { shared: true, ..of() });
    assert_eq!(value(&shared, "select_sequential_consistency"), Some("1"));
}

/// Whoever asked for the same value before may have seen fewer rows, by a policy or by changes that are applied while they are read.
#[test]
fn no_question_takes_rows_for_absent_that_somebody_else_did_not_see() {
    for named in [every().look(&of()), every().ask()] {
        assert_eq!(value(&named, "use_query_condition_cache"), Some("0"));
    }
    let mut old = every();
    old.settings.remove("use_query_condition_cache");
    assert_eq!(value(&old.look(&of()), "use_query_condition_cache"), None);
}

#[test]
fn the_first_questions_name_what_every_version_has() {
    let named = first(30);
    for (name, wanted) in [
        ("use_query_cache", "0"),
        ("max_columns_to_read", "0"),
        ("max_execution_time", "30"),
        ("additional_result_filter", ""),
        ("result_overflow_mode", "throw"),
    ] {
        assert_eq!(value(&named, name), Some(wanted), "{name}");
    }
    for name in ["enable_parallel_replicas", "select_sequential_consistency", "session_timezone"] {
        assert_eq!(
            value(&named, name),
            None,
            "{name}: not of every version, or not the same for every table"
        );
    }
}

#[test]
fn a_table_is_read_with_what_may_be_set_and_then_refused_for_the_rest() {
    let mut known = every();
    known.settings.insert("final".into(), Shown { fixed: true, ..shown("1") });
    known.settings.insert("max_execution_time".into(), Shown { max: Some("3".into()), ..shown("3") });
    assert_eq!(value(&known.look(&of()), "final"), Some("0"));
    let allowed = known.look_as_allowed(&of());
    assert_eq!((value(&allowed, "final"), value(&allowed, "limit")), (None, Some("0")));
    assert_eq!(value(&allowed, "max_execution_time"), Some("3"), "a lower limit of time is obeyed");
    assert_eq!(known.faults(&of(), (26, 2)).len(), 1);
    assert_eq!(value(&known.make(), "data_type_default_nullable"), Some("0"));
}

#[test]
fn no_setting_is_named_twice_and_each_has_a_reason() {
    for pins in [INSERT, LOOK, MAKE] {
        let names: std::collections::BTreeSet<&str> = pins.iter().map(|pin| pin.name).collect();
        assert_eq!(names.len(), pins.len());
        assert!(pins.iter().all(|pin| !pin.why.is_empty() && pin.since >= VERSION_MIN));
    }
}

/// `FOREBAY_WRITE=1 cargo test -p clickhouse --lib the_page_of_settings` writes the page again.
#[test]
fn the_page_of_settings_is_the_table_in_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/insert-settings.md");
    if std::env::var_os("FOREBAY_WRITE").is_some() {
        std::fs::write(path, page()).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(written, page(), "`docs/reference/insert-settings.md` is stale: see this test's comment");
}
