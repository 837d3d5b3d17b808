//! A log on the store: records that are pushed to Forebay become durable here before the sender is answered, and are read from here
//! like from any partitioned source.
//!
//! Owns the formats (root, manifest segments, data objects, acknowledgements), the decisions of its protocol as pure functions, and
//! the producer, the owner, the collector and the reader over [`store::Store`]. Does not own how a record is decoded, nor what a
//! pipeline has read (its journal does). docs/design/log.md has the protocol.
//!
//! | module        | what it holds                                                        | invariants  |
//! |---------------|----------------------------------------------------------------------|-------------|
//! | [`root`]      | the one small register that says what the log holds, and its edits    | L1 L3 L4 L8 |
//! | [`segment`]   | manifest segments: entries or references that the root has moved out  | L1          |
//! | [`object`]    | data objects: records of many appends, compressed                     | L2          |
//! | [`entry`]     | a data object as the manifest names it                                | L1          |
//! | `framing`     | magic and checksum of what is stored                                  |             |
//! | [`names`]     | what everything is called                                             | L9          |
//! | [`decide`]    | admit an append, cut, commit, seal, fence, retain, sweep              | L4–L7       |
//! | [`partition`] | one partition in a store: read, swap, walk                            | L2 L4       |
//! | [`clock`]     | the log's time, by which stamps and ages are told                    |             |
//! | [`owner`]     | the one that commits, and the appends of this process                 | L3–L5       |
//! | [`labels`]    | names of appends that their senders recognise, read back from data objects | L3      |
//! | [`note`]      | what the owner notes of its labels, so that not all of them need be read     | L4          |
//! | [`collect`]   | retention, garbage by name, orphans                                   | L6 L7       |
//! | [`reader`]    | records from a position on, fetched ahead in parallel                 | L9 L10      |
//! | [`acks`]      | how far each consumer has come                                        | L7          |
//! | [`check`]     | whether everything that the root names is there and whole             |             |
//! | [`error`]     | what went wrong, whether it may have happened, and the way out        |             |

pub mod acks;
pub mod check;
pub mod clock;
pub mod collect;
pub mod decide;
pub mod entry;
pub mod error;
mod framing;
pub mod labels;
pub mod names;
pub mod note;
pub mod object;
pub mod owner;
pub mod partition;
pub mod reader;
pub mod root;
pub mod segment;

pub use clock::Clock;
pub use entry::Entry;
pub use error::{AppendError, LogError};
pub use note::{Found, Note, Notes};
pub use object::Append;
pub use owner::{Appended, Appender, Owner, Pin, Settings};
pub use partition::{LogPartition, Seen};
pub use reader::LogReader;
pub use root::Root;

#[cfg(test)]
#[global_allocator]
static MEMORY: testkit::CountingAllocator = testkit::CountingAllocator;

#[cfg(test)]
mod support;
