//! Hints to the cache, for memory that is about to be copied.
// UNSAFETY: prefetches are instructions.
#![expect(unsafe_code, reason = "intrinsics of the processor")]

/// Starts to load the cache lines of `len` bytes from `address` on. Any address is allowed.
#[inline(always)]
pub(crate) fn prefetch_read(address: *const u8, len: usize) {
    for line in (0..len).step_by(64) {
        let address = address.wrapping_add(line);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch is a hint; it does not access memory as far as faults are concerned.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = address;
    }
}

/// As [`prefetch_read`], for lines about to be written.
#[inline(always)]
pub(crate) fn prefetch_write(address: *const u8, len: usize) {
    for line in (0..len).step_by(64) {
        let address = address.wrapping_add(line);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as in `prefetch_read`.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_ET0 }>(address.cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = address;
    }
}
