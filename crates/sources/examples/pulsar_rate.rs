//! Messages per CPU-second of the Pulsar source alone.
//!
//! Owns the messages and the measurement. Does not own the rate of a whole pipeline from Pulsar (`bench flink`), nor that of a decoder, for
//! which `formats` has examples.
//!
//! `cargo run --release -p sources --example pulsar_rate -- [messages] [codec]`, by default 5,000,000 in batches of 1,000 that are not packed.
//! The codec is `none`, `lz4`, `zlib`, `zstd` or `snappy`. Needs what `scripts/setup test` fetches: it starts a Pulsar of its own.
//!
//! Messages have 43 bytes, as the Avro records of the Flink workload. Prints one line a repeat. The CPU time is that of this process, all
//! threads: receiving, checksums, unpacking and the copy into blocks, which are dropped.

#[path = "../tests/support/runtime.rs"]
mod runtime;

use std::sync::Arc;

use dataflow::{Event, ReadFrom, Source};
use runtime::TestRuntime;
use sources::pulsar::produce::{Compression, Outgoing, Producer};
use sources::pulsar::{PulsarOptions, PulsarSource};
use testkit::{Pulsar, Service};

const REPEATS: usize = 3;
const BATCH: usize = 1_000;
const BYTES: usize = 43;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let messages: usize = arguments.next().map_or(5_000_000, |n| n.parse().expect("a number of messages"));
    let codec = match arguments.next().as_deref() {
        None | Some("none") => Compression::None,
        Some("lz4") => Compression::Lz4,
        Some("zlib") => Compression::Zlib,
        Some("zstd") => Compression::Zstd,
        Some("snappy") => Compression::Snappy,
        Some(other) => panic!("no codec `{other}`"),
    };
    if !testkit::available(&[Service::Pulsar]) {
        return;
    }
    let pulsar = Pulsar::start(testkit::PulsarOptions::default()).expect("pulsar starts");
    pulsar.create_topic("readings", 0).expect("a topic");
    let hold = "/persistent/public/default/readings/subscription/rate";
    pulsar.admin("PUT", hold, r#"{"ledgerId":-1,"entryId":-1}"#).expect("holds what is not read");
    let batches = messages / BATCH;
    fill(&pulsar, batches, codec);
    println!("{} messages of {BYTES} bytes in {batches} batches, {codec:?}", batches * BATCH);
    let tokio = tokio::runtime::Runtime::new().expect("starts");
    for _ in 0..REPEATS {
        let before = cpu_s();
        let read = tokio.block_on(read(&pulsar));
        let seconds = cpu_s() - before;
        assert_eq!(read, batches * BATCH);
        println!("{:.2} CPU-s, {:.2} million messages per CPU-s", seconds, read as f64 / seconds / 1e6);
    }
}

fn options(pulsar: &Pulsar) -> PulsarOptions {
    PulsarOptions::new(&pulsar.service(), &["readings".to_owned()], "rate").expect("options are fine")
}

fn fill(pulsar: &Pulsar, batches: usize, codec: Compression) {
    let mut producer =
        Producer::new(options(pulsar), "readings", Arc::new(TestRuntime::new())).expect("a producer");
    // Numbers that are different but not random, as readings are.
    let bodies: Vec<[u8; BYTES]> = (0..BATCH)
        .map(|n| std::array::from_fn(|at| if at % 4 == 0 { (n >> (at % 8)) as u8 } else { at as u8 }))
        .collect();
    let batch: Vec<Outgoing<'_>> =
        bodies.iter().map(|body| Outgoing { payload: Some(body), ..Outgoing::default() }).collect();
    for _ in 0..batches {
        producer.batch(&batch, codec).expect("stored");
    }
}

async fn read(pulsar: &Pulsar) -> usize {
    let source = PulsarSource::new(options(pulsar), Arc::new(TestRuntime::new()));
    let starts = source.partitions().await.expect("shown");
    let from = starts.into_iter().map(|start| ReadFrom {
        partition: start.partition,
        identity: start.identity,
        next: start.next,
        leader_epoch: start.leader_epoch,
    });
    let mut reader = source.read(from.collect()).await.expect("reads");
    let mut read = 0;
    loop {
        match reader.next().await.expect("goes on") {
            Event::Block(block) => read += std::hint::black_box(block).len(),
            Event::CaughtUp { .. } => return read,
            _ => {}
        }
    }
}

/// CPU that this process has used: ticks of a hundredth of a second.
fn cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux has it");
    let fields: Vec<&str> = stat.rsplit_once(')').expect("a name in brackets").1.split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<f64>().expect("a number");
    (ticks(11) + ticks(12)) / 100.0
}
