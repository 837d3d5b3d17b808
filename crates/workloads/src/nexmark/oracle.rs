//! What the tables of some queries must hold, and the queries that say what they hold.
//!
//! Owns q5, q7 and q8, which are measured. Does not own the other queries, whose right rows DuckDB computes (`tests/nexmark`), nor asking
//! the table (`bench::nexmark`). Of q5 and q7 the window and its number are compared: which of several auctions or bids that are equal
//! stands beside them is free.
//!
//! A row's hash is XXH64 (seed 0) over its values, joined by `|`; times are milliseconds since 1970.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use xxhash_rust::xxh64::xxh64;

use super::{Stream, Workload, stream_of};
use crate::content::Content;

/// The windows of all three.
const WINDOW_MS: u64 = 10_000;
const SLIDE_MS: u64 = 2_000;

/// A query that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    /// The auction with the most bids of the last ten seconds, every two seconds.
    Q5,
    /// The highest bid of each ten seconds.
    Q7,
    /// Who has registered and opened an auction in the same ten seconds.
    Q8,
}

/// A row as it is hashed: window and number, or id, name and window.
pub type Row = String;

impl Query {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Q5 => "q5",
            Self::Q7 => "q7",
            Self::Q8 => "q8",
        }
    }

    /// The query that answers one row with the three numbers of [`Content`], in order, all UInt64. `table` goes into the text as it stands.
    pub fn sql(self, table: &str, until_ms: u64) -> String {
        let row = match self {
            Self::Q5 => "concat(toString(toUnixTimestamp64Milli(window_end)), '|', toString(most))",
            Self::Q7 => "concat(toString(toUnixTimestamp64Milli(window_end)), '|', toString(highest))",
            Self::Q8 => "concat(toString(id), '|', name, '|', toString(toUnixTimestamp64Milli(started)))",
        };
        let time = match self {
            Self::Q5 | Self::Q7 => "window_end",
            Self::Q8 => "started",
        };
        format!(
            "SELECT count() AS rows, uniqExact(row) AS ids, sum(xxHash64(row)) AS checksum FROM (SELECT {row} AS row FROM {table} \
             WHERE toUnixTimestamp64Milli({time}) <= {until_ms})"
        )
    }
}

/// What is in a set of rows.
pub fn content(rows: &BTreeSet<Row>) -> Content {
    let one = |row: &Row| Content { rows: 1, ids: 1, checksum: xxh64(row.as_bytes(), 0) };
    rows.iter().map(one).fold(Content::default(), Content::plus)
}

impl Workload {
    /// The end of the last window that closes in any case, in milliseconds since 1970: a second of events comes behind it.
    pub fn until_ms(&self) -> u64 {
        let last_ms = self.time_ms(self.spec.events - 1);
        last_ms.saturating_sub(1_000) / WINDOW_MS * WINDOW_MS
    }

    /// The rows of a query whose window is not behind [`Self::until_ms`].
    pub fn rows_of(&self, query: Query) -> BTreeSet<Row> {
        match query {
            Query::Q5 => self.most_bids(),
            Query::Q7 => self.highest_bids(),
            Query::Q8 => self.new_sellers(),
        }
    }

    fn most_bids(&self) -> BTreeSet<Row> {
        // By slide and auction, then by the windows that a slide is in.
        let mut slides: BTreeMap<u64, HashMap<u64, u64>> = BTreeMap::new();
        for n in self.numbers(Stream::Bids) {
            let slide = self.time_ms(n) / SLIDE_MS;
            *slides.entry(slide).or_default().entry(self.bid(n).auction).or_default() += 1;
        }
        let mut windows: BTreeMap<u64, HashMap<u64, u64>> = BTreeMap::new();
        for (slide, counts) in slides {
            for ahead in 1..=WINDOW_MS / SLIDE_MS {
                let window = windows.entry((slide + ahead) * SLIDE_MS).or_default();
                counts.iter().for_each(|(auction, count)| *window.entry(*auction).or_default() += count);
            }
        }
        let most = |counts: &HashMap<u64, u64>| counts.values().copied().max().unwrap_or(0);
        self.until(windows.iter().map(|(end_ms, counts)| (*end_ms, most(counts))))
    }

    fn highest_bids(&self) -> BTreeSet<Row> {
        let mut highest: BTreeMap<u64, u64> = BTreeMap::new();
        for n in self.numbers(Stream::Bids) {
            let end_ms = (self.time_ms(n) / WINDOW_MS + 1) * WINDOW_MS;
            let price = self.bid(n).price;
            highest.entry(end_ms).and_modify(|most| *most = price.max(*most)).or_insert(price);
        }
        self.until(highest.into_iter())
    }

    fn until(&self, windows: impl Iterator<Item = (u64, u64)>) -> BTreeSet<Row> {
        let until_ms = self.until_ms();
        windows
            .filter(|(end_ms, _)| *end_ms <= until_ms)
            .map(|(end_ms, number)| format!("{end_ms}|{number}"))
            .collect()
    }

    fn new_sellers(&self) -> BTreeSet<Row> {
        let window = |n| self.time_ms(n) / WINDOW_MS * WINDOW_MS;
        let sellers: BTreeSet<(u64, u64)> =
            self.numbers(Stream::Auctions).map(|n| (self.auction(n).seller, window(n))).collect();
        let until_ms = self.until_ms();
        self.numbers(Stream::People)
            .map(|n| (self.person(n), window(n)))
            .filter(|(person, window)| *window <= until_ms && sellers.contains(&(person.id, *window)))
            .map(|(person, window)| format!("{}|{}|{window}", person.id, person.name()))
            .collect()
    }

    /// The numbers of the events of one stream, in order.
    pub fn numbers(&self, stream: Stream) -> impl Iterator<Item = u64> + use<> {
        let events = self.spec.events;
        (0..events).filter(move |n| stream_of(*n) == stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nexmark::Spec;

    #[test]
    fn every_window_that_closes_has_a_row_and_the_highest_bid_is_no_sum() {
        let spec = Spec { events: 60_000, events_per_second: 1_000, ..Spec::default() };
        let workload = Workload::new(spec).expect("valid");
        // Sixty seconds, of which the last second tells nothing: five windows of ten, and of those every two seconds up to the fiftieth.
        assert_eq!(workload.rows_of(Query::Q7).len(), 5);
        assert_eq!(workload.rows_of(Query::Q5).len(), 25);
        let of =
            |row: &str| row.split('|').nth(1).and_then(|text| text.parse::<u64>().ok()).expect("a number");
        assert!(workload.rows_of(Query::Q7).iter().all(|row| of(row) < 100_000_000));
        assert!(!workload.rows_of(Query::Q8).is_empty());
    }
}
