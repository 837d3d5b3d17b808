//! An insert has no positive answer, or its owner died: is the frame in the table, and what now?
//!
//! Owns the decision from facts already read. Does not own the reading (`dataflow::Table::{facts, probe, end_attempts}`).
//!
//! A token proves presence only while it certainly stands *with its rows*. A server that crashed may keep a token whose
//! rows are gone, and other writers may have pushed the token out; then only a look at the rows themselves helps.
//!
//! | a person said | table is another  | token certainly stands | earlier attempts | rows found  | views | confirmed | decision       |
//! |---------------|-------------------|------------------------|------------------|-------------|-------|-----------|----------------|
//! | present       | no                |                        |                  |             |       |           | settle         |
//! | absent        | no                |                        | may be alive     |             |       |           | end attempts   |
//! | absent        | no                |                        | dead             |             |       |           | new generation |
//! |               | yes               |                        |                  |             |       |           | stop           |
//! |               | yes, accepted     | taken as: no           |                  |             |       |           | as below       |
//! |               | no                | yes                    | may be alive     |             |       |           | end attempts   |
//! |               | no                | yes                    | dead             |             |       |           | resend (*)     |
//! |               | no                | no                     | may be alive     |             |       |           | end attempts   |
//! |               | no                | no                     | dead             | not looked  |       |           | probe          |
//! |               | no                | no                     | dead             | cannot tell |       |           | stop           |
//! |               | no                | no                     | dead             | some        |       |           | stop           |
//! |               | no                | no                     | dead             | all         | no    |           | settle         |
//! |               | no                | no                     | dead             | all         | yes   | no        | stop           |
//! |               | no                | no                     | dead             | all         | yes   | yes       | settle         |
//! |               | no                | no                     | dead             | none        |       | no        | confirm        |
//! |               | no                | no                     | dead             | none        | no    | yes       | new generation |
//! |               | no                | no                     | dead             | none        | yes   | yes       | stop (**)      |
//! | was asked(**) |                   | no                     | dead             | none        | yes   |           | stop           |
//! |               | yes, accepted     | taken as: no           | dead             | none        | yes   |           | stop (***)     |
//! | was asked (4) | no                | taken as: no           |                  |             |       |           | as above       |
//!
//! Attempts are ended before a resend too: one that the server still works on when the token is pushed out, long after the resend,
//! would write the rows again.
//!
//! A decision to send again rests on facts that age while the bytes travel. Before the last of them leave, the facts are read anew
//! and [`lapse`] says whether the decision still holds; if not, the request is never completed, and it is decided anew. A first
//! attempt under a token needs no such look: no copy of it exists that could be forgotten.
//!
//! | the decision rests on | it lapses when                                                                                        |
//! |-----------------------|-------------------------------------------------------------------------------------------------------|
//! | the token (resend)    | the token does not certainly stand any more: another table or run of the server, half of the tokens used, half of the age |
//! | absence (confirm)     | the table is another, or since the look half of the tokens were used or half of the age has passed: a late copy could have come and been forgotten |
//!
//! How many tokens others use is bounded from above ([`tokens_since`]): a block may cost two tokens, and a block of asynchronous
//! inserts one for each of them. Where nothing bounds it, no token is trusted by count.
//!
//! To *confirm* is to send the same bytes under the same token until the server answers positively, and to look again. No list
//! of running inserts shows one that is still in a proxy or a socket; once the token stands, such a late copy is a no-op.
//!
//! (*) Unless the server refuses the frame's content: then resending never ends the doubt, and the rows are looked for as if
//! the token did not stand. If they cannot be told, it is resent all the same: a person may mend the table.
//!
//! (**) The table knows the token and lost the rows in a crash, but its views do not know it: the answer that confirms it brought them
//! to the views' targets, also of rows that the table dropped as known. A new token would bring them there twice; so would the old one once
//! it is forgotten, so that the question stays until it is answered, whoever owns the lane.
//!
//! (***) The rows may have gone with the earlier table while the views' targets have them, or a crash left the token in a target without
//! its rows: in both the same token says nothing of the target.
//!
//! (4) Who is asked for missing rows may bring them, or delete those that are there, before the answer is recorded. The token then says nothing of
//! the rows any more, however certainly it stands, so the frame is never resent: its rows are looked for, and the question stays until it is
//! answered or the rows are where they belong.
//!
//! A person's word is about the table that was there when it was asked for; with another table in its place it is asked again.

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
    /// Attempts that still run, if it was asked *before* the probe.
    pub alive: Option<u64>,
    /// True if the server has answered a resend under the present token positively since the doubt began, and `found` is newer.
    pub confirmed: bool,
    /// True if the server turned the frame down for its content while an earlier attempt was in doubt.
    pub refused: bool,
    /// What a person was asked last of it under the present token; an answer for the present table comes before it.
    pub asked: Option<StopReason>,
    /// What a person said of it, and of which table (by identity).
    pub answer: Option<(Verdict, String)>,
    /// True if a person has accepted the table that is there now in place of the one the frame was sealed for.
    pub accepted: bool,
}

impl Facts {
    /// What the table remembers of its tokens.
    fn memory(&self) -> Memory {
        Memory { tokens: self.token_window, age_ms_max: self.token_age_ms_max }
    }

    /// True if the table feeds materialized views.
    fn views(&self) -> bool {
        !self.now.view_blocks.is_empty()
    }

    /// The open question whose answer a person may have prepared by bringing rows or deleting them.
    fn mending(&self) -> Option<StopReason> {
        self.asked.filter(|asked| match asked {
            StopReason::ViewsUnknown | StopReason::PartPresent => true,
            StopReason::CannotTell => self.views(),
            StopReason::TableChanged => false,
        })
    }
}

/// What a person says of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its rows are in the table, and in the targets of its views.
    Present,
    /// None of its rows is there, and none is on its way.
    Absent,
}

impl Verdict {
    /// The number in a journal record.
    pub fn number(self) -> u32 {
        match self {
            Self::Present => 1,
            Self::Absent => 2,
        }
    }

    /// The verdict of a number.
    pub fn from_number(number: u32) -> Option<Self> {
        [Self::Present, Self::Absent].into_iter().find(|v| v.number() == number)
    }
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
    /// The rows are in the table, but whether its views have them cannot be told; or its views have them and the table lost them.
    ViewsUnknown,
}

impl StopReason {
    /// Every reason.
    pub const ALL: [Self; 4] = [Self::TableChanged, Self::CannotTell, Self::PartPresent, Self::ViewsUnknown];

    /// The number in a journal record; never used anew.
    pub fn number(self) -> u32 {
        match self {
            Self::TableChanged => 1,
            Self::CannotTell => 2,
            Self::PartPresent => 3,
            Self::ViewsUnknown => 4,
        }
    }

    /// The reason of a number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.number() == number)
    }

    /// The word in status and documents.
    pub fn word(self) -> &'static str {
        match self {
            Self::TableChanged => "table_changed",
            Self::CannotTell => "cannot_tell",
            Self::PartPresent => "part_present",
            Self::ViewsUnknown => "views_unknown",
        }
    }

    /// What happened, for a person.
    pub fn explain(self) -> &'static str {
        match self {
            Self::TableChanged => {
                "the table is not the one that the rows were sealed for: it was dropped and created again, or exchanged"
            }
            Self::CannotTell => {
                "the answer to an insert was lost, and it is no longer known whether its rows arrived: the token is too old \
                 or the server restarted, and the rows cannot be looked for (no `_forebay` column or `unique_key` when they \
                 were sealed, a merging engine, a TTL, or a replica that lags)"
            }
            Self::PartPresent => {
                "some rows of one insert are in the table and some are not: the table was changed by others (a DELETE, or \
                 an insert with the same keys)"
            }
            Self::ViewsUnknown => {
                "the rows of an insert are in the table, but it had no answer and its token no longer proves anything, so the \
                 targets of its materialized views may lack them; or a crash took them from the table alone, and the targets \
                 have them"
            }
        }
    }

    /// What the person is asked, in words that `present` and `absent` answer.
    pub fn question(self) -> &'static str {
        match self {
            Self::TableChanged => {
                "are these rows in the present table? `present`: they were copied to it, do not send them; `absent`: send \
                 them to it. Either answer accepts this table for all waiting rows. If it is the wrong table, restore \
                 the right one instead and start again"
            }
            Self::CannotTell => {
                "are these rows in the table? `present`: they are, do not send them again; `absent`: they are not, send them. If the \
                 table feeds materialized views, their targets must agree with the answer: insert what they lack before `present`, \
                 delete what they have before `absent`"
            }
            Self::PartPresent => {
                "should the missing rows come back? `present`: no, leave the table as it is; `absent`: delete the rows of \
                 this insert that are there first, then all of them are sent"
            }
            Self::ViewsUnknown => {
                "do the table and the targets of the views have these rows? `present`: all do, or you have inserted them there; `absent`: \
                 delete the insert's rows from the table and from the targets first, then all of them are sent"
            }
        }
    }
}

/// The decision.
pub fn decide(facts: &Facts) -> Decision {
    if let Some((verdict, of_table)) = &facts.answer
        && *of_table == facts.now.table_uuid
    {
        return match verdict {
            Verdict::Present => Decision::Settle,
            Verdict::Absent if facts.alive != Some(0) => Decision::EndAttempts,
            Verdict::Absent => Decision::NewGeneration,
        };
    }
    let is_other = facts.before.as_ref().is_some_and(|before| before.table_uuid != facts.now.table_uuid);
    if is_other && !facts.accepted {
        return Decision::Stop(StopReason::TableChanged);
    }
    // Attempts are ended before the rows are looked for: one that lived through the probe could land behind it. A restart
    // ends attempts too, but only those made before it, and an attempt's time by the server's clock is not known. They are
    // ended before a resend as well: one that outlived the memory of its token would write the rows again.
    if facts.alive != Some(0) {
        return Decision::EndAttempts;
    }
    // A person who was asked may have brought rows to a view, or deleted some: no token tells of that.
    if let Some(before) = facts.before.as_ref().filter(|_| !is_other && facts.mending().is_none()) {
        let is_told =
            !matches!((facts.found, facts.views()), (Some(Found::CannotTell), _) | (Some(Found::All), true));
        let token_stands = lapse(Basis::Token, before, &facts.now, facts.memory()).is_none();
        if token_stands && !(facts.refused && is_told) {
            return Decision::Resend;
        }
    }
    let views_asked = facts.asked == Some(StopReason::ViewsUnknown);
    match facts.found {
        None => Decision::Probe,
        // A narrower question must not take the place of one that is open.
        Some(Found::CannotTell) => Decision::Stop(facts.mending().unwrap_or(StopReason::CannotTell)),
        Some(Found::Part) => Decision::Stop(facts.mending().unwrap_or(StopReason::PartPresent)),
        Some(Found::All) if facts.views() && !facts.confirmed => Decision::Stop(StopReason::ViewsUnknown),
        Some(Found::All) => Decision::Settle,
        Some(Found::None) if facts.views() && (facts.confirmed || views_asked || is_other) => {
            Decision::Stop(StopReason::ViewsUnknown)
        }
        Some(Found::None) if facts.confirmed || facts.refused => Decision::NewGeneration,
        Some(Found::None) => Decision::Confirm,
    }
}

/// What a table remembers of its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Tokens, the fewest over the table and its views' targets.
    pub tokens: u64,
    /// For how long at least, in milliseconds; `u64::MAX` if only the number counts.
    pub age_ms_max: u64,
}

/// What a decision to send a frame again rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Its token certainly stands, with the rows if they came ([`Decision::Resend`]); since the look before its first attempt.
    Token,
    /// No row of it was there and no attempt ran ([`Decision::Confirm`]); since the look that this was decided by.
    Absence,
}

/// Why a frame must not be sent again under its token as it was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lapse {
    /// The table is another one.
    OtherTable,
    /// The server has restarted, or is another one.
    OtherRun,
    /// Half of the tokens that the table remembers may have been used, or nothing bounds how many were.
    TokensUsed,
    /// Half of the time is over that the table remembers a token for.
    TooOld,
}

impl Lapse {
    /// The word in log lines.
    pub fn word(self) -> &'static str {
        match self {
            Self::OtherTable => "table_changed",
            Self::OtherRun => "server_restarted",
            Self::TokensUsed => "tokens_used",
            Self::TooOld => "token_too_old",
        }
    }
}

/// Why a decision that rests on the sighting `since` does not hold at the sighting `now`; `None` while it holds.
pub fn lapse(basis: Basis, since: &Server, now: &Server, memory: Memory) -> Option<Lapse> {
    let age_ms = now.seen_ms.saturating_sub(since.seen_ms).max(0) as u64;
    if since.table_uuid != now.table_uuid {
        return Some(Lapse::OtherTable);
    }
    if basis == Basis::Token && !is_same_run(since, now) {
        return Some(Lapse::OtherRun);
    }
    if tokens_since(since, now).is_none_or(|n| n >= trusted_tokens(memory.tokens)) {
        return Some(Lapse::TokensUsed);
    }
    (age_ms >= trusted_age_ms(memory.age_ms_max)).then_some(Lapse::TooOld)
}

/// A token is trusted only while fewer tokens than these were used since: half of what the table remembers, for inserts may be
/// under way that the newest look did not show. [`crate::budget`] forecasts with the same number.
pub fn trusted_tokens(token_window: u64) -> u64 {
    token_window / 2
}

/// A token is trusted only while it is younger than this: half of the age that the table remembers, in milliseconds.
pub fn trusted_age_ms(token_age_ms_max: u64) -> u64 {
    token_age_ms_max / 2
}

/// The longest that an insert may take, by the client's clock, milliseconds: from the look before its first attempt to the look
/// that judges its resend, with `margin_ms` for both, a token must be younger than [`trusted_age_ms`].
pub fn insert_time_ms_max(token_age_ms_max: u64, margin_ms: u64) -> u64 {
    match token_age_ms_max {
        u64::MAX => u64::MAX,
        age => trusted_age_ms(age).saturating_sub(margin_ms),
    }
}

/// Blocks written by anyone between two sightings, in the table or the view's target that had most; `None` if block numbers went
/// back or the views are others, so that it cannot be told.
pub fn blocks_since(before: &Server, now: &Server) -> Option<u64> {
    if before.view_blocks.len() != now.view_blocks.len() {
        return None;
    }
    let views = before.view_blocks.iter().copied().zip(now.view_blocks.iter().copied());
    let all = std::iter::once((before.block_number, now.block_number)).chain(views);
    all.map(|(before, now)| now.checked_sub(before)).try_fold(0, |most, n| Some(most.max(n?)))
}

/// Tokens used by anyone between two sightings at the most, in the table or the view's target that used most; `None` if it
/// cannot be told, or nothing bounds them.
///
/// | what was written | tokens at the most                                                                                |
/// |------------------|---------------------------------------------------------------------------------------------------|
/// | no block         | none                                                                                              |
/// | blocks           | the larger [`Server::tokens_per_block_max`] of the two sightings for each; no bound if it has none |
///
/// A block number counts parts, and a part may cost more than one token: two hashes of one insert, or a token for each of the
/// asynchronous inserts of others that were written as one part.
pub fn tokens_since(before: &Server, now: &Server) -> Option<u64> {
    let per_block = before.tokens_per_block_max.max(now.tokens_per_block_max).max(1);
    match blocks_since(before, now)? {
        0 => Some(0),
        _ if per_block == u64::MAX => None,
        blocks => Some(blocks.saturating_mul(per_block)),
    }
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
