//! A seal, as the oracle folds it: C1, C6 and C9 of what was read, and of what became of it.
//!
//! Owns the ranges, rows, refusals and both ledgers of one seal. Does not own its frames ([`super::frames`]), nor the rules of what steps make of records
//! (`dedup`, `windows`, `joins`, `items`).

use std::collections::BTreeMap;

use dataflow::position;
use operators::dedup::Late;
use protocol::record::{Counts, InputCounts, Range, Refusal, Seal};

use super::frames::id;
use crate::broker::Broker;
use crate::objects::Objects;
use crate::oracle::dedup::Sealed;
use crate::oracle::{Broken, Fate, Oracle};
use crate::records::{Record as Sent, Row, reason_code};
use crate::route::record_of;
use crate::server::{DEAD, Server};
use crate::table::TIME;

impl Oracle {
    pub(super) fn seal(
        &mut self,
        (seq, now_us): (u64, u64),
        seal: &Seal,
        broker: &Broker,
        objects: &Objects,
        server: &Server,
    ) -> Result<(), Broken> {
        let mut sealed = Sealed { watermark_ms: seal.watermark_ms, ..Sealed::default() };
        for range in &seal.ranges {
            self.range(range, seal.idle.contains(&range.partition), now_us, broker, &mut sealed)?;
        }
        let known: Vec<usize> = self.partitions.iter().map(|(number, _)| *number).collect();
        self.clocks.sealed(&known, &sealed.read, seal.watermark_ms)?;
        let of_tables = self.rows(seal, (broker, objects), server, &mut sealed)?;
        let units: Vec<Sent> = sealed.read.iter().flat_map(|record| self.plan.units_of(record)).collect();
        if self.windows.is_none() && self.joins.is_none() && self.changes.is_none() {
            sealed.written = self.units_of(&of_tables, &units)?;
        }
        for refusal in &seal.refusals {
            let unit = self.refusal(refusal)?;
            sealed.refused.push(unit);
        }
        self.count_inputs(seal, &sealed)?;
        let may_close = self.may_close(broker);
        self.fates(seal, &of_tables, (units, may_close), sealed)?;
        self.deltas.extend(seal.states.iter().map(|_| (seq, seal.segment.clone())));
        self.settle(&seal.settled, server)
    }

    /// C1: what was read of a partition begins where the lane stood.
    fn range(
        &mut self,
        range: &Range,
        is_idle: bool,
        now_us: u64,
        broker: &Broker,
        sealed: &mut Sealed,
    ) -> Result<(), Broken> {
        let (number, next) =
            self.partitions.get_mut(range.partition as usize).ok_or(("C1", "no such partition".into()))?;
        if range.from() != *next || range.next() < range.from() {
            let (from, to) = (range.from(), range.next());
            let what = format!("range {from}..{to} of partition {number}, which stands at {next}");
            return Err(("C1", what));
        }
        let number = *number;
        let (read, end) = broker.range(number, range.from(), range.next(), range.leader_epoch);
        sealed.read_of[self.plan.input_of(number)] += read.len() as u64;
        if range.next() > end.into() {
            let what = format!("range up to {} of partition {number}, which ends at {end}", range.next());
            return Err(("C1", what));
        }
        self.clocks.read(number, read, range.time_ms_max, now_us)?;
        let has_ended = self
            .owner
            .is_some_and(|(pid, _)| broker.has_ended_for(pid, &[(number, position::low(range.next()))]));
        if is_idle && !has_ended {
            self.clocks.left_out(number, read, now_us)?;
        }
        sealed.read.extend_from_slice(read);
        sealed.sides.resize(sealed.read.len(), self.plan.input_of(number));
        *next = range.next();
        self.epochs.insert(number, range.leader_epoch);
        Ok(())
    }

    /// The rows of all frames with the place of the table of each; dead letters are put into `sealed`.
    fn rows(
        &mut self,
        seal: &Seal,
        (broker, objects): (&Broker, &Objects),
        server: &Server,
        sealed: &mut Sealed,
    ) -> Result<Vec<(usize, Row)>, Broken> {
        let is_made_again = seal.frames.iter().any(|frame| frame.made.is_some());
        if !seal.segment.is_empty() && !is_made_again && objects.durable(&seal.segment).is_none() {
            return Err(("C7", format!("segment `{}` is not there when it is sealed", seal.segment)));
        }
        for layout in &seal.layouts {
            let has_time = layout.columns.iter().any(|column| column.name == TIME);
            self.layouts.insert((layout.table, layout.number), has_time);
        }
        let mut of_tables = Vec::new();
        for frame in &seal.frames {
            let (place, mut rows) = self.frame(frame, &seal.segment, (broker, objects))?;
            if !self.has_time(frame) {
                self.none_waits_with_time(place, server)?;
                give_times(&mut rows, &sealed.read)?;
            }
            let table = &mut self.tables[place];
            if frame.ordinal != table.next_ordinal {
                return Err(("C4", format!("frame {} after {}", frame.ordinal, table.next_ordinal)));
            }
            table.next_ordinal += 1;
            table.frames.insert(frame.ordinal, vec![id(frame)]);
            table.sealed += frame.rows;
            for row in &rows {
                *self.expected.entry((place, row[0])).or_default() += 1;
            }
            if place == DEAD {
                sealed.dead.extend(rows)
            } else {
                of_tables.extend(rows.into_iter().map(|row| (place, row)))
            }
        }
        Ok(of_tables)
    }

    /// The record, or the item of one, whose row a table has refused.
    fn refusal(&mut self, refusal: &Refusal) -> Result<u64, Broken> {
        let place = self.places[refusal.table as usize];
        let ids = self.tables[place].frames.get(&refusal.ordinal);
        let piece =
            ids.and_then(|ids| ids.get(refusal.piece as usize)).and_then(|id| self.pieces.get_mut(id));
        let piece = piece.ok_or(("C9", "a refusal of no frame".to_owned()))?;
        if piece.is_dead || piece.ids.len() != 1 {
            let what = format!("a piece of {} rows is refused, dead: {}", piece.ids.len(), piece.is_dead);
            return Err(("C9", what));
        }
        piece.is_dead = true;
        let row_id = piece.ids[0];
        self.tables[place].refused += 1;
        *self.expected.entry((place, row_id)).or_default() -= 1;
        Ok(self.plan.unit_of(row_id))
    }

    /// C9: both ledgers are right, and nothing gets a second fate.
    fn fates(
        &mut self,
        seal: &Seal,
        of_tables: &[(usize, Row)],
        (units, may_close): (Vec<Sent>, bool),
        mut sealed: Sealed,
    ) -> Result<(), Broken> {
        let fates = match (&mut self.windows, &mut self.joins, &mut self.changes) {
            (Some(windows), ..) => windows.seal(seal, &sealed, of_tables, may_close)?,
            (None, Some(joins), _) => joins.seal(seal, &sealed, of_tables, may_close)?,
            (None, None, Some(changes)) => {
                let fates = changes.seal(seal, &sealed, of_tables)?;
                self.count_tables(seal, &sealed, of_tables)?;
                fates
            }
            (None, None, None) => {
                match self.plan.unnests {
                    true => self.count_items(seal, &sealed, of_tables)?,
                    false => self.count(seal, &sealed, of_tables)?,
                }
                self.count_tables(seal, &sealed, of_tables)?;
                sealed.read = units;
                self.model.seal(&sealed)?
            }
        };
        for (id, fate) in fates {
            let before = self.fates.insert(id, fate);
            // Several tables may refuse rows of one record.
            let is_refusal = matches!(before, Some(Fate::Written | Fate::Dead))
                && sealed.refused.contains(&id)
                && fate == Fate::Dead;
            if before.is_some() && !is_refusal {
                return Err(("C9", format!("record {id} is {fate:?}, and was {before:?}")));
            }
        }
        Ok(())
    }

    /// The records, or items of them, that the rows of a seal were made of: each with all of its rows, in the tables that they are for.
    pub(super) fn units_of(&self, rows: &[(usize, Row)], read: &[Sent]) -> Result<Vec<Row>, Broken> {
        let mut by_record: BTreeMap<u64, Vec<(usize, Row)>> = BTreeMap::new();
        for (place, row) in rows {
            by_record.entry(self.plan.unit_of(row[0])).or_default().push((*place, *row));
        }
        let mut records = Vec::new();
        for (id, mut found) in by_record {
            let [_, key, time] = found[0].1;
            let row = [id, key, time];
            if read.iter().any(|record| record.id == id) {
                let mut expected = self.plan.rows_of(row);
                expected.sort_unstable();
                found.sort_unstable();
                if found != expected {
                    return Err((
                        "C9",
                        format!("record {id} became {found:?}, and should become {expected:?}"),
                    ));
                }
            }
            records.push(row);
        }
        Ok(records)
    }

    /// C9: what is counted for an input was read from its partitions.
    fn count_inputs(&self, seal: &Seal, sealed: &Sealed) -> Result<(), Broken> {
        let mut found = [0; 2];
        for InputCounts { input, read, .. } in &seal.counts {
            let place =
                self.inputs.get(*input as usize).ok_or(("C9", format!("there is no input {input}")))?;
            found[*place] += *read;
        }
        if found != sealed.read_of {
            let what = format!(
                "the inputs are said to have read {found:?} records, and have read {:?}",
                sealed.read_of
            );
            return Err(("C9", what));
        }
        Ok(())
    }

    /// C9: both ledgers are those of the records and of the rows.
    fn count(&self, seal: &Seal, sealed: &Sealed, of_tables: &[(usize, Row)]) -> Result<(), Broken> {
        let derived = seal.derived.unwrap_or_default();
        let counts = counts_of(seal);
        let refused = sealed.dead.iter().filter(|row| row[1] == reason_code("refused")).count();
        let expected = (sealed.read.len(), sealed.dead.len() - refused);
        let found = (counts.read as usize, counts.dead_letters as usize);
        let sum = counts.passed + counts.filtered + counts.duplicates + counts.late + counts.dead_letters;
        if expected != found || sum != counts.read {
            return Err((
                "C9",
                format!("read and dead are {found:?}, and should be {expected:?}; all are {counts:?}"),
            ));
        }
        // A record whose rows no table gets passes where a step has made several rows of another one.
        let nowhere = sealed.read.iter().filter(|r| r.is_good && self.plan.is_dropped(r.key)).count();
        if counts.filtered > nowhere as u64 || counts.late > 0 && self.plan.late != Late::Drop {
            let what = format!("{counts:?}, though no rule drops more than {nowhere}");
            return Err(("C9", format!("{what} and late ones are {:?}", self.plan.late)));
        }
        let passed = sealed.written.len()..=sealed.written.len() + nowhere;
        let rows = of_tables.len() as u64 + derived.dropped + derived.dead_letters;
        if !passed.contains(&(counts.passed as usize)) || counts.passed + derived.rows != rows {
            let what = format!("{} passed, {derived:?}, {} rows are sealed", counts.passed, of_tables.len());
            return Err((
                "C9",
                format!("{what}, and {} to {} should have passed", passed.start(), passed.end()),
            ));
        }
        Ok(())
    }

    /// C9: each table gets as many rows as its frames hold.
    fn count_tables(&self, seal: &Seal, sealed: &Sealed, of_tables: &[(usize, Row)]) -> Result<(), Broken> {
        for said in &seal.rows {
            let place = self.places[said.table as usize];
            let found = match place {
                DEAD => sealed.dead.len(),
                place => of_tables.iter().filter(|(of, _)| *of == place).count(),
            };
            if said.rows != found as u64 {
                return Err(("C9", format!("table {place} gets {} rows, and holds {found}", said.rows)));
            }
        }
        Ok(())
    }
}

/// Gives rows that were sealed without their time the time of their records.
fn give_times(rows: &mut [Row], read: &[Sent]) -> Result<(), Broken> {
    for row in rows {
        let record = read.iter().find(|record| record.id == record_of(row[0]));
        let record = record.ok_or(("C1", format!("row {} is of no record of its seal", row[0])))?;
        if row[2] != 0 {
            return Err(("C3", format!("row {} lacks `{TIME}`, and holds {}", row[0], row[2])));
        }
        row[2] = record.time_ms as u64;
    }
    Ok(())
}

/// C9: the dead letters of a seal are the records that are none, where the server refuses no row.
///
/// # Errors
/// When others are.
pub fn rejects_alone(sealed: &Sealed) -> Result<(), Broken> {
    let mut found: Vec<(u64, u64)> = sealed.dead.iter().map(|row| (row[0], row[1])).collect();
    let rejects = sealed.read.iter().filter(|record| !record.is_good);
    let mut expected: Vec<(u64, u64)> = rejects.map(|record| (record.id, reason_code("malformed"))).collect();
    found.sort_unstable();
    expected.sort_unstable();
    match found == expected {
        true => Ok(()),
        false => Err(("C9", format!("dead letters are {found:?}, and should be {expected:?}"))),
    }
}

/// What the records of all inputs became in a seal.
pub fn counts_of(seal: &Seal) -> Counts {
    let mut counts = Counts::default();
    seal.counts.iter().for_each(|input| counts.add(&input.counts()));
    counts
}
