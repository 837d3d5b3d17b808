//! What the tasks of a lane share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use dataflow::{Effect, Fit, Meter, Runtime, Sighting, Table, TableError};
use protocol::record::{self, Frontier};
use protocol::{Lane, names, window};
use store::Store;
use tokio::sync::{Notify, watch};

use crate::budget;
use crate::inputs::Inlet;
use crate::journal::Journal;
use crate::ownership::Ownership;
use crate::problem::{Noticed, State};
use crate::refuse::{Refused, Splits};
use crate::reread::Patience;
use crate::retire::Retirement;
use crate::{Settings, Status};

/// One table that the lane writes.
pub struct Target {
    /// Its index in the lane's records.
    pub index: u32,
    /// The table.
    pub table: Arc<dyn Table>,
    /// True if its rows are dead letters.
    pub takes_dead_letters: bool,
    /// The settled frontier as far as answers have come in; ahead of the recorded one.
    pub frontier: AtomicU64,
    /// Frames below this one may have been sent by an owner before this one, as the journal tells at the claim.
    pub doubtful_below: u64,
    /// The first ordinal that was never let out to be sent, by this owner or, as far as the journal tells, one before it. Moved while
    /// the journal is held.
    let_out: AtomicU64,
    /// Inserts that may be begun beside those under way, as of the newest look at the journal.
    free: AtomicU64,
    /// True while nothing of this lane was ever sent to a table that may hold rows of another journal of the same source: it is asked
    /// first.
    is_held: AtomicBool,
    /// False while inserts are under way and none has been answered for a while.
    is_answered: AtomicBool,
    /// Set once all is delivered and nothing more will come, or once the table waits for the operator.
    has_ended: AtomicBool,
    /// Woken when frames were sealed, the frontier was recorded, or the lane closes.
    pub wake: Notify,
    seen: Mutex<Sighting>,
    bodies: Mutex<Bodies>,
    samples: Mutex<BTreeMap<u64, Vec<i64>>>,
    suspect: AtomicBool,
    tokens: Mutex<Tokens>,
}

/// How fast a table's tokens are used, and whether it was warned that they last too short a time.
pub struct Tokens {
    /// Measures the rate.
    pub meter: Box<dyn Meter>,
    /// What was said last.
    pub is_scarce: bool,
}

/// Seals whose record times are remembered for the latency at the most; a long outage needs no more to be seen.
const SAMPLED_SEALS_MAX: usize = 1_024;

/// Frame bodies between seal and answer.
#[derive(Default)]
struct Bodies {
    by_ordinal: BTreeMap<u64, Bytes>,
    bytes: u64,
}

impl Target {
    /// A table as `lane` has it now; an owner before this one may have sent all that the lane lets out.
    pub fn new(index: u32, table: Arc<dyn Table>, lane: &Lane, seen: Sighting) -> Self {
        let state = &lane.tables[index as usize];
        // A table that a running pipeline is given later may hold rows of others.
        let is_untouched =
            lane.tables.iter().filter(|table| !table.takes_dead_letters).all(window::is_untouched);
        Self {
            index,
            frontier: AtomicU64::new(state.frontier),
            doubtful_below: window::send_limit(state),
            let_out: AtomicU64::new(window::send_limit(state)),
            free: AtomicU64::new(0),
            is_held: AtomicBool::new(table.may_object_to_first_start() && is_untouched),
            // What was said to be unsent may be sent once an insert is answered again.
            is_answered: AtomicBool::new(state.sent_below.is_none()),
            has_ended: AtomicBool::new(false),
            wake: Notify::new(),
            seen: Mutex::new(seen),
            bodies: Mutex::default(),
            samples: Mutex::default(),
            suspect: AtomicBool::new(false),
            tokens: Mutex::new(Tokens { meter: table.tokens().meter(), is_scarce: false }),
            takes_dead_letters: state.takes_dead_letters,
            table,
        }
    }

    /// Whether the table must be asked before anything is sent to it.
    pub fn is_held(&self) -> bool {
        self.is_held.load(Ordering::Acquire)
    }

    /// Whether nothing more is sent to the table by this owner: all is delivered, or only the operator can say what became of a frame.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Nothing more is sent to the table.
    pub fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
    }

    /// Frames may be sent from the next record on.
    pub fn release(&self) {
        self.is_held.store(false, Ordering::Release);
    }

    /// How fast the table's tokens are used.
    pub fn tokens(&self) -> MutexGuard<'_, Tokens> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers record times until frame `ordinal` is settled.
    pub fn keep_samples(&self, ordinal: u64, times_ms: &[i64]) {
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.len() < SAMPLED_SEALS_MAX {
            samples.insert(ordinal, times_ms.to_vec());
        }
    }

    /// The record times kept for frame `ordinal`.
    pub fn take_samples(&self, ordinal: u64) -> Vec<i64> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner).remove(&ordinal).unwrap_or_default()
    }

    /// The server and the table as last seen.
    pub fn seen(&self) -> Sighting {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The server and the table were seen again: what [`Context::see`] does with a target.
    fn see(&self, seen: Sighting) {
        let now = seen.table_uuid.clone();
        let before = {
            let mut known = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *known, seen).table_uuid
        };
        if !before.is_empty() && !now.is_empty() && before != now {
            tracing::warn!(
                table = self.table.name(),
                before,
                now,
                "another table has this name now (EXCHANGE, RENAME, or dropped and created again): later inserts go to the new one"
            );
        }
        self.suspect.store(false, Ordering::Release);
    }

    /// The table was seen, and a person has to mend it: nothing is sent to it until it was [seen](Self::see) again.
    pub fn suspect(&self) {
        self.suspect.store(true, Ordering::Release);
    }

    /// True if nothing may be sent for now.
    pub fn is_suspect(&self) -> bool {
        self.suspect.load(Ordering::Acquire)
    }

    /// The same as a part of a record.
    pub fn server(&self) -> record::Sighting {
        recorded(self.index, self.seen())
    }

    /// The frontier to put into the next record after `lane`. The journal must be held from here to the append, or
    /// another record may take a later frontier along in between.
    pub fn frontier_record(&self, lane: &Lane, settings: &Settings) -> Frontier {
        let frontier = self.frontier.load(Ordering::Acquire);
        let window = window::recorded(&lane.tables[self.index as usize], frontier, self.window(settings));
        let (let_out, free) = (self.let_out.load(Ordering::Acquire), self.free.load(Ordering::Acquire));
        let is_answered = self.is_answered.load(Ordering::Acquire);
        let sent_below = match self.is_held() {
            true => Some(frontier),
            false => (!is_answered).then(|| window::sent_below(frontier, let_out, free)),
        };
        Frontier { table: self.index, frontier, window, sent_below }
    }

    /// Frames below `end` may be sent from now on, and `free` more before the next look. The journal must be held since it was looked at.
    pub fn let_out(&self, end: Option<u64>, free: u64) {
        self.let_out.fetch_max(end.unwrap_or(0), Ordering::AcqRel);
        self.free.store(free, Ordering::Release);
    }

    /// Whether the next record would let out frames from `limit` on that are said to be unsent.
    pub fn lets_out_more(&self, limit: u64, frontier: u64) -> bool {
        let (let_out, free) = (self.let_out.load(Ordering::Acquire), self.free.load(Ordering::Acquire));
        !self.is_answered.load(Ordering::Acquire) && window::sent_below(frontier, let_out, free) > limit
    }

    /// Whether inserts are answered at present; true if that has changed. What it means for frames holds with the next record.
    pub fn set_answered(&self, is_answered: bool) -> bool {
        self.is_answered.swap(is_answered, Ordering::AcqRel) != is_answered
    }

    /// W as the table and the settings have it now.
    pub fn window(&self, settings: &Settings) -> u64 {
        let frames = self.table.tokens().frames_max(&self.seen());
        // At most the user's bound on frames in doubt.
        frames.clamp(1, settings.window_frames_max.max(1))
    }

    /// True if bodies of so many bytes will be kept: room only grows but for what [`keep`](Self::keep) takes.
    pub fn has_room(&self, bytes: u64, bytes_max: u64) -> bool {
        let bodies = self.bodies.lock().unwrap_or_else(PoisonError::into_inner);
        bodies.bytes + bytes <= bytes_max
    }

    /// Keeps a frame's body for its first attempt, as long as there is room.
    pub fn keep(&self, ordinal: u64, body: Bytes, bytes_max: u64) {
        let mut bodies = self.bodies.lock().unwrap_or_else(PoisonError::into_inner);
        if bodies.bytes + body.len() as u64 <= bytes_max {
            bodies.bytes += body.len() as u64;
            bodies.by_ordinal.insert(ordinal, body);
        }
    }

    /// The body of a frame, if it was kept.
    pub fn kept(&self, ordinal: u64) -> Option<Bytes> {
        self.bodies.lock().unwrap_or_else(PoisonError::into_inner).by_ordinal.get(&ordinal).cloned()
    }

    /// A frame is settled.
    pub fn forget(&self, ordinal: u64) {
        let mut bodies = self.bodies.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(body) = bodies.by_ordinal.remove(&ordinal) {
            bodies.bytes -= body.len() as u64;
        }
    }
}

/// A sighting as a part of a record.
pub fn recorded(table: u32, seen: Sighting) -> record::Sighting {
    let Sighting { table_uuid, feeds_views, facts } = seen;
    record::Sighting { table, table_uuid, feeds_views, facts }
}

/// What a record keeps of a sighting.
pub fn seen(recorded: &record::Sighting) -> Sighting {
    Sighting {
        table_uuid: recorded.table_uuid.clone(),
        feeds_views: recorded.feeds_views,
        facts: recorded.facts.clone(),
    }
}

/// What the tasks of a lane share.
pub struct Context {
    /// Clock, sleep, compute, randomness.
    pub runtime: Arc<dyn Runtime>,
    /// Where records come from, by place.
    pub inputs: Vec<Arc<Inlet>>,
    /// How long a source has not answered when a record was to be read again.
    pub patience: Patience,
    /// Segments and snapshots.
    pub store: Arc<dyn Store>,
    /// The lane's folder in it.
    pub folder: String,
    /// The bounds.
    pub settings: Settings,
    /// What is told.
    pub status: Arc<Status>,
    /// The journal; held while a record is appended.
    pub journal: tokio::sync::Mutex<Journal>,
    /// The gate of all inserts.
    pub ownership: Arc<Ownership>,
    /// The tables, by place.
    pub targets: Vec<Target>,
    /// This owner's epoch.
    pub epoch: u64,
    /// This owner's nonce.
    pub nonce: u128,
    /// Woken whenever a frontier was recorded: there is room in the spool again.
    pub room: Notify,
    /// Woken when a cut was sealed or a frame settled: the lane, when it has read all, waits for the last of them.
    pub quiet: Notify,
    /// Set while seals wait for room in the spool.
    pub spool_full: AtomicBool,
    /// Refused rows that are not sealed as dead letters yet. Seals do not wait for room while there are any: what they
    /// wait for may be the frame of such a row, whose dead letter stands behind them.
    pub refusals: AtomicUsize,
    /// Cuts that were sealed.
    pub sealed_cuts: AtomicU64,
    /// Set when no more frames will be sealed.
    pub closing: AtomicBool,
    /// Single rows that the server refuses, on their way to the lane.
    pub refused: tokio::sync::mpsc::Sender<Refused>,
    /// Names of split frames' objects.
    pub splits: Splits,
    /// The number of the next file of state.
    pub state_files: AtomicU64,
    /// Files of state below this number are named by the newest checkpoint, or of no use to this owner.
    pub state_horizon: AtomicU64,
    /// Set while a checkpoint is being written.
    pub checkpointing: AtomicBool,
    /// What was retired so far.
    pub retirement: Retirement,
    /// Turns true when the lane is to end in order and be opened again.
    pub reopening: watch::Sender<bool>,
}

impl Context {
    /// The server and a table were seen again: nothing that was asked about is waited for any more, and the tokens used since
    /// are counted.
    pub fn see(&self, place: usize, seen: Sighting) {
        let target = &self.targets[place];
        target.see(seen);
        budget::tell(self, target);
        let name = target.table.name();
        match target.table.changed().map(|_| target.table.fit(&target.table.layout())) {
            // Frames are made for a column that is gone: that is seen before one of them is refused.
            Some(Fit::No { words }) => {
                let now_ms = self.runtime.wall_ms();
                self.status.met(name, State::TableDiffers, &words, Effect::None, Noticed::Asking, now_ms);
            }
            _ => self.status.ended(name, Noticed::Asking),
        }
    }

    /// Ends the lane in order, so that it is opened again for the columns and views that the table `place` has now.
    pub fn reopen(&self, place: usize) {
        if !self.reopening.send_replace(true) {
            let table = &self.targets[place].table;
            if let Some(now) = table.changed() {
                let changes = table.layout().difference(&now);
                tracing::info!(
                    table = table.name(),
                    changes,
                    "the table's columns have changed; the lane is opened again for them"
                );
            }
            if table.must_reopen() {
                tracing::info!(
                    table = table.name(),
                    "the table feeds a new materialized view; the lane is opened again for it"
                );
            }
        }
        self.wake_all();
    }

    /// True if the lane is to end in order and be opened again.
    pub fn is_reopening(&self) -> bool {
        *self.reopening.borrow()
    }

    /// The server or a table could not be seen; `effect` is that of the frame for which it was looked at.
    pub fn not_seen(&self, place: usize, error: &TableError, effect: Effect) {
        let (name, state) = (self.targets[place].table.name(), State::of_table(error.kind));
        self.status.met(name, state, &error.message, effect, Noticed::Asking, self.runtime.wall_ms());
    }

    /// The name of this owner's segment `number`.
    pub fn segment(&self, number: u64) -> String {
        names::segment(&self.folder, self.epoch, self.nonce, number)
    }

    /// The place of the table for dead letters.
    pub fn letters(&self) -> usize {
        self.targets.iter().position(|target| target.takes_dead_letters).expect("every pipeline has one")
    }

    /// Wakes every delivery task.
    pub fn wake_all(&self) {
        self.targets.iter().for_each(|t| t.wake.notify_one());
    }

    /// True while seals wait for room in the spool.
    pub fn is_spool_full(&self) -> bool {
        self.spool_full.load(Ordering::Acquire)
    }

    /// The spool holds this much now: with less than the bound the lane may read again, and the next seal judges.
    pub fn see_spool(&self, bytes: u64) {
        if bytes == 0 || bytes < self.settings.spool_bytes_max {
            self.spool_full.store(false, Ordering::Release);
        }
        self.room.notify_one();
        self.quiet.notify_one();
    }

    /// True when no more frames will be sealed.
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }
}
