//! From the bytes of records to Arrow columns of the target's types.
//!
//! Owns the formats: each is one [`dataflow::Decoder`] that is compiled once from the target's schema and then turns
//! blocks into batches and rejects. Does not own where the bytes come from (`sources`), the list of column types
//! (`dataflow::types`), nor what a null means for a column with a DEFAULT (`clickhouse`).

pub mod json;
