//! Lookups in ClickHouse's engine and in a file: while one of them is away every record waits, and none is written without what it should find.

use std::time::Duration;

use live::{Case, Feed};
use testkit::{Lcg, seed};

const ORDERS: u64 = 6_000;
const LIVES: u64 = 3;

#[test]
fn no_record_goes_on_without_what_it_looks_up_whatever_is_killed_or_away() {
    let Some(case) = Case::begin("lookups") else { return };
    let table = case.table(
        "order_id UInt64, shop_name Nullable(String), region Nullable(String), manager String",
        "order_id",
    );
    let shops =
        case.table_called("lookup_shops", "id UInt64, name String, region String, version UInt64", "id");
    // Two rows of a shop, of which a view gives the newer one; ids that no float holds.
    shops.ask("CREATE VIEW lookup_shops_now AS SELECT id, argMax(name, version) AS name, argMax(region, version) AS region FROM {t} GROUP BY id");
    shops.ask(
        "INSERT INTO {t} (id, name, region, version) SELECT 9007199254740992 + number, concat('shop ''', toString(number), '\\n'), \
         concat('r', toString(number % 3)), v FROM numbers(50) ARRAY JOIN [0, 1] AS v",
    );
    let managers = case.dir().join("managers.csv");
    std::fs::write(&managers, "region,manager\nr0,Ann\nr1,\"Bob, the\nsecond\"\nr2,Cid\n").expect("writes");
    let pipeline = case
        .pipeline()
        .field("shop: UInt64")
        .step(
            "lookup: { clickhouse: { table: lookup_shops_now }, fields: { id: UInt64, name: String, region: String }, on: ['shop = id'], \
             columns: { shop_name: name, region: region }, kind: left, refresh: 1s }",
        )
        .step("filter: region IS NOT NULL OR order_id % 7 = 0")
        .step(&format!(
            "lookup: {{ file: {{ path: '{}', format: {{ csv: {{ header: true }} }} }}, fields: {{ region: String, manager: String }}, \
             on: [region], columns: {{ found: manager }}, kind: left }}",
            managers.display()
        ))
        .step("select: { '*': '*', manager: \"coalesce(found, '-')\" }")
        .step("dedup: { key: [order_id], window: unbounded }")
        .batch("{ rows: 500, age: 100ms }");
    let mut random = Lcg::new(seed());
    let feed: Feed = case.feed();
    for life in 0..LIVES {
        for order in life * ORDERS / LIVES..(life + 1) * ORDERS / LIVES {
            // The last two shops are unknown.
            let body = format!(r#"{{"order_id":{order},"shop":{}}}"#, 9_007_199_254_740_992 + order % 52);
            for _ in 0..1 + u64::from(random.below(4) == 0) {
                feed.push(random.below(3) as u32, body.as_bytes());
            }
        }
        feed.flush();
        let is_away = life == 1;
        if is_away {
            shops.ask("RENAME TABLE {t} TO lookup_shops_away");
        }
        let mut running = pipeline.run();
        if is_away {
            let problem = pipeline.wait_for_problem("source", "lookup_away");
            let why = problem.to_string();
            assert!(why.contains("steps[0].lookup") && why.contains("lookup_shops"), "{why}");
            let checked = pipeline.run_tool(&["check"], &["--connect", "--json"]);
            let said = &checked.stdout;
            assert!(!checked.exit.status.success() && said.contains("steps[0].lookup"), "{said}");
            assert!(said.contains("\"faults\": 1"), "the fault is told once: {said}");
            shops.ask("RENAME TABLE lookup_shops_away TO {t}");
        }
        std::thread::sleep(Duration::from_millis(300 + random.below(900)));
        running.kill9().expect("a kill");
    }
    pipeline.drain();
    let manager = ["Ann", "Bob, the\nsecond", "Cid"];
    let row = |order: u64| match order % 52 {
        shop @ 0..50 => {
            let region = shop % 3;
            Some(format!("{order}|shop '{shop}\n|r{region}|{}", manager[region as usize]))
        }
        _ if order.is_multiple_of(7) => Some(format!("{order}|-|-|-")),
        _ => None,
    };
    let mut wanted: Vec<String> = (0..ORDERS).filter_map(row).collect();
    let row =
        "concat(toString(order_id), '|', ifNull(shop_name, '-'), '|', ifNull(region, '-'), '|', manager)";
    // A line for each row.
    let mut found: Vec<String> = table
        .rows(&format!("SELECT {row} AS row FROM {{t}}"))
        .iter()
        .map(|row| row["row"].as_str().expect("a text").to_owned())
        .collect();
    (found.sort(), wanted.sort());
    assert_eq!(found.len(), wanted.len());
    let wrong: Vec<_> = found.iter().zip(&wanted).filter(|(found, wanted)| found != wanted).take(5).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    // What reads records beside the pipeline looks them up too.
    let report = pipeline.tool(&["verify"], &["--json", "--values"], 0);
    assert!(report.to_string().contains("records look up what is there now"), "{report}");
    let checked = pipeline.tool(&["check"], &["--connect", "--json", "--sample", "3"], 0);
    assert!(checked.to_string().contains("`steps[0].lookup` finds `50` rows"), "{checked}");
    let records = case.dir().join("records.json");
    std::fs::write(&records, "{\"order_id\":1,\"shop\":9007199254740996}\n").expect("writes");
    let records = records.display().to_string();
    let tried = pipeline.tool(&["try"], &["--json", "--records", &records], 0).to_string();
    assert!(tried.contains("shop '4") && tried.contains("Bob, the"), "{tried}");
}

#[test]
fn a_side_that_is_too_large_is_named_and_waited_for() {
    let Some(case) = Case::begin("lookups-large") else { return };
    let table = case.table("order_id UInt64, name Nullable(String)", "order_id");
    let shops = case.table_called("lookup_large_shops", "id UInt64, name String", "id");
    // One row alone takes more than the bound.
    shops.ask("INSERT INTO {t} (id, name) SELECT number, if(number = 9, repeat('xyz', 700000), toString(number)) FROM numbers(10)");
    let pipeline = case.pipeline().field("shop: UInt64").step(
        "lookup: { clickhouse: { table: lookup_large_shops }, fields: { id: UInt64, name: String }, on: ['shop = id'], columns: { name: name }, kind: left, \
         refresh: 1s, memory: 1MiB }",
    );
    let feed = case.feed();
    for order in 0..20 {
        feed.push(0, format!(r#"{{"order_id":{order},"shop":{order}}}"#).as_bytes());
    }
    feed.flush();
    let mut running = pipeline.run();
    let problem = pipeline.wait_for_problem("source", "lookup_away").to_string();
    assert!(problem.contains("`1048576` bytes") && problem.contains("`memory` of the step"), "{problem}");
    assert_eq!(table.count(), 0);
    // So do many that are small. Tables are exchanged, for one that is empty for a moment is a side without any row.
    for (name, rows) in [("lookup_large_many", 100_000), ("lookup_large_few", 10)] {
        let other = case.table_called(name, "id UInt64, name String", "id");
        other.ask(&format!(
            "INSERT INTO {{t}} (id, name) SELECT number, toString(number) FROM numbers({rows})"
        ));
        assert_eq!(table.count(), 0);
        shops.ask(&format!("EXCHANGE TABLES {{t}} AND `{name}`"));
        std::thread::sleep(Duration::from_secs(2));
    }
    table.wait_for(20);
    running.kill9().expect("a kill");
    let found = table.column("concat(toString(order_id), '|', ifNull(name, '-'))");
    let row = |order: u64| if order < 10 { format!("{order}|{order}") } else { format!("{order}|-") };
    let mut wanted: Vec<String> = (0..20).map(row).collect();
    wanted.sort();
    assert_eq!(found, wanted);
}

/// What docs/joins.md says of rows without a match: the key of the other side tells them apart, also from a match whose columns are all NULL.
#[test]
fn rows_without_a_match_go_to_a_table_of_their_own() {
    let Some(case) = Case::begin("lookups-unmatched") else { return };
    let found = case.table("order_id UInt64, shop_name Nullable(String)", "order_id");
    let unmatched = case.table_called("lookup_of_no_shop", "order_id UInt64, shop UInt32", "order_id");
    let shops = case.dir().join("shops.jsonl");
    std::fs::write(&shops, "{\"id\":1,\"name\":\"Ada\"}\n{\"id\":2,\"name\":null}\n").expect("writes");
    let pipeline = case
        .pipeline()
        .field("shop: UInt32")
        .step(&format!(
            "lookup: {{ file: {{ path: '{}' }}, fields: {{ id: UInt32, name: Nullable(String) }}, on: ['shop = id'], \
             columns: {{ shop_name: name, known_shop: id }}, kind: left }}",
            shops.display()
        ))
        .step("dedup: { key: [order_id], window: unbounded }")
        .one_of(&format!("{{ clickhouse: {{ table: {} }}, where: known_shop IS NOT NULL }}", found.name()))
        .one_of(&format!("{{ clickhouse: {{ table: {} }}, otherwise: true }}", unmatched.name()))
        .batch("{ rows: 100, age: 50ms }");
    let feed = case.feed();
    for order in 0..900 {
        feed.push(order % 3, format!(r#"{{"order_id":{order},"shop":{}}}"#, order % 4).as_bytes());
    }
    feed.flush();
    for _ in 0..3 {
        let mut running = pipeline.run();
        std::thread::sleep(Duration::from_millis(400));
        running.kill9().expect("a kill");
    }
    pipeline.drain();
    let name = |order: u64| if order % 4 == 1 { "Ada" } else { "-" };
    let mut wanted: Vec<String> = (0..900)
        .filter(|order| matches!(order % 4, 1 | 2))
        .map(|order| format!("{order}|{}", name(order)))
        .collect();
    wanted.sort();
    assert_eq!(found.column("concat(toString(order_id), '|', ifNull(shop_name, '-'))"), wanted);
    let mut wanted: Vec<String> = (0..900)
        .filter(|order| matches!(order % 4, 0 | 3))
        .map(|order| format!("{order}|{}", order % 4))
        .collect();
    wanted.sort();
    assert_eq!(unmatched.column("concat(toString(order_id), '|', toString(shop))"), wanted);
}
