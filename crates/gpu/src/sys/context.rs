//! Primary contexts, and which one is current.
// UNSAFETY: calls the CUDA driver with handles that it gave.
#![expect(unsafe_code, reason = "calls of the CUDA driver")]

use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use cudarc::driver::sys::{CUcontext, CUflushGPUDirectRDMAWritesScope, CUflushGPUDirectRDMAWritesTarget};
use parking_lot::Mutex;

use super::device::Device;
use super::failure::Failure;
use super::functions::Functions;
use super::stream::{RawStream, Stream};
use crate::GpuError;

/// The primary context of a device: the one that everything in a process shares, the CUDA runtime included.
pub(crate) struct Context {
    device: Device,
    raw: CUcontext,
    /// The first error after which nothing works any more.
    first_fault: OnceLock<String>,
    /// Streams that nothing runs on, for the next to use.
    idle: Mutex<Vec<RawStream>>,
}

// SAFETY: a context handle may be used from any thread, where it is made current first.
unsafe impl Send for Context {}
// SAFETY: the driver synchronises its calls; our own state is behind locks.
unsafe impl Sync for Context {}

/// The context is this thread's current one until this is dropped; then the one before is again.
pub(super) struct Current {
    functions: Option<&'static Functions>,
    /// Belongs to the thread.
    _thread: PhantomData<*const ()>,
}

impl Context {
    pub(crate) fn retain(device: Device) -> Result<Arc<Context>, GpuError> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: writes one handle.
        let result = unsafe { device.functions.cuDevicePrimaryCtxRetain(&raw mut raw, device.raw) };
        result.map_err(|failure| failure.error(device.name_in_errors()))?;
        Ok(Arc::new(Context { device, raw, first_fault: OnceLock::new(), idle: Mutex::default() }))
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(super) fn functions(&self) -> &'static Functions {
        self.device.functions
    }

    /// Makes the context current on this thread. What another library made current comes back afterwards.
    pub(super) fn enter(&self) -> Result<Current, GpuError> {
        let functions = self.functions();
        let mut current = std::ptr::null_mut();
        // SAFETY: writes one handle.
        self.about(unsafe { functions.cuCtxGetCurrent(&raw mut current) })?;
        if current == self.raw {
            return Ok(Current { functions: None, _thread: PhantomData });
        }
        // SAFETY: the context is retained while `self` lives.
        self.about(unsafe { functions.cuCtxPushCurrent_v2(self.raw) })?;
        Ok(Current { functions: Some(functions), _thread: PhantomData })
    }

    /// The result of a call about the device as a whole.
    fn about(&self, result: Result<(), Failure>) -> Result<(), GpuError> {
        self.outcome(result, || self.device.name_in_errors())
    }

    /// The result of a call about `object`. The first failure that ends the context is told with every later one.
    pub(super) fn outcome(
        &self,
        result: Result<(), Failure>,
        object: impl FnOnce() -> String,
    ) -> Result<(), GpuError> {
        let Err(failure) = result else { return Ok(()) };
        let error = failure.error(object());
        if !error.is_context_lost() {
            return Err(error);
        }
        match self.first_fault.set(error.to_string()) {
            Ok(()) => Err(error),
            // The machine's text for a fault is the first fault itself.
            Err(_) if matches!(error, GpuError::Machine { .. }) => Err(error),
            Err(_) => {
                let first = self.first_fault.get().cloned().unwrap_or_default();
                Err(GpuError::Lost { error: Box::new(error), first })
            }
        }
    }

    /// What ended the context, if something did.
    pub(crate) fn first_fault(&self) -> Option<&str> {
        self.first_fault.get().map(String::as_str)
    }

    /// A stream that nothing else runs on. It does not wait for the legacy default stream, nor that for it.
    pub(crate) fn stream(self: &Arc<Self>) -> Result<Stream, GpuError> {
        let reused = self.idle.lock().pop();
        match reused {
            Some(raw) => Ok(Stream::new(raw, self.clone())),
            None => {
                let _current = self.enter()?;
                Ok(Stream::new(RawStream::create(self)?, self.clone()))
            }
        }
    }

    /// A stream that nothing runs on any more.
    pub(super) fn release(&self, stream: RawStream) {
        self.idle.lock().push(stream);
    }

    /// Bytes of the device's memory: free, and all.
    pub(crate) fn free_and_total(&self) -> Result<(u64, u64), GpuError> {
        let _current = self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: writes two integers.
        let result = unsafe { self.functions().cuMemGetInfo_v2(&raw mut free, &raw mut total) };
        self.about(result)?;
        Ok((free as u64, total as u64))
    }

    /// Waits until what other devices have written to this device's memory can be seen by its kernels.
    pub(crate) fn flush_remote_writes(&self) -> Result<(), GpuError> {
        let _current = self.enter()?;
        let target = CUflushGPUDirectRDMAWritesTarget::CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX;
        let scope = CUflushGPUDirectRDMAWritesScope::CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER;
        // SAFETY: takes no pointers; the context is current.
        self.about(unsafe { self.functions().cuFlushGPUDirectRDMAWrites(target, scope) })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let idle = std::mem::take(self.idle.get_mut());
        if let Ok(_current) = self.enter() {
            for stream in idle {
                stream.destroy(self.device.functions);
            }
        }
        // SAFETY: retained once by this value; all that lived in the context kept this value alive.
        let result = unsafe { self.device.functions.cuDevicePrimaryCtxRelease_v2(self.device.raw) };
        if let Err(failure) = result {
            tracing::debug!(error = %failure.error(self.device.name_in_errors()), "context not released");
        }
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        let Some(functions) = self.functions else { return };
        let mut popped = std::ptr::null_mut();
        // SAFETY: pops what `enter` pushed on this thread; writes one handle.
        if let Err(failure) = unsafe { functions.cuCtxPopCurrent_v2(&raw mut popped) } {
            tracing::debug!(error = %failure.error("context".to_owned()), "not popped");
        }
    }
}
