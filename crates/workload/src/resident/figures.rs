//! Where controllers and clients ran: figures for each multiprocessor.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use warpbell::Target;

use super::geometry::Geometry;
use super::spec::ResidentSpec;

/// What a run against the GPU-resident controller reports besides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResidentFigures {
    /// From the fetch of a command to its completion, at least.
    pub delay_ns: u64,
    /// Commands that a warp submits at once, at most.
    pub batch: u32,
    /// How clients wait: `none`, `each` or `thread`.
    pub wait: String,
    /// Whether entries, identifiers and answers were followed up one by one.
    pub followed: bool,
    /// Warps that were the controller.
    pub controller_warps: u32,
    /// Warps of a block.
    pub warps_per_block: u32,
    /// Commands that the controller fetched.
    pub commands: u64,
    /// Multiprocessors, on a GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multiprocessors: Option<Multiprocessors>,
}

/// Who ran where.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Multiprocessors {
    /// With clients.
    pub client: u32,
    /// With the controller.
    pub controller: u32,
    /// With both: then no figure is of clients alone.
    pub mixed: u32,
    /// Commands per second for each multiprocessor with clients.
    pub iops_per_client: f64,
}

impl ResidentFigures {
    pub(super) fn new(spec: &ResidentSpec, geometry: &Geometry, commands: u64) -> ResidentFigures {
        ResidentFigures {
            delay_ns: crate::cpu::nanoseconds(spec.delay),
            batch: spec.batch,
            wait: spec.wait.to_string(),
            followed: spec.follow,
            controller_warps: geometry.controller_blocks * geometry.block_warps,
            warps_per_block: geometry.block_warps,
            commands,
            multiprocessors: None,
        }
    }
}

impl Multiprocessors {
    /// From the multiprocessor of each block. Only GPUs have some.
    pub(super) fn of(target: Target, places: &[u32], geometry: &Geometry, iops: f64) -> Option<Self> {
        if !matches!(target, Target::Cuda(_)) {
            return None;
        }
        let (controllers, clients) = places.split_at(geometry.controller_blocks as usize);
        let set = |blocks: &[u32]| blocks.iter().copied().collect::<BTreeSet<u32>>();
        let (controllers, clients) = (set(controllers), set(clients));
        Some(Multiprocessors {
            client: clients.len() as u32,
            controller: controllers.len() as u32,
            mixed: clients.intersection(&controllers).count() as u32,
            iops_per_client: iops / clients.len().max(1) as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiprocessors_are_counted_once() {
        let geometry = Geometry { block_warps: 8, controller_blocks: 3, client_blocks: 4 };
        let places = [0, 1, 2, 2, 3, 3, 4];
        let found = Multiprocessors::of(Target::Cuda(0), &places, &geometry, 30.0).unwrap();
        assert_eq!((found.client, found.controller, found.mixed), (3, 3, 1));
        assert_eq!(found.iops_per_client, 10.0);
        for target in [Target::Cpu, Target::Ptx] {
            assert_eq!(Multiprocessors::of(target, &places, &geometry, 30.0), None);
        }
    }
}
