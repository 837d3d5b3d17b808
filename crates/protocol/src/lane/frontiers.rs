//! Which frames are settled, and what was seen of the server meanwhile.
//!
//! Owns that a frontier moves forward only, over frames that are answered (C4), and that the window is kept (C8). Does not own how wide the
//! window is (`protocol::window`), nor the decision that a frame is settled (`protocol::doubt`).

use super::{Lane, TableState, Violation, ledger, violation};
use crate::record::{Frontier, Record, SettledAbove, Sighting};
use crate::window;

impl Lane {
    /// A frontier may pass only frames that were sealed and sendable before this record.
    pub(super) fn check_frontiers(&self, record: &Record, settled: &[Frontier]) -> Result<(), Violation> {
        for f in settled {
            let Some(table) = self.tables.get(f.table as usize) else {
                return Err(violation(record, "order", format!("table {} has no genesis", f.table)));
            };
            let sendable = window::send_limit(table);
            if f.frontier < table.frontier || f.frontier > sendable {
                let what = format!(
                    "frontier of `{}` moves from {} to {}, though only frames below {sendable} may have been sent",
                    table.name, table.frontier, f.frontier
                );
                return Err(violation(record, "C4", what));
            }
            if f.sent_below.is_some_and(|sent_below| sent_below < f.frontier) {
                let what = format!(
                    "frames of `{}` below {} are settled, and {f:?} says unsent",
                    table.name, f.frontier
                );
                return Err(violation(record, "C8", what));
            }
            let kept = f.frontier.saturating_add(f.window);
            // Only the owner knows which frames it has not sent; it says so by `sent_below` and never by a smaller window.
            if kept < sendable {
                let what = format!(
                    "frames of `{}` below {sendable} may have been sent, and those from {kept} on would pass for unsent",
                    table.name
                );
                return Err(violation(record, "C8", what));
            }
        }
        Ok(())
    }

    /// What is settled beyond a hole must have been sendable, too.
    pub(super) fn check_above(&self, record: &Record, above: &[SettledAbove]) -> Result<(), Violation> {
        for SettledAbove { table, ordinals } in above {
            let Some(known) = self.tables.get(*table as usize) else {
                return Err(violation(record, "order", format!("table {table} has no genesis")));
            };
            let sendable = known.frontier..window::send_limit(known);
            let is_pending = |n: &u64| sendable.contains(n) && known.pieces(*n).is_some();
            if let Some(ordinal) = ordinals.iter().find(|n| !is_pending(n)) {
                let what = format!("frame {ordinal} of `{}` is settled, outside of {sendable:?}", known.name);
                return Err(violation(record, "C4", what));
            }
        }
        Ok(())
    }

    pub(super) fn settle_above(&mut self, above: &SettledAbove) {
        for ordinal in &above.ordinals {
            self.pieces_mut(above.table, *ordinal).iter_mut().for_each(|piece| piece.settled = true);
        }
    }

    pub(super) fn move_frontiers(&mut self, settled: &[Frontier]) {
        for f in settled {
            let table = &mut self.tables[f.table as usize];
            let sendable_before = window::send_limit(table);
            for _ in table.frontier..f.frontier {
                let pieces = table.pending.pop_front().unwrap_or_default();
                table.rows.settled += ledger::rows_of(&pieces);
            }
            table.frontier = f.frontier;
            (table.window, table.sent_below) = (f.window, f.sent_below);
            see_first_sendable(table, sendable_before);
        }
        self.forget_settled();
        self.forget_layouts();
    }

    pub(super) fn see(&mut self, servers: &[Sighting]) {
        for server in servers {
            if let Some(table) = self.tables.get_mut(server.table as usize) {
                table.server = Some(server.clone());
            }
        }
    }
}

/// Frames that only this record's window lets out were not sent before it, so that the server as seen now stands before
/// their first attempt. The identity that a frame was sealed for stays its own.
fn see_first_sendable(table: &mut TableState, sendable_before: u64) {
    let first = sendable_before.saturating_sub(table.frontier) as usize;
    let end = (window::send_limit(table).saturating_sub(table.frontier) as usize).min(table.pending.len());
    let Some(now) = table.server.clone() else { return };
    let fresh = table.pending.range_mut(first.min(end)..end).flatten();
    for piece in fresh.filter(|p| p.server.as_ref().is_some_and(|s| s.table_uuid == now.table_uuid)) {
        piece.server = Some(now.clone());
    }
}
