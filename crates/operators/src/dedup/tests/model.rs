//! The rule, as naive as can be, against the step: random times, batches, seals, restarts and forgotten rows.
//!
//! A kept record within the history decides for certain. One that the watermark has passed may decide, as long as the step knows it, so
//! for a late record near such a one the model takes the step's word; whoever passes then must be counted.

use proptest::prelude::*;

use super::files::Bench;
use super::*;

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: Option<i64>,
    bucket: Option<i64>,
    /// False once a seal put it below the floor: it may be gone.
    held: bool,
}

/// Everything ever kept. Decides records in time by all of it, so that it would show a decision made by expiry.
#[derive(Clone, Debug, Default)]
struct Model {
    entries: Vec<Entry>,
    watermark: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Kept,
    Duplicate,
    Late,
    /// A duplicate or late.
    Either,
}

impl Model {
    /// `None` is the time of its own of records without one, before there is a watermark.
    fn bucket(&self, time_ms: i64) -> Option<i64> {
        if time_ms == TIME_UNKNOWN_MS { self.watermark } else { Some(time_ms.div_euclid(WIDTH)) }
    }

    fn is_late(&self, time_ms: i64) -> bool {
        matches!((self.bucket(time_ms), self.watermark), (Some(b), Some(w)) if b < w - SLACK as i64)
    }

    /// What becomes of a record; `goes_on` says what the step has decided where it may decide either way.
    fn decide(&mut self, key: Option<i64>, time_ms: i64, policy: Late, goes_on: bool) -> Fate {
        let bucket = self.bucket(time_ms);
        let late = self.is_late(time_ms);
        let near = |e: &Entry| match (e.bucket, bucket) {
            (Some(a), Some(b)) => (a - b).unsigned_abs() <= SPAN,
            (a, b) => a == b,
        };
        let mut of_key = self.entries.iter().filter(|e| e.key == key && near(e));
        if of_key.clone().any(|e| e.held || !late) {
            return Fate::Duplicate;
        }
        // The step may know a kept record that is over, or not.
        if of_key.next().is_some() && !goes_on {
            return Fate::Either;
        }
        if late && policy != Late::Keep {
            return Fate::Late;
        }
        self.entries.push(Entry { key, bucket, held: true });
        Fate::Kept
    }

    fn forget(&mut self, key: Option<i64>, time_ms: i64) {
        let mut bucket = self.bucket(time_ms);
        if time_ms == TIME_UNKNOWN_MS {
            let held = self.entries.iter().filter(|e| e.held && e.key == key);
            // Of a key that is known beyond the history alone, what is over is forgotten; the model knows of it as of what may decide.
            bucket = held.map(|e| e.bucket).max().unwrap_or(bucket);
        }
        self.entries.retain(|e| e.key != key || e.bucket != bucket);
    }

    fn seal(&mut self, watermark_ms: i64) {
        if watermark_ms == TIME_UNKNOWN_MS {
            if let Some(watermark) = self.watermark {
                self.expire(watermark);
            }
            return;
        }
        let watermark = self.watermark.max(Some(watermark_ms.div_euclid(WIDTH))).unwrap();
        self.entries.iter_mut().for_each(|e| e.bucket = e.bucket.or(Some(watermark)));
        self.watermark = Some(watermark);
        self.expire(watermark);
    }

    fn expire(&mut self, watermark: i64) {
        let floor = watermark - (SPAN + SLACK) as i64;
        self.entries.iter_mut().filter(|e| e.bucket.is_some_and(|b| b < floor)).for_each(|e| e.held = false);
    }
}

#[derive(Clone, Debug)]
enum Act {
    Batch(Vec<(Option<i64>, i64)>),
    /// Two batches, both probed before the first is finished.
    Overlapped(Vec<(Option<i64>, i64)>, Vec<(Option<i64>, i64)>),
    Seal {
        watermark_ms: i64,
        checkpoint: bool,
    },
    Forget(Vec<(Option<i64>, i64)>),
    /// Work on files goes on by so many steps.
    Work(usize),
    /// Back to the last seal, from the last checkpoint and the deltas after it.
    Restart,
}

/// Buckets 970 to 1090: a boundary of two blocks of buckets (see `kept`) is among them, and several windows fit.
fn time() -> impl Strategy<Value = i64> {
    prop_oneof![1 => Just(TIME_UNKNOWN_MS), 12 => 9700..10_900_i64]
}

fn rows(most: usize) -> impl Strategy<Value = Vec<(Option<i64>, i64)>> {
    prop::collection::vec((prop::option::weighted(0.9, 0..6_i64), time()), 0..most)
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => rows(20).prop_map(Act::Batch),
        2 => (rows(8), rows(8)).prop_map(|(a, b)| Act::Overlapped(a, b)),
        4 => (time(), any::<bool>()).prop_map(|(watermark_ms, checkpoint)| Act::Seal { watermark_ms, checkpoint }),
        2 => rows(6).prop_map(Act::Forget),
        4 => (1..6_usize).prop_map(Act::Work),
        2 => Just(Act::Restart),
    ]
}

fn check(model: &mut Model, out: &Output, rows: &[(Option<i64>, i64)], policy: Late) {
    let (notes, mut late_kept) = (notes(out), 0);
    let mut decide = |(row, (key, time)): (usize, &(Option<i64>, i64))| {
        let fate = model.decide(*key, *time, policy, notes.contains(&(row as i64)));
        late_kept += u64::from(fate == Fate::Kept && model.is_late(*time));
        fate
    };
    let fates: Vec<Fate> = rows.iter().enumerate().map(&mut decide).collect();
    let of = |fate| fates.iter().enumerate().filter(move |(_, f)| **f == fate).map(|(row, _)| row as i64);
    assert_eq!(notes, of(Fate::Kept).collect::<Vec<_>>());
    let (certain, either) = (of(Fate::Duplicate).count() as u64, of(Fate::Either).count() as u64);
    assert!((certain..=certain + either).contains(&out.duplicates), "{} of {fates:?}", out.duplicates);
    let dropped = of(Fate::Late).count() as u64 + certain + either;
    assert_eq!(out.duplicates + out.late + out.rejects.len() as u64, dropped);
    assert_eq!(out.late_kept, late_kept, "who passes though a duplicate of it may be there is counted");
}

fn play(acts: &[Act], policy: Late, sizes: Sizes, shards: Vec<usize>) -> Bench {
    let (mut bench, mut model) = (Bench::with_shards(policy, sizes, shards), Model::default());
    let mut sealed = (model.clone(), bench.contents());
    for act in acts {
        match act {
            Act::Batch(rows) => {
                check(&mut model, &bench.run(batch(0, rows)), rows, policy);
            }
            Act::Overlapped(first, second) => {
                let probed = [first, second].map(|rows| bench.step.probe(batch(0, rows)).unwrap());
                // What is finished now must wait: these two have asked the files as they are.
                bench.work(3);
                for (probed, rows) in probed.into_iter().zip([first, second]) {
                    check(&mut model, &bench.finish(probed), rows, policy);
                }
            }
            Act::Forget(rows) => {
                rows.iter().for_each(|(key, time)| model.forget(*key, *time));
                bench.forget(batch(0, rows));
            }
            Act::Work(steps) => bench.work(*steps),
            Act::Seal { watermark_ms, checkpoint } => {
                model.seal(*watermark_ms);
                bench.seal(*watermark_ms, *checkpoint);
                sealed = (model.clone(), bench.contents());
                let mut held: Vec<_> =
                    model.entries.iter().filter(|e| e.held).map(|e| (e.key, e.bucket)).collect();
                held.sort_unstable();
                held.dedup();
                assert_eq!(sealed.1.len(), held.len());
                let aside = bench.aside();
                assert!(aside.iter().all(|pair| !sealed.1.contains(pair)), "nothing is held twice");
                assert_eq!(bench.step.entries() + bench.left_out(), (held.len() + aside.len()) as u64);
            }
            Act::Restart => {
                bench.restart();
                model = sealed.0.clone();
                assert_eq!(bench.contents(), sealed.1, "state after recovery is the state that was sealed");
            }
        }
    }
    bench
}

fn policy() -> impl Strategy<Value = Late> {
    prop_oneof![Just(Late::Keep), Just(Late::Drop), Just(Late::DeadLetter)]
}

/// How many shards there are in a run and after each restart.
fn shards() -> impl Strategy<Value = Vec<usize>> {
    prop::sample::select(vec![vec![1], vec![2], vec![5], vec![1, 5, 2], vec![16, 1]])
}

/// Sizes at which a handful of keys is spilled, cut into parts and blocks, and merged.
fn tiny() -> impl Strategy<Value = Sizes> {
    (1..12_u64, 1..6_u64, 1..4_u64, 1..8_usize).prop_map(
        |(open_keys_max, part_pairs, block_pairs, runs_max)| Sizes {
            open_keys_max,
            part_pairs,
            block_pairs,
            runs_max,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_step_decides_as_the_rule_says(
        acts in prop::collection::vec(act(), 1..40),
        policy in policy(),
        shards in shards(),
    ) {
        play(&acts, policy, Sizes::new(crate::dedup::OPEN_BYTES_DEFAULT), shards);
    }

    #[test]
    fn the_step_decides_the_same_when_keys_lie_in_files(
        acts in prop::collection::vec(act(), 1..80),
        policy in policy(),
        sizes in tiny(),
        shards in shards(),
    ) {
        play(&acts, policy, sizes, shards);
    }
}

#[test]
fn what_a_merge_reads_stays_though_it_expires_meanwhile() {
    let seal = |watermark_ms, checkpoint| Act::Seal { watermark_ms, checkpoint };
    let (key, none, no_time) = (|k| Some(k), None, TIME_UNKNOWN_MS);
    let acts = [
        seal(10_560, false),
        Act::Overlapped(
            vec![(key(0), no_time), (none, 10_730), (none, no_time), (none, 10_360)],
            vec![(key(1), no_time)],
        ),
        seal(no_time, false),
        Act::Batch(vec![(key(0), 10_360), (key(2), no_time), (key(0), 10_730), (key(1), 10_730)]),
        seal(no_time, false),
        Act::Work(3),
        seal(no_time, true),
        seal(10_770, true),
        Act::Work(1),
    ];
    let sizes = Sizes { open_keys_max: 2, part_pairs: 3, block_pairs: 1, runs_max: 1 };
    play(&acts, Late::Keep, sizes, vec![1]);
}

#[test]
fn a_phantom_takes_nothing_off_a_run_that_is_dead_but_for_it() {
    let seal = |checkpoint| Act::Seal { watermark_ms: 10_000, checkpoint };
    let rows = |keys: &[i64]| keys.iter().map(|key| (Some(*key), 10_000)).collect::<Vec<_>>();
    // The filter of a run with the keys 0 and 1 takes this one for one of its own.
    let mistaken = 9529;
    let acts = [
        seal(false),
        Act::Batch(rows(&[0, 1])),
        seal(false),
        seal(false),
        Act::Work(100),
        seal(true),
        Act::Forget(rows(&[0, 1])),
        Act::Batch(rows(&[mistaken])),
        seal(false),
        Act::Forget(rows(&[mistaken])),
        seal(false),
        Act::Restart,
        seal(false),
    ];
    let sizes = Sizes { open_keys_max: 1, part_pairs: 1, block_pairs: 1, runs_max: 9 };
    let bench = play(&acts, Late::Keep, sizes, vec![1]);
    assert_eq!(bench.phantoms().iter().sum::<u64>(), 1, "the filter errs as it did");
}

/// Plays batches in the order given, as an engine does whose watermark is the greatest time so far: the records that are kept though a kept
/// one of their key is near, and all that were counted as late and kept.
fn passed(batches: &[Vec<(Option<i64>, i64)>], restart_after: Option<usize>) -> (usize, u64) {
    let mut bench = Bench::new(Late::Keep, Sizes::new(crate::dedup::OPEN_BYTES_DEFAULT));
    let (mut kept, mut passed, mut late_kept) = (Vec::<(Option<i64>, i64)>::new(), 0, 0);
    let mut greatest = i64::MIN;
    for (number, rows) in batches.iter().enumerate() {
        let out = bench.run(batch(0, rows));
        for note in notes(&out) {
            let (key, time) = rows[note as usize];
            let bucket = time.div_euclid(WIDTH);
            let near = |(k, b): &&(Option<i64>, i64)| *k == key && (b - bucket).unsigned_abs() <= SPAN;
            passed += usize::from(kept.iter().any(|entry| near(&entry)));
            kept.push((key, bucket));
        }
        late_kept += out.late_kept;
        greatest = rows.iter().map(|(_, time)| *time).fold(greatest, i64::max);
        bench.seal(greatest, number % 2 == 0);
        if restart_after == Some(number) {
            let aside = bench.aside();
            bench.restart();
            assert_eq!(bench.aside(), aside, "what is set aside survives a restart");
        }
    }
    (passed, late_kept)
}

fn out_of_order(keys: i64) -> impl Strategy<Value = Vec<Vec<(Option<i64>, i64)>>> {
    let row = (0..keys, 0..20_000_i64).prop_map(|(key, time)| (Some(key), time));
    prop::collection::vec(prop::collection::vec(row, 60..200), 2..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// Times over 120 windows in no order at all.
    #[test]
    fn a_key_that_is_known_decides_whatever_the_watermark_says(
        batches in out_of_order(40),
        restart_after in prop::option::of(0..6_usize),
    ) {
        prop_assert_eq!(passed(&batches, restart_after).0, 0);
    }

    /// The order is right but for stragglers and clocks that are ahead: whoever passes is counted.
    #[test]
    fn duplicates_that_pass_are_counted(
        rows in prop::collection::vec((0..20_i64, prop_oneof![8 => 0..30_i64, 1 => -2_000..0_i64, 1 => 0..3_000_i64]), 50..1500),
        a_batch in 5..200_usize,
    ) {
        let rows: Vec<_> = rows.iter().enumerate().map(|(n, (key, off))| (Some(*key), n as i64 * 5 + off)).collect();
        let (passed, late_kept) = passed(&rows.chunks(a_batch).map(<[_]>::to_vec).collect::<Vec<_>>(), None);
        prop_assert!(passed as u64 <= late_kept, "{} passed, {} are counted", passed, late_kept);
    }
}

#[test]
fn one_record_a_day_ahead_does_not_disable_the_window_for_what_follows() {
    let batches: Vec<Vec<_>> = (0..20)
        .map(|n| {
            (0..100).map(|row| (Some(row), n * 3 + if n == 3 && row == 50 { 86_400 } else { 0 })).collect()
        })
        .collect();
    let (passed, late_kept) = passed(&batches, None);
    // The watermark was moved by it, so the 99 keys of the batches before it were freed; those after it are known.
    assert!(passed <= 100 && late_kept <= 100, "{passed} pass, {late_kept} are counted");
}

#[test]
fn nothing_is_set_aside_while_the_order_is_right_and_it_ends_when_it_is_right_again() {
    let mut bench = Bench::new(Late::Keep, Sizes::new(crate::dedup::OPEN_BYTES_DEFAULT));
    let mut at = |times: std::ops::Range<i64>| {
        let rows: Vec<_> = times.clone().map(|time| (Some(time), time)).collect();
        bench.run(batch(0, &rows));
        bench.seal(times.end, true);
        (bench.aside().len(), bench.step.entries() as usize)
    };
    // A batch spans many windows, as a fast reading of old records does.
    for n in 0..5 {
        assert_eq!(at(n * 1_000..n * 1_000 + 1_000).0, 0, "{n}");
    }
    let (aside, _) = at(1_000..1_100);
    assert!(aside >= 100, "{aside}");
    assert!(at(5_000..5_100).0 >= 100, "late records may follow");
    let (aside, keys) = at(6_000..6_010);
    assert!(aside == 0 && keys <= 10, "{aside} of {keys}");
}
