//! Low watermark, idleness and skew over the partitions of a lane. Pure: the times come from the caller.
//!
//! Owns two rules. A partition's *clock* is the greatest time of its records, but for clocks from the future. The watermark is the least
//! clock of all partitions that are not idle; it never goes back. Does not own what a step does with it; in dedup it frees memory.
//!
//! | a record's time is                                                | it moves the clock                                     |
//! |-------------------------------------------------------------------|--------------------------------------------------------|
//! | at most `future_max` ahead of the clock                           | yes                                                    |
//! | not after the middle of the newest records                        | yes: most records are there, so time has passed        |
//! | near the wall clock, and the partition was read to its end before | yes: a quiet partition has a new record                |
//! | ahead, like all others of the newest [`MOMENTS`]                   | to the earliest of these: records are sparse, not wrong |
//! | further ahead                                                     | no: the record is kept and deduplicated by its own time |
//! | more than `future_max` ahead of the wall clock                    | at most to there, if most of the newest records are    |
//!
//! `future_max` and `idle_after` are those of the partition's input ([`Pace`]).
//!
//! Every record shows that its partition is alive, whatever becomes of it. A partition that has yielded records without a usable time
//! for as long as `idle_after`, and none with one, no longer holds the watermark.
//!
//! Silence counts only while somebody listens, and so does a time of such records. A source that is away, a full spool and a store that does not
//! answer keep records back, and those of one partition may come long before those of another: a partition that nobody could hear holds the watermark.
//! Once a run reads no more, no partition falls silent: the next one reads on.

use std::collections::VecDeque;
use std::time::Duration;

use protocol::lane::TIME_UNKNOWN_MS;

use crate::settings::Pace;

/// Times of a partition's newest records whose middle is asked for: few enough to sort with every block, enough that a burst of some
/// records with a wrong clock is not most of them.
const RECENT: usize = 128;

/// Times taken from one block, evenly spread: two blocks and a bit are most of [`RECENT`].
const RECENT_OF_BLOCK: usize = 32;

/// Moments in which all records must be ahead before the clock follows them, and the time that these take at the least. Where records are sparse, [`RECENT`] of
/// them take hours. One sender of several, with a wrong clock or with a right one among others that are late, is hardly alone for so long.
const MOMENTS: usize = 8;
const MOMENTS_TAKE: Duration = Duration::from_secs(60);

/// Records that come within this time are of one moment: a burst of one sender is one.
const MOMENT: Duration = Duration::from_secs(1);

/// When the newest records came, and the least time of each such moment: no more than there are in [`MOMENTS_TAKE`], and two.
#[derive(Clone, Debug, Default)]
struct Moments(VecDeque<(Duration, i64)>);

impl Moments {
    fn add(&mut self, times_ms: &[i64], now: Duration) {
        let Some(least) = times_ms.iter().copied().filter(|time_ms| *time_ms != TIME_UNKNOWN_MS).min() else {
            return;
        };
        match self.0.back_mut() {
            Some((began, known)) if now.saturating_sub(*began) < MOMENT => *known = least.min(*known),
            _ => self.0.push_back((now, least)),
        }
        while self.0.len() > MOMENTS && self.0.get(1).is_some_and(|(began, _)| now >= *began + MOMENTS_TAKE) {
            self.0.pop_front();
        }
    }

    /// The least time of all of them, once there are enough.
    fn least(&self, now: Duration) -> Option<i64> {
        let is_long = self.0.front().is_some_and(|(began, _)| now >= *began + MOMENTS_TAKE);
        let least = self.0.iter().map(|(_, time_ms)| *time_ms).min();
        least.filter(|_| is_long && self.0.len() >= MOMENTS)
    }
}

/// The times of a partition's newest records.
#[derive(Clone, Debug, Default)]
struct Recent {
    times_ms: Vec<i64>,
    /// Where the next one goes once there are enough.
    next: usize,
}

impl Recent {
    fn add(&mut self, times_ms: &[i64]) {
        let taken = times_ms.len().min(RECENT_OF_BLOCK);
        for time_ms in (0..taken).map(|n| times_ms[n * times_ms.len() / taken]) {
            if time_ms == TIME_UNKNOWN_MS {
                continue;
            }
            if self.times_ms.len() < RECENT {
                self.times_ms.push(time_ms);
            } else {
                self.times_ms[self.next] = time_ms;
                self.next = (self.next + 1) % RECENT;
            }
        }
    }

    /// The time that half of them do not exceed.
    fn middle(&self) -> Option<i64> {
        let mut times_ms = [0; RECENT];
        let times_ms = &mut times_ms[..self.times_ms.len()];
        times_ms.copy_from_slice(&self.times_ms);
        let middle = times_ms.len().checked_sub(1)? / 2;
        Some(*times_ms.select_nth_unstable(middle).1)
    }
}

#[derive(Clone, Debug)]
struct Progress {
    pace: Pace,
    time_ms_max: i64,
    recent: Recent,
    moments: Moments,
    caught_up: bool,
    ended: bool,
    /// Its stream was taken out of the pipeline: its clock says nothing about the others' records.
    forgotten: bool,
    /// True while its source gives nothing, away, refusing or left aside by this run: partitions that run ahead do not wait for it.
    away: bool,
    last_record: Duration,
    /// Since when it could have been heard, and was not.
    silent_since: Duration,
    /// Since when it could have yielded a record with a usable time, and yielded only others.
    untimed_since: Option<Duration>,
}

/// The record times of all partitions.
#[derive(Clone, Debug)]
pub struct Watermarks {
    partitions: Vec<Progress>,
    low_ms: i64,
    /// The lane's last turn, and whether it let its sources be read.
    turned: Option<(Duration, bool)>,
    /// How long nobody has listened without a break.
    deaf: Duration,
    /// True while nobody knows the partitions of an input, or cannot read one that was found.
    is_held: bool,
    /// When the run stopped to read.
    stopped: Option<Duration>,
}

/// A turn of the lane takes no longer than this, for it looks around once a second; if one did, the lane was waiting for the store.
const TURN_MAX: Duration = Duration::from_secs(2);

/// The part of `idle_after` after which a time without listening is made up for in full: what was kept back meanwhile takes its time to come.
const DEAF_PART: u32 = 4;

impl Watermarks {
    /// No partition yet; the watermark stands at `low_ms`.
    pub fn new(low_ms: i64) -> Self {
        Self {
            partitions: Vec::new(),
            low_ms,
            turned: None,
            deaf: Duration::ZERO,
            is_held: false,
            stopped: None,
        }
    }

    /// The lane takes its next turn, in which it lets its sources be read, or not. What passed since the last one is no silence of any
    /// partition if nobody listened.
    pub fn turn(&mut self, now: Duration, is_reading: bool) {
        let Some((turned, was_reading)) = self.turned.replace((now, is_reading)) else { return };
        let passed = now.saturating_sub(turned);
        if was_reading && passed <= TURN_MAX {
            self.deaf = Duration::ZERO;
            return;
        }
        self.deaf += passed;
        for progress in &mut self.partitions {
            let is_long = self.deaf >= progress.pace.idle_after / DEAF_PART;
            for since in
                [Some(&mut progress.silent_since), progress.untimed_since.as_mut()].into_iter().flatten()
            {
                *since = if is_long { now } else { *since + passed };
            }
        }
    }

    /// Nothing is read any more: from here on no partition falls silent, and those that have stay so.
    pub fn stop(&mut self, now: Duration) {
        self.stopped.get_or_insert(now);
    }

    /// Whether an input that gives nothing has no partition that is known, or one that was found cannot be read yet: the watermark stands still meanwhile.
    pub fn hold(&mut self, is_held: bool) {
        self.is_held = is_held;
    }

    /// Adds the next partition, whose greatest record time so far is known from the journal.
    pub fn add(&mut self, time_ms_max: i64, now: Duration, pace: Pace) {
        self.partitions.push(Progress {
            pace,
            time_ms_max,
            recent: Recent::default(),
            moments: Moments::default(),
            caught_up: false,
            ended: false,
            forgotten: false,
            away: false,
            last_record: now,
            silent_since: now,
            untimed_since: None,
        });
    }

    /// Records of a partition went by, with these times; none for those that have no usable time.
    pub fn observe(&mut self, partition: usize, times_ms: &[i64], wall_ms: i64, now: Duration) {
        let progress = &mut self.partitions[partition];
        let future = progress.pace.future_ms_max;
        let was_caught_up = std::mem::take(&mut progress.caught_up);
        (progress.last_record, progress.silent_since) = (now, now);
        let wall_limit = wall_ms.saturating_add(future);
        progress.recent.add(times_ms);
        progress.moments.add(times_ms, now);
        let middle = progress.recent.middle().max(progress.moments.least(now));
        // Where most records are ahead of the wall clock, the clock stays at its limit: without end it would keep all of the state.
        let mut clock = progress.time_ms_max.max(middle.unwrap_or(TIME_UNKNOWN_MS).min(wall_limit));
        // A quiet partition has a new record, and its time is now.
        if was_caught_up {
            let is_now = |time: &&i64| **time <= wall_limit && **time >= wall_ms.saturating_sub(future);
            clock = clock.max(times_ms.iter().find(is_now).copied().unwrap_or(TIME_UNKNOWN_MS));
        }
        // The clock goes forward with each record, so records that stand close are followed wherever they go.
        for time_ms in times_ms {
            if *time_ms > clock && *time_ms <= clock.saturating_add(future).min(wall_limit) {
                clock = *time_ms;
            }
        }
        progress.time_ms_max = clock;
        let is_timed = times_ms.iter().any(|time_ms| *time_ms != TIME_UNKNOWN_MS);
        progress.untimed_since = progress.untimed_since.or(Some(now)).filter(|_| !is_timed);
    }

    /// A partition has nothing more at the moment.
    pub fn caught_up(&mut self, partition: usize) {
        self.partitions[partition].caught_up = true;
    }

    /// A partition has ended for ever.
    pub fn ended(&mut self, partition: usize) {
        self.partitions[partition].ended = true;
    }

    /// A partition was taken out of the pipeline.
    pub fn forgotten(&mut self, partition: usize) {
        self.partitions[partition].forgotten = true;
    }

    /// The source of a partition gives nothing at the moment, or gives again. The watermark waits all the same: what comes later may be
    /// old. Partitions that run ahead do not.
    pub fn set_away(&mut self, partition: usize, away: bool, now: Duration) {
        let progress = &mut self.partitions[partition];
        if std::mem::replace(&mut progress.away, away) {
            progress.silent_since = now;
            progress.untimed_since = progress.untimed_since.map(|_| now);
        }
    }

    /// The clock of a partition.
    pub fn time_ms_max(&self, partition: usize) -> i64 {
        self.partitions[partition].time_ms_max
    }

    fn is_idle(&self, p: &Progress, now: Duration) -> bool {
        let now = self.stopped.map_or(now, |stopped| now.min(stopped));
        let is_silent = p.caught_up && now.saturating_sub(p.silent_since) >= p.pace.idle_after;
        // Records came all the time, and none said what time it is.
        let is_untimed =
            p.untimed_since.is_some_and(|since| p.last_record.saturating_sub(since) >= p.pace.idle_after);
        p.ended || p.forgotten || (!p.away && (is_silent || is_untimed))
    }

    /// The partitions that the watermark leaves out, by index.
    pub fn idle(&self, now: Duration) -> Vec<u32> {
        let idle = self.partitions.iter().enumerate().filter(|(_, p)| self.is_idle(p, now));
        idle.map(|(n, _)| n as u32).collect()
    }

    /// Moves the watermark to where it is now, and says so. With every partition idle it stands at the greatest time.
    pub fn advance(&mut self, now: Duration) -> i64 {
        self.low_ms = self.next(now);
        self.low_ms
    }

    /// Where [`advance`](Self::advance) would move it.
    pub fn next(&self, now: Duration) -> i64 {
        if self.is_held {
            return self.low_ms;
        }
        let active = self.partitions.iter().filter(|p| !self.is_idle(p, now)).map(|p| p.time_ms_max).min();
        let low =
            active.or_else(|| self.partitions.iter().filter(|p| !p.forgotten).map(|p| p.time_ms_max).max());
        self.low_ms.max(low.unwrap_or(TIME_UNKNOWN_MS))
    }

    /// True if a partition runs ahead of another, which is still behind its own end, by more than `skew_ms`.
    pub fn is_ahead(&self, partition: usize, skew_ms: i64) -> bool {
        let ahead = self.partitions[partition].time_ms_max;
        let holds_back = |p: &Progress| !p.caught_up && !p.ended && !p.forgotten && !p.away;
        let behind = self.partitions.iter().enumerate().filter(|(n, p)| *n != partition && holds_back(p));
        // A partition whose times are not known yet has just begun to be read and holds nobody back.
        let slowest = behind.map(|(_, p)| p.time_ms_max).filter(|t| *t != TIME_UNKNOWN_MS).min();
        ahead != TIME_UNKNOWN_MS && slowest.is_some_and(|slowest| ahead.saturating_sub(slowest) > skew_ms)
    }
}

#[cfg(test)]
mod tests;
