//! The workloads of the command, with every block checked.

use std::time::Duration;

use warpbell::OpenOptions;
use warpbell_sim::Blocks;
use warpbell_tests::suite;
use warpbell_workload::{Api, ByteSize, Control, DigestOptions, digest};

use crate::run::Bed;
use warpbell_hw::{Lba, Nsid};

const KERNELS: [Api; 2] = [Api::Raw, Api::Io];

pub fn host_data(bed: &Bed) -> anyhow::Result<String> {
    verified(bed, "size=16m", &OpenOptions::default())
}

pub fn device_data(bed: &Bed) -> anyhow::Result<String> {
    verified(bed, "size=16m,pollers=2", &bed.device_data()?)
}

fn verified(bed: &Bed, settings: &str, options: &OpenOptions) -> anyhow::Result<String> {
    let ssd = bed.soft(settings, options)?;
    suite::apis_on(bed.target, &ssd, 1, &KERNELS);
    bed.no_violations(&ssd)?;
    Ok(format!("raw and io, three sizes, exclusive and shared, {}", ssd.data_path()))
}

/// The kernel's CRC-32C of a namespace is the host's.
pub fn digests(bed: &Bed) -> anyhow::Result<String> {
    let bytes = bed.sized(64 << 20);
    let ssd = bed.soft(&format!("size={bytes}"), &OpenOptions::default())?;
    let mut contents = vec![0; bytes as usize];
    for (word, at) in contents.chunks_exact_mut(8).zip(0u64..) {
        word.copy_from_slice(&warpbell_sim::splitmix64(at).to_le_bytes());
    }
    ssd.store(Nsid(1), Lba(0), &contents)?;
    let expected = format!("{:08x}", crc32c::crc32c(&contents));
    for (bs, warps) in [(4096, 4), (128 << 10, 1)] {
        let options =
            DigestOptions { nsid: Nsid(1), bs: ByteSize(bs), warps, deadline: Duration::from_secs(10) };
        let found = digest(&ssd, bed.target, &options, &Control::new())?;
        anyhow::ensure!(found.crc32c == expected, "chunks of {bs}: {}, expected {expected}", found.crc32c);
    }
    bed.no_violations(&ssd)?;
    Ok(format!("{bytes} bytes, CRC-32C {expected}, twice"))
}
