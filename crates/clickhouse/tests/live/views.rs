//! Materialized views, whose targets are written by the same insert.

use super::*;

#[tokio::test]
async fn a_views_target_is_seen_with_writers_of_its_own() {
    let server = server_or_skip!();
    let config = atomic(&server, "MergeTree ORDER BY n");
    server.query(&format!("CREATE TABLE a.target (n Int32) ENGINE = MergeTree ORDER BY n {WINDOW}")).unwrap();
    server.query("CREATE MATERIALIZED VIEW a.v1 TO a.target AS SELECT n FROM a.t").unwrap();
    server.query("CREATE MATERIALIZED VIEW a.v2 TO a.target AS SELECT n FROM a.t").unwrap();
    let table = open_with(&server, config).await.unwrap();
    let before = table.see().await.unwrap();
    let told = facts(&before);
    assert_eq!((told.view_blocks.len(), told.tokens_per_frame), (1, 2), "one target, fed twice");
    server.query("INSERT INTO a.target SELECT 1").unwrap();
    let after = table.see().await.unwrap();
    assert!(facts(&after).view_blocks[0] > told.view_blocks[0], "{before:?} {after:?}");
    assert_eq!(facts(&after).block_number, told.block_number);
}

/// A table with views that give out many blocks: of many groups, of several rows for each, in an order of its own, and one behind another.
async fn with_wide_views(server: &ClickHouse) {
    let tables = [
        "t (n Int32, _forebay UUID) ENGINE = MergeTree",
        "grouped (n Int32, c UInt64) ENGINE = MergeTree",
        "summed (n Int32, c UInt64) ENGINE = SummingMergeTree",
        "spread (n Int32) ENGINE = MergeTree",
        "ordered (n Int32) ENGINE = MergeTree PARTITION BY n % 3",
    ];
    for table in tables {
        // A target with partitions counts as a hundred tokens.
        server.query(&format!("CREATE TABLE {table} ORDER BY n {WINDOW}00")).unwrap();
    }
    for (target, select) in [
        ("grouped", "n, count() AS c FROM t GROUP BY n"),
        ("summed", "n % 10 AS n, sum(c) AS c FROM grouped GROUP BY n"),
        ("spread", "arrayJoin([n, -n]) AS n FROM t"),
        ("ordered", "n FROM t ORDER BY n DESC"),
    ] {
        server
            .query(&format!("CREATE MATERIALIZED VIEW {target}_view TO {target} AS SELECT {select}"))
            .unwrap();
    }
    server.query("SYSTEM STOP MERGES").unwrap();
}

/// Rows of each table of [`with_wide_views`], and parts.
fn wide(server: &ClickHouse) -> String {
    let rows = "SELECT (SELECT count() FROM t), (SELECT sum(c) FROM grouped), (SELECT sum(c) FROM summed), (SELECT count() FROM spread), \
                (SELECT count() FROM ordered)";
    let parts = "SELECT groupArray(n) FROM (SELECT toUInt32(count()) AS n FROM system.parts WHERE active AND rows > 0 GROUP BY table ORDER BY table)";
    server.query(rows).unwrap().replace('\t', " ").trim().to_owned()
        + " "
        + server.query(parts).unwrap().trim()
}

/// More groups than the server aggregates in one block.
#[tokio::test]
async fn an_insert_costs_one_token_in_the_target_of_a_view_however_many_blocks_its_query_gives_out() {
    const ROWS: i32 = 150_000;
    let server = server_or_skip!();
    with_wide_views(&server).await;
    let table = open(&server, "t").await;
    let frame = frames(&table, &[batch(vec![("n", ints(0..ROWS))])]).remove(0);
    for _ in 0..2 {
        send(&table, "a", &frame.body).await.unwrap();
    }
    // By table: grouped, ordered (three partitions), spread, summed, t.
    assert_eq!(wide(&server), "150000 150000 150000 300000 150000 [1,3,1,1,1]");
}

/// Of each setting that decides how a view's query is run, the extremes: the first insert and its resend meet different ones.
#[tokio::test]
async fn no_setting_of_a_profile_changes_what_an_insert_writes_to_views_or_how_many_tokens_it_costs() {
    let server = server_or_skip!();
    with_wide_views(&server).await;
    let proxy = FaultProxy::start(&server.url()).unwrap();
    let extremes: [(&str, &[&str]); 9] = [
        ("max_block_size", &["1", "7", "1000000000"]),
        ("min_insert_block_size_rows_for_materialized_views", &["1", "1000000000"]),
        ("min_insert_block_size_bytes_for_materialized_views", &["1", "100000000000"]),
        ("max_insert_threads", &["1", "16"]),
        ("max_threads", &["1", "16"]),
        ("parallel_view_processing", &["0", "1"]),
        ("optimize_on_insert", &["0", "1"]),
        ("group_by_two_level_threshold", &["1"]),
        ("max_bytes_before_external_group_by", &["1"]),
    ];
    let mut inserts = 0;
    for (name, values) in extremes {
        for value in values {
            proxy.profile(&[(name, value)]);
            let config = TableConfig::new("default", "t");
            let opened = ClickHouseTable::open(ServerConfig::new(proxy.url()), config, RealTime::shared());
            let table = opened.await.unwrap_or_else(|faults| panic!("{name}: {faults:?}"));
            let frame = frames(&table, &[batch(vec![("n", ints(0..1_000))])]).remove(0);
            let token = format!("{name}-{value}");
            send(&table, &token, &frame.body).await.unwrap();
            proxy.profile(&[]);
            send(&table, &token, &frame.body).await.unwrap();
            inserts += 1;
            let rows = inserts * 1_000;
            let (parts, of_three) = (inserts, inserts * 3);
            let wanted = format!(
                "{rows} {rows} {rows} {0} {rows} [{parts},{of_three},{parts},{parts},{parts}]",
                rows * 2
            );
            assert_eq!(wide(&server), wanted, "{name} = {value}");
        }
    }
}

#[tokio::test]
async fn a_view_that_fails_leaves_the_effect_unknown() {
    let server = server_or_skip!();
    server
        .query(&format!("CREATE TABLE t (n Int32, _forebay UUID) ENGINE = MergeTree ORDER BY n {WINDOW}"))
        .unwrap();
    server.query(&format!("CREATE TABLE target (n Int32) ENGINE = MergeTree ORDER BY n {WINDOW}")).unwrap();
    server.query("CREATE MATERIALIZED VIEW v TO target AS SELECT n + throwIf(n = 7) AS n FROM t").unwrap();
    let table = open(&server, "t").await;
    let frame = frames(&table, &[batch(vec![("n", ints(0..10))])]).remove(0);
    let error = send(&table, "a", &frame.body).await.unwrap_err();
    assert_eq!(
        (error.effect, error.remedy, error.kind),
        (Effect::Unknown, Remedy::Stop, TableFault::View),
        "{error}"
    );
    eprintln!(
        "after a view's failure the table has {} rows",
        server.query("SELECT count() FROM t").unwrap().trim()
    );
    server.query("ALTER TABLE v MODIFY QUERY SELECT n FROM t").unwrap();
    for _ in 0..2 {
        send(&table, "a", &frame.body).await.unwrap();
    }
    let counts = server.query("SELECT (SELECT count() FROM t), (SELECT count() FROM target)").unwrap();
    assert_eq!(counts, "10\t10\n", "once the view is mended the resend completes the frame, once");
}

#[tokio::test]
async fn a_view_that_was_not_seen_yet_or_is_named_far_back_leaves_the_effect_unknown() {
    let server = server_or_skip!();
    server
        .query(&format!("CREATE TABLE t (n Int32, _forebay UUID) ENGINE = MergeTree ORDER BY n {WINDOW}"))
        .unwrap();
    let before_the_view = open(&server, "t").await;
    // Longer than what is shown of an answer.
    let constraint = format!("n != 7 AND toString(n) != '{}'", "x".repeat(600));
    server
        .query(&format!(
            "CREATE TABLE target (n Int32, CONSTRAINT c CHECK {constraint}) ENGINE = MergeTree ORDER BY n {WINDOW}"
        ))
        .unwrap();
    server.query("CREATE MATERIALIZED VIEW v TO target AS SELECT n FROM t").unwrap();
    let with_the_view = open(&server, "t").await;
    for (token, table) in [("a", before_the_view), ("b", with_the_view)] {
        let frame = frames(&table, &[batch(vec![("n", ints(0..10))])]).remove(0);
        let error = send(&table, token, &frame.body).await.unwrap_err();
        assert_eq!((error.effect, error.kind), (Effect::Unknown, TableFault::View), "{error}");
        assert!(error.message.contains("view default.v failed"), "{error}");
    }
    assert_eq!(server.query("SELECT count() FROM t").unwrap(), "20\n", "both inserts have reached the table");
}

#[tokio::test]
async fn a_view_whose_target_has_too_many_partitions_goes_on_with_a_coarser_one() {
    let server = server_or_skip!();
    server
        .query(&format!("CREATE TABLE t (n Int32, _forebay UUID) ENGINE = MergeTree ORDER BY n {WINDOW}"))
        .unwrap();
    let target = |name: &str, by: u32| {
        let sql = format!(
            "CREATE TABLE {name} (n Int32) ENGINE = MergeTree PARTITION BY n % {by} ORDER BY n {WINDOW}0"
        );
        server.query(&sql).unwrap();
    };
    target("target", 150);
    server.query("CREATE MATERIALIZED VIEW v TO target AS SELECT n FROM t").unwrap();
    let table = open(&server, "t").await;
    let frame = frames(&table, &[batch(vec![("n", ints(0..300))])]).remove(0);
    let error = send(&table, "a", &frame.body).await.unwrap_err();
    assert_eq!((error.effect, error.kind), (Effect::Unknown, TableFault::View), "{error}");
    assert!(error.message.contains("give the target a coarser PARTITION BY"), "{error}");
    assert!(error.redacted().contains("give the target a coarser PARTITION BY"), "{}", error.redacted());
    server.query("DROP TABLE v").unwrap();
    server.query("DROP TABLE target").unwrap();
    target("target", 50);
    server.query("CREATE MATERIALIZED VIEW v TO target AS SELECT n FROM t").unwrap();
    let table = open(&server, "t").await;
    for _ in 0..2 {
        send(&table, "a", &frame.body).await.unwrap();
    }
    let counts = server.query("SELECT (SELECT count() FROM t), (SELECT count() FROM target)").unwrap();
    assert_eq!(counts, "300\t300\n", "the resend completes the frame, once");
}

#[tokio::test]
async fn a_view_with_a_hidden_target_is_found_in_a_database_that_shows_no_identities() {
    let server = server_or_skip!();
    server
        .query(&format!("CREATE TABLE t (n Int32, _forebay UUID) ENGINE = MergeTree ORDER BY n {WINDOW}"))
        .unwrap();
    server
        .query(&format!(
            "CREATE MATERIALIZED VIEW v ENGINE = MergeTree ORDER BY n {WINDOW} AS SELECT n FROM t"
        ))
        .unwrap();
    let table = open(&server, "t").await;
    let frame = frames(&table, &[batch(vec![("n", ints(0..10))])]).remove(0);
    for _ in 0..2 {
        send(&table, "a", &frame.body).await.unwrap();
    }
    assert_eq!(server.query("SELECT count() FROM v").unwrap(), "10\n");
}

#[tokio::test]
async fn a_known_token_without_rows_still_feeds_the_views() {
    let server = server_or_skip!();
    server
        .query(&format!("CREATE TABLE t (n Int32, _forebay UUID) ENGINE = MergeTree ORDER BY n {WINDOW}"))
        .unwrap();
    server.query(&format!("CREATE TABLE target (n Int32) ENGINE = MergeTree ORDER BY n {WINDOW}")).unwrap();
    let table = open(&server, "t").await;
    let frame = frames(&table, &[batch(vec![("n", ints(0..10))])]).remove(0);
    send(&table, "a", &frame.body).await.unwrap();
    // As a crash between the token's line and the rows leaves it: a lightweight DELETE keeps the token.
    server.query("DELETE FROM t WHERE 1").unwrap();
    server.query("CREATE MATERIALIZED VIEW v TO target AS SELECT n FROM t").unwrap();
    let table = open(&server, "t").await;
    let counts = || server.query("SELECT (SELECT count() FROM t), (SELECT count() FROM target)").unwrap();
    send(&table, "a", &frame.body).await.unwrap();
    assert_eq!(counts(), "0\t10\n", "the table knows the token, the target does not");
    send(&table, "b", &frame.body).await.unwrap();
    assert_eq!(counts(), "10\t20\n", "a new token repeats them in the target, so a person is asked");
}

/// The lapse of a token between two looks, as if the server had run for long.
fn lapse(since: &dataflow::Sighting, now: &dataflow::Sighting) -> Option<&'static str> {
    use dataflow::Tokens;
    let old = |seen: &dataflow::Sighting| {
        let told = facts(seen);
        tokens::Facts { start_ms: facts(since).seen_ms - 600_000, ..told }.seen(seen.table_uuid.clone())
    };
    tokens::ClickHouseTokens.lapse(dataflow::Basis::Token, &old(since), &old(now))
}

/// Each gives the target another token for the same rows, so that it takes those of a repeated insert again.
#[tokio::test]
async fn a_token_is_not_trusted_beyond_a_view_that_was_altered_renamed_or_made_again() {
    let server = server_or_skip!();
    for (n, alter) in [
        "ALTER TABLE a.v MODIFY QUERY SELECT n FROM a.t",
        "ALTER TABLE a.v MODIFY QUERY SELECT n + 10 AS n FROM a.t",
        "ALTER TABLE a.v MODIFY COMMENT 'a comment'",
        "RENAME TABLE a.v TO a.other",
        "DROP VIEW a.v; CREATE MATERIALIZED VIEW a.other TO a.target AS SELECT n FROM a.t",
        "CREATE MATERIALIZED VIEW a.other TO a.target AS SELECT n FROM a.t",
        "CREATE TABLE a.copy AS a.target; EXCHANGE TABLES a.copy AND a.target",
    ]
    .into_iter()
    .enumerate()
    {
        let config = atomic(&server, "MergeTree ORDER BY n");
        let target = format!("CREATE TABLE a.target (n Int32) ENGINE = MergeTree ORDER BY n {WINDOW}");
        server.query(&target).unwrap();
        server.query("CREATE MATERIALIZED VIEW a.v TO a.target AS SELECT n FROM a.t").unwrap();
        // So that nothing else tells: metadata are dated to the second.
        tokio::time::sleep(std::time::Duration::from_millis(2_100)).await;
        let table = open_with(&server, config).await.unwrap();
        let times = Arc::new(TimestampSecondArray::from(vec![1_700_000_000; 10]));
        let rows = batch(vec![("n", ints(0..10)), ("v", ints(0..10)), ("at", times)]);
        let frame = frames(&table, &[rows]).remove(0);
        let since = table.see().await.unwrap();
        send(&table, &format!("view-{n}"), &frame.body).await.unwrap();
        let after = table.see().await.unwrap();
        assert_eq!(lapse(&since, &after), None, "{alter}");
        alter.split("; ").for_each(|sql| drop(server.query(sql).unwrap()));
        let lapsed = lapse(&since, &table.see().await.unwrap());
        assert!(
            matches!(lapsed, Some("views_or_partitions_changed" | "table_altered")),
            "{alter}: {lapsed:?}"
        );
        if !alter.contains("EXCHANGE") {
            send(&table, &format!("view-{n}"), &frame.body).await.unwrap();
            assert_ne!(
                server.query("SELECT count() FROM a.target").unwrap(),
                "10\n",
                "{alter}: or it could be trusted"
            );
            assert_eq!(server.query("SELECT count() FROM a.t").unwrap(), "10\n", "{alter}");
        }
        server.query("DROP DATABASE a SYNC").unwrap();
    }
}
