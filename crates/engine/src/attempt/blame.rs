//! Which rows of a refused piece are at fault, as far as the server says.
//!
//! A server that refuses an insert may name a row ([`dataflow::Table::refused_row`]), but only the first. So the same rows go out again under the same
//! token, those that were named behind all others: the server names the next, until it names one that is known. If it takes the rows after all, because
//! somebody has dropped the constraint, they have arrived, once. Then one split parts the rows that were named from the others.
//!
//! Owns the order of the rows, and how often they are sent for it. Does not own the split ([`crate::refuse`]). What was named is a hint: each row that
//! becomes a dead letter was refused alone, and rows that were not named and are refused all the same are split further.

use std::collections::BTreeSet;

use bytes::Bytes;
use dataflow::{InsertError, Layout};

use super::Sending;
use crate::{EngineError, refuse};

/// Rows named for one split at the most: with the rows between them they are as many pieces as a frame may have.
const NAMED_MAX: usize = protocol::lane::PIECES_MAX / 2 - 2;

/// Bytes that are sent to learn of rows at the most, for one split: of large frames only a few rows are named, and the rest goes on as a smaller piece.
const BYTES_MAX: u64 = 64 << 20;

/// The rows of one piece that the server has named.
#[derive(Default)]
pub(super) struct Blame {
    named: BTreeSet<u32>,
    /// The order in which the last attempt had the rows; `None` for that of the piece.
    sent: Option<Vec<u32>>,
    bytes: u64,
}

impl Blame {
    /// The order of `rows` rows in the next attempt; `None` for that of the piece.
    pub fn order(&mut self, rows: u32) -> Option<&[u32]> {
        self.sent = (!self.named.is_empty()).then(|| {
            let others = (0..rows).filter(|row| !self.named.contains(row));
            others.chain(self.named.iter().copied()).collect()
        });
        self.sent.as_deref()
    }

    /// The next attempt has the order of the piece.
    pub fn as_it_is(&mut self) {
        self.sent = None;
    }

    /// The server has named the row at place `at` of the last attempt, which had `rows` rows and `bytes` bytes. True if another attempt may name another.
    pub fn name(&mut self, at: u64, rows: u32, bytes: u64) -> bool {
        let row = match &self.sent {
            Some(sent) => usize::try_from(at).ok().and_then(|at| sent.get(at).copied()),
            None => u32::try_from(at).ok().filter(|row| *row < rows),
        };
        let is_new = row.is_some_and(|row| self.named.insert(row));
        self.bytes += bytes;
        is_new && self.named.len() < NAMED_MAX && self.bytes + bytes <= BYTES_MAX
    }

    /// The rows that were named, in order.
    pub fn rows(&self) -> Vec<usize> {
        self.named.iter().map(|row| *row as usize).collect()
    }
}

impl Sending<'_> {
    /// Whether the server has named a row that it did not name before, so that another attempt may name another. Tables in which the order of inserts shows
    /// get their rows in one order.
    pub(super) fn names_another(&mut self, error: &InsertError, body: &Bytes) -> bool {
        let rows = u32::try_from(self.piece.frame.rows).unwrap_or(u32::MAX);
        let named = self.target.table.refused_row(error).filter(|_| self.context.settings.in_flight_max > 1);
        named.is_some_and(|at| self.blame.name(at, rows, body.len() as u64))
    }

    /// The piece's rows with those at the end that the server has named; `None` if it has named none.
    pub(super) async fn reordered(&mut self, body: &Bytes) -> Result<Option<(Bytes, Layout)>, EngineError> {
        let rows = match &self.rows {
            Some(rows) => rows.clone(),
            None if self.blame.rows().is_empty() => return Ok(None),
            None => refuse::decode(self.context, self.place, self.piece, body).await?,
        };
        self.rows = Some(rows.clone());
        // What is in doubt is sent as it was.
        let order = if self.in_doubt { None } else { self.blame.order(rows.num_rows() as u32) };
        let Some(order) = order.map(<[u32]>::to_vec) else {
            self.blame.as_it_is();
            return Ok(None);
        };
        let again = refuse::in_order(self.context, self.place, self.piece, rows, order, self.layout.as_ref());
        let again = again.await?;
        if again.is_none() {
            self.blame.as_it_is();
        }
        Ok(again)
    }
}

#[cfg(test)]
mod tests;
