//! A step whose panes are in files, with the engine's part in it (reading, writing, checkpoints, collecting), against the model.

use dataflow::Output;
use proptest::prelude::*;

use super::model::{
    Act, DEVICES, Model, Results, Rule, act, is_near, ms, told, unordered, windows, without_order,
};
use super::*;
use crate::testing::Stored;
use crate::window::in_files::InFiles;
use crate::window::spilled::Sizes;
use crate::window::spilled::file::verify;

/// Sizes at which every seal freezes all panes, and every group is a block, a file, or a piece of its own.
pub(in crate::window) const TINY: Sizes = Sizes {
    open_bytes: 1,
    block_bytes: 16,
    file_bytes: 300,
    piece_bytes: 16,
    read_bytes: 600,
    generations_max: 5,
};

/// Sizes at which only the earliest panes are frozen.
pub(super) const SOME: Sizes =
    Sizes { open_bytes: 24_000, block_bytes: 600, piece_bytes: 1, generations_max: 3, ..TINY };

/// A step, its journal and its store.
pub(in crate::window) type Bench = Stored<Window>;

impl Bench {
    pub fn begin(config: WindowConfig, sizes: Sizes) -> Self {
        Self::new(move || Window::new(&schema(), &config).unwrap().with_sizes(sizes), verify)
    }

    pub fn cut(&mut self, watermark_ms: i64) -> Vec<Output> {
        let (outputs, delta) = cut(&mut self.step, watermark_ms);
        self.sealed(delta);
        outputs
    }

    /// Puts a batch in, with the blocks that it asks for.
    pub fn put(&mut self, batch: Batch) -> Output {
        let rows = batch.len() as u64;
        let mut probed = self.step.probe(batch).unwrap();
        let answers = self.read(&std::mem::take(&mut probed.reads));
        let out = self.step.finish(probed, &answers).unwrap();
        assert_eq!(out.late + out.absorbed + out.rejects.len() as u64, rows, "every row has a fate");
        out
    }

    /// All that a step holds, but for where it is; of sessions in files, how many rows.
    pub fn contents(&self, step: &Window) -> Vec<String> {
        let mut contents = match &step.in_files {
            InFiles::Panes(spilled) => {
                spilled.contents(&step.plan, |read| self.read(std::slice::from_ref(read)).remove(0))
            }
            InFiles::Sessions(runs) => vec![runs.rows().to_string()],
        };
        let mut base = Vec::new();
        step.base.write(&step.plan, step.watermark_ms, true, &mut base);
        contents.push(format!("{} {base:?}", step.watermark_ms));
        contents
    }
}

#[derive(Clone, Debug)]
pub(super) enum Event {
    Of(Act),
    /// Work on files goes on by so many steps.
    Work(usize),
}

pub(super) fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        6 => act().prop_map(Event::Of),
        2 => (1..12_usize).prop_map(Event::Work),
    ];
    prop::collection::vec(event, 1..160)
}

/// What a seal must let out, and what of it has come.
fn compare(due: &mut Results, outputs: &[Output]) -> Result<(), TestCaseError> {
    for (window, found) in told(outputs) {
        let wanted = due.remove(&window);
        prop_assert!(wanted.is_some(), "{:?} comes too early, or twice", window);
        prop_assert!(is_near(&found, wanted.as_ref().unwrap()), "{:?}: {:?}, {:?}", window, found, wanted);
    }
    Ok(())
}

fn play(events: &[Event], sizes: Sizes, rule: Rule) -> Result<(), TestCaseError> {
    let config = match rule {
        Rule::Hopping(size, slide) => {
            windows(Windows::Hopping { size: ms(size as u64), slide: ms(slide as u64) })
        }
        Rule::Cumulative(size, step) => {
            unordered(windows(Windows::Cumulative { size: ms(size as u64), step: ms(step as u64) }))
        }
        Rule::Sessions(gap, max) => {
            unordered(windows(Windows::Session { gap: ms(gap as u64), max: ms(max as u64) }))
        }
    };
    let mut bench = Bench::begin(config, sizes);
    // With what is closed and has not left yet; as of the last seal too.
    let mut model = (Model::new(rule, 300), Results::new());
    let mut sealed = model.clone();
    let (mut rows, mut unsealed, mut watermark_ms) = (Vec::<Row>::new(), Vec::<Row>::new(), 0);
    let ending = [Event::Of(Act::Cut(1_000)), Event::Of(Act::Cut(100_000))];
    for event in events.iter().chain(&ending) {
        if !matches!(event, Event::Of(Act::Row(..)) | Event::Work(_)) && !rows.is_empty() {
            let late = bench.put(batch(&rows)).late;
            let before = model.0.late;
            rows.iter().for_each(|row| model.0.row(*row));
            prop_assert_eq!(late, model.0.late - before);
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
                if by % 2 == 0 {
                    bench.step.at(0);
                }
                let held = bench.step.held();
                let outputs = bench.cut(watermark_ms);
                let closed = model.0.cut(watermark_ms);
                model.1.extend(closed.into_iter().map(|(window, texts)| match rule {
                    Rule::Hopping(..) => (window, texts),
                    _ => (window, without_order(&texts)),
                }));
                compare(&mut model.1, &outputs)?;
                let released: u64 = outputs.iter().map(|output| output.released).sum();
                prop_assert_eq!(released + bench.step.held(), held, "what was absorbed is released or held");
                if matches!(rule, Rule::Hopping(size, slide) if size == slide)
                    || matches!(rule, Rule::Sessions(..))
                {
                    let leaving: u64 = model.1.values().map(|texts| texts[0].parse::<u64>().unwrap()).sum();
                    prop_assert_eq!(bench.step.held(), model.0.held() as u64 + leaving);
                }
                prop_assert!(bench.step.held() >= model.0.held() as u64);
                sealed = model.clone();
                unsealed.clear();
            }
            Event::Of(Act::Crash) => {
                bench.restart();
                model = sealed.clone();
                // Cut otherwise than before, as a source may do.
                for rows in unsealed.chunks(5) {
                    bench.put(batch(rows));
                }
                unsealed.iter().for_each(|row| model.0.row(*row));
            }
            Event::Of(Act::Snapshot) if unsealed.is_empty() => {
                let twin = bench.twin();
                prop_assert_eq!(bench.contents(&twin), bench.contents(&bench.step), "bit for bit");
                prop_assert_eq!(twin.held(), bench.step.held());
                // A start makes a sweep again that has not been in a checkpoint.
                if !matches!(rule, Rule::Sessions(..)) {
                    prop_assert_eq!(twin.entries(), bench.step.entries());
                }
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
        bench.step.at(0);
        prop_assert!(bench.step.is_due(watermark_ms));
        let outputs = bench.cut(watermark_ms);
        compare(&mut model.1, &outputs)?;
    }
    prop_assert!(model.1.is_empty(), "never come: {:?}", model.1.keys());
    prop_assert_eq!((bench.step.held(), bench.step.entries()), (0, 0));
    bench.checkpoint();
    prop_assert_eq!(bench.files.len(), 0, "no file outlives its windows");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn windows_in_files_have_the_results_of_their_records_once(events in events()) {
        play(&events, TINY, Rule::Hopping(1_000, 1_000))?;
    }

    #[test]
    fn so_do_those_of_which_only_the_earliest_are_in_files(events in events()) {
        play(&events, SOME, Rule::Hopping(1_000, 1_000))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn so_do_hopping_windows_each_of_the_panes_as_they_were_when_it_closed(
        events in events(),
        (size, slide) in prop_oneof![Just((1_000, 250)), Just((900, 600)), Just((2_000, 100))],
        is_all in any::<bool>(),
    ) {
        play(&events, if is_all { TINY } else { SOME }, Rule::Hopping(size, slide))?;
    }

    #[test]
    fn so_do_cumulative_windows(
        events in events(),
        (size, step) in prop_oneof![Just((1_000, 250)), Just((2_000, 100))],
        is_all in any::<bool>(),
    ) {
        play(&events, if is_all { TINY } else { SOME }, Rule::Cumulative(size, step))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn so_do_sessions_whatever_joins_them_and_wherever_they_are(
        events in events(),
        (gap, max) in prop_oneof![Just((300, 2_000)), Just((50, 6_000)), Just((1_000, 1_000))],
        is_all in any::<bool>(),
    ) {
        play(&events, if is_all { TINY } else { SOME }, Rule::Sessions(gap, max))?;
    }
}

#[test]
fn steps_behind_wait_for_results_that_are_still_in_files() {
    let mut bench = Bench::begin(others(300), TINY);
    put(&mut bench.step, batch(&[(Some("a"), Some(1), 0.5, 10), (Some("b"), Some(2), 0.5, 1_010)]));
    bench.cut(500);
    bench.work(100);
    // Before the cut that closes it, as for steps behind in that cut, and behind it.
    assert_eq!(bench.step.watermark_behind(1_299), 999);
    assert_eq!((bench.step.watermark_behind(1_300), bench.step.watermark_behind(5_000)), (999, 999));
    assert!(bench.cut(1_300).is_empty() && bench.step.is_releasing());
    assert_eq!(bench.step.watermark_behind(5_000), 999);
    assert_eq!(
        put(&mut bench.step, batch(&[(Some("a"), Some(1), 0.5, 20)])).late,
        1,
        "it is closed all the same"
    );
    bench.work(100);
    let outputs = bench.cut(1_300);
    assert_eq!((told(&outputs).len(), bench.step.is_releasing()), (1, false));
    assert_eq!(bench.step.watermark_behind(1_300), 1_000);
    assert_eq!(bench.step.held(), 1);
}

#[test]
fn closing_lets_out_what_is_in_files() {
    let mut bench = Bench::begin(others(300), TINY);
    put(&mut bench.step, batch(&[(Some("a"), Some(1), 0.5, 10), (Some("b"), Some(2), 0.5, 1_010)]));
    bench.cut(500);
    bench.work(100);
    let mut found = Results::new();
    for _ in 0..10 {
        let outputs = bench.step.close(500).unwrap();
        found.extend(told(&outputs));
        bench.deltas.push(bench.step.seal(500));
        bench.restart();
        bench.start();
        bench.work(100);
    }
    assert_eq!((found.len(), bench.step.held()), (2, 0));
}

#[test]
fn a_start_goes_on_with_the_last_windows_that_there_can_be() {
    let hopping = windows(Windows::Hopping { size: ms(1_000), slide: ms(500) });
    let mut bench = Bench::begin(WindowConfig { lateness: ms(0), ..hopping }, TINY);
    let last = i64::MAX - i64::MAX % 500 - 1_000;
    assert_eq!(put(&mut bench.step, batch(&[(Some("a"), Some(1), 0.5, last)])).absorbed, 1);
    bench.cut(500);
    bench.work(100);
    assert!(bench.step.close(500).unwrap().is_empty() && bench.step.is_releasing());
    bench.deltas.push(bench.step.seal(500));
    bench.checkpoint();
    bench.restart();
    bench.start();
    let mut results = 0;
    for _ in 0..10 {
        bench.work(100);
        results += bench.cut(500).iter().map(|output| output.batch.len()).sum::<usize>();
    }
    assert_eq!((results, bench.step.held()), (2, 0));
}

#[test]
fn a_seal_without_records_says_what_it_freezes() {
    let mut bench = Bench::begin(others(300), TINY);
    for time in [10, 20] {
        put(&mut bench.step, batch(&[(Some("a"), Some(1), 0.5, time)]));
        bench.cut(500);
    }
    bench.work(100);
    assert_eq!(bench.step.spilled_entries(), 1, "the second row came while the first was on its way");
    bench.cut(500);
    bench.work(100);
    assert_eq!(bench.step.spilled_entries(), 2);
    assert_eq!(bench.contents(&bench.twin()), bench.contents(&bench.step), "wherever it is");
    bench.cut(1_300);
    bench.work(100);
    let outputs = bench.cut(1_300);
    assert_eq!(told(&outputs).len(), 1);
    let twin = bench.twin();
    assert_eq!((twin.held(), twin.entries()), (0, 0));
}

fn sessions(lateness_ms: i64) -> WindowConfig {
    let windows = Windows::Session { gap: ms(100), max: ms(10_000) };
    WindowConfig { windows, ..others(lateness_ms) }
}

/// The bounds, the device and the number of records of results.
fn counted(outputs: &[Output]) -> Vec<(i64, i64, String, String)> {
    let one = |((first, end, device), texts): ((i64, i64, Option<String>), Vec<String>)| {
        (first, end, device.unwrap_or_default(), texts[0].clone())
    };
    told(outputs).into_iter().map(one).collect()
}

#[test]
fn a_session_in_files_takes_a_record_that_would_be_late_alone_and_another_does_not() {
    let mut bench = Bench::begin(sessions(0), TINY);
    bench.put(batch(&[(Some("a"), Some(1), 0.5, 300), (Some("c"), Some(1), 0.5, 320)]));
    bench.cut(350);
    bench.work(100);
    assert_eq!((bench.step.spilled_entries(), bench.deltas[0][4]), (2, 7));
    let out = bench.put(batch(&[(Some("a"), Some(2), 0.5, 210), (Some("b"), Some(3), 0.5, 210)]));
    assert_eq!((out.absorbed, out.late), (1, 1));
    bench.cut(350);
    bench.work(100);
    // That of the first part alone is open as long as the other says.
    assert_eq!(bench.put(batch(&[(Some("a"), Some(2), 0.5, 120)])).absorbed, 1);
    assert!(bench.cut(1_000).is_empty() && bench.step.is_releasing());
    bench.work(100);
    let mut found = Vec::new();
    while bench.step.is_releasing() {
        found.extend(counted(&bench.cut(1_000)));
        bench.work(100);
    }
    let told = |first, end, device: &str, count: &str| (first, end, device.to_owned(), count.to_owned());
    assert_eq!(found, [told(120, 400, "a", "3"), told(320, 420, "c", "1")]);
    assert_eq!((bench.step.held(), bench.step.entries()), (0, 0));
}

#[test]
fn a_closed_session_that_has_not_left_is_apart_from_what_comes_near_it() {
    let mut bench = Bench::begin(sessions(0), TINY);
    bench.put(batch(&[(Some("a"), Some(1), 0.5, 0), (Some("b"), Some(1), 0.5, 90)]));
    bench.cut(50);
    bench.work(100);
    bench.cut(99);
    // Closed, and a quarter of the gap has not passed.
    assert!(bench.cut(100).is_empty() && bench.step.held() == 2);
    assert_eq!(bench.put(batch(&[(Some("a"), Some(2), 0.5, 99), (Some("a"), Some(2), 0.5, 10)])).absorbed, 2);
    bench.cut(110);
    bench.restart();
    let mut found = Vec::new();
    for watermark_ms in [130, 130, 400, 400, 400, 400] {
        bench.start();
        bench.work(100);
        found.extend(counted(&bench.cut(watermark_ms)));
        bench.restart();
    }
    let told = |first, end, device: &str, count: &str| (first, end, device.to_owned(), count.to_owned());
    found.sort();
    assert_eq!(found, [told(0, 100, "a", "1"), told(10, 199, "a", "2"), told(90, 190, "b", "1")]);
}

#[test]
fn sessions_in_files_leave_when_no_records_come() {
    let mut bench = Bench::begin(sessions(0), TINY);
    bench.put(batch(&[(Some("a"), Some(1), 0.5, 0), (Some("b"), Some(1), 0.5, 90)]));
    bench.cut(50);
    bench.work(100);
    bench.cut(99);
    bench.put(batch(&[(Some("b"), Some(1), 0.5, 101)]));
    assert!(bench.cut(101).is_empty() && !bench.step.is_due(101));
    assert_eq!(bench.step.watermark_behind(101), 99, "a result of this time may come");
    bench.work(100);
    bench.step.at(0);
    assert!(bench.step.is_due(101));
    assert!(bench.cut(101).is_empty());
    bench.work(100);
    assert_eq!(counted(&bench.cut(101)), [(0, 100, "a".to_owned(), "1".to_owned())]);
    assert_eq!((bench.step.watermark_behind(101), bench.step.held()), (101, 2));
    // What stays open is one run, and the files of before go with the next checkpoint.
    bench.checkpoint();
    assert_eq!((bench.step.entries(), bench.files.len()), (1, 1));
}

/// By the amount: how many heats differ, the first of them, and the middle.
fn heats(outputs: &[Output]) -> BTreeMap<i64, (u64, Vec<f64>, f64)> {
    let mut found = BTreeMap::new();
    for rows in outputs.iter().map(|output| &output.batch.rows) {
        let of = |name: &str| rows.column_by_name(name).unwrap();
        let (keys, counts) = (of("amount").as_primitive::<Int64Type>(), of("heats"));
        let (lists, middles) = (of("values").as_list::<i32>(), of("middle").as_primitive::<Float64Type>());
        for row in 0..rows.num_rows() {
            let count = counts.as_primitive::<UInt64Type>().value(row);
            let values = lists.value(row).as_primitive::<Float64Type>().values().to_vec();
            let before = found.insert(keys.value(row), (count, values, middles.value(row)));
            assert!(before.is_none(), "one result of each key");
        }
    }
    found
}

/// Values of one group that lie among those of all are picked out of them for many groups at once, and not for each block anew.
#[test]
fn groups_whose_values_are_scattered_go_to_files_as_they_are() {
    const KEYS: i64 = 45_000;
    let of = |name: &str, function, numbers: &[u64]| Aggregate {
        numbers: numbers.to_vec(),
        ..aggregate(name, function, "heat")
    };
    let config = WindowConfig {
        key: vec!["amount".to_owned()],
        aggregates: vec![
            of("heats", Function::CountDistinct, &[]),
            of("values", Function::GroupArray, &[5]),
            of("middle", Function::Quantile, &[500_000]),
        ],
        ..config(0)
    };
    let rows: Vec<Row> = (0..2 * KEYS).map(|n| (None, Some(n % KEYS), n as f64, 10)).collect();
    let mut memory = Window::new(&schema(), &config).unwrap();
    put(&mut memory, batch(&rows));
    let wanted = heats(&cut(&mut memory, 2_000).0);
    assert_eq!(wanted.len(), KEYS as usize);
    assert_eq!(wanted[&7].1, [7.0, 45_007.0]);
    let sizes = Sizes { open_bytes: 1, ..Sizes::new(64 << 20, 1) };
    let mut bench = Bench::begin(config, sizes);
    bench.put(batch(&rows));
    bench.cut(500);
    bench.work(1_000);
    assert_eq!(bench.step.spilled_entries(), KEYS as u64);
    let mut outputs = bench.cut(2_000);
    while bench.step.is_releasing() {
        bench.work(1_000);
        outputs.extend(bench.cut(2_000));
    }
    assert!(heats(&outputs) == wanted, "the results are those of a window in memory");
    assert_eq!(bench.step.held(), 0);
}

#[test]
fn a_step_that_has_spilled_nothing_writes_what_an_earlier_program_reads() {
    let mut bench = Bench::begin(others(300), Sizes::new(1 << 30, 1));
    put(&mut bench.step, batch(&[(Some("a"), Some(1), 0.5, 10)]));
    bench.cut(500);
    assert_eq!((bench.deltas[0][4], bench.step.snapshot()[4]), (3, 3));
    let mut spilled = Bench::begin(others(300), TINY);
    put(&mut spilled.step, batch(&[(Some("a"), Some(1), 0.5, 10)]));
    spilled.cut(500);
    assert_eq!((spilled.deltas[0][4], spilled.step.snapshot()[4]), (5, 5));
    // The delta is that of before but for what it says of spilled panes.
    let len = bench.deltas[0].len() - 8;
    assert_eq!(spilled.deltas[0][6..len], bench.deltas[0][6..len]);
}

#[test]
fn a_pane_that_is_in_as_many_parts_as_may_be_stays_in_memory_and_ends_the_run_beyond_it() {
    let sizes = Sizes { generations_max: 2, ..TINY };
    let mut bench = Bench::begin(others(300), sizes);
    for _ in 0..4 {
        put(&mut bench.step, batch(&[(Some("a"), Some(1), 0.5, 10)]));
        bench.cut(500);
        bench.work(100);
    }
    assert_eq!((bench.step.entries(), bench.step.spilled_entries()), (3, 2));
    bench.step.memory_max = 1;
    put(&mut bench.step, batch(&[(Some("a"), Some(1), 0.5, 10)]));
    let error = bench.step.advance(500).unwrap_err().to_string();
    assert!(error.contains("Raise `memory`"), "{error}");
}

#[test]
fn the_lane_waits_for_a_spill_while_as_much_again_is_in_memory() {
    let mut bench = Bench::begin(others(300), TINY);
    let row = |time| batch(&[(Some("a"), Some(1), 0.5, time)]);
    put(&mut bench.step, row(10));
    bench.cut(500);
    assert!(!bench.step.is_crowded(), "what is on its way is in memory, and nothing else");
    put(&mut bench.step, row(20));
    bench.cut(500);
    assert!(bench.step.is_crowded());
    bench.work(100);
    assert!(!bench.step.is_crowded());
}
