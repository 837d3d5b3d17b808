//! Requests into columns.

mod corpus;
mod fuzz;
mod rules;
mod written;

use dataflow::block::TIME_UNKNOWN_MS;
use dataflow::{BlockBuilder, Decoded, Decoder, Partition, RecordBlock, Schema};

use super::{ConfigError, OtlpDecoder, OtlpOptions, Signal};
use crate::testing;

/// Columns of logs, as the collector's exporter has them, and some that it has not.
pub(super) const LOGS: [&str; 21] = [
    "Timestamp DateTime64(9)",
    "ObservedTimestamp DateTime64(9)",
    "TraceId String",
    "SpanId String",
    "TraceFlags UInt8",
    "Flags UInt32",
    "SeverityText LowCardinality(String)",
    "SeverityNumber UInt8",
    "ServiceName LowCardinality(String)",
    "Body String",
    "ResourceSchemaUrl LowCardinality(String)",
    "ResourceAttributes Map(LowCardinality(String), String)",
    "ResourceDroppedAttrCount UInt32",
    "ScopeSchemaUrl LowCardinality(String)",
    "ScopeName String",
    "ScopeVersion LowCardinality(String)",
    "ScopeAttributes Map(LowCardinality(String), String)",
    "ScopeDroppedAttrCount UInt32",
    "LogAttributes Map(LowCardinality(String), String)",
    "DroppedAttrCount UInt32",
    "EventName String",
];

pub(super) fn decoder(signal: Signal, schema: Schema) -> Result<OtlpDecoder, ConfigError> {
    OtlpDecoder::new(signal, schema, OtlpOptions::default())
}

pub(super) fn logs() -> OtlpDecoder {
    decoder(Signal::Logs, testing::schema(&LOGS)).expect("the columns fit")
}

/// A block of these requests at positions 100, 101, …, without a time of their own.
pub(super) fn block<R: AsRef<[u8]>>(requests: &[R]) -> RecordBlock {
    let mut builder = BlockBuilder::new(Partition::new("events", 3), 100);
    for (n, request) in requests.iter().enumerate() {
        builder.push(100 + n as u64, TIME_UNKNOWN_MS, Some(request.as_ref()));
    }
    builder.take()
}

pub(super) fn decode<R: AsRef<[u8]>>(decoder: &OtlpDecoder, requests: &[R]) -> Decoded {
    decoder.decode(&block(requests))
}

/// A request of one gauge with one point.
pub(super) fn a_gauge() -> Vec<u8> {
    use written::{field, fixed};
    let gauge = field(1, [fixed(3, 1_764_000_000_000_000_000), fixed(4, 1.5f64.to_bits())].concat());
    written::request("a", &[[field(1, "name"), field(5, gauge)].concat()])
}
