//! Everything that acts beside the host's main thread: kernels, the controller, a host client. They get their turns
//! whenever the main thread pauses on the device's clock; so nothing needs a thread of its own, and one seed decides
//! the order of everything.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use warpbell_hw::Device;
use warpbell_kernels::cpu::{Counters, State, Worker};
use warpbell_nvme::register::{Csts, offset};
use warpbell_softctl::SoftDevice;

use super::client::Client;
use super::log::Log;
use crate::case::Draw;
use crate::findings::Finding;

/// Rounds in which nobody acts before time leaps. A doorbell in a store buffer leaves it within fewer.
const QUIET_ROUNDS: u32 = 96;
/// Leaps to a deadline.
const LEAPS: u32 = 256;
/// Rounds after which nobody believes any more that whoever waits will go on; a long run takes a tenth.
const MOST_ROUNDS: u64 = 2_000_000;
/// What one round takes.
const ROUND: Duration = Duration::from_nanos(100);

thread_local! {
    static CURRENT: RefCell<Option<Rc<World>>> = const { RefCell::new(None) };
}

/// Lets the world of this thread, if there is one, act for a moment. False if there is none.
pub(super) fn turn(hint: Duration) -> bool {
    let world = CURRENT.with_borrow(Clone::clone);
    world.inspect(|world| world.turn(hint)).is_some()
}

/// What acts.
pub(super) struct World {
    pub(super) soft: Arc<SoftDevice>,
    pub(super) log: Arc<Mutex<Log>>,
    kernel: RefCell<Option<Worker>>,
    client: RefCell<Option<Client>>,
    draw: RefCell<Draw>,
    counters: Cell<Counters>,
    /// The kernel's last state was final, and a bad one.
    trouble: RefCell<Option<Finding>>,
    quiet: Cell<u32>,
    rounds: Cell<u64>,
    leap: Duration,
    /// The controller does nothing until then.
    stalled_until: Cell<Duration>,
    /// What CSTS was when it was looked at last, for the story.
    ready: Cell<bool>,
}

/// Keeps a world the current one of its thread.
pub(super) struct Entered;

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.with_borrow_mut(Option::take);
    }
}

impl World {
    pub(super) fn new(
        soft: Arc<SoftDevice>,
        seed: u64,
        deadline: Duration,
        log: Arc<Mutex<Log>>,
    ) -> Rc<World> {
        Rc::new(World {
            soft,
            log,
            kernel: RefCell::default(),
            client: RefCell::default(),
            draw: RefCell::new(Draw::new(seed ^ 0x0c70)),
            counters: Cell::default(),
            trouble: RefCell::default(),
            quiet: Cell::new(0),
            rounds: Cell::new(0),
            leap: deadline / LEAPS,
            stalled_until: Cell::new(Duration::ZERO),
            ready: Cell::new(false),
        })
    }

    /// Makes it the world of this thread, until the result is dropped.
    pub(super) fn enter(self: &Rc<World>) -> Entered {
        CURRENT.with_borrow_mut(|current| *current = Some(self.clone()));
        Entered
    }

    pub(super) fn now(&self) -> Duration {
        self.soft.clock().now()
    }

    pub(super) fn rounds(&self) -> u64 {
        self.rounds.get()
    }

    pub(super) fn below(&self, limit: u64) -> u64 {
        self.draw.borrow_mut().below(limit)
    }

    pub(super) fn csts(&self) -> Csts {
        Csts::from_bits(self.soft.registers().read32(offset::CSTS))
    }

    /// Starts a kernel.
    pub(super) fn start(&self, worker: Worker) {
        self.counters.set(worker.counters());
        *self.kernel.borrow_mut() = Some(worker);
        self.note(|| "kernel starts".to_owned());
    }

    /// Whether a kernel runs.
    pub(super) fn is_running(&self) -> bool {
        self.kernel.borrow().is_some()
    }

    /// Ends the kernel, wherever it is.
    pub(super) fn kill(&self) {
        self.kernel.borrow_mut().take();
    }

    /// What the kernel did that no kernel may do.
    pub(super) fn take_trouble(&self) -> Option<Finding> {
        self.trouble.borrow_mut().take()
    }

    pub(super) fn set_client(&self, client: Option<Client>) -> Option<Client> {
        std::mem::replace(&mut *self.client.borrow_mut(), client)
    }

    pub(super) fn with_client<R>(&self, look: impl FnOnce(&mut Client) -> R) -> Option<R> {
        self.client.borrow_mut().as_mut().map(look)
    }

    pub(super) fn note(&self, text: impl FnOnce() -> String) {
        self.log.lock().note(self.now(), text);
    }

    /// A moment in which the kernel, the controller and the client act as the seed wants, and time passes: `hint`, if
    /// nobody has anything to do.
    pub(super) fn turn(&self, hint: Duration) {
        self.rounds.set(self.rounds.get() + 1);
        // Once: whoever cleans up afterwards may go on.
        assert!(self.rounds.get() != MOST_ROUNDS, "a call of the host waits for ever");
        let idle = self.step_kernel();
        let controller = self.step_controller(idle);
        let client = self.step_client();
        let before = self.counters.get();
        let after = self.kernel.borrow().as_ref().map_or(before, Worker::counters);
        self.counters.set(after);
        if controller || client || acts(&before) != acts(&after) {
            self.quiet.set(0);
        } else {
            self.quiet.set(self.quiet.get() + u32::from(idle));
        }
        self.pass_time(hint, idle);
    }

    /// True if the kernel only waits, or if there is none.
    fn step_kernel(&self) -> bool {
        let mut kernel = self.kernel.borrow_mut();
        let Some(worker) = kernel.as_mut() else { return true };
        // When all only wait, a round goes on until every warp has looked.
        let turns = if self.quiet.get() > QUIET_ROUNDS { 256 } else { 1 + self.below(6) as u32 };
        let trouble = match worker.step(turns) {
            State::Running => return false,
            State::Idle => return true,
            State::Done => None,
            State::Deadlock(lanes) => Some(Finding::Deadlock(lanes.clone())),
            State::Fault(fault) => Some(Finding::Fault(fault.clone())),
        };
        self.note(|| "kernel ends".to_owned());
        *self.trouble.borrow_mut() = trouble;
        *kernel = None;
        false
    }

    /// The controller does nothing for so long.
    pub(super) fn stall(&self, by: Duration) {
        self.stalled_until.set(self.now() + by);
        self.note(|| format!("the controller does nothing for {by:?}"));
    }

    /// A random number of controller steps, at least one if the kernel waits.
    fn step_controller(&self, idle: bool) -> bool {
        let steps = self.below(5).max(u64::from(idle));
        if self.now() < self.stalled_until.get() {
            return false;
        }
        let mut acted = false;
        for _ in 0..steps {
            let step = self.soft.step();
            acted |= step;
            if step {
                self.log.lock().look(self.now());
            }
        }
        self.watch_status();
        acted
    }

    fn watch_status(&self) {
        if self.log.lock().is_on() {
            let csts = self.csts();
            let ready = csts.rdy() && !csts.cfs();
            if self.ready.replace(ready) != ready {
                self.note(|| format!("CSTS = {:#x}", csts.into_bits()));
            }
        }
    }

    fn step_client(&self) -> bool {
        let mut client = self.client.borrow_mut();
        let Some(client) = client.as_mut() else { return false };
        let mut draw = self.draw.borrow_mut();
        let now = self.soft.clock().now();
        draw.below(3) == 0 && client.act(&mut draw, now)
    }

    fn pass_time(&self, hint: Duration, idle: bool) {
        if !idle || self.quiet.get() <= QUIET_ROUNDS {
            return self.soft.advance(ROUND);
        }
        let (now, most) = (self.now(), self.leap.max(hint));
        let event = self.soft.next_event().filter(|_| now >= self.stalled_until.get());
        let by = event.map_or(most, |event| most.min(event.saturating_sub(now)));
        self.soft.advance(by);
        self.log.lock().leap(self.now());
    }
}

/// What tells that a kernel did more than look.
fn acts(counters: &Counters) -> (u64, u64, u64, u64, u64) {
    (counters.doorbells, counters.shadow_stores, counters.sqes, counters.cqes, counters.drained)
}
