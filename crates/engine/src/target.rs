//! One table that a lane writes, as the tasks that write it share it.
//!
//! Owns what the seal and the delivery tell each other of a table: what was let out, what was settled, bodies kept until they are answered,
//! and the table as last seen. Does not own the rules ([`protocol::window`]) or who sends ([`crate::deliver`]).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use dataflow::{Fit, Meter, Sighting, Table};
use protocol::record::{self, Frontier};
use protocol::{Lane, window};
use tokio::sync::Notify;

use crate::{Settings, start};

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
    /// True while nothing of this lane was ever sent to a table that may hold rows of another journal of the same source, or greater versions: it
    /// is asked first.
    is_held: AtomicBool,
    /// False while inserts are under way and none has been answered for a while, and once the table waits for the operator.
    is_answered: AtomicBool,
    /// Set once all is delivered and nothing more will come, or once the table waits for the operator.
    has_ended: AtomicBool,
    /// Woken when frames were sealed, the frontier was recorded, or the lane closes.
    pub wake: Notify,
    /// Woken when a body that was kept is given up: there is room for another.
    pub freed: Notify,
    seen: Mutex<Sighting>,
    bodies: Mutex<Bodies>,
    samples: Mutex<BTreeMap<u64, Vec<i64>>>,
    suspect: AtomicBool,
    tokens: Mutex<Tokens>,
    /// Of which new columns it was said last that they are not read.
    not_read: Mutex<Option<String>>,
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
        // A table that a running pipeline is given later may hold rows of others; only their versions may be an objection.
        let is_untouched =
            lane.tables.iter().filter(|table| !table.takes_dead_letters).all(window::is_untouched);
        Self {
            index,
            frontier: AtomicU64::new(state.frontier),
            doubtful_below: window::send_limit(state),
            let_out: AtomicU64::new(window::send_limit(state)),
            free: AtomicU64::new(0),
            is_held: AtomicBool::new(
                table.may_object_to_first_start() && (is_untouched || start::must_ask(lane, &*table)),
            ),
            // What was said to be unsent may be sent once an insert is answered again.
            is_answered: AtomicBool::new(state.sent_below.is_none()),
            has_ended: AtomicBool::new(false),
            wake: Notify::new(),
            freed: Notify::new(),
            seen: Mutex::new(seen),
            bodies: Mutex::default(),
            samples: Mutex::default(),
            suspect: AtomicBool::new(false),
            not_read: Mutex::default(),
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

    /// The server and the table were seen again: what `Context::see` does with a target.
    pub fn see(&self, seen: Sighting) {
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
        self.tell_not_read(not_read(&*self.table));
    }

    /// Says once which new columns of the table are not read.
    fn tell_not_read(&self, columns: Option<String>) {
        let mut said = self.not_read.lock().unwrap_or_else(PoisonError::into_inner);
        if *said == columns {
            return;
        }
        if let Some(columns) = &columns {
            tracing::warn!(
                table = self.table.name(),
                columns,
                "the table has new columns that are not read until the pipeline is started again, because another column was dropped or \
                 made narrower; if that was on purpose, restart the pipeline"
            );
        }
        *said = columns;
    }

    /// The table was seen, and the operator has to fix it: nothing is sent to it until it was [seen](Self::see) again.
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
        let is_answered = self.is_answered();
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
        !self.is_answered() && window::sent_below(frontier, let_out, free) > limit
    }

    /// Whether inserts are answered at present, as far as any is under way.
    pub fn is_answered(&self) -> bool {
        self.is_answered.load(Ordering::Acquire)
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

    /// Whether one of the next `frames` unsettled frames was kept: there is more room once it is settled.
    pub fn frees_soon(&self, frames: usize) -> bool {
        let bodies = self.bodies.lock().unwrap_or_else(PoisonError::into_inner);
        let next = self.frontier.load(Ordering::Acquire) + frames as u64;
        bodies.by_ordinal.first_key_value().is_some_and(|(first, _)| *first < next)
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
            self.freed.notify_one();
        }
    }
}

/// A sighting as a part of a record.
pub fn recorded(table: u32, seen: Sighting) -> record::Sighting {
    let Sighting { table_uuid, feeds_views, facts } = seen;
    record::Sighting { table, table_uuid, feeds_views, facts }
}

/// Columns that the table has and the lane does not read, and will not before the next start: another column was dropped or made
/// narrower, and to open the lane again would read without it as well.
fn not_read(table: &dyn Table) -> Option<String> {
    let (opened, now) = (table.layout(), table.changed()?);
    if matches!(table.fit(&opened), Fit::AsIs | Fit::Again { always: true }) {
        return None;
    }
    let new = now.columns.iter().filter(|column| opened.column(&column.name).is_none());
    let new: Vec<String> = new.map(|column| format!("`{}`", column.name)).collect();
    (!new.is_empty()).then(|| new.join(", "))
}

/// What a record keeps of a sighting.
pub fn seen(recorded: &record::Sighting) -> Sighting {
    Sighting {
        table_uuid: recorded.table_uuid.clone(),
        feeds_views: recorded.feeds_views,
        facts: recorded.facts.clone(),
    }
}
