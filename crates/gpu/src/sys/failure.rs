//! What a call of the driver returned, before it is known what it was about.

use super::functions::Functions;
use crate::GpuError;
use crate::codes::is_sticky;

/// A call that did not succeed.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// The library has no such function.
    Missing(&'static str),
    /// The driver's reply.
    Code { call: &'static str, code: u32, functions: &'static Functions },
}

impl Failure {
    pub(super) fn check(call: &'static str, code: u32, functions: &'static Functions) -> Result<(), Failure> {
        if code == 0 { Ok(()) } else { Err(Failure::Code { call, code, functions }) }
    }

    pub(crate) fn code(&self) -> Option<u32> {
        match self {
            Failure::Missing(_) => None,
            Failure::Code { code, .. } => Some(*code),
        }
    }

    /// The error, about `object`.
    pub(crate) fn error(&self, object: String) -> GpuError {
        match self.clone() {
            Failure::Missing(symbol) => GpuError::MissingSymbol { symbol, object },
            Failure::Code { call, code, functions } => {
                let (name, text) = functions.words(code);
                match functions.are_of_ptx() {
                    // A kernel's fault is not of the call that meets it.
                    true if is_sticky(code) => GpuError::Machine { code, text, object },
                    true => GpuError::Machine { code, text: format!("{call}: {text}"), object },
                    false => GpuError::call(call, code, name, text, object),
                }
            }
        }
    }
}
