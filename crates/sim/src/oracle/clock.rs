//! How far the watermark must have come: what stands still for ever frees no state.
//!
//! Owns an account of its own of the published rule of the lane's clock (`engine::watermark`), from below: the half of a partition's newest
//! records that is older moves its clock, whatever becomes of them, and a partition that yields records all the time and none with a time holds the watermark
//! only for so long. Does not own that the watermark does not come too far (`oracle::fold`).

use std::collections::{BTreeMap, VecDeque};

use super::Broken;
use crate::executor::WALL_BEGIN_MS;
use crate::plan::{Fault, Plan};
use crate::records::Record;

/// Records of a partition whose middle moves its clock.
const RECENT: usize = 128;

/// The part of the time to be idle that a pause without a record must have, so that the process may have been deaf in it: then the time begins again.
const PAUSE_PART: u64 = 4;

/// What is known of a partition's clock.
#[derive(Clone, Debug, Default)]
struct Known {
    /// It stands there at the least; outlives a process.
    least_ms: Option<i64>,
    /// Times of the newest records that the owner has read.
    recent: VecDeque<i64>,
    /// When the first of the records was sealed that the owner has read without a pause in which it may have been deaf.
    since_us: Option<u64>,
    /// When the newest of them was sealed, and when it came.
    sealed_us: u64,
    came_us: u64,
}

/// The clocks of all partitions.
#[derive(Clone, Debug)]
pub struct Clocks {
    /// False where nobody looks at times, and where a process may take it to be earlier than it is.
    is_judged: bool,
    idle_after_us: u64,
    future_ms_max: i64,
    /// When each record came to the broker, microseconds, by its id less one.
    arrivals_us: Vec<u64>,
    known: BTreeMap<usize, Known>,
}

impl Clocks {
    /// Nothing was read.
    pub fn new(plan: &Plan) -> Self {
        let goes_back = |f: &Fault| matches!(f, Fault::ClockJump { by_ms: ..0, .. });
        Self {
            is_judged: plan.window.is_some() && !plan.faults.iter().any(goes_back),
            idle_after_us: plan.settings.idle_after.as_micros() as u64,
            future_ms_max: plan.settings.future_ms_max,
            arrivals_us: plan.arrivals.iter().map(|arrival| arrival.at_us).collect(),
            known: BTreeMap::new(),
        }
    }

    /// A partition is read again, and its clock begins again.
    pub fn begin_again(&mut self, partition: usize) {
        self.known.remove(&partition);
    }

    /// A process begins, which has read nothing.
    pub fn claimed(&mut self) {
        for known in self.known.values_mut() {
            known.recent.clear();
            known.since_us = None;
        }
    }

    /// Records of a partition are sealed, whose clock stands at `clock_ms`.
    pub fn read(
        &mut self,
        partition: usize,
        read: &[Record],
        clock_ms: i64,
        now_us: u64,
    ) -> Result<(), Broken> {
        let Some(came_us) = self.came_us(read) else { return Ok(()) };
        let known = self.known.entry(partition).or_default();
        if now_us.saturating_sub(known.sealed_us) >= self.idle_after_us / PAUSE_PART {
            known.since_us = None;
        }
        known.since_us.get_or_insert(now_us);
        (known.sealed_us, known.came_us) = (now_us, came_us);
        known.recent.extend(read.iter().filter(|r| r.is_good).map(|r| r.time_ms));
        known.recent.drain(..known.recent.len().saturating_sub(RECENT));
        let mut sorted: Vec<i64> = known.recent.iter().copied().collect();
        sorted.sort_unstable();
        let Some(last) = sorted.len().checked_sub(1) else { return Ok(()) };
        // What is ahead of the time moves no clock further than the clamp; the process read them after they came.
        let ahead_ms_max = WALL_BEGIN_MS + (came_us / 1_000) as i64 + self.future_ms_max;
        known.least_ms = known.least_ms.max(Some(sorted[last / 2].min(ahead_ms_max)));
        match known.least_ms {
            Some(least_ms) if self.is_judged && clock_ms < least_ms => Err((
                "C6",
                format!(
                    "the clock of partition {partition} stands {} ms behind the half of its newest records",
                    least_ms.saturating_sub(clock_ms)
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Those records were cut together, and the watermark was taken then. `partitions` are the lane's.
    pub fn sealed(&self, partitions: &[usize], read: &[Record], watermark_ms: i64) -> Result<(), Broken> {
        if !self.is_judged || self.came_us(read).is_none() {
            return Ok(());
        }
        let is_idle = |n: &usize| {
            // Times without listening do not count. Pauses of half of the time that are too short to be seen here may be such.
            self.known.get(n).is_some_and(|known| {
                let is_long = |since| known.came_us.saturating_sub(since) > 2 * self.idle_after_us;
                known.recent.is_empty() && known.since_us.is_some_and(is_long)
            })
        };
        let least_of = |n: &usize| self.known.get(n).and_then(|known| known.least_ms);
        // One of which nothing is known may hold it anywhere.
        let held = partitions.iter().filter(|n| !is_idle(n)).map(least_of).min();
        let least_ms = held.unwrap_or_else(|| partitions.iter().map(least_of).max().flatten());
        if let Some(least_ms) = least_ms
            && watermark_ms < least_ms
        {
            let behind_ms = least_ms.saturating_sub(watermark_ms);
            return Err((
                "C6",
                format!("the watermark stands {behind_ms} ms behind every clock that holds it"),
            ));
        }
        Ok(())
    }

    /// A seal reads these records of a partition, and says that its watermark leaves that partition out. Silence counts from the newest record on
    /// that has a time, which the process cannot have read before it came.
    pub fn left_out(&self, partition: usize, read: &[Record], now_us: u64) -> Result<(), Broken> {
        let timed: Vec<Record> = read.iter().filter(|record| record.is_good).copied().collect();
        let Some(came_us) = self.came_us(&timed).filter(|_| self.is_judged) else { return Ok(()) };
        let silent_us = now_us.saturating_sub(came_us);
        if silent_us >= self.idle_after_us {
            return Ok(());
        }
        let silent_ms = silent_us / 1_000;
        Err((
            "C6",
            format!("the watermark leaves out partition {partition}, whose records came {silent_ms} ms ago"),
        ))
    }

    /// When the newest of these records came.
    fn came_us(&self, read: &[Record]) -> Option<u64> {
        read.iter().filter_map(|r| self.arrivals_us.get(r.id as usize - 1)).copied().max()
    }
}
