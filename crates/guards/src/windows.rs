//! The step that aggregates by key and window: a count, a sum, an average and a maximum of 10,000 keys, the decode job's part and the lane's.
//!
//! Owns the columns and the settings. Does not own how they are counted.

use std::time::Duration;

use dataflow::{
    Batch, BlockBuilder, Column, ColumnType, Decoder, Operator, Partition, Probed, Schema, State,
};
use formats::avro::{AvroDecoder, AvroOptions};
use operators::window::{Aggregate, Function, Windows};
use operators::{Window, WindowConfig};

use crate::Work;
use crate::readings::long;
use crate::rows::RECORDS;

const WRITER: &str = r#"{"type": "record", "name": "Reading", "fields": [
    {"name": "id", "type": "int"}, {"name": "amount", "type": "long"}, {"name": "heat", "type": "double"}]}"#;
/// Keys, each drawn as often as any other.
const KEYS: u64 = 10_000;
/// Records of a batch: about what a block of 256 KiB holds of records of 43 bytes.
const BATCH: u64 = 5_000;
/// Of the first record; all are of one window.
const TIME_MS: i64 = 1_764_000_000_000;

fn schema() -> Schema {
    let column = Column::new;
    Schema::new(vec![
        column("id", ColumnType::Int32),
        column("amount", ColumnType::Int64),
        column("heat", ColumnType::Float64),
    ])
}

fn step() -> Window {
    let aggregate = Aggregate::new;
    let config = WindowConfig {
        key: vec!["id".to_owned()],
        windows: Windows::Tumbling { size: Duration::from_secs(3600) },
        lateness: Duration::ZERO,
        emit: None,
        aggregates: vec![
            aggregate("n", Function::Count, None),
            aggregate("total", Function::Sum, Some("amount")),
            aggregate("mean", Function::Avg, Some("heat")),
            aggregate("highest", Function::Max, Some("heat")),
        ],
    };
    Window::new(&schema(), &config).expect("a valid configuration")
}

/// Records as the decoder gives them.
fn batches() -> Vec<Batch> {
    let decoder = AvroDecoder::new(schema(), WRITER, AvroOptions::default()).expect("the columns fit");
    let mut builder = BlockBuilder::new(Partition::new("readings", 0), 0);
    let (mut batches, mut record, mut random) = (Vec::new(), Vec::new(), 1_u64);
    for n in 0..RECORDS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        record.clear();
        long(((random >> 33) % KEYS) as i64, &mut record);
        long((random >> 40) as i64, &mut record);
        record.extend(((random >> 20) as f64 / 1e6).to_le_bytes());
        builder.push(n, TIME_MS + n as i64, Some(&record));
        if (n + 1) % BATCH == 0 {
            batches.push(decoder.decode(&builder.take()).batch);
        }
    }
    batches
}

/// The aggregates of each batch, as a decode job makes them; then the lane's part, and the seal.
pub(crate) fn window() -> Work {
    let (mut step, batches) = (step(), batches());
    let ahead = step.ahead().expect("it has such work");
    Box::new(move || {
        let mut absorbed = 0;
        for batch in batches {
            let scratch = ahead.apply(&batch).expect("a batch of the schema");
            let probed = Probed { batch, reads: Vec::new(), scratch: Some(scratch) };
            absorbed += step.finish(probed, &[]).expect("as made ahead").absorbed;
        }
        assert!(step.advance(TIME_MS).expect("it has memory").is_empty(), "the window is open");
        std::hint::black_box(step.seal(TIME_MS));
        absorbed
    })
}
