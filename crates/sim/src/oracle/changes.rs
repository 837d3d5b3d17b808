//! The rule of rows that replace each other by key, computed from the records alone.
//!
//! Owns an account of its own of the published rule: the row of each key that holds, and which rows a seal must have. Does not own the form of such rows
//! (`sim::changes`). Does not use the operator.
//!
//! | a seal holds                | for                                                                                      |
//! |-----------------------------|------------------------------------------------------------------------------------------|
//! | first, what takes a row back | each key of which a record is sealed that holds from now on: the row that held before, if any did |
//! | then, a row that is given    | each of these keys whose record does not delete it: that record                         |
//!
//! This order holds per key: rows of different table partitions are in different frames, and are never merged. Of a key's records in one seal the last holds, or with versions the last of those with the greatest, unless a greater one held before. At the end what a table has
//! of each record, less what takes it back, is one row of the records that hold, and none of all others.

use std::collections::BTreeMap;

use protocol::record::Seal;

use super::dedup::Sealed;
use super::fold::{counts_of, rejects_alone};
use super::{Broken, Fate};
use crate::changes::{Changes, is_taken_back, signed};
use crate::plan::Plan;
use crate::records::{Record, Row};

/// What holds of a key.
#[derive(Clone, Copy, Debug)]
struct Last {
    id: u64,
    time_ms: i64,
    is_deleted: bool,
}

/// What holds of every key.
#[derive(Clone, Debug)]
pub struct Model {
    changes: Changes,
    tables: Vec<usize>,
    last: BTreeMap<u64, Last>,
}

impl Model {
    /// Nothing does; `None` for a plan without an upsert.
    pub fn new(plan: &Plan) -> Option<Self> {
        Some(Self { changes: plan.changes?, tables: plan.tables.clone(), last: BTreeMap::new() })
    }

    /// Whether a record replaces what holds since this time.
    fn replaces(&self, record: &Record, since_ms: i64) -> bool {
        !self.changes.is_versioned || record.time_ms >= since_ms
    }

    /// The rows that a seal of these records has.
    fn rows(&mut self, read: &[Record]) -> [Vec<Row>; 2] {
        let mut newest: BTreeMap<u64, &Record> = BTreeMap::new();
        for record in read.iter().filter(|record| record.is_good) {
            match newest.get(&record.key) {
                Some(before) if !self.replaces(record, before.time_ms) => {}
                _ => _ = newest.insert(record.key, record),
            }
        }
        let [mut taken_back, mut given] = [Vec::new(), Vec::new()];
        for (key, record) in newest {
            let before = self.last.get(&key).copied();
            if before.is_some_and(|before| !self.replaces(record, before.time_ms)) {
                continue;
            }
            let held = before.filter(|before| !before.is_deleted);
            taken_back.extend(held.map(|held| signed(held.id, key, held.time_ms, true)));
            let is_deleted = self.changes.deletes(record.id);
            if !is_deleted {
                given.push(signed(record.id, key, record.time_ms, false));
            }
            self.last.insert(key, Last { id: record.id, time_ms: record.time_ms, is_deleted });
        }
        [taken_back, given]
    }

    /// What became of each record of a seal whose frames hold the rows `of_tables`, each with the place of its table.
    ///
    /// # Errors
    /// When the seal is not the one that the rule gives.
    pub fn seal(
        &mut self,
        seal: &Seal,
        sealed: &Sealed,
        of_tables: &[(usize, Row)],
    ) -> Result<Vec<(u64, Fate)>, Broken> {
        let [taken_back, given] = self.rows(&sealed.read);
        for place in &self.tables {
            let rows = of_tables.iter().filter(|(of, _)| of == place).map(|(_, row)| *row);
            let found: Vec<Row> = rows.collect();
            if sorted(&found) != sorted(&[taken_back.as_slice(), &given].concat()) {
                let what = format!(
                    "table {place} gets {found:?}, and should get {taken_back:?} to take rows back, and {given:?}"
                );
                return Err(("C6", what));
            }
            if let Some(row) = given_first(&found) {
                return Err((
                    "C6",
                    format!("table {place} gets {row:?} before the row that it replaces is taken back"),
                ));
            }
        }
        rejects_alone(sealed)?;
        let (counts, derived) = (counts_of(seal), seal.derived.unwrap_or_default());
        let said = seal.absorbed.unwrap_or_default();
        let read = sealed.read.len() as u64;
        let absorbed = sealed.read.iter().filter(|record| record.is_good).count() as u64;
        let made = ((taken_back.len() + given.len()) * self.tables.len()) as u64;
        let of_records = [counts.read, counts.dead_letters, counts.absorbed];
        let of_none = [counts.passed, counts.filtered, counts.duplicates, counts.late];
        let of_rows = [derived.rows, derived.dropped, derived.dead_letters, derived.absorbed];
        let of_state = [said.released, said.held];
        let found = [of_records.as_slice(), &of_none, &of_rows, &of_state].concat();
        let expected = [read, read - absorbed, absorbed, 0, 0, 0, 0, made, 0, 0, 0, absorbed, 0];
        if found != expected {
            let names = "read, dead, absorbed, passed, filtered, duplicates, late, derived rows, those dropped, dead and absorbed, released and held";
            return Err(("C9", format!("{names} are {found:?}, and should be {expected:?}")));
        }
        let fate = |record: &Record| if record.is_good { Fate::Absorbed } else { Fate::Dead };
        Ok(sealed.read.iter().map(|record| (record.id, fate(record))).collect())
    }

    /// Whether the rows of a table, in the order of their inserts, say of each key what holds: each row is taken back before the next of its key is given, and the last that
    /// is not taken back is the one that holds. Of rows in another order a merge would keep the wrong one, though their sum is right.
    ///
    /// # Errors
    /// When they say anything else.
    pub fn check_left<'a>(&self, place: usize, rows: impl Iterator<Item = &'a Row>) -> Result<(), Broken> {
        if !self.tables.contains(&place) {
            return Ok(());
        }
        let mut left: BTreeMap<u64, u64> = BTreeMap::new();
        for row in rows {
            let (key, id) = (row[1], row[0] >> 1);
            let is_right = match is_taken_back(row) {
                true => left.remove(&key) == Some(id),
                false => left.insert(key, id).is_none(),
            };
            if !is_right {
                return Err((
                    "C6",
                    format!("in table {place} {row:?} does not follow what its key had before"),
                ));
            }
        }
        let holds = self.last.iter().filter(|(_, last)| !last.is_deleted);
        let expected: BTreeMap<u64, u64> = holds.map(|(key, last)| (*key, last.id)).collect();
        match left == expected {
            true => Ok(()),
            false => Err((
                "C6",
                format!("of table {place} the records {left:?} are left by key, and should be {expected:?}"),
            )),
        }
    }
}

/// A row that stands before the one that takes back the row before it; each key has one of each at the most.
fn given_first(rows: &[Row]) -> Option<Row> {
    let taken_back = |key: u64| rows.iter().position(|row| row[1] == key && is_taken_back(row));
    let given = rows.iter().enumerate().filter(|(_, row)| !is_taken_back(row));
    let mut first = given.filter(|(at, row)| taken_back(row[1]).is_some_and(|back| back > *at));
    first.next().map(|(_, row)| *row)
}

fn sorted(rows: &[Row]) -> Vec<Row> {
    let mut rows = rows.to_vec();
    rows.sort_unstable();
    rows
}
