//! `tiles`: from the SSD to memory that kernels read, from there to shared memory, to whoever computes: which of them
//! bounds the others.

use warpbell_kernels::abi::{BENCH_TILE_SLOTS, BENCH_TILE_STAGES, BENCH_TILES_BYTES};

use super::{Figures, Lab, figures_of};
use crate::error::RunError;
use crate::options::{Access, Api, BenchOptions};
use crate::size::ByteSize;
use crate::stopwatch::ClockKind;

/// Tiles on their way.
pub(super) const DEPTH: u32 = BENCH_TILE_SLOTS;
const LANES: u32 = 32;
/// Shared memory that a block has on every GPU, unless it asks for more.
const SHARED: u64 = 48 << 10;

/// How much is computed: the kernel that streams, the one that has its tiles in memory already.
const COMPUTED: [(&str, &str, &str); 2] = [
    ("passes=1", "bench_tiles", "bench_tiles_resident"),
    ("passes=64", "bench_tiles_busy", "bench_tiles_resident_busy"),
];

/// Runs it, in real time or in virtual time; in that only the SSD takes time.
pub(super) fn run(lab: &mut Lab<'_>) -> Result<(), RunError> {
    for size in lab.options.sizes.clone() {
        let shared = size.0.saturating_mul(BENCH_TILE_STAGES.into()).saturating_add(BENCH_TILES_BYTES.into());
        if shared > SHARED {
            let reason = format!(
                "{BENCH_TILE_STAGES} tiles take {shared} bytes of shared memory, the limit is {SHARED}"
            );
            lab.skip(&format!("bs={size}"), reason);
            continue;
        }
        of_size(lab, size, shared as u32)?;
    }
    Ok(())
}

fn of_size(lab: &mut Lab<'_>, size: ByteSize, shared: u32) -> Result<(), RunError> {
    let reads = BenchOptions { rw: Access::Read, api: Api::Io, ..lab.reads(size) };
    // A load takes an identifier of its lane: as many of each lane as there are slots.
    let tiles = BenchOptions { iodepth: DEPTH * LANES, ..reads.clone() };
    let name = format!("ssd bs={size}");
    let Some(run) = lab.point(&name, &reads)? else { return Ok(()) };
    let ssd = run.total.iops;
    lab.row(name, figures_of(&run));
    for (computed, streaming, resident) in COMPUTED {
        let mut chip = None;
        if ClockKind::of(lab.ssd) == ClockKind::Monotonic {
            let name = format!("chip {computed} bs={size}");
            let Some(run) = lab.by_kernel(&name, &tiles, resident, Some(shared))? else { return Ok(()) };
            chip = Some(run.total.iops);
            lab.row(name, figures_of(&run));
        }
        let name = format!("stream {computed} bs={size}");
        let Some(run) = lab.by_kernel(&name, &tiles, streaming, Some(shared))? else { return Ok(()) };
        let figures = figures_of(&run);
        lab.row(name, bound(figures, run.total.iops, ssd, chip));
    }
    Ok(())
}

/// How busy each part is while tiles stream: that of which the share is nearest to 1 bounds the others. The model: as fast
/// as the slowest of them.
fn bound(figures: Figures, iops: f64, ssd: f64, chip: Option<f64>) -> Figures {
    figures
        .with("expected_iops", chip.map_or(ssd, |chip| chip.min(ssd)))
        .with("ssd_share", iops / ssd)
        .with_counted("chip_share", chip.map(|chip| iops / chip))
}
