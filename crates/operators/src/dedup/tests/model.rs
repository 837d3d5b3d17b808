//! The rule, as naive as can be, against the step: random times, batches, seals, restarts and forgotten rows.

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
}

impl Model {
    /// `None` is the time of its own of records without one, before there is a watermark.
    fn bucket(&self, time_ms: i64) -> Option<i64> {
        if time_ms == TIME_UNKNOWN_MS { self.watermark } else { Some(time_ms.div_euclid(WIDTH)) }
    }

    fn decide(&mut self, key: Option<i64>, time_ms: i64, policy: Late) -> Fate {
        let bucket = self.bucket(time_ms);
        let late = matches!((bucket, self.watermark), (Some(b), Some(w)) if b < w - SLACK as i64);
        let near = |e: &Entry| match (e.bucket, bucket) {
            (Some(a), Some(b)) => (a - b).unsigned_abs() <= SPAN,
            (a, b) => a == b,
        };
        if self.entries.iter().any(|e| e.key == key && (e.held || !late) && near(e)) {
            return Fate::Duplicate;
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

fn check(out: &Output, fates: &[Fate]) {
    let of = |fate| fates.iter().enumerate().filter(move |(_, f)| **f == fate).map(|(row, _)| row as i64);
    assert_eq!(notes(out), of(Fate::Kept).collect::<Vec<_>>());
    assert_eq!(out.duplicates, of(Fate::Duplicate).count() as u64);
    assert_eq!(out.late + out.rejects.len() as u64, of(Fate::Late).count() as u64);
}

fn play(acts: &[Act], policy: Late, sizes: Sizes, shards: Vec<usize>) {
    let (mut bench, mut model) = (Bench::with_shards(policy, sizes, shards), Model::default());
    let mut sealed = (model.clone(), bench.contents());
    for act in acts {
        match act {
            Act::Batch(rows) => {
                let fates: Vec<Fate> = rows.iter().map(|(k, t)| model.decide(*k, *t, policy)).collect();
                check(&bench.run(batch(0, rows)), &fates);
            }
            Act::Overlapped(first, second) => {
                let probed = [first, second].map(|rows| bench.step.probe(batch(0, rows)).unwrap());
                // What is finished now must wait: these two have asked the files as they are.
                bench.work(3);
                for (probed, rows) in probed.into_iter().zip([first, second]) {
                    let fates: Vec<Fate> = rows.iter().map(|(k, t)| model.decide(*k, *t, policy)).collect();
                    check(&bench.finish(probed), &fates);
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
                assert_eq!(bench.step.keys() + bench.phantoms(), held.len() as u64);
            }
            Act::Restart => {
                bench.restart();
                model = sealed.0.clone();
                assert_eq!(bench.contents(), sealed.1, "state after recovery is the state that was sealed");
            }
        }
    }
}

fn policy() -> impl Strategy<Value = Late> {
    prop_oneof![Just(Late::Keep), Just(Late::Drop), Just(Late::DeadLetter)]
}

/// How many shards there are in a run and after each restart.
fn shards() -> impl Strategy<Value = Vec<usize>> {
    prop::sample::select(vec![vec![1], vec![2], vec![5], vec![1, 5, 2], vec![16, 1]])
}

/// Sizes at which a handful of keys is closed, cut into parts and blocks, and merged.
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
fn what_a_merger_reads_stays_though_it_expires_meanwhile() {
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
