//! Errors: which call, what the driver says, about what, and what to do.

use crate::codes;

/// Why something about a GPU failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// No driver on this machine.
    #[error(
        "no CUDA driver: {reason}; install the NVIDIA driver (580 or newer; in a container, start it with the NVIDIA \
         runtime)"
    )]
    NoLibrary {
        /// What the loader said, for each name that was tried.
        reason: String,
    },
    /// The driver is too old for a call.
    #[error("{object}: the CUDA driver has no {symbol}; update the NVIDIA driver to 580 or newer")]
    MissingSymbol {
        /// The function.
        symbol: &'static str,
        /// What it was wanted for.
        object: String,
    },
    /// No GPU of that number.
    #[error(
        "no GPU {ordinal}: the driver shows {}; nvidia-smi -L lists what there is, and CUDA_VISIBLE_DEVICES may hide some",
        shown(*.count)
    )]
    NoDevice {
        /// The number asked for.
        ordinal: u32,
        /// GPUs that there are.
        count: u32,
    },
    /// The driver refused a call, or reports what went wrong since the last one.
    #[error("{object}: {call}: {name} ({code}), {text}{}", behind(codes::remedy(.call, *.code)))]
    Call {
        /// The driver's function.
        call: &'static str,
        /// The number of the error.
        code: u32,
        /// Its name.
        name: String,
        /// The driver's text for it.
        text: String,
        /// What it was about.
        object: String,
    },
    /// The PTX machine refused a call, or reports what a kernel did wrong.
    #[error("{object}: {text}{}", behind(codes::remedy_on_ptx(*.code)))]
    Machine {
        /// The number of the error.
        code: u32,
        /// What is wrong.
        text: String,
        /// What it was about.
        object: String,
    },
    /// Options of the PTX machine are wrong.
    #[error("{object}: {limit}")]
    Options {
        /// Where they were given: the environment variable, or the target.
        object: &'static str,
        /// What it must be.
        limit: String,
    },
    /// A kernel image could not be loaded.
    #[error("{error}{}{log}", if .log.is_empty() { "" } else { "\n" })]
    Image {
        /// What the driver said.
        error: Box<GpuError>,
        /// The log of its compiler; empty where it wrote none.
        log: String,
    },
    /// An earlier fault ended the context.
    #[error("{error}; the first failure was: {first}")]
    Lost {
        /// What this call met.
        error: Box<GpuError>,
        /// What failed first.
        first: String,
    },
    /// Memory of the caller's that is not what can be taken over.
    #[error("{object}: {reason}")]
    Foreign {
        /// The GPU and the range.
        object: String,
        /// Why, and what to do.
        reason: String,
    },
    /// Refused before the driver was asked.
    #[error("{object}: {reason}")]
    Refused {
        /// What it was about.
        object: String,
        /// Why, and what to do.
        reason: String,
    },
}

impl GpuError {
    pub(crate) fn call(
        call: &'static str,
        code: u32,
        name: String,
        text: String,
        object: String,
    ) -> GpuError {
        GpuError::Call { call, code, name, text, object }
    }

    pub(crate) fn refused(object: impl Into<String>, reason: impl Into<String>) -> GpuError {
        GpuError::Refused { object: object.into(), reason: reason.into() }
    }

    /// The driver's number of the error, if it comes from the driver.
    pub fn code(&self) -> Option<u32> {
        match self {
            GpuError::Call { code, .. } | GpuError::Machine { code, .. } => Some(*code),
            GpuError::Image { error, .. } | GpuError::Lost { error, .. } => error.code(),
            _ => None,
        }
    }

    /// Whether the context is lost: a kernel made an illegal access, or the like. Every later call on the same GPU by
    /// this process fails; a new process works again.
    pub fn is_context_lost(&self) -> bool {
        self.code().is_some_and(codes::is_sticky)
    }

    /// Whether the driver cannot compile an image's PTX: it is too old for it, or has no compiler. Machine code may run.
    pub fn refuses_ptx(&self) -> bool {
        self.code().is_some_and(codes::is_of_ptx)
    }

    /// Whether something is missing on the machine, or too old: no driver, no GPU, no permission, no such capability.
    pub fn is_missing_requirement(&self) -> bool {
        match self {
            GpuError::NoLibrary { .. } | GpuError::MissingSymbol { .. } | GpuError::NoDevice { .. } => true,
            other => other.code().is_some_and(codes::is_missing),
        }
    }
}

/// The GPUs that there are, by their names.
fn shown(count: u32) -> String {
    match count {
        0 => "none".to_owned(),
        1 => "one, cuda:0".to_owned(),
        _ => format!("{count}, cuda:0 to cuda:{}", count - 1),
    }
}

/// What to do about an error, behind its text.
fn behind(remedy: &str) -> String {
    if remedy.is_empty() { String::new() } else { format!(": {remedy}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(call: &'static str, code: u32) -> GpuError {
        GpuError::call(call, code, "CUDA_ERROR_X".to_owned(), "text".to_owned(), "cuda:0".to_owned())
    }

    #[test]
    fn errors_name_object_call_code_and_remedy() {
        let error = call("cuModuleLoadDataEx", 222).to_string();
        assert!(error.starts_with("cuda:0: cuModuleLoadDataEx: CUDA_ERROR_X (222), text: "), "{error}");
        assert!(error.contains("driver 580"), "{error}");
        let error = call("cuMemHostRegister_v2", 800).to_string();
        for word in ["CAP_SYS_ADMIN", "PeerMappingOverride", "570.86.15"] {
            assert!(error.contains(word), "{error}");
        }
        assert_eq!(call("cuMemFree_v2", 201).to_string(), "cuda:0: cuMemFree_v2: CUDA_ERROR_X (201), text");
    }

    #[test]
    fn the_gpus_that_there_are_are_named() {
        for (count, words) in
            [(0, "the driver shows none;"), (1, "shows one, cuda:0;"), (4, "shows 4, cuda:0 to cuda:3;")]
        {
            let error = GpuError::NoDevice { ordinal: 9, count }.to_string();
            assert!(error.starts_with("no GPU 9: ") && error.contains(words), "{error}");
        }
    }

    #[test]
    fn what_is_missing_is_told_from_what_failed() {
        for code in [34, 100, 222, 800, 801, 803] {
            assert!(call("cuInit", code).is_missing_requirement(), "{code}");
        }
        for code in [1, 2, 700, 719] {
            assert!(!call("cuInit", code).is_missing_requirement(), "{code}");
        }
        assert!(call("cuMemFree_v2", 700).is_context_lost() && !call("cuMemFree_v2", 2).is_context_lost());
    }
}
