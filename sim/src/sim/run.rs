//! One run: the host's main thread, from the first register to the last.

use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use crossbeam::channel::Receiver;
use parking_lot::Mutex;
use warpbell::{AttachOptions, Attachment, DeviceName, Launch, Ssd, SsdEvent};
use warpbell_hw::{Device, Lba, Nsid, Window};
use warpbell_kernels::abi;
use warpbell_kernels::cpu::{Hooks, MemoryEvent, Module};
use warpbell_softctl::{FaultKind, InjectedFault, SoftConfig, SoftDevice};
use zerocopy::{FromZeros, IntoBytes};

use super::device::SimDevice;
use super::host::{Health, is_gone};
use super::kernel::{self, Args, MOST_BLOCKS, Move, Op, Record};
use super::lives::Life;
use super::log::Log;
use super::outcome::{Command, Facts, Who};
use super::plan::Plan;
use super::wire::Wire;
use super::world::World;
use crate::findings::Finding;
use crate::monitor::Monitor;
use crate::{TestLaunch, on_cpu};
use warpbell::test_hooks::TestSsd;

/// More than there are faults that a plan injects.
const MOST_TRIES: u32 = 24;
/// Between two tries to read blocks.
const A_WHILE: Duration = Duration::from_millis(400);

/// Brings the controller up. Where commands of the host's own start are hit, too: again.
fn open(
    plan: &Plan,
    name: &DeviceName,
    device: &Arc<dyn Device>,
    soft: &Arc<SoftDevice>,
) -> Result<Ssd, warpbell::Error> {
    let open = || Ssd::over_device(name.clone(), device.clone(), Some(soft.clone()), &plan.open_options());
    let mut opened = open();
    for _ in 0..if plan.recovery == 0 { 0 } else { MOST_TRIES } {
        // One that could not be identified is left out.
        let complete = |ssd: &Ssd| ssd.namespaces().len() as u64 == plan.namespaces;
        if opened.as_ref().is_ok_and(complete) || soft.faults().is_empty() {
            break;
        }
        drop(opened);
        opened = open();
    }
    opened
}

/// How a run begins.
pub(super) enum Start<'a> {
    /// The controller is up.
    Begun(Box<Run<'a>>),
    /// It was removed before that, by one of these faults: there is nothing to be run.
    Removed(Vec<InjectedFault>),
}

/// The host's main thread.
pub(super) struct Run<'a> {
    pub(super) plan: &'a Plan,
    module: &'a Module,
    pub(super) world: Rc<World>,
    pub(super) soft: Arc<SoftDevice>,
    pub(super) ssd: Ssd,
    /// What the library says of its recovery.
    pub(super) events: Receiver<SsdEvent>,
    /// Bytes that are mapped while there are no queues.
    pub(super) mapped: u64,
    pub(super) attached: Option<Attached>,
    /// What the host's own queue was to be asked for when it was cut off.
    pub(super) client_rest: Vec<Op>,
    /// Admin commands still to be sent.
    pub(super) admin: u64,
    /// Commands given up that the host has seen: queue and command identifier.
    pub(super) seen: HashSet<(u16, u16)>,
    pub(super) facts: Facts,
}

/// Queues for kernels.
pub(super) struct Attached {
    pub(super) attachment: Attachment,
    pub(super) monitor: Arc<Mutex<Monitor>>,
}

/// Memory of one kernel.
pub(super) struct Launched {
    kernel: u64,
    ops: Vec<Op>,
    records: Window,
    moves: Window,
    _ops: Window,
    /// While there is one, kernels may come back to the queues that it names.
    _launch: Launch,
}

impl<'a> Run<'a> {
    /// Brings the controller up, in a world that is this thread's from now on.
    pub(super) fn start(plan: &'a Plan, module: &'a Module, told: bool) -> anyhow::Result<Start<'a>> {
        let config: SoftConfig = plan.soft_config()?;
        let soft = SoftDevice::stepped(config).context("soft controller")?;
        let log = Arc::new(Mutex::new(Log::new(told)));
        let timeout = plan.wait_limit().min(plan.submit_limit());
        let wire = Arc::new(Wire::default());
        let device: Arc<dyn Device> = Arc::new(SimDevice::new(soft.clone(), wire.clone()));
        let world = World::new(soft.clone(), plan.seed, timeout, log, wire);
        let name = DeviceName::Soft("size=1m".to_owned());
        let ssd = match open(plan, &name, &device, &soft) {
            Err(error) if is_gone(&error) && soft.faults().iter().any(|f| f.kind == FaultKind::Remove) => {
                return Ok(Start::Removed(soft.faults()));
            }
            opened => opened.context("open")?,
        };
        let events = ssd.events();
        let run = Run {
            plan,
            module,
            soft,
            events,
            mapped: world.wire.mapped_bytes(),
            ssd,
            world,
            attached: None,
            client_rest: Vec::new(),
            admin: plan.admin,
            seen: HashSet::new(),
            facts: Facts::default(),
        };
        run.fill_blocks()?;
        Ok(Start::Begun(Box::new(run)))
    }

    fn fill_blocks(&self) -> anyhow::Result<()> {
        let mut block = vec![0u8; self.plan.block_bytes()];
        let last = block.len() - 8;
        for lba in 0..self.plan.blocks + MOST_BLOCKS as u64 {
            let word = self.plan.initial(lba).to_le_bytes();
            block[..8].copy_from_slice(&word);
            block[last..].copy_from_slice(&word);
            self.soft.poke(Nsid(self.plan.nsid()), Lba(lba), &block)?;
        }
        Ok(())
    }

    /// Kernels and host, until everything was asked for, answered, recovered and read back.
    pub(super) fn go(&mut self) -> anyhow::Result<()> {
        let _entered = self.world.clone().enter();
        if self.plan.recovery == 0 { self.go_plainly() } else { self.go_recovering() }
    }

    /// The host itself answers alarms, and resets when the kernels have ended.
    fn go_plainly(&mut self) -> anyhow::Result<()> {
        for kernel in 0..self.plan.kernels {
            if !self.attach(kernel)? {
                break;
            }
            // Where a queue is lost and replaced, the client comes with the new one.
            if self.plan.lose == 0 || self.plan.replace == 0 || self.facts.lost {
                self.start_client(kernel)?;
            }
            let launched = self.launch(kernel)?;
            let lost = self.supervise();
            self.collect(&launched)?;
            if lost {
                self.recover();
            }
        }
        self.finish_client();
        self.put_in_order();
        if !self.facts.gone {
            self.read_back()?;
        }
        Ok(())
    }

    /// Queues for kernels, if there are none. False if the controller is gone.
    pub(super) fn attach(&mut self, kernel: u64) -> anyhow::Result<bool> {
        if self.attached.is_some() || self.facts.gone {
            return Ok(!self.facts.gone);
        }
        let plan = self.plan;
        let options = AttachOptions::new()
            .nsid(Some(Nsid(plan.nsid())))
            .priority(plan.priority())
            .queues(plan.queues as u32)
            .warps(plan.warp_numbers().0 as u32)
            .iodepth(plan.entries as u32 - 1)
            .commands_per_lane(Some(plan.tokens as u32))
            .sharing(plan.sharing())
            .timeout(plan.wait_limit())
            .start(plan.start)
            .recovery(plan.recovery != 0)
            .replacement_queues(plan.replacement_queues as u32);
        let Some(attachment) = self.attach_at_last(kernel, &options)? else { return Ok(false) };
        let queues = (0..plan.queues as usize).map(|index| attachment.queue(index));
        let queues = queues.collect::<Result<Vec<_>, _>>()?;
        // What is not written in this lap shows as such, in the first as in every later one.
        for pair in attachment.pairs() {
            if let Some(sq) = pair.sq() {
                sq.window().fill(0, sq.window().len(), 0xff)?;
            }
        }
        let mut monitor = Monitor::new(&queues, plan.start).reading_rings();
        if plan.dbbuf != 0 {
            monitor = monitor.through_shadows();
        }
        if plan.recovery != 0 {
            monitor = monitor.with_hazards(plan.warp_numbers().1 as u32, plan.store_buffer != 0);
        }
        let monitor = Arc::new(Mutex::new(monitor));
        self.world.log.lock().watch(&queues, plan.start);
        if plan.recovery != 0 {
            self.world.begin_lives(&queues, &monitor);
        }
        self.attached = Some(Attached { attachment, monitor });
        Ok(true)
    }

    /// A fault of the plan may hit the host's own first commands: then again, after a reset. None: the controller is
    /// gone.
    fn attach_at_last(&mut self, kernel: u64, options: &AttachOptions) -> anyhow::Result<Option<Attachment>> {
        for _ in 0..MOST_TRIES {
            let begin = self.world.now();
            let attached = self.ssd.attach(options);
            self.facts.attaches.push((begin, self.world.now()));
            match attached {
                Ok(attachment) => return Ok(Some(attachment)),
                Err(error) => self.excuse_attach(begin, &format!("attach for kernel {kernel}"), &error),
            }
            if self.plan.recovery == 0 {
                self.recover();
            } else {
                self.bring_back();
            }
            if self.facts.gone {
                return Ok(None);
            }
        }
        anyhow::bail!("no queues for kernel {kernel}, not even after resets")
    }

    fn slot_bytes(&self) -> usize {
        self.plan.most_blocks as usize * self.plan.block_bytes()
    }

    pub(super) fn launch(&mut self, kernel: u64) -> anyhow::Result<Launched> {
        let plan = self.plan;
        let attached = self.attached.as_ref().context("queues are attached")?;
        let lanes = (0..plan.warps).flat_map(|warp| (0..32).map(move |lane| (warp, lane)));
        let ops: Vec<Op> = lanes
            .flat_map(|(warp, lane)| (0..plan.commands).map(move |index| plan.op(kernel, warp, lane, index)))
            .collect();
        let ops_window = Window::host(size_of_val(&ops[..]))?;
        ops_window.write(0, ops.as_bytes())?;
        // A new one for each kernel: commands that an earlier one gave up may still use theirs.
        let slots = (plan.warps * 32 * plan.depth) as usize;
        let buffer = attached.attachment.buffer(slots * self.slot_bytes())?;
        let records = Window::host(ops.len() * plan.tries as usize * size_of::<Record>())?;
        let moves = Window::host(plan.warps as usize * kernel::MOVES * size_of::<Move>())?;
        let args = Args {
            abi_version: abi::ABI_VERSION,
            size: size_of::<Args>() as u32,
            ns: self.leased(attached.attachment.namespace(), kernel),
            buffer: buffer.as_ref(),
            ops: ops_window.as_ptr() as u64,
            records: records.as_ptr() as u64,
            moves: moves.as_ptr() as u64,
            timeout_ns: plan.wait_limit().as_nanos() as u64,
            submit_timeout_ns: plan.submit_limit().as_nanos() as u64,
            successor_timeout_ns: plan.successor_limit().as_nanos() as u64,
            commands: plan.commands as u32,
            tries: plan.tries as u32,
            batch: plan.batch as u32,
            async_depth: plan.depth as u32,
            slot_bytes: self.slot_bytes() as u32,
            flags: plan.kernel_flags(),
            first_warp: plan.warp_numbers().1 as u32,
            patience: plan.patience as u32,
        };
        let schedule = plan.schedule();
        let launch = attached.attachment.launch_bytes(&self.module.clone().into(), "sim", args.as_bytes())?;
        let launch = launch.grid((plan.warps / plan.block_warps) as u32).block(32 * plan.block_warps as u32);
        let on_cpu = on_cpu(&launch).context("a launch on the CPU")?;
        let worker = on_cpu
            .seed(if schedule.random { (plan.seed << 2 | kernel) + 1 } else { 0 })
            .preempt_one_in(schedule.preempt_one_in)
            .store_buffer(schedule.store_buffer)
            .hooks(self.hooks(&attached.monitor)?)
            .worker()?;
        self.world.start(worker);
        Ok(Launched { kernel, ops, records, moves, _ops: ops_window, _launch: launch })
    }

    /// What the kernels are handed of the namespace. Those that prove something are handed all of it.
    fn leased(&self, ns: abi::NamespaceRef, kernel: u64) -> abi::NamespaceRef {
        let leased = self.plan.lease != 0 && kernel < self.plan.kernels;
        abi::NamespaceRef { lease_end: if leased { self.plan.blocks } else { ns.lease_end }, ..ns }
    }

    fn hooks(&self, monitor: &Arc<Mutex<Monitor>>) -> anyhow::Result<Hooks> {
        let doorbells = self.soft.doorbells();
        let (base, sink) = (doorbells.window().as_ptr() as u64, doorbells.sink().context("a sink")?);
        let (watching, soft, log) = (monitor.clone(), self.soft.clone(), self.world.log.clone());
        let ring = move |address: u64, value: u32| {
            let mut monitor = watching.lock();
            monitor.doorbell(address, value);
            monitor.tell_time(soft.clock().now());
            log.lock().ring(soft.clock().now(), address, value);
            sink.ring((address - base) as usize, value);
        };
        let watching = monitor.clone();
        let soft = self.soft.clone();
        let watch = move |event: &MemoryEvent| {
            let mut monitor = watching.lock();
            let before = monitor.breaches().len();
            monitor.observe(event);
            if monitor.breaches().len() != before {
                monitor.tell_time(soft.clock().now());
            }
        };
        let soft = self.soft.clone();
        // No two looks see the same time, so that what is noted is in the order in which it happened.
        let clock = move || {
            soft.advance(Duration::from_nanos(1));
            soft.clock().now().as_nanos() as u64
        };
        Ok(Hooks::new().doorbell(ring).memory(watch).clock(clock))
    }

    /// Reads all blocks, as a client does.
    pub(super) fn read_back(&mut self) -> anyhow::Result<()> {
        let mut wanted: Vec<u64> = (0..self.plan.blocks + MOST_BLOCKS as u64).collect();
        for _ in 0..MOST_TRIES {
            if wanted.is_empty() || self.facts.gone {
                break;
            }
            // A namespace that is slow is so for a while.
            self.soft.advance(A_WHILE);
            let before = self.facts.commands.len();
            let read = |lba| Op { lba, blocks: 1, opcode: kernel::READ, ..Op::default() };
            self.make_client(wanted.iter().copied().map(read).collect())?;
            self.finish_client();
            if self.health() != Health::Fine {
                self.recover();
            }
            if self.plan.recovery != 0 {
                self.bring_back();
            }
            let done = |command: &&Command| command.record.answers == 1 && command.record.status == 0;
            let read: HashSet<u64> =
                self.facts.commands[before..].iter().filter(done).map(|c| c.op.lba).collect();
            wanted.retain(|lba| !read.contains(lba));
        }
        if !wanted.is_empty() && !self.facts.gone {
            let text = format!("blocks {wanted:?} could not be read back, not even after resets");
            self.facts.findings.push(Finding::Unexplained(text));
        }
        Ok(())
    }

    /// What lanes noted, try by try.
    pub(super) fn collect(&mut self, launched: &Launched) -> anyhow::Result<()> {
        let plan = self.plan;
        for (index, op) in launched.ops.iter().enumerate().filter(|(_, op)| op.opcode != kernel::NONE) {
            let (lane, command) = (index as u64 / plan.commands, index as u64 % plan.commands);
            for attempt in 0..plan.tries {
                let mut record = Record::new_zeroed();
                let at = index * plan.tries as usize + attempt as usize;
                launched.records.read(at * size_of::<Record>(), record.as_mut_bytes())?;
                if attempt > 0 && record.asked == 0 {
                    continue;
                }
                let who =
                    Who::Lane { kernel: launched.kernel, warp: lane / 32, lane: lane % 32, command, attempt };
                let command = self.placed(who, lane / 32, *op, record)?;
                self.facts.commands.push(command);
            }
        }
        self.collect_moves(launched)
    }

    /// A command, with the queue that it was asked for on.
    fn placed(&self, who: Who, warp: u64, op: Op, record: Record) -> anyhow::Result<Command> {
        let index = ((self.plan.warp_numbers().1 + warp) % self.plan.queues) as usize;
        if self.plan.recovery == 0 {
            let pairs = self.attached.as_ref().context("queues are attached")?.attachment.pairs();
            let (era, qid) = (self.facts.resets.len(), pairs[index].qid().0);
            return Ok(Command { who, era, qid, life: None, op, record });
        }
        let lives = self.world.lives.borrow();
        // One that was never asked for is the last queue's.
        let is_it = |life: &Life| {
            life.index == index
                && (record.asked == 0
                    || life.name() == record.queue && life.from.as_nanos() as u64 <= record.asked)
        };
        let life = lives.all.iter().rposition(is_it);
        let life = life.with_context(|| {
            format!("{who} was asked for on queue {:#x}, which nobody knows", record.queue)
        })?;
        let (qid, from) = (lives.all[life].qid(), lives.all[life].from);
        Ok(Command { who, era: self.facts.era_at(from), qid, life: Some(life), op, record })
    }

    fn collect_moves(&mut self, launched: &Launched) -> anyhow::Result<()> {
        for index in 0..self.plan.warps as usize * kernel::MOVES {
            let mut note = Move::new_zeroed();
            launched.moves.read(index * size_of::<Move>(), note.as_mut_bytes())?;
            if note.status != 0 {
                self.facts.moves.push((launched.kernel, (index / kernel::MOVES) as u64, note));
            }
        }
        Ok(())
    }

    /// Ends everything; tells what was seen.
    pub(super) fn end(mut self) -> Facts {
        let _entered = self.world.clone().enter();
        self.facts.story = self.world.log.clone();
        self.facts.faults = self.soft.faults();
        self.facts.elapsed = self.world.now();
        let lives = std::mem::take(&mut *self.world.lives.borrow_mut());
        (self.facts.lives, self.facts.broken) = (lives.all, lives.wrong);
        let Run { plan, ssd, mut facts, attached, world, soft, .. } = self;
        world.kill();
        drop(world.set_client(None));
        drop(attached);
        let controller = ssd.controller().clone();
        drop(ssd);
        if let (Ok(controller), false) = (Arc::try_unwrap(controller).map_err(|_| ()), facts.gone)
            && let Err(error) = controller.shutdown()
        {
            // A fault may come as late as that.
            if plan.recovery == 0 || !facts.is_harmed(&soft) {
                facts.host_error(format!("shutdown: {error}"));
            }
        }
        facts.violations = soft.violations();
        facts
    }
}
