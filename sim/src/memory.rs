// UNSAFETY: reads kernel state by address.
#![expect(unsafe_code, reason = "reads kernel state by address, as a debugger would")]
//! Looks into kernel memory that the public API has no window for.

use zerocopy::FromBytes;

/// Reads a value that kernels keep at `address`: an address out of a `QueueRef` of a living attachment.
pub fn peek<T: FromBytes + Copy>(address: u64) -> T {
    let pointer = address as *const T;
    assert!(!pointer.is_null() && pointer.is_aligned(), "{address:#x} is no address of a kernel's state");
    // SAFETY: the attachment that handed the address out keeps the memory mapped; any bytes are a valid T; no
    // kernel runs while a test looks.
    unsafe { pointer.read_volatile() }
}

/// Copies `to.len()` words from `address` on.
pub(crate) fn copy_out(address: u64, to: &mut [u64]) {
    let from = address as *const u64;
    assert!(!from.is_null() && from.is_aligned(), "{address:#x} is no address of words");
    // SAFETY: the caller's window keeps the memory mapped; no kernel runs while a test copies.
    unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) }
}

/// Copies words to `address`.
pub(crate) fn copy_in(address: u64, from: &[u64]) {
    let to = address as *mut u64;
    assert!(!to.is_null() && to.is_aligned(), "{address:#x} is no address of words");
    // SAFETY: as above.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) }
}

/// Fills `bytes` bytes from `address` on.
pub(crate) fn fill(address: u64, bytes: usize, with: u8) {
    let to = address as *mut u8;
    assert!(!to.is_null(), "{address:#x} is no address of a ring");
    // SAFETY: the attachment that handed the address out keeps the memory mapped, and nobody uses it yet.
    unsafe { std::ptr::write_bytes(to, with, bytes) }
}
