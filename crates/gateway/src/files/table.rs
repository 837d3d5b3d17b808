//! What is known of the files of a stream: which ones, and up to where each is in the log.
//!
//! Owns the bytes that stand in the log's note. Each append of a file's lines has a label with the file's number and the offset behind its last line; so the table as it was noted, and the labels
//! behind the note's position, say exactly what is in the log. Does not own when it is noted (`crate::files`, `files::place`), nor what
//! makes a file itself (the crate `files`).

use std::collections::BTreeMap;
use std::fs::File;

use files::Identity;
use serde::{Deserialize, Serialize};

/// Stands in the high half of the labels of files, so that they are told from the names of requests, which are hashes.
const OF_FILES: u64 = 0x464f_5245_4259_0001;

/// Bytes that a file takes in the note beside its names, at most: an identity has up to 250, and the numbers up to 20 each.
const KNOWN_BYTES: usize = 560;

/// Bytes of the note that new files leave free, for longer names of those that are known.
const ROOM_TO_SPARE: usize = 64 << 10;

/// Patterns that are remembered.
const BEGUN_MAX: usize = 1_000;

/// The name of appends of the file `number`.
pub(crate) fn label_id(number: u64) -> u128 {
    (u128::from(OF_FILES) << 64) | u128::from(number)
}

/// The number of the file that a label is of; `None` if it is of a request.
pub(crate) fn file_of(label_id: u128) -> Option<u64> {
    ((label_id >> 64) as u64 == OF_FILES).then_some(label_id as u64)
}

/// A file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Known {
    /// The name under which it was met, which its records show.
    pub path: String,
    /// The name under which it was seen last.
    pub at: String,
    #[serde(with = "text")]
    pub identity: Identity,
    /// Everything before it is in the log.
    pub offset: u64,
    /// Bytes that it had when it was read last.
    pub bytes: u64,
    /// When it was met, Unix milliseconds by the process's steady clock.
    pub met_ms: i64,
    /// Since when no pattern means it; 0 while one does.
    pub missing_ms: i64,
    /// It went before it was read to its end, and was counted.
    pub is_lost: bool,
    /// What stands before a position that it was read to.
    #[serde(default)]
    pub mark: Mark,
}

/// A hash of the bytes of a file before a position: with its beginning they tell another file with all that was read from one that only begins alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    /// The position; 0 if none is known, as in notes of earlier programs.
    at: u64,
    hash: u64,
}

impl Mark {
    /// Of a position in a file; none if the bytes before it cannot be read.
    pub fn of(file: &File, at: u64) -> Self {
        files::hash_before(file, at).ok().flatten().map_or_else(Self::default, |hash| Self { at, hash })
    }

    /// Whether a file that reaches the position has other bytes before it: what was read of it is not there any more. False if no position is known.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn differs(self, file: &File) -> std::io::Result<bool> {
        Ok(self.at > 0 && files::hash_before(file, self.at)?.is_some_and(|hash| hash != self.hash))
    }

    /// Whether the file has the same bytes there, and that is no earlier position than `read`.
    pub fn fits(self, file: &File, read: u64) -> bool {
        self.at > 0 && self.at >= read && Self::of(file, self.at) == self
    }
}

/// All files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Table {
    /// Patterns whose files were looked for before: what appears later is new.
    pub begun: Vec<String>,
    /// The owner of the log follows files, so there may be labels of files behind the note.
    pub is_followed: bool,
    /// By number, which is drawn.
    pub files: BTreeMap<u64, Known>,
}

impl Table {
    /// Reads the bytes of one.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(bytes).map_err(|error| error.to_string())
    }

    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts and numbers")
    }

    /// Learns from a label that the lines of a file before `offset` are in the log.
    pub fn reached(&mut self, number: u64, offset: u64) {
        if let Some(known) = self.files.get_mut(&number) {
            known.offset = known.offset.max(offset);
        }
    }

    /// Whether one more file, with names of so many bytes, fits into the note.
    pub fn has_room_for(&self, names: usize) -> bool {
        // As they are escaped; a name that a file has later may be longer.
        let of = |known: &Known| escaped(&known.path) + escaped(&known.at) + KNOWN_BYTES;
        let begun: usize = self.begun.iter().map(|pattern| escaped(pattern) + 1).sum();
        let bytes = begun + self.files.values().map(of).sum::<usize>() + 6 * names + KNOWN_BYTES;
        bytes + ROOM_TO_SPARE <= object_log::note::NOTE_BYTES_MAX
    }

    /// Remembers that the files of these patterns were looked for; true if that is new.
    pub fn begin(&mut self, patterns: &[String]) -> bool {
        let new: Vec<String> =
            patterns.iter().filter(|pattern| !self.begun.contains(pattern)).cloned().collect();
        let is_new = !new.is_empty();
        self.begun.extend(new);
        let excess = self.begun.len().saturating_sub(BEGUN_MAX);
        self.begun.drain(..excess);
        is_new
    }
}

fn escaped(text: &str) -> usize {
    crate::quoting::quoted_bytes(text.as_bytes())
}

/// An identity as its text.
mod text {
    use files::Identity;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(identity: &Identity, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(identity)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Identity, D::Error> {
        let text = String::deserialize(deserializer)?;
        Identity::parse(&text).ok_or_else(|| D::Error::custom(format!("`{text}` is no identity of a file")))
    }
}

#[cfg(test)]
mod tests;
