//! The published experiments as pure generators: the same seed gives the same bytes, from any position, on any machine.
//!
//! Owns what is sent and what must be in the table afterwards. Does not own brokers, tables, clocks or rates: those belong to the runners
//! in `bench` and to `sources::generator`. Nothing here reads a clock or any randomness but the seed's.
//!
//! | module        | experiment                                                        |
//! |---------------|-------------------------------------------------------------------|
//! | [`glassflow`] | JSON events with duplicates, from Kafka into ClickHouse, once each |
//! | [`dedup`]     | five countries' sales, every file read twice                       |
//! | [`clients`]   | wide rows, sent by a client library column by column               |
//! | [`flink`]     | Avro readings, aggregated by sensor and window of event time      |
//! | [`buffer`]    | log records of OpenTelemetry, in requests                         |
//! | [`nexmark`]   | people, auctions and bids, for Nexmark's queries                  |
//!
//! They share numbers from counters (`random`), times as text (`text`), and what a table holds as three numbers ([`content`]).
//!
//! The next workload is one more folder with the same three parts: a checked `Spec`, a `Workload` that writes the record at a
//! position, and an `oracle` with what the table must hold ([`content::Content`]) and the query that says what it holds.

pub mod buffer;
pub mod clients;
pub mod content;
pub mod dedup;
pub mod flink;
pub mod glassflow;
pub mod nexmark;
mod random;
mod text;
