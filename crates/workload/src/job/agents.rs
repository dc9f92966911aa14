//! The checks of `--api agent`: how many agents, and for how many warps.

use warpbell::{CidLayout, LayoutError};
use warpbell_kernels::abi::BENCH_MAIL_SLOTS;

use super::check::{conflict, lack_of_cids, too_large, too_small};
use super::{JobError, LANES, Limits};
use crate::options::{Api, BenchOptions, Sharing};

/// What an agent has in flight, and what a compute warp has in its request queue.
const IN_FLIGHT: u32 = LANES * BENCH_MAIL_SLOTS;

/// Agents over all queues, if there are to be any.
pub(super) fn count(options: &BenchOptions) -> Result<Option<u32>, JobError> {
    if options.api != Api::Agent {
        return match options.agents {
            None => Ok(None),
            Some(agents) => {
                let reason = format!("only --api agent has agents, this is --api {}", options.api);
                Err(conflict("agents", agents, reason))
            }
        };
    }
    let refused = |flag, value: String, reason: &str| Err(conflict(flag, value, reason.to_owned()));
    if options.retries != 0 {
        let reason = "agents submit nothing again; use --api io or raw";
        return refused("retries", options.retries.to_string(), reason);
    }
    if options.replay.is_some() {
        return refused("api", "agent".to_owned(), "a replay submits to queues; use --api io or raw");
    }
    if options.trace_events.is_some() {
        return refused("api", "agent".to_owned(), "agents write no traces; use --api io or raw");
    }
    let queues = u32::from(options.queues);
    let agents = options.agents.unwrap_or(match options.sharing {
        Sharing::Exclusive => queues,
        Sharing::Shared => queues * options.iodepth.div_ceil(IN_FLIGHT),
    });
    if agents < queues {
        return Err(too_small("agents", agents, format!("{queues}, one for each of --queues {queues}")));
    }
    if options.sharing == Sharing::Exclusive && agents != queues {
        let limit = format!("{queues}: with --sharing exclusive each agent has one of --queues {queues}");
        return Err(too_large("agents", agents, limit));
    }
    if !agents.is_multiple_of(queues) {
        let reason = format!("must be a multiple of --queues {queues}, so that each has as many");
        return Err(conflict("agents", agents, reason));
    }
    Ok(Some(agents))
}

/// Warps that have no queue, and commands that a lane of an agent has in flight.
pub(super) fn warps(options: &BenchOptions, limits: &Limits, agents: u32) -> Result<(u32, u32), JobError> {
    let (queues, depth) = (u32::from(options.queues), options.iodepth);
    let has = (agents / queues).saturating_mul(IN_FLIGHT);
    if depth > has {
        let limit = format!("{has}, what --agents {agents} on --queues {queues} have in flight there");
        return Err(too_large("iodepth", depth, limit));
    }
    let layout = if limits.wide_cids { CidLayout::wide } else { CidLayout::new };
    match layout(queues, agents, BENCH_MAIL_SLOTS) {
        Ok(_) => (),
        Err(LayoutError::TooManyWarps { limit, .. }) => {
            let most = u64::from(limit) * u64::from(queues);
            return Err(too_large("agents", agents, lack_of_cids(most, queues)));
        }
        Err(error) => return Err(conflict("agents", agents, error.to_string())),
    }
    let several = match options.sharing {
        Sharing::Exclusive => 1,
        Sharing::Shared => (depth / LANES).clamp(1, 4),
    };
    let warps = options.warps.unwrap_or(queues * several.max(depth.div_ceil(IN_FLIGHT)));
    if warps < queues {
        return Err(too_small("warps", warps, format!("{queues}, one for each of --queues {queues}")));
    }
    let has = (warps / queues).saturating_mul(IN_FLIGHT);
    if depth > has {
        let limit = format!("{has}, the requests that --warps {warps} have for each of --queues {queues}");
        return Err(too_large("iodepth", depth, limit));
    }
    Ok((warps, BENCH_MAIL_SLOTS))
}
