//! Mappings of device regions and of files.
// UNSAFETY: maps memory, and makes single volatile accesses to registers in it.
#![expect(unsafe_code, reason = "mappings give raw pointers")]

use std::fmt;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags};
use warpbell_hw::{BASE_PAGE, Memory};

use super::SysError;

/// A shared mapping of part of a file, readable and writable, unmapped when dropped.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
    ordinary: bool,
}

// SAFETY: the mapping is owned by this value and accessible from any thread.
unsafe impl Send for Mapping {}
// SAFETY: all access is volatile or atomic.
unsafe impl Sync for Mapping {}

// SAFETY: mapped readable and writable in `new`, unmapped only in `drop`.
unsafe impl Memory for Mapping {
    fn base(&self) -> NonNull<u8> {
        self.base
    }
    fn len(&self) -> usize {
        self.len
    }
    fn page_size(&self) -> usize {
        BASE_PAGE
    }
    /// False unless it is known better: it is taken for a BAR, which it nearly always is.
    fn is_ordinary(&self) -> bool {
        self.ordinary
    }
    /// None: what is behind a BAR is nothing that another process could map by this file.
    fn file(&self) -> Option<(BorrowedFd<'_>, u64)> {
        None
    }
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapping").field("base", &self.base).field("len", &self.len).finish()
    }
}

impl Mapping {
    /// The bytes `offset..offset + len` of a file.
    pub(crate) fn new(file: BorrowedFd<'_>, offset: u64, len: usize) -> Result<Mapping, SysError> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address that the kernel chooses; nothing existing is replaced.
        let base = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), len, protection, MapFlags::SHARED, file, offset)
        };
        let base = base.map_err(|errno| SysError::new("mmap", errno))?;
        let base = NonNull::new(base.cast()).ok_or(SysError::new("mmap", rustix::io::Errno::NOMEM))?;
        Ok(Mapping { base, len, ordinary: false })
    }

    /// The same mapping, of a file that is known to be memory, or not to be.
    pub(crate) fn ordinary(mut self, ordinary: bool) -> Mapping {
        self.ordinary = ordinary;
        self
    }

    fn at<T>(&self, offset: usize) -> *mut T {
        let end = offset.checked_add(size_of::<T>());
        assert!(
            end.is_some_and(|end| end <= self.len),
            "register {offset:#x} is outside {:#x} bytes",
            self.len
        );
        let pointer = self.base.as_ptr().wrapping_add(offset).cast::<T>();
        assert!(pointer.is_aligned(), "register {offset:#x} is not aligned to {} bytes", align_of::<T>());
        pointer
    }

    /// One 32-bit read. Offsets outside the mapping, or not aligned, are bugs of the caller and panic.
    pub(crate) fn read32(&self, offset: usize) -> u32 {
        let pointer = self.at::<u32>(offset);
        // SAFETY: `at` checked range and alignment.
        unsafe { pointer.read_volatile() }
    }

    /// One 64-bit read.
    pub(crate) fn read64(&self, offset: usize) -> u64 {
        let pointer = self.at::<u64>(offset);
        // SAFETY: `at` checked range and alignment.
        unsafe { pointer.read_volatile() }
    }

    /// One 32-bit write.
    pub(crate) fn write32(&self, offset: usize, value: u32) {
        let pointer = self.at::<u32>(offset);
        // SAFETY: `at` checked range and alignment.
        unsafe { pointer.write_volatile(value) };
    }

    /// One 64-bit write.
    pub(crate) fn write64(&self, offset: usize, value: u64) {
        let pointer = self.at::<u64>(offset);
        // SAFETY: `at` checked range and alignment.
        unsafe { pointer.write_volatile(value) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped in `new`, and windows into it keep this value alive.
        if let Err(error) = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) } {
            tracing::warn!(%error, len = self.len, "munmap failed");
        }
    }
}
