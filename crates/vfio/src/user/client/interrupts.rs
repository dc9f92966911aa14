//! Interrupts: an eventfd for each MSI-X vector.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::event::EventfdFlags;
use warpbell_hw::{InterruptError, Interrupts};
use zerocopy::IntoBytes;

use super::config::{ConfigSpace, Msix};
use super::connection::Connection;
use super::error::{Object, UserError};
use super::wire::{Command, IrqFlags, IrqInfo, IrqSet, IrqSetFlags, irq};

/// The vectors of a function behind a socket.
pub(super) struct UserInterrupts {
    connection: Arc<Connection>,
    msix: Option<Msix>,
    count: u16,
    /// Those that were subscribed to.
    events: Mutex<BTreeMap<u16, OwnedFd>>,
}

impl UserInterrupts {
    /// Asks how many there are.
    pub(super) fn query(
        connection: Arc<Connection>,
        msix: Option<Msix>,
    ) -> Result<UserInterrupts, UserError> {
        let (command, object) = (Command::DeviceGetIrqInfo, Object::Irqs { index: irq::MSIX, start: 0 });
        let request = IrqInfo { argsz: size_of::<IrqInfo>() as u32, index: irq::MSIX, ..IrqInfo::default() };
        let reply = connection.request(command, object, &[request.as_bytes()], &[])?;
        let (info, _) = connection.fixed::<IrqInfo>(command, object, &reply.payload)?;
        let count = if info.flags.contains(IrqFlags::EVENTFD) { info.count } else { 0 };
        let count = u16::try_from(count).unwrap_or(u16::MAX);
        let count = msix.map_or(count, |msix| count.min(msix.vectors));
        Ok(UserInterrupts { connection, msix, count, events: Mutex::default() })
    }

    /// Connects a vector to an eventfd.
    fn connect(&self, vector: u16, event: BorrowedFd<'_>) -> Result<(), UserError> {
        let (start, index) = (u32::from(vector), irq::MSIX);
        let flags = IrqSetFlags::DATA_EVENTFD | IrqSetFlags::ACTION_TRIGGER;
        let set = IrqSet { argsz: size_of::<IrqSet>() as u32, flags, index, start, count: 1 };
        let object = Object::Irqs { index, start };
        self.connection.request(Command::DeviceSetIrqs, object, &[set.as_bytes()], &[event])?;
        match &self.msix {
            Some(msix) => ConfigSpace(&self.connection).enable_vector(msix, vector),
            None => Ok(()),
        }
    }

    /// After a reset: connects again what was connected.
    pub(super) fn restore(&self) -> Result<(), UserError> {
        self.events.lock().iter().try_for_each(|(vector, event)| self.connect(*vector, event.as_fd()))
    }
}

impl Interrupts for UserInterrupts {
    fn count(&self) -> u16 {
        self.count
    }

    fn subscribe(&self, vector: u16) -> Result<OwnedFd, InterruptError> {
        if vector >= self.count {
            return Err(InterruptError::NoSuchVector { vector, count: self.count });
        }
        let system = |source| InterruptError::System { vector, source };
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let event = rustix::event::eventfd(0, flags).map_err(|errno| system(errno.into()))?;
        let kept = event.as_fd().try_clone_to_owned().map_err(system)?;
        let mut events = self.events.lock();
        self.connect(vector, event.as_fd()).map_err(|error| system(io::Error::other(error)))?;
        events.insert(vector, kept);
        Ok(event)
    }
}
