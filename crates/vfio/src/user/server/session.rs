//! One client's connection: its messages, one after the other, until it goes.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use warpbell_hw::{DmaAccess, DmaError, DmaSource, Endpoint, Iova};
use zerocopy::{Immutable, IntoBytes};

use super::function::Function;
use super::{Ended, Refused, ServerOptions};
use crate::user::socket::{Limits, Message, Socket};
use crate::user::wire::{
    Capabilities, Command, DeviceFlags, DeviceInfo, DmaFlags, DmaMap, DmaUnmap, Header, IrqInfo, IrqSet,
    MAJOR, MINOR, MultiWrite, MultiWriteCount, RegionAccess, RegionInfo, RegionIoFds, Version, fixed, irq,
    region_index, take,
};

/// Most bytes of data in one message.
const MAX_DATA: usize = 1 << 20;
/// Most file descriptors in one message; QEMU takes no server that says more than 16.
const MAX_FDS: usize = 16;
/// Most mappings.
const MAX_MAPS: usize = 65_535;
/// DMA mappings are multiples of this.
const PAGE: u64 = 4096;
/// A mapping of so many bytes is no ROM of a virtual machine.
const LARGE: u64 = 16 << 20;
/// DMA_UNMAP: everything.
const UNMAP_ALL: u32 = 1 << 1;

/// A mapping of the client's.
#[derive(Clone, Copy, Debug)]
struct Mapping {
    len: u64,
    /// It came with a file, so that the controller can reach it.
    reachable: bool,
}

/// What an answer consists of.
#[derive(Default)]
struct Answer {
    payload: Vec<u8>,
    fd: Option<OwnedFd>,
}

impl Answer {
    fn of(value: &(impl IntoBytes + Immutable)) -> Answer {
        Answer { payload: value.as_bytes().to_vec(), fd: None }
    }
}

/// What a connection did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionCounts {
    /// Messages that were answered or obeyed.
    pub messages: u64,
    /// Messages that were refused.
    pub refused: u64,
    /// Doorbells that came by message.
    pub doorbells: u64,
}

/// A connection.
pub(super) struct Session {
    socket: Socket,
    endpoint: Arc<dyn Endpoint>,
    function: Function,
    patience: Duration,
    mappings: BTreeMap<u64, Mapping>,
    /// The first large mapping that came without a file.
    pub(super) unreachable: Option<(u64, u64)>,
    pub(super) counts: SessionCounts,
}

impl Session {
    pub(super) fn new(socket: Socket, endpoint: Arc<dyn Endpoint>, options: &ServerOptions) -> Session {
        let function = Function::new(endpoint.clone(), options.doorbells);
        let (mappings, counts) = (BTreeMap::new(), SessionCounts::default());
        let patience = options.patience;
        Session { socket, endpoint, function, patience, mappings, unreachable: None, counts }
    }

    /// Agrees on versions with the client. `Err` ends the connection.
    pub(super) fn negotiate(&mut self) -> Result<(), Ended> {
        let message = self.receive()?;
        let header = message.header;
        if header.command() != Some(Command::Version) || !header.is_request() {
            self.reply(header, Err(Refused::invalid("VERSION has to come first".to_owned())))?;
            return Err(Ended::Protocol(format!("its first message was {}", header.number)));
        }
        let version = Version::decode(&message.payload).map_err(|error| Ended::Protocol(error.to_string()));
        let proposed = match version {
            Ok(version) if version.major == MAJOR => version,
            Ok(version) => {
                let what = format!("protocol version {}; this server speaks {MAJOR}", version.major);
                self.reply(header, Err(Refused::invalid(what.clone())))?;
                return Err(Ended::Protocol(what));
            }
            Err(ended) => {
                self.reply(header, Err(Refused::invalid(format!("{ended}"))))?;
                return Err(ended);
            }
        };
        let wish = proposed.capabilities;
        let capabilities = Capabilities {
            max_msg_fds: Some(MAX_FDS as u64),
            max_data_xfer_size: Some(MAX_DATA as u64),
            max_dma_maps: wish.max_dma_maps.map(|most| most.min(MAX_MAPS as u64)),
            pgsizes: wish.pgsizes.map(|_| PAGE),
            write_multiple: wish.write_multiple.filter(|wanted| *wanted),
            twin_socket: None,
        };
        let version = Version { major: MAJOR, minor: proposed.minor.min(MINOR), capabilities };
        self.reply(header, Ok(Answer { payload: version.encode(), fd: None }))
    }

    /// Waits for a message until `deadline`; false if none came.
    pub(super) fn wait(&self, deadline: Instant) -> Result<bool, Ended> {
        Ok(self.socket.wait_readable(deadline)?)
    }

    fn receive(&self) -> Result<Message, Ended> {
        let limits = Limits { payload: MAX_DATA + size_of::<RegionAccess>(), fds: MAX_FDS };
        Ok(self.socket.receive(limits, Instant::now() + self.patience)?)
    }

    /// Answers the next message.
    pub(super) fn serve(&mut self) -> Result<(), Ended> {
        let Message { header, payload, fds } = self.receive()?;
        if !header.is_request() {
            let number = header.number;
            return Err(Ended::Protocol(format!("a reply to command {number}, which was never sent")));
        }
        let result = self.obey(header, &payload, fds);
        match &result {
            Ok(_) => self.counts.messages += 1,
            Err(refused) => {
                self.counts.refused += 1;
                let command = header.command().map_or("a command", Command::name);
                tracing::warn!(number = header.number, command, reason = %refused.reason, "refused");
            }
        }
        self.reply(header, result)
    }

    fn reply(&self, header: Header, result: Result<Answer, Refused>) -> Result<(), Ended> {
        if !header.wants_reply() {
            return Ok(());
        }
        let deadline = Instant::now() + self.patience;
        match result {
            Ok(Answer { payload, fd }) => {
                let fds: Vec<_> = fd.iter().map(OwnedFd::as_fd).collect();
                Ok(self.socket.send(header.reply(payload.len()), &[&payload], &fds, deadline)?)
            }
            Err(refused) => {
                let errno = refused.errno.raw_os_error().unsigned_abs();
                Ok(self.socket.send(header.refusal(errno), &[], &[], deadline)?)
            }
        }
    }

    fn obey(&mut self, header: Header, payload: &[u8], fds: Vec<OwnedFd>) -> Result<Answer, Refused> {
        let command = header.command().ok_or_else(|| Refused::unsupported(header.number))?;
        let name = command.name();
        if !fds.is_empty() && !matches!(command, Command::DmaMap | Command::DeviceSetIrqs) {
            // SPDK sends the file of a mapping once more with DMA_UNMAP. Nothing is to be done with it.
            tracing::debug!(command = name, count = fds.len(), "file descriptors that nobody asked for");
        }
        match command {
            Command::DmaMap => self.map(fixed(name, payload)?, fds),
            Command::DmaUnmap => self.unmap(fixed(name, payload)?),
            Command::DeviceGetInfo => device_info(fixed(name, payload)?),
            Command::DeviceGetRegionInfo => self.region_info(fixed(name, payload)?),
            Command::DeviceGetRegionIoFds => region_io_fds(fixed(name, payload)?),
            Command::DeviceGetIrqInfo => {
                let request: IrqInfo = fixed(name, payload)?;
                check_room(request.argsz, size_of::<IrqInfo>())?;
                Ok(Answer::of(&self.function.interrupts.info(request.index)?))
            }
            Command::DeviceSetIrqs => {
                let (set, data) = take::<IrqSet>(name, payload)?;
                check_size(set.argsz, size_of::<IrqSet>())?;
                self.function.interrupts.set(set, data, fds)?;
                Ok(Answer::default())
            }
            Command::RegionRead => self.read(fixed(name, payload)?),
            Command::RegionWrite => {
                let (access, data) = take::<RegionAccess>(name, payload)?;
                self.write(access, data)
            }
            Command::RegionWriteMulti => self.write_multi(payload),
            Command::DeviceReset => {
                self.function.reset()?;
                Ok(Answer::default())
            }
            Command::Version => Err(Refused::invalid("VERSION a second time".to_owned())),
            Command::DmaRead | Command::DmaWrite => Err(Refused::unsupported(header.number)),
        }
    }

    fn region_info(&self, request: RegionInfo) -> Result<Answer, Refused> {
        check_room(request.argsz, size_of::<RegionInfo>())?;
        let (region, fd) = self.function.region(request.index)?;
        let fd = fd.map(|fd| fd.try_clone_to_owned()).transpose();
        let fd = fd.map_err(|error| Refused::system("the region's file", &error))?;
        Ok(Answer { payload: region.encode(request.argsz), fd })
    }

    fn map(&mut self, map: DmaMap, fds: Vec<OwnedFd>) -> Result<Answer, Refused> {
        check_size(map.argsz, size_of::<DmaMap>())?;
        let DmaMap { offset, address, size, .. } = map;
        let access = access_of(&map, fds.len())?;
        // Without a file the controller reaches nothing of it: then its edges do not matter.
        let aligned = fds.is_empty() || (address | size | offset).is_multiple_of(PAGE);
        let last = size.checked_sub(1).and_then(|more| address.checked_add(more));
        let Some(last) = last.filter(|_| aligned) else {
            let what = format!("{size:#x} bytes at {address:#x}, {offset:#x} of a file");
            return Err(Refused::invalid(format!("{what}: whole pages of {PAGE} bytes, below 2^64")));
        };
        let before = self.mappings.range(..=last).next_back();
        if let Some((start, other)) = before.filter(|(start, other)| *start + (other.len - 1) >= address) {
            let reason = format!("{size:#x} bytes at {address:#x}, where {:#x} are at {start:#x}", other.len);
            return Err(Refused { errno: Errno::EXIST, reason });
        }
        if self.mappings.len() >= MAX_MAPS {
            return Err(Refused { errno: Errno::NOSPC, reason: format!("more than {MAX_MAPS} mappings") });
        }
        // Of several files the first is meant.
        let file = fds.first().filter(|_| access.read || access.write);
        if let Some(file) = file {
            let source = DmaSource::File { fd: file.as_fd(), offset, len: size };
            self.endpoint.map_at(Iova(address), source, access)?;
        } else if fds.is_empty() && size >= LARGE {
            self.unreachable.get_or_insert((address, size));
        }
        self.mappings.insert(address, Mapping { len: size, reachable: file.is_some() });
        Ok(Answer::default())
    }

    /// Removes a mapping, or all that a range covers, none of them in part; or all. It may be that there are none, as in
    /// VFIO: QEMU clears ranges this way.
    fn unmap(&mut self, unmap: DmaUnmap) -> Result<Answer, Refused> {
        check_size(unmap.argsz, size_of::<DmaUnmap>())?;
        let DmaUnmap { flags, address, size, .. } = unmap;
        let range = match flags {
            0 if size > 0 => address..=address.saturating_add(size - 1),
            UNMAP_ALL if (address, size) == (0, 0) => 0..=u64::MAX,
            _ => {
                let what = format!("{size:#x} bytes at {address:#x} with flags {flags:#x}");
                return Err(Refused::invalid(what));
            }
        };
        let first = self.mappings.range(..range.start()).next_back();
        let first = first.filter(|(start, one)| *start + (one.len - 1) >= *range.start());
        let inside: Vec<_> = self.mappings.range(range.clone()).map(|(start, one)| (*start, *one)).collect();
        let split = inside.iter().find(|(start, one)| start + (one.len - 1) > *range.end());
        if first.is_some() || split.is_some() {
            return Err(Refused::invalid(format!("{size:#x} bytes at {address:#x}: a part of a mapping")));
        }
        for (start, mapping) in inside {
            self.mappings.remove(&start);
            if mapping.reachable {
                self.endpoint.unmap_at(Iova(start), mapping.len)?;
            }
        }
        Ok(Answer::of(&unmap))
    }

    fn read(&mut self, access: RegionAccess) -> Result<Answer, Refused> {
        let RegionAccess { offset, region, count } = access;
        if count as usize > MAX_DATA {
            return Err(Refused::invalid(format!("{count} bytes; the limit is {MAX_DATA}")));
        }
        let data = self.function.read(region, offset, count as usize)?;
        let mut answer = Answer::of(&access);
        answer.payload.extend(data);
        Ok(answer)
    }

    fn write(&mut self, access: RegionAccess, data: &[u8]) -> Result<Answer, Refused> {
        let RegionAccess { offset, region, count } = access;
        if data.len() != count as usize {
            return Err(Refused::invalid(format!("{} bytes of data for a count of {count}", data.len())));
        }
        self.function.write(region, offset, data)?;
        self.counts.doorbells += u64::from(region == region_index::BAR0 && offset >= 0x1000);
        Ok(Answer::of(&access))
    }

    /// Writes one after the other; the reply says how many were done. The first that is refused is the last.
    fn write_multi(&mut self, payload: &[u8]) -> Result<Answer, Refused> {
        let name = Command::RegionWriteMulti.name();
        let (head, mut rest) = take::<MultiWriteCount>(name, payload)?;
        // Behind the last write there may be room for more.
        if head.count.checked_mul(size_of::<MultiWrite>() as u64).is_none_or(|need| need > rest.len() as u64)
        {
            let what = format!("{} bytes for {} writes", rest.len(), head.count);
            return Err(Refused::invalid(what));
        }
        let mut done = 0;
        while done < head.count {
            let (write, more) = take::<MultiWrite>(name, rest)?;
            let MultiWrite { offset, region, count, data } = write;
            let data =
                data.get(..count as usize).ok_or_else(|| Refused::invalid(format!("{count} bytes")))?;
            match self.write(RegionAccess { offset, region, count }, data) {
                Err(refused) if done == 0 => return Err(refused),
                Err(_) => break,
                Ok(_) => (done, rest) = (done + 1, more),
            }
        }
        Ok(Answer::of(&MultiWriteCount { count: done }))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.socket.shut_down();
        self.endpoint.client_gone();
    }
}

fn check_room(argsz: u32, need: usize) -> Result<(), Refused> {
    if (argsz as usize) < need {
        return Err(Refused::invalid(format!("room for {argsz} bytes of a reply of {need}")));
    }
    Ok(())
}

/// Refuses a structure that says of itself that it is shorter than it has to be; longer may be any.
fn check_size(argsz: u32, need: usize) -> Result<(), Refused> {
    if (argsz as usize) < need {
        return Err(Refused::invalid(format!("argsz is {argsz}; the structure has {need} bytes")));
    }
    Ok(())
}

/// What a mapping allows. Its other flags say how its file may be reached, and this server maps all of them.
fn access_of(map: &DmaMap, files: usize) -> Result<DmaAccess, Refused> {
    let by_file = map.flags & (DmaFlags::MMAP | DmaFlags::FILE_IO);
    let unknown = map.flags - (DmaFlags::READ | DmaFlags::WRITE | by_file);
    if !unknown.is_empty() || files == 0 && !by_file.is_empty() {
        let bits = map.flags.bits();
        return Err(Refused::invalid(format!("flags {bits:#x} with {files} files")));
    }
    Ok(DmaAccess { read: map.flags.contains(DmaFlags::READ), write: map.flags.contains(DmaFlags::WRITE) })
}

fn device_info(request: DeviceInfo) -> Result<Answer, Refused> {
    let argsz = size_of::<DeviceInfo>();
    check_room(request.argsz, argsz)?;
    let flags = DeviceFlags::RESET | DeviceFlags::PCI;
    let (regions, irqs) = (region_index::COUNT, irq::COUNT);
    Ok(Answer::of(&DeviceInfo { argsz: argsz as u32, flags, regions, irqs }))
}

/// There are no event descriptors for parts of regions: doorbells that are mapped need none.
fn region_io_fds(request: RegionIoFds) -> Result<Answer, Refused> {
    let argsz = size_of::<RegionIoFds>();
    check_room(request.argsz, argsz)?;
    let index = request.index;
    if request.flags != 0 || request.count != 0 || index >= region_index::COUNT {
        let what = format!("region {index}, flags {:#x}, count {}", request.flags, request.count);
        return Err(Refused::invalid(what));
    }
    Ok(Answer::of(&RegionIoFds { argsz: argsz as u32, flags: 0, index, count: 0 }))
}

impl From<DmaError> for Refused {
    fn from(error: DmaError) -> Refused {
        let errno = match &error {
            DmaError::Overlap { .. } => Errno::EXIST,
            DmaError::TooMany { .. } => Errno::NOSPC,
            DmaError::NotMapped { .. } => Errno::NOENT,
            DmaError::System { source, .. } => Errno::from_io_error(source).unwrap_or(Errno::IO),
            _ => Errno::INVAL,
        };
        Refused { errno, reason: error.to_string() }
    }
}
