//! One record: its five fields from random numbers, and its text.
//!
//! Owns the lengths that were published: names of 7 to 29 bytes, 13.3 in the mean; e-mail addresses of 15 to 33, 21.9 in
//! the mean; records of 188 to 221. Does not own the words (`words`).
//!
//! A record's text is 165 bytes and the two, so a name and an address may have 23 to 56 bytes together. An address that
//! would have more takes its shortest form.

use super::RECORD_BYTES_MAX;
use super::words::{FIRST_NAMES, LAST_NAMES};
use crate::random::{below, nth};
use crate::text::{date_time, two_digits};

/// Bytes that a name and an address have together at the most.
const BOTH_BYTES_MAX: usize = 56;
/// Bytes before the `@` at the most.
const LOCAL_BYTES_MAX: usize = 21;
/// What follows the name before the `@`: 12 bytes each.
const DOMAINS: [&str; 3] = ["@example.com", "@example.net", "@example.org"];
/// Before one name in ten.
const TITLES: [&str; 4] = ["Dr. ", "Mr. ", "Ms. ", "Mrs. "];

/// Room for any name or address.
const TEXT_BYTES_MAX: usize = 40;

/// A record's fields.
pub(super) struct Record {
    pub(super) event_id: u128,
    pub(super) user_id: u128,
    pub(super) name: Text<TEXT_BYTES_MAX>,
    pub(super) email: Text<TEXT_BYTES_MAX>,
    /// Seconds since 1970 UTC.
    pub(super) created_at_s: u64,
}

/// Bytes on the stack.
pub(super) struct Text<const BYTES_MAX: usize> {
    bytes: [u8; BYTES_MAX],
    length: usize,
}

/// What stands before the `@`.
#[derive(Clone, Copy)]
enum Local {
    InitialLast,
    InitialLastDigits,
    FirstLast,
    FirstDotLast,
    FirstDigits,
    First,
}

impl Record {
    /// The unique number `ordinal` of a series.
    pub(super) fn new(series: u64, ordinal: u64, created_at_s: u64) -> Self {
        let series = nth(series, ordinal);
        let id = |n| uuid4(nth(series, n), nth(series, n + 1));
        let (event_id, user_id) = (id(0), id(2));
        let (name, email) = person(nth(series, 4), nth(series, 5));
        Self { event_id, user_id, name, email, created_at_s }
    }

    /// Appends the record as JSON. No text in it needs escaping.
    pub(super) fn write_json(&self, out: &mut Vec<u8>) {
        let mut text = Text::<{ RECORD_BYTES_MAX }>::new();
        text.push(b"{\"event_id\": \"");
        text.push(&hyphenated(self.event_id));
        text.push(b"\", \"user_id\": \"");
        text.push(&hyphenated(self.user_id));
        text.push(b"\", \"name\": \"");
        text.push(self.name.as_bytes());
        text.push(b"\", \"email\": \"");
        text.push(self.email.as_bytes());
        text.push(b"\", \"created_at\": \"");
        text.push(&date_time(self.created_at_s));
        text.push(b"\"}");
        out.extend_from_slice(text.as_bytes());
    }
}

impl<const BYTES_MAX: usize> Text<BYTES_MAX> {
    fn new() -> Self {
        Self { bytes: [0; BYTES_MAX], length: 0 }
    }

    fn push(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        self.bytes[self.length..end].copy_from_slice(bytes);
        self.length = end;
    }

    fn push_lower(&mut self, text: &str) {
        let start = self.length;
        self.push(text.as_bytes());
        self.bytes[start..self.length].make_ascii_lowercase();
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// The 36 bytes of a UUID, lower case.
pub(super) fn hyphenated(uuid: u128) -> [u8; 36] {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut text = [b'-'; 36];
    let mut at = 0;
    for byte in uuid.to_be_bytes() {
        // The hyphens stand before the bytes 4, 6, 8 and 10.
        if matches!(at, 8 | 13 | 18 | 23) {
            at += 1;
        }
        text[at] = HEX[usize::from(byte >> 4)];
        text[at + 1] = HEX[usize::from(byte & 15)];
        at += 2;
    }
    text
}

/// A random UUID: version 4, variant 1.
pub(super) fn uuid4(high: u64, low: u64) -> u128 {
    let high = high & !0xf000 | 0x4000;
    let low = low & !(0b11 << 62) | 0b10 << 62;
    u128::from(high) << 64 | u128::from(low)
}

/// A name and an address of the same person.
fn person(choice: u64, more: u64) -> (Text<TEXT_BYTES_MAX>, Text<TEXT_BYTES_MAX>) {
    // Each choice has 16 bits of its own, which is plenty for a few hundred words.
    let pick = |bits: u64, part: u32, count: usize| {
        below(bits << (48 - 16 * part) & 0xffff << 48, count as u64) as usize
    };
    let first = FIRST_NAMES[pick(choice, 0, FIRST_NAMES.len())];
    let last = LAST_NAMES[pick(choice, 1, LAST_NAMES.len())];
    let domain = DOMAINS[pick(choice, 2, DOMAINS.len())];

    let mut name = Text::new();
    // One in ten: the first four of forty.
    if let Some(title) = TITLES.get(pick(choice, 3, 10 * TITLES.len())) {
        name.push(title.as_bytes());
    }
    name.push(first.as_bytes());
    name.push(b" ");
    name.push(last.as_bytes());

    let mut local = match pick(more, 0, 64) {
        0..=10 => Local::InitialLast,
        11..=26 => Local::InitialLastDigits,
        27..=46 => Local::FirstLast,
        47..=55 => Local::FirstDotLast,
        // The shortest name and the shortest address together would be a byte too short.
        63 if name.length > 7 => Local::First,
        _ => Local::FirstDigits,
    };
    let local_bytes = local.bytes(first, last);
    if local_bytes > LOCAL_BYTES_MAX || name.length + local_bytes + domain.len() > BOTH_BYTES_MAX {
        local = Local::InitialLast;
    }
    let mut email = Text::new();
    local.push(first, last, pick(more, 1, 100), &mut email);
    email.push(domain.as_bytes());
    (name, email)
}

impl Local {
    fn bytes(self, first: &str, last: &str) -> usize {
        match self {
            Self::InitialLast => 1 + last.len(),
            Self::InitialLastDigits => 1 + last.len() + 2,
            Self::FirstLast => first.len() + last.len(),
            Self::FirstDotLast => first.len() + 1 + last.len(),
            Self::FirstDigits => first.len() + 2,
            Self::First => first.len(),
        }
    }

    fn push(self, first: &str, last: &str, number: usize, email: &mut Text<TEXT_BYTES_MAX>) {
        match self {
            Self::InitialLast | Self::InitialLastDigits => email.push_lower(&first[..1]),
            Self::FirstLast | Self::FirstDotLast | Self::FirstDigits | Self::First => email.push_lower(first),
        }
        match self {
            Self::FirstDotLast => {
                email.push(b".");
                email.push_lower(last);
            }
            Self::InitialLast | Self::InitialLastDigits | Self::FirstLast => email.push_lower(last),
            Self::FirstDigits | Self::First => {}
        }
        match self {
            Self::InitialLastDigits | Self::FirstDigits => email.push(&two_digits(number as u64)),
            Self::InitialLast | Self::FirstLast | Self::FirstDotLast | Self::First => {}
        }
    }
}

#[cfg(test)]
mod tests;
