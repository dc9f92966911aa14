//! The page cache, on the CPU target: an access to a page that is there.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use criterion::{Criterion, Throughput};
use warpbell::{OpenOptions, Ssd, Target};
use warpbell_workload::{Api, BenchOptions, ByteSize, Control, Sharing, bench, resolve};

/// The fewest accesses of one run, so that filling the cache does not count.
const LEAST: u64 = 1 << 14;
const WORD: u64 = size_of::<u64>() as u64;

pub fn benches(criterion: &mut Criterion) {
    let ssd =
        Ssd::open(&"soft:size=16m,time=virtual".parse().expect("a device's name"), &OpenOptions::default());
    let ssd = ssd.expect("a soft controller");
    if let Err(error) = hits(&ssd, LEAST) {
        eprintln!("page_cache: not measured: {error}");
        return;
    }
    let mut group = criterion.benchmark_group("page_cache");
    group.sample_size(10).throughput(Throughput::Elements(1));
    group.bench_function("hit", |bencher| {
        bencher.iter_custom(|accesses| hits(&ssd, accesses).expect("a run of hits"));
    });
    group.finish();
}

/// The CPU time of so many accesses by kernels, all to pages that are there.
fn hits(ssd: &Ssd, accesses: u64) -> anyhow::Result<Duration> {
    let options = BenchOptions {
        api: Api::Array,
        sharing: Sharing::Shared,
        cache: Some(ByteSize(1 << 20)),
        hit_rate: Some(100),
        io_limit: Some(ByteSize(accesses.max(LEAST) * WORD)),
        ..BenchOptions::default()
    };
    let run = bench(ssd, Target::Cpu, &resolve(ssd, &options)?, &Control::new())?;
    let report = run.array.context("a run over a page cache")?;
    ensure!(report.misses == 0, "{} pages were not there", report.misses);
    let each = report.cached.cpu_ns_per_access.context("CPU time on the CPU target")?;
    Ok(Duration::from_nanos((each * accesses as f64) as u64))
}
