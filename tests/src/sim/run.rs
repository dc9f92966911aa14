//! One run: the host's main thread, from the first register to the last.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use parking_lot::Mutex;
use warpbell::{AttachOptions, Attachment, DeviceName, OpenOptions, Ssd};
use warpbell_driver::{DriverError, IoQueueOptions};
use warpbell_hw::{Cid, Device, Nsid, Qid, Window};
use warpbell_kernels::abi;
use warpbell_kernels::cpu::{Hooks, Launch, MemoryEvent, Module};
use warpbell_softctl::{SoftConfig, SoftDevice};
use zerocopy::{FromZeros, IntoBytes};

use super::client::Client;
use super::device::SimDevice;
use super::kernel::{self, Args, MOST_BLOCKS, Op, Record};
use super::log::Log;
use super::outcome::{Command, Facts, Who};
use super::plan::Plan;
use super::world::World;
use crate::findings::Finding;
use crate::memory::peek;
use crate::witness::Witness;

/// Rounds after which a kernel is given up; one of a hundred commands takes some thousand.
const MOST_ROUNDS: u64 = 300_000;
/// Rounds between two looks of the host at its controller.
const LOOK: u64 = 16;
const NSID: u32 = 1;

/// The host's main thread.
pub(super) struct Run<'a> {
    plan: &'a Plan,
    module: &'a Module,
    world: Rc<World>,
    soft: Arc<SoftDevice>,
    ssd: Ssd,
    attached: Option<Attached>,
    /// Admin commands still to be sent.
    admin: u64,
    pub(super) facts: Facts,
}

/// Queues for kernels.
struct Attached {
    attachment: Attachment,
    witness: Arc<Mutex<Witness>>,
}

/// Memory of one kernel.
struct Launched {
    kernel: u64,
    ops: Vec<Op>,
    records: Window,
    _ops: Window,
}

/// How the controller looks to its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Fine,
    Broken,
    Gone,
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
        let options = OpenOptions { queues: Some(plan.queues as u16 + 4), ..OpenOptions::default() };
        let ssd = Ssd::over_device(name, device, Some(soft.clone()), &options).context("open")?;
        let run = Run {
            plan,
            module,
            world,
            soft,
            ssd,
            attached: None,
            admin: plan.admin,
            facts: Facts::default(),
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
            self.start_client(kernel)?;
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
            warps: plan.warps as u32,
            iodepth: plan.entries as u32 - 1,
            tokens: Some(plan.tokens as u32),
            sharing: plan.sharing(),
            deadline: plan.wait_limit(),
            start: plan.start,
            ..AttachOptions::default()
        };
        let attachment = match self.ssd.attach(&options) {
            Ok(attachment) => attachment,
            // A fault of the plan may hit the host's own first commands.
            Err(error) => {
                self.facts.host_error(format!("attach for kernel {kernel}: {error}"));
                self.recover();
                if self.facts.gone {
                    return Ok(false);
                }
                self.ssd.attach(&options).context("attach after a reset")?
            }
        };
        let queues = (0..plan.queues as usize).map(|index| attachment.queue(index));
        let queues = queues.collect::<Result<Vec<_>, _>>()?;
        let witness = Arc::new(Mutex::new(Witness::new(&queues, plan.start).reading_rings()));
        self.world.log.lock().watch(&queues, plan.start);
        self.attached = Some(Attached { attachment, witness });
        Ok(true)
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
            pad: 0,
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
            watching.lock().doorbell(address, value);
            log.lock().ring(soft.clock().now(), address, value);
            sink.ring((address - base) as usize, value);
        };
        let watching = witness.clone();
        let watch = move |event: &MemoryEvent| watching.lock().observe(event);
        let soft = self.soft.clone();
        // No two looks see the same time, so that what is noted is in the order in which it happened.
        let clock = move || {
            soft.advance(Duration::from_nanos(1));
            soft.clock().now().as_nanos() as u64
        };
        Ok(Hooks::new().doorbell(ring).memory(watch).clock(clock))
    }

    /// The host while a kernel runs. True if the controller was lost.
    fn supervise(&mut self) -> bool {
        let start = self.world.rounds();
        let begin = self.world.now();
        let limit = self.kernel_limit();
        let mut lost = false;
        while self.world.is_running() {
            let round = self.world.rounds() - start;
            if round.is_multiple_of(LOOK) && !lost {
                lost = self.look(round);
            }
            self.world.turn(Duration::ZERO);
            let elapsed = self.world.now() - begin;
            if elapsed > limit || round > MOST_ROUNDS {
                let text = format!("a kernel is not done {elapsed:?} ({round} rounds) after its start");
                self.facts.findings.push(Finding::Stuck(text));
                self.world.kill();
            }
        }
        self.facts.findings.extend(self.world.take_trouble());
        lost
    }

    /// Longer than any kernel may take if each call keeps its deadline.
    fn kernel_limit(&self) -> Duration {
        let plan = self.plan;
        let batches = 32u64.div_ceil(plan.batch) as u32;
        let round = plan.submit_limit() * batches + plan.wait_limit() * 2;
        round * (plan.commands as u32 + 2) * 2
    }

    /// One look at controller and alarms, and now and then an admin command. True once the controller is lost.
    fn look(&mut self, round: u64) -> bool {
        if self.health() != Health::Fine {
            self.declare_lost();
            return true;
        }
        if self.plan.lose != 0 && round >= self.plan.lose && !self.facts.lost {
            self.lose_one();
        }
        let queues = self.attached.as_ref().map_or(0, |_| self.plan.queues as usize);
        for queue in 0..queues {
            self.answer_alarm(queue);
        }
        if self.admin > 0 && self.world.below(16) == 0 {
            self.admin -= 1;
            self.send_admin();
        }
        false
    }

    fn health(&self) -> Health {
        let csts = self.world.csts();
        match csts.into_bits() {
            u32::MAX => Health::Gone,
            _ if csts.cfs() || !csts.rdy() => Health::Broken,
            _ => Health::Fine,
        }
    }

    fn declare_lost(&mut self) {
        let Some(attached) = &self.attached else { return };
        (0..self.plan.queues as usize).for_each(|queue| attached.attachment.declare_lost(queue));
        self.facts.lost = true;
        self.world.note(|| "host: all queues are declared lost".to_owned());
    }

    /// Gives one queue up, though nothing is wrong with it; perhaps replaces it while kernels still hold it.
    fn lose_one(&mut self) {
        let Some(attached) = &self.attached else { return };
        let queue = (self.plan.seed % self.plan.queues) as usize;
        attached.attachment.declare_lost(queue);
        self.facts.lost = true;
        self.world.note(|| format!("host: queue {queue} is declared lost"));
        if self.plan.replace == 0 {
            return;
        }
        let pair = &attached.attachment.pairs()[queue];
        let qid = pair.qid();
        self.facts.retired.push(qid.0);
        let deleted = self.ssd.controller().retire_queue_pair(pair);
        self.world.note(|| format!("host: queue pair {qid} deleted: {deleted:?}"));
        self.expect_host("deletion of a lost queue", deleted);
        if let Err(error) = self.start_client(8) {
            self.facts.host_error(format!("a queue in place of a lost one: {error:#}"));
        }
    }

    /// Aborts what was quarantined.
    fn answer_alarm(&mut self, queue: usize) {
        let Some(attached) = &self.attached else { return };
        if !attached.attachment.take_alarm(queue) {
            return;
        }
        let Ok(of) = attached.attachment.queue(queue) else { return };
        let qid = Qid(of.qid as u16);
        if self.facts.retired.contains(&qid.0) {
            return;
        }
        for cid in quarantined(&of).into_iter().take(3) {
            let answer = self.ssd.controller().abort(qid, Cid(cid));
            self.world.note(|| format!("host: abort of cid {cid:#06x} of {qid}: {answer:?}"));
            self.facts.aborts += 1;
            self.expect_host("abort", answer);
        }
    }

    fn send_admin(&mut self) {
        let controller = self.ssd.controller().clone();
        let (name, answer) = match self.world.below(4) {
            0 => ("SMART log", controller.smart_log().map(|_| ())),
            1 => ("error log", controller.error_log(4).map(|_| ())),
            2 => ("write cache feature", controller.volatile_write_cache().map(|_| ())),
            _ => ("events", controller.poll_events().map(|_| ())),
        };
        self.world.note(|| format!("host: {name}: {answer:?}"));
        self.facts.admin += 1;
        self.expect_host(name, answer);
    }

    /// A call of the host must succeed, unless the controller is broken.
    fn expect_host<T>(&mut self, what: &str, answer: Result<T, DriverError>) {
        if let Err(error) = answer {
            let text = format!("{what}: {error}");
            if self.health() == Health::Fine {
                self.facts.host_error(text);
            } else {
                self.facts.excused.push(text);
            }
        }
    }

    /// A host thread with its own queue, if there is none yet.
    fn start_client(&mut self, kernel: u64) -> anyhow::Result<()> {
        if self.plan.client == 0 || self.world.with_client(|_| ()).is_some() || self.health() != Health::Fine
        {
            return Ok(());
        }
        let first = kernel * 1000;
        let ops = (first..first + self.plan.client).map(|index| self.plan.client_op(index)).collect();
        self.make_client(ops)
    }

    fn make_client(&mut self, ops: Vec<Op>) -> anyhow::Result<()> {
        let entries = self.plan.client_entries as u32;
        let options = IoQueueOptions { deadline: self.plan.wait_limit(), sq_batch: 1, cq_batch: 1 };
        let buffer = self.ssd.buffer(Client::buffer_bytes(entries))?;
        let queue = match self.ssd.host_queue(entries, options, buffer) {
            Ok(queue) => queue,
            Err(error) if self.health() != Health::Fine => {
                self.facts.excused.push(error.to_string());
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        self.world.set_client(Some(Client::new(queue, self.plan.block_bytes(), ops)));
        Ok(())
    }

    /// Lets the client end, and takes its queue away. Its buffer goes last.
    fn finish_client(&mut self) {
        let begin = self.world.now();
        while self.world.with_client(|client| !client.is_done()) == Some(true)
            && self.health() == Health::Fine
        {
            self.world.turn(Duration::ZERO);
            if self.world.now() - begin > self.plan.wait_limit() * 4 * (self.plan.client as u32 + 16) {
                self.facts.findings.push(Finding::Stuck("the host's own queue does not end".to_owned()));
                break;
            }
        }
        if self.health() != Health::Fine {
            return;
        }
        if let Some(client) = self.world.set_client(None) {
            self.facts.spurious += client.spurious();
            let done = client.into_done();
            self.facts.add_client(&done.ops, &done.records);
            let deleted = done.queue.delete();
            if let Err(error) = deleted {
                let fine = self.health() == Health::Fine;
                let text = format!("deletion of the host's queue: {error}");
                if fine { self.facts.host_error(text) } else { self.facts.excused.push(text) }
            }
        }
    }

    /// The controller is broken: kernels have ended; everything is reset.
    fn recover(&mut self) {
        if self.health() == Health::Gone {
            self.facts.gone = true;
        }
        // Its queue, and the kernels', are let go of after the reset: until then they are the controller's too.
        let client = self.world.set_client(None).map(|mut client| {
            client.stop();
            self.facts.spurious += client.spurious();
            let done = client.into_done();
            self.facts.add_client(&done.ops, &done.records);
            done.queue
        });
        let attached = self.attached.take();
        self.count(attached.as_ref());
        let reset = self.ssd.controller().reset();
        self.world.note(|| format!("host: reset: {reset:?}"));
        self.world.log.lock().forget();
        self.facts.end_of_era(&self.soft);
        if let Err(error) = reset {
            if self.health() == Health::Gone {
                self.facts.gone = true;
            } else {
                self.facts.host_error(format!("reset: {error}"));
            }
        }
        drop((attached, client));
    }

    /// Queues deleted in good order, or everything reset.
    fn put_in_order(&mut self) {
        if self.facts.gone {
            return;
        }
        if self.health() != Health::Fine || self.plan.reset != 0 {
            return self.recover();
        }
        let Some(attached) = self.attached.take() else { return };
        self.count(Some(&attached));
        for pair in attached.attachment.pairs() {
            let deleted = self.ssd.controller().retire_queue_pair(pair);
            self.expect_host("deletion of a queue", deleted);
        }
        self.world.log.lock().forget();
        drop(attached);
        if self.health() != Health::Fine {
            self.recover();
        }
    }

    /// What kernels counted on queues that are about to go.
    fn count(&mut self, attached: Option<&Attached>) {
        let Some(Attached { attachment, witness, .. }) = attached else { return };
        for queue in 0..self.plan.queues as usize {
            let counters = attachment.counters(queue);
            self.facts.spurious += counters.spurious;
            self.facts.late += counters.late;
            self.facts.sqhd_mismatch += counters.sqhd_mismatch;
        }
        let breaches = witness.lock().breaches().to_vec();
        self.facts.findings.extend(breaches.into_iter().map(Finding::Breach));
    }

    /// Reads all blocks, as a client does.
    fn read_back(&mut self) -> anyhow::Result<()> {
        let blocks = self.plan.blocks + MOST_BLOCKS as u64;
        for _ in 0..4 {
            let before = self.facts.commands.len();
            let read = |lba| Op { lba, blocks: 1, opcode: kernel::READ, ..Op::default() };
            self.make_client((0..blocks).map(read).collect())?;
            self.finish_client();
            if self.health() != Health::Fine {
                self.recover();
                if self.facts.gone {
                    return Ok(());
                }
                continue;
            }
            if self.facts.commands[before..].iter().all(|command| command.record.status == 0) {
                break;
            }
        }
        self.violations();
        Ok(())
    }

    fn violations(&mut self) {
        let retired = &self.facts.retired;
        let expected = |violation: &warpbell_softctl::Violation| {
            violation.rule == warpbell_softctl::Rule::DoorbellRegister
                && retired.iter().any(|qid| violation.detail.contains(&format!("queue {qid} does not exist")))
        };
        let found: Vec<Finding> =
            self.soft.violations().into_iter().filter(|v| !expected(v)).map(Finding::Violation).collect();
        self.facts.findings.extend(found);
    }

    fn collect(&mut self, launched: &Launched) -> anyhow::Result<()> {
        for (index, op) in launched.ops.iter().enumerate() {
            if op.opcode == kernel::NONE {
                continue;
            }
            let mut record = Record::new_zeroed();
            launched.records.read(index * size_of::<Record>(), record.as_mut_bytes())?;
            let (lane, command) = (index as u64 / self.plan.commands, index as u64 % self.plan.commands);
            let who = Who::Lane { kernel: launched.kernel, warp: lane / 32, lane: lane % 32, command };
            let era = self.facts.eras.len();
            self.facts.commands.push(Command { who, era, op: *op, record });
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
        drop(soft);
        facts
    }
}

/// Command identifiers that lanes of a queue gave up.
fn quarantined(queue: &abi::QueueRef) -> Vec<u16> {
    let lanes = queue.warp_slots * 32;
    let mut cids = Vec::new();
    for lane in 0..lanes {
        let mask: u32 = peek(queue.quarantine + 4 * u64::from(lane));
        let bits = (0..32).filter(|bit| mask >> bit & 1 != 0);
        cids.extend(bits.map(|bit| (lane << (queue.local_bits - 5) | bit) as u16));
    }
    cids
}
