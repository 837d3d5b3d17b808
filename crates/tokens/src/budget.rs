//! How long does a table remember a token at the present rate, and is that long enough for a doubt?
//!
//! Owns the rate, measured from sightings of the server, and the forecast. Does not own the judgement of one frame
//! ([`crate::trust`]): that counts what really happened since the frame was sent. The forecast uses the same halves, so that
//! "enough" means that a resend after one lost answer would be trusted, as long as the rate stays.
//!
//! A table remembers a *number* of tokens, and every part that anyone writes uses at least one. So the memory lasts
//! `tokens / (tokens per second)`, and less if the table also forgets by age. Parts are read from block numbers, which move with
//! inserts by anyone: other writers of the table, and of a view's target, are counted without being asked about. How many tokens
//! those parts cost at most is [`crate::trust::tokens_since`]'s to say; where nothing bounds them, the budget is scarce.
//!
//! | what             | how long                                                                    |
//! |------------------|-----------------------------------------------------------------------------|
//! | the memory lasts | until as many tokens were used as the table remembers                       |
//! | trusted for      | until half of that, or half of its age: what [`crate::trust`] grants       |
//! | needed           | from the look before a first attempt to the look after its answer was lost  |

use std::collections::VecDeque;

use dataflow::{Budget, Meter, Sighting};

use crate::Facts;
use crate::trust::{blocks_since, tokens_since, trusted_age_ms, trusted_tokens};

/// The rate is that of the last so many milliseconds: long enough to even out batches, short enough to see a change.
const SPAN_MS: i64 = 60_000;

/// Two sightings that are nearer than this say too little of a rate, in milliseconds.
const APART_MS_MIN: i64 = 1_000;

/// Of sightings that crowd, as in a doubt, one in so many milliseconds is kept.
const KEPT_EVERY_MS: i64 = 4_000;

/// Tokens of a [`Rate`] where others write so that nothing bounds how many they use.
const UNBOUNDED: u64 = u64::MAX;

/// Tokens that were used within some time, by anyone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rate {
    /// Tokens at the most, in the table or view's target that used most; [`UNBOUNDED`] if nothing bounds them.
    tokens: u64,
    /// Milliseconds between the two sightings; at least 1.
    over_ms: u64,
}

impl Rate {
    /// Tokens in a second; infinite if nothing bounds them.
    fn per_second(self) -> f64 {
        if self.tokens == UNBOUNDED {
            return f64::INFINITY;
        }
        self.tokens as f64 * 1_000.0 / self.over_ms.max(1) as f64
    }

    /// Milliseconds until so many more were used; `u64::MAX` if that never comes.
    fn lasts_ms(self, tokens: u64) -> u64 {
        let ms = (u128::from(tokens) * u128::from(self.over_ms)).checked_div(u128::from(self.tokens));
        ms.map_or(u64::MAX, |ms| u64::try_from(ms).unwrap_or(u64::MAX))
    }
}

/// Measures the rate from sightings of one table, and makes the forecast.
#[derive(Clone, Debug, Default)]
pub struct UsedTokens {
    table_uuid: String,
    /// In order of time; at most two for every [`KEPT_EVERY_MS`] of [`SPAN_MS`], and one before.
    seen: VecDeque<Facts>,
    is_scarce: bool,
}

impl Meter for UsedTokens {
    fn see(&mut self, sighting: &Sighting) {
        let Some(facts) = Facts::of(sighting) else { return };
        if self.table_uuid != sighting.table_uuid {
            self.table_uuid.clone_from(&sighting.table_uuid);
            self.seen.clear();
        }
        self.add(&facts);
    }

    fn budget(&mut self, needed_ms: u64) -> Option<Budget> {
        let (token_window, age_ms_max) =
            self.seen.back().map(|facts| (facts.token_window, facts.token_age_ms_max))?;
        let found =
            budget(token_window, age_ms_max.unwrap_or(u64::MAX), self.rate(), needed_ms, self.is_scarce);
        self.is_scarce = found.is_scarce;
        Some(found)
    }
}

impl UsedTokens {
    /// The server was seen again, or an earlier owner has seen it. What cannot be compared with this sighting is forgotten:
    /// block numbers or a clock that went back.
    fn add(&mut self, server: &Facts) {
        let follows = |last: &Facts| last.seen_ms <= server.seen_ms && blocks_since(last, server).is_some();
        if !self.seen.back().is_none_or(follows) {
            self.seen.clear();
        }
        if self.seen.len() >= 2 && server.seen_ms - self.seen[self.seen.len() - 2].seen_ms < KEPT_EVERY_MS {
            self.seen.pop_back();
        }
        self.seen.push_back(server.clone());
        // Two sightings are needed for a rate; a third one lets go of those from before the span.
        while self.seen.len() > 2
            && (server.seen_ms - self.seen[1].seen_ms >= SPAN_MS
                || self.seen[1].seen_ms - self.seen[0].seen_ms > SPAN_MS)
        {
            self.seen.pop_front();
        }
    }

    /// The rate; `None` before there are two sightings that say something.
    fn rate(&self) -> Option<Rate> {
        let (first, last) = (self.seen.front()?, self.seen.back()?);
        let over_ms = last.seen_ms - first.seen_ms;
        let tokens = tokens_since(first, last).unwrap_or(UNBOUNDED);
        (over_ms >= APART_MS_MIN).then_some(Rate { tokens, over_ms: over_ms as u64 })
    }
}

/// The budget. `was_scarce` says what the last one said: a scarce budget is enough again only with half as much in reserve, so
/// that a rate that wavers around the bound does not warn again and again.
fn budget(
    token_window: u64,
    token_age_ms_max: u64,
    rate: Option<Rate>,
    needed_ms: u64,
    was_scarce: bool,
) -> Budget {
    let lasts = |tokens, age_ms| rate.map_or(u64::MAX, |rate| rate.lasts_ms(tokens)).min(age_ms);
    let trusted_ms = lasts(trusted_tokens(token_window), trusted_age_ms(token_age_ms_max));
    let wanted_ms = if was_scarce { needed_ms.saturating_add(needed_ms / 2) } else { needed_ms };
    Budget {
        remembered: token_window,
        used_per_s: rate.map(Rate::per_second),
        used_per_s_max: trusted_tokens(token_window) as f64 * 1_000.0 / needed_ms.max(1) as f64,
        memory_ms: lasts(token_window, token_age_ms_max),
        // Half of "for ever" is for ever.
        trusted_ms: if trusted_ms == trusted_age_ms(u64::MAX) { u64::MAX } else { trusted_ms },
        needed_ms,
        is_scarce: trusted_ms <= wanted_ms,
    }
}

#[cfg(test)]
mod tests;
