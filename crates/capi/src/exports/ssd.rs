// UNSAFETY: C programs call these functions with pointers; `pointer` has the checks.
#![expect(unsafe_code, reason = "functions that C programs call, with pointers")]
//! SSDs.

use std::ffi::{c_char, c_void};

use warpbell::OpenOptions;

use super::pointer::{bytes, bytes_mut, fill, list, make, number, optional, options, text};
use crate::error::{Failure, report};
use crate::events;
use crate::ssd::{OpenSsd, SSDS};
use crate::types::{self, Handle, NamespaceInfo, SsdInfo};

/// As the header says.
///
/// # Safety
/// Pointers are null or valid, as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_ssd_open(
    device: *const c_char,
    chosen: *const types::OpenOptions,
    ssd: *mut Handle,
) -> i32 {
    let open = || {
        // SAFETY: the contract of this function.
        let name = unsafe { text("device", device) }?;
        // SAFETY: as above.
        let chosen = unsafe { options("warpbell_open_options", chosen) }?;
        // SAFETY: as above.
        let allow_write = unsafe { list("allow_write", chosen.allow_write) }?;
        let queues = u16::try_from(chosen.queues)
            .map_err(|_| Failure::invalid(format!("queues {}: must be at most 65535", chosen.queues)))?;
        let queues = (queues != 0).then_some(queues);
        // SAFETY: as above.
        let rings = unsafe { optional("rings", chosen.rings) }?;
        // SAFETY: as above.
        let data = unsafe { optional("data", chosen.data) }?;
        // SAFETY: as above.
        let gpu = unsafe { optional("gpu", chosen.gpu) }?.map(str::parse).transpose();
        let gpu = gpu.map_err(warpbell::Error::from)?;
        // SAFETY: as above.
        let doorbells = unsafe { optional("doorbells", chosen.doorbells) }?.unwrap_or("auto");
        let doorbells = doorbells
            .parse()
            .map_err(|error: warpbell::DoorbellChoiceError| Failure::invalid(format!("doorbells {error}")))?;
        // SAFETY: as above.
        let policy = unsafe { options("warpbell_recovery_policy", chosen.recovery) }?;
        let (rings, data) = warpbell::placements(rings.unwrap_or("host"), data.unwrap_or("host"), gpu)?;
        let chosen = OpenOptions::new()
            .allow_write(allow_write)
            .queues(queues)
            .prp_only(chosen.prp_only != 0)
            .rings(rings)
            .data(data)
            .doorbells(doorbells)
            .recovery(events::policy(&policy));
        OpenSsd::open(name, chosen)
    };
    // SAFETY: as above.
    report(|| unsafe { make("ssd", ssd, open) })
}

/// As the header says.
#[unsafe(no_mangle)]
pub extern "C" fn warpbell_ssd_close(ssd: Handle) -> i32 {
    report(|| OpenSsd::close(number(ssd)))
}

/// As the header says.
///
/// # Safety
/// `info` is null or leads to a struct of the size that it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_ssd_identify(ssd: Handle, info: *mut SsdInfo) -> i32 {
    report(|| {
        let known = SSDS.get(number(ssd))?.info();
        // SAFETY: the contract of this function.
        unsafe { fill("warpbell_ssd_info", info, &known) }
    })
}

/// As the header says.
///
/// # Safety
/// `info` is null or leads to a struct of the size that it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_ssd_namespace(ssd: Handle, index: u32, info: *mut NamespaceInfo) -> i32 {
    report(|| {
        let known = SSDS.get(number(ssd))?.namespace_info(index)?;
        // SAFETY: the contract of this function.
        unsafe { fill("warpbell_namespace_info", info, &known) }
    })
}

/// As the header says.
///
/// # Safety
/// `into` is null or leads to `bytes` bytes of the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_ssd_data_path(ssd: Handle, into: *mut c_char, bytes: usize) -> i32 {
    report(|| {
        let path = SSDS.get(number(ssd))?.ssd.data_path().to_string();
        // SAFETY: the contract of this function.
        let into = unsafe { bytes_mut("text", into.cast(), bytes) }?;
        let room = into.get_mut(..path.len() + 1).ok_or_else(|| {
            Failure::invalid(format!("bytes {bytes}: the text and its end take {}", path.len() + 1))
        })?;
        room[..path.len()].copy_from_slice(path.as_bytes());
        room[path.len()] = 0;
        Ok(())
    })
}

/// As the header says.
///
/// # Safety
/// `data` is null or leads to `len` bytes of the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_ssd_read(
    ssd: Handle,
    nsid: u32,
    lba: u64,
    data: *mut c_void,
    len: usize,
) -> i32 {
    report(|| {
        let ssd = SSDS.get(number(ssd))?;
        // SAFETY: the contract of this function.
        let into = unsafe { bytes_mut("data", data.cast(), len) }?;
        ssd.read(nsid, lba, into)
    })
}

/// As the header says.
///
/// # Safety
/// `data` is null or leads to `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_ssd_write(
    ssd: Handle,
    nsid: u32,
    lba: u64,
    data: *const c_void,
    len: usize,
) -> i32 {
    report(|| {
        let ssd = SSDS.get(number(ssd))?;
        // SAFETY: the contract of this function.
        let from = unsafe { bytes("data", data.cast(), len) }?;
        ssd.write(nsid, lba, from)
    })
}

/// As the header says.
#[unsafe(no_mangle)]
pub extern "C" fn warpbell_ssd_flush(ssd: Handle, nsid: u32) -> i32 {
    report(|| SSDS.get(number(ssd))?.flush(nsid))
}
