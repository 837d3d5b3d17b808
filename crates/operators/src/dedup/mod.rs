//! Drops records whose key was kept within a window of time.
//!
//! Owns the rule, the policy for late records, and the deltas that make the state durable. Does not own the watermark (the engine
//! moves it, and seals it), nor where a record's time comes from (the broker, or [`EventTime`](crate::EventTime) before this
//! step).
//!
//! **The rule.** A record is a duplicate if and only if a kept record of its key lies in a bucket at most [`window::SPAN`] away
//! from its own. The first in the order processed is kept, whatever the times say. Duplicates do not extend the window. A record is
//! kept when it leaves [`finish`](Operator::finish), so what earlier steps filtered or rejected suppresses nothing, and what becomes a
//! dead letter later is [forgotten](KeyedState::forget).
//!
//! | a kept record of the key is near | all of the history it needs is kept | the record is     |
//! |----------------------------------|-------------------------------------|-------------------|
//! | yes                              | -                                   | a duplicate       |
//! | no                               | yes                                 | kept              |
//! | no                               | no: it is late                      | as [`Late`] says  |
//!
//! What is late depends on the watermark of the last seal alone, a fact of the journal; so a replay decides as the first run did.
//! The wall clock plays no part. A record without a time is taken to be at that watermark (before there is one, it is near only
//! to others without a time, and moves to the first watermark). With an unbounded window times play no part.
//!
//! | module   | what it owns                              |
//! |----------|-------------------------------------------|
//! | [`key`]  | key columns to 128-bit hashes             |
//! | [`window`] | times to buckets, near, late            |
//! | `kept`   | the set of (hash, bucket)                 |
//! | `table`  | one segment of its hash table             |
//! | `places` | small numbers for buckets                 |
//! | `copies` | the newest records that were dropped      |
//! | [`closed`] | kept records that left memory for files |
//! | [`state`] | the bytes of deltas and snapshots        |
//!
//! **Memory.** Open buckets are in memory, 16 bytes a key and a fifth of free slots. When they hold more keys than the step's
//! [memory](Dedup::with_memory) takes, the earliest are closed: written to files beside the lane, of which less than 2 bytes a key stay
//! in memory. `probe` asks their filters and says what must be read, for files never change. What is in memory is looked at by
//! `finish` alone: between the two phases of a batch, the batch before it may add keys and a seal may take some away. What closing and
//! merging made is taken over only while no batch is between its phases.
//!
//! Where a kept record lies is never part of a decision, nor of a delta: a delta says what was kept and forgotten, and a replay that has
//! other files, or none, decides the same. So files need no record of the journal of their own; a snapshot names those in use.

mod added;
pub mod closed;
mod copies;
mod kept;
pub mod key;
mod places;
pub mod state;
mod table;
pub mod window;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use dataflow::block::TIME_UNKNOWN_MS;
use dataflow::{
    Batch, Copies, KeyedState, Operator, OperatorError, Output, Probed, Reason, Reject, Schema, StateError,
    StateFile, StateRead, StateWork,
};

use crate::ConfigError;
use added::Added;
use closed::Sizes;
use closed::part::{Pair, Part};
use closed::runs::{ANY_BUCKET, Candidates, Dead, Found, Run, Runs};
use closed::work::{Made, Work};
use kept::{AHEAD, Kept, Offer, Removed};
use key::Keyer;
use places::Place;
use state::{Group, Kind, Shape, Writer};
use window::{SLACK, UNPLACED, Window, floor};

const NAME: &str = "dedup";

/// Buffers of hashes kept for the next batches: as many as are between the phases at one time, in practice.
const SPARE_MAX: usize = 4;

/// The longest name of a key column in bytes: it is written into every delta.
const NAME_BYTES_MAX: usize = 1024;

/// Memory for open keys unless the step is given another: more than six million keys, so that small pipelines never write a file.
pub const OPEN_BYTES_DEFAULT: u64 = 128 << 20;

/// Bytes that an open key is counted as: 16, a fifth of free slots, and its share of the list for the next delta.
pub const OPEN_KEY_BYTES: u64 = 22;

/// Open keys, as a multiple of the bound, at which the lane waits for a closing under way.
const CROWDED: u64 = 2;

/// Slots looked at for closing with each row that comes in: a closing is copied before a quarter of it has come in anew.
const GATHERED_PER_ROW: usize = 4;

/// Slots looked at for closing with each seal, so that it ends without new rows too: some 5 ms.
const GATHERED_PER_SEAL: usize = 1 << 18;

/// What becomes of a record so late that a duplicate could not be told from a new record.
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

/// The step's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DedupConfig {
    /// The columns of the key, 1 to [`key::KEY_COLUMNS_MAX`]; their order matters to the state.
    pub key: Vec<String>,
    /// The window, [`window::WINDOW_MS_MIN`] to [`window::WINDOW_MS_MAX`]; `None` is unbounded.
    pub window: Option<Duration>,
    /// The policy for late records.
    pub late: Late,
}

/// The step.
pub struct Dedup {
    keyer: Keyer,
    window: Window,
    late: Late,
    shape: Shape,
    kept: Kept,
    runs: Runs,
    sizes: Sizes,
    /// A closing under way.
    closing: Option<Closing>,
    /// The parts that a merger under way reads. They stay while it does, even if their run expires meanwhile.
    merging: Option<Vec<Arc<Part>>>,
    /// Finished work that waits until no batch is between its phases.
    made: Vec<Made>,
    /// Runs of a snapshot whose footers are still to be read.
    opening: VecDeque<Opening>,
    /// One clone goes with each batch that is between its phases.
    between: Arc<()>,
    /// The bucket of the last seal's watermark.
    watermark: Option<i64>,
    /// Added since the last seal.
    added: Added,
    /// Forgotten since the last seal.
    forgotten: BTreeMap<i64, Vec<u128>>,
    /// Buffers to use again.
    spare: Vec<Vec<u128>>,
    /// The buckets of the rows of the batch at hand.
    buckets: Vec<i64>,
    /// The newest duplicates, for those whose kept record is refused after all.
    dropped: copies::Newest,
}

/// A closing, from the moment that fixes its pairs to the moment that its run counts.
#[derive(Default)]
struct Closing {
    pairs: Vec<Pair>,
    /// How many there will be: their copies are held until the run counts, here or in the work that is out.
    count: usize,
    is_gathered: bool,
    /// True once the pairs were handed out as work.
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

/// What `probe` hands to `finish`.
struct Hashes {
    hashes: Vec<u128>,
    candidates: Candidates,
    _between: Arc<()>,
}

/// What `finish` found out, beside the rows that go on.
#[derive(Default)]
struct Dropped {
    /// Row numbers, ascending: duplicates and late ones.
    rows: Vec<usize>,
    duplicates: u64,
    late: u64,
    rejects: Vec<Reject>,
}

impl Dedup {
    /// A step for batches of `schema`, with an empty history.
    ///
    /// # Errors
    /// When a key column is unknown, repeated or not a scalar, or the window is out of bounds.
    pub fn new(schema: &Schema, config: DedupConfig) -> Result<Self, ConfigError> {
        if let Some(name) = config.key.iter().find(|name| name.len() > NAME_BYTES_MAX) {
            let message =
                format!("a column's name has `{}` bytes; at most {NAME_BYTES_MAX} are taken", name.len());
            return Err(ConfigError::Setting { setting: "dedup.key", message });
        }
        let keyer = Keyer::new(schema, &config.key)?;
        let window = Window::new(config.window)?;
        Ok(Self {
            shape: Shape::new(keyer.columns(), window),
            keyer,
            window,
            late: config.late,
            kept: Kept::new(),
            runs: Runs::default(),
            sizes: Sizes::new(OPEN_BYTES_DEFAULT),
            closing: None,
            merging: None,
            made: Vec::new(),
            opening: VecDeque::new(),
            between: Arc::new(()),
            watermark: None,
            added: Added::default(),
            forgotten: BTreeMap::new(),
            spare: Vec::new(),
            buckets: Vec::new(),
            dropped: copies::Newest::default(),
        })
    }

    /// Takes this much memory for open keys. Closed ones take at most 2 bytes each on top, and work on files up to twice the
    /// memory of a closing, which is half of this.
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

    /// Runs of files in use: as many filters are asked for a new key.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Decides for each row, in order, and remembers those that go on. `found` are kept records in files, by row.
    fn decide(&mut self, batch: &Batch, hashes: &[u128], mut found: &[Found]) -> Dropped {
        let mut dropped = Dropped::default();
        let late_below = self.watermark.map_or(i64::MIN, |w| w.saturating_sub_unsigned(SLACK));
        self.buckets.clear();
        self.buckets.extend(batch.times_ms.iter().map(|time| self.window.place(*time, self.watermark)));
        self.dropped.begin(&batch.partition);
        let ahead = hashes.len().min(AHEAD);
        for (hash, bucket) in hashes[..ahead].iter().zip(&self.buckets) {
            self.kept.prefetch(*hash, *bucket);
        }
        for (row, hash) in hashes.iter().enumerate() {
            if let Some(next) = hashes.get(row + AHEAD) {
                self.kept.prefetch(*next, self.buckets[row + AHEAD]);
            }
            let bucket = self.buckets[row];
            let own = found.iter().take_while(|f| f.row as usize == row).count();
            let (own, others) = found.split_at(own);
            found = others;
            if own.iter().any(|f| window::near(f.bucket, bucket)) {
                dropped.duplicates += 1;
                dropped.rows.push(row);
                continue;
            }
            if bucket < late_below && self.late != Late::Keep && !self.kept.has_near(*hash, bucket) {
                self.drop_late(batch, row, &mut dropped);
                continue;
            }
            let mark = self.added.is_full(self.kept.len());
            match self.kept.offer(*hash, bucket, mark) {
                Offer::Added(place) if mark => self.added.mark(place),
                Offer::Added(place) => self.added.push(place, *hash),
                Offer::Near => {
                    dropped.duplicates += 1;
                    self.dropped.push(*hash, bucket, batch.positions[row]);
                    dropped.rows.push(row);
                }
            }
        }
        dropped
    }

    #[cold]
    fn drop_late(&self, batch: &Batch, row: usize, dropped: &mut Dropped) {
        dropped.rows.push(row);
        if self.late == Late::Drop {
            dropped.late += 1;
            return;
        }
        let time_ms = batch.times_ms[row];
        dropped.rejects.push(Reject {
            partition: batch.partition.clone(),
            position: batch.positions[row],
            time_ms,
            reason: Reason::Late,
            column: String::new(),
            message: format!(
                "its time `{time_ms}` (unix milliseconds) is more than {SLACK}/{} of the window behind the others, so that a \
                 duplicate could not be told from a new record",
                window::SPAN
            ),
            key: None,
            headers: Vec::new(),
            raw: Vec::new(),
        });
    }

    /// Writes the delta of the seal under way.
    fn delta(&mut self, watermark: Option<i64>) -> Vec<u8> {
        let floor = watermark.map_or(i64::MIN, floor);
        if !self.forgotten.is_empty() {
            // What was added and then forgotten is not written. A pair that was added once more is written twice, which
            // adds it once.
            let kept = &self.kept;
            let is_kept = |place, hash| kept.bucket(place).is_some_and(|bucket| kept.contains(hash, bucket));
            self.added.retain(is_kept);
        }
        let mut counts = vec![0_usize; self.kept.places()];
        self.added.count(&mut counts);
        // What this very seal expires need not be written.
        let groups: Vec<(i64, Place)> = self
            .kept
            .buckets()
            .filter(|(bucket, place, _)| {
                counts[*place as usize] > 0 && (*bucket >= floor || *bucket == UNPLACED)
            })
            .map(|(bucket, place, _)| (bucket, place))
            .collect();
        if groups.is_empty() && self.forgotten.is_empty() && watermark == self.watermark {
            if self.added.has_marked() {
                self.kept.unmark(|_, _| {});
            }
            return Vec::new();
        }
        let forgotten = self.forgotten.values().map(Vec::len).sum::<usize>();
        let mut to = Writer::new(Kind::Delta, &self.shape, watermark, self.added.len() + forgotten);
        to.groups(self.forgotten.len());
        for (bucket, hashes) in &self.forgotten {
            let mut end = to.group(*bucket, hashes.len());
            hashes.iter().for_each(|hash| to.put(&mut end, *hash));
        }
        let sized = groups.into_iter().map(|(bucket, place)| (bucket, place, counts[place as usize]));
        let mut groups = Groups::begin(&mut to, self.kept.places(), sized.collect());
        self.added.iter().for_each(|(place, hash)| groups.put(place, hash));
        if self.added.has_marked() {
            self.kept.unmark(|place, hash| groups.put(place, hash));
        }
        to.finish()
    }

    /// Moves the watermark and frees what that makes useless. The same when sealing and when a delta is applied.
    fn advance(&mut self, watermark: Option<i64>) {
        if let (None, Some(first)) = (self.watermark, watermark) {
            let moved = self.kept.move_bucket(UNPLACED, first);
            // A record of the key may lie in a file under that very bucket: it is one kept record from here on, and counts once.
            moved.into_iter().for_each(|hash| self.runs.kill_anywhere(hash, first));
        }
        self.watermark = watermark;
        self.kept.expire(watermark.map(floor));
        if let Some(floor) = watermark.map(floor) {
            self.runs.expire(floor);
        }
    }

    /// Goes on copying what is closing.
    fn gather(&mut self, slots: usize) {
        if let Some(closing) = self.closing.as_mut().filter(|c| !c.is_gathered) {
            closing.is_gathered = self.kept.gather(slots, &mut closing.pairs);
        }
    }

    /// Takes over what was made, if no batch is between its phases: such a batch has asked the runs as they were.
    fn take_over(&mut self) {
        if Arc::strong_count(&self.between) > 1 {
            return;
        }
        for made in std::mem::take(&mut self.made) {
            let mut dead = Dead::new();
            if made.replaces.is_empty() {
                self.kept.closed();
                dead = self.closing.take().map(|closing| closing.dead).unwrap_or_default();
            } else {
                self.merging = None;
            }
            for (id, before) in made.replaces {
                // A run that has expired meanwhile has nothing that counts any more.
                for (bucket, hashes) in self.runs.take(id).map(|run| run.dead).unwrap_or_default() {
                    let since = |hash: &u128| before.get(&bucket).is_none_or(|old| !old.contains(hash));
                    let since: Vec<u128> = hashes.into_iter().filter(since).collect();
                    if !since.is_empty() {
                        dead.entry(bucket).or_default().extend(since);
                    }
                }
            }
            self.runs.add(made.part_bits, made.parts, dead);
        }
    }

    /// Takes one pair out, wherever it is, and remembers to say so.
    fn remove(&mut self, hash: u128, bucket: i64, found: &[Found]) {
        let open = self.kept.remove(hash, bucket);
        match (open, &mut self.closing) {
            (Removed::Copied, Some(closing)) => drop(closing.dead.entry(bucket).or_default().insert(hash)),
            (Removed::Marked(place), _) => self.added.unmark(place),
            (Removed::Copied | Removed::No | Removed::Yes, _) => {}
        }
        let mut was_kept = open != Removed::No;
        for found in found.iter().filter(|f| f.bucket == bucket) {
            was_kept |= self.runs.kill(found.run, hash, bucket);
        }
        if was_kept {
            self.forgotten.entry(bucket).or_default().push(hash);
        }
    }

    /// What a batch between its phases carries, checked.
    fn between(
        &self,
        probed: Probed,
        answers: &[Vec<u8>],
    ) -> Result<(Batch, Vec<u128>, Vec<Found>), OperatorError> {
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

    /// Allots the files of the runs that a snapshot names.
    fn begin_opening(&mut self, runs: Vec<state::RunGroup<'_>>) -> Vec<StateRead> {
        let mut reads = Vec::new();
        for run in runs {
            let files = VecDeque::from(run.files);
            reads.extend(files.iter().map(|file| StateRead {
                object: file.object.as_str().into(),
                offset: file.footer_at,
                len: u32::try_from(file.len - file.footer_at).expect("bounded when it was read"),
            }));
            let dead = run.dead.iter().map(|group| (group.bucket, group.hashes().collect())).collect();
            let parts = vec![None; 1 << run.part_bits];
            self.opening.push_back(Opening { part_bits: run.part_bits, dead, files, parts });
        }
        self.finish_opening();
        reads
    }

    /// Puts the runs whose files are all open into use.
    fn finish_opening(&mut self) {
        while self.opening.front().is_some_and(|run| run.files.is_empty()) {
            let run = self.opening.pop_front().expect("just looked at");
            self.runs.add(run.part_bits, run.parts, run.dead);
        }
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

/// Groups of a delta or snapshot while hashes are put into them.
struct Groups<'a> {
    to: &'a mut Writer,
    /// Where the next hash of each place goes; `None` if the place has no group.
    ends: Vec<Option<state::GroupEnd>>,
}

impl<'a> Groups<'a> {
    /// Makes room for groups of (bucket, place, number of hashes).
    fn begin(to: &'a mut Writer, places: usize, groups: Vec<(i64, Place, usize)>) -> Self {
        let mut ends: Vec<Option<state::GroupEnd>> = (0..places).map(|_| None).collect();
        to.groups(groups.len());
        for (bucket, place, count) in groups {
            ends[place as usize] = Some(to.group(bucket, count));
        }
        Self { to, ends }
    }

    fn put(&mut self, place: Place, hash: u128) {
        if let Some(end) = &mut self.ends[place as usize] {
            self.to.put(end, hash);
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
        self.gather(GATHERED_PER_ROW * batch.len());
        self.give_back(hashes);
        let batch = if !batch.is_empty() && dropped.rows.len() == batch.len() {
            Batch { rows: batch.rows.slice(0, 0), positions: Vec::new(), times_ms: Vec::new(), ..batch }
        } else {
            batch.without(&dropped.rows).map_err(|e| failed(e.to_string()))?
        };
        let Dropped { duplicates, late, rejects, .. } = dropped;
        Ok(Output { batch, filtered: 0, duplicates, late, rejects })
    }

    fn state(&mut self) -> Option<&mut dyn KeyedState> {
        Some(self)
    }
}

impl KeyedState for Dedup {
    fn seal(&mut self, watermark_ms: i64) -> Vec<u8> {
        self.take_over();
        // A watermark that goes back is held: what it freed is gone.
        let watermark = self.watermark.max(self.window.watermark(watermark_ms));
        let delta = self.delta(watermark);
        self.added.clear();
        self.forgotten.clear();
        self.advance(watermark);
        // What is closed is fixed right after a seal: nothing that the next delta will name is among it.
        if self.closing.is_none() && self.kept.len() > self.sizes.open_keys_max {
            let pairs = self.kept.close(self.sizes.open_keys_max / 2) as usize;
            let closing = || Closing { pairs: Vec::with_capacity(pairs), count: pairs, ..Closing::default() };
            self.closing = (pairs > 0).then(closing);
        }
        let is_crowded = self.kept.len() > CROWDED.saturating_mul(self.sizes.open_keys_max);
        self.gather(if is_crowded { usize::MAX } else { GATHERED_PER_SEAL });
        delta
    }

    /// As of the last seal: so it must be called right after one, before the next batch is finished.
    ///
    /// # Panics
    /// When something changed since the last seal.
    fn snapshot(&self) -> Vec<u8> {
        assert!(
            self.added.is_empty() && self.forgotten.is_empty(),
            "a snapshot is taken right after a seal: it must hold no key that the journal does not"
        );
        let keys = usize::try_from(self.kept.len()).expect("keys in memory");
        let mut to = if self.runs.is_empty() {
            Writer::new(Kind::Snapshot, &self.shape, self.watermark, keys)
        } else {
            Writer::with_runs(&self.shape, self.watermark, keys)
        };
        to.groups(0);
        let groups = self.kept.buckets().filter(|(_, _, slots)| *slots > 0);
        let groups = groups.map(|(bucket, place, slots)| (bucket, place, slots as usize)).collect();
        let pairs = self.kept.iter().filter_map(|slot| Some((slot.place, self.kept.pair(&slot)?.0)));
        let mut groups = Groups::begin(&mut to, self.kept.places(), groups);
        pairs.for_each(|(place, hash)| groups.put(place, hash));
        if !self.runs.is_empty() {
            to.runs(&self.runs);
        }
        to.finish()
    }

    fn files(&self) -> Vec<StateFile> {
        let file = |part: &Arc<Part>| StateFile { object: part.object.clone(), len: part.len };
        // Those that wait to be taken over are in no snapshot yet, and those that are being merged may have expired; neither must
        // be collected.
        let waiting = self.made.iter().flat_map(|made| made.parts.iter().flatten());
        let mut files: Vec<StateFile> =
            self.runs.files().chain(waiting).chain(self.merging.iter().flatten()).map(file).collect();
        files.sort_by(|a, b| a.object.cmp(&b.object));
        files.dedup();
        files
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<Vec<StateRead>, StateError> {
        let parsed = state::parse(snapshot, Kind::Snapshot, &self.shape)?;
        self.kept = Kept::new();
        self.runs = Runs::default();
        (self.closing, self.merging) = (None, None);
        self.made.clear();
        self.opening.clear();
        self.added.clear();
        self.forgotten.clear();
        self.watermark = parsed.watermark;
        self.kept.reserve(parsed.added.iter().map(|group| group.hashes().count()).sum());
        add_all(&mut self.kept, &parsed.added);
        if let Some(floor) = self.watermark.map(floor) {
            self.runs.expire(floor);
        }
        Ok(self.begin_opening(parsed.runs))
    }

    fn open(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        let run = self.opening.front_mut();
        let Some((run, file)) = run.and_then(|run| run.files.pop_front().map(|file| (run, file))) else {
            return Err(StateError::Damaged("more files were read than the snapshot names".to_owned()));
        };
        let part = Part::open(&file.object, file.footer_at, file.sum, bytes)?;
        let (part_bits, number) = part.place();
        if part_bits != run.part_bits || run.parts[number as usize].is_some() {
            let what =
                format!("`{}` is part `{number}` of 2^{part_bits}, which its run does not lack", file.object);
            return Err(StateError::Damaged(what));
        }
        run.parts[number as usize] = Some(Arc::new(part));
        self.finish_opening();
        Ok(())
    }

    fn apply(&mut self, delta: &[u8]) -> Result<(), StateError> {
        if delta.is_empty() {
            return Ok(());
        }
        let parsed = state::parse(delta, Kind::Delta, &self.shape)?;
        for group in &parsed.forgotten {
            group.hashes().for_each(|hash| {
                self.kept.remove(hash, group.bucket);
                self.runs.kill_anywhere(hash, group.bucket);
            });
        }
        add_all(&mut self.kept, &parsed.added);
        self.advance(self.watermark.max(parsed.watermark));
        Ok(())
    }

    /// Takes the time of a row as [`finish`](Operator::finish) did. Of a row without a time, the latest record of its key is
    /// forgotten.
    fn forget(&mut self, rows: Probed, answers: &[Vec<u8>]) -> Result<(), OperatorError> {
        let (batch, hashes, found) = self.between(rows, answers)?;
        for (row, (hash, time_ms)) in hashes.iter().zip(&batch.times_ms).enumerate() {
            let own: Vec<Found> = found.iter().filter(|f| f.row as usize == row).copied().collect();
            let mut bucket = self.window.place(*time_ms, self.watermark);
            if *time_ms == TIME_UNKNOWN_MS {
                // A row that the server refused comes back without the time of its record, which is rather ahead of the
                // last seal's watermark than behind it.
                let closed =
                    own.iter().filter(|f| !self.runs.is_dead(f.run, *hash, f.bucket)).map(|f| f.bucket).max();
                bucket = self.kept.latest(*hash).max(closed).unwrap_or(bucket);
            }
            self.remove(*hash, bucket, &own);
        }
        self.give_back(hashes);
        Ok(())
    }

    fn copies_of(&mut self, rows: &Batch) -> Result<Copies, OperatorError> {
        let hashes = self.hashes(rows)?;
        let mut copies = Copies::default();
        for (hash, time_ms) in hashes.iter().zip(&rows.times_ms) {
            let bucket = self.window.place(*time_ms, self.watermark);
            self.dropped.take(*hash, bucket, &mut copies);
        }
        self.give_back(hashes);
        Ok(copies)
    }

    fn work(&mut self) -> Option<Box<dyn StateWork>> {
        self.take_over();
        if let Some(closing) = self.closing.as_mut().filter(|c| c.is_gathered && !c.is_out) {
            closing.is_out = true;
            return Some(Box::new(Work::close(std::mem::take(&mut closing.pairs), self.sizes)));
        }
        if self.merging.is_some() {
            return None;
        }
        let chosen = self.runs.choose(&self.sizes)?;
        let runs: Vec<Run> = self.runs.iter().filter(|run| chosen.contains(&run.id)).cloned().collect();
        self.merging = Some(runs.iter().flat_map(|run| run.parts.iter().flatten().cloned()).collect());
        Some(Box::new(Work::merge(runs, self.watermark.map_or(i64::MIN, floor), self.sizes)))
    }

    fn adopt(&mut self, work: Box<dyn StateWork>) -> Result<(), StateError> {
        let made = work.into_any().downcast::<Work>().ok().and_then(|work| work.made());
        self.made.push(made.ok_or_else(|| {
            StateError::Damaged("work came back that is not this step's, or not done".to_owned())
        })?);
        self.take_over();
        Ok(())
    }

    fn is_crowded(&self) -> bool {
        self.closing.as_ref().is_some_and(|closing| closing.is_out)
            && self.kept.len() > CROWDED.saturating_mul(self.sizes.open_keys_max)
    }

    fn keys(&self) -> u64 {
        self.kept.len() + self.runs.keys()
    }

    fn closed_keys(&self) -> u64 {
        self.runs.keys()
    }

    fn memory_bytes(&self) -> u64 {
        let waiting = self.added.memory_bytes()
            + self.forgotten.values().map(|hashes| hashes.capacity() * size_of::<u128>()).sum::<usize>()
            + self.spare.iter().map(|hashes| hashes.capacity() * size_of::<u128>()).sum::<usize>()
            + self.buckets.capacity() * size_of::<i64>()
            + self.dropped.memory_bytes()
            + self.closing.as_ref().map_or(0, |closing| closing.count * size_of::<Pair>());
        (self.kept.memory_bytes() + self.runs.memory_bytes() + waiting) as u64
    }
}

fn add_all(kept: &mut Kept, groups: &[Group<'_>]) {
    for group in groups {
        for hash in group.hashes() {
            kept.add(hash, group.bucket);
        }
    }
}

#[cfg(test)]
mod tests;
