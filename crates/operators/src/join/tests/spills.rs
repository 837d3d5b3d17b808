//! A step whose rows are in files, with the engine's part in it (reading, writing, checkpoints, collecting), against one that has all of them in memory.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};

use proptest::prelude::*;

use super::model::{Act, acts, risen};
use super::*;
use crate::join::spilled::Sizes;
use crate::join::spilled::file::verify;
use crate::join::spilling::Asking;
use crate::join::state::{Head, Kind, Writer};
use crate::testing::Stored;

/// Sizes at which every seal freezes all rows, and some rows are a run and a few a block.
const TINY: Sizes = Sizes {
    open_bytes: 1,
    index_bytes: u64::MAX,
    run_bytes: 1_000,
    block_bytes: 150,
    hand_bytes: 1 << 40,
    read_bytes: 300,
};

/// Sizes at which rows without a match leave a few at a time.
const PIECES: Sizes = Sizes { hand_bytes: 200, ..TINY };

/// Sizes at which only the first rows are frozen.
const SOME: Sizes = Sizes { open_bytes: 300_000, block_bytes: 2_000, run_bytes: 20_000, ..TINY };

/// A step, its journal and its store.
struct Bench {
    stored: Stored<Join>,
    /// Blocks read for a batch at the most, and those read to let rows out.
    blocks: usize,
    let_out: usize,
}

impl Deref for Bench {
    type Target = Stored<Join>;

    fn deref(&self) -> &Stored<Join> {
        &self.stored
    }
}

impl DerefMut for Bench {
    fn deref_mut(&mut self) -> &mut Stored<Join> {
        &mut self.stored
    }
}

impl Bench {
    fn new(config: &JoinConfig, sizes: Sizes) -> Self {
        let config = config.clone();
        let new = move || Join::new(&left(), &right(), &config).unwrap().with_sizes(sizes);
        Self { stored: Stored::new(new, verify), blocks: 0, let_out: 0 }
    }

    fn put(&mut self, side: JoinSide, batch: Batch) -> Output {
        let probed = self.step.probe_of(side as usize, batch).unwrap();
        let distinct: BTreeSet<_> =
            probed.reads.iter().map(|read| (read.object.clone(), read.offset)).collect();
        assert_eq!(distinct.len(), probed.reads.len(), "each block is read once for all rows of a batch");
        self.blocks = self.blocks.max(probed.reads.len());
        let answers = self.read(&probed.reads);
        self.step.finish(probed, &answers).unwrap()
    }

    fn release(&mut self, watermark_ms: i64, is_closing: bool) -> Vec<Output> {
        loop {
            let reads = self.step.advance_reads(watermark_ms, is_closing).unwrap();
            if reads.is_empty() {
                break;
            }
            self.let_out += reads.len();
            let answers = self.read(&reads);
            self.step.advance_read(&answers).unwrap();
        }
        let released =
            if is_closing { self.step.close(watermark_ms) } else { self.step.advance(watermark_ms) };
        let outputs = released.unwrap();
        let delta = self.step.seal(watermark_ms);
        self.sealed(delta);
        outputs
    }

    fn cut(&mut self, watermark_ms: i64) -> Vec<Output> {
        self.release(watermark_ms, false)
    }

    /// All that a step holds, but for where it is.
    fn contents(&self, step: &Join) -> (Vec<String>, Bytes) {
        let head = Head { watermark_ms: step.watermark_ms, position: step.position };
        let mut writer = Writer::new(Kind::Snapshot, &step.plan, head);
        for side in JoinSide::BOTH {
            let rows = step.store.side(side);
            let ids = rows.by_arrival();
            let columns = rows.gather(&ids).unwrap();
            writer.block((side, &rows.arena), ids.into_iter(), &columns);
        }
        (step.spilled.contents(), writer.finish())
    }
}

/// What an output is: its rows with their positions, and what is beside and below them.
type Made = (Vec<(Found, u64)>, Vec<(usize, Option<i64>, i64, i64, u64)>, [u64; 4]);

fn made(outputs: &[Output], is_aside: bool) -> Made {
    let rows =
        |out: &Output| found(&out.batch).into_iter().zip(out.batch.positions.clone()).collect::<Vec<_>>();
    let sum = |of: fn(&Output) -> u64| outputs.iter().map(of).sum::<u64>();
    (
        outputs.iter().flat_map(rows).collect(),
        if is_aside { beside(outputs) } else { Vec::new() },
        [sum(|out| out.absorbed), sum(|out| out.late), sum(|out| out.released), sum(|out| out.unmatched)],
    )
}

/// The rows of the output that have no match, and those beside it, without their numbers.
fn lone((rows, beside, _): &Made) -> Vec<(usize, Option<i64>, i64, i64)> {
    let of_output = rows.iter().map(|((left, right, time_ms), _)| match (left, right) {
        (Some(left), None) => (0, None, *left, *time_ms),
        (_, right) => (1, None, right.expect("a row is of a side"), *time_ms),
    });
    of_output
        .chain(beside.iter().map(|(side, _, number, time_ms, _)| (*side, None, *number, *time_ms)))
        .collect()
}

/// The same acts for a step in memory and one with these sizes. Both seal the same rows in the same seals with the same numbers, unless rows leave in pieces.
fn play(config: &JoinConfig, sizes: Sizes, acts: &[(Act, usize)]) -> Result<(), TestCaseError> {
    let is_whole = sizes.hand_bytes > 1 << 30;
    let is_aside = config.unmatched.iter().any(|names| !names.is_empty());
    let mut memory = Join::new(&left(), &right(), config).unwrap();
    let (mut snapshot, mut deltas) = (memory.snapshot(), Vec::<Bytes>::new());
    let mut bench = Bench::new(config, sizes);
    let mut unsealed: Vec<(JoinSide, Vec<Row>, Vec<Found>)> = Vec::new();
    // Rows without a match of the one that the other has not let out yet.
    let mut owed = Vec::new();
    let (mut last_ms, mut promised_ms) = (TIME_UNKNOWN_MS, i64::MIN);
    let end = [(Act::Cut(i64::MAX), 1_000)];
    for (at, (act, works)) in acts.iter().chain(&end).enumerate() {
        bench.work(*works);
        match act {
            Act::Put(side, rows) => {
                let rows = risen(rows, at);
                let wanted = made(&[put(&mut memory, *side, batch(*side, &rows))], false);
                let held = bench.step.held();
                let came = made(&[bench.put(*side, batch(*side, &rows))], false);
                prop_assert_eq!(bench.step.held(), held + came.2[0]);
                if is_whole {
                    prop_assert_eq!(&came, &wanted);
                } else {
                    let without = |made: &Made| made.0.iter().map(|(found, _)| *found).collect::<Vec<_>>();
                    prop_assert_eq!((without(&came), came.2), (without(&wanted), wanted.2));
                }
                prop_assert!(came.0.iter().all(|((.., time_ms), _)| *time_ms >= promised_ms));
                unsealed.push((*side, rows, came.0.into_iter().map(|(found, _)| found).collect()));
            }
            Act::Cut(watermark_ms) => {
                let watermark_ms = match *watermark_ms {
                    i64::MAX | i64::MIN => *watermark_ms,
                    watermark_ms => watermark_ms / 4 + at as i64 * 25 - 150,
                };
                last_ms = last_ms.max(watermark_ms);
                let is_due = bench.step.is_due(watermark_ms);
                let held = bench.step.held();
                let behind = bench.step.watermark_behind(watermark_ms);
                let (outputs, delta) = cut(&mut memory, watermark_ms);
                deltas.push(delta);
                let wanted = made(&outputs, is_aside);
                let before = made(&[], is_aside);
                let came = made(&bench.cut(watermark_ms), is_aside);
                prop_assert_eq!(bench.step.held() + came.2[2], held, "what was absorbed is released or held");
                if is_whole {
                    prop_assert_eq!(&came, &wanted);
                    prop_assert!(!bench.step.is_releasing());
                    prop_assert_eq!(is_due, came.0 != before.0 || !came.1.is_empty());
                }
                owed.extend(lone(&wanted));
                settle(&mut owed, &came)?;
                let still = bench.step.watermark_behind(watermark_ms);
                prop_assert!(still >= behind, "{} before, {} then", behind, still);
                prop_assert!(came.0.iter().all(|((.., time_ms), _)| *time_ms >= promised_ms));
                promised_ms = still;
                prop_assert!(bench.step.is_releasing() || owed.is_empty());
                unsealed.clear();
            }
            Act::Crash => {
                bench.restart();
                memory = Join::new(&left(), &right(), config).unwrap();
                memory.restore(&snapshot).unwrap();
                deltas.iter().for_each(|delta| memory.apply(delta).unwrap());
                for (side, rows, came) in &unsealed {
                    put(&mut memory, *side, batch(*side, rows));
                    let again = bench.put(*side, batch(*side, rows));
                    prop_assert_eq!(&found(&again.batch), came, "in the same order");
                }
            }
            Act::Snapshot if unsealed.is_empty() => {
                let twin = bench.twin();
                prop_assert_eq!(bench.contents(&twin), bench.contents(&bench.step), "byte for byte");
                prop_assert_eq!((twin.held(), twin.entries()), (bench.step.held(), bench.step.entries()));
                bench.checkpoint();
                (snapshot, deltas) = (memory.snapshot(), Vec::new());
            }
            Act::Snapshot => {}
        }
        prop_assert!(!is_whole || memory.held() == bench.step.held());
        prop_assert!(bench.step.spilled_entries() <= bench.step.entries());
    }
    // Whatever is left leaves, without another watermark.
    for _ in 0..10_000 {
        if !bench.step.is_releasing() {
            break;
        }
        prop_assert!(bench.step.is_due(last_ms));
        let promised_ms = bench.step.watermark_behind(last_ms);
        let outputs = bench.cut(last_ms);
        let times = outputs.iter().flat_map(|output| output.batch.times_ms.iter());
        prop_assert!(times.into_iter().all(|time_ms| *time_ms >= promised_ms));
        settle(&mut owed, &made(&outputs, is_aside))?;
    }
    prop_assert!(owed.is_empty(), "never come: {:?}", owed);
    prop_assert_eq!((bench.step.held(), bench.step.entries()), (0, 0));
    bench.works.clear();
    bench.checkpoint();
    prop_assert_eq!(bench.files.len(), 0, "no file outlives its rows");
    Ok(())
}

/// What came was owed, and is not any more.
fn settle(owed: &mut Vec<(usize, Option<i64>, i64, i64)>, came: &Made) -> Result<(), TestCaseError> {
    for row in lone(came) {
        let at = owed.iter().position(|other| *other == row);
        prop_assert!(at.is_some(), "{:?} comes too early, or twice", row);
        owed.swap_remove(at.unwrap());
    }
    Ok(())
}

fn events() -> impl Strategy<Value = Vec<(Act, usize)>> {
    (acts(), prop::collection::vec(prop_oneof![2 => 0..4_usize, 1 => 4..30_usize], 60))
        .prop_map(|(acts, works)| acts.into_iter().zip(works).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rows_in_files_make_what_rows_in_memory_make(events in events()) {
        for kind in KINDS {
            play(&config(kind), TINY, &events)?;
            play(&with_aside(kind), TINY, &events)?;
        }
    }

    #[test]
    fn so_do_rows_of_which_only_the_first_are_in_files(events in events()) {
        for kind in KINDS {
            play(&with_aside(kind), SOME, &events)?;
        }
    }

    #[test]
    fn rows_without_a_match_leave_once_though_in_pieces(events in events()) {
        for kind in KINDS {
            play(&config(kind), PIECES, &events)?;
            play(&with_aside(kind), PIECES, &events)?;
        }
    }
}

/// Left rows with these keys, a millisecond apart.
fn lefts(keys: std::ops::Range<i64>) -> Batch {
    batch(JoinSide::Left, &keys.map(|key| (Some(key), key, "a text", key)).collect::<Vec<_>>())
}

fn rights(keys: std::ops::Range<i64>, time_ms: i64) -> Batch {
    batch(JoinSide::Right, &keys.map(|key| (Some(key), key, "a text", time_ms)).collect::<Vec<_>>())
}

#[test]
fn a_filter_and_the_times_of_a_run_spare_the_reading() {
    let mut bench = Bench::new(&config(JoinKind::Inner), TINY);
    bench.put(JoinSide::Left, lefts(0..1_000));
    bench.cut(0);
    bench.work(100_000);
    assert_eq!((bench.step.spilled_entries(), bench.step.held()), (1_000, 1_000));
    assert!(bench.put(JoinSide::Right, rights(5_000..6_000, 500)).batch.is_empty());
    assert!(bench.blocks < 30, "{} blocks for keys that are not there", bench.blocks);
    bench.blocks = 0;
    assert!(bench.put(JoinSide::Right, rights(0..1_000, 9_000)).batch.is_empty());
    assert_eq!(bench.blocks, 0, "no row of a run is so late");
    let out = bench.put(JoinSide::Right, rights(500..501, 500));
    assert_eq!(found(&out.batch), [(Some(500), Some(500), 500)]);
    assert!(bench.blocks <= 2, "{}", bench.blocks);
}

#[test]
fn inner_rows_are_released_without_a_read() {
    let mut bench = Bench::new(&config(JoinKind::Inner), TINY);
    bench.put(JoinSide::Left, lefts(0..1_000));
    bench.cut(0);
    bench.work(100_000);
    let outputs = bench.cut(600);
    assert_eq!((outputs[0].released, outputs[0].unmatched), (530, 530));
    assert_eq!((bench.step.held(), bench.let_out), (470, 0));
    bench.cut(10_000);
    assert_eq!((bench.step.held(), bench.step.files().len(), bench.let_out), (0, 0, 0));
}

#[test]
fn seals_that_let_few_rows_out_read_each_block_once() {
    let mut bench = Bench::new(&config(JoinKind::Left), Sizes { run_bytes: 1 << 30, ..TINY });
    bench.put(JoinSide::Left, lefts(0..1_000));
    bench.cut(0);
    bench.work(100_000);
    let mut came = 0;
    for watermark_ms in (0..1_200).step_by(10) {
        came += bench.cut(watermark_ms).iter().map(|output| output.batch.len()).sum::<usize>();
    }
    let blocks = bench.files.values().map(|bytes| bytes.len() / TINY.block_bytes).sum::<usize>();
    assert!(came == 1_000 && bench.let_out <= blocks, "{came} rows, {} of {blocks} blocks", bench.let_out);
}

/// The deltas behind the snapshot name a run by its number.
#[test]
fn a_snapshot_without_runs_remembers_how_many_there_were() {
    let mut bench = Bench::new(&config(JoinKind::Inner), TINY);
    bench.put(JoinSide::Left, lefts(0..10));
    bench.cut(0);
    bench.work(100);
    bench.cut(10_000);
    assert_eq!((bench.step.spilled_entries(), bench.step.held()), (0, 0));
    bench.checkpoint();
    bench.put(JoinSide::Right, rights(0..10, 10_000));
    bench.cut(10_000);
    bench.work(100);
    let later = batch(JoinSide::Left, &[(Some(1), 1, "a text", 10_000)]);
    assert_eq!(found(&bench.put(JoinSide::Left, later).batch), [(Some(1), Some(1), 10_000)]);
    bench.cut(10_000);
    bench.restart();
    let later = batch(JoinSide::Left, &[(Some(2), 2, "a text", 10_000)]);
    assert_eq!(found(&bench.put(JoinSide::Left, later).batch), [(Some(2), Some(2), 10_000)]);
}

#[test]
fn closing_lets_out_what_is_in_files() {
    for sizes in [TINY, PIECES] {
        let mut bench = Bench::new(&config(JoinKind::Full), sizes);
        bench.put(JoinSide::Left, lefts(0..100));
        bench.put(JoinSide::Right, rights(50..120, 10));
        bench.cut(0);
        bench.work(1_000);
        let mut lone = 0;
        for _ in 0..500 {
            lone += bench.release(0, true).iter().map(|output| output.unmatched).sum::<u64>();
            bench.restart();
            bench.start();
            bench.work(100);
        }
        // Those of 50 to 99 are in pairs.
        assert_eq!((lone, bench.step.held()), (50 + 20, 0));
    }
}

#[test]
fn a_step_that_has_spilled_nothing_writes_what_an_earlier_program_reads() {
    let mut bench = Bench::new(&config(JoinKind::Inner), Sizes::new(1 << 30));
    bench.put(JoinSide::Left, lefts(0..10));
    bench.cut(0);
    assert_eq!((bench.deltas[0][4], bench.step.snapshot()[4]), (1, 1));
    let mut spilled = Bench::new(&config(JoinKind::Inner), TINY);
    spilled.put(JoinSide::Left, lefts(0..10));
    spilled.cut(0);
    assert_eq!((spilled.deltas[0][4], spilled.step.snapshot()[4]), (2, 2));
    // The delta is that of before but for what it says of runs.
    let len = bench.deltas[0].len() - 8;
    assert_eq!(spilled.deltas[0][6..len], bench.deltas[0][6..len]);
    spilled.cut(10_000);
    assert_eq!(spilled.step.snapshot()[4], 2, "once there was a run, its number is remembered");
}

#[test]
fn the_lane_waits_for_a_run_while_as_much_again_is_in_memory() {
    let mut bench = Bench::new(&config(JoinKind::Inner), TINY);
    bench.put(JoinSide::Left, lefts(0..10));
    bench.cut(0);
    assert!(!bench.step.is_crowded(), "what is on its way is in memory, and nothing else");
    bench.put(JoinSide::Left, lefts(10..20));
    bench.cut(0);
    assert!(bench.step.is_crowded());
    bench.work(100);
    assert!(!bench.step.is_crowded());
}

#[test]
fn rows_that_were_not_read_are_not_let_out() {
    let mut bench = Bench::new(&config(JoinKind::Left), TINY);
    bench.put(JoinSide::Left, lefts(0..10));
    bench.cut(0);
    bench.work(1_000);
    let error = bench.step.advance(10_000).unwrap_err().to_string();
    assert!(error.contains("were not read"), "{error}");
}

#[test]
fn a_delta_that_names_rows_of_no_run_is_refused() {
    let mut bench = Bench::new(&config(JoinKind::Inner), TINY);
    bench.put(JoinSide::Left, lefts(0..10));
    bench.cut(0);
    bench.put(JoinSide::Right, rights(5..6, 5));
    bench.cut(0);
    let mut fresh = (bench.new)();
    assert!(fresh.apply(&bench.deltas[1]).is_err(), "a delta of another state");
}

#[test]
fn memory_stays_in_its_bound_while_rows_go_to_files() {
    let memory = 4 << 20;
    let mut bench = Bench::new(&config(JoinKind::Inner), Sizes::new(memory));
    let mut most = 0;
    for round in 0..100 {
        let keys = round * 1_000..(round + 1) * 1_000;
        let rows: Vec<Row> =
            keys.map(|key| (Some(key), key, "a text of some forty bytes, as many have it", key)).collect();
        bench.put(JoinSide::Left, batch(JoinSide::Left, &rows));
        bench.cut(0);
        bench.work(100);
        most = most.max(bench.step.memory_bytes());
    }
    assert_eq!(bench.step.held(), 100_000);
    assert!(bench.step.spilled_entries() > 70_000, "{}", bench.step.spilled_entries());
    assert!(most < memory / 4 * 5, "{most} bytes");
    // Every row is found, wherever it is.
    let mut pairs = 0;
    for first in (0..100_000).step_by(10_000) {
        let rows: Vec<Row> =
            (first..first + 10_000).step_by(10).map(|key| (Some(key), key, "", key)).collect();
        pairs += bench.put(JoinSide::Right, batch(JoinSide::Right, &rows)).batch.len();
    }
    assert_eq!(pairs, 10_000);
}

/// As one in memory, and before memory ends: thousands of rows on both sides make millions of pairs.
#[test]
fn a_key_that_too_many_rows_in_files_have_ends_the_run_before_all_its_pairs_are_found() {
    let sizes = Sizes { block_bytes: 8_000, run_bytes: 1 << 20, ..TINY };
    let mut bench = Bench::new(&config(JoinKind::Inner), sizes);
    bench.put(JoinSide::Left, batch(JoinSide::Left, &vec![(Some(0), 1, "", 10); 4_096]));
    bench.cut(0);
    bench.work(1_000);
    assert_eq!(bench.step.spilled_entries(), 4_096);
    let rights = || batch(JoinSide::Right, &vec![(Some(0), 1, "", 10); 2_000]);
    let probed = bench.step.probe_of(1, rights()).unwrap();
    let answers = bench.read(&probed.reads);
    let Asking { rows, candidates } = *probed.scratch.unwrap().downcast::<Asking>().unwrap();
    // Of the batch are its rows and the blocks for their key, not each row with each block.
    assert!(answers.len() > 10 && format!("{candidates:?}").len() < 50_000, "{} blocks", answers.len());
    let taken = crate::join::incoming::sort(0, probed.batch, *rows).unwrap().taken;
    let looked = bench.step.spilled.look(&bench.step.plan, &candidates, &answers, &taken);
    assert_eq!(looked.unwrap().0.len() as u64, crate::join::store::PAIRS_MAX + 1);
    let probed = bench.step.probe_of(1, rights()).unwrap();
    let error = bench.step.finish(probed, &answers).unwrap_err().to_string();
    assert!(error.contains("4194304 rows") && error.contains("`order_id` = `order`"), "{error}");
}

#[test]
fn an_index_beyond_the_memory_ends_the_run_and_says_what_to_do() {
    let mut bench = Bench::new(&config(JoinKind::Inner), Sizes { index_bytes: 100, ..TINY });
    bench.put(JoinSide::Left, lefts(0..10));
    bench.cut(0);
    bench.work(100);
    let error = bench.step.advance(1).unwrap_err().to_string();
    assert!(
        error.contains("holds `10` rows, of them `10` in files") && error.contains("Raise `memory`"),
        "{error}"
    );
    assert!(error.contains("start once with `--new-state`"), "{error}");
}
