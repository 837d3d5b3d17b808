//! What a sink saw of a table, and what its rules say of it.
//!
//! Owns the seam between the engine, which keeps such sightings and puts them into the journal, and the sink, which alone reads what is in
//! them. Does not own any rule: those of ClickHouse are in `tokens`. What is done with a frame in doubt is decided by `protocol::doubt`, from
//! the answers that are given here.

use bytes::Bytes;

/// A table, and the server that showed it, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sighting {
    /// The table's identity: another table of the same name has another.
    pub table_uuid: String,
    /// True if inserts into the table bring rows to other tables as well (materialized views), which may have them while it has not.
    pub feeds_views: bool,
    /// The rest, in a form of the sink's own, some hundred bytes at the most. The engine does not interpret it, and journals it as it is.
    pub facts: Bytes,
}

/// What a decision to send a frame again rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Its token certainly stands, with the rows if they came; since the sighting before its first attempt.
    Token,
    /// No row of it was there and no attempt ran; since the sighting that this was decided by.
    Absence,
}

/// How a sink's tables remember inserts by their tokens. Pure: the same sightings give the same answers, on any machine.
pub trait Tokens: Send + Sync {
    /// Why a decision that rests on the sighting `since` does not hold at the sighting `now`, as a word for logs; `None` while it certainly
    /// holds. Sightings that cannot be compared never hold.
    fn lapse(&self, basis: Basis, since: &Sighting, now: &Sighting) -> Option<&'static str>;

    /// Whether rows that were there at the sighting `since`, or came behind it, may be there without what they are found by at the sighting `now`, so that to
    /// find none says nothing.
    fn may_have_lost_names(&self, since: &Sighting, now: &Sighting) -> bool {
        let _ = (since, now);
        false
    }

    /// Whether rows of which the table has none may be in the targets of its views, and these may have forgotten their token by the sighting `now`. A server that
    /// crashed after the sighting `first`, which was before the first attempt, may know the token of rows that the table lost; a later attempt then feeds the targets alone.
    fn may_be_in_views_alone(&self, first: &Sighting, now: &Sighting) -> bool {
        let _ = (first, now);
        false
    }

    /// How many frames may be in doubt at once so that each can still be sent again under its token after all others; at least 1.
    fn frames_max(&self, now: &Sighting) -> u64;

    /// Measures how fast tokens are used.
    fn meter(&self) -> Box<dyn Meter>;
}

/// Measures how fast the tokens of one table are used, by anyone.
pub trait Meter: Send {
    /// The table was seen again, or an earlier owner has seen it. What cannot be compared with this sighting is forgotten.
    fn see(&mut self, sighting: &Sighting);

    /// How long the table's memory lasts, against the milliseconds that a frame needs from the sighting before its first attempt to the one
    /// that judges its resend; `None` before the table was seen.
    fn budget(&mut self, needed_ms: u64) -> Option<Budget>;
}

/// What a table's memory of tokens is worth at the present rate. Times in milliseconds; `u64::MAX` is "no end in sight".
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Tokens that the table remembers (the smallest over the table and its views' targets).
    pub remembered: u64,
    /// Tokens used in a second by all writers, infinite if nothing bounds them; `None` before it is known, and then only the age counts.
    pub used_per_s: Option<f64>,
    /// Tokens a second, by all writers together, up to which the memory is enough.
    pub used_per_s_max: f64,
    /// How long a token is remembered.
    pub memory_ms: u64,
    /// How long a resend may count on it.
    pub trusted_ms: u64,
    /// How long it takes to resend a frame whose answer is lost.
    pub needed_ms: u64,
    /// True if the trust may end before the resend: then the rows are probed, and if they cannot be, the operator is asked.
    pub is_scarce: bool,
}
