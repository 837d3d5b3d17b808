//! A lane that continues under another name.
//!
//! Owns what may follow in both journals, the lane as its new name begins with it, and the next step of a rename that may have been
//! interrupted anywhere. Does not own the copying of objects (`engine::rename`).
//!
//! The old journal's `Rename` is the moment that counts: before it the pipeline continues under the old name, after it only under
//! the new one. The new name is taken first (`Arrival`), so that no start under it can read the source again meanwhile.
//!
//! | journal of the old name | journal of the new name | next step                                         |
//! |-------------------------|-------------------------|---------------------------------------------------|
//! | in use                  | none                    | take the new name                                 |
//! | in use                  | waits for the lane      | leave the old name                                |
//! | has left                | none                    | take the new name: somebody has deleted it        |
//! | has left                | waits for the lane      | copy, then hand the lane over                     |
//! | has left                | has the lane            | say in the old journal that nothing there counts  |
//! | has left, all done      | whatever there is       | delete what is left under the old name            |
//! | anything else           |                         | refused                                           |
//!
//! A name that was reset or deleted ([`super::removal`]) counts as none.

use super::{Lane, Violation, violation};
use crate::record::{Before, Body, Checkpoint, FormerName, Record, Rename};

/// The name that a lane has moved to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renamed {
    /// The pipeline's new name.
    pub to: String,
    /// Whether the new name has all that it needs.
    pub is_done: bool,
}

/// What a rename does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Put the `Arrival` under the new name.
    Take,
    /// Append the `Rename` to the old journal.
    Leave,
    /// Copy the objects, then put the checkpoint under the new name.
    HandOver,
    /// Append to the old journal that all is done.
    Close,
    /// Delete the objects under the old name.
    Clean,
    /// There is no pipeline of the old name.
    NotThere,
    /// The new name belongs to another pipeline, or to one that was renamed itself.
    Taken,
    /// The pipeline was renamed to another name than this one.
    Elsewhere,
}

/// The next step of renaming `from` to `to`, by the lanes under both names. `is_empty` says that nothing lies under the new name.
pub fn next_step(old: &Lane, new: &Lane, is_empty: bool, from: &str, to: &str) -> Step {
    let has_left = match &old.renamed {
        None if !old.has_run() => return Step::NotThere,
        None => false,
        Some(renamed) if renamed.to != to => return Step::Elsewhere,
        Some(renamed) if renamed.is_done => return Step::Clean,
        Some(_) => true,
    };
    let has_arrived = || new.former_names.iter().any(|former| former.name == from);
    match &new.arriving_from {
        Some(coming) if coming == from && has_left => Step::HandOver,
        Some(coming) if coming == from => Step::Leave,
        Some(_) => Step::Taken,
        None if is_empty => Step::Take,
        None if has_left && has_arrived() && new.renamed.is_none() => Step::Close,
        None => Step::Taken,
    }
}

impl Lane {
    /// The lane as a checkpoint under its new name, in the folder `to`, which holds copies of the objects in the folder `from`. `None`
    /// if the lane points to an object outside of `from`.
    ///
    /// Numbers begin again there: the snapshots and the deltas after them stand for seals before the first.
    pub fn under_name(&self, name: &str, from: &str, to: &str, at_ms: i64) -> Option<Checkpoint> {
        let moved = |object: &mut String| {
            let rest = object.strip_prefix(from)?.strip_prefix('/')?;
            *object = format!("{to}/{rest}");
            Some(())
        };
        let mut image = self.image(self.state_seq);
        let former = from.split('/').next()?.to_owned();
        let mut before = image.before.unwrap_or_default();
        let from_ms = std::mem::take(&mut before.letters_from_ms);
        image.before = Some(before).filter(|before| *before != Before::default());
        image.former_names.push(FormerName { name: former, until_ms: at_ms, from_ms });
        if !self.pipeline.is_empty() {
            name.clone_into(&mut image.pipeline);
        }
        for piece in image.tables.iter_mut().flat_map(|table| &mut table.pending) {
            moved(&mut piece.segment)?;
        }
        for delta in &mut image.deltas {
            moved(&mut delta.segment)?;
            delta.seq = 1;
        }
        let (mut states, mut files) = (self.snapshots.clone(), self.files.clone());
        for state in &mut states {
            moved(&mut state.object)?;
        }
        for file in &mut files {
            moved(&mut file.object)?;
        }
        Some(Checkpoint { lane: Some(image), states, state_seq: 0, files })
    }

    /// Only the lane itself may follow, whoever its owner was.
    pub(super) fn check_arrived(&self, record: &Record, body: &Body) -> Result<(), Violation> {
        match body {
            Body::Checkpoint(_) => Self::from_checkpoint(record).map(drop),
            _ => Err(violation(record, "order", "the lane that is to have this name has not arrived")),
        }
    }

    /// Nothing is read, sealed or settled under a name that the lane has left.
    pub(super) fn check_not_renamed(&self, record: &Record, body: &Body) -> Result<(), Violation> {
        let Some(renamed) = &self.renamed else { return Ok(()) };
        match body {
            Body::Claim(_) => Ok(()),
            Body::Rename(rename) if rename.to == renamed.to => Ok(()),
            _ => Err(violation(record, "order", format!("the pipeline was renamed to `{}`", renamed.to))),
        }
    }

    pub(super) fn check_arrival(&self, record: &Record) -> Result<(), Violation> {
        match self.next_seq == 0 || self.is_removed() {
            true => Ok(()),
            false => Err(violation(record, "order", "the name is taken already")),
        }
    }

    pub(super) fn rename(&mut self, rename: &Rename) {
        self.renamed = Some(Renamed { to: rename.to.clone(), is_done: rename.is_done });
        if rename.is_done {
            // What the lane pointed to may be deleted.
            *self = Self {
                next_seq: self.next_seq,
                epoch: self.epoch,
                nonce: std::mem::take(&mut self.nonce),
                pipeline: std::mem::take(&mut self.pipeline),
                newest_checkpoint: self.newest_checkpoint,
                renamed: self.renamed.take(),
                ..Self::new()
            };
        }
    }
}

#[cfg(test)]
mod tests;
