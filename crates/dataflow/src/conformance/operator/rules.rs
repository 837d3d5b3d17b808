//! The rules of a step, one function each; the panic names the rule that is broken.
//!
//! Owns what each rule compares. Does not own what holds of every output and every seal ([`super::play`]), nor which rules a suite runs
//! (`conformance::operator`).

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use bytes::Bytes;

use super::play::{Play, Sealed, Way, restored, sorted};
use super::{Act, Fixture};
use crate::{Batch, Partition, StateError};

/// Bytes of a state that are damaged, each by itself, at the most.
const DAMAGES_MAX: usize = 600;

fn play(fixture: &dyn Fixture, acts: &[Act], way: Way) -> Play {
    let mut play = Play::new(fixture.step());
    play.all(acts, way);
    play
}

/// The whole run, which other runs are compared with.
fn whole(fixture: &dyn Fixture) -> Play {
    let acts = fixture.acts();
    let cuts = acts.iter().filter(|act| matches!(act, Act::Cut(_))).count();
    assert!(cuts >= 3 && acts.len() > cuts + 1, "a fixture has three seals and two batches");
    let play = play(fixture, &acts, Way::Whole);
    assert!(!play.rows().is_empty(), "something comes out of a fixture's step");
    play
}

/// Whether two runs have the same rows, seal by seal where each row has its seal.
fn assert_same(fixture: &dyn Fixture, found: &[Sealed], expected: &[Sealed], rule: &str) {
    let rows = |seals: &[Sealed]| sorted(seals.iter().flat_map(|sealed| sealed.rows.clone()).collect());
    assert_eq!(rows(found), rows(expected), "{rule}");
    if !fixture.leaves_later() {
        let by_seal = |seals: &[Sealed]| seals.iter().map(|sealed| sealed.rows.clone()).collect::<Vec<_>>();
        assert_eq!(by_seal(found), by_seal(expected), "{rule}, in the same seals");
        let held = |seals: &[Sealed]| seals.iter().map(|sealed| sealed.held).collect::<Vec<_>>();
        assert_eq!(held(found), held(expected), "{rule}, and holds as much");
    }
}

fn has_state(fixture: &dyn Fixture) -> bool {
    fixture.step().state().is_some()
}

/// Operator: work ahead, or in jobs, gives what the step alone gives.
pub fn a_batch_may_be_handed_over_in_any_way(fixture: &dyn Fixture) {
    let (whole, acts) = (whole(fixture), fixture.acts());
    for way in [Way::Ahead, Way::Divided] {
        let other = play(fixture, &acts, way);
        assert_same(fixture, &other.seals, &whole.seals, &format!("the rows are the same {way:?}"));
    }
}

/// Operator: one row a batch, or two and the rest.
pub fn batches_may_be_cut_anywhere(fixture: &dyn Fixture) {
    let whole = whole(fixture);
    for size in [1, 2] {
        let acts: Vec<Act> = fixture.acts().into_iter().flat_map(|act| cut(act, size)).collect();
        let other = play(fixture, &acts, Way::Whole);
        assert_same(fixture, &other.seals, &whole.seals, &format!("the rows are the same by {size}"));
    }
}

fn cut(act: Act, size: usize) -> Vec<Act> {
    let Act::Batch(input, batch) = act else { return vec![act] };
    let part = |first: usize| {
        let others: Vec<usize> =
            (0..batch.len()).filter(|row| !(first..first + size).contains(row)).collect();
        Act::Batch(input, batch.clone().without(&others).expect("columns that can be filtered"))
    };
    (0..batch.len()).step_by(size).map(part).collect()
}

/// Operator: batches between two seals the other way round, where that may not matter.
pub fn batches_may_come_in_any_order(fixture: &dyn Fixture) {
    if fixture.keeps_order() {
        return;
    }
    let mut acts = fixture.acts();
    let parts = acts.chunk_by_mut(|a, b| matches!(a, Act::Batch(..)) && matches!(b, Act::Batch(..)));
    parts.for_each(<[Act]>::reverse);
    let other = play(fixture, &acts, Way::Whole);
    assert_same(fixture, &other.seals, &whole(fixture).seals, "the rows are the same in any order");
}

/// Operator: a seal more, which does not move time.
pub fn a_seal_more_changes_nothing(fixture: &dyn Fixture) {
    if fixture.counts_seals() {
        return;
    }
    let (mut acts, mut watermark_ms) = (Vec::new(), None);
    for act in fixture.acts() {
        if let Act::Cut(ms) = act {
            watermark_ms = Some(ms);
        }
        acts.push(act);
        acts.extend(watermark_ms.map(Act::Cut));
    }
    let other = play(fixture, &acts, Way::Whole);
    assert_eq!(other.rows(), whole(fixture).rows(), "the rows are the same with a seal behind each batch");
}

/// State: from each seal on, its snapshot, all deltas, and an older snapshot with the deltas since give what the step gives that went on.
pub fn a_start_goes_on_from_any_seal(fixture: &dyn Fixture) {
    if !has_state(fixture) {
        return;
    }
    let (whole, acts) = (whole(fixture), fixture.acts());
    let first = fixture.step().state().map(|state| state.snapshot()).expect("it has state");
    let cuts: Vec<usize> =
        (0..acts.len()).filter(|at| matches!(acts[*at], Act::Cut(_))).map(|at| at + 1).collect();
    for (seal, rest) in cuts.iter().enumerate() {
        let deltas = |from: usize| whole.seals[from..=seal].iter().map(|sealed| sealed.delta.clone());
        let middle = seal / 2;
        for (what, snapshot, deltas) in [
            ("all deltas", &first, deltas(0).collect::<Vec<_>>()),
            ("its snapshot", &whole.seals[seal].snapshot, Vec::new()),
            ("an older snapshot", &whole.seals[middle].snapshot, deltas(middle + 1).collect()),
        ] {
            let step = restored(fixture.step(), &whole.files, snapshot, deltas);
            let step = step.unwrap_or_else(|error| panic!("seal {seal} by {what}: {error}"));
            let held = whole.seals[seal].held;
            let mut play = Play::of(step, whole.files.clone(), held, seal + 1);
            let found = play.step.state().expect("it has state").held();
            assert_eq!(found, held, "seal {seal} by {what}: it holds as much");
            play.all(&acts[*rest..], Way::Whole);
            let rule = format!("the rows behind seal {seal} are the same from {what}");
            assert_same(fixture, &play.seals, &whole.seals[seal + 1..], &rule);
        }
    }
}

/// State: what a new step would write is read, and changes nothing.
pub fn an_empty_state_is_a_state(fixture: &dyn Fixture) {
    let mut new = fixture.step();
    let Some(state) = new.state() else { return };
    let snapshot = state.snapshot();
    assert_eq!((state.held(), state.entries(), state.files().len()), (0, 0, 0), "a new step holds nothing");
    let mut step =
        restored(fixture.step(), &Default::default(), &snapshot, [Bytes::new()]).expect("its own state");
    let state = step.state().expect("it has state");
    assert_eq!((state.held(), state.entries()), (0, 0), "an empty state holds nothing");
    assert_eq!(state.snapshot(), snapshot, "it is written as it was read");
    let mut play = Play::new(step);
    play.all(&fixture.acts(), Way::Whole);
    assert_same(fixture, &play.seals, &whole(fixture).seals, "the rows are those of a new step");
}

/// State: bytes that a program did not write so are refused, each of them, and none makes the step panic.
pub fn damaged_state_is_an_error(fixture: &dyn Fixture) {
    if !has_state(fixture) {
        return;
    }
    let whole = whole(fixture);
    let largest = |of: fn(&Sealed) -> &Bytes| whole.seals.iter().max_by_key(|sealed| of(sealed).len());
    let snapshot = &largest(|sealed| &sealed.snapshot).expect("there are seals").snapshot;
    let delta = &largest(|sealed| &sealed.delta).expect("there are seals").delta;
    assert!(!snapshot.is_empty() && !delta.is_empty(), "a step with state has snapshots and deltas");
    for (what, bytes) in damaged(snapshot) {
        let mut step = fixture.step();
        let found = step.state().expect("it has state").restore(&bytes);
        assert!(found.is_err(), "a snapshot with {what} is taken");
    }
    for (what, bytes) in damaged(delta).into_iter().filter(|(_, bytes)| !bytes.is_empty()) {
        let mut step = fixture.step();
        let found = step.state().expect("it has state").apply(&bytes);
        assert!(found.is_err(), "a delta with {what} is taken");
    }
    let mut step = fixture.step();
    let state = step.state().expect("it has state");
    assert!(state.restore(delta).is_err(), "a delta is no snapshot");
    assert!(fixture.step().state().expect("it has state").apply(snapshot).is_err(), "a snapshot is no delta");
    damaged_files_are_errors(fixture, &whole);
}

/// The same of the parts of files that a start reads.
fn damaged_files_are_errors(fixture: &dyn Fixture, whole: &Play) {
    for sealed in &whole.seals {
        let reads = fixture.step().state().expect("it has state").restore(&sealed.snapshot);
        let reads = reads.expect("its own state");
        let Some(first) = reads.first() else { continue };
        let bytes = whole.read(std::slice::from_ref(first)).swap_remove(0);
        for (what, bytes) in damaged(&bytes) {
            let mut step = fixture.step();
            let state = step.state().expect("it has state");
            state.restore(&sealed.snapshot).expect("its own state");
            assert!(state.open(&bytes).is_err(), "a file with {what} is taken");
        }
        return;
    }
}

/// The bytes cut off at many places, and with one of them changed.
fn damaged(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let step = bytes.len() / DAMAGES_MAX + 1;
    let places = || (0..bytes.len()).step_by(step);
    let cut = places().map(|at| (format!("`{at}` of its `{}` bytes", bytes.len()), bytes[..at].to_vec()));
    let changed = places().map(|at| {
        let mut other = bytes.to_vec();
        other[at] ^= 1 << (at % 8);
        (format!("byte `{at}` changed"), other)
    });
    let longer = [("a byte more".to_owned(), [bytes, &[0]].concat())];
    cut.chain(changed).chain(longer).collect()
}

/// State: its shape tells it from that of other settings, which is refused with the way out.
pub fn state_of_other_settings_is_refused(fixture: &dyn Fixture) {
    let mut own = fixture.step();
    let Some(shape) = own.state().map(|state| state.shape()) else { return };
    let whole = whole(fixture);
    let last = whole.seals.last().expect("there are seals");
    for mut other in fixture.others() {
        let state = other.state().expect("another of the same word has state too");
        assert_ne!(state.shape(), shape, "other settings are another shape");
        match state.restore(&last.snapshot) {
            Err(StateError::Configured { was, now, way_out }) => {
                assert!(was != now && !way_out.is_empty(), "`{was}` and `{now}` differ, and: {way_out}");
            }
            found => panic!("the state of {shape} is taken by {}: {:?}", state.shape(), found.err()),
        }
    }
}

/// Operator: what comes behind a step is never later than it, and a lesser watermark lets nothing out.
pub fn time_does_not_go_back(fixture: &dyn Fixture) {
    let mut whole = whole(fixture);
    let watermarks: Vec<i64> = whole.seals.iter().map(|sealed| sealed.watermark_ms).collect();
    let behind: Vec<i64> = watermarks.iter().map(|ms| fixture.step().watermark_behind(*ms)).collect();
    assert!(behind.is_sorted(), "the watermark behind a step only grows: {behind:?}");
    assert!(behind.iter().zip(&watermarks).all(|(behind, ms)| behind <= ms), "and is not ahead of its own");
    let before = whole.seals.last().map(|sealed| sealed.held);
    whole.cut(watermarks[0].saturating_sub(1));
    let sealed = whole.seals.last().expect("it was just made");
    assert!(
        sealed.rows.is_empty() || fixture.counts_seals(),
        "time goes back, and lets out {:?}",
        sealed.rows
    );
    assert_eq!(Some(sealed.held), before, "time goes back, and something is released");
}

/// Operator: once every input has ended, all that waits is let out, and the step holds none of it.
pub fn closing_lets_out_what_is_held(fixture: &dyn Fixture) {
    let acts = fixture.acts();
    let last = acts.iter().rposition(|act| matches!(act, Act::Cut(_))).expect("there are seals");
    let mut play = Play::new(fixture.step());
    // Before the last seal, which may release all.
    play.all(&acts[..last], Way::Whole);
    let watermark_ms = play.seals.last().map_or(0, |sealed| sealed.watermark_ms);
    for _ in 0..acts.len() + 1_000 {
        play.read_ahead(watermark_ms, true);
        let outputs = play.step.close(watermark_ms).expect("its state is within its memory");
        outputs.into_iter().for_each(|output| play.let_out(output));
        play.sealed_at_the_end(watermark_ms);
        if !play.step.is_releasing() {
            assert_eq!(play.step.waiting(), 0, "`{}` holds rows that it has closed", play.step.name());
            return;
        }
    }
    panic!("`{}` still lets out what it has closed", play.step.name());
}

/// Operator: a batch that lacks the step's columns is an error of the pipeline, and no panic.
pub fn other_columns_are_an_error(fixture: &dyn Fixture) {
    if !fixture.reads_columns() {
        return;
    }
    let column: ArrayRef = Arc::new(BooleanArray::from(vec![true]));
    let batch = || Batch {
        items: Vec::new(),
        era: 0,
        partition: Partition::new("elsewhere", 0),
        rows: RecordBatch::try_from_iter([("elsewhere", column.clone())]).expect("a column"),
        positions: vec![1],
        times_ms: vec![1],
    };
    let mut step = fixture.step();
    for input in 0..step.inputs() {
        if let Some(ahead) = step.ahead_of(input) {
            assert!(ahead.apply(&batch()).is_err(), "work ahead of `{}` on other columns", step.name());
        }
        let probed = step.probe_of(input, batch());
        let finished = probed.and_then(|probed| step.finish(probed, &[]));
        assert!(finished.is_err(), "`{}` takes other columns", step.name());
    }
}

/// C10: a row whose key is forgotten passes when it comes again, once, and a start knows that.
pub fn a_forgotten_key_passes_once_more(fixture: &dyn Fixture) {
    let mut step = fixture.step();
    if step.seen_keys().is_none() {
        return;
    }
    let Some(Act::Batch(_, batch)) = fixture.acts().into_iter().find(|act| matches!(act, Act::Batch(..)))
    else {
        panic!("a fixture has batches");
    };
    let others: Vec<usize> = (1..batch.len()).collect();
    let one = batch.without(&others).expect("columns that can be filtered");
    let first = step.state().expect("it has keys").snapshot();
    let mut play = Play::new(step);
    let passes = |play: &mut Play| {
        play.batch(0, one.clone(), Way::Whole);
        play.cut(one.times_ms[0]);
        !play.seals.last().expect("it was just made").rows.is_empty()
    };
    assert!(passes(&mut play) && !passes(&mut play), "a key passes once");
    let mut probed = play.step.probe_of(0, one.clone()).expect("its columns");
    let answers = play.read(&std::mem::take(&mut probed.reads));
    play.step.seen_keys().expect("it has keys").forget(probed, &answers).expect("rows that were probed");
    play.cut(one.times_ms[0]);
    let deltas: Vec<Bytes> = play.seals.iter().map(|sealed| sealed.delta.clone()).collect();
    let twin = restored(fixture.step(), &play.files, &first, deltas).expect("its own state");
    let mut twin = Play::of(twin, play.files.clone(), 0, 0);
    for (what, play) in [("the step", &mut play), ("a start", &mut twin)] {
        assert!(passes(play), "{what} has forgotten the key");
        assert!(!passes(play), "{what} knows it again");
    }
}
