//! What is sealed and not settled: state shared between the lane's tasks.
//!
//! Owns the flags and wake-ups between reading, sealing and delivering. Does not own the bounds (`Settings`) or the waiting itself
//! ([`crate::seal`], [`crate::lane`]).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Notify;

/// The spool of a lane.
#[derive(Default)]
pub struct Spool {
    /// Woken whenever a frontier was recorded: there is room in the spool again.
    pub room: Notify,
    /// Woken when a cut was sealed or a frame settled: the lane, when it has read all, waits for the last of them.
    pub quiet: Notify,
    is_full: AtomicBool,
    refusals: AtomicUsize,
    is_closing: AtomicBool,
}

impl Spool {
    /// True while seals wait for room.
    pub fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Acquire)
    }

    /// Whether seals wait for room.
    pub fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::Release);
    }

    /// The spool holds `bytes` of at most `bytes_max` now: with less than the bound the lane may read again, and the next seal judges.
    pub fn see(&self, bytes: u64, bytes_max: u64) {
        if bytes == 0 || bytes < bytes_max {
            self.set_full(false);
        }
        self.room.notify_one();
        self.quiet.notify_one();
    }

    /// A refused row is on its way to be sealed as a dead letter. Seals do not wait for room while there are any: what they
    /// wait for may be the frame of such a row, whose dead letter stands behind them.
    pub fn add_refusal(&self) {
        self.refusals.fetch_add(1, Ordering::AcqRel);
        self.room.notify_one();
    }

    /// So many refused rows were sealed as dead letters.
    pub fn sealed_refusals(&self, count: usize) {
        self.refusals.fetch_sub(count, Ordering::AcqRel);
    }

    /// Whether refused rows are not sealed as dead letters yet.
    pub fn has_refusals(&self) -> bool {
        self.refusals.load(Ordering::Acquire) > 0
    }

    /// No more frames will be sealed.
    pub fn close(&self) {
        self.is_closing.store(true, Ordering::Release);
    }

    /// True when no more frames will be sealed.
    pub fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }
}
