//! Host memory and BAR pages that kernels may access.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use warpbell_hw::{BASE_PAGE, Window};

use crate::sys::HostRegistration;
use crate::{Gpu, GpuError};

/// A window that kernels of a GPU may access, for as long as this (or a clone) lives.
#[derive(Clone)]
pub struct Registered {
    address: u64,
    window: Window,
    _registration: Arc<HostRegistration>,
    gpu: Arc<Gpu>,
}

impl std::fmt::Debug for Registered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = f.debug_struct("Registered");
        text.field("gpu", &self.gpu.info().ordinal).field("len", &self.window.len()).finish_non_exhaustive()
    }
}

impl Registered {
    pub(crate) fn host(gpu: Arc<Gpu>, window: &Window) -> Result<Registered, GpuError> {
        if !window.memory().is_ordinary() {
            let reason = "these are pages of a BAR, which are registered as I/O memory";
            return Err(GpuError::refused(format!("{}: host memory", gpu.info().target()), reason));
        }
        Registered::new(gpu, window, false)
    }

    pub(crate) fn io(gpu: Arc<Gpu>, window: &Window) -> Result<Registered, GpuError> {
        if window.memory().is_ordinary() {
            let reason = "this is ordinary memory, which is registered as such";
            return Err(GpuError::refused(format!("{}: BAR pages", gpu.info().target()), reason));
        }
        touch(window);
        Registered::new(gpu, window, true)
    }

    fn new(gpu: Arc<Gpu>, window: &Window, io: bool) -> Result<Registered, GpuError> {
        let registration = HostRegistration::new(gpu.context(), window, io)?;
        let address = registration.address(gpu.context(), window)?;
        Ok(Registered { address, window: window.clone(), _registration: Arc::new(registration), gpu })
    }

    /// The window's first byte, for kernels. It may differ from the host's pointer.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// The memory.
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// Whose kernels.
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }
}

/// Reads a word of every page. The kernel maps pages of a BAR when they are touched, and again after each reset; the
/// GPU's driver walks the page table and never faults.
fn touch(window: &Window) {
    let lead = (window.as_ptr() as usize).next_multiple_of(4) - window.as_ptr() as usize;
    let mut at = lead;
    while at + 4 <= window.len() {
        window.load_u32(at, Ordering::Relaxed);
        let next = (window.as_ptr() as usize + at) / BASE_PAGE * BASE_PAGE + BASE_PAGE;
        at = next - window.as_ptr() as usize;
    }
}
