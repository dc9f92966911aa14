//! Configuration space: the command register, and where the MSI-X table lies.

use std::io;
use std::ops::Range;
use std::os::fd::AsFd;

use warpbell_hw::{BASE_PAGE, PciId};

use crate::config_bits::{Command, Status};
use crate::info::Region;
use crate::{Bdf, VfioError};

const COMMAND: u64 = 0x04;
const STATUS: u64 = 0x06;
const CAPABILITIES: u64 = 0x34;
const MSIX: u8 = 0x11;

/// Configuration space, as a part of a file.
pub(crate) struct Config<F> {
    bdf: Bdf,
    file: F,
    region: Region,
}

/// Pages of BARs that the MSI-X table and its pending bits take: nothing else may be written there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MsixPages {
    areas: Vec<(u8, Range<u64>)>,
}

impl MsixPages {
    /// `mappable` without the pages that are MSI-X's in that BAR.
    pub(crate) fn spare(&self, bar: u8, mappable: &[Range<u64>]) -> Vec<Range<u64>> {
        let mut left = mappable.to_vec();
        for (_, pages) in self.areas.iter().filter(|(of, _)| *of == bar) {
            let parts = |area: &Range<u64>| {
                [area.start..area.end.min(pages.start), area.start.max(pages.end)..area.end]
            };
            left = left.iter().flat_map(parts).filter(|part| !part.is_empty()).collect();
        }
        left
    }
}

impl<F: AsFd> Config<F> {
    pub(crate) fn new(bdf: Bdf, file: F, region: Region) -> Config<F> {
        Config { bdf, file, region }
    }

    /// Vendor and device ID.
    pub(crate) fn id(&self) -> Result<PciId, VfioError> {
        Ok(PciId { vendor: self.read16(0)?, device: self.read16(2)? })
    }

    /// Lets the function decode memory and master the bus, and keeps it from raising INTx.
    pub(crate) fn enable(&self) -> Result<(), VfioError> {
        let command = self.command()? | Command::DRIVEN | Command::INTX_DISABLE;
        self.write16(COMMAND, command.bits())?;
        let found = self.command()?;
        if !found.contains(Command::DRIVEN) {
            let (found, command) = (found.bits(), command.bits());
            let source =
                io::Error::other(format!("command register {found:#06x} after {command:#06x} was written"));
            return Err(VfioError::Config { bdf: self.bdf, offset: COMMAND, source });
        }
        Ok(())
    }

    /// Ends all DMA of the function.
    pub(crate) fn stop_dma(&self) -> Result<(), VfioError> {
        self.write16(COMMAND, (self.command()? - Command::BUS_MASTER).bits())
    }

    /// Where the MSI-X table and the pending bits lie; nothing where the function has no MSI-X.
    pub(crate) fn msix_pages(&self) -> Result<MsixPages, VfioError> {
        let Some(at) = self.capability(MSIX)? else { return Ok(MsixPages::default()) };
        let vectors = u64::from(self.read16(at + 2)? & 0x7ff) + 1;
        let (table, pending) = (self.read32(at + 4)?, self.read32(at + 8)?);
        let pages = |register: u32, len: u64| {
            let start = u64::from(register & !7);
            let page = BASE_PAGE as u64;
            ((register & 7) as u8, start / page * page..(start + len).next_multiple_of(page))
        };
        Ok(MsixPages { areas: vec![pages(table, 16 * vectors), pages(pending, vectors.div_ceil(64) * 8)] })
    }

    /// The offset of a capability. The list is walked at most as often as it has room.
    fn capability(&self, id: u8) -> Result<Option<u64>, VfioError> {
        if !Status::from_bits_retain(self.read16(STATUS)?).contains(Status::CAPABILITIES) {
            return Ok(None);
        }
        let mut at = u64::from(self.read16(CAPABILITIES)? & 0xfc);
        for _ in 0..48 {
            if at < 0x40 {
                break;
            }
            let [found, next] = self.read16(at)?.to_le_bytes();
            if found == id {
                return Ok(Some(at));
            }
            at = u64::from(next & 0xfc);
        }
        Ok(None)
    }

    fn command(&self) -> Result<Command, VfioError> {
        self.read16(COMMAND).map(Command::from_bits_retain)
    }

    fn read16(&self, offset: u64) -> Result<u16, VfioError> {
        self.read(offset).map(u16::from_le_bytes)
    }

    fn read32(&self, offset: u64) -> Result<u32, VfioError> {
        self.read(offset).map(u32::from_le_bytes)
    }

    fn read<const N: usize>(&self, offset: u64) -> Result<[u8; N], VfioError> {
        let mut bytes = [0; N];
        let done = rustix::io::pread(&self.file, &mut bytes, self.region.offset + offset);
        self.complete(offset, N, done)?;
        Ok(bytes)
    }

    fn write16(&self, offset: u64, value: u16) -> Result<(), VfioError> {
        let done = rustix::io::pwrite(&self.file, &value.to_le_bytes(), self.region.offset + offset);
        self.complete(offset, 2, done)
    }

    fn complete(&self, offset: u64, wanted: usize, done: rustix::io::Result<usize>) -> Result<(), VfioError> {
        let source = match done {
            Ok(done) if done == wanted => return Ok(()),
            Ok(done) => io::Error::other(format!("{done} of {wanted} bytes")),
            Err(error) => error.into(),
        };
        Err(VfioError::Config { bdf: self.bdf, offset, source })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use super::*;

    fn config(bytes: &[(usize, &[u8])]) -> Config<File> {
        let mut space = [0u8; 256];
        for (at, part) in bytes {
            space[*at..at + part.len()].copy_from_slice(part);
        }
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&space).unwrap();
        let region = Region { flags: 3, size: 256, offset: 0, mappable: Vec::new() };
        Config::new("0000:01:00.0".parse().unwrap(), file, region)
    }

    #[test]
    fn enabling_sets_three_bits_and_keeps_the_others() {
        let config = config(&[(4, &[0x40, 0x01])]);
        config.enable().unwrap();
        assert_eq!(config.read16(COMMAND).unwrap(), 0x0546);
        config.stop_dma().unwrap();
        assert_eq!(config.read16(COMMAND).unwrap(), 0x0542);
    }

    #[test]
    fn the_msix_table_is_found_behind_other_capabilities() {
        let msix = [0x11, 0x00, 0x40, 0x80, 0x00, 0x30, 0x00, 0x00, 0x04, 0x40, 0x00, 0x00];
        let config = config(&[(6, &[0x10]), (0x34, &[0x40]), (0x40, &[0x01, 0x60]), (0x60, &msix)]);
        let pages = config.msix_pages().unwrap();
        assert_eq!(pages.areas, [(0, 0x3000..0x4000), (4, 0x4000..0x5000)]);
        assert_eq!(pages.spare(0, &[0..0x8000]), [0..0x3000, 0x4000..0x8000]);
        assert_eq!(pages.spare(4, &[0..0x8000]), [0..0x4000, 0x5000..0x8000]);
        assert_eq!(pages.spare(2, &[0..0x8000]), [0..0x8000]);
    }

    #[test]
    fn a_list_without_msix_and_one_that_loops_end() {
        assert_eq!(config(&[]).msix_pages().unwrap(), MsixPages::default());
        let looping = config(&[(6, &[0x10]), (0x34, &[0x40]), (0x40, &[0x01, 0x40])]);
        assert_eq!(looping.msix_pages().unwrap(), MsixPages::default());
    }

    #[test]
    fn a_short_read_is_an_error_with_its_place() {
        let short = Config { file: tempfile::tempfile().unwrap(), ..config(&[]) };
        let text = short.enable().unwrap_err().to_string();
        assert!(text.contains("0000:01:00.0: configuration space at 0x4: 0 of 2 bytes"), "{text}");
    }
}
