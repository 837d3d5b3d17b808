//! How long the steps of the hot path take: `cargo bench -p guards`, or `cargo bench -p guards -- dedup` for some of them.
//!
//! Owns the timing. Does not own the steps and their input (`guards`), nor the counts of instructions that CI compares: those are made by
//! `cargo xtask guards`, of `examples/one-step.rs`.
#![allow(missing_docs, reason = "criterion's macros make public items without a word")]

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use guards::{STEPS, Step, measured};

fn hot_path(criterion: &mut Criterion) {
    for step in STEPS {
        let mut group = criterion.benchmark_group("hot_path");
        group.throughput(Throughput::Elements(step.units)).sample_size(30);
        // The work uses its input up, and the input is large: one at a time.
        group.bench_function(step.name, |bencher| {
            bencher.iter_batched(|| Step::prepare(step), measured, BatchSize::PerIteration);
        });
        group.finish();
    }
}

criterion_group!(benches, hot_path);
criterion_main!(benches);
