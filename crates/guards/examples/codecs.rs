//! What the codecs of ClickHouse's framing cost over frames of the `glassflow` workload: bytes, CPU to pack, CPU to unpack.
//!
//! Owns the measurement. Does not own the codec that Forebay uses and its framing (`clickhouse::compress`).
//!
//! ```text
//! cargo run --release -p guards --example codecs -- [ROWS]
//! ```
//! Each column is packed by itself, as it stands in a frame: in chunks of 1 MiB, of which none spans two columns here. CPU is of
//! this thread (`/proc/thread-self/schedstat`, a timer's tick exact), so that a busy machine disturbs less: the mean of twenty rounds.

use clickhouse::compress::CHUNK_BYTES_MAX;
use clickhouse::native::{BlockPlan, Rows};
use dataflow::{FrameId, Schema};
use lz4::block::CompressionMode;
use lz4_flex::block as flex;

/// Rows of a frame in a lane that is busy.
const ROWS: u64 = 500_000;
const ROUNDS: usize = 20;

type Chunks = Vec<Vec<u8>>;

struct Codec {
    name: &'static str,
    pack: fn(&[u8]) -> Vec<u8>,
    unpack: fn(&[u8], usize) -> Vec<u8>,
}

const CODECS: [Codec; 6] = [
    Codec { name: "copied", pack: <[u8]>::to_vec, unpack: |packed, _| packed.to_vec() },
    Codec { name: "LZ4, lz4_flex", pack: flex::compress, unpack: unpack_flex },
    Codec { name: "LZ4, C, 1", pack: |raw| pack_c(raw, 1), unpack: unpack_c },
    Codec { name: "LZ4, C, 4", pack: |raw| pack_c(raw, 4), unpack: unpack_c },
    Codec { name: "ZSTD, -1", pack: |raw| pack_zstd(raw, -1), unpack: unpack_zstd },
    Codec { name: "ZSTD, 1", pack: |raw| pack_zstd(raw, 1), unpack: unpack_zstd },
];

fn main() {
    let rows = std::env::args().nth(1).map_or(ROWS, |rows| rows.parse().expect("a number of rows"));
    let (schema, batches) = guards::columns(0, rows);
    println!("{:<12} {:<14} {:>8} {:>12} {:>12}", "column", "codec", "B/row", "pack ns/row", "unpack");
    let mut sums = [[0.0; 3]; CODECS.len()];
    for (index, column) in schema.columns().iter().enumerate() {
        let plan = BlockPlan::new(&Schema::new(vec![column.clone()]), None);
        let one: Vec<_> =
            batches.iter().map(|batch| batch.rows.project(&[index]).expect("a column of it")).collect();
        let raw = plan.encode(&one, Rows::All, FrameId(7), &mut |_| {}).expect("rows of the schema");
        let chunks: Chunks = raw.chunks(CHUNK_BYTES_MAX).map(<[u8]>::to_vec).collect();
        for (codec, sum) in CODECS.iter().zip(&mut sums) {
            let found = measure(codec, &chunks).map(|value| value / rows as f64);
            show(&column.name, codec.name, found);
            sum.iter_mut().zip(found).for_each(|(sum, found)| *sum += found);
        }
    }
    CODECS.iter().zip(sums).for_each(|(codec, sum)| show("all", codec.name, sum));
}

fn show(column: &str, codec: &str, [bytes, pack, unpack]: [f64; 3]) {
    println!("{column:<12} {codec:<14} {bytes:>8.2} {pack:>12.1} {unpack:>12.1}");
}

/// Bytes in all, nanoseconds to pack and to unpack.
fn measure(codec: &Codec, chunks: &Chunks) -> [f64; 3] {
    let pack = || chunks.iter().map(|chunk| (codec.pack)(chunk)).collect::<Chunks>();
    let packed = pack();
    let unpack = || {
        for (packed, raw) in packed.iter().zip(chunks) {
            assert!((codec.unpack)(packed, raw.len()).len() == raw.len(), "{}", codec.name);
        }
    };
    let bytes: usize = packed.iter().map(Vec::len).sum();
    let pack_ns = mean_ns(|| drop(std::hint::black_box(pack())));
    [bytes as f64, pack_ns, mean_ns(unpack)]
}

fn mean_ns(work: impl Fn()) -> f64 {
    let begun = cpu_ns();
    (0..ROUNDS).for_each(|_| work());
    (cpu_ns() - begun) as f64 / ROUNDS as f64
}

/// The time that this thread has run.
fn cpu_ns() -> u64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells");
    told.split(' ').next().and_then(|ns| ns.parse().ok()).expect("the first number")
}

fn unpack_flex(packed: &[u8], raw: usize) -> Vec<u8> {
    flex::decompress(packed, raw).expect("as packed")
}

fn pack_c(raw: &[u8], acceleration: i32) -> Vec<u8> {
    lz4::block::compress(raw, Some(CompressionMode::FAST(acceleration)), false).expect("any bytes")
}

fn unpack_c(packed: &[u8], raw: usize) -> Vec<u8> {
    lz4::block::decompress(packed, Some(raw as i32)).expect("as packed")
}

fn pack_zstd(raw: &[u8], level: i32) -> Vec<u8> {
    zstd::bulk::compress(raw, level).expect("any bytes")
}

fn unpack_zstd(packed: &[u8], raw: usize) -> Vec<u8> {
    zstd::bulk::decompress(packed, raw).expect("as packed")
}
