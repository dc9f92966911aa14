//! Configuration space as sysfs shows it: capabilities that decide how functions reach each other.

/// Where configuration space of PCI ends; users who are not root see only 64 bytes of it.
const BASE_END: usize = 0x100;
/// Identifiers of capabilities.
const CAP_PCIE: u8 = 0x10;
const CAP_MSIX: u8 = 0x11;
/// Identifiers of extended capabilities.
const EXT_SERIAL: u16 = 0x0003;
const EXT_ACS: u16 = 0x000d;
const EXT_REBAR: u16 = 0x0015;

/// What was readable of a function's configuration space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigSpace {
    bytes: Vec<u8>,
}

/// What a function is on the PCIe tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// A function of a device.
    Endpoint,
    /// A port of the root complex.
    Root,
    /// The port of a switch towards the root complex.
    Upstream,
    /// A port of a switch away from the root complex.
    Downstream,
    /// Anything else.
    Other,
}

/// Access Control Services of a port: what it does with requests between those below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acs {
    /// The control register.
    pub control: u16,
}

impl Acs {
    /// Whether requests between functions below the port are sent up to the root complex.
    pub fn redirects(self) -> bool {
        const REQUEST_REDIRECT: u16 = 1 << 2;
        self.control & REQUEST_REDIRECT != 0
    }
}

/// The MSI-X table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Msix {
    /// Entries.
    pub vectors: u16,
    /// The BAR that holds the table.
    pub bar: u8,
    /// Offset of the table in it.
    pub offset: u32,
}

impl ConfigSpace {
    /// Over what a read of `config` gave.
    pub fn new(bytes: Vec<u8>) -> ConfigSpace {
        ConfigSpace { bytes }
    }

    /// Whether capabilities could be read: not for users who are not root.
    pub fn has_capabilities(&self) -> bool {
        self.bytes.len() > 0x40
    }

    /// Whether extended capabilities could be read.
    pub fn has_extended(&self) -> bool {
        self.bytes.len() > BASE_END
    }

    fn u16(&self, at: usize) -> Option<u16> {
        Some(u16::from_le_bytes(self.bytes.get(at..at + 2)?.try_into().ok()?))
    }

    fn u32(&self, at: usize) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes.get(at..at + 4)?.try_into().ok()?))
    }

    /// Offset of a capability. The list may be damaged: no entry is visited more often than there are places.
    fn capability(&self, id: u8) -> Option<usize> {
        let mut at = usize::from(*self.bytes.get(0x34)? & !3);
        for _ in 0..48 {
            if at < 0x40 {
                return None;
            }
            if *self.bytes.get(at)? == id {
                return Some(at);
            }
            at = usize::from(*self.bytes.get(at + 1)? & !3);
        }
        None
    }

    /// Offset of an extended capability, likewise.
    fn extended(&self, id: u16) -> Option<usize> {
        let mut at = BASE_END;
        for _ in 0..960 {
            let header = self.u32(at).filter(|header| *header != 0 && *header != u32::MAX)?;
            if header as u16 == id {
                return Some(at);
            }
            at = (header >> 20) as usize & !3;
            if at < BASE_END {
                return None;
            }
        }
        None
    }

    /// What it is on the tree.
    pub fn port_kind(&self) -> Option<PortKind> {
        let flags = self.u16(self.capability(CAP_PCIE)? + 2)?;
        Some(match flags >> 4 & 0xf {
            0 | 1 | 9 => PortKind::Endpoint,
            4 => PortKind::Root,
            5 => PortKind::Upstream,
            6 => PortKind::Downstream,
            _ => PortKind::Other,
        })
    }

    /// Access Control Services, if the function has them.
    pub fn acs(&self) -> Option<Acs> {
        Some(Acs { control: self.u16(self.extended(EXT_ACS)? + 6)? })
    }

    /// The MSI-X table, if there is one.
    pub fn msix(&self) -> Option<Msix> {
        let at = self.capability(CAP_MSIX)?;
        let (control, table) = (self.u16(at + 2)?, self.u32(at + 4)?);
        Some(Msix { vectors: (control & 0x7ff) + 1, bar: (table & 7) as u8, offset: table & !7 })
    }

    /// The largest size in bytes that BAR `bar` can be given, if it can be resized.
    pub fn largest_bar(&self, bar: u8) -> Option<u64> {
        let at = self.extended(EXT_REBAR)?;
        let bars = self.u32(at + 8)? >> 5 & 7;
        let entry = (0..bars as usize).map(|index| at + 4 + 8 * index);
        let (sizes, control) = entry
            .filter_map(|at| Some((self.u32(at)?, self.u32(at + 4)?)))
            .find(|one| one.1 & 7 == u32::from(bar))?;
        // Bit 4 stands for 1 MiB; the control register goes on above bit 31 of the first.
        let all = u64::from(sizes) >> 4 | u64::from(control >> 16) << 28;
        (all != 0).then(|| 1 << (20 + u64::BITS - 1 - all.leading_zeros()))
    }

    /// The bytes, without the device's serial number where it has that capability.
    pub fn without_serial(&self) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        if let Some(serial) = self.extended(EXT_SERIAL).and_then(|at| bytes.get_mut(at + 4..at + 12)) {
            serial.fill(0);
        }
        bytes
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(capabilities: &[(usize, &[u8])]) -> ConfigSpace {
        let mut bytes = vec![0; 0x200];
        for (at, part) in capabilities {
            bytes[*at..at + part.len()].copy_from_slice(part);
        }
        ConfigSpace::new(bytes)
    }

    #[test]
    fn capabilities_are_found_along_the_lists() {
        let config = space(&[
            (0x34, &[0x40]),
            (0x40, &[CAP_PCIE, 0x60, 0x62, 0x01]),
            (0x60, &[CAP_MSIX, 0, 0x40, 0x80, 0x04, 0x20, 0, 0]),
            (0x100, &[0x03, 0, 0x01, 0x11, 1, 2, 3, 4, 5, 6, 7, 8]),
            (0x110, &[0x0d, 0, 0x01, 0x12, 0, 0, 0x1d, 0]),
            (0x120, &[0x15, 0, 0x01, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        ]);
        assert_eq!(config.port_kind(), Some(PortKind::Downstream));
        assert_eq!(config.msix(), Some(Msix { vectors: 65, bar: 4, offset: 0x2000 }));
        assert!(config.acs().unwrap().redirects());
        assert!(config.has_extended() && config.has_capabilities());
        let without = config.without_serial();
        assert_eq!(&without[0x104..0x10c], &[0; 8]);
        assert_eq!(&config.bytes()[0x104..0x10c], &[1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn the_largest_size_of_a_bar_is_read() {
        // BAR 1: 256 MiB (bit 12) to 16 GiB (bit 18), and it has 256 MiB.
        let config = space(&[(0x100, &[0x15, 0, 0x01, 0, 0, 0xf0, 0x07, 0, 0x21, 0x08, 0, 0])]);
        assert_eq!(config.largest_bar(1), Some(16 << 30));
        assert_eq!(config.largest_bar(0), None);
        // 1 TiB: bit 24 of the first.
        let config = space(&[(0x100, &[0x15, 0, 0x01, 0, 0, 0, 0, 1, 0x21, 0, 0, 0])]);
        assert_eq!(config.largest_bar(1), Some(1 << 40));
    }

    #[test]
    fn damaged_or_short_spaces_have_no_capabilities() {
        assert_eq!(ConfigSpace::new(vec![0; 64]).port_kind(), None);
        assert!(!ConfigSpace::new(vec![0; 64]).has_capabilities());
        assert_eq!(ConfigSpace::default().acs(), None);
        let looping = space(&[(0x34, &[0x40]), (0x40, &[0x99, 0x40]), (0x100, &[0x99, 0, 1, 0x10])]);
        assert_eq!((looping.msix(), looping.acs()), (None, None));
    }
}
