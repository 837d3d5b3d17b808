//! What the tasks of a lane share.
//!
//! Owns the parts side by side, and what concerns several of them: a table that was seen again, a lane that is to be opened again. Does not own
//! the work of the tasks; no module that this one needs knows of it, so a part can be used without the whole.

use std::sync::Arc;

use dataflow::{Effect, Fit, Runtime, Sighting, TableError};
use tokio::sync::{Mutex, mpsc, watch};

use crate::budget;
use crate::checkpoint::Checkpoints;
use crate::inputs::Inlet;
use crate::journal::Journal;
use crate::objects::Objects;
use crate::ownership::Ownership;
use crate::problem::{Noticed, State};
use crate::refused::Refused;
use crate::reread::Reread;
use crate::spool::Spool;
use crate::target::Target;
use crate::{Settings, Status};

/// What the tasks of a lane share.
pub struct Context {
    /// Clock, sleep, compute, randomness.
    pub runtime: Arc<dyn Runtime>,
    /// Where records come from, by place.
    pub inputs: Arc<[Arc<Inlet>]>,
    /// Records of refused rows, read again.
    pub reread: Reread,
    /// This owner's objects in the store.
    pub objects: Arc<Objects>,
    /// The bounds.
    pub settings: Settings,
    /// What is told.
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
    /// Single rows that the server refuses, on their way to the lane.
    pub refused: mpsc::Sender<Refused>,
    /// Turns true when the lane is to end in order and be opened again.
    pub reopening: watch::Sender<bool>,
}

impl Context {
    /// The server and a table were seen again: nothing that was asked about is waited for any more, and the tokens used since
    /// are counted.
    pub fn see(&self, place: usize, seen: Sighting) {
        let target = &self.targets[place];
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

    /// The place of the table for dead letters.
    pub fn letters(&self) -> usize {
        self.targets.iter().position(|target| target.takes_dead_letters).expect("every pipeline has one")
    }

    /// Wakes every delivery task.
    pub fn wake_all(&self) {
        self.targets.iter().for_each(|t| t.wake.notify_one());
    }
}
