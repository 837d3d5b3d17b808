//! What a poll of a table shows of ClickHouse's own engine, and what it makes of answers that were changed or lost on their way.
//! Needs the server's binary in `FOREBAY_SERVER_BIN`; skips loudly without it.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests run in real time and may panic")]

#[path = "../src/testing.rs"]
mod testing;

use std::sync::Arc;
use std::time::Duration;

use arrow_array::{Int32Array, RecordBatch, TimestampSecondArray};
use clickhouse::{ClickHouseTable, Fault, ServerConfig, TableConfig};
use dataflow::{
    Attempt, Basis, Effect, Encoded, FrameId, Presence, Remedy, Selected, Table, TableFault, Tokens,
};
use testing::{Fixed, RealTime};
use testkit::{Answer, ClickHouse, ClickHouseOptions, Fault as Trouble, FaultProxy, Rule};

fn start() -> Option<ClickHouse> {
    match std::env::var("FOREBAY_SERVER_BIN") {
        Ok(binary) => Some(ClickHouse::start(ClickHouseOptions::default().binary(binary)).unwrap()),
        Err(_) => {
            testkit::skip("`FOREBAY_SERVER_BIN` does not name the server's binary");
            None
        }
    }
}

const TABLE: &str = "CREATE TABLE t (n Int32, _forebay UUID) ENGINE = MergeTree ORDER BY n \
                     SETTINGS non_replicated_deduplication_window = 100";

async fn open(url: &str) -> Result<ClickHouseTable, Vec<Fault>> {
    let config = TableConfig::new("default", "t");
    ClickHouseTable::open(ServerConfig::new(url), config, RealTime::shared()).await
}

fn frame(table: &ClickHouseTable) -> Encoded {
    let numbers = Arc::new(Int32Array::from_iter_values(0..10));
    let rows = RecordBatch::try_from_iter([("n", numbers as _)]).unwrap();
    table.encode(&[Selected::all(rows)], &mut || FrameId(7)).unwrap().remove(0)
}

async fn send(table: &ClickHouseTable, frame: &Encoded) {
    let attempt = Attempt {
        token: "a",
        query_id: "forebay-looks-1",
        body: frame.body.clone(),
        layout: None,
        gate: &Fixed(true),
    };
    table.insert(attempt).await.unwrap();
}

#[tokio::test]
async fn a_table_that_becomes_asynchronous_is_seen_at_the_next_look_and_its_statement_mends_it() {
    let Some(server) = start() else { return };
    server.query(TABLE).unwrap();
    let table = open(&server.url()).await.unwrap();
    table.see().await.unwrap();
    for value in ["1", "true"] {
        server.query(&format!("ALTER TABLE t MODIFY SETTING async_insert = {value}")).unwrap();
        let error = table.see().await.unwrap_err();
        assert_eq!((error.remedy, error.kind), (Remedy::Stop, TableFault::Differs));
        let (_, statement) = error.message.split_once("fix it with: ").unwrap();
        let refused = open(&server.url()).await.err().unwrap();
        assert_eq!(refused[0].fix.as_deref(), Some(statement), "{refused:?}");
        server.query(statement).unwrap();
        table.see().await.unwrap();
    }
}

/// The user's time zone changes between two starts, while an insert is in doubt. The server computes a column's value in the zone of the insert, but the
/// partition key itself in the zone that the table was loaded with.
#[tokio::test]
async fn a_token_of_another_time_zone_is_not_trusted() {
    let Some(server) = start() else { return };
    server
        .query(
            "CREATE TABLE t (n Int32, at DateTime, day Date MATERIALIZED toDate(toStartOfDay(at)), _forebay UUID) ENGINE = MergeTree \
             PARTITION BY day ORDER BY n SETTINGS non_replicated_deduplication_window = 100",
        )
        .unwrap();
    let proxy = FaultProxy::start(&server.url()).unwrap();
    let before = open(&proxy.url()).await.unwrap();
    // Eight in the evening at Greenwich is the next day in Tokyo.
    let rows = [
        ("n", Arc::new(Int32Array::from_iter_values(0..10)) as _),
        ("at", Arc::new(TimestampSecondArray::from_value(1_700_078_400, 10)) as _),
    ];
    let rows = RecordBatch::try_from_iter(rows).unwrap();
    let frame = before.encode(&[Selected::all(rows)], &mut || FrameId(7)).unwrap().remove(0);
    let since = before.see().await.unwrap();
    send(&before, &frame).await;
    send(&before, &frame).await;
    let count = || server.query("SELECT count(), uniqExact(_partition_id) FROM t").unwrap();
    assert_eq!(count(), "10\t1\n", "its token is known");
    let zone = Answer::new(200, "[\"Asia/Tokyo\",[],[]]\n").header("X-ClickHouse-Query-Id", "x");
    proxy.add(Rule::always(Trouble::Answer(zone)).query("SELECT timezone()"));
    assert_eq!(before.see().await.unwrap_err().kind, TableFault::Differs, "a process that runs stops");
    let after = open(&proxy.url()).await.unwrap();
    let now = after.see().await.unwrap();
    // The server of a test has not run for long, so that alone would be no run to trust. It is one run, however long the test takes.
    let facts = |seen: &dataflow::Sighting| tokens::Facts::of(seen).expect("it was seen");
    let start_ms = facts(&since).seen_ms - 600_000;
    let old =
        |seen: &dataflow::Sighting| tokens::Facts { start_ms, ..facts(seen) }.seen(seen.table_uuid.clone());
    let lapse = |basis, now| tokens::ClickHouseTokens.lapse(basis, &old(&since), &old(now));
    assert_eq!(lapse(Basis::Token, &since), None);
    assert_eq!(lapse(Basis::Token, &now), Some("time_zone_changed"));
    assert_eq!(lapse(Basis::Absence, &now), None, "what is not there is in no partition");
    // As it would have been sent.
    send(&after, &frame).await;
    assert_eq!(count(), "20\t2\n", "in another partition its token is not known");
}

#[tokio::test]
async fn a_look_and_the_rows_of_a_frame_come_from_one_request() {
    let Some(server) = start() else { return };
    server.query(TABLE).unwrap();
    let proxy = FaultProxy::start(&server.url()).unwrap();
    let table = open(&proxy.url()).await.unwrap();
    let frame = frame(&table);
    assert_eq!(table.probe(frame.id, 10, &frame.probe).await.unwrap(), Presence::None);
    send(&table, &frame).await;
    let (presence, seen) = table.look_for(frame.id, 10, &frame.probe).await.unwrap();
    assert_eq!(presence, Presence::All);
    let facts = tokens::Facts::of(&seen).expect("it was seen");
    assert!(facts.block_number >= 1 && facts.tokens_per_block_max == Some(1), "{facts:?}");
    assert!(facts.start_ms <= facts.seen_ms && !seen.table_uuid.is_empty());
    let is_count = |seen: &&testkit::Seen| seen.query.contains("count() FROM `default`.`t`");
    let asked = proxy.seen();
    let counts: Vec<&str> = asked.iter().filter(is_count).map(|seen| seen.query.as_str()).collect();
    assert_eq!(counts.len(), 2, "one request a look: {counts:?}");
    for part in ["uptime()", "serverUUID()", "now64(3)", "system.parts", "toString(uuid)", "AsyncInsertQuery"]
    {
        assert!(counts.iter().all(|sql| sql.contains(part)), "{part}");
    }
    // Every request names the settings that it rests on.
    let named = |sql: &str, name: &str| {
        let request = asked.iter().rfind(|seen| seen.query.contains(sql)).unwrap();
        request.parameters.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone())
    };
    for (name, value) in [
        ("async_insert", "0"),
        ("wait_for_async_insert", "1"),
        ("deduplicate_insert", "enable"),
        ("use_strict_insert_block_limits", "0"),
        ("input_format_connection_handling", "0"),
        ("session_timezone", "UTC"),
    ] {
        assert_eq!(named("INSERT INTO", name).as_deref(), Some(value), "{name}");
    }
    for name in ["limit", "offset", "final", "use_query_cache", "empty_result_for_aggregation_by_empty_set"] {
        assert_eq!(named("count() FROM `default`.`t`", name).as_deref(), Some("0"), "{name}");
    }
    // Its condition lies in the store, where others may have written it.
    assert!(
        counts.len() == 2
            && asked.iter().filter(is_count).all(|seen| seen.parameter("readonly") == Some("1"))
    );
}

/// Another table comes by this name while nothing waits, as by `EXCHANGE TABLES`, and has earlier rows of the keys.
#[tokio::test]
async fn keys_prove_nothing_in_a_table_that_joins_rows_though_the_one_before_it_did_not() {
    let Some(server) = start() else { return };
    let declared = |engine: &str| {
        format!(
            "CREATE TABLE t (n Int32) ENGINE = {engine} ORDER BY n SETTINGS non_replicated_deduplication_window = 100"
        )
    };
    server.query(&declared("MergeTree")).unwrap();
    let config = TableConfig { unique_key: vec!["n".into()], ..TableConfig::new("default", "t") };
    let opened = ClickHouseTable::open(ServerConfig::new(server.url()), config, RealTime::shared()).await;
    let table = opened.unwrap();
    let frame = frame(&table);
    let look = async || table.look_for(frame.id, 10, &frame.probe).await.unwrap().0;
    assert_eq!(look().await, Presence::None);
    server.query("INSERT INTO t SELECT number FROM numbers(10)").unwrap();
    assert_eq!(look().await, Presence::All);
    assert!(!table.must_reopen());
    server.query("RENAME TABLE t TO before").unwrap();
    server.query(&declared("ReplacingMergeTree")).unwrap();
    server.query("INSERT INTO t SELECT number FROM numbers(10)").unwrap();
    assert_eq!(look().await, Presence::Inadmissible, "they are those of earlier rows");
    assert!(table.must_reopen(), "two inserts under way could overtake each other");
}

/// Both statements are taken from the message, and ClickHouse's own plan of the same question says what they are good for.
#[tokio::test]
async fn the_index_that_a_search_without_an_answer_names_leads_to_the_rows() {
    let Some(server) = start() else { return };
    // Parts may be merged: the rows of both stand in granules of their own all the same.
    server.query(&format!("{TABLE}, index_granularity = 10")).unwrap();
    server.query("SYSTEM STOP MERGES t").unwrap();
    let proxy = FaultProxy::start(&server.url()).unwrap();
    let table = open(&proxy.url()).await.unwrap();
    let frame = frame(&table);
    send(&table, &frame).await;
    server
        .query("INSERT INTO t SELECT number + 100, toUUID('00000000-0000-0000-0000-000000000009') FROM numbers(10)")
        .unwrap();
    let slow = Answer::exception(500, 159, "Timeout exceeded: elapsed 30 seconds, maximum: 30 seconds.");
    let search = "count() FROM `default`.`t`";
    proxy.add(Rule::next(1, Trouble::Answer(slow)).query(search));
    let error = table.look_for(frame.id, 10, &frame.probe).await.unwrap_err();
    let asked = proxy.seen();
    // The plan of a whole look does not show those of the questions within.
    let look = asked.iter().find(|seen| seen.query.contains(search)).unwrap().query.as_str();
    let (_, rest) = look.split_once(&format!("SELECT {search}")).unwrap();
    let (condition, _) = rest.split_once("')").unwrap();
    let granules = || {
        let plan = server.query(&format!("EXPLAIN indexes = 1 SELECT {search}{condition}')")).unwrap();
        let (_, of_index) = plan.split_once("Name: forebay")?;
        Some(of_index.split_once("Granules: ").unwrap().1.lines().next().unwrap().to_owned())
    };
    assert_eq!(granules(), None);
    let statements: Vec<&str> =
        error.message.match_indices("ALTER TABLE").map(|(at, _)| &error.message[at..]).collect();
    let [add, materialize] = statements[..] else { panic!("two statements: {error}") };
    server.query(add.split_once("`, then").unwrap().0).unwrap();
    assert_eq!(granules().as_deref(), Some("2/2"), "the rows that are there are not in it yet");
    server.query("SYSTEM START MERGES t").unwrap();
    server.query(materialize.strip_suffix('`').unwrap()).unwrap();
    testkit::wait_until(Duration::from_secs(300), "the index of the rows that are there", || {
        server.query("SELECT count() FROM system.mutations WHERE NOT is_done").unwrap() == "0\n"
    });
    assert_eq!(granules().as_deref(), Some("1/2"), "the others are not read");
    assert_eq!(table.look_for(frame.id, 10, &frame.probe).await.unwrap().0, Presence::All);
}

#[tokio::test]
async fn an_empty_answer_to_any_question_of_a_look_is_an_error_and_never_no_rows() {
    let Some(server) = start() else { return };
    server.query(TABLE).unwrap();
    let proxy = FaultProxy::start(&server.url()).unwrap();
    let table = open(&proxy.url()).await.unwrap();
    let frame = frame(&table);
    send(&table, &frame).await;
    let empty = || Answer::new(200, "").header("X-ClickHouse-Query-Id", "x");
    for question in [
        "SELECT version()",
        "FROM system.settings",
        "merge_tree_settings",
        "FROM system.columns",
        "create_table_query",
        "hostName()",
        "count() FROM `default`.`t`",
    ] {
        proxy.add(Rule::always(Trouble::Answer(empty())).query(question));
        let error = table.look_for(frame.id, 10, &frame.probe).await.unwrap_err();
        assert_eq!(
            (error.remedy, error.kind),
            (Remedy::Resend, TableFault::Uncertain),
            "{question}: {error}"
        );
        assert!(
            error.message.contains("answer") && error.message.contains("is empty"),
            "{question}: {error}"
        );
        proxy.clear();
    }
    proxy.add(Rule::always(Trouble::Answer(empty())).query("uptime()"));
    assert_eq!(table.see().await.unwrap_err().kind, TableFault::Uncertain, "no facts");
    proxy.clear();
    proxy.add(Rule::always(Trouble::Answer(empty())).query("FROM system.processes"));
    let error = table.end_attempts("forebay-looks").await.unwrap_err();
    assert!(error.message.contains("is empty"), "not \"none runs\": {error}");
    proxy.clear();
    assert_eq!(table.probe(frame.id, 10, &frame.probe).await.unwrap(), Presence::All);
    assert_eq!(table.end_attempts("forebay-looks").await.unwrap(), 0);
}

#[tokio::test]
async fn a_balancer_by_request_before_plain_tables_is_refused_at_the_start_and_at_each_look() {
    let (Some(server), Some(other)) = (start(), start()) else { return };
    for server in [&server, &other] {
        server.query(TABLE).unwrap();
    }
    let elsewhere = other.url().strip_prefix("http://").unwrap().parse().unwrap();
    let proxy = FaultProxy::start(&server.url()).unwrap();
    let table = open(&proxy.url()).await.unwrap();
    let seen = table.see().await.unwrap();
    let turns = || {
        proxy.clear();
        // Two connections at a poll, and then five. Servers without an identity differ in the table alone, for which they are asked up to three times.
        for _ in 0..9 {
            proxy.add(Rule::next(1, Trouble::Pass).query("hostName()"));
            proxy.add(Rule::next(1, Trouble::Elsewhere(elsewhere)).query("hostName()"));
        }
    };
    turns();
    let refused = open(&proxy.url()).await.err().expect("two servers");
    assert!(refused[0].message.contains("reach 2 servers"), "{refused:?}");
    turns();
    let error = table.see().await.unwrap_err();
    assert!(error.message.contains("reach 2 servers"), "{error}");
    proxy.clear();
    // A look that lands on the other server alone sees another table.
    proxy.add(Rule::always(Trouble::Elsewhere(elsewhere)).query("uptime()"));
    assert_ne!(table.see().await.unwrap().table_uuid, seen.table_uuid);
    proxy.clear();
    assert_eq!(table.see().await.unwrap().table_uuid, seen.table_uuid);
}

#[tokio::test]
async fn a_copy_of_an_insert_that_still_runs_leaves_the_effect_unknown() {
    let Some(server) = start() else { return };
    server.query(TABLE).unwrap();
    let proxy = FaultProxy::start(&server.url()).unwrap();
    let table = open(&proxy.url()).await.unwrap();
    let frame = frame(&table);
    // The proxy sends it twice: the first copy does its work, the second one meets it.
    let answer = Answer::exception(500, 216, "Query with id = forebay-looks-1 is already running.");
    proxy.add(Rule::next(1, Trouble::Answer(answer.reach(testkit::Reach::Server))).query("INSERT INTO"));
    let attempt = Attempt {
        token: "a",
        query_id: "forebay-looks-1",
        body: frame.body.clone(),
        layout: None,
        gate: &Fixed(true),
    };
    let error = table.insert(attempt).await.unwrap_err();
    assert_eq!(
        (error.effect, error.remedy, error.kind),
        (Effect::Unknown, Remedy::Resend, TableFault::AlreadyRunning)
    );
    assert_eq!(table.probe(frame.id, 10, &frame.probe).await.unwrap(), Presence::All);
}

/// `non_replicated_deduplication_window` is made small and large again: the table has forgotten every token, and is declared as it was. A poll that
/// comes in between sees it, and one that does not sees when the metadata were written.
#[tokio::test]
async fn a_token_is_not_trusted_beyond_a_window_that_was_closed_and_opened_again() {
    let Some(server) = start() else { return };
    server.query("CREATE DATABASE atomic ENGINE = Atomic").unwrap();
    for (database, is_polled) in [("atomic", false), ("default", true)] {
        let name = format!("{database}.w");
        let window = |tokens| {
            let sql =
                format!("ALTER TABLE {name} MODIFY SETTING non_replicated_deduplication_window = {tokens}");
            server.query(&sql).unwrap();
        };
        server.query(&format!("CREATE TABLE {name} (n Int32, _forebay UUID) ENGINE = MergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = 100")).unwrap();
        let config = TableConfig::new(database, "w");
        let server_config = ServerConfig::new(server.url());
        let table = ClickHouseTable::open(server_config, config, RealTime::shared()).await.unwrap();
        // The server of a test has not run for long, so that alone would be no run to trust.
        let start_ms = tokens::Facts::of(&table.see().await.unwrap()).unwrap().seen_ms - 600_000;
        let old = |seen: &dataflow::Sighting| {
            let facts = tokens::Facts::of(seen).unwrap();
            tokens::Facts { start_ms, ..facts }.seen(seen.table_uuid.clone())
        };
        let lapse = |since, now| tokens::ClickHouseTokens.lapse(Basis::Token, &old(since), &old(now));
        // Metadata are dated to the second.
        tokio::time::sleep(Duration::from_millis(2_100)).await;
        let (since, again) = (table.see().await.unwrap(), table.see().await.unwrap());
        assert_eq!(lapse(&since, &again), None, "{database}");
        window(0);
        if is_polled {
            assert!(table.see().await.is_err());
        }
        window(100);
        let now = table.see().await.unwrap();
        assert_eq!(lapse(&since, &now), Some("table_altered"), "{database}");
        tokio::time::sleep(Duration::from_millis(2_100)).await;
        let (since, now) = (table.see().await.unwrap(), table.see().await.unwrap());
        assert_eq!(lapse(&since, &now), None, "{database}: what is sent from then on");
    }
}
