//! Page-locked memory that small copies go through.
//!
//! A copy from or to other memory may wait for kernels that run (CUDA driver API, "API synchronization behavior"): the
//! driver brings it by way of page-locked memory of its own. Whoever replaces a lost queue writes while the kernels of
//! that queue run, and wait for it.

use std::sync::Arc;

use warpbell_hw::Window;

use crate::GpuError;
use crate::sys::{Allocation, Context, HostRegistration};

/// What goes at a time.
pub(crate) const PIECE: usize = 256 << 10;

pub(crate) struct Staging {
    memory: Window,
    _registration: HostRegistration,
}

impl Staging {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Staging, GpuError> {
        let window = Window::host(PIECE).map_err(|error| {
            GpuError::refused(format!("{PIECE} bytes to copy through"), error.to_string())
        })?;
        let registration = HostRegistration::new(context, &window, false)?;
        Ok(Staging { memory: window, _registration: registration })
    }

    /// Copies a piece to the device, and waits until the bytes are there.
    pub(crate) fn write(&self, to: &Allocation, offset: usize, from: &[u8]) -> Result<(), GpuError> {
        self.memory.write(0, from).expect("a piece fits");
        to.write(offset, &self.memory.slice(0, from.len()).expect("a piece fits"))
    }

    /// Copies a piece from the device, and waits.
    pub(crate) fn read(&self, from: &Allocation, offset: usize, into: &mut [u8]) -> Result<(), GpuError> {
        from.read(offset, &self.memory.slice(0, into.len()).expect("a piece fits"))?;
        self.memory.read(0, into).expect("a piece fits");
        Ok(())
    }
}
