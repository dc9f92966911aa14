//! Regions of the function: what the server says of them, and what of them can be mapped.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use warpbell_hw::{BASE_PAGE, MemoryError, Window};
use zerocopy::IntoBytes;

use super::connection::{Connection, Reply};
use super::error::{Object, UserError};
use super::wire::{Command, RegionDescription, RegionFlags, RegionInfo, SparseArea, WireError};
use crate::sys::{Mapping, SysError};

/// Room for a reply with capabilities, at first.
const FIRST_BYTES: u32 = 4096;
/// The most that a server may want.
const MOST_BYTES: u32 = 1 << 20;
/// The longest region: no processor has more address space for a BAR.
const MOST_SIZE: u64 = 1 << 52;

/// Why a region is not mapped.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unmappable {
    #[error("region {index} cannot be mapped")]
    Region { index: u32 },
    #[error("region {index} came without a file descriptor")]
    NoFile { index: u32 },
    #[error("region {index} cannot be mapped at {start:#x}")]
    Place { index: u32, start: u64 },
    #[error("the area of region {index} at {offset:#x} does not begin at a page")]
    Unaligned { index: u32, offset: u64 },
    #[error("file of region {index}: {error}")]
    File { index: u32, error: rustix::io::Errno },
    #[error("the file of region {index} has {size} bytes, not {len} from {at:#x} on")]
    Short { index: u32, size: i64, len: u64, at: u64 },
    #[error("region {index} cannot be mapped: {error}")]
    Refused { index: u32, error: SysError },
    #[error(transparent)]
    Window(MemoryError),
}

/// A region.
#[derive(Debug)]
pub(super) struct Region {
    pub(super) index: u32,
    pub(super) size: u64,
    pub(super) flags: RegionFlags,
    offset: u64,
    sparse: Vec<SparseArea>,
    file: Option<OwnedFd>,
}

impl Region {
    /// Asks the server.
    pub(super) fn query(connection: &Connection, index: u32) -> Result<Region, UserError> {
        let (command, object) = (Command::DeviceGetRegionInfo, Object::Region(index));
        let ask = |argsz| -> Result<(Reply, RegionInfo), UserError> {
            let request = RegionInfo { argsz, index, ..RegionInfo::default() };
            let reply = connection.request(command, object, &[request.as_bytes()], &[])?;
            let (info, _) = connection.fixed::<RegionInfo>(command, object, &reply.payload)?;
            Ok((reply, info))
        };
        let malformed = |source| connection.malformed(command, object, source);
        let (mut reply, mut info) = ask(FIRST_BYTES)?;
        // A server with more room than it needs has told all with the first answer.
        if info.argsz > FIRST_BYTES && !info.flags.contains(RegionFlags::CAPS) {
            if info.argsz > MOST_BYTES {
                let (what, value) = ("the room that the reply needs", info.argsz.into());
                return Err(malformed(WireError::Field { what, value, rule: "at most 1 MiB" }));
            }
            (reply, info) = ask(info.argsz)?;
        }
        if info.index != index {
            let (what, value) = ("the region in the reply", info.index.into());
            return Err(malformed(WireError::Field { what, value, rule: "it must be the one asked for" }));
        }
        let RegionDescription { flags, size, offset, sparse, .. } =
            RegionDescription::decode(&reply.payload).map_err(malformed)?;
        if size > MOST_SIZE {
            let (what, rule) = ("the size of the region", "at most 2^52 bytes");
            return Err(malformed(WireError::Field { what, value: size, rule }));
        }
        Ok(Region { index, size, flags, offset, sparse, file: reply.fds.into_iter().next() })
    }

    /// The mapping of what can be mapped from byte `start` of the region on, or why there is none.
    pub(super) fn map_from(&self, start: u64) -> Result<Window, Unmappable> {
        let index = self.index;
        if !self.flags.contains(RegionFlags::MMAP) {
            return Err(Unmappable::Region { index });
        }
        let file = self.file.as_ref().ok_or(Unmappable::NoFile { index })?;
        let whole = [SparseArea { offset: 0, size: self.size }];
        let areas = if self.sparse.is_empty() { &whole[..] } else { &self.sparse };
        let area = areas.iter().find(|area| {
            area.offset <= start && area.offset.checked_add(area.size).is_some_and(|end| start < end)
        });
        let area = area.ok_or(Unmappable::Place { index, start })?;
        let len = area.size.min(self.size.saturating_sub(area.offset));
        let at = self.offset.checked_add(area.offset);
        let odd = Unmappable::Unaligned { index, offset: area.offset };
        let at = at.filter(|at| (at | area.offset).is_multiple_of(BASE_PAGE as u64)).ok_or(odd)?;
        let ordinary = self.check_file(file, at, len)?;
        let len = usize::try_from(len).map_err(|_| Unmappable::Place { index, start })?;
        let mapping = Mapping::new(file.as_fd(), at, len);
        let mapping = mapping.map_err(|error| Unmappable::Refused { index, error })?;
        let window = Window::whole(Arc::new(mapping.ordinary(ordinary)));
        let skip = (start - area.offset) as usize;
        window.slice(skip, len.saturating_sub(skip)).map_err(Unmappable::Window)
    }

    /// An access behind the end of a file would end this process. Whether the file is memory, and no device's BAR.
    fn check_file(&self, file: &OwnedFd, at: u64, len: u64) -> Result<bool, Unmappable> {
        let index = self.index;
        let stat = rustix::fs::fstat(file).map_err(|error| Unmappable::File { index, error })?;
        let regular = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file();
        if regular && at.checked_add(len).is_none_or(|end| end > stat.st_size as u64) {
            let size = stat.st_size;
            return Err(Unmappable::Short { index, size, len, at });
        }
        Ok(regular)
    }
}
