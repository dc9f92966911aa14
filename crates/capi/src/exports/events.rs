// UNSAFETY: C programs call these functions with pointers; `pointer` has the checks.
#![expect(unsafe_code, reason = "functions that C programs call, with pointers")]
//! What happens to an SSD.

use std::time::Duration;

use super::pointer::{check_place, fill, number};
use crate::error::report;
use crate::events;
use crate::types::{Event, Handle, RecoveryCounters};

/// As the header says.
///
/// # Safety
/// `event` is null or leads to a struct of the size that it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_ssd_next_event(ssd: Handle, timeout_ns: u64, event: *mut Event) -> i32 {
    report(|| {
        // Before an event is taken, which nobody would get.
        // SAFETY: the contract of this function.
        unsafe { check_place("warpbell_event", event) }?;
        let next = events::next(number(ssd), Duration::from_nanos(timeout_ns))?;
        // SAFETY: the contract of this function.
        unsafe { fill("warpbell_event", event, &next) }
    })
}

/// As the header says.
///
/// # Safety
/// `counters` is null or leads to a struct of the size that it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_ssd_recovery_counters(ssd: Handle, counters: *mut RecoveryCounters) -> i32 {
    report(|| {
        let known = events::counters(number(ssd))?;
        // SAFETY: the contract of this function.
        unsafe { fill("warpbell_recovery_counters", counters, &known) }
    })
}
