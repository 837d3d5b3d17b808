//! Steps that hide from the watermark what goes no further.
//!
//! Owns the hiding between the step that reads a row's time and the one that keeps keys: the lane looks at the times in between. The
//! second step gets them back, so that what it keeps is as it was.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use dataflow::block::TIME_UNKNOWN_MS;
use dataflow::{Batch, KeyedState, Operator, OperatorError, Output, Probed};

use crate::executor::lock;
use crate::records::from_columns;

/// What was hidden, by partition and position.
#[derive(Clone, Default)]
pub struct Hidden(Arc<Mutex<BTreeMap<(u32, u64), i64>>>);

/// A step around an honest one.
pub struct LyingClock {
    inner: Box<dyn Operator>,
    hidden: Hidden,
    keys: BTreeSet<u64>,
}

impl LyingClock {
    /// Each step of a pipeline gets one.
    pub fn new(inner: Box<dyn Operator>, hidden: Hidden) -> Self {
        Self { inner, hidden, keys: BTreeSet::new() }
    }

    fn show(&self, batch: &mut Batch) {
        let mut hidden = lock(&self.hidden.0);
        for (position, time_ms) in batch.positions.iter().zip(&mut batch.times_ms) {
            if let Some(true_ms) = hidden.remove(&(batch.partition.index, *position)) {
                *time_ms = true_ms;
            }
        }
    }

    /// The row of a key that came before goes no further, or hardly ever.
    fn hide(&mut self, batch: &mut Batch) {
        let mut hidden = lock(&self.hidden.0);
        for (n, [_, key, _]) in from_columns(&batch.rows).into_iter().enumerate() {
            if !self.keys.insert(key) {
                let time_ms = std::mem::replace(&mut batch.times_ms[n], TIME_UNKNOWN_MS);
                hidden.insert((batch.partition.index, batch.positions[n]), time_ms);
            }
        }
    }
}

impl Operator for LyingClock {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn probe(&mut self, mut batch: Batch) -> Result<Probed, OperatorError> {
        self.show(&mut batch);
        self.inner.probe(batch)
    }

    fn finish(&mut self, probed: Probed, answers: &[Vec<u8>]) -> Result<Output, OperatorError> {
        let mut output = self.inner.finish(probed, answers)?;
        if self.inner.state().is_none() {
            self.hide(&mut output.batch);
        }
        Ok(output)
    }

    fn state(&mut self) -> Option<&mut dyn KeyedState> {
        self.inner.state()
    }
}
