//! The host's part of a command: submission and reaping, without the controller's.

use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};

use crate::stepped::{BATCH, Stepped};

pub fn benches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("host_queue");
    group.throughput(Throughput::Elements(BATCH.into()));
    let mut stepped = Stepped::new().expect("a soft controller");
    group.bench_function("submit", |bencher| {
        bencher.iter_custom(|batches| {
            timed(batches, || {
                let begin = Instant::now();
                stepped.submit();
                let spent = begin.elapsed();
                stepped.answer();
                stepped.reap();
                spent
            })
        });
    });
    group.bench_function("reap", |bencher| {
        bencher.iter_custom(|batches| {
            timed(batches, || {
                stepped.submit();
                stepped.answer();
                let begin = Instant::now();
                stepped.reap();
                begin.elapsed()
            })
        });
    });
    group.finish();
}

/// The sum of what `count` calls say they took.
pub fn timed(count: u64, mut once: impl FnMut() -> Duration) -> Duration {
    (0..count).map(|_| once()).sum()
}
