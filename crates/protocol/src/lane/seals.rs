//! What a seal says: ranges, frames, the state's deltas, refusals.
//!
//! Owns that ranges touch (C1), that frames are numbered and shaped as they must be (C3, C4) and that versions and states go on (C6). Does not own the ledgers
//! ([`super::ledger`]), nor what frames are made of ([`super::made`]).

use super::{Lane, Piece, Violation, fates, hostile, ledger, made, violation};
use crate::record::{DeltaImage, Frame, Record, Seal, shown};

impl Lane {
    pub(super) fn check_seal(&self, record: &Record, seal: &Seal) -> Result<(), Violation> {
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

    pub(super) fn seal(&mut self, record: &Record, seal: &Seal) {
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
    pub(super) fn check_frames(&self, record: &Record, seal: &Seal) -> Result<Vec<Framed>, Violation> {
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
pub(super) struct Framed {
    pub(super) frames: u64,
    pub(super) rows: u64,
}

fn check_frame_shape(record: &Record, frame: &Frame, segment_bytes: u64) -> Result<(), Violation> {
    if frame.rows == 0 || frame.len == 0 {
        let what = format!("frame {} of table {} is empty", frame.ordinal, frame.table);
        return Err(violation(record, "C3", what));
    }
    check_frame_numbers(record, frame, segment_bytes)
}

pub(super) fn check_frame_numbers(
    record: &Record,
    frame: &Frame,
    segment_bytes: u64,
) -> Result<(), Violation> {
    let parts = [frame.len, frame.probe_len, frame.origins_len];
    let end = parts.iter().try_fold(frame.offset, |end, part| end.checked_add(*part));
    if frame.id.len() != 16 || frame.rows > hostile::NUMBER_MAX || end.is_none_or(|end| end > segment_bytes) {
        let what = format!("frame {} of table {} is malformed", frame.ordinal, frame.table);
        return Err(violation(record, "C3", what));
    }
    Ok(())
}
