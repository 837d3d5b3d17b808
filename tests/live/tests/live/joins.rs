//! A join of two topics into ClickHouse's engine, with kills in between; every row against a reading of the records alone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use live::{Case, Feed, Pipeline, Table};
use testkit::{Lcg, seed};

const ORDERS: u64 = 24_000;
const LIVES: u64 = 6;
const BEGIN_MS: u64 = 1_700_000_000_000;
/// A payment matches if it comes at most this much before its order, or after it.
const BEFORE_MS: u64 = 2_000;
const AFTER_MS: u64 = 30_000;

/// A payment: its number, its order, its time.
#[derive(Clone, Copy)]
pub struct Payment {
    pub id: u64,
    pub order: u64,
    pub at: u64,
}

pub fn ordered_at(order: u64) -> u64 {
    BEGIN_MS + order * 10
}

/// The payments in the order of their times: one order in ten has none, one in seven has two, and one payment in nine misses its order's
/// interval by little.
pub fn payments(random: &mut Lcg, orders: u64) -> Vec<Payment> {
    let mut all = Vec::new();
    for order in 0..orders {
        let count = if order % 10 == 3 { 0 } else { 1 + u64::from(order % 7 == 0) };
        for _ in 0..count {
            let span = BEFORE_MS + AFTER_MS;
            let offset = match random.below(9) {
                0 => [0, 1, span + 2, span + 3][random.below(4) as usize],
                1 => [2, span + 1][random.below(2) as usize],
                _ => 2 + random.below(span),
            };
            let id = all.len() as u64;
            all.push(Payment { id, order, at: ordered_at(order) + offset - BEFORE_MS - 2 + 1 });
        }
    }
    all.sort_by_key(|payment| (payment.at, payment.id));
    all
}

fn matches(payment: &Payment) -> bool {
    let at = ordered_at(payment.order);
    at - BEFORE_MS <= payment.at && payment.at <= at + AFTER_MS
}

/// A join of both topics, and a filter behind it.
pub const STEPS: [&str; 2] = [
    "join: { left: orders, right: payments, on: ['order_id = order'], before: 2s, after: 30s, kind: left, lateness: 10s, \
     columns: { at: orders.at, paid_at: payments.at } }",
    "filter: country <> 'xx'",
];

#[test]
fn joined_rows_are_right_to_the_last_one_whatever_is_killed() {
    rows_are_right("joins", &STEPS);
}

/// More rows wait for a match than fit into the memory of the step: most of them are in files when the process dies.
#[test]
fn joined_rows_that_were_spilled_are_right_to_the_last_one_whatever_is_killed() {
    let files = rows_are_right("joins_spilled", &[&that_spills(STEPS[0]), STEPS[1]]);
    assert!(files > 0, "no life left a file of spilled rows");
}

/// The same join with more rows waiting than its memory holds.
pub fn that_spills(join: &str) -> String {
    join.replace("lateness: 10s", "lateness: 150s, memory: 1MiB")
}

#[test]
fn rows_that_sql_joins_are_right_to_the_last_one_whatever_is_killed() {
    let query = "sql: SELECT order_id, country, o.at, p.payment_id, p.at AS paid_at FROM orders AS o LEFT JOIN payments AS p ON o.order_id = p.order \
                 AND p.at BETWEEN o.at - INTERVAL '2 seconds' AND o.at + INTERVAL '30 seconds' WHERE country <> 'xx'";
    rows_are_right("joins_sql", &[query]);
}

/// Rows of both sides without a match go to tables of their own, and with an inner join no order without a payment is in the main one.
#[test]
fn rows_without_a_match_are_in_their_tables_once_whatever_is_killed() {
    let Some(case) = Case::begin("joins_unmatched") else { return };
    let join = "join: { left: orders, right: payments, on: ['order_id = order'], before: 2s, after: 30s, lateness: 10s, \
                columns: { at: orders.at, paid_at: payments.at }, as: paid }";
    let main = case.table(PAID, "order_id");
    let unpaid = case.table_called(
        "joins_unpaid",
        "order_id UInt64, at DateTime64(3), note Nullable(String)",
        "order_id",
    );
    let free = case.table_called(
        "joins_free",
        "payment_id UInt64, order UInt64, paid_at DateTime64(3)",
        "payment_id",
    );
    let two = two_topics(&case, "joins_unmatched");
    let pipeline = two
        .pipeline
        .step(join)
        .one_of(&format!("{{ clickhouse: {{ table: {} }} }}", main.name()))
        .one_of(&format!("{{ clickhouse: {{ table: {} }}, from: paid.left_unmatched }}", unpaid.name()))
        .one_of(&format!(
            "{{ clickhouse: {{ table: {} }}, columns: {{ paid_at: at }}, from: paid.right_unmatched }}",
            free.name()
        ));
    let payments = killed(&pipeline, &two.feeds, || {});
    let is_read = |order: &u64| country(*order) != "test";
    let mut by_order: BTreeMap<u64, Vec<&Payment>> = BTreeMap::new();
    let (mut lonely, mut wanted, mut alone) = (Vec::new(), Vec::new(), Vec::new());
    for payment in &payments {
        match matches(payment) && is_read(&payment.order) {
            true => by_order.entry(payment.order).or_default().push(payment),
            false => lonely.push(format!("{} {} {}", payment.id, payment.order, payment.at)),
        }
    }
    for order in (0..ORDERS).filter(is_read) {
        match by_order.get(&order) {
            None => alone.push(format!("{order} {} note {order}", ordered_at(order))),
            Some(of) => wanted.extend(of.iter().map(|one| {
                format!("{order} {} {} {} {}", country(order), ordered_at(order), one.id, one.at)
            })),
        }
    }
    assert!(alone.len() > 1_000 && lonely.len() > 1_000, "there is something to lose");
    same(joined_rows(&main), wanted.clone());
    same(
        unpaid.column(
            "concat(toString(order_id), ' ', toString(toUnixTimestamp64Milli(at)), ' ', ifNull(note, '-'))",
        ),
        alone.clone(),
    );
    same(
        free.column("concat(toString(payment_id), ' ', toString(order), ' ', toString(toUnixTimestamp64Milli(paid_at)))"),
        lonely.clone(),
    );
    let status = pipeline.status();
    let tables = [(&main, wanted.len()), (&unpaid, alone.len()), (&free, lonely.len())];
    for (table, rows) in tables {
        let known = status["tables"].as_array().expect("a list");
        let known =
            known.iter().find(|one| one["name"].as_str().is_some_and(|name| name.ends_with(table.name())));
        let counted =
            known.map(|known| [&known["rows"]["sealed"], &known["rows"]["settled"]].map(|n| n.as_u64()));
        assert_eq!(counted, Some([Some(rows as u64); 2]), "{status}");
    }
    every_record_has_a_fate(&pipeline);
}

/// A payment without its order has its own number of the order in the key, and NULLs for the rest of the order; orders without a payment are dropped.
#[test]
fn right_joined_rows_are_right_to_the_last_one_whatever_is_killed() {
    with_payments_alone("right");
}

/// Payments without their order as with `right`, and orders without a payment beside them.
#[test]
fn fully_joined_rows_are_right_to_the_last_one_whatever_is_killed() {
    with_payments_alone("full");
}

/// A join of this kind, `right` or `full`; what it must write is said from the records alone.
fn with_payments_alone(kind: &str) {
    let name = format!("joins_{kind}");
    let Some(case) = Case::begin(&name) else { return };
    let table = case.table(
        "order_id Nullable(UInt64), country Nullable(String), at Nullable(DateTime64(3)), payment_id Nullable(UInt64), \
         paid_at Nullable(DateTime64(3))",
        "tuple()",
    );
    let TwoTopics { pipeline, feeds } = two_topics(&case, &name);
    let pipeline = pipeline.step(&STEPS[0].replace("kind: left", &format!("kind: {kind}")));
    let payments = killed(&pipeline, &feeds, || {});
    let is_read = |order: &u64| country(*order) != "test";
    let (mut wanted, mut alone, mut paid) = (Vec::new(), 0, BTreeSet::new());
    for one @ Payment { id, order, at } in &payments {
        if matches(one) && is_read(order) {
            paid.insert(*order);
            wanted.push(format!("{order} {} {} {id} {at}", country(*order), ordered_at(*order)));
        } else {
            alone += 1;
            wanted.push(format!("{order} - - {id} {at}"));
        }
    }
    let unpaid: Vec<_> = (0..ORDERS)
        .filter(|order| is_read(order) && !paid.contains(order))
        .map(|order| format!("{order} {} {} - -", country(order), ordered_at(order)))
        .collect();
    assert!(alone > 1_000 && unpaid.len() > 1_000, "there is something to lose");
    if kind == "full" {
        wanted.extend(unpaid);
    }
    let texts = [
        "toString(order_id)",
        "country",
        "toString(toUnixTimestamp64Milli(at))",
        "toString(payment_id)",
        "toString(toUnixTimestamp64Milli(paid_at))",
    ];
    let texts = texts.map(|value| format!("ifNull({value}, '-')")).join(", ' ', ");
    same(table.column(&format!("concat({texts})")), wanted);
    every_record_has_a_fate(&pipeline);
}

/// The columns of joined rows.
pub const PAID: &str = "order_id UInt64, country LowCardinality(String), at DateTime64(3), payment_id Nullable(UInt64), paid_at Nullable(DateTime64(3))";

/// The joined rows of a table as texts.
fn joined_rows(table: &Table) -> Vec<String> {
    table.column(
        "concat(toString(order_id), ' ', country, ' ', toString(toUnixTimestamp64Milli(at)), ' ', ifNull(toString(payment_id), '-'), ' ', \
         ifNull(toString(toUnixTimestamp64Milli(paid_at)), '-'))",
    )
}

/// Whether the same rows were found as were wanted, each as often.
pub fn same(mut found: Vec<String>, mut wanted: Vec<String>) {
    (found.sort(), wanted.sort());
    assert_eq!(found.len(), wanted.len());
    let wrong: Vec<_> = found.iter().zip(&wanted).filter(|(found, wanted)| found != wanted).take(5).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Every record went into the join, or was dropped before it by a rule or as a duplicate.
pub fn every_record_has_a_fate(pipeline: &Pipeline) {
    let records = &pipeline.status()["records"];
    let number = |key: &str| records[key].as_u64().unwrap_or_else(|| panic!("no `{key}` in {records}"));
    assert_eq!((number("late"), number("dead_letters")), (0, 0), "{records}");
    assert_eq!(number("read"), number("filtered") + number("duplicates") + number("absorbed"), "{records}");
    let shown = pipeline.run_tool(&["status"], &[]).stdout;
    let of_states = format!("{} (", number("absorbed"));
    assert!(shown.contains(&of_states) && shown.contains("released with a result"), "{shown}");
}

/// A record of an order.
pub fn order_body(order: u64) -> String {
    let (country, at) = (country(order), ordered_at(order));
    format!(r#"{{"order_id":{order},"country":"{country}","at":{at},"payment_id":0,"note":"note {order}"}}"#)
}

fn country(order: u64) -> &'static str {
    ["nl", "de", "xx", "test"][(order % 4) as usize]
}

/// A pipeline of two topics with the steps before a join, and what fills the topics.
pub struct TwoTopics {
    pub pipeline: Pipeline,
    pub feeds: [Feed; 2],
}

pub fn two_topics(case: &Case, name: &str) -> TwoTopics {
    let topics = [format!("{name}_orders"), format!("{name}_payments")];
    let pipeline = case
        .pipeline()
        .input(
            "orders",
            &topics[0],
            ", time: at, idle_after: 1h, fields: { order_id: UInt64, country: LowCardinality(String), at: DateTime64(3) }",
        )
        .input(
            "payments",
            &topics[1],
            ", time: at, idle_after: 1h, fields: { payment_id: UInt64, order: UInt64, at: DateTime64(3) }",
        )
        .step("{ from: payments, dedup: { key: [payment_id], window: 1h } }")
        .step("{ from: orders, filter: \"country <> 'test'\" }")
        .batch("{ rows: 2000, age: 100ms }");
    let feeds = topics.each_ref().map(|topic| Feed::new(case.kafka(), topic));
    TwoTopics { pipeline, feeds }
}

/// Two topics, which these steps join and filter; how many files of spilled rows the lives of the process left.
fn rows_are_right(name: &str, steps: &[&str]) -> usize {
    let Some(case) = Case::begin(name) else { return 1 };
    let table = case.table(PAID, "order_id");
    let TwoTopics { pipeline, feeds } = two_topics(&case, name);
    let pipeline = steps.iter().fold(pipeline, |pipeline, step| pipeline.step(step));
    let mut files = 0;
    let payments = killed(&pipeline, &feeds, || files += spilled_files(&pipeline.store()));
    joined_rows_are_those_of(&table, ORDERS, &payments);
    every_record_has_a_fate(&pipeline);
    files
}

/// Files of state below a folder of the store.
pub fn spilled_files(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let of = |entry: std::fs::DirEntry| match entry.path() {
        path if path.is_dir() => spilled_files(&path),
        path => usize::from(path.parent().is_some_and(|parent| parent.ends_with("runs"))),
    };
    entries.flatten().map(of).sum()
}

/// The table holds what [`STEPS`] make of so many orders and of these payments, each row once.
pub fn joined_rows_are_those_of(table: &Table, orders: u64, payments: &[Payment]) {
    let mut by_order: BTreeMap<u64, Vec<&Payment>> = BTreeMap::new();
    payments
        .iter()
        .filter(|payment| matches(payment))
        .for_each(|one| by_order.entry(one.order).or_default().push(one));
    let mut wanted = Vec::new();
    for order in (0..orders).filter(|order| !["test", "xx"].contains(&country(*order))) {
        let row = |payment: String, paid: String| {
            format!("{order} {} {} {payment} {paid}", country(order), ordered_at(order))
        };
        match by_order.get(&order) {
            None => wanted.push(row("-".into(), "-".into())),
            Some(of) => wanted.extend(of.iter().map(|one| row(one.id.to_string(), one.at.to_string()))),
        }
    }
    same(joined_rows(table), wanted);
}

/// Fills both topics in the order of time while the pipeline is run and killed, and drains them; the payments. `after_each` life, and once nothing is left to read, something may be looked at.
fn killed(pipeline: &Pipeline, feeds: &[Feed; 2], mut after_each: impl FnMut()) -> Vec<Payment> {
    let mut random = Lcg::new(seed());
    let payments = payments(&mut random, ORDERS);
    let mut paid = payments.iter().peekable();
    for life in 0..LIVES {
        for order in life * ORDERS / LIVES..(life + 1) * ORDERS / LIVES {
            let at = ordered_at(order);
            feeds[0].push(random.below(3) as u32, order_body(order).as_bytes());
            // Payments are about as far as orders.
            while let Some(Payment { id, order, at }) = paid.next_if(|payment| payment.at <= at) {
                let body = format!(r#"{{"payment_id":{id},"order":{order},"at":{at}}}"#);
                for _ in 0..1 + u64::from(random.below(4) == 0) {
                    feeds[1].push(random.below(3) as u32, body.as_bytes());
                }
            }
        }
        feeds.iter().for_each(Feed::flush);
        let mut running = pipeline.run();
        std::thread::sleep(Duration::from_millis(400 + random.below(1_500)));
        running.kill9().expect("a kill");
        after_each();
    }
    for Payment { id, order, at } in paid {
        let body = format!(r#"{{"payment_id":{id},"order":{order},"at":{at}}}"#);
        feeds[1].push(random.below(3) as u32, body.as_bytes());
    }
    feeds[1].flush();
    pipeline.drain();
    after_each();
    // What releases all others: records behind all of them in each partition.
    let last = ordered_at(ORDERS) + 200_000;
    for partition in 0..3 {
        let order = format!(r#"{{"order_id":{},"country":"xx","at":{last}}}"#, ORDERS + u64::from(partition));
        feeds[0].push(partition, order.as_bytes());
        let payment =
            format!(r#"{{"payment_id":{},"order":0,"at":{last}}}"#, 1_000_000 + u64::from(partition));
        feeds[1].push(partition, payment.as_bytes());
    }
    feeds.iter().for_each(Feed::flush);
    pipeline.drain();
    payments
}
