//! The rule of a window, computed from the records alone.
//!
//! Owns an account of its own of the published rule: which results a seal must hold, and what becomes of each record. Does not own the
//! window in the simulated pipeline (`sim::results`). Does not use the operator, nor its arithmetic.

use std::collections::BTreeMap;

use protocol::record::Seal;

use super::dedup::Sealed;
use super::fold::counts_of;
use super::{Broken, Fate};
use crate::plan::Plan;
use crate::records::{Row, reason_code};
use crate::results::Result as Of;

/// All windows that are open.
#[derive(Clone, Debug)]
pub struct Model {
    size_ms: i64,
    slide_ms: i64,
    lateness_ms: i64,
    watermark_ms: i64,
    tables: Vec<usize>,
    open: BTreeMap<(i64, u64), Of>,
    /// Whether results may come in later seals than the one that closes their window.
    is_in_files: bool,
    /// Results that are due.
    due: Vec<Of>,
}

impl Model {
    /// None is open; `None` for a plan without a window.
    pub fn new(plan: &Plan) -> Option<Self> {
        let aggregates = plan.aggregates?;
        Some(Self {
            size_ms: aggregates.size_ms,
            slide_ms: aggregates.slide_ms,
            lateness_ms: aggregates.lateness_ms,
            watermark_ms: i64::MIN,
            tables: plan.tables.clone(),
            open: BTreeMap::new(),
            is_in_files: plan.is_in_files(),
            due: Vec::new(),
        })
    }

    /// All windows are given up, and time begins again: how many records they held.
    pub fn begin_again(&mut self) -> u64 {
        self.watermark_ms = i64::MIN;
        let due = std::mem::take(&mut self.due);
        let open = std::mem::take(&mut self.open);
        open.values().chain(&due).map(|of| of.last).sum()
    }

    /// Whether no result of a closed window is still to come.
    pub fn is_out(&self) -> bool {
        self.due.is_empty()
    }

    /// The results that are due with these rows: all that are due, unless they may come later.
    fn take_due(&mut self, of_tables: &[(usize, Row)]) -> Vec<Of> {
        let (is_in_files, slide_ms) = (self.is_in_files, self.slide_ms);
        let comes = |of: &Of| of_tables.iter().any(|(_, row)| *row == of.row(slide_ms));
        let (now, later) = self.due.drain(..).partition(|of| !is_in_files || comes(of));
        self.due = later;
        now
    }

    fn is_closed(&self, start_ms: i64) -> bool {
        start_ms + self.size_ms + self.lateness_ms <= self.watermark_ms
    }

    /// What became of each record of a seal whose frames hold the rows `of_tables`, each with the place of its table.
    pub fn seal(
        &mut self,
        seal: &Seal,
        sealed: &Sealed,
        of_tables: &[(usize, Row)],
    ) -> Result<Vec<(u64, Fate)>, Broken> {
        let (mut fates, mut dead) = (Vec::new(), Vec::new());
        let (mut late, mut absorbed) = (0, 0);
        for record in &sealed.read {
            // The last window that it is in.
            let start_ms = record.time_ms - record.time_ms.rem_euclid(self.slide_ms);
            let fate = if !record.is_good {
                dead.push(record.id);
                Fate::Dead
            } else if self.is_closed(start_ms) {
                late += 1;
                Fate::Late
            } else {
                absorbed += 1;
                let starts = (0..).map(|n| start_ms - n * self.slide_ms);
                for start in starts.take_while(|start| start + self.size_ms > record.time_ms) {
                    if self.is_closed(start) {
                        break;
                    }
                    let none =
                        Of { start_ms: start, key: record.key, count: 0, last: 0, ids: [0, u64::MAX, 0] };
                    let of = self.open.entry((start, record.key)).or_insert(none);
                    let [sum, least, greatest] = of.ids;
                    of.count += 1;
                    of.last += u64::from(start == start_ms);
                    of.ids = [sum + record.id, least.min(record.id), greatest.max(record.id)];
                }
                Fate::Absorbed
            };
            fates.push((record.id, fate));
        }
        self.watermark_ms = self.watermark_ms.max(sealed.watermark_ms);
        let due: Vec<(i64, u64)> =
            self.open.keys().filter(|(start, _)| self.is_closed(*start)).copied().collect();
        self.due.extend(due.iter().filter_map(|key| self.open.remove(key)));
        let results = self.take_due(of_tables);
        self.compare(&results, of_tables)?;
        let found: Vec<(u64, u64)> = sealed.dead.iter().map(|row| (row[0], row[1])).collect();
        let expected: Vec<(u64, u64)> = dead.iter().map(|id| (*id, reason_code("malformed"))).collect();
        if sorted(found.clone()) != sorted(expected) {
            return Err(("C9", format!("dead letters are {found:?}, and should be {dead:?}")));
        }
        let (counts, derived) = (counts_of(seal), seal.derived.unwrap_or_default());
        let held: u64 = self.open.values().chain(&self.due).map(|of| of.last).sum();
        let released: u64 = results.iter().map(|of| of.last).sum();
        let said = seal.absorbed.unwrap_or_default();
        let found = [counts.passed, counts.late, counts.absorbed, derived.rows, said.released, said.held];
        let expected = [0, late, absorbed, (results.len() * self.tables.len()) as u64, released, held];
        if found != expected {
            let names = "passed, late, absorbed, derived rows, released and held";
            return Err(("C9", format!("{names} are {found:?}, and should be {expected:?}")));
        }
        Ok(fates)
    }

    fn compare(&self, results: &[Of], of_tables: &[(usize, Row)]) -> Result<(), Broken> {
        let expected: Vec<Row> = sorted(results.iter().map(|of| of.row(self.slide_ms)).collect());
        for place in &self.tables {
            let rows = of_tables.iter().filter(|(of, _)| of == place).map(|(_, row)| *row);
            let found = sorted(rows.collect());
            if found != expected {
                return Err((
                    "C6",
                    format!("table {place} gets the results {found:?}, and should get {expected:?}"),
                ));
            }
        }
        Ok(())
    }
}

fn sorted<T: Ord>(mut items: Vec<T>) -> Vec<T> {
    items.sort_unstable();
    items
}
