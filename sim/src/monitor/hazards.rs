//! Who may touch a queue: lanes that have taken a hazard slot on it. A queue that was replaced, and its successor, can have
//! memory and doorbells in common, one after the other.

use std::mem::offset_of;

use warpbell_kernels::abi;
use warpbell_kernels::cpu::{Access, MemoryEvent};

use super::{Monitor, Watched};
use crate::breach::Breach;
use crate::memory::peek;

/// How the lanes of a launch find their hazard slots.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hazards {
    /// The launch's warps count from here on.
    first_warp: u32,
    /// Queues of the attachment.
    queues: u32,
    /// Stores wait in a buffer: what counts is when they leave it.
    buffered: bool,
}

impl Monitor {
    /// From now on a lane must have taken its hazard slot before it touches a queue. Warps count from `first_warp` on;
    /// `buffered`: their stores wait in a buffer.
    pub fn with_hazards(mut self, first_warp: u32, buffered: bool) -> Monitor {
        self.queues.iter_mut().for_each(|queue| queue.hazards = hazards_of(&queue.queue));
        self.hazards = Some(Hazards { first_warp, queues: self.queues.len() as u32, buffered });
        self
    }

    /// Watches a queue that takes the place of queue `index`, in the way in which that was watched.
    pub fn succeed(&mut self, index: usize, queue: &abi::QueueRef, start: u64) {
        let of = &self.queues[index];
        let in_flight = of.in_flight.as_ref().map(|_| Default::default());
        let successor = Watched {
            in_flight,
            shadowed: of.shadowed,
            hazards: hazards_of(queue),
            ..Watched::new(index as u32, queue, start)
        };
        self.queues.push(successor);
    }

    /// The controller has forgotten a queue. Nothing of it is judged any more but who touches it.
    pub fn forget(&mut self, queue: &abi::QueueRef) {
        let is_it = |watched: &&mut Watched| watched.queue == *queue;
        self.queues.iter_mut().filter(is_it).for_each(|watched| watched.forgotten = true);
    }

    pub(super) fn check_hazard(&mut self, event: &MemoryEvent) {
        let Some(hazards) = self.hazards else { return };
        let counts = match event.access {
            Access::Load | Access::Rmw => true,
            Access::Store | Access::Doorbell => !hazards.buffered,
            Access::Drain => hazards.buffered,
            _ => false,
        };
        let touched = || self.queues.iter().filter(|queue| queue.has(event.address));
        if !counts || touched().next().is_none() {
            return;
        }
        // What a living queue has is that one's alone.
        let living = touched().find(|queue| !queue.forgotten);
        let sits = |queue: &Watched| queue.hazards == 0 || queue.permits(hazards, event);
        let (warp, lane) = (event.warp, event.lane);
        if living.map_or_else(|| touched().any(sits), sits) {
            return;
        }
        let qid = living.or(touched().next()).map_or(0, |queue| queue.queue.qid);
        let rings = touched().any(|queue| queue.is_doorbell(event.address));
        self.breaches.push(if rings && living.is_some() {
            Breach::ForeignDoorbell { qid, warp, lane }
        } else {
            Breach::NoHazard { qid, warp, lane }
        });
    }
}

fn hazards_of(queue: &abi::QueueRef) -> u64 {
    peek(queue.host + offset_of!(abi::QueueHost, hazards) as u64)
}

impl Watched {
    fn is_doorbell(&self, address: u64) -> bool {
        address == self.queue.sq_doorbell || address == self.queue.cq_doorbell
    }

    /// Whether `address` is of what whoever waits for a successor looks at.
    fn is_on_page(&self, address: u64) -> bool {
        let fields = [offset_of!(abi::QueueHost, state), offset_of!(abi::QueueHost, successor)];
        fields.iter().any(|field| address == self.queue.host + *field as u64)
    }

    /// Whether `address` is of what only lanes with a hazard slot may touch.
    fn has(&self, address: u64) -> bool {
        let queue = &self.queue;
        let lanes = u64::from(queue.warp_slots) * 32;
        let within = |first: u64, bytes: u64| address.wrapping_sub(first) < bytes;
        self.sq_offset(address).is_some()
            || self.in_cq(address)
            || self.is_doorbell(address)
            || within(queue.state, size_of::<abi::QueueState>() as u64)
            || within(queue.words, (lanes * 4) << queue.token_shift)
            || within(queue.quarantine, lanes * 4)
            || self.is_on_page(address)
    }

    /// Whether the lane's hazard slot, as the host sees it, permits what the lane does.
    fn permits(&self, hazards: Hazards, event: &MemoryEvent) -> bool {
        let warp = hazards.first_warp + event.warp;
        let hazard = u64::from(warp / hazards.queues * 32 + event.lane);
        let hazard = if warp % hazards.queues == self.index {
            peek(self.hazards + 4 * hazard)
        } else {
            abi::HAZARD_FREE
        };
        hazard == abi::HAZARD_TAKEN || hazard == abi::HAZARD_WAITING && self.is_on_page(event.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: usize = size_of::<abi::QueueHost>();

    /// A queue whose hazard slots lie in `memory`, behind its host page.
    fn queue(memory: &warpbell_hw::Window, qid: u32) -> abi::QueueRef {
        let host = memory.as_ptr() as u64;
        memory.write(offset_of!(abi::QueueHost, hazards), &(host + HOST as u64).to_ne_bytes()).unwrap();
        abi::QueueRef {
            sq: 0x1000,
            cq: 0x2000,
            sq_doorbell: 0x10,
            cq_doorbell: 0x14,
            state: 0x8000,
            words: 0x9000,
            quarantine: 0xa000,
            host,
            sq_shift: 2,
            cq_shift: 2,
            warp_slots: 1,
            qid,
            sharing: abi::SHARING_EXCLUSIVE,
            ..abi::QueueRef::new()
        }
    }

    fn hazard(memory: &warpbell_hw::Window, lane: usize, value: u32) {
        memory.write(HOST + 4 * lane, &value.to_ne_bytes()).unwrap();
    }

    fn event(access: Access, address: u64) -> MemoryEvent {
        MemoryEvent { access, address, bytes: 16, warp: 0, lane: 3 }
    }

    #[test]
    fn whoever_has_no_hazard_may_not_touch_the_queue() {
        let memory = warpbell_hw::Window::host(4096).unwrap();
        let mut monitor = Monitor::new(&[queue(&memory, 1)], 0).with_hazards(0, false);
        for value in [abi::HAZARD_FREE, abi::HAZARD_WAITING] {
            hazard(&memory, 3, value);
            monitor.check_hazard(&event(Access::Store, 0x1040));
        }
        assert_eq!(monitor.breaches(), [const { Breach::NoHazard { qid: 1, warp: 0, lane: 3 } }; 2]);
        hazard(&memory, 3, abi::HAZARD_TAKEN);
        monitor.check_hazard(&event(Access::Load, 0x9000));
        assert_eq!(monitor.breaches().len(), 2);
    }

    #[test]
    fn whoever_waits_may_look_at_the_page_and_at_nothing_else() {
        let memory = warpbell_hw::Window::host(4096).unwrap();
        let of = queue(&memory, 1);
        let mut monitor = Monitor::new(&[of], 0).with_hazards(0, false);
        let page = event(Access::Load, of.host + offset_of!(abi::QueueHost, successor) as u64);
        monitor.check_hazard(&page);
        assert_eq!(monitor.breaches().len(), 1);
        hazard(&memory, 3, abi::HAZARD_WAITING);
        monitor.check_hazard(&page);
        assert_eq!(monitor.breaches().len(), 1);
    }

    #[test]
    fn a_doorbell_of_a_dead_queue_that_reaches_a_living_one_is_foreign() {
        let pages = [(); 2].map(|()| warpbell_hw::Window::host(4096).unwrap());
        let (old, new) = (queue(&pages[0], 1), queue(&pages[1], 1));
        let mut monitor = Monitor::new(&[old], 0).with_hazards(0, true);
        hazard(&pages[0], 3, abi::HAZARD_TAKEN);
        monitor.forget(&old);
        monitor.check_hazard(&event(Access::Drain, 0x10));
        assert_eq!(monitor.breaches(), [], "nobody hears it");
        monitor.succeed(0, &new, 0);
        monitor.check_hazard(&event(Access::Drain, 0x10));
        assert_eq!(monitor.breaches(), [Breach::ForeignDoorbell { qid: 1, warp: 0, lane: 3 }]);
        hazard(&pages[1], 3, abi::HAZARD_TAKEN);
        monitor.check_hazard(&event(Access::Drain, 0x10));
        assert_eq!(monitor.breaches().len(), 1);
    }
}
