//! Memory of this process that devices may share: mappings, which vm-memory makes and undoes.
// UNSAFETY: vouches for mappings as `Memory`.
#![expect(unsafe_code, reason = "the promise of `Memory` is an unsafe one")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use vm_memory::mmap::{MmapRegion, MmapRegionBuilder, MmapRegionError};
use vm_memory::{FileOffset, VolatileMemory as _};

use crate::{BASE_PAGE, HUGE_PAGE, Memory, MemoryError};

/// A readable and writable mapping, unmapped when dropped.
#[derive(Debug)]
pub struct Mapping(MmapRegion);

impl Mapping {
    /// `len` private zero bytes, which take no room before they are written.
    pub fn anonymous(len: usize) -> io::Result<Mapping> {
        MmapRegion::new(len).map(Mapping).map_err(of_the_system)
    }

    /// The bytes `offset..offset + len` of a file, shared with all who map them.
    pub fn shared(file: BorrowedFd<'_>, offset: u64, len: usize) -> io::Result<Mapping> {
        Mapping::of_file(file.try_clone_to_owned()?, offset, len, MapFlags::SHARED)
    }

    /// The same bytes, where nobody else sees what is written: that needs no right to write the file.
    pub fn private(file: BorrowedFd<'_>, offset: u64, len: usize) -> io::Result<Mapping> {
        Mapping::of_file(file.try_clone_to_owned()?, offset, len, MapFlags::PRIVATE | MapFlags::NORESERVE)
    }

    fn of_file(file: OwnedFd, offset: u64, len: usize, flags: MapFlags) -> io::Result<Mapping> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let region = MmapRegionBuilder::new(len)
            .with_mmap_prot(protection.bits() as i32)
            .with_mmap_flags(flags.bits() as i32)
            .with_file_offset(FileOffset::new(file.into(), offset));
        region.build().map(Mapping).map_err(of_the_system)
    }
}

/// What the system said, where it said something.
fn of_the_system(error: MmapRegionError) -> io::Error {
    match error {
        MmapRegionError::Mmap(error) => error,
        error => io::Error::other(error),
    }
}

// SAFETY: the region is mapped readable and writable at one address until it is dropped.
unsafe impl Memory for Mapping {
    fn base(&self) -> NonNull<u8> {
        NonNull::new(self.0.as_ptr()).expect("nothing is mapped at address 0")
    }
    fn len(&self) -> usize {
        self.0.len()
    }
    fn page_size(&self) -> usize {
        BASE_PAGE
    }
    fn file(&self) -> Option<(BorrowedFd<'_>, u64)> {
        self.0.file_offset().map(|file| (file.file().as_fd(), file.start()))
    }
}

/// Zeroed shared memory (memfd), in 2 MiB pages where they are reserved, else in base pages.
#[derive(Debug)]
pub struct HostMemory {
    mapping: Mapping,
    page_size: usize,
}

// SAFETY: the mapping's own promise.
unsafe impl Memory for HostMemory {
    fn base(&self) -> NonNull<u8> {
        self.mapping.base()
    }
    fn len(&self) -> usize {
        self.mapping.len()
    }
    fn page_size(&self) -> usize {
        self.page_size
    }
    fn file(&self) -> Option<(BorrowedFd<'_>, u64)> {
        self.mapping.file()
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
        Self::named("warpbell", len, page_size)
    }

    /// The same, with a name that `/proc/PID/maps` shows: `/memfd:NAME`.
    pub fn named(name: &str, len: usize, page_size: usize) -> Result<Arc<HostMemory>, MemoryError> {
        let max = isize::MAX as usize - HUGE_PAGE;
        if len == 0 || len > max {
            return Err(MemoryError::Length { len, max });
        }
        let len = len.next_multiple_of(page_size);
        let system = |step, source| MemoryError::System { step, len, source };
        let file =
            sealed_file(name, len, page_size == HUGE_PAGE).map_err(|(step, e)| system(step, e.into()))?;
        let mapping = Mapping::of_file(file, 0, len, MapFlags::SHARED).map_err(|e| system("map", e))?;
        Ok(Arc::new(HostMemory { mapping, page_size }))
    }
}

/// A memfd of `len` bytes for good: another process that gets the file cannot truncate it under us, after which the
/// next access would end this process. Or the step that failed.
fn sealed_file(name: &str, len: usize, huge: bool) -> Result<OwnedFd, (&'static str, rustix::io::Errno)> {
    let huge = if huge { MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB } else { MemfdFlags::empty() };
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | huge;
    let file = rustix::fs::memfd_create(name, flags).map_err(|e| ("create", e))?;
    rustix::fs::ftruncate(&file, len as u64).map_err(|e| ("size", e))?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, seals).map_err(|e| ("seal", e))?;
    Ok(file)
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

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::Window;

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
        let file = File::from(memory.file().unwrap().0.try_clone_to_owned().unwrap());
        for len in [0, 2 * BASE_PAGE as u64] {
            assert_eq!(file.set_len(len).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        }
    }

    #[test]
    fn zero_length_is_refused_by_name() {
        let error = HostMemory::new(0).unwrap_err().to_string();
        assert!(error.contains("length 0 bytes"), "{error}");
    }

    #[test]
    fn the_system_shows_the_name_of_memory_that_has_one() {
        let memory = HostMemory::named("warpbell-named", BASE_PAGE, BASE_PAGE).unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let begin = format!("{:x}-", memory.base().as_ptr() as usize);
        let line = maps.lines().find(|line| line.starts_with(&begin)).unwrap();
        assert!(line.contains("/memfd:warpbell-named "), "{line}");
    }

    #[test]
    fn a_shared_mapping_is_the_file_and_a_private_one_is_not() {
        let memory = HostMemory::new(2 * BASE_PAGE).unwrap();
        let file = memory.file().unwrap().0;
        let page = |mapping: io::Result<Mapping>| Window::whole(Arc::new(mapping.unwrap()));
        let shared = page(Mapping::shared(file, BASE_PAGE as u64, BASE_PAGE));
        let private = page(Mapping::private(file, BASE_PAGE as u64, BASE_PAGE));
        private.write(0, b"mine").unwrap();
        shared.write(8, b"ours").unwrap();
        let whole = Window::whole(memory.clone());
        assert_eq!(whole.to_vec(BASE_PAGE, 12).unwrap(), b"\0\0\0\0\0\0\0\0ours");
        assert_eq!(shared.memory().file().unwrap().1, BASE_PAGE as u64);
        let anonymous = page(Mapping::anonymous(BASE_PAGE));
        assert!(anonymous.memory().file().is_none() && anonymous.to_vec(0, 8).unwrap() == [0; 8]);
    }

    #[test]
    fn what_the_system_says_to_a_mapping_is_kept() {
        let null = File::open("/dev/null").unwrap();
        let error = Mapping::shared(null.as_fd(), 0, BASE_PAGE).unwrap_err();
        assert!(error.raw_os_error().is_some(), "{error}");
    }
}
