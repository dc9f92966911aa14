//! Command identifiers on the wire: 16 bits, of which some name a warp of the queue and some its command.

/// How the 16 bits are used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) warp_bits: u32,
    pub(super) local_bits: u32,
}

/// Means "no command" in the Error log.
const RESERVED: u64 = 0xffff;

impl Layout {
    /// The identifiers that a queue has.
    pub(super) fn usable(self) -> u64 {
        let all = 1u64 << (self.warp_bits + self.local_bits);
        if all == 1 << 16 { all - 1 } else { all }
    }

    /// Whether each of the warps of a queue has identifiers of its own.
    pub(super) fn fits(self, warps_per_queue: u64) -> bool {
        warps_per_queue <= 1 << self.warp_bits
    }

    /// The identifier of `local` of `warp`, on queue `warp mod queues`; none where there is none.
    pub(super) fn cid(self, warp: u64, local: u64, queues: u64) -> Option<u64> {
        let slot = warp / queues.max(1);
        let cid = slot << self.local_bits | local;
        let fits = slot < 1 << self.warp_bits && local < 1 << self.local_bits;
        (fits && cid != RESERVED).then_some(cid)
    }

    /// The warp and its command, of an identifier of queue `queue`.
    #[cfg(test)]
    fn inverse(self, cid: u64, queue: u64, queues: u64) -> (u64, u64) {
        ((cid >> self.local_bits) * queues + queue, cid & ((1 << self.local_bits) - 1))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn identifiers_are_unique_on_a_queue_and_lead_back() {
        for (warp_bits, local_bits) in [(6, 10), (0, 16), (16, 0), (5, 5), (8, 8)] {
            let (layout, queues) = (Layout { warp_bits, local_bits }, 3);
            let mut seen = HashSet::new();
            for slot in 0..1 << warp_bits {
                for queue in 0..queues {
                    let warp = slot * queues + queue;
                    for local in (0..1u64 << local_bits).step_by(1 + (1 << local_bits) / 7) {
                        let Some(cid) = layout.cid(warp, local, queues) else {
                            assert_eq!(slot << local_bits | local, RESERVED);
                            continue;
                        };
                        assert!(cid < RESERVED && seen.insert((queue, cid)));
                        assert_eq!(layout.inverse(cid, queue, queues), (warp, local));
                    }
                }
            }
        }
    }

    #[test]
    fn what_has_no_place_has_no_identifier() {
        let layout = Layout { warp_bits: 6, local_bits: 10 };
        assert_eq!((layout.usable(), layout.cid(63, 1023, 1)), (65_535, None));
        assert_eq!((layout.cid(64, 0, 1), layout.cid(0, 1024, 1)), (None, None));
        assert_eq!((layout.fits(64), layout.fits(65)), (true, false));
        assert_eq!(Layout { warp_bits: 5, local_bits: 5 }.usable(), 1024);
    }
}
