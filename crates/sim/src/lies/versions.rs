//! A temporal join, or the upsert that has one within, that lies about its versions in files.
//!
//! Owns the lie that they can only tell with all of their state, in files too. Does not own those that any step with state can tell ([`super::step`]).

use std::any::Any;
use std::sync::Arc;

use bytes::Bytes;
use dataflow::{
    Ahead, Batch, Operator, OperatorError, Output, Probed, State, StateError, StateFile, StateRead, StateWork,
};

/// The step of a pipeline, which forgets at a start what its files hold.
pub struct LyingVersions<T>(T);

impl<T> LyingVersions<T> {
    /// Around an honest one.
    pub fn new(inner: T) -> Self {
        Self(inner)
    }
}

impl<T: Operator + State> Operator for LyingVersions<T> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn inputs(&self) -> usize {
        self.0.inputs()
    }

    fn ahead_of(&self, input: usize) -> Option<Arc<dyn Ahead>> {
        self.0.ahead_of(input)
    }

    fn probe(&mut self, batch: Batch) -> Result<Probed, OperatorError> {
        self.0.probe(batch)
    }

    fn probe_of(&mut self, input: usize, batch: Batch) -> Result<Probed, OperatorError> {
        self.0.probe_of(input, batch)
    }

    fn probe_ahead(
        &mut self,
        input: usize,
        batch: Batch,
        scratch: Box<dyn Any + Send>,
    ) -> Result<Probed, OperatorError> {
        self.0.probe_ahead(input, batch, scratch)
    }

    fn finish(&mut self, probed: Probed, answers: &[Vec<u8>]) -> Result<Output, OperatorError> {
        self.0.finish(probed, answers)
    }

    fn advance_reads(
        &mut self,
        watermark_ms: i64,
        is_closing: bool,
    ) -> Result<Vec<StateRead>, OperatorError> {
        self.0.advance_reads(watermark_ms, is_closing)
    }

    fn advance_read(&mut self, answers: &[Vec<u8>]) -> Result<(), OperatorError> {
        self.0.advance_read(answers)
    }

    fn advance(&mut self, watermark_ms: i64) -> Result<Vec<Output>, OperatorError> {
        self.0.advance(watermark_ms)
    }

    fn watermark_behind(&self, watermark_ms: i64) -> i64 {
        self.0.watermark_behind(watermark_ms)
    }

    fn is_due(&self, watermark_ms: i64) -> bool {
        self.0.is_due(watermark_ms)
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(self)
    }
}

impl<T: Operator + State> State for LyingVersions<T> {
    fn shape(&self) -> String {
        self.0.shape()
    }

    fn absorbs(&self) -> bool {
        self.0.absorbs()
    }

    fn seal(&mut self, watermark_ms: i64) -> Bytes {
        self.0.seal(watermark_ms)
    }

    fn snapshot(&self) -> Bytes {
        self.0.snapshot()
    }

    fn files(&self) -> Vec<StateFile> {
        self.0.files()
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<Vec<StateRead>, StateError> {
        // Nothing of the files is asked for.
        self.0.restore(snapshot).map(|_| Vec::new())
    }

    fn apply(&mut self, delta: &[u8]) -> Result<(), StateError> {
        self.0.apply(delta)
    }

    fn work(&mut self) -> Option<Box<dyn StateWork>> {
        self.0.work()
    }

    fn adopt(&mut self, work: Box<dyn StateWork>) -> Result<(), StateError> {
        self.0.adopt(work)
    }

    fn is_crowded(&self) -> bool {
        self.0.is_crowded()
    }

    fn held(&self) -> u64 {
        self.0.held()
    }

    fn unsealed_bytes(&self) -> u64 {
        self.0.unsealed_bytes()
    }

    fn entries(&self) -> u64 {
        self.0.entries()
    }

    fn spilled_entries(&self) -> u64 {
        self.0.spilled_entries()
    }

    fn memory_bytes(&self) -> u64 {
        self.0.memory_bytes()
    }
}
