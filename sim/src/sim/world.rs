//! Everything that acts beside the host's main thread: kernels, the controller, a host client. They get their turns
//! whenever the main thread pauses on the device's clock; so nothing needs a thread of its own, and one seed decides
//! the order of everything.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use warpbell_hw::Device;
use warpbell_kernels::abi::QueueRef;
use warpbell_kernels::cpu::{Counters, State, Worker};
use warpbell_nvme::register::{Csts, offset};
use warpbell_softctl::SoftDevice;

use super::client::Client;
use super::lives::Lives;
use super::log::Log;
use super::wire::Wire;
use crate::case::Draw;
use crate::findings::Finding;
use crate::memory::fill;
use crate::monitor::Monitor;

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
    pub(super) wire: Arc<Wire>,
    /// Queue objects of kernels, where these recover, and who watches them.
    pub(super) lives: RefCell<Lives>,
    watching: RefCell<Option<Arc<Mutex<Monitor>>>>,
    kernel: RefCell<Option<Worker>>,
    client: RefCell<Option<Client>>,
    /// How often the controller had been disabled when the client came.
    client_since: Cell<usize>,
    draw: RefCell<Draw>,
    counters: Cell<Counters>,
    /// The kernel's last state was final, and a bad one.
    trouble: RefCell<Option<Finding>>,
    quiet: Cell<u32>,
    rounds: Cell<u64>,
    leap: Duration,
    /// The controller does nothing until then.
    stalled_until: Cell<Duration>,
    /// What CSTS was when it was read last, for the story.
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
        timeout: Duration,
        log: Arc<Mutex<Log>>,
        wire: Arc<Wire>,
    ) -> Rc<World> {
        Rc::new(World {
            soft,
            log,
            wire,
            lives: RefCell::default(),
            watching: RefCell::default(),
            kernel: RefCell::default(),
            client: RefCell::default(),
            client_since: Cell::default(),
            draw: RefCell::new(Draw::new(seed ^ 0x0c70)),
            counters: Cell::default(),
            trouble: RefCell::default(),
            quiet: Cell::new(0),
            rounds: Cell::new(0),
            leap: timeout / LEAPS,
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
        self.client_since.set(self.disabled());
        std::mem::replace(&mut *self.client.borrow_mut(), client)
    }

    /// How often the host has disabled the controller.
    fn disabled(&self) -> usize {
        self.wire.read(|seen| seen.disabled.len())
    }

    /// Whether the controller was disabled under the client: its queue is gone.
    pub(super) fn is_client_cut_off(&self) -> bool {
        self.client_since.get() != self.disabled() && self.client.borrow().is_some()
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
        self.look_at_lives();
        let idle = self.step_kernel();
        self.lives.borrow_mut().take_hazards();
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

    /// Queues of a new attachment, each of which may be replaced from now on.
    pub(super) fn begin_lives(&self, queues: &[QueueRef], monitor: &Arc<Mutex<Monitor>>) {
        self.wire.read(|seen| self.lives.borrow_mut().begin(queues, self.now(), seen));
        *self.watching.borrow_mut() = Some(monitor.clone());
    }

    /// The attachment is about to go.
    pub(super) fn end_lives(&self) {
        self.lives.borrow_mut().end();
        self.watching.borrow_mut().take();
    }

    /// What the host has done to queues since the last pass.
    fn look_at_lives(&self) {
        let now = self.now();
        self.wire.look(now);
        let watching = self.watching.borrow();
        let Some(monitor) = &*watching else { return };
        let ready = self.csts().rdy() && self.csts().into_bits() != u32::MAX;
        let news = self.wire.read(|seen| {
            let forgotten = if ready { seen.forgotten } else { Some(now) };
            self.lives.borrow_mut().look(now, seen, forgotten)
        });
        // Whoever waits is to look at what the host has done before time leaps.
        if news.told {
            self.quiet.set(0);
        }
        let mut monitor = monitor.lock();
        for queue in &news.gone {
            monitor.forget(queue);
            self.note(|| format!("queue {} is gone", queue.qid));
        }
        for (index, queue, start) in &news.born {
            self.note(|| format!("queue {} replaces that of index {index}", queue.qid));
            // What is not written in this lap shows as such, in the first as in every later one.
            fill(queue.sq, 64 << queue.sq_shift, 0xff);
            monitor.succeed(*index, queue, *start);
            self.log.lock().watch_also(queue, *start);
        }
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
        if self.is_client_cut_off() {
            return false;
        }
        let mut client = self.client.borrow_mut();
        let Some(client) = client.as_mut() else { return false };
        let mut draw = self.draw.borrow_mut();
        let now = self.soft.clock().now();
        // Whoever waits looks at his deadlines as time leaps, too.
        let leaping = self.quiet.get() > QUIET_ROUNDS;
        (draw.below(3) == 0 || leaping) && client.act(&mut draw, now)
    }

    fn pass_time(&self, hint: Duration, idle: bool) {
        if !idle || self.quiet.get() <= QUIET_ROUNDS {
            return self.soft.advance(ROUND);
        }
        // Who waits beside the host looks often enough to keep his deadline.
        let hint = if self.watching.borrow().is_some() { hint.min(self.leap * 16) } else { hint };
        // With no kernel to look at its deadlines, the steps need not be so small.
        let step = if self.is_running() { self.leap } else { self.leap * 16 };
        let (now, most) = (self.now(), step.max(hint));
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
