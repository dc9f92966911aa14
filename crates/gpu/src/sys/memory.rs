//! Device memory.
// UNSAFETY: calls the CUDA driver with addresses that it gave, and with slices for the time of a call.
#![expect(unsafe_code, reason = "calls of the CUDA driver")]

use std::any::Any;
use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::sys::{CUdeviceptr, CUpointer_attribute};
use warpbell_hw::Window;

use super::context::Context;
use crate::GpuError;

/// Bytes of a page of device memory: memory that devices share is whole ones.
pub const DEVICE_PAGE: u64 = 64 << 10;

/// What keeps memory of others where it is.
pub type Owner = Arc<dyn Any + Send + Sync>;

/// Memory of a device. What belongs to this value is plain (`cuMemAlloc`), as memory of pools is not taken by what
/// exports it to other devices.
pub(crate) struct Allocation {
    context: Arc<Context>,
    /// What the driver gave.
    base: CUdeviceptr,
    /// Whether it must get that back.
    owned: bool,
    /// The first byte, aligned.
    address: u64,
    len: usize,
    /// Of memory of others: what keeps it.
    _owner: Option<Owner>,
}

impl Allocation {
    /// `len` bytes, with whatever is in them.
    pub(crate) fn new(context: &Arc<Context>, len: usize) -> Result<Allocation, GpuError> {
        let object = || format!("{}: memory", context.device().name_in_errors());
        if len == 0 {
            return Err(GpuError::refused(object(), "0 bytes asked for: at least 1"));
        }
        // Aligned inside of a longer one: to try, free and try again would wait for kernels that run (cuMemFree does).
        let padded = len
            .checked_next_multiple_of(DEVICE_PAGE as usize)
            .and_then(|size| size.checked_add(DEVICE_PAGE as usize));
        let Some(padded) = padded else {
            return Err(GpuError::refused(object(), format!("{len} bytes asked for: too many")));
        };
        Self::raw(context, padded, len)
    }

    fn raw(context: &Arc<Context>, size: usize, len: usize) -> Result<Allocation, GpuError> {
        let _current = context.enter()?;
        let mut base: CUdeviceptr = 0;
        // SAFETY: writes one address.
        let result = unsafe { context.functions().cuMemAlloc_v2(&raw mut base, size) };
        context.outcome(result, || {
            let name = context.device().name_in_errors();
            format!("{name}: {len} bytes of memory, {size} with room to align them")
        })?;
        let address = base.next_multiple_of(DEVICE_PAGE);
        Ok(Allocation { context: context.clone(), base, owned: true, address, len, _owner: None })
    }

    /// A part of memory that others allocated at `base`, and keep.
    pub(super) fn foreign(
        context: &Arc<Context>,
        base: CUdeviceptr,
        (address, len): (u64, usize),
        owner: Option<Owner>,
    ) -> Allocation {
        Allocation { context: context.clone(), base, owned: false, address, len, _owner: owner }
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The address of a range, if it is inside.
    pub(crate) fn range(&self, offset: usize, len: usize) -> Result<u64, GpuError> {
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            let object = format!("{}: memory", self.context.device().name_in_errors());
            let reason = format!("range {offset}+{len} is outside {} bytes", self.len);
            return Err(GpuError::refused(object, reason));
        }
        Ok(self.address + offset as u64)
    }

    /// Copies out, and waits for it.
    pub(crate) fn read(&self, offset: usize, into: &Window) -> Result<(), GpuError> {
        let from = self.range(offset, into.len())?;
        let mut stream = self.context.stream()?;
        // SAFETY: the range was checked; the window is borrowed until the wait is over.
        unsafe { stream.copy_out(into.as_ptr(), from, into.len()) }?;
        stream.synchronize()
    }

    /// Copies in, and waits until it is there. (The synchronous copy of the driver comes back earlier, and runs on a
    /// stream that ours do not wait for.)
    pub(crate) fn write(&self, offset: usize, from: &Window) -> Result<(), GpuError> {
        let to = self.range(offset, from.len())?;
        let mut stream = self.context.stream()?;
        // SAFETY: the range was checked; the window is borrowed until the wait is over.
        unsafe { stream.copy_in(to, from.as_ptr(), from.len()) }?;
        stream.synchronize()
    }

    /// Sets bytes, and waits until they are there.
    pub(crate) fn fill(&self, offset: usize, len: usize, value: u8) -> Result<(), GpuError> {
        let to = self.range(offset, len)?;
        let mut stream = self.context.stream()?;
        // SAFETY: the range was checked; the memory lives until the wait is over.
        unsafe { stream.fill(to, value, len) }?;
        stream.synchronize()
    }

    /// Operations of the driver on this memory that are called synchronous are so from now on, without exception: other
    /// devices see it too.
    pub(crate) fn synchronize_copies(&self) -> Result<(), GpuError> {
        let _current = self.context.enter()?;
        let on: u32 = 1;
        // SAFETY: reads one integer; the address is ours.
        let result = unsafe {
            self.context.functions().cuPointerSetAttribute(
                (&raw const on).cast::<c_void>(),
                CUpointer_attribute::CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
                self.base,
            )
        };
        self.context.outcome(result, || format!("SYNC_MEMOPS of memory at {:#x}", self.address))
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if !self.owned {
            return;
        }
        let freed = self.context.enter().and_then(|_current| {
            // SAFETY: given by `cuMemAlloc`, freed once.
            let result = unsafe { self.context.functions().cuMemFree_v2(self.base) };
            self.context.outcome(result, || format!("memory at {:#x}", self.address))
        });
        if let Err(error) = freed {
            tracing::debug!(%error, "not freed");
        }
    }
}
