//! Block traces of others, as the commands that they become.

use std::sync::Arc;

use warpbell_hw::Nsid;
use warpbell_nvme::NvmOpcode;
use warpbell_workload::trace::{ReplayOptions, parse_block_trace};
use warpbell_workload::{BenchOptions, Job, Limits, ReplayFormat, ReplayTiming};

use super::told;

/// A trace of the form, by up to four warps. What it becomes keeps to the namespace and to MDTS.
pub(super) fn block(format: ReplayFormat, text: &str) {
    let warps = 1 + text.len() as u32 % 4;
    let options = ReplayOptions { warps, ..ReplayTiming::Recorded.into() };
    let Some(replay) = told(parse_block_trace("fuzz", text, format, &options)) else { return };
    assert!(replay.commands > 0 && replay.warps.is_empty(), "{text:?}: {replay:?}");
    let limits = Limits {
        nsid: Nsid(1),
        blocks: 1 << 16,
        block_size: 512,
        exact_bytes: None,
        max_transfer_bytes: Some(128 << 10),
        max_entries: 1024,
        queues: 8,
        wide_cids: false,
        trim_blocks: Some(u32::MAX),
    };
    let requests = replay.commands;
    let options = BenchOptions { replay: Some(Arc::new(replay)), ..BenchOptions::default() };
    let Some(job) = told(Job::resolve(&options, &limits)) else { return };
    let replay = job.replay.expect("what was asked for");
    let commands = replay.warps.iter().flatten();
    assert!(replay.commands >= requests && replay.commands == commands.clone().count() as u64, "{text:?}");
    for command in commands {
        let end = command.lba.get() + u64::from(command.blocks);
        // What a trim names is not moved.
        let moved = if command.opcode == NvmOpcode::DATASET_MANAGEMENT.0 { 0 } else { command.blocks };
        assert!(end <= limits.blocks && moved <= 256, "{command:?} of {text:?}");
    }
    let in_order = replay.warps.iter().all(|warp| warp.is_sorted_by_key(|command| command.at_ns));
    assert!(in_order, "{text:?}: a command waits for a later one");
}
