//! `path`: how data comes to where a kernel uses it.

use std::cell::Cell;
use std::path::PathBuf;

use warpbell::{Buffer, DeviceMemory, DeviceName};
use warpbell_hw::Window;
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
        let figures = figures_of(&run);
        lab.row(name, copies(figures, 0, size.0, 1));
    }
    Ok(())
}

fn bounce(lab: &mut Lab<'_>, size: ByteSize, shape: Shape) -> Result<(), RunError> {
    let destination = Destination::new(lab, shape)?;
    let (mut between, mut ios) = (vec![0; shape.bytes as usize], 0u64);
    let figures = random_reads(lab, shape, |buffer, at| {
        ios += 1;
        destination.take(buffer, at, &mut between)
    })?;
    lab.row(format!("bounce bs={size}"), copies(figures, destination.copies(), shape.bytes, ios));
    Ok(())
}

fn by_the_system(lab: &mut Lab<'_>, size: ByteSize, shape: Shape) -> Result<(), RunError> {
    let name = format!("pread bs={size}");
    let Some(path) = lab.options.os_path.clone().or_else(|| file_behind(lab.ssd.name())) else {
        lab.skip(&name, "no file that the operating system reads: name one by --os-path");
        return Ok(());
    };
    match file_reads::random_reads(lab, shape, &path) {
        Ok(figures) => lab.row(name, copies(figures, 0, shape.bytes, 1)),
        Err(error @ RunError::Stream { .. }) => lab.skip(&name, error.to_string()),
        Err(error) => return Err(error),
    }
    Ok(())
}

/// The file behind a soft controller.
fn file_behind(name: &DeviceName) -> Option<PathBuf> {
    let DeviceName::Soft(text) = name else { return None };
    let config = SoftConfig::parse(text).ok()?;
    config.namespaces.into_iter().find_map(|namespace| match namespace.store {
        StoreConfig::File { path, .. } => Some(path),
        _ => None,
    })
}

/// Copies that the host made, for each I/O.
fn copies(figures: Figures, copies: u64, bytes: u64, ios: u64) -> Figures {
    let per_io = copies as f64 / ios.max(1) as f64;
    figures.with("copies_per_io", per_io).with("copied_bytes_per_io", per_io * bytes as f64)
}

/// Memory where kernels use data, which the SSD does not write to.
struct Destination {
    place: Place,
    made: Cell<u64>,
}

enum Place {
    Host(Window),
    Gpu(DeviceMemory),
}

impl Destination {
    fn new(lab: &Lab<'_>, shape: Shape) -> Result<Destination, RunError> {
        let bytes = lab.options.iodepth as usize * shape.bytes as usize;
        let place = match lab.target.open()?.gpu() {
            Some(gpu) => Place::Gpu(gpu.allocate(bytes).map_err(warpbell::Error::from)?),
            None => Place::Host(Window::host(bytes)?),
        };
        Ok(Destination { place, made: Cell::new(0) })
    }

    /// Copies what was read into `buffer` at `at`.
    fn take(&self, buffer: &Buffer, at: usize, between: &mut [u8]) -> Result<(), RunError> {
        buffer.read(at, between)?;
        match &self.place {
            Place::Host(window) => window.write(at, between)?,
            Place::Gpu(memory) => memory.write(at, between).map_err(warpbell::Error::from)?,
        }
        self.made.set(self.made.get() + 1);
        Ok(())
    }

    fn copies(&self) -> u64 {
        self.made.get()
    }
}
