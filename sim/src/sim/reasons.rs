//! What can make a command late, or lose it: faults, stalls and losses, each only where and when it was.

use std::time::Duration;

use warpbell_kernels::abi;
use warpbell_softctl::{FaultKind, InjectedFault};

use super::forgiven::is_mistaken;
use super::kernel;
use super::outcome::{Command, Facts, Who};
use super::plan::Plan;

/// Why a command has the status that it has.
pub(super) struct Reasons<'a> {
    pub(super) plan: &'a Plan,
    pub(super) facts: &'a Facts,
}

/// Whether a fault ends the work of the whole controller.
pub(super) fn ends(kind: FaultKind) -> bool {
    matches!(kind, FaultKind::Fatal | FaultKind::Reset | FaultKind::Remove | FaultKind::PowerLoss)
}

/// What comes close enough to a deadline to be the reason why it passed.
fn nearly(limit: Duration) -> Duration {
    limit / 10 * 9
}

impl Reasons<'_> {
    /// Faults of the command's life of the controller, up to a time.
    fn faults(&self, of: &Command, until: u64) -> impl Iterator<Item = &InjectedFault> {
        let until = Duration::from_nanos(until);
        // Of its queue's, where those are told apart.
        let from = of.life.map_or(Duration::ZERO, |life| self.facts.lives[life].made);
        let global = |fault: &InjectedFault| ends(fault.kind) || fault.queue != of.qid;
        let in_time = move |fault: &&InjectedFault| fault.at <= until && (global(fault) || fault.at >= from);
        self.facts.faults_of(of.era).filter(in_time)
    }

    fn on_queue(&self, of: &Command, until: u64) -> impl Iterator<Item = &InjectedFault> {
        self.faults(of, until).filter(move |fault| fault.queue == of.qid)
    }

    /// Whether the host had given the command's queue up by then.
    pub(super) fn lost(&self, of: &Command, until: u64) -> bool {
        let Who::Lane { .. } = of.who else { return false };
        let until = Duration::from_nanos(until);
        self.losses(of).iter().any(|at| *at <= until)
    }

    /// When the host gave the command's queue up.
    pub(super) fn losses(&self, of: &Command) -> Vec<Duration> {
        if let Some(life) = of.life {
            return self.facts.lives[life].lost.into_iter().collect();
        }
        let its = |queue: Option<u16>| queue.is_none_or(|queue| queue == of.qid);
        let of_era = self.facts.losses.iter().filter(|(_, era, _)| *era == of.era);
        of_era.filter(|(queue, _, _)| its(*queue)).map(|(_, _, when)| *when).collect()
    }

    /// Whether the host had given the SSD up by then.
    pub(super) fn is_dead(&self, of: &Command, until: u64) -> bool {
        let dead = |life: usize| self.facts.lives[life].dead;
        of.life.and_then(dead).is_some_and(|at| at <= Duration::from_nanos(until))
    }

    /// Whether the command's queue was deleted under it.
    pub(super) fn is_deleted(&self, of: &Command) -> bool {
        match of.life {
            Some(life) => self.facts.lives[life].lost.is_some(),
            None => self.facts.retired.contains(&of.qid),
        }
    }

    /// Whether by then nothing could complete any more.
    fn ended(&self, of: &Command, until: u64) -> bool {
        self.lost(of, until) || self.faults(of, until).any(|fault| ends(fault.kind))
    }

    /// Whether by then a command of the same queue had got another's answer.
    pub(super) fn confused(&self, of: &Command, until: u64) -> bool {
        is_mistaken(self.facts, of.qid, Duration::from_nanos(until))
    }

    /// For how long the controller did nothing of what it had to do for this queue between two times.
    fn idle(&self, of: &Command, from: u64, until: u64) -> Duration {
        let overlap = |at: Duration, by: Duration| {
            let end = at.saturating_add(by).min(Duration::from_nanos(until));
            end.saturating_sub(at.max(Duration::from_nanos(from)))
        };
        let stalls = self.facts.stalls.iter().map(|(at, by)| overlap(*at, *by));
        let stuck = self.on_queue(of, until).filter(|fault| fault.kind == FaultKind::StuckDoorbell);
        let stuck = stuck.map(|fault| overlap(fault.at, fault.by.unwrap_or_default()));
        stalls.chain(stuck).fold(Duration::ZERO, Duration::saturating_add)
    }

    /// Where completions are posted in the order of submission: by how much those of other commands of the queue came
    /// late, before which this one's cannot come.
    fn held_up(&self, of: &Command, from: u64, until: u64) -> Duration {
        let from = Duration::from_nanos(from);
        let before = |fault: &&InjectedFault| {
            let end = fault.at.saturating_add(fault.by.unwrap_or_default());
            fault.kind == FaultKind::Delay && end >= from && !of.is(fault.queue, fault.cid)
        };
        if self.plan.ordered == 0 {
            return Duration::ZERO;
        }
        // One that is reordered may be the last of all, after every one that comes late on any queue.
        let last = self.on_queue(of, until).any(|fault| fault.kind == FaultKind::Reorder);
        let delays = self.faults(of, until).filter(|fault| last || fault.queue == of.qid).filter(before);
        delays.filter_map(|fault| fault.by).fold(Duration::ZERO, Duration::saturating_add)
    }

    /// How much longer each command takes.
    fn slow(&self, until: u64) -> Duration {
        // A namespace is slow beyond resets.
        let before = |fault: &&InjectedFault| fault.at <= Duration::from_nanos(until);
        let slow = self.facts.faults.iter().filter(before).filter(|fault| fault.kind == FaultKind::Slow);
        slow.filter_map(|fault| fault.by).fold(Duration::ZERO, Duration::saturating_add)
    }

    /// Whether something kept the answer of a submitted command back until its deadline.
    pub(super) fn timed_out(&self, of: &Command) -> bool {
        let record = &of.record;
        let own = |fault: &&InjectedFault| {
            of.is(fault.queue, fault.cid)
                && fault.at >= Duration::from_nanos(record.asked)
                && matches!(
                    fault.kind,
                    FaultKind::Drop | FaultKind::Hang | FaultKind::Delay | FaultKind::Reorder
                )
        };
        let sum = |faults: &mut dyn Iterator<Item = &InjectedFault>| {
            faults.filter_map(|fault| fault.by).fold(Duration::ZERO, Duration::saturating_add)
        };
        let mut late = sum(&mut self.on_queue(of, record.answered).filter(own));
        late = late.saturating_add(self.held_up(of, record.asked, record.answered));
        if self.on_queue(of, record.answered).filter(own).any(|fault| fault.kind == FaultKind::Reorder) {
            // It may be the last of all, after every one that comes later than it should.
            let delayed = self.faults(of, record.answered).filter(|fault| fault.kind == FaultKind::Delay);
            late = late.saturating_add(sum(&mut delayed.into_iter()));
        }
        let idle = self.idle(of, record.asked, record.answered);
        let late = late.saturating_add(idle).saturating_add(self.slow(record.answered));
        // The driver takes no completion that names another queue, as one does that is not whole yet.
        let torn = |fault: &InjectedFault| fault.kind == FaultKind::Torn && of.is(fault.queue, fault.cid);
        of.op.flags & kernel::ABANDON != 0
            || matches!(of.who, Who::Host { .. }) && self.on_queue(of, record.answered).any(torn)
            || self.ended(of, record.answered)
            || self.confused(of, record.answered)
            || late >= nearly(self.plan.wait_limit())
    }

    /// Whether something kept room from a command until its deadline: nothing was done for the queue, or commands
    /// that take longer, or for ever, had its room.
    pub(super) fn not_submitted(&self, of: &Command) -> bool {
        let record = &of.record;
        let (from, until) = (record.asked, record.submitted);
        if self.ended(of, until) || self.confused(of, until) {
            return true;
        }
        let limit = nearly(self.plan.submit_limit());
        let mut room = self.plan.entries as u32 - 1;
        let mut late = self.idle(of, from, until).saturating_add(self.held_up(of, from, until));
        let (mut delayed, last) = (Duration::ZERO, self.delayed(of, from, until));
        for fault in self.on_queue(of, until) {
            let by = fault.by.unwrap_or_default();
            match fault.kind {
                FaultKind::Drop | FaultKind::Hang => room = room.saturating_sub(1),
                FaultKind::Delay if by >= limit => room = room.saturating_sub(1),
                FaultKind::Delay => delayed += by,
                // It may be the last of all, after every one that comes late on any queue.
                FaultKind::Reorder if last >= limit => room = room.saturating_sub(1),
                FaultKind::Reorder => delayed += last,
                _ => {}
            }
        }
        if room == 0 {
            return true;
        }
        late += delayed / room + self.slow(until) * self.before(of).div_ceil(room) + self.media(of, until);
        late >= limit
    }

    /// For how long the media were busy with commands that were about when this one waited. All blocks of a plan lie on
    /// one unit of them.
    fn media(&self, of: &Command, until: u64) -> Duration {
        let busy = match self.plan.profile {
            0 => return Duration::ZERO,
            1 => Duration::from_micros(7),
            _ => Duration::from_micros(50),
        };
        let about = |other: &&Command| {
            let record = &other.record;
            record.asked != 0
                && record.asked <= until
                && (record.answers == 0 || record.answered >= of.record.asked)
        };
        busy * self.facts.commands.iter().filter(about).count() as u32
    }

    /// For how long between two times some command of any queue was delayed.
    fn delayed(&self, of: &Command, from: u64, until: u64) -> Duration {
        let [from, until] = [from, until].map(Duration::from_nanos);
        let delays = self.facts.faults_of(of.era).filter(|fault| fault.kind == FaultKind::Delay);
        let ends = delays.filter(|fault| fault.at <= until).filter_map(|fault| Some(fault.at + fault.by?));
        ends.max().unwrap_or_default().min(until).saturating_sub(from)
    }

    /// Commands of the same queue that were about when this one asked for room.
    fn before(&self, of: &Command) -> u32 {
        let about = |other: &&Command| {
            other.qid == of.qid
                && other.shares_life(of)
                && other.record.asked != 0
                && other.record.asked <= of.record.submitted
                && (other.record.answers == 0 || other.record.answered >= of.record.asked)
        };
        self.facts.commands.iter().filter(about).count() as u32
    }

    /// Commands of the same lane that were given up, so that their identifiers, and in their own kernel their buffers,
    /// are not free.
    fn given_up(&self, of: &Command, same_kernel: bool) -> usize {
        let Who::Lane { kernel, warp, lane, .. } = of.who else { return 0 };
        let same = |other: &&Command| match other.who {
            Who::Lane { kernel: k, warp: w, lane: l, .. } => {
                (w, l) == (warp, lane) && other.shares_life(of) && (k == kernel || !same_kernel && k < kernel)
            }
            Who::Host { .. } => false,
        };
        let library = |code: u32| abi::STATUS_LIBRARY | code;
        let kept = |other: &&Command| {
            let status = other.record.status;
            [abi::STATUS_TIMED_OUT, abi::STATUS_QUEUE_GONE, abi::STATUS_SSD_LOST]
                .iter()
                .any(|code| status == library(*code))
        };
        self.facts.commands.iter().filter(same).filter(kept).count()
    }

    /// Whether a lane had no identifier left.
    pub(super) fn no_cid(&self, of: &Command) -> bool {
        self.plan.depth > self.plan.tokens.next_power_of_two()
            // 0xffff is never issued, so that one lane has an identifier less.
            || self.plan.high != 0
            || self.given_up(of, false) > 0
    }

    /// Whether a lane had no buffer left, and could ask for nothing more.
    pub(super) fn never_asked(&self, of: &Command) -> bool {
        // Whichever queue the lane had come to by then.
        let kept = |other: &Command| self.given_up(other, true) as u64 >= self.plan.depth;
        let lane = |who: Who| match who {
            Who::Lane { kernel, warp, lane, .. } => Some((kernel, warp, lane)),
            Who::Host { .. } => None,
        };
        let same = |other: &&Command| lane(other.who).is_some() && lane(other.who) == lane(of.who);
        kept(of) || self.stopped(of) || of.life.is_some() && self.facts.commands.iter().filter(same).any(kept)
    }

    /// Whether its warp had ended, because no queue came in place of a lost one.
    fn stopped(&self, of: &Command) -> bool {
        let Who::Lane { kernel, warp, .. } = of.who else { return false };
        let failed =
            self.facts.moves.iter().filter(|(k, w, note)| (*k, *w) == (kernel, warp) && note.status != 1);
        let dead = |status: u32| status - 1 == abi::STATUS_LIBRARY | abi::STATUS_SSD_LOST;
        failed.clone().any(|(_, _, note)| dead(note.status)) || failed.count() as u64 >= self.plan.patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::faults::injected as fault;
    use crate::sim::kernel::{Op, Record};

    const MS: Duration = Duration::from_millis(1);

    /// Whether a fault, or what `more` adds, explains that a command of queue 2 asked for at 10 ms had no answer at 110.
    fn explains(faults: &[InjectedFault], more: impl Fn(&mut Facts)) -> bool {
        let plan = Plan { timeout: 100_000, submit_timeout: 100_000, entries: 2, ..Plan::default() };
        let at = |ms: u32| (MS * ms).as_nanos() as u64;
        let record = Record {
            answers: 1,
            cid: 7,
            asked: at(10),
            submitted: at(10),
            waited: at(10),
            answered: at(110),
            ..Record::default()
        };
        let who = Who::Lane { kernel: 0, warp: 0, lane: 0, command: 0, attempt: 0 };
        let command = Command { who, era: 0, qid: 2, life: None, op: Op::default(), record };
        let mut facts = Facts { commands: vec![command], faults: faults.to_vec(), ..Facts::default() };
        more(&mut facts);
        Reasons { plan: &plan, facts: &facts }.timed_out(&command)
    }

    #[test]
    fn a_fault_explains_a_timeout_of_its_own_command_and_queue_only() {
        let never = Some(Duration::MAX);
        assert!(explains(&[fault(FaultKind::Drop, 2, MS * 20, never)], |_| ()));
        assert!(!explains(&[fault(FaultKind::Drop, 1, MS * 20, never)], |_| ()), "another queue");
        assert!(!explains(&[fault(FaultKind::Drop, 2, MS * 120, never)], |_| ()), "after the answer");
        let other = InjectedFault { cid: 8, ..fault(FaultKind::Drop, 2, MS * 20, never) };
        assert!(!explains(&[other], |_| ()), "another command");
        assert!(explains(&[fault(FaultKind::StuckDoorbell, 2, MS * 5, never)], |_| ()));
        assert!(!explains(&[fault(FaultKind::StuckDoorbell, 1, MS * 5, never)], |_| ()));
        assert!(explains(&[fault(FaultKind::Fatal, 1, MS * 50, None)], |_| ()));
        assert!(!explains(&[fault(FaultKind::Fatal, 1, MS * 111, None)], |_| ()));
    }

    #[test]
    fn what_is_shorter_than_the_deadline_explains_nothing() {
        let late = |by| [fault(FaultKind::Delay, 2, MS * 20, Some(by))];
        assert!(explains(&late(MS * 300), |_| ()));
        assert!(!explains(&late(MS * 10), |_| ()));
        assert!(explains(&[], |facts| facts.stalls.push((MS * 5, MS * 225))));
        assert!(!explains(&[], |facts| facts.stalls.push((MS * 15, MS * 75))));
        assert!(!explains(&[], |facts| facts.stalls.push((MS * 120, MS * 225))), "later");
    }

    #[test]
    fn in_the_order_of_submission_a_late_command_holds_others_of_its_queue_up() {
        let late = |queue, by| {
            let other = InjectedFault { cid: 8, ..fault(FaultKind::Delay, queue, MS * 5, Some(by)) };
            let record = Record { cid: 7, asked: 10_000_000, answered: 110_000_000, ..Record::default() };
            let who = Who::Lane { kernel: 0, warp: 0, lane: 0, command: 0, attempt: 0 };
            let command = Command { who, era: 0, qid: 2, life: None, op: Op::default(), record };
            let facts = Facts { faults: vec![other], ..Facts::default() };
            move |ordered| {
                let plan = Plan { ordered, timeout: 100_000, ..Plan::default() };
                Reasons { plan: &plan, facts: &facts }.timed_out(&command)
            }
        };
        assert!(late(2, MS * 300)(1));
        assert!(!late(2, MS * 300)(0), "any order");
        assert!(!late(1, MS * 300)(1), "another queue");
        assert!(!late(2, MS * 3)(1), "over before it was asked for");
    }

    #[test]
    fn a_loss_explains_only_its_own_queue() {
        assert!(explains(&[], |facts| facts.losses.push((Some(2), 0, MS * 20))));
        assert!(explains(&[], |facts| facts.losses.push((None, 0, MS * 20))));
        assert!(!explains(&[], |facts| facts.losses.push((Some(1), 0, MS * 20))));
        assert!(!explains(&[], |facts| facts.losses.push((Some(2), 1, MS * 20))), "after a reset");
        assert!(!explains(&[], |facts| facts.losses.push((Some(2), 0, MS * 120))), "after the answer");
    }
}
