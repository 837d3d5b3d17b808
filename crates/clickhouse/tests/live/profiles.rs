//! What profiles, constraints and users that only read do to polls, probes and inserts, by ClickHouse's own engine.
//!
//! Values of a profile come by a proxy that adds them to each request that does not name them, which is what a profile does; constraints are those
//! of a profile in the engine's own `users.xml`.

use super::*;

/// A table that an open creates.
fn created(name: &str) -> TableConfig {
    TableConfig {
        provenance: true,
        create: Some(CreateTable {
            columns: vec![("n".into(), "Int32".into()), ("v".into(), "Int32 MATERIALIZED 7".into())],
            order_by: "n".into(),
            partition_by: String::new(),
        }),
        ..TableConfig::new("default", name)
    }
}

/// Opens the table through the proxy, writes a frame twice, and looks for it and for one that was never sent.
async fn is_written_once(server: &ClickHouse, proxy: &FaultProxy, name: &str) -> Result<(), String> {
    let opened =
        ClickHouseTable::open(ServerConfig::new(proxy.url()), created(name), RealTime::shared()).await;
    let table = opened.map_err(|faults| format!("{faults:?}"))?;
    let frame = frames(&table, &[batch(vec![("n", ints(0..10))])]).remove(0);
    let said = |error: dataflow::TableError| error.message;
    let absent = table.probe(frame.id, frame.rows, &frame.probe).await.map_err(said)?;
    for _ in 0..2 {
        send(&table, "a", &frame.body).await.map_err(|error| error.message)?;
    }
    let present = table.probe(frame.id, frame.rows, &frame.probe).await.map_err(said)?;
    let sql = format!("SELECT count(), sum(v), toTypeName(any(n)) FROM {name}");
    let seen = (absent, present, server.query(&sql).map_err(|error| error.to_string())?);
    let wanted = (Presence::None, Presence::All, "10\t70\tInt32\n".to_owned());
    if seen == wanted { Ok(()) } else { Err(format!("{seen:?}")) }
}

#[tokio::test]
async fn no_value_of_a_profile_changes_what_is_seen_or_written() {
    if start().is_none() {
        return;
    }
    // Otherwise this server refuses a request with a filter in it.
    let options = ClickHouseOptions::default().binary(std::env::var("FOREBAY_SERVER_BIN").unwrap());
    let server = ClickHouse::start(options.arg("--allow-files-and-network")).unwrap();
    let proxy = FaultProxy::start(&server.url()).unwrap();
    let profiles: &[&[(&str, &str)]] = &[
        &[],
        &[("use_query_cache", "1")],
        &[("limit", "1")],
        &[("offset", "1")],
        &[("final", "1")],
        &[("additional_result_filter", "0")],
        &[("additional_table_filters", "{'system.settings':'0','system.tables':'0','system.columns':'0'}")],
        &[("max_columns_to_read", "1")],
        &[("max_temporary_columns", "1")],
        &[("max_temporary_non_const_columns", "1")],
        &[("max_result_rows", "1"), ("result_overflow_mode", "break")],
        &[("max_result_bytes", "1")],
        &[("max_rows_to_read", "1"), ("read_overflow_mode", "break")],
        &[("max_rows_to_read_leaf", "1"), ("read_overflow_mode_leaf", "break")],
        &[("max_rows_to_group_by", "1"), ("group_by_overflow_mode", "any")],
        &[("max_rows_in_set", "1"), ("set_overflow_mode", "break")],
        &[("max_execution_time", "0.000001"), ("timeout_overflow_mode", "break")],
        &[("max_execution_time", "0.000001")],
        &[("min_execution_speed", "1000000000000"), ("timeout_before_checking_execution_speed", "0")],
        &[("aggregate_functions_null_for_empty", "1")],
        &[("empty_result_for_aggregation_by_empty_set", "1")],
        &[("extremes", "1")],
        &[("send_progress_in_http_headers", "1")],
        &[("http_write_exception_in_output_format", "1")],
        &[("force_primary_key", "1")],
        &[("max_partitions_to_read", "1")],
        &[("max_subquery_depth", "1")],
        &[("http_native_compression_disable_checksumming_on_decompress", "1")],
        &[("force_optimize_projection", "1")],
        &[("output_format_json_quote_64bit_integers", "1")],
        &[("output_format_json_named_tuples_as_objects", "1")],
        &[("output_format_json_escape_forward_slashes", "0"), ("output_format_json_quote_denormals", "1")],
        &[("date_time_output_format", "iso"), ("session_timezone", "Asia/Tokyo")],
        &[("join_use_nulls", "1"), ("transform_null_in", "1"), ("group_by_use_nulls", "1")],
        &[("async_insert", "1"), ("wait_for_async_insert", "0")],
        &[("insert_deduplicate", "0")],
        &[("data_type_default_nullable", "1")],
        &[("input_format_force_null_for_omitted_fields", "1")],
        &[("enable_analyzer", "0")],
        &[("select_sequential_consistency", "1"), ("enable_parallel_replicas", "1")],
        &[("compatibility", "23.3")],
    ];
    let mut failed = Vec::new();
    for (n, profile) in profiles.iter().enumerate() {
        proxy.profile(profile);
        if let Err(why) = is_written_once(&server, &proxy, &format!("profile_{n}")).await {
            failed.push(format!("{profile:?}: {why}"));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// What chproxy passes on. The token of an insert is not among it.
#[tokio::test]
async fn a_proxy_that_drops_the_parameters_of_requests_is_refused() {
    let server = server_or_skip!();
    let proxy = FaultProxy::start(&server.url()).unwrap();
    let table = ClickHouseTable::open(ServerConfig::new(proxy.url()), created("dropped"), RealTime::shared());
    let table = table.await.unwrap();
    table.see().await.unwrap();
    proxy.pass_parameters(|name| {
        let passed = [
            "query",
            "database",
            "default_format",
            "compress",
            "decompress",
            "session_id",
            "session_timeout",
        ];
        passed.contains(&name) || name.starts_with("param_")
    });
    let error = table.see().await.unwrap_err();
    assert!(error.remedy == Remedy::Stop && error.message.contains("do not reach the server"), "{error}");
}

/// A cache before the server answers a poll with the answer to an earlier one.
#[tokio::test]
async fn an_earlier_answer_is_not_taken_for_that_of_a_poll() {
    let server = server_or_skip!();
    let proxy = FaultProxy::start(&server.url()).unwrap();
    let table = ClickHouseTable::open(ServerConfig::new(proxy.url()), created("kept"), RealTime::shared());
    let table = table.await.unwrap();
    table.see().await.unwrap();
    let earlier =
        "[1700000000123,77,\"u\",[[\"id\",\"['/p']\"]],[],null,[],[],0,[0,0,0],0,null,\"look-1-0\"]\n";
    let kept = testkit::Answer::new(200, earlier).header("X-ClickHouse-Query-Id", "x");
    proxy.add(Rule::always(Trouble::Answer(kept)).query("uptime()"));
    let error = table.see().await.unwrap_err();
    assert!(error.remedy == Remedy::Resend && error.message.contains("an earlier one"), "{error}");
}

/// These are read before the request's own values count, or forbid what a start cannot do without.
#[tokio::test]
async fn a_profile_that_no_request_can_mend_is_a_fault_with_the_statement() {
    let server = server_or_skip!();
    let proxy = FaultProxy::start(&server.url()).unwrap();
    for (name, value, mended) in [
        ("max_ast_elements", "10", "50000"),
        ("max_ast_depth", "2", "1000"),
        ("max_query_size", "100", "262144"),
        ("allow_ddl", "0", "1"),
    ] {
        proxy.profile(&[(name, value)]);
        let why = is_written_once(&server, &proxy, &format!("refused_{name}")).await.unwrap_err();
        let statement = format!("fix it with: ALTER USER `default` MODIFY SETTING {name} = {mended}");
        assert!(why.contains("remedy: Stop") && why.contains(&statement), "{name}: {why}");
        proxy.profile(&[(name, mended)]);
        is_written_once(&server, &proxy, &format!("mended_{name}")).await.unwrap();
    }
}

#[tokio::test]
async fn what_passes_by_itself_is_worth_asking_again() {
    let server = server_or_skip!();
    let proxy = FaultProxy::start(&server.url()).unwrap();
    for (code, kind) in
        [(241, "Overloaded"), (201, "Overloaded"), (202, "Overloaded"), (123_456, "Uncertain")]
    {
        let rule = proxy.add(Rule::always(Trouble::Answer(testkit::Answer::exception(500, code, "x"))));
        let why = is_written_once(&server, &proxy, "never").await.unwrap_err();
        assert!(why.contains("remedy: Resend") && why.contains(&format!("kind: {kind}")), "{code}: {why}");
        proxy.remove(rule);
    }
}

#[tokio::test]
async fn a_constraint_is_a_fault_that_names_the_setting_unless_it_can_only_refuse() {
    if start().is_none() {
        return;
    }
    let binary = std::env::var("FOREBAY_SERVER_BIN").unwrap();
    let with = |settings: &str, constraints: &str| {
        let profile = format!("{settings}<constraints>{constraints}</constraints>");
        ClickHouse::start(ClickHouseOptions::default().binary(&binary).profile(&profile)).unwrap()
    };
    let fixed = |name: &str| format!("<{name}><const/></{name}>");
    for (settings, constraints, said) in [
        ("<final>1</final>".to_owned(), fixed("final"), "fixes at `1` the setting `final`"),
        ("<extremes>1</extremes>".to_owned(), fixed("extremes"), "fixes at `1` the setting `extremes`"),
        ("<readonly>2</readonly>".to_owned(), String::new(), "MODIFY SETTING readonly = 0"),
    ] {
        let server = with(&settings, &constraints);
        let proxy = FaultProxy::start(&server.url()).unwrap();
        let why = is_written_once(&server, &proxy, "t").await.unwrap_err();
        assert!(why.contains(said) && why.contains("remedy: Stop"), "{said}: {why}");
    }
    // One server that forbids much of what the first questions name, at values that do no harm.
    let names = [
        "use_query_cache",
        "max_columns_to_read",
        "max_execution_time",
        "limit",
        "output_format_json_quote_64bit_integers",
    ];
    let constraints: String = names.iter().map(|name| fixed(name)).collect();
    let server = with(
        "<max_columns_to_read>100</max_columns_to_read><max_execution_time>160</max_execution_time>",
        &constraints,
    );
    let proxy = FaultProxy::start(&server.url()).unwrap();
    let why = is_written_once(&server, &proxy, "t").await.unwrap_err();
    assert!(why.contains("fixes at `160` the setting `max_execution_time`"), "{why}");
    let server = with("<max_columns_to_read>100</max_columns_to_read>", &fixed("max_columns_to_read"));
    let proxy = FaultProxy::start(&server.url()).unwrap();
    is_written_once(&server, &proxy, "t").await.unwrap();
}

/// The query of a view runs with the settings of the insert.
#[tokio::test]
async fn a_view_that_meets_a_limit_is_told_with_the_setting() {
    let server = server_or_skip!();
    let proxy = FaultProxy::start(&server.url()).unwrap();
    server.query("CREATE TABLE other (n Int32, a Int8, b Int8) ENGINE = MergeTree ORDER BY n").unwrap();
    server.query("INSERT INTO other SELECT number, 1, 2 FROM numbers(1000)").unwrap();
    server
        .query(
            "CREATE TABLE t (n Int32, _forebay UUID) ENGINE = MergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = 10000",
        )
        .unwrap();
    server
        .query(
            "CREATE TABLE target (n Int32, a Int8) ENGINE = MergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = 10000",
        )
        .unwrap();
    server
        .query("CREATE MATERIALIZED VIEW v TO target AS SELECT n, a + b AS a FROM t JOIN other USING (n) WHERE n IN (SELECT n FROM other)")
        .unwrap();
    for (n, (name, value)) in
        [("max_rows_to_read", "10"), ("max_columns_to_read", "1"), ("max_rows_in_set", "3")]
            .iter()
            .enumerate()
    {
        proxy.profile(&[(name, value)]);
        let opened = ClickHouseTable::open(
            ServerConfig::new(proxy.url()),
            TableConfig::new("default", "t"),
            RealTime::shared(),
        );
        let table = opened.await.unwrap_or_else(|faults| panic!("{faults:?}"));
        let frame = frames(&table, &[batch(vec![("n", ints(0..10))])]).remove(0);
        let token = format!("view-{n}");
        let error = send(&table, &token, &frame.body).await.unwrap_err();
        assert_eq!((error.kind, error.effect), (TableFault::View, Effect::Unknown), "{name}: {error:?}");
        let statement = format!("ALTER USER `default` MODIFY SETTING {name} = 0");
        assert!(error.message.contains(&statement), "{name}: {}", error.message);
        proxy.profile(&[(name, "0")]);
        send(&table, &token, &frame.body).await.unwrap();
    }
    assert_eq!(server.query("SELECT count() FROM target").unwrap(), "30\n");
}
