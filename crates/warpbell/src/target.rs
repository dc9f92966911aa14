//! Where kernels run.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

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
            Target::Cuda(_) | Target::Ptx => Kind::Cuda(CudaTarget::open(self)?),
        }))
    }
}

impl OpenTarget {
    /// Which target it is.
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
#[error("target '{0}': expected cpu, ptx, or cuda:N with a device number")]
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
            _ => cuda().ok_or_else(|| TargetError(text.to_owned())),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Cpu => f.write_str("cpu"),
            Target::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
            Target::Ptx => f.write_str("ptx"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_round_trip() {
        for text in ["cpu", "ptx", "cuda:0", "cuda:7"] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        for text in ["", "gpu", "cuda", "cuda:", "cuda:x", "cuda:+1", "cuda:4294967296", "CPU"] {
            assert!(text.parse::<Target>().unwrap_err().to_string().contains(text));
        }
    }
}
