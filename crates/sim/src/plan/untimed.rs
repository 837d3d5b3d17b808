//! Seeds in which one partition yields nothing with a time, all the time.
//!
//! Owns the evenly spaced records, and that nothing else goes wrong. Does not own what the oracle says of such a partition (`oracle::clock`), which holds only while it
//! is heard without a pause.

use std::time::Duration;

use super::Plan;
use crate::executor::WALL_BEGIN_MS;

/// From one record to the next, microseconds.
const EVERY_US: u64 = 50_000;
/// How far times are behind, milliseconds.
const BEHIND_MS: i64 = 100;

impl Plan {
    /// The plan of the same seed whose last partition of the beginning has rejects alone.
    pub fn untimed(seed: u64) -> Self {
        let mut plan = Self::new(seed);
        plan.faults.clear();
        plan.poison.clear();
        plan.settings.idle_after = Duration::from_secs(1);
        plan.window = plan.window.or(Some(Duration::from_secs(16)));
        let untimed = plan.partitions - 1;
        for (n, arrival) in plan.arrivals.iter_mut().enumerate() {
            arrival.at_us = n as u64 * EVERY_US;
            arrival.record.time_ms = WALL_BEGIN_MS + (arrival.at_us / 1_000) as i64 - BEHIND_MS;
            arrival.record.is_good &= arrival.partition != untimed;
        }
        plan
    }
}
