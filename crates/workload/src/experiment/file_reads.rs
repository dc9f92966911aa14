//! The same reads by the operating system, with O_DIRECT: `pread` of as many threads as reads are to be in flight, and
//! io_uring of one thread.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use warpbell_base::SplitMix64;
use warpbell_platform::RingReads;

use super::host_reads::Shape;
use super::proof::Original;
use super::{Figures, Lab, figures_of_ios};
use crate::cpu;
use crate::error::RunError;
use crate::latency::LatencyHistogram;

/// What O_DIRECT aligns memory to, on any device.
const ALIGNMENT: usize = 4096;

/// What a thread found.
struct Share {
    latencies: LatencyHistogram,
    cpu: Duration,
    /// Its last read: where, and what came.
    last: (u64, Vec<u8>),
}

fn failed(source: std::io::Error) -> RunError {
    RunError::Stream { side: "the file that the operating system reads", source }
}

/// The file with O_DIRECT, and by way of the page cache. An error where the kernel would copy all the same.
fn opened(path: &Path) -> Result<(File, File), RunError> {
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    let open = || {
        let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        match copies(&file)? {
            Some(why) => Err(std::io::Error::new(std::io::ErrorKind::Unsupported, why)),
            None => Ok((file, File::open(path)?)),
        }
    };
    open().map_err(failed)
}

/// Magic numbers of file systems whose files are memory (statfs(2)).
const MEMORY: [(i64, &str); 2] = [(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs")];

/// Why reads with O_DIRECT are copied by the kernel, if so: some file systems take the flag and have no way for it.
fn copies(file: &File) -> std::io::Result<Option<String>> {
    let kind = rustix::fs::fstatfs(file)?.f_type as i64;
    if let Some((_, name)) = MEMORY.iter().find(|(magic, _)| *magic == kind) {
        return Ok(Some(format!("on {name}: the kernel copies what O_DIRECT reads there")));
    }
    let said = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    // Kernels before 6.1 do not say.
    let none = said.is_ok_and(|said| {
        StatxFlags::from_bits_retain(said.stx_mask).contains(StatxFlags::DIOALIGN)
            && said.stx_dio_mem_align == 0
    });
    Ok(none.then(|| "its file system has no direct I/O (statx): the kernel copies".to_owned()))
}

fn short(got: usize, bytes: usize) -> std::io::Error {
    let text = format!("{got} of {bytes} bytes: the file is shorter than the namespace");
    std::io::Error::new(std::io::ErrorKind::UnexpectedEof, text)
}

/// Random reads of the file by io_uring, for the lab's time: one thread keeps all of them in flight.
pub(super) fn ring_reads(lab: &Lab<'_>, name: &str, shape: Shape, path: &Path) -> Result<Figures, RunError> {
    let (file, original) = opened(path)?;
    let off = |source| RunError::Stream { side: "io_uring", source };
    let bytes = shape.bytes as usize;
    let mut reads = RingReads::new(file, lab.iodepth, bytes).map_err(off)?;
    let (mut random, mut latencies) = (SplitMix64::new(lab.options.seed, 0), LatencyHistogram::new());
    let (begin, cpu) = (Instant::now(), cpu::thread_time());
    let mut since = vec![begin; lab.iodepth as usize];
    let mut offsets: Vec<u64> = (0..lab.iodepth).map(|_| shape.draw(&mut random)).collect();
    for (slot, offset) in offsets.iter().enumerate() {
        reads.begin(slot, *offset).map_err(off)?;
    }
    let (mut free, mut wrong) = (Vec::new(), None);
    while reads.in_flight() > 0 {
        reads
            .wait(|slot, got| {
                latencies.record(since[slot].elapsed().as_nanos() as u64, 1);
                free.push(slot);
                let got = got.and_then(|got| if got == bytes { Ok(()) } else { Err(short(got, bytes)) });
                wrong = wrong.take().or(got.err());
            })
            .map_err(off)?;
        if let Some(error) = wrong {
            return Err(failed(error));
        }
        let goes_on = begin.elapsed() < lab.options.runtime && !lab.control.stopped();
        for slot in free.drain(..).filter(|_| goes_on) {
            since[slot] = Instant::now();
            offsets[slot] = shape.draw(&mut random);
            reads.begin(slot, offsets[slot]).map_err(off)?;
        }
    }
    let figures = figures_of_ios(&latencies, shape.bytes, begin.elapsed(), cpu::thread_time() - cpu);
    for (slot, offset) in offsets.iter().enumerate() {
        let got = reads.data(slot).unwrap_or_default();
        Original::File(&original).check(name, shape, *offset, got)?;
    }
    Ok(figures)
}

/// Random reads of the file by threads, for the lab's time.
pub(super) fn random_reads(
    lab: &Lab<'_>,
    name: &str,
    shape: Shape,
    path: &Path,
) -> Result<Figures, RunError> {
    let (file, original) = opened(path)?;
    let begin = Instant::now();
    let shares = std::thread::scope(|scope| {
        let reader = |thread: u64| {
            let file = &file;
            scope.spawn(move || share(lab, shape, file, thread, begin))
        };
        let threads: Vec<_> = (0..u64::from(lab.iodepth)).map(reader).collect();
        let joined = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(std::io::ErrorKind::Other.into())));
        joined.collect::<Result<Vec<Share>, std::io::Error>>()
    });
    let (elapsed, mut latencies, mut cpu) = (begin.elapsed(), LatencyHistogram::new(), Duration::ZERO);
    for share in shares.map_err(failed)? {
        let (offset, got) = &share.last;
        Original::File(&original).check(name, shape, *offset, got)?;
        latencies.merge(&share.latencies);
        cpu += share.cpu;
    }
    Ok(figures_of_ios(&latencies, shape.bytes, elapsed, cpu))
}

fn share(
    lab: &Lab<'_>,
    shape: Shape,
    file: &File,
    thread: u64,
    begin: Instant,
) -> Result<Share, std::io::Error> {
    let bytes = shape.bytes as usize;
    let mut memory = vec![0u8; bytes + ALIGNMENT];
    let skip = memory.as_ptr().align_offset(ALIGNMENT);
    let into = &mut memory[skip..skip + bytes];
    let mut random = SplitMix64::new(lab.options.seed, thread);
    let (mut latencies, cpu) = (LatencyHistogram::new(), cpu::thread_time());
    let last = loop {
        let read = Instant::now();
        let offset = shape.draw(&mut random);
        let got = rustix::io::pread(file, &mut *into, offset)?;
        if got != bytes {
            return Err(short(got, bytes));
        }
        latencies.record(read.elapsed().as_nanos() as u64, 1);
        // On a busy machine a thread may come late: it has read once all the same.
        if begin.elapsed() >= lab.options.runtime || lab.control.stopped() {
            break offset;
        }
    };
    let cpu = cpu::thread_time() - cpu;
    Ok(Share { latencies, cpu, last: (last, into.to_vec()) })
}
