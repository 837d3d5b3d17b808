//! Windows of all kinds from Kafka into ClickHouse's engine, with kills in between; every value against a reading of the records alone.

use std::collections::BTreeMap;
use std::time::Duration;

use live::{Case, Pipeline, Table};
use testkit::{Lcg, seed};

const SIZE_MS: u64 = 10_000;
const DEVICES: u64 = 40;
const RECORDS: u64 = 30_000;
const LIVES: u64 = 6;
/// Records that are shuffled among themselves.
const BLOCK: u64 = 200;
const BEGIN_MS: u64 = 1_700_000_000_000;

/// What the table must hold: by device and window the amounts with their times.
pub type Expected = BTreeMap<(u64, u64), Vec<(u64, i64)>>;

/// The columns of results of [`CLOSING`].
pub const COLUMNS: &str = "device String, window_start DateTime64(3), window_end DateTime64(3), n UInt64, total Int64, least Int32, greatest Int32, \
                           first Int32, last Nullable(Int32), mean Float64, large UInt64, amounts UInt64, middle Float64";

/// A window that is written when it closes.
pub const CLOSING: &str = "window: { key: [device], time: at, size: 10s, lateness: 2s, aggregates: { n: count(), total: sum(amount), least: min(amount), \
                           greatest: max(amount), first: first(amount), last: last(amount), mean: avg(amount), large: countIf(amount > 500), \
                           amounts: uniqExact(amount), middle: 'quantile(amount, 0.5)' } }";

#[test]
fn windows_are_right_to_the_last_value_whatever_is_killed() {
    let Some(case) = Case::begin("windows") else { return };
    let table = case.table(COLUMNS, "(device, window_start)");
    let pipeline = case
        .pipeline()
        .field("device: String")
        .field("at: DateTime64(3)")
        .field("amount: Int32")
        .field("state: String")
        .step("filter: state = 'good'")
        .step(CLOSING);
    let records = fed_with_kills(&case, &pipeline, LIVES);
    closed_rows_are_right(&table, records);
}

/// The table holds a row for each device and window, with the values of a reading of these records, and no other.
pub fn closed_rows_are_right(table: &Table, records: Vec<(u64, u64, i64)>) {
    let rows = table.column(
        "concat(device, ' ', toString(toUnixTimestamp64Milli(window_start)), ' ', toString(n), ' ', toString(total), ' ', toString(least), ' ', \
         toString(greatest), ' ', toString(first), ' ', toString(last), ' ', toString(mean), ' ', toString(large), ' ', \
         toString(amounts), ' ', toString(abs(middle)))",
    );
    let wanted =
        by_window(records).into_iter().map(|((device, window), of)| result(device, window, of)).collect();
    same(rows, wanted);
}

/// Produces records, and kills the pipeline so often in between; those that pass its filter come back: device, time and amount.
pub fn fed_with_kills(case: &Case, pipeline: &Pipeline, lives: u64) -> Vec<(u64, u64, i64)> {
    fed_with(case, pipeline, lives, |_| ())
}

/// The same; `behind` each kill.
pub fn fed_with(
    case: &Case,
    pipeline: &Pipeline,
    lives: u64,
    behind: impl Fn(&Pipeline),
) -> Vec<(u64, u64, i64)> {
    let mut random = Lcg::new(seed());
    let feed = case.feed();
    let mut records = Vec::new();
    for life in 0..lives {
        for n in life * RECORDS / lives..(life + 1) * RECORDS / lives {
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
                records.push((device, at, amount));
            }
        }
        feed.flush();
        let mut running = pipeline.run();
        std::thread::sleep(Duration::from_millis(400 + random.next_u64() % 1_500));
        running.kill9().expect("a kill");
        behind(pipeline);
    }
    // What closes the windows: one record far behind all others in each partition. Read together with others it would be taken for one with a wrong
    // clock, so those are read before.
    pipeline.drain();
    let last = BEGIN_MS + RECORDS * 7 + 60_000;
    (0..3).for_each(|partition| {
        feed.push(
            partition,
            format!(r#"{{"device":"end","at":{last},"amount":0,"state":"good"}}"#).as_bytes(),
        );
    });
    feed.flush();
    pipeline.drain();
    records
}

pub fn by_window(records: Vec<(u64, u64, i64)>) -> Expected {
    let mut expected = Expected::new();
    for (device, at, amount) in records {
        expected.entry((device, at / SIZE_MS)).or_default().push((at, amount));
    }
    expected
}

/// Runs windows of a kind with kills; `expected` says the count and the sum of each by device, start and end.
fn kind(name: &str, step: &str, expected: fn(Vec<(u64, u64, i64)>) -> Counted) {
    let Some(case) = Case::begin(name) else { return };
    let columns =
        "device String, window_start DateTime64(3), window_end DateTime64(3), n UInt64, total Int64";
    let table = case.table(columns, "(device, window_start)");
    let pipeline = case
        .pipeline()
        .field("device: String")
        .field("at: DateTime64(3)")
        .field("amount: Int32")
        .field("state: String")
        .step("filter: state = 'good'")
        .step(step);
    let expected = expected(fed_with_kills(&case, &pipeline, 3));
    let found = table.column(
        "concat(device, ' ', toString(toUnixTimestamp64Milli(window_start)), ' ', toString(toUnixTimestamp64Milli(window_end)), ' ', \
         toString(n), ' ', toString(total))",
    );
    let wanted = expected
        .into_iter()
        .map(|((device, start, end), (n, total))| format!("d{device} {start} {end} {n} {total}"))
        .collect();
    same(found, wanted);
}

/// The count and the sum of each window: device, start and end.
type Counted = BTreeMap<(u64, u64, u64), (u64, i64)>;

/// The table has the columns in another order and of other types than the window's results have them.
#[test]
fn a_result_that_fails_behind_its_window_is_a_dead_letter_with_its_own_columns() {
    let Some(case) = Case::begin("windows_unfit") else { return };
    let table = case.table("most Int8, share Int64, id UUID, name String, of String, n UInt64", "name");
    let uuid = |n: u32| format!("00000000-0000-0000-0000-00000000000{n}");
    let line = |n: u32, name: &str, value: i64| {
        format!(
            r#"{{"of":"o{n}","name":"{name}","id":"{}","at":"2026-11-01T00:00:01Z","value":{value}}}"#,
            uuid(n)
        )
    };
    // One fits, the second is no Int8, and the third divides by zero.
    let lines = [line(1, "fits", 100), line(2, "large", 300), line(3, "none", 7)].join("\n") + "\n";
    std::fs::write(case.dir().join("unfit.jsonl"), lines).expect("a file");
    let pipeline = case
        .pipeline()
        .files("unfit.jsonl")
        .field("name: String")
        .field("of: String")
        .field("id: UUID")
        .field("at: DateTime64(3)")
        .field("value: Int64")
        .step("window: { key: [name, of, id], time: at, size: 1m, at_end: close, aggregates: { n: count(), most: max(value) } }")
        .step("select: { name: name, of: of, id: id, n: n, most: most, share: '100 % (most - 7)' }");
    live::pipeline::ended_well(pipeline.run());
    assert_eq!(table.column("concat(name, ' ', toString(most), ' ', toString(n))"), ["fits 100 1"]);
    let letters = table.dead_letters();
    let raw = letters.rows("SELECT source, column, raw FROM {t} ORDER BY raw");
    let bounds = r#""window_start":"2026-11-01T00:00:00Z","window_end":"2026-11-01T00:01:00Z""#;
    let of = |n: u32, name: &str| format!(r#""name":"{name}","of":"o{n}","id":"{}""#, uuid(n));
    let selected = format!("{{{},\"n\":1,\"most\":300,\"share\":100}}", of(2, "large"));
    let result = format!("{{{},{bounds},\"n\":1,\"most\":7}}", of(3, "none"));
    let wanted = [
        serde_json::json!({ "source": "@window", "column": "most", "raw": selected }),
        serde_json::json!({ "source": "@window", "column": "share", "raw": result }),
    ];
    assert_eq!(raw, wanted);
    let accounts = pipeline.accounts();
    assert_eq!((accounts.read, accounts.written, accounts.dead_letters), (3, 1, 2), "{accounts:?}");
}

#[test]
fn overlapping_windows_in_sql_are_right_to_the_last_value_whatever_is_killed() {
    let step = "sql: SELECT window_start, window_end, device, count(*) AS n, sum(amount) AS total FROM HOP(input, at, INTERVAL '2 seconds', \
                INTERVAL '10 seconds', lateness => INTERVAL '2 seconds') GROUP BY window_start, window_end, device";
    kind("overlapping", step, |records| {
        let mut counted = Counted::new();
        for (device, at, amount) in records {
            let last = at / 2_000 * 2_000;
            for start in (0..5).map(|n| last - n * 2_000) {
                let of = counted.entry((device, start, start + 10_000)).or_default();
                *of = (of.0 + 1, of.1 + amount);
            }
        }
        counted
    });
}

#[test]
fn conditions_and_expressions_of_a_query_over_windows_are_right_whatever_is_killed() {
    let step = "sql: SELECT window_start, window_end, device, count(*) AS n, CAST(sum(amount) - 2 * count(*) AS Int64) AS total FROM TUMBLE(input, at, \
                INTERVAL '10 seconds', lateness => INTERVAL '2 seconds') AS w WHERE w.amount > 100 GROUP BY window_start, window_end, device \
                HAVING max(amount) FILTER (WHERE amount <> 999) < 990 AND total > 0";
    kind("conditions", step, |records| {
        let mut windows = BTreeMap::<_, Vec<i64>>::new();
        for (device, at, amount) in records.into_iter().filter(|(.., amount)| *amount > 100) {
            let start = at / SIZE_MS * SIZE_MS;
            windows.entry((device, start, start + SIZE_MS)).or_default().push(amount);
        }
        let counted = windows.into_iter().map(|(window, amounts)| {
            let most = amounts.iter().filter(|amount| **amount != 999).max().copied();
            let (n, total) = (amounts.len() as u64, amounts.iter().sum::<i64>() - 2 * amounts.len() as i64);
            (window, (n, total), most.is_some_and(|most| most < 990))
        });
        counted.filter(|(.., passes)| *passes).map(|(window, values, _)| (window, values)).collect()
    });
}

#[test]
fn sessions_are_right_to_the_last_value_whatever_is_killed() {
    let step = "window: { key: [device], time: at, gap: 1s, max: 30s, lateness: 2s, aggregates: { n: count(), total: sum(amount) } }";
    kind("sessions", step, |mut records| {
        records.sort_unstable();
        let mut counted = Counted::new();
        for of_one in records.chunk_by(|a, b| a.0 == b.0 && a.1 / 30_000 == b.1 / 30_000 && b.1 - a.1 < 1_000)
        {
            let (device, first, last) = (of_one[0].0, of_one[0].1, of_one[of_one.len() - 1].1);
            let end = (last + 1_000).min(last / 30_000 * 30_000 + 30_000);
            let total = of_one.iter().map(|record| record.2).sum();
            counted.insert((device, first, end), (of_one.len() as u64, total));
        }
        counted
    });
}

pub fn same(mut found: Vec<String>, mut wanted: Vec<String>) {
    found.sort();
    wanted.sort();
    assert_eq!(found.len(), wanted.len());
    let wrong: Vec<_> = found.iter().zip(&wanted).filter(|(found, wanted)| found != wanted).take(5).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// A result as the query of the table says it.
fn result(device: u64, window: u64, mut of: Vec<(u64, i64)>) -> String {
    of.sort_unstable();
    let (first, last) = (of[0].1, of[of.len() - 1].1);
    let mut amounts: Vec<i64> = of.into_iter().map(|(_, amount)| amount).collect();
    amounts.sort_unstable();
    let (n, total) = (amounts.len(), amounts.iter().sum::<i64>());
    let (least, greatest, mean) = (amounts[0], amounts[n - 1], total as f64 / n as f64);
    let large = amounts.iter().filter(|amount| **amount > 500).count();
    // Of 128 ranges for each doubling the end that is nearer to zero.
    let middle = amounts[n / 2].unsigned_abs();
    let shift = middle.checked_ilog2().unwrap_or(0).saturating_sub(7);
    let middle = middle >> shift << shift;
    amounts.dedup();
    let start = window * SIZE_MS;
    format!(
        "d{device} {start} {n} {total} {least} {greatest} {first} {last} {mean} {large} {} {middle}",
        amounts.len()
    )
}
