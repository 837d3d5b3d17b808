//! Seal, deliver, settle, recover, doubt, fence, retire: the decisions that make a pipeline exactly once.
//!
//! Owns the journal's records and their bytes, the state that a journal folds to, and every decision of the protocol, each a pure function
//! from facts already read to a decision. Does not own I/O (`store`, `engine`), nor the bytes inside of frames and state (`clickhouse`,
//! `operators`), nor what a sink remembers of inserts (`tokens`). Uses no local crate, no clock, no randomness and no executor.
//!
//! | module      | question                                             | invariants |
//! |-------------|------------------------------------------------------|------------|
//! | [`record`]  | what does a journal record hold, byte for byte?      |            |
//! | [`lane`]    | what is true after these records?                    | C1 C2 C3 C4 C5 C6 C8 C9 C10 |
//! | [`append`]  | a put was answered (or not): is the record ours?     | C5         |
//! | [`window`]  | which frames may be sent now?                        | C2 C8      |
//! | [`doubt`]   | an insert has no answer: what now?                   | C3 C8      |
//! | [`retire`]  | what may be deleted?                                 | C7         |
//! | [`names`]   | what are tokens, query ids and objects called?       | C3         |
//!
//! The invariants are named in ARCHITECTURE.md; code and tests use the same names.

pub mod append;
pub mod doubt;
pub mod lane;
pub mod names;
pub mod record;
pub mod retire;
pub mod window;

pub use lane::{Lane, Violation};
pub use record::{Body, Record, RecordError};

#[cfg(test)]
mod script_tests;

#[cfg(test)]
#[global_allocator]
static MEMORY: testkit::CountingAllocator = testkit::CountingAllocator;
