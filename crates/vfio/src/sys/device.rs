//! A device's file: regions, interrupts, resets. The same however the file was obtained.
// UNSAFETY: ioctls take addresses of structures.
#![expect(unsafe_code, reason = "ioctls take addresses of structures")]

use std::mem::offset_of;
use std::os::fd::{AsRawFd, BorrowedFd};

use vfio_bindings::bindings::vfio as abi;

use super::SysError;
use super::call::{Block, Request};

const GET_INFO: Request = Request::vfio("VFIO_DEVICE_GET_INFO", 7);
const GET_REGION_INFO: Request = Request::vfio("VFIO_DEVICE_GET_REGION_INFO", 8);
const GET_IRQ_INFO: Request = Request::vfio("VFIO_DEVICE_GET_IRQ_INFO", 9);
const SET_IRQS: Request = Request::vfio("VFIO_DEVICE_SET_IRQS", 10);
const RESET: Request = Request::vfio("VFIO_DEVICE_RESET", 11);
const GET_HOT_RESET_INFO: Request = Request::vfio("VFIO_DEVICE_GET_PCI_HOT_RESET_INFO", 12);
const HOT_RESET: Request = Request::vfio("VFIO_DEVICE_PCI_HOT_RESET", 13);

/// `VFIO_DEVICE_GET_INFO`, without capabilities.
pub(crate) fn info(device: BorrowedFd<'_>) -> Result<abi::vfio_device_info, SysError> {
    let mut info =
        abi::vfio_device_info { argsz: size_of::<abi::vfio_device_info>() as u32, ..Default::default() };
    // SAFETY: the request fills this structure.
    unsafe { GET_INFO.with(device, &mut info) }?;
    Ok(info)
}

/// `vfio_region_info` of a region, with its capabilities.
pub(crate) fn region(device: BorrowedFd<'_>, index: u32) -> Result<Vec<u8>, SysError> {
    let mut head = Block::zeroed(size_of::<abi::vfio_region_info>());
    head.set_u32(offset_of!(abi::vfio_region_info, index), index);
    // SAFETY: the request fills this structure and what follows it, up to `argsz`.
    unsafe { GET_REGION_INFO.reply(device, head) }.map(Block::into_bytes)
}

/// `VFIO_DEVICE_GET_IRQ_INFO` of an interrupt index.
pub(crate) fn irq(device: BorrowedFd<'_>, index: u32) -> Result<abi::vfio_irq_info, SysError> {
    let argsz = size_of::<abi::vfio_irq_info>() as u32;
    let mut info = abi::vfio_irq_info { argsz, index, ..Default::default() };
    // SAFETY: the request fills this structure.
    unsafe { GET_IRQ_INFO.with(device, &mut info) }?;
    Ok(info)
}

/// Connects the interrupts `start..` of `index` to eventfds; `None` leaves one without.
pub(crate) fn set_irqs(
    device: BorrowedFd<'_>,
    index: u32,
    start: u32,
    events: &[Option<BorrowedFd<'_>>],
) -> Result<(), SysError> {
    const FLAGS: u32 = abi::VFIO_IRQ_SET_DATA_EVENTFD | abi::VFIO_IRQ_SET_ACTION_TRIGGER;
    let fds = offset_of!(abi::vfio_irq_set, data);
    let mut block = Block::zeroed(fds + events.len() * size_of::<i32>());
    block.set_u32(offset_of!(abi::vfio_irq_set, flags), FLAGS);
    block.set_u32(offset_of!(abi::vfio_irq_set, index), index);
    block.set_u32(offset_of!(abi::vfio_irq_set, start), start);
    block.set_u32(offset_of!(abi::vfio_irq_set, count), events.len() as u32);
    for (position, event) in events.iter().enumerate() {
        let fd = event.map_or(-1, |fd| fd.as_raw_fd());
        block.set_u32(fds + position * size_of::<i32>(), fd as u32);
    }
    // SAFETY: the request reads this structure and the descriptors behind it.
    unsafe { SET_IRQS.block(device, &mut block) }.map(drop)
}

/// Resets the function.
pub(crate) fn reset(device: BorrowedFd<'_>) -> Result<(), SysError> {
    // SAFETY: the request takes nothing.
    unsafe { RESET.number(device, 0) }.map(drop)
}

/// `vfio_pci_hot_reset_info`: the functions that a reset of the bus or slot resets together.
pub(crate) fn hot_reset_info(device: BorrowedFd<'_>) -> Result<Vec<u8>, SysError> {
    // With room for a bus of functions: the kernel answers ENOSPC and not `argsz` alone when it is short.
    const MOST: usize = 256;
    let len = offset_of!(abi::vfio_pci_hot_reset_info, devices)
        + MOST * size_of::<abi::vfio_pci_dependent_device>();
    let mut block = Block::zeroed(len);
    // SAFETY: the request fills this structure and what follows it, up to `argsz`.
    unsafe { GET_HOT_RESET_INFO.block(device, &mut block) }?;
    Ok(block.into_bytes())
}

/// Resets the bus or slot. `groups` prove that all functions there are ours; a device that came through its own
/// character device passes none.
pub(crate) fn hot_reset(device: BorrowedFd<'_>, groups: &[BorrowedFd<'_>]) -> Result<(), SysError> {
    let fds = offset_of!(abi::vfio_pci_hot_reset, group_fds);
    let mut block = Block::zeroed(fds + size_of_val(groups));
    block.set_u32(offset_of!(abi::vfio_pci_hot_reset, count), groups.len() as u32);
    for (position, group) in groups.iter().enumerate() {
        block.set_u32(fds + position * size_of::<i32>(), group.as_raw_fd() as u32);
    }
    // SAFETY: the request reads this structure and the descriptors behind it.
    unsafe { HOT_RESET.block(device, &mut block) }.map(drop)
}
