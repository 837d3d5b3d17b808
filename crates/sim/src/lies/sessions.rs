//! A window whose sessions a start takes apart.
//!
//! Owns one lie: records that come after a start do not become a part of the sessions that the start has found. What is sealed as state is what an honest
//! window seals. Does not own other lies of windows ([`super::windows`]).

use std::sync::Arc;

use bytes::Bytes;
use dataflow::{Ahead, Batch, Operator, OperatorError, Output, Probed, State, StateError, StateRead};
use operators::Window;

use crate::world::World;

/// A window with one session more for each that reaches over a start.
pub struct TornSessions {
    /// What it should be.
    honest: Window,
    /// What a start has found, and nothing later.
    found: Window,
    /// What came later.
    later: Window,
    world: Arc<World>,
    is_restored: bool,
    /// Whether any batch or time came since.
    has_begun: bool,
}

impl TornSessions {
    /// Of three honest ones.
    pub fn new(windows: [Window; 3], world: Arc<World>) -> Self {
        let [honest, found, later] = windows;
        Self { honest, found, later, world, is_restored: false, has_begun: false }
    }

    /// The later one knows what time it is.
    fn begin(&mut self) -> Result<(), OperatorError> {
        if self.is_restored && !std::mem::replace(&mut self.has_begun, true) {
            let watermark_ms = self.world.state().oracle.watermark_ms();
            self.later.advance(watermark_ms)?;
            self.later.seal(watermark_ms);
        }
        Ok(())
    }
}

fn put(window: &mut Window, batch: Batch) -> Result<Output, OperatorError> {
    let probed = window.probe(batch)?;
    window.finish(probed, &[])
}

impl Operator for TornSessions {
    fn name(&self) -> &str {
        self.honest.name()
    }

    fn ahead(&self) -> Option<Arc<dyn Ahead>> {
        None
    }

    fn probe(&mut self, batch: Batch) -> Result<Probed, OperatorError> {
        Ok(Probed { batch, reads: Vec::new(), scratch: None })
    }

    fn finish(&mut self, probed: Probed, _answers: &[Vec<u8>]) -> Result<Output, OperatorError> {
        self.begin()?;
        let output = put(&mut self.honest, probed.batch.clone())?;
        if self.is_restored { put(&mut self.later, probed.batch) } else { Ok(output) }
    }

    fn advance(&mut self, watermark_ms: i64) -> Result<Vec<Output>, OperatorError> {
        self.begin()?;
        let outputs = self.honest.advance(watermark_ms)?;
        if !self.is_restored {
            return Ok(outputs);
        }
        let mut torn = self.found.advance(watermark_ms)?;
        torn.extend(self.later.advance(watermark_ms)?);
        Ok(torn)
    }

    fn is_due(&self, watermark_ms: i64) -> bool {
        let all = [&self.honest, &self.found, &self.later];
        all.iter().any(|window| window.is_due(watermark_ms))
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(self)
    }
}

impl State for TornSessions {
    fn shape(&self) -> String {
        self.honest.shape()
    }

    fn absorbs(&self) -> bool {
        true
    }

    fn seal(&mut self, watermark_ms: i64) -> Bytes {
        if self.is_restored {
            self.found.seal(watermark_ms);
            self.later.seal(watermark_ms);
        }
        self.honest.seal(watermark_ms)
    }

    fn snapshot(&self) -> Bytes {
        self.honest.snapshot()
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<Vec<StateRead>, StateError> {
        self.is_restored = true;
        self.found.restore(snapshot)?;
        self.honest.restore(snapshot)
    }

    fn apply(&mut self, delta: &[u8]) -> Result<(), StateError> {
        self.is_restored = true;
        self.found.apply(delta)?;
        self.honest.apply(delta)
    }

    fn held(&self) -> u64 {
        match self.is_restored {
            true => self.found.held() + self.later.held(),
            false => self.honest.held(),
        }
    }

    fn entries(&self) -> u64 {
        self.honest.entries()
    }

    fn memory_bytes(&self) -> u64 {
        self.honest.memory_bytes()
    }
}
