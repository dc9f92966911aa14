//! A controller as a transport serves it to clients outside this process.

use std::os::fd::OwnedFd;

use crate::{Device, DmaAccess, DmaError, DmaSource, InterruptError, Iova};

/// What a PCI function says of itself in its configuration space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PciIdentity {
    /// Vendor ID; neither 0 nor FFFFh, by which systems know that there is no function.
    pub vendor: u16,
    /// Device ID.
    pub device: u16,
    /// Revision ID.
    pub revision: u8,
}

/// A controller that a transport, such as a vfio-user server, offers to one client at a time.
///
/// The transport reaches registers, doorbells, controller memory and resets as a driver does, through [`Device`].
/// What differs: the client says at which IOVA its memory lies, and brings the eventfds of its interrupts. The whole
/// content of `doorbells().window()` and of `controller_memory()` is in a file from a page boundary on, so that a
/// client can map it.
pub trait Endpoint: Device {
    /// The function's identity.
    fn pci_identity(&self) -> PciIdentity;

    /// The client's memory appears at the IOVA that it chose. Refused if another mapping has any of it.
    ///
    /// A queue whose memory was taken away by [`Endpoint::unmap_at`], and whose whole range is mapped again now, goes
    /// on in what is mapped there.
    fn map_at(&self, iova: Iova, source: DmaSource<'_>, access: DmaAccess) -> Result<(), DmaError>;

    /// Removes a mapping; `iova` and `len` as they were mapped. When it returns the controller has let go of the
    /// memory. The controller stops serving while memory of one of its queues is gone.
    fn unmap_at(&self, iova: Iova, len: u64) -> Result<(), DmaError>;

    /// Interrupts of `vector` add to `event` from now on; with `None` they go nowhere.
    fn connect_interrupt(&self, vector: u16, event: Option<OwnedFd>) -> Result<(), InterruptError>;

    /// The client is gone: the function is reset, all mappings and eventfds are let go. Namespaces keep their data.
    fn client_gone(&self);
}
