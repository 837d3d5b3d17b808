//! The ClickHouse table: rows to Native blocks, blocks to inserts, answers to decisions.
//!
//! Owns everything that is ClickHouse's: type names, the block format, HTTP, error codes, table settings. Does not own when
//! a frame may be sent (`protocol`), nor retries and back-off (`engine`), nor the pipeline file (the binary).
//!
//! | module       | what it owns                                              | does I/O |
//! |--------------|-----------------------------------------------------------|----------|
//! | [`types`]    | type names to `ColumnType` and back                       | no       |
//! | [`native`]   | Arrow rows to one Native block                            | no       |
//! | [`compress`] | the framing of compressed chunks                          | no       |
//! | [`response`] | answers to effects and remedies                           | no       |
//! | [`config`]   | plain values: server, table, secrets                      | no       |
//! | [`client`]   | HTTP: questions and inserts                               | yes      |

pub mod client;
pub mod compress;
pub mod config;
pub mod native;
pub mod partition;
pub mod response;
pub mod sort;
pub mod types;

#[cfg(test)]
mod testing;
