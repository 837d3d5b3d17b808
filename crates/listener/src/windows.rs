//! How much all connections of HTTP/2 together may have received that nobody has read yet.
//!
//! Owns the shares. Does not own the reading: as a rule requests are read as they come, and the windows are empty.
//!
//! A window is a promise: its client may send that much, whatever else the server does. What is promised to many connections is bounded here, so
//! that senders who fill their windows at the same time take no more memory than was given for that.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Every connection has this window before the server has said a word; the protocol does not let it have less.
const LEAST_BYTES: u32 = 65_535;
/// The most beyond that for one connection: a sender 50 ms away still gets 20 MB/s through.
const SHARE_MAX_BYTES: u32 = 1 << 20;
/// A connection takes at most this part of what is left, so that no late one stands before nothing.
const PART: usize = 8;
/// What a permit stands for: semaphores count less than `usize` holds.
const PERMIT_BYTES: u32 = 1 << 10;

/// Bytes for the windows of connections, beyond the 64 KiB that each has anyway. Clones share them.
#[derive(Debug, Clone)]
pub struct Windows(Arc<Semaphore>);

/// A connection's window, until this is dropped.
#[derive(Debug)]
pub(crate) struct Window {
    /// Of the connection.
    pub(crate) bytes: u32,
    _share: Option<OwnedSemaphorePermit>,
}

impl Windows {
    /// For all connections together, in bytes.
    pub fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new((bytes / PERMIT_BYTES as usize).min(Semaphore::MAX_PERMITS))))
    }

    /// One more connection's: 1 MiB beyond the least while there is much, then less, and at last the least alone.
    pub(crate) fn open(&self) -> Window {
        let most = SHARE_MAX_BYTES / PERMIT_BYTES;
        let permits = u32::try_from(self.0.available_permits() / PART).map_or(most, |part| part.min(most));
        // Another connection may have taken them since they were counted: then this one has the least.
        let share = Arc::clone(&self.0).try_acquire_many_owned(permits).ok();
        let more = if share.is_some() { permits * PERMIT_BYTES } else { 0 };
        Window { bytes: LEAST_BYTES + more, _share: share }
    }
}

impl Window {
    /// Of one request: half of the connection's, so that others can go on beside it, but not less than the least.
    pub(crate) fn of_request(&self) -> u32 {
        (self.bytes / 2).max(LEAST_BYTES)
    }
}

#[cfg(test)]
mod tests;
