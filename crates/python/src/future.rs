//! I/O that goes on: its end can be waited for, asked for, or awaited.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use warpbell_base::Time;

use crate::args;
use crate::engine::{Progress, Shared};
use crate::error::{Failure, Kind};
use crate::home::{Home, Own};

/// Between two looks for signals, such as Ctrl-C.
const STEP: Duration = Duration::from_millis(100);

/// An I/O in flight. Any number of threads may use it.
#[pyclass(frozen, module = "warpbell")]
pub(crate) struct Future {
    /// What drives the queues: there are some.
    queues: Vec<Own<Shared>>,
    home: Home,
    progress: Arc<Progress>,
    /// What `result` gives: bytes.
    nbytes: u64,
}

impl Future {
    pub(crate) fn new(
        queues: impl IntoIterator<Item = Arc<Shared>>,
        progress: Arc<Progress>,
        nbytes: u64,
    ) -> Future {
        let queues = queues.into_iter().map(Own::new).collect();
        Future { queues, home: Home::here(), progress, nbytes }
    }

    /// Waits for the end without the interpreter, and lets Ctrl-C end the wait.
    pub(crate) fn wait(&self, py: Python<'_>, limit: Option<Duration>) -> PyResult<()> {
        self.home.check("future")?;
        let begin = Instant::now();
        while !self.progress.is_done() {
            let left = limit.map(|limit| limit.saturating_sub(begin.elapsed()));
            if left == Some(Duration::ZERO) {
                if py.detach(|| Shared::poll(&self.queues, &self.progress)) {
                    break;
                }
                let limit = limit.unwrap_or_default();
                return Err(
                    Failure::new(Kind::Timeout, format!("future: no end within {}", Time(limit))).into()
                );
            }
            let step = left.map_or(STEP, |left| left.min(STEP));
            if !py.detach(|| Shared::wait(&self.queues, &self.progress, step)) {
                py.check_signals()?;
            }
        }
        Ok(())
    }
}

#[pymethods]
impl Future {
    /// Waits for the end: the bytes that were moved, or the first failure as an exception.
    #[pyo3(signature = (timeout=None))]
    pub(crate) fn result(&self, py: Python<'_>, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<u64> {
        self.wait(py, args::seconds("timeout", timeout)?)?;
        match self.progress.answer() {
            Some(Err(failure)) => Err(failure.into()),
            _ => Ok(self.nbytes),
        }
    }

    /// Waits for the end: the failure, or None where all bytes were moved.
    #[pyo3(signature = (timeout=None))]
    fn exception(&self, py: Python<'_>, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<Option<PyErr>> {
        self.wait(py, args::seconds("timeout", timeout)?)?;
        Ok(self.progress.answer().and_then(Result::err).map(PyErr::from))
    }

    /// Whether it has ended.
    fn done(&self, py: Python<'_>) -> PyResult<bool> {
        self.home.check("future")?;
        Ok(py.detach(|| Shared::poll(&self.queues, &self.progress)))
    }

    /// In a coroutine: the same as `result`, while the event loop goes on.
    fn __await__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let waiting = slf.py().import("warpbell._await")?.getattr("result_of")?.call1((slf,))?;
        waiting.call_method0("__await__")
    }

    fn __repr__(&self) -> String {
        let state = match self.progress.answer() {
            None => "in flight",
            Some(Ok(())) => "done",
            Some(Err(_)) => "failed",
        };
        format!("<warpbell.Future of {} bytes, {state}>", self.nbytes)
    }
}
