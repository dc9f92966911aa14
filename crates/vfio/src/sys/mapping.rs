//! Mappings of device regions and of files.
// UNSAFETY: vouches for mappings as `Memory`, and points at registers in them.
#![expect(unsafe_code, reason = "registers are raw pointers into a mapping")]

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use volatile::VolatilePtr;
use warpbell_hw::{self as hw, Memory};
use zerocopy::{FromBytes, IntoBytes};

use super::SysError;

/// A shared mapping of part of a file, readable and writable, unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    mapped: hw::Mapping,
    ordinary: bool,
}

// SAFETY: the promise of the mapping inside.
unsafe impl Memory for Mapping {
    fn base(&self) -> NonNull<u8> {
        self.mapped.base()
    }
    fn len(&self) -> usize {
        self.mapped.len()
    }
    fn page_size(&self) -> usize {
        self.mapped.page_size()
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

impl Mapping {
    /// The bytes `offset..offset + len` of a file.
    pub(crate) fn new(file: BorrowedFd<'_>, offset: u64, len: usize) -> Result<Mapping, SysError> {
        let mapped = hw::Mapping::shared(file, offset, len);
        let mapped = mapped.map_err(|source| SysError { call: "mmap", source })?;
        Ok(Mapping { mapped, ordinary: false })
    }

    /// The same mapping, of a file that is known to be memory, or not to be.
    pub(crate) fn ordinary(mut self, ordinary: bool) -> Mapping {
        self.ordinary = ordinary;
        self
    }

    /// A register: each access is one of its size. Offsets outside the mapping, or not aligned, are bugs of the caller
    /// and panic.
    pub(crate) fn register<T: FromBytes + IntoBytes>(&self, offset: usize) -> VolatilePtr<'_, T> {
        let (end, len) = (offset.checked_add(size_of::<T>()), self.len());
        assert!(end.is_some_and(|end| end <= len), "register {offset:#x} is outside {len:#x} bytes");
        // SAFETY: inside the mapping, as just asserted.
        let pointer = unsafe { self.base().add(offset) }.cast::<T>();
        assert!(pointer.is_aligned(), "register {offset:#x} is not aligned to {} bytes", align_of::<T>());
        // SAFETY: mapped while `self` is borrowed, aligned, and any bytes are a `T`.
        unsafe { VolatilePtr::new(pointer) }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;

    fn page() -> Mapping {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        Mapping::new(file.as_fd(), 0, 4096).unwrap()
    }

    #[test]
    #[should_panic(expected = "register 0xffc is outside 0x1000 bytes")]
    fn a_register_that_ends_outside_is_refused() {
        let _ = page().register::<u64>(0xffc).read();
    }

    #[test]
    #[should_panic(expected = "register 0x14 is not aligned to 8 bytes")]
    fn a_register_of_two_halves_is_refused() {
        let _ = page().register::<u64>(0x14).read();
    }
}
