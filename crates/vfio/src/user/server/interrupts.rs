//! Interrupts of a served function: DEVICE_GET_IRQ_INFO and DEVICE_SET_IRQS.
//!
//! What decides is what the client connects and masks by message, as in VFIO: the MSI-X table and the enable bit in
//! the configuration space are the client's own business. While a vector is masked its interrupts go to an eventfd of
//! the server's, which is its pending bit.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use warpbell_hw::Endpoint;

use super::Refused;
use crate::user::wire::{IrqFlags, IrqInfo, IrqSet, IrqSetFlags, irq};

/// Errors of the device, and requests to let go of it: one of each. Nothing here raises them but the client itself.
const ERROR: u32 = 3;
const REQUEST: u32 = 4;

#[derive(Default)]
struct Vector {
    /// The client's eventfd.
    event: Option<OwnedFd>,
    /// Present while the vector is masked: interrupts since then.
    pending: Option<OwnedFd>,
}

/// All interrupts of the function.
pub(super) struct Interrupts {
    endpoint: Arc<dyn Endpoint>,
    vectors: Vec<Vector>,
    error: Vector,
    request: Vector,
}

impl Interrupts {
    pub(super) fn new(endpoint: Arc<dyn Endpoint>, vectors: u16) -> Interrupts {
        let vectors = (0..vectors).map(|_| Vector::default()).collect();
        Interrupts { endpoint, vectors, error: Vector::default(), request: Vector::default() }
    }

    /// The answer to DEVICE_GET_IRQ_INFO.
    pub(super) fn info(&self, index: u32) -> Result<IrqInfo, Refused> {
        if index >= irq::COUNT {
            return Err(Refused::invalid(format!("interrupt type {index}; there are {}", irq::COUNT)));
        }
        let flags = match index {
            irq::MSIX => IrqFlags::EVENTFD | IrqFlags::MASKABLE,
            _ => IrqFlags::EVENTFD,
        };
        Ok(IrqInfo { argsz: size_of::<IrqInfo>() as u32, flags, index, count: self.count(index) })
    }

    fn count(&self, index: u32) -> u32 {
        match index {
            irq::MSIX => self.vectors.len() as u32,
            ERROR | REQUEST => 1,
            _ => 0,
        }
    }

    /// Carries DEVICE_SET_IRQS out.
    pub(super) fn set(&mut self, set: IrqSet, data: &[u8], fds: Vec<OwnedFd>) -> Result<(), Refused> {
        let IrqSet { index, start, count, flags, .. } = set;
        let data_kind = flags & (IrqSetFlags::DATA_NONE | IrqSetFlags::DATA_BOOL | IrqSetFlags::DATA_EVENTFD);
        let action = flags - data_kind;
        let there = self.count(index);
        if start.checked_add(count).is_none_or(|end| end > there) {
            let what = format!("interrupts {start}+{count} of type {index}; there are {there}");
            return Err(Refused::invalid(what));
        }
        if data_kind != IrqSetFlags::DATA_EVENTFD && !fds.is_empty() {
            return Err(Refused::invalid("file descriptors that nothing is to be done with".to_owned()));
        }
        if count == 0 {
            return self.disable(set);
        }
        let range = start..start + count;
        if data_kind == IrqSetFlags::DATA_EVENTFD {
            return self.connect(set, range, fds);
        }
        let chosen = |at: u32| data.get((at - start) as usize).is_some_and(|byte| *byte != 0);
        let wanted: Vec<u32> = match data_kind {
            IrqSetFlags::DATA_NONE => range.collect(),
            IrqSetFlags::DATA_BOOL if data.len() == count as usize => {
                range.filter(|at| chosen(*at)).collect()
            }
            _ => {
                let bits = flags.bits();
                return Err(Refused::invalid(format!("flags {bits:#x} with {} bytes of data", data.len())));
            }
        };
        wanted.into_iter().try_for_each(|vector| match action {
            IrqSetFlags::ACTION_TRIGGER => self.trigger(index, vector),
            IrqSetFlags::ACTION_MASK if index == irq::MSIX => self.mask(vector),
            IrqSetFlags::ACTION_UNMASK if index == irq::MSIX => self.unmask(vector),
            _ => Err(Refused::invalid(format!("action {:#x} on type {index}", action.bits()))),
        })
    }

    /// A count of nothing disconnects everything of a type.
    fn disable(&mut self, set: IrqSet) -> Result<(), Refused> {
        if set.flags != IrqSetFlags::DATA_NONE | IrqSetFlags::ACTION_TRIGGER || set.start != 0 {
            return Err(Refused::invalid(format!("flags {:#x} and no interrupts", set.flags.bits())));
        }
        for vector in 0..self.count(set.index) {
            *self.vector(set.index, vector) = Vector::default();
            if set.index == irq::MSIX {
                self.lead(vector)?;
            }
        }
        Ok(())
    }

    fn vector(&mut self, index: u32, vector: u32) -> &mut Vector {
        match index {
            ERROR => &mut self.error,
            REQUEST => &mut self.request,
            _ => &mut self.vectors[vector as usize],
        }
    }

    fn connect(
        &mut self,
        set: IrqSet,
        range: std::ops::Range<u32>,
        fds: Vec<OwnedFd>,
    ) -> Result<(), Refused> {
        if set.flags != IrqSetFlags::DATA_EVENTFD | IrqSetFlags::ACTION_TRIGGER {
            return Err(Refused::invalid(format!("flags {:#x} with eventfds", set.flags.bits())));
        }
        if !fds.is_empty() && fds.len() != set.count as usize {
            let what = format!("{} eventfds for {} interrupts", fds.len(), set.count);
            return Err(Refused::invalid(what));
        }
        let mut fds = fds.into_iter();
        for vector in range {
            self.vector(set.index, vector).event = fds.next();
            if set.index == irq::MSIX {
                self.lead(vector)?;
            }
        }
        Ok(())
    }

    /// Lets the interrupts of a vector go where they should.
    fn lead(&self, vector: u32) -> Result<(), Refused> {
        let Vector { event, pending } = &self.vectors[vector as usize];
        let target = pending.as_ref().or(event.as_ref()).map(OwnedFd::try_clone).transpose();
        let target = target.map_err(|error| Refused::system("an eventfd", &error))?;
        let refused = |error| Refused::invalid(format!("{error}"));
        self.endpoint.connect_interrupt(vector as u16, target).map_err(refused)
    }

    fn mask(&mut self, vector: u32) -> Result<(), Refused> {
        let slot = &mut self.vectors[vector as usize];
        if slot.pending.is_some() {
            return Ok(());
        }
        let pending = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        slot.pending = Some(pending.map_err(|errno| Refused::system("an eventfd", &errno.into()))?);
        self.lead(vector)
    }

    fn unmask(&mut self, vector: u32) -> Result<(), Refused> {
        let Some(pending) = self.vectors[vector as usize].pending.take() else { return Ok(()) };
        self.lead(vector)?;
        if count(&pending) > 0 {
            self.vectors[vector as usize].event.iter().for_each(signal);
        }
        Ok(())
    }

    /// The client asks for an interrupt, to see where it comes.
    fn trigger(&mut self, index: u32, vector: u32) -> Result<(), Refused> {
        let slot = self.vector(index, vector);
        slot.pending.as_ref().or(slot.event.as_ref()).into_iter().for_each(signal);
        Ok(())
    }

    /// The pending bits: one for each vector.
    pub(super) fn pending_bits(&self) -> Vec<u8> {
        let mut bits = vec![0; self.vectors.len().div_ceil(64) * 8];
        for (vector, slot) in self.vectors.iter().enumerate() {
            let set = slot.pending.as_ref().is_some_and(|event| ready(event, PollFlags::IN));
            bits[vector / 8] |= u8::from(set) << (vector % 8);
        }
        bits
    }
}

fn ready(event: &OwnedFd, flags: PollFlags) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(rustix::event::poll(&mut [PollFd::new(event, flags)], Some(&now)), Ok(1))
}

/// Adds one to a client's eventfd, unless that would have to wait: then it says so already.
fn signal(event: &OwnedFd) {
    if ready(event, PollFlags::OUT) {
        let _ = rustix::io::write(event.as_fd(), &1u64.to_ne_bytes());
    }
}

fn count(event: &OwnedFd) -> u64 {
    let mut bytes = [0; 8];
    match rustix::io::read(event, &mut bytes) {
        Ok(_) => u64::from_ne_bytes(bytes),
        Err(Errno::AGAIN) => 0,
        Err(error) => {
            tracing::warn!(%error, "cannot read a pending bit");
            0
        }
    }
}
