//! How a launch is cut into controllers and clients.

use warpbell::Target;
use warpbell_kernels::abi;

use super::spec::{MOST_WARPS, ResidentSpec};
use crate::job::{Job, JobError};

/// Queues that one warp of the controller watches on a GPU, unless asked otherwise: the controller must not be what
/// is measured.
const QUEUES_PER_WARP: u32 = 1;

/// Blocks of a launch. All of them must run at the same time: controllers and clients wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Warps of a block.
    pub block_warps: u32,
    /// Blocks that are the controller: the first ones.
    pub controller_blocks: u32,
    /// Blocks of clients.
    pub client_blocks: u32,
}

impl Geometry {
    /// The blocks for `job`: on the CPU one for each warp, on a GPU full ones, so that a controller's and a client's
    /// warps never share one.
    pub fn new(target: Target, spec: &ResidentSpec, job: &Job) -> Result<Geometry, JobError> {
        let gpu = target != Target::Cpu;
        let queues = u32::from(job.queues);
        let watched = if gpu { QUEUES_PER_WARP } else { abi::RESIDENT_WATCHED };
        let controllers = spec.controllers.unwrap_or_else(|| queues.div_ceil(watched));
        let least = queues.div_ceil(abi::RESIDENT_WATCHED);
        if controllers < least {
            let limit = abi::RESIDENT_WATCHED;
            return Err(JobError::Conflict {
                flag: "queues",
                value: queues.to_string(),
                reason: format!(
                    "resident:controllers={controllers} watches {limit} queues a warp; use controllers={least}"
                ),
            });
        }
        let block_warps = spec.block.unwrap_or(if gpu { MOST_WARPS } else { 1 });
        Ok(Geometry {
            block_warps,
            controller_blocks: controllers.div_ceil(block_warps),
            client_blocks: job.warps.div_ceil(block_warps),
        })
    }

    /// Blocks of the launch.
    pub fn blocks(&self) -> u32 {
        self.controller_blocks + self.client_blocks
    }

    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        self.block_warps * abi::WARP_LANES
    }
}
