//! Controllers that need to be treated otherwise than the specification says, by PCI ID (from the tables of Linux
//! and SPDK; only what matters to this driver).

use std::time::Duration;

use warpbell_hw::PciId;
use warpbell_nvme::command::QueuePriority;

/// What is different about a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quirks {
    /// To wait after each change of CC.EN before CSTS is read.
    pub(crate) ready_delay: Duration,
    /// To wait after a function level reset.
    pub(crate) reset_delay: Duration,
    /// To wait after a queue was created.
    pub(crate) create_delay: Duration,
    /// Bits of the addresses that it can access.
    pub(crate) dma_bits: u32,
    /// Its SGLs do not work.
    pub(crate) no_sgl: bool,
    /// Vectors that it claims and does not have.
    pub(crate) vectors_less: u16,
    /// The largest I/O queue, whatever CAP.MQES says.
    pub(crate) max_entries: u32,
    /// Admin queues have at least so many entries: it wants whole pages.
    pub(crate) admin_entries: u32,
    /// The priority that queues need even without weighted round robin.
    pub(crate) priority: Option<QueuePriority>,
    /// Why this driver cannot use it at all.
    pub(crate) unusable: Option<&'static str>,
}

impl Quirks {
    /// A controller as the specification has it.
    const NONE: Quirks = Quirks {
        ready_delay: Duration::ZERO,
        reset_delay: Duration::ZERO,
        create_delay: Duration::ZERO,
        dma_bits: 64,
        no_sgl: false,
        vectors_less: 0,
        max_entries: u32::MAX,
        admin_entries: 1,
        priority: None,
        unusable: None,
    };

    /// What is known of a function.
    pub(crate) fn of(id: Option<PciId>) -> Quirks {
        let matches = |entry: &&Entry| {
            id.is_some_and(|id| {
                entry.vendor == id.vendor && (entry.devices.is_empty() || entry.devices.contains(&id.device))
            })
        };
        TABLE.iter().find(matches).map_or(Quirks::NONE, |entry| entry.quirks)
    }
}

/// A line of the table: no devices stand for all of a vendor.
struct Entry {
    vendor: u16,
    devices: &'static [u16],
    quirks: Quirks,
}

const SLOW_READY: Quirks = Quirks { ready_delay: Duration::from_millis(2500), ..Quirks::NONE };

/// The first line that matches counts.
const TABLE: &[Entry] = &[
    // Samsung PM1725, HGST SN200, Memblaze Pblaze4, Seagate Nytro: CSTS is not to be read at once.
    Entry { vendor: 0x144d, devices: &[0xa821, 0xa822, 0xa826], quirks: SLOW_READY },
    Entry { vendor: 0x1c58, devices: &[0x0003, 0x0023], quirks: SLOW_READY },
    Entry { vendor: 0x1c5f, devices: &[0x0540], quirks: SLOW_READY },
    Entry { vendor: 0x1bb1, devices: &[0x0100], quirks: SLOW_READY },
    // Intel P3x00 and P4x00.
    Entry {
        vendor: 0x8086,
        devices: &[0x0953, 0x0a53, 0x0a54],
        quirks: Quirks { reset_delay: Duration::from_secs(2), ..Quirks::NONE },
    },
    // Intel 600p: turns on weighted round robin by itself.
    Entry {
        vendor: 0x8086,
        devices: &[0xf1a5],
        quirks: Quirks { priority: Some(QueuePriority::MEDIUM), ..Quirks::NONE },
    },
    // Amazon's controllers.
    Entry {
        vendor: 0x1d0f,
        devices: &[0x0061, 0x0065, 0x8061, 0xcd00, 0xcd01, 0xcd02],
        quirks: Quirks { dma_bits: 48, ..Quirks::NONE },
    },
    Entry { vendor: 0x19e5, devices: &[], quirks: Quirks { no_sgl: true, ..Quirks::NONE } },
    Entry { vendor: 0x1344, devices: &[], quirks: Quirks { vectors_less: 1, ..Quirks::NONE } },
    Entry { vendor: 0x1414, devices: &[0xb111], quirks: Quirks { admin_entries: 64, ..Quirks::NONE } },
    Entry {
        vendor: 0x80ee,
        devices: &[0x4e56],
        quirks: Quirks { create_delay: Duration::from_millis(5), ..Quirks::NONE },
    },
    Entry { vendor: 0x106b, devices: &[0x2001], quirks: Quirks { max_entries: 2, ..Quirks::NONE } },
    Entry {
        vendor: 0x106b,
        devices: &[0x2005],
        quirks: Quirks {
            unusable: Some("it takes entries of 128 bytes and shares identifiers between queues"),
            ..Quirks::NONE
        },
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn of(vendor: u16, device: u16) -> Quirks {
        Quirks::of(Some(PciId { vendor, device }))
    }

    #[test]
    fn known_functions_are_found_and_others_are_as_specified() {
        assert_eq!(of(0x144d, 0xa822).ready_delay, Duration::from_millis(2500));
        assert_eq!(of(0x144d, 0xa80a), Quirks::NONE);
        assert_eq!(of(0x1d0f, 0xcd01).dma_bits, 48);
        assert_eq!(of(0x8086, 0x0a54).reset_delay, Duration::from_secs(2));
        assert_eq!(of(0x8086, 0xf1a5).priority, Some(QueuePriority::MEDIUM));
        assert!(of(0x19e5, 0x1711).no_sgl && of(0x19e5, 0x3714).no_sgl, "all of the vendor");
        assert_eq!(Quirks::of(None), Quirks::NONE);
        assert_eq!(of(0x1b36, 0x0010), Quirks::NONE, "QEMU");
    }

    #[test]
    fn every_line_is_reached_and_says_something() {
        for (index, entry) in TABLE.iter().enumerate() {
            assert_ne!(entry.quirks, Quirks::NONE, "line {index}");
            for device in entry.devices.iter().chain(entry.devices.is_empty().then_some(&0)) {
                assert_eq!(
                    of(entry.vendor, *device),
                    entry.quirks,
                    "line {index} is hidden by one before it"
                );
            }
        }
    }
}
