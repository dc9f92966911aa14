//! The configuration space of a served function: a type 0 header, and the capabilities of an NVMe controller.
//!
//! Each byte has a value, bits that a write sets, and bits that a write of one clears. All else is read only, so that
//! sizing a BAR by a write of all ones works by itself. What a write does besides is told by [`Effect`].

use warpbell_hw::PciIdentity;

use crate::config_bits::{Command, MsixControl, Status};

/// Bytes of the configuration space of a PCI Express function. Behind the first 256 there are no capabilities.
pub(super) const CONFIG_BYTES: usize = 4096;
/// Bytes that are not all zero.
const USED: usize = 256;

/// NVMe: mass storage, non-volatile memory, NVM Express.
const CLASS: [u8; 3] = [0x02, 0x08, 0x01];

mod at {
    pub(super) const VENDOR: usize = 0x00;
    pub(super) const COMMAND: usize = 0x04;
    pub(super) const STATUS: usize = 0x06;
    pub(super) const REVISION: usize = 0x08;
    pub(super) const CLASS: usize = 0x09;
    pub(super) const CACHE_LINE: usize = 0x0c;
    pub(super) const BAR: usize = 0x10;
    pub(super) const SUBSYSTEM: usize = 0x2c;
    pub(super) const FIRST_CAPABILITY: usize = 0x34;
    pub(super) const INTERRUPT_LINE: usize = 0x3c;
    pub(super) const POWER: usize = 0x40;
    pub(super) const MSIX: usize = 0x50;
    pub(super) const EXPRESS: usize = 0x60;
}

/// What a write of the command register sets.
const COMMAND_BITS: Command =
    Command::DRIVEN.union(Command::PARITY).union(Command::SERR).union(Command::INTX_DISABLE);
/// Device Control: initiate function level reset. It reads as zero.
const INITIATE_FLR: u16 = 1 << 15;
/// Device Control 2 and Link Control 2: what software may set although nothing comes of it.
const DEVICE_CONTROL2_BITS: u16 = 0x1f;
const LINK_CONTROL2_BITS: u16 = 0xf;

/// A base address register, which takes two registers: all are 64 bits wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bar {
    /// Bytes, a power of two; 0: there is none.
    pub(super) size: u64,
    /// Reads have no side effects, and writes may be merged.
    pub(super) prefetchable: bool,
}

/// The MSI-X capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MsiX {
    /// Vectors, 1 to 2048.
    pub(super) vectors: u16,
    /// The BAR with table and pending bits; the table is at its start.
    pub(super) bar: u8,
    /// Where the pending bits are.
    pub(super) pending: u32,
}

/// What a write does besides changing bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing.
    None,
    /// A function level reset. It has reset the configuration space already.
    Reset,
}

/// The configuration space.
#[derive(Clone)]
pub(super) struct ConfigSpace {
    value: [u8; USED],
    written: [u8; USED],
    cleared: [u8; USED],
    /// The values at power on.
    initial: [u8; USED],
}

impl ConfigSpace {
    /// A function with `bars` 0, 2 and 4.
    pub(super) fn new(identity: PciIdentity, bars: [Bar; 3], msix: MsiX) -> ConfigSpace {
        let zero = [0; USED];
        let mut space = ConfigSpace { value: zero, written: zero, cleared: zero, initial: zero };
        space.header(identity);
        bars.iter().zip([0, 2, 4]).for_each(|(bar, index)| space.bar(index, *bar));
        space.power_management();
        space.msix(msix);
        space.express();
        space.initial = space.value;
        space
    }

    fn put16(&mut self, at: usize, value: u16, written: u16, cleared: u16) {
        self.value[at..at + 2].copy_from_slice(&value.to_le_bytes());
        self.written[at..at + 2].copy_from_slice(&written.to_le_bytes());
        self.cleared[at..at + 2].copy_from_slice(&cleared.to_le_bytes());
    }

    fn put32(&mut self, at: usize, value: u32, written: u32) {
        self.value[at..at + 4].copy_from_slice(&value.to_le_bytes());
        self.written[at..at + 4].copy_from_slice(&written.to_le_bytes());
    }

    fn header(&mut self, identity: PciIdentity) {
        self.put16(at::VENDOR, identity.vendor, 0, 0);
        self.put16(at::VENDOR + 2, identity.device, 0, 0);
        self.put16(at::COMMAND, 0, COMMAND_BITS.bits(), 0);
        self.put16(at::STATUS, Status::CAPABILITIES.bits(), 0, Status::ERRORS.bits());
        self.value[at::REVISION] = identity.revision;
        self.value[at::CLASS..at::CLASS + 3].copy_from_slice(&CLASS);
        self.written[at::CACHE_LINE] = 0xff;
        self.put16(at::SUBSYSTEM, identity.vendor, 0, 0);
        self.put16(at::SUBSYSTEM + 2, identity.device, 0, 0);
        self.value[at::FIRST_CAPABILITY] = at::POWER as u8;
        // The interrupt pin is 0: there is none.
        self.written[at::INTERRUPT_LINE] = 0xff;
    }

    fn bar(&mut self, index: usize, bar: Bar) {
        if bar.size == 0 {
            return;
        }
        let kind = 0b0100 | u32::from(bar.prefetchable) << 3;
        let address_bits = !(bar.size - 1);
        self.put32(at::BAR + 4 * index, kind, address_bits as u32);
        self.put32(at::BAR + 4 * index + 4, 0, (address_bits >> 32) as u32);
    }

    fn capability(&mut self, at: usize, id: u8, next: usize) {
        self.value[at] = id;
        self.value[at + 1] = next as u8;
    }

    /// Version 3, D0 and D3hot, no events; going back to D0 is no reset.
    fn power_management(&mut self) {
        self.capability(at::POWER, 0x01, at::MSIX);
        self.put16(at::POWER + 2, 3, 0, 0);
        self.put16(at::POWER + 4, 1 << 3, 0b11, 0);
    }

    fn msix(&mut self, msix: MsiX) {
        self.capability(at::MSIX, 0x11, at::EXPRESS);
        self.put16(
            at::MSIX + 2,
            msix.vectors - 1,
            MsixControl::ENABLE.union(MsixControl::MASK_ALL).bits(),
            0,
        );
        self.put32(at::MSIX + 4, msix.bar.into(), 0);
        self.put32(at::MSIX + 8, msix.pending | u32::from(msix.bar), 0);
    }

    /// An endpoint with function level reset, on a link as an SSD has it.
    fn express(&mut self) {
        let at = at::EXPRESS;
        self.capability(at, 0x10, 0);
        self.put16(at + 2, 2, 0, 0);
        // Device capabilities: payloads up to 256 bytes, extended tags, role-based errors, function level reset.
        self.put32(at + 4, 1 | 1 << 5 | 1 << 15 | 1 << 28, 0);
        // Device control: MRRS of 512 bytes; all but the reset keep what is written.
        self.put16(at + 8, 2 << 12 | 1 << 11 | 1 << 4, 0x7fff & !(1 << 9 | 1 << 10), 0);
        self.put16(at + 10, 0, 0, 0xf);
        // Link: 4 lanes of 16 GT/s.
        let link = 4 | 4 << 4;
        self.put32(at + 12, link, 0);
        self.put16(at + 16, 0, 1 << 6 | 1 << 3 | 0b11, 0);
        self.put16(at + 18, link as u16, 0, 0);
        // Device capabilities 2: completion timeouts can be disabled.
        self.put32(at + 36, 1 << 4, 0);
        self.put16(at + 40, 0, DEVICE_CONTROL2_BITS, 0);
        self.put32(at + 44, 0b1111 << 1, 0);
        self.put16(at + 48, 4, LINK_CONTROL2_BITS, 0);
    }

    /// Reads; `at` and the bytes behind it lie inside.
    pub(super) fn read(&self, at: usize, into: &mut [u8]) {
        for (index, byte) in into.iter_mut().enumerate() {
            *byte = self.value.get(at + index).copied().unwrap_or(0);
        }
    }

    /// Writes; `at` and the bytes behind it lie inside.
    pub(super) fn write(&mut self, at: usize, from: &[u8]) -> Effect {
        let power = self.value[at::POWER + 4];
        for (index, byte) in (at..).zip(from).filter(|(index, _)| *index < USED) {
            let kept = self.value[index] & !self.written[index];
            self.value[index] = (kept | byte & self.written[index]) & !(byte & self.cleared[index]);
        }
        // D1 and D2 are not supported: the write is dropped.
        if matches!(self.value[at::POWER + 4] & 0b11, 1 | 2) {
            self.value[at::POWER + 4] = power;
        }
        let flr = at::EXPRESS + 9;
        let byte = flr.checked_sub(at).and_then(|index| from.get(index));
        if byte.is_some_and(|byte| byte & (INITIATE_FLR >> 8) as u8 != 0) {
            self.reset();
            return Effect::Reset;
        }
        Effect::None
    }

    /// After a reset of the function everything is as at power on.
    pub(super) fn reset(&mut self) {
        self.value = self.initial;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BARS: [Bar; 3] = [
        Bar { size: 0x4000, prefetchable: false },
        Bar { size: 1 << 33, prefetchable: true },
        Bar { size: 0x2000, prefetchable: false },
    ];

    fn space() -> ConfigSpace {
        let identity = PciIdentity { vendor: 0x1234, device: 0x5678, revision: 9 };
        ConfigSpace::new(identity, BARS, MsiX { vectors: 65, bar: 4, pending: 0x1000 })
    }

    fn read32(space: &ConfigSpace, at: usize) -> u32 {
        let mut bytes = [0; 4];
        space.read(at, &mut bytes);
        u32::from_le_bytes(bytes)
    }

    fn write32(space: &mut ConfigSpace, at: usize, value: u32) -> u32 {
        assert_eq!(space.write(at, &value.to_le_bytes()), Effect::None);
        read32(space, at)
    }

    #[test]
    fn the_header_says_what_the_function_is() {
        let space = space();
        let dwords = [0, 4, 8, 0xc, 0x2c, 0x30, 0x34, 0x3c].map(|at| read32(&space, at));
        assert_eq!(
            dwords,
            [0x5678_1234, 0x0010_0000, 0x0108_0209, 0, 0x5678_1234, 0, 0x40, 0],
            "type 0, no interrupt pin, no ROM"
        );
    }

    #[test]
    fn bars_are_sized_by_writing_ones_and_keep_their_addresses() {
        let mut space = space();
        let sized: Vec<u32> = (0x10..0x28).step_by(4).map(|at| write32(&mut space, at, u32::MAX)).collect();
        assert_eq!(
            sized,
            [0xffff_c004, 0xffff_ffff, 0xc, 0xffff_fffe, 0xffff_e004, 0xffff_ffff],
            "64 bits wide, the second prefetchable"
        );
        assert_eq!(write32(&mut space, 0x10, 0xfebd_1234), 0xfebd_0004);
        assert_eq!(write32(&mut space, 0x1c, 0x0000_0039), 0x38);
        let none = [Bar { size: 0, prefetchable: false }; 3];
        let identity = PciIdentity { vendor: 1, device: 2, revision: 3 };
        let mut space = ConfigSpace::new(identity, none, MsiX { vectors: 1, bar: 4, pending: 0x1000 });
        assert_eq!(write32(&mut space, 0x18, u32::MAX), 0);
    }

    #[test]
    fn command_bits_and_no_others_can_be_set_and_status_bits_only_cleared() {
        let mut space = space();
        assert_eq!(write32(&mut space, 4, u32::MAX), 0x0010_0546);
        space.value[7] = 0xf9;
        assert_eq!(write32(&mut space, 4, 0x3800_0006), 0xc110_0006, "ones clear, zeros do not");
        assert_eq!(space.write(4, &[0]), Effect::None);
        assert_eq!(read32(&space, 4), 0xc110_0000);
        for at in [0, 8, 0x2c, 0x30, 0x34] {
            let before = read32(&space, at);
            assert_eq!(write32(&mut space, at, u32::MAX), before, "register {at:#x} is read only");
        }
        assert_eq!((write32(&mut space, 0xc, u32::MAX), write32(&mut space, 0x3c, u32::MAX)), (0xff, 0xff));
    }

    #[test]
    fn the_chain_has_power_management_msix_and_express() {
        let space = space();
        let (mut at, mut found) = (read32(&space, 0x34) as usize, Vec::new());
        while at != 0 {
            found.push(read32(&space, at) as u8);
            at = usize::from((read32(&space, at) >> 8) as u8);
        }
        assert_eq!(found, [0x01, 0x11, 0x10]);
        assert_eq!(read32(&space, 0x100), 0, "no extended capabilities");
    }

    #[test]
    fn msix_says_how_many_and_where_and_can_be_enabled_and_masked() {
        let mut space = space();
        assert_eq!(
            (read32(&space, 0x50), read32(&space, 0x54), read32(&space, 0x58)),
            (0x0040_6011, 4, 0x1004)
        );
        assert_eq!(write32(&mut space, 0x50, u32::MAX), 0xc040_6011);
        assert_eq!(write32(&mut space, 0x54, u32::MAX), 4);
    }

    #[test]
    fn power_states_are_d0_and_d3hot() {
        let mut space = space();
        assert_eq!(write32(&mut space, 0x44, 3), 0b1011);
        assert_eq!(write32(&mut space, 0x44, 1), 0b1011, "D1 is dropped");
        assert_eq!(write32(&mut space, 0x44, 0), 0b1000);
        assert_eq!(write32(&mut space, 0x44, 0xffff_ff03), 0b1011);
    }

    #[test]
    fn a_function_level_reset_is_told_and_leaves_nothing_of_what_was_written() {
        let mut space = space();
        assert_ne!(read32(&space, 0x64) & 1 << 28, 0, "it is offered");
        write32(&mut space, 4, 6);
        write32(&mut space, 0x10, 0xfebd_0000);
        assert_eq!(space.write(0x68, &[0, 0x7f]), Effect::None);
        assert_eq!(read32(&space, 0x68) as u16, 0x7900, "reserved bits stay zero");
        assert_eq!(space.write(0x68, &[0, 0x80, 0, 0]), Effect::Reset);
        assert_eq!((read32(&space, 4), read32(&space, 0x10)), (0x0010_0000, 4));
        assert_eq!(read32(&space, 0x68) as u16, 0x2810, "the bit reads as zero");
        assert_eq!(space.write(0x69, &[0x80]), Effect::Reset, "also by a byte");
        assert_eq!(space.write(0x6a, &[0x80]), Effect::None);
    }
}
