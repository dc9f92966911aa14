//! The served PCI function: its regions, and what reads and writes of them do.
//!
//! BAR 0 has the registers and, from 1000h on, the doorbells; BAR 2 the controller memory buffer if there is one;
//! BAR 4 the MSI-X table and its pending bits.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use warpbell_hw::{BASE_PAGE, Endpoint, ResetKind, Window};

use super::config_space::{Bar, CONFIG_BYTES, ConfigSpace, Effect, MsiX};
use super::interrupts::Interrupts;
use super::{DoorbellMode, Refused, ServerError};
use crate::user::wire::{RegionDescription, RegionFlags, SparseArea, region_index};

/// Where the doorbells begin in BAR 0.
const DOORBELLS: u64 = 0x1000;
/// The smallest BAR 0.
const LEAST_BAR0: u64 = 0x4000;
/// Most vectors of an MSI-X table.
const MAX_VECTORS: u16 = 2048;
/// Bytes of a table entry, and the bit in its last dword that masks it.
const ENTRY: usize = 16;
const MASKED: u8 = 1;

const CMB_BAR: u32 = 2;
const MSIX_BAR: u32 = 4;

/// The function of one connection.
pub(super) struct Function {
    endpoint: Arc<dyn Endpoint>,
    mode: DoorbellMode,
    config: ConfigSpace,
    doorbells: Window,
    memory: Option<Window>,
    bars: [Bar; 3],
    msix: MsiX,
    table: Vec<u8>,
    pub(super) interrupts: Interrupts,
}

impl Function {
    pub(super) fn new(endpoint: Arc<dyn Endpoint>, mode: DoorbellMode) -> Function {
        let doorbells = endpoint.doorbells().window();
        let memory = endpoint.controller_memory();
        let vectors = endpoint.interrupts().count().clamp(1, MAX_VECTORS);
        let table_bytes = (usize::from(vectors) * ENTRY).next_multiple_of(BASE_PAGE);
        let msix = MsiX { vectors, bar: MSIX_BAR as u8, pending: table_bytes as u32 };
        let bar0 = (DOORBELLS + doorbells.len() as u64).next_power_of_two().max(LEAST_BAR0);
        let cmb = memory.as_ref().map_or(0, |window| (window.len() as u64).next_power_of_two());
        let bars = [
            Bar { size: bar0, prefetchable: false },
            Bar { size: cmb, prefetchable: true },
            Bar { size: ((table_bytes + BASE_PAGE) as u64).next_power_of_two(), prefetchable: false },
        ];
        let config = ConfigSpace::new(endpoint.pci_identity(), bars, msix);
        let interrupts = Interrupts::new(endpoint.clone(), vectors);
        let table = masked_table(vectors);
        Function { endpoint, mode, config, doorbells, memory, bars, msix, table, interrupts }
    }

    /// Refuses what a client could not map.
    pub(super) fn check(&self) -> Result<(), ServerError> {
        if self.mode == DoorbellMode::Mapped && file_at(&self.doorbells, DOORBELLS).is_none() {
            return Err(ServerError::NotMappable { what: "the doorbell page" });
        }
        Ok(())
    }

    fn size(&self, region: u32) -> u64 {
        match region {
            0 | CMB_BAR | MSIX_BAR => self.bars[region as usize / 2].size,
            region_index::CONFIG => CONFIG_BYTES as u64,
            _ => 0,
        }
    }

    /// What a client can map of a region: the memory, and where in the region it begins.
    fn mappable(&self, region: u32) -> Option<(&Window, u64)> {
        match region {
            0 if self.mode == DoorbellMode::Mapped => Some((&self.doorbells, DOORBELLS)),
            CMB_BAR => self.memory.as_ref().map(|window| (window, 0)),
            _ => None,
        }
    }

    /// The answer to DEVICE_GET_REGION_INFO, and the descriptor that goes with it.
    pub(super) fn region(&self, index: u32) -> Result<(RegionDescription, Option<BorrowedFd<'_>>), Refused> {
        if index >= region_index::COUNT {
            return Err(Refused::invalid(format!("region {index}; there are {}", region_index::COUNT)));
        }
        let size = self.size(index);
        let mut region = RegionDescription { index, size, ..RegionDescription::default() };
        if size > 0 {
            region.flags = RegionFlags::READ | RegionFlags::WRITE;
        }
        let Some((window, at)) = self.mappable(index) else { return Ok((region, None)) };
        let Some((fd, offset)) = file_at(window, at) else { return Ok((region, None)) };
        region.flags |= RegionFlags::MMAP;
        region.offset = offset;
        if (at, window.len() as u64) != (0, size) {
            region.sparse = vec![SparseArea { offset: at, size: window.len() as u64 }];
        }
        Ok((region, Some(fd)))
    }

    fn check_range(&self, region: u32, at: u64, len: usize) -> Result<(), Refused> {
        let size = self.size(region);
        if region >= region_index::COUNT || at.checked_add(len as u64).is_none_or(|end| end > size) {
            let what = format!("{len} bytes at {at:#x} of region {region}, which has {size:#x}");
            return Err(Refused::invalid(what));
        }
        Ok(())
    }

    /// Reads a region. No bytes can be read from anywhere in it.
    pub(super) fn read(&self, region: u32, at: u64, len: usize) -> Result<Vec<u8>, Refused> {
        self.check_range(region, at, len)?;
        if len == 0 {
            return Ok(Vec::new());
        }
        let mut bytes = vec![0; len];
        let offset = at as usize;
        match region {
            region_index::CONFIG => self.config.read(offset, &mut bytes),
            CMB_BAR => {
                for (index, byte) in bytes.iter_mut().enumerate() {
                    *byte = self.memory_byte(offset + index);
                }
            }
            MSIX_BAR => {
                let pending = self.interrupts.pending_bits();
                let first = self.msix.pending as usize;
                for (at, byte) in (offset..).zip(&mut bytes) {
                    let bit = at.checked_sub(first).and_then(|at| pending.get(at));
                    *byte = self.table.get(at).or(bit).copied().unwrap_or(0);
                }
            }
            _ => self.read_registers(offset, &mut bytes)?,
        }
        Ok(bytes)
    }

    fn memory_byte(&self, at: usize) -> u8 {
        let mut byte = [0];
        // Behind the end of the buffer the BAR has nothing.
        let inside = self.memory.as_ref().is_some_and(|window| window.read(at, &mut byte).is_ok());
        if inside { byte[0] } else { 0 }
    }

    /// Writes a region.
    pub(super) fn write(&mut self, region: u32, at: u64, from: &[u8]) -> Result<(), Refused> {
        self.check_range(region, at, from.len())?;
        if from.is_empty() {
            return Ok(());
        }
        let offset = at as usize;
        match region {
            region_index::CONFIG => {
                if self.config.write(offset, from) == Effect::Reset {
                    self.reset_controller()?;
                }
            }
            CMB_BAR => {
                let memory = self.memory.as_ref();
                let inside = memory.map_or(0, |window| window.len().saturating_sub(offset).min(from.len()));
                if let Some(window) = memory.filter(|_| inside > 0) {
                    let outside = |error| Refused::invalid(format!("controller memory: {error}"));
                    window.write(offset, &from[..inside]).map_err(outside)?;
                }
            }
            MSIX_BAR => {
                for (at, byte) in (offset..).zip(from) {
                    // Reserved bits of the vector control stay zero; pending bits are read only.
                    let kept = match at % ENTRY {
                        12 => byte & MASKED,
                        13..16 => 0,
                        0 => byte & !0b11,
                        _ => *byte,
                    };
                    self.table.get_mut(at).into_iter().for_each(|slot| *slot = kept);
                }
            }
            _ => self.write_registers(offset, from)?,
        }
        Ok(())
    }

    /// Registers are read by 4 or 8 bytes as the client asks; anything smaller is cut out of 4.
    fn read_registers(&self, at: usize, into: &mut [u8]) -> Result<(), Refused> {
        let registers = self.endpoint.registers();
        if into.len() == 8 && at.is_multiple_of(8) && at < DOORBELLS as usize {
            into.copy_from_slice(&registers.read64(at as u32).to_le_bytes());
            return Ok(());
        }
        let (first, last) = (at & !3, at + into.len());
        if last - first > 4 && (at | into.len()) & 3 != 0 {
            return Err(Refused::invalid(format!("{} bytes at {at:#x} of the registers", into.len())));
        }
        let mut bytes = Vec::with_capacity(last - first + 3);
        for word in (first..last).step_by(4) {
            let value = match word.checked_sub(DOORBELLS as usize) {
                None => registers.read32(word as u32),
                Some(at) if at + 4 <= self.doorbells.len() => self.doorbells.load_u32(at, Ordering::Acquire),
                Some(_) => 0,
            };
            bytes.extend(value.to_le_bytes());
        }
        into.copy_from_slice(&bytes[at - first..last - first]);
        Ok(())
    }

    fn write_registers(&self, at: usize, from: &[u8]) -> Result<(), Refused> {
        let (words, rest) = from.as_chunks::<4>();
        if !rest.is_empty() || !at.is_multiple_of(4) {
            let what = format!("a write of {} bytes to register {at:#x}: 4 or 8, aligned", from.len());
            return Err(Refused::invalid(what));
        }
        if let Ok(bytes) = <[u8; 8]>::try_from(from)
            && at.is_multiple_of(8)
            && at < DOORBELLS as usize
        {
            self.endpoint.registers().write64(at as u32, u64::from_le_bytes(bytes));
            return Ok(());
        }
        for (at, word) in (at..).step_by(4).zip(words) {
            let value = u32::from_le_bytes(*word);
            match at.checked_sub(DOORBELLS as usize) {
                None => self.endpoint.registers().write32(at as u32, value),
                Some(at) => self.ring(at, value),
            }
        }
        Ok(())
    }

    /// A doorbell that comes by message. Behind the last one the BAR has nothing.
    fn ring(&self, at: usize, value: u32) {
        match self.endpoint.doorbells().sink() {
            Some(sink) => sink.ring(at, value),
            None if at + 4 <= self.doorbells.len() => self.doorbells.store_u32(at, value, Ordering::Release),
            None => {}
        }
    }

    /// DEVICE_RESET, or a function level reset through the configuration space.
    pub(super) fn reset(&mut self) -> Result<(), Refused> {
        self.config.reset();
        self.reset_controller()
    }

    fn reset_controller(&mut self) -> Result<(), Refused> {
        self.table = masked_table(self.msix.vectors);
        let failed = |error| Refused { errno: rustix::io::Errno::IO, reason: format!("reset: {error}") };
        self.endpoint.reset().reset(ResetKind::Function).map_err(failed)
    }
}

/// All entries of the MSI-X table are masked at first.
fn masked_table(vectors: u16) -> Vec<u8> {
    let mut table = vec![0; usize::from(vectors) * ENTRY];
    table.iter_mut().skip(12).step_by(ENTRY).for_each(|control| *control = MASKED);
    table
}

/// The file of a window that lies at `at` of a region, and where in it the region begins; `None` if that cannot be
/// said, or mapped.
fn file_at(window: &Window, at: u64) -> Option<(BorrowedFd<'_>, u64)> {
    let (fd, offset) = window.memory().file()?;
    let begin = (offset + window.offset_in_memory() as u64).checked_sub(at)?;
    let whole = begin.is_multiple_of(BASE_PAGE as u64) && window.len().is_multiple_of(BASE_PAGE);
    whole.then_some((fd, begin))
}
