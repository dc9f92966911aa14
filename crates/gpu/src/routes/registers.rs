//! The page of an SSD's registers, for kernels that read one.

use std::sync::Arc;

use warpbell_hw::Device;

use crate::{Gpu, GpuError, Registered};

/// Makes the register page of `device` readable for kernels of `gpu`: as I/O memory, or as what it is where the device
/// has it in memory. Refused where accesses to registers are calls.
pub fn registers(gpu: &Arc<Gpu>, device: &dyn Device) -> Result<Registered, GpuError> {
    let object = || format!("registers of {}", device.info().name);
    let page = device.register_page();
    let page = page.ok_or_else(|| GpuError::refused(object(), "they are no memory that can be mapped"))?;
    if page.memory().is_ordinary() { gpu.register(&page) } else { gpu.register_io(&page) }
}
