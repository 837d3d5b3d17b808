//! What operators do with a pipeline besides running it.
//!
//! Owns the questions and their order: each module is a command's work without its words on the command line. Does not own options and what is
//! printed (the program does), nor the decisions behind an answer, a forgotten stream or another name (`engine`).
//!
//! | module          | what it owns                                                          |
//! |-----------------|-----------------------------------------------------------------------|
//! | [`capacity`]    | how much hardware a pipeline needs for a load                         |
//! | [`dead_letters`] | reading letters, what a replay takes, what became of it               |
//! | [`fields`]      | what several answers say in the same JSON fields                      |
//! | [`pipelines`]   | the pipelines of a store, and their end                               |
//! | [`plan`]        | what the next run would change                                        |
//! | [`rewind`]      | where a stopped pipeline is moved to                                  |
//! | [`running`]     | what the process that runs a pipeline says of it                      |
//! | [`status`]      | what is known of a pipeline, running or not                           |
//! | [`store`]       | everything of a pipeline in its store, read and verified              |
//! | [`verify`]      | the table compared with the source                                    |
#![allow(
    clippy::disallowed_methods,
    reason = "a person waits: real clock, real threads; the data's path gets them through dataflow::Runtime"
)]

pub mod capacity;
pub mod dead_letters;
pub mod fields;
pub mod pipelines;
pub mod plan;
pub mod rewind;
pub mod running;
pub mod status;
pub mod store;
pub mod verify;
