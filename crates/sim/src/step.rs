//! A step without state that makes other columns of a batch.
//!
//! Owns the form of such a step, which those around a window, a join and an upsert share. Does not own which columns they make (`results`, `pairs`, `changes`).

use arrow_array::RecordBatch;
use dataflow::{Batch, Operator, OperatorError, Output, Probed, State};

/// The step of this name, which makes as many rows by `make`.
pub struct Remade<F> {
    name: &'static str,
    make: F,
}

impl<F: Fn(&Batch) -> RecordBatch + Send> Remade<F> {
    /// A step of this name.
    pub fn new(name: &'static str, make: F) -> Self {
        Self { name, make }
    }
}

impl<F: Fn(&Batch) -> RecordBatch + Send> Operator for Remade<F> {
    fn name(&self) -> &str {
        self.name
    }

    fn probe(&mut self, batch: Batch) -> Result<Probed, OperatorError> {
        Ok(Probed { batch, reads: Vec::new(), scratch: None })
    }

    fn finish(&mut self, probed: Probed, _answers: &[Vec<u8>]) -> Result<Output, OperatorError> {
        let rows = (self.make)(&probed.batch);
        Ok(Output::all(Batch { rows, ..probed.batch }))
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        None
    }
}
