//! Nexmark: people, auctions and bids of an auction site, as three streams of events.
//!
//! Owns the events and their order. Does not own the queries: `tests/nexmark` has them, and a batch
//! reading of each; [`oracle`] has what those that are measured must answer.
//!
//! Of every 50 events one is a person, three are auctions and 46 are bids, as in the published generator. Most bids go to the newest auctions
//! and come from few people, and most auctions are of few sellers. Events are JSON, each with `dateTime`; a stream is in order of time.
//!
//! | stream   | fields                                                                                             |
//! |----------|----------------------------------------------------------------------------------------------------|
//! | people   | `id`, `name`, `emailAddress`, `creditCard`, `city`, `state`, `dateTime`                             |
//! | auctions | `id`, `itemName`, `description`, `initialBid`, `reserve`, `dateTime`, `expires`, `seller`, `category` |
//! | bids     | `auction`, `bidder`, `price`, `channel`, `url`, `dateTime`                                          |

mod event;
pub mod oracle;

use crate::random::{below, nth};

/// Of every so many events:
pub const CYCLE: u64 = 50;
/// so many are people,
pub const PEOPLE: u64 = 1;
/// so many auctions, and the rest bids.
pub const AUCTIONS: u64 = 3;
/// The first id of a person and of an auction.
pub const FIRST_ID: u64 = 1_000;
/// Categories of auctions, from 10 on.
pub const CATEGORIES: u64 = 5;
/// Events at the most.
pub const EVENTS_MAX: u64 = 1 << 40;
/// Bytes of the longest event: reserve so many and [`Workload::write`] never allocates.
pub const EVENT_BYTES_MAX: usize = 320;

/// Bids choose among so many of the newest auctions, and auctions among so many of the newest people.
const IN_FLIGHT: u64 = 100;
const ACTIVE_PEOPLE: u64 = 1_000;
/// One of so many ids is hot: it gets most of what happens.
const HOT_EVERY: u64 = 100;

/// One of the three streams of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stream {
    /// People.
    People,
    /// Auctions.
    Auctions,
    /// Bids.
    Bids,
}

/// The size of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Everything random comes from it.
    pub seed: u64,
    /// Events of all streams; 1 to [`EVENTS_MAX`].
    pub events: u64,
    /// Events of all streams that share one second of `dateTime`; 1 to a million.
    pub events_per_second: u32,
    /// `dateTime` of the first event, in seconds since 1970 UTC.
    pub start_time_s: u32,
}

impl Default for Spec {
    fn default() -> Self {
        Self { seed: 1, events: 1_000_000, events_per_second: 10_000, start_time_s: 1_735_689_600 }
    }
}

/// Why a [`Spec`] makes no workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No or too many events.
    #[error("`{0}` events; give 1 to {EVENTS_MAX}")]
    Events(u64),
    /// No pace, or one that milliseconds cannot tell.
    #[error("`{0}` events per second; give 1 to 1000000")]
    Pace(u32),
}

/// A checked [`Spec`] that gives its events. Costs nothing to make or clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    spec: Spec,
}

impl Workload {
    /// Checks the spec.
    ///
    /// # Errors
    /// When it makes no workload.
    pub fn new(spec: Spec) -> Result<Self, SpecError> {
        if spec.events == 0 || spec.events > EVENTS_MAX {
            return Err(SpecError::Events(spec.events));
        }
        if spec.events_per_second == 0 || spec.events_per_second > 1_000_000 {
            return Err(SpecError::Pace(spec.events_per_second));
        }
        Ok(Self { spec })
    }

    /// The spec it was made from.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Events of one stream.
    pub fn events(&self, stream: Stream) -> u64 {
        (0..self.spec.events % CYCLE).filter(|n| stream_of(*n) == stream).count() as u64
            + self.spec.events / CYCLE * of_a_cycle(stream)
    }

    /// Appends event `n` of all, without a line end, and says of which stream it is. Behind the end it appends nothing.
    pub fn write(&self, n: u64, out: &mut Vec<u8>) -> Option<Stream> {
        if n >= self.spec.events {
            return None;
        }
        let stream = stream_of(n);
        match stream {
            Stream::People => self.person(n).write(out),
            Stream::Auctions => self.auction(n).write(out),
            Stream::Bids => self.bid(n).write(out),
        }
        Some(stream)
    }

    fn bits(&self, n: u64) -> u64 {
        nth(self.spec.seed, n)
    }

    /// `dateTime` of an event, in milliseconds since 1970 UTC.
    fn time_ms(&self, n: u64) -> u64 {
        u64::from(self.spec.start_time_s) * 1_000 + n * 1_000 / u64::from(self.spec.events_per_second)
    }

    fn person(&self, n: u64) -> event::Person {
        event::Person { id: FIRST_ID + people_before(n), time_ms: self.time_ms(n), bits: self.bits(n) }
    }

    fn auction(&self, n: u64) -> event::Auction {
        let bits = self.bits(n);
        let time_ms = self.time_ms(n);
        // At most as long as a hundred auctions take to follow, so that bids go to auctions that are open.
        let lasts_ms = 1 + below(nth(bits, 3), 2 * IN_FLIGHT * CYCLE / AUCTIONS * 1_000)
            / u64::from(self.spec.events_per_second);
        event::Auction {
            id: FIRST_ID + auctions_before(n),
            // Three of four are of the hot seller.
            seller: FIRST_ID + hot_or_new(nth(bits, 0), people_before(n), 4, ACTIVE_PEOPLE),
            category: 10 + below(nth(bits, 1), CATEGORIES),
            initial_bid: price(nth(bits, 2)),
            time_ms,
            expires_ms: time_ms + lasts_ms,
            bits,
        }
    }

    fn bid(&self, n: u64) -> event::Bid {
        let bits = self.bits(n);
        event::Bid {
            auction: FIRST_ID + hot_or_new(nth(bits, 0), auctions_before(n), 2, IN_FLIGHT),
            bidder: FIRST_ID + hot_or_new(nth(bits, 1), people_before(n), 4, ACTIVE_PEOPLE),
            price: price(nth(bits, 2)),
            time_ms: self.time_ms(n),
            bits: nth(bits, 3),
        }
    }
}

fn of_a_cycle(stream: Stream) -> u64 {
    match stream {
        Stream::People => PEOPLE,
        Stream::Auctions => AUCTIONS,
        Stream::Bids => CYCLE - PEOPLE - AUCTIONS,
    }
}

fn stream_of(n: u64) -> Stream {
    match n % CYCLE {
        place if place < PEOPLE => Stream::People,
        place if place < PEOPLE + AUCTIONS => Stream::Auctions,
        _ => Stream::Bids,
    }
}

/// People among the events before event `n`; at least one for what is not a person.
fn people_before(n: u64) -> u64 {
    n / CYCLE * PEOPLE + (n % CYCLE).min(PEOPLE)
}

/// Auctions among the events before event `n`.
fn auctions_before(n: u64) -> u64 {
    n / CYCLE * AUCTIONS + (n % CYCLE).saturating_sub(PEOPLE).min(AUCTIONS)
}

/// One of the ids before `count`: the newest hot one, but once in `ratio` any of the `newest`.
fn hot_or_new(bits: u64, count: u64, ratio: u64, newest: u64) -> u64 {
    let last = count.saturating_sub(1);
    match below(bits, ratio) {
        0 => last - below(nth(bits, 0), newest.min(last + 1)),
        _ => last / HOT_EVERY * HOT_EVERY,
    }
}

/// In cents, spread evenly over the orders of magnitude from 1 to a million dollars.
fn price(bits: u64) -> u64 {
    const TENS: [u64; 6] = [100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];
    let ten = TENS[below(bits, TENS.len() as u64) as usize];
    ten + below(nth(bits, 0), 9 * ten)
}

#[cfg(test)]
mod tests;
