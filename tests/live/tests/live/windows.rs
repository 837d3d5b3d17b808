//! Windows from Kafka into ClickHouse's engine, with kills in between; every value against a reading of the records alone.

use std::collections::BTreeMap;
use std::time::Duration;

use live::Case;
use testkit::{Lcg, seed};

const SIZE_MS: u64 = 10_000;
const DEVICES: u64 = 40;
const RECORDS: u64 = 30_000;
const LIVES: u64 = 6;
/// Records that are shuffled among themselves.
const BLOCK: u64 = 200;
const BEGIN_MS: u64 = 1_700_000_000_000;

/// What the table must hold: by device and window the count, the sum, the least, the greatest, the first and the last.
type Expected = BTreeMap<(u64, u64), (u64, i64, i64, i64, (u64, i64), (u64, i64))>;

#[test]
fn windows_are_right_to_the_last_value_whatever_is_killed() {
    let Some(case) = Case::begin("windows") else { return };
    let columns = "device String, window_start DateTime64(3), window_end DateTime64(3), n UInt64, total Int64, least Int32, greatest Int32, \
                   first Int32, last Nullable(Int32), mean Float64";
    let table = case.table(columns, "(device, window_start)");
    let pipeline = case
        .pipeline()
        .field("device: String")
        .field("at: DateTime64(3)")
        .field("amount: Int32")
        .field("state: String")
        .step("filter: state = 'good'")
        .step(
            "window: { key: [device], time: at, size: 10s, lateness: 2s, aggregates: { n: count(), total: sum(amount), least: min(amount), \
             greatest: max(amount), first: first(amount), last: last(amount), mean: avg(amount) } }",
        );
    let mut random = Lcg::new(seed());
    let feed = case.feed();
    let mut expected = Expected::new();
    for life in 0..LIVES {
        for n in life * RECORDS / LIVES..(life + 1) * RECORDS / LIVES {
            // Up to 1.4 s out of order, and no two records of one time, of which either might be the first.
            let place = n / BLOCK * BLOCK + (n % BLOCK * 77 + n / BLOCK * 31) % BLOCK;
            let at = BEGIN_MS + place * 7;
            let (device, amount) = (random.next_u64() % DEVICES, random.next_u64() as i64 % 1_000);
            let is_good = !n.is_multiple_of(11);
            let state = if is_good { "good" } else { "bad" };
            feed.push(
                (n % 3) as u32,
                format!(r#"{{"device":"d{device}","at":{at},"amount":{amount},"state":"{state}"}}"#)
                    .as_bytes(),
            );
            if is_good {
                let of = expected.entry((device, at / SIZE_MS)).or_insert((
                    0,
                    0,
                    i64::MAX,
                    i64::MIN,
                    (u64::MAX, 0),
                    (0, 0),
                ));
                (of.0, of.1, of.2, of.3) = (of.0 + 1, of.1 + amount, of.2.min(amount), of.3.max(amount));
                of.4 = of.4.min((at, amount));
                of.5 = of.5.max((at, amount));
            }
        }
        feed.flush();
        let mut running = pipeline.run();
        std::thread::sleep(Duration::from_millis(400 + random.next_u64() % 1_500));
        running.kill9().expect("a kill");
    }
    // What closes the windows: one record far behind all others in each partition.
    let last = BEGIN_MS + RECORDS * 7 + 60_000;
    (0..3).for_each(|partition| {
        feed.push(
            partition,
            format!(r#"{{"device":"end","at":{last},"amount":0,"state":"good"}}"#).as_bytes(),
        );
    });
    feed.flush();
    pipeline.drain();
    let rows = table.column(
        "concat(device, ' ', toString(toUnixTimestamp64Milli(window_start)), ' ', toString(n), ' ', toString(total), ' ', toString(least), ' ', \
         toString(greatest), ' ', toString(first), ' ', toString(last), ' ', toString(mean))",
    );
    let mut found: Vec<String> = rows;
    found.sort();
    let mut wanted: Vec<String> = expected
        .into_iter()
        .map(|((device, window), (n, total, least, greatest, first, last))| {
            let mean = total as f64 / n as f64;
            format!(
                "d{device} {} {n} {total} {least} {greatest} {} {} {mean}",
                window * SIZE_MS,
                first.1,
                last.1
            )
        })
        .collect();
    wanted.sort();
    assert_eq!(found.len(), wanted.len());
    let wrong: Vec<_> = found.iter().zip(&wanted).filter(|(found, wanted)| found != wanted).take(5).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}
