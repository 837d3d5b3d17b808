//! ClickHouse remembers inserts by their tokens, for a while. When may a resend count on it?
//!
//! Owns what a poll of a server says of its tokens ([`Facts`], which the engine and the journal carry as bytes), the rules over it, and the
//! forecast. All of it is pure. Does not own the look (`clickhouse::table`), nor what is done with a frame in doubt (`protocol::doubt`): that
//! knows of all this only whether a token certainly stands.
//!
//! | module      | what it answers                                                        |
//! |-------------|------------------------------------------------------------------------|
//! | [`facts`]   | what was seen of the server and the table                              |
//! | [`trust`]   | does a token certainly stand? for how long does one?                   |
//! | [`budget`]  | how long does the memory last at the rate at which tokens are used?    |

pub mod budget;
pub mod facts;
pub mod trust;

pub use facts::Facts;

use budget::UsedTokens;
use dataflow::{Basis, Meter, Sighting, Tokens};

/// The rules of ClickHouse, for every table of a server.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClickHouseTokens;

impl Tokens for ClickHouseTokens {
    fn lapse(&self, basis: Basis, since: &Sighting, now: &Sighting) -> Option<&'static str> {
        trust::lapse(basis, since, now).map(trust::Lapse::word)
    }

    fn may_have_lost_names(&self, since: &Sighting, now: &Sighting) -> bool {
        trust::may_have_lost_names(since, now)
    }

    fn may_be_in_views_alone(&self, first: &Sighting, now: &Sighting) -> bool {
        trust::may_be_in_views_alone(first, now)
    }

    fn frames_max(&self, now: &Sighting) -> u64 {
        Facts::of(now).map_or(1, |facts| trust::frames(facts.token_window, facts.tokens_per_frame))
    }

    fn meter(&self) -> Box<dyn Meter> {
        Box::new(UsedTokens::default())
    }
}
