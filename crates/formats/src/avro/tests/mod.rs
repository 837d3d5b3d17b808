//! Bytes of another encoder, bytes of an encoder of our own for random schemas, changed bytes, and what holds for whole records.

mod contract;
mod flat;
mod framed;
mod fuzz;
mod random;
pub(super) mod written;

use dataflow::{Decoded, Decoder};

use super::{AvroDecoder, AvroOptions, ConfigError};
use crate::testing::{block, row, schema};

/// A decoder of records with these fields, as JSON, for columns as in [`schema`].
fn decoder(fields: &str, columns: &[&str]) -> Result<AvroDecoder, ConfigError> {
    AvroDecoder::new(schema(columns), &record(fields), AvroOptions::default())
}

/// The schema of a record with these fields.
fn record(fields: &str) -> String {
    format!(r#"{{"type": "record", "name": "reading", "fields": [{fields}]}}"#)
}

/// Decodes these records.
fn decode<R: AsRef<[u8]>>(decoder: &AvroDecoder, records: &[R]) -> Decoded {
    decoder.decode(&block(records))
}

/// What one record becomes: its values, or its reject as `reason: message`.
fn one(decoder: &AvroDecoder, record: &[u8]) -> Result<Vec<String>, String> {
    let decoded = decode(decoder, &[record]);
    match &decoded.rejects[..] {
        [] => Ok(row(&decoded, 0)),
        [reject] => Err(format!("{}: {}", reject.reason.as_str(), reject.message)),
        more => panic!("one record gave {} rejects", more.len()),
    }
}
