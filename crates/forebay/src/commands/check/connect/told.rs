//! Which faults of several tables are one.
//!
//! Owns the comparison. Does not own the faults (`clickhouse`), nor how one is shown (`connect`).

use std::collections::BTreeSet;

use clickhouse::Fault;
use dataflow::{Remedy, TableFault};

/// The faults of the server that were told with an earlier table.
#[derive(Debug, Default)]
pub(super) struct Told {
    is_away: bool,
    forbidden: BTreeSet<String>,
}

impl Told {
    /// Whether a fault is to be told. A server that is away is away for all tables; so is a user that it refuses. What it forbids that user is told
    /// once each: whoever mends one thing must not meet the next at the start.
    pub(super) fn is_new(&mut self, fault: &Fault) -> bool {
        match (fault.kind, &fault.fix) {
            (TableFault::Access, Some(_)) | (TableFault::Request, _) => {
                self.forbidden.insert(fault.to_string())
            }
            (TableFault::Access, None) => !std::mem::replace(&mut self.is_away, true),
            _ if fault.remedy == Remedy::Resend => !std::mem::replace(&mut self.is_away, true),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests;
