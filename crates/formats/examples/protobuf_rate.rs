//! Records per CPU-second of the Protobuf decoder.
//!
//! Owns the records, and which of their fields have columns. Does not own the rates of other formats, each of which has a program beside
//! this one, nor that of a whole pipeline (`bench`).
//!
//! `cargo run --release -p formats --example protobuf_rate -- [records] [shape]`, by default 1,000,000 of `readings` (the Flink workload's
//! records, as `avro_rate` has them: eight fields, each with a column). Other shapes are `some`, the same records, of which three fields have columns,
//! `texts`, the same with one more column that no record fills, so that they are read one by one, and `registry`, `readings` behind the number of their schema.

mod rate;
#[path = "rate/readings.rs"]
mod readings;

use std::sync::Arc;

use dataflow::{Column, ColumnType, Schema};
use formats::protobuf::{ProtobufDecoder, ProtobufOptions, Types};
use formats::schemas::{SchemaText, Schemas, Writer};

const TYPES: &str = r#"syntax = "proto3";
message SensorData {
    int32 sensorId = 1; int32 sensorType = 2; double temperature = 3; double humidity = 4; double pressure = 5; double batteryLevel = 6;
    int32 status = 7; int64 timestamp = 8; string note = 9;
}"#;

/// In front of each record of `registry`: schema 7, its first message.
const HEADER: [u8; 6] = [0, 0, 0, 0, 7, 0];

fn main() {
    let (records, shape) = rate::arguments();
    let shape = shape.unwrap_or_else(|| "readings".to_owned());
    let is_wanted = match &*shape {
        "readings" | "registry" => |field: &str| field != "note",
        "texts" => |_: &str| true,
        "some" => |field: &str| matches!(field, "sensorId" | "humidity" | "timestamp"),
        other => panic!("no shape `{other}`; there are readings, some, texts and registry"),
    };
    let note = Column::new("note", ColumnType::String);
    let columns = readings::columns().into_iter().chain([note]);
    let schema = Schema::new(columns.filter(|column| is_wanted(&column.field)).collect());
    let (options, is_framed) = (ProtobufOptions::default(), shape == "registry");
    let decoder = if is_framed {
        let schemas = Arc::new(Schemas::default());
        schemas.put(7, Writer::Texts([SchemaText::own(TYPES)].into())).expect("room for one");
        ProtobufDecoder::framed(schema, schemas, None, options)
    } else {
        let types =
            Types::of_text("t.proto", Arc::new(|name| Ok((name == "t.proto").then(|| TYPES.to_owned()))));
        ProtobufDecoder::new(schema, &types.expect("the text has no mistake"), "SensorData", options)
    };
    let (decoder, mut random) = (decoder.expect("the columns fit"), 1);
    let header = if is_framed { &HEADER[..] } else { &[] };
    rate::print(&decoder, &rate::blocks(records, |n| record(header, n, &mut random)));
}

fn record(header: &[u8], n: u64, random: &mut u64) -> Vec<u8> {
    let reading = readings::reading(n, random);
    let mut record = header.to_vec();
    varint(1, reading.sensor, &mut record);
    varint(2, reading.kind, &mut record);
    for (field, value) in (3..).zip(reading.measured) {
        record.push(field << 3 | 1);
        record.extend(value.to_le_bytes());
    }
    varint(7, reading.status, &mut record);
    varint(8, reading.time_ms, &mut record);
    record
}

fn varint(field: u8, value: u64, out: &mut Vec<u8>) {
    out.push(field << 3);
    let mut rest = value;
    while rest > 0x7f {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}
