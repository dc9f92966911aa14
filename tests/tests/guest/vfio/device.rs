//! Opening, registers, page faults, interrupts, reset.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use warpbell_driver::{Notification, QueueSpec};
use warpbell_hw::{BASE_PAGE, Device, DeviceKind, DmaBuffer, InterruptError, ResetError, ResetKind, Window};
use warpbell_nvme::register::{Cap, Cc, Vs, offset};
use warpbell_vfio::{Backend, PciDevice, PciOptions, fault_in};

use super::fixture::*;

#[test]
fn a_function_is_opened_once_and_answers() {
    let Some(fixture) = Fixture::new() else { return };
    let bdf = fixture.ssd("WARP0");
    let device = open(bdf);
    assert_eq!((device.info().name, device.info().kind), (bdf.to_string(), DeviceKind::Pcie));
    assert_eq!(device.route().backend, Backend::Type1);
    assert_eq!(device.pci_id().unwrap().to_string(), "1b36:0010");
    let cap = Cap::from_bits(device.registers().read64(offset::CAP));
    assert!(cap.max_queue_entries() >= 64 && cap.supports_nvm(), "{cap:?}");
    assert_eq!(u64::from(device.registers().read32(offset::CAP)), cap.into_bits() & 0xffff_ffff);
    assert!(Vs::from_bits(device.registers().read32(offset::VS)).at_least(1, 3));
    assert!(device.last_mapped_queue() >= 64);
    let text = PciDevice::open(bdf, &PciOptions::default()).unwrap_err().to_string();
    assert!(text.contains("has it open already"), "{text}");
    drop(device);
    open(bdf);
}

/// Minor faults of this thread.
fn faults() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let after_name = stat.rsplit_once(')').unwrap().1;
    after_name.split_whitespace().nth(7).unwrap().parse().unwrap()
}

/// Faults of one access, after the counting itself has made its own.
fn faults_of(access: impl Fn()) -> u64 {
    faults();
    let before = faults();
    access();
    faults() - before
}

/// Reads a word of each page.
#[inline(never)]
fn touch(window: &Window, bytes: usize) {
    for at in (0..bytes).step_by(BASE_PAGE) {
        window.load_u32(at, Ordering::Relaxed);
    }
}

#[test]
fn pages_of_a_bar_are_there_once_touched_and_after_a_reset_too() {
    let Some(fixture) = Fixture::new() else { return };
    let device = open(fixture.ssd("WARP0"));
    let window = device.doorbells().window();
    let memory = DmaBuffer::host(device.dma(), BASE_PAGE).unwrap();
    touch(memory.window(), BASE_PAGE); // the code of the access has pages of its own
    assert_eq!(faults_of(|| touch(&window, BASE_PAGE)), 1, "vfio-pci fills pages in when they are touched");
    assert_eq!(faults_of(|| touch(&window, BASE_PAGE)), 0);
    fault_in(&window);
    let pages = || touch(&window, window.len());
    assert_eq!(faults_of(pages), 0, "all of them");
    device.reset().reset(ResetKind::Function).unwrap();
    assert_eq!(faults_of(pages), 0, "and again after a reset");
}

#[test]
fn vectors_are_added_one_at_a_time() {
    let Some(fixture) = Fixture::new() else { return };
    let device = open(fixture.ssd("WARP0"));
    let interrupts = device.interrupts();
    assert_eq!(interrupts.count(), 65);
    let events: Vec<_> = [0, 5, 1, 64, 5].map(|vector| interrupts.subscribe(vector).unwrap()).into();
    assert_eq!(events.len(), 5);
    let error = interrupts.subscribe(65).unwrap_err();
    assert!(matches!(error, InterruptError::NoSuchVector { vector: 65, count: 65 }), "{error}");
    device.errors().unwrap();
    device.release_requests().unwrap();
}

/// Brings the controller up, resets it, and brings it up again: interrupts come as before.
fn resets(device: &Arc<PciDevice>, reset: impl Fn() -> Result<(), ResetError>) {
    let controller = control(device);
    let enabled = || Cc::from_bits(device.registers().read32(offset::CC)).en();
    assert!(enabled());
    reset().unwrap();
    assert!(!enabled());
    drop(controller);
    let controller = control(device);
    let buffer = DmaBuffer::host(device.dma(), 8192).unwrap();
    let spec = QueueSpec::new(16).notification(Notification::Interrupt);
    let mut queue = io_queue(&controller, spec);
    write_and_compare(&mut queue, &buffer, 11);
    controller.delete_queue_pair(queue.into_pair()).unwrap();
    controller.shutdown().unwrap();
}

#[test]
fn a_controller_comes_up_again_after_a_reset_of_the_function_or_of_its_bus() {
    let Some(fixture) = Fixture::new() else { return };
    let device = open(fixture.ssd("WARP0"));
    resets(&device, || device.reset().reset(ResetKind::Function));
    resets(&device, || device.reset_bus());
}

#[test]
fn a_function_on_the_root_bus_has_no_bus_to_reset() {
    let Some(fixture) = Fixture::new() else { return };
    fixture.ssd("MATE1");
    let device = open(fixture.ssd("MATE0"));
    let error = device.reset_bus().unwrap_err();
    assert!(matches!(error, ResetError::Unavailable { .. }), "{error}");
}
