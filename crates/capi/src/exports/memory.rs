// UNSAFETY: C programs call these functions with pointers; `pointer` has the checks.
#![expect(unsafe_code, reason = "functions that C programs call, with pointers")]
//! Memory for kernels, the SSD and the host.

use std::ffi::c_void;

use warpbell_kernels::abi::BufferRef;

use super::pointer::{make, number, put, put_ref};
use super::user_memory::window;
use crate::buffer::{BUFFERS, Buffer};
use crate::error::{Failure, report};
use crate::types::Handle;

/// As the header says.
///
/// # Safety
/// `buffer` is null or leads to memory for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_buffer_alloc(queues: Handle, bytes: usize, buffer: *mut Handle) -> i32 {
    // SAFETY: the contract of this function.
    report(|| unsafe { make("buffer", buffer, || Buffer::alloc(number(queues), bytes)) })
}

/// As the header says.
///
/// # Safety
/// `memory` is null or leads to `bytes` bytes that stay until the buffer is closed; `buffer` is null or leads to
/// memory for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_buffer_register(
    queues: Handle,
    memory: *mut c_void,
    bytes: usize,
    buffer: *mut Handle,
) -> i32 {
    let register = || {
        // SAFETY: the contract of this function.
        let window = unsafe { window(memory.cast(), bytes) }?;
        Buffer::register(number(queues), window)
    };
    // SAFETY: the contract of this function.
    report(|| unsafe { make("buffer", buffer, register) })
}

/// As the header says.
///
/// # Safety
/// What is at `address` stays allocated until the buffer is closed; `buffer` is null or leads to memory for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_buffer_register_device(
    queues: Handle,
    address: u64,
    bytes: usize,
    buffer: *mut Handle,
) -> i32 {
    let register = || {
        Buffer::register_device(number(queues), |gpu| {
            // SAFETY: the contract of this function.
            Ok(unsafe { gpu.foreign(address, bytes, None) }?)
        })
    };
    // SAFETY: the contract of this function.
    report(|| unsafe { make("buffer", buffer, register) })
}

/// As the header says.
#[unsafe(no_mangle)]
pub extern "C" fn warpbell_buffer_close(buffer: Handle) -> i32 {
    report(|| Buffer::close(number(buffer)))
}

/// As the header says.
///
/// # Safety
/// `into` is null or leads to memory for the struct.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_buffer_get_ref(buffer: Handle, into: *mut BufferRef) -> i32 {
    report(|| {
        let value = BUFFERS.get(number(buffer))?.to_ref();
        // SAFETY: the contract of this function.
        unsafe { put_ref(into, value) }
    })
}

/// As the header says.
///
/// # Safety
/// Both places are null or lead to memory for their values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_buffer_get_host(
    buffer: Handle,
    memory: *mut *mut c_void,
    bytes: *mut usize,
) -> i32 {
    report(|| {
        let buffer = BUFFERS.get(number(buffer))?;
        let window = buffer.buffer.window().ok_or_else(|| {
            Failure::invalid("buffer: it lies in a GPU's memory, where the host has no pointer")
        })?;
        // SAFETY: the contract of this function.
        unsafe { put("memory", memory, window.as_ptr().cast()) }?;
        // SAFETY: as above.
        unsafe { put("bytes", bytes, window.len()) }
    })
}
