//! What the measurements of the dedup step share: keys, batches, clocks and memory.
//!
//! Owns the keys and the clocks, so that figures of different programs compare. Does not own what is measured with them (each program), nor
//! the workloads of whole pipelines (`workloads`).

// Each program uses a part of it.
#![allow(dead_code, reason = "shared by several programs")]

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, FixedSizeBinaryArray, RecordBatch};
use arrow_buffer::Buffer;
use dataflow::{Batch, Partition, Schema};

/// The allocator of the binary, so that resident memory is what it would be there.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub const BATCH_ROWS: u64 = 16_384;
pub const SEAL_ROWS: u64 = 500_000;
pub const SAMPLE: u64 = 1_000_000;

pub fn batch(schema: &Schema, ids: Range<u64>, time: &dyn Fn(u64) -> i64) -> Batch {
    Batch {
        items: Vec::new(),
        era: 0,
        partition: Partition::new("t", 0),
        rows: keys(schema, ids.clone()),
        positions: ids.clone().collect(),
        times_ms: ids.map(time).collect(),
    }
}

/// The one column of the rows with these numbers.
pub fn keys(schema: &Schema, ids: impl Iterator<Item = u64>) -> RecordBatch {
    let bytes: Vec<u8> = ids.flat_map(uuid).collect();
    let column: ArrayRef = Arc::new(FixedSizeBinaryArray::new(16, Buffer::from(bytes), None));
    RecordBatch::try_new(schema.arrow().clone(), vec![column]).expect("one column")
}

/// 16 bytes without a pattern (splitmix64, twice).
pub fn uuid(n: u64) -> [u8; 16] {
    let mix = |mut z: u64| {
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u128::from(z ^ (z >> 31))
    };
    let (a, b) = (n.wrapping_mul(0x9e37_79b9_7f4a_7c15), n.wrapping_mul(0xd1b5_4a32_d192_ed03));
    (mix(a) << 64 | mix(b)).to_le_bytes()
}

pub fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

pub fn ns(cost: Duration, rows: u64) -> f64 {
    cost.as_nanos() as f64 / rows as f64
}

pub fn timed<T>(what: impl FnOnce() -> T) -> (T, Duration) {
    let before = cpu();
    let value = what();
    (value, cpu() - before)
}

/// CPU time of this thread: on a machine with neighbours the wall clock would measure them.
pub fn cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to `time`, which outlives it.
    let done = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(done, 0, "every kernel that this runs on has the clock");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Memory that this process has now.
pub fn resident_bytes() -> u64 {
    status_bytes("VmRSS:")
}

/// Memory that this process had at the most.
pub fn peak_bytes() -> u64 {
    status_bytes("VmHWM:")
}

fn status_bytes(field: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}
