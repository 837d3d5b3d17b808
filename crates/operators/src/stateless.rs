//! A step without state in the lane: behind a step whose rows exist only there.
//!
//! Owns the shape: a [`Transform`] as an [`Operator`]. Does not own what the step computes, nor where steps run: where one can run in the
//! decode job it does ([`dataflow::Intake`]), and where it can run ahead of a step with state it does as well ([`crate::ahead`]).

use std::sync::Arc;

use dataflow::{Operator, OperatorError, Output, Probed, Schema, State, Transform, Transformed};

/// A step without state, as a step of the lane.
pub struct Stateless {
    step: Arc<dyn Transform>,
    columns: Schema,
}

impl Stateless {
    /// The step, for rows with these columns.
    pub fn new(step: Arc<dyn Transform>, columns: Schema) -> Self {
        Self { step, columns }
    }
}

impl Operator for Stateless {
    fn name(&self) -> &str {
        self.step.name()
    }

    fn columns(&self, _input: usize) -> Option<&Schema> {
        Some(&self.columns)
    }

    fn probe(&mut self, batch: dataflow::Batch) -> Result<Probed, OperatorError> {
        Ok(Probed { batch, reads: Vec::new(), scratch: None })
    }

    fn finish(&mut self, probed: Probed, _answers: &[Vec<u8>]) -> Result<Output, OperatorError> {
        let rows = probed.batch.len() as u64;
        let Transformed { batch, filtered, rejects } = self.step.apply(probed.batch)?;
        let made = batch.len() as u64 + filtered + rejects.len() as u64;
        let Some(added) = made.checked_sub(rows) else {
            let message = format!("of `{rows}` rows some are neither passed on nor dropped");
            return Err(OperatorError { step: self.name().to_owned(), message });
        };
        Ok(Output { added, filtered, rejects, ..Output::all(batch) })
    }

    fn multiplies(&self) -> bool {
        self.step.multiplies()
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        None
    }
}
