//! The DMA address space: memory of this process, sent to the server as files.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::io::Errno;
use warpbell_hw::{DmaAccess, DmaError, DmaLimits, DmaSource, DmaSpace, Iova};
use zerocopy::IntoBytes;

use super::connection::Connection;
use super::error::{Object, UserError};
use super::memory::{Mapping, Source};
use super::wire::{Command, DmaFlags, DmaMap, DmaUnmap};
use crate::iova::IovaAllocator;

/// The address space of a function behind a socket. There is no IOMMU to ask: all addresses but the lowest serve.
pub(super) struct UserDma {
    connection: Arc<Connection>,
    iovas: Mutex<IovaAllocator>,
    limits: DmaLimits,
}

impl UserDma {
    pub(super) fn new(connection: Arc<Connection>) -> UserDma {
        let peer = connection.peer();
        let page_size = peer.page_size();
        // The first megabyte stays free: an address near 0 is a mistake.
        let iovas = IovaAllocator::new(&[1 << 20..=u64::MAX], page_size);
        let mappings = u32::try_from(peer.dma_maps()).unwrap_or(u32::MAX);
        let limits = DmaLimits { ranges: iovas.usable(), page_size, mappings };
        UserDma { connection, iovas: Mutex::new(iovas), limits }
    }

    fn checked(&self, offset: u64, len: u64) -> Result<(), DmaError> {
        let page_size = self.limits.page_size;
        if offset.is_multiple_of(page_size) && len.is_multiple_of(page_size) && len > 0 {
            return Ok(());
        }
        Err(DmaError::Alignment { offset, len, page_size })
    }

    fn send_map(
        &self,
        fd: BorrowedFd<'_>,
        offset: u64,
        iova: u64,
        len: u64,
        access: DmaAccess,
    ) -> Result<(), DmaError> {
        let mut flags = DmaFlags::empty();
        flags.set(DmaFlags::READ, access.read);
        flags.set(DmaFlags::WRITE, access.write);
        let map = DmaMap { argsz: size_of::<DmaMap>() as u32, flags, offset, address: iova, size: len };
        let object = Object::Dma { iova, len };
        self.connection
            .request(Command::DmaMap, object, &[map.as_bytes()], &[fd])
            .map(|_| ())
            .map_err(|error| self.not_mapped(len, error))
    }

    /// Why a mapping was not made. Servers have limits that they do not tell, and an errno for all that they refuse.
    fn not_mapped(&self, len: u64, error: UserError) -> DmaError {
        // The one that was refused is among them.
        let held = self.connection.memory().count().saturating_sub(1);
        if held == 0 || !matches!(error.errno(), Some(Errno::INVAL | Errno::NOSPC | Errno::NOMEM)) {
            return refused("map", len, error);
        }
        let remedy = format!("the server holds {held} DMA regions of this client, and may take no more");
        DmaError::Refused { step: "map", len, source: std::io::Error::other(error), remedy }
    }

    fn take(&self, len: u64) -> Result<u64, DmaError> {
        if self.connection.memory().count() >= self.limits.mappings as usize {
            return Err(DmaError::TooMany { limit: self.limits.mappings });
        }
        let no_space = || DmaError::NoSpace { len, ranges: self.limits.ranges.clone() };
        self.iovas.lock().allocate(len).ok_or_else(no_space)
    }
}

fn refused(step: &'static str, len: u64, error: UserError) -> DmaError {
    DmaError::System { step, len, source: std::io::Error::other(error) }
}

/// The file behind a source, and where in it.
fn file_of<'a>(source: &DmaSource<'a>) -> Result<(BorrowedFd<'a>, u64, u64), DmaError> {
    match *source {
        DmaSource::File { fd, offset, len } => Ok((fd, offset, len)),
        DmaSource::Memory(window) => {
            let Some((fd, start)) = window.memory().file() else {
                let reason = "memory without a file behind it cannot be given to another process".to_owned();
                return Err(DmaError::Unsupported { reason });
            };
            Ok((fd, start + window.offset_in_memory() as u64, window.len() as u64))
        }
        DmaSource::Remote(memory) => Err(DmaError::only_an_engine(&**memory)),
    }
}

impl DmaSpace for UserDma {
    fn map(&self, source: DmaSource<'_>, access: DmaAccess) -> Result<Iova, DmaError> {
        let (fd, offset, len) = file_of(&source)?;
        self.checked(offset, len)?;
        let source = match source {
            DmaSource::Memory(window) => Source::Window(window.clone()),
            DmaSource::File { fd, .. } => {
                let system = |source| DmaError::System { step: "keeping the file", len, source };
                Source::File(fd.as_fd().try_clone_to_owned().map_err(system)?, offset)
            }
            DmaSource::Remote(memory) => return Err(DmaError::only_an_engine(&**memory)),
        };
        let iova = self.take(len)?;
        // Before the server knows of it: it may ask at once.
        self.connection.memory().insert(iova, Mapping { len, access, source });
        if let Err(error) = self.send_map(fd, offset, iova, len, access) {
            self.connection.memory().remove(iova);
            self.iovas.lock().release(iova, len);
            return Err(error);
        }
        Ok(Iova(iova))
    }

    fn unmap(&self, iova: Iova, len: u64) -> Result<(), DmaError> {
        if !self.connection.memory().holds(iova.0, len) {
            return Err(DmaError::NotMapped { iova, len });
        }
        let unmap = DmaUnmap { argsz: size_of::<DmaUnmap>() as u32, flags: 0, address: iova.0, size: len };
        let object = Object::Dma { iova: iova.0, len };
        let done = self.connection.request(Command::DmaUnmap, object, &[unmap.as_bytes()], &[]);
        match done {
            Err(error) if error.is_gone() => tracing::debug!(%error, "the mapping ended with the connection"),
            // It stays mapped for the server: its IOVA must not be used again.
            Err(error) => return Err(refused("unmap", len, error)),
            Ok(_) => {}
        }
        self.connection.memory().remove(iova.0);
        self.iovas.lock().release(iova.0, len);
        Ok(())
    }

    /// Servers take few: libvfio-user as many as its device says, SPDK's 16.
    fn coalesces(&self) -> bool {
        true
    }

    fn limits(&self) -> DmaLimits {
        self.limits.clone()
    }
}
