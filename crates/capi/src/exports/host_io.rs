// UNSAFETY: C programs call these functions with pointers; `pointer` has the checks.
#![expect(unsafe_code, reason = "functions that C programs call, with pointers")]
//! The functions of `host_io.h`.

use std::ffi::c_void;
use std::time::Duration;

use super::pointer::{make, number, options, put, records, records_mut};
use super::user_memory::pages_around;
use crate::error::report;
use crate::host_io::{IoBuffer, IoQueue, with_queue};
use crate::types::Handle;
use crate::types::host_io::{IoCompletion, IoQueueOptions, IoRequest};

/// As the header says.
///
/// # Safety
/// Both places are null or lead to memory for their values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_io_buffer_alloc(
    ssd: Handle,
    bytes: usize,
    memory: *mut *mut c_void,
    buffer: *mut Handle,
) -> i32 {
    let alloc = || {
        // SAFETY: the contract of this function.
        unsafe { put("memory", memory, std::ptr::null_mut()) }?;
        let (handle, base) = IoBuffer::alloc(number(ssd), bytes)?;
        // SAFETY: as above.
        unsafe { put("memory", memory, base as *mut c_void) }?;
        Ok(handle)
    };
    // SAFETY: as above.
    report(|| unsafe { make("buffer", buffer, alloc) })
}

/// As the header says.
///
/// # Safety
/// `memory` is null or leads to `bytes` bytes that stay until the buffer is closed; `buffer` is null or leads to
/// memory for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_io_buffer_register(
    ssd: Handle,
    memory: *mut c_void,
    bytes: usize,
    buffer: *mut Handle,
) -> i32 {
    let register = || {
        // SAFETY: the contract of this function.
        let pages = unsafe { pages_around(memory.cast(), bytes) }?;
        IoBuffer::register(number(ssd), pages, bytes)
    };
    // SAFETY: as above.
    report(|| unsafe { make("buffer", buffer, register) })
}

/// As the header says.
#[unsafe(no_mangle)]
pub extern "C" fn warpbell_io_buffer_close(buffer: Handle) -> i32 {
    report(|| IoBuffer::close(number(buffer)))
}

/// As the header says.
///
/// # Safety
/// Pointers are null or valid, as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_io_queue_create(
    ssd: Handle,
    chosen: *const IoQueueOptions,
    queue: *mut Handle,
) -> i32 {
    let create = || {
        // SAFETY: the contract of this function.
        let chosen = unsafe { options("warpbell_io_queue_options", chosen) }?;
        IoQueue::create(number(ssd), &chosen)
    };
    // SAFETY: as above.
    report(|| unsafe { make("queue", queue, create) })
}

/// As the header says.
#[unsafe(no_mangle)]
pub extern "C" fn warpbell_io_queue_close(queue: Handle) -> i32 {
    report(|| IoQueue::close(number(queue)))
}

/// As the header says.
///
/// # Safety
/// `requests` is null or leads to `count` requests, `submitted` is null or leads to memory for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_io_submit(
    queue: Handle,
    requests: *const IoRequest,
    count: u32,
    submitted: *mut u32,
) -> i32 {
    report(|| {
        // SAFETY: the contract of this function.
        unsafe { put("submitted", submitted, 0) }?;
        // SAFETY: as above.
        let requests = unsafe { records("requests", requests, count) }?;
        let mut taken = 0;
        let answer = with_queue(number(queue), |queue| queue.submit(requests, &mut taken));
        // SAFETY: as above.
        unsafe { put("submitted", submitted, taken) }?;
        answer
    })
}

/// As the header says.
///
/// # Safety
/// `completions` is null or leads to memory for `max` completions, `completed` is null or leads to memory for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_io_poll(
    queue: Handle,
    min: u32,
    max: u32,
    timeout_ns: u64,
    completions: *mut IoCompletion,
    completed: *mut u32,
) -> i32 {
    report(|| {
        // SAFETY: the contract of this function.
        unsafe { put("completed", completed, 0) }?;
        // SAFETY: as above.
        let room = unsafe { records_mut("completions", completions, max) }?;
        let (timeout, mut count) = (Duration::from_nanos(timeout_ns), 0);
        let answer = with_queue(number(queue), |queue| queue.poll(min, room, timeout, &mut count));
        // SAFETY: as above.
        unsafe { put("completed", completed, count) }?;
        answer
    })
}
