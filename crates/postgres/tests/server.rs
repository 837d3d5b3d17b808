//! A real server: every type in its exact form, every refusal with its way out, bounds of memory and time.
#![allow(clippy::expect_used, reason = "a failure of a test may panic")]

use std::sync::Arc;
use std::time::Duration;

use dataflow::{BlockBuilder, Column, ColumnType, Decoder, Partition, Runtime, Schema};
use engine::TokioRuntime;
use formats::json::{JsonDecoder, JsonOptions};
use postgres::{Fault, Keyed, Rows, Server, Side, Trust};
use testkit::{Postgres, PostgresOptions, Service, available};

const MIB: usize = 1 << 20;

fn schema(columns: &[(&str, ColumnType)]) -> Schema {
    Schema::new(columns.iter().map(|(name, of)| Column::new(*name, of.clone())).collect())
}

fn nullable(of: ColumnType) -> ColumnType {
    ColumnType::Nullable(Box::new(of))
}

fn array(of: ColumnType) -> ColumnType {
    ColumnType::Array(Box::new(of))
}

struct World {
    server: Postgres,
    runtime: Arc<dyn Runtime>,
}

impl World {
    fn new(options: PostgresOptions) -> Option<Self> {
        if !available(&[Service::Postgres]) {
            return None;
        }
        let server = Postgres::start(options).expect("it starts");
        server.query("CREATE ROLE reader LOGIN PASSWORD 'a ''secret'").expect("a user");
        Some(Self { server, runtime: TokioRuntime::new(1) })
    }

    fn ask(&self, sql: &str) {
        self.server.query(sql).expect("it is done");
    }

    fn side(&self, rows: Rows, columns: &[(&str, ColumnType)]) -> Side {
        let server = Server {
            host: "127.0.0.1".to_owned(),
            port: self.server.port(),
            database: "postgres".to_owned(),
            user: "reader".to_owned(),
            password: Some("a 'secret".to_owned()),
            tls: None,
            timeout: Duration::from_secs(60),
        };
        Side { server, rows, columns: schema(columns) }
    }

    async fn lines(&self, side: &Side) -> Vec<String> {
        let text = side.read(&self.runtime, MIB).await.expect("rows");
        String::from_utf8(text).expect("UTF-8").lines().map(str::to_owned).collect()
    }

    async fn refuses(&self, side: &Side) -> String {
        match side.read(&self.runtime, MIB).await {
            Err(Fault::Failed(why)) => {
                assert!(!why.contains("secret"), "{why}");
                why
            }
            other => panic!("{other:?}"),
        }
    }
}

fn table(table: &str) -> Rows {
    Rows::Table { schema: None, table: table.to_owned() }
}

const MICROS: ColumnType = ColumnType::DateTime64 { precision: 6, timezone: None };

#[tokio::test]
async fn every_type_comes_in_its_exact_form_and_is_decoded() {
    let Some(world) = World::new(PostgresOptions::default()) else { return };
    world.ask(
        "CREATE TYPE mood AS ENUM ('good', 'bad'); CREATE DOMAIN cents AS bigint; \
         CREATE TABLE every (i2 int2, i4 int4, i8 int8, c cents, f4 float4, f8 float8, n numeric, b bool, t text, v varchar(9), p char(5), m mood, d date, \
         ts timestamp, tz timestamptz, u uuid, j json, jb jsonb, ai int8[], at text[], aj jsonb[]); GRANT SELECT ON every TO reader; \
         INSERT INTO every VALUES (-32768, 2147483647, 9223372036854775807, 9007199254740993, 0.1, 0.1, 12345678901234567890.123456789, true, E'a\"\\\\\\n\\t\u{e9}', '', 'ab', \
         'bad', '0001-02-03', '2026-11-24 12:34:56.123456', '2026-11-24 12:34:56.123456+05:30', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{\"a\":  1}', '{\"b\": [1, null]}', \
         '{1,NULL,9007199254740993}', '{a,NULL,\"b,\\\"c\"}', ARRAY['{\"x\":1}'::jsonb]); \
         INSERT INTO every (f4, f8) VALUES ('NaN', '-Infinity')",
    );
    let decimal = ColumnType::Decimal { precision: 38, scale: 9 };
    let columns = [
        ("i2", nullable(ColumnType::Int16)),
        ("i4", nullable(ColumnType::UInt32)),
        ("i8", nullable(ColumnType::Int64)),
        ("c", nullable(ColumnType::Int64)),
        ("f4", nullable(ColumnType::Float32)),
        ("f8", nullable(ColumnType::Float64)),
        ("n", nullable(decimal)),
        ("b", nullable(ColumnType::Bool)),
        ("t", nullable(ColumnType::String)),
        ("v", nullable(ColumnType::String)),
        ("p", nullable(ColumnType::String)),
        ("m", nullable(ColumnType::String)),
        ("d", nullable(ColumnType::String)),
        ("ts", nullable(MICROS)),
        ("tz", nullable(MICROS)),
        ("u", nullable(ColumnType::Uuid)),
        ("j", nullable(ColumnType::String)),
        ("jb", nullable(ColumnType::String)),
    ];
    let lines = world.lines(&world.side(table("every"), &columns)).await;
    let wanted = concat!(
        r#"{"i2":-32768,"i4":2147483647,"i8":9223372036854775807,"c":9007199254740993,"f4":0.1,"f8":0.1,"n":12345678901234567890.123456789,"b":true,"#,
        r#""t":"a\"\\\n\té","v":"","p":"ab","m":"bad","d":"0001-02-03","ts":"2026-11-24T12:34:56.123456","tz":"2026-11-24T07:04:56.123456+00:00","#,
        r#""u":"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11","j":"{\"a\":  1}","jb":"{\"b\": [1, null]}"}"#
    );
    assert_eq!(lines[0], wanted);
    assert!(
        lines[1].contains(r#""i2":null"#) && lines[1].contains(r#""f4":"NaN","f8":"-Infinity""#),
        "{}",
        lines[1]
    );
    let items = [
        ("ai", array(nullable(ColumnType::Int64))),
        ("at", array(nullable(ColumnType::String))),
        ("aj", array(ColumnType::String)),
    ];
    let query = Rows::Query("SELECT * FROM every WHERE i2 IS NOT NULL -- one".to_owned());
    let arrays = world.lines(&world.side(query, &items)).await;
    assert_eq!(arrays, [r#"{"ai":[1,null,9007199254740993],"at":["a",null,"b,\"c"],"aj":["{\"x\": 1}"]}"#]);
    for (columns, lines) in [(&columns[..], &lines), (&items[..], &arrays)] {
        let decoder = JsonDecoder::new(schema(columns), JsonOptions::default()).expect("a decoder");
        let mut block = BlockBuilder::new(Partition::new("rows", 0), 0);
        for (nth, line) in lines.iter().enumerate() {
            block.push(nth as u64, 0, Some(line.as_bytes()));
        }
        let decoded = decoder.decode(&block.take());
        assert!(decoded.rejects.is_empty(), "{:?}", decoded.rejects);
        assert_eq!(decoded.batch.rows.num_rows(), lines.len());
    }
}

#[tokio::test]
async fn a_refusal_names_its_reason_and_the_way_out() {
    let Some(world) = World::new(PostgresOptions::default()) else { return };
    world.ask("CREATE TABLE shops (id int8, net inet, name text); CREATE TABLE hidden (id int8); GRANT SELECT ON shops TO reader");
    let id = [("id", ColumnType::Int64)];
    let good = world.side(table("shops"), &id);
    assert!(world.lines(&good).await.is_empty());
    let says = async |side: &Side, all: &[&str]| {
        let why = world.refuses(side).await;
        for one in all {
            assert!(why.contains(one), "`{one}` is not in: {why}");
        }
    };
    let place = format!("PostgreSQL at `127.0.0.1:{}`", world.server.port());
    says(&world.side(table("sohps"), &id), &[&place, "sohps", "42P01", "correct `table`"]).await;
    let columns = [("id", ColumnType::Int64), ("nmae", ColumnType::String)];
    says(&world.side(table("shops"), &columns), &["nmae", "42703", "`fields`"]).await;
    says(&world.side(table("hidden"), &id), &["42501", "GRANT SELECT ON \"hidden\" TO \"reader\""]).await;
    says(&world.side(table("shops"), &[("net", ColumnType::String)]), &["`net` is of type `inet`", "query"])
        .await;
    says(
        &world.side(table("shops"), &[("name", ColumnType::Bool)]),
        &["`name` is of type `text`", "name: String"],
    )
    .await;
    let writes = Rows::Query("WITH gone AS (DELETE FROM shops RETURNING id) SELECT id FROM gone".to_owned());
    assert!(world.refuses(&world.side(writes, &id)).await.contains("PostgreSQL at"));
    says(&world.side(Rows::Query("SELEC 1".to_owned()), &id), &["42601", "correct `query`"]).await;
    let with = |change: &dyn Fn(&mut Server)| {
        let mut side = good.clone();
        change(&mut side.server);
        side
    };
    let guess = with(&|server| server.password = Some("another secret".to_owned()));
    says(&guess, &["28P01", "correct `user` and `password`"]).await;
    says(&with(&|server| server.password = None), &["it asks for a password"]).await;
    says(&with(&|server| server.database = "shop".to_owned()), &["3D000", "there is no `shop`"]).await;
    says(&with(&|server| server.port = 1), &["127.0.0.1:1", "no connection"]).await;
    let trust: Trust = Arc::new(|| Err("not asked for".to_owned()));
    says(&with(&|server| server.tls = Some(trust.clone())), &["not asked for"]).await;
    world.ask("INSERT INTO shops SELECT n, NULL, NULL FROM generate_series(1, 100000) AS n");
    let slow = Rows::Query("SELECT id, pg_sleep(10)::text AS name FROM shops".to_owned());
    let mut slow = world.side(slow, &[("id", ColumnType::Int64), ("name", ColumnType::String)]);
    slow.server.timeout = Duration::from_secs(1);
    says(&slow, &["`timeout`"]).await;
}

#[tokio::test]
async fn memory_is_bounded_by_rows_and_by_each_message() {
    let Some(world) = World::new(PostgresOptions::default()) else { return };
    let name = [("name", ColumnType::String)];
    let many = Rows::Query("SELECT 'some text' AS name FROM generate_series(1, 1000000)".to_owned());
    assert_eq!(world.side(many, &name).read(&world.runtime, MIB).await, Err(Fault::TooLong));
    // It is refused by its head: the server has its 100 MB, we have none of them.
    let wide = Rows::Query("SELECT repeat('x', 100000000) AS name".to_owned());
    assert_eq!(world.side(wide, &name).read(&world.runtime, MIB).await, Err(Fault::TooLong));
    let fits = Rows::Query("SELECT repeat('x', 1000000) AS name".to_owned());
    assert_eq!(world.lines(&world.side(fits, &name)).await[0].len(), 1_000_011);
}

#[tokio::test]
async fn a_server_that_went_away_is_asked_again_when_it_is_back() {
    let Some(mut world) = World::new(PostgresOptions::default()) else { return };
    world.ask("CREATE TABLE shops (id int8); GRANT SELECT ON shops TO reader; INSERT INTO shops VALUES (1)");
    let mut side = world.side(table("shops"), &[("id", ColumnType::Int64)]);
    assert_eq!(world.lines(&side).await, [r#"{"id":1}"#]);
    world.server.stop().expect("it stops");
    assert!(world.refuses(&side).await.contains("no connection"));
    world.server.restart().expect("it is back");
    world.ask("UPDATE shops SET id = 2");
    assert_eq!(world.lines(&side).await, [r#"{"id":2}"#]);
    world.server.pause().expect("it stands still");
    side.server.timeout = Duration::from_secs(1);
    let why = world.refuses(&side).await;
    assert!(why.contains("timeout"), "{why}");
    world.server.resume().expect("it goes on");
    assert_eq!(world.lines(&side).await, [r#"{"id":2}"#]);
}

#[tokio::test]
async fn what_is_to_be_encrypted_is_never_sent_in_clear() {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

    let mut params = CertificateParams::new(Vec::new()).expect("names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let authority = params.self_signed(&key).expect("a certificate");
    let issuer = Issuer::new(params, key);
    let own_key = KeyPair::generate().expect("a key");
    let own = CertificateParams::new(vec!["localhost".to_owned()]).expect("names");
    let own = own.signed_by(&own_key, &issuer).expect("a certificate");
    let Some(world) = World::new(PostgresOptions::default().tls(&own.pem(), &own_key.serialize_pem())) else {
        return;
    };
    world.ask("CREATE TABLE shops (id int8); GRANT SELECT ON shops TO reader; INSERT INTO shops VALUES (1)");
    let trusts = |roots: rustls::RootCertStore| -> Trust {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let config = Arc::new(config);
        Arc::new(move || Ok(config.clone()))
    };
    let mut roots = rustls::RootCertStore::empty();
    roots.add(authority.der().clone()).expect("an authority");
    let mut side = world.side(table("shops"), &[("id", ColumnType::Int64)]);
    let why = world.refuses(&side).await;
    assert!(why.contains("28000"), "the server takes no login in clear: {why}");
    side.server.tls = Some(trusts(roots));
    let why = world.refuses(&side).await;
    assert!(
        why.contains("TLS") && why.contains("127.0.0.1"),
        "the certificate is not for the address: {why}"
    );
    side.server.host = "localhost".to_owned();
    assert_eq!(world.lines(&side).await, [r#"{"id":1}"#]);
    let encrypted =
        Rows::Query("SELECT ssl, version FROM pg_stat_ssl WHERE pid = pg_backend_pid()".to_owned());
    let asked = Side { rows: encrypted, columns: schema(&[("ssl", ColumnType::Bool)]), ..side.clone() };
    assert_eq!(world.lines(&asked).await, [r#"{"ssl":true}"#]);
    side.server.tls = Some(trusts(rustls::RootCertStore::empty()));
    let why = world.refuses(&side).await;
    assert!(why.contains("TLS"), "nobody whom it trusts has signed: {why}");

    let Some(clear) = World::new(PostgresOptions::default()) else { return };
    side.server.port = clear.server.port();
    let why = clear.refuses(&side).await;
    assert!(why.contains("does not encrypt") && why.contains("sslmode: disable"), "{why}");
}

/// The rows of keys, each as the texts of its values.
async fn of_keys(world: &World, keyed: &Keyed, keys: &[&[&[u8]]]) -> Result<Vec<String>, Fault> {
    let keys: Vec<Vec<Vec<u8>>> =
        keys.iter().map(|key| key.iter().map(|text| text.to_vec()).collect()).collect();
    let keys: Vec<&[Vec<u8>]> = keys.iter().map(Vec::as_slice).collect();
    let text = keyed.rows_of(&world.runtime, &keys, MIB).await?;
    let mut lines: Vec<String> = String::from_utf8(text).expect("UTF-8").lines().map(str::to_owned).collect();
    lines.sort();
    Ok(lines)
}

/// A column, its type, the keys that are asked for, and the rows that are found.
type OfType<'a> = (&'a str, ColumnType, &'a [&'a [u8]], &'a [i32]);

#[tokio::test]
async fn keys_of_every_type_find_their_rows_and_what_no_value_can_be_is_not_asked_for() {
    let Some(world) = World::new(PostgresOptions::default()) else { return };
    world.ask(
        "CREATE DOMAIN cents AS bigint; CREATE TABLE keyed (i2 int2, i8 cents, n numeric, t text, v varchar(9), p char(5), u uuid, d date, b bool, x int); \
         GRANT SELECT ON keyed TO reader; \
         INSERT INTO keyed VALUES (-5, 9007199254740993, 18446744073709551615, E'it''s\\\\', 'v', 'ab', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '1900-01-02', true, 1), \
         (6, 9007199254740992, 7, 'T', '', 'ab', NULL, '2026-11-25', false, 2)",
    );
    let keyed = |column: &str, of: ColumnType| {
        let side = world.side(table("keyed"), &[(column, of), ("x", ColumnType::Int64)]);
        Keyed::new(side, vec![column.to_owned()])
    };
    let (int, uint, text) = (ColumnType::Int64, ColumnType::UInt64, ColumnType::String);
    let cases: [OfType<'_>; 9] = [
        ("i2", int.clone(), &[b"-5", b"70000", b"99999999999999999999"], &[1]),
        ("i8", int, &[b"9007199254740993"], &[1]),
        ("n", uint, &[b"18446744073709551615"], &[1]),
        ("t", text.clone(), &[b"it's\\", b"\xff", b"a\0b", b"t"], &[1]),
        ("v", text.clone(), &[b"", b"longer than any"], &[2]),
        ("p", text, &[b"ab"], &[1, 2]),
        ("u", ColumnType::Uuid, &[b"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"], &[1]),
        ("d", ColumnType::Date32, &[b"1900-01-02"], &[1]),
        ("b", ColumnType::Bool, &[b"false"], &[2]),
    ];
    for (column, of, keys, wanted) in cases {
        let keys: Vec<[&[u8]; 1]> = keys.iter().map(|key| [*key]).collect();
        let keys: Vec<&[&[u8]]> = keys.iter().map(|key| key.as_slice()).collect();
        let lines = of_keys(&world, &keyed(column, of), &keys).await.expect("rows");
        let found: Vec<bool> =
            lines.iter().zip(wanted).map(|(line, x)| line.contains(&format!("\"x\":{x}}}"))).collect();
        assert_eq!(found, vec![true; wanted.len()], "{column}: {lines:?}");
        assert_eq!(lines.len(), wanted.len(), "{column}: {lines:?}");
    }
    // Of several columns; keys that are impossible in one of them are left out whole.
    let side = world.side(table("keyed"), &[("t", ColumnType::String), ("i2", ColumnType::Int64)]);
    let several = Keyed::new(side, vec!["t".to_owned(), "i2".to_owned()]);
    let keys: [&[&[u8]]; 4] =
        [&[b"T", b"6"], &[b"T", b"-5"], &[b"it's\\", b"99999999999999999999"], &[b"\0", b"6"]];
    assert_eq!(of_keys(&world, &several, &keys).await.expect("rows"), [r#"{"t":"T","i2":6}"#]);
    assert_eq!(of_keys(&world, &several, &keys[3..]).await.expect("rows"), [""; 0]);
}

#[tokio::test]
async fn keys_that_cannot_be_asked_for_are_named_with_the_way_out() {
    let Some(world) = World::new(PostgresOptions::default()) else { return };
    world.ask("CREATE TYPE mood AS ENUM ('good'); CREATE TABLE moods (m mood, t text, at timestamp); GRANT SELECT ON moods TO reader");
    world.ask("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0");
    let keyed = |column: &str, of: ColumnType| {
        Keyed::new(world.side(table("moods"), &[(column, of)]), vec![column.to_owned()])
    };
    for (column, of) in [("m", ColumnType::String), ("t", ColumnType::Int64), ("at", ColumnType::String)] {
        match of_keys(&world, &keyed(column, of), &[&[b"1"]]).await {
            Err(Fault::Failed(why)) => {
                assert!(why.contains(&format!("`{column}` is of type")) && why.contains("`query`"), "{why}");
            }
            other => panic!("{other:?}"),
        }
    }
    let mut side = world.side(Rows::Query("SELECT 'x'::text AS t".to_owned()), &[("t", ColumnType::String)]);
    side.server.database = "latin".to_owned();
    match of_keys(&world, &Keyed::new(side, vec!["t".to_owned()]), &[&[b"x"]]).await {
        Err(Fault::Failed(why)) => {
            assert!(why.contains("LATIN1") && why.contains("leave `cache` out"), "{why}")
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_large_table_is_read_by_its_index() {
    let Some(world) = World::new(PostgresOptions::default()) else { return };
    world.ask(
        "CREATE TABLE large (a int4, b text, PRIMARY KEY (a, b)); INSERT INTO large SELECT n % 1000, 'b' || n / 1000 FROM generate_series(1, 200000) AS n; ANALYZE large; \
         GRANT SELECT ON large TO reader",
    );
    let side = world.side(table("large"), &[("a", ColumnType::UInt64), ("b", ColumnType::String)]);
    let keyed = Keyed::new(side, vec!["a".to_owned(), "b".to_owned()]);
    let keys: Vec<[Vec<u8>; 2]> =
        (0..100).map(|n| [n.to_string().into_bytes(), format!("b{n}").into_bytes()]).collect();
    let keys: Vec<&[Vec<u8>]> = keys.iter().map(<[Vec<u8>; 2]>::as_slice).collect();
    let text = keyed.rows_of(&world.runtime, &keys, MIB).await.expect("rows");
    assert_eq!(text.split(|byte| *byte == b'\n').count() - 1, 99, "all but the one of 0 and b0");
    // A session that ends tells what it has read.
    drop(keyed);
    let scans = "SELECT coalesce(seq_scan, 0)::text, coalesce(idx_scan, 0)::text FROM pg_stat_user_tables WHERE relname = 'large'";
    testkit::wait_until(Duration::from_secs(600), "a read by the index", || {
        let found = world.server.query(scans).expect("statistics");
        found[0][1].as_deref().is_some_and(|scans| scans != "0")
    });
}
