//! Drops records whose key was kept within a window of time.
//!
//! Owns the rule and the policy for late records. Does not own the watermark (the engine
//! moves it, and seals it), nor where a record's time comes from (the broker, or [`EventTime`](crate::EventTime) before this
//! step).
//!
//! **The rule.** A record is a duplicate if and only if a kept record of its key lies in a bucket at most [`window::SPAN`] away
//! from its own. The first in the order processed is kept, whatever the times say. Duplicates do not extend the window. A record is
//! kept when it leaves [`finish`](Operator::finish), so what earlier steps filtered or rejected suppresses nothing, and what becomes a
//! dead letter later is [forgotten](SeenKeys::forget).
//!
//! | a kept record of the key is near | all of the history it needs is kept | the record is     |
//! |----------------------------------|-------------------------------------|-------------------|
//! | yes                              | -                                   | a duplicate       |
//! | no                               | yes                                 | kept              |
//! | no                               | no: it is late                      | as [`Late`] says  |
//!
//! What is late depends on the watermark of the last seal alone, a fact of the journal; so a replay decides as the first run did. A key
//! that is still known decides whatever the watermark says, and while the input is out of order keys stay known for longer (`aside`). Late
//! records that are kept are counted.
//! The wall clock plays no part. A record without a time is taken to be at that watermark (before there is one, it is near only
//! to others without a time, and moves to the first watermark). With an unbounded window times play no part.
//!
//! | module   | what it owns                              |
//! |----------|-------------------------------------------|
//! | [`key`]  | key columns to 128-bit hashes             |
//! | [`window`] | times to buckets, near, late            |
//! | `decide` | what becomes of each row of a batch   |
//! | `shards` | the kept records in memory, by key      |
//! | `deal`   | a batch's rows, dealt out to shards      |
//! | `durable` | seals, snapshots and what is read back   |
//! | `kept`   | the set of (hash, bucket)                 |
//! | `places` | buckets, and the pages of each            |
//! | `pages`  | the hashes, as they came                  |
//! | `index`  | from a hash to where it lies              |
//! | `group`  | sixteen entries of the index              |
//! | `aside`  | what is kept beyond the window while the input is out of order |
//! | `duplicates` | the newest records that were dropped      |
//! | [`spilled`] | kept records that left memory for files |
//! | [`state`] | the bytes of deltas and snapshots        |
//!
//! **Memory.** Open buckets are in memory, 16 bytes a key for its hash and 5 to 7 for the index. When they hold more keys than the step's
//! [memory](Dedup::with_memory) takes, the earliest are spilled: written to files beside the lane, of which less than 2 bytes a key stay
//! in memory. `probe` asks their filters and says what must be read, for files never change. What is in memory is inspected by
//! `finish` alone, or the jobs of `divide`: between the two phases of a batch, the batch before it may add keys and a seal may take some away. What
//! spilling and merging made is taken over only while no batch is between its phases or with jobs.
//!
//! Where a kept record lies is never part of a decision, nor of a delta: a delta says what was kept and forgotten, and a replay that has
//! other files, or none, decides the same. So files need no record of the journal of their own; a snapshot names those in use.

mod aside;
mod deal;
mod decide;
mod duplicates;
mod durable;
mod group;
mod index;
mod kept;
pub mod key;
mod pages;
mod places;
mod shards;
pub mod spilled;
pub mod state;
pub mod window;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use dataflow::block::TIME_UNKNOWN_MS;
use dataflow::{
    Batch, Divided, JobDone, Operator, OperatorError, Output, Probed, Schema, SeenKeys, Spares, State,
};

use crate::ConfigError;
use aside::{Aside, Disorder, HOLD, SHARE};
use deal::Dealt;
use kept::Kept;
use key::Keyer;
use shards::Shards;
use spilled::Sizes;
use spilled::part::{Pair, Part};
use spilled::runs::{ANY_BUCKET, Candidates, Dead, Found, Runs};
use spilled::work::Made;
use state::Shape;
use window::{SLACK, UNPLACED, Window, floor};

pub use deal::SHARDS_MAX;

const NAME: &str = "dedup";

/// Buffers of hashes kept for the next batches: one for the batch at hand and one for the next, a megabyte each as a rule.
const SPARE_MAX: usize = 2;

/// The longest name of a key column in bytes: it is written into every delta.
const NAME_BYTES_MAX: usize = 1024;

/// Memory for keys unless the step is given another: more than five million keys, so that small pipelines never write a file.
pub const OPEN_BYTES_DEFAULT: u64 = 128 << 20;

/// Bytes that a key in memory is counted as: its hash, 5 to 7 bytes of the index, and its share of pages that are not full.
pub const OPEN_KEY_BYTES: u64 = 24;

/// Keys in memory above which buckets are spilled whatever memory there is: with as many again while a spill is in progress, and pages that are half
/// full, their lines can be numbered.
pub const OPEN_KEYS_MAX: u64 = 1 << 30;

/// The memory of so many.
pub const OPEN_BYTES_MAX: u64 = OPEN_KEYS_MAX * OPEN_KEY_BYTES;

/// Keys in memory, as a multiple of the bound, at which the lane waits for a spill in progress.
const CROWDED: u64 = 2;

/// Hashes copied for a spill, and cleared away of what is over, with each row that comes in: either is done before a quarter of it has
/// come in again.
const TENDED_PER_ROW: usize = 4;

/// Rows of a batch that are worth a job: some 40 us of work, of which the way to another thread and back takes a few.
const JOB_ROWS_MIN: usize = 1024;

/// As many with each seal, so that both end without new rows too: some 2 ms.
const TENDED_PER_SEAL: usize = 1 << 16;

/// What becomes of a record so late that a duplicate could not be distinguished from a new record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Late {
    /// It is kept: no record is lost, and one may be there twice.
    #[default]
    Keep,
    /// It goes to the dead letters with [`Reason::Late`].
    DeadLetter,
    /// It is dropped and counted.
    Drop,
}

/// The settings of a `dedup` step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DedupConfig {
    /// The columns of the key, 1 to [`key::KEY_COLUMNS_MAX`]; their order matters to the state.
    pub key: Vec<String>,
    /// The window, [`window::WINDOW_MS_MIN`] to [`window::WINDOW_MS_MAX`]; `None` is unbounded.
    pub window: Option<Duration>,
    /// The policy for late records.
    pub late: Late,
}

/// The `dedup` step, with the keys that it has seen.
pub struct Dedup {
    /// The columns of the rows that come to it.
    columns: Schema,
    keyer: Keyer,
    window: Window,
    late: Late,
    shape: Shape,
    shards: Shards,
    /// Rows for which a job is worth its way to another thread and back.
    job_rows_min: usize,
    /// A batch whose rows are with jobs.
    divided: Option<Waiting>,
    runs: Runs,
    sizes: Sizes,
    /// A spill in progress.
    spilling: Option<Spill>,
    /// The parts that a merge in progress reads. They stay while it does, even if their run expires meanwhile.
    merging: Option<Vec<Arc<Part>>>,
    /// Finished work that waits until no batch is between its phases.
    made: Vec<Made>,
    /// Runs of a snapshot whose footers are still to be read.
    opening: VecDeque<Opening>,
    /// One clone goes with each batch that is between its phases.
    between: Arc<()>,
    /// The bucket of the last seal's watermark.
    watermark: Option<i64>,
    /// Whether the input is out of order.
    disorder: Option<Disorder>,
    /// Forgotten since the last seal.
    forgotten: BTreeMap<i64, Vec<u128>>,
    /// Buffers to use again.
    spare: Vec<Vec<u128>>,
    /// Memory of deltas that are written.
    spares: Spares,
    /// The buckets of a batch that is probed.
    buckets: Vec<i64>,
    /// The newest duplicates, for those whose kept record is refused after all.
    dropped: duplicates::Newest,
}

/// A spill, from the moment that fixes its pairs to the moment that its run counts.
#[derive(Default)]
struct Spill {
    pairs: Vec<Pair>,
    /// How many there will be: their copies are held until the run counts, here or in the work that is out.
    count: usize,
    is_gathered: bool,
    /// True once the pairs were given out as work.
    is_out: bool,
    /// Forgotten after they were copied.
    dead: Dead,
}

/// A run of a snapshot while its footers are read.
struct Opening {
    part_bits: u8,
    dead: Dead,
    files: VecDeque<state::FileEntry>,
    parts: Vec<Option<Arc<Part>>>,
}

/// A batch between `divide` and `join`.
struct Waiting {
    batch: Batch,
    hashes: Vec<u128>,
    dealt: Arc<Dealt>,
}

/// What `probe` hands to `finish`.
struct Hashes {
    hashes: Vec<u128>,
    candidates: Candidates,
    _between: Arc<()>,
}

impl Dedup {
    /// A step for batches of `schema`, with an empty history.
    ///
    /// # Errors
    /// When a key column is unknown, repeated or not a scalar, or the window is out of bounds.
    pub fn new(schema: &Schema, config: DedupConfig) -> Result<Self, ConfigError> {
        if let Some(name) = config.key.iter().find(|name| name.len() > NAME_BYTES_MAX) {
            let message =
                format!("a column's name has `{}` bytes; at most {NAME_BYTES_MAX} are allowed", name.len());
            return Err(ConfigError::Setting { setting: "dedup.key", message });
        }
        let keyer = Keyer::new(schema, &config.key)?;
        let window = Window::new(config.window)?;
        Ok(Self {
            columns: schema.clone(),
            shape: Shape::new(keyer.columns(), window),
            keyer,
            window,
            late: config.late,
            shards: Shards::new(1),
            job_rows_min: JOB_ROWS_MIN,
            divided: None,
            runs: Runs::default(),
            sizes: Sizes::new(OPEN_BYTES_DEFAULT),
            spilling: None,
            merging: None,
            made: Vec::new(),
            opening: VecDeque::new(),
            between: Arc::new(()),
            watermark: None,
            disorder: None,
            forgotten: BTreeMap::new(),
            spare: Vec::new(),
            spares: Spares::default(),
            buckets: Vec::new(),
            dropped: duplicates::Newest::default(),
        })
    }

    /// Takes this much memory for keys. Spilled ones take at most 2 bytes each on top, and work on files up to twice the
    /// memory of a spill, which is half of this.
    #[must_use]
    pub fn with_memory(self, open_bytes: u64) -> Self {
        self.with_sizes(Sizes::new(open_bytes))
    }

    /// As [`with_memory`](Self::with_memory), with all sizes: for tests and measurements.
    #[must_use]
    pub fn with_sizes(mut self, sizes: Sizes) -> Self {
        self.sizes = sizes;
        self
    }

    /// Divides the keys in memory into so many shards, 1 to [`SHARDS_MAX`], that decide at the same time. Must be called before anything is
    /// kept; a state that was written with another number of them is read as well.
    #[must_use]
    pub fn with_shards(mut self, shards: usize) -> Self {
        self.shards = Shards::new(shards);
        self
    }

    /// Hands out a job for so many rows of a batch, rather than for a thousand: for tests and measurements.
    #[must_use]
    pub fn with_job_rows_min(mut self, rows: usize) -> Self {
        self.job_rows_min = rows.max(1);
        self
    }

    /// Runs of files in use: as many filters are asked for a new key.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Moves the watermark and frees what that makes useless, after which nothing is left for a delta. The same when sealing and when a
    /// delta is applied, where `holds_stale` says that the delta names records that this very seal frees.
    fn advance(&mut self, watermark: Option<i64>, holds_stale: bool) {
        if let (None, Some(first)) = (self.watermark, watermark) {
            let moved = self.shards.move_bucket(UNPLACED, first);
            // A record of the key may lie in a file under that very bucket: it is one kept record from here on, and counts once.
            moved.into_iter().for_each(|hash| self.runs.kill_anywhere(hash, first));
        }
        if let Some(to) = watermark {
            self.set_aside(to, holds_stale);
        }
        self.watermark = watermark;
        self.shards.sets_mut().for_each(|kept| kept.expire(watermark.map(floor)));
        if let Some(floor) = watermark.map(floor) {
            self.runs.expire(floor);
        }
        self.shards.sets_mut().for_each(Kept::note);
    }

    /// Whether a seal that moves the watermark shows disorder, by what was kept since the seal before.
    fn shows_disorder(&self, to: i64, holds_stale: bool) -> bool {
        let late_below =
            self.watermark.map_or(UNPLACED, |watermark| watermark.saturating_sub_unsigned(SLACK));
        let below = if holds_stale { late_below.max(floor(to)) } else { late_below };
        let is_fresh = |kept: &Kept| {
            let buckets = kept.buckets().take_while(|bucket| bucket.bucket < below);
            buckets.filter(|bucket| bucket.bucket != UNPLACED).any(|bucket| kept.fresh(bucket.place) > 0)
        };
        below > UNPLACED && self.shards.sets().any(is_fresh)
    }

    /// Sets aside what a watermark frees, if the input is out of order.
    fn set_aside(&mut self, to: i64, holds_stale: bool) {
        if self.shows_disorder(to, holds_stale) {
            self.disorder = Some(Disorder { seen: to });
        }
        let Some(disorder) = self.disorder else { return };
        if to.saturating_sub(disorder.seen) > HOLD {
            self.disorder = None;
            return self.shards.asides_mut().for_each(Aside::clear);
        }
        self.shards.set_aside(floor(to), self.sizes.open_keys_max / SHARE);
    }

    /// True if keys in memory are more than a multiple of their bound.
    fn is_over(&self, times: u64) -> bool {
        self.shards.weight() > self.sizes.open_keys_max.saturating_mul(times)
    }

    /// Goes on copying what is being spilled.
    fn gather(&mut self, hashes: usize) {
        if let Some(spilling) = self.spilling.as_mut().filter(|c| !c.is_gathered) {
            spilling.is_gathered = self.shards.gather(hashes, &mut spilling.pairs);
        }
    }

    /// What a batch between its phases carries, checked.
    fn between(
        &self,
        probed: Probed,
        answers: &[Vec<u8>],
    ) -> Result<(Batch, Vec<u128>, Vec<Found>), OperatorError> {
        if self.shards.are_out() {
            return Err(failed("the batch before is still with jobs, or was lost there".to_owned()));
        }
        let Probed { batch, scratch, .. } = probed;
        let scratch = scratch.and_then(|s| s.downcast::<Hashes>().ok());
        let Some(own) = scratch.filter(|own| own.hashes.len() == batch.len()) else {
            return Err(failed("a batch came to `finish` that `probe` of this step has not seen".to_owned()));
        };
        if answers.len() != own.candidates.reads() {
            let what =
                format!("`{}` answers came, `{}` were asked for", answers.len(), own.candidates.reads());
            return Err(failed(what));
        }
        let found =
            self.runs.look(&own.candidates, answers, &own.hashes).map_err(|e| failed(e.to_string()))?;
        Ok((batch, own.hashes, found))
    }

    fn hashes(&mut self, batch: &Batch) -> Result<Vec<u128>, OperatorError> {
        let mut hashes = self.spare.pop().unwrap_or_default();
        self.keyer.hash(&batch.rows, &mut hashes).map_err(|e| failed(e.to_string()))?;
        if hashes.len() != batch.len() || batch.times_ms.len() != batch.len() {
            return Err(failed(format!(
                "a batch of `{}` rows has `{}` positions and `{}` times",
                hashes.len(),
                batch.len(),
                batch.times_ms.len()
            )));
        }
        Ok(hashes)
    }

    fn give_back(&mut self, hashes: Vec<u128>) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(hashes);
        }
    }
}

fn failed(message: String) -> OperatorError {
    OperatorError { step: NAME.to_owned(), message }
}

impl Operator for Dedup {
    fn name(&self) -> &str {
        NAME
    }

    fn columns(&self, _input: usize) -> Option<&Schema> {
        Some(&self.columns)
    }

    fn probe(&mut self, batch: Batch) -> Result<Probed, OperatorError> {
        self.take_over();
        let hashes = self.hashes(&batch)?;
        let (mut candidates, mut reads) = Default::default();
        if !self.runs.is_empty() {
            // The watermark may move before this batch is finished, so a row without a time may be anywhere.
            self.buckets.clear();
            self.buckets.extend(batch.times_ms.iter().map(|time| match self.window {
                Window::Sliding { .. } if *time == TIME_UNKNOWN_MS => ANY_BUCKET,
                window => window.bucket(*time),
            }));
            (candidates, reads) = self.runs.probe(&hashes, &self.buckets);
        }
        let scratch = Hashes { hashes, candidates, _between: self.between.clone() };
        Ok(Probed { batch, reads, scratch: Some(Box::new(scratch)) })
    }

    fn finish(&mut self, probed: Probed, answers: &[Vec<u8>]) -> Result<Output, OperatorError> {
        let (batch, hashes, found) = self.between(probed, answers)?;
        let dropped = self.decide(&batch, &hashes, &found);
        Ok(self.output(batch, hashes, dropped))
    }

    fn divide(&mut self, probed: Probed, answers: &[Vec<u8>]) -> Result<Divided, OperatorError> {
        let jobs = self.shards.count().min(probed.batch.len() / self.job_rows_min);
        if jobs < 2 {
            return self.finish(probed, answers).map(Divided::Done);
        }
        let (batch, hashes, found) = self.between(probed, answers)?;
        let dealt = Arc::new(self.shards.deal(&hashes, &batch.times_ms, &found));
        let jobs = self.shards.hand_out(self.rules(), &dealt, jobs);
        self.divided = Some(Waiting { batch, hashes, dealt });
        Ok(Divided::Jobs(jobs))
    }

    fn join(&mut self, done: Vec<JobDone>) -> Result<Output, OperatorError> {
        let (Some(Waiting { batch, hashes, dealt }), Some(all_dropped)) =
            (self.divided.take(), self.shards.take_back(done))
        else {
            return Err(failed("jobs came back that were not given out, or not all of them".to_owned()));
        };
        let dropped = self.put_together(&batch, &hashes, &dealt, &all_dropped);
        // The jobs have released it.
        Arc::into_inner(dealt).into_iter().for_each(|dealt| self.shards.give_back(dealt));
        Ok(self.output(batch, hashes, dropped))
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(self)
    }

    fn seen_keys(&mut self) -> Option<&mut dyn SeenKeys> {
        Some(self)
    }
}

#[cfg(test)]
mod tests;
