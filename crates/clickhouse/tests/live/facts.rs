//! The facts that resolve a doubt: what a table holds of a frame, and whether it is still the same table.

use super::*;

#[tokio::test]
async fn facts_and_probes_see_the_frame() {
    let mut server = server_or_skip!();
    server
        .query(&format!("CREATE TABLE t (n Int32, _forebay UUID) ENGINE = MergeTree ORDER BY n {WINDOW}"))
        .unwrap();
    let table = open(&server, "t").await;
    let frame = frames(&table, &[batch(vec![("n", ints(0..1000))])]).remove(0);
    let before = table.see().await.unwrap();
    let told = facts(&before);
    assert_eq!((told.token_window, told.tokens_per_frame, told.token_age_ms_max), (100, 1, None));
    assert_eq!(table.probe(frame.id, 1000, &frame.probe).await.unwrap(), Presence::None);
    send(&table, "a", &frame.body).await.unwrap();
    let after = table.see().await.unwrap();
    assert!(facts(&after).block_number > told.block_number, "{before:?} {after:?}");
    assert_eq!(after.table_uuid, before.table_uuid);
    let later = facts(&after);
    assert!((later.start_ms - told.start_ms).abs() <= 2000, "{told:?} {later:?}");
    assert!(later.start_ms <= later.seen_ms);
    assert_eq!(table.probe(frame.id, 1000, &frame.probe).await.unwrap(), Presence::All);
    server.query("ALTER TABLE t DELETE WHERE n < 10 SETTINGS mutations_sync = 1").unwrap();
    let part = Presence::Part { found: 990, expected: 1000 };
    assert_eq!(table.probe(frame.id, 1000, &frame.probe).await.unwrap(), part);
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    server.kill9().unwrap();
    server.restart().unwrap();
    let restarted = table.see().await.unwrap();
    assert!(facts(&restarted).start_ms > later.start_ms + 1000, "{later:?} {:?}", facts(&restarted));
    assert_eq!(restarted.table_uuid, before.table_uuid);
    server.query("DROP TABLE t SYNC").unwrap();
    server
        .query(&format!("CREATE TABLE t (n Int32, _forebay UUID) ENGINE = MergeTree ORDER BY n {WINDOW}"))
        .unwrap();
    assert_ne!(table.see().await.unwrap().table_uuid, before.table_uuid, "a table made again is another one");
    assert_eq!(table.end_attempts("forebay-live").await.unwrap(), 0);
    assert!(table.end_attempts("x' OR 1").await.is_err());
}

#[tokio::test]
async fn a_unique_key_finds_the_frame_without_a_provenance_column() {
    let server = server_or_skip!();
    server
        .query(&format!(
            "CREATE TABLE t (id UUID, s LowCardinality(String), f FixedString(2), at DateTime64(3), d Date, u UInt64, p DateTime('Asia/Tokyo'), q DateTime64(5)) ENGINE = MergeTree ORDER BY id {WINDOW}"
        ))
        .unwrap();
    let unique_key = ["id", "s", "f", "at", "d", "u", "p", "q"].map(str::to_owned).to_vec();
    let config = TableConfig { unique_key, ..TableConfig::new("default", "t") };
    let table = open_with(&server, config).await.unwrap_or_else(|f| panic!("{f:?}"));
    let rows = |from: u64| {
        let range = || from..from + 1000;
        batch(vec![
            (
                "id",
                Arc::new(
                    FixedSizeBinaryArray::try_from_iter(range().map(|i| (u128::from(i) * 7).to_be_bytes()))
                        .unwrap(),
                ) as ArrayRef,
            ),
            ("s", Arc::new(StringArray::from_iter_values(range().map(|i| format!("it's {}", i % 3))))),
            ("f", Arc::new(FixedSizeBinaryArray::try_from_iter(range().map(|i| [b'a', i as u8])).unwrap())),
            ("at", Arc::new(TimestampMillisecondArray::from_iter_values(range().map(|i| i as i64 - 500)))),
            ("d", Arc::new(Date32Array::from_iter_values(range().map(|i| i as i32)))),
            ("u", Arc::new(UInt64Array::from_iter_values(range().map(|i| u64::MAX - i)))),
            ("p", Arc::new(TimestampSecondArray::from_iter_values(range().map(|i| i as i64)))),
            ("q", Arc::new(TimestampMicrosecondArray::from_iter_values(range().map(|i| i as i64 * 10)))),
        ])
    };
    let (first, second) = (frames(&table, &[rows(0)]).remove(0), frames(&table, &[rows(1000)]).remove(0));
    send(&table, "a", &first.body).await.unwrap();
    assert_eq!(table.probe(first.id, 1000, &first.probe).await.unwrap(), Presence::All);
    assert_eq!(table.probe(second.id, 1000, &second.probe).await.unwrap(), Presence::None);
    assert_eq!(table.probe(second.id, 1000, &[]).await.unwrap(), Presence::Inadmissible);
}

fn dated(keys: std::ops::Range<i32>, value: i32, at: i64) -> RecordBatch {
    let count = keys.len();
    batch(vec![
        ("n", ints(keys)),
        ("v", ints(vec![value; count])),
        ("at", Arc::new(TimestampSecondArray::from(vec![at; count]))),
    ])
}

#[tokio::test]
async fn an_exchanged_table_is_another_and_a_truncated_one_is_not() {
    let server = server_or_skip!();
    let table = open_with(&server, atomic(&server, "MergeTree ORDER BY n")).await.unwrap();
    server.query("CREATE TABLE a.copy AS a.t").unwrap();
    let frame = frames(&table, &[dated(0..10, 1, 1_700_000_000)]).remove(0);
    send(&table, "a", &frame.body).await.unwrap();
    let before = table.see().await.unwrap();
    server.query("EXCHANGE TABLES a.t AND a.copy").unwrap();
    let exchanged = table.see().await.unwrap();
    assert_ne!(exchanged.table_uuid, before.table_uuid, "nothing else tells");
    assert_eq!(table.probe(frame.id, 10, &frame.probe).await.unwrap(), Presence::None);
    server.query("EXCHANGE TABLES a.t AND a.copy").unwrap();
    assert_eq!(table.see().await.unwrap().table_uuid, before.table_uuid, "put back");
    server.query("TRUNCATE TABLE a.t").unwrap();
    let truncated = table.see().await.unwrap();
    assert_eq!(truncated.table_uuid, before.table_uuid);
    assert!(facts(&truncated).block_number <= facts(&before).block_number, "{before:?} {truncated:?}");
    send(&table, "a", &frame.body).await.unwrap();
    assert_eq!(server.query("SELECT count() FROM a.t").unwrap(), "10\n", "its tokens are gone with its rows");
}

#[tokio::test]
async fn a_table_of_a_moved_database_is_missing_and_keeps_its_identity() {
    let server = server_or_skip!();
    let table = open_with(&server, atomic(&server, "MergeTree ORDER BY n")).await.unwrap();
    let before = table.see().await.unwrap();
    server.query("RENAME DATABASE a TO b").unwrap();
    let missing = table.see().await.unwrap_err();
    assert!(missing.to_string().contains("`a.t` does not exist"), "{missing}");
    server.query("RENAME DATABASE b TO a").unwrap();
    assert_eq!(table.see().await.unwrap().table_uuid, before.table_uuid);
}

#[tokio::test]
async fn rows_that_merges_take_away_prove_nothing_unless_one_is_left() {
    for engine in
        ["ReplacingMergeTree ORDER BY n", "SummingMergeTree(v) ORDER BY n", "AggregatingMergeTree ORDER BY n"]
    {
        let server = server_or_skip!();
        let table = open_with(&server, atomic(&server, engine)).await.unwrap();
        let at = 1_700_000_000;
        let [first, same, unsent] = [1, 2, 3].map(|n| {
            table.encode(&[Selected::all(dated(0..10, n, at))], &mut || FrameId(n as u128)).unwrap().remove(0)
        });
        send(&table, "a", &first.body).await.unwrap();
        assert_eq!(table.probe(first.id, 10, &first.probe).await.unwrap(), Presence::All, "{engine}");
        send(&table, "b", &same.body).await.unwrap();
        server.query("OPTIMIZE TABLE a.t FINAL").unwrap();
        let found = [
            table.probe(first.id, 10, &first.probe).await.unwrap(),
            table.probe(same.id, 10, &same.probe).await.unwrap(),
        ];
        assert!(found.contains(&Presence::Inadmissible), "{engine}: one took the other's place: {found:?}");
        assert!(!found.contains(&Presence::None), "{engine}: {found:?}");
        assert_eq!(table.probe(unsent.id, 10, &unsent.probe).await.unwrap(), Presence::Inadmissible);
    }
}

#[tokio::test]
async fn rows_that_expired_prove_nothing() {
    let server = server_or_skip!();
    let engine = "MergeTree ORDER BY n TTL at + INTERVAL 1 DAY";
    let table = open_with(&server, atomic(&server, engine)).await.unwrap();
    let frame = frames(&table, &[dated(0..10, 1, 1_000_000_000)]).remove(0);
    send(&table, "a", &frame.body).await.unwrap();
    server.query("OPTIMIZE TABLE a.t FINAL").unwrap();
    assert_eq!(server.query("SELECT count() FROM a.t").unwrap(), "0\n", "they were years old");
    assert_eq!(table.probe(frame.id, 10, &frame.probe).await.unwrap(), Presence::Inadmissible);
}

#[tokio::test]
async fn a_provenance_column_that_came_later_finds_no_earlier_frame() {
    let server = server_or_skip!();
    server.query(&format!("CREATE TABLE t (n Int32) ENGINE = MergeTree ORDER BY n {WINDOW}")).unwrap();
    let table = open(&server, "t").await;
    let frame = frames(&table, &[batch(vec![("n", ints(0..10))])]).remove(0);
    send(&table, "a", &frame.body).await.unwrap();
    server.query("ALTER TABLE t ADD COLUMN _forebay UUID").unwrap();
    let table = open(&server, "t").await;
    assert_eq!(
        table.probe(frame.id, 10, &frame.probe).await.unwrap(),
        Presence::Inadmissible,
        "none would be taken for absent, and written twice"
    );
}

/// Rows of before the column was dropped have no name in the one that was added; what was written since has one.
#[tokio::test]
async fn a_provenance_column_that_was_dropped_and_added_again_proves_no_absence() {
    use dataflow::Tokens;
    let server = server_or_skip!();
    let table = open_with(&server, atomic(&server, "MergeTree ORDER BY n")).await.unwrap();
    let frame = frames(&table, &[dated(0..10, 1, 1_700_000_000)]).remove(0);
    tokio::time::sleep(std::time::Duration::from_millis(2_100)).await;
    let since = table.see().await.unwrap();
    send(&table, "a", &frame.body).await.unwrap();
    let (presence, now) = table.look_for(frame.id, 10, &frame.probe).await.unwrap();
    assert_eq!(presence, Presence::All);
    assert!(!facts(&now).has_unnamed && !tokens::ClickHouseTokens.may_have_lost_names(&since, &now));
    server.query("ALTER TABLE a.t DROP COLUMN _forebay").unwrap();
    server.query("ALTER TABLE a.t ADD COLUMN _forebay UUID").unwrap();
    let (presence, now) = table.look_for(frame.id, 10, &frame.probe).await.unwrap();
    assert_eq!(presence, Presence::None, "its rows are there without a name");
    assert!(tokens::ClickHouseTokens.may_have_lost_names(&since, &now), "{:?}", facts(&now));
    // What is sent from then on is found.
    tokio::time::sleep(std::time::Duration::from_millis(2_100)).await;
    let since = table.see().await.unwrap();
    let (_, now) = table.look_for(FrameId(9), 10, &frame.probe).await.unwrap();
    assert!(facts(&now).has_unnamed && !tokens::ClickHouseTokens.may_have_lost_names(&since, &now));
    // The statement by which docs/delivery.md names them once and for all.
    let page = include_str!("../../../../docs/delivery.md");
    let statement =
        page.lines().find_map(|line| line.trim().strip_prefix("`ALTER TABLE … UPDATE ")?.split_once('`'));
    server.query(&format!("ALTER TABLE a.t UPDATE {}", statement.expect("the page has it").0)).unwrap();
    testkit::wait_until(std::time::Duration::from_secs(300), "the names", || {
        server.query("SELECT count() FROM system.mutations WHERE NOT is_done").unwrap() == "0\n"
    });
    let (_, now) = table.look_for(FrameId(9), 10, &frame.probe).await.unwrap();
    assert!(!facts(&now).has_unnamed);
}

/// One key of each type, and several: the server makes a set of one value in another way.
#[tokio::test]
async fn a_frame_is_found_by_keys_of_every_type() {
    let server = server_or_skip!();
    server.query("CREATE DATABASE a ENGINE = Atomic").unwrap();
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["", "it's `\\ \n", "\u{0}\u{e9}"]));
    let days = |days: [i32; 3]| -> ArrayRef { Arc::new(Date32Array::from(days.to_vec())) };
    let seconds = |of: [i64; 3]| -> ArrayRef { Arc::new(TimestampSecondArray::from(of.to_vec())) };
    let millis = |of: [i64; 3]| -> ArrayRef { Arc::new(TimestampMillisecondArray::from(of.to_vec())) };
    let micros = |of: [i64; 3]| -> ArrayRef { Arc::new(TimestampMicrosecondArray::from(of.to_vec())) };
    let nanos = |of: [i64; 3]| -> ArrayRef { Arc::new(TimestampNanosecondArray::from(of.to_vec())) };
    let latest = i64::from(u32::MAX);
    let cases: Vec<(&str, ArrayRef)> = vec![
        ("Int8", Arc::new(Int8Array::from(vec![-128, 0, 127]))),
        ("Int64", Arc::new(Int64Array::from(vec![i64::MIN, -1, i64::MAX]))),
        ("UInt64", Arc::new(UInt64Array::from(vec![0, 1, u64::MAX]))),
        ("Nullable(Int32)", Arc::new(Int32Array::from(vec![Some(-1), Some(0), None]))),
        ("String", texts.clone()),
        ("LowCardinality(String)", texts),
        ("FixedString(3)", {
            let bytes = [[0, 0, 0], [b'a', 0, 0], [255, b'\'', b'\\']];
            Arc::new(FixedSizeBinaryArray::try_from_iter(bytes.iter()).unwrap())
        }),
        ("UUID", {
            let bytes = [[0_u8; 16], [7; 16], [255; 16]];
            Arc::new(FixedSizeBinaryArray::try_from_iter(bytes.iter()).unwrap())
        }),
        ("Date", days([0, 19_000, 65_535])),
        ("Date32", days([-25_567, 0, 120_529])),
        ("DateTime", seconds([0, 1_700_000_000, latest])),
        ("DateTime('Asia/Tokyo')", seconds([0, 1_700_000_000, latest])),
        ("DateTime64(0)", seconds([-1, 0, 1_700_000_000])),
        ("DateTime64(1)", millis([-100, 0, 1_700_000_000_100])),
        ("DateTime64(3)", millis([-1, 0, 1_700_000_000_001])),
        ("DateTime64(5)", micros([-10, 0, 1_700_000_000_000_010])),
        ("DateTime64(9, 'Asia/Tokyo')", nanos([-1, 0, 1_700_000_000_000_000_001])),
    ];
    for (type_name, keys) in cases {
        for (first, count) in [(0, 3), (0, 1), (1, 1)] {
            let create = format!("CREATE TABLE a.t (k {type_name}, v Int32) ENGINE = MergeTree ORDER BY v");
            server.query(&format!("{create} {WINDOW}")).unwrap();
            let config = TableConfig { unique_key: vec!["k".into()], ..TableConfig::new("a", "t") };
            let table = open_with(&server, config).await.unwrap();
            let rows = batch(vec![("k", keys.clone()), ("v", ints(0..3))]).slice(first, count);
            let frame = frames(&table, &[rows]).remove(0);
            let probe = async || table.probe(frame.id, count as u64, &frame.probe).await.unwrap();
            assert_eq!(probe().await, Presence::None, "{type_name}, from {first} on");
            send(&table, "a", &frame.body).await.unwrap();
            assert_eq!(probe().await, Presence::All, "{type_name}, from {first} on");
            server.query("DROP TABLE a.t SYNC").unwrap();
        }
    }
}

/// Rows of before a column of the key was dropped have the first value of its type in the one that was added, or its DEFAULT.
#[tokio::test]
async fn a_key_column_that_was_dropped_and_added_again_proves_no_absence() {
    use dataflow::Tokens;
    let server = server_or_skip!();
    server.query("CREATE DATABASE a ENGINE = Atomic").unwrap();
    for added in ["Int32", "Nullable(Int32)", "Int32 DEFAULT -1"] {
        let create = "CREATE TABLE a.t (n Int32, v Int32, at DateTime) ENGINE = MergeTree ORDER BY at";
        server.query(&format!("{create} {WINDOW}")).unwrap();
        let config = TableConfig { unique_key: vec!["n".into()], ..TableConfig::new("a", "t") };
        let table = open_with(&server, config).await.unwrap();
        let frame = frames(&table, &[dated(1..11, 1, 1_700_000_000)]).remove(0);
        tokio::time::sleep(std::time::Duration::from_millis(2_100)).await;
        let since = table.see().await.unwrap();
        send(&table, "a", &frame.body).await.unwrap();
        let (presence, now) = table.look_for(frame.id, 10, &frame.probe).await.unwrap();
        assert_eq!(presence, Presence::All);
        assert!(!facts(&now).has_unnamed && !tokens::ClickHouseTokens.may_have_lost_names(&since, &now));
        server.query("ALTER TABLE a.t ADD COLUMN w Int32").unwrap();
        let (_, now) = table.look_for(frame.id, 10, &frame.probe).await.unwrap();
        assert!(!tokens::ClickHouseTokens.may_have_lost_names(&since, &now), "the key is as it was");
        server.query("ALTER TABLE a.t DROP COLUMN n").unwrap();
        server.query(&format!("ALTER TABLE a.t ADD COLUMN n {added}")).unwrap();
        let (presence, now) = table.look_for(frame.id, 10, &frame.probe).await.unwrap();
        assert_eq!(presence, Presence::None, "{added}: its rows are there under another key");
        assert!(
            tokens::ClickHouseTokens.may_have_lost_names(&since, &now),
            "{added}: they would be written again: {:?}",
            facts(&now)
        );
        server.query("DROP TABLE a.t SYNC").unwrap();
    }
}

/// A TTL of a column takes the names and leaves the rows.
#[tokio::test]
async fn a_column_by_which_rows_are_found_may_not_expire() {
    let server = server_or_skip!();
    server.query("CREATE DATABASE a ENGINE = Atomic").unwrap();
    let ttl = "TTL at + INTERVAL 1 DAY";
    for (columns, unique_key, is_refused) in [
        (format!("n Int32, at DateTime, _forebay UUID {ttl}"), None, true),
        (format!("n Int32, at DateTime, v Int32 {ttl}, _forebay UUID"), None, false),
        (format!("n Int32 {ttl}, at DateTime"), Some("n"), true),
        (format!("n Int32, at DateTime, v String DEFAULT ' TTL, (' {ttl}"), Some("n"), false),
    ] {
        server
            .query(&format!("CREATE TABLE a.t ({columns}) ENGINE = MergeTree ORDER BY at {WINDOW}"))
            .unwrap();
        let unique_key = unique_key.into_iter().map(str::to_owned).collect();
        let config = TableConfig { unique_key, ..TableConfig::new("a", "t") };
        match open_with(&server, config.clone()).await {
            Ok(_) => assert!(!is_refused, "{columns}"),
            Err(faults) => {
                assert!(is_refused && faults.len() == 1, "{columns}: {faults:?}");
                assert!(faults[0].message.contains("has a TTL"), "{faults:?}");
                server.query(faults[0].fix.as_deref().expect("a statement")).unwrap();
                assert!(open_with(&server, config).await.is_ok(), "{columns}: mended");
            }
        }
        server.query("DROP TABLE a.t SYNC").unwrap();
    }
}

/// The rows of a resend would fall into another partition, where their token is not known.
#[tokio::test]
async fn a_token_is_not_trusted_beyond_another_expression_behind_the_key_of_partitions() {
    use dataflow::Tokens;
    let server = server_or_skip!();
    server.query("CREATE DATABASE a ENGINE = Atomic").unwrap();
    let create = "CREATE TABLE a.t (n Int32, at DateTime, day Date MATERIALIZED toDate(at), v Int32 DEFAULT 1) \
                  ENGINE = MergeTree PARTITION BY day ORDER BY n";
    server.query(&format!("{create} {WINDOW}")).unwrap();
    let table = open_with(&server, TableConfig::new("a", "t")).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(2_100)).await;
    let since = table.see().await.unwrap();
    let lapse = |now: &dataflow::Sighting| {
        let old = |seen: &dataflow::Sighting| {
            let start_ms = facts(&since).seen_ms - 600_000;
            tokens::Facts { start_ms, ..facts(seen) }.seen(seen.table_uuid.clone())
        };
        tokens::ClickHouseTokens.lapse(dataflow::Basis::Token, &old(&since), &old(now))
    };
    server.query("ALTER TABLE a.t ADD COLUMN w String").unwrap();
    assert_eq!(lapse(&table.see().await.unwrap()), None, "it decides nothing");
    server.query("ALTER TABLE a.t MODIFY COLUMN day Date MATERIALIZED toStartOfMonth(at)").unwrap();
    assert_eq!(lapse(&table.see().await.unwrap()), Some("views_or_partitions_changed"));
}

/// A frame that was cut for months is refused by a table of days, and written once the months are back; new frames are cut for days by a lane that is opened
/// again.
#[tokio::test]
async fn a_frame_that_was_cut_for_other_partitions_waits_until_they_are_back() {
    let server = server_or_skip!();
    server.query("CREATE DATABASE a ENGINE = Atomic").unwrap();
    let create = "CREATE TABLE a.t (n Int32, at DateTime, day Date MATERIALIZED toStartOfMonth(at), _forebay UUID) \
                  ENGINE = MergeTree PARTITION BY day ORDER BY n";
    server.query(&format!("{create} {WINDOW}")).unwrap();
    let table = open_with(&server, TableConfig::new("a", "t")).await.unwrap();
    let days = batch(vec![
        ("n", ints(0..10)),
        (
            "at",
            Arc::new(TimestampSecondArray::from_iter_values((0..10).map(|day| 1_700_000_000 + day * 86_400))),
        ),
    ]);
    let frame = frames(&table, &[days]).remove(0);
    let alter = |function: &str| {
        server.query(&format!("ALTER TABLE a.t MODIFY COLUMN day Date MATERIALIZED {function}(at)")).unwrap();
    };
    alter("toDate");
    let error = send(&table, "a", &frame.body).await.unwrap_err();
    assert_eq!(
        (error.effect, error.kind),
        (Effect::None, TableFault::TooManyPartitions),
        "{}",
        error.message
    );
    assert!(error.message.contains("alter it back"), "{}", error.message);
    assert!(!table.must_reopen());
    table.see().await.unwrap();
    assert!(table.must_reopen());
    alter("toStartOfMonth");
    send(&table, "a", &frame.body).await.unwrap();
    table.see().await.unwrap();
    assert!(!table.must_reopen());
    assert_eq!(server.query("SELECT count() FROM a.t").unwrap(), "10\n");
}
