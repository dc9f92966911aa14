//! The host's main thread where the library recovers while kernels run: it lets the library look, sees to its own queue,
//! and holds what it finds at the end against what there was at the start.

use std::time::Duration;

use warpbell::SsdEventKind;
use warpbell_driver::{DriverError, QueueSpec};
use warpbell_nvme::AdminOpcode;

use super::host::Health;
use super::kernel::Op;
use super::lives::Life;
use super::outcome::Who;
use super::run::Run;
use super::wire::Seen;
use crate::findings::Finding;

/// Rounds after which a kernel is given up.
const MOST_ROUNDS: u64 = 600_000;
/// Kernels that may fail at the end, before one succeeds: more than there are faults that a plan injects.
const MOST_PROOFS: u64 = 24;

impl Run<'_> {
    /// Kernels, one after the other, whatever becomes of their queues; then whether everything works again.
    pub(super) fn go_recovering(&mut self) -> anyhow::Result<()> {
        for kernel in 0..self.plan.kernels {
            if !self.run_kernel(kernel, true)? {
                break;
            }
        }
        self.prove()?;
        self.end_client();
        self.let_go();
        if !self.facts.gone {
            self.read_back()?;
            self.close_books();
        }
        let identify = self.ssd.identify();
        self.facts.abort_limit = usize::from(identify.acl_z) + 1;
        self.facts.crdt = [identify.crdt1, identify.crdt2, identify.crdt3];
        self.facts.recovery = self.ssd.recovery_counters();
        self.facts.admin_commands = self.world.wire.read(|seen| seen.commands.clone());
        let aborts = self.facts.admin_commands.iter().filter(|sent| sent.opcode == AdminOpcode::ABORT);
        self.facts.aborted = aborts.map(|abort| (abort.qid(), abort.aborted_cid(), abort.at)).collect();
        let lost = |life: &&Life| life.lost.is_some();
        self.facts.retired = self.world.lives.borrow().all.iter().filter(lost).map(Life::qid).collect();
        Ok(())
    }

    /// One kernel, and what it leaves to be recovered. False if nothing works any more.
    fn run_kernel(&mut self, kernel: u64, with_client: bool) -> anyhow::Result<bool> {
        if self.is_over() || !self.attach(kernel)? {
            return Ok(false);
        }
        if with_client {
            self.start_client(kernel)?;
        }
        let launched = self.launch(kernel)?;
        self.look_on(kernel);
        self.collect(&launched)?;
        self.settle();
        Ok(!self.is_over())
    }

    /// The library has given the SSD up, or it was removed.
    fn is_over(&mut self) -> bool {
        self.facts.gone |= self.health() == Health::Gone;
        self.facts.gone || self.world.lives.borrow().current().any(|life| life.dead.is_some())
    }

    /// The host while a kernel runs.
    fn look_on(&mut self, kernel: u64) {
        let (start, begin, limit) = (self.world.rounds(), self.world.now(), self.kernel_limit());
        while self.world.is_running() {
            let round = self.world.rounds() - start;
            if round.is_multiple_of(self.plan.look) {
                self.recovery_round();
                self.see_to_client();
            }
            if self.plan.stall != 0 && round == self.plan.stall && kernel < self.plan.kernels {
                let by = Duration::from_micros(self.plan.stall_for);
                self.facts.stalls.push((self.world.now(), by));
                self.world.stall(by);
            }
            if self.plan.lose != 0 && round >= self.plan.lose && !self.facts.lost {
                self.give_one_up();
            }
            self.world.turn(Duration::ZERO);
            let elapsed = self.world.now() - begin;
            if elapsed > limit || round > MOST_ROUNDS {
                let text = format!("a kernel is not done {elapsed:?} ({round} rounds) after its start");
                self.facts.findings.push(Finding::Stuck(text));
                self.world.kill();
            }
        }
        self.facts.findings.extend(self.world.take_trouble());
    }

    /// An application gives a queue up, though nothing is wrong with it.
    fn give_one_up(&mut self) {
        let queue = self.plan.seed % self.plan.queues;
        if let Some(attached) = &self.attached {
            attached.attachment.declare_lost(queue as usize);
        }
        self.facts.lost = true;
        self.world.note(|| format!("host: queue of index {queue} is declared lost"));
    }

    /// Resets by whoever it was.
    pub(super) fn note_resets(&mut self) {
        if self.plan.recovery != 0 {
            self.facts.resets = self.world.wire.read(|seen| seen.disabled.clone());
        }
    }

    /// The library looks once, and takes no longer than it may.
    fn recovery_round(&mut self) {
        let begin = self.world.now();
        self.ssd.recovery().poll();
        let (took, limit) = (self.world.now() - begin, self.plan.poll_limit());
        if took > limit {
            let text = format!("a poll of the recovery took {took:?}, and may take {limit:?}");
            self.facts.findings.push(Finding::Stuck(text));
        }
        self.note_resets();
        for event in self.events.try_iter() {
            self.world.log.lock().note(event.at, || format!("recovery: {event}"));
            if let SsdEventKind::Recovery(step) = event.kind {
                self.facts.steps.push((event.at, step));
            }
        }
    }

    /// The host's own queue goes with the controller's others. What it had not asked for yet a new one asks for.
    fn see_to_client(&mut self) {
        if self.world.is_client_cut_off() {
            let rest = self.take_client();
            self.client_rest.extend(rest);
        }
        let without = self.world.with_client(|_| ()).is_none();
        if without && !self.client_rest.is_empty() && self.health() == Health::Fine {
            let rest = std::mem::take(&mut self.client_rest);
            if let Err(error) = self.make_client(rest) {
                self.facts.host_error(format!("a queue after a reset: {error:#}"));
            }
        }
    }

    /// Ends the client without a word to the controller. Returns what it had not asked for.
    fn take_client(&mut self) -> Vec<Op> {
        let Some(mut client) = self.world.set_client(None) else { return Vec::new() };
        let rest = client.stop();
        let qid = client.qid();
        self.facts.counts.push((qid, client.spurious(), 0));
        let done = client.into_done();
        self.facts.add_client(qid, &done.ops, &done.records);
        rest
    }

    fn end_client(&mut self) {
        self.see_to_client();
        self.client_rest.clear();
        self.finish_client();
        self.take_client();
    }

    /// The library looks until nothing is left to be done: no command that was given up is unresolved, and no queue
    /// waits for its successor.
    fn settle(&mut self) {
        let (begin, limit) = (self.world.now(), self.plan.ladder_limit());
        loop {
            self.recovery_round();
            self.see_to_client();
            let Some(left) = self.what_is_left() else { return };
            let elapsed = self.world.now() - begin;
            if elapsed > limit {
                let text = format!("{elapsed:?} after the kernels' end {left}");
                return self.facts.findings.push(Finding::Recovery(text));
            }
            self.world.turn(self.plan.step_limit() / 4);
        }
    }

    fn what_is_left(&mut self) -> Option<String> {
        if self.is_over() {
            return None;
        }
        if self.health() != Health::Fine {
            return Some("the controller is not fine".to_owned());
        }
        let lives = self.world.lives.borrow();
        lives.current().find_map(|life| {
            let (qid, unresolved) = (life.qid(), life.unresolved());
            match life.lost {
                Some(_) => Some(format!("queue {qid} has no successor")),
                None if unresolved.is_empty() => None,
                None => Some(format!("commands {unresolved:x?} of queue {qid} are still given up")),
            }
        })
    }

    /// Until the controller is fine again. While nobody has queues, the library does nothing by itself.
    pub(super) fn bring_back(&mut self) {
        for _ in 0..MOST_PROOFS {
            if self.facts.gone || self.health() == Health::Fine {
                return;
            }
            self.recover();
        }
    }

    /// After the last fault, kernels that use the same queues succeed.
    fn prove(&mut self) -> anyhow::Result<()> {
        for proof in 0..MOST_PROOFS {
            let before = self.facts.commands.len();
            if !self.run_kernel(self.plan.kernels + proof, false)? {
                return Ok(());
            }
            let failed = |command: &super::outcome::Command| {
                matches!(command.who, Who::Lane { .. }) && command.record.status != 0
            };
            let done = self.facts.commands.split_at(before).1;
            if !done.iter().any(failed) {
                return Ok(());
            }
        }
        let text = format!("{MOST_PROOFS} kernels in a row did not succeed, long after the last fault");
        self.facts.findings.push(Finding::Recovery(text));
        Ok(())
    }

    /// The queues' end. Whoever used them has left them.
    fn let_go(&mut self) {
        self.facts.gone |= self.health() == Health::Gone;
        for life in &self.world.lives.borrow().all {
            let held = life.held();
            self.facts.memory_reused |= life.counts().is_none();
            if let Some([spurious, late, sqhd_mismatch]) = life.counts() {
                self.facts.late += late;
                self.facts.counts.push((life.qid(), spurious, sqhd_mismatch));
            }
            if held.taken + held.waiting != 0 {
                let text = format!("{held:?} of queue {} after the last kernel", life.qid());
                self.facts.findings.push(Finding::Leak(text));
            }
        }
        let attached = self.attached.take();
        self.count(attached.as_ref());
        self.world.end_lives();
        self.world.log.lock().forget();
        drop(attached);
        if !self.facts.gone && self.health() != Health::Fine {
            self.bring_back();
        }
    }

    /// Whether all memory and all queue identifiers are free again.
    fn close_books(&mut self) {
        // What could not be deleted goes with a reset only. So does what belongs to an admin command that has no answer:
        // its page, and the identifier of its queue. A fault may hit that reset, too.
        let mut kept = self.facts.excused > 0
            || self.world.wire.mapped_bytes() != self.mapped && self.facts.is_harmed(&self.soft);
        for _ in 0..MOST_PROOFS {
            self.world.wire.look(self.world.now());
            if self.facts.gone || !(kept || self.world.wire.read(Seen::is_unanswered)) {
                break;
            }
            self.recover();
            self.bring_back();
            kept = false;
        }
        if self.facts.gone {
            return;
        }
        let mapped = self.world.wire.mapped_bytes();
        if mapped != self.mapped {
            let text = format!("{mapped} bytes are mapped at the end, {} were at the start", self.mapped);
            self.facts.findings.push(Finding::Leak(text));
        }
        let mut pairs = Vec::new();
        let last = loop {
            match self.ssd.controller().create_queue_pair(QueueSpec::new(2)) {
                Ok(pair) => pairs.push(pair),
                Err(error) => break error,
            }
        };
        if let DriverError::NoFreeQueue { granted, in_use, lost, .. } = last
            && pairs.len() != usize::from(granted)
        {
            let text = format!(
                "of {granted} queue identifiers {} are free: {in_use} in use, {lost} lost",
                pairs.len()
            );
            self.facts.findings.push(Finding::Leak(text));
        }
        for pair in pairs {
            let deleted = self.ssd.controller().delete_queue_pair(pair);
            self.expect_host("deletion of a queue", deleted);
        }
    }
}
