//! Kernels and memory of the target, before anything uses them.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use warpbell_gpu::DeviceMemory;
use warpbell_kernels::builtin::{self, IMAGES, Image};
use warpbell_kernels::image::Format;

use crate::run::Fixture;

/// What is embedded in this program.
pub fn images() -> String {
    if IMAGES.is_empty() {
        return "none; NVRTC compiles them at the first use".to_owned();
    }
    let kinds: BTreeSet<String> = IMAGES.iter().map(|image| kind(image.format, image.arch)).collect();
    let kernels: BTreeSet<&str> = IMAGES.iter().map(|image| image.kernel).collect();
    format!("{} as {}", Vec::from_iter(kernels).join(", "), Vec::from_iter(kinds).join(", "))
}

fn kind(format: Format, arch: u32) -> String {
    match format {
        Format::Ptx => format!("PTX compute_{arch}"),
        Format::Cubin => format!("cubin sm_{arch}"),
    }
}

/// So many PTX are compiled by the driver, which takes minutes for all.
const FEW: usize = 2;

/// Each of our kernel files on this GPU: as this program would take it, and other images that the GPU can run: machine
/// code, and the smallest PTX.
pub fn all_load(fixture: &Fixture) -> anyhow::Result<String> {
    let target = fixture.target.open()?;
    let Some(gpu) = target.gpu() else {
        target.module()?;
        return Ok("the built-in kernels of the CPU target".to_owned());
    };
    let capability = gpu.info().capability;
    let arch = capability.0 * 10 + capability.1;
    let mut kinds = BTreeSet::new();
    let files: BTreeSet<&str> = builtin::kernels().map(|(file, _)| file).collect();
    for file in &files {
        let image = fixture.image(file, arch)?;
        gpu.load(&image.name, &image.bytes)?;
        kinds.insert(kind(image.format, image.arch));
    }
    let runs = |image: &&Image| !fixture.target.is_ptx() || image.format == Format::Ptx;
    for image in others(arch, fixture.all).into_iter().filter(runs) {
        gpu.load(&image.name(), &image.bytes())?;
        kinds.insert(kind(image.format, image.arch));
    }
    anyhow::ensure!(!files.is_empty(), "this program has no kernels");
    Ok(format!("{} kernel files: {}", files.len(), Vec::from_iter(kinds).join(", ")))
}

fn others(arch: u32, all: bool) -> Vec<&'static Image> {
    let runs = IMAGES.iter().filter(|image| image.runs_on(arch));
    let (mut ptx, mut chosen): (Vec<&Image>, Vec<&Image>) =
        runs.partition(|image| image.format == Format::Ptx);
    ptx.sort_by_cached_key(|image| image.bytes().len());
    ptx.truncate(if all { usize::MAX } else { FEW });
    chosen.append(&mut ptx);
    chosen
}

/// What is written comes back, and device memory begins where devices need it to.
pub fn memory(fixture: &Fixture) -> anyhow::Result<String> {
    const ALIGNMENT: u64 = 64 << 10;
    let target = fixture.target.open()?;
    let pattern: Vec<u8> = (0..100_000u32).map(|at| (at % 251) as u8).collect();
    let own = target.memory(1 << 20)?;
    own.write(12_345, &pattern)?;
    let mut back = vec![0; pattern.len()];
    own.read(12_345, &mut back)?;
    anyhow::ensure!(back == pattern, "what was written to the target's memory does not come back");
    let shared = target.shared(1 << 20)?;
    anyhow::ensure!(shared.address() != 0, "shared memory has no address");
    let Some(gpu) = target.gpu() else { return Ok("one memory for host and kernels".to_owned()) };
    anyhow::ensure!(own.address().is_multiple_of(ALIGNMENT), "memory at {:#x}", own.address());
    let device = gpu.allocate(2 << 20)?;
    let dma_buf = match device.dma_buf() {
        Ok(_) => "dma-buf export works".to_owned(),
        Err(error) => format!("no dma-buf export: {error}"),
    };
    let mapped = mapping(&device)?;
    let same = if shared.address() == shared.window().as_ptr() as u64 { "the host's" } else { "their own" };
    let words = gpu.write_ordering().words();
    Ok(format!("host memory has {same} addresses for kernels; {dma_buf}; {mapped}; {words}"))
}

/// Where the GPU's memory can be mapped here, what is written there is what the driver reads.
fn mapping(device: &DeviceMemory) -> anyhow::Result<String> {
    let window = match device.map() {
        Ok(window) => window,
        Err(error) => return Ok(format!("no mapping: {error}")),
    };
    const WORD: u32 = 0x5741_5250;
    window.store_u32(4096, WORD, Ordering::Release);
    let mut back = [0; 4];
    device.read(4096, &mut back)?;
    anyhow::ensure!(
        u32::from_le_bytes(back) == WORD,
        "what is stored through the mapping is not there: {back:?}"
    );
    Ok("mapped here, and right".to_owned())
}
