//! From a message of syslog to a record. Pure; no message is refused.
//!
//! Owns which format a message is taken for, and its record. Does not own its structured data (`syslog::structured`), where a message ends
//! (`syslog::frames`) or where it came from (`syslog::tcp`, `syslog::udp`).
//!
//! ```json
//! {"timestamp":"2003-10-11T22:14:15.003Z","received":1700000000123,"facility":4,"severity":2,"hostname":"web1","app_name":"su","procid":"77","msgid":"ID47",
//!  "structured_data":{"origin":{"ip":"192.0.2.1"}},"message":"failed","peer":"192.0.2.7:514","format":"rfc5424","truncated":false}
//! ```
//!
//! | `format`  | what it is                                                         | fields                                          |
//! |-----------|--------------------------------------------------------------------|-------------------------------------------------|
//! | `rfc5424` | `<PRI>1 TIMESTAMP HOST APP PROCID MSGID [DATA] TEXT`               | all; `-` is an empty text                       |
//! | `rfc3164` | `<PRI>Oct 11 22:14:15 HOST APP[PROCID]: TEXT`, or parts of it      | those that are there; a time of RFC 3339 counts too |
//! | `raw`     | no priority                                                        | the text, with facility 1 and severity 5        |
//!
//! A message without a time, or whose time is none of the calendar (`2024-02-31`, `Feb 30`, a zone of `+99:99`), gets that at which it was received, as
//! milliseconds. A time of RFC 3164 has neither year nor zone: it gets the year that brings it
//! nearest to the time of receipt, and the pipeline's `timezone`. A leap second (`:60`), which RFC 5424 forbids and RFC 3339 knows, is the second before it (`:59`), for no
//! column of a table has one. What is not UTF-8 is replaced.

use std::io::Write;

use super::structured;
use crate::quoting::quote;

/// Priority of a message that has none, as RFC 3164 says: `user.notice`.
const PRIORITY: u8 = 13;
/// The greatest priority: `local7.debug`.
const PRIORITY_MAX: u8 = 191;
/// Bytes of a program's name in a message of RFC 3164; what is longer is text.
const TAG_BYTES_MAX: usize = 64;

/// The second that ends a minute which has a leap second.
const LEAP: u8 = 60;

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'m> {
    /// When it was made.
    pub time: Time<'m>,
    /// Eight times the facility, and the severity.
    pub priority: u8,
    /// Who sent it; empty if it does not say, as the following.
    pub hostname: &'m [u8],
    /// The program.
    pub app_name: &'m [u8],
    /// The process.
    pub procid: &'m [u8],
    /// The kind of message.
    pub msgid: &'m [u8],
    /// The elements, with their brackets; well formed.
    pub structured: &'m [u8],
    /// The text.
    pub text: &'m [u8],
    /// How it was read.
    pub format: &'static str,
}

/// When a message was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time<'m> {
    /// It does not say.
    None,
    /// Of RFC 3339.
    Full(&'m [u8]),
    /// Month and day from 1, hour, minute, second.
    Short([u8; 5]),
}

/// Reads a message, without its framing.
pub fn parse(bytes: &[u8]) -> Message<'_> {
    let bytes = trim_end(bytes);
    let Some((priority, rest)) = priority(bytes) else {
        return Message { text: bytes, format: "raw", ..nothing(PRIORITY) };
    };
    rest.strip_prefix(b"1 ").and_then(|rest| full(priority, rest)).unwrap_or_else(|| old(priority, rest))
}

fn nothing(priority: u8) -> Message<'static> {
    Message {
        time: Time::None,
        priority,
        hostname: b"",
        app_name: b"",
        procid: b"",
        msgid: b"",
        structured: b"",
        text: b"",
        format: "rfc3164",
    }
}

/// What ends lines, and is no part of a text.
fn trim_end(bytes: &[u8]) -> &[u8] {
    let kept = bytes.iter().rposition(|byte| !b"\r\n\0".contains(byte)).map_or(0, |last| last + 1);
    &bytes[..kept]
}

fn priority(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let rest = bytes.strip_prefix(b"<")?;
    let digits = rest.iter().take(4).take_while(|byte| byte.is_ascii_digit()).count();
    let text = std::str::from_utf8(&rest[..digits]).ok()?;
    let priority = text.parse::<u8>().ok().filter(|priority| *priority <= PRIORITY_MAX)?;
    Some((priority, rest[digits..].strip_prefix(b">")?))
}

/// What stands before the next blank, and what behind it.
fn word(bytes: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memchr(b' ', bytes) {
        Some(end) => (&bytes[..end], &bytes[end + 1..]),
        None => (bytes, b""),
    }
}

/// A message of RFC 5424 behind its version; `None` if it is none.
fn full(priority: u8, rest: &[u8]) -> Option<Message<'_>> {
    let (time, rest) = word(rest);
    let time = match time {
        b"-" => Time::None,
        time => full_time(time)?,
    };
    let mut rest = rest;
    let mut next = || {
        let (text, behind) = word(rest);
        rest = behind;
        match text {
            b"" => None,
            b"-" => Some(&b""[..]),
            text => Some(text),
        }
    };
    let (hostname, app_name, procid, msgid) = (next()?, next()?, next()?, next()?);
    let (structured, text) = match rest {
        b"-" | b"" => (&b""[..], &b""[..]),
        // An element that has no end is text: nothing of it is lost.
        _ => rest
            .strip_prefix(b"- ")
            .map(|text| (&b""[..], text))
            .or_else(|| structured::split(rest))
            .unwrap_or((b"", rest)),
    };
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    Some(Message { time, priority, hostname, app_name, procid, msgid, structured, text, format: "rfc5424" })
}

/// A message of RFC 3164, or whatever is behind a priority.
fn old(priority: u8, rest: &[u8]) -> Message<'_> {
    let found = nothing(priority);
    let (time, rest) = match (short_time(rest), word(rest)) {
        (Some(time), _) => (time, rest.get(15..).unwrap_or_default()),
        (None, (first, behind)) => match full_time(first) {
            Some(time) => (time, behind),
            // Without a time there is no header, as RFC 3164 has it.
            None => return Message { text: rest, ..found },
        },
    };
    let rest = rest.strip_prefix(b" ").unwrap_or(rest);
    let found = Message { time, ..found };
    if let Some((app_name, procid, text)) = tag(rest) {
        return Message { app_name, procid, text, ..found };
    }
    let (hostname, behind) = word(rest);
    match tag(behind) {
        Some((app_name, procid, text)) => Message { hostname, app_name, procid, text, ..found },
        None => Message { hostname, text: behind, ..found },
    }
}

/// A program's name, its process and the text behind them: `su: text` or `su[7]: text`.
fn tag(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let end = bytes.iter().take(TAG_BYTES_MAX + 1).position(|byte| b":[ ".contains(byte))?;
    let (app_name, rest) = bytes.split_at(end);
    if app_name.is_empty() {
        return None;
    }
    let (procid, rest) = match rest.strip_prefix(b"[") {
        Some(rest) => {
            let end = rest.iter().take(TAG_BYTES_MAX + 1).position(|byte| b"] ".contains(byte))?;
            (&rest[..end], rest[end..].strip_prefix(b"]")?)
        }
        None => (&b""[..], rest),
    };
    let text = rest.strip_prefix(b":")?;
    // An address of IPv6, or a time, is no program.
    (text.is_empty() || text.starts_with(b" "))
        .then(|| (app_name, procid, text.strip_prefix(b" ").unwrap_or(text)))
}

/// `Oct 11 22:14:15`; days below ten have a blank before them.
fn short_time(bytes: &[u8]) -> Option<Time<'static>> {
    const MONTHS: [&[u8; 3]; 12] =
        [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
    let (time, behind) = bytes.split_first_chunk::<15>()?;
    let month = 1 + MONTHS.iter().position(|month| time.starts_with(*month))? as u8;
    let digit = |at: usize| time[at].is_ascii_digit().then(|| time[at] - b'0');
    let two = |at: usize| Some(digit(at)? * 10 + digit(at + 1)?);
    let day = if time[4] == b' ' { digit(5)? } else { two(4)? };
    let (hour, minute, second) = (two(7)?, two(10)?, two(13)?);
    let has_marks = time[3] == b' ' && time[6] == b' ' && time[9] == b':' && time[12] == b':';
    let is_time = has_marks && (1..=31).contains(&day) && hour < 24 && minute < 60 && second <= LEAP;
    (is_time && matches!(behind.first(), None | Some(b' '))).then_some(Time::Short([
        month,
        day,
        hour,
        minute,
        second.min(59),
    ]))
}

/// A word that looks like a time of RFC 3339, such as `2003-10-11T22:14:15.003-07:00`; [`Time::None`] if no calendar or clock has it.
fn full_time(bytes: &[u8]) -> Option<Time<'_>> {
    const SHAPE: &[u8; 19] = b"dddd-dd-ddTdd:dd:dd";
    let (time, rest) = bytes.split_first_chunk::<19>()?;
    let fits = time
        .iter()
        .zip(SHAPE)
        .all(|(byte, shape)| if *shape == b'd' { byte.is_ascii_digit() } else { byte == shape });
    let two = |at: usize| (time[at].wrapping_sub(b'0')) * 10 + time[at + 1].wrapping_sub(b'0');
    let in_range = || {
        (1..=12).contains(&two(5))
            && (1..=31).contains(&two(8))
            && two(11) < 24
            && two(14) < 60
            && two(17) <= LEAP
    };
    let rest = match rest.strip_prefix(b".") {
        Some(rest) => {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if !(1..=9).contains(&digits) {
                return None;
            }
            &rest[digits..]
        }
        None => rest,
    };
    let is_of_zone = match rest {
        b"Z" => true,
        [b'+' | b'-', zone @ ..] => match zone {
            [a, b, b':', c, d] if [a, b, c, d].iter().all(|byte| byte.is_ascii_digit()) => {
                *zone < b"24"[..] && zone[3..] < b"60"[..]
            }
            _ => return None,
        },
        _ => return None,
    };
    if !fits || !in_range() {
        return None;
    }
    let year = 100 * i64::from(two(0)) + i64::from(two(2));
    match is_of_zone && two(8) <= days_of(year, two(5)) {
        true => Some(Time::Full(bytes)),
        false => Some(Time::None),
    }
}

/// Days of a month.
fn days_of(year: i64, month: u8) -> u8 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + u8::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Appends the record of a message that `peer` sent, received at `received_ms`.
pub fn write_record(out: &mut Vec<u8>, message: &Message<'_>, received_ms: i64, peer: &str, is_cut: bool) {
    out.extend_from_slice(b"{\"timestamp\":");
    // Writing into memory does not fail.
    let _ = match message.time {
        Time::None => write!(out, "{received_ms}"),
        Time::Full(time) => {
            let start = out.len();
            quote(out, time);
            // Behind the quote, a time has no character that is escaped.
            let seconds = &mut out[start + 18..start + 20];
            if seconds == b"60" {
                seconds.copy_from_slice(b"59");
            }
            Ok(())
        }
        Time::Short([month, day, hour, minute, second]) => {
            let year = year_of(month, day, received_ms);
            match day <= days_of(year, month) {
                true => write!(out, "\"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}\""),
                false => write!(out, "{received_ms}"),
            }
        }
    };
    let (facility, severity) = (message.priority >> 3, message.priority & 7);
    let _ = write!(out, ",\"received\":{received_ms},\"facility\":{facility},\"severity\":{severity}");
    for (field, text) in [
        (&b",\"hostname\":"[..], message.hostname),
        (b",\"app_name\":", message.app_name),
        (b",\"procid\":", message.procid),
        (b",\"msgid\":", message.msgid),
    ] {
        out.extend_from_slice(field);
        quote(out, text);
    }
    out.extend_from_slice(b",\"structured_data\":{");
    structured::write(out, message.structured);
    out.extend_from_slice(b"},\"message\":");
    quote(out, message.text);
    let _ = write!(out, ",\"peer\":\"{peer}\",\"format\":\"{}\",\"truncated\":{is_cut}}}", message.format);
}

/// The year that brings a day nearest to this time.
fn year_of(month: u8, day: u8, at_ms: i64) -> i64 {
    let today = at_ms.div_euclid(86_400_000);
    let about = 1970 + today.div_euclid(365);
    let distance = |year: &i64| (days(*year, month, day) - today).abs();
    // Leap days make the guess too great, by a year in some fourteen hundred at the most.
    (about - 2..=about + 1).min_by_key(distance).unwrap_or(about)
}

/// Days from 1970 to a day of the calendar, which counts years from March so that leap days are last.
fn days(year: i64, month: u8, day: u8) -> i64 {
    let (year, month) =
        if month < 3 { (year - 1, i64::from(month) + 9) } else { (year, i64::from(month) - 3) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    365 * year + leap_days + (153 * month + 2) / 5 + i64::from(day) - 719_469
}

#[cfg(test)]
mod tests;
