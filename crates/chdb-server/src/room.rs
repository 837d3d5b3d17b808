//! The bound on the memory of request bodies, on the wire and unpacked.
//!
//! Owns the count of what all bodies hold, and who waits: a body of known length before it is read, none that holds a part already. Does
//! not own the size of the bounds (`serve`), nor the bytes.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::compression::{self, Room};
use crate::response::Failure;

/// Permits are counted in units of this size, since a semaphore's counts are small.
const UNIT_BYTES: u64 = 4096;

/// The memory that the bodies of all requests may take together.
pub struct Budget {
    units: Arc<Semaphore>,
    body_bytes_max: u64,
}

impl Budget {
    /// Room for `total_bytes` in all and `body_bytes_max` a body; the total is raised to one body if it is less.
    pub fn new(total_bytes: u64, body_bytes_max: u64) -> Budget {
        let units = total_bytes.max(body_bytes_max).div_ceil(UNIT_BYTES).min(u64::from(u32::MAX));
        let units = usize::try_from(units).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        Budget { units: Arc::new(Semaphore::new(units)), body_bytes_max }
    }

    /// An empty share, which grows as bytes come.
    pub fn share(&self) -> Share {
        Share {
            units: Arc::clone(&self.units),
            held: Vec::new(),
            bytes: 0,
            free: 0,
            bytes_max: self.body_bytes_max,
        }
    }

    /// A share of a body whose length is known: waits for its room.
    pub async fn wait_for(&self, bytes: u64) -> Result<Share, Failure> {
        if bytes > self.body_bytes_max {
            return Err(compression::too_large(self.body_bytes_max));
        }
        let mut share = self.share();
        let units = units_for(bytes);
        if let Ok(permit) = Arc::clone(&self.units).acquire_many_owned(units).await {
            share.held.push(permit);
            share.free = u64::from(units) * UNIT_BYTES;
        }
        Ok(share)
    }
}

fn units_for(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX)
}

/// What one body holds of the budget, given back when it is dropped.
pub struct Share {
    units: Arc<Semaphore>,
    held: Vec<OwnedSemaphorePermit>,
    /// Bytes taken so far.
    bytes: u64,
    /// Bytes held and not yet taken.
    free: u64,
    bytes_max: u64,
}

/// Taken at once as a body of unknown length grows, so that few permits are made.
const STEP_BYTES: u64 = 4 << 20;

impl Room for Share {
    fn take(&mut self, bytes: usize) -> Result<(), Failure> {
        let bytes = bytes as u64;
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.bytes_max {
            return Err(compression::too_large(self.bytes_max));
        }
        if bytes > self.free {
            let missing = bytes - self.free;
            // A body is refused rather than made to wait while it holds a part: two such could wait for each other.
            let permit = [missing.max(STEP_BYTES), missing].into_iter().find_map(|step| {
                let units = units_for(step);
                Arc::clone(&self.units).try_acquire_many_owned(units).ok().map(|permit| (permit, units))
            });
            let (permit, units) = permit.ok_or_else(compression::no_room)?;
            self.held.push(permit);
            self.free += u64::from(units) * UNIT_BYTES;
        }
        self.free -= bytes;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
