//! The soft controller's part of a command, from the fetch of its entry to the post of its completion.

use std::time::Instant;

use criterion::{Criterion, Throughput};

use crate::host_queue::timed;
use crate::stepped::{BATCH, Stepped};

pub fn benches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("controller");
    group.throughput(Throughput::Elements(BATCH.into()));
    let mut stepped = Stepped::new().expect("a soft controller");
    group.bench_function("fetch_to_post", |bencher| {
        bencher.iter_custom(|batches| {
            timed(batches, || {
                stepped.submit();
                let begin = Instant::now();
                stepped.answer();
                let spent = begin.elapsed();
                stepped.reap();
                spent
            })
        });
    });
    group.finish();
}
