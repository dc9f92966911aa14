//! What every part of the driver shares: registers, admin queue, state.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use warpbell_hw::{Cid, Device, DmaArena, DmaBuffer, DmaError, DoorbellKind, Iova, Nsid, Qid, ResetKind};
use warpbell_nvme::command::Sqe;
use warpbell_nvme::completion::Cqe;
use warpbell_nvme::identify::IdentifyController;
use warpbell_nvme::opcode::AdminOpcode;
use warpbell_nvme::register::{Cap, Csts, Shn};

use crate::admin::{AdminQueue, AdminRings, NoRoom, Progress, Ticket};
use crate::controller_memory::ControllerMemory;
use crate::data::{Data, PAGE, prepare};
use crate::doorbell_buffer::DoorbellPages;
use crate::enable::{AdminAddresses, Transition, notify_shutdown};
use crate::interrupts::{LONGEST_SLEEP, Vector, Vectors};
use crate::queue_ids::QueueBook;
use crate::quirks::Quirks;
use crate::registers::{Deadline, RegisterFile};
use crate::setup::Setup;
use crate::{ControllerOptions, ControllerState, DriverError, RetryPolicy};

/// Polls of the admin completion queue before a waiting caller lets time pass.
const EAGER_POLLS: u32 = 64;
/// Between two polls after that.
const POLL_PAUSE: Duration = Duration::from_micros(50);
/// The longest that dropping a controller waits for its shutdown,
const DROP_SHUTDOWN: Duration = Duration::from_secs(2);
/// and until it is disabled, whatever it asks for (CAP.TO: up to 127.5 s). Who can wait calls `Controller::shutdown`.
const DROP_DISABLE: Duration = Duration::from_secs(8);

/// A controller whose admin queue exists. Dropping it disables the controller first, and leaks its
/// memory if that fails.
pub(crate) struct Core {
    pub(crate) regs: RegisterFile,
    pub(crate) options: ControllerOptions,
    pub(crate) cap: Cap,
    pub(crate) book: Arc<QueueBook>,
    pub(crate) admin: Mutex<AdminQueue>,
    /// Host memory for rings and data.
    pub(crate) arena: Arc<DmaArena>,
    admin_entries: u32,
    /// Present where doorbells go through memory.
    pub(crate) doorbell_pages: Mutex<Option<DoorbellPages>>,
    /// The controller memory buffer, once a ring was asked for.
    pub(crate) controller_memory: Mutex<Option<Arc<ControllerMemory>>>,
    pub(crate) quirks: Quirks,
    /// The opening or reset that is going on.
    pub(crate) setup: Mutex<Option<Setup>>,
    /// Vectors that somebody listens to.
    pub(crate) vectors: Vectors,
    /// The admin completion queue's, where its waiters sleep.
    pub(crate) admin_vector: OnceLock<Arc<Vector>>,
    /// Set once Identify told: the most bytes of one command, if there is a limit.
    max_transfer: OnceLock<Option<u64>>,
    /// Set once Identify told, if it did: how long a shutdown may take.
    shutdown_limit: OnceLock<Duration>,
    /// Set once Identify told: what Command Retry Delays stand for.
    retry_delays: OnceLock<[Duration; 3]>,
}

impl Core {
    /// Reads what the controller can and makes the admin queue. Changes nothing in the controller.
    pub(crate) fn new(device: Arc<dyn Device>, mut options: ControllerOptions) -> Result<Core, DriverError> {
        let regs = RegisterFile::new(device);
        let quirks = quirks(&regs, &mut options)?;
        let cap = regs.cap()?;
        let entries = options.admin_entries;
        if !entries.is_power_of_two() || !(2..=4096).contains(&entries) {
            return Err(DriverError::QueueEntries { device: regs.name(), entries, limit: 4096 });
        }
        let arena = DmaArena::new(regs.device().dma());
        let rings = admin_rings(&regs, &arena, entries)?;
        Ok(Core {
            arena,
            admin: Mutex::new(AdminQueue::new(rings, entries)),
            regs,
            options,
            cap,
            book: Arc::new(QueueBook::new()),
            admin_entries: entries,
            doorbell_pages: Mutex::new(None),
            controller_memory: Mutex::new(None),
            quirks,
            setup: Mutex::new(None),
            vectors: Vectors::default(),
            admin_vector: OnceLock::new(),
            max_transfer: OnceLock::new(),
            shutdown_limit: OnceLock::new(),
            retry_delays: OnceLock::new(),
        })
    }

    pub(crate) fn name(&self) -> Arc<str> {
        self.regs.name()
    }

    pub(crate) fn max_transfer(&self) -> Option<u64> {
        self.max_transfer.get().copied().flatten()
    }

    pub(crate) fn set_limits(&self, identify: &IdentifyController) {
        let max_transfer = identify.max_transfer_bytes(self.cap.min_page_size());
        let shutdown = (identify.rtd3e != 0).then(|| Duration::from_micros(identify.rtd3e.into()));
        self.admin.lock().abort_limit = identify.abort_limit();
        self.max_transfer.get_or_init(|| max_transfer);
        if let Some(shutdown) = shutdown {
            self.shutdown_limit.get_or_init(|| shutdown);
        }
        self.retry_delays.get_or_init(|| RetryPolicy::of(identify, 0).delays);
    }

    pub(crate) fn dma_error(&self, what: &'static str, cause: DmaError) -> DriverError {
        DriverError::Dma { device: self.name(), what, cause }
    }

    /// Zeroed host memory that the controller can access.
    pub(crate) fn dma_buffer(&self, what: &'static str, len: usize) -> Result<DmaBuffer, DriverError> {
        let buffer = dma_buffer(&self.regs, &self.arena, what, len)?;
        self.check_reach(what, buffer.iova(), buffer.len() as u64)?;
        Ok(buffer)
    }

    /// Lets a known time pass, if there is any.
    pub(crate) fn pause(&self, time: Duration) {
        if !time.is_zero() {
            self.regs.clock().pause(time);
        }
    }

    /// Whether the controller's addresses have enough bits for these.
    pub(crate) fn check_reach(&self, what: &'static str, iova: Iova, len: u64) -> Result<(), DriverError> {
        let (end, bits) = (iova.0.saturating_add(len), self.quirks.dma_bits);
        if bits < u64::BITS && end > 1 << bits {
            return Err(DriverError::Address { device: self.name(), what, end, bits });
        }
        Ok(())
    }

    fn addresses(&self) -> Result<AdminAddresses, DriverError> {
        let (sq, cq) =
            self.admin.lock().addresses().ok_or_else(|| self.wrong_state("use the admin queue"))?;
        Ok(AdminAddresses { entries: self.admin_entries, sq, cq })
    }

    /// Disables the controller; resets its function once if it is stuck. Returns the queues that it lost.
    pub(crate) fn disable(&self) -> Result<Vec<Qid>, DriverError> {
        self.disable_within(Duration::MAX)
    }

    fn disable_within(&self, most: Duration) -> Result<Vec<Qid>, DriverError> {
        let transition = self.transition(most)?;
        self.disabled(match transition.disable() {
            Err(stuck @ DriverError::StateTimeout { .. }) => {
                tracing::warn!(device = %self.name(), %stuck, "resetting the function");
                let reset = self.regs.device().reset().reset(ResetKind::Function);
                self.pause(self.quirks.reset_delay);
                let device = self.name();
                reset
                    .map_err(|cause| DriverError::Reset { device, stuck: Box::new(stuck), cause })
                    .and_then(|()| transition.disable())
            }
            other => other,
        })
    }

    /// Like [`Core::disable`], and leaves a controller that is stuck to the caller.
    pub(crate) fn disable_only(&self) -> Result<Vec<Qid>, DriverError> {
        self.disabled(self.transition(Duration::MAX)?.disable())
    }

    fn disabled(&self, done: Result<(), DriverError>) -> Result<Vec<Qid>, DriverError> {
        done.inspect_err(|error| self.book.set_state(state_after(error)))?;
        self.book.set_state(ControllerState::Disabled);
        Ok(self.book.forget_queues())
    }

    /// A change of CC.EN, no longer than `most`, and than the opening or reset may still take.
    fn transition(&self, most: Duration) -> Result<Transition<'_>, DriverError> {
        let most = self.within_setup(most);
        Ok(Transition::new(&self.regs, &self.options, self.addresses()?, most))
    }

    /// Enables the disabled controller with an empty admin queue. It takes commands of the thread that sets it up.
    pub(crate) fn enable(&self) -> Result<(), DriverError> {
        self.admin.lock().restart();
        self.book.set_state(ControllerState::Starting);
        self.transition(Duration::MAX)?.enable().inspect_err(|error| self.book.set_state(state_after(error)))
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

    /// An admin command within `limit`, tried again where its status says that this may help.
    pub(crate) fn execute_within(
        &self,
        sqe: Sqe,
        mut data: Data<'_>,
        limit: Duration,
    ) -> Result<Cqe, DriverError> {
        let limit = self.within_setup(limit);
        let deadline = Deadline::after(self.regs.clock(), limit);
        let mut tries = 0;
        loop {
            let left = self.time_left(deadline, limit, "executing an admin command")?;
            let error = match self.execute_once(sqe, &mut data, left) {
                Ok(cqe) => return Ok(cqe),
                Err(error) => error,
            };
            // Not an Abort: by then the identifier may be another command's.
            let again = AdminOpcode::from(sqe.opcode()) != AdminOpcode::ABORT;
            let status = error.status().filter(|_| again);
            let delay = status.and_then(|status| self.admin_retry().delay(status, tries));
            match delay {
                Some(delay) if delay < deadline.left(self.regs.clock()) => {
                    tracing::debug!(%error, tries, ?delay, "admin command tried again");
                    self.admin.lock().retried += 1;
                    self.pause(delay);
                    tries += 1;
                }
                _ => return Err(error),
            }
        }
    }

    fn admin_retry(&self) -> RetryPolicy {
        let delays = self.retry_delays.get().copied().unwrap_or_default();
        RetryPolicy { attempts: self.options.admin_retries, delays }
    }

    fn execute_once(&self, mut sqe: Sqe, data: &mut Data<'_>, limit: Duration) -> Result<Cqe, DriverError> {
        if !self.takes_commands() {
            return Err(self.wrong_state("execute an admin command"));
        }
        let command = AdminOpcode::from(sqe.opcode());
        let buffer = prepare(self, &mut sqe, data)?;
        let deadline = Deadline::after(self.regs.clock(), limit);
        let ticket = self.submit(sqe, buffer, deadline, limit)?;
        let (cqe, buffer) = self.wait(ticket, command, deadline, limit)?;
        let status = cqe.status();
        tracing::debug!(device = %self.name(), %command, cid = ticket.cid, %status, dw0 = cqe.dw0, "admin command");
        if !status.is_ok() {
            let (device, cdw10, nsid) = (self.name(), sqe.cdw10, Nsid(sqe.nsid));
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
            if !self.takes_commands() {
                return Err(self.wrong_state("execute an admin command"));
            }
            admin.reap();
            let no_room;
            match admin.submit(sqe, buffer) {
                Ok(ticket) => return Ok(ticket),
                Err((back, why)) => (buffer, no_room) = (back, why),
            }
            let outstanding = admin.outstanding();
            drop(admin);
            if deadline.passed(self.regs.clock()) {
                let (device, command) = (self.name(), sqe.opcode().into());
                return Err(match no_room {
                    NoRoom::Full => DriverError::AdminQueueFull { device, command, outstanding, limit },
                    NoRoom::Aborts(outstanding) => DriverError::AbortLimit { device, outstanding, limit },
                });
            }
            self.check_health("waiting for room in the admin queue")?;
            self.regs.clock().pause(POLL_PAUSE);
        }
    }

    fn wait(
        &self,
        ticket: Ticket,
        command: AdminOpcode,
        deadline: Deadline,
        limit: Duration,
    ) -> Result<(Cqe, Option<DmaBuffer>), DriverError> {
        let mut polls = 0;
        loop {
            let passed = deadline.passed(self.regs.clock());
            // Before the poll, so that no interrupt after it is missed.
            let seen = self.admin_vector.get().map_or(0, |vector| vector.seen());
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
            polls += 1;
            if polls < EAGER_POLLS {
                self.regs.clock().pause(Duration::ZERO);
            } else {
                self.check_health("executing an admin command")
                    .inspect_err(|_| self.admin.lock().give_up(ticket))?;
                self.rest(seen, deadline);
            }
        }
    }

    /// Lets time pass until the admin queue's vector has fired more often than `seen`, or for a while.
    fn rest(&self, seen: u64, deadline: Deadline) {
        match self.admin_vector.get() {
            Some(vector) => {
                vector.sleep(seen, deadline.left(self.regs.clock()).min(LONGEST_SLEEP));
            }
            None => self.regs.clock().pause(POLL_PAUSE),
        }
    }

    /// Whether the controller is still there, ready and not in fatal error.
    ///
    /// Under the admin queue's lock, so that a reset of our own, which takes it to begin, is not taken for the
    /// controller's.
    pub(crate) fn check_health(&self, doing: &'static str) -> Result<(), DriverError> {
        let _admin = self.admin.lock();
        let state = match self.book.state() {
            ControllerState::Starting if self.own_setup().is_some() => ControllerState::Ready,
            state => state,
        };
        let fell =
            |csts: Csts| !csts.rdy() && matches!(state, ControllerState::Ready | ControllerState::Fallen);
        let health = self.regs.csts().and_then(|csts| {
            let (device, bits) = (self.name(), csts.into_bits());
            match (csts.cfs(), fell(csts)) {
                (true, _) => Err(DriverError::Fatal { device, doing, csts: bits }),
                (_, true) => Err(DriverError::NotReady { device, doing, csts: bits }),
                _ => Ok(()),
            }
        });
        // While it is being reset, whoever does that finds out by itself.
        health.inspect_err(|error| {
            if state == ControllerState::Ready {
                self.book.set_state(state_after(error));
            }
        })
    }

    /// The longest that the controller may take for a shutdown: as long as it says, and never less than the options
    /// allow, since some say little and take longer.
    pub(crate) fn shutdown_limit(&self) -> Duration {
        let least = self.options.shutdown_timeout;
        self.shutdown_limit.get().map_or(least, |says| least.max(*says))
    }

    /// Notifies the controller of a shutdown, waits for it and disables the controller.
    pub(crate) fn shut_down_within(&self, shn: Shn, limit: Duration) -> Result<(), DriverError> {
        self.shut_down(shn, limit, Duration::MAX)
    }

    fn shut_down(&self, shn: Shn, limit: Duration, disabling: Duration) -> Result<(), DriverError> {
        // Nobody is to submit anything any more, nor to take what follows for the controller's own doing.
        self.close();
        let notified = notify_shutdown(&self.regs, shn, limit);
        self.disable_within(disabling)?;
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
        let stopped = if self.book.state() == ControllerState::Ready {
            self.shut_down(Shn::NORMAL, self.shutdown_limit().min(DROP_SHUTDOWN), DROP_DISABLE)
        } else {
            self.disable_within(DROP_DISABLE).map(|_| ())
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
pub(crate) fn state_after(error: &DriverError) -> ControllerState {
    match error {
        DriverError::Gone { .. } => ControllerState::Gone,
        DriverError::Fatal { .. } => ControllerState::Fatal,
        DriverError::NotReady { .. } => ControllerState::Fallen,
        _ => ControllerState::Stuck,
    }
}

/// What is known of this controller, and what follows for the options.
fn quirks(regs: &RegisterFile, options: &mut ControllerOptions) -> Result<Quirks, DriverError> {
    let id = regs.device().pci_id();
    let quirks = Quirks::of(id);
    if let (Some(id), Some(reason)) = (id, quirks.unusable) {
        return Err(DriverError::Unusable { device: regs.name(), id, reason });
    }
    options.ready_poll_delay = options.ready_poll_delay.max(quirks.ready_delay);
    if options.admin_entries.is_power_of_two() {
        options.admin_entries = options.admin_entries.max(quirks.admin_entries);
    }
    Ok(quirks)
}

fn dma_buffer(
    regs: &RegisterFile,
    arena: &DmaArena,
    what: &'static str,
    len: usize,
) -> Result<DmaBuffer, DriverError> {
    let buffer = arena.buffer(len.next_multiple_of(PAGE));
    buffer.map_err(|cause| DriverError::Dma { device: regs.name(), what, cause })
}

fn admin_rings(regs: &RegisterFile, arena: &DmaArena, entries: u32) -> Result<AdminRings, DriverError> {
    let doorbell = |kind| {
        let doorbell = regs.device().doorbells().doorbell(Qid::ADMIN, kind);
        doorbell.map_err(|cause| DriverError::Doorbell { device: regs.name(), cause })
    };
    let entries = entries as usize;
    Ok(AdminRings {
        sq_memory: dma_buffer(regs, arena, "the admin submission queue", entries * size_of::<Sqe>())?,
        cq_memory: dma_buffer(regs, arena, "the admin completion queue", entries * size_of::<Cqe>())?,
        sq_doorbell: doorbell(DoorbellKind::SqTail)?,
        cq_doorbell: doorbell(DoorbellKind::CqHead)?,
    })
}
