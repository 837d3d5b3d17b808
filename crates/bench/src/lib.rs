//! Measures the whole engine, as its users run it.
//!
//! Owns the order of a measurement: server, data, runs, verdicts. Does not own the records and the right answers (`workloads`), nor
//! standard output and exit codes, which are the program's. The engine is a child process, so that its CPU and memory are its own;
//! ClickHouse is another. Every run starts with an empty table and an empty store, and every run is judged by the table's content: a fast
//! wrong answer is no result.
//!
//! | module        | what it owns                                           |
//! |---------------|--------------------------------------------------------|
//! | [`options`]   | the command line of `forebay bench`                    |
//! | [`glassflow`] | workload: deduplicate Kafka into ClickHouse            |
//! | [`dedup`]     | workload: ingest files twice                           |
//! | [`clients`]   | workload: wide rows from columns, by a client library  |
//! | [`flink`]     | workload: Avro readings by sensor and window           |
//! | [`nexmark`]   | workload: queries of Nexmark                           |
//! | [`buffer`]    | workload: OTLP logs through a gateway and a log         |
//! | [`peer`]      | programs of others, built here                         |
//! | [`place`]     | the folder, the names, what every workload is given     |
//! | [`at_hand`]   | memory touched before a run                            |
//! | [`child`]     | processes and what they used                           |
//! | [`topic`]     | a topic for one benchmark, filled or fed at a pace      |
//! | [`pulsar_topic`] | the same of Pulsar, filled                          |
//! | [`server`]    | ClickHouse, and questions about the table              |
//! | [`engine`]    | one run of `forebay run`, and what is seen of it       |
//! | [`counts`]    | counts of a table while it fills, latencies by [`visible`] |
//! | [`latency`]   | quantiles of the engine's histogram                    |
//! | [`figure`]    | what is measured, by name                              |
//! | [`report`]    | runs of arms, medians, verdict: the shape of `--json`  |
//! | [`trace`]     | what a run did over time                               |
//! | [`grid`]      | a small table of a report: a row for each rate, say      |
//! | [`table`]     | the report for people                                  |
//! | [`html`]      | the report as one page, with plots by [`plot`]         |
//!
//! **The next workload** is a folder in `crates/workloads` (records and oracle), a file here with a `Plan` and a `measure`
//! that gives a [`report::Report`] of its runs, and a file with its options in `options`. An arm of a workload is a name in
//! its runs; the report sums up each by itself.
#![allow(clippy::disallowed_methods, reason = "measures by the real clock; nothing here is simulated")]

mod at_hand;
pub mod buffer;
mod child;
pub mod clients;
mod counts;
pub mod dedup;
mod engine;
mod figure;
pub mod flink;
pub mod glassflow;
pub mod grid;
pub mod html;
mod latency;
mod maven;
pub mod nexmark;
pub mod options;
pub mod peer;
pub mod place;
mod plot;
mod pulsar_topic;
pub mod report;
pub mod server;
pub mod table;
pub mod topic;
mod trace;
mod visible;

use std::time::Duration;

/// A run that takes longer than this hangs: at 10,000 records a second, ten million records.
const RUN_MAX: Duration = Duration::from_secs(1_000);

/// A start that takes longer than this hangs.
const START_MAX: Duration = Duration::from_secs(60);
