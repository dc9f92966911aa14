//! Workloads: what programs ask an SSD for, submitted by kernels (kernel `replay`).
//!
//! The host makes each warp's list of commands, and the kernel submits it in order, `iodepth` of them in flight on the
//! warp's own queue. Addresses are those of the program; its computing is not there, and contents are whatever the
//! buffers hold. The programs in examples/ compute, and check what they read.

mod checkpoint;
mod graph;
mod kv;
mod loader;
mod vectors;

use std::sync::Arc;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use warpbell::Ssd;
use warpbell_hw::Lba;
use warpbell_nvme::NvmOpcode;

use super::limits::ReadLimits;
use super::unfit::Unfit;
use super::{Figures, Lab, Way, figures_of};
use crate::error::RunError;
use crate::job::Limits;
use crate::options::{BenchOptions, ReplayTiming, Sharing};
use crate::result::Run;
use crate::size::ByteSize;
use crate::stopwatch::ClockKind;
use crate::trace::{COMMANDS_MAX, ReplayCommand, SsdReplay};

pub(super) use checkpoint::ways as checkpoint;
pub(super) use graph::ways as graph;
pub(super) use kv::ways as kv;
pub(super) use loader::ways as loader;
pub(super) use vectors::ways as vectors;

/// Warps, each on a queue of its own, where the SSD grants so many.
const WARPS: u16 = 4;

/// What is asked of one SSD: a list of commands for each warp, filled in turn.
struct Requests {
    block: u64,
    blocks: u64,
    /// Blocks that one command moves at most.
    most: u64,
    warps: Vec<Vec<ReplayCommand>>,
    next: usize,
    commands: u64,
    bytes: u64,
}

impl Requests {
    /// None so far.
    fn on(lab: &Lab<'_>, ssd: &Ssd) -> Result<Requests, RunError> {
        let limits = Limits::of(ssd, lab.options.nsid)?;
        let block = u64::from(limits.block_size);
        let warps = usize::from(WARPS.min(limits.queues).max(1));
        let most = (ssd.max_command_bytes() / block).clamp(1, 1 << 16);
        let lists = vec![Vec::new(); warps];
        Ok(Requests { block, blocks: limits.blocks, most, warps: lists, next: 0, commands: 0, bytes: 0 })
    }

    /// Bytes of the namespace.
    fn room(&self) -> u64 {
        self.block * self.blocks
    }

    /// Bytes that whole blocks take.
    fn whole(&self, bytes: u64) -> u64 {
        bytes.next_multiple_of(self.block)
    }

    /// Reads the blocks that these bytes lie in, `due_ns` after the start; one warp submits it all.
    fn read(&mut self, offset: u64, bytes: u64, due_ns: u64) {
        self.push(NvmOpcode::READ.0, offset, bytes, due_ns);
    }

    /// Writes them.
    fn write(&mut self, offset: u64, bytes: u64) {
        self.push(NvmOpcode::WRITE.0, offset, bytes, 0);
    }

    /// A flush of each warp: kernel `replay` submits it when what the warp has written was answered.
    fn flush(&mut self) {
        let flush = ReplayCommand { at_ns: 0, opcode: NvmOpcode::FLUSH.0, lba: Lba(0), blocks: 0 };
        self.warps.iter_mut().for_each(|warp| warp.push(flush));
        self.commands += self.warps.len() as u64;
    }

    /// Whether it has as many commands as there may be: what is pushed then is not there.
    fn is_full(&self) -> bool {
        self.commands >= COMMANDS_MAX
    }

    /// One request, in as many commands as MDTS makes of it.
    fn push(&mut self, opcode: u8, offset: u64, bytes: u64, at_ns: u64) {
        if self.is_full() {
            return;
        }
        let (mut lba, end) = (offset / self.block, (offset + bytes).div_ceil(self.block));
        let list = &mut self.warps[self.next];
        while lba < end {
            let blocks = self.most.min(end - lba);
            list.push(ReplayCommand { at_ns, opcode, lba: Lba(lba), blocks: blocks as u32 });
            self.commands += 1;
            self.bytes += blocks * self.block;
            lba += blocks;
        }
    }

    /// What comes next is another operation, which the next warp submits.
    fn next_warp(&mut self) {
        self.next = (self.next + 1) % self.warps.len();
    }

    /// Options of the run that submits all of it.
    fn options(self, lab: &Lab<'_>, name: &str, timing: ReplayTiming) -> BenchOptions {
        // A warp without commands would be a queue without I/O.
        let warps: Vec<_> = self.warps.into_iter().filter(|warp| !warp.is_empty()).collect();
        let replay = SsdReplay {
            file: name.to_owned(),
            timing,
            recorded_on: "this workload".to_owned(),
            commands: self.commands,
            bytes: self.bytes,
            missing_events: 0,
            block_size_bytes: self.block as u32,
            queues: warps.len() as u32,
            sharing: Sharing::Exclusive,
            iodepth: lab.iodepth,
            warps,
            requests: Vec::new(),
        };
        BenchOptions { runtime: None, replay: Some(Arc::new(replay)), ..lab.reads(ByteSize(4096)) }
    }
}

/// Why there are too many requests, if so.
fn refusal(requests: &Requests) -> Option<Unfit> {
    requests.is_full().then_some(Unfit::Commands)
}

/// Commands of a run that have completed, and the bytes that they have moved: of the run, and not of the list.
fn done(run: &Run) -> (u64, u64) {
    (run.total.ios + run.flushes.unwrap_or(0), run.total.bytes)
}

/// Submits it all on the first SSD: rate, latency of single commands, and what `operations` operations took.
fn play(
    lab: &mut Lab<'_>,
    name: &str,
    requests: Requests,
    operations: u64,
) -> Result<Option<Figures>, RunError> {
    if let Some(reason) = refusal(&requests) {
        lab.skip(name, reason);
        return Ok(None);
    }
    let options = requests.options(lab, name, ReplayTiming::Asap);
    let Some(run) = lab.point(name, &options)? else { return Ok(None) };
    let (commands, bytes) = done(&run);
    let (commands, bytes, operations) = (commands as f64, bytes as f64, operations as f64);
    let figures = Figures::default()
        .with("ops_per_s", operations / seconds(&run))
        .merged(figures_of(&run))
        .with("commands_per_op", commands / operations)
        .with("bytes_per_op", bytes / operations);
    // The model of reads in virtual time: as many as their bytes let the way to the client have.
    let modelled = run.clock == ClockKind::Virtual && run.write.ios == 0 && commands > 0.0;
    let limits = modelled.then(|| lab.read_limits((bytes / commands) as u64)).flatten();
    let rate = limits.and_then(ReadLimits::by_link).map(|iops| iops * operations / commands);
    Ok(Some(figures.with_counted("expected_ops_per_s", rate)))
}

fn seconds(run: &Run) -> f64 {
    run.runtime_ns.max(1) as f64 / 1e9
}

/// Random numbers of a row: each has its own, and the same in every run.
fn random(lab: &Lab<'_>, row: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(lab.options.seed ^ row.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn push(lab: &mut Lab<'_>, name: String, figures: Option<Figures>) {
    if let Some(figures) = figures {
        lab.row(name, figures);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_ends_where_memory_would() {
        let warps = vec![Vec::new(); 2];
        let commands = COMMANDS_MAX - 1;
        let mut requests =
            Requests { block: 512, blocks: 1 << 20, most: 8, warps, next: 0, commands, bytes: 0 };
        assert!(refusal(&requests).is_none());
        requests.read(0, 8192, 0);
        assert_eq!((requests.commands, requests.warps[0].len()), (COMMANDS_MAX + 1, 2), "a request is whole");
        requests.read(0, 4096, 0);
        assert_eq!(requests.warps[0].len(), 2, "none more");
        assert_eq!(
            refusal(&requests).unwrap().to_string(),
            "67108864 commands or more: choose a smaller --ops"
        );
    }
}
