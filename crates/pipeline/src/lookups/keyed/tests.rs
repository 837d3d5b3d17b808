//! On a real PostgreSQL: blocks stay in order, each with the rows of its keys, whatever is remembered, away or too large.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use dataflow::{
    Column, ColumnType, Event, Intake, Partition, ReadFrom, Reader, RecordBlock, Runtime, Schema, Source,
    SourceError, SourceFault,
};
use engine::TokioRuntime;
use formats::json::{JsonDecoder, JsonOptions};
use operators::lookup::LookupKeyer;
use operators::{Lookup, LookupConfig};
use sources::memory::{MemoryHandle, MemorySource};
use testkit::{Postgres, PostgresOptions, Service, available};

use super::{Handed, Keyed, Rules, Server, portions};
use crate::lookups::source::{Looks, WithLookups};
use crate::lookups::tests::Suspended;
use crate::lookups::walk::{Walk, Walks};
use crate::lookups::{From, Load, Lookups};

const NUMBER: u32 = 3;
const MIB: u64 = 1 << 20;
const LONG: Duration = Duration::from_secs(3_600);

fn side() -> Schema {
    Schema::new(vec![
        Column::new("id", ColumnType::Int64),
        Column::new("name", ColumnType::String),
        Column::new("rank", ColumnType::Int64),
    ])
}

fn rows() -> Schema {
    Schema::new(vec![Column::new("shop", ColumnType::Int64), Column::new("kind", ColumnType::String)])
}

fn config() -> LookupConfig {
    LookupConfig {
        number: NUMBER,
        on: vec![("shop".into(), "id".into()), ("kind".into(), "name".into())],
        columns: vec![("rank".into(), "rank".into())],
        is_outer: true,
    }
}

fn rules(of: &str, keys: &[String], bytes_max: u64) -> Rules {
    Rules {
        step: "steps[3].lookup".to_owned(),
        side: of.to_owned(),
        decoder: Arc::new(JsonDecoder::new(side(), JsonOptions::default()).expect("a decoder")),
        keyer: LookupKeyer::new(&side(), keys).expect("a key"),
        bytes_max,
    }
}

struct World {
    server: Postgres,
    source: WithLookups,
    feed: MemoryHandle,
    intake: Intake,
    keyed: Arc<Keyed>,
}

fn world(bytes_max: u64, refresh: Duration) -> Option<World> {
    world_beside(bytes_max, refresh, Vec::new(), TokioRuntime::new(2))
}

/// With other sides, which are in memory as a whole, in the time of `runtime`.
fn world_beside(
    bytes_max: u64,
    refresh: Duration,
    whole: Vec<(u32, Duration, Load)>,
    runtime: Arc<dyn Runtime>,
) -> Option<World> {
    if !available(&[Service::Postgres]) {
        return None;
    }
    let server = Postgres::start(PostgresOptions::default()).expect("it starts");
    let ask = |sql: &str| drop(server.query(sql).expect("it is done"));
    ask("CREATE ROLE reader LOGIN PASSWORD 'x'");
    ask("CREATE TABLE shops (id int4, name text, rank int8); GRANT SELECT ON shops TO reader");
    let of = postgres::Server {
        host: "127.0.0.1".to_owned(),
        port: server.port(),
        database: "postgres".to_owned(),
        user: "reader".to_owned(),
        password: Some("x".to_owned()),
        tls: None,
        timeout: Duration::from_secs(60),
    };
    let table = postgres::Rows::Table { schema: None, table: "shops".to_owned() };
    let of_side = postgres::Side { server: of, rows: table, columns: side() };
    let keys = vec!["id".to_owned(), "name".to_owned()];
    let rules = rules("table `shops` in PostgreSQL", &keys, bytes_max);
    let server_of = Server::Postgres(postgres::Keyed::new(of_side, keys));
    let keyed = Arc::new(Keyed::new(NUMBER, refresh, server_of, rules));
    let step = Lookup::new(&rows(), &side(), &config()).expect("a step");
    let decoder = JsonDecoder::new(rows(), JsonOptions::default()).expect("a decoder");
    let intake = Intake::new(Arc::new(decoder)).with_steps(vec![Arc::new(step)]);
    let own = |_| vec!["shop".to_owned(), "kind".to_owned()];
    let walk = Walk::new(&intake, std::slice::from_ref(&keyed), own).expect("a way");
    let looks = Looks {
        lookups: Arc::new(Lookups::new(whole, vec![keyed.clone()])),
        walks: Arc::new(Walks::new(vec![("source".to_owned(), walk)])),
        own: 0,
        ahead: super::AHEAD,
    };
    let inner = MemorySource::new([("orders", 3)]);
    let feed = inner.handle();
    let source = WithLookups::new(Arc::new(inner), looks, runtime);
    Some(World { server, source, feed, intake, keyed })
}

impl World {
    fn ask(&self, sql: &str) {
        self.server.query(sql).expect("it is done");
    }

    fn push(&self, partition: u32, shop: i64, kind: &str) {
        let record = format!("{{\"shop\":{shop},\"kind\":\"{kind}\"}}");
        self.feed.push(&Partition::new("orders", partition), 0, record.as_str());
    }

    async fn reader(&self) -> Box<dyn Reader> {
        let starts = self.source.partitions().await.expect("it is there");
        let from = |start: dataflow::PartitionStart| ReadFrom {
            partition: start.partition,
            identity: start.identity,
            next: start.next,
            leader_epoch: start.leader_epoch,
        };
        self.source.read(starts.into_iter().map(from).collect()).await.expect("it reads")
    }

    /// The shop and what was found for it, of each record of a block; 0 for nothing.
    fn found(&self, block: &RecordBlock) -> Vec<(i64, i64)> {
        let rows = self.intake.prepare(block, 0).expect("it was looked up").batch.rows;
        let column =
            |name: &str| rows.column_by_name(name).expect("a column").as_primitive::<Int64Type>().clone();
        column("shop")
            .values()
            .iter()
            .copied()
            .zip(column("rank").iter().map(Option::unwrap_or_default))
            .collect()
    }
}

async fn next(reader: &mut dyn Reader) -> Result<RecordBlock, SourceError> {
    loop {
        if let Event::Block(block) = reader.next().await? {
            return Ok(block);
        }
    }
}

async fn away(reader: &mut dyn Reader) -> String {
    let error = next(reader).await.expect_err("it cannot be asked");
    assert_eq!(error.fault, SourceFault::Lookup);
    assert!(error.message.contains("`steps[3].lookup`"), "{error}");
    error.message
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_wait_while_the_other_side_is_away_and_come_in_order_with_the_rows_of_their_keys() {
    let Some(mut world) = world(MIB, LONG) else { return };
    world.ask("INSERT INTO shops SELECT n, 'k' || n % 2, n * 10 FROM generate_series(1, 1000) AS n");
    let mut reader = world.reader().await;
    world.server.stop().expect("it stops");
    for shop in 0..300 {
        world.push((shop % 3) as u32, shop, if shop % 2 == 0 { "k0" } else { "k1" });
    }
    for _ in 0..2 {
        assert!(away(&mut *reader).await.contains("no connection"));
    }
    world.server.restart().expect("it is back");
    let (mut seen, mut next_of) = (0, [0, 1, 2]);
    while seen < 300 {
        let block = next(&mut *reader).await.expect("it is back");
        for (shop, rank) in world.found(&block) {
            assert_eq!(rank, shop * 10, "shop 0 is unknown");
            let next = &mut next_of[block.partition.index as usize];
            assert_eq!(shop, *next);
            (seen, *next) = (seen + 1, *next + 3);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_answered_is_used_until_it_is_too_old_and_so_is_that_there_was_nothing() {
    // An hour passes when the test says so, and not while a busy machine is at it.
    let runtime = Suspended::new(2);
    let Some(mut world) = world_beside(MIB, LONG, Vec::new(), runtime.clone()) else { return };
    world.ask("INSERT INTO shops VALUES (1, 'k', 10)");
    let mut reader = world.reader().await;
    let mut look = async |world: &World| {
        world.push(0, 1, "k");
        world.push(0, 2, "k");
        let mut found = Vec::new();
        while found.len() < 2 {
            found.extend(world.found(&next(&mut *reader).await.expect("it is there")));
        }
        found
    };
    assert_eq!(look(&world).await, [(1, 10), (2, 0)]);
    world.ask("UPDATE shops SET rank = 11; INSERT INTO shops VALUES (2, 'k', 20)");
    assert_eq!(look(&world).await, [(1, 10), (2, 0)]);
    runtime.for_ms(3_700_000);
    assert_eq!(look(&world).await, [(1, 11), (2, 20)]);
    world.server.stop().expect("it stops");
    assert_eq!(look(&world).await, [(1, 11), (2, 20)], "what is known needs no server");
    world.push(0, 3, "k");
    away(&mut *reader).await;
    // A record that is read again gets what was known last, however old.
    runtime.for_ms(7_400_000);
    let at = |next| ReadFrom {
        partition: Partition::new("orders", 0),
        identity: "memory-1".to_owned(),
        next,
        leader_epoch: -1,
    };
    let record = world.source.record(at(0)).await.expect("it is known").expect("the record");
    assert_eq!(world.found(&record), [(1, 11)]);
    let error = world.source.record(at(8)).await.expect_err("it is not known");
    assert_eq!(error.fault, SourceFault::Lookup);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_side_that_is_larger_than_the_memory_is_found_in_pieces() {
    let Some(world) = world(MIB, LONG) else { return };
    // A row takes 140 bytes as text, so 500 of them are more than an answer may have, 2,000 more than a block may need, and 20,000 more than the cache.
    world.ask("INSERT INTO shops SELECT n, repeat('k', 100), n FROM generate_series(1, 20000) AS n");
    let kind = "k".repeat(100);
    let mut reader = world.reader().await;
    for round in 0..2 {
        for shops in (1..=20_000).collect::<Vec<i64>>().chunks([500, 2_000][round]) {
            shops.iter().for_each(|shop| world.push(0, *shop, &kind));
            let mut found = Vec::new();
            while found.len() < shops.len() {
                found.extend(world.found(&next(&mut *reader).await.expect("it is there")));
            }
            let wanted: Vec<_> = shops.iter().map(|shop| (*shop, *shop)).collect();
            assert_eq!(found, wanted, "round {round}");
        }
        let cache = world.keyed.cache();
        assert!(cache.bytes() <= MIB && cache.bytes() > MIB - 300 && cache.len() < 5_000, "{}", cache.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_used_is_named_and_waited_for() {
    let Some(world) = world(MIB, Duration::ZERO) else { return };
    world.ask("INSERT INTO shops VALUES (1, 'k', 10), (1, 'k', 11)");
    let mut reader = world.reader().await;
    world.push(0, 1, "k");
    let why = away(&mut *reader).await;
    assert!(why.contains("two rows with the key `1`, `k`") && why.contains("`FINAL`"), "{why}");
    world.ask("UPDATE shops SET rank = NULL");
    world.ask("DELETE FROM shops WHERE ctid IN (SELECT ctid FROM shops LIMIT 1)");
    let why = away(&mut *reader).await;
    assert!(why.contains("`rank`") && why.contains("does not fit `fields`"), "{why}");
    world.ask("ALTER TABLE shops ALTER COLUMN id TYPE text");
    let why = away(&mut *reader).await;
    assert!(why.contains("`id` is of type `text` there"), "{why}");
    world.ask("ALTER TABLE shops ALTER COLUMN id TYPE int8 USING id::int8; UPDATE shops SET rank = 12");
    assert_eq!(world.found(&next(&mut *reader).await.expect("it is mended")), [(1, 12)]);
}

/// Each state of the whole side that a block has seen while it could not go on would keep the next one from being read.
#[tokio::test(flavor = "multi_thread")]
async fn blocks_that_wait_for_keys_let_another_side_be_read_again_and_go_on_afterwards() {
    let path = std::env::temp_dir().join(format!("forebay-lookups-beside-{}.json", std::process::id()));
    let writes = |rank: u64| {
        let row = format!("{{\"id\":1,\"name\":\"k\",\"rank\":{rank}}}\n");
        std::fs::write(&path, row).expect("writes");
    };
    writes(1);
    let load = Load {
        from: Arc::new(From::File { path: path.clone(), csv: None }),
        rules: rules("file `beside.json`", &["id".to_owned()], MIB),
    };
    let refresh = Duration::from_millis(1);
    let Some(world) = world_beside(MIB, LONG, vec![(NUMBER + 1, refresh, load)], TokioRuntime::new(2)) else {
        return;
    };
    world.ask("INSERT INTO shops VALUES (1, 'k', 10), (1, 'k', 11)");
    let mut reader = world.reader().await;
    for partition in 0..3 {
        world.push(partition, 1, "k");
    }
    for round in 0..8 {
        writes(10_u64.pow(round));
        tokio::time::sleep(4 * refresh).await;
        let why = tokio::time::timeout(Duration::from_secs(60), away(&mut *reader)).await;
        let why = why.expect("the other side was read again");
        assert!(why.contains("two rows with the key"), "{why}");
    }
    world.ask("DELETE FROM shops WHERE rank = 11");
    let mut found = Vec::new();
    while found.len() < 3 {
        let block = tokio::time::timeout(Duration::from_secs(60), next(&mut *reader)).await;
        found.extend(world.found(&block.expect("it goes on").expect("it is mended")));
    }
    assert_eq!(found, [(1, 10), (1, 10), (1, 10)]);
    std::fs::remove_file(&path).expect("removes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_too_large_is_named_with_the_setting() {
    let Some(world) = world(MIB, LONG) else { return };
    let large = "k".repeat(70_000);
    world.ask(&format!("INSERT INTO shops VALUES (1, '{large}', 10)"));
    let mut reader = world.reader().await;
    world.push(0, 1, &large);
    let why = away(&mut *reader).await;
    assert!(why.contains("`65536` bytes") && why.contains("`memory` of the step"), "{why}");
}

#[test]
fn keys_are_asked_for_in_portions() {
    let key = |length: usize| super::Key { hash: 0, texts: vec![vec![b'k'; length]].into_boxed_slice() };
    let sizes = |keys: Vec<super::Key>| portions(keys).iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(sizes((0..5_000).map(|_| key(1)).collect()), [2_048, 2_048, 904]);
    assert_eq!(sizes(vec![key(90_000), key(20_000), key(200_000), key(1)]), [1, 1, 1, 1]);
    assert_eq!(sizes(Vec::new()), Vec::<usize>::new());
}

#[test]
fn rows_are_handed_out_as_long_as_there_is_room_for_them_and_always_those_of_one_block() {
    let handed = Handed::default();
    let table: Arc<dyn std::any::Any + Send + Sync> = Arc::new(1);
    assert!(handed.has_room(1_000, 100));
    handed.put(&table, 60);
    assert!(handed.has_room(40, 100) && !handed.has_room(41, 100));
    drop(table);
    assert!(handed.has_room(1_000, 100));
}
