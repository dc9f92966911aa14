//! The CPU executor: what it takes to switch from one lane to the next.

use std::ops::ControlFlow;
use std::path::Path;

use criterion::{Criterion, Throughput};
use warpbell_kernels::Error;
use warpbell_kernels::cpu::{Launch, run_stepped};
use warpbell_kernels::toolchain::Variant;
use warpbell_sim::{TestVariant, cpu_launch_bytes};

/// Meetings of one launch, so that its start does not count.
const MEETINGS: u64 = 1000;
const LANES: u64 = 32;
/// Turns of the warp between two polls by the host.
const TURNS: u32 = 4096;

/// All lanes meet, again and again: each meeting switches through all of them.
const KERNEL: &str = r"
#include <warpbell/warpbell.cuh>

struct meet_args { uint64_t meetings; };

WARPBELL_KERNEL(meet, meet_args) {
    for (uint64_t i = 0; i < args.meetings; ++i) { warpbell::port::sync(~0u); }
}
";

pub fn benches(criterion: &mut Criterion) {
    let launch = match launch() {
        Ok(launch) => launch,
        Err(error) => {
            eprintln!("executor: not measured: {error}");
            return;
        }
    };
    let mut group = criterion.benchmark_group("executor");
    group.throughput(Throughput::Elements(MEETINGS * LANES));
    group.bench_function("switch", |bencher| {
        bencher.iter(|| run_stepped(&launch, TURNS, |_| ControlFlow::Continue(())).expect("all lanes meet"));
    });
    group.finish();
}

/// Compiled by this machine's C++ compiler, which may be missing.
fn launch() -> Result<Launch, Error> {
    let modules = Path::new(env!("CARGO_TARGET_TMPDIR")).join("modules");
    let module = Variant::text("meet.cu", KERNEL).cache(&modules).loaded()?;
    cpu_launch_bytes(&module, "meet", &MEETINGS.to_ne_bytes())
}
