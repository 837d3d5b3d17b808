//! Does a token certainly stand?
//!
//! Owns the judgement of two sightings, and for how many frames at once it can hold. Does not own the forecast ([`crate::budget`]), which uses the
//! same halves.
//!
//! | a decision rests on   | it lapses when                                                                                        |
//! |-----------------------|-------------------------------------------------------------------------------------------------------|
//! | the token (resend)    | the token does not certainly stand any more: another table or run of the server, another time zone of the inserts, other views or keys of partitions, half of the tokens used, half of the age, or an ALTER that may have emptied the memory |
//! | absence (confirm)     | the table is another or was altered, its views or keys of partitions are others, or since the look half of the tokens were used or half of the age has passed: a late copy could have come and been forgotten |
//!
//! How many tokens others use is bounded from above ([`tokens_since`]): a block may cost two tokens, and a block of asynchronous
//! inserts one for each of them. Where nothing bounds it, no token is trusted by count.
//!
//! A memory that is made smaller forgets at once, and remembers no more when it is made larger again ([`may_have_forgotten`]).

use dataflow::{Basis, Sighting};

use crate::Facts;

/// A server's start, told by its own clock in whole seconds, may seem to move by this much without a restart; and so may its time since
/// the start, beside our clock.
pub const START_SLACK_MS: i64 = 2_000;

/// How exactly a server says when metadata were written.
const ALTERED_STEP_MS: i64 = 1_000;

/// Of the tokens within which a resend is trusted, our own frames in doubt may use one in so many. The rest is for the frames that
/// were sent between the look at the server and the first attempt, and for everybody else.
const OWN_SHARE: u64 = 2;

/// Why a frame must not be sent again under its token as it was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lapse {
    /// The table is another one.
    OtherTable,
    /// What was seen cannot be read: it is not of a ClickHouse server.
    Unreadable,
    /// The server has restarted, or is another one.
    OtherRun,
    /// Inserts have another time zone, and may put rows into partitions where their token is not known.
    OtherZone,
    /// Half of the tokens that the table remembers may have been used, or nothing bounds how many were.
    TokensUsed,
    /// Half of the time is over that the table remembers a token for.
    TooOld,
    /// The table was altered, so that its memory may have been made smaller for a while.
    Altered,
    /// A view, the identity of its target, or an expression behind a key of partitions is another: rows may go where their token is not known.
    Rerouted,
}

impl Lapse {
    /// The word in log lines.
    pub fn word(self) -> &'static str {
        match self {
            Self::OtherTable => "table_changed",
            Self::Unreadable => "unreadable",
            Self::OtherRun => "server_restarted",
            Self::OtherZone => "time_zone_changed",
            Self::TokensUsed => "tokens_used",
            Self::TooOld => "token_too_old",
            Self::Altered => "table_altered",
            Self::Rerouted => "views_or_partitions_changed",
        }
    }
}

/// Why a decision that rests on the sighting `since` does not hold at the sighting `now`; `None` while it holds.
pub fn lapse(basis: Basis, since: &Sighting, now: &Sighting) -> Option<Lapse> {
    if since.table_uuid != now.table_uuid {
        return Some(Lapse::OtherTable);
    }
    let (Some(since), Some(now)) = (Facts::of(since), Facts::of(now)) else { return Some(Lapse::Unreadable) };
    let age_ms = age_ms(&since, &now);
    if basis == Basis::Token && !is_same_run(&since, &now) {
        return Some(Lapse::OtherRun);
    }
    if basis == Basis::Token && since.zone != now.zone {
        return Some(Lapse::OtherZone);
    }
    if since.routes != 0 && since.routes != now.routes {
        return Some(Lapse::Rerouted);
    }
    if tokens_since(&since, &now).is_none_or(|n| n >= trusted_tokens(now.token_window)) {
        return Some(Lapse::TokensUsed);
    }
    if now.token_age_ms_max.is_some_and(|age_ms_max| age_ms >= trusted_age_ms(age_ms_max)) {
        return Some(Lapse::TooOld);
    }
    may_have_forgotten(basis, &since, &now).then_some(Lapse::Altered)
}

/// True if the memory may have been made smaller in between, and then larger again.
///
/// | since the earlier sighting                                  | the rows can be looked for | they cannot |
/// |--------------------------------------------------------------|----------------------------|-------------|
/// | a poll saw that fewer tokens are remembered                  | yes                        | yes         |
/// | the metadata were written, and declare the same, or another engine | yes                  | yes         |
/// | the metadata were written, and declare other columns alone   | yes                        | no          |
///
/// The last line weighs one against another: who adds a column to a table without names for its rows, while an answer is lost, would otherwise be asked
/// what became of it. A window that is closed and opened again *beside* that, within the same doubt, is not seen there.
fn may_have_forgotten(basis: Basis, since: &Facts, now: &Facts) -> bool {
    if now.narrowed_ms > since.narrowed_ms {
        return true;
    }
    // It is known to a second, so what was written in the second of the sighting may have been written after it.
    let is_same = now.altered_ms == since.altered_ms && since.altered_ms + ALTERED_STEP_MS <= since.seen_ms;
    if now.altered_ms == 0 || since.declaration == 0 || is_same {
        return false;
    }
    let is_known = now.engine == since.engine && now.declaration != since.declaration;
    basis == Basis::Absence || now.names_rows || !is_known
}

/// Whether rows that were written since the earlier sighting may have lost the name of their insert, or their key, so that they would be looked for in vain:
/// some rows have none, and the metadata were written, as they are where the column is dropped and added again. Others may write rows without names all the
/// time, so that these alone say nothing: a database that does not say when metadata were written hides this.
pub fn may_have_lost_names(since: &Sighting, now: &Sighting) -> bool {
    let (Some(since), Some(now)) = (Facts::of(since), Facts::of(now)) else { return true };
    now.has_unnamed && may_have_forgotten(Basis::Absence, &since, &now)
}

/// Whether rows of which the table has none may be in the targets of its views, in targets that may have forgotten their token: sent again they would be there twice.
/// A server that crashed after the sighting `first` may have kept the table's token without its rows, and a later attempt then fed the targets alone.
///
/// That needs a plain table, which is on one server. A replicated one forgets by age, and its token and its part come into the Keeper together.
pub fn may_be_in_views_alone(first: &Sighting, now: &Sighting) -> bool {
    let (Some(before), Some(after)) = (Facts::of(first), Facts::of(now)) else { return true };
    let is_plain = after.token_age_ms_max.is_none() && before.server_uuid == after.server_uuid;
    let has_crashed = is_plain && !is_same_run(&before, &after);
    // In another zone rows fall into partitions of the targets that do not know the token.
    has_crashed && (before.zone != after.zone || lapse(Basis::Absence, first, now).is_some())
}

/// How old a token is at the most, milliseconds: by the server's clock, or by ours if the server's was set back.
fn age_ms(since: &Facts, now: &Facts) -> u64 {
    let theirs_ms = now.seen_ms.saturating_sub(since.seen_ms);
    let ours_ms = now.asked_ms.saturating_sub(since.answered_ms);
    theirs_ms.max(ours_ms).max(0).unsigned_abs()
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
pub fn blocks_since(before: &Facts, now: &Facts) -> Option<u64> {
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
/// | blocks           | the larger [`Facts::tokens_per_block_max`] of the two sightings for each; no bound if it has none |
///
/// A block number counts parts, and a part may cost more than one token: two hashes of one insert, or a token for each of the
/// asynchronous inserts of others that were written as one part.
pub fn tokens_since(before: &Facts, now: &Facts) -> Option<u64> {
    match blocks_since(before, now)? {
        0 => Some(0),
        blocks => {
            let per_block = before.tokens_per_block_max?.max(now.tokens_per_block_max?).max(1);
            Some(blocks.saturating_mul(per_block))
        }
    }
}

/// True only if the server certainly has not restarted in between.
///
/// | what is compared                              | what it misses                                                         |
/// |-----------------------------------------------|------------------------------------------------------------------------|
/// | its start, by its own clock                   | a restart, and that clock set back by as much as the server had run     |
/// | how much longer it has run, beside our clock  | a restart, and between two processes of ours *our* clock set back as much |
///
/// Both are known to a second or so, and the second only to the time that the two answers took. A server that had run for less than
/// that when it was seen could have restarted right after and look the same, so that is not certain either.
pub fn is_same_run(before: &Facts, now: &Facts) -> bool {
    let passed_ms = now.asked_ms.saturating_sub(before.answered_ms);
    let ran_ms = now.uptime_ms().saturating_sub(before.uptime_ms());
    let unknown_ms = before.answer_ms().saturating_add(now.answer_ms()).saturating_add(START_SLACK_MS);
    before.server_uuid == now.server_uuid
        && (now.start_ms - before.start_ms).abs() <= START_SLACK_MS
        && passed_ms.saturating_sub(ran_ms) <= START_SLACK_MS
        && before.uptime_ms() > unknown_ms.max(2 * START_SLACK_MS)
}

/// How many frames may be in doubt at once: as many as cost half of the tokens within which a resend is trusted, so that it finds its own
/// token even after the others. At least 1.
pub fn frames(token_window: u64, tokens_per_frame: u64) -> u64 {
    (trusted_tokens(token_window) / OWN_SHARE / tokens_per_frame.max(1)).max(1)
}

/// The fewest tokens that a table must remember: with them W is as large as the number of inserts that may be under way, so that
/// each of these can be the one whose answer is lost, and be sent again within half of the memory after all others.
///
/// `2 (half is trusted) × 2 (half of that is ours) × inserts in flight × tokens per frame`.
pub fn tokens_min(in_flight: u64, tokens_per_frame: u64) -> u64 {
    let trusted = in_flight.max(1).saturating_mul(tokens_per_frame.max(1)).saturating_mul(OWN_SHARE);
    trusted.saturating_mul(2)
}

#[cfg(test)]
mod tests;
