// UNSAFETY: C programs call these functions with pointers; `pointer` has the checks.
#![expect(unsafe_code, reason = "functions that C programs call, with pointers")]
//! The functions of `volume.h` for I/O by the host.

use std::time::Duration;

use super::pointer::{VersionedStruct, check_place, fill, make, number, options, put};
use crate::error::{Answer, report};
use crate::types::{Handle, VolumeIoEnd, VolumeIoOptions};
use crate::volume_io::{Extent, Io, VOLUME_IOS};

// SAFETY: integers behind a head, ordered without padding.
unsafe impl VersionedStruct for VolumeIoOptions {}
// SAFETY: as above, with an array of bytes.
unsafe impl VersionedStruct for VolumeIoEnd {}

/// As the header says.
///
/// # Safety
/// Pointers are null or valid, as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_volume_io_open(
    volume: Handle,
    chosen: *const VolumeIoOptions,
    io: *mut Handle,
) -> i32 {
    let open = || {
        // SAFETY: the contract of this function.
        let chosen = unsafe { options("warpbell_volume_io_options", chosen) }?;
        Io::open(number(volume), &chosen)
    };
    // SAFETY: the contract of this function.
    report(|| unsafe { make("io", io, open) })
}

/// As the header says.
#[unsafe(no_mangle)]
pub extern "C" fn warpbell_volume_io_close(io: Handle) -> i32 {
    report(|| Io::close(number(io)))
}

/// Begins a request. Its place is looked at first: what has begun has a number.
///
/// # Safety
/// `request` is null or leads to memory for a number.
unsafe fn begin(request: *mut u64, begin: impl FnOnce() -> Answer<u64>) -> i32 {
    report(|| {
        // SAFETY: the contract of this function.
        unsafe { put("request", request, 0) }?;
        let number = begin()?;
        // SAFETY: as above.
        unsafe { put("request", request, number) }
    })
}

/// As the header says.
///
/// # Safety
/// `request` is null or leads to memory for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_volume_io_read(
    io: Handle,
    buffer: Handle,
    at: u64,
    first_block: u64,
    blocks: u64,
    request: *mut u64,
) -> i32 {
    let extent = Extent { buffer: number(buffer), at, first_block, blocks };
    // SAFETY: the contract of this function.
    unsafe { begin(request, || VOLUME_IOS.get(number(io))?.read(&extent)) }
}

/// As the header says.
///
/// # Safety
/// `request` is null or leads to memory for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_volume_io_write(
    io: Handle,
    buffer: Handle,
    at: u64,
    first_block: u64,
    blocks: u64,
    request: *mut u64,
) -> i32 {
    let extent = Extent { buffer: number(buffer), at, first_block, blocks };
    // SAFETY: the contract of this function.
    unsafe { begin(request, || VOLUME_IOS.get(number(io))?.write(&extent)) }
}

/// As the header says.
///
/// # Safety
/// `request` is null or leads to memory for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_volume_io_flush(io: Handle, request: *mut u64) -> i32 {
    // SAFETY: the contract of this function.
    unsafe { begin(request, || VOLUME_IOS.get(number(io))?.flush()) }
}

/// As the header says.
///
/// # Safety
/// `end` is null or leads to a struct of the size that it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_volume_io_next(io: Handle, timeout_ns: u64, end: *mut VolumeIoEnd) -> i32 {
    let timeout = (timeout_ns != u64::MAX).then(|| Duration::from_nanos(timeout_ns));
    report(|| {
        let io = VOLUME_IOS.get(number(io))?;
        // An end is told once: not without a place for it.
        // SAFETY: the contract of this function.
        unsafe { check_place("warpbell_volume_io_end", end) }?;
        let found = io.next(timeout)?;
        // SAFETY: as above.
        unsafe { fill("warpbell_volume_io_end", end, &found) }
    })
}
