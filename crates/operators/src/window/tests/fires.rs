//! Results before windows are closed, of a step whose panes are in files: each is of all records up to some seal, newer than the one before, and the last is of all.

use std::collections::{BTreeMap, BTreeSet};

use dataflow::Output;
use proptest::prelude::*;

use super::emits::{came, emit, of, versioned};
use super::model::{
    Act, DEVICES, cumulative, expected, hopping, is_near, ms, unordered, windows, without_order,
};
use super::spills::{Bench, Event, SOME, TINY, events};
use super::*;
use crate::window::spilled::Sizes;

/// A window of a device: its bounds.
type At = (i64, i64, Option<String>);

/// What must be written of a window and device.
#[derive(Clone, Default)]
struct Kept {
    rows: Vec<Row>,
    /// How many there were at each seal.
    at_seals: BTreeSet<usize>,
    /// How many are in the newest result, and its version.
    written: Option<(usize, u64)>,
}

#[derive(Clone)]
struct Model {
    kept: BTreeMap<At, Kept>,
    watermark_ms: i64,
    late: u64,
}

impl Model {
    fn row(&mut self, windows_of: &dyn Fn(i64) -> Vec<(i64, i64)>, row: Row) {
        let mut windows = windows_of(row.3);
        windows.retain(|(_, end)| end + 300 > self.watermark_ms);
        self.late += u64::from(windows.is_empty());
        for (start, end) in windows {
            self.kept.entry((start, end, row.0.map(str::to_owned))).or_default().rows.push(row);
        }
    }

    fn seal(&mut self, watermark_ms: i64) {
        self.watermark_ms = watermark_ms;
        self.kept.values_mut().for_each(|kept| _ = kept.at_seals.insert(kept.rows.len()));
    }

    /// Results come with a seal.
    fn take(&mut self, outputs: &[Output]) -> Result<(), TestCaseError> {
        for (at, (version, texts)) in versioned(outputs) {
            let kept = self.kept.get_mut(&at);
            prop_assert!(kept.is_some(), "{at:?} is no window");
            let kept = kept.unwrap();
            let count: usize = texts[0].parse().unwrap();
            prop_assert!(kept.at_seals.contains(&count), "{at:?}: {count} of {:?}", kept.at_seals);
            let newer = kept.written.is_none_or(|written| written.0 < count && written.1 < version);
            prop_assert!(newer, "{at:?}: {:?}, then {:?}", kept.written, (count, version));
            let wanted = without_order(&expected(&kept.rows[..count]));
            prop_assert!(is_near(&texts, &wanted), "{at:?}: {texts:?}, {wanted:?}");
            kept.written = Some((count, version));
        }
        Ok(())
    }
}

fn play(
    events: &[Event],
    sizes: Sizes,
    config: WindowConfig,
    windows_of: &dyn Fn(i64) -> Vec<(i64, i64)>,
) -> Result<(), TestCaseError> {
    let mut bench = Bench::begin(config, sizes);
    let mut model = Model { kept: BTreeMap::new(), watermark_ms: i64::MIN, late: 0 };
    let mut sealed = model.clone();
    let (mut rows, mut unsealed, mut watermark_ms) = (Vec::<Row>::new(), Vec::<Row>::new(), 0);
    let ending = [Event::Of(Act::Cut(1_000)), Event::Of(Act::Cut(100_000))];
    for event in events.iter().chain(&ending) {
        if !matches!(event, Event::Of(Act::Row(..)) | Event::Work(_)) && !rows.is_empty() {
            let late = bench.put(batch(&rows)).late;
            let before = model.late;
            rows.iter().for_each(|row| model.row(windows_of, *row));
            prop_assert_eq!(late, model.late - before);
            unsealed.append(&mut rows);
        }
        match event {
            Event::Of(Act::Row(device, amount, heat, time)) => {
                rows.push((DEVICES[*device], *amount, f64::from(*heat) / 4.0, *time));
            }
            Event::Of(Act::Batch) => {}
            Event::Work(steps) => bench.work(*steps),
            Event::Of(Act::Cut(by)) => {
                watermark_ms += by;
                let (held, due) = (bench.step.held(), bench.step.is_due(watermark_ms));
                let outputs = bench.cut(watermark_ms);
                model.seal(watermark_ms);
                prop_assert!(due || outputs.is_empty() || !unsealed.is_empty(), "silence lets results out");
                model.take(&outputs)?;
                let released: u64 = outputs.iter().map(|output| output.released).sum();
                prop_assert_eq!(released + bench.step.held(), held, "what was absorbed is released or held");
                sealed = model.clone();
                unsealed.clear();
            }
            Event::Of(Act::Crash) => {
                bench.restart();
                model = sealed.clone();
                for rows in unsealed.chunks(5) {
                    bench.put(batch(rows));
                }
                unsealed.iter().for_each(|row| model.row(windows_of, *row));
            }
            Event::Of(Act::Snapshot) if unsealed.is_empty() => {
                let twin = bench.twin();
                prop_assert_eq!(twin.held(), bench.step.held());
                prop_assert_eq!(twin.base.seals(), bench.step.base.seals());
                bench.checkpoint();
            }
            Event::Of(Act::Snapshot) => {}
        }
    }
    // Whatever is left leaves, without another watermark.
    for _ in 0..1_000 {
        if !bench.step.is_releasing() {
            break;
        }
        bench.work(1_000);
        prop_assert!(bench.step.is_due(watermark_ms));
        let outputs = bench.cut(watermark_ms);
        model.seal(watermark_ms);
        model.take(&outputs)?;
    }
    for (at, kept) in &model.kept {
        prop_assert_eq!(kept.written.map(|written| written.0), Some(kept.rows.len()), "{:?}", at);
    }
    prop_assert_eq!((bench.step.held(), bench.step.entries()), (0, 0));
    bench.checkpoint();
    prop_assert_eq!(bench.files.len(), 0, "no file outlives its windows");
    Ok(())
}

fn emits() -> impl Strategy<Value = Option<crate::window::Emit>> {
    prop_oneof![
        Just(emit(Some(100), false)),
        Just(emit(Some(700), false)),
        Just(emit(Some(250), true)),
        Just(emit(None, true))
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_newest_result_of_a_window_in_files_is_that_of_its_records(
        events in events(),
        emit in emits(),
        is_all in any::<bool>(),
    ) {
        let config = WindowConfig { emit, ..unordered(others(300)) };
        play(&events, if is_all { TINY } else { SOME }, config, &|time| hopping(time, 1_000, 1_000))?;
    }

    #[test]
    fn so_is_that_of_a_hopping_window(
        events in events(),
        emit in emits(),
        (size, slide) in prop_oneof![Just((1_000, 250)), Just((900, 600)), Just((2_000, 100))],
        is_all in any::<bool>(),
    ) {
        let config = unordered(windows(Windows::Hopping { size: ms(size), slide: ms(slide) }));
        let windows_of = |time| hopping(time, size as i64, slide as i64);
        play(&events, if is_all { TINY } else { SOME }, WindowConfig { emit, ..config }, &windows_of)?;
    }

    #[test]
    fn so_is_that_of_a_cumulative_window(
        events in events(),
        emit in emits(),
        (size, step) in prop_oneof![Just((1_000, 250)), Just((2_000, 100))],
        is_all in any::<bool>(),
    ) {
        let config = unordered(windows(Windows::Cumulative { size: ms(size), step: ms(step) }));
        let windows_of = |time| cumulative(time, size as i64, step as i64);
        play(&events, if is_all { TINY } else { SOME }, WindowConfig { emit, ..config }, &windows_of)?;
    }
}

#[test]
fn early_results_from_files_have_the_keys_with_records_since_and_a_start_knows_of_them() {
    let mut bench = Bench::begin(WindowConfig { emit: emit(Some(100), true), ..others(300) }, TINY);
    bench.put(batch(&[(Some("a"), Some(1), 0.5, 10), (Some("b"), Some(2), 0.5, 20)]));
    let outputs = bench.cut(90);
    assert_eq!(came(&outputs), [of("a", 1), of("b", 1)], "nothing was in files");
    bench.work(100);
    assert_eq!((bench.step.spilled_entries(), bench.deltas[0][4]), (2, 8));
    bench.put(batch(&[(Some("b"), Some(3), 0.5, 30)]));
    assert!(bench.cut(100).is_empty() && bench.step.is_releasing(), "its result is on its way");
    assert!(!bench.step.is_due(150), "it is not there yet");
    bench.restart();
    bench.start();
    bench.work(100);
    assert!(bench.step.is_due(150));
    let outputs = bench.cut(150);
    assert_eq!(came(&outputs), [of("b", 3)], "with the records that were in files");
    assert_eq!(
        versioned(&outputs).into_values().map(|(_, texts)| texts[0].clone()).collect::<Vec<_>>(),
        ["2"]
    );
    assert_eq!((outputs[0].released, bench.step.held(), bench.step.is_releasing()), (0, 3, false));
    assert!(bench.cut(250).is_empty() && !bench.step.is_releasing(), "nothing is new");
    // Late records, as soon as the end is reached.
    bench.put(batch(&[(Some("a"), Some(3), 0.5, 30)]));
    assert!(bench.cut(1_000).is_empty());
    bench.work(100);
    assert_eq!(came(&bench.cut(1_000)), [of("a", 6)]);
    // The last results have what is new alone, and release all.
    bench.put(batch(&[(Some("c"), Some(3), 0.5, 40)]));
    assert!(bench.cut(1_300).is_empty());
    bench.work(100);
    let outputs = bench.cut(1_300);
    assert_eq!(came(&outputs), [of("c", 8)]);
    assert_eq!((outputs.iter().map(|output| output.released).sum::<u64>(), bench.step.held()), (5, 0));
}

#[test]
fn a_delta_that_fires_a_window_that_is_none_is_damaged() {
    let config = WindowConfig { emit: emit(None, true), ..others(300) };
    let mut bench = Bench::begin(config, TINY);
    bench.put(batch(&[(Some("a"), Some(1), 0.5, 10)]));
    bench.cut(500);
    bench.put(batch(&[(Some("a"), Some(1), 0.5, 20)]));
    bench.cut(1_000);
    let delta = bench.deltas.pop().unwrap();
    // Behind its number stand the end of the window that fires and the checksum.
    let (body, end) = delta[..delta.len() - 8].split_last_chunk::<8>().unwrap();
    assert_eq!(i64::from_le_bytes(*end), 1_000);
    for end in [999, i64::MIN, i64::MAX] {
        let mut bytes = [body, &end.to_le_bytes()].concat();
        bytes.extend_from_slice(&xxhash_rust::xxh3::xxh3_64(&bytes).to_le_bytes());
        let error = bench.twin().apply(&bytes).unwrap_err().to_string();
        assert!(error.contains("fires a window that is none"), "{error}");
    }
    bench.twin().apply(&delta).unwrap();
}

#[test]
fn the_parts_of_a_pane_are_put_together_when_they_are_many() {
    let config = WindowConfig { emit: emit(Some(10), false), ..others(300) };
    let mut bench = Bench::begin(config, Sizes { generations_max: 16, ..TINY });
    let mut most = 0;
    for n in 1..=100 {
        bench.put(batch(&[(Some("a"), Some(1), 0.5, 5), (Some("b"), Some(1), 0.5, n)]));
        bench.cut(n * 9);
        bench.work(1_000);
        most = most.max(bench.step.spilled_entries());
        bench.checkpoint();
    }
    assert!(most <= 2 * 2 * 4, "{most}: two keys in up to twice four parts");
    let mut outputs = Vec::new();
    for _ in 0..10 {
        outputs.extend(bench.cut(1_300));
        bench.work(1_000);
    }
    let last = versioned(&outputs[outputs.len() - 1..]);
    assert!(last.values().all(|(_, texts)| texts[0] == "100"), "{last:?}");
    bench.checkpoint();
    assert_eq!((bench.step.held(), bench.files.len()), (0, 0));
}

#[test]
fn a_seal_that_only_freezes_has_a_number_of_its_own_to_a_start_too() {
    let mut bench = Bench::begin(WindowConfig { emit: emit(None, true), ..others(300) }, TINY);
    for time in [10, 20] {
        bench.put(batch(&[(Some("a"), Some(1), 0.5, time)]));
        bench.cut(500);
    }
    bench.work(100);
    assert_eq!((bench.step.spilled_entries(), bench.step.base.seals()), (1, 2));
    bench.cut(500);
    assert_eq!((bench.step.base.seals(), bench.twin().base.seals()), (3, 3));
    bench.work(100);
    assert_eq!((bench.step.entries(), bench.step.spilled_entries()), (1, 1), "two parts, put together");
    bench.restart();
    bench.start();
    assert!(bench.cut(1_000).is_empty());
    bench.work(100);
    assert_eq!(came(&bench.cut(1_000)), [of("a", 5)]);
}

#[test]
fn early_results_that_were_due_while_others_were_on_their_way_follow_them_though_time_stands_still() {
    for (restarts, checkpoints) in [(false, false), (true, false), (true, true)] {
        let mut bench = Bench::begin(WindowConfig { emit: emit(Some(100), false), ..others(300) }, TINY);
        let row = |device| batch(&[(Some(device), Some(1), 0.5, 10)]);
        bench.put(row("a"));
        assert_eq!(came(&bench.cut(90)).len(), 1);
        bench.work(100);
        bench.put(row("b"));
        assert!(bench.cut(100).is_empty());
        bench.put(row("c"));
        assert!(bench.cut(200).is_empty() && !bench.step.is_due(200));
        if checkpoints {
            bench.checkpoint();
        }
        if restarts {
            bench.restart();
            bench.start();
        }
        let mut found = Vec::new();
        for _ in 0..2 {
            bench.work(100);
            assert!(bench.step.is_due(200), "{found:?}");
            found.extend(came(&bench.cut(200)).into_iter().map(|(device, _)| device.unwrap()));
            if restarts {
                bench.restart();
                bench.start();
            }
        }
        assert_eq!(found, ["b", "c"]);
        bench.work(100);
        assert!(!bench.step.is_due(200) && !bench.step.is_releasing());
    }
}
