//! Configuration space, set up as firmware and a kernel would: servers that model a whole function want that.

use super::connection::Connection;
use super::error::UserError;
use super::regions::Region;
use super::wire::{RegionFlags, region_index};
use crate::config_bits::{Command, MsixControl, Status};
use warpbell_hw::PciId;

const VENDOR: u64 = 0x00;
const COMMAND: u64 = 0x04;
const STATUS: u64 = 0x06;
const BAR0: u64 = 0x10;
const CAPABILITIES: u64 = 0x34;

const MSIX: u8 = 0x11;
const BAR_IO: u32 = 1;
const BAR_64: u32 = 0b10 << 1;
const BAR_FLAGS: u32 = 0xf;

/// Where BARs go: nothing else lies in this address space, but 0 means that there is none.
const BARS_AT: u64 = 0xc000_0000;

/// The MSI-X capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Msix {
    at: u64,
    /// Region of the table.
    pub(super) region: u32,
    /// Where the table is in its region.
    pub(super) table: u64,
    /// Entries of the table.
    pub(super) vectors: u16,
}

/// Configuration space behind a connection.
pub(super) struct ConfigSpace<'a>(pub(super) &'a Connection);

impl ConfigSpace<'_> {
    fn read<const N: usize>(&self, at: u64) -> Result<[u8; N], UserError> {
        self.0.read(region_index::CONFIG, at)
    }

    fn read16(&self, at: u64) -> Result<u16, UserError> {
        self.read(at).map(u16::from_le_bytes)
    }

    fn read32(&self, at: u64) -> Result<u32, UserError> {
        self.read(at).map(u32::from_le_bytes)
    }

    fn write16(&self, at: u64, value: u16) -> Result<(), UserError> {
        self.0.write(region_index::CONFIG, at, &value.to_le_bytes())
    }

    fn write32(&self, at: u64, value: u32) -> Result<(), UserError> {
        self.0.write(region_index::CONFIG, at, &value.to_le_bytes())
    }

    fn command(&self) -> Result<Command, UserError> {
        self.read16(COMMAND).map(Command::from_bits_retain)
    }

    /// Vendor and device.
    pub(super) fn pci_id(&self) -> Result<PciId, UserError> {
        let [vendor, device] = [self.read16(VENDOR)?, self.read16(VENDOR + 2)?];
        Ok(PciId { vendor, device })
    }

    /// Gives BARs their places where they have none, and lets the function be reached and reach memory. Returns the
    /// command register as it was.
    pub(super) fn enable(&self, regions: &[Region]) -> Result<(), UserError> {
        self.place_bars(regions)?;
        let command = self.command()?;
        let wanted = command | Command::DRIVEN | Command::INTX_DISABLE;
        if command != wanted {
            self.write16(COMMAND, wanted.bits())?;
        }
        let found = self.command()?;
        if !found.contains(Command::DRIVEN) {
            let (found, wanted) = (found.bits(), wanted.bits());
            return Err(UserError::Unsupported {
                socket: self.0.name().to_owned(),
                what: "the command register",
                value: format!("{found:#06x} after {wanted:#06x} was written"),
                need: "one that keeps memory decode (bit 1) and bus master (bit 2)".to_owned(),
            });
        }
        Ok(())
    }

    fn place_bars(&self, regions: &[Region]) -> Result<(), UserError> {
        let (mut next, mut index) = (BARS_AT, 0);
        while index < 6 {
            let at = BAR0 + 4 * index;
            let size = regions.get(index as usize).map_or(0, |region| region.size);
            let low = self.read32(at)?;
            let wide = low & (BAR_IO | BAR_64) == BAR_64;
            if size > 0 && low & BAR_IO == 0 {
                let high = if wide { self.read32(at + 4)? } else { 0 };
                let base = u64::from(low & !BAR_FLAGS) | u64::from(high) << 32;
                let place = next.next_multiple_of(size.next_power_of_two());
                if base == 0 && (wide || place + size <= 1 << 32) {
                    self.write32(at, place as u32 | low & BAR_FLAGS)?;
                    if wide {
                        self.write32(at + 4, (place >> 32) as u32)?;
                    }
                    next = place + size;
                }
            }
            index += if wide { 2 } else { 1 };
        }
        Ok(())
    }

    /// Where MSI-X is set up, if the function has it. The list is walked at most as often as it has room.
    pub(super) fn msix(&self) -> Result<Option<Msix>, UserError> {
        if !Status::from_bits_retain(self.read16(STATUS)?).contains(Status::CAPABILITIES) {
            return Ok(None);
        }
        let [mut at] = self.read::<1>(CAPABILITIES)?;
        for _ in 0..48 {
            if at < 0x40 {
                return Ok(None);
            }
            let [id, next] = self.read::<2>((at & 0xfc).into())?;
            if id == MSIX {
                return self.read_msix((at & 0xfc).into()).map(Some);
            }
            at = next;
        }
        Ok(None)
    }

    fn read_msix(&self, at: u64) -> Result<Msix, UserError> {
        let control = self.read16(at + 2)?;
        let table = self.read32(at + 4)?;
        Ok(Msix { at, region: table & 7, table: u64::from(table & !7), vectors: (control & 0x7ff) + 1 })
    }

    /// Unmasks one vector in the table and lets the function raise MSI-X, as far as the server takes that: the message
    /// that connected the vector decides, and some servers have no more than that.
    pub(super) fn enable_vector(&self, msix: &Msix, vector: u16) -> Result<(), UserError> {
        let control = msix.table + 16 * u64::from(vector) + 12;
        unless_refused(self.0.write(msix.region, control, &0u32.to_le_bytes()))?;
        let at = msix.at + 2;
        let control = MsixControl::from_bits_retain(self.read16(at)?);
        let wanted = (control | MsixControl::ENABLE) - MsixControl::MASK_ALL;
        if control != wanted {
            unless_refused(self.write16(at, wanted.bits()))?;
        }
        Ok(())
    }
}

/// A write that the server may refuse.
fn unless_refused(written: Result<(), UserError>) -> Result<(), UserError> {
    match written {
        Err(error @ UserError::Refused { .. }) => {
            tracing::debug!(%error, "SET_IRQS alone decides");
            Ok(())
        }
        other => other,
    }
}

/// Whether the function has a configuration space that can be used.
pub(super) fn is_present(regions: &[Region]) -> bool {
    let region = regions.get(region_index::CONFIG as usize);
    region.is_some_and(|region| {
        region.size >= 64 && region.flags.contains(RegionFlags::READ | RegionFlags::WRITE)
    })
}
