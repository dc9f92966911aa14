//! `path`: how data comes to where a kernel uses it.

use std::path::{Path, PathBuf};

use warpbell::{Buffer, DeviceMemory, DeviceName};
use warpbell_hw::Nsid;
use warpbell_softctl::StoreConfig;

use super::host_reads::{Ended, Shape, random_reads};
use super::limits::configuration;
use super::proof::Original;
use super::{Figures, Lab, Way, figures_of, file_reads};
use crate::error::RunError;
use crate::job::LANES;
use crate::kernel::KernelRunner;
use crate::options::{Api, BenchOptions};
use crate::random::of_lane;
use crate::size::ByteSize;

/// Its ways: for each size the kernel's own commands, a bounce buffer of the host's, and the operating system's reads. In
/// virtual time copies take none, and the operating system has no part in it.
pub(super) fn ways(lab: &Lab<'_>) -> Vec<Way> {
    let mut ways: Vec<Way> = Vec::new();
    for size in lab.options.sizes.clone() {
        type Measure = fn(&mut Lab<'_>, &str, ByteSize, Shape) -> Result<(), RunError>;
        let all: [(&str, Measure); 4] =
            [("direct", direct), ("bounce", bounce), ("pread", pread), ("io_uring", io_uring)];
        for (way, measure) in all {
            let name = format!("{way} bs={size}");
            ways.push(Box::new(move |lab| match Shape::of_depth(lab, size, lab.iodepth)? {
                Ok(shape) => measure(lab, &name, size, shape),
                Err(reason) => {
                    lab.skip(&name, reason);
                    Ok(())
                }
            }));
        }
    }
    ways
}

/// The kernel's own commands. What it reads is where the SSD has written: the last read of each lane is looked at there, so
/// that nobody copies, and the controller's bytes say that nothing was moved twice.
fn direct(lab: &mut Lab<'_>, name: &str, size: ByteSize, shape: Shape) -> Result<(), RunError> {
    let options = BenchOptions { api: Api::Io, warps: Some(1), ..lab.reads(size) };
    let Some(job) = lab.job(name, &options)? else { return Ok(()) };
    let before = lab.bytes_read();
    let attachment = KernelRunner::attach(lab.ssd, lab.target, &job)?;
    let runner = KernelRunner::new(lab.ssd, &job, &attachment)?;
    let (outcome, lanes) = runner.measure_lanes(lab.control)?;
    let run = lab.run_of(outcome, &job);
    lab.judge(name, &run)?;
    if lab.control.stopped() {
        return Ok(());
    }
    for (lane, reads) in lanes.iter().enumerate().filter(|(_, reads)| **reads > 0) {
        last_read(lab, name, shape, &runner, (lane as u32, *reads))?;
    }
    let figures = Copied::default().figures(figures_of(&run), run.total.ios);
    let moved = lab.moved(before, shape, run.total.ios);
    lab.row(name, figures.merged(moved).merged(lab.reads_expected(size, lab.iodepth)));
    Ok(())
}

/// Looks whether one of a lane's slots has what the lane has read last.
fn last_read(
    lab: &Lab<'_>,
    name: &str,
    shape: Shape,
    runner: &KernelRunner<'_>,
    (lane, reads): (u32, u64),
) -> Result<(), RunError> {
    let mut random = of_lane(lab.options.seed, lane.into());
    let offset = (0..reads).map(|_| shape.draw(&mut random)).last().unwrap_or(0);
    let mut wrong = None;
    for slot in (lane..lab.iodepth).step_by(LANES as usize) {
        match Original::Ssd(lab).check(name, shape, offset, &runner.slot(slot)?) {
            Ok(()) => return Ok(()),
            Err(error) => wrong = wrong.or(Some(error)),
        }
    }
    wrong.map_or(Ok(()), Err)
}

fn bounce(lab: &mut Lab<'_>, name: &str, size: ByteSize, shape: Shape) -> Result<(), RunError> {
    let mut destination = Destination::new(lab, shape)?;
    let before = lab.bytes_read();
    let (figures, ios) = random_reads(lab, shape, |buffer, ended| destination.take(buffer, ended))?;
    if lab.control.stopped() {
        return Ok(());
    }
    destination.check(lab, name, shape)?;
    let moved = lab.moved(before, shape, ios);
    let figures = destination.copied.figures(figures, ios).merged(moved);
    lab.row(name, figures.merged(lab.reads_expected(size, lab.iodepth)));
    Ok(())
}

fn pread(lab: &mut Lab<'_>, name: &str, _: ByteSize, shape: Shape) -> Result<(), RunError> {
    by_the_system(lab, name, shape, file_reads::random_reads)
}

fn io_uring(lab: &mut Lab<'_>, name: &str, _: ByteSize, shape: Shape) -> Result<(), RunError> {
    by_the_system(lab, name, shape, file_reads::ring_reads)
}

fn by_the_system(
    lab: &mut Lab<'_>,
    name: &str,
    shape: Shape,
    reads: fn(&Lab<'_>, &str, Shape, &Path) -> Result<Figures, RunError>,
) -> Result<(), RunError> {
    if lab.in_virtual_time() {
        lab.skip(
            name,
            "in virtual time there are no reads of the operating system's, which the machine times",
        );
        return Ok(());
    }
    let file = || file_behind(lab.ssd.name(), lab.options.nsid);
    let Some(path) = lab.options.os_path.clone().or_else(file) else {
        let (nsid, ssd) = (lab.options.nsid, lab.ssd.name());
        lab.skip(
            name,
            format!("{nsid} of {ssd}: no file of it that the operating system reads: name one by --os-path"),
        );
        return Ok(());
    };
    match reads(lab, name, shape, &path) {
        // O_DIRECT, where the file system has it: the kernel's driver has the SSD write to the reader's memory.
        Ok(figures) if !lab.control.stopped() => lab.row(name, Copied::default().figures(figures, 1)),
        Ok(_) => {}
        Err(error @ RunError::Stream { .. }) => lab.skip(name, error.to_string()),
        Err(error) => return Err(error),
    }
    Ok(())
}

impl Lab<'_> {
    /// Bytes that the SSD has read so far, where that is counted.
    fn bytes_read(&self) -> Option<u64> {
        self.ssd.soft().map(|soft| soft.statistics().bytes_read)
    }

    /// Bytes that the SSD has moved since then for each I/O. The model: each byte once.
    fn moved(&self, before: Option<u64>, shape: Shape, ios: u64) -> Figures {
        let moved = self.bytes_read().zip(before).map(|(after, before)| after - before);
        let per_io = moved.map(|moved| moved as f64 / ios.max(1) as f64);
        let figures = Figures::default().with_counted("ssd_bytes_per_io", per_io);
        figures.with_counted("expected_ssd_bytes_per_io", moved.map(|_| shape.bytes as f64))
    }
}

/// The file behind a namespace of a soft controller.
fn file_behind(name: &DeviceName, nsid: Nsid) -> Option<PathBuf> {
    let config = configuration(name)?;
    let index = (nsid.get() as usize).checked_sub(1)?;
    match config.namespaces.into_iter().nth(index)?.store {
        StoreConfig::File { path, .. } => Some(path),
        StoreConfig::Memory { .. } => None,
    }
}

/// Copies that the host made, counted where they are made.
#[derive(Clone, Copy, Default)]
struct Copied {
    copies: u64,
    bytes: u64,
}

impl Copied {
    fn count(&mut self, bytes: usize) {
        self.copies += 1;
        self.bytes += bytes as u64;
    }

    fn figures(self, figures: Figures, ios: u64) -> Figures {
        let per_io = |count: u64| count as f64 / ios.max(1) as f64;
        figures.with("copies_per_io", per_io(self.copies)).with("copied_bytes_per_io", per_io(self.bytes))
    }
}

/// Memory where kernels use data, which the SSD does not write to.
struct Destination {
    /// The kernels' own on the CPU target; what is on its way to a GPU's memory otherwise.
    host: Vec<u8>,
    gpu: Option<DeviceMemory>,
    bytes: usize,
    /// By place: where the data that lies there is on the namespace.
    offsets: Vec<Option<u64>>,
    copied: Copied,
}

impl Destination {
    fn new(lab: &Lab<'_>, shape: Shape) -> Result<Destination, RunError> {
        let (bytes, all) = (shape.bytes as usize, lab.iodepth as usize * shape.bytes as usize);
        let target = lab.target.open()?;
        let gpu = target.gpu().map(|gpu| gpu.allocate(all)).transpose().map_err(warpbell::Error::from)?;
        let offsets = vec![None; lab.iodepth as usize];
        Ok(Destination { host: vec![0; all], gpu, bytes, offsets, copied: Copied::default() })
    }

    /// Copies what was read into `buffer`: once, and to a GPU's memory once more.
    fn take(&mut self, buffer: &Buffer, Ended { at, offset }: Ended) -> Result<(), RunError> {
        self.offsets[at / self.bytes] = Some(offset);
        let place = &mut self.host[at..at + self.bytes];
        buffer.read(at, place)?;
        self.copied.count(place.len());
        if let Some(memory) = &self.gpu {
            memory.write(at, place).map_err(warpbell::Error::from)?;
            self.copied.count(place.len());
        }
        Ok(())
    }
    /// Looks whether the last read of each place lies where kernels use it.
    fn check(&self, lab: &Lab<'_>, name: &str, shape: Shape) -> Result<(), RunError> {
        let mut found = vec![0; self.bytes];
        for (place, offset) in self.offsets.iter().enumerate() {
            let (Some(offset), at) = (offset, place * self.bytes) else { continue };
            match &self.gpu {
                Some(memory) => memory.read(at, &mut found).map_err(warpbell::Error::from)?,
                None => found.copy_from_slice(&self.host[at..at + self.bytes]),
            }
            Original::Ssd(lab).check(name, shape, *offset, &found)?;
        }
        Ok(())
    }
}
