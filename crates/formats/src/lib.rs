//! From the bytes of records to Arrow columns of the target's types.
//!
//! Owns the formats: each is one [`dataflow::Decoder`] that is compiled once from the target's schema and then turns
//! blocks into batches and rejects. Does not own where the bytes come from (`sources`), the list of column types
//! (`dataflow::types`), nor what a null means for a column with a DEFAULT (`clickhouse`).
//!
//! | module    | what it owns                                                            |
//! |-----------|-------------------------------------------------------------------------|
//! | [`json`]  | records that are JSON objects                                           |
//! | [`avro`]  | records that are Avro data, with their writer's schema                  |
//! | [`protobuf`] | records that are Protocol Buffers messages, with their descriptors  |
//! | [`csv`]   | records that are lines of CSV or TSV                                    |
//! | [`otlp`]  | records that are requests of OTLP, each with many rows                  |
//! | `columns` | growing columns and the rules of what they take, shared by all formats  |
//! | `fault`   | why a record in binary is turned down, and the sentence for it           |
//! | `paths`   | columns by the parts of their fields' dotted names                      |
//! | `rows`    | the loop over a block's records, those that are rejected unread; columns with their origins |
//! | [`schemas`] | schemas that records or blocks name, and the plans compiled for them  |
//! | `shown`   | pieces of a record as messages show them                                |
//! | [`tombstones`] | records without a body as rows, from their keys                   |
//! | `varint`  | numbers of seven bits a byte                                            |
//! | `wide`    | sixteen bytes in one step                                               |

pub mod avro;
mod columns;
pub mod csv;
mod fault;
pub mod json;
pub mod otlp;
mod paths;
pub mod protobuf;
mod rows;
pub mod schemas;
mod shown;
#[cfg(test)]
mod testing;
pub mod tombstones;
mod varint;
mod wide;

pub use columns::ColumnsError;

#[cfg(test)]
#[global_allocator]
static MEMORY: testkit::CountingAllocator = testkit::CountingAllocator;
