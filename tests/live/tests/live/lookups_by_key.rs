//! Lookups that ask for keys (`cache: partial`), in ClickHouse's engine and in PostgreSQL: sides that are larger than the memory, keys of several columns, kills, and a side that is
//! away. Every row is in the table once, with what its key has.

use std::time::Duration;

use live::{Case, Feed, Table};
use testkit::{Lcg, Postgres, PostgresOptions, Service, available, seed};

/// Ids that no float holds.
const FIRST: u64 = 9_007_199_254_740_992;
const SHOPS: u64 = 100_000;
const ORDERS: u64 = 12_000;
const LIVES: u64 = 3;

fn rows_of(table: &Table, expression: &str) -> Vec<String> {
    let all = table.rows(&format!("SELECT {expression} AS row FROM {{t}}"));
    let mut found: Vec<String> =
        all.iter().map(|row| row["row"].as_str().expect("a text").to_owned()).collect();
    found.sort();
    found
}

fn same(found: Vec<String>, mut wanted: Vec<String>) {
    wanted.sort();
    assert_eq!(found.len(), wanted.len());
    let wrong: Vec<_> = found.iter().zip(&wanted).filter(|(found, wanted)| found != wanted).take(5).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Orders of shops, of which some are unknown.
fn feed(feed: &Feed, orders: std::ops::Range<u64>, random: &mut Lcg) {
    for order in orders {
        let shop = order * 31 % (SHOPS + SHOPS / 4);
        // As JSON has them.
        let region = ["it's", r"a\\b", r"c\nd"][(shop % 3) as usize];
        let body = format!(
            r#"{{"order_id":{order},"shop":{},"region":"{region}","open":{}}}"#,
            FIRST + shop,
            order % 2 == 0
        );
        for _ in 0..1 + u64::from(random.below(4) == 0) {
            feed.push(random.below(3) as u32, body.as_bytes());
        }
    }
    feed.flush();
}

#[test]
fn tables_and_dictionaries_that_do_not_fit_are_asked_for_the_keys_of_records() {
    let Some(case) = Case::begin("lookups-by-key") else { return };
    let table = case.table(
        "order_id UInt64, owner Nullable(UUID), name Nullable(String), note Nullable(String)",
        "order_id",
    );
    let shops = case.table_called(
        "keyed_shops",
        "id UInt64, region LowCardinality(String), owner UUID, day Date, text String",
        "(region, id)",
    );
    shops.ask(&format!(
        "INSERT INTO {{t}} (id, region, owner, day, text) SELECT {FIRST} + number, ['it''s', 'a\\\\b', 'c\\nd'][number % 3 + 1], \
         toUUID(concat('00000000-0000-4000-8000-', leftPad(hex(number % 5000), 12, '0'))), toDate('2020-01-01') + number % 1000, repeat('t', 100) FROM numbers({SHOPS})"
    ));
    let owners = case.table_called("keyed_owners", "owner UUID, name String", "owner");
    owners.ask(
        "INSERT INTO {t} (owner, name) SELECT toUUID(concat('00000000-0000-4000-8000-', leftPad(hex(number), 12, '0'))), concat('o', toString(number)) FROM numbers(4900)",
    );
    let days = case.table_called("keyed_days", "day Date32, is_open Bool, note Nullable(String)", "day");
    days.ask(
        "INSERT INTO {t} (day, is_open, note) SELECT toDate32('2020-01-01') + intDiv(number, 2), number % 2 = 0, concat('d', toString(intDiv(number, 2)), if(number % 2 = 0, '+', '-')) \
         FROM numbers(1800)",
    );
    owners.ask("DROP DICTIONARY IF EXISTS keyed_names");
    owners.ask(
        "CREATE DICTIONARY keyed_names (owner UUID, name String) PRIMARY KEY owner SOURCE(CLICKHOUSE(TABLE 'keyed_owners' DB currentDatabase())) LAYOUT(COMPLEX_KEY_HASHED()) LIFETIME(0)"
            .replace("currentDatabase()", &format!("'{}'", owners.value("SELECT currentDatabase()")))
            .as_str(),
    );
    let pipeline = case
        .pipeline()
        .field("shop: UInt64")
        .field("region: String")
        .field("open: Bool")
        .step("filter: order_id % 11 <> 0")
        .step(
            "lookup: { clickhouse: { table: keyed_shops }, fields: { id: UInt64, region: String, owner: UUID, day: Date32, text: String }, on: ['shop = id', region], \
             columns: { owner: owner, day: day, text: text }, kind: left, cache: partial, refresh: 1h, memory: 1MiB }",
        )
        .step(
            "lookup: { clickhouse: { dictionary: keyed_names }, fields: { owner: UUID, name: String }, on: [owner], columns: { name: name }, kind: left, cache: partial, refresh: 1h, memory: 1MiB }",
        )
        .step(
            "lookup: { clickhouse: { table: keyed_days }, fields: { day: Date, is_open: Bool, note: Nullable(String) }, on: [day, 'open = is_open'], columns: { found_note: note }, kind: left, \
             cache: partial, memory: 1MiB }",
        )
        .step("select: { '*': '*', note: \"coalesce(found_note, text)\" }")
        .step("dedup: { key: [order_id], window: unbounded }")
        .batch("{ rows: 500, age: 100ms }");
    let mut random = Lcg::new(seed());
    let orders: Feed = case.feed();
    for life in 0..LIVES {
        feed(&orders, life * ORDERS / LIVES..(life + 1) * ORDERS / LIVES, &mut random);
        let is_away = life == 1;
        if is_away {
            shops.ask("RENAME TABLE {t} TO keyed_shops_away");
        }
        let mut running = pipeline.run();
        if is_away {
            let why = pipeline.wait_for_problem("source", "lookup_away").to_string();
            assert!(why.contains("steps[1].lookup") && why.contains("keyed_shops"), "{why}");
            let checked = pipeline.run_tool(&["check"], &["--connect", "--json"]);
            let said = &checked.stdout;
            assert!(!checked.exit.status.success() && said.contains("steps[1].lookup"), "{said}");
            assert!(said.contains("\"faults\": 1"), "the fault is told once: {said}");
            shops.ask("RENAME TABLE keyed_shops_away TO {t}");
        }
        std::thread::sleep(Duration::from_millis(300 + random.below(1_500)));
        running.kill9().expect("a kill");
    }
    let mut running = pipeline.run();
    let kept = (0..ORDERS).filter(|order| order % 11 != 0).count() as u64;
    table.wait_for(kept);
    let of = |name: &str, step: &str| pipeline.metric(name, &[("step", step)]).unwrap_or_default();
    let days = "steps[3].lookup";
    assert!(of("forebay_lookup_cache_hits_total", days) > 0.0, "a day is asked for once");
    assert!(of("forebay_lookup_rows", days) <= 2_001.0);
    assert!(of("forebay_lookup_cache_bytes", "steps[1].lookup") <= f64::from(1 << 20));
    running.kill9().expect("a kill");
    pipeline.drain();
    let row = |order: u64| {
        let shop = order * 31 % (SHOPS + SHOPS / 4);
        if shop >= SHOPS {
            return format!("{order}|-|-|-");
        }
        let (owner, day) = (shop % 5_000, shop % 1_000);
        let name = if owner < 4_900 { format!("o{owner}") } else { "-".to_owned() };
        let note = if day < 900 {
            format!("d{day}{}", if order.is_multiple_of(2) { '+' } else { '-' })
        } else {
            "t".repeat(100)
        };
        format!("{order}|00000000-0000-4000-8000-{owner:012x}|{name}|{note}")
    };
    let wanted = (0..ORDERS).filter(|order| order % 11 != 0).map(row).collect();
    let text = |name: &str| format!("ifNull(toString({name}), '-')");
    let columns = ["order_id", "owner", "name", "note"].map(text).join(", '|', ");
    same(rows_of(&table, &format!("concat({columns})")), wanted);
    // What reads records beside the pipeline asks for their keys too.
    let report = pipeline.tool(&["verify"], &["--json", "--values"], 0).to_string();
    assert!(report.contains("records look up what is there now"), "{report}");
    let checked = pipeline.tool(&["check"], &["--connect", "--json", "--sample", "3"], 0).to_string();
    assert!(checked.contains("`steps[2].lookup` can ask the other side for keys"), "{checked}");
    let records = case.dir().join("records.json");
    let body = format!("{{\"order_id\":1,\"shop\":{},\"region\":\"a\\\\b\",\"open\":true}}\n", FIRST + 4);
    std::fs::write(&records, body).expect("writes");
    let records = records.display().to_string();
    let tried = pipeline.tool(&["try"], &["--json", "--records", &records], 0).to_string();
    assert!(tried.contains("o4") && tried.contains("d4+"), "{tried}");
}

const PRICES: u64 = 100_000;
const ORDERS_OF_A_PHASE: u64 = 3_000;
const REFRESH: Duration = Duration::from_secs(2);

fn price_orders(feed: &Feed, phase: u64, random: &mut Lcg) {
    for order in phase * ORDERS_OF_A_PHASE..(phase + 1) * ORDERS_OF_A_PHASE {
        let price = order * 37 % (PRICES + PRICES / 4);
        let body =
            format!(r#"{{"order_id":{order},"shop":{},"sku":"s'{}\\"}}"#, price % 1_000, price / 1_000);
        feed.push(random.below(3) as u32, body.as_bytes());
    }
    feed.flush();
}

#[test]
fn a_postgresql_table_that_does_not_fit_is_asked_for_the_keys_of_records() {
    if !available(&[Service::Postgres]) {
        return;
    }
    let Some(case) = Case::begin("lookups-by-key-postgres") else { return };
    let mut server = Postgres::start(PostgresOptions::default()).expect("PostgreSQL must start");
    let ask = |server: &Postgres, sql: &str| drop(server.query(sql).expect("it is done"));
    ask(&server, "CREATE ROLE reader LOGIN PASSWORD 'secret'");
    ask(&server, "CREATE TABLE prices (shop int4, sku varchar(20), price numeric, PRIMARY KEY (shop, sku))");
    ask(
        &server,
        &format!(
            "INSERT INTO prices SELECT n % 1000, E's''' || n / 1000 || E'\\\\', n / 4.0 FROM generate_series(0, {}) AS n; GRANT SELECT ON prices TO reader",
            PRICES - 1
        ),
    );
    let login = format!(
        "url: 'postgresql://127.0.0.1:{}/postgres', user: reader, password: '${{READER_PASSWORD}}', sslmode: disable",
        server.port()
    );
    let table = case.table("order_id UInt64, price Nullable(Decimal(18, 2))", "order_id");
    let pipeline = case
        .pipeline()
        .env("READER_PASSWORD", "secret")
        .field("shop: UInt64")
        .field("sku: String")
        .step(&format!(
            "lookup: {{ postgres: {{ {login}, table: prices }}, fields: {{ shop: UInt64, sku: String, price: \"Decimal(18, 2)\" }}, on: [shop, sku], columns: {{ price: price }}, kind: left, \
             cache: partial, refresh: 2s, memory: 1MiB }}"
        ))
        .step("dedup: { key: [order_id], window: unbounded }")
        .batch("{ rows: 500, age: 100ms }");
    let mut random = Lcg::new(seed());
    let orders = case.feed();
    let mut running = pipeline.run();
    price_orders(&orders, 0, &mut random);
    table.wait_for(ORDERS_OF_A_PHASE);

    // The connections that are kept are ended by the server: another one is opened.
    ask(&server, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'reader'");
    ask(&server, "UPDATE prices SET price = price + 1");
    std::thread::sleep(REFRESH + Duration::from_millis(100));
    price_orders(&orders, 1, &mut random);
    table.wait_for(2 * ORDERS_OF_A_PHASE);

    server.stop().expect("it stops");
    price_orders(&orders, 2, &mut random);
    let problem = pipeline.wait_for_problem("source", "lookup_away").to_string();
    assert!(problem.contains("steps[0].lookup") && problem.contains("PostgreSQL at `127.0.0.1"), "{problem}");
    running.kill9().expect("a kill");
    let mut running = pipeline.run();
    pipeline.wait_for_problem("source", "lookup_away");
    server.restart().expect("it is back");
    std::thread::sleep(Duration::from_millis(200 + random.below(1_500)));
    running.kill9().expect("a kill");
    let mut running = pipeline.run();
    table.wait_for(3 * ORDERS_OF_A_PHASE);

    ask(&server, "REVOKE SELECT ON prices FROM reader");
    price_orders(&orders, 3, &mut random);
    let problem = pipeline.wait_for_problem("source", "lookup_away").to_string().replace('\\', "");
    assert!(
        problem.contains("42501") && problem.contains(r#"GRANT SELECT ON "prices" TO "reader""#),
        "{problem}"
    );
    ask(&server, "GRANT SELECT ON prices TO reader");
    table.wait_for(4 * ORDERS_OF_A_PHASE);
    running.kill9().expect("a kill");
    pipeline.drain();

    let row = |order: u64| {
        let price = order * 37 % (PRICES + PRICES / 4);
        let cents = price * 25 + if order < ORDERS_OF_A_PHASE { 0 } else { 100 };
        match price < PRICES {
            true => format!("{order}|{}.{:02}", cents / 100, cents % 100),
            false => format!("{order}|-"),
        }
    };
    let decimal = "if(price IS NULL, '-', concat(toString(intDiv(toInt64(price * 100), 100)), '.', leftPad(toString(toInt64(price * 100) % 100), 2, '0')))";
    same(
        rows_of(&table, &format!("concat(toString(order_id), '|', {decimal})")),
        (0..4 * ORDERS_OF_A_PHASE).map(row).collect(),
    );
    server.stop().expect("it stops");
}
