//! Where kernels run.

use std::fmt;
use std::str::FromStr;

/// Where kernels run: a CUDA device, or the CPU executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The CPU executor: the same device source, on this machine's CPU.
    Cpu,
    /// A CUDA device by ordinal.
    Cuda(u32),
}

/// A target that nobody knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("target '{0}': expected cpu, or cuda:N with a device number")]
pub struct TargetError(String);

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Target, TargetError> {
        let cuda = || text.strip_prefix("cuda:")?.parse().ok().map(Target::Cuda);
        match text {
            "cpu" => Ok(Target::Cpu),
            _ => cuda().ok_or_else(|| TargetError(text.to_owned())),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Cpu => f.write_str("cpu"),
            Target::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_round_trip() {
        for text in ["cpu", "cuda:0", "cuda:7"] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        for text in ["", "gpu", "cuda", "cuda:", "cuda:x", "CPU"] {
            assert!(text.parse::<Target>().unwrap_err().to_string().contains(text));
        }
    }
}
