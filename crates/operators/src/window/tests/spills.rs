//! A step whose panes are in files, with the engine's part in it (reading, writing, checkpoints, collecting), against the model.

use dataflow::Output;
use proptest::prelude::*;

use super::model::{
    Act, DEVICES, Model, Results, Rule, act, is_near, ms, told, unordered, windows, without_order,
};
use super::*;
use crate::testing::Stored;
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
const SOME: Sizes =
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

    /// All that a step holds, but for where it is.
    pub fn contents(&self, step: &Window) -> Vec<String> {
        let mut contents =
            step.spilled.contents(&step.plan, |read| self.read(std::slice::from_ref(read)).remove(0));
        let mut base = Vec::new();
        step.base.write(&step.plan, step.watermark_ms, true, &mut base);
        contents.push(format!("{} {base:?}", step.watermark_ms));
        contents
    }
}

#[derive(Clone, Debug)]
enum Event {
    Of(Act),
    /// Work on files goes on by so many steps.
    Work(usize),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
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
        Rule::Sessions(..) => unreachable!("they are not spilled"),
    };
    let mut bench = Bench::begin(config, sizes);
    // With what is closed and has not left yet; as of the last seal too.
    let mut model = (Model::new(rule, 300), Results::new());
    let mut sealed = model.clone();
    let (mut rows, mut unsealed, mut watermark_ms) = (Vec::<Row>::new(), Vec::<Row>::new(), 0);
    let ending = [Event::Of(Act::Cut(1_000)), Event::Of(Act::Cut(100_000))];
    for event in events.iter().chain(&ending) {
        if !matches!(event, Event::Of(Act::Row(..)) | Event::Work(_)) && !rows.is_empty() {
            let late = put(&mut bench.step, batch(&rows)).late;
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
                if let Rule::Hopping(size, slide) = rule
                    && size == slide
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
                    put(&mut bench.step, batch(rows));
                }
                unsealed.iter().for_each(|row| model.0.row(*row));
            }
            Event::Of(Act::Snapshot) if unsealed.is_empty() => {
                let twin = bench.twin();
                prop_assert_eq!(bench.contents(&twin), bench.contents(&bench.step), "bit for bit");
                prop_assert_eq!((twin.held(), twin.entries()), (bench.step.held(), bench.step.entries()));
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

#[test]
fn sessions_are_not_spilled_and_keep_the_state_that_they_had() {
    let windows = Windows::Session { gap: Duration::from_millis(100), max: Duration::from_millis(1_000) };
    let mut bench = Bench::begin(WindowConfig { windows, ..others(300) }, TINY);
    put(&mut bench.step, batch(&[(Some("a"), Some(1), 0.5, 10)]));
    bench.cut(500);
    assert!(bench.works.is_empty() && bench.step.files().is_empty());
    assert_eq!(bench.deltas[0][4..6], 3_u16.to_le_bytes(), "an earlier program can read it");
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
