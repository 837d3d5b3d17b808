//! A second stream beside the events, to be joined with them by `event_id` and time.
//!
//! Owns the actions, which of them have an event, and what the table of pairs must hold. Does not own topics or the bound of the join:
//! any that takes an action up to [`DELAY_S_MAX`] seconds after its event finds the same pairs.
//!
//! An action is JSON of 175 to 185 bytes:
//! ```text
//! {"action_id": "…", "event_id": "…", "page": "/products/…", "duration_ms": 1234, "acted_at": "2025-01-01 00:00:03"}
//! ```
//! A publisher sends one for each of its events. Of every ten the last belongs to no event, and its event has no action: 10 % of
//! the rows of either side are unmatched.

use std::io::Write;

use xxhash_rust::xxh64::xxh64;

use super::oracle::write_row;
use super::record::{Record, hyphenated, uuid4};
use super::{Purpose, SpecError, Workload};
use crate::content::Content;
use crate::random::{below, nth};
use crate::text::date_time;

/// Seconds that an action comes after its event, at the most.
pub const DELAY_S_MAX: u64 = 5;
/// One action of so many has no event, and one event no action.
pub const UNMATCHED_EVERY: u64 = 10;
/// Bytes of an action in the mean.
pub const ACTION_BYTES_MEAN: usize = 180;
/// Bytes of the longest action.
pub const ACTION_BYTES_MAX: usize = 192;

/// Where actions happen.
const PAGES: [&str; 8] = [
    "/products/summer",
    "/products/winter",
    "/checkout/start",
    "/checkout/paid",
    "/account/orders",
    "/account/address",
    "/search/results",
    "/help/contact-us",
];

/// Events without duplicates, and their actions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pairs {
    events: Workload,
}

/// The fields of an action.
struct Action {
    action_id: u128,
    event_id: u128,
    page: &'static str,
    duration_ms: u64,
    acted_at_s: u64,
}

impl Pairs {
    /// The events of a workload, without its duplicates.
    ///
    /// # Errors
    /// None but those of the workload's own spec, which cannot come from one that was checked.
    pub fn new(workload: &Workload) -> Result<Self, SpecError> {
        let spec = super::Spec {
            near_duplicates: false,
            far_duplicates: 0,
            cross_duplicates: 0,
            ..workload.spec().clone()
        };
        Ok(Self { events: Workload::new(spec)? })
    }

    /// The left stream.
    pub fn events(&self) -> &Workload {
        &self.events
    }

    /// Records of both streams.
    pub fn records_total(&self) -> u64 {
        2 * self.events.uniques_total()
    }

    /// Appends the action number `ordinal` of `publisher`, without a line end; true unless the run has no such action.
    pub fn write_action(&self, publisher: u32, ordinal: u64, out: &mut Vec<u8>) -> bool {
        if ordinal >= self.events.records(publisher) {
            return false;
        }
        self.action(publisher, ordinal).write_json(out);
        true
    }

    /// What the table of an inner join must hold: a row for each event with an action.
    pub fn expected(&self) -> Content {
        let spec = self.events.spec();
        let mut content = Content::default();
        let mut row = Vec::new();
        for publisher in 0..spec.publishers {
            let series = self.events.series(publisher, Purpose::Content);
            for ordinal in (0..spec.uniques).filter(|ordinal| is_matched(*ordinal)) {
                row.clear();
                let created_at_s = self.events.created_at_s(publisher, ordinal);
                write_row(&Record::new(series, ordinal, created_at_s), &mut row);
                self.action(publisher, ordinal).write_row(&mut row);
                content = content.plus(Content { rows: 1, ids: 1, checksum: xxh64(&row, 0) });
            }
        }
        content
    }

    fn action(&self, publisher: u32, ordinal: u64) -> Action {
        let series = nth(self.events.series(publisher, Purpose::Action), ordinal);
        let created_at_s = self.events.created_at_s(publisher, ordinal);
        let event_id = match is_matched(ordinal) {
            true => {
                Record::new(self.events.series(publisher, Purpose::Content), ordinal, created_at_s).event_id
            }
            false => uuid4(nth(series, 4), nth(series, 5)),
        };
        Action {
            action_id: uuid4(nth(series, 0), nth(series, 1)),
            event_id,
            page: PAGES[below(nth(series, 2), PAGES.len() as u64) as usize],
            duration_ms: 100 + below(nth(series, 3), 9_900),
            acted_at_s: created_at_s + below(nth(series, 6), DELAY_S_MAX + 1),
        }
    }
}

fn is_matched(ordinal: u64) -> bool {
    ordinal % UNMATCHED_EVERY != UNMATCHED_EVERY - 1
}

impl Action {
    fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"action_id\": \"");
        out.extend_from_slice(&hyphenated(self.action_id));
        out.extend_from_slice(b"\", \"event_id\": \"");
        out.extend_from_slice(&hyphenated(self.event_id));
        write!(out, "\", \"page\": \"{}\", \"duration_ms\": {}, ", self.page, self.duration_ms)
            .expect("a vector takes every byte");
        out.extend_from_slice(b"\"acted_at\": \"");
        out.extend_from_slice(&date_time(self.acted_at_s));
        out.extend_from_slice(b"\"}");
    }

    /// Appends what is hashed of it, behind the event's text.
    fn write_row(&self, row: &mut Vec<u8>) {
        row.push(b'|');
        row.extend_from_slice(&hyphenated(self.action_id));
        write!(row, "|{}|{}|{}", self.page, self.duration_ms, self.acted_at_s)
            .expect("a vector takes every byte");
    }
}

/// The query that answers one row with the three numbers of [`Content`], in order, all UInt64. `table` goes into the text as it
/// stands: quote it if it needs that.
pub fn sql(table: &str) -> String {
    format!(
        "SELECT count() AS rows, uniqExact(event_id) AS ids, sum(xxHash64(concat(toString(event_id), '|', \
         toString(user_id), '|', toString(toUnixTimestamp(created_at)), '|', user_name, '|', user_email, '|', \
         toString(action_id), '|', page, '|', toString(duration_ms), '|', toString(toUnixTimestamp(acted_at))))) \
         AS checksum FROM {table}"
    )
}

#[cfg(test)]
mod tests;
