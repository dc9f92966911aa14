//! Memory of this process that the server may access: by the file that was sent to it, or by message.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use parking_lot::Mutex;
use rustix::io::Errno;
use warpbell_hw::{DmaAccess, Window};

/// Where the bytes of a mapping are.
#[derive(Debug)]
pub(super) enum Source {
    /// In this process.
    Window(Window),
    /// In a file, from that byte on.
    File(OwnedFd, u64),
}

/// One mapping.
#[derive(Debug)]
pub(super) struct Mapping {
    pub(super) len: u64,
    pub(super) access: DmaAccess,
    pub(super) source: Source,
}

/// Mappings by their first IOVA.
#[derive(Debug, Default)]
pub(super) struct Mappings {
    mappings: Mutex<BTreeMap<u64, Mapping>>,
}

impl Mappings {
    pub(super) fn insert(&self, iova: u64, mapping: Mapping) {
        self.mappings.lock().insert(iova, mapping);
    }

    /// Whether there is exactly this mapping.
    pub(super) fn holds(&self, iova: u64, len: u64) -> bool {
        self.mappings.lock().get(&iova).is_some_and(|mapping| mapping.len == len)
    }

    pub(super) fn remove(&self, iova: u64) {
        self.mappings.lock().remove(&iova);
    }

    pub(super) fn count(&self) -> usize {
        self.mappings.lock().len()
    }

    /// The server reads.
    pub(super) fn read(&self, iova: u64, into: &mut [u8]) -> Result<(), Errno> {
        self.find(iova, into.len(), DmaAccess::READ, |source, at| match source {
            Source::Window(window) => window.read(at as usize, into).map_err(|_| Errno::FAULT),
            Source::File(file, start) => {
                complete(rustix::io::pread(file, &mut *into, start + at), into.len())
            }
        })
    }

    /// The server writes.
    pub(super) fn write(&self, iova: u64, from: &[u8]) -> Result<(), Errno> {
        self.find(iova, from.len(), DmaAccess::WRITE, |source, at| match source {
            Source::Window(window) => window.write(at as usize, from).map_err(|_| Errno::FAULT),
            Source::File(file, start) => complete(rustix::io::pwrite(file, from, start + at), from.len()),
        })
    }

    /// Calls `act` with the source of a range that lies in one mapping which allows the access, and with the offset of
    /// its first byte there.
    fn find(
        &self,
        iova: u64,
        len: usize,
        access: DmaAccess,
        act: impl FnOnce(&Source, u64) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mappings = self.mappings.lock();
        let (start, mapping) = mappings.range(..=iova).next_back().ok_or(Errno::FAULT)?;
        let at = iova - start;
        if at.checked_add(len as u64).is_none_or(|end| end > mapping.len) {
            return Err(Errno::FAULT);
        }
        if access.read && !mapping.access.read || access.write && !mapping.access.write {
            return Err(Errno::ACCESS);
        }
        act(&mapping.source, at)
    }
}

fn complete(done: Result<usize, Errno>, wanted: usize) -> Result<(), Errno> {
    if done? == wanted { Ok(()) } else { Err(Errno::FAULT) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn accesses_stay_inside_one_mapping_and_its_rights() {
        let memory = Mappings::default();
        let window = Window::host(8192).unwrap();
        let source = Source::Window(window.slice(4096, 4096).unwrap());
        memory.insert(0x10_0000, Mapping { len: 4096, access: DmaAccess::READ_WRITE, source });
        let file = tempfile::tempfile().unwrap();
        file.set_len(8192).unwrap();
        let source = Source::File(file.try_clone().unwrap().into(), 4096);
        memory.insert(0x20_0000, Mapping { len: 4096, access: DmaAccess::READ, source });

        memory.write(0x10_0ff8, b"the last").unwrap();
        assert_eq!(window.to_vec(8184, 8).unwrap(), b"the last");
        let mut bytes = [0; 4];
        memory.read(0x10_0ffc, &mut bytes).unwrap();
        assert_eq!(&bytes, b"last");
        file.write_all_at(b"file", 5000).unwrap();
        memory.read(0x20_0000 + 5000 - 4096, &mut bytes).unwrap();
        assert_eq!(&bytes, b"file");

        assert_eq!(memory.read(0x10_0ffd, &mut bytes), Err(Errno::FAULT), "past the end");
        assert_eq!(memory.read(0xf_ffff, &mut bytes), Err(Errno::FAULT), "before the first");
        assert_eq!(memory.read(u64::MAX - 1, &mut bytes), Err(Errno::FAULT), "around the end");
        assert_eq!(memory.write(0x20_0000, b"x"), Err(Errno::ACCESS), "mapped for reading only");
        memory.remove(0x10_0000);
        assert_eq!(memory.read(0x10_0000, &mut bytes), Err(Errno::FAULT));
    }
}
