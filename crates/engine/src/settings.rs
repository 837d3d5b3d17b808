//! Every bound of a lane, with its reason.
//!
//! Owns the numbers that a pipeline file without a word gets. Does not own the file's settings, nor how its `memory` is divided into some
//! of these (`pipeline::wiring::bounds`).

use std::collections::BTreeMap;
use std::time::Duration;

/// Checks of its ownership that an owner may miss before it counts as gone. It appends a sign of life at the first check that finds nothing
/// appended since the one before, so that records are up to two checks apart; the third is for a store that is slow.
pub const QUIET_CHECKS: u32 = 3;

/// How often an idle owner checks its ownership, see [`Settings::owner_check_every`].
const OWNER_CHECK_EVERY: Duration = Duration::from_secs(10);

/// How the clocks of partitions go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// A partition that is caught up and silent for this long no longer holds the watermark back.
    pub idle_after: Duration,
    /// Record times further ahead of their partition's clock, or of the wall clock, than this do not move the watermark: one sender's wrong
    /// clock must not expire everybody's state. At most a quarter of the smallest window of the steps that forget, within which nothing is freed.
    pub future_ms_max: i64,
}

/// The bounds of a lane. `Default` is what a pipeline file without a word gets.
#[derive(Clone, Debug)]
pub struct Settings {
    /// A batch is cut at this many rows: inserts of half a million rows cost the server the least per row.
    pub batch_rows_max: u64,
    /// A batch is cut at this many bytes of Arrow memory, so that wide rows do not fill the memory first.
    pub batch_bytes_max: u64,
    /// A batch is cut when its first record has waited this long: the floor of the end-to-end latency.
    pub batch_age_max: Duration,
    /// The same for the first batch after a start, if it is less: what waits for the pipeline is seen soon, at the price of one
    /// small insert a start.
    pub first_batch_age_max: Duration,
    /// Inserts of one table in flight. Two keep the server busy while an answer travels; tables whose engine depends
    /// on order get one.
    pub in_flight_max: usize,
    /// W at the most: frames in doubt after a crash.
    pub window_frames_max: u64,
    /// Sealed and not yet delivered bytes at which the source pauses.
    pub spool_bytes_max: u64,
    /// Age of the oldest undelivered seal at which the source pauses: what is older than the server's memory of tokens
    /// or the people's patience should not pile up unseen.
    pub spool_age_max: Duration,
    /// Frame bodies kept in memory between seal and answer; beyond it they are read from the store again.
    pub body_cache_bytes_max: u64,
    /// A settled frontier that no seal takes along is recorded by itself after this time.
    pub settle_age_max: Duration,
    /// How long a drain waits for answers before it leaves the rest to the next start.
    pub drain_time_max: Duration,
    /// See [`Pace::idle_after`].
    pub idle_after: Duration,
    /// See [`Pace::future_ms_max`].
    pub future_ms_max: i64,
    /// Of the inputs that have others, by name.
    pub paces: BTreeMap<String, Pace>,
    /// A partition whose records run ahead of the watermark by more than this waits for the others; `None` for
    /// pipelines whose steps do not look at time.
    pub skew_ms_max: Option<i64>,
    /// A checkpoint is due when this many bytes of state deltas were sealed since the last one …
    pub checkpoint_bytes_min: u64,
    /// … or this many records were appended.
    pub checkpoint_records_max: u64,
    /// How often the server is polled while all goes well: until it was seen again, every insert by anyone counts
    /// against the tokens that certainly stand.
    pub facts_every: Duration,
    /// The longest that an insert can be without an answer (the table's own limit).
    pub insert_time_max: Duration,
    /// How often an owner that appends nothing looks whether it still owns the lane: a replaced process that is idle should end
    /// too. Each look costs two requests to the store. While frames wait it also appends a record then, as a sign of life.
    pub owner_check_every: Duration,
    /// A start whose source is away or refuses takes the lane, to deliver what is sealed, only if nobody has written into the journal
    /// for this long although the tables answer. At least [`QUIET_CHECKS`] times `owner_check_every`: an insert may take as long as its timeout
    /// without a record, and one that is refused is tried again for ever, but signs of life are two checks apart at the most.
    pub owner_quiet_min: Duration,
    /// The longest pause between two tries of anything.
    pub retry_pause_max: Duration,
    /// How long a refused row waits for its record to be read again, the tries of one absence of the source together;
    /// then its dead letter holds the row as it was sent.
    pub reread_time_max: Duration,
    /// How often the ends of the partitions are asked for, for lag.
    pub lag_every: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            batch_rows_max: 500_000,
            batch_bytes_max: 64 << 20,
            batch_age_max: Duration::from_secs(1),
            first_batch_age_max: Duration::from_millis(20),
            in_flight_max: 2,
            window_frames_max: 64,
            spool_bytes_max: 4 << 30,
            spool_age_max: Duration::from_secs(24 * 3_600),
            body_cache_bytes_max: 128 << 20,
            settle_age_max: Duration::from_secs(1),
            drain_time_max: Duration::from_secs(30),
            idle_after: Duration::from_secs(30),
            future_ms_max: 3_600_000,
            paces: BTreeMap::new(),
            skew_ms_max: None,
            checkpoint_bytes_min: 32 << 20,
            checkpoint_records_max: 1_000,
            facts_every: Duration::from_secs(5),
            insert_time_max: Duration::from_secs(180),
            owner_check_every: OWNER_CHECK_EVERY,
            owner_quiet_min: OWNER_CHECK_EVERY.saturating_mul(QUIET_CHECKS),
            retry_pause_max: Duration::from_secs(5),
            reread_time_max: Duration::from_secs(10),
            lag_every: Duration::from_secs(5),
        }
    }
}

impl Settings {
    /// How the clocks of an input's partitions go.
    pub fn pace(&self, input: &str) -> Pace {
        let Self { idle_after, future_ms_max, .. } = *self;
        self.paces.get(input).copied().unwrap_or(Pace { idle_after, future_ms_max })
    }

    /// How long a token must be trusted so that one lost answer leads to a resend without looking for the rows: from the look at
    /// the server before the first attempt to the look that judges the resend. A second answer that is lost in a row
    /// takes longer; the rows may have to be looked for then.
    pub fn token_needed(&self) -> Duration {
        self.facts_every + self.insert_time_max + self.retry_pause_max
    }
}
