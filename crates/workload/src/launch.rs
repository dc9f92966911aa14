//! Launches kernels, and stops them when asked to.

use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use warpbell::kernels::abi::{Mailbox, Plain};
use warpbell::kernels::cpu::{Counters, Launch, Report, Running, State, Threads, spawn_threads};
use warpbell::soft::SoftDevice;
use warpbell::{Attachment, Target};

use crate::array::Array;
use crate::control::Control;
use crate::cpu::{self, nanoseconds};
use crate::error::RunError;
use crate::job::LANES;
use crate::result::Costs;
use crate::stopwatch::wait as wait_for_controller;

/// How often a running kernel is looked at: seldom, but a short one is not kept waiting.
const FIRST_LOOK: Duration = Duration::from_micros(50);
const LOOK: Duration = Duration::from_millis(5);
/// Turns of warps between two looks at the wish to stop, in virtual time.
const TURNS: u32 = 1 << 14;

/// Where and how kernels run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launcher<'a> {
    pub(crate) target: Target,
    /// Threads of the CPU target.
    pub(crate) threads: usize,
    /// Processors for them.
    pub(crate) cpus: &'a [usize],
    /// The controller, if it works only when stepped.
    pub(crate) stepped: Option<&'a Arc<SoftDevice>>,
}

/// One launch: a kernel, and the memory through which it is stopped.
pub(crate) struct Kernel<'a, T> {
    pub(crate) name: &'static str,
    pub(crate) args: T,
    pub(crate) warps: u32,
    pub(crate) mailbox: &'a Array<Mailbox>,
}

/// What a launch cost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Launched {
    pub(crate) costs: Costs,
    pub(crate) cpu_time_ns: u64,
}

impl Launcher<'_> {
    /// Runs a kernel, a block for each warp, and waits for its end.
    pub(crate) fn run<T: Plain>(
        &self,
        attachment: &Attachment,
        kernel: &Kernel<'_, T>,
        control: &Control,
    ) -> Result<Launched, RunError> {
        let module = self.target.module()?;
        let launch = attachment.launch(&module, kernel.name, &kernel.args)?.grid(kernel.warps).block(LANES);
        if let Some(soft) = self.stepped {
            return run_stepped(&launch, soft, kernel.mailbox, control);
        }
        let threads = Threads { workers: self.threads, pin: self.cpus.to_vec(), ..Threads::default() };
        let running = spawn_threads(&launch, &threads).map_err(warpbell::Error::from)?;
        let report = wait(running, kernel.mailbox, control)?;
        let cpu_time_ns = nanoseconds(report.cpu_time());
        Ok(Launched { costs: costs(&report.counters), cpu_time_ns })
    }
}

/// Runs a kernel on this thread, in the virtual time of its controller: where all warps only poll, the controller acts,
/// or time passes until it can.
fn run_stepped(
    launch: &Launch,
    soft: &SoftDevice,
    mailbox: &Array<Mailbox>,
    control: &Control,
) -> Result<Launched, RunError> {
    let before = cpu::thread_time();
    let mut worker = launch.worker().map_err(warpbell::Error::from)?;
    while !worker.finished().map_err(warpbell::Error::from)? {
        if *worker.step(TURNS) == State::Idle {
            wait_for_controller(soft);
        }
        if control.stopped() {
            stop(mailbox);
        }
    }
    let cpu_time_ns = nanoseconds(cpu::thread_time() - before);
    Ok(Launched { costs: costs(&worker.counters()), cpu_time_ns })
}

fn stop(mailbox: &Array<Mailbox>) {
    mailbox.window().store_u32(offset_of!(Mailbox, stop), 1, Ordering::Release);
}

/// Waits for the end, and passes the wish to stop on to the kernel's mailbox.
fn wait(running: Running, mailbox: &Array<Mailbox>, control: &Control) -> Result<Report, RunError> {
    let mut pause = FIRST_LOOK;
    while !running.is_finished() {
        if control.stopped() {
            stop(mailbox);
        }
        std::thread::sleep(pause);
        pause = LOOK.min(pause * 2);
    }
    Ok(running.join().map_err(warpbell::Error::from)?)
}

fn costs(counters: &Counters) -> Costs {
    Costs {
        sq_doorbells: counters.sq_doorbells,
        cq_doorbells: counters.cq_doorbells,
        shadow_stores: counters.shadow_stores,
        rmw: counters.rmw,
        fences: counters.fence_sys + counters.fence_gpu,
        polls: counters.polls,
        sqes: counters.sqes,
        cqes: counters.cqes,
    }
}
