//! What a call of the driver returned, before it is known what it was about.

use super::functions::{self, Functions};
use crate::GpuError;

/// A call that did not succeed.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// The library has no such function.
    Missing(&'static str),
    /// The driver's reply.
    Code { call: &'static str, code: u32 },
    /// The same, with the driver's words for it.
    Named { call: &'static str, code: u32, name: String, text: String },
}

impl Failure {
    pub(super) fn check(call: &'static str, code: u32) -> Result<(), Failure> {
        if code == 0 { Ok(()) } else { Err(Failure::Code { call, code }) }
    }

    pub(crate) fn code(&self) -> Option<u32> {
        match self {
            Failure::Missing(_) => None,
            Failure::Code { code, .. } | Failure::Named { code, .. } => Some(*code),
        }
    }

    pub(super) fn named(self, functions: &Functions) -> Failure {
        match self {
            Failure::Code { call, code } => {
                let (name, text) = functions.words(code);
                Failure::Named { call, code, name, text }
            }
            other => other,
        }
    }

    /// The error, about `object`.
    pub(crate) fn error(&self, object: String) -> GpuError {
        match self.clone() {
            Failure::Missing(symbol) => GpuError::MissingSymbol { symbol, object },
            Failure::Named { call, code, name, text } => GpuError::call(call, code, name, text, object),
            Failure::Code { call, code } => {
                let words = functions::functions().map(|functions| functions.words(code));
                let (name, text) = words.unwrap_or_else(|_| (format!("error {code}"), String::new()));
                GpuError::call(call, code, name, text, object)
            }
        }
    }
}
