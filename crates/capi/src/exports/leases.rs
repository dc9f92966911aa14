// UNSAFETY: C programs call these functions with pointers; `pointer` has the checks.
#![expect(unsafe_code, reason = "functions that C programs call, with pointers")]
//! Leases of queues.

use warpbell_kernels::abi::NamespaceRef;

use super::pointer::{make, number, options, put_ref};
use crate::error::report;
use crate::lease::{LEASES, Lease};
use crate::types::{Handle, LeaseOptions};

/// As the header says.
///
/// # Safety
/// Pointers are null or valid, as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_queues_lease(
    queues: Handle,
    chosen: *const LeaseOptions,
    lease: *mut Handle,
) -> i32 {
    let take = || {
        // SAFETY: the contract of this function.
        let chosen = unsafe { options("warpbell_lease_options", chosen) }?;
        Lease::of_queues(number(queues), &chosen)
    };
    // SAFETY: the contract of this function.
    report(|| unsafe { make("lease", lease, take) })
}

/// As the header says.
///
/// # Safety
/// Pointers are null or valid, as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_lease_narrow(
    lease: Handle,
    chosen: *const LeaseOptions,
    narrower: *mut Handle,
) -> i32 {
    let take = || {
        // SAFETY: the contract of this function.
        let chosen = unsafe { options("warpbell_lease_options", chosen) }?;
        Lease::of_lease(number(lease), &chosen)
    };
    // SAFETY: the contract of this function.
    report(|| unsafe { make("narrower", narrower, take) })
}

/// As the header says.
///
/// # Safety
/// `into` is null or leads to memory for the struct.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_lease_get_namespace_ref(lease: Handle, into: *mut NamespaceRef) -> i32 {
    report(|| {
        let value = LEASES.get(number(lease))?.namespace_ref();
        // SAFETY: the contract of this function.
        unsafe { put_ref(into, value) }
    })
}

/// As the header says.
#[unsafe(no_mangle)]
pub extern "C" fn warpbell_lease_close(lease: Handle) -> i32 {
    report(|| Lease::close(number(lease)))
}
