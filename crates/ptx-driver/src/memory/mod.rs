//! Device memory, host memory that devices have mapped, and which addresses are which.

mod arena;
mod host;
mod mappings;
mod pages;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use parking_lot::Mutex;
use warpbell_ptx::Region;

use arena::Arena;
pub(crate) use arena::{PAGE, bytes, copy, fill};
use host::Host;
pub(crate) use mappings::Mappings;

use crate::code::{Code, Result};
use crate::driver::misuse;
use crate::gdrdrv;
use crate::options::{DmaBuf, Options};

/// Where the first byte of an allocation lies in its pages: cuda.h promises no alignment to pages, so there is none.
const LEAD: u64 = 512;

/// For what words of fresh memory hold: `Region::unwritten` of it.
pub(crate) const FRESH: u64 = 0x1517;

pub(crate) struct Memory {
    options: Options,
    state: Mutex<State>,
    mappings: &'static Mappings,
}

struct State {
    arena: Arena,
    allocations: BTreeMap<u64, Allocation>,
    hosts: BTreeMap<u64, Host>,
    /// Calls for memory so far.
    asked: u64,
}

/// What an address is of, by the numbers of CUmemorytype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryKind {
    Host = 1,
    Device = 2,
}

struct Allocation {
    device: u32,
    len: u64,
    /// The pages that it lies in.
    mapping: (u64, u64),
    exports: Vec<(u64, u64, OwnedFd)>,
}

impl Memory {
    pub(crate) fn new(options: &Options) -> std::io::Result<Memory> {
        let state =
            State { arena: Arena::new()?, allocations: BTreeMap::new(), hosts: BTreeMap::new(), asked: 0 };
        let mappings = Box::leak(Box::default());
        Ok(Memory { options: options.clone(), state: Mutex::new(state), mappings })
    }

    /// What kernels may access.
    pub(crate) fn mappings(&self) -> &'static Mappings {
        self.mappings
    }

    /// Bytes of a device's memory that are taken.
    pub(crate) fn used(&self, device: u32) -> u64 {
        self.state.lock().used(device)
    }

    pub(crate) fn allocate(&self, device: u32, len: u64) -> Result<u64> {
        if len == 0 {
            return Err(misuse(Code::INVALID_VALUE, "0 bytes of memory"));
        }
        let mut state = self.state.lock();
        state.asked += 1;
        let room = self.options.memory - state.used(device);
        if state.asked >= self.options.fail_alloc || len > room {
            return Err(Code::OUT_OF_MEMORY);
        }
        let size = (len + LEAD).next_multiple_of(PAGE);
        let start = state.arena.take(size).ok_or(Code::OUT_OF_MEMORY)?;
        state.arena.back(start, size).map_err(|_| Code::OUT_OF_MEMORY)?;
        let address = start + LEAD;
        let allocation = Allocation { device, len, mapping: (start, size), exports: Vec::new() };
        state.allocations.insert(address, allocation);
        if self.options.init {
            state.arena.fill_words(address, len / 8, |word| Region::unwritten(FRESH, word));
            self.mappings.add_fresh(address, len);
        } else {
            self.mappings.add(address, len, false);
        }
        Ok(address)
    }

    pub(crate) fn free(&self, device: u32, address: u64) -> Result<()> {
        let mut state = self.state.lock();
        if state.allocations.get(&address).is_none_or(|allocation| allocation.device != device) {
            let text = format!("{address:#x} is not what cuMemAlloc gave, or was freed already");
            return Err(misuse(Code::INVALID_VALUE, &text));
        }
        state.drop_allocation(address, self.mappings);
        Ok(())
    }

    /// Frees all of a device's memory; what there was.
    pub(crate) fn free_all(&self, device: u32) -> Vec<String> {
        let mut state = self.state.lock();
        let of_device = state.allocations.iter().filter(|(_, allocation)| allocation.device == device);
        let left: Vec<(u64, u64)> = of_device.map(|(address, of)| (*address, of.len)).collect();
        left.iter().for_each(|(address, _)| state.drop_allocation(*address, self.mappings));
        left.iter().map(|(address, len)| format!("{len} bytes of device memory at {address:#x}")).collect()
    }

    /// What is left at the end of the process.
    pub(crate) fn leaks(&self) -> Vec<String> {
        let state = self.state.lock();
        let memory =
            state.allocations.iter().map(|(at, of)| format!("{} bytes of device memory at {at:#x}", of.len));
        let hosts = state.hosts.iter().map(|(at, of)| format!("registration of {} bytes at {at:#x}", of.len));
        memory.chain(hosts).collect()
    }

    /// Refuses a range that is not inside one allocation or one registration, by its device addresses.
    pub(crate) fn check_device(&self, address: u64, len: u64) -> Result<()> {
        if self.mappings.has(address, len) {
            return Ok(());
        }
        let text = format!("{len} bytes at {address:#x} are not inside anything that the device reaches");
        Err(misuse(Code::INVALID_VALUE, &text))
    }

    /// Refuses a device address where a host's is wanted. Whether the range is page-locked.
    pub(crate) fn check_host(&self, address: u64, len: u64) -> Result<bool> {
        let state = self.state.lock();
        if address == 0 || state.arena.has(address) {
            let text = format!("{address:#x} is no host address");
            return Err(misuse(Code::INVALID_VALUE, &text));
        }
        Ok(state.hosts.iter().any(|(start, host)| *start <= address && address + len <= *start + host.len))
    }

    /// Refuses an address that is not of a device's allocation.
    pub(crate) fn check_allocation(&self, address: u64) -> Result<()> {
        if self.state.lock().allocation(address, 1).is_some() {
            return Ok(());
        }
        Err(misuse(Code::INVALID_VALUE, &format!("{address:#x} is in no allocation")))
    }

    /// What an address is of, and which device's; `None`: of nothing that is known here.
    pub(crate) fn kind_of(&self, address: u64) -> Option<(MemoryKind, u32)> {
        let mut state = self.state.lock();
        if let Some(of) = state.allocation(address, 1) {
            return Some((MemoryKind::Device, of.device));
        }
        let inside = |(start, host): (&u64, &Host)| (*start..*start + host.len).contains(&address);
        state.hosts.iter().any(inside).then_some((MemoryKind::Host, 0))
    }

    /// First byte and length of the allocation that has an address.
    pub(crate) fn range_of(&self, address: u64) -> Option<(u64, u64)> {
        let state = self.state.lock();
        let (start, of) = state.allocations.range(..=address).next_back()?;
        (address - start < of.len).then_some((*start, of.len))
    }

    /// A file of device memory.
    pub(crate) fn export(&self, address: u64, len: u64) -> Result<OwnedFd> {
        if self.options.dma_buf == DmaBuf::Absent {
            return Err(misuse(Code::NOT_SUPPORTED, "the device says that it exports no dma-bufs"));
        }
        if !address.is_multiple_of(PAGE) || !len.is_multiple_of(PAGE) || len == 0 {
            let text = format!("{len} bytes at {address:#x} are not whole host pages");
            return Err(misuse(Code::INVALID_VALUE, &text));
        }
        let mut state = self.state.lock();
        if state.allocation(address, len).is_none() {
            let text = format!("{len} bytes at {address:#x} are not inside one allocation");
            return Err(misuse(Code::INVALID_VALUE, &text));
        }
        let exported: u64 =
            state.allocations.values().flat_map(|of| &of.exports).map(|(_, len, _)| len).sum();
        if exported + len > self.options.bar {
            return Err(Code::OUT_OF_MEMORY);
        }
        state.export(address, len, self.options.dma_buf).map_err(|_| Code::OPERATING_SYSTEM)
    }
}

impl Memory {
    /// Puts memory into a file at an offset: page by page the same memory from now on.
    pub(crate) fn share_into(
        &self,
        file: &OwnedFd,
        offset: u64,
        address: u64,
        len: u64,
    ) -> std::io::Result<()> {
        let mut state = self.state.lock();
        match state.allocation(address, len) {
            None => return Err(std::io::Error::other("not inside one allocation")),
            // The dma-buf's pages would be others then.
            Some(of) if !of.exports.is_empty() => return Err(std::io::Error::other("exported already")),
            Some(_) => {}
        }
        state.arena.share_into(file, offset, address, len)
    }
}

impl State {
    fn used(&self, device: u32) -> u64 {
        self.allocations.values().filter(|of| of.device == device).map(|of| of.len).sum()
    }

    fn allocation(&mut self, address: u64, len: u64) -> Option<&mut Allocation> {
        let (start, of) = self.allocations.range_mut(..=address).next_back()?;
        (address + len <= *start + of.len).then_some(of)
    }

    fn drop_allocation(&mut self, address: u64, mappings: &Mappings) {
        let Some(Allocation { mapping: (start, len), .. }) = self.allocations.remove(&address) else {
            return;
        };
        gdrdrv::freed(start, len);
        mappings.remove(address);
        self.arena.clear(start, len).expect("pages of our own range can be taken away");
    }

    /// The same range again is the same memory; another one must not overlap it.
    fn export(&mut self, address: u64, len: u64, kind: DmaBuf) -> std::io::Result<OwnedFd> {
        if kind == DmaBuf::Opaque {
            return Ok(rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC)?);
        }
        let exports = self.allocation(address, len).map(|of| std::mem::take(&mut of.exports));
        let mut exports = exports.unwrap_or_default();
        let known = exports.iter().find(|(at, of, _)| (*at, *of) == (address, len));
        let file = match known {
            Some((.., file)) => file.try_clone(),
            None => self.arena.share(address, len).and_then(|file| {
                exports.push((address, len, file.try_clone()?));
                Ok(file)
            }),
        };
        if let Some(of) = self.allocation(address, len) {
            of.exports = exports;
        }
        file
    }
}
