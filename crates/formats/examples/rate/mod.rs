//! What the programs of this folder share: blocks of records, and the rate of a decoder over them.
//!
//! Owns blocks as a source hands them out, and the lines that are printed: one a repeat, by the thread's own CPU time, which the kernel counts
//! (`/proc/thread-self/schedstat`), so other processes do not count. Does not own records, columns and decoders: each program has its own.

use std::hint::black_box;

use dataflow::{BlockBuilder, Decoder, Partition, RecordBlock};

const REPEATS: usize = 7;

/// The arguments: the number of records, 1,000,000 if there is none, and their shape.
pub fn arguments() -> (u64, Option<String>) {
    let mut arguments = std::env::args().skip(1);
    let records = arguments.next().map_or(1_000_000, |n| n.parse().expect("a number of records"));
    (records, arguments.next())
}

/// So many records in blocks of about 1 MiB.
pub fn blocks<R: AsRef<[u8]>>(records: u64, mut record: impl FnMut(u64) -> R) -> Vec<RecordBlock> {
    let mut builder = BlockBuilder::new(Partition::new("events", 0), 0);
    let mut blocks = Vec::new();
    for n in 0..records {
        builder.push(n, 0, Some(record(n).as_ref()));
        if builder.is_full() {
            blocks.push(builder.take());
        }
    }
    if !builder.is_empty() {
        blocks.push(builder.take());
    }
    blocks
}

/// Decodes the blocks again and again, and prints how fast. Every record must become a row.
pub fn print(decoder: &dyn Decoder, blocks: &[RecordBlock]) {
    let records: usize = blocks.iter().map(RecordBlock::len).sum();
    let bytes: usize = blocks.iter().map(|block| block.payloads.bytes.len()).sum();
    println!("{records} records, {:.1} bytes each", bytes as f64 / records as f64);
    for _ in 0..REPEATS {
        let start = cpu_ns();
        let mut rows = 0;
        for block in blocks {
            let decoded = black_box(decoder.decode(black_box(block)));
            assert!(decoded.rejects.is_empty(), "{:?}", decoded.rejects.first());
            rows += decoded.batch.len();
        }
        let seconds = (cpu_ns() - start) as f64 / 1e9;
        assert_eq!(rows, records);
        println!(
            "{:.4} CPU-s per million records, {:.2} million records per CPU-s, {:.2} GB/s",
            seconds * 1e6 / records as f64,
            records as f64 / seconds / 1e6,
            bytes as f64 / seconds / 1e9,
        );
    }
}

/// CPU time of this thread in nanoseconds.
fn cpu_ns() -> u64 {
    let stat =
        std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux counts the time of threads");
    stat.split(' ').next().and_then(|n| n.parse().ok()).expect("the first number is the time on a CPU")
}
