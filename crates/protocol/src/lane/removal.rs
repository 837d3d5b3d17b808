//! A lane that was reset or deleted.
//!
//! Owns what may follow in its journal, and the lane that is left: none, except for its number, its epoch and its last owner. Does not own
//! the deletion of objects (`engine::remove`).
//!
//! The journal continues behind a removal, and so do its numbers and epochs: an owner of the lane as it was, however long it slept, finds the
//! number that it would write next taken or below the floor, as behind any checkpoint. A journal that began at 0 again would give it a free
//! number, and its records would count.
//!
//! | newest removal | what may follow                            | a start                                            |
//! |----------------|--------------------------------------------|----------------------------------------------------|
//! | not done       | its end, or another removal                | is refused: objects of the earlier pipeline remain |
//! | done           | a claim, a lane that takes the name, or another removal | begins anew, as the next epoch                     |
//!
//! A removal is a claim as well: whoever removes a lane owns it from there on.

use super::{Lane, Violation, violation};
use crate::record::{Body, Record, Removal};

/// How far a reset or deletion is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed {
    /// Whether all objects of the pipeline are deleted.
    pub is_done: bool,
}

impl Lane {
    /// True if the pipeline was reset or deleted, and nobody has claimed the lane since.
    pub fn is_removed(&self) -> bool {
        self.removed.is_some_and(|removed| removed.is_done)
    }

    /// True if the journal says anything of a pipeline: it is neither empty nor behind a removal.
    pub fn has_run(&self) -> bool {
        self.next_seq > 0 && self.removed.is_none()
    }

    /// The owner that has begun a removal finishes it: from there on the first of its two records is the oldest that counts.
    pub(super) fn remove(&mut self, record: &Record, removal: &Removal) -> Result<(), Violation> {
        let begun = self.removed.and(self.newest_checkpoint).filter(|_| self.is_owner(record));
        *self = Self::from_removal(record, removal)?;
        self.newest_checkpoint = begun.or(self.newest_checkpoint);
        Ok(())
    }

    fn is_owner(&self, record: &Record) -> bool {
        !self.nonce.is_empty() && record.epoch == self.epoch && record.nonce == self.nonce
    }

    /// What is true behind a removal.
    pub(super) fn from_removal(record: &Record, removal: &Removal) -> Result<Self, Violation> {
        super::hostile::check_place(record)?;
        let before = removal.before.unwrap_or_default();
        Ok(Self {
            next_seq: record.seq.saturating_add(1),
            epoch: record.epoch,
            run_epoch: record.epoch,
            nonce: record.nonce.clone(),
            // Nothing before it counts, as with a checkpoint.
            newest_checkpoint: Some(record.seq),
            removed: Some(Removed { is_done: removal.is_done }),
            newest_ms: record.written_at_ms.max(before.until_ms),
            before,
            ..Self::new()
        })
    }

    /// Begun by a new owner, finished by the one that has begun it. A name that a lane has left or not reached yet can be removed too.
    pub(super) fn check_removal(&self, record: &Record, removal: &Removal) -> Result<(), Violation> {
        if !removal.is_done {
            return self.check_claim(record);
        }
        match self.removed {
            Some(Removed { is_done: false }) if self.is_owner(record) => Ok(()),
            _ => Err(violation(record, "order", "the end of a removal that its writer has not begun")),
        }
    }

    /// Nothing is read, sealed or settled while objects of the earlier pipeline may be left; and then not without a claim.
    pub(super) fn check_not_removed(&self, record: &Record, body: &Body) -> Result<(), Violation> {
        let Some(removed) = self.removed else { return Ok(()) };
        match body {
            Body::Claim(_) | Body::Arrival(_) if removed.is_done => Ok(()),
            _ => Err(violation(record, "order", "the pipeline was reset or deleted")),
        }
    }
}

#[cfg(test)]
mod tests;
