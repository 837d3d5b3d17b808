//! Journals, segments and state: immutable objects under keys, on local disk, on object storage or
//! in memory; and registers, small values that are replaced.
//!
//! Owns the two primitives that the protocols rest on, a durable *put if absent* for objects and a durable *compare and set* for
//! registers, and the suite that every implementation passes. Does not own what the bytes mean (`protocol`, `object_log`), which keys
//! exist when, retries, or how long anything is kept. An object never changes once it exists; there is no overwrite and no append.
//!
//! | module          | what it holds                                                        |
//! |-----------------|----------------------------------------------------------------------|
//! | [`key`]         | names of objects and folders, valid in every kind of store            |
//! | [`error`]       | what went wrong, whether it may have happened, and the way out        |
//! | [`memory`]      | a bounded store for tests and `memory://`                             |
//! | [`mod@file`]    | local disk: temporary file, fsync, link, fsync of the folder          |
//! | `object`        | S3, Google Cloud Storage, Azure: one feature each                     |
//! | [`remote`]      | endpoint, region and credentials of object storage                    |
//! | [`url`]         | from `file:///…`, `s3://…` or `memory://` to a store                  |
//! | `limits`        | the bounds of objects and ranges                                     |
//! | [`conformance`] | the rules below as tests that any implementation can run              |

pub mod conformance;
pub mod error;
pub mod file;
pub mod key;
mod limits;
pub mod memory;
#[cfg(feature = "object")]
pub mod object;
pub mod remote;
pub mod url;

use std::fmt;
use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;

pub use error::{ErrorKind, Operation, StoreError};
pub use file::{BlockingPool, FileStore, Inline, TokioPool};
pub use key::{Key, KeyError, Prefix};
pub use memory::MemoryStore;
#[cfg(feature = "object")]
pub use object::ObjectStorage;
pub use remote::Remote;
pub use url::{open, open_with};

/// Bytes that one object may have: 4 GiB. Object stores end a single put at 5 GiB, and what is sealed here should be
/// able to move there.
pub const OBJECT_BYTES_MAX: u64 = 4 << 30;

/// Bytes that a register may have: 1 MiB. What is replaced every second must be small.
pub const REGISTER_BYTES_MAX: u64 = 1 << 20;

/// Where memory and place in the object of a piece are to begin that goes past the system's cache: at a multiple of this. The page of
/// the system, and the largest block of the file systems in use.
pub const PAGE_BYTES: usize = 4_096;

/// Bytes of a piece from which on it goes past the system's cache, if asked for. Below, the second way to the disk that the rest of the
/// object takes costs as much as it spares: with 256 KiB it took a quarter less of the processor here, on a disk that answers in 0.1 ms.
pub const PAST_CACHE_BYTES_MIN: usize = 512 << 10;

/// Ranges of one object that [`Store::get_ranges`] reads side by side.
const RANGES_AT_ONCE: usize = 16;

/// Entries that one call of [`Store::list`] returns at the most, whatever `limit` says: a page of an object store.
pub const LIST_LIMIT_MAX: usize = 1_000;

/// What became of a put that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The object is there with the bytes of this call, and survives a loss of power.
    Created,
    /// An object of that key was there before; its content is untouched and need not be these bytes. It may be the
    /// work of an earlier try of the same writer, so read it back and compare. Whether it is durable is not known:
    /// see [`Store::harden`].
    Exists,
}

/// Names one value of a register. Only the store that gave it knows what is inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    pub(crate) e_tag: String,
    /// What some providers compare instead; empty where there is none.
    pub(crate) version: String,
}

impl Tag {
    /// A tag of a store outside of this crate: a wrapper's or a simulation's.
    pub fn new(text: impl Into<String>) -> Self {
        Self { e_tag: text.into(), version: String::new() }
    }

    /// The tag as text, as the store gave it.
    pub fn as_str(&self) -> &str {
        &self.e_tag
    }
}

/// What became of a compare-and-set that did not fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swap {
    /// The register has the new value, durably; this tag names it.
    Done(Tag),
    /// The register has another value than the one expected, or none; nothing was changed. The value that stands there may be the work
    /// of an earlier try of the same writer, so read it and compare.
    Refused,
}

/// One object of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The whole key, not only what follows the prefix.
    pub key: Key,
    /// Length of the object's content in bytes.
    pub size_bytes: u64,
}

fn no_registers(operation: Operation, key: &Key) -> StoreError {
    StoreError::new(ErrorKind::NotSupported, operation, key, "this store has no registers")
}

/// Immutable objects under keys. Shared as `Arc<dyn Store>`.
///
/// The contract, which [`conformance`] checks:
///
/// 1. **One winner.** Of any number of `put_if_absent` calls for one key, by any number of processes, exactly one gets
///    [`Put::Created`] and all others get [`Put::Exists`].
/// 2. **All or nothing.** A reader sees an object with all its bytes or does not see it, at every instant and after
///    every crash. An object that is seen never changes until it is deleted.
/// 3. **Durable.** When a put returns [`Put::Created`], the object survives a crash of the process and a loss of power.
///    Everything that was listed or read *before* a [`Store::harden`] of its prefix returned may still vanish in a loss
///    of power.
/// 4. **Read your writes.** What a put created is seen by every `get` and `list` that starts after it returned, from any
///    process.
/// 5. **Errors state the effect.** [`Effect::None`]: nothing has happened and nothing will. [`Effect::Unknown`]: the
///    object may be there now, later or never; read back. Only `put_if_absent`, `compare_and_set` and `delete` can be in doubt.
/// 6. **Cancellation.** A future that is dropped leaves the effect unknown, and the operation may still land after the
///    drop. Nothing is torn by it.
/// 7. **Deletes are lazy.** A deleted object is absent for every reader at once, but may come back after a loss of power.
///    Whoever deletes must already have made durable that the object no longer counts.
/// 8. **Keys are objects or folders.** A key that is an object is never at the same time the folder of another key; a
///    put that would make it so fails with [`ErrorKind::Conflict`] where the store can see it.
/// 9. **Registers.** Of any number of [`compare_and_set`](Store::compare_and_set) calls that expect one tag, by any number of processes,
///    at most one is done, for ever; a call that expects none creates the register if there is none. The new value is seen by every
///    read that starts later, and whatever [`read_register`](Store::read_register) returns is durable. Each value of a register must
///    differ from all others that it ever had (hold a counter and a nonce), since some stores make the tag from the bytes. A key is a
///    register or an object, for ever; registers may or may not show in lists.
/// 10. **Bounded.** No call takes more memory than the object, range or page that it was asked for. Concurrent calls are
///    bounded by the store, further ones wait.
///
/// No call retries by itself beyond what keeps rule 5 true; back-off belongs to the caller.
#[async_trait]
pub trait Store: Send + Sync + fmt::Debug {
    /// Creates the object `key` from the pieces of `body`, in order, unless there is one. The pieces are not joined on
    /// the way to the disk; no pieces at all make an empty object. Fails with [`ErrorKind::TooLarge`] above
    /// [`OBJECT_BYTES_MAX`].
    async fn put_if_absent(&self, key: &Key, body: Vec<Bytes>) -> Result<Put, StoreError>;

    /// As [`put_if_absent`](Self::put_if_absent), for an object that hardly anybody will read soon: a store that fills the system's
    /// cache with what it writes may pass it by, which spares copying the bytes. It does so with pieces of
    /// [`PAST_CACHE_BYTES_MIN`] and more whose memory begins at a multiple of [`PAGE_BYTES`], as does their place in the object;
    /// every other piece is written as ever.
    async fn put_past_cache(&self, key: &Key, body: Vec<Bytes>) -> Result<Put, StoreError> {
        self.put_if_absent(key, body).await
    }

    /// The whole object, or `None` if there is none. Fails with [`ErrorKind::TooLarge`] before anything is read if it
    /// has more than `bytes_max` bytes.
    async fn get(&self, key: &Key, bytes_max: u64) -> Result<Option<Bytes>, StoreError>;

    /// The bytes `range` of the object, or `None` if there is no object. The range must lie within the object, or the
    /// call fails with [`ErrorKind::OutOfRange`]: a short answer would pass for the whole one. An empty range within
    /// the object gives empty bytes.
    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Option<Bytes>, StoreError>;

    /// Several ranges of one object, each as [`get_range`](Self::get_range) gives it, in their order. Costs less than as many calls
    /// where a store can have it so.
    async fn get_ranges(&self, key: &Key, ranges: &[Range<u64>]) -> Result<Option<Vec<Bytes>>, StoreError> {
        let mut found = Vec::with_capacity(ranges.len());
        for ranges in ranges.chunks(RANGES_AT_ONCE) {
            let mut reads = Vec::with_capacity(ranges.len());
            for range in ranges {
                reads.push(self.get_range(key, range.clone()));
            }
            found.extend(futures::future::try_join_all(reads).await?);
        }
        Ok(found.into_iter().collect())
    }

    /// How many requests a [`get_ranges`](Self::get_ranges) of these ranges is, for whoever counts what a store is asked for.
    fn requests_for(&self, ranges: &[Range<u64>]) -> u64 {
        ranges.len() as u64
    }

    /// Objects below the folder `prefix`, at any depth, whose key is greater than `after`, by the bytes of the key;
    /// at most `limit` of them and at most [`LIST_LIMIT_MAX`]. An empty answer to a `limit` of 1 or more is the end; a
    /// short one is not.
    async fn list(
        &self,
        prefix: &Prefix,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError>;

    /// Removes the object. That there is none is no error.
    async fn delete(&self, key: &Key) -> Result<(), StoreError>;

    /// The value of the register `key` and the tag that names it, or `None` if there is none. Fails with [`ErrorKind::TooLarge`] before
    /// anything is read if it has more than `bytes_max` bytes.
    async fn read_register(&self, key: &Key, _bytes_max: u64) -> Result<Option<(Bytes, Tag)>, StoreError> {
        Err(no_registers(Operation::Get, key))
    }

    /// Gives the register `key` the value `body` if its present value is the one that `expected` names, or if it is to be absent and is.
    /// Needs no read before: the tag of the last success serves. Fails with [`ErrorKind::TooLarge`] above [`REGISTER_BYTES_MAX`].
    async fn compare_and_set(
        &self,
        key: &Key,
        _expected: Option<&Tag>,
        _body: Bytes,
    ) -> Result<Swap, StoreError> {
        Err(no_registers(Operation::Put, key))
    }

    /// Makes durable whatever is below `prefix` now, and the folders that lead to it. A writer that crashed may have
    /// left an object that can be read but that a loss of power would take away; call this before trusting anything
    /// that another process wrote. Costs one fsync per folder on local disk, nothing on object storage. It answers for what a
    /// store wrote, not for files that an operator copied there (run `sync` after such a copy).
    async fn harden(&self, prefix: &Prefix) -> Result<(), StoreError>;

    /// Shows by an attempt that rule 1 holds, where that is a matter of the service behind a URL: object storage that ignores
    /// conditions looks like any other until two owners write one journal. Asked once, before a store is trusted; `nonce`
    /// is to be random. Other stores hold the rule by construction and answer at once.
    async fn probe(&self, _nonce: u128) -> Result<(), StoreError> {
        Ok(())
    }

    /// The same for registers: that a value is replaced only if it is the one that was named. Asked besides [`probe`](Self::probe), by whoever writes a log: a
    /// service that ignores the condition would let two owners commit, each over the other's.
    async fn probe_registers(&self, _nonce: u128) -> Result<(), StoreError> {
        Ok(())
    }

    /// The store's URL without anything secret, for logs and messages.
    fn describe(&self) -> String;
}
