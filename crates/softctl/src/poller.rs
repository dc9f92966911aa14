//! Polling threads.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;
use rustix::thread::CpuSet;
use rustix::time::ClockId;

use crate::core::{Core, PollGroupCell};
use crate::error::SoftError;
use crate::poll_group::PollGroup;

/// Admin commands served before the I/O queues have their turn again.
const ADMIN_BURST: u32 = 16;
/// Empty passes between two reads of the clock.
const CHECK: u32 = 256;
/// Passes between two checks of the timers.
const TIMER_PASSES: u32 = 16;
/// Idle time after which a poller offers its processor to others between passes.
const SPIN: Duration = Duration::from_micros(100);
/// Idle time after which a poller sleeps between passes.
const YIELD: Duration = Duration::from_millis(2);
/// How long it sleeps at first. Later it is a hundredth of its idle time, up to [`crate::SoftConfig::longest_nap`].
const FIRST_NAP: Duration = Duration::from_micros(50);
/// The longest that it sleeps where there are no I/O queues to poll.
const LONGEST_NAP: Duration = Duration::from_millis(1);

/// Starts the poller of poll group `index`.
pub(crate) fn start(core: Arc<Core>, index: usize) -> Result<JoinHandle<()>, SoftError> {
    let name = format!("softctl-{index}");
    Builder::new()
        .name(name)
        .spawn(move || run(&core, index))
        .map_err(|source| SoftError::Thread { index, source })
}

fn pin(core: &Core, index: usize) {
    let Some(pins) = &core.config.pin else { return };
    let cpu = pins[index % pins.len()];
    let mut set = CpuSet::new();
    set.set(cpu);
    if let Err(error) = rustix::thread::sched_setaffinity(None, &set) {
        tracing::warn!(poller = index, cpu, %error, "cannot pin a poller");
    }
}

fn run(core: &Core, index: usize) {
    pin(core, index);
    let cell = &core.poll_groups[index];
    let mut poll_group = cell.poll_group.lock();
    let mut idle = Idle::new();
    let mut passes = 0u32;
    loop {
        // Acquire: whoever waits or stops did what it did before.
        if cell.waiters.load(Ordering::Acquire) != 0 || core.stop.load(Ordering::Acquire) {
            if core.stop.load(Ordering::Acquire) {
                break;
            }
            let_others_in(cell, &mut poll_group);
        }
        let mut busy = poll_group.pass();
        if poll_group.incident.is_some() {
            MutexGuard::unlocked(&mut poll_group, || suffer(core, cell));
        }
        if index == 0 && core.admin_wanted() {
            MutexGuard::unlocked(&mut poll_group, || core.run_admin(&mut core.control.lock(), ADMIN_BURST));
            busy = true;
        }
        passes = passes.wrapping_add(1);
        if index == 0 && passes.is_multiple_of(TIMER_PASSES) {
            check_timers(core, &mut poll_group);
        }
        if busy {
            idle.reset();
        } else {
            idle.wait(&mut poll_group, index == 0 && core.vectors.due().is_some(), core.config.longest_nap);
        }
    }
    poll_group.engine.statistics.poller_cpu = cpu_time();
}

/// Lets the incident of a poll group happen. It is taken under the control lock only: a reset that came first has taken it
/// away, and what the client has begun since is not hit by it.
#[cold]
fn suffer(core: &Core, cell: &PollGroupCell) {
    let mut control = core.control.lock();
    let incident = cell.lock().incident.take();
    if let Some(incident) = incident {
        core.suffer(&mut control, incident);
    }
}

/// Reads the clock only where a timer runs.
#[inline]
fn check_timers(core: &Core, poll_group: &mut MutexGuard<'_, PollGroup>) {
    let timers = core.vectors.due().into_iter().chain(core.keep_alive.due()).chain(core.admin_late.due());
    let Some(due) = timers.min() else { return };
    let now = poll_group.engine.time.now();
    if due <= now {
        MutexGuard::unlocked(poll_group, || {
            let mut control = core.control.lock();
            core.fire_timers(&mut control, now);
            if control.late_is_due() {
                // It is set again if it is still of use.
                core.admin_late.set(None);
                core.run_admin(&mut control, ADMIN_BURST);
            }
        });
    }
}

/// Gives the poll group to those who wait for it, and comes back when all have had it.
#[cold]
fn let_others_in(cell: &PollGroupCell, poll_group: &mut MutexGuard<'_, PollGroup>) {
    poll_group.engine.statistics.poller_cpu = cpu_time();
    MutexGuard::unlocked(poll_group, || {
        while cell.waiters.load(Ordering::Acquire) != 0 {
            std::thread::yield_now();
        }
    });
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Waiting without work: first eagerly, then out of the way of others.
struct Idle {
    passes: u32,
    since: Option<Instant>,
    tired: Duration,
}

impl Idle {
    fn new() -> Idle {
        Idle { passes: 0, since: None, tired: Duration::ZERO }
    }

    #[inline]
    fn reset(&mut self) {
        self.passes = 0;
        self.since = None;
        self.tired = Duration::ZERO;
    }

    #[inline]
    fn wait(&mut self, poll_group: &mut MutexGuard<'_, PollGroup>, timer_is_near: bool, longest: Duration) {
        self.passes += 1;
        if self.passes >= CHECK {
            self.passes = 0;
            self.rest(poll_group);
        }
        if self.tired >= YIELD && !timer_is_near {
            poll_group.engine.statistics.poller_cpu = cpu_time();
            let longest = if poll_group.load() > 0 { longest } else { LONGEST_NAP };
            let nap = (self.tired / 100).max(FIRST_NAP).min(longest);
            MutexGuard::unlocked(poll_group, || std::thread::sleep(nap));
            self.passes = CHECK;
        } else if self.tired >= SPIN {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }

    #[cold]
    fn rest(&mut self, poll_group: &mut PollGroup) {
        self.tired = self.since.get_or_insert_with(Instant::now).elapsed();
        poll_group.catch_up();
        if self.tired >= SPIN {
            poll_group.doze();
        }
    }
}
