//! Bytes in memory for requests that were not answered: of all of them together, and of each stream.
//!
//! Owns the counting. Does not own how large the room is (`gateway::options`), nor when something is held (`gateway::body`,
//! `gateway::stream`). What is held goes back when [`Held`] is dropped, whatever became of the request.
//!
//! Nobody waits here: a request that finds no room is told to come again. One that waited would hold a connection and what it has sent so far, and
//! the senders behind it would not learn that they are too fast.

use std::sync::Arc;

use metrics::gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::refusal::{Kind, Refusal};

/// Bytes that one permit stands for.
const PERMIT_BYTES: usize = 1 << 10;

/// A bound on bytes in memory, of which requests hold parts.
#[derive(Clone, Debug)]
pub struct Budget {
    room: Arc<Semaphore>,
    bytes: usize,
    /// What the room is for, in messages.
    of: Arc<str>,
}

/// Bytes that are held, of two budgets at once.
#[derive(Debug)]
pub struct Held {
    all: (Budget, OwnedSemaphorePermit),
    own: (Budget, OwnedSemaphorePermit),
}

impl Budget {
    /// A budget of `bytes`; `of` names what it is for in messages.
    pub fn new(of: &str, bytes: usize) -> Self {
        let permits = bytes.div_ceil(PERMIT_BYTES).min(Semaphore::MAX_PERMITS);
        Self { room: Arc::new(Semaphore::new(permits)), bytes, of: of.into() }
    }

    /// Bytes that are held.
    pub fn held_bytes(&self) -> usize {
        self.bytes.saturating_sub(self.room.available_permits() * PERMIT_BYTES)
    }

    fn take(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Refusal> {
        let permits = u32::try_from(bytes.div_ceil(PERMIT_BYTES)).unwrap_or(u32::MAX);
        self.room.clone().try_acquire_many_owned(permits).map_err(|_| {
            Refusal::new(
                Kind::Busy,
                format!(
                    "requests hold as many bytes as {} may have ({}); send again later",
                    self.of, self.bytes
                ),
            )
        })
    }
}

impl Held {
    /// Holds nothing yet, of both.
    pub fn none(all: &Budget, own: &Budget) -> Self {
        let nothing = |budget: &Budget| budget.take(0).expect("no permit is always there");
        Self { all: (all.clone(), nothing(all)), own: (own.clone(), nothing(own)) }
    }

    /// Nothing of the same budgets.
    pub fn another(&self) -> Self {
        Self::none(&self.all.0, &self.own.0)
    }

    /// Holds `bytes` more, of both budgets.
    ///
    /// # Errors
    /// [`Kind::Busy`] when one of the two has no room; what was held stays so.
    pub fn take(&mut self, bytes: usize) -> Result<(), Refusal> {
        let own = self.own.0.take(bytes)?;
        let all = self.all.0.take(bytes)?;
        self.own.1.merge(own);
        self.all.1.merge(all);
        gauge!("forebay_gateway_memory_bytes").set(self.all.0.held_bytes() as f64);
        Ok(())
    }

    /// Holds also what another one holds, of the same budgets.
    pub fn merge(&mut self, mut other: Self) {
        let of = |permit: &mut OwnedSemaphorePermit| permit.split(permit.num_permits());
        if let (Some(own), Some(all)) = (of(&mut other.own.1), of(&mut other.all.1)) {
            self.own.1.merge(own);
            self.all.1.merge(all);
        }
    }

    /// Bytes that are held.
    pub fn bytes(&self) -> usize {
        self.all.1.num_permits() * PERMIT_BYTES
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // What this one holds comes back right after.
        let left = self.all.0.held_bytes().saturating_sub(self.bytes());
        gauge!("forebay_gateway_memory_bytes").set(left as f64);
    }
}

#[cfg(test)]
mod tests;
