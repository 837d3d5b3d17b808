//! The steps that handle rows, on records of the `glassflow` workload.
//!
//! Owns the blocks, the keys that dedup holds beforehand, and the work of decoding JSON and CSV, dedup and encoding. Does not own OTLP
//! (`logs`), Avro and windows (`readings`, `windows`), nor how steps are counted.

use std::sync::Arc;
use std::time::Duration;

use clickhouse::compress::{Compressor, Method};
use clickhouse::native::{BlockPlan, Rows};
use dataflow::{
    Batch, BlockBuilder, Column, ColumnType, Decoder, FrameId, Operator, Partition, RecordBlock, Schema,
    Selected, State,
};
use formats::csv::{CsvDecoder, CsvOptions};
use formats::json::{JsonDecoder, JsonOptions};
use operators::{Dedup, DedupConfig, Late};
use workloads::glassflow::{RECORD_BYTES_MAX, Spec, Workload};

use crate::Work;

/// Few enough that valgrind, fifty times slower than the machine, takes seconds; several blocks, so that what is done once
/// a block shows as it does in a lane.
pub(crate) const RECORDS: u64 = 20_000;
/// Keys that the dedup step holds beforehand: its table then stands between two growths, and grows once on the way.
const HELD: u64 = 50_000;
/// All records are of one moment, so no key leaves.
const TIME_MS: i64 = 1_735_689_600_000;

pub(crate) fn schema() -> Schema {
    let column = |name: &str, column_type, field: &str| Column {
        field: field.into(),
        ..Column::new(name, column_type)
    };
    Schema::new(vec![
        column("event_id", ColumnType::Uuid, "event_id"),
        column("user_id", ColumnType::Uuid, "user_id"),
        column("created_at", ColumnType::DateTime { timezone: None }, "created_at"),
        column("user_name", ColumnType::String, "name"),
        column("user_email", ColumnType::String, "email"),
    ])
}

/// The uniques from number `first` on, at the positions from `position` on.
fn blocks(first: u64, count: u64, position: u64) -> Vec<RecordBlock> {
    blocks_of(Spec { near_duplicates: false, ..Spec::default() }, first, count, position)
}

/// The records of a workload's first publisher.
fn blocks_of(spec: Spec, first: u64, count: u64, position: u64) -> Vec<RecordBlock> {
    let spec = Spec { publishers: 1, ..spec };
    let workload = Workload::new(spec).expect("the default with fewer duplicates is a workload");
    let mut builder = BlockBuilder::new(Partition::new("events", 0), position.into());
    let (mut blocks, mut record) = (Vec::new(), Vec::with_capacity(RECORD_BYTES_MAX));
    for n in 0..count {
        record.clear();
        workload.write(0, first + n, &mut record).expect("the workload is longer");
        builder.push(position + n, TIME_MS, Some(&record));
        if builder.is_full() {
            blocks.push(builder.take());
        }
    }
    if !builder.is_empty() {
        blocks.push(builder.take());
    }
    blocks
}

fn decoder() -> JsonDecoder {
    JsonDecoder::new(schema(), JsonOptions::default()).expect("the schema is good")
}

/// The same as columns.
pub(crate) fn batches(first: u64, count: u64, position: u64) -> Vec<Batch> {
    decoded(&blocks(first, count, position))
}

fn decoded(blocks: &[RecordBlock]) -> Vec<Batch> {
    let decoder = decoder();
    let decode = |block: &RecordBlock| {
        let decoded = decoder.decode(block);
        assert!(decoded.rejects.is_empty(), "the workload's records fit the schema");
        decoded.batch
    };
    blocks.iter().map(decode).collect()
}

pub(crate) fn decode() -> Work {
    let (decoder, blocks) = (decoder(), blocks(0, RECORDS, 0));
    Box::new(move || blocks.iter().map(|block| decoder.decode(block).batch.len() as u64).sum())
}

pub(crate) fn decode_csv() -> Work {
    let names = ["event_id", "user_id", "name", "email", "created_at"];
    let options = CsvOptions { columns: names.map(String::from).into(), ..CsvOptions::default() };
    let decoder = CsvDecoder::new(schema(), options).expect("the schema is good");
    let blocks: Vec<_> = blocks(0, RECORDS, 0).iter().map(|block| lines(block, &names)).collect();
    Box::new(move || blocks.iter().map(|block| decoder.decode(block).batch.len() as u64).sum())
}

/// The records of a block as lines of CSV.
fn lines(block: &RecordBlock, names: &[&str]) -> RecordBlock {
    let mut builder = BlockBuilder::new(block.partition.clone(), block.position(0));
    for (row, position) in block.positions.iter().enumerate() {
        let record = std::str::from_utf8(block.payloads.get(row)).expect("the workload writes text");
        // Its names and values are texts without escapes.
        let mut quoted = record.split('"').skip(1).step_by(2);
        let mut fields = vec![""; names.len()];
        while let (Some(name), Some(value)) = (quoted.next(), quoted.next()) {
            fields[names.iter().position(|known| *known == name).expect("a field of the workload")] = value;
        }
        builder.push(*position, TIME_MS, Some(fields.join(",").as_bytes()));
    }
    builder.take()
}

pub(crate) fn dedup_new() -> Work {
    dedup(HELD)
}

pub(crate) fn dedup_known() -> Work {
    dedup(0)
}

/// A step that holds keys; then the records from number `first` on pass it, and it is sealed.
fn dedup(first: u64) -> Work {
    let window = Some(Duration::from_secs(8 * 3600));
    let config = DedupConfig { key: vec!["event_id".to_owned()], window, late: Late::Keep };
    let mut step = Dedup::new(&schema(), config).expect("a valid configuration");
    pass(&mut step, batches(0, HELD, 0));
    let batches = batches(first, RECORDS, HELD);
    let new = if first < HELD { 0 } else { RECORDS };
    Box::new(move || {
        let passed = pass(&mut step, batches);
        assert_eq!(passed, new, "only what is new passes");
        RECORDS
    })
}

/// Records of which every eleventh is a copy of the one before, through the step into a block.
pub(crate) fn copies() -> Work {
    let config = DedupConfig { key: vec!["event_id".to_owned()], window: None, late: Late::Keep };
    let mut step = Dedup::new(&schema(), config).expect("a valid configuration");
    let batches = decoded(&blocks_of(Spec::default(), 0, RECORDS, 0));
    let plan = BlockPlan::new(&schema(), Some("_forebay"));
    Box::new(move || {
        let mut duplicates = 0;
        let mut rows = Vec::with_capacity(batches.len());
        for batch in batches {
            let probed = step.probe(batch).expect("a batch of the schema");
            let output = step.finish(probed, &[]).expect("as probed");
            duplicates += output.duplicates;
            let selected = Selected::without(output.batch.rows, &output.dropped);
            let origins = (selected.gather(&output.batch.positions), selected.gather(&output.batch.times_ms));
            std::hint::black_box(origins);
            rows.push(selected);
        }
        let batches: Vec<_> = rows.iter().map(|rows| rows.batch().clone()).collect();
        let stretches: Vec<_> = rows.iter().map(Selected::stretches).collect();
        let mut compressor = Compressor::new(Method::None);
        let rest = plan
            .encode(&batches, Rows::Stretches(&stretches), FrameId(7), &mut |out| compressor.take_full(out))
            .expect("rows of the schema");
        std::hint::black_box(compressor.finish_with(rest));
        duplicates + rows.iter().map(Selected::len).sum::<usize>() as u64
    })
}

/// The rows that are let through.
fn pass(step: &mut Dedup, batches: Vec<Batch>) -> u64 {
    let mut rows = 0;
    for batch in batches {
        let probed = step.probe(batch).expect("a batch of the schema");
        let output = step.finish(probed, &[]).expect("as probed");
        rows += (output.batch.len() - output.dropped.len()) as u64;
    }
    std::hint::black_box(step.seal(TIME_MS));
    rows
}

pub(crate) fn encode() -> Work {
    let plan = BlockPlan::new(&schema(), Some("_forebay"));
    let rows: Arc<[_]> = batches(0, RECORDS, 0).into_iter().map(|batch| batch.rows).collect();
    Box::new(move || {
        let mut compressor = Compressor::new(Method::Lz4);
        let rest = plan
            .encode(&rows, Rows::All, FrameId(7), &mut |out| compressor.take_full(out))
            .expect("rows of the schema");
        compressor.push(&rest);
        std::hint::black_box(compressor.finish());
        Rows::All.count(rows.iter().map(|batch| batch.num_rows())) as u64
    })
}
