//! Results that come from files before and after their windows are closed, each in any seal behind the one that made it.
//!
//! Owns which values of a window and key may still come: those that it had at a seal since its last result. Does not own what they are (`oracle::windows::panes`).

use std::collections::{BTreeMap, BTreeSet};

use crate::oracle::Broken;
use crate::records::Row;

/// What may come of each window and key, by the id of its row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Early {
    /// Values at seals since the last result, the newest last.
    values: BTreeMap<u64, Vec<u64>>,
    /// The value of the last result.
    written: BTreeMap<u64, u64>,
    /// Those that are closed.
    closed: BTreeSet<u64>,
    /// Those of them whose last value has not come.
    due: BTreeSet<u64>,
}

impl Early {
    /// A seal has this value.
    pub fn seal(&mut self, [id, _, value]: &Row) {
        let values = self.values.entry(*id).or_default();
        if values.last().or(self.written.get(id)) != Some(value) {
            values.push(*value);
        }
    }

    /// Its window is closed.
    pub fn close(&mut self, id: u64) {
        self.closed.insert(id);
        if self.values.get(&id).is_some_and(|values| !values.is_empty()) {
            self.due.insert(id);
        }
    }

    /// A result comes; whether its window is closed.
    ///
    /// # Errors
    /// When it is none that may.
    pub fn comes(&mut self, row: &Row) -> Result<bool, Broken> {
        let [id, _, value] = row;
        let values = self.values.entry(*id).or_default();
        let Some(at) = values.iter().position(|own| own == value) else {
            return Err(("C6", format!("result {row:?} comes from files, and {values:?} may")));
        };
        values.drain(..=at);
        self.written.insert(*id, *value);
        if values.is_empty() {
            self.due.remove(id);
        }
        Ok(self.closed.contains(id))
    }

    /// Whether its last value is still to come, and its window is closed.
    pub fn is_due(&self, id: u64) -> bool {
        self.due.contains(&id)
    }

    /// Whether nothing of a closed window is still to come.
    pub fn is_out(&self) -> bool {
        self.due.is_empty()
    }
}
