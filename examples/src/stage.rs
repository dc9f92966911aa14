// UNSAFETY: loads kernels of the programs.
#![expect(unsafe_code, reason = "a compiled kernel is native code")]
//! The SSD with the data on it, the queues, and the program's kernels.

use std::time::{Duration, Instant};

use warpbell::abi::{BufferRef, CacheRef, FileRef, NamespaceRef};
use warpbell::{
    AttachOptions, Attachment, CompileOptions, FileTable, KernelMemory, Lba, PageCache, PageCacheSpec,
    Program, Sharing,
};
use warpbell_workload::Control;
use zerocopy::{Immutable, IntoBytes};

use crate::disk::{Disk, usage};
use crate::pass::{Measured, Pass, Way};
use crate::progress::Bar;
use crate::{DataFile, Failure, Options, Outcome};

/// As in programs/program.cuh; the first member of each program's arguments.
#[derive(Clone, Copy, Debug, IntoBytes, Immutable)]
#[repr(C)]
pub struct StageRef {
    pub(crate) ns: NamespaceRef,
    pub(crate) buffer: BufferRef,
    pub(crate) cache: CacheRef,
    pub(crate) loaded: u64,
    pub(crate) notes: u64,
    pub(crate) file: FileRef,
}

/// A program's device code.
#[derive(Clone, Copy, Debug)]
pub struct Code {
    /// What messages call it.
    pub name: &'static str,
    /// Its text, which includes `program.cuh`, or `csr.cuh`.
    pub source: &'static str,
}

/// A page that another warp reads has to come within this; machines may be slow.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Everything is set up, and the data is on the SSD.
pub struct Stage<'a> {
    pub(crate) options: &'a Options,
    pub(crate) data: &'a DataFile,
    pub(crate) disk: Disk,
    pub(crate) queues: Attachment,
    pub(crate) program: Program,
    /// Where the data lies, if it is a file.
    pub(crate) file: Option<FileTable>,
    /// How kernels name it; empty where there is none.
    pub(crate) reference: FileRef,
}

impl<'a> Stage<'a> {
    /// Writes the data to the SSD, with at least `room` bytes of zeroes behind it (from [`DataFile::room`] on), attaches
    /// queues and compiles the kernels. A file on the SSD is read where it is.
    pub fn open(
        options: &'a Options,
        data: &'a DataFile,
        code: Code,
        room: u64,
    ) -> Result<Stage<'a>, Failure> {
        check(options)?;
        let bytes = (data.room() + room).next_multiple_of(options.page.0);
        let disk = Disk::open(options, bytes)?;
        if disk.file.is_some() && room != 0 {
            let limit = "a file is only read, and this program stores results behind its data".to_owned();
            return Err(usage("--device", data.name(), limit));
        }
        if disk.file.is_none() {
            let control = Control::new();
            watched("write data", bytes, options, &control, || disk.fill(data, &control))?;
        }
        let queues = disk.ssd.attach(
            &AttachOptions::new()
                .target(options.target)
                .queues(options.queues())
                .warps(options.warps)
                .iodepth(255)
                .sharing(Sharing::Shared)
                .timeout(TIMEOUT),
        )?;
        let compiling = CompileOptions::default()
            .header("program.cuh", include_str!("../programs/program.cuh"))
            .header("csr.cuh", include_str!("../programs/csr.cuh"));
        let file = disk.file.as_ref().map(|map| FileTable::new(&queues, map)).transpose()?;
        let reference = file.as_ref().map_or(Ok(FileRef::new()), |file| file.reference(&queues))?;
        let compiling = if file.is_some() { compiling.define("PROGRAM_OF_FILE") } else { compiling };
        // SAFETY: the programs' sources have no initialisers of their own.
        let program = unsafe { Program::compile(queues.target(), code.name, code.source, &compiling) }?;
        Ok(Stage { options, data, disk, queues, program, file, reference })
    }

    /// Bytes of the SSD, read by the host; `offset` as in the data's file.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Failure> {
        self.disk.read(offset, into)
    }

    /// The same as values of `N` bytes: `stage.values(z, count * 4, f32::from_le_bytes)`.
    pub fn values<T, const N: usize>(
        &self,
        offset: u64,
        bytes: u64,
        value: impl Fn([u8; N]) -> T,
    ) -> Result<Vec<T>, Failure> {
        let mut found = vec![0; bytes as usize];
        self.read(offset, &mut found)?;
        Ok(crate::values(&found, value))
    }

    /// With `--corrupt`, changes the byte of the SSD at `offset`: of data that the result depends on, and that no cache
    /// has read yet.
    pub fn corrupt(&self, offset: u64) -> Result<(), Failure> {
        if self.options.corrupt { self.disk.damage(offset) } else { Ok(()) }
    }

    /// Sets whole blocks of the SSD to zero.
    pub fn clear(&self, offset: u64, bytes: u64) -> Result<(), Failure> {
        let bytes = bytes.next_multiple_of(self.disk.block());
        self.disk.write(offset, bytes, &mut std::io::repeat(0))
    }

    /// Runs `work` over an empty page cache.
    pub fn cached<R>(
        &self,
        work: impl FnOnce(&mut Pass) -> Result<R, Failure>,
    ) -> Result<(R, Measured), Failure> {
        let page = self.options.page.0;
        let spec = PageCacheSpec::new()
            .page_bytes(page as u32)
            .lines((self.options.cache_bytes() / page) as u32)
            .first_block(Lba(self.disk.first_block()))
            .timeout(TIMEOUT);
        let end = self.disk.first_block() + self.disk.bytes() / self.disk.block();
        let (target, block) = (self.queues.target(), self.disk.block() as u32);
        let cache = match &self.file {
            Some(file) => PageCache::of_file(target, file, &spec)?,
            None => PageCache::new(target, (end, block), &spec)?,
        };
        Pass::new(self, Way::Cached(cache))?.run(work)
    }

    /// Loads the data first, then runs `work` over memory.
    pub fn loaded<R>(
        &self,
        work: impl FnOnce(&mut Pass) -> Result<R, Failure>,
    ) -> Result<(R, Measured), Failure> {
        let memory = self.queues.target().memory(self.disk.bytes() as usize)?;
        // The room for results behind the data is zeroes, in new memory as on the SSD.
        let bytes = self.data.room().next_multiple_of(self.disk.block());
        let control = Control::new();
        let mut into = Into { memory: &memory, at: 0 };
        let start = Instant::now();
        let load = || self.disk.stream(0, bytes, &mut into, &control);
        watched("load everything", bytes, self.options, &control, load)?;
        Pass::new(self, Way::Loaded { memory, took: start.elapsed() })?.run(work)
    }

    /// Prints the outcome; the end of the program.
    pub fn report(&self, outcome: Outcome) -> Result<(), Failure> {
        crate::report::print(self, &outcome)?;
        match outcome.check.passed() {
            true => Ok(()),
            false => Err(Failure::Wrong(format!("{}: {}", outcome.program, outcome.check.text()))),
        }
    }
}

fn check(options: &Options) -> Result<(), Failure> {
    let (page, cache) = (options.page.0, options.cache.0);
    if !page.is_power_of_two() || !(512..=1 << 20).contains(&page) {
        return Err(usage("--page", page, "must be a power of two from 512 to 1 MiB".to_owned()));
    }
    if cache < page || cache / page > 1 << 30 {
        return Err(usage("--cache", cache, format!("must have room for 1 to 2^30 pages of {page} bytes")));
    }
    Ok(())
}

/// Runs work of the host's, and shows how far it got.
fn watched<T: Send>(
    label: &str,
    bytes: u64,
    options: &Options,
    control: &Control,
    work: impl FnOnce() -> T,
) -> T {
    let bar = Bar::new(label, bytes, options.quiet);
    let (ended, wait) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let wait = wait;
            while wait.recv_timeout(Duration::from_millis(100))
                == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
            {
                bar.at(control.done().1);
            }
        });
        let result = work();
        drop(ended);
        result
    })
}

/// Copies what is written to it into memory of the target.
struct Into<'a> {
    memory: &'a KernelMemory,
    at: usize,
}

impl std::io::Write for Into<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.memory.write(self.at, bytes).map_err(std::io::Error::other)?;
        self.at += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
