//! Host memory that devices have mapped.

use super::arena::PAGE;
use super::{Memory, pages};
use crate::code::{Code, Result};
use crate::driver::misuse;
use crate::options::IoMemory;

/// Flags of cuMemHostRegister.
const PORTABLE: u32 = 1;
const DEVICEMAP: u32 = 2;
const IOMEMORY: u32 = 4;

/// A registration.
pub(super) struct Host {
    pub(super) len: u64,
    /// Where devices see it.
    device: u64,
    flags: u32,
}

impl Memory {
    pub(crate) fn register(&self, start: u64, len: u64, flags: u32) -> Result<()> {
        if !start.is_multiple_of(PAGE) || !len.is_multiple_of(PAGE) || len == 0 {
            let text =
                format!("{len} bytes at {start:#x} are not whole pages, which a driver may round to more");
            return Err(misuse(Code::INVALID_VALUE, &text));
        }
        if flags & !(PORTABLE | DEVICEMAP | IOMEMORY) != 0 {
            return Err(misuse(Code::INVALID_VALUE, &format!("flags {flags:#x}")));
        }
        if !pages::mapped(start, len) {
            return Err(misuse(
                Code::INVALID_VALUE,
                &format!("{len} bytes at {start:#x} are not all mapped"),
            ));
        }
        if flags & IOMEMORY != 0 {
            self.check_io(start, len)?;
        }
        let mut state = self.state.lock();
        if state.arena.has(start) {
            return Err(misuse(Code::INVALID_VALUE, &format!("{start:#x} is a device's address")));
        }
        let overlaps = |(at, host): (&u64, &Host)| *at < start + len && start < *at + host.len;
        if state.hosts.iter().any(overlaps) {
            let text = format!("part of {len} bytes at {start:#x} is registered already");
            return Err(misuse(Code::HOST_MEMORY_ALREADY_REGISTERED, &text));
        }
        let dead = flags & IOMEMORY != 0 && self.options.io_memory == IoMemory::Dead;
        let mut device = start;
        if (self.options.alias || dead)
            && let Some(at) = state.arena.take(len)
            // What cannot be mapped twice keeps its address, as on most machines. Other memory takes what is lost.
            && (if dead { state.arena.back(at, len) } else { state.arena.alias(start, len, at) }).is_ok()
        {
            device = at;
        }
        state.hosts.insert(start, Host { len, device, flags });
        if flags & DEVICEMAP != 0 {
            let registers = flags & IOMEMORY != 0 || pages::is_named(start, warpbell_hw::DOORBELL_MEMORY);
            self.mappings.add(device, len, registers);
        }
        Ok(())
    }

    /// A driver walks the page table of a BAR's mapping: it takes what is there.
    fn check_io(&self, start: u64, len: u64) -> Result<()> {
        if self.options.io_memory == IoMemory::Refused {
            return Err(Code::NOT_PERMITTED);
        }
        match pages::first_absent(start, len) {
            Some(page) => {
                let text =
                    format!("the page at {page:#x} was not touched before it was registered as I/O memory");
                Err(misuse(Code::INVALID_VALUE, &text))
            }
            None => Ok(()),
        }
    }

    pub(crate) fn unregister(&self, start: u64) -> Result<()> {
        let mut state = self.state.lock();
        let Some(Host { len, device, .. }) = state.hosts.remove(&start) else {
            let text = format!("{start:#x} is not the start of what is registered");
            return Err(misuse(Code::HOST_MEMORY_NOT_REGISTERED, &text));
        };
        self.mappings.remove(device);
        if device != start {
            state.arena.clear(device, len).expect("pages of our own range can be taken away");
        }
        if !pages::mapped(start, len) {
            misuse(Code::INVALID_VALUE, &format!("{len} bytes at {start:#x} were unmapped while registered"));
        }
        Ok(())
    }

    /// Where devices see what begins at `start`.
    pub(crate) fn device_pointer(&self, start: u64, flags: u32) -> Result<u64> {
        let state = self.state.lock();
        let mapped = |host: &&Host| host.flags & DEVICEMAP != 0 && flags == 0;
        match state.hosts.get(&start).filter(mapped) {
            Some(host) => Ok(host.device),
            None => {
                let text = format!("{start:#x} is not the start of what is registered with DEVICEMAP");
                Err(misuse(Code::INVALID_VALUE, &text))
            }
        }
    }
}
