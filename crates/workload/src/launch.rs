// UNSAFETY: kernels follow lists and tables, which the workloads of this crate fill.
#![expect(unsafe_code, reason = "a launch is a promise about the memory that its kernel follows")]
//! Launches kernels, and stops them when asked to.

use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use warpbell::{Attachment, Launch, LaunchReport, OpenTarget, Regions, SharedMemory, Ssd, Volume};
use warpbell_hw::Device;
use warpbell_kernels::abi::{BLOCK_THREADS_MAX, KernelArgs, Mailbox};
use warpbell_kernels::cpu::{self, Counters, Threads};
use warpbell_softctl::SoftDevice;

use crate::control::Control;
use crate::cpu::{nanoseconds, thread_time};
use crate::error::RunError;
use crate::job::LANES;
use crate::result::Costs;
use crate::stopwatch::{OneClock, stepped, wait as wait_for_controller};

/// Turns of warps between two checks of the wish to stop, in virtual time.
const TURNS: u32 = 1 << 14;

/// Where and how kernels run.
#[derive(Clone, Copy)]
pub(crate) struct Launcher<'a> {
    /// Threads of the CPU target.
    threads: usize,
    /// Processors for them.
    cpus: &'a [usize],
    ssd: &'a Ssd,
    /// Its controller, if that works only when stepped.
    stepped: Option<&'a Arc<SoftDevice>>,
    /// In virtual time: who else uses the SSD, and has a turn whenever all warps wait.
    beside: Option<&'a (dyn Fn() + 'a)>,
}

/// One launch: a kernel, and the memory through which it is stopped.
pub(crate) struct Kernel<'a, T> {
    pub(crate) name: &'static str,
    pub(crate) args: T,
    pub(crate) warps: u32,
    /// Whether it is refused where not all its warps run at the same time: they wait for each other, or the figure is of
    /// all of them at once.
    pub(crate) together: bool,
    pub(crate) mailbox: &'a SharedMemory,
    /// How long it may run, where that is known.
    pub(crate) limit: Option<Duration>,
    /// What its arguments point to, beside queues, buffers and mailbox. What the kernel follows in there was written by the
    /// workload that it is the kernel of, and is left alone until it has ended.
    pub(crate) uses: Regions,
}

/// A block of a launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub(crate) warps: u32,
    /// Bytes of dynamic shared memory.
    pub(crate) memory: u32,
}

/// What a launch cost: a GPU counts nothing, and takes no CPU time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Launched {
    pub(crate) costs: Option<Costs>,
    /// All that the executor counted.
    pub(crate) counters: Option<Counters>,
    pub(crate) cpu_time_ns: Option<u64>,
}

impl<'a> Launcher<'a> {
    /// Kernels over `ssd`, on these threads where they run on the CPU.
    pub(crate) fn new(ssd: &'a Ssd, threads: usize, cpus: &'a [usize]) -> Launcher<'a> {
        Launcher { threads, cpus, ssd, stepped: stepped(ssd), beside: None }
    }

    /// The same with somebody else who uses the SSD.
    pub(crate) fn beside(self, turn: &'a (dyn Fn() + 'a)) -> Launcher<'a> {
        Launcher { beside: Some(turn), ..self }
    }

    /// Runs a kernel, and waits for its end.
    pub(crate) fn run<T: KernelArgs>(
        &self,
        attachment: &Attachment,
        kernel: &Kernel<'_, T>,
        control: &Control,
    ) -> Result<Launched, RunError> {
        let warps = warps_per_block(attachment.target(), kernel.warps);
        self.run_in_blocks(attachment, kernel, Block { warps, memory: 0 }, control)
    }

    /// The same, in blocks of this kind.
    pub(crate) fn run_in_blocks<T: KernelArgs>(
        &self,
        attachment: &Attachment,
        kernel: &Kernel<'_, T>,
        block: Block,
        control: &Control,
    ) -> Result<Launched, RunError> {
        let uses = kernel.uses.clone().with(kernel.mailbox);
        // SAFETY: `Kernel::uses` has it so.
        let launch = unsafe { attachment.launch(kernel.name, &kernel.args, uses) }?;
        // A GPU runs in waves what does not fit at once.
        let together = kernel.together || attachment.target().gpu().is_none();
        let launch = kernel.configured(launch, block, together)?;
        let worker = self.stepped.map(|soft| Ok::<_, RunError>((soft, launch.worker()?))).transpose()?;
        control.begin(self.ssd);
        let launched = match worker {
            Some((soft, Some(worker))) => self.run_stepped(worker, soft, kernel.mailbox, control),
            _ => Launched::by(launch, self.threads, self.cpus, control),
        };
        control.end(self.ssd);
        launched
    }

    /// Runs a kernel on this thread, in the virtual time of its controller: where all warps only poll, the controller acts,
    /// or time passes until it can; and who watches the SSD polls it.
    fn run_stepped(
        &self,
        worker: cpu::Worker,
        soft: &SoftDevice,
        mailbox: &SharedMemory,
        control: &Control,
    ) -> Result<Launched, RunError> {
        let idle = || {
            wait_for_controller(soft);
            if let Some(turn) = self.beside {
                turn();
            }
        };
        let poll = || {
            self.ssd.recovery().poll();
            control.sample(self.ssd, soft.clock().now());
        };
        Launched::in_steps(worker, (mailbox, control), (idle, poll))
    }
}

impl<T> Kernel<'_, T> {
    /// A launch of it as it is to run: in blocks of this kind, with its mailbox and limit.
    fn configured(&self, launch: Launch, block: Block, cooperative: bool) -> Result<Launch, RunError> {
        let launch = launch.grid(self.warps / block.warps).block(block.warps * LANES);
        let launch = launch.shared_bytes(block.memory).cooperative(cooperative);
        let launch = launch.mailbox(self.mailbox)?;
        Ok(self.limit.map_or(launch.clone(), |limit| launch.limit(limit)))
    }
}

/// Runs a kernel over a volume of `ssds`, all in real time or all in virtual time, on these threads where it runs on the
/// CPU, and waits for its end.
pub(crate) fn run_over<T: KernelArgs>(
    (volume, ssds): (&Volume, &[Ssd]),
    kernel: &Kernel<'_, T>,
    block: Block,
    (threads, cpus): (usize, &[usize]),
    control: &Control,
) -> Result<Launched, RunError> {
    let uses = kernel.uses.clone().with(kernel.mailbox);
    // SAFETY: `Kernel::uses` has it so.
    let launch = unsafe { volume.launch(kernel.name, &kernel.args, uses) }?;
    let launch = kernel.configured(launch, block, kernel.together)?;
    let clock = OneClock::of(ssds);
    let worker = clock.as_ref().map(|_| launch.worker()).transpose()?.flatten();
    match (clock, worker) {
        (Some(clock), Some(worker)) => {
            let poll = || ssds.iter().for_each(|ssd| ssd.recovery().poll());
            Launched::in_steps(worker, (kernel.mailbox, control), (|| clock.wait(), poll))
        }
        _ => Launched::by(launch, threads, cpus, control),
    }
}

impl Launched {
    /// Runs a worker on this thread to its end: `idle` lets time pass where all warps only poll, `poll` comes after each turn.
    fn in_steps(
        mut worker: cpu::Worker,
        (mailbox, control): (&SharedMemory, &Control),
        (idle, poll): (impl Fn(), impl Fn()),
    ) -> Result<Launched, RunError> {
        let before = thread_time();
        while !worker.finished().map_err(warpbell::Error::from)? {
            if *worker.step(TURNS) == cpu::State::Idle {
                idle();
            }
            poll();
            if control.stopped() {
                mailbox.window().store_u32(offset_of!(Mailbox, stop), 1, Ordering::Release);
            }
        }
        let cpu_time_ns = nanoseconds(thread_time() - before);
        let counters = worker.counters();
        Ok(Launched {
            costs: Some(costs(&counters)),
            counters: Some(counters),
            cpu_time_ns: Some(cpu_time_ns),
        })
    }

    /// Starts `launch` in real time, on these threads where its target is the CPU, and waits for its end.
    pub(crate) fn by(
        launch: Launch,
        workers: usize,
        cpus: &[usize],
        control: &Control,
    ) -> Result<Launched, RunError> {
        let threads = Threads::new().workers(workers).pin(cpus.to_vec());
        let running = launch.threads(threads).start()?;
        running.wait(|running| {
            if control.stopped() {
                running.stop();
            }
        })?;
        Ok(Launched::of(&running.join()?))
    }

    fn of(report: &LaunchReport) -> Launched {
        let cpu = report.cpu.as_ref();
        Launched {
            costs: cpu.map(|cpu| costs(&cpu.counters)),
            counters: cpu.map(|cpu| cpu.counters),
            cpu_time_ns: cpu.map(|cpu| nanoseconds(cpu.cpu_time())),
        }
    }
}

/// On the CPU a block for each warp, as a block stays on its thread. On a GPU warps are spread over all its
/// multiprocessors first; only then do they share blocks, as many as evenly fill the largest ones that our kernels take.
fn warps_per_block(target: &OpenTarget, warps: u32) -> u32 {
    let Some(gpu) = target.gpu() else { return 1 };
    let most = (BLOCK_THREADS_MAX / LANES).min(warps.div_ceil(gpu.info().multiprocessors.max(1)));
    (1..=most).rev().find(|share| warps.is_multiple_of(*share)).unwrap_or(1)
}

fn costs(counters: &Counters) -> Costs {
    Costs {
        sq_doorbells: counters.sq_doorbells,
        cq_doorbells: counters.cq_doorbells,
        shadow_stores: counters.shadow_stores,
        rmw: counters.rmw,
        fences: counters.fence_sys + counters.fence_gpu,
        polls: counters.polls,
        register_reads: counters.register_reads,
        sqes: counters.sqes,
        cqes: counters.cqes,
    }
}
