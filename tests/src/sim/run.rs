//! One run: the host's main thread, from the first register to the last.

use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use parking_lot::Mutex;
use warpbell::{AttachOptions, Attachment, DeviceName, OpenOptions, Ssd};
use warpbell_driver::DoorbellBuffer;
use warpbell_hw::{Device, Nsid, Window};
use warpbell_kernels::abi;
use warpbell_kernels::cpu::{Hooks, Launch, MemoryEvent, Module};
use warpbell_softctl::{SoftConfig, SoftDevice};
use zerocopy::{FromZeros, IntoBytes};

use super::device::SimDevice;
use super::host::Health;
use super::kernel::{self, Args, MOST_BLOCKS, Op, Record};
use super::log::Log;
use super::outcome::{Command, Facts, Who};
use super::plan::Plan;
use super::world::World;
use crate::findings::Finding;
use crate::witness::Witness;

const NSID: u32 = 1;
/// More than there are faults that a plan injects.
const MOST_TRIES: u32 = 12;
/// Between two tries to read blocks.
const A_WHILE: Duration = Duration::from_millis(400);

/// The host's main thread.
pub(super) struct Run<'a> {
    pub(super) plan: &'a Plan,
    module: &'a Module,
    pub(super) world: Rc<World>,
    pub(super) soft: Arc<SoftDevice>,
    pub(super) ssd: Ssd,
    pub(super) attached: Option<Attached>,
    /// Admin commands still to be sent.
    pub(super) admin: u64,
    /// Commands given up that the host has seen: queue and command identifier.
    pub(super) seen: HashSet<(u16, u16)>,
    pub(super) facts: Facts,
}

/// Queues for kernels.
pub(super) struct Attached {
    pub(super) attachment: Attachment,
    pub(super) witness: Arc<Mutex<Witness>>,
}

/// Memory of one kernel.
struct Launched {
    kernel: u64,
    ops: Vec<Op>,
    records: Window,
    _ops: Window,
}

impl<'a> Run<'a> {
    /// Brings the controller up, in a world that is this thread's from now on.
    pub(super) fn new(plan: &'a Plan, module: &'a Module, told: bool) -> anyhow::Result<Run<'a>> {
        let config: SoftConfig = plan.soft_config()?;
        let soft = SoftDevice::stepped(config).context("soft controller")?;
        let log = Arc::new(Mutex::new(Log::new(told)));
        let deadline = plan.wait_limit().min(plan.submit_limit());
        let world = World::new(soft.clone(), plan.seed, deadline, log);
        let device: Arc<dyn Device> = Arc::new(SimDevice(soft.clone()));
        let name = DeviceName::Soft("size=1m".to_owned());
        let doorbell_buffer = if plan.dbbuf == 0 { DoorbellBuffer::Off } else { DoorbellBuffer::On };
        let queues = Some(plan.queues as u16 + 4);
        let options = OpenOptions { queues, doorbell_buffer, ..OpenOptions::default() };
        let ssd = Ssd::over_device(name, device, Some(soft.clone()), &options).context("open")?;
        let run = Run {
            plan,
            module,
            world,
            soft,
            ssd,
            attached: None,
            admin: plan.admin,
            seen: HashSet::new(),
            facts: Facts { shadowed: plan.dbbuf != 0, ..Facts::default() },
        };
        run.fill_blocks()?;
        Ok(run)
    }

    fn fill_blocks(&self) -> anyhow::Result<()> {
        let mut block = vec![0u8; self.plan.block_bytes()];
        let last = block.len() - 8;
        for lba in 0..self.plan.blocks + MOST_BLOCKS as u64 {
            let word = self.plan.initial(lba).to_le_bytes();
            block[..8].copy_from_slice(&word);
            block[last..].copy_from_slice(&word);
            self.soft.poke(NSID, lba, &block)?;
        }
        Ok(())
    }

    /// Kernels and host, until everything was asked for, answered, recovered and read back.
    pub(super) fn go(&mut self) -> anyhow::Result<()> {
        let _entered = self.world.clone().enter();
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
    fn attach(&mut self, kernel: u64) -> anyhow::Result<bool> {
        if self.attached.is_some() || self.facts.gone {
            return Ok(!self.facts.gone);
        }
        let plan = self.plan;
        let options = AttachOptions {
            nsid: Some(Nsid(NSID)),
            queues: plan.queues as u32,
            warps: plan.warp_numbers().0 as u32,
            iodepth: plan.entries as u32 - 1,
            tokens: Some(plan.tokens as u32),
            sharing: plan.sharing(),
            deadline: plan.wait_limit(),
            start: plan.start,
            ..AttachOptions::default()
        };
        let Some(attachment) = self.attach_at_last(kernel, &options)? else { return Ok(false) };
        let queues = (0..plan.queues as usize).map(|index| attachment.queue(index));
        let queues = queues.collect::<Result<Vec<_>, _>>()?;
        // What is not written in this lap shows as such, in the first as in every later one.
        for pair in attachment.pairs() {
            pair.sq().window().fill(0, pair.sq().window().len(), 0xff)?;
        }
        let mut witness = Witness::new(&queues, plan.start).reading_rings();
        if plan.dbbuf != 0 {
            witness = witness.through_shadows();
        }
        let witness = Arc::new(Mutex::new(witness));
        self.world.log.lock().watch(&queues, plan.start);
        self.attached = Some(Attached { attachment, witness });
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
            self.recover();
            if self.facts.gone {
                return Ok(None);
            }
        }
        anyhow::bail!("no queues for kernel {kernel}, not even after resets")
    }

    fn slot_bytes(&self) -> usize {
        self.plan.most_blocks as usize * self.plan.block_bytes()
    }

    fn launch(&mut self, kernel: u64) -> anyhow::Result<Launched> {
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
        let records = Window::host(ops.len() * size_of::<Record>())?;
        let args = Args {
            abi_version: abi::ABI_VERSION,
            size: size_of::<Args>() as u32,
            ns: attached.attachment.namespace(),
            buffer: buffer.as_ref(),
            ops: ops_window.as_ptr() as u64,
            records: records.as_ptr() as u64,
            deadline_ns: plan.wait_limit().as_nanos() as u64,
            submit_deadline_ns: plan.submit_limit().as_nanos() as u64,
            commands: plan.commands as u32,
            batch: plan.batch as u32,
            async_depth: plan.depth as u32,
            slot_bytes: self.slot_bytes() as u32,
            flags: plan.flags as u32,
            first_warp: plan.warp_numbers().1 as u32,
        };
        let schedule = plan.schedule();
        let launch = Launch::with_bytes(self.module, "sim", args.as_bytes())?
            .grid((plan.warps / plan.block_warps) as u32)
            .block(32 * plan.block_warps as u32)
            .seed(if schedule.random { (plan.seed << 2 | kernel) + 1 } else { 0 })
            .preempt_one_in(schedule.preempt_one_in)
            .store_buffer(schedule.store_buffer)
            .hooks(self.hooks(&attached.witness)?);
        self.world.start(launch.worker()?);
        Ok(Launched { kernel, ops, records, _ops: ops_window })
    }

    fn hooks(&self, witness: &Arc<Mutex<Witness>>) -> anyhow::Result<Hooks> {
        let doorbells = self.soft.doorbells();
        let (base, sink) = (doorbells.window().as_ptr() as u64, doorbells.sink().context("a sink")?);
        let (watching, soft, log) = (witness.clone(), self.soft.clone(), self.world.log.clone());
        let ring = move |address: u64, value: u32| {
            let mut witness = watching.lock();
            witness.doorbell(address, value);
            witness.tell_time(soft.clock().now());
            log.lock().ring(soft.clock().now(), address, value);
            sink.ring((address - base) as usize, value);
        };
        let watching = witness.clone();
        let soft = self.soft.clone();
        let watch = move |event: &MemoryEvent| {
            let mut witness = watching.lock();
            let before = witness.breaches().len();
            witness.observe(event);
            if witness.breaches().len() != before {
                witness.tell_time(soft.clock().now());
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
    fn read_back(&mut self) -> anyhow::Result<()> {
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

    fn collect(&mut self, launched: &Launched) -> anyhow::Result<()> {
        let pairs = self.attached.as_ref().context("queues are attached")?.attachment.pairs();
        for (index, op) in launched.ops.iter().enumerate() {
            if op.opcode == kernel::NONE {
                continue;
            }
            let mut record = Record::new_zeroed();
            launched.records.read(index * size_of::<Record>(), record.as_mut_bytes())?;
            let (lane, command) = (index as u64 / self.plan.commands, index as u64 % self.plan.commands);
            let who = Who::Lane { kernel: launched.kernel, warp: lane / 32, lane: lane % 32, command };
            let era = self.facts.eras.len();
            let queue = (self.plan.warp_numbers().1 + lane / 32) % self.plan.queues;
            let qid = pairs[queue as usize].qid().0;
            self.facts.commands.push(Command { who, era, qid, op: *op, record });
        }
        Ok(())
    }

    /// Ends everything; tells what was seen.
    pub(super) fn end(mut self) -> Facts {
        let _entered = self.world.clone().enter();
        self.facts.story = self.world.log.clone();
        self.facts.faults = self.soft.faults();
        self.facts.elapsed = self.world.now();
        let Run { ssd, mut facts, attached, world, soft, .. } = self;
        world.kill();
        drop(world.set_client(None));
        drop(attached);
        let controller = ssd.controller().clone();
        drop(ssd);
        if let (Ok(controller), false) = (Arc::try_unwrap(controller).map_err(|_| ()), facts.gone)
            && let Err(error) = controller.shutdown()
        {
            facts.host_error(format!("shutdown: {error}"));
        }
        facts.violations = soft.violations();
        facts
    }
}
