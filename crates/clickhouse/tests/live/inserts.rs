//! What an insert has done: tokens, partitions, refusals, gates and answers that are lost.

use super::*;

#[tokio::test]
async fn a_token_makes_the_second_insert_a_no_op() {
    let server = server_or_skip!();
    server
        .query(&format!("CREATE TABLE t (n Int32, _forebay UUID) ENGINE = MergeTree ORDER BY n {WINDOW}"))
        .unwrap();
    let table = open(&server, "t").await;
    let frame = &frames(&table, &[batch(vec![("n", ints(0..1000))])])[0];
    for (token, rows) in [("a", 1000), ("a", 1000), ("b", 2000), ("a", 2000)] {
        send(&table, token, &frame.body).await.unwrap();
        assert_eq!(server.query("SELECT count() FROM t").unwrap(), format!("{rows}\n"), "token {token}");
    }
    assert_eq!(
        server.query("SELECT count() FROM system.parts WHERE table = 't'").unwrap(),
        "2\n",
        "one part a frame"
    );

    // Longer than any bound on blocks that the server has by default.
    let config = TableConfig {
        frame_rows_max: 3_000_000,
        frame_bytes_max: 1 << 30,
        ..TableConfig::new("default", "t")
    };
    let table = open_with(&server, config).await.unwrap_or_else(|f| panic!("{f:?}"));
    let frame = &frames(&table, &[batch(vec![("n", ints(0..2_500_000))])])[0];
    for _ in 0..2 {
        send(&table, "long", &frame.body).await.unwrap();
    }
    let parts =
        "SELECT max(rows), sum(rows) FROM system.parts WHERE table = 't' AND level = 0 AND rows > 1000";
    assert_eq!(server.query(parts).unwrap(), "2500000\t2500000\n");
}

/// What a frame in doubt rests on whose rows were encoded again for a column that has changed since.
#[tokio::test]
async fn a_token_stands_for_its_rows_whatever_types_their_columns_have() {
    let server = server_or_skip!();
    server
        .query(&format!(
            "CREATE TABLE t (n Int32, v UInt32, _forebay UUID) ENGINE = MergeTree PARTITION BY n % 2 ORDER BY n {WINDOW}"
        ))
        .unwrap();
    server.query(&format!("CREATE TABLE target (n Int32) ENGINE = MergeTree ORDER BY n {WINDOW}")).unwrap();
    server.query("CREATE MATERIALIZED VIEW view TO target AS SELECT n FROM t").unwrap();
    let narrow: ArrayRef = Arc::new(UInt32Array::from_iter_values(0..10));
    let wide: ArrayRef = Arc::new(UInt64Array::from_iter_values(0..10));
    let text: ArrayRef = Arc::new(StringArray::from_iter_values((0..10).map(|v| v.to_string())));
    for (of, values) in [("UInt32", narrow), ("UInt64", wide), ("String", text)] {
        server.query(&format!("ALTER TABLE t MODIFY COLUMN v {of}")).unwrap();
        let table = open(&server, "t").await;
        for frame in frames(&table, &[batch(vec![("n", ints(0..10)), ("v", values)])]) {
            send(&table, &frame.table_partition, &frame.body).await.unwrap();
        }
        let counts = server.query("SELECT (SELECT count() FROM t), (SELECT count() FROM target)").unwrap();
        assert_eq!(counts, "10\t10\n", "with {of}");
    }
}

#[tokio::test]
async fn frames_touch_one_partition_and_a_mistake_is_refused() {
    let server = server_or_skip!();
    server
        .query(&format!(
            "CREATE TABLE t (n Int32, at DateTime('Asia/Tokyo'), day Date MATERIALIZED toDate(at), _forebay UUID) ENGINE = MergeTree \
             PARTITION BY (toYYYYMM(day), n % 3) ORDER BY n {WINDOW}"
        ))
        .unwrap();
    server
        .query(&format!(
            "CREATE TABLE plain (n Int32, at DateTime, _forebay UUID) ENGINE = MergeTree ORDER BY n {WINDOW}"
        ))
        .unwrap();
    let table = open(&server, "t").await;
    // Every 7 hours from the end of 2023 on, with negative numbers among the keys.
    let at = TimestampSecondArray::from_iter_values((0..500).map(|i| 1_703_900_000 + i * 25_200));
    let rows = batch(vec![("n", ints(-250..250)), ("at", Arc::new(at))]);
    let cut = frames(&table, std::slice::from_ref(&rows));
    for frame in &cut {
        send(&table, &frame.id.to_string(), &frame.body)
            .await
            .unwrap_or_else(|e| panic!("{}: {e}", frame.table_partition));
    }
    assert_eq!(server.query("SELECT count(), sum(n) FROM t").unwrap(), "500\t-250\n");
    let parts = server
        .query("SELECT uniqExact(partition), count() FROM system.parts WHERE table = 't' AND level = 0")
        .unwrap();
    let (partitions, parts) = parts.trim().split_once('\t').unwrap();
    assert_eq!(
        partitions.parse::<usize>().unwrap(),
        cut.iter().map(|f| &f.table_partition).collect::<std::collections::BTreeSet<_>>().len()
    );
    assert_eq!(parts.parse::<usize>().unwrap(), cut.len());
    // The same rows uncut, as a table without partitions encodes them.
    let plain = open(&server, "plain").await;
    let error = send(&table, "uncut", &frames(&plain, &[rows])[0].body).await.unwrap_err();
    assert_eq!(
        (error.code, error.kind, error.effect, error.remedy),
        (252, TableFault::TooManyPartitions, Effect::None, Remedy::Stop)
    );
    assert_eq!(
        server.query("SELECT count() FROM t").unwrap(),
        "500\n",
        "the refused frame left nothing behind"
    );
}

#[tokio::test]
async fn refusals_say_what_they_did_and_what_to_do() {
    let server = server_or_skip!();
    server
        .query(&format!("CREATE TABLE t (n Int32, CONSTRAINT positive CHECK n > 0, _forebay UUID) ENGINE = MergeTree ORDER BY n {WINDOW}"))
        .unwrap();
    let table = open(&server, "t").await;
    let frame = &frames(&table, &[batch(vec![("n", ints([1, -1]))])])[0];
    let error = send(&table, "a", &frame.body).await.unwrap_err();
    assert_eq!((error.code, error.effect, error.remedy), (469, Effect::None, Remedy::Divert), "{error}");
    let mut damaged = frame.body.to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    let error = send(&table, "a", &damaged.into()).await.unwrap_err();
    assert_eq!((error.effect, error.remedy), (Effect::None, Remedy::Resend), "{error}");
    assert_eq!(server.query("SELECT count() FROM t").unwrap(), "0\n");
    server.query("DROP TABLE t").unwrap();
    let error = send(&table, "a", &frame.body).await.unwrap_err();
    assert_eq!((error.code, error.effect, error.remedy), (60, Effect::None, Remedy::Stop), "{error}");
    assert!(table.see().await.unwrap_err().message.contains("does not exist"));
}

/// One such row may not hold up all others: it becomes a dead letter as one does that a constraint refuses.
#[tokio::test]
async fn a_row_that_an_expression_of_the_table_has_no_value_for_is_refused() {
    let server = server_or_skip!();
    for (name, column, code) in [
        ("computed", "share Int32 MATERIALIZED intDiv(100, n)", 153),
        ("filled", "share Int32 DEFAULT intDiv(100, n)", 153),
        ("checked", "CONSTRAINT share CHECK intDiv(100, n) > 0", 153),
        ("empty", "number Int64 MATERIALIZED toInt64(s)", 32),
    ] {
        let columns = format!("n Int32, s String, _forebay UUID, {column}");
        server
            .query(&format!("CREATE TABLE {name} ({columns}) ENGINE = MergeTree ORDER BY n {WINDOW}"))
            .unwrap();
        let columns = Some(vec!["n".into(), "s".into()]);
        let config = TableConfig { columns, ..TableConfig::new("default", name) };
        let table = open_with(&server, config).await.unwrap_or_else(|faults| panic!("{faults:?}"));
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["7", ""]));
        let frame = &frames(&table, &[batch(vec![("n", ints([1, 0])), ("s", texts)])])[0];
        let error = send(&table, "a", &frame.body).await.unwrap_err();
        assert_eq!((error.code, error.effect, error.remedy), (code, Effect::None, Remedy::Divert), "{error}");
        assert_eq!(server.query(&format!("SELECT count() FROM {name}")).unwrap(), "0\n", "{name}");
    }
}

#[tokio::test]
async fn a_shut_gate_leaves_no_rows() {
    let server = server_or_skip!();
    server
        .query(&format!("CREATE TABLE t (n Int32, _forebay UUID) ENGINE = MergeTree ORDER BY n {WINDOW}"))
        .unwrap();
    let table = open(&server, "t").await;
    let frame = &frames(&table, &[batch(vec![("n", ints(0..100_000))])])[0];
    let attempt = Attempt {
        token: "a",
        query_id: "forebay-shut",
        body: frame.body.clone(),
        layout: None,
        gate: &Fixed(false),
    };
    let error = table.insert(attempt).await.unwrap_err();
    assert_eq!((error.effect, error.kind), (Effect::None, TableFault::Fenced));
    assert_eq!(server.query("SELECT count() FROM t").unwrap(), "0\n");
    send(&table, "a", &frame.body).await.unwrap();
    assert_eq!(server.query("SELECT count() FROM t").unwrap(), "100000\n");
}

#[tokio::test]
async fn dead_letters_have_a_table_of_their_own() {
    let server = server_or_skip!();
    let config = ServerConfig::new(server.url());
    let table = clickhouse::dead_letters::open(config, "default", "rejects", RealTime::shared()).await;
    let table = table.unwrap_or_else(|f| panic!("{f:?}"));
    let reject = dataflow::Reject {
        item: None,
        partition: dataflow::Partition::new("events", 2),
        position: 17,
        time_ms: 1_700_000_000_123,
        reason: dataflow::Reason::OutOfRange,
        column: "n".into(),
        message: "field `n`: `300` is not between 0 and 255".into(),
        key: None,
        headers: Vec::new(),
        raw: b"{\"n\":300}\xff".to_vec(),
    };
    let rows = dataflow::reject::to_rows("p", 1_700_000_001_000, &[reject]);
    let frame = frames(&table, &[rows]).remove(0);
    for _ in 0..2 {
        send(&table, "a", &frame.body).await.unwrap();
    }
    let shown = server.query("SELECT * EXCEPT (_forebay, raw), hex(raw) FROM rejects FORMAT CSV").unwrap();
    assert_eq!(
        shown,
        "\"2023-11-14 22:13:21.000\",\"p\",\"events\",2,17,\"2023-11-14 22:13:20.123\",\\N,\"{}\",\"out_of_range\",\"n\",\
         \"field `n`: `300` is not between 0 and 255\",\"7B226E223A3330307DFF\"\n"
    );
}

#[tokio::test]
async fn a_lost_answer_is_unknown_and_the_resend_is_a_no_op() {
    let server = server_or_skip!();
    server
        .query(&format!("CREATE TABLE t (n Int32, _forebay UUID) ENGINE = MergeTree ORDER BY n {WINDOW}"))
        .unwrap();
    let proxy = FaultProxy::start(&server.url()).unwrap();
    let config = ServerConfig::new(proxy.url());
    let table = ClickHouseTable::open(config, TableConfig::new("default", "t"), RealTime::shared()).await;
    let table = table.unwrap_or_else(|f| panic!("{f:?}"));
    let frame = frames(&table, &[batch(vec![("n", ints(0..100_000))])]).remove(0);

    proxy.add(Rule::next(1, Trouble::CutRequest { body_bytes: 1000 }).query("INSERT"));
    let error = send(&table, "a", &frame.body).await.unwrap_err();
    assert_eq!(error.remedy, Remedy::Resend, "{error}");
    assert_eq!(server.query("SELECT count() FROM t").unwrap(), "0\n", "a cut request leaves nothing behind");

    proxy.add(Rule::next(1, Trouble::SwallowAnswer).query("INSERT"));
    let error = send(&table, "a", &frame.body).await.unwrap_err();
    assert_eq!((error.effect, error.remedy), (Effect::Unknown, Remedy::Resend), "{error}");
    assert_eq!(server.query("SELECT count() FROM t").unwrap(), "100000\n", "the rows did land");

    send(&table, "a", &frame.body).await.unwrap();
    assert_eq!(server.query("SELECT count() FROM t").unwrap(), "100000\n", "and the resend added none");

    proxy.refuse().unwrap();
    // The connection that was kept breaks; a new one is refused. Neither reached the server.
    for kind in [TableFault::Broken, TableFault::Connection] {
        let error = send(&table, "b", &frame.body).await.unwrap_err();
        assert_eq!((error.effect, error.remedy, error.kind), (Effect::None, Remedy::Resend, kind), "{error}");
    }
    assert_eq!(table.see().await.unwrap_err().remedy, Remedy::Resend);
}

#[tokio::test]
async fn a_partitioned_target_takes_a_frame_of_several_partitions() {
    let server = server_or_skip!();
    server
        .query(&format!("CREATE TABLE t (n Int32, _forebay UUID) ENGINE = MergeTree ORDER BY n {WINDOW}"))
        .unwrap();
    server
        .query(&format!(
            "CREATE TABLE target (n Int32) ENGINE = MergeTree PARTITION BY n % 4 ORDER BY n {WINDOW}0"
        ))
        .unwrap();
    server.query("CREATE MATERIALIZED VIEW v TO target AS SELECT n FROM t").unwrap();
    let table = open(&server, "t").await;
    assert_eq!(facts(&table.see().await.unwrap()).tokens_per_frame, 100);
    let frame = frames(&table, &[batch(vec![("n", ints(0..100))])]).remove(0);
    for _ in 0..2 {
        send(&table, "a", &frame.body).await.unwrap();
    }
    assert_eq!(server.query("SELECT count() FROM target").unwrap(), "100\n");
}

/// A balancer that falls back to a second server between two polls.
#[tokio::test]
async fn an_insert_that_another_server_answered_is_in_doubt() {
    let server = server_or_skip!();
    server
        .query(&format!("CREATE TABLE t (n Int32, _forebay UUID) ENGINE = MergeTree ORDER BY n {WINDOW}"))
        .unwrap();
    let proxy = FaultProxy::start(&server.url()).unwrap();
    let config = TableConfig::new("default", "t");
    let table =
        ClickHouseTable::open(ServerConfig::new(proxy.url()), config, RealTime::shared()).await.unwrap();
    let frame = frames(&table, &[batch(vec![("n", ints(0..10))])]).remove(0);
    table.see().await.unwrap();
    let answer = |name| {
        let answer = testkit::Answer::new(200, "").header("X-ClickHouse-Query-Id", "x");
        Rule::next(1, Trouble::Answer(answer.header("X-ClickHouse-Server-Display-Name", name)))
            .query("INSERT INTO")
    };
    proxy.add(answer("backup"));
    let error = send(&table, "a", &frame.body).await.unwrap_err();
    assert_eq!((error.effect, error.remedy), (Effect::Unknown, Remedy::Resend), "{}", error.message);
    assert!(
        error.message.contains("server `backup` answered an insert where server `chdb-server`"),
        "{}",
        error.message
    );
    // The one that answers polls.
    proxy.add(answer("chdb-server"));
    send(&table, "a", &frame.body).await.unwrap();
}
