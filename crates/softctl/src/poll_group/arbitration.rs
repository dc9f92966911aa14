//! Weighted round robin with urgent priority class (Base 2.0, 3.4.4.2).
//!
//! Urgent queues go strictly first. Of the rest a round serves as many commands of each class as its weight says, a
//! burst of a queue at a time, the queues of a class in turn. Each poll group arbitrates among its own queues.

use warpbell_nvme::command::QueuePriority;
use warpbell_nvme::feature::Arbitration;

use super::{MAX_BURST, PollGroup};

/// Classes, by QPRIO: urgent, high, medium, low.
const CLASSES: usize = 4;
const URGENT: usize = 0;
/// Commands that a poll group with a thread serves before it polls all doorbells again.
const PASS: u32 = 4 * MAX_BURST;

/// Where a class stands: a queue, and what is left of its burst.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    queue: usize,
    left: u32,
}

/// Whose command comes next.
#[derive(Clone, Debug)]
pub(crate) struct Arbiter {
    burst: u32,
    weights: [u32; CLASSES],
    /// What is left of each class's weight in this round.
    credits: [u32; CLASSES],
    turns: [Turn; CLASSES],
}

fn class_of(priority: QueuePriority) -> usize {
    usize::from(priority.into_bits() & 3)
}

impl Arbiter {
    pub(crate) fn new(feature: Arbitration) -> Arbiter {
        let mut arbiter = Arbiter {
            burst: 1,
            weights: [u32::MAX; CLASSES],
            credits: [0; CLASSES],
            turns: [Turn::default(); CLASSES],
        };
        arbiter.configure(feature);
        arbiter
    }

    /// Takes new weights and a new burst; a new round begins.
    pub(crate) fn configure(&mut self, feature: Arbitration) {
        let [low, medium, high] = feature.weights();
        self.burst = feature.burst().unwrap_or(u32::MAX);
        self.weights = [u32::MAX, high, medium, low];
        self.credits = self.weights;
        self.turns.iter_mut().for_each(|turn| turn.left = 0);
    }

    /// The queue to serve next, and how many of its commands at most. `ready` tells the priority of a queue that has
    /// a command to serve.
    pub(crate) fn choose(
        &self,
        queues: usize,
        ready: impl Fn(usize) -> Option<QueuePriority>,
    ) -> Option<(usize, u32)> {
        let of_class = |class, credits: u32| {
            let Turn { queue: at, left } = self.turns[class];
            let is_ready = |queue: &usize| ready(*queue).is_some_and(|priority| class_of(priority) == class);
            if credits == 0 {
                return None;
            }
            if left > 0 && at < queues && is_ready(&at) {
                return Some((at, left.min(credits)));
            }
            let next = (1..=queues).map(|step| (at + step) % queues).find(is_ready)?;
            Some((next, self.burst.min(credits)))
        };
        let in_round = (URGENT..CLASSES).find_map(|class| of_class(class, self.credits[class]));
        in_round.or_else(|| (URGENT..CLASSES).find_map(|class| of_class(class, self.weights[class])))
    }

    /// So many commands of the queue that was chosen were served.
    pub(crate) fn served(&mut self, queue: usize, priority: QueuePriority, count: u32) {
        let class = class_of(priority);
        if self.credits[class] == 0 {
            self.credits = self.weights;
        }
        if class != URGENT {
            self.credits[class] = self.credits[class].saturating_sub(count);
        }
        let turn = &mut self.turns[class];
        let before = if turn.queue == queue && turn.left > 0 { turn.left } else { self.burst };
        *turn = Turn { queue, left: before.saturating_sub(count) };
    }
}

impl PollGroup {
    /// From now on queues have priorities, or, with `None`, are served in turn.
    pub(crate) fn arbitrate(&mut self, arbiter: Option<Arbiter>) {
        self.arbiter = arbiter;
    }

    /// A new value of the Arbitration feature.
    pub(crate) fn set_arbitration(&mut self, feature: Arbitration) {
        self.burst = feature.burst().map_or(MAX_BURST, |burst| burst.min(MAX_BURST));
        if let Some(arbiter) = &mut self.arbiter {
            arbiter.configure(feature);
        }
    }

    /// Which queue the arbitration wants served next.
    pub(super) fn chosen(&self) -> Option<(usize, u32)> {
        let ready = |index: usize| {
            let sq = &self.sqs[index];
            (sq.pending() > 0 && self.cqs[sq.cq].room() > 0).then_some(sq.priority)
        };
        self.arbiter.as_ref()?.choose(self.sqs.len(), ready)
    }

    /// Notes that commands of a queue were served.
    pub(super) fn note_served(&mut self, index: usize, count: u32) {
        let priority = self.sqs[index].priority;
        if let Some(arbiter) = &mut self.arbiter {
            arbiter.served(index, priority, count);
        }
    }

    /// Serves queues by priority. Returns whether there was anything to do.
    pub(super) fn pass_by_priority(&mut self) -> bool {
        let mut heard = true;
        for index in 0..self.sqs.len() {
            heard &= self.hear(index);
            if self.sqs[index].pending() > 0 {
                self.poll_head(self.sqs[index].cq);
            }
        }
        let mut left = PASS;
        while left > 0
            && let Some((index, most)) = self.chosen()
        {
            let count = self.serve(index, most.min(MAX_BURST).min(left));
            if count == 0 {
                break;
            }
            self.note_served(index, count);
            left -= count;
        }
        !heard || left < PASS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIORITIES: [QueuePriority; 6] = [
        QueuePriority::LOW,
        QueuePriority::HIGH,
        QueuePriority::MEDIUM,
        QueuePriority::HIGH,
        QueuePriority::URGENT,
        QueuePriority::LOW,
    ];

    fn feature(high: u32, medium: u32, low: u32, ab: u8) -> Arbitration {
        let z = |weight: u32| (weight - 1) as u8;
        Arbitration::new().with_hpw_z(z(high)).with_mpw_z(z(medium)).with_lpw_z(z(low)).with_ab(ab)
    }

    /// Serves `total` commands one by one of queues that always have more, and says which.
    fn serve(arbiter: &mut Arbiter, total: usize, ready: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut order = Vec::new();
        while order.len() < total {
            let ready = |index: usize| ready(index).then_some(PRIORITIES[index]);
            let (queue, most) = arbiter.choose(PRIORITIES.len(), ready).unwrap();
            assert!(most > 0);
            arbiter.served(queue, PRIORITIES[queue], 1);
            order.push(queue);
        }
        order
    }

    #[test]
    fn urgent_queues_go_strictly_first() {
        let mut arbiter = Arbiter::new(feature(8, 4, 2, 1));
        assert!(serve(&mut arbiter, 100, |_| true).iter().all(|queue| *queue == 4));
        assert!(serve(&mut arbiter, 100, |queue| queue != 4).iter().all(|queue| *queue != 4));
        assert_eq!(serve(&mut arbiter, 1, |_| true), [4]);
    }

    #[test]
    fn every_round_serves_each_class_by_its_weight() {
        for (high, medium, low, ab) in [(8, 4, 2, 1), (5, 3, 1, 7), (1, 1, 1, 0), (256, 17, 3, 2)] {
            let mut arbiter = Arbiter::new(feature(high, medium, low, ab));
            let round = (high + medium + low) as usize;
            for _ in 0..4 {
                let order = serve(&mut arbiter, round, |queue| queue != 4);
                let of =
                    |queues: &[usize]| order.iter().filter(|queue| queues.contains(queue)).count() as u32;
                assert_eq!((of(&[1, 3]), of(&[2]), of(&[0, 5])), (high, medium, low));
            }
        }
    }

    #[test]
    fn a_burst_stays_with_its_queue_and_queues_of_a_class_take_turns() {
        let mut arbiter = Arbiter::new(feature(8, 1, 1, 1));
        let order = serve(&mut arbiter, 8, |queue| queue == 1 || queue == 3);
        assert_eq!(order, [1, 1, 3, 3, 1, 1, 3, 3]);
    }

    #[test]
    fn a_class_without_commands_leaves_its_share_to_the_others() {
        let mut arbiter = Arbiter::new(feature(8, 4, 2, 0));
        let order = serve(&mut arbiter, 60, |queue| queue == 2 || queue == 0);
        assert_eq!(order.iter().filter(|queue| **queue == 2).count(), 40);
        assert!(arbiter.choose(PRIORITIES.len(), |_| None).is_none());
    }
}
