//! Interrupts of a device: MSI-X vectors, errors and requests to let go, each as an eventfd.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use vfio_bindings::bindings::vfio as abi;
use warpbell_hw::{InterruptError, Interrupts};

use crate::sys::{self, SysError};

/// The interrupts of an open device.
pub(crate) struct Vectors {
    device: Arc<OwnedFd>,
    count: u16,
    /// The kernel cannot add vectors to a running set (before Linux 6.5).
    fixed: bool,
    enabled: Mutex<bool>,
}

impl Vectors {
    pub(crate) fn new(device: Arc<OwnedFd>) -> Result<Vectors, SysError> {
        let info = sys::device::irq(device.as_fd(), abi::VFIO_PCI_MSIX_IRQ_INDEX)?;
        let eventfds = info.flags & abi::VFIO_IRQ_INFO_EVENTFD != 0;
        let count = if eventfds { info.count.min(u16::MAX.into()) as u16 } else { 0 };
        let fixed = info.flags & abi::VFIO_IRQ_INFO_NORESIZE != 0;
        Ok(Vectors { device, count, fixed, enabled: Mutex::new(false) })
    }

    /// An eventfd that counts events of an index that has one interrupt: errors, or requests to let go.
    pub(crate) fn event(&self, index: u32) -> io::Result<OwnedFd> {
        let event = new_event()?;
        let connected = sys::device::set_irqs(self.device.as_fd(), index, 0, &[Some(event.as_fd())]);
        connected.map_err(|error| error.source)?;
        Ok(event)
    }

    fn connect(&self, vector: u16) -> io::Result<OwnedFd> {
        let event = new_event()?;
        let mut enabled = self.enabled.lock();
        let all = self.fixed && !*enabled;
        let (start, events) = if all {
            // Room for all from the start: the others get their events later.
            let mut events = vec![None; self.count.into()];
            events[usize::from(vector)] = Some(event.as_fd());
            (0, events)
        } else {
            (vector.into(), vec![Some(event.as_fd())])
        };
        sys::device::set_irqs(self.device.as_fd(), abi::VFIO_PCI_MSIX_IRQ_INDEX, start, &events)
            .map_err(|error| error.source)?;
        *enabled = true;
        Ok(event)
    }
}

fn new_event() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

impl Interrupts for Vectors {
    fn count(&self) -> u16 {
        self.count
    }

    fn subscribe(&self, vector: u16) -> Result<OwnedFd, InterruptError> {
        if vector >= self.count {
            return Err(InterruptError::NoSuchVector { vector, count: self.count });
        }
        self.connect(vector).map_err(|source| InterruptError::System { vector, source })
    }
}
