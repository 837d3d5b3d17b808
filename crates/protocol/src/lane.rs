//! What is true after a number of records.
//!
//! Owns the fold from records to a lane's state, and with it the checks that no writer may bypass: every record that
//! breaks an invariant is a [`Violation`], both before it is written and when it is read back. Does not own the decisions
//! that lead to records.

mod change;
mod fates;
mod forget;
mod frontiers;
mod genesis;
pub mod hand_over;
mod hostile;
mod image;
mod layouts;
mod ledger;
mod made;
mod passes;
mod pieces;
pub mod removal;
pub mod rename;
mod seals;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

pub use self::fates::FATES_KEPT;
pub use self::passes::{PASSES_MAX, Pass};
pub use self::removal::Removed;
pub use self::rename::Renamed;
use self::seals::{Framed, check_frame_numbers};
use crate::doubt::Verdict;
use crate::record::{
    Absorbed, Before, Body, Checkpoint, Counts, DeltaImage, Derived, Fates, Forgotten, FormerName, Frame,
    HandedOver, Layout, Part, Position, Question, Record, Rows, Sighting, StateFile, StateObject, StepShape,
    TableGenesis, TakenOver,
};

/// Pieces that one refused frame may be split into, dead ones among them: bisecting half a million rows down to a dozen
/// scattered bad ones stays below it.
pub const PIECES_MAX: usize = 1_024;

/// Stands for "no time seen yet".
pub const TIME_UNKNOWN_MS: i64 = i64::MIN;

/// A record that would break an invariant, with the invariant's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "journal record {seq} breaks {rule}: {what}; nothing was applied, keep the store as it is and report this"
)]
pub struct Violation {
    /// The record's number.
    pub seq: u64,
    /// C1, C2, C3, C4, C5, C6, C8, C9, C10, or `order` for records that do not follow each other.
    pub rule: &'static str,
    /// What is wrong.
    pub what: String,
}

/// One input of the lane, and what its records became.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InputState {
    /// Its name in the pipeline file.
    pub name: String,
    /// True once it was opened for the first time.
    pub was_opened: bool,
    /// What all of its records became.
    pub counts: Counts,
}

/// One partition of the lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionState {
    /// The number of its input.
    pub input: u32,
    /// Topic, file or publisher group.
    pub stream: String,
    /// Number inside of the stream.
    pub index: u32,
    /// Identity at genesis.
    pub identity: String,
    /// Where the next seal begins.
    pub next: Position,
    /// Leader epoch that goes with `next`.
    pub leader_epoch: i32,
    /// Greatest record time so far.
    pub time_ms_max: i64,
    /// The lane that has handed it over, if one has.
    pub taken_over: Option<TakenOver>,
}

/// A frame, or a piece of one that was split: the unit that is sent under one token.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// Where and what it is.
    pub frame: Frame,
    /// Its number within the frame.
    pub piece: u32,
    /// Its token's generation.
    pub generation: u32,
    /// The object that holds its bytes.
    pub segment: String,
    /// The server as seen before its first attempt could be made.
    pub server: Option<Sighting>,
    /// True if a split replaced it; a dead piece is never sent again.
    pub dead: bool,
    /// When its frame was sealed, Unix milliseconds by the writer's wall clock; for the spool's age alone.
    pub sealed_at_ms: i64,
    /// What was asked of the operator last, under the present token.
    pub question: Option<Question>,
    /// What the operator said; `None` while the question is open.
    pub verdict: Option<Verdict>,
    /// True if its frame is known to be settled, though an earlier one is not: it is never sent again.
    pub settled: bool,
    /// Which row of the whole frame its first row is: pieces go out in the order of their rows.
    pub first_row: u64,
    /// The columns that it holds; `None` if no record says them.
    pub layout: Option<Arc<Layout>>,
}

impl Piece {
    /// The name of the piece's frame, as the provenance column and query ids have it.
    pub fn id(&self) -> u128 {
        self.frame.id.as_slice().try_into().map_or(0, u128::from_le_bytes)
    }

    /// True if it is still to be delivered.
    pub fn is_live(&self) -> bool {
        !self.dead && !self.settled
    }

    /// The question that waits for the operator, if one does.
    pub fn open_question(&self) -> Option<&Question> {
        self.question.as_ref().filter(|_| self.verdict.is_none() && self.is_live())
    }
}

/// One table of the lane.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableState {
    /// `database.table`.
    pub name: String,
    /// True if its rows are dead letters.
    pub takes_dead_letters: bool,
    /// What became of its rows since genesis, as recorded.
    pub rows: Rows,
    /// First ordinal that is not settled, as recorded.
    pub frontier: u64,
    /// W, as recorded with the frontier: frames below `frontier + window` may have been sent.
    pub window: u64,
    /// If given, frames from this ordinal on were not sent, whatever the window.
    pub sent_below: Option<u64>,
    /// Ordinal of the next frame.
    pub next_ordinal: u64,
    /// The table as last seen.
    pub server: Option<Sighting>,
    /// Pieces of the frames from `frontier` to `next_ordinal`, by ordinal.
    pub pending: VecDeque<Vec<Piece>>,
    /// Identity of a later table of this name that the operator has accepted; empty if there is none.
    pub accepted_uuid: String,
    /// The columns of the pending pieces, and of the frame that was sealed last.
    pub layouts: Vec<Arc<Layout>>,
    /// The number of the layout of the frame that was sealed last; 0 if it is not known.
    pub newest_layout: u32,
}

impl TableState {
    /// A table that has no frames yet.
    pub fn new(genesis: &TableGenesis) -> Self {
        let TableGenesis { name, takes_dead_letters } = genesis;
        Self { name: name.clone(), takes_dead_letters: *takes_dead_letters, ..Self::default() }
    }

    /// The pieces of the unsettled frame `ordinal`.
    pub fn pieces(&self, ordinal: u64) -> Option<&[Piece]> {
        let at = ordinal.checked_sub(self.frontier)?;
        self.pending.get(usize::try_from(at).ok()?).map(Vec::as_slice)
    }

    /// Bytes of all live pieces: what the spool holds for this table.
    pub fn pending_bytes(&self) -> u64 {
        self.pending
            .iter()
            .flatten()
            .filter(|p| p.is_live())
            .map(|p| p.frame.len)
            .fold(0, u64::saturating_add)
    }
}

/// The state of a lane after the records up to `next_seq`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lane {
    /// Number of the next record.
    pub next_seq: u64,
    /// Newest epoch; 0 before the first claim.
    pub epoch: u64,
    /// Nonce of the newest claim.
    pub nonce: Vec<u8>,
    /// Epoch of the newest owner that does more than answer questions.
    pub run_epoch: u64,
    /// Pipeline's name; empty before genesis.
    pub pipeline: String,
    /// Inputs, by number.
    pub inputs: Vec<InputState>,
    /// Partitions, by index.
    pub partitions: Vec<PartitionState>,
    /// Tables, by index.
    pub tables: Vec<TableState>,
    /// Steps that keep state, by index.
    pub steps: Vec<StepShape>,
    /// What else the pipeline file said at the newest start.
    pub parts: Vec<Part>,
    /// Low watermark.
    pub watermark_ms: i64,
    /// Partitions that the watermark leaves out.
    pub idle: Vec<u32>,
    /// What all records became: the sum over the inputs.
    pub counts: Counts,
    /// Rows that were not one each of a record that passed.
    pub derived: Derived,
    /// What states have released of what they absorbed, and what they hold.
    pub absorbed: Absorbed,
    /// Newest snapshots; empty before the first checkpoint.
    pub snapshots: Vec<StateObject>,
    /// The files that they build on.
    pub files: Vec<StateFile>,
    /// The seal that the snapshots hold.
    pub state_seq: u64,
    /// State deltas sealed after it, in order.
    pub deltas: Vec<DeltaImage>,
    /// Number of the newest checkpoint record.
    pub newest_checkpoint: Option<u64>,
    /// What became of the newest [`FATES_KEPT`] records of each partition whose source asks for it.
    pub fates: Vec<Fates>,
    /// Partitions that have left the pipeline, by index.
    pub forgotten: BTreeMap<u32, Forgotten>,
    /// Partitions that were moved back, by index, with the greatest position up to which each was read before.
    pub rewound: BTreeMap<u32, Position>,
    /// Positions that are read anew, by partition; see [`Lane::passes_of`].
    pub passes: BTreeMap<u32, Vec<Pass>>,
    /// The latest moment that a record names, by the wall clock of its writer, Unix milliseconds; see [`Lane::moment_after`].
    pub newest_ms: i64,
    /// What is known of the pipelines that had this name before.
    pub before: Before,
    /// Partitions that other lanes read on; each is among the `forgotten` too.
    pub handed_over: Vec<HandedOver>,
    /// The least version that the next row may get; 0 if no row has one.
    pub next_version: u64,
    /// Names that the pipeline had before, the oldest first.
    pub former_names: Vec<FormerName>,
    /// The name under which the pipeline continues; `None` as long as it has this one.
    pub renamed: Option<Renamed>,
    /// The name from which the lane is still to come; `None` for a lane that is here.
    pub arriving_from: Option<String>,
    /// Given from the reset or deletion of the pipeline until the next claim.
    pub removed: Option<Removed>,
}

impl Lane {
    /// A lane without a record.
    pub fn new() -> Self {
        Self { watermark_ms: TIME_UNKNOWN_MS, ..Self::default() }
    }

    /// Starts from a checkpoint or a removal, the oldest record that is still kept.
    ///
    /// # Errors
    /// When the record is neither.
    pub fn from_checkpoint(record: &Record) -> Result<Self, Violation> {
        if let Some(Body::Removal(removal)) = &record.body {
            return Self::from_removal(record, removal);
        }
        let Some(Body::Checkpoint(Checkpoint { lane: Some(image), states, state_seq, files })) = &record.body
        else {
            return Err(violation(record, "order", "the oldest record is neither a claim nor a checkpoint"));
        };
        let mut lane = Self::from_image(image);
        lane.epoch = record.epoch;
        lane.run_epoch = record.epoch;
        lane.nonce = record.nonce.clone();
        lane.next_seq = record.seq.saturating_add(1);
        lane.newest_ms = lane.newest_ms.max(record.written_at_ms);
        lane.snapshots = states.clone();
        lane.files = files.clone();
        lane.state_seq = *state_seq;
        lane.newest_checkpoint = Some(record.seq);
        hostile::check_image(record, &lane)?;
        Ok(lane)
    }

    /// Where the table stands, by name.
    pub fn table(&self, name: &str) -> Option<usize> {
        self.tables.iter().position(|t| t.name == name)
    }

    /// The number of an input, by name.
    pub fn input(&self, name: &str) -> Option<u32> {
        self.inputs.iter().position(|input| input.name == name).map(|number| number as u32)
    }

    /// Sealed bytes that are not settled yet.
    pub fn spool_bytes(&self) -> u64 {
        self.tables.iter().map(TableState::pending_bytes).fold(0, u64::saturating_add)
    }

    /// Every frame that waits for the operator, with its table.
    pub fn open_questions(&self) -> impl Iterator<Item = (&TableState, &Piece)> {
        let all = self.tables.iter().flat_map(|t| t.pending.iter().flatten().map(move |p| (t, p)));
        all.filter(|(_, piece)| piece.open_question().is_some())
    }

    /// Sealed frames that are not settled yet.
    pub fn spool_frames(&self) -> usize {
        self.tables.iter().map(|t| t.pending.len()).sum()
    }

    /// Applies the next record. On an error nothing has changed.
    ///
    /// # Errors
    /// When the record breaks an invariant.
    pub fn apply(&mut self, record: &Record) -> Result<(), Violation> {
        self.check(record)?;
        match record.body.as_ref().expect("checked") {
            Body::Rename(rename) => self.rename(rename),
            Body::Arrival(arrival) => {
                self.arriving_from = Some(arrival.from.clone());
                self.removed = None;
            }
            Body::Checkpoint(_) if self.arriving_from.is_some() => {
                *self = Self::from_checkpoint(record)?;
                return Ok(());
            }
            Body::Claim(claim) => {
                self.epoch = record.epoch;
                self.nonce.clone_from(&record.nonce);
                if !claim.answers {
                    self.run_epoch = record.epoch;
                }
                self.removed = None;
            }
            Body::Genesis(genesis) => self.genesis(record, genesis),
            Body::Seal(seal) => self.seal(record, seal),
            Body::Settle(settle) => {
                self.see(&settle.servers);
                settle.above.iter().for_each(|above| self.settle_above(above));
                self.move_frontiers(&settle.settled);
            }
            Body::Generation(generation) => self.generation(generation),
            Body::Split(split) => self.split(split),
            Body::Checkpoint(checkpoint) => self.checkpoint(record.seq, checkpoint),
            Body::Question(question) => self.question(question),
            Body::Answer(answer) => self.answer(answer),
            Body::Forget(forget) => self.forget(forget),
            Body::Change(change) => self.change(change),
            Body::Rewind(rewind) => self.rewind(rewind),
            Body::HandOver(hand_over) => self.hand_over(record.seq, hand_over),
            Body::Removal(removal) => {
                self.remove(record, removal)?;
                return Ok(());
            }
        }
        self.next_seq += 1;
        self.newest_ms = self.newest_ms.max(record.written_at_ms);
        Ok(())
    }

    /// Whether the next record may be appended. A writer asks before it writes, a reader before it applies.
    ///
    /// # Errors
    /// When the record breaks an invariant.
    pub fn check(&self, record: &Record) -> Result<(), Violation> {
        if record.seq != self.next_seq {
            return Err(violation(record, "order", format!("expected record {}", self.next_seq)));
        }
        hostile::check_place(record)?;
        let body = record.body.as_ref().ok_or_else(|| violation(record, "order", "empty record"))?;
        if let Body::Removal(removal) = body {
            return self.check_removal(record, removal);
        }
        if self.arriving_from.is_some() {
            return self.check_arrived(record, body);
        }
        self.check_not_renamed(record, body)?;
        self.check_not_removed(record, body)?;
        if let Body::Claim(_) = body {
            return self.check_claim(record);
        }
        if record.epoch != self.epoch || record.nonce != self.nonce {
            let what = format!("written by epoch {}, the owner is epoch {}", record.epoch, self.epoch);
            return Err(violation(record, "C5", what));
        }
        match body {
            Body::Claim(_) | Body::Checkpoint(_) => Ok(()),
            Body::Genesis(genesis) => self.check_genesis(record, genesis),
            Body::Seal(seal) => self.check_seal(record, seal),
            Body::Settle(settle) => {
                self.check_frontiers(record, &settle.settled)?;
                self.check_above(record, &settle.above)
            }
            Body::Generation(generation) => self.check_generation(record, generation),
            Body::Split(split) => self.check_split(record, split),
            Body::Question(question) => self.check_question(record, question),
            Body::Answer(answer) => self.check_answer(record, answer),
            Body::Forget(forget) => self.check_forget(record, forget),
            Body::Change(change) => self.check_change(record, change),
            Body::Rewind(rewind) => self.check_rewind(record, rewind),
            Body::HandOver(hand_over) => self.check_hand_over(record, hand_over),
            Body::Rename(_) | Body::Removal(_) => Ok(()),
            Body::Arrival(_) => self.check_arrival(record),
        }
    }

    /// A new owner has the next epoch and a nonce of its own.
    fn check_claim(&self, record: &Record) -> Result<(), Violation> {
        if record.epoch != self.epoch + 1 || record.nonce.len() != 16 || record.nonce == self.nonce {
            let what = format!("a claim of epoch {} after epoch {}", record.epoch, self.epoch);
            return Err(violation(record, "C5", what));
        }
        Ok(())
    }

    /// The live piece that a record speaks of.
    fn live_piece(&self, record: &Record, table: u32, ordinal: u64, piece: u32) -> Result<&Piece, Violation> {
        let pieces = self.tables.get(table as usize).and_then(|t| t.pieces(ordinal));
        pieces.and_then(|pieces| pieces.get(piece as usize)).filter(|piece| piece.is_live()).ok_or_else(
            || violation(record, "C3", format!("frame {ordinal} piece {piece} of table {table} is not live")),
        )
    }

    fn pieces_mut(&mut self, table: u32, ordinal: u64) -> &mut Vec<Piece> {
        let table = &mut self.tables[table as usize];
        &mut table.pending[(ordinal - table.frontier) as usize]
    }
}

fn violation(record: &Record, rule: &'static str, what: impl Into<String>) -> Violation {
    Violation { seq: record.seq, rule, what: what.into() }
}

#[cfg(test)]
mod tests;
