//! A step whose versions are in files, with the engine's part in it (reading, writing, merging, checkpoints, collecting), against one that has all of them in memory.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};

use proptest::prelude::*;

use super::model::{Act, acts, risen};
use super::*;
use crate::join::spilled::file::verify;
use crate::join::temporal::spilled::Sizes;
use crate::testing::Stored;

/// Sizes at which every seal freezes all settled versions, some of them are a file and a few a block, and every two runs are merged.
const TINY: Sizes = Sizes {
    open_bytes: 1,
    index_bytes: u64::MAX,
    run_bytes: 600,
    block_bytes: 150,
    read_bytes: 300,
    hand_bytes: 0,
    runs_max: 1,
};

/// Sizes at which more runs stay beside each other, and versions stay at hand.
const SOME: Sizes = Sizes { hand_bytes: 2_000, runs_max: 4, ..TINY };

/// A step, its journal and its store.
pub(super) struct Bench {
    stored: Stored<TemporalJoin>,
    /// Blocks read for batches, and for seals.
    for_batches: usize,
    pub for_seals: usize,
}

impl Deref for Bench {
    type Target = Stored<TemporalJoin>;

    fn deref(&self) -> &Stored<TemporalJoin> {
        &self.stored
    }
}

impl DerefMut for Bench {
    fn deref_mut(&mut self) -> &mut Stored<TemporalJoin> {
        &mut self.stored
    }
}

impl Bench {
    pub fn new(config: &TemporalConfig, sizes: Sizes) -> Self {
        let config = config.clone();
        let new = move || TemporalJoin::new(&left(), &right(), &config).unwrap().with_sizes(sizes);
        Self { stored: Stored::new(new, verify), for_batches: 0, for_seals: 0 }
    }

    pub fn put(&mut self, side: JoinSide, batch: Batch) -> Output {
        let probed = self.step.probe_of(side as usize, batch).unwrap();
        let distinct: BTreeSet<_> =
            probed.reads.iter().map(|read| (read.object.clone(), read.offset)).collect();
        assert_eq!(distinct.len(), probed.reads.len(), "each block is read once for all rows of a batch");
        self.for_batches += probed.reads.len();
        let answers = self.read(&probed.reads);
        self.step.finish(probed, &answers).unwrap()
    }

    fn release(&mut self, watermark_ms: i64, is_closing: bool) -> Vec<Output> {
        let (mut read, mut again) = (BTreeSet::new(), 0);
        loop {
            let reads = self.step.advance_reads(watermark_ms, is_closing).unwrap();
            if reads.is_empty() {
                break;
            }
            for one in &reads {
                again += usize::from(!read.insert((one.object.clone(), one.offset)));
            }
            self.for_seals += reads.len();
            let answers = self.read(&reads);
            self.step.advance_read(&answers).unwrap();
        }
        // Only where a filter was wrong about another key.
        assert!(again * 50 <= read.len(), "{again} of {} blocks are read twice for a seal", read.len());
        let released =
            if is_closing { self.step.close(watermark_ms) } else { self.step.advance(watermark_ms) };
        let outputs = released.unwrap();
        let delta = self.step.seal(watermark_ms);
        self.sealed(delta);
        outputs
    }

    pub fn cut(&mut self, watermark_ms: i64) -> Vec<Output> {
        self.release(watermark_ms, false)
    }

    /// All that a step holds, but for where it is: rows that wait, versions in memory, and runs.
    fn contents(&self, step: &TemporalJoin) -> (Vec<String>, Vec<String>, [u64; 2]) {
        let mut rows = Vec::new();
        for (arena, ids) in
            [(&step.left.arena, step.left.by_arrival()), (&step.right.arena, step.right.by_arrival())]
        {
            let of = |id: &u32| {
                let row = arena.get(*id);
                format!("{} {} {}", row.hash, row.time_ms, arena.is_matched(*id))
            };
            rows.extend(ids.iter().map(of));
        }
        (step.spilled.contents(), rows, [step.position, step.held()])
    }
}

/// What outputs are: rows with their positions, those beside, and what is late and without a match.
type Made = (Vec<(Found, u64)>, Vec<(i64, i64, u64)>, [u64; 3]);

fn made(outputs: &[Output], is_aside: bool) -> Made {
    let rows =
        |out: &Output| of_batch(&out.batch).into_iter().zip(out.batch.positions.clone()).collect::<Vec<_>>();
    let sum = |of: fn(&Output) -> u64| outputs.iter().map(of).sum::<u64>();
    (
        outputs.iter().flat_map(rows).collect(),
        if is_aside { beside(outputs) } else { Vec::new() },
        [sum(|out| out.absorbed), sum(|out| out.late), sum(|out| out.unmatched)],
    )
}

fn released(outputs: &[Output]) -> u64 {
    outputs.iter().map(|output| output.released).sum()
}

/// The same acts for a step in memory and one with these sizes, at times that are `scale` apart. Both seal the same rows in the same seals with the same numbers.
fn play(
    config: &TemporalConfig,
    sizes: Sizes,
    scale: i64,
    acts: &[(Act, usize)],
) -> Result<(), TestCaseError> {
    let is_aside = !config.unmatched.is_empty();
    let mut memory = TemporalJoin::new(&left(), &right(), config).unwrap();
    let (mut snapshot, mut deltas) = (memory.snapshot(), Vec::<Bytes>::new());
    let mut bench = Bench::new(config, sizes);
    let mut unsealed: Vec<(JoinSide, Vec<Row>, u64)> = Vec::new();
    let mut last_ms = TIME_UNKNOWN_MS;
    for (at, (act, works)) in acts.iter().chain(&[(Act::Cut(3_000 * 4), 1_000)]).enumerate() {
        bench.work(*works);
        match act {
            Act::Put(side, rows) => {
                let mut rows = risen(rows, at);
                rows.iter_mut().for_each(|row| row.3 *= scale);
                let wanted = made(&[put(&mut memory, *side, batch(*side, &rows))], false);
                let held = bench.step.held();
                let came = made(&[bench.put(*side, batch(*side, &rows))], false);
                prop_assert_eq!(&came, &wanted);
                prop_assert_eq!(bench.step.held(), held + came.2[0]);
                unsealed.push((*side, rows, came.2[1]));
            }
            Act::Cut(watermark_ms) => {
                let watermark_ms = match *watermark_ms {
                    TIME_UNKNOWN_MS => TIME_UNKNOWN_MS,
                    other => (other / 4 + at as i64 * 25 - 150) * scale,
                };
                last_ms = last_ms.max(watermark_ms);
                let held = bench.step.held();
                prop_assert_eq!(bench.step.is_due(watermark_ms), memory.is_due(watermark_ms));
                prop_assert_eq!(bench.step.waiting(), memory.waiting());
                let (outputs, delta) = cut(&mut memory, watermark_ms);
                deltas.push(delta);
                let own = bench.cut(watermark_ms);
                prop_assert_eq!(made(&own, is_aside), made(&outputs, is_aside));
                prop_assert_eq!(bench.step.held() + released(&own), held, "absorbed is released or held");
                unsealed.clear();
            }
            Act::Crash => {
                bench.restart();
                memory = TemporalJoin::new(&left(), &right(), config).unwrap();
                memory.restore(&snapshot).unwrap();
                deltas.iter().for_each(|delta| memory.apply(delta).unwrap());
                for (side, rows, late) in &unsealed {
                    put(&mut memory, *side, batch(*side, rows));
                    prop_assert_eq!(bench.put(*side, batch(*side, rows)).late, *late);
                }
            }
            Act::Snapshot if unsealed.is_empty() => {
                let twin = bench.twin();
                // Merges are not in the deltas.
                let (own, others) = (bench.contents(&bench.step), bench.contents(&twin));
                prop_assert_eq!((&own.1, own.2), (&others.1, others.2));
                bench.checkpoint();
                let twin = bench.twin();
                prop_assert_eq!(bench.contents(&twin), bench.contents(&bench.step));
                prop_assert_eq!(twin.snapshot(), bench.step.snapshot(), "byte for byte");
                (snapshot, deltas) = (memory.snapshot(), Vec::new());
            }
            Act::Snapshot => {}
        }
        prop_assert!(memory.held() <= bench.step.held(), "what is needed is there");
        prop_assert!(bench.step.spilled_entries() <= bench.step.entries());
    }
    prop_assert_eq!(bench.step.waiting(), 0);
    // Once all are in one run, none is there that is replaced.
    for _ in 0..3 {
        bench.work(10_000);
        bench.cut(last_ms);
    }
    bench.work(10_000);
    bench.cut(last_ms);
    if sizes.runs_max == 1 && scale == 1 {
        prop_assert_eq!(bench.step.held(), memory.held());
        prop_assert!(bench.step.spilled.count().0 <= 1);
    }
    bench.works.clear();
    bench.checkpoint();
    prop_assert_eq!(bench.files.len(), bench.step.files().len(), "no file outlives its versions");
    Ok(())
}

/// A day is some three hundred of the acts' milliseconds: deletions are forgotten.
const DAYS: i64 = DELETED_MS / 300;

fn events() -> impl Strategy<Value = Vec<(Act, usize)>> {
    (acts(), prop::collection::vec(prop_oneof![2 => 0..4_usize, 1 => 4..40_usize], 60))
        .prop_map(|(acts, works)| acts.into_iter().zip(works).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn versions_in_files_make_what_versions_in_memory_make(events in events()) {
        for config in [config(true), config(false), with_aside()] {
            for scale in [1, DAYS] {
                play(&config, TINY, scale, &events)?;
                play(&config, SOME, scale, &events)?;
            }
        }
    }
}

fn versions(keys: std::ops::Range<i64>, number: i64, time_ms: i64) -> Batch {
    batch(RIGHT, &keys.map(|key| (Some(key), number, "a text", time_ms)).collect::<Vec<_>>())
}

fn rows(keys: std::ops::Range<i64>, time_ms: i64) -> Batch {
    batch(LEFT, &keys.map(|key| (Some(key), key, "", time_ms)).collect::<Vec<_>>())
}

/// What rows with these keys get.
fn got(bench: &mut Bench, keys: std::ops::Range<i64>, time_ms: i64) -> Vec<Option<i64>> {
    bench.put(LEFT, rows(keys, time_ms));
    let outputs = bench.cut(time_ms + 100);
    let mut all = found(&outputs);
    all.sort_unstable();
    all.into_iter().map(|(_, version, _)| version).collect()
}

/// Sizes at which all is one run, and no run is merged.
const APART: Sizes = Sizes { run_bytes: 1 << 20, runs_max: 100, ..TINY };

#[test]
fn a_filter_spares_the_reading_and_each_block_is_read_once() {
    let mut bench = Bench::new(&config(true), APART);
    bench.put(RIGHT, versions(0..1_000, 11, 10));
    bench.cut(100);
    bench.work(1_000);
    assert_eq!((bench.step.spilled_entries(), bench.step.held()), (1_000, 1_000));
    assert_eq!(bench.step.right.held(), 0, "none is in memory");
    assert_eq!(got(&mut bench, 5_000..6_000, 200), vec![None; 1_000]);
    assert!(bench.for_seals < 10, "{} blocks for keys that are not there", bench.for_seals);
    assert_eq!(got(&mut bench, 500..501, 400), [Some(11)]);
    assert!(bench.for_seals < 12);
    assert_eq!(got(&mut bench, 0..1_000, 600), vec![Some(11); 1_000]);
}

#[test]
fn a_newer_version_hides_those_in_files_wherever_it_is() {
    let mut bench = Bench::new(&config(true), APART);
    for (round, number) in [(0, 11), (1, 12), (2, 13)] {
        let time_ms = round * 1_000;
        bench.put(RIGHT, versions(0..10, number, time_ms));
        assert_eq!(got(&mut bench, 0..10, time_ms + 100), vec![Some(number); 10]);
        bench.work(100);
        // Rows of before it do not get it, whether it is in memory or not.
        bench.put(RIGHT, versions(0..10, 99, time_ms + 900));
        assert_eq!(got(&mut bench, 0..10, time_ms + 500), vec![Some(number); 10]);
        bench.cut(time_ms + 920);
        bench.work(100);
        assert_eq!(got(&mut bench, 0..10, time_ms + 930), vec![Some(99); 10]);
    }
    assert_eq!(bench.step.spilled.count().0, 6, "a run for each");
    assert_eq!(bench.step.held(), 60);
}

#[test]
fn a_deletion_hides_versions_in_files_and_goes_with_them() {
    for is_in_file in [false, true] {
        let mut bench = Bench::new(&config(true), Sizes { runs_max: 1, ..APART });
        bench.put(RIGHT, versions(0..10, 11, 0));
        bench.cut(100);
        bench.work(100);
        bench.put(RIGHT, versions(5..10, 15, 200));
        if is_in_file {
            bench.cut(250);
            bench.work(100);
        }
        let wanted: Vec<_> = (0..10).map(|key| (key < 5).then_some(11)).collect();
        assert_eq!(got(&mut bench, 0..10, 300), wanted);
        // A version of before it is late, also if only the file says so.
        let out = bench.put(RIGHT, versions(4..6, 12, 150));
        assert_eq!((out.late, out.absorbed), (1, 1));
        assert_eq!(got(&mut bench, 3..6, 500), [Some(11), Some(12), None]);
        // It is forgotten: then nothing is left of the key, and a merge drops it.
        bench.put(RIGHT, versions(20..21, 13, 1_000));
        bench.cut(201 + 20 + DELETED_MS);
        bench.work(100);
        bench.cut(202 + 20 + DELETED_MS);
        bench.work(100);
        bench.cut(203 + 20 + DELETED_MS);
        assert_eq!(bench.step.held(), 6, "keys 0 to 4, and 20");
        assert_eq!(bench.put(RIGHT, versions(7..8, 12, 150)).late, 0, "it brings the key back");
        assert_eq!(got(&mut bench, 7..9, 300 + DELETED_MS), [Some(12), None]);
    }
}

#[test]
fn runs_are_few_and_replaced_versions_go_with_merges() {
    let sizes = Sizes { run_bytes: 2_000, runs_max: 4, ..TINY };
    let mut bench = Bench::new(&config(true), sizes);
    let mut most = 0;
    for round in 0..100 {
        bench.put(RIGHT, versions(0..50, 5 * round + 1, round * 10));
        bench.cut(round * 10 + 30);
        bench.work(1_000);
        most = most.max(bench.step.spilled.count().0);
    }
    assert!(most <= 5, "{most} runs");
    assert!(bench.step.held() < 50 * 12, "{} versions of 50 keys", bench.step.held());
    assert_eq!(got(&mut bench, 0..50, 2_000), vec![Some(5 * 99 + 1); 50]);
    bench.checkpoint();
    assert_eq!(bench.files.len(), bench.step.files().len());
}

#[test]
fn versions_that_were_read_stay_at_hand_until_they_are_replaced() {
    let mut bench = Bench::new(&config(true), Sizes { hand_bytes: 1 << 20, ..APART });
    bench.put(RIGHT, versions(0..100, 11, 0));
    bench.cut(100);
    bench.work(100);
    assert_eq!(got(&mut bench, 40..50, 200), vec![Some(11); 10]);
    let read = bench.for_seals;
    assert!(read > 0);
    assert_eq!(got(&mut bench, 40..50, 400), vec![Some(11); 10]);
    assert_eq!(bench.for_seals, read, "nothing is read again");
    bench.put(RIGHT, versions(45..46, 12, 550));
    bench.cut(600);
    bench.work(100);
    let wanted: Vec<_> = (40..50).map(|key| Some(if key == 45 { 12 } else { 11 })).collect();
    assert_eq!(got(&mut bench, 40..50, 700), wanted);
    assert_eq!(bench.for_seals, read + 1);
}

#[test]
fn the_hand_takes_no_more_memory_than_it_may() {
    let mut bench = Bench::new(&config(true), Sizes { hand_bytes: 40_000, ..APART });
    bench.put(RIGHT, versions(0..2_000, 11, 0));
    bench.cut(100);
    bench.work(100);
    let before = bench.step.memory_bytes();
    for round in 0..40 {
        let time_ms = 200 + round * 200;
        assert_eq!(got(&mut bench, round * 50..round * 50 + 50, time_ms), vec![Some(11); 50]);
    }
    let more = bench.step.memory_bytes().saturating_sub(before);
    assert!(more < 200_000, "{more} bytes");
}

#[test]
fn memory_stays_in_its_bound_while_versions_go_to_files() {
    let memory = 4 << 20;
    let mut bench = Bench::new(&config(true), Sizes { runs_max: 4, ..Sizes::new(memory) });
    let mut most = 0;
    for round in 0..100 {
        let keys = round * 1_000..(round + 1) * 1_000;
        let rows: Vec<Row> = keys
            .map(|key| (Some(key), 5 * key + 1, "a text of some forty bytes, as many have it", key))
            .collect();
        bench.put(RIGHT, batch(RIGHT, &rows));
        bench.cut((round + 1) * 1_000 + 30);
        bench.work(100);
        most = most.max(bench.step.memory_bytes());
    }
    assert_eq!(bench.step.held(), 100_000);
    assert!(bench.step.spilled_entries() > 70_000, "{}", bench.step.spilled_entries());
    assert!(most < memory / 4 * 5, "{most} bytes");
    bench.checkpoint();
    bench.restart();
    // Every version is found, wherever it is.
    let keys: Vec<i64> = (0..100_000).step_by(10).collect();
    bench.put(LEFT, batch(LEFT, &keys.iter().map(|key| (Some(*key), *key, "", 200_000)).collect::<Vec<_>>()));
    let outputs = bench.cut(300_000);
    assert!(found(&outputs).iter().all(|(key, version, _)| *version == Some(5 * key + 1)));
    assert_eq!(found(&outputs).len(), keys.len());
}

/// What leaves is counted by what it takes: narrow versions that came first would make no room for wide ones.
#[test]
fn wide_versions_behind_narrow_ones_go_to_files_in_time() {
    let new = || TemporalJoin::new(&left(), &right(), &config(true)).unwrap().with_memory(4 << 20);
    let mut bench = Bench { stored: Stored::new(new, verify), for_batches: 0, for_seals: 0 };
    let text: &str = "x".repeat(8_000).leak();
    bench.put(RIGHT, versions(0..10_000, 11, 0));
    bench.cut(50);
    for round in 1..=20 {
        let keys = 10_000 + round * 100..10_100 + round * 100;
        let rows: Vec<Row> = keys.map(|key| (Some(key), 16, text, round * 100)).collect();
        bench.put(RIGHT, batch(RIGHT, &rows));
        // With more than its memory the step would end the run here.
        bench.cut(round * 100 + 50);
        bench.work(1_000);
    }
    assert_eq!(bench.step.held(), 12_000);
    assert!(bench.step.spilled_entries() > 11_000, "{}", bench.step.spilled_entries());
    assert_eq!(got(&mut bench, 9_999..10_000, 2_200), [Some(11)]);
    assert_eq!(got(&mut bench, 10_100..10_101, 2_400), [Some(16)]);
}

#[test]
fn the_lane_waits_for_a_run_while_as_much_again_is_in_memory() {
    let mut bench = Bench::new(&config(true), TINY);
    bench.put(RIGHT, versions(0..10, 11, 0));
    bench.cut(100);
    assert!(!bench.step.is_crowded(), "what is on its way is in memory, and nothing else");
    bench.put(RIGHT, versions(10..20, 11, 0));
    bench.cut(100);
    assert!(bench.step.is_crowded());
    bench.work(100);
    assert!(!bench.step.is_crowded());
}

#[test]
fn the_lane_waits_for_a_merge_when_there_are_too_many_runs() {
    let mut bench = Bench::new(&config(true), TINY);
    for round in 0..20 {
        bench.put(RIGHT, versions(0..3, 11, round * 10));
        bench.cut(round * 10 + 30);
        // Writes end, and merges, which begin after them, do not.
        while bench.step.spilled.has_unwritten() {
            bench.work(1);
        }
        if bench.step.is_crowded() {
            break;
        }
    }
    assert!(bench.step.is_crowded());
    assert!((4..=8).contains(&bench.step.spilled.count().0), "{:?}", bench.step.spilled.count());
    bench.work(1_000);
    assert!(!bench.step.is_crowded());
}

#[test]
fn versions_that_were_not_read_are_not_joined() {
    let mut bench = Bench::new(&config(true), TINY);
    bench.put(RIGHT, versions(0..10, 11, 0));
    bench.cut(100);
    bench.work(100);
    bench.put(LEFT, rows(0..10, 200));
    let error = bench.step.advance(1_000).unwrap_err().to_string();
    assert!(error.contains("were not read"), "{error}");
}

#[test]
fn a_step_that_has_spilled_nothing_writes_what_an_earlier_program_reads() {
    let mut bench = Bench::new(&config(true), Sizes::new(1 << 30));
    bench.put(RIGHT, versions(0..10, 11, 0));
    bench.cut(100);
    assert_eq!((bench.deltas[0][4], bench.step.snapshot()[4]), (1, 1));
    let mut spilled = Bench::new(&config(true), TINY);
    spilled.put(RIGHT, versions(0..10, 11, 0));
    spilled.cut(100);
    assert_eq!((spilled.deltas[0][4], spilled.step.snapshot()[4]), (2, 2));
    // The delta is that of before but for what it says of runs.
    let len = bench.deltas[0].len() - 8;
    assert_eq!(spilled.deltas[0][6..len], bench.deltas[0][6..len]);
}

#[test]
fn a_delta_that_freezes_or_releases_what_is_not_there_is_refused() {
    let mut bench = Bench::new(&config(true), TINY);
    bench.put(RIGHT, versions(0..10, 11, 0));
    bench.cut(100);
    bench.work(100);
    bench.put(RIGHT, versions(0..10, 12, 150));
    bench.cut(200);
    let delta = |dropped: u64, frozen: Vec<u32>| {
        let head = crate::join::state::Head { watermark_ms: 300, position: 0 };
        let plan = bench.step.plan.clone();
        let marks = crate::join::temporal::spilled::marks::Marks { dropped, frozen };
        crate::join::state::write_delta(&plan, head, &[]).finish_with(|to| marks.write(to))
    };
    assert!(bench.twin().apply(&delta(20, Vec::new())).is_ok());
    for (dropped, frozen) in [(21, vec![]), (u64::MAX, vec![]), (0, vec![1]), (0, vec![0])] {
        let refused = bench.twin().apply(&delta(dropped, frozen.clone()));
        assert!(refused.is_err(), "{dropped} {frozen:?}");
    }
}

#[test]
fn an_index_beyond_the_memory_ends_the_run_and_says_what_to_do() {
    let mut bench = Bench::new(&config(true), Sizes { index_bytes: 100, ..TINY });
    bench.put(RIGHT, versions(0..10, 11, 0));
    bench.cut(100);
    bench.work(100);
    let error = bench.step.advance(200).unwrap_err().to_string();
    assert!(
        error.contains("holds `10` versions of its right side, of them `10` in files")
            && error.contains("Raise `memory`"),
        "{error}"
    );
    assert!(error.contains("start once with `--new-state`"), "{error}");
}

/// A file, a delta that freezes versions, a delta that releases what a merge has dropped, and snapshots with a run in memory and in a file.
#[test]
fn files_and_what_is_said_of_them_keep_their_golden_bytes() {
    let mut bench = Bench::new(&config(true), Sizes { runs_max: 1, ..APART });
    let rows: Vec<Row> = [(3, 11, "a"), (1, 12, "a longer text"), (2, 15, "")]
        .map(|(key, number, text)| (Some(key), number, text, 100 + key))
        .to_vec();
    bench.put(RIGHT, batch(RIGHT, &rows));
    bench.cut(200);
    let in_memory = bench.step.snapshot();
    bench.work(100);
    let file = bench.files.values().next().unwrap().clone();
    bench.put(RIGHT, versions(1..3, 13, 250));
    bench.cut(300);
    bench.work(100);
    bench.cut(300);
    let found = [
        file.clone(),
        in_memory.to_vec(),
        bench.deltas[0].to_vec(),
        bench.deltas[2].to_vec(),
        bench.step.snapshot().to_vec(),
    ];
    let hex = |bytes: &Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n";
    let found: String = found.iter().map(hex).collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/join/temporal/tests/golden.txt");
    if std::env::var_os("FOREBAY_TEST_WRITE").is_some() {
        std::fs::write(path, &found).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), found);
    for at in 0..file.len() {
        let mut damaged = file.clone();
        damaged[at] ^= 1;
        assert!(verify("", &damaged).is_err(), "byte {at}");
    }
}
