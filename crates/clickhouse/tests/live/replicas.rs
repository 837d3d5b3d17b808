//! What a command asks of a table with replicas. The engine of a test has no keeper: the table is called replicated on the way, and the server answers that
//! it shows no replica of it.

use std::time::Duration;

use clickhouse::reconcile::{KeyPlan, Letters, TableKeys, Values};

use super::*;

/// A proxy behind which every table is a replicated one.
fn replicated(server: &ClickHouse) -> FaultProxy {
    let proxy = FaultProxy::start(&server.url()).unwrap();
    let engine = "[[[\"ReplicatedMergeTree\",\"ReplicatedMergeTree ORDER BY n\"]]]\n";
    let engine = testkit::Answer::new(200, engine).header("X-ClickHouse-Query-Id", "x");
    proxy.add(Rule::always(Trouble::Answer(engine)).query("groupArray((engine, engine_full))"));
    proxy
}

#[tokio::test]
async fn a_table_with_replicas_gives_the_same_rows_beside_the_lag_of_the_one_that_answers() {
    let server = server_or_skip!();
    let columns = "n Int32, v Int32, s String DEFAULT 'x', _forebay UUID";
    server.query(&format!("CREATE TABLE t ({columns}) ENGINE = MergeTree ORDER BY n {WINDOW}")).unwrap();
    let frame = "toUUID('00000000-0000-0000-0000-000000000007')";
    server
        .query(&format!("INSERT INTO t SELECT number % 500, number, 'y', {frame} FROM numbers(1000)"))
        .unwrap();
    let table = open(&server, "t").await;
    let key = vec!["n".to_owned()];
    let plan = KeyPlan::new(table.schema(), &key).unwrap();
    let (values, _) = Values::of_the_rest(table.schema(), &key);
    let keys = |url: String| {
        let about = TableConfig::new("default", "t");
        let keys =
            TableKeys::new(ServerConfig::new(url), (&about, Duration::ZERO), &plan, RealTime::shared());
        keys.unwrap().with_values(values.as_ref()).with_provenance(true)
    };
    let proxy = replicated(&server);
    let (plain, of_replica) = (keys(server.url()), keys(proxy.url()));
    assert_eq!(of_replica.rows().await.unwrap(), 1_000);
    assert_eq!(of_replica.digests(8).await.unwrap(), plain.digests(8).await.unwrap());
    let hashes = plain.hashes(0, u64::MAX).await.unwrap();
    assert_eq!(hashes.len(), 500);
    assert_eq!(of_replica.hashes(0, u64::MAX).await.unwrap(), hashes);
    assert_eq!(of_replica.value_sums(8).await.unwrap(), plain.value_sums(8).await.unwrap());
    assert_eq!(of_replica.values(0, u64::MAX).await.unwrap(), plain.values(0, u64::MAX).await.unwrap());
    assert_eq!(of_replica.frames(&[7, 8]).await.unwrap(), [(7, 1_000)]);
    let some: Vec<u64> = hashes.iter().take(20).map(|(hash, _)| *hash).collect();
    assert_eq!(of_replica.frames_of(&some).await.unwrap(), plain.frames_of(&some).await.unwrap());
    assert_eq!(of_replica.named(&some).await.unwrap(), plain.named(&some).await.unwrap());
    // What no replica has vouched for is told.
    assert_eq!(plain.lag(), None);
    let lag = of_replica.lag().unwrap_or_default();
    assert!(lag.contains("does not show the table's replica"), "{lag}");
    let asked = proxy.seen();
    let of_rows: Vec<_> = asked.iter().filter(|seen| seen.query.contains("FROM `default`.`t`")).collect();
    assert!(
        of_rows.len() > 8 && of_rows.iter().all(|seen| seen.query.matches("system.replicas").count() == 2)
    );
}

#[tokio::test]
async fn dead_letters_with_replicas_are_the_same_page_by_page() {
    let server = server_or_skip!();
    let config = clickhouse::dead_letters::config("default", "letters");
    open_with(&server, config.clone()).await.unwrap_or_else(|faults| panic!("{faults:?}"));
    server
        .query(
            "INSERT INTO letters (pipeline, source, partition, position, reason, raw) SELECT 'p', if(number % 2 = 0, 'b', 'a'), 0, 100 - number, \
             if(number = 7, 'refused', 'syntax'), toString(number) FROM numbers(50)",
        )
        .unwrap();
    let letters = |url: String| {
        Letters::new(ServerConfig::new(url), (&config, Duration::ZERO), RealTime::shared()).unwrap()
    };
    let proxy = replicated(&server);
    let (plain, of_replica) = (letters(server.url()), letters(proxy.url()));
    let of = "pipeline = 'p'";
    let mut after = None;
    for _ in 0..3 {
        let page = of_replica.page(of, after.as_ref(), 20).await.unwrap();
        assert_eq!(page, plain.page(of, after.as_ref(), 20).await.unwrap());
        assert!(!page.is_empty());
        after = page.last().cloned();
    }
    assert_eq!(of_replica.refused(of, 0, 10).await.unwrap(), ["7"]);
    assert!(of_replica.lag().is_some() && plain.lag().is_none());
}
