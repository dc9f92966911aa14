// UNSAFETY: C programs call these functions with pointers; `pointer` has the checks.
#![expect(unsafe_code, reason = "functions that C programs call, with pointers")]
//! The functions of `volume.h`.

use std::ffi::c_void;

use warpbell_kernels::abi::{VOLUME_MEMBERS_MAX, VolumeBufferRef, VolumeRef};

use super::pointer::{VersionedStruct, array, fill, make, number, options, put, put_ref};
use super::user_memory::pages_around;
use crate::error::{Failure, report};
use crate::types::{Handle, MemberInfo, VolumeInfo, VolumeOptions};
use crate::volume::{Request, VOLUME_BUFFERS, VOLUMES, Volume, VolumeBuffer};

// SAFETY: integers and a raw pointer behind a head, ordered without padding.
unsafe impl VersionedStruct for VolumeOptions {}
// SAFETY: integers behind a head, ordered without padding.
unsafe impl VersionedStruct for VolumeInfo {}
// SAFETY: as above, with an array of bytes.
unsafe impl VersionedStruct for MemberInfo {}

/// As the header says.
///
/// # Safety
/// Pointers are null or valid, as the header says: `queues` and `distances` have `count` entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_volume_create(
    queues: *const Handle,
    count: u32,
    chosen: *const VolumeOptions,
    volume: *mut Handle,
) -> i32 {
    let create = || {
        // SAFETY: the contract of this function.
        let chosen = unsafe { options("warpbell_volume_options", chosen) }?;
        if !(1..=VOLUME_MEMBERS_MAX).contains(&count) {
            return Err(Failure::invalid(format!("count {count}: must be 1 to {VOLUME_MEMBERS_MAX}")));
        }
        // SAFETY: as above.
        let queues = unsafe { array("queues", queues, count as usize) }?;
        let queues: Vec<u64> = queues.into_iter().map(number).collect();
        let distances = if chosen.distances.is_null() {
            Vec::new()
        } else {
            // SAFETY: as above.
            unsafe { array("distances", chosen.distances, count as usize) }?
        };
        if chosen.pad0 != 0 {
            return Err(Failure::invalid(format!("pad0 {}: must be 0", chosen.pad0)));
        }
        let VolumeOptions { layout, chunk_bytes, .. } = chosen;
        Volume::create(&queues, Request { layout, chunk_bytes, distances })
    };
    // SAFETY: the contract of this function.
    report(|| unsafe { make("volume", volume, create) })
}

/// As the header says.
#[unsafe(no_mangle)]
pub extern "C" fn warpbell_volume_close(volume: Handle) -> i32 {
    report(|| Volume::close(number(volume)))
}

/// As the header says.
///
/// # Safety
/// `info` is null or leads to a struct of the size that it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_volume_get_info(volume: Handle, info: *mut VolumeInfo) -> i32 {
    report(|| {
        let volume = VOLUMES.get(number(volume))?;
        // SAFETY: the contract of this function.
        unsafe { fill("warpbell_volume_info", info, volume.info()) }
    })
}

/// As the header says.
///
/// # Safety
/// `info` is null or leads to a struct of the size that it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_volume_get_member(
    volume: Handle,
    index: u32,
    info: *mut MemberInfo,
) -> i32 {
    report(|| {
        let member = VOLUMES.get(number(volume))?.member(index)?;
        // SAFETY: the contract of this function.
        unsafe { fill("warpbell_member_info", info, &member) }
    })
}

/// As the header says.
///
/// # Safety
/// `into` is null or leads to memory for the struct.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_volume_get_ref(volume: Handle, into: *mut VolumeRef) -> i32 {
    report(|| {
        let value = VOLUMES.get(number(volume))?.to_ref()?;
        // SAFETY: the contract of this function.
        unsafe { put_ref(into, value) }
    })
}

/// As the header says.
///
/// # Safety
/// `buffer` is null or leads to memory for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_volume_buffer_alloc(
    volume: Handle,
    bytes: usize,
    buffer: *mut Handle,
) -> i32 {
    // SAFETY: the contract of this function.
    report(|| unsafe { make("buffer", buffer, || VolumeBuffer::alloc(number(volume), bytes)) })
}

/// As the header says.
///
/// # Safety
/// `memory` is null or leads to `bytes` bytes that stay until the queues are closed, or the buffer is; `buffer` is null or
/// leads to memory for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_volume_buffer_register(
    volume: Handle,
    memory: *mut c_void,
    bytes: usize,
    buffer: *mut Handle,
) -> i32 {
    let register = || {
        // SAFETY: the contract of this function.
        let pages = unsafe { pages_around(memory.cast(), bytes) }?;
        VolumeBuffer::register(number(volume), pages, bytes)
    };
    // SAFETY: as above.
    report(|| unsafe { make("buffer", buffer, register) })
}

/// As the header says.
#[unsafe(no_mangle)]
pub extern "C" fn warpbell_volume_buffer_close(buffer: Handle) -> i32 {
    report(|| VolumeBuffer::close(number(buffer)))
}

/// As the header says.
///
/// # Safety
/// `into` is null or leads to memory for the struct.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_volume_buffer_get_ref(buffer: Handle, into: *mut VolumeBufferRef) -> i32 {
    report(|| {
        let value = VOLUME_BUFFERS.get(number(buffer))?.to_ref();
        // SAFETY: the contract of this function.
        unsafe { put_ref(into, value) }
    })
}

/// As the header says.
///
/// # Safety
/// Both places are null or lead to memory for their values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_volume_buffer_get_host(
    buffer: Handle,
    memory: *mut *mut c_void,
    bytes: *mut usize,
) -> i32 {
    report(|| {
        let buffer = VOLUME_BUFFERS.get(number(buffer))?;
        let Some(window) = buffer.buffer.buffer().window() else {
            return Err(Failure::invalid("volume buffer: the host has no pointer to its memory"));
        };
        // SAFETY: the contract of this function.
        unsafe { put("memory", memory, window.as_ptr().wrapping_add(buffer.buffer.skip()).cast()) }?;
        // SAFETY: as above.
        unsafe { put("bytes", bytes, buffer.to_ref().bytes as usize) }
    })
}
