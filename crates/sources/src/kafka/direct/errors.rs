//! What a broker's error codes mean for a read. Pure.
//!
//! Owns the class of each code, and its words. Does not own what follows from a class: the broker's thread and the supervisor decide
//! (`direct::broker`, `direct::supervisor`).

/// Why a partition cannot be fetched from a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Another broker leads it now, or this one is not ready: look for the leader again.
    Moved(String),
    /// The topic of this id may be gone.
    Missing(String),
    /// The position is not held, or the log behind it was cut.
    OutOfRange(String),
    /// A batch is in a format that only librdkafka reads.
    OldFormat(String),
    /// Going on would step over records: of a batch that ends before this offset, if that is known.
    Unreadable(String, Option<u64>),
    /// An operator is needed.
    Denied(String),
}

const CODES: &[(i16, &str)] = &[
    (1, "offset out of range"),
    (2, "corrupt message"),
    (3, "unknown topic or partition"),
    (5, "leader not available"),
    (6, "not the leader"),
    (9, "replica not available"),
    (10, "message too large"),
    (29, "not authorized to read the topic"),
    (31, "not authorized in the cluster"),
    (35, "unsupported version"),
    (56, "storage error"),
    (74, "fenced leader epoch"),
    (75, "unknown leader epoch"),
    (76, "unsupported compression"),
    (78, "offset not available"),
    (87, "invalid record"),
    (100, "unknown topic id"),
    (103, "inconsistent topic id"),
];

/// A code in words.
pub(super) fn words(code: i16) -> String {
    match CODES.iter().find(|(known, _)| *known == code) {
        Some((_, words)) => format!("{words} (error {code})"),
        None => format!("error {code}"),
    }
}

/// Reads a partition's error; `None` if there is none.
pub(super) fn of(code: i16, is_cut: bool) -> Option<Trouble> {
    let words = words(code);
    match code {
        0 if is_cut => Some(Trouble::OutOfRange("the log behind the position was cut".into())),
        0 => None,
        1 => Some(Trouble::OutOfRange(words)),
        2 | 10 | 76 | 87 => Some(Trouble::Unreadable(words, None)),
        3 | 100 | 103 => Some(Trouble::Missing(words)),
        29 | 31 | 35 => Some(Trouble::Denied(words)),
        // The list of codes is Kafka's and grows: all that is not named is worth another try.
        _ => Some(Trouble::Moved(words)),
    }
}

#[cfg(test)]
mod tests;
