//! What the processor and its memory do by themselves: fences and copies.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

use super::{Calibrator, Measurement, Quantity};
use crate::error::RunError;

/// Fences of one sample.
const FENCES: u64 = 200_000;
/// Bytes of a copy: more than caches hold.
const COPY_BYTES: usize = 64 << 20;
/// Copies of one sample.
const COPIES: u32 = 2;
const FENCE: &str = "a store and a sequentially consistent fence of one thread of the CPU, in a row";
const COPY: &str = "blocks of 64 MiB of host memory, by one thread of the CPU";

impl Calibrator<'_> {
    pub(super) fn host(&self) -> Result<Vec<Measurement>, RunError> {
        let copies = self.samples(Quantity::Copy, || {
            let bytes = f64::from(COPIES) * COPY_BYTES as f64;
            Ok(bytes / copy_time(COPY_BYTES, COPIES).as_nanos() as f64)
        })?;
        let copies = Measurement::new(Quantity::Copy, COPY, copies);
        if !self.on_cpu() {
            return Ok(vec![copies, Measurement::of_gpu(Quantity::Fence, FENCE)]);
        }
        let fences = self.samples(Quantity::Fence, || Ok(fence_ns()))?;
        Ok(vec![copies, Measurement::new(Quantity::Fence, FENCE, fences)])
    }
}

fn fence_ns() -> f64 {
    let word = AtomicU64::new(0);
    let begin = Instant::now();
    for count in 0..FENCES {
        black_box(&word).store(count, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
    begin.elapsed().as_nanos() as f64 / FENCES as f64
}

/// How long a thread takes to copy a block of `bytes` so many times.
pub fn copy_time(bytes: usize, times: u32) -> Duration {
    let (source, mut target) = (vec![1u8; bytes], vec![2u8; bytes]);
    let begin = Instant::now();
    for _ in 0..times {
        target.copy_from_slice(black_box(&source));
        black_box(&mut target);
    }
    begin.elapsed()
}
