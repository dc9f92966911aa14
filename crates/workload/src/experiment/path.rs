//! `path`: how data comes to where a kernel uses it.

use std::path::{Path, PathBuf};

use warpbell::{Buffer, DeviceMemory, DeviceName};
use warpbell_hw::Nsid;
use warpbell_softctl::{SoftConfig, StoreConfig};

use super::host_reads::{Shape, random_reads};
use super::{Figures, Lab, figures_of, file_reads};
use crate::error::RunError;
use crate::options::{Api, BenchOptions};
use crate::size::ByteSize;

/// Runs it: for each size the kernel's own commands, a bounce buffer of the host's, and the operating system's reads.
pub(super) fn run(lab: &mut Lab<'_>) -> Result<(), RunError> {
    lab.in_real_time()?;
    for size in lab.options.sizes.clone() {
        if lab.control.stopped() {
            break;
        }
        direct(lab, size)?;
        match Shape::of(lab, size)? {
            Ok(shape) => {
                bounce(lab, size, shape)?;
                by_the_system(lab, size, shape)?;
            }
            Err(reason) => lab.skip(&format!("bounce, pread bs={size}"), reason),
        }
    }
    Ok(())
}

fn direct(lab: &mut Lab<'_>, size: ByteSize) -> Result<(), RunError> {
    let name = format!("direct bs={size}");
    let options = BenchOptions { api: Api::Io, ..lab.reads(size) };
    if let Some(run) = lab.point(&name, &options)? {
        // The SSD writes where the kernel reads: there is nobody that copies.
        lab.row(name, Copied::default().figures(figures_of(&run), 1));
    }
    Ok(())
}

fn bounce(lab: &mut Lab<'_>, size: ByteSize, shape: Shape) -> Result<(), RunError> {
    let mut destination = Destination::new(lab, shape)?;
    let mut ios = 0;
    let figures = random_reads(lab, shape, |buffer, at| {
        ios += 1;
        destination.take(buffer, at)
    })?;
    if !lab.control.stopped() {
        lab.row(format!("bounce bs={size}"), destination.copied.figures(figures, ios));
    }
    Ok(())
}

fn by_the_system(lab: &mut Lab<'_>, size: ByteSize, shape: Shape) -> Result<(), RunError> {
    let file = || file_behind(lab.ssd.name(), lab.options.nsid);
    let Some(path) = lab.options.os_path.clone().or_else(file) else {
        let why = "no file that the operating system reads: name one by --os-path";
        lab.skip(&format!("pread bs={size}"), why);
        lab.skip(&format!("io_uring bs={size}"), why);
        return Ok(());
    };
    type Reads = fn(&Lab<'_>, Shape, &Path) -> Result<Figures, RunError>;
    for (way, reads) in [("pread", file_reads::random_reads as Reads), ("io_uring", file_reads::ring_reads)] {
        if lab.control.stopped() {
            break;
        }
        let name = format!("{way} bs={size}");
        match reads(lab, shape, &path) {
            // O_DIRECT: the kernel's driver has the SSD write to the reader's memory.
            Ok(figures) if !lab.control.stopped() => lab.row(name, Copied::default().figures(figures, 1)),
            Ok(_) => {}
            Err(error @ RunError::Stream { .. }) => lab.skip(&name, error.to_string()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The file behind a namespace of a soft controller.
fn file_behind(name: &DeviceName, nsid: Nsid) -> Option<PathBuf> {
    let DeviceName::Soft(text) = name else { return None };
    let config = SoftConfig::parse(text).ok()?;
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
    copied: Copied,
}

impl Destination {
    fn new(lab: &Lab<'_>, shape: Shape) -> Result<Destination, RunError> {
        let (bytes, all) = (shape.bytes as usize, lab.iodepth as usize * shape.bytes as usize);
        let target = lab.target.open()?;
        let gpu = target.gpu().map(|gpu| gpu.allocate(all)).transpose().map_err(warpbell::Error::from)?;
        Ok(Destination { host: vec![0; all], gpu, bytes, copied: Copied::default() })
    }

    /// Copies what was read into `buffer` at `at`: once, and to a GPU's memory once more.
    fn take(&mut self, buffer: &Buffer, at: usize) -> Result<(), RunError> {
        let place = &mut self.host[at..at + self.bytes];
        buffer.read(at, place)?;
        self.copied.count(place.len());
        if let Some(memory) = &self.gpu {
            memory.write(at, place).map_err(warpbell::Error::from)?;
            self.copied.count(place.len());
        }
        Ok(())
    }
}
