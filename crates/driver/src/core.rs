//! What every part of the driver shares: registers, admin queue, state.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use warpbell_hw::{Cid, Device, DmaBuffer, DmaError, DoorbellKind, Qid, ResetKind};
use warpbell_nvme::command::Sqe;
use warpbell_nvme::completion::Cqe;
use warpbell_nvme::opcode::AdminOpcode;
use warpbell_nvme::register::Cap;

use crate::admin::{AdminQueue, AdminRings, Progress, Ticket};
use crate::controller_memory::ControllerMemory;
use crate::data::{Data, PAGE, prepare};
use crate::doorbell_buffer::DoorbellPages;
use crate::enable::{AdminAddresses, Transition, notify_shutdown};
use crate::queue_ids::QueueBook;
use crate::registers::{Deadline, RegisterFile};
use crate::{ControllerOptions, ControllerState, DriverError};

/// Looks at the admin completion queue before a waiting caller lets time pass.
const EAGER_LOOKS: u32 = 64;
/// Between two looks after that.
const LOOK_PAUSE: Duration = Duration::from_micros(50);
/// The longest that dropping a controller waits for each of its steps.
const DROP_LIMIT: Duration = Duration::from_secs(2);

/// A controller whose admin queue exists. Dropping it disables the controller first, and leaks its
/// memory if that fails.
pub(crate) struct Core {
    pub(crate) regs: RegisterFile,
    pub(crate) options: ControllerOptions,
    pub(crate) cap: Cap,
    pub(crate) book: Arc<QueueBook>,
    pub(crate) admin: Mutex<AdminQueue>,
    admin_entries: u32,
    /// Present where doorbells go through memory.
    pub(crate) doorbell_pages: Mutex<Option<DoorbellPages>>,
    /// The controller memory buffer, once a ring was asked for.
    pub(crate) controller_memory: Mutex<Option<Arc<ControllerMemory>>>,
    /// Set once Identify told: the most bytes of one command, if there is a limit.
    max_transfer: OnceLock<Option<u64>>,
    /// Set once Identify told: how long a shutdown may take.
    shutdown_limit: OnceLock<Duration>,
}

impl Core {
    /// Reads what the controller can and makes the admin queue. Changes nothing in the controller.
    pub(crate) fn new(device: Arc<dyn Device>, options: ControllerOptions) -> Result<Core, DriverError> {
        let regs = RegisterFile::new(device);
        let cap = regs.cap()?;
        let entries = options.admin_entries;
        if !entries.is_power_of_two() || !(2..=4096).contains(&entries) {
            return Err(DriverError::QueueEntries { device: regs.name(), entries, limit: 4096 });
        }
        let rings = admin_rings(&regs, entries)?;
        Ok(Core {
            admin: Mutex::new(AdminQueue::new(rings, entries)),
            regs,
            options,
            cap,
            book: Arc::new(QueueBook::new()),
            admin_entries: entries,
            doorbell_pages: Mutex::new(None),
            controller_memory: Mutex::new(None),
            max_transfer: OnceLock::new(),
            shutdown_limit: OnceLock::new(),
        })
    }

    pub(crate) fn name(&self) -> Arc<str> {
        self.regs.name()
    }

    pub(crate) fn max_transfer(&self) -> Option<u64> {
        self.max_transfer.get().copied().flatten()
    }

    pub(crate) fn set_limits(&self, max_transfer: Option<u64>, shutdown: Option<Duration>) {
        self.max_transfer.get_or_init(|| max_transfer);
        self.shutdown_limit.get_or_init(|| shutdown.unwrap_or(self.options.shutdown_timeout));
    }

    pub(crate) fn dma_error(&self, what: &'static str, source: DmaError) -> DriverError {
        DriverError::Dma { device: self.name(), what, source }
    }

    /// Zeroed host memory that the controller can access.
    pub(crate) fn dma_buffer(&self, what: &'static str, len: usize) -> Result<DmaBuffer, DriverError> {
        dma_buffer(&self.regs, what, len)
    }

    fn addresses(&self) -> Result<AdminAddresses, DriverError> {
        let (sq, cq) =
            self.admin.lock().addresses().ok_or_else(|| self.wrong_state("use the admin queue"))?;
        Ok(AdminAddresses { entries: self.admin_entries, sq, cq })
    }

    /// Disables the controller; resets its function once if it is stuck. Returns the queues that it lost.
    pub(crate) fn disable(&self) -> Result<Vec<Qid>, DriverError> {
        let transition = Transition::new(&self.regs, &self.options, self.addresses()?);
        let done = match transition.disable() {
            Err(stuck @ DriverError::StateTimeout { .. }) => {
                tracing::warn!(device = %self.name(), %stuck, "resetting the function");
                let reset = self.regs.device().reset().reset(ResetKind::Function);
                let device = self.name();
                reset
                    .map_err(|source| DriverError::Reset { device, stuck: Box::new(stuck), source })
                    .and_then(|()| transition.disable())
            }
            other => other,
        };
        done.inspect_err(|error| self.book.set_state(state_after(error)))?;
        self.book.set_state(ControllerState::Disabled);
        Ok(self.book.forget_queues())
    }

    /// Enables the disabled controller with an empty admin queue.
    pub(crate) fn enable(&self) -> Result<(), DriverError> {
        self.admin.lock().restart();
        self.book.set_state(ControllerState::Starting);
        let transition = Transition::new(&self.regs, &self.options, self.addresses()?);
        transition.enable().inspect_err(|error| self.book.set_state(state_after(error)))?;
        self.book.set_state(ControllerState::Ready);
        Ok(())
    }

    /// No admin command is submitted from here on, until the controller is enabled again.
    pub(crate) fn close(&self) {
        let _admin = self.admin.lock();
        self.book.set_state(ControllerState::Starting);
    }

    pub(crate) fn wrong_state(&self, doing: &'static str) -> DriverError {
        DriverError::State { device: self.name(), doing, state: self.book.state() }
    }

    /// An admin command, from submission to its successful completion.
    pub(crate) fn execute(&self, sqe: Sqe, data: Data<'_>) -> Result<Cqe, DriverError> {
        self.execute_within(sqe, data, self.options.admin_timeout)
    }

    pub(crate) fn execute_within(
        &self,
        mut sqe: Sqe,
        mut data: Data<'_>,
        limit: Duration,
    ) -> Result<Cqe, DriverError> {
        if self.book.state() != ControllerState::Ready {
            return Err(self.wrong_state("execute an admin command"));
        }
        let command = AdminOpcode::from(sqe.opcode());
        let buffer = prepare(self, &mut sqe, &data)?;
        let deadline = Deadline::after(self.regs.clock(), limit);
        let ticket = self.submit(sqe, buffer, deadline, limit)?;
        let (cqe, buffer) = self.wait(ticket, command, deadline, limit)?;
        let status = cqe.status();
        tracing::debug!(device = %self.name(), %command, cid = ticket.cid, %status, dw0 = cqe.dw0, "admin command");
        if !status.is_ok() {
            let (device, cdw10, nsid) = (self.name(), sqe.cdw10, sqe.nsid);
            return Err(DriverError::Command { device, command, cdw10, nsid, status });
        }
        data.take(buffer.as_ref());
        Ok(cqe)
    }

    fn submit(
        &self,
        sqe: Sqe,
        mut buffer: Option<DmaBuffer>,
        deadline: Deadline,
        limit: Duration,
    ) -> Result<Ticket, DriverError> {
        loop {
            let mut admin = self.admin.lock();
            // Under the lock: a reset that began meanwhile must not meet a command of before.
            if self.book.state() != ControllerState::Ready {
                return Err(self.wrong_state("execute an admin command"));
            }
            admin.reap();
            match admin.submit(sqe, buffer) {
                Ok(ticket) => return Ok(ticket),
                Err(back) => buffer = back,
            }
            let outstanding = admin.outstanding();
            drop(admin);
            if deadline.passed(self.regs.clock()) {
                let (device, command) = (self.name(), sqe.opcode().into());
                return Err(DriverError::AdminQueueFull { device, command, outstanding, limit });
            }
            self.check_health("waiting for room in the admin queue")?;
            self.regs.clock().pause(LOOK_PAUSE);
        }
    }

    fn wait(
        &self,
        ticket: Ticket,
        command: AdminOpcode,
        deadline: Deadline,
        limit: Duration,
    ) -> Result<(Cqe, Option<DmaBuffer>), DriverError> {
        let mut looks = 0;
        loop {
            let passed = deadline.passed(self.regs.clock());
            let mut admin = self.admin.lock();
            admin.reap();
            match admin.progress(ticket) {
                Progress::Done(cqe, buffer) => return Ok((cqe, buffer)),
                Progress::Lost => return Err(DriverError::CommandLost { device: self.name(), command }),
                Progress::Pending if passed => {
                    admin.give_up(ticket);
                    let cid = Cid(ticket.cid);
                    return Err(DriverError::CommandTimeout { device: self.name(), command, cid, limit });
                }
                Progress::Pending => {}
            }
            drop(admin);
            looks += 1;
            if looks < EAGER_LOOKS {
                self.regs.clock().pause(Duration::ZERO);
            } else {
                self.check_health("executing an admin command")
                    .inspect_err(|_| self.admin.lock().give_up(ticket))?;
                self.regs.clock().pause(LOOK_PAUSE);
            }
        }
    }

    /// Whether the controller is still there and not in fatal error.
    pub(crate) fn check_health(&self, doing: &'static str) -> Result<(), DriverError> {
        let health = self.regs.csts().and_then(|csts| {
            let device = self.name();
            if csts.cfs() {
                Err(DriverError::Fatal { device, doing, csts: csts.into_bits() })
            } else {
                Ok(())
            }
        });
        health.inspect_err(|error| self.book.set_state(state_after(error)))
    }

    /// Notifies the controller of the shutdown, waits for it and disables the controller.
    pub(crate) fn shut_down(&self) -> Result<(), DriverError> {
        let limit = self.shutdown_limit.get().copied().unwrap_or(self.options.shutdown_timeout);
        self.shut_down_within(limit)
    }

    fn shut_down_within(&self, limit: Duration) -> Result<(), DriverError> {
        let notified = notify_shutdown(&self.regs, limit);
        self.disable()?;
        notified
    }
}

/// Disables the controller in bounded time; if it cannot be, its memory is leaked: the controller may
/// still write to it.
impl Drop for Core {
    fn drop(&mut self) {
        if matches!(self.book.state(), ControllerState::Disabled | ControllerState::Gone) {
            return;
        }
        let device = self.name();
        let limit = self.shutdown_limit.get().copied().unwrap_or(DROP_LIMIT).min(DROP_LIMIT);
        let stopped = if self.book.state() == ControllerState::Ready {
            self.shut_down_within(limit)
        } else {
            self.disable().map(|_| ())
        };
        if let Err(error) = stopped {
            tracing::warn!(%device, %error, "no orderly shutdown");
        }
        if !matches!(self.book.state(), ControllerState::Disabled | ControllerState::Gone) {
            tracing::error!(%device, "admin queue memory leaked: the controller may still write to it");
            self.admin.get_mut().leak();
            std::mem::forget(self.doorbell_pages.get_mut().take());
        }
    }
}

/// The state that an error leaves the controller in.
fn state_after(error: &DriverError) -> ControllerState {
    match error {
        DriverError::Gone { .. } => ControllerState::Gone,
        DriverError::Fatal { .. } => ControllerState::Fatal,
        _ => ControllerState::Stuck,
    }
}

fn dma_buffer(regs: &RegisterFile, what: &'static str, len: usize) -> Result<DmaBuffer, DriverError> {
    let buffer = DmaBuffer::host(regs.device().dma(), len.next_multiple_of(PAGE));
    buffer.map_err(|source| DriverError::Dma { device: regs.name(), what, source })
}

fn admin_rings(regs: &RegisterFile, entries: u32) -> Result<AdminRings, DriverError> {
    let doorbell = |kind| {
        let doorbell = regs.device().doorbells().doorbell(Qid::ADMIN, kind);
        doorbell.map_err(|source| DriverError::Doorbell { device: regs.name(), source })
    };
    let entries = entries as usize;
    Ok(AdminRings {
        sq_memory: dma_buffer(regs, "the admin submission queue", entries * size_of::<Sqe>())?,
        cq_memory: dma_buffer(regs, "the admin completion queue", entries * size_of::<Cqe>())?,
        sq_doorbell: doorbell(DoorbellKind::SqTail)?,
        cq_doorbell: doorbell(DoorbellKind::CqHead)?,
    })
}
