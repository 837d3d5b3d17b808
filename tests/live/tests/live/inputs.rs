//! Several inputs in one pipeline: their rows are one, and each of them is in its table once.

use std::collections::BTreeMap;
use std::time::Duration;

use live::{Accounts, Case, Feed, Pipeline, Table};
use testkit::{Lcg, seed};

/// Different records of each input.
const ORDERS: u64 = 30_000;
const REFUNDS: u64 = 12_000;
const LIVES: u64 = 8;
const BEGIN_MS: u64 = 1_700_000_000_000;

const LARGE: &str = "id String, amount Int64, country LowCardinality(String), at DateTime64(3)";
const SMALL: &str = "id String, amount Int32, via LowCardinality(String)";
const TABLES: [&str; 3] = ["inputs_large", "inputs_small", "inputs_back"];
const BACK: &str =
    "id String, amount Int64, reason Nullable(String), at DateTime64(3), topic LowCardinality(String)";

/// What every table must hold: its rows as texts.
#[derive(Default)]
pub struct Expected {
    large: Vec<String>,
    small: Vec<String>,
    back: Vec<String>,
    pub accounts: Accounts,
}

/// The tables of the pipeline: of large orders, of small ones, and of refunds.
pub struct Tables([Table; 3]);

impl Tables {
    pub fn new(case: &Case) -> Self {
        let columns = [LARGE, SMALL, BACK];
        let named = |nth: usize| case.table_called(TABLES[nth], columns[nth], "id");
        Self([0, 1, 2].map(named))
    }

    /// Each holds what it must, and nothing twice.
    pub fn hold(&self, expected: &Expected) {
        let [large, small, back] = &self.0;
        let at = "toString(toUnixTimestamp64Milli(at))";
        holds(large, &format!("concat(id, ' ', toString(amount), ' ', country, ' ', {at})"), &expected.large);
        holds(small, "concat(id, ' ', toString(amount), ' ', via)", &expected.small);
        let row =
            format!("concat(id, ' ', toString(amount), ' ', coalesce(reason, '-'), ' ', {at}, ' ', topic)");
        holds(back, &row, &expected.back);
    }
}

/// The pipeline: orders with an amount in whole units, refunds in cents under other names.
pub fn pipeline(case: &Case, topics: [&str; 2]) -> Pipeline {
    let [large, small, back] = TABLES;
    case.pipeline()
        .input("orders", topics[0], ", time: at, fields: { state: String, id: String, amount: Int32 }")
        .input("refunds", topics[1], ", time: refunded_at, fields: { refund: String, cents: Int64, refunded_at: DateTime64(3) }")
        .step("{ from: orders, filter: state = 'paid' }")
        .step(
            "{ from: refunds, select: { id: refund, amount: 'cents / -100', at: refunded_at, reason: why, _topic: _topic, _input: _input, country: \"'?'\" } }",
        )
        .step("filter: amount <> 0")
        .step("dedup: { key: [id], window: 7d }")
        .one_of(&format!("{{ clickhouse: {{ table: {large} }}, where: amount >= 500 }}"))
        .one_of(&format!("{{ clickhouse: {{ table: {back} }}, where: amount < 0, columns: {{ topic: _topic }} }}"))
        .one_of(&format!("{{ clickhouse: {{ table: {small} }}, otherwise: true, columns: {{ via: _input }} }}"))
        .batch("{ rows: 2000, age: 100ms }")
}

/// Sends order `n`, to a partition, and tells what becomes of it.
pub fn order(n: u64, random: &mut Lcg, send: &mut dyn FnMut(u32, &str), expected: &mut Expected) {
    let amount = random.below(1_000);
    let is_paid = !n.is_multiple_of(5);
    let country = ["nl", "de", "fr"][(n % 3) as usize];
    let at = BEGIN_MS + n * 10;
    let state = if is_paid { "paid" } else { "open" };
    let id = format!("o{n}");
    let body = format!(
        r#"{{"id":"{id}","amount":{amount},"country":"{country}","state":"{state}","at":{at},"refund":"never read"}}"#
    );
    let copies = copies(random, send, &body);
    let accounts = &mut expected.accounts;
    accounts.read += copies;
    if !is_paid || amount == 0 {
        accounts.filtered += copies;
        return;
    }
    (accounts.written, accounts.duplicates) = (accounts.written + 1, accounts.duplicates + copies - 1);
    if amount >= 500 {
        expected.large.push(format!("{id} {amount} {country} {at}"));
    } else {
        expected.small.push(format!("{id} {amount} orders"));
    }
}

/// The same for a refund, of which the table holds the topic.
pub fn refund(
    n: u64,
    topic: &str,
    random: &mut Lcg,
    send: &mut dyn FnMut(u32, &str),
    expected: &mut Expected,
) {
    // Whole units; one in seven refunds nothing, one in eleven is no number.
    let units = if n.is_multiple_of(7) { 0 } else { random.below(90) + 1 };
    let is_number = !n.is_multiple_of(11);
    let cents = if is_number { format!("{}", units * 100) } else { "\"much\"".to_owned() };
    let why = if n.is_multiple_of(2) { format!(",\"why\":\"w{n}\"") } else { String::new() };
    let at = BEGIN_MS + n * 25;
    let id = format!("r{n}");
    let body = format!(r#"{{"refund":"{id}","cents":{cents},"refunded_at":{at}{why},"id":17}}"#);
    let copies = copies(random, send, &body);
    let accounts = &mut expected.accounts;
    accounts.read += copies;
    match (is_number, units) {
        (false, _) => accounts.dead_letters += copies,
        (true, 0) => accounts.filtered += copies,
        (true, _) => {
            (accounts.written, accounts.duplicates) =
                (accounts.written + 1, accounts.duplicates + copies - 1);
            let reason = if n.is_multiple_of(2) { format!("w{n}") } else { "-".to_owned() };
            expected.back.push(format!("{id} -{units} {reason} {at} {topic}"));
        }
    }
}

/// One record in four twice, each to any partition.
fn copies(random: &mut Lcg, send: &mut dyn FnMut(u32, &str), body: &str) -> u64 {
    let copies = if random.below(4) == 0 { 2 } else { 1 };
    (0..copies).for_each(|_| send(random.below(3) as u32, body));
    copies
}

/// Into a topic.
fn sending(feed: &Feed) -> impl FnMut(u32, &str) {
    |partition, body| feed.push(partition, body.as_bytes())
}

#[track_caller]
fn holds(table: &Table, row: &str, wanted: &[String]) {
    let mut found = table.column(row);
    let mut wanted = wanted.to_vec();
    (found.sort(), wanted.sort());
    assert_eq!(found.len(), wanted.len(), "{}", wanted.first().map_or("", String::as_str));
    let wrong: Vec<_> = found.iter().zip(&wanted).filter(|(found, wanted)| found != wanted).take(5).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn kill_test_two_inputs_a_filter_a_router_and_three_tables_are_right_to_the_last_row() {
    let Some(case) = Case::begin("inputs_kills") else { return };
    let topics = ["inputs_kills_orders", "inputs_kills_refunds"];
    let tables = Tables::new(&case);
    let pipeline = pipeline(&case, topics);
    let mut random = Lcg::new(seed());
    let feeds = topics.map(|topic| Feed::new(case.kafka(), topic));
    let mut expected = Expected::default();
    for life in 0..LIVES {
        for n in life * ORDERS / LIVES..(life + 1) * ORDERS / LIVES {
            order(n, &mut random, &mut sending(&feeds[0]), &mut expected);
        }
        for n in life * REFUNDS / LIVES..(life + 1) * REFUNDS / LIVES {
            refund(n, topics[1], &mut random, &mut sending(&feeds[1]), &mut expected);
        }
        feeds.iter().for_each(Feed::flush);
        if life == 0 {
            pipeline.check(&["--connect", "--sample", "20"]);
        }
        let mut running = pipeline.run();
        std::thread::sleep(Duration::from_millis(300 + random.below(1_500)));
        running.kill9().expect("a kill");
    }
    pipeline.drain();
    tables.hold(&expected);
    assert!(expected.accounts.dead_letters > 1_000 && expected.back.len() > 5_000, "{:?}", expected.accounts);
    assert_eq!(pipeline.accounts(), expected.accounts);
    let status = pipeline.status();
    let read = |input: &str| status["inputs"][input]["read"].as_u64().expect("a number");
    assert_eq!(read("orders") + read("refunds"), expected.accounts.read, "{status:#}");
    assert!(read("refunds") < read("orders") && pipeline.lag() == 0, "{status:#}");
    let letters = Table::at(&case.server().url(), "inputs_kills_rejected");
    let topics_of_letters = letters.rows("SELECT source, toUInt32(count()) AS n FROM {t} GROUP BY source");
    assert_eq!(
        topics_of_letters,
        [serde_json::json!({ "source": topics[1], "n": expected.accounts.dead_letters })]
    );
    // Each table by its name, against both topics.
    for table in TABLES {
        let said = pipeline.tool(&["verify"], &["--json", "--values", "--table", table], 0);
        assert_eq!(said["table"].as_str(), Some(format!("default.{table}").as_str()), "{said:#}");
    }
}

#[test]
fn an_input_that_is_away_does_not_stop_the_other() {
    let Some(case) = Case::begin("inputs_away") else { return };
    let table = case.table("id String, via LowCardinality(String)", "id");
    let (one, two) = ("inputs_away_one", "inputs_away_two");
    let both = case.pipeline().input("one", one, "").input("two", two, "").more("columns: { via: _input }");
    let feeds = [one, two].map(|topic| Feed::new(case.kafka(), topic));
    let send = |feed: &Feed, name: &str, from: u32, to: u32| {
        feed.spread((from..to).map(|n| format!(r#"{{"id":"{name}{n}"}}"#)));
    };
    send(&feeds[0], "a", 0, 100);
    send(&feeds[1], "b", 0, 100);
    both.drain();
    assert_eq!(table.count(), 200);

    // Nobody answers there.
    let away = both.clone().input_at("127.0.0.1:1", "two", two, "");
    send(&feeds[0], "a", 100, 300);
    send(&feeds[1], "b", 100, 200);
    let running = away.run();
    table.wait_for(300);
    away.wait_for_live("both inputs to be told of", |status| {
        status["inputs"]["one"]["read"].as_u64() == Some(300)
            && status["inputs"]["two"]["read"].as_u64() == Some(100)
    });
    away.wait_for_live("the input that is away to be told of", |status| {
        let problems = status["problems"].as_array().expect("a list");
        problems.iter().any(|problem| problem["place"] == "two" && problem["effect"] == "none")
            && problems.iter().all(|problem| problem["place"] != "one")
    });
    live::pipeline::term(running);

    both.drain();
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    table.column("via").into_iter().for_each(|via| *found.entry(via).or_default() += 1);
    assert_eq!(found, BTreeMap::from([("one".to_owned(), 300), ("two".to_owned(), 200)]));
    assert_eq!(table.count_and_distinct("id"), (500, 500));
    let accounts = Accounts { read: 500, written: 500, ..Accounts::default() };
    assert_eq!(both.accounts(), accounts);
}

#[test]
fn a_source_becomes_one_of_several_inputs_and_goes_on_where_it_was() {
    let Some(case) = Case::begin("inputs_grow") else { return };
    let table = case.table("id String", "id");
    case.feed().spread((0..100).map(|n| format!(r#"{{"id":"a{n}"}}"#)));
    case.pipeline().drain();
    assert_eq!(table.count(), 100);

    let lines: String = (0..50).map(|n| format!("{{\"id\":\"f{n}\"}}\n")).collect();
    let file = case.dir().join("more.jsonl");
    std::fs::write(&file, lines).expect("a file");
    case.feed().spread((100..150).map(|n| format!(r#"{{"id":"a{n}"}}"#)));
    let several = case
        .pipeline()
        .input("source", case.name(), "")
        .input_of("lines", &format!("{{ file: {{ paths: {} }} }}", file.display()));
    several.drain();
    assert_eq!(table.count_and_distinct("id"), (200, 200));
    let accounts = Accounts { read: 200, written: 200, ..Accounts::default() };
    assert_eq!(several.accounts(), accounts);
    // Each input was read, and is in the file: nothing is to be decided.
    several.check(&["--connect"]);
    let said = several.tool(&["plan"], &["--json"], 0);
    assert!(!said.to_string().contains("no longer in the pipeline file"), "{said:#}");
}

#[test]
fn dead_letters_of_each_input_are_replayed_through_its_own_steps() {
    let Some(case) = Case::begin("inputs_replay") else { return };
    let table = case.table("id String, n Int32", "id");
    let (one, two) = ("inputs_replay_one", "inputs_replay_two");
    let pipeline = case
        .pipeline()
        .input("one", one, "")
        .input("two", two, ", fields: { n: Int64 }")
        .step("{ from: two, select: { id: id, n: n * 10 } }");
    let feeds = [one, two].map(|topic| Feed::new(case.kafka(), topic));
    // Too much for 32 bits, in both.
    for (feed, name) in feeds.iter().zip(["a", "b"]) {
        feed.spread((0..6_u64).map(|n| format!(r#"{{"id":"{name}{n}","n":{}}}"#, n % 2 * 3_000_000_000 + n)));
    }
    pipeline.drain();
    assert_eq!((table.count(), table.dead_letters().count()), (6, 6));

    table.ask("ALTER TABLE {t} MODIFY COLUMN n Int64");
    // Nobody runs the pipeline: the command reads the log itself.
    let replayed =
        pipeline.dead_letters("replay", &["--input", "two", "--json"]).success().expect("a replay");
    assert_eq!(replayed.stdout.matches("\"written\"").count(), 3, "{}", replayed.stdout);
    let listed = pipeline.dead_letters("list", &["--input", "one", "--json"]).success().expect("a list");
    let of_one = listed.stdout.lines().filter(|line| line.contains("\"input\":\"one\"")).count();
    assert_eq!((listed.stdout.lines().count(), of_one), (3, 3), "{}", listed.stdout);
    let unknown = pipeline.dead_letters("list", &["--input", "three"]);
    assert!(unknown.stderr.contains("its inputs are: `one`, `two`"), "{}", unknown.stderr);
    // Somebody runs it.
    let running = pipeline.run();
    pipeline.wait_for_live("the first records", |status| status["phase"] == "running");
    let replayed = pipeline.dead_letters("replay", &["--json"]).success().expect("a replay");
    assert_eq!(replayed.stdout.matches("\"written\"").count(), 6, "{}", replayed.stdout);
    live::pipeline::term(running);

    let mut rows = table.column("concat(id, ' ', toString(n))");
    rows.sort();
    let of = |name: &str, times: u64| {
        (0..6_u64)
            .map(move |n| format!("{name}{n} {}", (n % 2 * 3_000_000_000 + n) * times))
            .collect::<Vec<_>>()
    };
    assert_eq!(rows, [of("a", 1), of("b", 10)].concat());
    let accounts = Accounts { read: 18, written: 12, dead_letters: 6, ..Accounts::default() };
    assert_eq!(pipeline.accounts(), accounts);
    pipeline.tool(&["verify"], &["--json", "--key", "id"], 0);
}

#[test]
fn an_input_that_is_forgotten_leaves_the_replays_of_the_others_alone() {
    let Some(case) = Case::begin("inputs_forget") else { return };
    let table = case.table("id String, n Int32", "id");
    let (one, two) = ("inputs_forget_one", "inputs_forget_two");
    let pipeline = case.pipeline().input("one", one, "").input("two", two, "");
    let feeds = [one, two].map(|topic| Feed::new(case.kafka(), topic));
    feeds[0].spread((0..3).map(|n| format!(r#"{{"id":"a{n}","n":{n}}}"#)));
    // Too much for 32 bits.
    feeds[1].spread([r#"{"id":"b0","n":3000000000}"#]);
    pipeline.drain();
    assert_eq!((table.count(), table.dead_letters().count()), (3, 1));
    table.ask("ALTER TABLE {t} MODIFY COLUMN n Int64");

    // The first input carries the replay log, with records of the second.
    pipeline.dead_letters("replay", &["--no-wait", "--json"]).success().expect("a replay");
    let refused = pipeline.run_tool(&["forget"], &["--input", "one", "--from-start", "--yes"]);
    assert!(refused.stderr.contains("`forebay run FILE --drain`"), "{}", refused.stderr);
    pipeline.drain();
    let of_two = "SELECT id FROM {t} WHERE id = 'b0'";
    assert_eq!(table.rows(of_two).len(), 1);

    pipeline
        .run_tool(&["forget"], &["--input", "one", "--from-start", "--yes"])
        .success()
        .expect("forgotten");
    pipeline.drain();
    assert_eq!(table.rows(of_two).len(), 1, "the replay was read once");
    assert_eq!(table.count_and_distinct("id"), (3 + 3 + 1, 4), "those of the first input are read again");
    // And the log is read on.
    let again = pipeline.dead_letters("replay", &["--again", "--json"]).success().expect("a replay");
    assert_eq!(again.stdout.matches("\"written\"").count(), 1, "{}", again.stdout);
    assert_eq!(table.rows(of_two).len(), 2);
}

#[test]
fn a_window_aggregates_the_rows_of_both_inputs_each_by_its_own_time() {
    let Some(case) = Case::begin("inputs_window") else { return };
    let columns =
        "device String, window_start DateTime64(3), window_end DateTime64(3), n UInt64, total Int64";
    let table = case.table(columns, "(device, window_start)");
    let (one, two) = ("inputs_window_one", "inputs_window_two");
    let pipeline = case
        .pipeline()
        .input("one", one, ", time: at, idle_after: 1h, fields: { device: String, at: DateTime64(3), amount: Int32 }")
        .input("two", two, ", time: seen, idle_after: 1h, fields: { device: String, seen: DateTime64(3), amount: Int64 }")
        .step("window: { key: [device], size: 10s, lateness: 2s, aggregates: { n: count(), total: sum(amount) } }");
    let mut random = Lcg::new(seed());
    let feeds = [one, two].map(|topic| Feed::new(case.kafka(), topic));
    let times = ["at", "seen"];
    let mut expected: BTreeMap<(u64, u64), (u64, u64)> = BTreeMap::new();
    for life in 0..4 {
        for n in life * 3_000..(life + 1) * 3_000_u64 {
            let (which, device, amount) = ((n % 2) as usize, random.below(20), random.below(1_000));
            let at = BEGIN_MS + n * 20;
            let body = format!(r#"{{"device":"d{device}","{}":{at},"amount":{amount}}}"#, times[which]);
            feeds[which].push((n / 2 % 3) as u32, body.as_bytes());
            let of = expected.entry((device, at / 10_000)).or_default();
            *of = (of.0 + 1, of.1 + amount);
        }
        feeds.iter().for_each(Feed::flush);
        let mut running = pipeline.run();
        std::thread::sleep(Duration::from_millis(300 + random.below(1_500)));
        running.kill9().expect("a kill");
    }
    // What closes the windows: one record far ahead of all others in each partition of each. Read together with others it would be taken for one
    // with a wrong clock.
    pipeline.drain();
    for (feed, time) in feeds.iter().zip(times) {
        let body = format!(r#"{{"device":"end","{time}":{},"amount":0}}"#, BEGIN_MS + 12_000 * 20 + 60_000);
        feed.spread([&body, &body, &body]);
    }
    pipeline.drain();
    let mut found = table.column(
        "concat(device, ' ', toString(toUnixTimestamp64Milli(window_start)), ' ', toString(n), ' ', toString(total))",
    );
    let mut wanted: Vec<String> = expected
        .into_iter()
        .map(|((device, window), (n, total))| format!("d{device} {} {n} {total}", window * 10_000))
        .collect();
    (found.sort(), wanted.sort());
    assert_eq!(found, wanted);
}

/// A table for each value of a column, one that takes a part of a value's rows as well, and one for what is left.
#[test]
fn rows_go_to_the_table_that_a_columns_value_names() {
    let Some(case) = Case::begin("inputs-by") else { return };
    let [page, click, large, rest] = ["by_page", "by_click", "by_large_clicks", "by_none"]
        .map(|name| case.table_called(name, "id UInt64, amount UInt64", "id"));
    let pipeline = case
        .pipeline()
        .field("kind: Nullable(String)")
        .step("dedup: { key: [id], window: unbounded }")
        .one_of("{ clickhouse: { table: 'by_{kind}' }, by: { column: kind, values: [page, click] } }")
        .one_of("{ clickhouse: { table: 'by_large_{kind}s' }, by: { column: kind, values: [click] }, where: amount >= 50 }")
        .one_of("{ clickhouse: { table: by_none }, otherwise: true }")
        .batch("{ rows: 300, age: 50ms }");
    let feed = case.feed();
    let kinds = ["\"page\"", "\"click\"", "\"Page\"", "\"\"", "null"];
    for id in 0..3_000_u64 {
        let kind = kinds[(id % 5) as usize];
        feed.push(
            (id % 3) as u32,
            format!(r#"{{"id":{id},"kind":{kind},"amount":{}}}"#, id % 100).as_bytes(),
        );
    }
    feed.flush();
    for _ in 0..3 {
        let mut running = pipeline.run();
        std::thread::sleep(Duration::from_millis(500));
        running.kill9().expect("a kill");
    }
    pipeline.drain();
    let wanted = |takes: fn(u64) -> bool| {
        let mut rows: Vec<String> =
            (0..3_000).filter(|id| takes(*id)).map(|id| format!("{id}|{}", id % 100)).collect();
        rows.sort();
        rows
    };
    let found = |table: &Table| table.column("concat(toString(id), '|', toString(amount))");
    assert_eq!(found(&page), wanted(|id| id % 5 == 0));
    assert_eq!(found(&click), wanted(|id| id % 5 == 1));
    assert_eq!(found(&large), wanted(|id| id % 5 == 1 && id % 100 >= 50));
    // Values are told apart by their case.
    assert_eq!(found(&rest), wanted(|id| id % 5 > 1));
}
