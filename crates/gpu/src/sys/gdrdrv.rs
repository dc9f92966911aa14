//! Device memory as GDRCopy's kernel module maps it: `gdrdrv.h` of GDRCopy 2.0 to 2.6.
//!
//! Memory is pinned, then mapped at an offset that its handle names; the mapping is a part of the GPU's BAR. A handle has
//! one mapping at a time, and belongs to the process that opened the node.
// UNSAFETY: calls of the module, with structures of the form that it reads and writes.
#![expect(unsafe_code, reason = "calls of a device node")]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;

use rustix::ioctl::{Opcode, opcode};
use warpbell_hw::{BASE_PAGE, Mapping};

use super::dma_buf::BarMapping;
use super::memory::{Allocation, DEVICE_PAGE};

/// The node of the module.
const NODE: &str = "/dev/gdrdrv";
/// The group of its calls.
const GROUP: u8 = 0xda;
/// What this speaks: the module tells from which version of its library on it may be spoken to.
const SPOKEN: Version = Version(2 << 16 | 6);
/// The first that can be asked how memory is mapped by kind, and not by flags.
const INFO_BY_KIND: Version = Version(2 << 16 | 4);
/// The first that takes flags, and tells its attributes.
const FLAGS: Version = Version(2 << 16 | 5);
/// Pin it as a part of the BAR where the GPU's memory could also be had coherently.
const FORCE_PCIE: u32 = 1;
const ATTRIBUTE_FORCE_PCIE: u32 = 2;
/// Mapped as memory that the CPU caches: not through the BAR.
const KIND_CACHING: u32 = 2;

/// Why the module does not map memory.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GdrdrvError {
    #[error("no {NODE}: load the gdrdrv module of GDRCopy 2.0 or newer (sudo modprobe gdrdrv)")]
    NotLoaded,
    #[error("cannot open {NODE}: {0}; it must be readable and writable for this user")]
    Open(io::Error),
    #[error("gdrdrv {0}: Warpbell speaks to 2.0 and newer of major version 2; install GDRCopy 2.6")]
    Version(Version),
    #[error("gdrdrv {module} wants its library to be {least} or newer, and Warpbell speaks as {SPOKEN}")]
    Newer { module: Version, least: Version },
    #[error("gdrdrv {version}: {what}: {source}")]
    Call { version: Version, what: String, source: io::Error },
    #[error(
        "gdrdrv {0} maps the memory coherently, and not by the GPU's BAR; GDRCopy 2.5 or newer can be told to"
    )]
    Coherent(Version),
}

/// A version as the module tells it: major, then minor in the low 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(u32);

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0 >> 16, self.0 & 0xffff)
    }
}

#[repr(C)]
#[derive(Default)]
struct Pin {
    address: u64,
    size: u64,
    p2p_token: u64,
    va_space: u32,
    padding: u32,
    handle: u64,
}

#[repr(C)]
#[derive(Default)]
struct PinByFlags {
    address: u64,
    size: u64,
    flags: u32,
    padding: u32,
    handle: u64,
}

/// Of both calls: only what the last two words say differs.
#[repr(C)]
#[derive(Default)]
struct Info {
    handle: u64,
    address: u64,
    mapped_size: u64,
    page_size: u32,
    tsc_khz: u32,
    cycles: u64,
    /// The kind; before 2.4 whether it is mapped.
    kind: u32,
    /// Before 2.4 whether it is mapped write-combining.
    write_combining: u32,
}

#[repr(C)]
#[derive(Default)]
struct Attribute {
    attribute: u32,
    value: u32,
}

#[repr(C)]
#[derive(Default)]
struct Versions {
    module: u32,
    least_library: u32,
}

// Their header takes the size of a pointer where it means that of a structure, in all but the two that pin.
const PIN: Opcode = opcode::read_write::<Pin>(GROUP, 1);
const UNPIN: Opcode = opcode::read_write::<u64>(GROUP, 2);
const INFO: Opcode = opcode::read_write::<u64>(GROUP, 4);
const INFO_2: Opcode = opcode::read_write::<u64>(GROUP, 5);
const ATTRIBUTE: Opcode = opcode::read_write::<Attribute>(GROUP, 6);
const PIN_2: Opcode = opcode::read_write::<PinByFlags>(GROUP, 7);
const VERSION: Opcode = opcode::read_write::<u64>(GROUP, 255);

/// The module's node, opened by this process, of a version that it can be spoken to in.
pub(crate) struct Gdrdrv {
    node: File,
    version: Version,
}

impl Gdrdrv {
    pub(crate) fn open() -> Result<Arc<Gdrdrv>, GdrdrvError> {
        let node = OpenOptions::new().read(true).write(true).open(Path::new(NODE));
        let node = node.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => GdrdrvError::NotLoaded,
            _ => GdrdrvError::Open(error),
        })?;
        let module = Gdrdrv { node, version: Version(0) };
        let mut versions = Versions::default();
        module.call(VERSION, &mut versions, || "its version".to_owned())?;
        let (version, least) = (Version(versions.module), Version(versions.least_library));
        if version.0 >> 16 != SPOKEN.0 >> 16 {
            return Err(GdrdrvError::Version(version));
        }
        if least > SPOKEN {
            return Err(GdrdrvError::Newer { module: version, least });
        }
        Ok(Arc::new(Gdrdrv { version, ..module }))
    }

    fn call<T>(&self, opcode: Opcode, of: &mut T, what: impl Fn() -> String) -> Result<(), GdrdrvError> {
        // By libc's function and not by the system call, so that another module can stand in for this one.
        // SAFETY: the node is open, and `of` is what the module reads and writes for this opcode.
        let result = unsafe { libc::ioctl(self.node.as_raw_fd(), opcode.into(), &raw mut *of) };
        if result == 0 {
            return Ok(());
        }
        let source = io::Error::last_os_error();
        Err(GdrdrvError::Call { version: self.version, what: what(), source })
    }

    /// Pins whole GPU pages of memory that starts at one.
    fn pin(self: &Arc<Self>, memory: &Arc<Allocation>, flags: u32) -> Result<Pinned, GdrdrvError> {
        let (address, size) = (memory.address(), (memory.len() as u64).next_multiple_of(DEVICE_PAGE));
        let what = || format!("to pin {size} bytes at {address:#x}");
        let handle = if self.version >= FLAGS {
            let mut pin = PinByFlags { address, size, flags, ..PinByFlags::default() };
            self.call(PIN_2, &mut pin, what)?;
            pin.handle
        } else {
            let mut pin = Pin { address, size, ..Pin::default() };
            self.call(PIN, &mut pin, what)?;
            pin.handle
        };
        Ok(Pinned { module: self.clone(), handle, _memory: memory.clone() })
    }

    fn can_force_pcie(&self) -> Result<bool, GdrdrvError> {
        if self.version < FLAGS {
            return Ok(false);
        }
        let mut attribute = Attribute { attribute: ATTRIBUTE_FORCE_PCIE, value: 0 };
        self.call(ATTRIBUTE, &mut attribute, || "whether it can use the BAR by force".to_owned())?;
        Ok(attribute.value != 0)
    }

    /// Pins memory and maps it as a part of the GPU's BAR.
    pub(crate) fn map(self: &Arc<Self>, memory: &Arc<Allocation>) -> Result<BarMapping, GdrdrvError> {
        if let Some(mapping) = self.map_by(memory, 0)? {
            return Ok(mapping);
        }
        if !self.can_force_pcie()? {
            return Err(GdrdrvError::Coherent(self.version));
        }
        self.map_by(memory, FORCE_PCIE)?.ok_or(GdrdrvError::Coherent(self.version))
    }

    /// The same with these flags; `None` where it is not through the BAR.
    fn map_by(
        self: &Arc<Self>,
        memory: &Arc<Allocation>,
        flags: u32,
    ) -> Result<Option<BarMapping>, GdrdrvError> {
        let pinned = self.pin(memory, flags)?;
        let mapping = pinned.map(memory.len())?;
        if pinned.is_cached()? {
            return Ok(None);
        }
        Ok(Some(BarMapping::pinned(mapping, pinned)))
    }
}

/// Memory that the module has pinned, until dropped. Its mapping goes before, and the memory after.
pub(crate) struct Pinned {
    module: Arc<Gdrdrv>,
    handle: u64,
    _memory: Arc<Allocation>,
}

impl Pinned {
    fn map(&self, len: usize) -> Result<Mapping, GdrdrvError> {
        let len = len.next_multiple_of(BASE_PAGE);
        let offset = self.handle * BASE_PAGE as u64;
        Mapping::shared(std::os::fd::AsFd::as_fd(&self.module.node), offset, len).map_err(|source| {
            GdrdrvError::Call { version: self.module.version, what: format!("to map {len} bytes"), source }
        })
    }

    /// Whether its mapping is one that the CPU caches.
    fn is_cached(&self) -> Result<bool, GdrdrvError> {
        let by_kind = self.module.version >= INFO_BY_KIND;
        let mut info = Info { handle: self.handle, ..Info::default() };
        self.module.call(if by_kind { INFO_2 } else { INFO }, &mut info, || "how it is mapped".to_owned())?;
        Ok(if by_kind { info.kind == KIND_CACHING } else { info.kind != 0 && info.write_combining == 0 })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let unpinned = self.module.call(UNPIN, &mut self.handle.clone(), || "to unpin memory".to_owned());
        if let Err(error) = unpinned {
            tracing::warn!(%error, "GPU memory stays pinned");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_numbers_of_the_modules_header() {
        let own = [PIN, UNPIN, INFO, INFO_2, ATTRIBUTE, PIN_2, VERSION];
        let header =
            [0xc028_da01, 0xc008_da02, 0xc008_da04, 0xc008_da05, 0xc008_da06, 0xc020_da07, 0xc008_daff_u32];
        assert_eq!(own, header.map(Opcode::from));
    }
}
