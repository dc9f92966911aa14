//! Reads of a volume by kernels, in real time or in virtual time.

use warpbell::{Ssd, Volume, VolumeLayout};
use warpbell_kernels::abi::BENCH_VOLUME_MEMBERS;
use warpbell_softctl::ClientModel;

use super::super::unfit::Unfit;
use super::super::{Lab, figures_of};
use super::{Measured, Places, Shape, refusal};
use crate::error::RunError;
use crate::job::LANES;
use crate::kernel::{VOLUME_BLOCK_WARPS, VolumeReads};
use crate::options::VolumePolicy;
use crate::random::of_lane;
use crate::size::ByteSize;
use crate::stopwatch::{ClockKind, stepped};

/// One kernel is on all SSDs: clocks that do not go together are refused.
pub(super) fn by_one_clock(ssds: &[Ssd]) -> Result<(), RunError> {
    let refused =
        |ssd: &Ssd, reason: String| Err(RunError::Clocks { device: ssd.name().to_string(), reason });
    for ssd in ssds {
        if ClockKind::of(ssd) != ClockKind::of(&ssds[0]) {
            let other = ssds[0].name();
            return refused(
                ssd,
                format!(
                    "one kernel reads all SSDs, and of this and {other} one is in virtual time; name time=virtual for all of them, or for none"
                ),
            );
        }
        let charged = stepped(ssd).is_some_and(|soft| soft.client().0 != ClientModel::Free);
        if charged && ssds.len() > 1 {
            let reason = "accesses of a kernel take time of one SSD's clock only; leave client= out, or name one device";
            return refused(ssd, reason.to_owned());
        }
    }
    Ok(())
}

pub(super) fn measure(
    lab: &Lab<'_>,
    (name, ssds): (&str, &[Ssd]),
    (shape, policy): (Shape, VolumePolicy),
    size: ByteSize,
) -> Result<Result<Measured, Unfit>, RunError> {
    if ssds.len() > BENCH_VOLUME_MEMBERS as usize {
        return Ok(Err(Unfit::Members { ssds: ssds.len() }));
    }
    let job = match crate::bench::resolve(lab.ssd, &lab.reads(size)) {
        Ok(job) => job,
        Err(RunError::Job(error)) => return Ok(Err(error.into())),
        Err(error) => return Err(error),
    };
    let queues = VolumeReads::attach(ssds, lab.target, &job)?;
    let volume = shape.volume(&queues)?;
    if let Some(reason) = refusal(&volume, size.0).or_else(|| uncommanded(&volume, shape, size.0)) {
        return Ok(Err(reason));
    }
    let before = violations(ssds);
    let reads = VolumeReads { ssds, queues: &queues, volume: &volume, job: &job };
    let (outcome, lanes) = reads.measure(policy, lab.control)?;
    let run = lab.run_of(outcome, &job);
    lab.judge(name, &run)?;
    if violations(ssds) != before {
        return Err(RunError::Unmeasurable(format!("{name}: the kernel violated the protocol")));
    }
    let places = Places::of(shape, &queues);
    let wanted = wanted(&volume, (shape, &places, policy), (job.seed, size.0), &lanes);
    Ok(Ok(Measured { figures: figures_of(&run), wanted: Some(wanted), places }))
}

/// Why a read is no command on one SSD, if so.
fn uncommanded(volume: &Volume, shape: Shape, bytes: u64) -> Option<Unfit> {
    let chunk = shape.chunk;
    let most = volume.command_bytes();
    if bytes > chunk {
        Some(Unfit::AboveChunk { bytes, chunk })
    } else if !chunk.is_multiple_of(bytes) {
        Some(Unfit::CrossesChunks { bytes, chunk })
    } else if bytes > most {
        Some(Unfit::Command { bytes, most })
    } else {
        None
    }
}

fn violations(ssds: &[Ssd]) -> u64 {
    ssds.iter().filter_map(Ssd::soft).map(|soft| soft.statistics().violations).sum()
}

/// Bytes of each SSD, by arithmetic of its own: each lane has drawn as many places as it has read.
fn wanted(
    volume: &Volume,
    (shape, places, policy): (Shape, &Places, VolumePolicy),
    (seed, bytes): (u64, u64),
    lanes: &[u64],
) -> Vec<u64> {
    let all = volume.blocks() * u64::from(volume.block_bytes());
    let mut wanted = vec![0; shape.ssds];
    for (lane, reads) in lanes.iter().enumerate() {
        let mut random = of_lane(seed, lane as u64);
        for _ in 0..*reads {
            let at = random.below(all / bytes) * bytes;
            if shape.layout == VolumeLayout::Replicate {
                wanted[replica(shape, policy, lane as u32 / LANES, at / shape.chunk)] += bytes;
            } else {
                places.count(&mut wanted, at, bytes);
            }
        }
    }
    wanted
}

/// Which copy of a chunk a warp reads, where there are all of them.
fn replica(shape: Shape, policy: VolumePolicy, warp: u32, chunk: u64) -> usize {
    let number = match policy {
        VolumePolicy::RoundRobin => warp,
        VolumePolicy::Hashed => ((chunk + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u32,
        VolumePolicy::ByCta => warp / VOLUME_BLOCK_WARPS,
        VolumePolicy::Nearest => 0,
    };
    number as usize % shape.ssds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_has_its_replica() {
        let shape = Shape { ssds: 4, layout: VolumeLayout::Replicate, chunk: 4096 };
        let of = |policy| (0..8).map(|warp| replica(shape, policy, warp, 0)).collect::<Vec<_>>();
        assert_eq!(of(VolumePolicy::RoundRobin), [0, 1, 2, 3, 0, 1, 2, 3]);
        assert_eq!(of(VolumePolicy::ByCta), [0, 0, 1, 1, 2, 2, 3, 3]);
        assert_eq!(of(VolumePolicy::Nearest), [0; 8]);
        let chunks: Vec<_> = (0..64).map(|chunk| replica(shape, VolumePolicy::Hashed, 5, chunk)).collect();
        assert!((0..4).all(|ssd| chunks.iter().filter(|found| **found == ssd).count() > 8), "{chunks:?}");
    }
}
