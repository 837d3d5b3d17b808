//! A pipeline as its users write it, and the parts that it is made of.
//!
//! Owns the pipeline file and the one `match` from a name in it to a constructor. Does not own what the parts do (every other crate
//! does its own), nor what operators do with a pipeline from outside: commands, HTTP, logs (`forebay`).
//!
//! | module      | what it owns                                              |
//! |-------------|-----------------------------------------------------------|
//! | [`config`]  | the pipeline file                                         |
//! | [`lookups`] | the files and tables that records look something up in    |
//! | [`parts`]   | what the file says that may change at any time, for the journal |
//! | [`plan`]    | schemas from record to table: what is decoded, where each step runs |
//! | [`wiring`]  | from settings to sources, steps, tables, store and engine |
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test that waits does so by the real clock"))]

pub mod config;
pub mod lookups;
pub mod parts;
pub mod plan;
pub mod wiring;

pub use replays;
