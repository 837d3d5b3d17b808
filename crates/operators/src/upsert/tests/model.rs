//! The step against a map of what holds, with rows in memory and in files, crashes and snapshots.

use std::collections::BTreeMap;

use dataflow::conformance::operator::play::{Play, Way};
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Do {
    Put(Vec<Row>),
    Cut,
    /// Goes on from the deltas behind the last snapshot.
    Restart,
    Snapshot,
}

fn acts() -> impl Strategy<Value = Vec<Do>> {
    let key = prop_oneof![1 => Just(None), 12 => (0..8_u32).prop_map(Some)];
    let row = (key, 0..40_i64, prop::bool::weighted(0.2), 0..100_i64);
    let act = prop_oneof![
        6 => prop::collection::vec(row, 0..12).prop_map(Do::Put),
        4 => Just(Do::Cut),
        1 => Just(Do::Restart),
        1 => Just(Do::Snapshot),
    ];
    prop::collection::vec(act, 1..50)
}

/// What holds of a key: its version, and its value unless it is deleted.
type Held = BTreeMap<u32, (i64, Option<i64>)>;

/// The rows of a seal: those taken back, sorted, and those that came, in order.
fn sealed(held: &mut Held, rows: &[Row], has_versions: bool) -> (Vec<Made>, Vec<Made>) {
    let before = held.clone();
    let (mut last, mut given) = (BTreeMap::<u32, usize>::new(), Vec::new());
    for (at, (key, value, ..)) in rows.iter().enumerate() {
        let Some(key) = key else { continue };
        let known = last.get(key).map(|at| rows[*at].1).or(before.get(key).map(|held| held.0));
        if !has_versions || known.is_none_or(|known| *value >= known) {
            last.insert(*key, at);
        }
    }
    let mut taken = Vec::new();
    for (at, (key, value, deleted, _)) in rows.iter().enumerate() {
        let Some(key) = key else {
            given.extend((!deleted).then_some((1, None, *value)));
            continue;
        };
        if last.get(key) != Some(&at) {
            continue;
        }
        taken.extend(before.get(key).and_then(|held| Some((-1, Some(*key), held.1?))));
        given.extend((!deleted).then_some((1, Some(*key), *value)));
        held.insert(*key, (*value, (!deleted).then_some(*value)));
    }
    taken.sort_unstable();
    (taken, given)
}

fn check(acts: &[Do], version: Option<&str>, sizes: Sizes) {
    let new = || step(version).with_sizes(sizes);
    let mut play = Play::new(Box::new(new()));
    let (mut held, mut rows) = (Held::new(), Vec::<Row>::new());
    let (mut snapshot, mut deltas) = (new().snapshot(), Vec::<Bytes>::new());
    for act in acts {
        match act {
            Do::Put(more) => {
                play.batch(0, batch(more), Way::Whole);
                rows.extend(more);
            }
            Do::Cut => {
                let outputs = cut(&mut play, &mut deltas);
                let found = made(&outputs);
                let first = found.iter().position(|row| row.0 == 1).unwrap_or(found.len());
                let mut taken = found[..first].to_vec();
                taken.sort_unstable();
                let expected = sealed(&mut held, &std::mem::take(&mut rows), version.is_some());
                assert_eq!((taken, found[first..].to_vec()), expected);
            }
            Do::Restart => {
                // What was not sealed comes again.
                let files = std::mem::take(&mut play.files);
                let mut step = new();
                let reads = step.restore(&snapshot).unwrap();
                let all = Play::of(Box::new(new()), files, 0, 0);
                all.read(&reads).iter().for_each(|bytes| step.open(bytes).unwrap());
                deltas.iter().for_each(|delta| step.apply(delta).unwrap());
                play = Play::of(Box::new(step), all.files, 0, 0);
                if !rows.is_empty() {
                    play.batch(0, batch(&rows), Way::Whole);
                }
            }
            Do::Snapshot => {
                if rows.is_empty() {
                    let step = play.step.state().unwrap();
                    snapshot = step.snapshot();
                    deltas.clear();
                }
            }
        }
    }
}

/// As the conformance suite cuts, with the outputs at hand.
fn cut(play: &mut Play, deltas: &mut Vec<Bytes>) -> Vec<Output> {
    play.read_ahead(0, false);
    let outputs = play.step.advance(0).unwrap();
    let state = play.step.state().unwrap();
    deltas.push(state.seal(0));
    assert_eq!(state.held(), 0);
    play.sealed_at_the_end(0);
    outputs
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn it_does_what_a_map_does(acts in acts()) {
        for version in [None, Some("v")] {
            check(&acts, version, Sizes::new(64 << 20));
        }
    }

    #[test]
    fn it_does_so_with_rows_in_files(acts in acts()) {
        for version in [None, Some("v")] {
            check(&acts, version, TINY);
            check(&acts, version, Sizes { hand_bytes: 2_000, runs_max: 4, ..TINY });
        }
    }
}
