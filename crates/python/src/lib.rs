//! Warpbell from Python: the module `_warpbell`, which the package `warpbell` in `python/` is made of.
//!
//! Each class holds a core behind an `Arc`, which other objects, I/O in flight and views of memory keep alive: what
//! Python forgets is freed when nobody uses it any more. `close` empties the core; later calls raise. No lock is held
//! while Python runs, and the interpreter is let go of wherever a call may wait.

mod args;
mod buffer;
mod cache;
mod engine;
mod error;
mod export;
mod foreign;
mod future;
mod home;
mod launch;
mod lease;
mod program;
mod queues;
mod ssd;
mod volume;
mod works;

use pyo3::prelude::*;

// Pointers of kernels are 64 bits wide.
const _: () = assert!(size_of::<usize>() == 8, "warpbell needs 64-bit pointers");

#[pymodule]
fn _warpbell(module: &Bound<'_, PyModule>) -> PyResult<()> {
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
    module.add_function(wrap_pyfunction!(ssd::open, module)?)?;
    module.add_function(wrap_pyfunction!(program::compile, module)?)?;
    module.add_function(wrap_pyfunction!(program::load, module)?)?;
    module.add_function(wrap_pyfunction!(works::targets, module)?)?;
    module.add_function(wrap_pyfunction!(error::kinds, module)?)
}
