//! Which process something belongs to. A child of fork has copies of all objects, but neither the threads behind them
//! nor their devices: there calls are refused, and nothing is let go of.

use std::mem;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::prelude::*;

use crate::error::{Answer, Failure, Kind};

/// This process. To ask the system for it costs a call for each read.
static HERE: AtomicU32 = AtomicU32::new(0);

/// Finds out which process this is: when the module is loaded, and in each child of a fork.
#[pyfunction]
#[pyo3(name = "_arrive")]
pub(crate) fn arrive() {
    HERE.store(std::process::id(), Ordering::Relaxed);
}

/// The process that made something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Home(u32);

impl Home {
    pub(crate) fn here() -> Home {
        Home(HERE.load(Ordering::Relaxed))
    }

    /// Refuses calls in other processes, before they wait for a lock that nobody there lets go of.
    pub(crate) fn check(self, object: &str) -> Answer<()> {
        let here = Home::here();
        if self == here {
            return Ok(());
        }
        let (Home(own), Home(here)) = (self, here);
        let text =
            format!("{object}: belongs to process {own}, and this is process {here}: open the SSD here, too");
        Err(Failure::new(Kind::Closed, text))
    }
}

/// What an object of Python's is made of. The last one lets go of it without the interpreter, as that may wait; in a child
/// of fork it stays.
pub(crate) struct Own<T: Send + Sync + 'static> {
    /// None while it is dropped.
    value: Option<Arc<T>>,
    home: Home,
}

impl<T: Send + Sync> Own<T> {
    pub(crate) fn new(value: Arc<T>) -> Own<T> {
        Own { value: Some(value), home: Home::here() }
    }

    pub(crate) fn home(&self) -> Home {
        self.home
    }
}

impl<T: Send + Sync> Deref for Own<T> {
    type Target = Arc<T>;

    fn deref(&self) -> &Arc<T> {
        match &self.value {
            Some(value) => value,
            None => unreachable!("only dropping takes it"),
        }
    }
}

impl<T: Send + Sync> Drop for Own<T> {
    fn drop(&mut self) {
        let value = self.value.take();
        if self.home != Home::here() {
            mem::forget(value);
        } else if value.as_ref().is_some_and(|value| Arc::strong_count(value) == 1) {
            without_interpreter(move || drop(value));
        }
    }
}

/// Does something that may wait, while other threads have the interpreter.
pub(crate) fn without_interpreter(work: impl FnOnce() + Send) {
    let mut work = Some(work);
    Python::try_attach(|py| {
        if let Some(work) = work.take() {
            py.detach(work);
        }
    });
    // There is no interpreter any more.
    if let Some(work) = work {
        work();
    }
}
