//! The ledgers of a seal where records have several rows ([`crate::items`]).
//!
//! Owns that records are counted as records, and their further rows as derived, so that every item is in one of both once. Does not own what an item became
//! ([`super::dedup`]).

use protocol::record::Seal;

use super::dedup::Sealed;
use super::fold::counts_of;
use super::{Broken, Oracle};
use crate::items;
use crate::records::{Row, reason_code};

impl Oracle {
    /// C9: both ledgers are those of the records and of their items.
    pub(super) fn count_items(
        &self,
        seal: &Seal,
        sealed: &Sealed,
        of_tables: &[(usize, Row)],
    ) -> Result<(), Broken> {
        let (counts, derived) = (counts_of(seal), seal.derived.unwrap_or_default());
        let refused = sealed.dead.iter().filter(|row| row[1] == reason_code("refused")).count();
        let dead = counts.dead_letters + derived.dead_letters;
        let sum = counts.passed + counts.filtered + counts.duplicates + counts.late + counts.dead_letters;
        if (counts.read as usize, dead as usize) != (sealed.read.len(), sealed.dead.len() - refused)
            || sum != counts.read
        {
            let what = format!("{counts:?} and {derived:?}");
            return Err((
                "C9",
                format!(
                    "{what}, and {} were read, {} are dead",
                    sealed.read.len(),
                    sealed.dead.len() - refused
                ),
            ));
        }
        let rows = of_tables.len() as u64 + derived.dropped + derived.dead_letters;
        if counts.passed + derived.rows != rows {
            return Err((
                "C9",
                format!("{counts:?} and {derived:?}, and {} rows are sealed", of_tables.len()),
            ));
        }
        if self.plan.tables.len() > 1 {
            // A row for several tables is derived, too.
            return Ok(());
        }
        let good = sealed.read.iter().filter(|record| record.is_good);
        let empty = good.clone().filter(|record| items::count(record.id) == 0).count() as u64;
        let broken = (sealed.read.len() - good.clone().count()) as u64;
        let all: u64 = good.map(|record| items::count(record.id)).sum();
        let found = counts.passed
            + derived.rows
            + counts.filtered
            + counts.duplicates
            + counts.late
            + counts.dead_letters;
        if found != all + empty + broken {
            return Err((
                "C9",
                format!(
                    "{counts:?} and {derived:?}, and the records have {all} items; {empty} have none, and {broken} are none"
                ),
            ));
        }
        Ok(())
    }
}
