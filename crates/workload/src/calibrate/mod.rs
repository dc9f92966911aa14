//! `bench calibrate`: what the steps of an I/O cost on this machine, for models that ask for it.
//!
//! Each [`Quantity`] is measured in rounds, one sample each; their median is the value. What cannot be measured is left
//! out, with the reason: nothing is guessed.

mod device;
mod fit;
mod host;
mod queue;
mod registration;
mod samples;

use std::sync::Arc;

use warpbell::{Ssd, Target};

use crate::control::Control;
use crate::error::RunError;
use crate::stopwatch::ClockKind;

pub use host::copy_time;
pub use samples::Samples;

/// Fewest rounds: fewer have no spread.
pub const MIN_ROUNDS: u32 = 3;
/// Rounds unless asked otherwise.
pub const DEFAULT_ROUNDS: u32 = 7;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Registering a buffer: what it costs at any size.
    RegistrationFixed,
    /// Registering a buffer: what each page of 4 KiB adds.
    RegistrationPage,
    /// A fence of the whole system, behind a store.
    Fence,
    /// Writing one submission entry, with all that submitting it takes.
    Entry,
    /// Ringing a submission doorbell.
    Doorbell,
    /// A poll of a completion ring that has nothing new.
    Poll,
    /// A read of 4 KiB, alone on the SSD.
    Latency,
    /// From a completion to the thread that slept for it, beyond polling.
    Interrupt,
    /// Sequential reads.
    Bandwidth,
    /// Random reads of 4 KiB.
    Iops,
    /// Copies of host memory.
    Copy,
}

impl Quantity {
    /// All of them.
    pub const ALL: [Quantity; 11] = [
        Quantity::RegistrationFixed,
        Quantity::RegistrationPage,
        Quantity::Fence,
        Quantity::Entry,
        Quantity::Doorbell,
        Quantity::Poll,
        Quantity::Latency,
        Quantity::Interrupt,
        Quantity::Bandwidth,
        Quantity::Iops,
        Quantity::Copy,
    ];

    /// Its unit.
    pub fn unit(self) -> &'static str {
        match self {
            Quantity::RegistrationFixed
            | Quantity::RegistrationPage
            | Quantity::Latency
            | Quantity::Interrupt => "us",
            Quantity::Fence | Quantity::Entry | Quantity::Doorbell | Quantity::Poll => "ns",
            Quantity::Bandwidth | Quantity::Copy => "GB/s",
            Quantity::Iops => "1/s",
        }
    }

    /// What it is, in a few words.
    pub fn words(self) -> &'static str {
        match self {
            Quantity::RegistrationFixed => "registering a buffer",
            Quantity::RegistrationPage => "registering, each page of 4 KiB",
            Quantity::Fence => "fence",
            Quantity::Entry => "submitting one entry",
            Quantity::Doorbell => "ringing a doorbell",
            Quantity::Poll => "a poll for completions",
            Quantity::Latency => "latency of a read",
            Quantity::Interrupt => "interrupt, beyond polling",
            Quantity::Bandwidth => "speed of reading",
            Quantity::Iops => "reads a second",
            Quantity::Copy => "speed of a copy",
        }
    }
}

/// Why a quantity has no samples.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Unmeasured {
    /// A sample failed.
    #[error(transparent)]
    Failed(Arc<RunError>),
    /// Only a kernel could time it.
    #[error("on a GPU this is a kernel's to time, which this version has none for")]
    OnGpu,
    /// Interrupts are the host's.
    #[error("kernels take no interrupts")]
    NoInterrupts,
    /// There is nothing to compare with.
    #[error("the latency by polling is not known")]
    NoLatency,
    /// It is below what can be told.
    #[error("completions were noticed no later by interrupts than by polling")]
    NoLater,
}

/// A quantity with what came of measuring it.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// What was measured.
    pub quantity: Quantity,
    /// How, or how it would have been.
    pub how: &'static str,
    /// The samples; or why there are none.
    pub samples: Result<Samples, Unmeasured>,
    /// Of a fit: the share of the differences that it explains.
    pub r2: Option<f64>,
}

/// What measures, and what is done meanwhile.
pub struct Calibrator<'a> {
    /// The SSD.
    pub ssd: &'a Ssd,
    /// Where kernels run.
    pub target: Target,
    /// Samples of each quantity.
    pub rounds: u32,
    /// By which it is told to end.
    pub control: &'a Control,
    /// Told what is measured next.
    pub announce: &'a dyn Fn(Quantity),
}

impl Calibrator<'_> {
    /// Measures all quantities.
    pub fn run(&self) -> Result<Vec<Measurement>, RunError> {
        if ClockKind::of(self.ssd) == ClockKind::Virtual {
            return Err(RunError::VirtualTime { device: self.ssd.name().to_string() });
        }
        let mut all = self.registration()?;
        all.extend(self.host()?);
        all.extend(self.queue()?);
        all.extend(self.device()?);
        all.sort_by_key(|one| Quantity::ALL.iter().position(|quantity| *quantity == one.quantity));
        Ok(all)
    }

    /// One sample for each round.
    fn samples(
        &self,
        quantity: Quantity,
        mut sample: impl FnMut() -> Result<f64, RunError>,
    ) -> Result<Result<Samples, Unmeasured>, RunError> {
        (self.announce)(quantity);
        let mut values = Vec::new();
        for _ in 0..self.rounds {
            self.go_on()?;
            match sample() {
                Ok(value) => values.push(value),
                Err(error) => return Ok(Err(Unmeasured::Failed(Arc::new(error)))),
            }
        }
        self.go_on()?;
        Ok(Ok(Samples::new(values)))
    }

    /// Ends where somebody asked for it: half a measurement is none.
    fn go_on(&self) -> Result<(), RunError> {
        if self.control.stopped() { Err(RunError::Interrupted) } else { Ok(()) }
    }

    /// Whether what a CPU does is what the target's kernels do.
    fn on_cpu(&self) -> bool {
        self.target == Target::Cpu
    }
}

impl Measurement {
    fn new(quantity: Quantity, how: &'static str, samples: Result<Samples, Unmeasured>) -> Measurement {
        Measurement { quantity, how, samples, r2: None }
    }

    /// One of the two constants of lines.
    fn fitted(quantity: Quantity, how: &'static str, samples: Samples, rounds: &fit::Rounds) -> Measurement {
        Measurement { r2: Some(rounds.r2()), ..Measurement::new(quantity, how, Ok(samples)) }
    }

    /// What only a kernel on the GPU could time.
    fn of_gpu(quantity: Quantity, how: &'static str) -> Measurement {
        Measurement::new(quantity, how, Err(Unmeasured::OnGpu))
    }
}
