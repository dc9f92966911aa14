//! The DMA space: limits, mappings, locked memory, memory of another function.

use std::fs;
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use warpbell::OpenOptions;
use warpbell_hw::{
    Device, DmaAccess, DmaBuffer, DmaError, DmaSource, HUGE_PAGE, HostMemory, Iova, Memory, Window,
};
use warpbell_tests::suite;
use warpbell_vfio::{Bdf, ForeignMemory, PciDevice, PciOptions};

use super::fixture::*;

fn own() -> PciOptions {
    PciOptions::new().own_dma_space(true)
}

#[test]
fn limits_are_those_of_the_iommu() {
    let Some(fixture) = Fixture::new() else { return };
    let limits = open(fixture.ssd("WARP0")).dma().limits();
    assert_eq!((limits.page_size, limits.mappings), (4096, 65535));
    assert_eq!(*limits.ranges[0].start(), 4096, "{limits:x?}");
    assert_eq!(*limits.ranges.last().unwrap().end(), 0x7f_ffff_ffff, "VT-d with 39 bits: {limits:x?}");
    let usable = |address: u64| limits.ranges.iter().any(|range| range.contains(&address));
    assert!(usable(0x10_0000) && !usable(0xfee0_0000), "interrupts have their own window: {limits:x?}");
    let bridge = fs::read_to_string("/sys/bus/pci/devices/0000:01:00.0/resource").unwrap();
    let bar =
        u64::from_str_radix(bridge.split_whitespace().next().unwrap().trim_start_matches("0x"), 16).unwrap();
    assert!(!usable(bar), "what the bridge forwards, such as BAR0 at {bar:#x}: {limits:x?}");
}

#[test]
fn memory_is_mapped_where_there_is_room_and_unmapped_as_it_was() {
    let Some(fixture) = Fixture::new() else { return };
    let device = open(fixture.ssd("WARP0"));
    let space = device.dma();
    let small = DmaBuffer::host(space.clone(), 4096).unwrap();
    let large = DmaBuffer::host(space.clone(), 4 * HUGE_PAGE).unwrap();
    assert_eq!(large.iova().0 % HUGE_PAGE as u64, 0);
    assert!(space.unmap(small.iova(), 8192).is_err());
    let memory = HostMemory::new(8192).unwrap();
    let (fd, offset) = memory.file().unwrap();
    let file = DmaSource::File { fd: fd.as_fd(), offset, len: 8192 };
    let at = space.map(file, DmaAccess::READ).unwrap();
    space.unmap(at, 8192).unwrap();
    let error = space.unmap(at, 8192).unwrap_err();
    assert!(matches!(error, DmaError::NotMapped { .. }), "{error}");
    let first = small.iova();
    drop(small);
    assert_eq!(DmaBuffer::host(space, 4096).unwrap().iova(), first);
}

/// A device with a DMA space of its own, in which the kernel allows so many mappings.
fn with_mappings(limit: u32, bdf: Bdf) -> Arc<PciDevice> {
    let parameter = "/sys/module/vfio_iommu_type1/parameters/dma_entry_limit";
    let usual = fs::read_to_string(parameter).unwrap();
    fs::write(parameter, limit.to_string()).unwrap();
    let device = PciDevice::open(bdf, &own());
    fs::write(parameter, usual.trim()).unwrap();
    device.unwrap()
}

#[test]
fn the_kernel_limit_of_mappings_is_known_before_it_is_hit() {
    let Some(fixture) = Fixture::new() else { return };
    let device = with_mappings(3, fixture.ssd("WARP0"));
    let space = device.dma();
    assert_eq!(space.limits().mappings, 3);
    let window = Window::host(4096).unwrap();
    let map = || space.map(DmaSource::Memory(&window), DmaAccess::READ_WRITE);
    let mapped: Vec<Iova> = (0..3).map(|_| map().unwrap()).collect();
    assert!(matches!(map(), Err(DmaError::TooMany { limit: 3 })));
    space.unmap(mapped[1], 4096).unwrap();
    assert_eq!(map().unwrap(), mapped[1]);
}

/// Each queue has two rings and a buffer: a mapping for each would be 48, besides those of the admin queue and of kernels.
#[test]
fn sixteen_queues_and_their_buffers_fit_into_few_mappings_of_the_kernel() {
    const FEW: u32 = 8;
    let Some(fixture) = Fixture::new() else { return };
    let device = with_mappings(FEW, fixture.ssd("WARP0"));
    assert_eq!(device.dma().limits().mappings, FEW);
    let ssd = crate::fixture::over(device, &OpenOptions::default());
    suite::host_queues_and_those_of_kernels(&ssd);
}

/// Runs a closure in a thread that may lock 64 KiB.
fn with_little_lockable<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let usual = getrlimit(Resource::Memlock);
    let little = Rlimit { current: Some(64 << 10), maximum: usual.maximum };
    setrlimit(Resource::Memlock, little).unwrap();
    let done = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let mut sets = capabilities(None).unwrap();
            sets.effective.remove(CapabilitySet::IPC_LOCK);
            set_capabilities(None, sets).unwrap();
            work()
        });
        thread.join()
    });
    setrlimit(Resource::Memlock, usual).unwrap();
    done.unwrap()
}

#[test]
fn too_little_lockable_memory_is_explained_and_a_bar_does_not_count() {
    let Some(fixture) = Fixture::new() else { return };
    let (ssd, gpu) = (fixture.ssd("WARP0"), fixture.gpu());
    let device = PciDevice::open(ssd, &own()).unwrap();
    let bar = ForeignMemory::open(gpu, 2).unwrap();
    let (host, foreign) = with_little_lockable(|| {
        let host = DmaBuffer::host(device.dma(), HUGE_PAGE).map(drop);
        let foreign = DmaBuffer::map(device.dma(), bar.slice(0, 4 << 20).unwrap(), DmaAccess::READ_WRITE);
        (host, foreign.map(drop))
    });
    let text = host.unwrap_err().to_string();
    for part in ["2097152 bytes", "may lock 64 KiB", "ulimit -l 20", "LimitMEMLOCK=", "CAP_IPC_LOCK"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    foreign.unwrap();
}

#[test]
fn a_space_of_its_own_shares_nothing() {
    let Some(fixture) = Fixture::new() else { return };
    let (shared, own) = (open(fixture.ssd("WARP0")), PciDevice::open(fixture.ssd("WARP1"), &own()).unwrap());
    let held = DmaBuffer::host(shared.dma(), 4096).unwrap();
    let other = DmaBuffer::host(own.dma(), 4096).unwrap();
    assert_eq!(held.iova(), other.iova(), "each space begins anew");
}

#[test]
fn mappings_outlive_the_last_device_and_meet_it_again() {
    let Some(fixture) = Fixture::new() else { return };
    let bdf = fixture.ssd("WARP0");
    let device = open(bdf);
    let held = DmaBuffer::host(device.dma(), 8192).unwrap();
    drop(device);
    let device = open(bdf);
    let controller = control(&device);
    let mut queue = io_queue(&controller, warpbell_driver::QueueSpec::new(16));
    write_and_compare(&mut queue, &held, 1);
    controller.delete_queue_pair(queue.into_pair()).unwrap();
    drop((controller, device));
    drop(held);
    open(bdf);
}
