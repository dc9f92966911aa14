//! Submitting failed commands again, for queues that are asked to.

use std::time::Duration;

use warpbell_hw::Cid;
use warpbell_nvme::command::Sqe;
use warpbell_nvme::status::Status;

use super::{IoQueue, Token};
use crate::RetryPolicy;

/// A command that may be submitted again.
#[derive(Clone, Copy)]
struct Kept {
    sqe: Sqe,
    /// How its caller knows it, whatever identifier it has by now.
    token: Token,
    tries: u32,
}

/// The commands of a queue that may be submitted again.
pub(super) struct Retries {
    policy: RetryPolicy,
    /// By slot.
    kept: Box<[Kept]>,
    /// Identifiers of commands that wait for their time, in no order. They hold their slots.
    waiting: Vec<(Duration, u16)>,
}

impl Retries {
    /// None where the policy never asks for it.
    pub(super) fn new(policy: RetryPolicy, depth: u32) -> Option<Box<Retries>> {
        let none = Kept { sqe: Sqe::default(), token: Token { slot: 0, cid: Cid(0) }, tries: 0 };
        let kept = || vec![none; depth as usize].into();
        (policy.attempts > 0).then(|| Box::new(Retries { policy, kept: kept(), waiting: Vec::new() }))
    }

    fn stop_waiting(&mut self, cid: u16) -> bool {
        let found = self.waiting.iter().position(|(_, waiting)| *waiting == cid);
        found.map(|index| self.waiting.swap_remove(index)).is_some()
    }
}

impl IoQueue {
    /// A command was pushed.
    #[cold]
    pub(super) fn keep(&mut self, token: Token, sqe: &Sqe) {
        if let Some(retries) = &mut self.retries {
            retries.kept[usize::from(token.slot)] = Kept { sqe: *sqe, token, tries: 0 };
        }
    }

    /// How its caller knows the command in a slot.
    pub(super) fn known_as(&self, token: Token) -> Token {
        self.retries.as_ref().map_or(token, |retries| retries.kept[usize::from(token.slot)].token)
    }

    /// A command completed, and its slot is the last that came free. If it is to be submitted again it keeps the slot,
    /// under another identifier. Returns whether it is.
    pub(super) fn try_again(&mut self, slot: u16, status: Status) -> bool {
        let Some(retries) = &mut self.retries else { return false };
        let kept = &mut retries.kept[usize::from(slot)];
        self.counters.recovered += u64::from(status.is_ok() && kept.tries > 0);
        let Some(delay) = retries.policy.delay(status, kept.tries) else { return false };
        let Some(cid) = self.slots.take() else { return false };
        debug_assert_eq!(
            self.slots.slot_of(cid),
            slot,
            "the last slot that came free is the first to be taken"
        );
        kept.tries += 1;
        self.counters.retried += 1;
        let due = if delay.is_zero() { Duration::ZERO } else { self.pair.device.clock().now() + delay };
        retries.waiting.push((due, cid));
        if delay.is_zero() {
            self.resubmit(Duration::ZERO);
        }
        true
    }

    /// Submits the waiting commands whose time has come.
    #[cold]
    pub(super) fn resubmit_due(&mut self) {
        if self.next_retry().is_some() {
            let now = self.pair.device.clock().now();
            self.resubmit(now);
        }
    }

    fn resubmit(&mut self, now: Duration) {
        while let Some(cid) = self.next_due(now) {
            if self.tail == self.limit {
                self.tell();
            }
            if self.tail == self.limit {
                break;
            }
            let slot = usize::from(self.slots.slot_of(cid));
            let Some(retries) = &mut self.retries else { return };
            retries.stop_waiting(cid);
            self.sq.write(self.tail as u32, &retries.kept[slot].sqe.with_cid(cid));
            self.tail += 1;
        }
        self.ring();
    }

    fn next_due(&self, now: Duration) -> Option<u16> {
        let waiting = &self.retries.as_ref()?.waiting;
        waiting.iter().find(|(due, _)| *due <= now).map(|(_, cid)| *cid)
    }

    /// When the next waiting command is to be submitted.
    pub(super) fn next_retry(&self) -> Option<Duration> {
        self.retries.as_ref()?.waiting.iter().map(|(due, _)| *due).min()
    }

    /// Gives up a command whose deadline passed while it waited to be submitted again: the controller knows nothing of
    /// it, and its slot is free. False if it is not one.
    pub(super) fn forget_waiting(&mut self, cid: u16) -> bool {
        let waited = self.retries.as_mut().is_some_and(|retries| retries.stop_waiting(cid));
        if waited {
            self.slots.complete(cid);
        }
        waited
    }
}
