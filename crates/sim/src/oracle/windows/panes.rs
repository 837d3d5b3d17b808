//! Windows whose bounds are given by time alone: which are open, and what they hold.
//!
//! Owns the rule of tumbling, hopping and growing windows, and which of them have results before they are closed. Does not own what a seal must hold of these
//! (`oracle::windows`).

use std::collections::BTreeMap;

use crate::records::Record;
use crate::results::{Aggregates, Kind, Result as Of};

/// What a key has in a window.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Held {
    of: Of,
    /// Whether no result has all of it.
    is_new: bool,
}

/// Open windows by their end, start and key.
#[derive(Clone, Debug, PartialEq)]
pub struct Panes {
    aggregates: Aggregates,
    open: BTreeMap<(i64, i64, u64), Held>,
}

impl Panes {
    /// None.
    pub fn new(aggregates: Aggregates) -> Self {
        Self { aggregates, open: BTreeMap::new() }
    }

    /// The bounds of the windows that a time lies in, the last first.
    fn windows(&self, time_ms: i64) -> Vec<(i64, i64)> {
        match self.aggregates.windows {
            Kind::Hopping { size_ms, slide_ms } => {
                let last_ms = time_ms - time_ms.rem_euclid(slide_ms);
                let starts =
                    (0..).map(|n| last_ms - n * slide_ms).take_while(|start| start + size_ms > time_ms);
                starts.map(|start| (start, start + size_ms)).collect()
            }
            Kind::Cumulative { size_ms, step_ms } => {
                let start = time_ms - time_ms.rem_euclid(size_ms);
                let ends = (1..=size_ms / step_ms).rev().map(|n| start + n * step_ms);
                ends.take_while(|end| *end > time_ms).map(|end| (start, end)).collect()
            }
            Kind::Sessions { .. } => unreachable!("their bounds depend on the records"),
        }
    }

    fn is_closed(&self, end_ms: i64, watermark_ms: i64) -> bool {
        end_ms + self.aggregates.lateness_ms <= watermark_ms
    }

    /// Takes a record into those of its windows that are open; whether there are any.
    pub fn take(&mut self, record: &Record, watermark_ms: i64) -> bool {
        let windows = self.windows(record.time_ms);
        let last_ms = windows[0].1;
        let open = windows.into_iter().filter(|(_, end_ms)| !self.is_closed(*end_ms, watermark_ms));
        let open: Vec<(i64, i64)> = open.collect();
        for (start_ms, end_ms) in &open {
            let none = Held { of: Of::none(*start_ms, *end_ms, record.key), is_new: true };
            let held = self.open.entry((*end_ms, *start_ms, record.key)).or_insert(none);
            held.of.add(record.id, *end_ms == last_ms);
            held.is_new = true;
        }
        !open.is_empty()
    }

    /// Takes a result of another window in, which has the time of its last millisecond, unless its window is closed; whether it did.
    pub fn take_result(&mut self, of: &Of, watermark_ms: i64) -> bool {
        let (start_ms, end_ms) = self.windows(of.end_ms - 1)[0];
        if self.is_closed(end_ms, watermark_ms) {
            return false;
        }
        let none = Held { of: Of::none(start_ms, end_ms, of.key), is_new: true };
        self.open.entry((end_ms, start_ms, of.key)).or_insert(none).of.add_result(of);
        true
    }

    /// The least watermark that closes all; `None` if none is open.
    pub fn closing_ms(&self) -> Option<i64> {
        self.open.keys().map(|(end_ms, _, _)| end_ms + self.aggregates.lateness_ms).max()
    }

    /// Takes those away that a watermark closes.
    pub fn close(&mut self, watermark_ms: i64) -> Vec<(Of, bool)> {
        let is_closed = |end_ms: i64| end_ms + self.aggregates.lateness_ms <= watermark_ms;
        let closed = self.open.extract_if(.., |(end_ms, _, _), _| is_closed(*end_ms));
        closed.map(|(_, held)| (held.of, held.is_new)).collect()
    }

    /// Whether a seal that moves the watermark so has results of every open window; `None` if the wall's clock says that.
    pub fn is_early(&self, (from_ms, to_ms): (i64, i64)) -> Option<bool> {
        let emits = self.aggregates.emits?;
        match emits.early_ms {
            Some(_) if emits.is_of_the_wall => None,
            Some(early_ms) => Some(to_ms.div_euclid(early_ms) > from_ms.div_euclid(early_ms)),
            None => Some(false),
        }
    }

    /// What is new in the windows that have results in a seal though they are open.
    pub fn firing(&self, is_early: bool, watermark_ms: i64) -> Vec<Of> {
        let new = self.open.values().filter(|held| held.is_new);
        new.filter(|held| self.fires(held, is_early, watermark_ms)).map(|held| held.of).collect()
    }

    /// They had them.
    pub fn fired(&mut self, is_early: bool, watermark_ms: i64) {
        let mut open = std::mem::take(&mut self.open);
        for held in open.values_mut().filter(|held| self.fires(held, is_early, watermark_ms)) {
            held.is_new = false;
        }
        self.open = open;
    }

    fn fires(&self, held: &Held, is_early: bool, watermark_ms: i64) -> bool {
        let updates = self.aggregates.emits.is_some_and(|emits| emits.updates);
        is_early || (updates && held.of.end_ms <= watermark_ms)
    }

    /// What all that is open has.
    pub fn all(&self) -> impl Iterator<Item = &Of> {
        self.open.values().map(|held| &held.of)
    }

    /// Records that are held, each until its last window is closed.
    pub fn held(&self) -> u64 {
        self.open.values().map(|held| held.of.last).sum()
    }
}
