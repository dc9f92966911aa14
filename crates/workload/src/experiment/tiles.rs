//! `tiles`: from the SSD to memory that kernels read, from there to shared memory, to whoever computes: which of them
//! bounds the others.

use warpbell_kernels::abi::{BENCH_TILE_SLOTS, BENCH_TILE_STAGES, BENCH_TILES_BYTES};

use super::limits::ReadLimits;
use super::models::Known;
use super::{Figures, Lab, Way, figures_of};
use crate::error::RunError;
use crate::options::{Access, Api, BenchOptions};
use crate::result::Run;
use crate::size::ByteSize;
use crate::stopwatch::ClockKind;

/// Tiles on their way.
pub(super) const DEPTH: u32 = BENCH_TILE_SLOTS;
const LANES: u32 = 32;
/// Shared memory that a block has on every GPU, unless it asks for more.
const SHARED: u64 = 48 << 10;

/// How much is computed.
struct Computed {
    /// How often each word of a tile is read.
    passes: u32,
    /// The kernel that streams.
    streaming: &'static str,
    /// The one that has its tiles in memory already.
    resident: &'static str,
}

static COMPUTED: [Computed; 2] = [
    Computed { passes: 1, streaming: "bench_tiles", resident: "bench_tiles_resident" },
    Computed { passes: 64, streaming: "bench_tiles_busy", resident: "bench_tiles_resident_busy" },
];

/// Its ways, in real time or in virtual time; in that only the SSD takes time.
pub(super) fn ways(lab: &Lab<'_>) -> Vec<Way> {
    let mut ways: Vec<Way> = Vec::new();
    for size in lab.options.sizes.clone() {
        let shared = size.0.saturating_mul(BENCH_TILE_STAGES.into()).saturating_add(BENCH_TILES_BYTES.into());
        if shared > SHARED {
            let reason = format!(
                "{BENCH_TILE_STAGES} tiles take {shared} bytes of shared memory, the limit is {SHARED}"
            );
            ways.push(Box::new(move |lab| {
                lab.skip(&format!("bs={size}"), reason.clone());
                Ok(())
            }));
            continue;
        }
        let shared = shared as u32;
        ways.push(Box::new(move |lab| ssd(lab, size)));
        for computed in &COMPUTED {
            if ClockKind::of(lab.ssd) == ClockKind::Monotonic {
                ways.push(Box::new(move |lab| chip(lab, computed, shared, size)));
            }
            ways.push(Box::new(move |lab| stream(lab, computed, shared, size)));
        }
    }
    ways
}

fn reads(lab: &Lab<'_>, size: ByteSize) -> BenchOptions {
    BenchOptions { rw: Access::Read, api: Api::Io, ..lab.reads(size) }
}

/// Reads of one queue. The model, where a profile has one: as fast as the slower of its units and its way to the client.
fn ssd(lab: &mut Lab<'_>, size: ByteSize) -> Result<(), RunError> {
    let (name, options) = (format!("ssd bs={size}"), reads(lab, size));
    if let Some((run, busy)) = lab.while_busy(|lab| lab.point(&name, &options))? {
        let limits = lab.read_limits(size.0);
        let figures = figures_of(&run).with_counted("ssd_busy_share", busy);
        let figures = figures.with_counted("expected_iops", limits.map(ReadLimits::slowest));
        lab.row(name, figures.merged(shares(limits, &run)));
    }
    Ok(())
}

/// The rate of a run as a part of what media and link do alone, where a profile says.
fn shares(limits: Option<ReadLimits>, run: &Run) -> Figures {
    limits.map_or(Figures::default(), |limits| limits.shares(run.total.iops))
}

/// A kernel that has tiles. A load takes an identifier of its lane: as many of each lane as there are slots.
fn tiles(
    lab: &mut Lab<'_>,
    name: &str,
    (kernel, shared): (&'static str, u32),
    size: ByteSize,
) -> Result<Option<Run>, RunError> {
    let options = BenchOptions { iodepth: DEPTH * LANES, ..reads(lab, size) };
    lab.by_kernel(name, &options, kernel, Some(shared))
}

fn chip_name(computed: &Computed, size: ByteSize) -> String {
    format!("chip passes={} bs={size}", computed.passes)
}

/// Tiles that are in memory already.
fn chip(lab: &mut Lab<'_>, computed: &Computed, shared: u32, size: ByteSize) -> Result<(), RunError> {
    let name = chip_name(computed, size);
    if let Some(run) = tiles(lab, &name, (computed.resident, shared), size)? {
        lab.row(name, figures_of(&run));
    }
    Ok(())
}

/// All of it. How busy each part is while tiles stream: that of which the share is nearest to 1 bounds the others. The
/// model: as fast as the slower of the SSD and the chip.
fn stream(
    lab: &mut Lab<'_>,
    computed: &'static Computed,
    shared: u32,
    size: ByteSize,
) -> Result<(), RunError> {
    let name = format!("stream passes={} bs={size}", computed.passes);
    let streamed = lab.while_busy(|lab| tiles(lab, &name, (computed.streaming, shared), size))?;
    let Some((run, busy)) = streamed else { return Ok(()) };
    let figures = figures_of(&run).with_counted("ssd_busy_share", busy);
    let shares = shares(lab.read_limits(size.0), &run);
    lab.row(&name, figures.merged(shares));
    let (own, ssd) = (name.clone(), format!("ssd bs={size}"));
    lab.model(name, move |known| {
        let (iops, ssd) = (known.get(&own, "iops")?, known.get(&ssd, "iops")?);
        let of = |other: &Computed| Some((other.passes, chip_seconds(known, &chip_name(other, size))?));
        let chips = COMPUTED.each_ref().map(of);
        let chip = known.get(&chip_name(computed, size), "iops");
        let slowest = chip.map_or(ssd, |chip| chip.min(ssd));
        let figures = Figures::default().with("expected_iops", slowest).with("ssd_share", iops / ssd);
        let figures = figures.with_counted("chip_share", chip.map(|chip| iops / chip));
        let parts = parts(chips, computed.passes).filter(|_| chip.is_some());
        let (copy, compute) = parts.map_or((None, None), |(copy, compute)| (Some(copy), Some(compute)));
        let figures = figures.with_counted("copy_share", copy.map(|seconds| iops * seconds));
        Some(figures.with_counted("compute_share", compute.map(|seconds| iops * seconds)))
    });
    Ok(())
}

/// What a tile on the chip takes, in seconds: of a processor, where kernels run on one, which others use, too.
fn chip_seconds(known: &Known<'_>, row: &str) -> Option<f64> {
    let of_cpu = known.get(row, "client_cpu_ns_per_io").map(|nanoseconds| nanoseconds / 1e9);
    of_cpu.or_else(|| Some(1.0 / known.get(row, "iops")?))
}

/// Seconds that a tile on the chip takes for its copy, and for being computed `passes` times: of what it takes with few and
/// with many passes, where one comes after the other.
fn parts(chips: [Option<(u32, f64)>; 2], passes: u32) -> Option<(f64, f64)> {
    let [Some((few, fast)), Some((many, slow))] = chips else { return None };
    let pass = (slow - fast) / f64::from(many - few);
    let copy = fast - f64::from(few) * pass;
    Some((copy.max(0.0), pass.max(0.0) * f64::from(passes)))
}

impl Lab<'_> {
    /// Runs a point: beside it the part of its time in which the SSD had commands, which a controller in virtual time counts.
    fn while_busy(
        &mut self,
        run: impl FnOnce(&mut Self) -> Result<Option<Run>, RunError>,
    ) -> Result<Option<(Run, Option<f64>)>, RunError> {
        let busy = |lab: &Self| Some(lab.ssd.soft().filter(|soft| soft.is_stepped())?.statistics().busy);
        let before = busy(self);
        let Some(run) = run(self)? else { return Ok(None) };
        let busy = busy(self).zip(before).map(|(after, before)| after - before);
        let share = busy.map(|busy| busy.as_nanos() as f64 / run.runtime_ns.max(1) as f64);
        Ok(Some((run, share)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_and_passes_are_told_apart_by_their_number() {
        // A tile is copied in 3 us, and a pass takes 1 us.
        let seconds = |passes: f64| (3.0 + passes) / 1e6;
        let chips = [Some((1, seconds(1.0))), Some((64, seconds(64.0)))];
        for passes in [1, 64] {
            let (copy, compute) = parts(chips, passes).unwrap();
            assert!((copy / 3e-6 - 1.0).abs() < 1e-9, "{copy}");
            assert!((compute / (f64::from(passes) * 1e-6) - 1.0).abs() < 1e-9, "{compute}");
        }
        assert!(parts([chips[0], None], 1).is_none());
    }
}
