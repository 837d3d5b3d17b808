//! A step that closes what is open when it should not.
//!
//! Owns the lies about when every input has ended, and about the watermark behind a step. Does not own those about what is then sealed
//! ([`super::step`]), nor a source that forgets that it has ended (`broker`).

use std::any::Any;
use std::sync::Arc;

use dataflow::{Ahead, Batch, Operator, OperatorError, Output, Probed, State, StateRead};

use crate::executor::Pid;
use crate::variant::Variant;
use crate::world::World;

/// A step that closes by itself.
pub struct LyingEnd {
    inner: Box<dyn Operator>,
    world: Arc<World>,
    pid: Pid,
    variant: Variant,
}

impl LyingEnd {
    /// Around an honest one.
    pub fn new(inner: Box<dyn Operator>, world: Arc<World>, pid: Pid, variant: Variant) -> Self {
        Self { inner, world, pid, variant }
    }

    fn closes(&self) -> bool {
        let state = self.world.state();
        match self.variant {
            Variant::ClosedByADrain => state.oracle.is_drain(self.pid),
            Variant::BehindNotHeldBack
            | Variant::ClosedBehindTooEarly
            | Variant::JoinNotHeldBack
            | Variant::OuterRowsNotAwaited => false,
            _ => state.broker.has_told_an_end(self.pid),
        }
    }
}

impl Operator for LyingEnd {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn inputs(&self) -> usize {
        self.inner.inputs()
    }

    fn ahead_of(&self, input: usize) -> Option<Arc<dyn Ahead>> {
        self.inner.ahead_of(input)
    }

    fn probe(&mut self, batch: Batch) -> Result<Probed, OperatorError> {
        self.inner.probe(batch)
    }

    fn probe_of(&mut self, input: usize, batch: Batch) -> Result<Probed, OperatorError> {
        self.inner.probe_of(input, batch)
    }

    fn probe_ahead(
        &mut self,
        input: usize,
        batch: Batch,
        scratch: Box<dyn Any + Send>,
    ) -> Result<Probed, OperatorError> {
        self.inner.probe_ahead(input, batch, scratch)
    }

    fn finish(&mut self, probed: Probed, answers: &[Vec<u8>]) -> Result<Output, OperatorError> {
        self.inner.finish(probed, answers)
    }

    fn multiplies(&self) -> bool {
        self.inner.multiplies()
    }

    fn advance_reads(
        &mut self,
        watermark_ms: i64,
        is_closing: bool,
    ) -> Result<Vec<StateRead>, OperatorError> {
        let closes = is_closing || self.closes();
        self.inner.advance_reads(watermark_ms, closes)
    }

    fn advance_read(&mut self, answers: &[Vec<u8>]) -> Result<(), OperatorError> {
        self.inner.advance_read(answers)
    }

    fn advance(&mut self, watermark_ms: i64) -> Result<Vec<Output>, OperatorError> {
        if self.closes() { self.inner.close(watermark_ms) } else { self.inner.advance(watermark_ms) }
    }

    fn watermark_behind(&self, watermark_ms: i64) -> i64 {
        match (self.variant, self.world.plan.joins) {
            (Variant::BehindNotHeldBack | Variant::JoinNotHeldBack, _) => watermark_ms,
            (Variant::OuterRowsNotAwaited, Some(joins)) if self.inner.inputs() == 2 => {
                watermark_ms.saturating_sub(joins.lateness_ms)
            }
            _ => self.inner.watermark_behind(watermark_ms),
        }
    }

    fn at(&mut self, wall_ms: i64) {
        self.inner.at(wall_ms);
    }

    fn is_due(&self, watermark_ms: i64) -> bool {
        self.inner.is_due(watermark_ms)
    }

    fn is_releasing(&self) -> bool {
        self.inner.is_releasing()
    }

    fn closes_at_end(&self) -> bool {
        self.inner.closes_at_end()
    }

    fn close(&mut self, watermark_ms: i64) -> Result<Vec<Output>, OperatorError> {
        self.inner.close(watermark_ms)
    }

    fn waiting(&mut self) -> u64 {
        match self.variant {
            // As if nothing more came to the step behind.
            Variant::ClosedBehindTooEarly if self.inner.is_releasing() => 0,
            _ => self.inner.waiting(),
        }
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        self.inner.state()
    }
}
