use pipeline::config::{self, values::reference::Surroundings};

use crate::capacity::coefficients::{Coefficients, Kind};
use crate::capacity::prices::Prices;
use crate::capacity::{Line, Load, lines};

/// The lines of a file for 100,000 keys, unless it is without.
fn of_file(text: &str, rate: f64, keys: Option<f64>) -> Vec<Line> {
    let checked = config::check(text, &Surroundings::of_process());
    let pipeline = checked.pipeline.unwrap_or_else(|| panic!("{}", checked.faults.render("p.yaml")));
    let load = Load { rate, keys, days: 30.0, record_bytes: None };
    lines(&pipeline, load, &Coefficients::measured(&pipeline), &Prices::default())
}

fn of(window: &str, rate: f64, keys: Option<f64>) -> Vec<Line> {
    let text = format!(
        "pipeline: p\nstore: ./data\nsource:\n  kafka: {{ brokers: 'b:9092', topic: t }}\n  \
         fields: {{ k: UInt32, v: Float64, i: Int64, s: String }}\nsteps: [{{ window: {{ {window} }} }}]\n\
         sink: {{ clickhouse: {{ url: 'http://c:8123', table: t }} }}\n"
    );
    of_file(&text, rate, keys)
}

fn rows(lines: &[Line]) -> Line {
    lines.iter().find(|line| line.key == "rows_per_s").expect("a line for rows").clone()
}

fn states(lines: &[Line]) -> Vec<Line> {
    lines.iter().filter(|line| line.key == "state_bytes").cloned().collect()
}

fn near(line: &Line, value: f64) {
    assert!((line.value - value).abs() < value * 1e-9, "{value} expected: {line:?}");
}

const KEYS: Option<f64> = Some(100e3);

#[test]
fn early_results_are_rows_of_each_period() {
    let lines = of_file(include_str!("../../../../../docs/examples/windows-early.yaml"), 1e6, KEYS);
    // A row of each key every minute, not every hour.
    near(&rows(&lines), 100e3 / 60.0);
    assert!(rows(&lines).because.contains("every 60 s (`early`)"), "{:?}", rows(&lines));
    assert!(rows(&lines).because.contains("at least, for `updates`"), "{:?}", rows(&lines));
    // The hour that fills and, up to ten minutes, the one before: 8 of the key, 19, the sum and count of an average, 8 for `emit`.
    near(&states(&lines)[0], 2.0 * 100e3 * 51.0 / 1e6);
}

#[test]
fn a_period_longer_than_the_window_adds_no_rows_to_its_own() {
    let window = |emit: &str| format!("key: [k], size: 1m, {emit}aggregates: {{ n: 'count()' }}");
    let plain = rows(&of(&window(""), 1e6, KEYS));
    near(&plain, 100e3 / 60.0);
    near(&rows(&of(&window("emit: { early: 2m, version: ver }, "), 1e6, KEYS)), plain.value);
}

#[test]
fn rows_that_are_taken_back_are_rows_too() {
    let window = "key: [k], size: 1h, emit: { early: 1m, sign: sg }, aggregates: { n: 'count()' }";
    let lines = of(window, 1e6, KEYS);
    // Of sixty results of a key and hour all but the first take one back.
    near(&rows(&lines), 100e3 * 119.0 / 3_600.0);
    // What was written is kept as well: twice 8 and 19 and 8.
    near(&states(&lines)[0], 100e3 * 70.0 / 1e6);
}

#[test]
fn the_last_window_makes_the_rows_and_those_behind_another_read_its_results() {
    let lines = of_file(include_str!("../../../../../docs/examples/rollup.yaml"), 1e6, KEYS);
    near(&rows(&lines), 100e3 / 3_600.0);
    assert!(rows(&lines).because.starts_with("of the last window"), "{:?}", rows(&lines));
    let states = states(&lines);
    assert_eq!(states.iter().map(|line| line.what).collect::<Vec<_>>(), ["dedup", "window", "window"]);
    // Two minutes, for the lateness, with a `max` of a Float; an hour with a sum and a `max` of results.
    near(&states[1], 2.0 * 100e3 * 35.0 / 1e6);
    near(&states[2], 100e3 * 61.0 / 1e6);
    // Without a number of keys every minute has a result for each record, and so has every hour.
    let lines = of_file(include_str!("../../../../../docs/examples/rollup.yaml"), 100.0, None);
    near(&rows(&lines), 100.0);
}

#[test]
fn a_record_may_have_a_result_in_each_of_its_windows() {
    let hopping = "key: [k], size: 1h, slide: 1m, aggregates: { n: 'count()' }";
    near(&rows(&of(hopping, 1e6, KEYS)), 100e3 / 60.0);
    // Ten records a second are in sixty windows each.
    near(&rows(&of(hopping, 10.0, KEYS)), 600.0);
    near(&rows(&of(hopping, 10.0, None)), 600.0);
    // Keys of sixty minutes; or as many as there are records.
    near(&states(&of(hopping, 1e6, KEYS))[0], 60.0 * 100e3 * 27.0 / 1e6);
    near(&states(&of(hopping, 10.0, KEYS))[0], 3_600.0 * 10.0 * 27.0 / 1e6);
    near(&states(&of(hopping, 10.0, None))[0], 3_600.0 * 10.0 * 27.0 / 1e6);
    // Parts of 20 minutes, for `slide` does not divide `size`: three of them.
    let uneven = "key: [k], size: 1h, slide: 40m, aggregates: { n: 'count()' }";
    near(&states(&of(uneven, 1e6, KEYS))[0], 3.0 * 100e3 * 27.0 / 1e6);
    // A record of the first hour of a day is in 24 windows, one of the last in one.
    let cumulative = "key: [k], size: 1d, step: 1h, aggregates: { n: 'count()' }";
    near(&rows(&of(cumulative, 1e6, KEYS)), 100e3 / 3_600.0);
    near(&rows(&of(cumulative, 10.0, None)), 125.0);
    near(&states(&of(cumulative, 1e6, KEYS))[0], 100e3 * 27.0 / 1e6);
    // All sixty windows have early results of a key.
    let early =
        "key: [k], size: 1h, slide: 1m, emit: { early: 1m, version: ver }, aggregates: { n: 'count()' }";
    near(&rows(&of(early, 1e6, KEYS)), 60.0 * 100e3 / 60.0);
}

#[test]
fn a_seal_without_results_makes_no_part() {
    let parts = |window: &str, keys| {
        let lines = of(&format!("key: [k], {window}aggregates: {{ n: 'count()' }}"), 100e3, Some(keys));
        lines.iter().find(|line| line.key == "parts_per_s").expect("a line for parts").clone()
    };
    near(&parts("size: 1m, ", 100e3), 1.0 / 60.0);
    near(&parts("size: 1h, slide: 10s, ", 100e3), 0.1);
    near(&parts("size: 1h, emit: { early: 1m, version: ver }, ", 100e3), 1.0 / 3_600.0 + 1.0 / 60.0);
    // More rows than a batch takes: six inserts a minute.
    near(&parts("size: 1m, ", 3e6), 0.1);
    // Sessions end at any time, and late records come at any time.
    near(&parts("gap: 1m, ", 100e3), 1.0);
    let updates = "size: 1h, lateness: 10m, emit: { updates: true, version: ver }, ";
    near(&parts(updates, 100e3), 1.0);
}

#[test]
fn a_window_without_a_key_has_one() {
    let lines = of("size: 1m, aggregates: { n: 'count()' }", 1e6, None);
    near(&rows(&lines), 1.0 / 60.0);
    near(&states(&lines)[0], 19.0 / 1e6);
}

#[test]
fn a_key_takes_what_its_aggregates_take() {
    let bytes = |aggregates: &str| {
        let window = format!("key: [k], size: 1m, aggregates: {{ {aggregates} }}");
        states(&of(&window, 1.0, Some(1.0)))[0].value * 1e6
    };
    // As measured: a count, and sum, least and greatest value of two columns, here of one.
    assert_eq!(bytes("n: 'count()', s: 'sum(v)', a: 'min(v)', b: 'max(v)', m: 'avg(v)'").round(), 59.0);
    assert_eq!(bytes("s: 'sum(i)'").round(), 44.0);
    assert_eq!(bytes("s: 'sum(v) where i > 0'").round(), 44.0);
    assert_eq!(bytes("n: 'count(i)', d: 'stddev_pop(v)'").round(), 59.0);
    // Sixty records a minute, of which ten are kept.
    assert_eq!(bytes("a: 'group_array(v, 10)'").round(), 147.0);
    assert_eq!(bytes("a: 'group_array(v, 1000)'").round(), 747.0);
}

#[test]
fn what_differing_values_take_is_said_and_fits_only_if_each_record_with_its_own_does() {
    let window = |aggregates: &str| format!("key: [k], size: 1h, aggregates: {{ {aggregates} }}");
    let of = |aggregates: &str, rate| states(&of(&window(aggregates), rate, KEYS))[0].clone();
    let both = "p: 'quantile(v, 0.99)', d: 'count_distinct(i)'";
    // 36,000 records of each key and hour.
    let open = of(both, 1e6);
    near(&open, 100e3 * 82.0 / 1e6);
    for said in [
        "100000 keys of at least 82 bytes (`p`: 30 for each range of values, `d`: 25 for each different value; docs/windows.md)",
        "which fits as long as a key takes no more than 2684 bytes",
    ] {
        assert!(open.because.contains(said), "{open:?}");
    }
    // 36 records: 27 bytes and 36 times 55 always fit.
    let fits = of(both, 1e3);
    assert!(fits.because.ends_with("which fits"), "{fits:?}");
    // At most 4096 of 4 bytes each.
    let bounded = of("d: 'approx_count_distinct(i)'", 1e6);
    assert!(bounded.because.contains("no more than"), "{bounded:?}");
    // Texts have any length.
    let text = of("t: 'max(s)', d: 'count_distinct(s)'", 1e3);
    assert!(
        text.because.contains("`t`: and its text, `d`: 25 for each different value and its text"),
        "{text:?}"
    );
    assert!(text.because.contains("no more than"), "{text:?}");
    // What is more at least is spilled.
    assert!(of(both, 1e6).value < 268.0);
    let spilled = states(&super::tests::of(&window(both), 1e6, Some(10e6)))[0].clone();
    assert!(spilled.because.contains("spilled to files"), "{spilled:?}");
}

/// The measured window has aggregates of its own: another one differs from its arithmetic by as much, and is not taken for it.
#[test]
fn a_measured_window_corrects_what_others_take_and_does_not_stand_for_them() {
    let state = |aggregates: &str| {
        let text = format!(
            "pipeline: p\nstore: ./data\nsource:\n  kafka: {{ brokers: 'b:9092', topic: t }}\n  \
             fields: {{ k: Int32, a: Float64, b: Float64, c: Float64, d: Float64 }}\n\
             steps: [{{ window: {{ key: [k], size: 1m, aggregates: {{ {aggregates} }} }} }}]\n\
             sink: {{ clickhouse: {{ url: 'http://c:8123', table: t }} }}\n"
        );
        let checked = config::check(&text, &Surroundings::of_process());
        let pipeline = checked.pipeline.unwrap_or_else(|| panic!("{}", checked.faults.render("p.yaml")));
        let measured = Some((Kind::Window, 2.0 * super::MEASURED_KEY_BYTES));
        let known = Coefficients { bytes_a_key: measured, ..Coefficients::measured(&pipeline) };
        let load = Load { rate: 1e6, keys: KEYS, days: 30.0, record_bytes: None };
        states(&lines(&pipeline, load, &known, &Prices::default()))[0].clone()
    };
    // The window of `forebay bench flink`, for which the measurement stands as it is.
    let metrics = ["a", "b", "c", "d"];
    let of_metric =
        |m: &str| format!("s{m}: 'sum({m})', l{m}: 'min({m})', g{m}: 'max({m})', m{m}: 'avg({m})'");
    let own = metrics.map(of_metric).join(", ");
    near(&state(&format!("n: 'count()', {own}")), 100e3 * 262.0 / 1e6);
    near(&state("n: 'count()'"), 100e3 * 2.0 * 27.0 / 1e6);
    let open = state("x: 'count_distinct(a)'");
    near(&open, 100e3 * 2.0 * 52.0 / 1e6);
    assert!(open.because.contains("at least 104 bytes"), "{open:?}");
    assert!(open.because.contains("docs/windows.md, corrected by what the report measured"), "{open:?}");
    assert!(open.because.contains("as long as a key takes no more than"), "{open:?}");
}
