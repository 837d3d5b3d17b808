//! Schemas that records were written with, from a registry that speaks Confluent's protocol (Confluent, Apicurio, Karapace, Redpanda), or from
//! another [`Registry`].
//!
//! Owns the requests ([`Client`]), and a source that fetches the schemas a block names before it hands the block on ([`WithSchemas`]), so that
//! decoding stays pure and waits for nothing. Does not own the schemas' meaning (`formats::avro`, `formats::protobuf`) nor the records' header (`formats::schemas`), nor how a source's own
//! brokers are asked for schemas (`sources`).

mod client;
mod source;

pub use client::{Client, Config, Found, Kind, RegistryError};
pub use source::{Registry, WithSchemas};
