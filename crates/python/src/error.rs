//! What a call came to: a kind and one line, which Python gets as an exception.

use std::fmt::Display;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use warpbell::{Error, error_chain};
use warpbell_hw::{DmaError, MemoryError};
use warpbell_kernels::Error as KernelError;
use warpbell_kernels::toolchain::CompileError;

/// Which exception of `warpbell.errors` it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Argument,
    ArgumentType,
    Closed,
    Busy,
    Exported,
    Refused,
    Missing,
    Compile,
    Command,
    Timeout,
    Device,
    Kernel,
    InUse,
}

impl Kind {
    fn class(self) -> &'static str {
        match self {
            Kind::Argument => "ArgumentError",
            Kind::ArgumentType => "ArgumentTypeError",
            Kind::Closed => "ClosedError",
            Kind::Busy => "BusyError",
            Kind::Exported => "ExportedError",
            Kind::Refused => "RefusedError",
            Kind::Missing => "MissingError",
            Kind::Compile => "CompileError",
            Kind::Command => "CommandError",
            Kind::Timeout => "WaitTimeoutError",
            Kind::Device => "DeviceError",
            Kind::Kernel => "KernelError",
            Kind::InUse => "UndeletedError",
        }
    }
}

/// Why a call failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) kind: Kind,
    pub(crate) text: String,
    /// What a compiler said, if one did: the attribute `log`.
    log: Option<String>,
    /// The status of a command, if one failed: the attribute `status`.
    status: Option<u32>,
}

/// What a call gives.
pub(crate) type Answer<T> = Result<T, Failure>;

impl Failure {
    pub(crate) fn new(kind: Kind, text: impl Display) -> Failure {
        Failure { kind, text: text.to_string(), log: None, status: None }
    }

    /// A wrong argument: its name, its value, what is allowed.
    pub(crate) fn argument(object: &str, value: impl Display, limit: impl Display) -> Failure {
        Failure::new(Kind::Argument, format!("{object} {value}: {limit}"))
    }

    pub(crate) fn argument_type(object: &str, value: &Bound<'_, PyAny>, limit: impl Display) -> Failure {
        Failure::new(Kind::ArgumentType, format!("{object} of type {}: {limit}", type_name(value)))
    }

    pub(crate) fn closed(object: impl Display) -> Failure {
        Failure::new(Kind::Closed, format!("{object}: was closed before"))
    }

    pub(crate) fn command(text: impl Display, status: Option<u32>) -> Failure {
        Failure { status, ..Failure::new(Kind::Command, text) }
    }

    /// Whether an SSD answered: it failed the command, and is done with its buffer.
    pub(crate) fn is_answer(&self) -> bool {
        self.status.is_some()
    }

    /// The exception, of the class that `warpbell.errors` has for this kind.
    fn exception(&self, py: Python<'_>) -> PyResult<PyErr> {
        let class = py.import("warpbell.errors")?.getattr(self.kind.class())?;
        let exception = class.call1((one_line(&self.text),))?;
        if let Some(log) = &self.log {
            exception.setattr("log", log)?;
        }
        if let Some(status) = self.status {
            exception.setattr("status", status)?;
        }
        Ok(PyErr::from_value(exception))
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        let made = Python::attach(|py| failure.exception(py));
        // Without `warpbell.errors` the text is all that there is.
        made.unwrap_or_else(|_| PyRuntimeError::new_err(failure.text))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let kind = match &error {
            Error::Kernels(error) => return Failure::from(error),
            Error::Busy { .. } => Kind::Busy,
            Error::Undeleted { .. } => Kind::InUse,
            Error::Command { .. } => Kind::Command,
            Error::Overdue { .. } => Kind::Kernel,
            Error::Memory(MemoryError::Length { .. })
            | Error::Dma(DmaError::Memory(MemoryError::Length { .. })) => Kind::Argument,
            other => of_exit_code(other.exit_code()),
        };
        Failure::new(kind, error_chain(&error))
    }
}

impl From<&KernelError> for Failure {
    fn from(error: &KernelError) -> Failure {
        if let KernelError::Compile(CompileError::Compile { what, text, .. }) = error {
            let first = text.lines().find(|line| line.contains("error")).or_else(|| text.lines().next());
            let line = format!("{what} does not compile: {}", first.unwrap_or("no message").trim());
            return Failure { log: Some(text.clone()), ..Failure::new(Kind::Compile, line) };
        }
        let kind = match error {
            error if error.is_missing_requirement() => Kind::Missing,
            KernelError::Compile(CompileError::Name { .. }) => Kind::Argument,
            KernelError::NoKernel { .. } | KernelError::Image { .. } => Kind::Argument,
            KernelError::ArgumentSize { .. } | KernelError::Refused { .. } => Kind::Argument,
            KernelError::TooManyBlocks { .. } => Kind::Argument,
            KernelError::Compile(_) => Kind::Compile,
            _ => Kind::Kernel,
        };
        Failure::new(kind, error_chain(error))
    }
}

/// What `__exit__` gives: where the block raised, its error is the one to see, not that something is in use yet.
pub(crate) fn at_exit(exception: &Bound<'_, PyTuple>, closed: PyResult<()>) -> PyResult<()> {
    let raised = exception.get_item(0).is_ok_and(|kind| !kind.is_none());
    if raised { Ok(()) } else { closed }
}

fn of_exit_code(code: u8) -> Kind {
    match code {
        2 => Kind::Argument,
        3 => Kind::Refused,
        4 => Kind::Missing,
        _ => Kind::Device,
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The name of a value's type, for messages.
pub(crate) fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().fully_qualified_name().map_or_else(|_| "unknown".to_owned(), |name| name.to_string())
}

/// Called by the tests of `warpbell.errors`: the classes that errors of Rust become.
#[pyfunction]
#[pyo3(name = "_kinds")]
pub(crate) fn kinds(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let all = PyDict::new(py);
    for kind in KINDS {
        all.set_item(kind.class(), Failure::new(kind, "object value: limit").exception(py)?)?;
    }
    Ok(all)
}

const KINDS: [Kind; 13] = [
    Kind::Argument,
    Kind::ArgumentType,
    Kind::Closed,
    Kind::Busy,
    Kind::Exported,
    Kind::Refused,
    Kind::Missing,
    Kind::Compile,
    Kind::Command,
    Kind::Timeout,
    Kind::Device,
    Kind::Kernel,
    Kind::InUse,
];
