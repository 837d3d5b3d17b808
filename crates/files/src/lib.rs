//! Files of this host that others write, rename, copy and delete while they are read.
//!
//! Owns what makes a file itself ([`identity`]), and what makes one another's copy ([`copies`]),
//! and where links lead ([`links`]). Does not own which files are read, or where a reader
//! is in one: `sources::file` and `gateway::files` know that.

pub mod copies;
pub mod identity;
pub mod links;

pub use identity::{Beginning, Identity, Likeness, Node};

/// The hash that bytes of files are compared by. Recorded: it never changes.
pub fn hash(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}
