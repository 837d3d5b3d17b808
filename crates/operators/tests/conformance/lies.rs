//! The suite notices a step that lies.
//!
//! Owns one lie for each kind of rule. Does not own the honest steps, which run the suite beside this (`main`).

use bytes::Bytes;
use dataflow::{Batch, Operator, OperatorError, Output, Probed, State, StateError, StateRead};
use operators::Window;

use super::{KINDS, Of, ms, run, window_of};

#[derive(Clone, Copy, PartialEq)]
enum Lie {
    /// Every second delta is empty.
    LostDelta,
    /// A snapshot is that of the seal before.
    OldSnapshot,
    /// Bytes that are refused count as an empty state.
    TakesAnything,
    /// One absorbed row of each batch is not counted.
    Uncounted,
    /// Nothing is ever due.
    NeverDue,
}

struct Lying {
    inner: Window,
    lie: Lie,
    seals: usize,
    snapshots: [Bytes; 2],
}

fn of(lie: Lie) {
    let new = move || {
        let inner = window_of(KINDS[0], ms(50), None);
        let empty = inner.snapshot();
        Lying { inner, lie, seals: 0, snapshots: [empty.clone(), empty] }
    };
    run(&Of::new(new));
}

impl Operator for Lying {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn probe(&mut self, batch: Batch) -> Result<Probed, OperatorError> {
        self.inner.probe(batch)
    }

    fn finish(&mut self, probed: Probed, answers: &[Vec<u8>]) -> Result<Output, OperatorError> {
        let mut output = self.inner.finish(probed, answers)?;
        if self.lie == Lie::Uncounted {
            output.absorbed = output.absorbed.saturating_sub(1);
        }
        Ok(output)
    }

    fn advance(&mut self, watermark_ms: i64) -> Result<Vec<Output>, OperatorError> {
        self.inner.advance(watermark_ms)
    }

    fn is_due(&self, watermark_ms: i64) -> bool {
        self.lie != Lie::NeverDue && self.inner.is_due(watermark_ms)
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(self)
    }
}

impl State for Lying {
    fn shape(&self) -> String {
        self.inner.shape()
    }

    fn seal(&mut self, watermark_ms: i64) -> Bytes {
        let delta = self.inner.seal(watermark_ms);
        if delta.is_empty() {
            return delta;
        }
        self.seals += 1;
        self.snapshots = [self.inner.snapshot(), std::mem::take(&mut self.snapshots[0])];
        let is_lost = self.lie == Lie::LostDelta && self.seals.is_multiple_of(2);
        if is_lost { Bytes::new() } else { delta }
    }

    fn snapshot(&self) -> Bytes {
        match self.lie {
            Lie::OldSnapshot => self.snapshots[1].clone(),
            _ => self.inner.snapshot(),
        }
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<Vec<StateRead>, StateError> {
        match self.inner.restore(snapshot) {
            Err(_) if self.lie == Lie::TakesAnything => Ok(Vec::new()),
            result => result,
        }
    }

    fn apply(&mut self, delta: &[u8]) -> Result<(), StateError> {
        self.inner.apply(delta)
    }

    fn held(&self) -> u64 {
        self.inner.held()
    }

    fn entries(&self) -> u64 {
        self.inner.entries()
    }

    fn memory_bytes(&self) -> u64 {
        self.inner.memory_bytes()
    }
}

#[test]
#[should_panic(expected = "by all deltas: it holds as much")]
fn a_delta_that_is_lost_is_noticed() {
    of(Lie::LostDelta);
}

#[test]
#[should_panic(expected = "by its snapshot: it holds as much")]
fn a_snapshot_of_the_seal_before_is_noticed() {
    of(Lie::OldSnapshot);
}

#[test]
#[should_panic(expected = "is taken")]
fn damage_that_is_taken_is_noticed() {
    of(Lie::TakesAnything);
}

#[test]
#[should_panic(expected = "every row put in has one fate")]
fn a_row_that_is_not_counted_is_noticed() {
    of(Lie::Uncounted);
}

#[test]
#[should_panic(expected = "that were not due")]
fn a_result_that_was_not_due_is_noticed() {
    of(Lie::NeverDue);
}
