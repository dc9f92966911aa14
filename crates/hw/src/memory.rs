//! Memory that devices may read and write, and windows into it: volatile slices that keep it alive.
// UNSAFETY: makes volatile slices of raw memory, and copies whole entries through raw pointers.
#![expect(unsafe_code, reason = "memory that a device writes has no Rust reference")]

use std::fmt;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::Advice;
use vm_memory::{AtomicAccess, Bytes as _, VolatileMemory as _, VolatileMemoryError, VolatileSlice};

use crate::{HostMemory, words};

/// Bytes of a base page.
pub const BASE_PAGE: usize = 4096;
/// Bytes of a huge page.
pub const HUGE_PAGE: usize = 2 << 20;

/// Why memory could not be had, or an access was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// A length of 0, or one that overflows when rounded to pages.
    #[error("memory length {len} bytes: must be from 1 to {max}")]
    Length {
        /// The length asked for, in bytes.
        len: usize,
        /// The largest possible length, in bytes.
        max: usize,
    },
    /// The system refused memory.
    #[error("cannot {step} {len} bytes of shared memory: {source}")]
    System {
        /// What was attempted.
        step: &'static str,
        /// The length in bytes.
        len: usize,
        /// What the system said.
        source: std::io::Error,
    },
    /// More memory at once than the machine can give.
    #[error(
        "memory length {len} bytes: this machine has {available} bytes available; ask for less, or end what uses them"
    )]
    Unavailable {
        /// The length asked for, in bytes.
        len: usize,
        /// What there is, in bytes.
        available: usize,
    },
    /// A range outside a window.
    #[error("range {offset}+{len} is outside a window of {window} bytes")]
    Range {
        /// First byte of the range.
        offset: usize,
        /// Length of the range in bytes.
        len: usize,
        /// Length of the window in bytes.
        window: usize,
    },
}

/// A mapping that a device may access.
///
/// # Safety
/// `base()..base() + len()` must stay mapped readable and writable at the same address until the
/// value is dropped, and must be accessed by others only as plain memory or atomically.
pub unsafe trait Memory: Send + Sync + fmt::Debug {
    /// The first byte, as this process sees it; aligned to `page_size`.
    fn base(&self) -> NonNull<u8>;
    /// Length in bytes.
    fn len(&self) -> usize;
    /// Whether the length is 0 (it never is for a mapping).
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Bytes per page that backs it.
    fn page_size(&self) -> usize;
    /// Whether it is ordinary memory. False for a BAR of another function: it is accessed by aligned volatile words of
    /// at most 8 bytes then, as it may be neither cached nor able to take anything else.
    fn is_ordinary(&self) -> bool {
        true
    }
    /// The file behind it and the offset of its first byte there, for sharing with another process.
    fn file(&self) -> Option<(BorrowedFd<'_>, u64)>;
}

/// A byte range of some [`Memory`], kept alive by it, with volatile and atomic accessors.
///
/// Offsets are in bytes from the window's start. Accessors panic on a range or alignment outside
/// the window: that is a bug in the caller, never bad input (check sizes with [`Window::slice`]).
#[derive(Clone, Debug)]
pub struct Window {
    memory: Arc<dyn Memory>,
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the pointer stays valid while `memory` lives, on any thread.
unsafe impl Send for Window {}
// SAFETY: shared access is volatile or atomic only.
unsafe impl Sync for Window {}

impl Window {
    /// The whole of `memory`.
    pub fn whole(memory: Arc<dyn Memory>) -> Window {
        let (base, len) = (memory.base(), memory.len());
        Window { memory, base, len }
    }

    /// `len` zeroed bytes of fresh [`HostMemory`] (rounded up to whole pages).
    pub fn host(len: usize) -> Result<Window, MemoryError> {
        Ok(Window::whole(HostMemory::new(len)?))
    }

    /// Gives every page its memory now: the first access to it costs nothing later, and a lack of memory is an error
    /// here. Contents stay. A system that does not know the call (before Linux 5.14) fills pages on first access.
    pub fn populate(&self) -> Result<(), MemoryError> {
        let lead = self.offset_in_memory() % self.memory.page_size();
        let (start, len) = (self.base.as_ptr().wrapping_sub(lead), self.len + lead);
        // SAFETY: the pages of this window belong to its living mapping; populating changes no contents.
        let result = unsafe { rustix::mm::madvise(start.cast(), len, Advice::LinuxPopulateWrite) };
        match result {
            Ok(()) | Err(rustix::io::Errno::INVAL) => Ok(()),
            Err(error) => Err(MemoryError::System { step: "populate", len: self.len, source: error.into() }),
        }
    }

    /// The bytes `offset..offset + len` of this window.
    pub fn slice(&self, offset: usize, len: usize) -> Result<Window, MemoryError> {
        let refused = MemoryError::Range { offset, len, window: self.len };
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(refused);
        }
        // SAFETY: the range was just checked against the mapping.
        let base = unsafe { self.base.add(offset) };
        Ok(Window { memory: self.memory.clone(), base, len })
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the window has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The memory that the window lies in.
    pub fn memory(&self) -> &Arc<dyn Memory> {
        &self.memory
    }

    /// Bytes from the memory's base to the window's first byte.
    pub fn offset_in_memory(&self) -> usize {
        self.base.as_ptr() as usize - self.memory.base().as_ptr() as usize
    }

    /// The first byte, for kernels and DMA mappings. Valid while the window (or a clone) lives.
    pub fn as_ptr(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// The window as vm-memory's volatile slice, for as long as it is borrowed.
    #[inline]
    pub fn volatile(&self) -> VolatileSlice<'_> {
        // SAFETY: the range is mapped while `memory` lives, and is accessed by volatile slices and atomically alone.
        unsafe { VolatileSlice::new(self.base.as_ptr(), self.len) }
    }

    #[inline]
    fn at<T>(&self, offset: usize) -> *mut T {
        let end = offset.checked_add(size_of::<T>());
        assert!(end.is_some_and(|end| end <= self.len), "offset {offset} is outside {} bytes", self.len);
        let pointer = self.base.as_ptr().wrapping_add(offset).cast::<T>();
        assert!(pointer.is_aligned(), "offset {offset} is not aligned to {} bytes", align_of::<T>());
        pointer
    }

    #[inline]
    fn load_at<T: AtomicAccess>(&self, offset: usize, order: Ordering) -> T {
        self.volatile().load(offset, order).unwrap_or_else(|error| refuse(offset, &error))
    }

    #[inline]
    fn store_at<T: AtomicAccess>(&self, offset: usize, value: T, order: Ordering) {
        self.volatile().store(value, offset, order).unwrap_or_else(|error| refuse(offset, &error));
    }

    /// Atomic load of a byte.
    #[inline]
    pub fn load_u8(&self, offset: usize, order: Ordering) -> u8 {
        self.load_at(offset, order)
    }

    /// Atomic store of a byte.
    #[inline]
    pub fn store_u8(&self, offset: usize, value: u8, order: Ordering) {
        self.store_at(offset, value, order);
    }

    /// Atomic 32-bit load at a 4-byte aligned offset.
    #[inline]
    pub fn load_u32(&self, offset: usize, order: Ordering) -> u32 {
        self.load_at(offset, order)
    }

    /// Atomic 32-bit store at a 4-byte aligned offset.
    #[inline]
    pub fn store_u32(&self, offset: usize, value: u32, order: Ordering) {
        self.store_at(offset, value, order);
    }

    /// Atomic 32-bit exchange at a 4-byte aligned offset.
    pub fn swap_u32(&self, offset: usize, value: u32, order: Ordering) -> u32 {
        match self.volatile().get_atomic_ref::<AtomicU32>(offset) {
            Ok(word) => word.swap(value, order),
            Err(error) => refuse(offset, &error),
        }
    }

    /// Atomic 64-bit load at an 8-byte aligned offset.
    #[inline]
    pub fn load_u64(&self, offset: usize, order: Ordering) -> u64 {
        self.load_at(offset, order)
    }

    /// Atomic 64-bit store at an 8-byte aligned offset.
    #[inline]
    pub fn store_u64(&self, offset: usize, value: u64, order: Ordering) {
        self.store_at(offset, value, order);
    }

    /// Copies `words` to an 8-byte aligned offset (not atomic; publish it with a release store or fence).
    #[inline]
    pub fn write_words<const N: usize>(&self, offset: usize, words: &[u64; N]) {
        let pointer = self.at::<[u64; N]>(offset).cast::<u64>();
        // Volatile, so word by word from registers: a copy of the whole would be loaded from memory in larger pieces than were
        // stored there, and wait for these stores.
        for (i, word) in words.iter().enumerate() {
            // SAFETY: `at` checked range and alignment of all words.
            unsafe { pointer.wrapping_add(i).write_volatile(*word) };
        }
    }

    /// Copies words from an 8-byte aligned offset (not atomic; order it with an acquire load before).
    #[inline]
    pub fn read_words<const N: usize>(&self, offset: usize) -> [u64; N] {
        let pointer = self.at::<[u64; N]>(offset);
        // SAFETY: `at` checked range and alignment; a volatile read takes whatever bytes are there.
        unsafe { pointer.read_volatile() }
    }

    /// Copies bytes out of the window.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), MemoryError> {
        let source = self.range(offset, into.len())?;
        match self.memory.is_ordinary() {
            true => _ = source.copy_to(into),
            false => words::read(&source, into),
        }
        Ok(())
    }

    /// Copies bytes out of the window that others may be writing: aligned words of 8 bytes whole, by atomic loads.
    pub fn load(&self, offset: usize, into: &mut [u8]) -> Result<(), MemoryError> {
        words::read(&self.range(offset, into.len())?, into);
        Ok(())
    }

    /// Copies bytes into the window.
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<(), MemoryError> {
        let target = self.range(offset, from.len())?;
        match self.memory.is_ordinary() {
            true => target.copy_from(from),
            false => words::write(&target, from),
        }
        Ok(())
    }

    /// Sets `len` bytes to `value`.
    pub fn fill(&self, offset: usize, len: usize, value: u8) -> Result<(), MemoryError> {
        let target = self.range(offset, len)?;
        if !self.memory.is_ordinary() {
            words::fill(&target, value);
            return Ok(());
        }
        // SAFETY: `range` checked that the bytes are the window's.
        unsafe { std::ptr::write_bytes(target.ptr_guard_mut().as_ptr(), value, len) };
        Ok(())
    }

    fn range(&self, offset: usize, len: usize) -> Result<VolatileSlice<'_>, MemoryError> {
        let range = self.volatile().subslice(offset, len);
        range.map_err(|_| MemoryError::Range { offset, len, window: self.len })
    }

    /// A copy of `len` bytes.
    pub fn to_vec(&self, offset: usize, len: usize) -> Result<Vec<u8>, MemoryError> {
        let mut bytes = vec![0; len];
        self.read(offset, &mut bytes)?;
        Ok(bytes)
    }
}

/// An access that the caller should not have made.
#[cold]
#[inline(never)]
fn refuse(offset: usize, error: &VolatileMemoryError) -> ! {
    panic!("offset {offset} of a window: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_populated_window_is_resident_and_keeps_its_contents() {
        let window = Window::host(64 * BASE_PAGE).unwrap();
        window.store_u32(BASE_PAGE + 8, 7, Ordering::Relaxed);
        let resident = || rustix::fs::fstat(window.memory().file().unwrap().0).unwrap().st_blocks;
        assert!(resident() < 64 * 8);
        window.slice(100, 63 * BASE_PAGE).unwrap().populate().unwrap();
        assert_eq!(resident(), 64 * 8, "in units of 512 bytes");
        assert_eq!(window.load_u32(BASE_PAGE + 8, Ordering::Relaxed), 7);
    }

    #[test]
    fn windows_do_not_reach_outside() {
        let window = Window::host(BASE_PAGE).unwrap().slice(64, 128).unwrap();
        assert_eq!(window.offset_in_memory(), 64);
        assert!(window.slice(0, 129).is_err());
        assert!(window.slice(usize::MAX, 2).is_err());
        assert!(window.write(127, &[1, 2]).is_err());
    }

    #[test]
    fn accessors_see_each_other() {
        let window = Window::host(64).unwrap();
        window.store_u64(8, 0x1122_3344_5566_7788, Ordering::Release);
        assert_eq!(window.load_u32(8, Ordering::Acquire), 0x5566_7788);
        window.write_words(16, &[1u64, 2]);
        assert_eq!(window.read_words::<2>(16), [1, 2]);
        assert_eq!(window.swap_u32(16, 9, Ordering::AcqRel), 1);
        window.fill(0, 8, 0xab).unwrap();
        assert_eq!(window.to_vec(0, 9).unwrap(), [0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0x88]);
    }

    #[test]
    #[should_panic(expected = "not aligned")]
    fn misaligned_access_panics() {
        Window::host(64).unwrap().load_u32(2, Ordering::Relaxed);
    }

    #[test]
    fn a_slice_keeps_its_memory() {
        let slice = Window::host(BASE_PAGE).unwrap().slice(8, 8).unwrap();
        slice.store_u64(0, 5, Ordering::Relaxed);
        assert_eq!(slice.load_u64(0, Ordering::Relaxed), 5);
    }
}
