//! An observer of every access: compute warps stay away from queues, and both ends of a request queue keep its memory order.

use std::collections::HashSet;
use std::ops::Range;

use warpbell_kernels::abi;
use warpbell_kernels::cpu::{Access, MemoryEvent};
use warpbell_sim::peek;

use crate::fixture::{ANSWERED, POSTED, QUEUE_BYTES, SLOTS};

type Lane = (u32, u32);

pub struct Watch {
    agents: u32,
    /// Where the address of the request_queues is to be found: a kernel knows that of its shared memory alone.
    placed: u64,
    /// Of all request_queues.
    bytes: u64,
    /// Memory of the queues: rings, words, state, host pages, doorbells.
    queues: Vec<Range<u64>>,
    /// Of that: completions, and the words that they are delivered to.
    completions: Vec<Range<u64>>,
    /// Stores of a lane to a word that others cannot see yet: what it loads there is its own.
    hidden: HashSet<(Lane, u64)>,
    /// Client lanes that wrote what they ask for, and have executed no fence since.
    unfenced_posts: HashSet<Lane>,
    /// Agent lanes that saw a request, and have executed no fence since.
    unfenced_requests: HashSet<Lane>,
    /// Agent lanes that looked at completions, likewise.
    unfenced_completions: HashSet<Lane>,
    /// Client lanes that saw an answer with their last access.
    unfenced_answers: HashSet<Lane>,
    pub breaches: Vec<String>,
}

impl Watch {
    pub fn new(agents: u32, placed: u64, bytes: u64, queues: &[abi::QueueRef]) -> Watch {
        let words = |queue: &abi::QueueRef| {
            let bytes = (u64::from(queue.warp_slots) * 32 * 4) << queue.token_shift;
            queue.words..queue.words + bytes
        };
        let cq = |queue: &abi::QueueRef| queue.cq..queue.cq + (16 << queue.cq_shift);
        let all = |queue: &abi::QueueRef| {
            [
                queue.sq..queue.sq + (64 << queue.sq_shift),
                cq(queue),
                words(queue),
                queue.state..queue.state + size_of::<abi::QueueState>() as u64,
                queue.host..queue.host + size_of::<abi::QueueHost>() as u64,
                queue.sq_doorbell..queue.sq_doorbell + 4,
                queue.cq_doorbell..queue.cq_doorbell + 4,
            ]
        };
        Watch {
            agents,
            placed,
            bytes,
            queues: queues.iter().flat_map(all).collect(),
            completions: queues.iter().flat_map(|queue| [words(queue), cq(queue)]).collect(),
            hidden: HashSet::new(),
            unfenced_posts: HashSet::new(),
            unfenced_requests: HashSet::new(),
            unfenced_completions: HashSet::new(),
            unfenced_answers: HashSet::new(),
            breaches: Vec::new(),
        }
    }

    /// Where in its request queue an address is, if it is in one.
    fn in_queue(&self, address: u64) -> Option<u64> {
        let base = peek::<u64>(self.placed);
        (base != 0 && (base..base + self.bytes).contains(&address)).then(|| (address - base) % QUEUE_BYTES)
    }

    /// Whether `address` is a word of a request queue; `Some(false)` is elsewhere in one.
    fn is_word(&self, address: u64) -> Option<bool> {
        self.in_queue(address).map(|at| at < SLOTS * 128)
    }

    pub fn look(&mut self, event: &MemoryEvent) {
        let lane = (event.warp, event.lane);
        if event.access == Access::Drain {
            self.hidden.remove(&(lane, event.address));
            return;
        }
        if event.access == Access::Fence {
            self.unfenced_posts.remove(&lane);
            self.unfenced_requests.remove(&lane);
            self.unfenced_completions.remove(&lane);
            self.unfenced_answers.remove(&lane);
            return;
        }
        if event.access == Access::Acquire {
            self.unfenced_completions.remove(&lane);
            return;
        }
        if event.warp < self.agents {
            self.look_at_agent(lane, event)
        } else {
            self.look_at_client(lane, event)
        }
        if event.access == Access::Store && self.is_word(event.address) == Some(true) {
            self.hidden.insert((lane, event.address));
        }
    }

    fn look_at_agent(&mut self, lane: Lane, event: &MemoryEvent) {
        let place = self.is_word(event.address);
        match (event.access, place) {
            (Access::Load, Some(true)) if self.sees(lane, event.address, POSTED) => {
                self.unfenced_requests.insert(lane);
            }
            (Access::Load, Some(false))
                if self.unfenced_requests.contains(&lane) && self.in_request(event) =>
            {
                self.breaches.push(format!("P2: {lane:?} reads a request without a fence"));
            }
            (Access::Store, Some(true)) if self.unfenced_completions.contains(&lane) => {
                self.breaches.push(format!("P3: {lane:?} answers without a fence"));
            }
            (Access::Load, None) if self.completions.iter().any(|range| range.contains(&event.address)) => {
                self.unfenced_completions.insert(lane);
            }
            _ => {}
        }
    }

    fn look_at_client(&mut self, lane: Lane, event: &MemoryEvent) {
        if event.access == Access::Doorbell || self.queues.iter().any(|range| range.contains(&event.address))
        {
            self.breaches.push(format!("compute lane {lane:?} touches a queue: {event:?}"));
        }
        if self.unfenced_answers.remove(&lane) {
            self.breaches.push(format!("P4: {lane:?} goes on without a fence"));
        }
        match (event.access, self.is_word(event.address)) {
            (Access::Store, Some(false)) if self.in_request(event) => {
                self.unfenced_posts.insert(lane);
            }
            (Access::Store, Some(true)) if self.unfenced_posts.contains(&lane) => {
                self.breaches.push(format!("P1: {lane:?} posts without a fence"));
            }
            _ => {}
        }
        let is_look = event.access == Access::Load && self.is_word(event.address) == Some(true);
        if is_look && self.sees(lane, event.address, ANSWERED) {
            self.unfenced_answers.insert(lane);
        }
    }

    /// Whether the lane, which is about to load this word, finds such a value.
    fn sees(&self, lane: Lane, address: u64, mark: u32) -> bool {
        !self.hidden.contains(&(lane, address)) && peek::<u32>(address) & mark != 0
    }

    /// Not the word by which a warp says that it has left.
    fn in_request(&self, event: &MemoryEvent) -> bool {
        self.in_queue(event.address).is_some_and(|at| at >= (SLOTS + 1) * 128)
    }
}
