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
