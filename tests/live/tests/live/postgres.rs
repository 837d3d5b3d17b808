//! Lookups in PostgreSQL: every type into ClickHouse, an update is seen, and while the server is away or refuses every record waits, and none is written with a NULL.

use std::collections::BTreeMap;
use std::time::Duration;

use live::tls::Authority;
use live::{Case, Feed};
use testkit::{Lcg, Postgres, PostgresOptions, Service, available, seed};

const ORDERS_OF_A_PHASE: u64 = 1_500;
const SHOPS: u64 = 50;
/// How old the other side may be.
const REFRESH: Duration = Duration::from_secs(1);

/// The columns that are looked up: their types in PostgreSQL and in ClickHouse, and the same text of a value in both.
const COLUMNS: [(&str, &str, &str, &str); 14] = [
    ("small", "int2", "Int16", "small::text"),
    ("rank", "int8", "UInt32", "rank::text"),
    ("big", "int8", "Int64", "big::text"),
    ("f4", "float4", "Float32", "f4::text"),
    ("f8", "float8", "Float64", "f8::text"),
    ("price", "numeric", "Decimal(18, 4)", "price::text"),
    ("open", "bool", "Bool", "open::text"),
    ("name", "text", "String", "name"),
    ("mood", "mood", "LowCardinality(String)", "mood::text"),
    ("since", "date", "Date32", "since::text"),
    ("closes", "timestamp", "DateTime64(6)", "closes::text"),
    ("seen", "timestamptz", "DateTime64(6, 'UTC')", "(seen AT TIME ZONE 'UTC')::text"),
    ("uid", "uuid", "UUID", "uid::text"),
    ("doc", "jsonb", "String", "doc::text"),
];

/// Shop to the texts of its columns, as PostgreSQL has them now.
fn shops(server: &Postgres) -> BTreeMap<u64, String> {
    let texts = COLUMNS.map(|(.., text)| text).join(" || '|' || ");
    let rows = server.query(&format!("SELECT id::text, {texts} FROM shop.shops")).expect("the shops");
    let text = |value: &Option<String>| value.clone().expect("no value is NULL");
    rows.iter().map(|row| (text(&row[0]).parse().expect("a number"), text(&row[1]))).collect()
}

fn start(case: &Case) -> (Postgres, String) {
    let authority = Authority::new(case.dir(), "authority").expect("an authority");
    let identity = authority.issue(case.dir(), "localhost").expect("a certificate");
    let read = |path: &std::path::Path| std::fs::read_to_string(path).expect("a file");
    let options = PostgresOptions::default().tls(&read(&identity.cert), &read(&identity.key));
    let server = Postgres::start(options).expect("PostgreSQL must start");
    let columns = COLUMNS.map(|(name, of, ..)| format!("{name} {of}")).join(", ");
    let made = [
        "CREATE ROLE reader LOGIN PASSWORD 'it''s secret'; CREATE SCHEMA shop; CREATE TYPE mood AS ENUM ('good', 'bad')".to_owned(),
        format!("CREATE TABLE shop.shops (id int8 PRIMARY KEY, {columns})"),
        // Ids and numbers that no float holds.
        format!(
            "INSERT INTO shop.shops SELECT 9007199254740992 + s, -s, s * 80000000, 9007199254740993 + s, s / 2.0, s / 10.0, s + 0.1234, s % 2 = 0, \
             E'shop ''' || s || E'\\n\u{e9}', CASE s % 2 WHEN 0 THEN 'good' ELSE 'bad' END::mood, date '1900-01-01' + s::int, \
             timestamp '2026-11-24 01:02:03.123456' + s * interval '1 hour', timestamptz '2026-11-24 01:02:03.123456+05:30' + s * interval '1 hour', \
             ('00000000-0000-0000-0000-' || lpad(s::text, 12, '0'))::uuid, jsonb_build_object('s', s, 'a', ARRAY['x', NULL]) FROM generate_series(0::int8, {}) AS s",
            SHOPS - 1
        ),
        "CREATE TABLE shop.regions (id int4, net inet, tags text[]); INSERT INTO shop.regions VALUES (0, '10.0.0.1', '{}'), (1, '10.0.0.2', '{a,\"b,c\"}'), (2, NULL, '{x}')".to_owned(),
        "GRANT USAGE ON SCHEMA shop TO reader; GRANT SELECT ON ALL TABLES IN SCHEMA shop TO reader".to_owned(),
    ];
    made.iter().for_each(|sql| drop(server.query(sql).expect("it is made")));
    let login = format!(
        "url: 'postgresql://localhost:{}/postgres', user: reader, password: '${{READER_PASSWORD}}', ca: '{}'",
        server.port(),
        authority.file().display()
    );
    (server, login)
}

fn feed(feed: &Feed, phase: u64, random: &mut Lcg) {
    for order in phase * ORDERS_OF_A_PHASE..(phase + 1) * ORDERS_OF_A_PHASE {
        // The last two shops are unknown.
        let shop = 9_007_199_254_740_992 + order % (SHOPS + 2);
        let body = format!(r#"{{"order_id":{order},"shop":{shop},"region":{}}}"#, order % 3);
        feed.push(random.below(3) as u32, body.as_bytes());
    }
    feed.flush();
}

#[test]
fn no_record_goes_on_without_what_it_looks_up_while_postgresql_is_away() {
    if !available(&[Service::Postgres]) {
        return;
    }
    let Some(case) = Case::begin("lookups-postgres") else { return };
    let (mut server, login) = start(&case);
    let nullable = |(name, _, of, _): &(&str, &str, &str, &str)| match of.strip_prefix("LowCardinality(") {
        Some(inner) => format!("{name} LowCardinality(Nullable({inner})"),
        None => format!("{name} Nullable({of})"),
    };
    let columns: Vec<String> = COLUMNS.iter().map(nullable).collect();
    let table = case.table(
        &format!("order_id UInt64, {}, net Nullable(String), tags Array(String)", columns.join(", ")),
        "order_id",
    );
    let fields = COLUMNS.map(|(name, _, of, _)| format!("{name}: \"{of}\"")).join(", ");
    let names = COLUMNS.map(|(name, ..)| format!("{name}: {name}")).join(", ");
    let pipeline = case
        .pipeline()
        .env("READER_PASSWORD", "it's secret")
        .field("shop: UInt64")
        .field("region: UInt8")
        .step(&format!(
            "lookup: {{ postgres: {{ {login}, table: shop.shops }}, fields: {{ id: UInt64, {fields} }}, on: ['shop = id'], columns: {{ {names} }}, \
             kind: left, refresh: 1s }}"
        ))
        .step(&format!(
            "lookup: {{ postgres: {{ {login}, query: 'SELECT id, host(net) AS net, tags FROM shop.regions' }}, fields: {{ id: UInt8, net: Nullable(String), tags: Array(String) }}, \
             on: ['region = id'], columns: {{ net: net, tags: tags }} }}"
        ))
        .step("dedup: { key: [order_id], window: unbounded }")
        .batch("{ rows: 500, age: 100ms }");
    let mut random = Lcg::new(seed());
    let orders = case.feed();
    let mut running = pipeline.run();
    let mut of_phase = vec![shops(&server)];
    feed(&orders, 0, &mut random);
    table.wait_for(ORDERS_OF_A_PHASE);
    let checked = pipeline.tool(&["check"], &["--connect", "--json"], 0).to_string();
    assert!(checked.contains("`steps[0].lookup` finds `50` rows"), "{checked}");

    // An update is seen once the rows from before it are too old.
    server.query("UPDATE shop.shops SET name = 'new ' || id, price = price + 1").expect("an update");
    of_phase.push(shops(&server));
    std::thread::sleep(REFRESH + Duration::from_millis(100));
    feed(&orders, 1, &mut random);
    table.wait_for(2 * ORDERS_OF_A_PHASE);

    // Stopped, then killed and started again, while records come; the program is killed too.
    server.stop().expect("it stops");
    std::thread::sleep(REFRESH + Duration::from_millis(100));
    feed(&orders, 2, &mut random);
    let problem = pipeline.wait_for_problem("source", "lookup_away").to_string();
    assert!(problem.contains("steps[0].lookup") && problem.contains("PostgreSQL at `localhost"), "{problem}");
    running.kill9().expect("a kill");
    let checked = pipeline.run_tool(&["check"], &["--connect", "--json"]);
    assert!(!checked.exit.status.success() && checked.stdout.contains("no connection"), "{}", checked.stdout);
    let mut running = pipeline.run();
    pipeline.wait_for_problem("source", "lookup_away");
    server.restart().expect("it is back");
    of_phase.push(shops(&server));
    table.wait_for(3 * ORDERS_OF_A_PHASE);

    // What was granted is taken away, and given back once the rows have changed.
    server.query("REVOKE SELECT ON shop.shops FROM reader").expect("it is taken away");
    std::thread::sleep(REFRESH + Duration::from_millis(100));
    server
        .query("UPDATE shop.shops SET mood = CASE mood WHEN 'good' THEN 'bad' ELSE 'good' END::mood")
        .expect("an update");
    of_phase.push(shops(&server));
    feed(&orders, 3, &mut random);
    let problem = pipeline.wait_for_problem("source", "lookup_away").to_string();
    let way = r#"GRANT SELECT ON "shop"."shops" TO "reader""#;
    assert!(problem.contains("42501") && problem.replace('\\', "").contains(way), "{problem}");
    assert!(!problem.contains("secret"), "{problem}");
    server.query("GRANT SELECT ON shop.shops TO reader").expect("it is granted");
    table.wait_for(4 * ORDERS_OF_A_PHASE);
    running.kill9().expect("a kill");
    pipeline.drain();

    let regions = ["10.0.0.1|", "10.0.0.2|a;b,c", "-|x"];
    let row = |order: u64| {
        let shop = 9_007_199_254_740_992 + order % (SHOPS + 2);
        let found = of_phase[(order / ORDERS_OF_A_PHASE) as usize].get(&shop);
        let found = found.cloned().unwrap_or_else(|| ["-"; COLUMNS.len()].join("|"));
        format!("{order}|{found}|{}", regions[(order % 3) as usize])
    };
    let mut wanted: Vec<String> = (0..4 * ORDERS_OF_A_PHASE).map(row).collect();
    let texts = COLUMNS.map(|(name, ..)| format!("ifNull(toString({name}), '-')")).join(", '|', ");
    let sql = format!(
        "SELECT concat(toString(order_id), '|', {texts}, '|', ifNull(net, '-'), '|', arrayStringConcat(tags, ';')) AS row FROM {{t}}"
    );
    let mut found: Vec<String> =
        table.rows(&sql).iter().map(|row| row["row"].as_str().expect("a text").to_owned()).collect();
    (found.sort(), wanted.sort());
    assert_eq!(found.len(), wanted.len());
    let wrong: Vec<_> = found.iter().zip(&wanted).filter(|(found, wanted)| found != wanted).take(3).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    server.stop().expect("it stops");
}
