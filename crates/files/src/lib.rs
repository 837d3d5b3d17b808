//! Files of this host that others write, rename, copy and delete while they are read.
//!
//! Owns what makes a file itself ([`identity`]). Does not own which files are read, or where a reader is in one: `sources::file` has files that end,
//! and `gateway::files` follows files that grow.

pub mod identity;

pub use identity::{Identity, Likeness, Node};

/// The hash that bytes of files are compared by. Recorded: it never changes.
pub fn hash(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}
