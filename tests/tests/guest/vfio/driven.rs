//! The driver over real vfio-pci: queues by interrupt and by polling, all placements, several SSDs.

use std::os::fd::OwnedFd;

use warpbell_driver::{Notification, QueueSpec, RingMemory};
use warpbell_hw::{Device, DmaAccess, DmaBuffer, Window};
use warpbell_nvme::command;
use warpbell_vfio::ForeignMemory;

use super::fixture::*;

#[test]
fn blocks_come_back_by_interrupt_and_by_polling() {
    let Some(fixture) = Fixture::new() else { return };
    let device = open(fixture.ssd("WARP0"));
    let controller = control(&device);
    assert_eq!(controller.identify().serial(), "WARP0");
    let buffer = DmaBuffer::host(device.dma(), 8192).unwrap();
    for notification in [Notification::Polled, Notification::Interrupt] {
        let mut queue = io_queue(&controller, QueueSpec::new(16).notification(notification));
        write_and_compare(&mut queue, &buffer, 2);
        controller.delete_queue_pair(queue.into_pair()).unwrap();
    }
    controller.shutdown().unwrap();
}

#[test]
fn interrupts_of_a_queue_are_counted_by_its_eventfd() {
    let Some(fixture) = Fixture::new() else { return };
    let device = open(fixture.ssd("WARP0"));
    let controller = control(&device);
    let buffer = DmaBuffer::host(device.dma(), 8192).unwrap();
    let spec = QueueSpec::new(16).notification(Notification::Vector(3));
    let mut queue = io_queue(&controller, spec);
    // In place of the driver's own, which looks without an interrupt too, now and then.
    let event = device.interrupts().subscribe(3).unwrap();
    let other = device.interrupts().subscribe(4).unwrap();
    succeed(&mut queue, command::read(1, 0, 0).with_prp(buffer.iova().0, 0));
    let counted = |event: &OwnedFd| {
        let mut count = [0; 8];
        rustix::io::read(event, &mut count).map(|_| u64::from_ne_bytes(count))
    };
    wait_for("an interrupt", || counted(&event).is_ok_and(|count| count > 0));
    assert!(counted(&other).is_err(), "a vector that no queue has");
    controller.delete_queue_pair(queue.into_pair()).unwrap();
    controller.shutdown().unwrap();
}

#[test]
fn rings_and_data_may_lie_in_a_bar_of_another_function() {
    let Some(fixture) = Fixture::new() else { return };
    let device = open(fixture.ssd("WARP0"));
    let bar = ForeignMemory::open(fixture.gpu(), 2).unwrap();
    let part = |at: usize, len: usize| {
        let window: Window = bar.slice(at, len).unwrap();
        window.fill(0, len, 0).unwrap();
        DmaBuffer::map(device.dma(), window, DmaAccess::READ_WRITE).unwrap()
    };
    let controller = control(&device);
    let foreign_data = part(0x10_0000, 8192);
    let host_data = DmaBuffer::host(device.dma(), 8192).unwrap();
    for (foreign_rings, data) in [(true, &foreign_data), (true, &host_data), (false, &foreign_data)] {
        let mut spec = QueueSpec::new(8);
        if foreign_rings {
            spec.sq_memory = RingMemory::Buffer(part(0, 4096));
            spec.cq_memory = RingMemory::Buffer(part(0x1000, 4096));
        }
        let mut queue = io_queue(&controller, spec);
        write_and_compare(&mut queue, data, 3 + u64::from(foreign_rings));
        controller.delete_queue_pair(queue.into_pair()).unwrap();
    }
    controller.shutdown().unwrap();
}

#[test]
fn submission_rings_may_lie_in_controller_memory() {
    let Some(fixture) = Fixture::new() else { return };
    let device = open(fixture.ssd("WARP1"));
    let controller = control(&device);
    assert_eq!(device.controller_memory().expect("WARP1 has 4 MiB").len(), 4 << 20);
    let buffer = DmaBuffer::host(device.dma(), 8192).unwrap();
    let spec = QueueSpec::new(16).sq_memory(RingMemory::Controller);
    let mut queue = io_queue(&controller, spec);
    write_and_compare(&mut queue, &buffer, 5);
    controller.delete_queue_pair(queue.into_pair()).unwrap();
    controller.shutdown().unwrap();
    let without = open(fixture.ssd("WARP0"));
    assert!(without.controller_memory().is_none());
}

#[test]
fn a_buffer_mapped_by_one_ssd_is_reached_by_the_others() {
    let Some(fixture) = Fixture::new() else { return };
    let devices = [open(fixture.ssd("WARP0")), open(fixture.ssd("WARP1"))];
    let buffer = DmaBuffer::host(devices[0].dma(), 8192).unwrap();
    let controllers = devices.each_ref().map(control);
    let mut queues = controllers.each_ref().map(|controller| io_queue(controller, QueueSpec::new(16)));
    for (seed, queue) in queues.iter_mut().enumerate() {
        write_and_compare(queue, &buffer, 6 + seed as u64);
    }
    let [first, second] = queues;
    controllers[0].delete_queue_pair(first.into_pair()).unwrap();
    // The first SSD goes, and the buffer that it mapped stays.
    let [gone, stays] = controllers;
    gone.shutdown().unwrap();
    let [gone, _stays] = devices;
    drop(gone);
    let mut second = second;
    write_and_compare(&mut second, &buffer, 8);
    stays.delete_queue_pair(second.into_pair()).unwrap();
    stays.shutdown().unwrap();
}
