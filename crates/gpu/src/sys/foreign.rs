//! Device memory that somebody else allocated: cudaMalloc, a framework's tensors, ranges of cuMemMap.
// UNSAFETY: asks the CUDA driver about addresses, and takes over a promise of the caller's.
#![expect(unsafe_code, reason = "calls of the CUDA driver, and memory that is kept by others")]

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use cudarc::driver::sys::{CUdeviceptr, CUmemorytype, CUpointer_attribute as Attribute, CUstream};

use super::context::Context;
use super::memory::{Allocation, DEVICE_PAGE, Owner};
use crate::{DeviceMemory, Gpu, GpuError};

/// What the driver says of addresses that it does not know.
const INVALID_VALUE: u32 = 1;

impl Gpu {
    /// Memory of this GPU that the caller has: `len` bytes at `address`, both multiples of 64 KiB, inside one
    /// allocation. It is not freed with the value; `owner`, if there is one, is kept as long.
    ///
    /// # Safety
    /// The memory stays allocated as long as the value, or a clone, lives: what reaches it later reaches whatever is
    /// there by then.
    pub unsafe fn foreign(
        self: &Arc<Self>,
        address: u64,
        len: usize,
        owner: Option<Owner>,
    ) -> Result<DeviceMemory, GpuError> {
        let base = check(self.context(), address, len)?;
        let allocation = Allocation::foreign(self.context(), base, (address, len), owner);
        Ok(DeviceMemory::of(self.clone(), allocation))
    }

    /// Waits for the work that is on a stream of somebody else's; 0, 1 and 2 are the default streams of `cuda.h`.
    ///
    /// # Safety
    /// `stream` is a stream of this GPU's primary context, and is not destroyed meanwhile.
    pub unsafe fn wait_for_stream(&self, stream: u64) -> Result<(), GpuError> {
        let context = self.context();
        let _current = context.enter()?;
        // SAFETY: the contract of this function.
        let result = unsafe { context.functions().cuStreamSynchronize(stream as CUstream) };
        context.outcome(result, || format!("{}: stream {stream:#x}", context.device().name_in_errors()))
    }
}

/// Whether a range is what devices can share; the address of its allocation.
fn check(context: &Arc<Context>, address: u64, len: usize) -> Result<CUdeviceptr, GpuError> {
    let refused = |reason: String| {
        let object = format!("{}: {len} bytes at {address:#x}", context.device().name_in_errors());
        Err(GpuError::Foreign { object, reason })
    };
    let whole = |value: u64| value.is_multiple_of(DEVICE_PAGE);
    if len == 0 || !whole(address) || !whole(len as u64) {
        return refused(format!(
            "both must be multiples of {DEVICE_PAGE} bytes, as memory that devices share comes in such pages: allocate \
             {DEVICE_PAGE} bytes more, and register from the first multiple on"
        ));
    }
    let kind = match attribute(context, Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) {
        Ok(kind) => kind,
        Err(error) if error.code() == Some(INVALID_VALUE) => {
            return refused("no memory that CUDA knows".to_owned());
        }
        Err(error) => return Err(error),
    };
    if kind != CUmemorytype::CU_MEMORYTYPE_DEVICE as c_int {
        return refused("host memory: register it as such".to_owned());
    }
    if attribute(context, Attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED, address)? != 0 {
        return refused("managed memory, which moves: allocate it with cudaMalloc".to_owned());
    }
    let (owner, own) = (
        attribute(context, Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address)?,
        context.device().ordinal(),
    );
    if owner != own as c_int {
        return refused(format!("memory of cuda:{owner}, not of cuda:{own}"));
    }
    let (base, size) = allocation_at(context, address)?;
    if len as u64 > size.saturating_sub(address - base) {
        let end = base + size;
        return refused(format!("its allocation has {size} bytes at {base:#x}, and ends at {end:#x}"));
    }
    Ok(base)
}

/// A number that the driver keeps of an address.
fn attribute(context: &Context, attribute: Attribute, address: u64) -> Result<c_int, GpuError> {
    let _current = context.enter()?;
    let mut value: c_int = 0;
    // SAFETY: these attributes are integers of 4 bytes; any address may be asked about.
    let result = unsafe {
        context.functions().cuPointerGetAttribute((&raw mut value).cast::<c_void>(), attribute, address)
    };
    context.outcome(result, || format!("memory at {address:#x}"))?;
    Ok(value)
}

/// First byte and length of the allocation that has an address.
fn allocation_at(context: &Context, address: u64) -> Result<(CUdeviceptr, u64), GpuError> {
    let _current = context.enter()?;
    let (mut base, mut size) = (0, 0);
    // SAFETY: writes an address and a length.
    let result =
        unsafe { context.functions().cuMemGetAddressRange_v2(&raw mut base, &raw mut size, address) };
    context.outcome(result, || format!("memory at {address:#x}"))?;
    Ok((base, size as u64))
}
