//! What became of the newest records of the partitions whose source asks for it.
//!
//! Owns the memory: what a seal says is kept, a row that the server refuses later becomes a dead letter here too, and what is not
//! settled is known as such. Does not own who asks (`Source::wants_fates`) or the words that are displayed.

use super::{Lane, TableState, Violation, violation};
use crate::record::{Fate, Fates, Frame, Position, Record, RecordPlace, Refusal, Seal, Unsettled, shown};

/// Fates that are remembered for each partition that has any, a byte each: several of the largest replays, and still
/// nothing beside the rest of a checkpoint.
pub const FATES_KEPT: usize = 64 << 10;

impl Lane {
    /// What became of a record; `None` if that was never kept, or is no longer kept.
    pub fn fate(&self, place: RecordPlace) -> Option<Fate> {
        self.fates.iter().find(|fates| fates.partition == place.partition)?.at(place.position())
    }

    /// Tables that hold inserts of the record's seal which are not settled: a row among them may still be refused.
    pub fn unsettled(&self, place: RecordPlace) -> impl Iterator<Item = &TableState> {
        let fates = self.fates.iter().filter(move |fates| fates.partition == place.partition);
        let unsettled = fates.flat_map(|fates| &fates.unsettled);
        let held = unsettled.filter(move |some| {
            (Position::from(some.from)..Position::from(some.next)).contains(&place.position())
        });
        held.filter_map(|some| self.tables.get(some.table as usize))
    }

    /// Keeps the newest fates of a partition, and which frames their records may be in.
    pub(super) fn remember(&mut self, new: &Fates, frames: &[Frame]) {
        let at =
            self.fates.iter().position(|known| known.partition == new.partition).unwrap_or(self.fates.len());
        if at == self.fates.len() {
            self.fates.push(Fates { partition: new.partition, from: new.from, ..Fates::default() });
        }
        let known = &mut self.fates[at];
        if known.next() != new.from {
            (known.from, known.codes, known.unsettled) = (new.from, Vec::new(), Vec::new());
        }
        known.codes.extend_from_slice(&new.codes);
        for frame in frames {
            let (from, next, table) = (new.from, new.next(), frame.table);
            let frontier = frame.ordinal.saturating_add(1);
            match known.unsettled.iter_mut().find(|some| (some.from, some.table) == (from, table)) {
                Some(some) => some.frontier = frontier,
                None => known.unsettled.push(Unsettled { from, next, table, frontier }),
            }
        }
        let too_many = known.codes.len().saturating_sub(FATES_KEPT);
        known.codes.drain(..too_many);
        known.from += too_many as u64;
        let from = known.from;
        known.unsettled.retain(|some| some.next > from);
    }

    /// A row of an earlier seal is a dead letter now.
    pub(super) fn refused(&mut self, refusal: &Refusal) {
        let Some(place) = refusal.record else { return };
        let known = self.fates.iter_mut().find(|fates| fates.partition == place.partition);
        if let Some(code) = known.and_then(|fates| fates.code_mut(place.position())) {
            *code = Fate::Refused.code();
        }
    }

    /// Frontiers have moved.
    pub(super) fn forget_settled(&mut self) {
        let Self { fates, tables, .. } = self;
        for fates in fates {
            let is_pending = |some: &Unsettled| {
                tables.get(some.table as usize).is_some_and(|table| table.frontier < some.frontier)
            };
            fates.unsettled.retain(is_pending);
        }
    }

    /// A refused row was written before, as far as is known.
    pub(super) fn check_refused_record(&self, record: &Record, refusal: &Refusal) -> Result<(), Violation> {
        let Some(place) = refusal.record else { return Ok(()) };
        let is_read =
            self.partitions.get(place.partition as usize).is_some_and(|p| place.position() < p.next);
        // A record whose rows go to several tables may be refused by more than one.
        let has_rows = |fate| matches!(fate, Fate::Written | Fate::Refused);
        if !is_read || self.fate(place).is_some_and(|fate| !has_rows(fate)) {
            let (partition, position) = (place.partition, shown(place.position()));
            let what = format!(
                "the record at {position} of partition {partition} is refused, but no row was made of it"
            );
            return Err(violation(record, "C9", what));
        }
        Ok(())
    }
}

/// Fates cover the range of their partition, record by record, with what this program knows.
pub(super) fn check(record: &Record, seal: &Seal) -> Result<(), Violation> {
    for (n, fates) in seal.fates.iter().enumerate() {
        let range = seal.ranges.iter().find(|range| range.partition == fates.partition);
        let is_whole = range
            .is_some_and(|range| (range.from(), range.next()) == (fates.from.into(), fates.next().into()));
        let is_known = fates.codes.iter().all(|code| Fate::of(*code).is_some());
        let is_twice = seal.fates[..n].iter().any(|other| other.partition == fates.partition);
        if !is_whole || !is_known || is_twice {
            let (from, next) = (fates.from, fates.next());
            let what =
                format!("fates of {from}..{next} do not say what became of partition {}", fates.partition);
            return Err(violation(record, "C9", what));
        }
    }
    Ok(())
}
