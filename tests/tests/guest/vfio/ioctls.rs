//! What vfio-ioctls, another reader of the same kernel interface, finds in a function.

use std::path::Path;
use std::sync::Arc;

use vfio_bindings::bindings::vfio as abi;
use vfio_ioctls::{VfioContainer, VfioDevice};
use warpbell_hw::Device;
use warpbell_nvme::register::offset;

use super::fixture::*;

/// Lets the function decode memory.
const COMMAND: u64 = 4;
const MEMORY: u16 = 1 << 1;

#[test]
fn vfio_ioctls_finds_the_same_function() {
    let Some(fixture) = Fixture::new() else { return };
    let bdf = fixture.ssd("WARP0");
    let (id, cap, vectors) = {
        let container = Arc::new(VfioContainer::new(None).unwrap());
        let folder = format!("/sys/bus/pci/devices/{bdf}");
        let device = VfioDevice::new(Path::new(&folder), container, true).unwrap();
        let (mut id, mut cap) = ([0; 4], [0; 8]);
        device.region_read(abi::VFIO_PCI_CONFIG_REGION_INDEX, &mut id, 0);
        device.region_write(abi::VFIO_PCI_CONFIG_REGION_INDEX, &MEMORY.to_le_bytes(), COMMAND);
        device.region_read(abi::VFIO_PCI_BAR0_REGION_INDEX, &mut cap, offset::CAP.into());
        let vectors = device.get_irq_info(abi::VFIO_PCI_MSIX_IRQ_INDEX).unwrap().count;
        (u32::from_le_bytes(id), u64::from_le_bytes(cap), vectors)
    };
    let ours = open(bdf);
    let found = ours.pci_id().unwrap();
    assert_eq!(u32::from(found.vendor) | u32::from(found.device) << 16, id);
    assert_eq!(ours.registers().read64(offset::CAP), cap);
    assert_eq!(u32::from(ours.interrupts().count()), vectors);
}
