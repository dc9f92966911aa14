//! Kernel `volume_check` over several SSDs, on threads or on a GPU.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use warpbell::test_hooks::TestSsd;
use warpbell::{
    AttachOptions, DeviceName, MemberReport, OpenOptions, Sharing, Ssd, Target, Volume, VolumeLayout,
    VolumeSpec,
};
use warpbell_kernels::abi::{VolumeCheckArgs, VolumeCheckResult};
use warpbell_kernels::cpu::{Idle, Threads};
use warpbell_sim::TestLaunch;
use warpbell_softctl::FaultPlan;
use warpbell_workload::Array;

/// Warps of a launch.
const WARPS: u32 = 4;
/// Longer than any run takes, under any sanitizer.
const LIMIT: Duration = Duration::from_secs(100);
const CHUNK: u64 = 12 << 10;

/// How a volume lies on its SSDs, and what is written and read at once.
#[derive(Clone, Copy)]
struct Shape {
    layout: VolumeLayout,
    chunk_bytes: u64,
    unit_blocks: u32,
}

impl Shape {
    fn small(layout: VolumeLayout) -> Shape {
        Shape { layout, chunk_bytes: CHUNK, unit_blocks: 4 }
    }
}

/// Opens a soft controller by its settings and what goes wrong there.
fn soft(settings: &str, faults: Option<&str>) -> anyhow::Result<Arc<Ssd>> {
    let faults = faults.map(FaultPlan::from_toml).transpose().context("the plan of faults")?;
    let options = OpenOptions::new().faults(faults);
    Ok(Arc::new(Ssd::open(&DeviceName::Soft(settings.to_owned()), &options)?))
}

/// A volume over SSDs.
struct Made {
    queues: Vec<warpbell::Attachment>,
    ssds: Vec<Arc<Ssd>>,
    volume: Volume,
    unit_blocks: u32,
    /// Of the volume, so many are used.
    units: u64,
}

impl Made {
    fn new(
        target: Target,
        sharing: Sharing,
        layout: VolumeLayout,
        disks: &[(&str, Option<&str>)],
    ) -> anyhow::Result<Made> {
        let ssds: anyhow::Result<_> =
            disks.iter().map(|(settings, faults)| soft(settings, *faults)).collect();
        Made::over(target, sharing, Shape::small(layout), ssds?, u64::MAX)
    }

    fn over(
        target: Target,
        sharing: Sharing,
        shape: Shape,
        ssds: Vec<Arc<Ssd>>,
        most_units: u64,
    ) -> anyhow::Result<Made> {
        let mut queues = Vec::new();
        for ssd in &ssds {
            queues.push(
                ssd.attach(
                    &AttachOptions::new()
                        .target(target)
                        .queues(if sharing == Sharing::Exclusive { WARPS } else { 2 })
                        .warps(WARPS)
                        .sharing(sharing),
                )?,
            );
        }
        let Shape { layout, chunk_bytes, unit_blocks } = shape;
        let spec = VolumeSpec::new().layout(layout).chunk_bytes(chunk_bytes);
        let volume = Volume::new(&queues.iter().collect::<Vec<_>>(), &spec)?;
        let units = (volume.blocks() / u64::from(unit_blocks)).min(most_units);
        Ok(Made { queues, ssds, volume, unit_blocks, units })
    }

    fn bytes(&self) -> u64 {
        self.units * u64::from(self.unit_blocks) * u64::from(self.volume.block_bytes())
    }

    /// Writes all units, and reads them.
    fn write_and_read(&self) -> anyhow::Result<Vec<MemberReport>> {
        self.pass(true).context("writing")?;
        self.pass(false).context("reading")?;
        for ssd in &self.ssds {
            let found = ssd.violations();
            ensure!(found.is_empty(), "{}: violations: {found:?}", ssd.name());
        }
        Ok(self.volume.report()?)
    }

    fn pass(&self, writes: bool) -> anyhow::Result<()> {
        let target = self.queues[0].target();
        let unit = self.unit_blocks as usize * self.volume.block_bytes() as usize;
        let buffer = self.volume.buffer(WARPS as usize * 32 * unit)?;
        let results: Array<VolumeCheckResult> = Array::new(target, WARPS as usize)?;
        let stop = target.shared(size_of::<u32>())?;
        let args = VolumeCheckArgs {
            volume: self.volume.as_ref()?,
            buffer: buffer.as_ref(),
            results: results.address(),
            stop: stop.address(),
            units: self.units,
            seed: 7,
            unit_blocks: self.unit_blocks,
            writes: u32::from(writes),
            ..VolumeCheckArgs::new()
        };
        let threads = Threads::new().workers(2).idle(Idle::YieldAfter(8));
        let launch = self.volume.launch_bytes(&target.module()?, "volume_check", &args)?;
        let launch = launch.grid(WARPS).threads(threads).keep(results.clone());
        launch.stop_flag(&stop, 0)?.limit(LIMIT).start()?.join()?;
        let all = results.all()?;
        let sum = |pick: fn(&VolumeCheckResult) -> u64| all.iter().map(pick).sum::<u64>();
        let found = (sum(|warp| warp.units), sum(|warp| warp.wrong), sum(|warp| warp.failed));
        ensure!(
            found == (self.units, 0, 0),
            "of {} units (done, wrong, failed) {found:?}: {all:x?}",
            self.units
        );
        Ok(())
    }
}

fn spread(reports: &[MemberReport], bytes: fn(&MemberReport) -> u64) -> u64 {
    let of = || reports.iter().map(bytes);
    of().max().unwrap_or(0) - of().min().unwrap_or(0)
}

/// Four soft SSDs, of which each has as many bytes, within one chunk.
pub fn striped_on(target: Target) -> anyhow::Result<String> {
    let ssds: anyhow::Result<Vec<_>> = (0..4).map(|_| soft("size=1m", None)).collect();
    striped_over(target, &ssds?, u64::MAX)
}

/// The same over these SSDs, with so many units of the volume.
pub fn striped_over(target: Target, ssds: &[Arc<Ssd>], most_units: u64) -> anyhow::Result<String> {
    let mut told = 0;
    for sharing in [Sharing::Exclusive, Sharing::Shared] {
        let made =
            Made::over(target, sharing, Shape::small(VolumeLayout::Stripe), ssds.to_vec(), most_units)?;
        let reports = made.write_and_read()?;
        for bytes in [|one: &MemberReport| one.bytes_read, |one: &MemberReport| one.bytes_written] {
            ensure!(spread(&reports, bytes) <= CHUNK, "{sharing:?}: {reports:?}");
            let total: u64 = reports.iter().map(bytes).sum();
            ensure!(total == made.bytes(), "{sharing:?}: {total} bytes, not {}: {reports:?}", made.bytes());
            told += total;
        }
    }
    Ok(format!("{told} bytes over {} SSDs, alike within {CHUNK}, exclusive and shared", ssds.len()))
}

/// Everything on each of these SSDs, and read from all of them.
pub fn mirrored_over(target: Target, ssds: &[Arc<Ssd>], most_units: u64) -> anyhow::Result<String> {
    let mut told = 0;
    for sharing in [Sharing::Exclusive, Sharing::Shared] {
        let made =
            Made::over(target, sharing, Shape::small(VolumeLayout::Replicate), ssds.to_vec(), most_units)?;
        let reports = made.write_and_read()?;
        ensure!(reports.iter().all(|one| one.bytes_written == made.bytes()), "{sharing:?}: {reports:?}");
        ensure!(reports.iter().all(|one| one.bytes_read > 0), "{sharing:?}: {reports:?}");
        let read: u64 = reports.iter().map(|one| one.bytes_read).sum();
        ensure!(read == made.bytes(), "{sharing:?}: {read} bytes read, not {}: {reports:?}", made.bytes());
        told += made.bytes();
    }
    Ok(format!("{told} bytes on each of {} SSDs, exclusive and shared", ssds.len()))
}

/// One after the other, every byte of each.
pub fn concatenated_over(target: Target, ssds: &[Arc<Ssd>]) -> anyhow::Result<String> {
    let shape = Shape { layout: VolumeLayout::Concatenate, chunk_bytes: 64 << 10, unit_blocks: 128 };
    let made = Made::over(target, Sharing::Shared, shape, ssds.to_vec(), u64::MAX)?;
    let reports = made.write_and_read()?;
    for (ssd, report) in ssds.iter().zip(&reports) {
        let bytes = ssd.namespace(None)?.bytes();
        ensure!((report.bytes_written, report.bytes_read) == (bytes, bytes), "{bytes} bytes: {report:?}");
    }
    Ok(format!("{} bytes, one after the other on {} SSDs", made.bytes(), ssds.len()))
}

/// Three SSDs, of which one fails from its hundredth write on: it is dropped, and nothing is lost.
pub fn replicated_on(target: Target) -> anyhow::Result<String> {
    const FAILS: &str =
        "[[fault]]\nkind = \"fail\"\nstatus = \"Internal Error\"\nopcode = \"write\"\nafter = 100\n";
    for sharing in [Sharing::Exclusive, Sharing::Shared] {
        let disks = [("size=1m", None), ("size=1m", Some(FAILS)), ("size=1m", None)];
        let made = Made::new(target, sharing, VolumeLayout::Replicate, &disks)?;
        let reports = made.write_and_read()?;
        let present: Vec<bool> = reports.iter().map(|one| one.present).collect();
        ensure!(present == [true, false, true], "{sharing:?}: {reports:?}");
        ensure!(reports[1].errors > 0 && reports[1].bytes_read == 0, "{sharing:?}: {reports:?}");
        let read: u64 = reports.iter().map(|one| one.bytes_read).sum();
        ensure!(read == made.bytes(), "{sharing:?}: {read} bytes read, not {}: {reports:?}", made.bytes());
    }
    Ok("three replicas, one dropped when its writes failed, everything read from the others".to_owned())
}

/// Three SSDs that have nothing in common, to the end of each.
pub fn concatenated_on(target: Target) -> anyhow::Result<String> {
    let disks = [("size=300k", None), ("size=200k,block=4096,sgl=off", None), ("size=130k", None)];
    for sharing in [Sharing::Exclusive, Sharing::Shared] {
        let made = Made::new(target, sharing, VolumeLayout::Concatenate, &disks)?;
        let reports = made.write_and_read()?;
        let written: u64 = reports.iter().map(|one| one.bytes_written).sum();
        ensure!(written == made.bytes(), "{sharing:?}: {written} of {} bytes: {reports:?}", made.bytes());
        let all_used =
            reports.iter().all(|one| one.bytes_written >= 8 * CHUNK && one.bytes_read == one.bytes_written);
        ensure!(all_used, "{sharing:?}: {reports:?}");
    }
    Ok("three SSDs of 300, 200 and 130 KiB, blocks of 512 and 4096 bytes".to_owned())
}
