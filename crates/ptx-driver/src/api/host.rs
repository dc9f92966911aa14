// UNSAFETY: C functions that write through the pointers that they are given.
#![expect(unsafe_code, reason = "the C interface of the CUDA driver")]
//! Registration of host memory.

use std::ffi::{c_uint, c_void};

use super::{calls, put};
use crate::driver::driver;

calls! {
    fn cuMemHostRegister_v2(start: *mut c_void, len: usize, flags: c_uint) {
        let driver = driver()?;
        driver.current()?.note_waiting("host memory is registered");
        driver.memory.register(start.expose_provenance() as u64, len as u64, flags)
    }

    /// Waits for what runs, as drivers do.
    fn cuMemHostUnregister(start: *mut c_void) {
        let driver = driver()?;
        driver.current()?.drain();
        driver.memory.unregister(start.addr() as u64)
    }

    fn cuMemHostGetDevicePointer_v2(to: *mut u64, start: *mut c_void, flags: c_uint) {
        let driver = driver()?;
        driver.current()?;
        let address = driver.memory.device_pointer(start.addr() as u64, flags)?;
        // SAFETY: the caller's pointer.
        unsafe { put(to, address) }
    }
}
