//! What holds for whole records, blocks, and names that do not fit the columns; what another writer wrote; changed bytes.

mod contract;
mod fuzz;
mod random;

use dataflow::{Decoded, Decoder};

use super::{ConfigError, CsvDecoder, CsvOptions};
use crate::testing::{block, row, schema};

/// A decoder of records with these fields, for columns as in [`schema`].
fn decoder(fields: &[&str], columns: &[&str]) -> Result<CsvDecoder, ConfigError> {
    CsvDecoder::new(schema(columns), options(fields))
}

fn options(fields: &[&str]) -> CsvOptions {
    CsvOptions { columns: fields.iter().map(|name| (*name).to_owned()).collect(), ..CsvOptions::default() }
}

/// Decodes these records.
fn decode<R: AsRef<[u8]>>(decoder: &CsvDecoder, records: &[R]) -> Decoded {
    decoder.decode(&block(records))
}

/// What one record becomes: its values, or its reject as `reason: message`.
fn one(decoder: &CsvDecoder, record: &[u8]) -> Result<Vec<String>, String> {
    let decoded = decode(decoder, &[record]);
    match &decoded.rejects[..] {
        [] => Ok(row(&decoded, 0)),
        [reject] => Err(format!("{}: {}", reject.reason.as_str(), reject.message)),
        more => panic!("one record gave {} rejects", more.len()),
    }
}
