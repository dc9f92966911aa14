//! Where kernels run.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use parking_lot::Mutex;
use warpbell_gpu::Gpu;

use crate::Error;
use crate::cuda::CudaTarget;

/// Where kernels run: a CUDA device, the CPU executor, or the PTX machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The CPU executor: the same device source, on this machine's CPU.
    Cpu,
    /// A CUDA device by ordinal.
    Cuda(u32),
    /// The PTX machine: what NVRTC or nvcc made for a GPU, run on this machine's CPU with checks. It is slower than the CPU
    /// executor, and what it takes is no figure of a GPU. Needs the feature `ptx` and, for kernels that are not PTX yet,
    /// NVRTC; the environment variable `WARPBELL_PTX` has its options (docs/gpu.md).
    Ptx,
    /// The same with options, such as `memory=1g,bar=256m`, which go before those of `WARPBELL_PTX`. A process has one PTX
    /// machine: other options than those that it began with are refused when the target is opened.
    PtxWith(&'static str),
}

/// A target, ready to use: it gives memory that its kernels reach, and runs them. A clone is the same.
#[derive(Clone, Debug)]
pub struct OpenTarget(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Cpu,
    Cuda(Arc<CudaTarget>),
}

impl Target {
    /// Gets the target ready, or says what is missing. A GPU is opened once, for as long as it is used.
    pub fn open(self) -> Result<OpenTarget, Error> {
        Ok(OpenTarget(match self {
            Target::Cpu => Kind::Cpu,
            Target::Cuda(_) | Target::Ptx | Target::PtxWith(_) => Kind::Cuda(CudaTarget::open(self)?),
        }))
    }

    /// Whether kernels run on the PTX machine.
    pub fn is_ptx(self) -> bool {
        matches!(self, Target::Ptx | Target::PtxWith(_))
    }
}

impl OpenTarget {
    /// Which target it is; of the PTX machine without its options.
    pub fn target(&self) -> Target {
        match &self.0 {
            Kind::Cpu => Target::Cpu,
            Kind::Cuda(cuda) => cuda.target(),
        }
    }

    /// The GPU, or the PTX machine in its place; `None` for the CPU target.
    pub fn gpu(&self) -> Option<&Arc<Gpu>> {
        self.cuda().map(|cuda| cuda.gpu())
    }

    /// Loads a kernel of our own now, and not at its first launch: for a GPU it may have to be compiled.
    pub fn prepare(&self, kernel: &str) -> Result<(), Error> {
        self.cuda().map_or(Ok(()), |cuda| cuda.builtin(kernel).map(drop))
    }

    pub(crate) fn cuda(&self) -> Option<&Arc<CudaTarget>> {
        match &self.0 {
            Kind::Cpu => None,
            Kind::Cuda(cuda) => Some(cuda),
        }
    }
}

/// The target as results name it: with the GPU's name, as a figure is of a piece of hardware.
impl fmt::Display for OpenTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.gpu() {
            None => self.target().fmt(f),
            Some(gpu) => write!(f, "{} ({})", self.target(), gpu.info().name),
        }
    }
}

/// A target that nobody knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("target '{0}': expected cpu, ptx, ptx:OPTIONS such as ptx:memory=1g, or cuda:N with a device number")]
pub struct TargetError(String);

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Target, TargetError> {
        // Digits alone: a number with a sign would be one, too.
        let number =
            || text.strip_prefix("cuda:").filter(|number| number.bytes().all(|b| b.is_ascii_digit()));
        let cuda = || number()?.parse().ok().map(Target::Cuda);
        match text {
            "cpu" => Ok(Target::Cpu),
            "ptx" => Ok(Target::Ptx),
            _ => match text.strip_prefix("ptx:").filter(|options| !options.is_empty()) {
                Some(options) => Ok(Target::PtxWith(kept(options))),
                None => cuda().ok_or_else(|| TargetError(text.to_owned())),
            },
        }
    }
}

/// The text, for as long as the process lives: a target is copied everywhere. Each is kept once.
fn kept(text: &str) -> &'static str {
    static KEPT: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut all = KEPT.lock();
    if let Some(known) = all.get(text) {
        return known;
    }
    let text: &'static str = Box::leak(text.into());
    all.insert(text);
    text
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Cpu => f.write_str("cpu"),
            Target::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
            Target::Ptx => f.write_str("ptx"),
            Target::PtxWith(options) => write!(f, "ptx:{options}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_round_trip() {
        for text in ["cpu", "ptx", "ptx:memory=1g,bar=64m", "cuda:0", "cuda:7"] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        for text in
            ["", "gpu", "ptx:", "ptxs", "cuda", "cuda:", "cuda:x", "cuda:+1", "cuda:4294967296", "CPU"]
        {
            assert!(text.parse::<Target>().unwrap_err().to_string().contains(text));
        }
    }
}
