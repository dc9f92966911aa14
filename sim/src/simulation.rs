//! Controller, driver and kernel as one single-threaded program, in virtual time, from a seed.
//!
//! The kernel's warps and the controller take turns of random length. Virtual time creeps while anybody acts, and
//! leaps when everybody only waits, so that a deadline costs no real time.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use parking_lot::Mutex;
use warpbell_hw::{BASE_PAGE, Device, DoorbellSink};
use warpbell_kernels::abi;
use warpbell_kernels::cpu::{Counters, Hooks, Launch, MemoryEvent, Module, State, Worker};
use warpbell_softctl::{SoftConfig, SoftDevice};

use crate::case::{Case, Draw};
use crate::cpu_launch;
use crate::findings::{Finding, lines};
use crate::monitor::Monitor;
use crate::rig::SoftRig;

/// Rounds in which nobody acts before time leaps. A doorbell in a store buffer leaves it within fewer.
const QUIET_ROUNDS: u32 = 96;
/// Leaps to a deadline.
const LEAPS: u32 = 256;
/// What one round takes.
const ROUND: Duration = Duration::from_nanos(100);
/// Rounds after which a run is given up; a run of a hundred commands takes some thousand.
const MOST_ROUNDS: u64 = 400_000;
/// Events kept for the history.
const HISTORY: usize = 48;

/// Something worth telling when a run fails.
#[derive(Clone, Copy, Debug)]
enum Event {
    Doorbell { address: u64, value: u32 },
    Leap,
    Stalled,
    Resumed,
}

/// The run so far, for who decides whether the controller may act.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Virtual time since the kernel's start.
    pub elapsed: Duration,
    /// Rounds so far.
    pub round: u64,
    /// Doorbell stores seen.
    pub rung: u64,
    /// Whether the kernel only waits.
    pub idle: bool,
}

impl Moment {
    /// For a controller that acts for a short while now and then, and pauses longer than any deadline lasts. The while is
    /// long enough for a command that it finds to be fetched, answered and collected.
    pub fn now_and_then(&self) -> bool {
        self.round % 2048 < 24
    }
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was wrong; empty is right.
    pub findings: Vec<Finding>,
    /// What the kernel's accesses cost.
    pub counters: Counters,
    /// Virtual time that it took.
    pub elapsed: Duration,
    /// What happened, for messages.
    pub history: String,
}

/// A rig whose controller is stepped.
pub struct Simulation {
    /// Device, queues, memory.
    pub rig: SoftRig,
    module: Module,
    monitor: Arc<Mutex<Monitor>>,
    events: Arc<Mutex<VecDeque<(Duration, Event)>>>,
    draw: Draw,
    /// Reads of the controller's registers by kernels.
    flushes: Arc<AtomicU64>,
    /// Time that deadlines may take before the run counts as stuck.
    limit: Duration,
}

impl Simulation {
    /// With the kernels as built.
    pub fn new(case: &Case) -> anyhow::Result<Simulation> {
        Simulation::with_module(case, &Module::builtin()?)
    }

    /// With other kernels.
    pub fn with_module(case: &Case, module: &Module) -> anyhow::Result<Simulation> {
        Simulation::with_config(case, module, case.soft_config())
    }

    /// On another controller than the case's own.
    pub fn with_config(case: &Case, module: &Module, config: SoftConfig) -> anyhow::Result<Simulation> {
        let config = config.poison_fetched(true);
        let soft = SoftDevice::stepped(config).context("soft controller")?;
        let rig = SoftRig::new(case, soft)?;
        let queues: Result<Vec<_>, _> = (0..case.queues as usize).map(|i| rig.attachment.queue(i)).collect();
        // Shadow doorbells are ordinary stores, which the monitor does not read as doorbells.
        let watched: Vec<_> =
            queues?.into_iter().filter(|queue| queue.flags & abi::QUEUE_SHADOW == 0).collect();
        let monitor = Monitor::new(&watched, case.start).reading_rings();
        let waits = case.timeout + case.submit_timeout.max(case.timeout);
        Ok(Simulation {
            rig,
            module: module.clone(),
            monitor: Arc::new(Mutex::new(monitor)),
            events: Arc::default(),
            draw: Draw::new(case.seed),
            flushes: Arc::default(),
            limit: waits * (case.commands + 2),
        })
    }

    /// Runs the kernel with a controller that always acts.
    pub fn run(&mut self) -> anyhow::Result<Outcome> {
        self.run_while(|_, _| true)
    }

    /// Runs the kernel; the controller acts only where `controller` says so.
    pub fn run_while(
        &mut self,
        controller: impl FnMut(&SoftRig, &Moment) -> bool,
    ) -> anyhow::Result<Outcome> {
        let args = self.rig.args();
        let launch = cpu_launch(&self.module, "queue_test", &args)?;
        self.run_launch(launch.grid(self.rig.grid()).block(32 * self.rig.case.warps_per_block), controller)
    }

    /// Runs another kernel of the module on the same queues.
    pub fn run_launch(
        &mut self,
        launch: Launch,
        mut controller: impl FnMut(&SoftRig, &Moment) -> bool,
    ) -> anyhow::Result<Outcome> {
        let schedule = self.rig.case.schedule;
        let seed = if schedule.random { self.rig.case.seed } else { 0 };
        let launch = launch.seed(seed).preempt_one_in(schedule.preempt_one_in);
        let launch = launch.store_buffer(schedule.store_buffer).hooks(self.hooks()?);
        let mut worker = launch.worker()?;
        let start = self.now();
        let trouble = self.drive(&mut worker, &mut controller);
        let counters = worker.counters();
        let elapsed = self.now() - start;
        drop(worker);
        let mut findings: Vec<Finding> = trouble.into_iter().collect();
        findings.extend(self.monitor.lock().breaches().iter().cloned().map(Finding::Breach));
        Ok(Outcome { findings, counters, elapsed, history: self.history() })
    }

    /// How often kernels read a register of the controller.
    pub fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Relaxed)
    }

    /// Commands of queue `index` that the controller was told of and that were not reported complete.
    pub fn outstanding(&self, index: usize) -> u64 {
        self.monitor.lock().outstanding(index)
    }

    fn now(&self) -> Duration {
        self.rig.soft.clock().now()
    }

    fn note(&self, event: Event) {
        let mut events = self.events.lock();
        if events.len() == HISTORY {
            events.pop_front();
        }
        events.push_back((self.now(), event));
    }

    fn drive(
        &mut self,
        worker: &mut Worker,
        controller: &mut dyn FnMut(&SoftRig, &Moment) -> bool,
    ) -> Option<Finding> {
        let start = self.now();
        let (mut quiet, mut allowed, mut before) = (0, true, Counters::default());
        for round in 0..MOST_ROUNDS {
            // When all only wait, a round goes on until every warp has looked.
            let turns = if quiet > QUIET_ROUNDS { 256 } else { 1 + self.draw.below(6) as u32 };
            let idle = match worker.step(turns) {
                State::Running => false,
                State::Idle => true,
                State::Done => return None,
                State::Deadlock(lanes) => return Some(Finding::Deadlock(lanes.clone())),
                State::Fault(fault) => return Some(Finding::Fault(fault.clone())),
            };
            let (elapsed, rung) = (self.now() - start, self.monitor.lock().rung());
            let may = controller(&self.rig, &Moment { elapsed, round, rung, idle });
            if may != allowed {
                self.note(if may { Event::Resumed } else { Event::Stalled });
                allowed = may;
            }
            let acted = may && self.step_controller(idle) || progress(&before, &worker.counters());
            before = worker.counters();
            quiet = if acted { 0 } else { quiet + u32::from(idle) };
            self.pass_time(idle && quiet > QUIET_ROUNDS);
            if elapsed > self.limit {
                return Some(Finding::Stuck(format!("not done {elapsed:?} after its start")));
            }
        }
        Some(Finding::Stuck(format!("not done after {MOST_ROUNDS} rounds")))
    }

    /// A random number of controller steps, at least one if the kernel waits.
    fn step_controller(&mut self, idle: bool) -> bool {
        let steps = self.draw.below(5).max(u64::from(idle));
        (0..steps).fold(false, |acted, _| acted | self.rig.soft.step())
    }

    fn pass_time(&mut self, leap: bool) {
        if leap {
            self.note(Event::Leap);
            self.rig.soft.advance(self.rig.case.timeout / LEAPS);
        } else {
            self.rig.soft.advance(ROUND);
        }
    }

    fn hooks(&self) -> anyhow::Result<Hooks> {
        let soft: Arc<SoftDevice> = self.rig.soft.clone();
        let doorbells = soft.doorbells();
        let (base, sink) = (doorbells.window().as_ptr() as u64, doorbells.sink());
        let sink: Arc<dyn DoorbellSink> = sink.context("a stepped controller has a doorbell sink")?;
        let (monitor, events, clock) = (self.monitor.clone(), self.events.clone(), soft.clone());
        let ring = move |address: u64, value: u32| {
            monitor.lock().doorbell(address, value);
            let mut events = events.lock();
            if events.len() == HISTORY {
                events.pop_front();
            }
            events.push_back((clock.clock().now(), Event::Doorbell { address, value }));
            sink.ring((address - base) as usize, value);
        };
        let monitor = self.monitor.clone();
        let watch = move |event: &MemoryEvent| monitor.lock().observe(event);
        let hooks = self.registers()?;
        let clock = move || soft.clock().now().as_nanos() as u64;
        Ok(hooks.doorbell(ring).memory(watch).clock(clock))
    }

    /// The page that kernels read a register of, where they flush; a page is aligned to its size.
    fn registers(&self) -> anyhow::Result<Hooks> {
        let register = self.rig.state(0)?.flush_register;
        let (soft, page) = (self.rig.soft.clone(), register & !(BASE_PAGE as u64 - 1));
        let flushes = self.flushes.clone();
        let read = move |at: usize| {
            flushes.fetch_add(1, Ordering::Relaxed);
            soft.registers().read32(at as u32)
        };
        Ok(if register == 0 { Hooks::new() } else { Hooks::new().registers(page, BASE_PAGE, read) })
    }

    /// The last events, one a line.
    fn history(&self) -> String {
        let queues: Vec<_> =
            (0..self.rig.case.queues as usize).filter_map(|i| self.rig.attachment.queue(i).ok()).collect();
        let name = |address: u64| {
            let of = |doorbell, kind: &str, qid| (doorbell == address).then(|| format!("queue {qid} {kind}"));
            queues
                .iter()
                .find_map(|q| of(q.sq_doorbell, "tail", q.qid).or_else(|| of(q.cq_doorbell, "head", q.qid)))
        };
        let line = |(time, event): &(Duration, Event)| match event {
            Event::Doorbell { address, value } => {
                format!("  {time:?} {} = {value}", name(*address).unwrap_or_else(|| format!("{address:#x}")))
            }
            other => format!("  {time:?} {other:?}"),
        };
        self.events.lock().iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

/// Whether the kernel did more than look.
fn progress(before: &Counters, now: &Counters) -> bool {
    let acts = |c: &Counters| (c.doorbells, c.shadow_stores, c.sqes, c.cqes, c.drained);
    acts(before) != acts(now)
}

/// Runs a case in which every command must succeed. `Err` tells what was wrong, with seed and history.
pub fn run_success(case: &Case, module: &Module) -> anyhow::Result<Outcome> {
    let mut simulation = Simulation::with_module(case, module)?;
    let mut outcome = simulation.run()?;
    outcome.findings.extend(simulation.rig.check_success()?);
    Ok(outcome)
}

/// The same, and panics if anything was wrong.
pub fn expect_success(case: &Case) -> Outcome {
    let module = Module::builtin().expect("the CPU target is built in");
    let outcome = run_success(case, &module).unwrap_or_else(|error| panic!("{case:?}: {error:#}"));
    outcome.expect_right(case);
    outcome
}

impl Outcome {
    /// Panics with seed, findings and history if anything was wrong.
    pub fn expect_right(&self, case: &Case) {
        assert!(self.findings.is_empty(), "{}", Failure { case, outcome: self });
    }
}

struct Failure<'a> {
    case: &'a Case,
    outcome: &'a Outcome,
}

impl fmt::Display for Failure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { case, outcome } = self;
        writeln!(f, "seed {} of {:?} fails:\n{}", case.seed, case.name, lines(&outcome.findings))?;
        writeln!(f, "{case:?}\nlast events:\n{}", outcome.history)
    }
}
