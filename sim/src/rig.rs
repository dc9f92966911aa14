//! What every run needs, threaded or simulated: an open controller, queues, data and records.

use std::ops::Deref;
use std::sync::Arc;

use anyhow::Context;
use warpbell::{Attachment, Buffer, DeviceName, KernelMemory, Ssd};
use warpbell_base::mix64;
use warpbell_kernels::abi::{self, Plain};
use warpbell_softctl::SoftDevice;

use zerocopy::IntoBytes;

use crate::blocks::Blocks;
use crate::case::{Case, Mode};
use crate::findings::Finding;
use crate::memory::peek;
use warpbell::test_hooks::TestSsd;
use warpbell_hw::{Lba, Nsid};

/// A rig on a soft controller.
pub struct SoftRig {
    /// The controller.
    pub soft: Arc<SoftDevice>,
    /// What does not depend on the kind of controller.
    pub run: Rig,
}

impl SoftRig {
    /// Brings the controller up, fills its blocks, attaches the queues.
    pub fn new(case: &Case, soft: Arc<SoftDevice>) -> anyhow::Result<SoftRig> {
        crate::log::start();
        let name = DeviceName::Soft("size=1m".to_owned());
        let ssd = Ssd::over_soft(name, soft.clone(), &case.open_options()).context("open")?;
        let run = Rig::new(case, Arc::new(ssd), soft.clone())?;
        Ok(SoftRig { soft, run })
    }
}

impl Deref for SoftRig {
    type Target = Rig;

    fn deref(&self) -> &Rig {
        &self.run
    }
}

/// An open SSD of any kind with queues attached, and the memory of one kernel.
pub struct Rig {
    /// What is run.
    pub case: Case,
    /// The SSD.
    pub ssd: Arc<Ssd>,
    /// The queues.
    pub attachment: Attachment,
    /// Data of the commands.
    pub buffer: Buffer,
    blocks: Arc<dyn Blocks>,
    records: KernelMemory,
    results: KernelMemory,
}

impl Rig {
    /// Fills the blocks, by a way around the queues that are tested, and attaches these.
    pub fn new(case: &Case, ssd: Arc<Ssd>, blocks: Arc<dyn Blocks>) -> anyhow::Result<Rig> {
        let attachment = ssd.attach(&case.attach_options()).context("attach")?;
        let slots = (case.warps * 32 * case.async_depth) as usize;
        let buffer = attachment.buffer(slots * case.block_size as usize)?;
        let records = attachment.target().memory(case.total() as usize * size_of::<abi::TestRecord>())?;
        let results = attachment.target().memory(case.warps as usize * size_of::<abi::WarpResult>())?;
        let rig = Rig { case: case.clone(), ssd, attachment, buffer, blocks, records, results };
        rig.fill_blocks()?;
        Ok(rig)
    }

    /// The seed of block contents.
    fn data_seed(&self) -> u64 {
        self.case.seed ^ 0xda7a
    }

    /// The first and last word that a block must hold.
    fn content(&self, lba: u64) -> u64 {
        mix64(self.data_seed() ^ lba)
    }

    fn fill_blocks(&self) -> anyhow::Result<()> {
        if self.case.mode != Mode::Read {
            return Ok(());
        }
        let mut bytes = vec![0u8; self.case.blocks() as usize * self.case.block_size as usize];
        for (lba, block) in bytes.chunks_exact_mut(self.case.block_size as usize).enumerate() {
            let (word, last) = (self.content(lba as u64).to_le_bytes(), block.len() - 8);
            block[..8].copy_from_slice(&word);
            block[last..].copy_from_slice(&word);
        }
        self.blocks.store(Nsid(self.case.nsid), Lba(0), &bytes)
    }

    /// The kernel's argument.
    pub fn args(&self) -> abi::QueueTestArgs {
        let case = &self.case;
        // Only the blocks that were filled.
        let ns = self.attachment.namespace();
        abi::QueueTestArgs {
            ns: abi::NamespaceRef { blocks: ns.blocks.min(case.blocks()), ..ns },
            buffer: self.buffer.as_ref(),
            records: self.records.address(),
            results: self.results.address(),
            seed: self.data_seed(),
            submit_timeout_ns: case.submit_timeout.as_nanos() as u64,
            commands: case.commands,
            batch: case.batch,
            async_depth: case.async_depth,
            mode: case.mode.code(),
            flags: if case.stale_tokens { abi::TEST_STALE_TOKEN } else { 0 },
            ..abi::QueueTestArgs::new()
        }
    }

    /// What the kernel writes besides the buffer.
    pub fn kernel_memory(&self) -> [KernelMemory; 2] {
        [self.records.clone(), self.results.clone()]
    }

    /// The seed of the schedule; 0: lanes in order.
    pub fn launch_seed(&self) -> u64 {
        if self.case.schedule.random { self.case.seed } else { 0 }
    }

    /// Blocks of threads that a launch needs.
    pub fn grid(&self) -> u32 {
        self.case.warps / self.case.warps_per_block
    }

    /// Forgets the records, for another kernel on the same queues.
    pub fn clear(&self) -> anyhow::Result<()> {
        self.records.fill(0, self.records.len(), 0)?;
        Ok(self.results.fill(0, self.results.len(), 0)?)
    }

    /// What the kernel noted, command by command.
    pub fn records(&self) -> anyhow::Result<Vec<abi::TestRecord>> {
        read_all(&self.records, self.case.total() as usize)
    }

    /// What the kernel noted of one command.
    pub fn record(&self, command: usize) -> anyhow::Result<abi::TestRecord> {
        read_one(&self.records, command)
    }

    /// What each warp reported.
    pub fn results(&self) -> anyhow::Result<Vec<abi::WarpResult>> {
        read_all(&self.results, self.case.warps as usize)
    }

    /// The state that kernels left of queue `index`.
    pub fn state(&self, index: usize) -> anyhow::Result<abi::QueueState> {
        Ok(peek(self.attachment.queue(index)?.state))
    }

    /// Quarantined commands of queue `index`: one mask per lane, as the host sees them.
    pub fn quarantine(&self, index: usize) -> anyhow::Result<Vec<u32>> {
        let queue = self.attachment.queue(index)?;
        let lanes = u64::from(queue.warp_slots) * 32;
        Ok((0..lanes).map(|lane| peek(queue.quarantine + 4 * lane)).collect())
    }

    /// Completion slots of queue `index` that are armed and not answered.
    pub fn pending(&self, index: usize) -> anyhow::Result<usize> {
        let queue = self.attachment.queue(index)?;
        let words = (u64::from(queue.warp_slots) * 32) << queue.token_shift;
        let pending = |at: &u64| peek::<u32>(queue.words + 4 * at) & abi::SLOT_PENDING != 0;
        Ok((0..words).filter(pending).count())
    }

    /// What is wrong with a run in which every command must succeed.
    pub fn check_success(&self) -> anyhow::Result<Vec<Finding>> {
        let mut findings = self.check_records(&[])?;
        if matches!(self.case.mode, Mode::Write | Mode::WriteRead) {
            findings.extend(self.check_blocks()?);
        }
        Ok(findings)
    }

    /// What is wrong with the records, if beside success the library codes `allowed` may be answered.
    pub fn check_records(&self, allowed: &[u32]) -> anyhow::Result<Vec<Finding>> {
        let mut findings = Vec::new();
        for (command, record) in self.records()?.iter().enumerate() {
            let code = record.status & !abi::STATUS_LIBRARY;
            let from_library = record.status & abi::STATUS_LIBRARY != 0;
            if record.answers > 1 || record.answers == 0 && allowed.is_empty() {
                findings.push(Finding::Answers { command, answers: record.answers });
            }
            if record.status != 0 && !(from_library && allowed.contains(&code)) {
                findings.push(Finding::Status { command, status: record.status });
            }
            if record.payload == 2 {
                findings.push(Finding::Payload { command, lba: record.lba, found: record.found });
            }
        }
        findings.extend(self.ssd.violations().into_iter().map(Finding::Violation));
        for index in 0..self.case.queues as usize {
            let counters = self.attachment.counters(index)?;
            if counters.spurious != 0 {
                findings.push(Finding::Spurious(counters.spurious));
            }
            if counters.sqhd_mismatch != 0 {
                findings.push(Finding::SqHead(counters.sqhd_mismatch));
            }
        }
        Ok(findings)
    }

    /// Whether each written block holds what its command brought.
    fn check_blocks(&self) -> anyhow::Result<Vec<Finding>> {
        let mut findings = Vec::new();
        let mut bytes = vec![0u8; self.case.blocks() as usize * self.case.block_size as usize];
        self.blocks.load(Nsid(self.case.nsid), Lba(0), &mut bytes)?;
        for record in self.records()? {
            let first = record.lba as usize * self.case.block_size as usize;
            let block = &bytes[first..first + self.case.block_size as usize];
            let (first, last) = (word(&block[..8]), word(&block[block.len() - 8..]));
            for found in [first, last] {
                if found != self.content(record.lba) {
                    findings.push(Finding::Stored { lba: record.lba, found });
                }
            }
        }
        Ok(findings)
    }
}

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

fn read_one<T: Plain>(memory: &KernelMemory, index: usize) -> anyhow::Result<T> {
    let mut value = T::new_zeroed();
    memory.read(index * size_of::<T>(), value.as_mut_bytes())?;
    Ok(value)
}

/// In one copy: each costs a wait where the memory is a GPU's.
fn read_all<T: Plain>(memory: &KernelMemory, count: usize) -> anyhow::Result<Vec<T>> {
    let mut values = vec![T::new_zeroed(); count];
    memory.read(0, values.as_mut_bytes())?;
    Ok(values)
}
