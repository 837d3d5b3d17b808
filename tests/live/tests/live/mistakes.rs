//! What the published pipeline of Pulsar, Flink and ClickHouse got wrong, as tests of ours: a greatest value that no record has, exceptions that the
//! sink swallows, and windows of processing time that a replay changes. docs/design/faults.md lists them.
//!
//! Does not own the values at the ends of each type, nor NaN, which no JSON holds (`operators::window::tests::signs`).

use std::time::{Duration, Instant};

use live::pipeline::ended_well;
use live::{Case, Pipeline, Table};
use testkit::{Answer, Fault, FaultProxy, Lcg, Rule, seed, wait_until};

use crate::windows;

const BEGIN_MS: u64 = 1_700_000_000_000;
const READINGS: u64 = 6_000;
/// Time between two readings.
const STEP_MS: u64 = 10;
/// Readings after which another device is silent.
const SILENCE: u64 = 150;

/// A reading of a device as JSON. `below` has negative values alone, `above` positive ones, `zero` zeros of both signs, and `null` none in most windows.
fn reading(n: u64, random: &mut Lcg) -> String {
    let device = ["below", "above", "zero", "null"][(n % 4) as usize];
    let size = 1 + random.below(100_000);
    let (whole, heat) = match device {
        "below" => (format!("-{size}"), format!("-{}.25", random.below(1_000))),
        "above" => (size.to_string(), format!("{}.25", random.below(1_000))),
        "zero" => ("0".to_owned(), ["0.0", "-0.0"][random.below(2) as usize].to_owned()),
        _ if n < READINGS / 2 => (format!("-{size}"), "null".to_owned()),
        _ => (format!("-{size}"), ["null", "-7.5"][random.below(2) as usize].to_owned()),
    };
    // A NULL among the others, too.
    let price = if random.one_in(5) { "null".to_owned() } else { format!("{whole}.5") };
    let at = BEGIN_MS + n * STEP_MS;
    format!(r#"{{"device":"{device}","at":{at},"whole":{whole},"heat":{heat},"price":{price}}}"#)
}

/// A kind of window, and how ClickHouse says it of a reading's time in milliseconds `ms`: its start and its end, once for each window.
struct Kind {
    name: &'static str,
    windows: &'static str,
    /// `SELECT device, whole, heat, price, start, end`.
    readings: &'static str,
}

const KINDS: [Kind; 5] = [
    Kind { name: "tumbling", windows: "size: 10s", readings: TUMBLING },
    Kind {
        name: "hopping",
        windows: "size: 10s, slide: 2s",
        readings: "SELECT *, intDiv(ms, 2000) * 2000 - 2000 * arrayJoin(range(5)) AS start, start + 10000 AS end FROM raw",
    },
    Kind {
        name: "cumulative",
        windows: "size: 10s, step: 2s",
        readings: "SELECT *, intDiv(ms, 10000) * 10000 AS start, start + 2000 * arrayJoin(range(1, 6)) AS end FROM raw WHERE end > ms",
    },
    Kind {
        name: "sessions",
        windows: "gap: 1s, max: 20s",
        readings: "SELECT *, min(ms) OVER one AS start, least(max(ms) OVER one + 1000, (intDiv(ms, 20000) + 1) * 20000) AS end FROM ( \
                   SELECT *, sum(is_new) OVER (PARTITION BY device ORDER BY ms ROWS UNBOUNDED PRECEDING) AS session FROM ( \
                   SELECT *, lagInFrame(ms, 1, 0) OVER (PARTITION BY device ORDER BY ms ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS before, \
                   ms - before >= 1000 OR intDiv(ms, 20000) != intDiv(before, 20000) AS is_new FROM raw)) \
                   WINDOW one AS (PARTITION BY device, session)",
    },
    Kind {
        name: "early",
        windows: "size: 10s, emit: { early: 2s, updates: true, version: version }",
        readings: TUMBLING,
    },
];

const TUMBLING: &str = "SELECT *, intDiv(ms, 10000) * 10000 AS start, start + 10000 AS end FROM raw";

/// The published job began its greatest value with the least positive number, so groups of negative values had a result that no reading had.
#[test]
fn mistake_01_the_greatest_of_negative_values_is_what_the_servers_own_sql_says_in_every_kind_of_window() {
    let Some(case) = Case::begin("mistake_01") else { return };
    let mut random = Lcg::new(seed());
    // Each device is silent at times, so that sessions end.
    let lines: Vec<String> = (0..READINGS)
        .map(|n| (n, reading(n, &mut random)))
        .filter(|(n, _)| n / SILENCE % 3 != n % 4 % 3)
        .map(|(_, line)| line)
        .collect();
    std::fs::write(case.dir().join("readings.jsonl"), lines.join("\n") + "\n").expect("a file");
    let raw = Table::at(&case.server().url(), "mistake_01_raw");
    raw.ask(
        "CREATE TABLE {t} (device String, at Int64, whole Int32, heat Nullable(Float64), price Nullable(Decimal(18, 2))) \
         ENGINE = MergeTree ORDER BY at",
    );
    for some in lines.chunks(1_000) {
        raw.ask(&format!("INSERT INTO {{t}} FORMAT JSONEachRow {}", some.join("\n")));
    }
    KINDS.iter().for_each(|kind| ends_are_the_servers(&case, kind, &raw));
}

/// Columns of results that are compared.
const ENDS: [(&str, &str); 6] = [
    ("least_whole", "min(whole)"),
    ("greatest_whole", "max(whole)"),
    ("least_heat", "min(heat)"),
    ("greatest_heat", "max(heat)"),
    ("least_price", "min(price)"),
    ("greatest_price", "max(price)"),
];

fn ends_are_the_servers(case: &Case, kind: &Kind, raw: &Table) {
    let Kind { name, windows, readings } = kind;
    let table = case.table_called(
        &format!("mistake_01_{name}"),
        "device String, window_start DateTime64(3), window_end DateTime64(3), least_whole Int32, greatest_whole Int32, \
         least_heat Nullable(Float64), greatest_heat Nullable(Float64), least_price Nullable(Decimal(18, 2)), \
         greatest_price Nullable(Decimal(18, 2)), version UInt64 DEFAULT 0",
        "(device, window_start)",
    );
    let aggregates = ENDS.map(|(column, of)| format!("{column}: {of}")).join(", ");
    let pipeline = Pipeline::new(case, table.name())
        .files("readings.jsonl")
        .field("device: String")
        .field("at: DateTime64(3)")
        .field("whole: Int32")
        .field("heat: Nullable(Float64)")
        .field("price: Nullable(Decimal(18, 2))")
        .step(&format!(
            "window: {{ key: [device], time: at, {windows}, at_end: close, aggregates: {{ {aggregates} }} }}"
        ))
        .batch("{ rows: 300, age: 100ms }");
    ended_well(pipeline.run());

    let values =
        |of: fn((&str, &str)) -> String| ENDS.map(|end| format!("toString({} + 0)", of(end))).join(", ");
    let newest = "(SELECT * FROM {t} ORDER BY version DESC LIMIT 1 BY device, window_start, window_end)";
    let own = format!(
        "SELECT device, toUnixTimestamp64Milli(window_start) AS start, toUnixTimestamp64Milli(window_end) AS end, {} FROM {newest}",
        values(|(column, _)| column.to_owned())
    );
    let server = format!(
        "WITH raw AS (SELECT *, at AS ms FROM `{}`) SELECT device, start, end, {} FROM ({readings}) GROUP BY device, start, end",
        raw.name(),
        values(|(_, of)| of.to_owned())
    );
    for (one, other) in [(&own, &server), (&server, &own)] {
        let differing = table.ask(&format!("SELECT * FROM ({one}) EXCEPT SELECT * FROM ({other})"));
        assert!(differing.is_empty(), "{name}: {}", differing.lines().take(3).collect::<Vec<_>>().join("\n"));
    }
    // No result before the last one either.
    let invented = "device IN ('below', 'null') AND (greatest_whole >= 0 OR greatest_heat >= 0 OR greatest_price >= 0) \
                    OR device = 'above' AND (least_whole <= 0 OR least_heat <= 0 OR least_price <= 0)";
    assert_eq!(table.value(&format!("SELECT countIf({invented}) FROM {{t}}")), "0", "{name}");
    let nulls = table.value("SELECT countIf(device = 'null' AND greatest_heat IS NULL) FROM {t}");
    assert_ne!(nulls, "0", "{name}: there is a group without a value");
    let (rows, results) = table.count_and_distinct("(device, window_start, window_end)");
    println!("{name}: {rows} rows of {results} results");
    // A file that is read at once may close its windows before they have early results.
    assert!(rows == results || *name == "early", "{name}: {rows} rows of {results} results");
}

const INSERT: &str = "INSERT INTO";

/// The published sink caught the exception of an insert, logged it, and went on: the rows were gone, and the job was green.
#[test]
fn mistake_02_an_insert_that_fails_is_never_swallowed_and_its_rows_are_late_but_complete() {
    let Some(case) = Case::begin("mistake_02") else { return };
    let table = case.table(windows::COLUMNS, "(device, window_start)");
    let proxy = FaultProxy::start(&case.server().url()).expect("a proxy");
    let pipeline = case
        .pipeline()
        .field("device: String")
        .field("at: DateTime64(3)")
        .field("amount: Int32")
        .field("state: String")
        .step("filter: state = 'good'")
        .step(windows::CLOSING)
        .url(&proxy.url());
    // Said in each way in which a server says it.
    let full = "Cannot reserve 1.00 MiB, not enough space";
    let in_the_body =
        proxy.add(Rule::next(3, Fault::Answer(Answer::exception_in_body(243, full))).query(INSERT));
    let by_status = proxy.add(Rule::always(Fault::Answer(Answer::exception(500, 243, full))).query(INSERT));

    let (feed, mut random) = (case.feed(), Lcg::new(seed()));
    let mut records = Vec::new();
    let record = |device: &str, at: u64, amount: i64| {
        format!(r#"{{"device":"{device}","at":{at},"amount":{amount},"state":"good"}}"#)
    };
    for n in 0..6_000_u64 {
        let (device, at, amount) = (random.below(40), BEGIN_MS + n * 7, random.below(1_000) as i64);
        feed.push((n % 3) as u32, record(&format!("d{device}"), at, amount).as_bytes());
        records.push((device, at, amount));
    }
    feed.flush();
    let mut running = pipeline.run();
    let place = format!("default.{}", table.name());
    wait_until(live::PATIENCE, "the refusal to be reported", || pipeline.problem(&place).is_some());
    let problem = pipeline.problem(&place).map(|problem| problem.to_string()).unwrap_or_default();
    assert!(problem.contains("not enough space"), "{problem}");
    wait_until(live::PATIENCE, "both ways of refusing", || {
        proxy.fired(in_the_body) == 3 && proxy.fired(by_status) >= 3
    });
    assert!(running.is_running().expect("its state"), "a refusal is no reason to end");
    assert_eq!(table.count(), 0);
    assert!(pipeline.pending_frames() > 0, "what is refused is pending and nowhere counted as written");
    // What was refused outlives the process.
    running.kill9().expect("a kill");
    assert!(pipeline.pending_frames() > 0);
    let refused_until = Instant::now();
    let running = pipeline.run();
    let before = proxy.fired(by_status);
    wait_until(live::PATIENCE, "it to be sent again", || proxy.fired(by_status) > before);
    assert_eq!(table.count(), 0);
    proxy.clear();
    wait_until(live::PATIENCE, "the rows", || pipeline.pending_frames() == 0);
    println!(
        "complete {:?} after the start, {} inserts refused",
        refused_until.elapsed(),
        proxy.fired(by_status)
    );
    live::pipeline::term(running);
    // What closes the last windows.
    (0..3).for_each(|partition| feed.send_to(partition, [record("end", BEGIN_MS + 6_000 * 7 + 60_000, 0)]));
    pipeline.drain();
    windows::closed_rows_are_right(&table, records);
    assert_eq!((table.dead_letters().count(), pipeline.pending_frames()), (0, 0));
}

/// Lives of the program that end by a kill; more of them while none was killed amid a window, which a busy machine makes rare.
const LIVES: u64 = 5;
const LIVES_MAX: u64 = 25;
/// Records that come in each.
const PER_LIFE: u64 = 2_100;

/// The published windows were of processing time: after a failure the records since the last checkpoint were read again, and fell into other windows
/// than before, whose results were in the table already.
#[test]
fn mistake_03_a_replay_moves_no_sealed_record_into_another_window_of_processing_time() {
    let Some(case) = Case::begin("mistake_03") else { return };
    // Not a table that replaces rows: results of before a kill stay, to be compared with.
    let table = case.table(
        "device String, window_start DateTime64(3), window_end DateTime64(3), n UInt64, ids Array(UInt64), first_read DateTime64(3), \
         last_read DateTime64(3), version UInt64",
        "(device, window_start)",
    );
    let pipeline = case
        .pipeline()
        .field("device: String")
        .field("id: UInt64")
        .step(
            "window: { key: [device], time: _ingested, size: 5s, emit: { early: 1s, updates: true, version: version }, aggregates: { n: count(), \
             ids: 'group_array(id, 10000)', first_read: min(_ingested), last_read: max(_ingested) } }",
        )
        .batch("{ rows: 200, age: 50ms }");
    let count = |sql: &str| table.value(sql).parse::<u64>().expect("a number");
    let (feed, mut random) = (case.feed(), Lcg::new(seed()));
    let push = |ids: std::ops::Range<u64>| {
        ids.for_each(|id| {
            feed.push((id % 3) as u32, format!(r#"{{"device":"d{}","id":{id}}}"#, id % 7).as_bytes())
        });
    };
    let send = |ids: std::ops::Range<u64>| {
        push(ids);
        feed.flush();
    };
    // A window that was written before a kill and went on after it: only those tell anything.
    let grown = || {
        count(
            "SELECT count() FROM (SELECT device, window_start FROM {t} WHERE device != 'end' GROUP BY ALL HAVING uniqExact(n) > 1)",
        )
    };
    let (mut amid, mut sealed, mut lives) = (0, 0, 0);
    while lives < LIVES || (lives < LIVES_MAX && (amid == 0 || grown() == 0)) {
        let mut running = pipeline.run();
        let (first, before) = (lives * PER_LIFE, count("SELECT count() FROM {t}"));
        send(first..first + PER_LIFE / 3);
        pipeline.wait_for_live("this life to seal something", |status| {
            status["sealed"]["read"].as_u64() > Some(sealed)
        });
        // Some of a window is written, in every second life for certain, and the rest of it comes until the kill.
        if lives % 2 == 0 {
            testkit::wait_until(live::PATIENCE, "a result of this life", || {
                count("SELECT count() FROM {t}") > before
            });
        } else {
            std::thread::sleep(Duration::from_millis(random.below(1_200)));
        }
        send(first + PER_LIFE / 3..first + 2 * PER_LIFE / 3);
        std::thread::sleep(Duration::from_millis(random.below(120)));
        // Not all of it need be acknowledged: a busy broker takes so long for that that all of it is sealed.
        push(first + 2 * PER_LIFE / 3..first + PER_LIFE);
        std::thread::sleep(Duration::from_millis(random.below(25)));
        running.kill9().expect("a kill");
        feed.flush();
        amid += u64::from(pipeline.lag() > 0);
        sealed = pipeline.status()["records"]["read"].as_u64().expect("a number");
        lives += 1;
        println!("life {lives}: {sealed} of {} sealed", first + PER_LIFE);
    }
    assert!(amid > 0, "no kill came before all was sealed");
    pipeline.drain();
    // What closes the windows comes when they are over.
    std::thread::sleep(Duration::from_millis(5_200));
    (0..3).for_each(|partition| feed.send_to(partition, [r#"{"device":"end","id":0}"#]));
    pipeline.drain();

    let all = lives * PER_LIFE;
    let of_all = "FROM {t} WHERE device != 'end'";
    let moved = "SELECT count() FROM (SELECT id, uniqExact(window_start) AS windows FROM {t} ARRAY JOIN ids AS id WHERE device != 'end' \
                 GROUP BY id HAVING windows > 1)";
    assert_eq!(count(moved), 0, "a record is in two windows, of all results ever written");
    let outside = "NOT (window_start <= first_read AND first_read <= last_read AND last_read < window_end)";
    assert_eq!(count(&format!("SELECT countIf({outside}) {of_all}")), 0, "a record is outside of its window");
    assert_eq!(count(&format!("SELECT countIf(length(ids) != n) {of_all}")), 0);
    let newest = format!("(SELECT * {of_all} ORDER BY version DESC LIMIT 1 BY device, window_start)");
    assert_eq!(count(&format!("SELECT sum(n) FROM {newest}")), all);
    assert_eq!(count(&format!("SELECT uniqExact(id) FROM {newest} ARRAY JOIN ids AS id")), all);
    let (versions, grown) = (count(&format!("SELECT uniqExact(version) {of_all}")), grown());
    println!(
        "{amid} of {lives} kills before all was sealed; {grown} results were written again, in {versions} versions"
    );
    assert!(grown > 0, "no window was written before it had all its records");
    let records = &pipeline.status()["records"];
    assert_eq!((records["dead_letters"].as_u64(), records["late"].as_u64()), (Some(0), Some(0)), "{records}");
}
