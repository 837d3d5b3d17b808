//! The bytes of deltas and snapshots.
//!
//! Owns their form, which later versions must read (golden bytes in the tests), and every check on the way in: lengths
//! before anything is allocated, the checksum before anything is believed. Does not own what is written where (`mod`).
//!
//! Both kinds have one form; numbers are little-endian, `text` is a 16-bit length and UTF-8:
//!
//! | field       | bytes | meaning                                                              |
//! |-------------|-------|----------------------------------------------------------------------|
//! | magic       | 4     | `FBDK`                                                               |
//! | version     | 2     | 1                                                                    |
//! | kind        | 1     | 1 snapshot, 2 delta                                                  |
//! | flags       | 1     | bit 0: the watermark is known; others 0                              |
//! | columns     | 2     | of the key; then for each: its name and its kind, as text            |
//! | window      | 8     | milliseconds, 0 if unbounded                                         |
//! | width       | 8     | of a bucket in milliseconds, 0 if unbounded                          |
//! | watermark   | 8     | its bucket, 0 if unknown                                             |
//! | forgotten   | 4     | groups; then for each: bucket 8, hashes 8, then the hashes, 16 each  |
//! | added       | 4     | groups, of the same form                                             |
//! | runs        | 4     | from version 2 on: how many; then for each what the next table says  |
//! | disorder    | 8     | version 3 alone: the watermark of the newest seal that showed it     |
//! | old, young  | 4 each| version 3 alone: what is set aside, groups of the same form          |
//! | checksum    | 8     | XXH3-64 of all before it                                             |
//!
//! | run         | bytes | meaning                                                              |
//! |-------------|-------|----------------------------------------------------------------------|
//! | part bits   | 1     | log2 of the number of parts                                          |
//! | dead        | 4     | groups of pairs that were forgotten after the run was written        |
//! | files       | 4     | how many; then for each: object as text, length 8, footer's place 8, footer's checksum 8 |
//!
//! Version 1 is written as long as there is no run, and version 2 as long as nothing is set aside, so that an earlier program can read it. A delta is applied in the order of its fields: forget, add, then move the watermark and expire.

mod read;

use bytes::Bytes;
use dataflow::Spares;
use xxhash_rust::xxh3::xxh3_64;

use super::aside::Disorder;
use super::key::KeyColumn;
use super::spilled::runs::Runs;
use super::window::Window;
pub use crate::runs::FileEntry;
pub use read::{Disordered, Group, Parsed, RunGroup, parse};

const MAGIC: [u8; 4] = *b"FBDK";

/// The newest version that is read: that of snapshots of a step whose input is out of order.
pub const VERSION: u16 = 3;

/// Of snapshots with sorted runs. All else is written as version 1.
const VERSION_WITH_RUNS: u16 = 2;

const VERSION_WITHOUT_RUNS: u16 = 1;

/// A file of a run in a snapshot: three numbers and an empty name.
const FILE_HEAD: usize = 26;

/// A run in a snapshot: bits and two empty lists.
const RUN_HEAD: usize = 9;

/// The longest footer of a file: that of a part with 600 million keys.
const FOOTER_BYTES_MAX: u64 = 1 << 30;

/// Parts of all runs together: at half a million keys each more than any store holds. The memory for them, 8 bytes each, is taken by what
/// the head of a run says, before a file is read.
const PARTS_MAX: u64 = 1 << 20;

const HASH: usize = size_of::<u128>();

const GROUP_HEAD: usize = 16;

const CHECKSUM: usize = 8;

const WATERMARK_KNOWN: u8 = 1;

/// Which of the two forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All of the state.
    Snapshot = 1,
    /// What one seal changed.
    Delta = 2,
}

/// The part of a step's configuration that its state depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Name and kind of each key column, in order.
    pub key: Vec<(String, String)>,
    /// The window.
    pub window: Window,
}

impl Shape {
    /// The shape of a step.
    pub fn new(key: &[KeyColumn], window: Window) -> Self {
        Self { key: key.iter().map(|c| (c.name.clone(), c.kind.clone())).collect(), window }
    }

    /// Both in words.
    pub fn words(&self) -> String {
        let key: Vec<String> = self.key.iter().map(|(name, kind)| format!("{name} {kind}")).collect();
        let window = match self.window {
            Window::Unbounded => "unbounded".to_owned(),
            Window::Sliding { window_ms, width_ms } => format!("{window_ms}ms in buckets of {width_ms}ms"),
        };
        format!("key `{}`, window `{window}`", key.join(", "))
    }
}

/// Writes one delta or snapshot.
pub struct Writer {
    bytes: Vec<u8>,
    /// Where they begin.
    front: usize,
    spares: Spares,
}

impl Writer {
    /// Writes the head into memory of `spares`. `entries` is how many hashes and groups will follow, so that nothing is moved.
    pub fn new(kind: Kind, shape: &Shape, watermark: Option<i64>, entries: usize, spares: &Spares) -> Self {
        Self::of_version(VERSION_WITHOUT_RUNS, kind, shape, watermark, entries, spares)
    }

    /// Writes the head of a snapshot that ends with [`runs`](Self::runs).
    pub fn with_runs(shape: &Shape, watermark: Option<i64>, entries: usize, spares: &Spares) -> Self {
        Self::of_version(VERSION_WITH_RUNS, Kind::Snapshot, shape, watermark, entries, spares)
    }

    /// Writes the head of a snapshot that ends with [`runs`](Self::runs) and [`disorder`](Self::disorder).
    pub fn with_disorder(shape: &Shape, watermark: Option<i64>, entries: usize, spares: &Spares) -> Self {
        Self::of_version(VERSION, Kind::Snapshot, shape, watermark, entries, spares)
    }

    /// Writes that the input is out of order. The two lists of what is set aside follow.
    pub fn disorder(&mut self, disorder: Disorder) {
        self.bytes.extend_from_slice(&disorder.seen.to_le_bytes());
    }

    fn of_version(
        version: u16,
        kind: Kind,
        shape: &Shape,
        watermark: Option<i64>,
        entries: usize,
        spares: &Spares,
    ) -> Self {
        const { assert!(GROUP_HEAD <= HASH, "an entry is a hash at the most") };
        let mut bytes = spares.take(256 + entries * HASH);
        let front = bytes.len();
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&version.to_le_bytes());
        bytes.push(kind as u8);
        bytes.push(if watermark.is_some() { WATERMARK_KNOWN } else { 0 });
        let columns = u16::try_from(shape.key.len()).expect("at most KEY_COLUMNS_MAX");
        bytes.extend_from_slice(&columns.to_le_bytes());
        for text in shape.key.iter().flat_map(|(name, kind)| [name, kind]) {
            let len = u16::try_from(text.len()).expect("names are bounded by `fits`");
            bytes.extend_from_slice(&len.to_le_bytes());
            bytes.extend_from_slice(text.as_bytes());
        }
        let (window_ms, width_ms) = match shape.window {
            Window::Unbounded => (0, 0),
            Window::Sliding { window_ms, width_ms } => (window_ms, width_ms),
        };
        bytes.extend_from_slice(&window_ms.to_le_bytes());
        bytes.extend_from_slice(&width_ms.to_le_bytes());
        bytes.extend_from_slice(&watermark.unwrap_or(0).to_le_bytes());
        Self { bytes, front, spares: spares.clone() }
    }

    /// Starts the list of forgotten or of added groups.
    pub fn groups(&mut self, count: usize) {
        let count = u32::try_from(count).expect("a group has a place, and places have 32 bits");
        self.bytes.extend_from_slice(&count.to_le_bytes());
    }

    /// Starts a group; its hashes follow.
    pub fn group(&mut self, bucket: i64, hashes: usize) {
        self.bytes.extend_from_slice(&bucket.to_le_bytes());
        self.bytes.extend_from_slice(&(hashes as u64).to_le_bytes());
    }

    /// Writes the next hash of a group.
    pub fn hash(&mut self, hash: u128) {
        self.hashes(&hash.to_le_bytes());
    }

    /// Writes the next hashes of a group, little-endian, one after the other.
    pub fn hashes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes the runs.
    pub fn runs(&mut self, runs: &Runs) {
        self.groups(runs.len());
        for run in runs.iter() {
            self.bytes.push(run.part_bits);
            self.groups(run.dead.len());
            for (bucket, hashes) in &run.dead {
                self.group(*bucket, hashes.len());
                hashes.iter().for_each(|hash| self.hash(*hash));
            }
            self.groups(run.parts.iter().flatten().count());
            for part in run.parts.iter().flatten() {
                FileEntry::put(&mut self.bytes, &part.object, [part.len, part.footer_at, part.sum]);
            }
        }
    }

    /// Writes the checksum.
    pub fn finish(mut self) -> Bytes {
        let sum = xxh3_64(&self.bytes[self.front..]);
        self.bytes.extend_from_slice(&sum.to_le_bytes());
        self.spares.body(self.bytes, self.front)
    }
}

#[cfg(test)]
mod tests;
