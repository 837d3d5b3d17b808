//! What may be deleted, and when.
//!
//! Owns the choice (C7): only what is settled and checkpointed goes, and only below a floor that was made durable first.
//! Does not own the deleting.
//!
//! The floor is the newest checkpoint: every record below it is folded into it. Any other object is in one of these
//! standings, by its name alone and never by its age:
//!
//! | the lane points to it | whose it is                       | number               | standing   |
//! |-----------------------|-----------------------------------|----------------------|------------|
//! | yes                   |                                   |                      | needed     |
//! | no                    | an owner of an earlier epoch      |                      | garbage    |
//! | no                    | the owner of this claim           | below its mark       | garbage    |
//! | no                    | the owner of this claim           | at or above its mark | under way  |
//! | no                    | this epoch, of another claim      |                      | under way  |
//! | no                    | an owner of a later epoch         |                      | under way  |
//! | no                    | not a name that an owner makes    |                      | foreign    |
//!
//! An owner of an earlier epoch can win no slot any more, however long it slept: its next slot was free when it last checked, and
//! the claim that this lane was folded from stands at that slot or behind it, or the slot was retired, which the floor shows.
//! The owner of this claim seals in order, so what lies below its mark was sealed or abandoned. Files of state (runs) are shared by
//! successive checkpoints and do not come into use in the order of their names: their mark is what the owner of the newest
//! checkpoint had under way when it took the snapshots.

use std::collections::BTreeSet;

use crate::lane::Lane;

/// The folders of a lane whose objects the journal points to.
pub const KINDS: [&str; 4] = ["runs", "segments", "splits", "state"];

/// The lowest record that still counts, once the checkpoint is durable.
pub fn floor(lane: &Lane) -> Option<u64> {
    lane.newest_checkpoint
}

/// Every segment, snapshot and file of state that the lane still needs.
pub fn needed(lane: &Lane) -> BTreeSet<&str> {
    let pieces = lane.tables.iter().flat_map(|t| t.pending.iter().flatten());
    // A dead piece's bytes are kept until its frame is settled, for an operator who wants to look.
    let segments = pieces.map(|p| p.segment.as_str()).chain(lane.deltas.iter().map(|d| d.segment.as_str()));
    let states = lane.snapshots.iter().map(|s| s.object.as_str());
    segments.chain(states).chain(lane.files.iter().map(|f| f.object.as_str())).collect()
}

/// The first number of each kind that this owner may still be about to seal: below it all is sealed or abandoned. Take the
/// marks *before* the lane that they are used with, or an object sealed in between would be taken for garbage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Segments, by the number of the cut.
    pub segments: u64,
    /// Split frames, by their number.
    pub splits: u64,
    /// State, by the number of the seal.
    pub state: u64,
    /// Files of state, by their number. Those that the newest checkpoint does not name and that lie below are of no use to its
    /// owner, who has nothing under way that began before it.
    pub runs: u64,
}

impl Marks {
    /// The marks as far as the lane alone shows them: for readers.
    pub fn seen_in(lane: &Lane) -> Self {
        let mut marks =
            Self { state: lane.newest_checkpoint.map_or(0, |_| lane.state_seq + 1), ..Self::default() };
        for name in needed(lane).into_iter().filter_map(Name::parse).filter(|name| name.is_of(lane)) {
            // A file below one in use may still be under way.
            if name.kind == Kind::Runs {
                continue;
            }
            let mark = marks.of_mut(name.kind);
            *mark = (*mark).max(name.number + 1);
        }
        marks
    }

    fn of_mut(&mut self, kind: Kind) -> &mut u64 {
        match kind {
            Kind::Segments => &mut self.segments,
            Kind::Splits => &mut self.splits,
            Kind::State => &mut self.state,
            Kind::Runs => &mut self.runs,
        }
    }

    fn of(mut self, kind: Kind) -> u64 {
        *self.of_mut(kind)
    }
}

/// Whether an object is still needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// The lane points to it.
    Needed,
    /// Its owner may still seal it, or has just done so.
    UnderWay,
    /// Nothing needs it or ever will.
    Garbage,
    /// Its name is not one that an owner gives: somebody else put it there, and it is left alone.
    Foreign,
}

/// Judges the standing of objects, by one lane.
#[derive(Debug)]
pub struct Judge<'a> {
    lane: &'a Lane,
    needed: BTreeSet<&'a str>,
    marks: Marks,
}

impl<'a> Judge<'a> {
    /// A judge by what `lane` says; `marks` are those of the owner whose claim it holds.
    pub fn new(lane: &'a Lane, marks: Marks) -> Self {
        Self { lane, needed: needed(lane), marks }
    }

    /// Every object that the lane points to.
    pub fn needed(&self) -> &BTreeSet<&'a str> {
        &self.needed
    }

    /// The standing of an object of one of the [`KINDS`].
    pub fn standing(&self, object: &str) -> Standing {
        if self.needed.contains(object) {
            return Standing::Needed;
        }
        match Name::parse(object) {
            None => Standing::Foreign,
            Some(name) if name.epoch < self.lane.epoch => Standing::Garbage,
            Some(name) if name.is_of(self.lane) && name.number < self.marks.of(name.kind) => {
                Standing::Garbage
            }
            Some(_) => Standing::UnderWay,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Segments,
    Splits,
    State,
    Runs,
}

/// What the name of an object says: `…/kind/epoch-nonce-number`, perhaps with more behind it.
#[derive(Clone, Copy, Debug)]
struct Name {
    kind: Kind,
    epoch: u64,
    nonce: u32,
    number: u64,
}

impl Name {
    fn parse(object: &str) -> Option<Self> {
        let mut path = object.rsplit('/');
        let (name, folder) = (path.next()?, path.next()?);
        let kind = match folder {
            "segments" => Kind::Segments,
            "splits" => Kind::Splits,
            "state" => Kind::State,
            "runs" => Kind::Runs,
            _ => return None,
        };
        let mut parts = name.split('-');
        let (epoch, nonce, number) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Self {
            kind,
            epoch: epoch.parse().ok()?,
            nonce: u32::from_str_radix(nonce, 16).ok()?,
            number: number.parse().ok()?,
        })
    }

    /// True if the lane's newest claim made it.
    fn is_of(&self, lane: &Lane) -> bool {
        let nonce = lane.nonce.as_slice().first_chunk().map(|low| u32::from_le_bytes(*low));
        self.epoch == lane.epoch && Some(self.nonce) == nonce
    }
}

#[cfg(test)]
mod tests;
