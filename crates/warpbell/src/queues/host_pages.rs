//! The pages that the host shares with kernels, one for each queue: state, successor, alarm, quarantine, hazard slots.

use std::mem::offset_of;
use std::ops::Range;
use std::sync::atomic::{Ordering, fence};

use warpbell_kernels::abi;
use zerocopy::IntoBytes;

use crate::queues::layout::{CidLayout, LANES};
use crate::{Error, OpenTarget, SharedMemory};

/// Bytes of a word of 32 bits.
const WORD: usize = size_of::<u32>();

/// The host's pages, and the words of each lane that belong to them.
#[derive(Clone, Debug)]
pub(crate) struct HostPages {
    hosts: SharedMemory,
    quarantine: SharedMemory,
    hazards: SharedMemory,
    /// Words of one queue in each of the two.
    lanes: usize,
}

/// Hazard slots of a queue that are not free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hazards {
    /// Lanes that may touch the queue.
    pub(crate) taken: usize,
    /// Lanes that wait for its successor.
    pub(crate) waiting: usize,
}

impl Hazards {
    pub(crate) fn is_empty(self) -> bool {
        self == Hazards::default()
    }
}

impl HostPages {
    pub(crate) fn new(target: &OpenTarget, layout: &CidLayout, slots: usize) -> Result<HostPages, Error> {
        let lanes = (layout.warp_slots * LANES) as usize;
        Ok(HostPages {
            hosts: target.shared(slots * size_of::<abi::QueueHost>())?,
            quarantine: target.shared(slots * lanes * WORD)?,
            hazards: target.shared(slots * lanes * WORD)?,
            lanes,
        })
    }

    /// Where kernels find the page.
    pub(crate) fn address(&self, slot: usize) -> u64 {
        self.hosts.address() + (slot * size_of::<abi::QueueHost>()) as u64
    }

    /// The pages, as kernels find them.
    pub(crate) fn ranges(&self) -> [Range<u64>; 3] {
        [&self.hosts, &self.quarantine, &self.hazards].map(SharedMemory::range)
    }

    /// Where they find the words of quarantined commands.
    pub(crate) fn quarantine_address(&self, slot: usize) -> u64 {
        self.quarantine.address() + (slot * self.lanes * WORD) as u64
    }

    /// A fresh page, still of a queue that is lost: [`set_state`](Self::set_state) opens it, once all else is written.
    /// Hazard slots stay as they are: a lane that comes late takes its own before it looks whether it may.
    pub(crate) fn renew(&self, slot: usize) -> Result<(), Error> {
        let bytes = self.lanes * WORD;
        self.set_state(slot, abi::QUEUE_LOST);
        self.quarantine.window().fill(slot * bytes, bytes, 0)?;
        let host = abi::QueueHost {
            state: abi::QUEUE_LOST,
            quarantine: self.quarantine_address(slot),
            hazards: self.hazards.address() + (slot * bytes) as u64,
            ..abi::QueueHost::new()
        };
        Ok(self.hosts.window().write(HostPages::at(slot, 0), host.as_bytes())?)
    }

    fn at(slot: usize, field: usize) -> usize {
        slot * size_of::<abi::QueueHost>() + field
    }

    /// One of `QUEUE_*`.
    pub(crate) fn state(&self, slot: usize) -> u32 {
        let at = HostPages::at(slot, offset_of!(abi::QueueHost, state));
        self.hosts.window().load_u32(at, Ordering::Acquire)
    }

    /// Tells kernels. What the host reads of hazard slots afterwards is of lanes that saw it, or is a hazard slot that is taken.
    pub(crate) fn set_state(&self, slot: usize, state: u32) {
        let at = HostPages::at(slot, offset_of!(abi::QueueHost, state));
        self.hosts.window().store_u32(at, state, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Tells lanes that wait where the successor's reference is; 0: there is none.
    pub(crate) fn set_successor(&self, slot: usize, reference: u64) {
        let at = HostPages::at(slot, offset_of!(abi::QueueHost, successor));
        self.hosts.window().store_u64(at, reference, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Whether a lane raised the alarm. Costs no more than the load.
    pub(crate) fn is_alarmed(&self, slot: usize) -> bool {
        let at = HostPages::at(slot, offset_of!(abi::QueueHost, alarm));
        self.hosts.window().load_u32(at, Ordering::Relaxed) != 0
    }

    /// The same, and takes it back: before the quarantine is looked at, so that no later one is missed.
    pub(crate) fn take_alarm(&self, slot: usize) -> bool {
        let at = HostPages::at(slot, offset_of!(abi::QueueHost, alarm));
        self.hosts.window().swap_u32(at, 0, Ordering::AcqRel) != 0
    }

    /// Lanes with quarantined commands, and a bit for each of these.
    pub(crate) fn quarantined(&self, slot: usize) -> Vec<(u32, u32)> {
        let words = (0..self.lanes).map(|lane| {
            let at = (slot * self.lanes + lane) * WORD;
            (lane as u32, self.quarantine.window().load_u32(at, Ordering::Relaxed))
        });
        words.filter(|(_, mask)| *mask != 0).collect()
    }

    /// Who sits there.
    pub(crate) fn hazards(&self, slot: usize) -> Hazards {
        let mut hazards = Hazards::default();
        for lane in 0..self.lanes {
            match self.hazards.window().load_u32((slot * self.lanes + lane) * WORD, Ordering::Acquire) {
                abi::HAZARD_FREE => {}
                abi::HAZARD_WAITING => hazards.waiting += 1,
                _ => hazards.taken += 1,
            }
        }
        hazards
    }

    /// As a lane does.
    #[cfg(test)]
    pub(crate) fn sit(&self, slot: usize, lane: usize, how: u32) {
        self.hazards.window().store_u32((slot * self.lanes + lane) * WORD, how, Ordering::Release);
    }

    /// Where lanes that wait are sent to.
    #[cfg(test)]
    pub(crate) fn successor(&self, slot: usize) -> u64 {
        let at = HostPages::at(slot, offset_of!(abi::QueueHost, successor));
        self.hosts.window().load_u64(at, Ordering::Acquire)
    }

    /// Whoever sat there is no more.
    pub(crate) fn clear_hazards(&self, slot: usize) {
        for lane in 0..self.lanes {
            let at = (slot * self.lanes + lane) * WORD;
            self.hazards.window().store_u32(at, abi::HAZARD_FREE, Ordering::Release);
        }
    }
}
