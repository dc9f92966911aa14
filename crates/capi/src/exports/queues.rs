// UNSAFETY: C programs call these functions with pointers; `pointer` has the checks.
#![expect(unsafe_code, reason = "functions that C programs call, with pointers")]
//! Queues for kernels.

use warpbell_kernels::abi::{NamespaceRef, QueueRef};

use super::pointer::{make, number, options, put, put_ref, target};
use crate::error::report;
use crate::queues::{QUEUES, Queues, Request};
use crate::types::{AttachOptions, Handle};

/// As the header says.
///
/// # Safety
/// Pointers are null or valid, as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_queues_attach(
    ssd: Handle,
    chosen: *const AttachOptions,
    queues: *mut Handle,
) -> i32 {
    let attach = || {
        // SAFETY: the contract of this function.
        let chosen = unsafe { options("warpbell_attach_options", chosen) }?;
        // SAFETY: as above.
        let target = unsafe { target(chosen.target) }?;
        let AttachOptions {
            timeout_ns,
            nsid,
            queues,
            warps,
            iodepth,
            commands_per_lane,
            sharing,
            replacement_queues,
            ..
        } = chosen;
        let recovery = chosen.no_recovery == 0;
        let request = Request {
            target,
            timeout_ns,
            nsid,
            queues,
            warps,
            iodepth,
            commands_per_lane,
            sharing,
            replacement_queues,
            recovery,
        };
        Queues::attach(number(ssd), &request)
    };
    // SAFETY: the contract of this function.
    report(|| unsafe { make("queues", queues, attach) })
}

/// As the header says.
#[unsafe(no_mangle)]
pub extern "C" fn warpbell_queues_close(queues: Handle) -> i32 {
    report(|| Queues::close(number(queues)))
}

/// As the header says.
///
/// # Safety
/// `into` is null or leads to memory for the struct.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_queues_get_namespace_ref(queues: Handle, into: *mut NamespaceRef) -> i32 {
    report(|| {
        let value = QUEUES.get(number(queues))?.namespace_ref();
        // SAFETY: the contract of this function.
        unsafe { put_ref(into, value) }
    })
}

/// As the header says.
///
/// # Safety
/// `into` is null or leads to memory for the struct.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_queues_get_queue_ref(
    queues: Handle,
    index: u32,
    into: *mut QueueRef,
) -> i32 {
    report(|| {
        let value = QUEUES.get(number(queues))?.queue_ref(index)?;
        // SAFETY: the contract of this function.
        unsafe { put_ref(into, value) }
    })
}

/// As the header says.
///
/// # Safety
/// `address` is null or leads to memory for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_queues_get_mailbox(queues: Handle, address: *mut u64) -> i32 {
    report(|| {
        let value = QUEUES.get(number(queues))?.mailbox();
        // SAFETY: the contract of this function.
        unsafe { put("address", address, value) }
    })
}

/// As the header says.
#[unsafe(no_mangle)]
pub extern "C" fn warpbell_queues_stop(queues: Handle) -> i32 {
    report(|| {
        QUEUES.get(number(queues))?.stop();
        Ok(())
    })
}
