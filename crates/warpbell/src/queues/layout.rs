//! How warps, lanes and command identifiers are laid out over queues.
//!
//! A wire CID is `warp_slot << local_bits | lane << (local_bits - 5) | k`. With Q queues, warp w uses
//! queue `w mod Q` as slot `w div Q` (docs/protocol.md, "Names of commands").

/// Lanes per warp.
pub const LANES: u32 = 32;
/// Bits of a wire CID.
const CID_BITS: u32 = 16;
/// The most CID bits that one warp gets.
const MAX_LOCAL_BITS: u32 = 10;
/// Bits that name a lane.
const LANE_BITS: u32 = 5;
/// Commands in flight per lane unless asked otherwise.
pub const DEFAULT_COMMANDS_PER_LANE: u32 = 4;

/// CIDs of one width.
struct CidSpace {
    bits: u32,
    /// Most bits below the warp slot.
    local_bits: u32,
    /// Most warps that share a queue.
    most_warps: u32,
}

const NARROW: CidSpace =
    CidSpace { bits: CID_BITS, local_bits: MAX_LOCAL_BITS, most_warps: 1 << (CID_BITS - LANE_BITS) };
const WIDE: CidSpace = CidSpace { bits: 32, local_bits: 16, most_warps: 1 << 16 };

/// Why warps and queues do not fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// A count of 0.
    #[error("{what} 0: must be at least 1")]
    Zero {
        /// What was counted.
        what: &'static str,
    },
    /// So many warps share a queue that a lane would have no CID.
    #[error("warps {warps} on {queues} queues: {per_queue} warps share a queue, CIDs allow at most {limit}")]
    TooManyWarps {
        /// Warps asked for.
        warps: u32,
        /// Queues asked for.
        queues: u32,
        /// Warps that would share one queue.
        per_queue: u32,
        /// The most that can.
        limit: u32,
    },
    /// Fewer warps than queues: some queues would have nobody.
    #[error("queues {queues}: more than warps ({warps}), so that some would have no warp")]
    IdleQueues {
        /// Queues asked for.
        queues: u32,
        /// Warps asked for.
        warps: u32,
    },
    /// An exclusive queue belongs to one warp.
    #[error("warps {warps} on {queues} exclusive queues: each warp needs a queue of its own (or share them)")]
    NotExclusive {
        /// Warps asked for.
        warps: u32,
        /// Queues asked for.
        queues: u32,
    },
    /// More commands per lane than it has CIDs.
    #[error(
        "commands in flight per lane {commands_per_lane}: {per_queue} warps on a queue leave each lane {limit} CIDs"
    )]
    TooManyTokens {
        /// Commands per lane asked for.
        commands_per_lane: u32,
        /// Warps that share one queue.
        per_queue: u32,
        /// CIDs per lane.
        limit: u32,
    },
}

/// The layout of one attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CidLayout {
    /// Queue pairs.
    pub queues: u32,
    /// Warps over all queues.
    pub warps: u32,
    /// Warps that share one queue, at most.
    pub warp_slots: u32,
    /// CID bits below the warp slot (L).
    pub local_bits: u32,
    /// log2 of the commands that a lane may have in flight.
    pub token_shift: u32,
}

impl CidLayout {
    /// The layout of `warps` warps over `queues` queues with at least `commands_per_lane` commands in flight
    /// per lane (rounded up to a power of two).
    pub fn new(queues: u32, warps: u32, commands_per_lane: u32) -> Result<CidLayout, LayoutError> {
        CidLayout::fit(queues, warps, commands_per_lane, &NARROW)
    }

    /// The same for 32-bit CIDs: the tag `warp_slot << 16 | local` goes on the wire unchanged.
    pub fn wide(queues: u32, warps: u32, commands_per_lane: u32) -> Result<CidLayout, LayoutError> {
        CidLayout::fit(queues, warps, commands_per_lane, &WIDE)
    }

    fn fit(
        queues: u32,
        warps: u32,
        commands_per_lane: u32,
        space: &CidSpace,
    ) -> Result<CidLayout, LayoutError> {
        for (what, count) in
            [("queues", queues), ("warps", warps), ("commands in flight per lane", commands_per_lane)]
        {
            if count == 0 {
                return Err(LayoutError::Zero { what });
            }
        }
        if queues > warps {
            return Err(LayoutError::IdleQueues { queues, warps });
        }
        let warp_slots = warps.div_ceil(queues);
        let limit = space.most_warps;
        if warp_slots > limit {
            return Err(LayoutError::TooManyWarps { warps, queues, per_queue: warp_slots, limit });
        }
        let slot_bits = warp_slots.next_power_of_two().trailing_zeros();
        let local_bits = space.local_bits.min(space.bits - slot_bits);
        // A lane keeps its CIDs in a mask of 32 bits.
        let per_lane = 1 << (local_bits - LANE_BITS).min(5);
        if commands_per_lane > per_lane {
            return Err(LayoutError::TooManyTokens {
                commands_per_lane,
                per_queue: warp_slots,
                limit: per_lane,
            });
        }
        let token_shift = commands_per_lane.next_power_of_two().trailing_zeros();
        Ok(CidLayout { queues, warps, warp_slots, local_bits, token_shift })
    }

    /// Completion slots of one queue.
    pub fn words(&self) -> usize {
        (self.warp_slots as usize) << (LANE_BITS + self.token_shift)
    }

    /// Commands that one lane may have in flight.
    pub fn commands_per_lane(&self) -> u32 {
        1 << self.token_shift
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_warp_gets_all_local_bits() {
        let layout = CidLayout::new(1, 1, 4).unwrap();
        assert_eq!(
            (layout.warp_slots, layout.local_bits, layout.commands_per_lane(), layout.words()),
            (1, 10, 4, 128)
        );
    }

    #[test]
    fn slots_take_bits_from_lanes() {
        let layout = CidLayout::new(2, 256, 4).unwrap();
        assert_eq!((layout.warp_slots, layout.local_bits), (128, 9));
        let tight = CidLayout::new(1, 2048, 1).unwrap();
        assert_eq!((tight.local_bits, tight.commands_per_lane()), (5, 1));
    }

    #[test]
    fn wide_cids_are_tags_and_lift_the_limit() {
        let layout = CidLayout::wide(1, 65536, 4).unwrap();
        assert_eq!((layout.warp_slots, layout.local_bits, layout.commands_per_lane()), (65536, 16, 4));
        assert_eq!(CidLayout::wide(1, 3, 32).unwrap().local_bits, 16);
        let error = CidLayout::wide(1, 65537, 1).unwrap_err().to_string();
        assert_eq!(error, "warps 65537 on 1 queues: 65537 warps share a queue, CIDs allow at most 65536");
        assert!(CidLayout::wide(1, 1, 33).unwrap_err().to_string().contains("leave each lane 32 CIDs"));
    }

    #[test]
    fn limits_are_named() {
        let error = CidLayout::new(1, 2049, 1).unwrap_err().to_string();
        assert_eq!(error, "warps 2049 on 1 queues: 2049 warps share a queue, CIDs allow at most 2048");
        let error = CidLayout::new(1, 2048, 2).unwrap_err().to_string();
        assert_eq!(error, "commands in flight per lane 2: 2048 warps on a queue leave each lane 1 CIDs");
        assert_eq!(CidLayout::new(1, 0, 1).unwrap_err(), LayoutError::Zero { what: "warps" });
        assert_eq!(CidLayout::new(3, 2, 1).unwrap_err(), LayoutError::IdleQueues { queues: 3, warps: 2 });
    }

    #[test]
    fn every_accepted_layout_keeps_cids_apart() {
        for warps in [1u32, 2, 3, 31, 64, 65, 500, 2048] {
            for commands_per_lane in [1u32, 2, 4, 32] {
                let Ok(layout) = CidLayout::new(1, warps, commands_per_lane) else { continue };
                let top = ((layout.warp_slots - 1) << layout.local_bits) | ((1 << layout.local_bits) - 1);
                assert!(top <= 0xffff, "{layout:?}");
                assert!(layout.commands_per_lane() <= 1 << (layout.local_bits - LANE_BITS), "{layout:?}");
            }
        }
    }
}
