//! Bytes of other encoders, random messages, changed bytes, and what holds for whole records.

mod contract;
mod framed;
mod fuzz;
mod random;
mod types;
mod written;

use std::sync::Arc;

use dataflow::{Decoded, Decoder};

use super::{ConfigError, ProtobufDecoder, ProtobufOptions, Types};
use crate::testing::{block, row, schema};

/// What every schema of the tests begins with.
const IMPORTS: &str = r#"import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto"; import "google/protobuf/wrappers.proto";"#;

/// The types of a schema with the message `M` of this body.
fn types(syntax: &str, body: &str) -> Types {
    let text = format!(r#"syntax = "{syntax}"; package p; {IMPORTS} message M {{ {body} }}"#);
    Types::of_text("m.proto", Arc::new(move |name| Ok((name == "m.proto").then(|| text.clone()))))
        .unwrap_or_else(|error| panic!("{body}: {error}"))
}

/// A decoder of the message `M` of this body, for columns as in [`schema`].
fn decoder_of(syntax: &str, body: &str, columns: &[&str]) -> Result<ProtobufDecoder, ConfigError> {
    ProtobufDecoder::new(schema(columns), &types(syntax, body), "p.M", ProtobufOptions::default())
}

/// The same in proto3.
fn decoder(body: &str, columns: &[&str]) -> ProtobufDecoder {
    decoder_of("proto3", body, columns).unwrap_or_else(|error| panic!("{body}: {error}"))
}

/// Decodes these records.
fn decode<R: AsRef<[u8]>>(decoder: &ProtobufDecoder, records: &[R]) -> Decoded {
    decoder.decode(&block(records))
}

/// What one record becomes: its values, or its reject as `reason: message`.
fn one(decoder: &ProtobufDecoder, record: &[u8]) -> Result<Vec<String>, String> {
    let decoded = decode(decoder, &[record]);
    match &decoded.rejects[..] {
        [] => Ok(row(&decoded, 0)),
        [reject] => Err(format!("{}: {}", reject.reason.as_str(), reject.message)),
        more => panic!("one record gave {} rejects", more.len()),
    }
}

/// Bytes from hex digits with spaces; `-` is none.
fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}
