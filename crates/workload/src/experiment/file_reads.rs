//! The same reads by the operating system, with O_DIRECT: `pread` of as many threads as reads are to be in flight, and
//! io_uring of one thread.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use warpbell_platform::RingReads;

use super::host_reads::Shape;
use super::{Figures, Lab, figures_of_ios};
use crate::cpu;
use crate::error::RunError;
use crate::latency::LatencyHistogram;
use crate::random::SplitMix64;

/// What O_DIRECT aligns memory to, on any device.
const ALIGNMENT: usize = 4096;

/// What a thread found.
struct Share {
    latencies: LatencyHistogram,
    cpu: Duration,
}

fn failed(source: std::io::Error) -> RunError {
    RunError::Stream { side: "the file that the operating system reads", source }
}

fn opened(path: &Path) -> Result<File, RunError> {
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty()).map_err(|error| failed(error.into()))?))
}

fn short(got: usize, bytes: usize) -> std::io::Error {
    let text = format!("{got} of {bytes} bytes: the file is shorter than the namespace");
    std::io::Error::new(std::io::ErrorKind::UnexpectedEof, text)
}

/// Random reads of the file by io_uring, for the lab's time: one thread keeps all of them in flight.
pub(super) fn ring_reads(lab: &Lab<'_>, shape: Shape, path: &Path) -> Result<Figures, RunError> {
    let file = opened(path)?;
    let off = |source| RunError::Stream { side: "io_uring", source };
    let bytes = shape.bytes as usize;
    let mut reads = RingReads::new(file, lab.iodepth, bytes).map_err(off)?;
    let (mut random, mut latencies) = (SplitMix64::new(lab.options.seed, 0), LatencyHistogram::new());
    let (begin, cpu) = (Instant::now(), cpu::thread_time());
    let mut since = vec![begin; lab.iodepth as usize];
    for slot in 0..lab.iodepth as usize {
        reads.begin(slot, shape.draw(&mut random)).map_err(off)?;
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
            reads.begin(slot, shape.draw(&mut random)).map_err(off)?;
        }
    }
    Ok(figures_of_ios(&latencies, shape.bytes, begin.elapsed(), cpu::thread_time() - cpu))
}

/// Random reads of the file by threads, for the lab's time.
pub(super) fn random_reads(lab: &Lab<'_>, shape: Shape, path: &Path) -> Result<Figures, RunError> {
    let file = opened(path)?;
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
    while begin.elapsed() < lab.options.runtime && !lab.control.stopped() {
        let read = Instant::now();
        let got = rustix::io::pread(file, &mut *into, shape.draw(&mut random))?;
        if got != bytes {
            return Err(short(got, bytes));
        }
        latencies.record(read.elapsed().as_nanos() as u64, 1);
    }
    Ok(Share { latencies, cpu: cpu::thread_time() - cpu })
}
