//! The same reads by the operating system: `pread` with O_DIRECT, of as many threads as reads are to be in flight.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};

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

/// Random reads of the file for the lab's time.
pub(super) fn random_reads(lab: &Lab<'_>, shape: Shape, path: &Path) -> Result<Figures, RunError> {
    let failed = |source: std::io::Error| RunError::Stream {
        side: "the file that the operating system reads",
        source,
    };
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    let file =
        File::from(rustix::fs::open(path, flags, Mode::empty()).map_err(|error| failed(error.into()))?);
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
            let text = format!("{got} of {bytes} bytes: the file is shorter than the namespace");
            return Err(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, text));
        }
        latencies.record(read.elapsed().as_nanos() as u64, 1);
    }
    Ok(Share { latencies, cpu: cpu::thread_time() - cpu })
}
