//! A temporal join whose right side is five times its memory, with kills in between; every row against a reading of the records alone.

use std::collections::BTreeMap;
use std::time::Duration;

use live::{Case, Feed};
use testkit::{Lcg, seed};

use crate::joins::{same, spilled_files};

const ORDERS: u64 = 16_000;
const CUSTOMERS: u64 = 12_000;
/// Parts in which the records come: the rows and versions of one, which may all wait for the watermark, fit into half of the step's memory.
const LIVES: u64 = 20;
const BEGIN_MS: u64 = 1_700_000_000_000;
/// Between two orders, and between two versions.
const STEP_MS: u64 = 100;
/// Bytes of a customer's text: with a version's key and times, nine hundred bytes in memory.
const TEXT: usize = 850;

/// What each customer is called from when on; `None` from when it is no more.
type Versions = Vec<BTreeMap<u64, Option<u64>>>;

#[test]
fn versions_of_five_times_the_memory_are_right_to_the_last_one_whatever_is_killed() {
    let Some(case) = Case::begin("joins_temporal") else { return };
    let table = case.table(
        "order_id UInt64, customer UInt64, at DateTime64(3), version Nullable(UInt64), text Nullable(String)",
        "order_id",
    );
    let topics = ["joins_temporal_orders", "joins_temporal_customers"];
    let pipeline = case
        .pipeline()
        .input("orders", topics[0], ", time: at, idle_after: 1h, fields: { order_id: UInt64, customer: UInt64, at: DateTime64(3) }")
        .input(
            "customers",
            topics[1],
            ", time: at, idle_after: 1h, fields: { op: String, customer: UInt64, version: UInt64, text: String, at: DateTime64(3) }",
        )
        .step(
            "join: { left: orders, right: customers, on: [customer], as_of: orders, deleted: \"op = 'd'\", kind: left, lateness: 2s, \
             columns: { at: orders.at }, memory: 2MiB }",
        )
        .batch("{ rows: 2000, age: 100ms }");
    let feeds = topics.map(|topic| Feed::new(case.kafka(), topic));
    let mut random = Lcg::new(seed() ^ 0x54);
    let (mut versions, mut orders): (Versions, _) = (vec![BTreeMap::new(); CUSTOMERS as usize], Vec::new());
    let mut files = 0;
    for life in 0..LIVES {
        for n in life * ORDERS / LIVES..(life + 1) * ORDERS / LIVES {
            // All customers come once, and then some change or are no more.
            let customer = if n < CUSTOMERS { n } else { random.below(CUSTOMERS) };
            let (at, is_deletion) = (BEGIN_MS + n * STEP_MS, random.one_in(16));
            versions[customer as usize].insert(at, (!is_deletion).then_some(n));
            let op = if is_deletion { 'd' } else { 'u' };
            let text = text(n);
            let body =
                format!(r#"{{"op":"{op}","customer":{customer},"version":{n},"text":"{text}","at":{at}}}"#);
            feeds[1].push(random.below(3) as u32, body.as_bytes());
            let (customer, at) = (random.below(n + 1).min(CUSTOMERS - 1), at + random.below(STEP_MS));
            orders.push((n, customer, at));
            let body = format!(r#"{{"order_id":{n},"customer":{customer},"at":{at}}}"#);
            feeds[0].push(random.below(3) as u32, body.as_bytes());
        }
        feeds.iter().for_each(Feed::flush);
        if life % 4 == 1 {
            let mut running = pipeline.run();
            std::thread::sleep(Duration::from_millis(800 + random.below(2_500)));
            running.kill9().expect("a kill");
        }
        pipeline.drain();
        files += spilled_files(&pipeline.store());
    }
    pipeline.drain();
    let spilled = spilled_files(&pipeline.store());
    // What releases the last: records behind all others in each partition.
    let end = BEGIN_MS + ORDERS * STEP_MS + 100_000;
    for partition in 0..3 {
        let order =
            format!(r#"{{"order_id":{},"customer":{CUSTOMERS},"at":{end}}}"#, ORDERS + u64::from(partition));
        feeds[0].push(partition, order.as_bytes());
        let customer = format!(r#"{{"op":"d","customer":{CUSTOMERS},"version":0,"text":"","at":{end}}}"#);
        feeds[1].push(partition, customer.as_bytes());
    }
    feeds.iter().for_each(Feed::flush);
    pipeline.drain();

    let wanted = orders.iter().map(|(n, customer, at)| {
        let held = versions[*customer as usize].range(..=at).next_back().and_then(|(_, version)| *version);
        let (version, text) = held.map_or(("-".to_owned(), "-".to_owned()), |n| (n.to_string(), text(n)));
        format!("{n} {customer} {at} {version} {text}")
    });
    let found = table.column(
        "concat(toString(order_id), ' ', toString(customer), ' ', toString(toUnixTimestamp64Milli(at)), ' ', ifNull(toString(version), '-'), ' ', ifNull(text, '-'))",
    );
    // Not the last orders, by their customer: a version may have that number.
    let last = CUSTOMERS.to_string();
    let found = found.into_iter().filter(|row| row.split(' ').nth(1) != Some(&*last)).collect();
    same(found, wanted.collect());
    assert!(files > 0 && spilled > 0, "`{files}` files of versions between runs, `{spilled}` at the end");
    let records = &pipeline.status()["records"];
    assert_eq!((records["late"].as_u64(), records["dead_letters"].as_u64()), (Some(0), Some(0)), "{records}");
    assert_eq!(records["read"], records["absorbed"], "{records}");
}

/// The text of a version.
fn text(version: u64) -> String {
    format!("{version:0TEXT$}")
}
