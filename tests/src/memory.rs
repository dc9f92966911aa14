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
