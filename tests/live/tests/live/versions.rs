//! Windows for tables that merge rows: results that others replace, and states. Whatever is killed meanwhile, the table ends with the exact values.

use live::{Case, Pipeline, Table};

use crate::windows::{Expected, by_window, fed_with_kills, same};

/// A window that is written early, at its end, and for each late row.
pub const EARLY: &str = "window: { key: [device], time: at, size: 10s, lateness: 2s, emit: { early: 2s, updates: true, version: version }, \
                         aggregates: { n: count(), total: sum(amount) } }";

/// A table of the results of [`EARLY`].
pub fn table_of_versions(case: &Case, name: &str) -> Table {
    let table = Table::at(&case.server().url(), name);
    table.ask(
        "CREATE TABLE {t} (device String, window_start DateTime64(3), n UInt64, total Int64, version UInt64, _forebay UUID) \
         ENGINE = ReplacingMergeTree(version) ORDER BY (device, window_start) \
         SETTINGS non_replicated_deduplication_window = 10000",
    );
    table
}

/// The newest row of each device and window is the exact one.
pub fn newest_rows_are_right(table: &Table, expected: Expected) {
    let engine = table.value(&format!("SELECT engine FROM system.tables WHERE name = '{}'", table.name()));
    let newest = match engine.as_str() {
        "ReplacingMergeTree" => "{t} FINAL",
        _ => "(SELECT * FROM {t} ORDER BY version DESC LIMIT 1 BY device, window_start)",
    };
    let found = table.ask(&format!(
        "SELECT concat(device, ' ', toString(toUnixTimestamp64Milli(window_start)), ' ', toString(n), ' ', toString(total)) FROM {newest} \
         WHERE device != 'end'"
    ));
    let wanted = expected.into_iter().map(|((device, window), of)| {
        let total: i64 = of.iter().map(|(_, amount)| amount).sum();
        format!("d{device} {} {} {total}", window * 10_000, of.len())
    });
    same(found.lines().map(str::to_owned).collect(), wanted.collect());
}

#[test]
fn early_results_and_updates_end_as_the_exact_results_whatever_is_killed() {
    let Some(case) = Case::begin("versions") else { return };
    let table = table_of_versions(&case, case.name());
    let pipeline = case
        .pipeline()
        .field("device: String")
        .field("at: DateTime64(3)")
        .field("amount: Int32")
        .field("state: String")
        .step("filter: state = 'good'")
        .step(EARLY);
    let expected = by_window(fed_with_kills(&case, &pipeline, 4));
    let results = expected.len() as u64;
    newest_rows_are_right(&table, expected);
    // The last records close every window of the others; of their own only early results are there.
    let written = pipeline.status()["records"]["written"].as_u64();
    assert!(written.is_some_and(|written| written > results), "{written:?}: no result came early");
}

/// The newest row is that of the newest state, also when an earlier one had sealed far more often.
#[test]
fn results_of_an_emptied_state_replace_those_of_the_state_before_it() {
    let Some(case) = Case::begin("versions_anew") else { return };
    let table = table_of_versions(&case, case.name());
    let pipeline = |name: &str, lateness: &str| {
        let fields = "{ device: String, at: DateTime64(3), amount: Int32 }";
        Pipeline::new(&case, name)
            .input("readings", case.name(), &format!(", fields: {fields}, future_max: 1m"))
            .step(&format!(
                "window: {{ key: [device], time: at, size: 10s, lateness: {lateness}, emit: {{ updates: true, version: version }}, \
                 aggregates: {{ n: count(), total: sum(amount) }} }}"
            ))
            .one_of(&format!("{{ clickhouse: {{ table: {} }} }}", table.name()))
    };
    let feed = case.feed();
    let record = |device: &str, at: u64| {
        format!(r#"{{"device":"{device}","at":{},"amount":1}}"#, 1_700_000_000_000 + at)
    };
    let send = |at: u64| feed.send([record("d", at)]);
    // The window of the others is over in every partition.
    let pass = |at: u64| feed.spread([0, 1, 2].map(|_| record("end", at)));
    let newest = || table.value("SELECT n FROM {t} FINAL WHERE device = 'd'");
    let before = pipeline(case.name(), "1h");
    for n in 0..6 {
        send(n);
        if n == 0 {
            pass(20_000);
        }
        before.drain();
    }
    assert_eq!(newest(), "6");

    // Another lateness is another window: what was open is dropped, and only what comes later is in results.
    let after = pipeline(case.name(), "2h");
    send(100);
    let output = after.run_tool(&["run"], &["--drain", "--new-state", "window"]);
    assert!(output.exit.status.success(), "{}", output.stderr);
    pass(20_100);
    after.drain();
    assert_eq!(newest(), "1", "{}", table.ask("SELECT * FROM {t}"));

    // Under another name everything is read again, with a store that knows nothing.
    let other = pipeline("versions_other", "1h");
    let output = other.run_tool(&["run"], &["--drain", "--into-filled-table"]);
    assert!(output.exit.status.success(), "{}", output.stderr);
    assert_eq!(newest(), "7", "{}", table.ask("SELECT * FROM {t}"));
}

#[test]
fn states_are_byte_for_byte_those_that_the_server_makes_of_the_same_records() {
    let Some(case) = Case::begin("states") else { return };
    let table = Table::at(&case.server().url(), case.name());
    table.ask(
        "CREATE TABLE {t} (device String, window_start DateTime64(3), n AggregateFunction(count), total AggregateFunction(sum, Int32), \
         mean AggregateFunction(avg, Int32), least AggregateFunction(min, Int32), last AggregateFunction(argMax, Int32, DateTime64(3)), \
         word AggregateFunction(max, Nullable(String)), large AggregateFunction(count), most SimpleAggregateFunction(max, Int32), amounts AggregateFunction(uniq, Int32), levels AggregateFunction(quantilesTDigest(0.5, 0.99), Int32), _forebay UUID) \
         ENGINE = AggregatingMergeTree ORDER BY (device, window_start) \
         SETTINGS non_replicated_deduplication_window = 10000, allow_dimensions_outside_sorting_key = 1",
    );
    let pipeline = case
        .pipeline()
        .field("device: String")
        .field("at: DateTime64(3)")
        .field("amount: Int32")
        .field("state: Nullable(String)")
        .step("filter: state = 'good'")
        .step(
            "window: { key: [device], time: at, size: 10s, lateness: 2s, aggregates: { n: countState(), total: sumState(amount), \
             mean: avgState(amount), least: minState(amount), last: 'argMaxState(amount, at)', word: maxState(state), \
             large: countIfState(amount > 500), most: max(amount), amounts: uniqState(amount), \
             levels: 'quantilesTDigestState(amount, 0.5, 0.99)' } }",
        );
    let records = fed_with_kills(&case, &pipeline, 2);
    let raw = Table::at(&case.server().url(), "states_raw");
    raw.ask("CREATE TABLE {t} (device String, at Int64, amount Int32) ENGINE = MergeTree ORDER BY at");
    for some in records.chunks(2_000) {
        let rows: Vec<String> =
            some.iter().map(|(device, at, amount)| format!("('d{device}', {at}, {amount})")).collect();
        raw.ask(&format!("INSERT INTO {{t}} VALUES {}", rows.join(", ")));
    }
    let hex = |of: [&str; 8]| of.map(|state| format!("hex({state})")).join(", ");
    let own = hex(["n", "total", "mean", "least", "last", "word", "large", "levels"]);
    let server = hex([
        "countState()",
        "sumState(amount)",
        "avgState(amount)",
        "minState(amount)",
        "argMaxState(amount, CAST(fromUnixTimestamp64Milli(at) AS DateTime64(3)))",
        "maxState(toNullable('good'))",
        "countIfState(amount > 500)",
        "quantilesTDigestState(0.5, 0.99)(amount)",
    ]);
    // Hashes that collide may stand in another order, so of `uniq` the result is compared.
    let own = format!(
        "SELECT device, toUnixTimestamp64Milli(window_start) AS w, {own}, most, finalizeAggregation(amounts) FROM {{t}}"
    );
    let server = format!(
        "SELECT device, intDiv(at, 10000) * 10000 AS w, {server}, max(amount), uniq(amount) FROM states_raw GROUP BY device, w"
    );
    for (one, other) in [(&own, &server), (&server, &own)] {
        let differing = table.ask(&format!("SELECT * FROM ({one}) EXCEPT SELECT * FROM ({other})"));
        assert!(differing.is_empty(), "{}", differing.lines().take(3).collect::<Vec<_>>().join("\n"));
    }
    // They merge with others, as those that the server makes do.
    let merged =
        table.value("SELECT countMerge(n), sumMerge(total), countMerge(large), uniqMerge(amounts) FROM {t}");
    let total: i64 = records.iter().map(|record| record.2).sum();
    let large = records.iter().filter(|record| record.2 > 500).count();
    let amounts = table.value("SELECT uniq(amount) FROM states_raw");
    assert_eq!(merged, format!("{}\t{total}\t{large}\t{amounts}", records.len()));
    let medians = |what: &str| table.value(&format!("SELECT {what}")).parse::<f64>().expect("a number");
    let merged = medians("quantilesTDigestMerge(0.5, 0.99)(levels)[1] FROM {t}");
    let exact = medians("quantileExact(0.5)(amount) FROM states_raw");
    let range = medians("max(amount) - min(amount) FROM states_raw");
    assert!((merged - exact).abs() <= 0.02 * range, "{merged} is not near {exact}");
}
