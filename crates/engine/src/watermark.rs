//! Low watermark, idleness and skew over the partitions of a lane. Pure: the times come from the caller.
//!
//! Owns the rule: the watermark is the least of the greatest record times of all partitions that are not idle; it never
//! goes back. Does not own what a step does with it; in dedup it frees memory and never decides.

use std::time::Duration;

use protocol::lane::TIME_UNKNOWN_MS;

#[derive(Clone, Debug)]
struct Progress {
    time_ms_max: i64,
    caught_up: bool,
    ended: bool,
    last_record: Duration,
}

/// The record times of all partitions.
#[derive(Clone, Debug)]
pub struct Watermarks {
    partitions: Vec<Progress>,
    low_ms: i64,
    idle_after: Duration,
    future_ms_max: i64,
}

impl Watermarks {
    /// No partition yet; the watermark stands at `low_ms`.
    pub fn new(low_ms: i64, idle_after: Duration, future_ms_max: i64) -> Self {
        Self { partitions: Vec::new(), low_ms, idle_after, future_ms_max }
    }

    /// Adds the next partition, whose greatest record time so far is known from the journal.
    pub fn add(&mut self, time_ms_max: i64, now: Duration) {
        self.partitions.push(Progress { time_ms_max, caught_up: false, ended: false, last_record: now });
    }

    /// Records of a partition went by. Times beyond `wall_ms` plus the bound are left out.
    pub fn observe<'a>(
        &mut self,
        partition: usize,
        times_ms: impl IntoIterator<Item = &'a i64>,
        wall_ms: i64,
        now: Duration,
    ) {
        let limit = wall_ms.saturating_add(self.future_ms_max);
        let progress = &mut self.partitions[partition];
        progress.caught_up = false;
        progress.last_record = now;
        let max = times_ms.into_iter().copied().filter(|t| *t <= limit).max();
        progress.time_ms_max = progress.time_ms_max.max(max.unwrap_or(TIME_UNKNOWN_MS));
    }

    /// A partition has nothing more at the moment.
    pub fn caught_up(&mut self, partition: usize) {
        self.partitions[partition].caught_up = true;
    }

    /// A partition has ended for ever.
    pub fn ended(&mut self, partition: usize) {
        self.partitions[partition].ended = true;
    }

    /// Greatest record time of a partition.
    pub fn time_ms_max(&self, partition: usize) -> i64 {
        self.partitions[partition].time_ms_max
    }

    fn is_idle(&self, p: &Progress, now: Duration) -> bool {
        p.ended || (p.caught_up && now.saturating_sub(p.last_record) >= self.idle_after)
    }

    /// The partitions that the watermark leaves out, by index.
    pub fn idle(&self, now: Duration) -> Vec<u32> {
        let idle = self.partitions.iter().enumerate().filter(|(_, p)| self.is_idle(p, now));
        idle.map(|(n, _)| n as u32).collect()
    }

    /// Moves the watermark to where it is now, and says so. With every partition idle it stands at the greatest time.
    pub fn advance(&mut self, now: Duration) -> i64 {
        let active = self.partitions.iter().filter(|p| !self.is_idle(p, now)).map(|p| p.time_ms_max).min();
        let low = active.or_else(|| self.partitions.iter().map(|p| p.time_ms_max).max());
        self.low_ms = self.low_ms.max(low.unwrap_or(TIME_UNKNOWN_MS));
        self.low_ms
    }

    /// True if a partition runs ahead of another, which is still behind its own end, by more than `skew_ms`.
    pub fn is_ahead(&self, partition: usize, skew_ms: i64) -> bool {
        let ahead = self.partitions[partition].time_ms_max;
        let behind =
            self.partitions.iter().enumerate().filter(|(n, p)| *n != partition && !p.caught_up && !p.ended);
        // A partition whose times are not known yet has just begun to be read and holds nobody back.
        let slowest = behind.map(|(_, p)| p.time_ms_max).filter(|t| *t != TIME_UNKNOWN_MS).min();
        ahead != TIME_UNKNOWN_MS && slowest.is_some_and(|slowest| ahead.saturating_sub(slowest) > skew_ms)
    }
}

#[cfg(test)]
mod tests;
