//! Plans in which the library recovers while kernels run. What they share with plain plans is drawn alike.

use std::time::Duration;

use warpbell::RecoveryPolicy;

use super::Plan;
use crate::case::Draw;
use crate::sim::kernel::{self, Op};

impl Plan {
    /// The plan of a seed, with recovery.
    pub fn draw_recovery(seed: u64) -> Plan {
        let mut draw = Draw::new(seed ^ 0x4ec0_7e4e);
        let mut one = |choices: &[u64]| choices[draw.below(choices.len() as u64) as usize];
        let plain = Plan::draw(seed);
        let timeout = one(&[20_000, 50_000, 100_000]);
        let plan = Plan {
            recovery: 1,
            timeout,
            submit_timeout: timeout / one(&[1, 1, 2]),
            stall_for: timeout * one(&[1, 3, 9]) / 4,
            faults: (1 << one(&[0, 1, 1, 2, 2, 3, 4, 6])) - 1,
            tries: one(&[1, 2, 3, 4]),
            ask_again: one(&[0, 1, 1]),
            retry: one(&[0, 1]),
            switch_to_successor: timeout * one(&[1, 8, 40]),
            patience: one(&[1, 4, 16]),
            replacement_queues: one(&[0, 1, 2, 2, 4]),
            step: one(&[5_000, 20_000, 50_000]),
            resets: one(&[1, 4, 16, 16]),
            look: one(&[4, 16, 16, 64]),
            lease: one(&[0, 0, 0, 1]),
            // More time for things to go wrong in.
            commands: plain.commands + one(&[0, 2, 4]),
            depth: plain.depth,
            // The library replaces queues itself.
            replace: 0,
            reset: 0,
            high: 0,
            ..plain
        };
        let mut plan = Plan { commands: plan.commands.min(1 + 320 / (plan.warps * plan.lanes)), ..plan };
        plan.tell_wide_apart();
        plan
    }

    /// The plan of this one's seed as it was drawn.
    pub fn drawn(&self) -> Plan {
        if self.recovery == 0 { Plan::draw(self.seed) } else { Plan::draw_recovery(self.seed) }
    }

    /// Whether a command leaves the kernels' lease, and not the namespace.
    pub fn leaves_lease(&self, op: &Op) -> bool {
        let flush = op.opcode == kernel::FLUSH;
        self.lease != 0 && !flush && self.inside(op) && op.lba + u64::from(op.blocks) > self.blocks
    }

    /// Flags of the kernel.
    pub fn kernel_flags(&self) -> u32 {
        let flag = |on: u64, flag: u32| if on == 0 { 0 } else { flag };
        self.flags as u32
            | flag(self.recovery, kernel::SWITCH_TO_SUCCESSOR)
            | flag(self.ask_again, kernel::ASK_AGAIN)
            | flag(self.retry, kernel::RETRY)
    }

    /// What the library may do by itself. Every step is bounded, and the sum of all bounds is what anything may take.
    pub fn recovery_policy(&self) -> RecoveryPolicy {
        if self.recovery == 0 {
            return RecoveryPolicy::off();
        }
        let step = self.step_limit();
        RecoveryPolicy::new()
            .alarm_period(Duration::ZERO)
            .health_period(step / 4)
            .event_period(step)
            .event_limit(step)
            .abort(step)
            .settle(step)
            .delete(step * 2)
            .replace(step * 8)
            .quiesce(self.wait_limit() * 4)
            .reset(step * 40)
            .resets(self.resets as u32)
    }

    /// What one pass may take at most: all its steps, one after the other, and again after a reset.
    pub fn poll_limit(&self) -> Duration {
        let policy = self.recovery_policy();
        let queue = policy.settle + policy.delete + policy.replace;
        let look = policy.abort + policy.reset + policy.event_limit;
        queue * (self.queues as u32 + 1) + policy.quiesce + look * 2
    }

    /// What any trouble may take, from alarm to successor, with as many resets as there may be.
    pub fn ladder_limit(&self) -> Duration {
        self.poll_limit() * (self.resets as u32 + 2)
    }

    /// Timeout of the wait for a successor.
    pub fn successor_limit(&self) -> Duration {
        Duration::from_micros(self.switch_to_successor)
    }

    /// Timeout of an admin command of the recovery.
    pub fn step_limit(&self) -> Duration {
        Duration::from_micros(self.step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plan_is_one_that_can_be_run_and_goes_with_a_plain_one() {
        for seed in 0..500 {
            let (plan, plain) = (Plan::draw_recovery(seed), Plan::draw(seed));
            assert!(plan.commands > 0 && plan.total() <= 2000, "{plan}");
            assert_eq!((plan.shared, plan.queues, plan.entries), (plain.shared, plain.queues, plain.entries));
            assert_eq!((plan.drawn(), plain.drawn()), (plan.clone(), plain.clone()));
            assert_eq!((plain.recovery, plain.tries, plain.kernel_flags()), (0, 1, plain.flags as u32));
            plan.soft_config().expect("a configuration").validate().expect("a valid one");
        }
    }
}
