// UNSAFETY: maps memory at addresses of its own range, and copies between addresses that it was asked to check.
#![expect(unsafe_code, reason = "mappings at addresses that play a device's, and copies between them")]
//! The addresses of devices: one range that nothing else is mapped into.

use std::ffi::c_void;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, MremapFlags, ProtFlags};

/// Base page.
pub(crate) const PAGE: u64 = 4096;
/// Mappings begin on a multiple of it, so that huge pages fit.
const STEP: u64 = 2 << 20;
/// All addresses. None is given out twice, so that one that was freed is never valid again by accident.
const LEN: u64 = 1 << 40;
/// What fresh device memory holds: anything but zeros.
const POISON: u8 = 0xA5;
/// How much of it is filled.
const POISONED: u64 = 64 << 20;

/// A range of addresses, given out from its start on, with gaps that are not mapped.
pub(crate) struct Arena {
    base: u64,
    next: u64,
}

fn pointer(address: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

const BOTH: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

impl Arena {
    pub(crate) fn new() -> io::Result<Arena> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh range at addresses that the kernel chooses; nobody can access it yet.
        let base = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), LEN as usize, ProtFlags::empty(), flags)
        }?;
        let base = base.expose_provenance() as u64;
        Ok(Arena { base, next: base.next_multiple_of(STEP) })
    }

    /// Whether an address is a device's.
    pub(crate) fn has(&self, address: u64) -> bool {
        (self.base..self.base + LEN).contains(&address)
    }

    /// Addresses that nobody had, `len` of them, with a gap behind.
    pub(crate) fn take(&mut self, len: u64) -> Option<u64> {
        let at = self.next;
        let next = at.checked_add(len)?.checked_next_multiple_of(STEP)?.checked_add(STEP)?;
        (next <= self.base + LEN).then(|| {
            self.next = next;
            at
        })
    }

    /// Puts memory behind addresses that were taken.
    pub(crate) fn back(&self, at: u64, len: u64) -> io::Result<()> {
        let flags = MapFlags::SHARED | MapFlags::FIXED | MapFlags::NORESERVE;
        // SAFETY: the range was taken from this arena, where nothing but our own reservation is mapped.
        unsafe { rustix::mm::mmap_anonymous(pointer(at), len as usize, BOTH, flags) }?;
        // SAFETY: just mapped readable and writable.
        unsafe { fill(at, POISON, len.min(POISONED)) };
        Ok(())
    }

    /// Sets words of 8 bytes of memory that was put there just now, each by its address.
    pub(crate) fn fill_words(&self, at: u64, count: u64, word: impl Fn(u64) -> u64) {
        for at in (0..count).map(|index| at + index * 8) {
            // SAFETY: `back` mapped it writable, and its owner does not have the address yet.
            unsafe { pointer(at).cast::<u64>().write(word(at)) };
        }
    }

    /// Takes the memory away again: a later access faults.
    pub(crate) fn clear(&self, at: u64, len: u64) -> io::Result<()> {
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        // SAFETY: as in `back`; whoever still uses the addresses is told so by a fault, as on a device.
        unsafe { rustix::mm::mmap_anonymous(pointer(at), len as usize, ProtFlags::empty(), flags) }?;
        Ok(())
    }

    /// Maps pages of the host a second time, at addresses that were taken. Only shared mappings can be.
    pub(crate) fn alias(&self, host: u64, len: u64, at: u64) -> io::Result<()> {
        // An old length of 0 leaves the mapping where it is, and makes another of the same pages.
        // SAFETY: the host's pages stay as they are; the new addresses were taken from this arena.
        let moved = unsafe {
            rustix::mm::mremap_fixed(pointer(host), 0, len as usize, MremapFlags::MAYMOVE, pointer(at))
        };
        match moved {
            Ok(_) => Ok(()),
            Err(error) => {
                self.clear(at, len)?;
                Err(error.into())
            }
        }
    }

    /// A file of the memory behind `len` bytes at `at`, which lie inside what was backed: page by page the same memory
    /// from now on.
    pub(crate) fn share(&self, at: u64, len: u64) -> io::Result<OwnedFd> {
        let file = rustix::fs::memfd_create("fake-cuda", MemfdFlags::CLOEXEC)?;
        self.share_into(&file, 0, at, len)?;
        Ok(file)
    }

    /// The same in a file that is there, which ends with it then.
    pub(crate) fn share_into(&self, file: &OwnedFd, offset: u64, at: u64, len: u64) -> io::Result<()> {
        rustix::fs::ftruncate(file, offset + len)?;
        let flags = MapFlags::SHARED;
        // SAFETY: a fresh mapping at an address that the kernel chooses.
        let fresh =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), len as usize, BOTH, flags, file, offset) }?;
        let fresh = fresh.expose_provenance() as u64;
        // SAFETY: both are mapped, and do not overlap.
        unsafe { copy(fresh, at, len) };
        // SAFETY: the fresh mapping is nobody else's; it replaces memory with the same content.
        unsafe {
            rustix::mm::mremap_fixed(
                pointer(fresh),
                len as usize,
                len as usize,
                MremapFlags::MAYMOVE,
                pointer(at),
            )
        }?;
        Ok(())
    }
}

/// Copies `len` bytes, as a device's copy engine does: byte by byte, beside whatever else goes on.
///
/// # Safety
/// Both ranges are mapped and do not overlap.
pub(crate) unsafe fn copy(to: u64, from: u64, len: u64) {
    // SAFETY: the caller's promise.
    unsafe { pointer(from).cast::<u8>().copy_to_nonoverlapping(pointer(to).cast::<u8>(), len as usize) };
}

/// Sets `len` bytes.
///
/// # Safety
/// The range is mapped writable.
pub(crate) unsafe fn fill(to: u64, value: u8, len: u64) {
    // SAFETY: the caller's promise.
    unsafe { pointer(to).cast::<u8>().write_bytes(value, len as usize) };
}

/// The bytes at an address of the host.
///
/// # Safety
/// The range is mapped readable.
pub(crate) unsafe fn bytes(from: u64, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    // SAFETY: the caller's promise; the vector is as long.
    unsafe { copy(bytes.as_mut_ptr().expose_provenance() as u64, from, len) };
    bytes
}
