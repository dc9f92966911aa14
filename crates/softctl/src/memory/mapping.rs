//! Memory mappings of the controller's own: namespaces in memory, and files that a client maps for DMA.
// UNSAFETY: maps and unmaps memory; the mapping is handed on as a pointer that lives as long as its owner.
#![expect(unsafe_code, reason = "mmap, madvise and munmap are unsafe by nature")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::mm::{Advice, MapFlags, ProtFlags};
use warpbell_hw as hw;

const PROTECTION: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

/// Zeroed private memory that takes no room before it is written, in huge pages where the system gives them.
///
/// Clones are the same memory, which goes when the last of them does.
#[derive(Clone, Debug)]
pub(crate) struct Anonymous {
    /// That of the mapping, here so that an access needs no look at it.
    base: NonNull<u8>,
    mapping: Arc<AnonymousMapping>,
}

#[derive(Debug)]
struct AnonymousMapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is owned by this value and valid on any thread.
unsafe impl Send for AnonymousMapping {}
// SAFETY: sharing hands out a raw pointer only; its users say how they keep accesses apart.
unsafe impl Sync for AnonymousMapping {}
// SAFETY: the pointer is that of the mapping, which may be sent.
unsafe impl Send for Anonymous {}
// SAFETY: the pointer is that of the mapping, which may be shared.
unsafe impl Sync for Anonymous {}

impl Anonymous {
    /// `len` zero bytes, rounded up to whole huge pages.
    pub(crate) fn new(len: usize) -> io::Result<Anonymous> {
        let len = len.checked_next_multiple_of(hw::HUGE_PAGE).ok_or(io::ErrorKind::OutOfMemory)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh mapping at an address that the kernel chooses; nothing existing is replaced.
        let base = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), len, PROTECTION, flags) }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let memory = Anonymous { base, mapping: Arc::new(AnonymousMapping { base, len }) };
        // Random access over small pages would miss the TLB at every block. A refusal costs speed only.
        // SAFETY: the range is this mapping; the advice does not change contents.
        if let Err(error) = unsafe { rustix::mm::madvise(base.as_ptr().cast(), len, Advice::LinuxHugepage) } {
            tracing::debug!(%error, "no huge pages for a memory namespace");
        }
        Ok(memory)
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Makes whole pages inside `offset..offset + len` zero again and gives their memory back. Returns the range of
    /// bytes that it covered; the caller clears the rest.
    pub(crate) fn release(&self, offset: usize, len: usize) -> std::ops::Range<usize> {
        let all = self.mapping.len;
        let start = offset.next_multiple_of(hw::HUGE_PAGE).min(all);
        let end = (offset + len).min(all) / hw::HUGE_PAGE * hw::HUGE_PAGE;
        if start >= end {
            return offset..offset;
        }
        let address = self.base.as_ptr().wrapping_add(start).cast();
        // SAFETY: whole pages inside this private anonymous mapping: they read as zero afterwards.
        match unsafe { rustix::mm::madvise(address, end - start, Advice::LinuxDontNeed) } {
            Ok(()) => start..end,
            Err(_) => offset..offset,
        }
    }
}

impl Drop for AnonymousMapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new`, and no user of the pointer outlives its owner.
        if let Err(error) = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) } {
            tracing::warn!(%error, len = self.len, "munmap failed");
        }
    }
}

/// A range of a file that a client maps for DMA. The client keeps the file at least that long.
#[derive(Debug)]
pub(crate) struct FileMapping {
    base: NonNull<u8>,
    len: usize,
    file: OwnedFd,
    offset: u64,
}

// SAFETY: the mapping is owned by this value and valid on any thread.
unsafe impl Send for FileMapping {}
// SAFETY: all access goes through raw volatile or atomic operations.
unsafe impl Sync for FileMapping {}

impl FileMapping {
    /// Maps `len` bytes from `offset` on, both multiples of the page size and inside the file.
    pub(crate) fn new(fd: BorrowedFd<'_>, offset: u64, len: usize) -> io::Result<FileMapping> {
        let file = fd.try_clone_to_owned()?;
        // SAFETY: a fresh mapping at an address that the kernel chooses; nothing existing is replaced.
        let base = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), len, PROTECTION, MapFlags::SHARED, &file, offset)
        }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(FileMapping { base, len, file, offset })
    }
}

// SAFETY: mapped in `new`, unmapped only in `drop`.
unsafe impl hw::Memory for FileMapping {
    fn base(&self) -> NonNull<u8> {
        self.base
    }
    fn len(&self) -> usize {
        self.len
    }
    fn page_size(&self) -> usize {
        hw::BASE_PAGE
    }
    fn file(&self) -> Option<(BorrowedFd<'_>, u64)> {
        Some((self.file.as_fd(), self.offset))
    }
}

impl Drop for FileMapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new` and no window outlives the `Arc` that owns it.
        if let Err(error) = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) } {
            tracing::warn!(%error, len = self.len, "munmap failed");
        }
    }
}
