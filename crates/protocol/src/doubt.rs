//! An insert has no positive answer, or its owner died: is the frame in the table, and what now?
//!
//! Owns the decision from facts already read. Does not own the reading (`dataflow::Table::{facts, probe, end_attempts}`).
//!
//! A token proves presence only while it certainly stands *with its rows*. A server that crashed may keep a token whose
//! rows are gone, and other writers may have pushed the token out; then only a look at the rows themselves helps.
//!
//! | table is another | token certainly stands | earlier attempts | rows found  | views | confirmed | decision       |
//! |------------------|------------------------|------------------|-------------|-------|-----------|----------------|
//! | yes              |                        |                  |             |       |           | stop           |
//! | no               | yes                    |                  |             |       |           | resend (*)     |
//! | no               | no                     | may be alive     |             |       |           | end attempts   |
//! | no               | no                     | dead             | not looked  |       |           | probe          |
//! | no               | no                     | dead             | cannot tell |       |           | stop           |
//! | no               | no                     | dead             | some        |       |           | stop           |
//! | no               | no                     | dead             | all         | no    |           | settle         |
//! | no               | no                     | dead             | all         | yes   | no        | stop           |
//! | no               | no                     | dead             | all         | yes   | yes       | settle         |
//! | no               | no                     | dead             | none        |       | no        | confirm        |
//! | no               | no                     | dead             | none        |       | yes       | new generation |
//!
//! To *confirm* is to send the same bytes under the same token until the server answers positively, and to look again. No list
//! of running inserts shows one that is still in a proxy or a socket; once the token stands, such a late copy is a no-op.
//!
//! (*) Unless the server refuses the frame's content: then resending never ends the doubt, and the rows are looked for as if
//! the token did not stand. If they cannot be told, it is resent all the same: a person may mend the table.

use crate::record::Server;

/// A server's start, told by its own clock in whole seconds, may seem to move by this much without a restart.
pub const START_SLACK_MS: i64 = 2_000;

/// What a probe found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// No row of the frame.
    None,
    /// Every row.
    All,
    /// Some rows.
    Part,
    /// The table cannot tell.
    CannotTell,
}

/// Facts about one frame in doubt.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// The server as seen before the first attempt under the present token; `None` if it never was.
    pub before: Option<Server>,
    /// The server now.
    pub now: Server,
    /// Tokens that the table remembers.
    pub token_window: u64,
    /// How long it remembers them at least, in milliseconds; `u64::MAX` if only the number counts.
    pub token_age_ms_max: u64,
    /// What was found, if it was looked for.
    pub found: Option<Found>,
    /// True if the table feeds materialized views.
    pub views: bool,
    /// Attempts that still run, if it was asked *before* the probe.
    pub alive: Option<u64>,
    /// True if the server has answered a resend under the present token positively since the doubt began, and `found` is newer.
    pub confirmed: bool,
    /// True if the server turned the frame down for its content while an earlier attempt was in doubt.
    pub refused: bool,
}

/// What to do with the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The same bytes under the same token.
    Resend,
    /// End running attempts and count them, then ask again.
    EndAttempts,
    /// Look for the rows, then ask again.
    Probe,
    /// The same bytes under the same token once more, and then look again. Nothing of the frame was found, but an attempt may
    /// still be on its way in a proxy or a socket, where no list shows it. After a positive answer the token stands for certain, so
    /// that a late copy is a no-op, whether the rows came with this answer or are proven absent.
    Confirm,
    /// It is there.
    Settle,
    /// Seal a new generation, then send under its token.
    NewGeneration,
    /// A person must decide.
    Stop(StopReason),
}

/// Why only a person can decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The table was dropped and made again.
    TableChanged,
    /// There is neither a provenance column nor a unique key.
    CannotTell,
    /// Some rows of the frame are there and some are not.
    PartPresent,
    /// The rows are in the table, but whether its views have them cannot be told.
    ViewsUnknown,
}

impl StopReason {
    /// The question and the ways out, for a person.
    pub fn explain(self) -> &'static str {
        match self {
            Self::TableChanged => {
                "the table is not the one that the frames were sealed for (its UUID changed); if it was rebuilt on purpose, \
                 start a new pipeline name or a new store"
            }
            Self::CannotTell => {
                "the answer to an insert was lost and the server cannot tell any more whether the rows arrived; add a \
                 `_forebay UUID` column or name a `unique_key`, and until then look for the rows by hand"
            }
            Self::PartPresent => {
                "some rows of one insert are in the table and some are not: the table was changed by others (a DELETE, a TTL, \
                 a merge that drops rows); compare it by hand"
            }
            Self::ViewsUnknown => {
                "the rows of an insert are in the table, but the server restarted before it answered, so its materialized \
                 views may lack them; compare the views by hand"
            }
        }
    }
}

/// The decision.
pub fn decide(facts: &Facts) -> Decision {
    if let Some(before) = &facts.before {
        if before.table_uuid != facts.now.table_uuid {
            return Decision::Stop(StopReason::TableChanged);
        }
        let is_told =
            !matches!((facts.found, facts.views), (Some(Found::CannotTell), _) | (Some(Found::All), true));
        if token_stands(before, facts) && !(facts.refused && is_told) {
            return Decision::Resend;
        }
    }
    // Attempts are ended before the rows are looked for: one that lived through the probe could land behind it. A restart
    // ends attempts too, but only those made before it, and an attempt's time by the server's clock is not known.
    if facts.alive != Some(0) {
        return Decision::EndAttempts;
    }
    match facts.found {
        None => Decision::Probe,
        Some(Found::CannotTell) => Decision::Stop(StopReason::CannotTell),
        Some(Found::Part) => Decision::Stop(StopReason::PartPresent),
        Some(Found::All) if facts.views && !facts.confirmed => Decision::Stop(StopReason::ViewsUnknown),
        Some(Found::All) => Decision::Settle,
        Some(Found::None) if facts.confirmed || facts.refused => Decision::NewGeneration,
        Some(Found::None) => Decision::Confirm,
    }
}

fn token_stands(before: &Server, facts: &Facts) -> bool {
    let inserts = facts.now.block_number.checked_sub(before.block_number);
    let age_ms = facts.now.seen_ms.saturating_sub(before.seen_ms).max(0) as u64;
    is_same_run(before, &facts.now)
        && inserts.is_some_and(|n| n < facts.token_window / 2)
        && age_ms < facts.token_age_ms_max / 2
}

/// True only if the server certainly has not restarted in between.
///
/// A start is known to a second or so. If the server had run for less than twice the slack when it was seen, a restart
/// right after could show nearly the same start, so that is not certain either.
pub fn is_same_run(before: &Server, now: &Server) -> bool {
    before.server_uuid == now.server_uuid
        && (now.start_ms - before.start_ms).abs() <= START_SLACK_MS
        && before.seen_ms - before.start_ms > 2 * START_SLACK_MS
}

#[cfg(test)]
mod tests;
