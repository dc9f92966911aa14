//! An IOMMU group with two functions.

use std::fs;

use warpbell_hw::Device;
use warpbell_nvme::register::offset;
use warpbell_vfio::{PciDevice, PciOptions, VfioError};

use super::fixture::*;

#[test]
fn a_group_is_open_to_all_its_functions_once_none_has_another_driver() {
    let Some(fixture) = Fixture::new() else { return };
    let (first, second) = (fixture.ssd("MATE0"), fixture.function("MATE1"));
    release(second);
    let group = |bdf| fs::read_link(format!("/sys/bus/pci/devices/{bdf}/iommu_group")).unwrap();
    assert_eq!(group(first), group(second), "functions of one slot");
    let error = PciDevice::open(first, &PciOptions::default()).unwrap_err();
    assert!(matches!(error, VfioError::NotViable { .. }), "{error}");
    assert!(error.to_string().contains(&format!("{second} (nvme)")), "{error}");
    bind(second);
    let devices = [open(first), open(second)];
    for device in &devices {
        assert_ne!(device.registers().read64(offset::CAP), u64::MAX);
    }
    let [one, other] = devices;
    drop(one);
    assert_ne!(other.registers().read64(offset::CAP), u64::MAX, "the group stays for the other");
    open(first);
}
