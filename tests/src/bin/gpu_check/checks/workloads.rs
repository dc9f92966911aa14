//! The workloads of the command, with every block checked.

use std::time::Duration;

use warpbell::OpenOptions;
use warpbell_sim::Blocks;
use warpbell_tests::suite;
use warpbell_workload::{Api, ByteSize, Control, DigestOptions, digest};

use crate::run::Fixture;
use warpbell_hw::{Lba, Nsid};

const KERNELS: [Api; 2] = [Api::Raw, Api::Io];

pub fn host_data(fixture: &Fixture) -> anyhow::Result<String> {
    verified(fixture, "size=16m", &OpenOptions::default())
}

pub fn device_data(fixture: &Fixture) -> anyhow::Result<String> {
    verified(fixture, "size=16m,pollers=2", &fixture.device_data()?)
}

fn verified(fixture: &Fixture, settings: &str, options: &OpenOptions) -> anyhow::Result<String> {
    let ssd = fixture.soft(settings, options)?;
    suite::apis_within(fixture.range(), fixture.target, &ssd, 1, &KERNELS, fixture.case);
    fixture.no_violations(&ssd)?;
    Ok(format!("raw and io, three sizes, exclusive and shared, {}", ssd.data_path()))
}

/// The kernel's CRC-32C of a namespace is the host's.
pub fn digests(fixture: &Fixture) -> anyhow::Result<String> {
    let bytes = fixture.sized(64 << 20);
    let ssd = fixture.soft(&format!("size={bytes}"), &OpenOptions::default())?;
    let mut contents = vec![0; bytes as usize];
    for (word, at) in contents.chunks_exact_mut(8).zip(0u64..) {
        word.copy_from_slice(&warpbell_base::mix64(at).to_le_bytes());
    }
    ssd.store(Nsid(1), Lba(0), &contents)?;
    let expected = format!("{:08x}", crc32c::crc32c(&contents));
    for (bs, warps) in [(4096, 4), (128 << 10, 1)] {
        let options = DigestOptions {
            nsid: Nsid(1),
            bs: ByteSize(bs),
            warps,
            timeout: Duration::from_secs(10),
            file: None,
        };
        let found = digest(&ssd, fixture.target, &options, &Control::new())?;
        anyhow::ensure!(found.crc32c == expected, "chunks of {bs}: {}, expected {expected}", found.crc32c);
    }
    fixture.no_violations(&ssd)?;
    Ok(format!("{bytes} bytes, CRC-32C {expected}, twice"))
}
