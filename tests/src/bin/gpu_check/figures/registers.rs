//! What the device library and our kernels take of a multiprocessor.

use warpbell_gpu::Gpu;
use warpbell_kernels::builtin;
use warpbell_kernels::costs::{ARCHITECTURES, Figure, checked_in};

use crate::report::Row;
use crate::run::Fixture;

/// Kernels of ours that users compare theirs with.
const KERNELS: [&str; 10] = [
    "bench",
    "digest",
    "queue_test",
    "resident",
    "lab_turns",
    "lab_turns_alone",
    "lab_marks",
    "lab_marks_own",
    "lab_lockstep",
    "lab_service",
];
/// What is shown where there is no GPU.
const DEFAULT_ARCHITECTURE: u32 = 90;

/// Registers that each call adds to a user's kernel, by the compiler; and those of our kernels as the driver loaded them.
pub fn registers(fixture: &Fixture) -> anyhow::Result<Vec<Row>> {
    let target = fixture.target.open()?;
    let mut rows = added(target.gpu().map_or(DEFAULT_ARCHITECTURE, |gpu| architecture(gpu)))?;
    if let Some(gpu) = target.gpu() {
        rows.extend(
            KERNELS.iter().map(|kernel| loaded(fixture, gpu, kernel)).collect::<anyhow::Result<Vec<_>>>()?,
        );
    }
    Ok(rows)
}

fn architecture(gpu: &Gpu) -> u32 {
    let (major, minor) = gpu.info().capability;
    major * 10 + minor
}

/// Counted for the newest architecture that is not newer than this one.
fn added(arch: u32) -> anyhow::Result<Vec<Row>> {
    let table = checked_in()?;
    anyhow::ensure!(!table.is_stale(), "the table of costs is of other sources than this program");
    let counted = ARCHITECTURES.into_iter().filter(|counted| *counted <= arch).max();
    let counted = counted.ok_or_else(|| anyhow::anyhow!("nothing is counted for sm_{arch}"))?;
    let rows = table.rows.iter().filter(|row| row.arch == counted);
    Ok(rows
        .map(|row| {
            let what = format!("kernel with {}", row.probe.name());
            let instructions = row.whole[Figure::Instructions];
            let note = format!("{instructions} instructions, by {} for sm_{counted}", table.compiler);
            Row::new(what, row.whole[Figure::Registers] as f64, "registers").note(note)
        })
        .collect())
}

fn loaded(fixture: &Fixture, gpu: &std::sync::Arc<Gpu>, kernel: &str) -> anyhow::Result<Row> {
    let arch = architecture(gpu);
    let file = builtin::file_of(kernel).ok_or_else(|| anyhow::anyhow!("kernel {kernel}: no file has it"))?;
    let image = fixture.image(file, arch)?;
    let function = gpu.load(kernel, &image.bytes)?.function(kernel)?;
    let found = function.attributes();
    let blocks = function.blocks_per_multiprocessor(256, 0)?;
    let note =
        format!("{} bytes local, {blocks} blocks of 256 threads fit ({:?})", found.local_bytes, image.format);
    Ok(Row::new(format!("kernel {kernel}, as loaded"), f64::from(found.registers), "registers").note(note))
}
