use super::*;

#[test]
fn the_servers_words_name_the_setting_where_a_code_has_several() {
    for (code, text, setting) in [
        (158, "Limit for rows to read exceeded", "max_rows_to_read"),
        (161, "Limit for number of columns to read exceeded", "max_columns_to_read"),
        (396, "Limit for result exceeded, max rows: 1.00, current rows: 2.00", "max_result_rows"),
        (396, "Limit for result exceeded, max bytes: 1.00 B, current bytes: 2.00 B", "max_result_bytes"),
        (
            62,
            "Max query size exceeded (can be increased with the `max_query_size` setting)",
            "max_query_size",
        ),
        (719, "The query result was not cached", "use_query_cache"),
        (452, "Code: 452. DB::Exception: Setting final should not be changed.", "final"),
        (452, "Setting max_threads shouldn't be greater than 3", "max_threads"),
    ] {
        assert_eq!(limit(code, text).map(|limit| limit.setting), Some(setting), "{text}");
    }
    for (code, text) in [(62, "Syntax error: failed at position 1"), (241, "memory"), (452, "?")] {
        assert_eq!(limit(code, text), None, "{text}");
    }
}

#[test]
fn the_way_out_is_a_statement_that_a_server_parses() {
    for (code, text) in [(719, ""), (277, "Index `i` is not used, force_data_skipping_indices")] {
        let way = limit(code, text).unwrap().way("writer");
        assert!(crate::testing::is_parsed_by_a_server(&way), "{way}");
    }
    let constraint = limit(452, "Setting final should not be changed").unwrap().way("");
    assert!(constraint.starts_with("a constraint on the setting `final` forbids it to user `default`"));
}
