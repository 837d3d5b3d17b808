//! Steps from batch to batch.
//!
//! Owns the steps that a pipeline file can name, each with the state that it keeps. Sees Arrow alone: no SQL planner, no
//! source, no table. Does not own durability: what a step's state returns on a seal is written by the engine.
//!
//! | module         | step                                              | state              |
//! |----------------|---------------------------------------------------|--------------------|
//! | [`ahead`]      | does steps without state that stand behind one with state | none        |
//! | [`dedup`]      | drops records whose key was kept within a window  | keys and buckets   |
//! | [`event_time`] | takes the record's time from a column             | none               |
//! | [`gate`]       | ends rows that a step has dropped ahead of time   | none               |
//! | [`join`]       | pairs rows of two inputs by key and interval of event time | the rows that can still match |
//! | [`join::temporal`] | gives each row the version of another input that held at its time | the rows that wait, and versions |
//! | [`lookup`]     | adds columns of a row elsewhere with the same key | none: rows come beside each block |
//! | [`mapping`]    | brings rows to the columns of their tables        | none               |
//! | [`stateless`]  | any step without state, behind a window           | none               |
//! | [`window`]     | aggregates rows by key and window of event time   | aggregates         |
//!
//! They share the errors of settings ([`config`]) and the envelope of files of state (`runs`).

pub mod ahead;
pub mod config;
pub mod dedup;
pub mod event_time;
pub mod gate;
pub mod join;
pub mod lookup;
pub mod mapping;
pub mod runs;
pub mod stateless;
#[cfg(test)]
mod testing;
pub mod upsert;
pub mod window;

pub use ahead::Ahead;
pub use config::ConfigError;
pub use dedup::{Dedup, DedupConfig, Late};
pub use event_time::EventTime;
pub use gate::Gate;
pub use join::{Join, JoinColumn, JoinConfig, JoinKind, JoinSide, TemporalConfig, TemporalJoin};
pub use lookup::{Lookup, LookupConfig, LookupKeyer, LookupTable};
pub use mapping::Mapping;
pub use stateless::Stateless;
pub use upsert::{Upsert, UpsertConfig};
pub use window::{Window, WindowConfig};

#[cfg(test)]
#[global_allocator]
static MEMORY: testkit::CountingAllocator = testkit::CountingAllocator;
