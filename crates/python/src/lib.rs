//! Warpbell from Python: the module `_warpbell`, which the package `warpbell` in `python/` is made of.
//!
//! Each class holds a core behind an `Arc`, which other objects, I/O in flight and views of memory keep alive: what
//! Python forgets is freed when nobody uses it any more. `close` empties the core; later calls raise. No lock is held
//! while Python runs, and the interpreter is let go of wherever a call may wait.

mod args;
mod buffer;
mod cache;
mod device;
mod engine;
mod error;
mod export;
mod foreign;
mod future;
mod home;
mod launch;
mod lease;
mod open;
mod program;
mod queues;
mod ssd;
mod volume;
mod works;

use pyo3::prelude::*;
use pyo3::types::PyDict;

// Pointers of kernels are 64 bits wide.
const _: () = assert!(size_of::<usize>() == 8, "warpbell needs 64-bit pointers");

#[pymodule]
fn _warpbell(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let arrive = wrap_pyfunction!(home::arrive, module)?;
    arrive.call0()?;
    let at_fork = PyDict::new(module.py());
    at_fork.set_item("after_in_child", arrive)?;
    module.py().import("os")?.call_method("register_at_fork", (), Some(&at_fork))?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<ssd::Ssd>()?;
    module.add_class::<ssd::SsdInfo>()?;
    module.add_class::<buffer::Buffer>()?;
    module.add_class::<future::Future>()?;
    module.add_class::<queues::Queues>()?;
    module.add_class::<queues::NamespaceRef>()?;
    module.add_class::<program::Program>()?;
    module.add_class::<launch::Launch>()?;
    module.add_class::<lease::Lease>()?;
    module.add_class::<volume::Volume>()?;
    module.add_class::<volume::VolumeBuffer>()?;
    module.add_class::<cache::PageCache>()?;
    module.add_class::<cache::TileSchedule>()?;
    module.add_function(wrap_pyfunction!(open::open, module)?)?;
    module.add_function(wrap_pyfunction!(program::compile, module)?)?;
    module.add_function(wrap_pyfunction!(program::load, module)?)?;
    module.add_function(wrap_pyfunction!(works::targets, module)?)?;
    module.add_function(wrap_pyfunction!(error::kinds, module)?)
}
