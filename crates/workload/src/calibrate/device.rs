//! What the SSD does, by the workloads of `bench`: latency, interrupts, speed.

use std::time::Duration;

use super::{Calibrator, Measurement, Quantity, Samples, Unmeasured};
use crate::bench::{bench, resolve};
use crate::error::RunError;
use crate::options::{Access, Api, BenchOptions, Completion};
use crate::result::Run;
use crate::size::ByteSize;

/// How long one sample takes.
const RUNTIME: Duration = Duration::from_millis(100);
const LATENCY: &str = "bench: randread of 4 KiB, iodepth 1, polled, the median of each run of 100 ms";
const INTERRUPT: &str = "the same with interrupts, the median latency of a run minus that of polling";
const BANDWIDTH: &str = "bench: read of 128 KiB, iodepth 32, runs of 100 ms";
const IOPS: &str = "bench: randread of 4 KiB, iodepth 128, one queue, runs of 100 ms";

impl Calibrator<'_> {
    pub(super) fn device(&self) -> Result<Vec<Measurement>, RunError> {
        let api = if self.on_cpu() { Api::Host } else { Api::Raw };
        let small = BenchOptions { bs: ByteSize(4096), api, ..BenchOptions::default() };
        let alone = BenchOptions { rw: Access::RandRead, iodepth: 1, ..small.clone() };
        let many = BenchOptions { rw: Access::RandRead, iodepth: 128, ..small.clone() };
        let large = BenchOptions { rw: Access::Read, bs: ByteSize(128 << 10), iodepth: 32, ..small };
        let latency = self.samples(Quantity::Latency, || latency_us(&self.measure(&alone)?))?;
        let interrupt = self.interrupt(&alone, &latency)?;
        let speed = || Ok(self.measure(&large)?.read.bytes_per_s / 1e9);
        let bandwidth = self.samples(Quantity::Bandwidth, speed)?;
        let iops = self.samples(Quantity::Iops, || Ok(self.measure(&many)?.read.iops))?;
        Ok(vec![
            Measurement::new(Quantity::Latency, LATENCY, latency),
            Measurement::new(Quantity::Interrupt, INTERRUPT, interrupt),
            Measurement::new(Quantity::Bandwidth, BANDWIDTH, bandwidth),
            Measurement::new(Quantity::Iops, IOPS, iops),
        ])
    }

    fn interrupt(
        &self,
        alone: &BenchOptions,
        polled: &Result<Samples, Unmeasured>,
    ) -> Result<Result<Samples, Unmeasured>, RunError> {
        if !self.on_cpu() {
            return Ok(Err(Unmeasured::NoInterrupts));
        }
        let Ok(polled) = polled else { return Ok(Err(Unmeasured::NoLatency)) };
        let options = BenchOptions { completion: Completion::Interrupt, ..alone.clone() };
        let later = || Ok(latency_us(&self.measure(&options)?)? - polled.median());
        let samples = self.samples(Quantity::Interrupt, later)?;
        Ok(samples.and_then(|samples| match samples.median() > 0.0 {
            true => Ok(samples),
            false => Err(Unmeasured::NoLater),
        }))
    }

    /// One run, which must be without errors.
    fn measure(&self, options: &BenchOptions) -> Result<Run, RunError> {
        let nsid = self.ssd.namespace(None)?.nsid;
        let options = BenchOptions { nsid, runtime: Some(RUNTIME), ..options.clone() };
        let job = resolve(self.ssd, &options)?;
        let run = bench(self.ssd, self.target, &job, self.control)?;
        if let Some(failure) = run.failures.first() {
            return Err(RunError::failed(failure));
        }
        // What recovery had to help with, or what broke rules, is no figure of the SSD's.
        match run.errors + run.violations {
            0 => Ok(run),
            _ => Err(RunError::Unmeasurable(format!("{} errors, {} violations", run.errors, run.violations))),
        }
    }
}

fn latency_us(run: &Run) -> Result<f64, RunError> {
    let latency = run.read_lat_ns.as_ref();
    let latency = latency.ok_or_else(|| RunError::Unmeasurable("no read ended in 100 ms".to_owned()))?;
    Ok(latency.p50 as f64 / 1e3)
}
