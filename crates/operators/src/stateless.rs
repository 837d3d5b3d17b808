//! A step without state in the lane: behind a step whose rows exist only there.
//!
//! Owns the shape: a [`Transform`] as an [`Operator`]. Does not own what the step computes, nor where steps run: where one can run in the
//! decode job it does ([`dataflow::Intake`]), and where it can run ahead of a step with state it does as well ([`crate::ahead`]).

use std::sync::Arc;

use dataflow::{Operator, OperatorError, Output, Probed, State, Transform, Transformed};

/// A step without state, as a step of the lane.
pub struct Stateless(pub Arc<dyn Transform>);

impl Operator for Stateless {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn probe(&mut self, batch: dataflow::Batch) -> Result<Probed, OperatorError> {
        Ok(Probed { batch, reads: Vec::new(), scratch: None })
    }

    fn finish(&mut self, probed: Probed, _answers: &[Vec<u8>]) -> Result<Output, OperatorError> {
        let rows = probed.batch.len() as u64;
        let Transformed { batch, filtered, rejects } = self.0.apply(probed.batch)?;
        let made = batch.len() as u64 + filtered + rejects.len() as u64;
        let Some(added) = made.checked_sub(rows) else {
            let message = format!("of `{rows}` rows some are neither passed on nor dropped");
            return Err(OperatorError { step: self.name().to_owned(), message });
        };
        Ok(Output { added, filtered, rejects, ..Output::all(batch) })
    }

    fn multiplies(&self) -> bool {
        self.0.multiplies()
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        None
    }
}
