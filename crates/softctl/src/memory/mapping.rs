//! Memory mappings of the controller's own: namespaces in memory, and files that a client maps for DMA.
// UNSAFETY: maps and unmaps memory; the mapping is handed on as a pointer that lives as long as its owner.
#![expect(unsafe_code, reason = "mmap, madvise and munmap are unsafe by nature")]

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::mm::{Advice, MapFlags, ProtFlags};
use warpbell_hw::{self as hw, Memory as _};

/// Zeroed private memory that takes no room before it is written, in huge pages where the system gives them.
///
/// Clones are the same memory, which goes when the last of them does.
#[derive(Clone, Debug)]
pub(crate) struct Anonymous {
    /// That of the mapping, here so that an access needs no look at it.
    base: NonNull<u8>,
    mapping: Arc<hw::Mapping>,
}

// SAFETY: the pointer is that of the mapping, which may be sent.
unsafe impl Send for Anonymous {}
// SAFETY: the pointer is that of the mapping, which may be shared.
unsafe impl Sync for Anonymous {}

impl Anonymous {
    /// `len` zero bytes, rounded up to whole huge pages.
    pub(crate) fn new(len: usize) -> io::Result<Anonymous> {
        let len = len.checked_next_multiple_of(hw::HUGE_PAGE).ok_or(io::ErrorKind::OutOfMemory)?;
        let mapping = hw::Mapping::anonymous(len)?;
        let base = mapping.base();
        // Random access over small pages would miss the TLB at every block. A refusal costs speed only.
        // SAFETY: the range is this mapping; the advice does not change contents.
        if let Err(error) = unsafe { rustix::mm::madvise(base.as_ptr().cast(), len, Advice::LinuxHugepage) } {
            tracing::debug!(%error, "no huge pages for a memory namespace");
        }
        Ok(Anonymous { base, mapping: Arc::new(mapping) })
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// All of it, for engines that copy from and to it. It lives as long as the window.
    pub(crate) fn window(&self) -> hw::Window {
        hw::Window::whole(self.mapping.clone())
    }

    /// Makes whole pages inside `offset..offset + len` zero again and releases their memory. Returns the range of
    /// bytes that it covered; the caller clears the rest.
    pub(crate) fn release(&self, offset: usize, len: usize) -> std::ops::Range<usize> {
        let all = self.mapping.len();
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

/// A range of a file that a client maps for DMA. The client keeps the file at least that long.
#[derive(Debug)]
pub(crate) struct FileMapping {
    /// The range, and what else of the file's pages lies around it.
    mapped: hw::Mapping,
    /// Bytes mapped before the range.
    lead: usize,
    len: usize,
}

impl FileMapping {
    /// Maps `len` bytes from `offset` on, both multiples of the page size and inside the file. What nobody will
    /// `write` is mapped privately: that needs no right to write the file, and the mapping is writable all the same,
    /// as [`hw::Memory`] promises.
    pub(crate) fn new(fd: BorrowedFd<'_>, offset: u64, len: usize, write: bool) -> io::Result<FileMapping> {
        let page = file_page(fd)?;
        let lead = (offset % page) as usize;
        let whole = (lead + len).next_multiple_of(page as usize);
        let map = if write { hw::Mapping::shared } else { hw::Mapping::private };
        let mapped = map(fd, offset - lead as u64, whole)?;
        Ok(FileMapping { mapped, lead, len })
    }
}

/// The unit in which a file can be mapped: huge pages on hugetlbfs, base pages elsewhere.
fn file_page(file: BorrowedFd<'_>) -> io::Result<u64> {
    const HUGETLBFS: u64 = 0x9584_58f6;
    let system = rustix::fs::fstatfs(file)?;
    Ok(if system.f_type as u64 == HUGETLBFS { system.f_bsize as u64 } else { hw::BASE_PAGE as u64 })
}

// SAFETY: the range lies in `mapped`, which this value owns.
unsafe impl hw::Memory for FileMapping {
    fn base(&self) -> NonNull<u8> {
        // SAFETY: `lead` bytes and more are mapped from there on.
        unsafe { self.mapped.base().add(self.lead) }
    }
    fn len(&self) -> usize {
        self.len
    }
    fn page_size(&self) -> usize {
        hw::BASE_PAGE
    }
    fn file(&self) -> Option<(BorrowedFd<'_>, u64)> {
        self.mapped.file().map(|(file, offset)| (file, offset + self.lead as u64))
    }
}

/// Pieces of client memory that are neighbours in the IOVA space and anywhere in this process, mapped again side by
/// side: a ring that crosses mappings, as a client behind an IOMMU has it.
#[derive(Debug)]
pub(crate) struct Stitched(hw::Mapping);

impl Stitched {
    /// Maps ranges of whole pages of the files behind `pieces`, one after the other.
    pub(crate) fn new(pieces: &[hw::Window]) -> io::Result<Stitched> {
        let mapped = hw::Mapping::anonymous(pieces.iter().map(hw::Window::len).sum())?;
        let mut at = 0;
        for piece in pieces {
            let (file, offset) = piece.memory().file().ok_or(io::ErrorKind::Unsupported)?;
            let offset = offset + piece.offset_in_memory() as u64;
            let address = mapped.base().as_ptr().wrapping_add(at).cast();
            let (protection, kind) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::FIXED);
            // SAFETY: replaces pages of the mapping just made, which nobody uses yet.
            unsafe { rustix::mm::mmap(address, piece.len(), protection, kind, file, offset) }?;
            at += piece.len();
        }
        Ok(Stitched(mapped))
    }
}

// SAFETY: this value owns the mapping.
unsafe impl hw::Memory for Stitched {
    fn base(&self) -> NonNull<u8> {
        self.0.base()
    }
    fn len(&self) -> usize {
        self.0.len()
    }
    fn page_size(&self) -> usize {
        hw::BASE_PAGE
    }
    fn file(&self) -> Option<(BorrowedFd<'_>, u64)> {
        None
    }
}
