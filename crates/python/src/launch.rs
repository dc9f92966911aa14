//! Kernels that run.

use std::ffi::CString;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;
use warpbell::Running;
use warpbell_base::Time;

use crate::args;
use crate::error::{Answer, Failure, Kind};
use crate::home::{Home, Own, without_interpreter};

/// How often a running kernel is polled: seldom, but a short one is not kept waiting.
const FIRST_POLL: Duration = Duration::from_micros(20);
const POLL: Duration = Duration::from_millis(2);
/// How long a kernel that was forgotten has to stop: the 10 s that a command may take, and one more.
const PATIENCE: Duration = Duration::from_secs(11);
/// Between two looks for signals, such as Ctrl-C.
const STEP: Duration = Duration::from_millis(100);

/// A kernel that was started.
pub(crate) struct LaunchCore {
    kernel: String,
    state: Mutex<State>,
}

enum State {
    Running(Box<Running>),
    /// With what it took.
    Ended(Answer<Duration>),
}

impl LaunchCore {
    pub(crate) fn new(kernel: String, running: Running) -> LaunchCore {
        LaunchCore { kernel, state: Mutex::new(State::Running(Box::new(running))) }
    }

    /// How it ended, if it has.
    fn ended(&self) -> Option<Answer<Duration>> {
        let mut state = self.state.lock();
        if let State::Running(running) = &*state {
            // An error is the one that joining reports.
            if running.is_finished().is_ok_and(|finished| !finished) {
                return None;
            }
            let unknown =
                Failure::new(Kind::Kernel, format!("kernel {}: its end was not recorded", self.kernel));
            if let State::Running(running) = std::mem::replace(&mut *state, State::Ended(Err(unknown))) {
                let joined = running.join().map(|report| report.elapsed);
                *state = State::Ended(joined.map_err(Failure::from));
            }
        }
        match &*state {
            State::Running(_) => None,
            State::Ended(answer) => Some(answer.clone()),
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.ended().is_some()
    }

    /// Lets go of what an ended kernel kept.
    pub(crate) fn forget(&self) {
        self.ended();
    }

    /// Asks for its end, where it has not ended, and waits for that: whether it has come.
    fn finish(&self) -> bool {
        if !self.is_done() {
            self.stop();
        }
        self.wait(PATIENCE).is_some()
    }

    fn stop(&self) {
        if let State::Running(running) = &*self.state.lock() {
            running.stop();
        }
    }

    /// Waits up to `limit`.
    fn wait(&self, limit: Duration) -> Option<Answer<Duration>> {
        let begin = Instant::now();
        let mut pause = FIRST_POLL;
        loop {
            if let Some(answer) = self.ended() {
                return Some(answer);
            }
            let left = limit.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return None;
            }
            std::thread::sleep(pause.min(left));
            pause = POLL.min(pause * 2);
        }
    }
}

/// A kernel that was started. Any number of threads may wait for it. Dropped while it runs, it is asked to stop, and the
/// thread that drops it waits for its end: for ever, if that never comes. Other threads go on meanwhile.
#[pyclass(frozen, module = "warpbell")]
pub(crate) struct Launch {
    pub(crate) core: Own<LaunchCore>,
}

impl Launch {
    fn check_home(&self) -> Answer<()> {
        self.core.home().check(&format!("kernel {}", self.core.kernel))
    }
}

impl Drop for Launch {
    fn drop(&mut self) {
        if self.core.home() == Home::here() {
            // It counts as running until then: its queues stay open.
            let mut ended = false;
            without_interpreter(|| ended = self.core.finish());
            if !ended {
                std::mem::forget(Arc::clone(&self.core));
                warn_of(&self.core.kernel);
            }
        }
    }
}

/// Says that a kernel goes on.
fn warn_of(kernel: &str) {
    let text = format!(
        "kernel {kernel}: was forgotten, and has not stopped within {PATIENCE:?}: what it uses stays"
    );
    Python::try_attach(|py| {
        let text = CString::new(text).unwrap_or_default();
        // As an error it has nobody to go to: a launch is being dropped.
        if let Err(error) = PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, 1) {
            error.write_unraisable(py, None);
        }
    });
}

#[pymethods]
impl Launch {
    /// The kernel's name.
    #[getter]
    fn kernel(&self) -> &str {
        &self.core.kernel
    }

    /// Waits for the end: the seconds that the kernel ran. Raises where it failed, or has not ended after `timeout`
    /// seconds: it runs on then.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<f64> {
        self.check_home()?;
        let limit = args::seconds("timeout", timeout)?;
        let begin = Instant::now();
        loop {
            let left = limit.map_or(STEP, |limit| limit.saturating_sub(begin.elapsed()).min(STEP));
            if let Some(answer) = py.detach(|| self.core.wait(left)) {
                return Ok(answer?.as_secs_f64());
            }
            py.check_signals()?;
            if let Some(limit) = limit.filter(|limit| begin.elapsed() >= *limit) {
                let text = format!("kernel {}: still runs after {}", self.core.kernel, Time(limit));
                return Err(Failure::new(Kind::Timeout, text).into());
            }
        }
    }

    /// Whether it has ended.
    fn done(&self, py: Python<'_>) -> PyResult<bool> {
        self.check_home()?;
        Ok(py.detach(|| self.core.is_done()))
    }

    /// Asks the kernel to stop, if it polls the mailbox of its queues.
    fn stop(&self) -> PyResult<()> {
        self.check_home()?;
        self.core.stop();
        Ok(())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let state = if self.done(py)? { "ended" } else { "running" };
        Ok(format!("<warpbell.Launch of {}, {state}>", self.core.kernel))
    }
}
