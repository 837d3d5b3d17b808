//! The rule of a join, computed from the records alone.
//!
//! Owns an account of its own of the published rule: which pairs a seal must hold, and what becomes of each record. Does not use the
//! operator, nor its arithmetic.

use protocol::record::Seal;

use super::dedup::Sealed;
use super::fold::counts_of;
use super::{Broken, Fate};
use crate::pairs::{Joins, Pair};
use crate::plan::Plan;
use crate::records::{Record, Row, reason_code};

/// A record that waits.
#[derive(Clone, Copy, Debug)]
struct Held {
    record: Record,
    is_matched: bool,
}

/// All records that wait, of both sides.
#[derive(Clone, Debug)]
pub struct Model {
    joins: Joins,
    watermark_ms: i64,
    tables: Vec<usize>,
    held: [Vec<Held>; 2],
}

impl Model {
    /// None waits; `None` for a plan without a join.
    pub fn new(plan: &Plan) -> Option<Self> {
        let (tables, held) = (plan.tables.clone(), Default::default());
        Some(Self { joins: plan.joins?, watermark_ms: i64::MIN, tables, held })
    }

    /// All records that wait are given up, and time begins again: how many there were.
    pub fn begin_again(&mut self) -> u64 {
        self.watermark_ms = i64::MIN;
        self.held.iter_mut().map(|side| std::mem::take(side).len() as u64).sum()
    }

    fn floor_ms(&self) -> i64 {
        self.watermark_ms.saturating_sub(self.joins.lateness_ms)
    }

    fn matches(&self, left: &Record, right: &Record) -> bool {
        let Joins { before_ms, after_ms, .. } = self.joins;
        let apart = right.time_ms - left.time_ms;
        left.key == right.key && -before_ms <= apart && apart <= after_ms
    }

    /// The pairs that a record makes with those that wait on the other side.
    fn meet(&mut self, side: usize, record: Record, pairs: &mut Vec<Pair>) {
        let others = std::mem::take(&mut self.held[1 - side]);
        let mut own = Held { record, is_matched: false };
        let meet = |mut other: Held| {
            let (left, right) = if side == 0 { (record, other.record) } else { (other.record, record) };
            if self.matches(&left, &right) {
                (own.is_matched, other.is_matched) = (true, true);
                let time_ms = left.time_ms.max(right.time_ms);
                pairs.push(Pair { ids: [Some(left.id), Some(right.id)], key: left.key, time_ms });
            }
            other
        };
        let others = others.into_iter().map(meet).collect();
        self.held[1 - side] = others;
        self.held[side].push(own);
    }

    /// Records that no other can match any more go; how many.
    fn release(&mut self, pairs: &mut Vec<Pair>) -> u64 {
        let floor_ms = self.floor_ms();
        let longest_ms = [self.joins.after_ms, self.joins.before_ms];
        let mut released = 0;
        for side in [0, 1] {
            let is_due = |held: &&Held| floor_ms > held.record.time_ms + longest_ms[side];
            for held in self.held[side].iter().filter(is_due) {
                released += 1;
                if self.joins.keeps[side] && !held.is_matched {
                    let Record { id, key, time_ms, .. } = held.record;
                    let mut ids = [None, None];
                    ids[side] = Some(id);
                    pairs.push(Pair { ids, key, time_ms });
                }
            }
            self.held[side].retain(|held| !is_due(&held));
        }
        released
    }

    /// What became of each record of a seal whose frames hold the rows `of_tables`, each with the place of its table.
    pub fn seal(
        &mut self,
        seal: &Seal,
        sealed: &Sealed,
        of_tables: &[(usize, Row)],
    ) -> Result<Vec<(u64, Fate)>, Broken> {
        let (mut fates, mut dead, mut pairs) = (Vec::new(), Vec::new(), Vec::new());
        let (mut late, mut absorbed) = (0, 0);
        for (record, side) in sealed.read.iter().zip(&sealed.sides) {
            let fate = if !record.is_good {
                dead.push(record.id);
                Fate::Dead
            } else if record.time_ms < self.floor_ms() {
                late += 1;
                Fate::Late
            } else {
                absorbed += 1;
                self.meet(*side, *record, &mut pairs);
                Fate::Absorbed
            };
            fates.push((record.id, fate));
        }
        self.watermark_ms = self.watermark_ms.max(sealed.watermark_ms);
        let released = self.release(&mut pairs);
        let expected: Vec<Row> = sorted(pairs.iter().map(Pair::row).collect());
        for place in &self.tables {
            let rows = of_tables.iter().filter(|(of, _)| of == place).map(|(_, row)| *row);
            let found = sorted(rows.collect());
            if found != expected {
                let what = format!("table {place} gets the pairs {found:?}, and should get {expected:?}");
                return Err(("C6", what));
            }
        }
        let found: Vec<(u64, u64)> = sealed.dead.iter().map(|row| (row[0], row[1])).collect();
        let expected: Vec<(u64, u64)> = dead.iter().map(|id| (*id, reason_code("malformed"))).collect();
        if sorted(found.clone()) != sorted(expected) {
            return Err(("C9", format!("dead letters are {found:?}, and should be {dead:?}")));
        }
        let (counts, derived) = (counts_of(seal), seal.derived.unwrap_or_default());
        let held = self.held.iter().map(|side| side.len() as u64).sum();
        let said = seal.absorbed.unwrap_or_default();
        let found = [counts.passed, counts.late, counts.absorbed, derived.rows, said.released, said.held];
        let expected = [0, late, absorbed, (pairs.len() * self.tables.len()) as u64, released, held];
        if found != expected {
            let names = "passed, late, absorbed, derived rows, released and held";
            return Err(("C9", format!("{names} are {found:?}, and should be {expected:?}")));
        }
        Ok(fates)
    }
}

fn sorted<T: Ord>(mut items: Vec<T>) -> Vec<T> {
    items.sort_unstable();
    items
}
