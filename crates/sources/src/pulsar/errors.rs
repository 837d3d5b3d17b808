//! What a broker's errors mean.
//!
//! Owns the class of each code, and its words on one line. Does not own what follows from a class (`pulsar::broker`, `pulsar::supervisor`).

use super::messages::error;

/// Why a partition cannot be read any further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Another broker has it, or this one is not ready: look it up again.
    Moved(String),
    /// The topic is not there.
    Missing(String),
    /// Its messages are not those that were read.
    NotHeld(String),
    /// A message cannot be read.
    Unreadable(String),
    /// We are not let in.
    Denied(String),
}

/// What to do about an error of a broker.
pub(super) fn of(code: i32, message: &str) -> Trouble {
    let why = words(code, message);
    match code {
        error::TOPIC_NOT_FOUND => Trouble::Missing(why),
        error::AUTHENTICATION
        | error::AUTHORIZATION
        | error::UNSUPPORTED_VERSION
        | error::INVALID_TOPIC_NAME
        | error::NOT_ALLOWED => Trouble::Denied(why),
        // A broker that starts, stops or hands its topics over says one of many things, and unknown ones.
        _ => Trouble::Moved(why),
    }
}

/// The error as a message. A broker's text may be a stack trace; its first line says what happened.
pub(super) fn words(code: i32, message: &str) -> String {
    const CHARS_MAX: usize = 300;
    let name = match code {
        0 => "unknown error",
        1 => "metadata error",
        2 => "persistence error",
        3 => "authentication failed",
        4 => "not authorized",
        5 => "the subscription has another consumer",
        6 => "the broker is not ready to serve the topic",
        9 => "checksum error",
        10 => "unsupported version",
        11 => "topic not found",
        12 => "subscription not found",
        13 => "consumer not found",
        14 => "too many requests",
        15 => "the topic is terminated",
        17 => "invalid topic name",
        18 => "incompatible schema",
        22 => "not allowed",
        _ => return format!("error `{code}`: {}", first_line(message, CHARS_MAX)),
    };
    match first_line(message, CHARS_MAX).as_str() {
        "" => name.to_owned(),
        line => format!("{name}: {line}"),
    }
}

fn first_line(text: &str, chars_max: usize) -> String {
    text.lines()
        .next()
        .unwrap_or_default()
        .trim()
        .chars()
        .filter(|c| !c.is_control())
        .take(chars_max)
        .collect()
}
