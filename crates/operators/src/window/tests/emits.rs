//! Results before windows are closed: each key and window has the newest of its records' results, whatever is cut where and wherever a start goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, UInt64Type};
use bytes::Bytes;
use dataflow::{Operator, Output, State};
use proptest::prelude::*;

use super::model::{
    Act, DEVICES, acts, cumulative, expected, hopping, is_near, ms, told, unordered, windows, without_order,
};
use super::{Row, batch, config, cut, put, schema};
use crate::ConfigError;
use crate::window::{Clock, Emit, Window, WindowConfig, Windows};

pub(super) fn emit(early_ms: Option<u64>, updates: bool) -> Option<Emit> {
    let (early, version) = (early_ms.map(Duration::from_millis), Some("version".to_owned()));
    Some(Emit { early, clock: Clock::EventTime, updates, version, sign: None })
}

/// A window of a device: its bounds.
type At = (i64, i64, Option<String>);

/// What must be written.
#[derive(Clone, Default)]
struct Model {
    /// The records of each window that is open.
    open: BTreeMap<At, Vec<Row>>,
    /// Windows with a record since they were last written.
    news: BTreeSet<At>,
    /// The end of the last window of each record that is held.
    held: Vec<i64>,
    watermark_ms: i64,
    late: u64,
}

struct Rules {
    emit: Emit,
    lateness_ms: i64,
    windows_of: Box<dyn Fn(i64) -> Vec<(i64, i64)>>,
}

impl Model {
    fn row(&mut self, rules: &Rules, row: Row) {
        let mut windows = (rules.windows_of)(row.3);
        windows.retain(|(_, end)| end + rules.lateness_ms > self.watermark_ms);
        let Some(last) = windows.iter().map(|(_, end)| *end).max() else {
            self.late += 1;
            return;
        };
        self.held.push(last);
        for (start, end) in windows {
            let at = (start, end, row.0.map(str::to_owned));
            self.news.insert(at.clone());
            self.open.entry(at).or_default().push(row);
        }
    }

    /// The results of a seal with this watermark.
    fn cut(&mut self, rules: &Rules, watermark_ms: i64) -> BTreeMap<At, Vec<String>> {
        let before = std::mem::replace(&mut self.watermark_ms, watermark_ms);
        let is_early = rules.emit.early.is_some_and(|early| {
            let early = early.as_millis() as i64;
            before == i64::MIN || watermark_ms / early > before / early
        });
        let is_closed = |end: i64| end + rules.lateness_ms <= watermark_ms;
        let fires = |end: i64| is_closed(end) || is_early || (rules.emit.updates && end <= watermark_ms);
        let due: Vec<At> = self.news.extract_if(.., |at| fires(at.1)).collect();
        let results =
            due.into_iter().map(|at| (at.clone(), without_order(&expected(&self.open[&at])))).collect();
        self.held.retain(|end| !is_closed(*end));
        self.open.retain(|at, _| !is_closed(at.1));
        results
    }
}

/// Results that are taken back, and those that come; by their sign, if they have one.
fn by_sign(outputs: Vec<Output>) -> (Vec<Output>, Vec<Output>) {
    let is_taken_back = |output: &Output| {
        let signs = output.batch.rows.column_by_name("sign").map(|column| column.as_primitive::<Int8Type>());
        let mut signs = signs.into_iter().flat_map(|signs| signs.values().iter().copied());
        let sign = signs.next().unwrap_or(1);
        assert!(signs.all(|other| other == sign), "an output has one sign");
        sign == -1
    };
    outputs.into_iter().partition(is_taken_back)
}

/// Results with their versions.
pub(super) fn versioned(outputs: &[Output]) -> BTreeMap<At, (u64, Vec<String>)> {
    let has_sign = outputs.iter().any(|output| output.batch.rows.column_by_name("sign").is_some());
    let split = |(at, mut texts): (At, Vec<String>)| {
        if has_sign {
            texts.pop();
        }
        let version = texts.pop().expect("the last column").parse().expect("a number");
        (at, (version, texts))
    };
    told(outputs).into_iter().map(split).collect()
}

fn play(config: &WindowConfig, acts: &[Act], rules: &Rules) -> Result<(), TestCaseError> {
    // Each process has another clock.
    let clock = std::cell::Cell::new(1_700_000_000_000);
    let new = || {
        let mut step = Window::new(&schema(), config).unwrap();
        step.at(clock.replace(clock.get() + 1_000));
        step
    };
    let mut model = Model { watermark_ms: i64::MIN, ..Model::default() };
    let mut step = new();
    let (mut sealed, mut snapshot, mut deltas) = (model.clone(), step.snapshot(), Vec::<Bytes>::new());
    let (mut rows, mut unsealed, mut watermark_ms) = (Vec::<Row>::new(), Vec::<Row>::new(), 0);
    // As a ReplacingMergeTree keeps it, or a VersionedCollapsingMergeTree.
    let has_sign = rules.emit.sign.is_some();
    let mut table = BTreeMap::<At, (u64, Vec<String>)>::new();
    let mut whole = BTreeMap::<At, Vec<Row>>::new();
    for act in acts.iter().chain([&Act::Cut(1_000), &Act::Cut(100_000)]) {
        if !matches!(act, Act::Row(..)) && !rows.is_empty() {
            let late = put(&mut step, batch(&rows)).late;
            let before = model.late;
            rows.iter().for_each(|row| model.row(rules, *row));
            prop_assert_eq!(late, model.late - before);
            unsealed.append(&mut rows);
        }
        match act {
            Act::Row(device, amount, heat, time) => {
                rows.push((DEVICES[*device], *amount, f64::from(*heat) / 4.0, *time));
            }
            Act::Batch => {}
            Act::Cut(by) => {
                watermark_ms += by;
                let (held, due) = (step.held(), step.is_due(watermark_ms));
                whole.extend(model.open.iter().map(|(at, rows)| (at.clone(), rows.clone())));
                let (outputs, delta) = cut(&mut step, watermark_ms);
                let (held_before, released) =
                    (held, outputs.iter().map(|output| output.released).sum::<u64>());
                let (taken_back, outputs) = by_sign(outputs);
                for (at, row) in versioned(&taken_back) {
                    prop_assert!(has_sign);
                    prop_assert_eq!(
                        table.remove(&at),
                        Some(row),
                        "what is taken back is in the table as it is"
                    );
                }
                let (found, wanted) = (versioned(&outputs), model.cut(rules, watermark_ms));
                prop_assert_eq!(found.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>());
                prop_assert!(due || found.is_empty() || !unsealed.is_empty(), "silence lets results out");
                for (at, (version, texts)) in found {
                    prop_assert!(is_near(&texts, &wanted[&at]), "{:?}: {:?}, {:?}", at, texts, &wanted[&at]);
                    let before = table.insert(at, (version, texts)).map_or(0, |(version, _)| version);
                    prop_assert!(version > before, "{} is not after {}", version, before);
                    prop_assert!(!has_sign || before == 0, "what was there is taken back first");
                }
                prop_assert_eq!(released + step.held(), held_before, "what was absorbed is released or held");
                prop_assert_eq!(step.held(), model.held.len() as u64);
                deltas.push(delta);
                sealed = model.clone();
                unsealed.clear();
            }
            Act::Crash => {
                step = new();
                step.restore(&snapshot).unwrap();
                deltas.iter().for_each(|delta| step.apply(delta).unwrap());
                model = sealed.clone();
                // Cut otherwise than before, as a source may do.
                for rows in unsealed.chunks(5) {
                    put(&mut step, batch(rows));
                }
                unsealed.iter().for_each(|row| model.row(rules, *row));
            }
            Act::Snapshot if unsealed.is_empty() => {
                let mut again = new();
                again.restore(&snapshot).unwrap();
                deltas.iter().for_each(|delta| again.apply(delta).unwrap());
                snapshot = step.snapshot();
                prop_assert_eq!(&again.snapshot(), &snapshot, "bit for bit");
                deltas.clear();
            }
            Act::Snapshot => {}
        }
    }
    prop_assert_eq!(step.held(), 0);
    prop_assert_eq!(table.keys().collect::<Vec<_>>(), whole.keys().collect::<Vec<_>>());
    for (at, rows) in whole {
        prop_assert!(
            is_near(&table[&at].1, &without_order(&expected(&rows))),
            "the newest is of all records"
        );
    }
    Ok(())
}

fn emits() -> impl Strategy<Value = Emit> {
    let some = prop_oneof![
        Just((Some(100), false)),
        Just((Some(700), false)),
        Just((Some(250), true)),
        Just((None, true))
    ];
    (some, any::<bool>()).prop_map(|((early, updates), has_sign)| {
        let sign = has_sign.then(|| "sign".to_owned());
        Emit { sign, ..emit(early, updates).unwrap() }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn the_newest_result_of_a_tumbling_window_is_that_of_its_records(acts in acts(), emit in emits()) {
        let config = WindowConfig { emit: Some(emit.clone()), ..unordered(super::others(300)) };
        let windows_of = Box::new(|time| hopping(time, 1_000, 1_000));
        play(&config, &acts, &Rules { emit, lateness_ms: 300, windows_of })?;
    }

    #[test]
    fn the_newest_result_of_a_hopping_window_is_that_of_its_records(
        acts in acts(),
        emit in emits(),
        (size, slide) in prop_oneof![Just((1_000, 250)), Just((900, 600)), Just((2_000, 100))],
    ) {
        let config = unordered(windows(Windows::Hopping { size: ms(size), slide: ms(slide) }));
        let config = WindowConfig { emit: Some(emit.clone()), ..config };
        let windows_of = Box::new(move |time| hopping(time, size as i64, slide as i64));
        play(&config, &acts, &Rules { emit, lateness_ms: 300, windows_of })?;
    }

    #[test]
    fn the_newest_result_of_a_cumulative_window_is_that_of_its_records(
        acts in acts(),
        emit in emits(),
        (size, step) in prop_oneof![Just((1_000, 250)), Just((2_000, 100))],
    ) {
        let config = unordered(windows(Windows::Cumulative { size: ms(size), step: ms(step) }));
        let config = WindowConfig { emit: Some(emit.clone()), ..config };
        let windows_of = Box::new(move |time| cumulative(time, size as i64, step as i64));
        play(&config, &acts, &Rules { emit, lateness_ms: 300, windows_of })?;
    }
}

/// The devices and versions of what came out.
pub(super) fn came(outputs: &[Output]) -> Vec<(Option<String>, u64)> {
    let mut came = Vec::new();
    for output in outputs {
        let rows = &output.batch.rows;
        let devices = rows.column(0).as_string::<i32>().iter().map(|device| device.map(str::to_owned));
        let versions = rows.column_by_name("version").unwrap().as_primitive::<UInt64Type>().values();
        came.extend(devices.zip(versions.iter().copied()));
    }
    came
}

pub(super) fn of(device: &str, version: u64) -> (Option<String>, u64) {
    (Some(device.to_owned()), version)
}

#[test]
fn a_seal_has_only_the_keys_that_had_records_since_their_window_was_last_written() {
    let config = WindowConfig { emit: emit(None, true), ..config(500) };
    let mut step = Window::new(&schema(), &config).unwrap();
    put(&mut step, batch(&[(Some("a"), Some(1), 1.0, 10), (Some("b"), Some(1), 1.0, 20)]));
    assert_eq!(came(&cut(&mut step, 999).0), [], "its end is not reached");
    assert!(step.is_due(1_000) && !step.is_due(999));
    assert_eq!(came(&cut(&mut step, 1_000).0), [of("a", 2), of("b", 2)]);
    assert!(!step.is_due(1_400), "nothing is new");
    put(&mut step, batch(&[(Some("b"), Some(5), 1.0, 30)]));
    assert_eq!(came(&cut(&mut step, 1_100).0), [of("b", 3)]);
    let (outputs, _) = cut(&mut step, 1_500);
    assert_eq!(
        (came(&outputs), outputs[0].released),
        (vec![], 3),
        "all is written, and nothing is held any more"
    );
    assert_eq!(step.held(), 0);
}

#[test]
fn a_watermark_behind_that_of_a_closing_asks_for_no_seal_without_results() {
    let spans = Windows::Cumulative { size: Duration::from_secs(1), step: Duration::from_millis(250) };
    let config = WindowConfig { windows: spans, emit: emit(None, true), ..config(500) };
    let mut step = Window::new(&schema(), &config).unwrap();
    put(&mut step, batch(&[(Some("a"), Some(1), 1.0, 100)]));
    assert_eq!(came(&cut(&mut step, 1_000).0).len(), 4, "two are closed, and two may have more");
    assert!(!step.is_due(700), "those that are closed have nothing more to say");
    put(&mut step, batch(&[(Some("a"), Some(1), 1.0, 110)]));
    assert_eq!(came(&cut(&mut step, 700).0).len(), 2);
    assert!(!step.is_due(700), "nor have they then");
}

#[test]
fn early_results_come_once_for_each_period_that_the_watermark_passes() {
    let config = WindowConfig { emit: emit(Some(100), false), ..config(0) };
    let mut step = Window::new(&schema(), &config).unwrap();
    let mut versions = Vec::new();
    for n in 0..6 {
        put(&mut step, batch(&[(Some("a"), Some(1), 1.0, n * 40)]));
        versions.push(came(&cut(&mut step, n * 40).0).len());
    }
    assert_eq!(versions, [1, 0, 0, 1, 0, 1], "0, then at 120 and 200");
}

/// The devices, versions, counts and signs of what came out.
fn signed(outputs: &[Output]) -> Vec<(Option<String>, Option<u64>, u64, i8)> {
    let mut came = Vec::new();
    for output in outputs {
        let rows = &output.batch.rows;
        let numbers = |name: &str| rows.column_by_name(name).map(|one| one.as_primitive::<UInt64Type>());
        let (counts, versions) = (numbers("n").unwrap(), numbers("version"));
        let signs = rows.column_by_name("sign").unwrap().as_primitive::<Int8Type>();
        let devices = rows.column(0).as_string::<i32>();
        came.extend((0..rows.num_rows()).map(|row| {
            let version = versions.map(|versions| versions.value(row));
            (Some(devices.value(row).to_owned()), version, counts.value(row), signs.value(row))
        }));
    }
    came
}

#[test]
fn a_result_is_taken_back_with_its_values_and_version_before_the_next_one() {
    let with_sign = |version: Option<&str>| {
        let version = version.map(str::to_owned);
        let emit = emit(None, true).map(|emit| Emit { version, sign: Some("sign".into()), ..emit });
        Window::new(&schema(), &WindowConfig { emit, ..config(500) }).unwrap()
    };
    let mut step = with_sign(Some("version"));
    let (a, b) = (Some("a".to_owned()), Some("b".to_owned()));
    put(&mut step, batch(&[(Some("a"), Some(1), 1.0, 10), (Some("b"), Some(1), 1.0, 20)]));
    let mut deltas = vec![];
    let (outputs, delta) = cut(&mut step, 1_000);
    deltas.push(delta);
    assert_eq!(signed(&outputs), [(a.clone(), Some(1), 1, 1), (b.clone(), Some(1), 1, 1)]);
    put(&mut step, batch(&[(Some("b"), Some(5), 1.0, 30)]));
    let (outputs, delta) = cut(&mut step, 1_100);
    deltas.push(delta);
    assert_eq!(signed(&outputs), [(b.clone(), Some(1), 1, -1), (b.clone(), Some(2), 2, 1)]);
    assert_eq!((outputs[0].added, outputs[0].released), (1, 0), "a row that the step makes");

    // A start knows what was written, from the deltas and from a snapshot.
    let mut again = with_sign(Some("version"));
    deltas.iter().for_each(|delta| again.apply(delta).unwrap());
    assert_eq!(again.snapshot(), step.snapshot());
    let mut restored = with_sign(Some("version"));
    restored.restore(&step.snapshot()).unwrap();
    for step in [&mut again, &mut restored] {
        put(step, batch(&[(Some("a"), Some(5), 1.0, 30), (Some("b"), Some(5), 1.0, 30)]));
        let expected =
            [(a.clone(), 1, 1, -1), (b.clone(), 2, 2, -1), (a.clone(), 3, 2, 1), (b.clone(), 3, 3, 1)];
        let expected = expected.map(|(device, version, count, sign)| (device, Some(version), count, sign));
        let mut found = signed(&cut(step, 1_500).0);
        found.sort_by_key(|(device, _, _, sign)| (*sign, device.clone()));
        assert_eq!(found, expected, "also with the last results");
        assert_eq!((step.held(), step.base.fired_bytes()), (0, 0), "nothing is kept of a closed window");
    }

    // A CollapsingMergeTree has no version.
    let mut step = with_sign(None);
    put(&mut step, batch(&[(Some("a"), Some(1), 1.0, 10)]));
    assert_eq!(signed(&cut(&mut step, 1_000).0), [(a.clone(), None, 1, 1)]);
    put(&mut step, batch(&[(Some("a"), Some(1), 1.0, 10)]));
    assert_eq!(signed(&cut(&mut step, 1_100).0), [(a.clone(), None, 1, -1), (a, None, 2, 1)]);
}

#[test]
fn a_result_that_its_type_does_not_hold_was_not_written_and_is_not_taken_back() {
    let emit = emit(None, true).map(|emit| Emit { sign: Some("sign".into()), ..emit });
    let mut step = Window::new(&schema(), &WindowConfig { emit, ..config(500) }).unwrap();
    put(&mut step, batch(&[(Some("a"), Some(i64::MAX), 1.0, 10), (Some("a"), Some(9), 1.0, 10)]));
    let (outputs, _) = cut(&mut step, 1_000);
    assert_eq!((signed(&outputs).len(), outputs[0].rejects.len(), outputs[0].added), (0, 1, 1));
    put(&mut step, batch(&[(Some("a"), Some(-9), 1.0, 10)]));
    let (outputs, _) = cut(&mut step, 1_100);
    assert_eq!(
        outputs.iter().map(|output| (output.rejects.len(), output.added)).collect::<Vec<_>>(),
        [(0, 0), (0, 1)]
    );
    let a = Some("a".to_owned());
    assert_eq!(signed(&outputs), [(a, Some(2), 3, 1)]);
}

#[test]
fn windows_that_cannot_have_results_early_are_refused_with_a_way_out() {
    let refused = |windows, emit| {
        let config = WindowConfig { emit, windows, ..config(0) };
        let Err(ConfigError::Setting { setting, message }) = Window::new(&schema(), &config).map(|_| ())
        else {
            panic!("it is taken");
        };
        assert_eq!(setting, "window.emit");
        message
    };
    let session = Windows::Session { gap: ms(10), max: ms(100) };
    assert!(refused(session, emit(None, true)).contains("only windows with a `size`"));
    let many = Windows::Hopping { size: ms(1_000), slide: ms(1) };
    assert!(refused(many, emit(None, true)).contains("at most 100"));
    let tumbling = Windows::Tumbling { size: ms(100) };
    assert!(refused(tumbling, emit(None, false)).contains("`updates: true`"));
    let bare = emit(None, true).map(|emit| Emit { version: None, ..emit });
    assert!(refused(tumbling, bare).contains("`sign: sign` for a CollapsingMergeTree"));
}

#[test]
fn early_results_of_processing_time_need_no_record_and_a_start_knows_of_them() {
    let emit = emit(Some(100), false).map(|emit| Emit { clock: Clock::ProcessingTime, ..emit });
    let config = WindowConfig { emit, ..config(0) };
    let new = || Window::new(&schema(), &config).unwrap();
    let (mut step, mut deltas) = (new(), Vec::new());
    step.at(5_000);
    put(&mut step, batch(&[(Some("a"), Some(1), 1.0, 10)]));
    let (outputs, delta) = cut(&mut step, 10);
    assert_eq!(came(&outputs), [], "the period has just begun");
    deltas.push(delta);
    step.at(5_099);
    assert!(!step.is_due(10));
    step.at(5_100);
    assert!(step.is_due(10), "nothing was read, and time has passed");
    let (outputs, delta) = cut(&mut step, 10);
    assert_eq!(came(&outputs), [of("a", (5_000 << 20) + 2)]);
    deltas.push(delta);
    step.at(9_000);
    assert!(!step.is_due(10), "nothing is new");
    assert_eq!(cut(&mut step, 10).1, Bytes::new());
    let mut again = new();
    deltas.iter().for_each(|delta| again.apply(delta).unwrap());
    assert_eq!(again.snapshot(), step.snapshot());
    again.at(20_000);
    put(&mut again, batch(&[(Some("b"), Some(1), 1.0, 20)]));
    cut(&mut again, 20);
    again.at(20_100);
    assert_eq!(came(&cut(&mut again, 20).0), [of("b", (5_000 << 20) + 4)], "`a` is in the table");
}

#[test]
fn early_results_go_on_a_period_after_the_clock_was_set_back() {
    let emit = emit(Some(100), false).map(|emit| Emit { clock: Clock::ProcessingTime, ..emit });
    let mut step = Window::new(&schema(), &WindowConfig { emit, ..config(0) }).unwrap();
    step.at(5_000);
    put(&mut step, batch(&[(Some("a"), Some(1), 1.0, 10)]));
    assert_eq!(came(&cut(&mut step, 10).0), []);
    step.at(1_000);
    assert!(!step.is_due(10), "it was set back, and a period begins");
    step.at(1_099);
    assert!(!step.is_due(10));
    step.at(1_100);
    assert!(step.is_due(10));
    assert_eq!(came(&cut(&mut step, 10).0), [of("a", (5_000 << 20) + 2)]);
}

/// What a step wrote before its state was dropped must not win in the table.
#[test]
fn versions_of_an_empty_state_are_greater_than_those_of_the_state_before_it() {
    let config = WindowConfig { emit: emit(None, true), ..config(500) };
    let result = |step: &mut Window, clock: i64| {
        step.at(clock);
        put(step, batch(&[(Some("a"), Some(1), 1.0, 10)]));
        let (outputs, delta) = cut(step, 1_000);
        let [(_, version)] = came(&outputs)[..] else { panic!("one result") };
        (version, delta)
    };
    let clock = 1_764_000_000_000;
    let mut step = Window::new(&schema(), &config).unwrap();
    let (first, delta) = result(&mut step, clock);
    assert_eq!(first, (1_764_000_000_000 << 20) + 1);
    let many = (0..1_000).map(|_| result(&mut step, clock + 1).0).last();
    assert_eq!(many, Some(first + 1_000), "one more for each seal, whatever the clock says");

    let mut emptied = Window::new(&schema(), &config).unwrap();
    assert!(Some(result(&mut emptied, clock + 1).0) > many, "the state was dropped a millisecond later");

    // A start goes on with the numbers of the state, though its clock was set back or is far ahead.
    for clock in [clock - 1_000, clock + 1_000_000] {
        let mut again = Window::new(&schema(), &config).unwrap();
        again.at(clock);
        again.apply(&delta).unwrap();
        assert_eq!(result(&mut again, clock).0, first + 1);
    }

    // Of a program that began at 1: it goes on from there.
    let mut earlier = Window::new(&schema(), &config).unwrap();
    put(&mut earlier, batch(&[(Some("a"), Some(1), 1.0, 10)]));
    assert_eq!(came(&cut(&mut earlier, 1_000).0), [of("a", 1)]);
    let mut now = Window::new(&schema(), &config).unwrap();
    now.restore(&earlier.snapshot()).unwrap();
    assert_eq!(result(&mut now, clock).0, 2);
}
