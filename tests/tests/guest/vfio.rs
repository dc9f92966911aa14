//! The VFIO backend itself, below `Ssd`: BARs, interrupts, resets, groups, and what the DMA space allows.
//!
//! Hotplug is by the ports themselves: with ACPI's, QEMU's ports never report their link again after a reset of the bus.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod device;
mod driven;
mod fixture;
mod groups;
mod ioctls;
mod memory;
