//! Steps that hide from the watermark what goes no further.
//!
//! Owns the hiding between the step that takes a row's event time and the one that keeps keys: the watermark observes the times in between.
//! The second step gets them back, so that what it keeps is as it was. Does not own the watermark (`engine::watermark`), nor the rule that
//! notices (`oracle::clock`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use dataflow::block::TIME_UNKNOWN_MS;
use dataflow::{Batch, Operator, OperatorError, Output, Probed, Schema, State, Transform, Transformed};

use crate::executor::lock;
use crate::plan::Plan;
use crate::records::from_columns;

/// What was hidden, by partition and position.
#[derive(Clone, Default)]
pub struct Hidden(Arc<Mutex<BTreeMap<(u32, u64), i64>>>);

/// The step that takes the event time, with the times of known keys hidden, or of those that no table gets.
pub struct LyingTime {
    inner: Arc<dyn Transform>,
    hidden: Hidden,
    keys: Mutex<BTreeSet<u64>>,
    dropped: Option<Plan>,
}

impl LyingTime {
    /// Around an honest one. With a plan, what its router drops is hidden, and not what came before.
    pub fn new(inner: Arc<dyn Transform>, hidden: Hidden, dropped: Option<Plan>) -> Self {
        Self { inner, hidden, keys: Mutex::new(BTreeSet::new()), dropped }
    }
}

impl Transform for LyingTime {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn schema(&self) -> &Schema {
        self.inner.schema()
    }

    /// The row of a key that came before goes no further, or hardly ever.
    fn apply(&self, batch: Batch) -> Result<Transformed, OperatorError> {
        let mut made = self.inner.apply(batch)?;
        let batch = &mut made.batch;
        let (mut hidden, mut keys) = (lock(&self.hidden.0), lock(&self.keys));
        for (n, [_, key, _]) in from_columns(&batch.rows).into_iter().enumerate() {
            let hides = match &self.dropped {
                Some(plan) => plan.is_dropped(key),
                None => !keys.insert(key),
            };
            if hides {
                let time_ms = std::mem::replace(&mut batch.times_ms[n], TIME_UNKNOWN_MS);
                hidden.insert((batch.partition.index, batch.positions[n]), time_ms);
            }
        }
        Ok(made)
    }
}

/// A step of the lane that gets the hidden times back.
pub struct LyingClock {
    inner: Box<dyn Operator>,
    hidden: Hidden,
}

impl LyingClock {
    /// Around an honest one.
    pub fn new(inner: Box<dyn Operator>, hidden: Hidden) -> Self {
        Self { inner, hidden }
    }

    fn show(&self, batch: &mut Batch) {
        let mut hidden = lock(&self.hidden.0);
        for (position, time_ms) in batch.positions.iter().zip(&mut batch.times_ms) {
            if let Some(true_ms) = hidden.remove(&(batch.partition.index, *position)) {
                *time_ms = true_ms;
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
        self.inner.finish(probed, answers)
    }

    fn multiplies(&self) -> bool {
        self.inner.multiplies()
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        self.inner.state()
    }
}
