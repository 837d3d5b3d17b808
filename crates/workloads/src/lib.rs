//! The published experiments as pure generators: the same seed gives the same bytes, from any position, on any machine.
//!
//! Owns what is sent and what must be in the table afterwards. Does not own brokers, tables, clocks or rates: those
//! belong to the runners in `forebay`'s bench and to `sources::generator`. Nothing here reads a clock or any randomness
//! but the seed's.
//!
//! | module        | experiment                                                        |
//! |---------------|-------------------------------------------------------------------|
//! | [`glassflow`] | JSON events with duplicates, from Kafka into ClickHouse, once each |

pub mod glassflow;
mod random;
