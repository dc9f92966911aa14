//! Memory that devices may read and write: mappings, and volatile windows into them.
// UNSAFETY: maps memory and accesses it through raw pointers; every other file of this crate is safe.
#![expect(unsafe_code, reason = "raw mappings and volatile access are this module's whole job")]

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::words;

/// Bytes of a base page.
pub const BASE_PAGE: usize = 4096;
/// Bytes of a huge page.
pub const HUGE_PAGE: usize = 2 << 20;

/// Why memory could not be had, or an access was refused.
#[derive(Debug, thiserror::Error)]
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

/// Zeroed shared memory (memfd), in 2 MiB pages where they are reserved, else in base pages.
#[derive(Debug)]
pub struct HostMemory {
    base: NonNull<u8>,
    len: usize,
    page_size: usize,
    file: OwnedFd,
}

// SAFETY: the mapping is owned by this value and accessible from any thread.
unsafe impl Send for HostMemory {}
// SAFETY: all access goes through raw volatile or atomic operations.
unsafe impl Sync for HostMemory {}

// SAFETY: mapped by `map` below, unmapped only in `drop`.
unsafe impl Memory for HostMemory {
    fn base(&self) -> NonNull<u8> {
        self.base
    }
    fn len(&self) -> usize {
        self.len
    }
    fn page_size(&self) -> usize {
        self.page_size
    }
    fn file(&self) -> Option<(BorrowedFd<'_>, u64)> {
        Some((self.file.as_fd(), 0))
    }
}

impl HostMemory {
    /// At least `len` zeroed bytes. Lengths of 2 MiB and more try huge pages first; `page_size`
    /// says what it became.
    pub fn new(len: usize) -> Result<Arc<HostMemory>, MemoryError> {
        if len >= HUGE_PAGE
            && let Ok(memory) = Self::with_page(len, HUGE_PAGE)
        {
            return Ok(memory);
        }
        Self::with_page(len, BASE_PAGE)
    }

    /// At least `len` zeroed bytes in pages of `page_size` (`BASE_PAGE` or `HUGE_PAGE`), or an error.
    pub fn with_page(len: usize, page_size: usize) -> Result<Arc<HostMemory>, MemoryError> {
        let max = isize::MAX as usize - HUGE_PAGE;
        if len == 0 || len > max {
            return Err(MemoryError::Length { len, max });
        }
        let len = len.next_multiple_of(page_size);
        let system =
            |step, source: rustix::io::Errno| MemoryError::System { step, len, source: source.into() };
        let huge = if page_size == HUGE_PAGE {
            MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB
        } else {
            MemfdFlags::empty()
        };
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | huge;
        let file = rustix::fs::memfd_create("warpbell", flags).map_err(|e| system("create", e))?;
        rustix::fs::ftruncate(&file, len as u64).map_err(|e| system("size", e))?;
        // Another process that gets the file cannot truncate it under us: the next access would end this process.
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&file, seals).map_err(|e| system("seal", e))?;
        let base = map(&file, len).map_err(|e| system("map", e))?;
        Ok(Arc::new(HostMemory { base, len, page_size, file }))
    }
}

fn map(file: &OwnedFd, len: usize) -> rustix::io::Result<NonNull<u8>> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh mapping at an address that the kernel chooses; nothing existing is replaced.
    let base = unsafe { rustix::mm::mmap(std::ptr::null_mut(), len, protection, MapFlags::SHARED, file, 0) }?;
    NonNull::new(base.cast()).ok_or(rustix::io::Errno::NOMEM)
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `map` and no window outlives the `Arc` that owns it.
        if let Err(error) = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) } {
            tracing::warn!(%error, len = self.len, "munmap failed");
        }
    }
}

/// Other memory, accessed as a BAR of another function is: by words, and without the file behind it. It stands in for
/// one in tests.
#[derive(Debug)]
pub struct WordMemory(Arc<dyn Memory>);

impl WordMemory {
    /// The same memory, by words only.
    pub fn new(memory: Arc<dyn Memory>) -> Arc<WordMemory> {
        Arc::new(WordMemory(memory))
    }
}

// SAFETY: the memory inside keeps the promise, and lives as long.
unsafe impl Memory for WordMemory {
    fn base(&self) -> NonNull<u8> {
        self.0.base()
    }
    fn len(&self) -> usize {
        self.0.len()
    }
    fn page_size(&self) -> usize {
        self.0.page_size()
    }
    fn is_ordinary(&self) -> bool {
        false
    }
    fn file(&self) -> Option<(BorrowedFd<'_>, u64)> {
        None
    }
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

    #[inline]
    fn at<T>(&self, offset: usize) -> *mut T {
        let end = offset.checked_add(size_of::<T>());
        assert!(end.is_some_and(|end| end <= self.len), "offset {offset} is outside {} bytes", self.len);
        let pointer = self.base.as_ptr().wrapping_add(offset).cast::<T>();
        assert!(pointer.is_aligned(), "offset {offset} is not aligned to {} bytes", align_of::<T>());
        pointer
    }

    /// Atomic load of a byte.
    #[inline]
    pub fn load_u8(&self, offset: usize, order: Ordering) -> u8 {
        let pointer = self.at::<u8>(offset);
        // SAFETY: `at` checked the range; others access this byte atomically.
        let byte = unsafe { AtomicU8::from_ptr(pointer) };
        byte.load(order)
    }

    /// Atomic store of a byte.
    #[inline]
    pub fn store_u8(&self, offset: usize, value: u8, order: Ordering) {
        let pointer = self.at::<u8>(offset);
        // SAFETY: as in `load_u8`.
        let byte = unsafe { AtomicU8::from_ptr(pointer) };
        byte.store(value, order);
    }

    /// Atomic 32-bit load at a 4-byte aligned offset.
    #[inline]
    pub fn load_u32(&self, offset: usize, order: Ordering) -> u32 {
        let pointer = self.at::<u32>(offset);
        // SAFETY: `at` checked range and alignment; others access this word atomically.
        let word = unsafe { AtomicU32::from_ptr(pointer) };
        word.load(order)
    }

    /// Atomic 32-bit store at a 4-byte aligned offset.
    #[inline]
    pub fn store_u32(&self, offset: usize, value: u32, order: Ordering) {
        let pointer = self.at::<u32>(offset);
        // SAFETY: as in `load_u32`.
        let word = unsafe { AtomicU32::from_ptr(pointer) };
        word.store(value, order);
    }

    /// Atomic 32-bit exchange at a 4-byte aligned offset.
    pub fn swap_u32(&self, offset: usize, value: u32, order: Ordering) -> u32 {
        let pointer = self.at::<u32>(offset);
        // SAFETY: as in `load_u32`.
        let word = unsafe { AtomicU32::from_ptr(pointer) };
        word.swap(value, order)
    }

    /// Atomic 64-bit load at an 8-byte aligned offset.
    #[inline]
    pub fn load_u64(&self, offset: usize, order: Ordering) -> u64 {
        let pointer = self.at::<u64>(offset);
        // SAFETY: `at` checked range and alignment; others access this word atomically.
        let word = unsafe { AtomicU64::from_ptr(pointer) };
        word.load(order)
    }

    /// Atomic 64-bit store at an 8-byte aligned offset.
    #[inline]
    pub fn store_u64(&self, offset: usize, value: u64, order: Ordering) {
        let pointer = self.at::<u64>(offset);
        // SAFETY: as in `load_u64`.
        let word = unsafe { AtomicU64::from_ptr(pointer) };
        word.store(value, order);
    }

    /// Copies `words` to a `T`-aligned offset (not atomic; publish it with a release store or fence).
    #[inline]
    pub fn write_words<const N: usize>(&self, offset: usize, words: &[u64; N]) {
        let pointer = self.at::<[u64; N]>(offset);
        // SAFETY: `at` checked range and alignment; `words` is a distinct local value.
        unsafe { pointer.write(*words) };
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
        let source = self.slice(offset, into.len())?;
        if !self.memory.is_ordinary() {
            words::read(&source, into);
            return Ok(());
        }
        // SAFETY: `slice` checked the range; `into` is a Rust slice and cannot overlap a mapping.
        unsafe { std::ptr::copy_nonoverlapping(source.as_ptr(), into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    /// Copies bytes out of the window that others may be writing: aligned words of 8 bytes whole, by atomic loads.
    pub fn load(&self, offset: usize, into: &mut [u8]) -> Result<(), MemoryError> {
        words::read(&self.slice(offset, into.len())?, into);
        Ok(())
    }

    /// Copies bytes into the window.
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<(), MemoryError> {
        let target = self.slice(offset, from.len())?;
        if !self.memory.is_ordinary() {
            words::write(&target, from);
            return Ok(());
        }
        // SAFETY: as in `read`.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), target.as_ptr(), from.len()) };
        Ok(())
    }

    /// Sets `len` bytes to `value`.
    pub fn fill(&self, offset: usize, len: usize, value: u8) -> Result<(), MemoryError> {
        let target = self.slice(offset, len)?;
        if !self.memory.is_ordinary() {
            words::fill(&target, value);
            return Ok(());
        }
        // SAFETY: `slice` checked the range.
        unsafe { std::ptr::write_bytes(target.as_ptr(), value, len) };
        Ok(())
    }

    /// A copy of `len` bytes.
    pub fn to_vec(&self, offset: usize, len: usize) -> Result<Vec<u8>, MemoryError> {
        let mut bytes = vec![0; len];
        self.read(offset, &mut bytes)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zeroed_rounded_and_backed_by_a_file() {
        let memory = HostMemory::new(100).unwrap();
        assert_eq!(memory.len(), BASE_PAGE);
        let window = Window::whole(memory.clone());
        assert!(window.to_vec(0, BASE_PAGE).unwrap().iter().all(|b| *b == 0));
        assert!(memory.file().is_some());
    }

    #[test]
    fn whoever_has_the_file_cannot_change_its_length() {
        let memory = HostMemory::new(BASE_PAGE).unwrap();
        let file = std::fs::File::from(memory.file().unwrap().0.try_clone_to_owned().unwrap());
        for len in [0, 2 * BASE_PAGE as u64] {
            assert_eq!(file.set_len(len).unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
        }
    }

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
    fn zero_length_is_refused_by_name() {
        let error = HostMemory::new(0).unwrap_err().to_string();
        assert!(error.contains("length 0 bytes"), "{error}");
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
