//! The three kinds of events as JSON.
//!
//! Owns their words. No text in them needs escaping. Does not own the numbers in them and their order (`workloads::nexmark`).

use std::io::Write;

use crate::random::{below, nth};
use crate::text::date_time;

const FIRST_NAMES: [&str; 11] =
    ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"];
const LAST_NAMES: [&str; 9] =
    ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"];
const STATES: [&str; 6] = ["AZ", "CA", "ID", "OR", "WA", "WY"];
const CITIES: [&str; 10] = [
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
];
const ITEMS: [&str; 8] =
    ["clock", "piano", "camera", "bicycle", "painting", "telescope", "carpet", "typewriter"];
const HOT_CHANNELS: [&str; 4] = ["Google", "Facebook", "Baidu", "Apple"];
/// Channels that are not hot.
const CHANNELS: u64 = 10_000;

pub(super) struct Person {
    pub(super) id: u64,
    pub(super) time_ms: u64,
    pub(super) bits: u64,
}

pub(super) struct Auction {
    pub(super) id: u64,
    pub(super) seller: u64,
    pub(super) category: u64,
    pub(super) initial_bid: u64,
    pub(super) time_ms: u64,
    pub(super) expires_ms: u64,
    pub(super) bits: u64,
}

pub(super) struct Bid {
    pub(super) auction: u64,
    pub(super) bidder: u64,
    pub(super) price: u64,
    pub(super) time_ms: u64,
    pub(super) bits: u64,
}

impl Person {
    fn names(&self) -> (&'static str, &'static str) {
        (pick(self.bits, 0, &FIRST_NAMES), pick(self.bits, 1, &LAST_NAMES))
    }

    pub(super) fn name(&self) -> String {
        let (first, last) = self.names();
        format!("{first} {last}")
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let Self { id, time_ms, bits } = *self;
        let (first, last) = self.names();
        put(out, format_args!("{{\"id\": {id}, \"name\": \"{first} {last}\", "));
        put(out, format_args!("\"emailAddress\": \"{first}.{last}@{}.com\", ", nth(bits, 2) % 100_000));
        put(out, format_args!("\"creditCard\": \"{:016}\", ", nth(bits, 3) % 10_000_000_000_000_000));
        put(out, format_args!("\"city\": \"{}\", ", pick(bits, 4, &CITIES)));
        put(out, format_args!("\"state\": \"{}\", ", pick(bits, 5, &STATES)));
        put_time(out, "dateTime", time_ms);
        out.extend_from_slice(b"}");
    }
}

impl Auction {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let Self { id, seller, category, initial_bid, time_ms, expires_ms, bits } = *self;
        let item = pick(bits, 10, &ITEMS);
        put(out, format_args!("{{\"id\": {id}, \"itemName\": \"{item} {}\", ", nth(bits, 11) % 1_000));
        put(out, format_args!("\"description\": \"a {item} of the year {}\", ", 1900 + nth(bits, 12) % 120));
        let reserve = initial_bid + below(nth(bits, 13), initial_bid);
        put(out, format_args!("\"initialBid\": {initial_bid}, \"reserve\": {reserve}, "));
        put_time(out, "dateTime", time_ms);
        out.extend_from_slice(b", ");
        put_time(out, "expires", expires_ms);
        put(out, format_args!(", \"seller\": {seller}, \"category\": {category}}}"));
    }
}

impl Bid {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let Self { auction, bidder, price, time_ms, bits } = *self;
        put(out, format_args!("{{\"auction\": {auction}, \"bidder\": {bidder}, \"price\": {price}, "));
        // Half of the bids come by a hot channel.
        let number = below(nth(bits, 0), CHANNELS);
        let path = ["home", "item", "search"][below(nth(bits, 1), 3) as usize];
        match nth(bits, 2) % 2 {
            0 => {
                let channel = pick(bits, 3, &HOT_CHANNELS);
                put(out, format_args!("\"channel\": \"{channel}\", "));
                put(
                    out,
                    format_args!("\"url\": \"https://www.nexmark.com/{path}/{channel}/item.htm?query=1\", "),
                );
            }
            _ => {
                put(out, format_args!("\"channel\": \"channel-{number}\", "));
                put(
                    out,
                    format_args!(
                        "\"url\": \"https://www.nexmark.com/{path}/{}/item.htm?query=1&",
                        number % 97
                    ),
                );
                put(out, format_args!("channel_id={number}\", "));
            }
        }
        put_time(out, "dateTime", time_ms);
        out.extend_from_slice(b"}");
    }
}

fn pick<'a>(bits: u64, n: u64, words: &[&'a str]) -> &'a str {
    words[below(nth(bits, n), words.len() as u64) as usize]
}

fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a vector takes every byte");
}

/// A field with a time to the millisecond.
fn put_time(out: &mut Vec<u8>, name: &str, time_ms: u64) {
    put(out, format_args!("\"{name}\": \""));
    out.extend_from_slice(&date_time(time_ms / 1_000));
    put(out, format_args!(".{:03}\"", time_ms % 1_000));
}
