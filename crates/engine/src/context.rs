//! What the tasks of a lane share.
//!
//! Owns the parts side by side, and what concerns several of them: a table that was seen again, a lane that is to be opened again. Does not own
//! the work of the tasks; no module that this one needs knows of it, so a part can be used without the whole.

use std::sync::Arc;

use bytes::Bytes;
use dataflow::{Effect, Fit, Runtime, Sighting, TableError};
use protocol::lane::Piece;
use tokio::sync::{Mutex, mpsc, watch};

use crate::budget;
use crate::checkpoint::Checkpoints;
use crate::inputs::Inlet;
use crate::journal::Journal;
use crate::objects::Objects;
use crate::ownership::Ownership;
use crate::problem::{Noticed, State};
use crate::refused::Refused;
use crate::remake::{self, Remaker};
use crate::reread::Reread;
use crate::settings::Pace;
use crate::spool::Spool;
use crate::target::Target;
use crate::{EngineError, Settings, Status, reopened, segment};

/// What the tasks of a lane share.
pub struct Context {
    /// Clock, sleep, compute, randomness.
    pub runtime: Arc<dyn Runtime>,
    /// Where records come from, by place.
    pub inputs: Arc<[Arc<Inlet>]>,
    /// Records of refused rows, read again.
    pub reread: Reread,
    /// Segments that were never written, made again; nothing if this pipeline writes each before its seal.
    pub remaker: Remaker,
    /// Whether segments may be left unwritten.
    pub may_leave: bool,
    /// This owner's objects in the store.
    pub objects: Arc<Objects>,
    /// The bounds.
    pub settings: Settings,
    /// What is reported.
    pub status: Arc<Status>,
    /// The journal; held while a record is appended.
    pub journal: Arc<Mutex<Journal>>,
    /// The gate of all inserts.
    pub ownership: Arc<Ownership>,
    /// The tables, by place.
    pub targets: Vec<Target>,
    /// Checkpoints of the state, and what may go once they are made.
    pub checkpoints: Arc<Checkpoints>,
    /// What is sealed and not settled.
    pub spool: Spool,
    /// Rows that the server refuses one by one, on their way to the lane: those of a frame together.
    pub refused: mpsc::Sender<Vec<Refused>>,
    /// True once the process was asked to stop.
    pub stopping: watch::Receiver<bool>,
    /// Turns true when the lane is to end in order and be opened again.
    pub reopening: watch::Sender<bool>,
}

impl Context {
    /// How the clocks of the partitions of an input go, by its number in the journal; as all others if it is none of this run.
    pub fn pace(&self, number: u32) -> Pace {
        let input = self.inputs.iter().find(|input| input.number == number);
        self.settings.pace(input.map_or("", |input| &input.name))
    }

    /// The server and a table were seen again: nothing that was asked about is waited for any more, and the tokens used since
    /// are counted.
    pub fn see(&self, place: usize, seen: Sighting) {
        let target = &self.targets[place];
        reopened::saw(&self.status, target.table.name(), seen.feeds_views, self.runtime.elapsed());
        target.see(seen);
        budget::tell(target, &self.settings, &self.status);
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

    /// False for a while if the lane was opened again too often for what the table `place` feeds. Other columns are taken up at once all the same, and what
    /// concerns the inserts themselves soon.
    pub fn may_reopen(&self, place: usize) -> bool {
        let target = &self.targets[place];
        let has_changed = target.table.changed().is_some() && !target.takes_dead_letters;
        let inserts = target.table.must_reopen_at_once();
        has_changed || reopened::may_open(&self.status, target.table.name(), inserts, self.runtime.elapsed())
    }

    /// Ends the lane in order, so that it is opened again for the columns and views that the table `place` has now.
    pub fn reopen(&self, place: usize) {
        if !self.reopening.send_replace(true) {
            let table = &self.targets[place].table;
            let (changed, has_more) = (table.changed(), table.must_reopen());
            if changed.is_none() && !has_more {
                tracing::info!(
                    table = table.name(),
                    "the table was seen with other columns or views a moment ago; the lane is opened again"
                );
            }
            if let Some(now) = changed {
                let changes = table.layout().difference(&now);
                tracing::info!(
                    table = table.name(),
                    changes,
                    "the table's columns have changed; the lane is opened again for them"
                );
            }
            if has_more {
                reopened::opened(&self.status, table.name(), self.runtime.elapsed());
                tracing::info!(
                    table = table.name(),
                    "the table feeds a new materialized view, has other partitions, or an engine that goes by the order of inserts; the lane is opened again for it"
                );
            }
        }
        self.wake_all();
    }

    /// True if the lane is to end in order and be opened again.
    pub fn is_reopening(&self) -> bool {
        *self.reopening.borrow()
    }

    /// A part of a piece's segment, which goes to the table `place`. A segment that was never written is made again, and kept until its frame is settled.
    ///
    /// # Errors
    /// As [`segment::read`] and [`Remaker::segment`].
    pub async fn part(
        &self,
        place: usize,
        piece: &Piece,
        (offset, len): (u64, u64),
        crc: Option<u32>,
    ) -> Result<Bytes, EngineError> {
        let (object, frame) = (&piece.segment, &piece.frame);
        if let Some(part) = self.objects.part(object, offset, len, crc).await? {
            return Ok(part);
        }
        let Some(made) = &frame.made else { return Err(segment::missing(object)) };
        let from = remake::places(self.journal.lock().await.lane(), made);
        let from = from.ok_or_else(|| segment::missing(object))?;
        let table = self.targets[place].table.clone();
        let pieces = self.remaker.segment(from, frame, made, table).await?;
        tracing::info!(
            table = self.targets[place].table.name(),
            frame = frame.ordinal,
            "an insert was made again from the source"
        );
        let now = self.runtime.elapsed();
        self.objects.unwritten.hold(object, (frame.table, frame.ordinal), pieces, now);
        self.objects.part(object, offset, len, crc).await?.ok_or_else(|| segment::missing(object))
    }

    /// True if the process was asked to stop, or the lane is to be opened again.
    pub fn is_stopping(&self) -> bool {
        *self.stopping.borrow() || self.is_reopening()
    }

    /// The server or a table could not be seen; `effect` is that of the frame for which it was polled.
    pub fn not_seen(&self, place: usize, error: &TableError, effect: Effect) {
        let (name, now_ms) = (self.targets[place].table.name(), self.runtime.wall_ms());
        self.status.unanswered(name, error.kind, &error.message, effect, now_ms);
    }

    /// The place of the table for dead letters.
    pub fn letters(&self) -> usize {
        self.targets.iter().position(|target| target.takes_dead_letters).expect("every pipeline has one")
    }

    /// Wakes every delivery task.
    pub fn wake_all(&self) {
        self.targets.iter().for_each(|t| t.wake.notify_one());
    }
}
