//! The hot paths, one group each: `cargo bench`, or `cargo bench -- host_queue` for one group.
//!
//! No GPU and no SSD is needed. Each figure is one thread's work on this machine. `cargo bench -- --test` runs each
//! bench once: it shows that they work, and measures nothing.

mod controller;
mod encoders;
mod executor;
mod host_queue;
mod page_cache;
mod stepped;

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};

/// Short: all groups together take about half a minute.
fn short() -> Criterion {
    let criterion = Criterion::default().sample_size(20);
    criterion.warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2))
}

criterion_group! {
    name = paths;
    config = short();
    targets = encoders::benches, host_queue::benches, controller::benches, executor::benches, page_cache::benches
}
criterion_main!(paths);
