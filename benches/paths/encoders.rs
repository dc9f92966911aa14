//! NVMe's structures: a command made, a completion read.

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use warpbell_nvme::{Cqe, SglDescriptor, command};

pub fn benches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("encoders");
    group.throughput(Throughput::Elements(1));
    group.bench_function("read_with_prp", |bencher| {
        bencher.iter(|| {
            let (slba, iova) = black_box((0x1234_5678u64, 0x10_0000u64));
            command::read(1, slba, 7).with_prp(iova, iova + 4096).with_cid(9)
        });
    });
    group.bench_function("read_with_sgl", |bencher| {
        bencher.iter(|| {
            let (slba, iova) = black_box((0x1234_5678u64, 0x10_0000u64));
            command::read(1, slba, 7).with_sgl(SglDescriptor::data_block(iova, 4096)).with_cid(9)
        });
    });
    group.bench_function("completion", |bencher| {
        let posted = [0u64, 0x0001_0007_0001_0003];
        bencher.iter(|| {
            let entry: Cqe = zerocopy::transmute!(black_box(posted));
            (entry.cid, entry.status())
        });
    });
    group.finish();
}
