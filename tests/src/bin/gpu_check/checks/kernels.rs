//! Kernels and memory of the target, before anything uses them.

use std::collections::BTreeSet;

use warpbell::kernels::ptx::{Format, IMAGES, Image};

use crate::run::Bed;

/// What is embedded in this program.
pub fn images() -> String {
    let kinds: BTreeSet<String> = IMAGES.iter().map(kind).collect();
    let kernels: BTreeSet<&str> = IMAGES.iter().map(|image| image.kernel).collect();
    let stale = if IMAGES.iter().any(|image| image.stale) { "; some are STALE" } else { "" };
    format!("{} as {}{stale}", Vec::from_iter(kernels).join(", "), Vec::from_iter(kinds).join(", "))
}

fn kind(image: &Image) -> String {
    match image.format {
        Format::Ptx => format!("PTX compute_{}", image.arch),
        Format::Cubin => format!("cubin sm_{}", image.arch),
    }
}

/// Each image that this GPU can take: its own machine code, and PTX through the driver's compiler.
pub fn all_load(bed: &Bed) -> anyhow::Result<String> {
    let target = bed.target.open()?;
    let Some(gpu) = target.gpu() else {
        target.module()?;
        return Ok("the built-in kernels of the CPU target".to_owned());
    };
    let capability = gpu.info().capability;
    let arch = capability.0 * 10 + capability.1;
    let mut kinds = BTreeSet::new();
    let mut loaded = 0;
    for image in IMAGES.iter().filter(|image| image.runs_on(arch)) {
        anyhow::ensure!(!image.stale, "{} is of other sources than this program", image.file_name());
        gpu.load(&image.file_name(), image.bytes)?;
        kinds.insert(kind(image));
        loaded += 1;
    }
    anyhow::ensure!(loaded > 0, "no image fits compute capability {arch}");
    Ok(format!("{loaded} images: {}", Vec::from_iter(kinds).join(", ")))
}

/// What is written comes back, and device memory begins where devices need it to.
pub fn memory(bed: &Bed) -> anyhow::Result<String> {
    const ALIGNMENT: u64 = 64 << 10;
    let target = bed.target.open()?;
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
    let same = if shared.address() == shared.window().as_ptr() as u64 { "the host's" } else { "their own" };
    let words = gpu.write_ordering().words();
    Ok(format!("host memory has {same} addresses for kernels; {dma_buf}; {words}"))
}
