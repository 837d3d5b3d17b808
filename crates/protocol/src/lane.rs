//! What is true after a number of records.
//!
//! Owns the fold from records to a lane's state, and with it the checks that no writer may bypass: every record that
//! breaks an invariant is a [`Violation`], both before it is written and when it is read back. Does not own the decisions
//! that lead to records.

mod change;
mod fates;
mod forget;
pub mod hand_over;
mod hostile;
mod layouts;
mod ledger;
mod made;
pub mod rename;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

pub use self::fates::FATES_KEPT;
pub use self::rename::Renamed;
use crate::doubt::{StopReason, Verdict};
use crate::record::{
    Absorbed, Answer, Body, Checkpoint, Counts, DeltaImage, Derived, Fates, FormerName, Frame, Frontier,
    Generation, Genesis, HandedOver, InputImage, LaneImage, Layout, Part, PartitionGenesis, PieceImage,
    Position, Question, Record, Rows, Seal, SettledAbove, Sighting, Split, StateFile, StateObject, StepShape,
    TableGenesis, TableImage, TakenOver, shown,
};
use crate::window;

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

/// One input of the lane.
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
    /// The frame's name.
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
    /// Partitions that have left the pipeline, by index; true for those whose position does not count either.
    pub forgotten: BTreeMap<u32, bool>,
    /// Partitions that were moved back, by index, with the greatest position up to which each was read before.
    pub rewound: BTreeMap<u32, Position>,
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
}

impl Lane {
    /// A lane without a record.
    pub fn new() -> Self {
        Self { watermark_ms: TIME_UNKNOWN_MS, ..Self::default() }
    }

    /// Starts from a checkpoint, the oldest record that is still kept.
    ///
    /// # Errors
    /// When the record is not a checkpoint.
    pub fn from_checkpoint(record: &Record) -> Result<Self, Violation> {
        let Some(Body::Checkpoint(Checkpoint { lane: Some(image), states, state_seq, files })) = &record.body
        else {
            return Err(violation(record, "order", "the oldest record is neither a claim nor a checkpoint"));
        };
        let mut lane = Self::from_image(image);
        lane.epoch = record.epoch;
        lane.run_epoch = record.epoch;
        lane.nonce = record.nonce.clone();
        lane.next_seq = record.seq.saturating_add(1);
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
            Body::Arrival(arrival) => self.arriving_from = Some(arrival.from.clone()),
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
            }
            Body::Genesis(genesis) => self.genesis(genesis),
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
        }
        self.next_seq += 1;
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
        if self.arriving_from.is_some() {
            return self.check_arrived(record, body);
        }
        self.check_not_renamed(record, body)?;
        if let Body::Claim(_) = body {
            if record.epoch != self.epoch + 1 || record.nonce.len() != 16 || record.nonce == self.nonce {
                let what = format!("a claim of epoch {} after epoch {}", record.epoch, self.epoch);
                return Err(violation(record, "C5", what));
            }
            return Ok(());
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
            Body::Rename(_) => Ok(()),
            Body::Arrival(_) => self.check_arrival(record),
        }
    }

    fn check_genesis(&self, record: &Record, genesis: &Genesis) -> Result<(), Violation> {
        self.check_inputs(record, genesis)?;
        let name = |p: &PartitionGenesis| (p.input, p.stream.clone(), p.index);
        let twice = |n: usize, p: &PartitionGenesis| {
            genesis.partitions[..n].iter().any(|other| name(other) == name(p))
        };
        for (n, p) in genesis.partitions.iter().enumerate() {
            if self.partition(p.input, &p.stream, p.index).is_some() || twice(n, p) {
                let what = format!("partition {}/{} has a first position already", p.stream, p.index);
                return Err(violation(record, "C1", what));
            }
            self.check_known_again(record, p)?;
            self.check_taken_over(record, p)?;
        }
        let mut tables = genesis.tables.iter().enumerate();
        let is_known = |n: usize, name: &str| {
            self.table(name).is_some() || genesis.tables[..n].iter().any(|other| other.name == name)
        };
        if let Some((_, table)) = tables.find(|(n, table)| is_known(*n, &table.name)) {
            return Err(violation(record, "order", format!("table `{}` is known already", table.name)));
        }
        let names_again =
            !genesis.pipeline.is_empty() || !genesis.steps.is_empty() || !genesis.parts.is_empty();
        if !self.pipeline.is_empty() && names_again {
            return Err(violation(record, "order", "pipeline and steps are set by the first genesis only"));
        }
        Ok(())
    }

    /// Every input has one name, and every partition belongs to an input that is known from here on.
    fn check_inputs(&self, record: &Record, genesis: &Genesis) -> Result<(), Violation> {
        for (n, name) in genesis.inputs.iter().enumerate() {
            if self.input(name).is_some() || genesis.inputs[..n].contains(name) {
                return Err(violation(record, "order", format!("input `{name}` is known already")));
            }
        }
        let inputs = self.inputs.len() + genesis.inputs.len();
        let mut named = genesis.partitions.iter().map(|p| p.input).chain(genesis.opened.iter().copied());
        match named.find(|input| *input as usize >= inputs) {
            Some(input) => Err(violation(record, "order", format!("input {input} has no genesis"))),
            None => Ok(()),
        }
    }

    fn genesis(&mut self, genesis: &Genesis) {
        if self.pipeline.is_empty() {
            self.pipeline.clone_from(&genesis.pipeline);
            self.steps.clone_from(&genesis.steps);
            self.parts.clone_from(&genesis.parts);
        }
        let inputs = genesis.inputs.iter();
        self.inputs.extend(inputs.map(|name| InputState { name: name.clone(), ..InputState::default() }));
        genesis.opened.iter().for_each(|input| self.inputs[*input as usize].was_opened = true);
        let first_time =
            |p: &PartitionGenesis| p.taken_over.map_or(TIME_UNKNOWN_MS, |taken| taken.time_ms_max);
        self.partitions.extend(genesis.partitions.iter().map(|p| partition_state(p, first_time(p))));
        self.tables.extend(genesis.tables.iter().map(TableState::new));
    }

    fn check_seal(&self, record: &Record, seal: &Seal) -> Result<(), Violation> {
        self.check_ranges(record, seal)?;
        let framed = self.check_frames(record, seal)?;
        made::check(record, seal)?;
        self.check_layouts(record, &seal.layouts, &seal.frames)?;
        self.check_frontiers(record, &seal.settled)?;
        self.check_states(record, seal)?;
        for (n, refusal) in seal.refusals.iter().enumerate() {
            self.live_piece(record, refusal.table, refusal.ordinal, refusal.piece)?;
            if seal.refusals[..n].iter().any(|other| other.is_same_piece(refusal)) {
                return Err(violation(record, "C9", format!("{refusal:?} is refused twice")));
            }
            self.check_refused_record(record, refusal)?;
        }
        hostile::check_seal(self, record, seal)?;
        self.check_versions(record, seal)?;
        ledger::check(self, record, seal, framed)?;
        if seal.fates.is_empty() { Ok(()) } else { fates::check(record, seal) }
    }

    /// Rows of a later seal have greater versions (C6).
    fn check_versions(&self, record: &Record, seal: &Seal) -> Result<(), Violation> {
        if seal.next_version != 0 && seal.next_version < self.next_version {
            let what = format!(
                "rows have versions below {}, and those of the seals before reach up to {}",
                seal.next_version, self.next_version
            );
            return Err(violation(record, "C6", what));
        }
        hostile::check_version(record, seal.next_version)
    }

    fn seal(&mut self, record: &Record, seal: &Seal) {
        for range in &seal.ranges {
            let partition = &mut self.partitions[range.partition as usize];
            partition.next = range.next();
            partition.leader_epoch = range.leader_epoch;
            partition.time_ms_max = partition.time_ms_max.max(range.time_ms_max);
        }
        self.see(&seal.servers);
        self.say_layouts(&seal.layouts);
        for frame in &seal.frames {
            let table = &mut self.tables[frame.table as usize];
            table.newest_layout = frame.layout;
            table.next_ordinal += 1;
            table.rows.sealed += frame.rows;
            table.pending.push_back(vec![Piece {
                frame: frame.clone(),
                piece: 0,
                generation: 0,
                segment: seal.segment.clone(),
                server: table.server.clone(),
                dead: false,
                sealed_at_ms: record.written_at_ms,
                question: None,
                verdict: None,
                settled: false,
                first_row: 0,
                layout: table.layout(frame.layout),
            }]);
        }
        for refusal in &seal.refusals {
            let piece = &mut self.pieces_mut(refusal.table, refusal.ordinal)[refusal.piece as usize];
            piece.dead = true;
            let rows = piece.frame.rows;
            self.tables[refusal.table as usize].rows.refused += rows;
            self.refused(refusal);
        }
        self.move_frontiers(&seal.settled);
        self.deltas.extend(seal.states.iter().map(|delta| DeltaImage {
            seq: record.seq,
            segment: seal.segment.clone(),
            delta: Some(*delta),
        }));
        for rows in &seal.rows {
            self.tables[rows.table as usize].rows.replaced += rows.replaced;
        }
        self.next_version = self.next_version.max(seal.next_version);
        self.watermark_ms = seal.watermark_ms;
        self.idle.clone_from(&seal.idle);
        for of_input in &seal.counts {
            let counts = of_input.counts();
            self.inputs[of_input.input as usize].counts.add(&counts);
            self.counts.add(&counts);
        }
        seal.derived.iter().for_each(|derived| self.derived.add(derived));
        let absorbed = seal.absorbed.unwrap_or_default();
        self.absorbed.released += absorbed.released;
        self.absorbed.held = absorbed.held;
        seal.fates.iter().for_each(|fates| self.remember(fates, &seal.frames));
    }

    fn check_ranges(&self, record: &Record, seal: &Seal) -> Result<(), Violation> {
        let (mut seen, mut next_max) = (Seen::of(self.partitions.len()), 0);
        for range in &seal.ranges {
            let Some(partition) = self.partitions.get(range.partition as usize) else {
                return Err(violation(record, "C1", format!("partition {} has no genesis", range.partition)));
            };
            if self.is_forgotten(range.partition) {
                let what = format!("{}/{} was forgotten", partition.stream, partition.index);
                return Err(violation(record, "C1", what));
            }
            if seen.replace(range.partition as usize) {
                return Err(violation(record, "C1", format!("two ranges of partition {}", range.partition)));
            }
            if range.from() != partition.next || range.next() < range.from() {
                let what = format!(
                    "range {}..{} of {}/{}, the journal is at {}",
                    shown(range.from()),
                    shown(range.next()),
                    partition.stream,
                    partition.index,
                    shown(partition.next)
                );
                return Err(violation(record, "C1", what));
            }
            next_max = next_max.max(hostile::most(range.next()));
        }
        hostile::check_number(record, "C1", next_max)
    }

    /// What the frames hold for each table.
    fn check_frames(&self, record: &Record, seal: &Seal) -> Result<Vec<Framed>, Violation> {
        let mut framed = vec![Framed::default(); self.tables.len()];
        for frame in &seal.frames {
            let Some(table) = self.tables.get(frame.table as usize) else {
                return Err(violation(record, "order", format!("table {} has no genesis", frame.table)));
            };
            let of_table = &mut framed[frame.table as usize];
            let expected = table.next_ordinal + of_table.frames;
            if frame.ordinal != expected {
                let what = format!("frame {} of table {}, expected {expected}", frame.ordinal, frame.table);
                return Err(violation(record, "C4", what));
            }
            check_frame_shape(record, frame, seal.segment_bytes)?;
            of_table.frames += 1;
            of_table.rows = of_table.rows.saturating_add(frame.rows);
        }
        Ok(framed)
    }

    fn check_states(&self, record: &Record, seal: &Seal) -> Result<(), Violation> {
        for delta in &seal.states {
            let end = delta.offset.checked_add(delta.len);
            if delta.step as usize >= self.steps.len() || end.is_none_or(|end| end > seal.segment_bytes) {
                return Err(violation(record, "order", format!("state delta {delta:?} points nowhere")));
            }
        }
        Ok(())
    }

    /// A frontier may pass only frames that were sealed and sendable before this record.
    fn check_frontiers(&self, record: &Record, settled: &[Frontier]) -> Result<(), Violation> {
        for f in settled {
            let Some(table) = self.tables.get(f.table as usize) else {
                return Err(violation(record, "order", format!("table {} has no genesis", f.table)));
            };
            let sendable = window::send_limit(table);
            if f.frontier < table.frontier || f.frontier > sendable {
                let what = format!(
                    "frontier of `{}` moves from {} to {}, though only frames below {sendable} may have been sent",
                    table.name, table.frontier, f.frontier
                );
                return Err(violation(record, "C4", what));
            }
            if f.sent_below.is_some_and(|sent_below| sent_below < f.frontier) {
                let what = format!(
                    "frames of `{}` below {} are settled, and {f:?} says unsent",
                    table.name, f.frontier
                );
                return Err(violation(record, "C8", what));
            }
            let kept = f.frontier.saturating_add(f.window);
            // Only the owner knows which frames it has not sent; it says so by `sent_below` and never by a smaller window.
            if kept < sendable {
                let what = format!(
                    "frames of `{}` below {sendable} may have been sent, and those from {kept} on would pass for unsent",
                    table.name
                );
                return Err(violation(record, "C8", what));
            }
        }
        Ok(())
    }

    /// What is settled beyond a hole must have been sendable, too.
    fn check_above(&self, record: &Record, above: &[SettledAbove]) -> Result<(), Violation> {
        for SettledAbove { table, ordinals } in above {
            let Some(known) = self.tables.get(*table as usize) else {
                return Err(violation(record, "order", format!("table {table} has no genesis")));
            };
            let sendable = known.frontier..window::send_limit(known);
            let is_pending = |n: &u64| sendable.contains(n) && known.pieces(*n).is_some();
            if let Some(ordinal) = ordinals.iter().find(|n| !is_pending(n)) {
                let what = format!("frame {ordinal} of `{}` is settled, outside of {sendable:?}", known.name);
                return Err(violation(record, "C4", what));
            }
        }
        Ok(())
    }

    fn settle_above(&mut self, above: &SettledAbove) {
        for ordinal in &above.ordinals {
            self.pieces_mut(above.table, *ordinal).iter_mut().for_each(|piece| piece.settled = true);
        }
    }

    fn move_frontiers(&mut self, settled: &[Frontier]) {
        for f in settled {
            let table = &mut self.tables[f.table as usize];
            let sendable_before = window::send_limit(table);
            for _ in table.frontier..f.frontier {
                let pieces = table.pending.pop_front().unwrap_or_default();
                table.rows.settled += ledger::rows_of(&pieces);
            }
            table.frontier = f.frontier;
            (table.window, table.sent_below) = (f.window, f.sent_below);
            see_first_sendable(table, sendable_before);
        }
        self.forget_settled();
        self.forget_layouts();
    }

    fn see(&mut self, servers: &[Sighting]) {
        for server in servers {
            if let Some(table) = self.tables.get_mut(server.table as usize) {
                table.server = Some(server.clone());
            }
        }
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

    fn check_generation(&self, record: &Record, new: &Generation) -> Result<(), Violation> {
        let piece = self.live_piece(record, new.table, new.ordinal, new.piece)?;
        if piece.generation.checked_add(1) != Some(new.generation) {
            let what = format!("generation {} after {}", new.generation, piece.generation);
            return Err(violation(record, "C3", what));
        }
        Ok(())
    }

    fn generation(&mut self, new: &Generation) {
        let piece = &mut self.pieces_mut(new.table, new.ordinal)[new.piece as usize];
        piece.generation = new.generation;
        piece.server.clone_from(&new.server);
        (piece.question, piece.verdict) = (None, None);
    }

    fn check_question(&self, record: &Record, question: &Question) -> Result<(), Violation> {
        self.live_piece(record, question.table, question.ordinal, question.piece)?;
        if StopReason::from_number(question.reason).is_none() || question.epoch != record.epoch {
            return Err(violation(record, "C8", format!("a question that nobody asks: {question:?}")));
        }
        Ok(())
    }

    fn question(&mut self, question: &Question) {
        let piece = &mut self.pieces_mut(question.table, question.ordinal)[question.piece as usize];
        (piece.question, piece.verdict) = (Some(question.clone()), None);
    }

    fn check_answer(&self, record: &Record, answer: &Answer) -> Result<(), Violation> {
        let piece = self.live_piece(record, answer.table, answer.ordinal, answer.piece)?;
        if piece.open_question().is_none() || Verdict::from_number(answer.verdict).is_none() {
            let what = format!("an answer to no open question, or one that says nothing: {answer:?}");
            return Err(violation(record, "C8", what));
        }
        Ok(())
    }

    fn answer(&mut self, answer: &Answer) {
        let piece = &mut self.pieces_mut(answer.table, answer.ordinal)[answer.piece as usize];
        piece.verdict = Verdict::from_number(answer.verdict);
        let question = piece.question.as_ref().expect("only an open question is answered");
        if StopReason::from_number(question.reason) == Some(StopReason::TableChanged) {
            let accepted = question.table_uuid.clone();
            self.tables[answer.table as usize].accepted_uuid = accepted;
        }
        // Who answers has claimed the lane and runs nothing, so the other questions stay as they were: nothing works on them.
        let epoch = self.epoch;
        let pieces = self.tables.iter_mut().flat_map(|table| table.pending.iter_mut().flatten());
        let open = pieces.filter(|piece| piece.open_question().is_some()).filter_map(|p| p.question.as_mut());
        open.for_each(|question| question.epoch = epoch);
    }

    fn check_split(&self, record: &Record, split: &Split) -> Result<(), Violation> {
        let old = self.live_piece(record, split.table, split.ordinal, split.piece)?;
        let rows = split.pieces.iter().try_fold(0_u64, |rows, frame| rows.checked_add(frame.rows));
        if rows != Some(old.frame.rows) {
            return Err(violation(record, "C9", format!("{} rows became {rows:?}", old.frame.rows)));
        }
        let pieces = self.tables[split.table as usize].pieces(split.ordinal).map_or(0, <[Piece]>::len);
        if pieces + split.pieces.len() > PIECES_MAX {
            return Err(violation(record, "C8", format!("more than {PIECES_MAX} pieces of one frame")));
        }
        self.check_layouts(record, &split.layouts, &split.pieces)
    }

    fn split(&mut self, split: &Split) {
        self.say_layouts(&split.layouts);
        let table = &self.tables[split.table as usize];
        let layouts: Vec<_> = split.pieces.iter().map(|frame| table.layout(frame.layout)).collect();
        let pieces = self.pieces_mut(split.table, split.ordinal);
        let Piece { server, sealed_at_ms, mut first_row, .. } = pieces[split.piece as usize].clone();
        pieces[split.piece as usize].dead = true;
        for (frame, layout) in split.pieces.iter().zip(layouts) {
            pieces.push(Piece {
                frame: frame.clone(),
                piece: pieces.len() as u32,
                generation: 0,
                segment: split.segment.clone(),
                server: server.clone(),
                dead: false,
                sealed_at_ms,
                question: None,
                verdict: None,
                settled: false,
                first_row,
                layout,
            });
            first_row += frame.rows;
        }
    }

    fn checkpoint(&mut self, seq: u64, checkpoint: &Checkpoint) {
        self.snapshots.clone_from(&checkpoint.states);
        self.files.clone_from(&checkpoint.files);
        self.state_seq = checkpoint.state_seq;
        self.deltas.retain(|d| d.seq > checkpoint.state_seq);
        self.newest_checkpoint = Some(seq);
    }

    /// The lane as a message, for a checkpoint whose snapshots hold the state up to seal `state_seq`.
    pub fn image(&self, state_seq: u64) -> LaneImage {
        LaneImage {
            pipeline: self.pipeline.clone(),
            partitions: self.partitions.iter().map(partition_image).collect(),
            times_ms_max: self.partitions.iter().map(|p| p.time_ms_max).collect(),
            tables: self.tables.iter().map(table_image).collect(),
            steps: self.steps.clone(),
            watermark_ms: self.watermark_ms,
            idle: self.idle.clone(),
            inputs: self.inputs.iter().map(input_image).collect(),
            derived: Some(self.derived),
            absorbed: Some(self.absorbed),
            deltas: self.deltas.iter().filter(|d| d.seq > state_seq).cloned().collect(),
            snapshot_bytes: self.snapshots.iter().map(|s| s.len).fold(0, u64::saturating_add),
            fates: self.fates.clone(),
            forgotten: self.forgotten_image(),
            former_names: self.former_names.clone(),
            parts: self.parts.clone(),
            rewound: self.rewound_image(),
            handed_over: self.handed_over.clone(),
            next_version: self.next_version,
        }
    }

    fn from_image(image: &LaneImage) -> Self {
        let inputs: Vec<InputState> = image.inputs.iter().map(input_state).collect();
        let mut counts = Counts::default();
        inputs.iter().for_each(|input| counts.add(&input.counts));
        let times = image.times_ms_max.iter().copied().chain(std::iter::repeat(TIME_UNKNOWN_MS));
        Self {
            pipeline: image.pipeline.clone(),
            inputs,
            partitions: image.partitions.iter().zip(times).map(|(p, t)| partition_state(p, t)).collect(),
            tables: image.tables.iter().map(table_from_image).collect(),
            steps: image.steps.clone(),
            watermark_ms: image.watermark_ms,
            idle: image.idle.clone(),
            counts,
            derived: image.derived.unwrap_or_default(),
            absorbed: image.absorbed.unwrap_or_default(),
            deltas: image.deltas.clone(),
            fates: image.fates.clone(),
            forgotten: image.forgotten.iter().map(|f| (f.partition, f.from_start)).collect(),
            former_names: image.former_names.clone(),
            parts: image.parts.clone(),
            handed_over: image.handed_over.clone(),
            next_version: image.next_version,
            rewound: image.rewound.iter().map(|r| (r.partition, r.read_to())).collect(),
            ..Self::new()
        }
    }
}

/// Frames that only this record's window lets out were not sent before it, so that the server as seen now stands before
/// their first attempt. The identity that a frame was sealed for stays its own.
fn see_first_sendable(table: &mut TableState, sendable_before: u64) {
    let first = sendable_before.saturating_sub(table.frontier) as usize;
    let end = (window::send_limit(table).saturating_sub(table.frontier) as usize).min(table.pending.len());
    let Some(now) = table.server.clone() else { return };
    let fresh = table.pending.range_mut(first.min(end)..end).flatten();
    for piece in fresh.filter(|p| p.server.as_ref().is_some_and(|s| s.table_uuid == now.table_uuid)) {
        piece.server = Some(now.clone());
    }
}

/// Partitions that a seal has named. The first 64 need no memory of their own.
struct Seen {
    first: u64,
    others: Vec<bool>,
}

impl Seen {
    /// Of a lane with so many partitions.
    fn of(partitions: usize) -> Self {
        Self { first: 0, others: vec![false; partitions.saturating_sub(64)] }
    }

    /// Whether it was named before; from now on it was.
    fn replace(&mut self, partition: usize) -> bool {
        if let Some(other) = partition.checked_sub(64) {
            return std::mem::replace(&mut self.others[other], true);
        }
        let bit = 1 << partition;
        let was_named = self.first & bit != 0;
        self.first |= bit;
        was_named
    }
}

/// Frames of a seal for one table, and their rows.
#[derive(Clone, Copy, Debug, Default)]
struct Framed {
    frames: u64,
    rows: u64,
}

fn violation(record: &Record, rule: &'static str, what: impl Into<String>) -> Violation {
    Violation { seq: record.seq, rule, what: what.into() }
}

fn check_frame_shape(record: &Record, frame: &Frame, segment_bytes: u64) -> Result<(), Violation> {
    if frame.rows == 0 || frame.len == 0 {
        let what = format!("frame {} of table {} is empty", frame.ordinal, frame.table);
        return Err(violation(record, "C3", what));
    }
    check_frame_numbers(record, frame, segment_bytes)
}

fn check_frame_numbers(record: &Record, frame: &Frame, segment_bytes: u64) -> Result<(), Violation> {
    let parts = [frame.len, frame.probe_len, frame.origins_len];
    let end = parts.iter().try_fold(frame.offset, |end, part| end.checked_add(*part));
    if frame.id.len() != 16 || frame.rows > hostile::NUMBER_MAX || end.is_none_or(|end| end > segment_bytes) {
        let what = format!("frame {} of table {} is malformed", frame.ordinal, frame.table);
        return Err(violation(record, "C3", what));
    }
    Ok(())
}

fn input_image(input: &InputState) -> InputImage {
    InputImage {
        name: input.name.clone(),
        was_opened: input.was_opened,
        counts: Some(input.counts).filter(|counts| *counts != Counts::default()),
    }
}

fn input_state(image: &InputImage) -> InputState {
    let counts = image.counts.unwrap_or_default();
    InputState { name: image.name.clone(), was_opened: image.was_opened, counts }
}

fn partition_state(p: &PartitionGenesis, time_ms_max: i64) -> PartitionState {
    PartitionState {
        input: p.input,
        stream: p.stream.clone(),
        index: p.index,
        identity: p.identity.clone(),
        next: p.next(),
        leader_epoch: p.leader_epoch,
        time_ms_max,
        taken_over: p.taken_over,
    }
}

fn partition_image(p: &PartitionState) -> PartitionGenesis {
    PartitionGenesis {
        input: p.input,
        stream: p.stream.clone(),
        index: p.index,
        identity: p.identity.clone(),
        leader_epoch: p.leader_epoch,
        taken_over: p.taken_over,
        ..PartitionGenesis::default()
    }
    .at(p.next)
}

fn table_image(table: &TableState) -> TableImage {
    let piece_image = |p: &Piece| PieceImage {
        frame: Some(p.frame.clone()),
        piece: p.piece,
        generation: p.generation,
        segment: p.segment.clone(),
        server: p.server.clone(),
        dead: p.dead,
        sealed_at_ms: p.sealed_at_ms,
        question: p.question.clone(),
        verdict: p.verdict.map_or(0, Verdict::number),
        settled: p.settled,
        first_row: p.first_row,
    };
    TableImage {
        name: table.name.clone(),
        frontier: table.frontier,
        window: table.window,
        sent_below: table.sent_below,
        next_ordinal: table.next_ordinal,
        server: table.server.clone(),
        pending: table.pending.iter().flatten().map(piece_image).collect(),
        accepted_uuid: table.accepted_uuid.clone(),
        layouts: table.layouts.iter().map(|layout| Layout::clone(layout)).collect(),
        newest_layout: table.newest_layout,
        takes_dead_letters: table.takes_dead_letters,
        rows: Some(table.rows),
    }
}

fn table_from_image(image: &TableImage) -> TableState {
    let layouts: Vec<Arc<Layout>> = image.layouts.iter().cloned().map(Arc::new).collect();
    let mut pending: VecDeque<Vec<Piece>> = VecDeque::new();
    for p in &image.pending {
        let piece = Piece {
            frame: p.frame.clone().unwrap_or_default(),
            piece: p.piece,
            generation: p.generation,
            segment: p.segment.clone(),
            server: p.server.clone(),
            dead: p.dead,
            sealed_at_ms: p.sealed_at_ms,
            question: p.question.clone(),
            verdict: Verdict::from_number(p.verdict),
            settled: p.settled,
            first_row: p.first_row,
            layout: p.frame.as_ref().and_then(|frame| layouts::find(&layouts, frame.layout)),
        };
        match pending.back_mut() {
            Some(pieces) if pieces[0].frame.ordinal == piece.frame.ordinal => pieces.push(piece),
            _ => pending.push_back(vec![piece]),
        }
    }
    TableState {
        name: image.name.clone(),
        takes_dead_letters: image.takes_dead_letters,
        rows: image.rows.unwrap_or_default(),
        frontier: image.frontier,
        window: image.window,
        sent_below: image.sent_below,
        next_ordinal: image.next_ordinal,
        server: image.server.clone(),
        pending,
        accepted_uuid: image.accepted_uuid.clone(),
        layouts,
        newest_layout: image.newest_layout,
    }
}

#[cfg(test)]
mod tests;
