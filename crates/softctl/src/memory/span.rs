//! Bytes that a client shares with the controller, as a pointer with a length: copied, never referenced.
// UNSAFETY: copies between raw ranges, because no Rust reference may point at memory that a client writes.
#![expect(unsafe_code, reason = "copies to and from memory that others write need raw pointers")]

use std::marker::PhantomData;
use std::ptr::NonNull;

use warpbell_hw::Window;

/// A range of mapped memory, valid while what it borrows from lives.
///
/// The other side may write the range at any time; a client that does so while a command uses it gets torn data
/// and nothing worse, as with any device.
#[derive(Clone, Copy)]
pub(crate) struct Span<'a> {
    base: NonNull<u8>,
    len: usize,
    owner: PhantomData<&'a ()>,
}

impl<'a> Span<'a> {
    /// A range of memory.
    ///
    /// # Safety
    /// `base..base + len` must stay mapped readable, and writable where it is written, for `'a`.
    pub(crate) unsafe fn new(base: NonNull<u8>, len: usize) -> Span<'a> {
        Span { base, len, owner: PhantomData }
    }

    /// All bytes of a window of ordinary memory.
    pub(crate) fn of(window: &'a Window) -> Option<Span<'a>> {
        let base = NonNull::new(window.as_ptr())?;
        Some(Span { base, len: window.len(), owner: PhantomData })
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The bytes `offset..offset + len`.
    #[inline]
    pub(crate) fn slice(&self, offset: usize, len: usize) -> Span<'a> {
        assert!(offset <= self.len && len <= self.len - offset, "{offset}+{len} is outside {}", self.len);
        // SAFETY: inside the range, as just asserted.
        let base = unsafe { self.base.add(offset) };
        Span { base, len, owner: PhantomData }
    }

    /// Copies the whole of `from`, which has the same length and is other memory (a store or a client buffer; a
    /// client that maps one as the other does so at its own risk of torn data).
    #[inline]
    pub(crate) fn copy_from(&self, from: Span<'_>) {
        assert_eq!(self.len, from.len);
        // SAFETY: both ranges are mapped for as many bytes; `copy` allows them to overlap.
        unsafe { self.base.copy_from(from.base, self.len) };
    }

    /// Copies all bytes out.
    #[inline]
    pub(crate) fn read(&self, into: &mut [u8]) {
        assert_eq!(self.len, into.len());
        // SAFETY: both ranges have this length; `into` is ordinary memory and cannot overlap a mapping.
        unsafe { self.base.as_ptr().copy_to_nonoverlapping(into.as_mut_ptr(), self.len) };
    }

    /// Copies all bytes in.
    #[inline]
    pub(crate) fn write(&self, from: &[u8]) {
        assert_eq!(self.len, from.len());
        // SAFETY: both ranges have this length; `from` is ordinary memory and cannot overlap a mapping.
        unsafe { self.base.as_ptr().copy_from_nonoverlapping(from.as_ptr(), self.len) };
    }

    /// Sets all bytes to zero.
    pub(crate) fn zero(&self) {
        // SAFETY: the whole range is mapped writable.
        unsafe { self.base.as_ptr().write_bytes(0, self.len) };
    }
}

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
