//! The host's main thread while kernels run, and when something goes wrong.

use std::time::Duration;

use warpbell_driver::{ControllerState, DriverError, IoQueueOptions};
use warpbell_hw::{Cid, Qid};
use warpbell_kernels::abi;
use warpbell_softctl::{FaultKind, InjectedFault};

use super::client::Client;
use super::kernel::Op;
use super::reasons::ends;
use super::run::{Attached, Run};
use crate::findings::Finding;
use crate::memory::peek;

/// Rounds after which a kernel is given up; one of a hundred commands takes some thousand.
const MOST_ROUNDS: u64 = 300_000;
/// Rounds between two polls of the controller by the host.
const LOOK: u64 = 16;
/// How long the library waits for commands of its own on new queues.
const ATTACH_LIMIT: Duration = Duration::from_secs(10);
/// How the controller looks to its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    Fine,
    Broken,
    Gone,
}

impl Run<'_> {
    /// The host while a kernel runs. True if the controller was lost.
    pub(super) fn supervise(&mut self) -> bool {
        let start = self.world.rounds();
        let begin = self.world.now();
        let limit = self.kernel_limit();
        let mut lost = false;
        while self.world.is_running() {
            let round = self.world.rounds() - start;
            if round.is_multiple_of(LOOK) && !lost {
                lost = self.look(round);
            }
            if self.plan.stall != 0 && round == self.plan.stall {
                let by = Duration::from_micros(self.plan.stall_for);
                self.facts.stalls.push((self.world.now(), by));
                self.world.stall(by);
            }
            if !lost && self.world.below(2) == 0 {
                (0..self.plan.queues as usize).for_each(|queue| self.answer_alarm(queue));
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
        self.check_alarms();
        lost
    }

    /// Of whatever was given up, the host was told: it has seen it, or an alarm is still on. Of what it gave up itself,
    /// with a whole queue, it needs no telling.
    fn check_alarms(&mut self) {
        let Some(attached) = &self.attached else { return };
        for queue in 0..self.plan.queues as usize {
            let Ok(of) = attached.attachment.queue(queue) else { continue };
            let its = |lost: &Option<u16>| lost.is_none_or(|qid| u32::from(qid) == of.qid);
            if self.facts.losses.iter().any(|(lost, era, _)| its(lost) && *era == self.facts.resets.len()) {
                continue;
            }
            if attached.attachment.take_alarm(queue) {
                self.seen.extend(quarantined(&of).into_iter().map(|cid| (of.qid as u16, cid)));
            }
            for cid in quarantined(&of) {
                if !self.seen.contains(&(of.qid as u16, cid)) {
                    let text =
                        format!("queue {}: cid {cid:#06x} was given up, and the host not told", of.qid);
                    self.facts.findings.push(Finding::Unexplained(text));
                }
            }
        }
    }

    /// Longer than any kernel may take if each call keeps its deadline.
    pub(super) fn kernel_limit(&self) -> Duration {
        let plan = self.plan;
        let batches = 32u64.div_ceil(plan.batch) as u32;
        let round = plan.submit_limit() * batches + plan.wait_limit() * 2;
        // The host itself may wait for an answer that never comes, and look at nothing else meanwhile.
        let limit = round * (plan.commands as u32 + 2) * 2 + Duration::from_secs(20);
        if plan.recovery == 0 {
            return limit;
        }
        // Each try anew, with the delays that the controller asks for, and all the moves.
        let moves = plan.successor_limit() * (plan.patience as u32 + 16) + plan.ladder_limit();
        limit * plan.tries as u32 + moves + Duration::from_secs(1) * (plan.commands * plan.tries) as u32
    }

    /// One poll of controller and alarms, and now and then an admin command. True once the controller is lost.
    fn look(&mut self, round: u64) -> bool {
        if self.health() != Health::Fine {
            self.declare_lost();
            return true;
        }
        if self.plan.lose != 0 && round >= self.plan.lose && !self.facts.lost {
            self.lose_one();
        }
        if self.admin > 0 && self.world.below(16) == 0 {
            self.admin -= 1;
            self.send_admin();
        }
        false
    }

    pub(super) fn health(&self) -> Health {
        let csts = self.world.csts();
        // A reset that failed half way leaves a controller that is ready and that the driver does not use.
        let refused = self.plan.recovery != 0 && self.ssd.controller().state() != ControllerState::Ready;
        match csts.into_bits() {
            u32::MAX => Health::Gone,
            _ if refused => Health::Broken,
            _ if csts.cfs() || !csts.rdy() => Health::Broken,
            _ => Health::Fine,
        }
    }

    fn declare_lost(&mut self) {
        let Some(attached) = &self.attached else { return };
        (0..self.plan.queues as usize).for_each(|queue| attached.attachment.declare_lost(queue));
        self.facts.lost = true;
        self.facts.losses.push((None, self.facts.resets.len(), self.world.now()));
        self.world.note(|| "host: all queues are declared lost".to_owned());
    }

    /// Gives one queue up, though nothing is wrong with it; perhaps replaces it while kernels still hold it.
    fn lose_one(&mut self) {
        let Some(attached) = &self.attached else { return };
        let queue = (self.plan.seed % self.plan.queues) as usize;
        let pair = &attached.attachment.pairs()[queue];
        let qid = pair.qid();
        attached.attachment.declare_lost(queue);
        self.facts.lost = true;
        self.facts.losses.push((Some(qid.0), self.facts.resets.len(), self.world.now()));
        self.world.note(|| format!("host: queue {queue} is declared lost"));
        if self.plan.replace == 0 {
            return;
        }
        self.facts.retired.push(qid.0);
        let deleted = self.ssd.controller().retire_queue_pair(pair);
        self.world.note(|| format!("host: queue pair {qid} deleted: {deleted:?}"));
        self.facts.kept |= deleted.is_err();
        self.expect_host("deletion of a lost queue", deleted);
        if let Err(error) = self.start_client(8) {
            self.facts.host_error(format!("a queue in place of a lost one: {error:#}"));
        }
    }

    /// Aborts what was quarantined.
    fn answer_alarm(&mut self, queue: usize) {
        let Some(attached) = &self.attached else { return };
        if !attached.attachment.take_alarm(queue) {
            return;
        }
        let Ok(of) = attached.attachment.queue(queue) else { return };
        let qid = Qid(of.qid as u16);
        let found = quarantined(&of);
        self.world.note(|| format!("host: alarm of {qid}: {} commands given up", found.len()));
        self.seen.extend(found.iter().map(|cid| (qid.0, *cid)));
        if self.facts.retired.contains(&qid.0) {
            return;
        }
        for cid in found.into_iter().take(3) {
            if self.health() != Health::Fine {
                return;
            }
            self.facts.aborted.push((qid.0, cid, self.world.now()));
            let answer = self.ssd.controller().abort(qid, Cid(cid));
            self.world.note(|| format!("host: abort of cid {cid:#06x} of {qid}: {answer:?}"));
            self.facts.aborts += 1;
            self.expect_host("abort", answer);
        }
    }

    fn send_admin(&mut self) {
        let controller = self.ssd.controller().clone();
        let (name, answer) = match self.world.below(4) {
            0 => ("SMART log", controller.smart_log().map(|_| ())),
            1 => ("error log", controller.error_log(4).map(|_| ())),
            2 => ("write cache feature", controller.volatile_write_cache().map(|_| ())),
            _ => ("events", controller.poll_events().map(|_| ())),
        };
        self.world.note(|| format!("host: {name}: {answer:?}"));
        self.facts.admin += 1;
        self.expect_host(name, answer);
    }

    /// A call of the host must succeed, unless the controller is broken.
    pub(super) fn expect_host<T>(&mut self, what: &str, answer: Result<T, DriverError>) {
        if let Err(error) = answer {
            self.excuse(what, &error);
        }
    }

    /// A call of the host failed. That must have a reason: the controller is broken, or a fault of the plan hit the
    /// call's own commands before.
    pub(super) fn excuse(&mut self, what: &str, error: &DriverError) {
        let faults = self.soft.faults();
        if self.health() == Health::Fine && !is_reason(&faults, error) {
            return self.facts.host_error(format!("{what}: {error}"));
        }
        self.world.note(|| format!("host: {what} failed as it may: {error}"));
        self.facts.excused += 1;
    }

    /// The same for new queues, on which the host sends I/O commands that wait long for their answers.
    pub(super) fn excuse_attach(&mut self, begin: Duration, what: &str, error: &warpbell::Error) {
        let hits = |fault: &InjectedFault| {
            let late = fault.by.is_some_and(|by| by >= ATTACH_LIMIT);
            fault.at >= begin
                && (late || matches!(fault.kind, FaultKind::Fail | FaultKind::Torn | FaultKind::Duplicate))
        };
        if self.soft.faults().iter().any(hits) {
            self.world.note(|| format!("host: {what} failed as it may: {error}"));
            self.facts.excused += 1;
            return;
        }
        self.excuse_call(what, error);
    }

    /// The same for a call of the library.
    pub(super) fn excuse_call(&mut self, what: &str, error: &warpbell::Error) {
        match error {
            warpbell::Error::Driver(error) => self.excuse(what, error),
            error => self.facts.host_error(format!("{what}: {error}")),
        }
    }

    /// A host thread with its own queue, if there is none yet.
    pub(super) fn start_client(&mut self, kernel: u64) -> anyhow::Result<()> {
        if self.plan.client == 0 || self.world.with_client(|_| ()).is_some() || self.health() != Health::Fine
        {
            return Ok(());
        }
        let first = kernel * 1000;
        let ops = (first..first + self.plan.client).map(|index| self.plan.client_op(index)).collect();
        self.make_client(ops)
    }

    pub(super) fn make_client(&mut self, ops: Vec<Op>) -> anyhow::Result<()> {
        let entries = self.plan.client_entries as u32;
        let options = IoQueueOptions::new().timeout(self.plan.wait_limit()).sq_batch(1).cq_batch(1);
        let buffer = self.ssd.buffer(Client::buffer_bytes(entries))?;
        let queue = match self.ssd.host_queue(entries, options, buffer) {
            Ok(queue) => queue,
            Err(error) => {
                self.excuse_call("a queue of the host", &error);
                return Ok(());
            }
        };
        self.world.set_client(Some(Client::new(queue, self.plan.nsid(), self.plan.block_bytes(), ops)));
        Ok(())
    }

    /// Lets the client end, and takes its queue away. Its buffer goes last.
    pub(super) fn finish_client(&mut self) {
        let begin = self.world.now();
        while self.world.with_client(|client| !client.is_done()) == Some(true)
            && self.health() == Health::Fine
            && !self.world.is_client_cut_off()
        {
            self.world.turn(Duration::ZERO);
            self.world.with_client(|client| {
                if client.is_wedged() {
                    drop(client.stop());
                }
            });
            if self.world.now() - begin > self.plan.wait_limit() * 4 * (self.plan.client as u32 + 16) {
                self.facts.findings.push(Finding::Stuck("the host's own queue does not end".to_owned()));
                break;
            }
        }
        if self.health() != Health::Fine || self.world.is_client_cut_off() {
            return;
        }
        if let Some(client) = self.world.set_client(None) {
            let qid = client.qid();
            self.facts.counts.push((qid, client.spurious(), 0));
            let done = client.into_done();
            self.facts.add_client(qid, &done.ops, &done.records);
            let deleted = done.queue.delete();
            if let Err(error) = deleted {
                self.excuse_call("deletion of the host's queue", &error);
            }
        }
    }

    /// The controller is broken: kernels have ended; everything is reset.
    pub(super) fn recover(&mut self) {
        if self.health() == Health::Gone {
            self.facts.gone = true;
        }
        // Its queue, and the kernels', are let go of after the reset: until then they are the controller's too.
        let client = self.world.set_client(None).map(|mut client| {
            drop(client.stop());
            let qid = client.qid();
            self.facts.counts.push((qid, client.spurious(), 0));
            let done = client.into_done();
            self.facts.add_client(qid, &done.ops, &done.records);
            done.queue
        });
        let attached = self.attached.take();
        self.count(attached.as_ref());
        let reset = self.ssd.controller().reset();
        self.world.note(|| format!("host: reset: {reset:?}"));
        self.world.log.lock().forget();
        if self.plan.recovery == 0 {
            self.facts.resets.push(self.world.now());
        }
        self.note_resets();
        if let Err(error) = reset {
            if self.health() == Health::Gone {
                self.facts.gone = true;
            } else if self.plan.recovery != 0 && is_reason(&self.soft.faults(), &error) {
                self.facts.excused += 1;
            } else {
                self.facts.host_error(format!("reset: {error}"));
            }
        }
        drop((attached, client));
    }

    /// Queues deleted in good order, or everything reset.
    pub(super) fn put_in_order(&mut self) {
        if self.facts.gone {
            return;
        }
        // What is left of a queue that could not be deleted goes with a reset only.
        if self.health() != Health::Fine || self.plan.reset != 0 || self.facts.kept {
            return self.recover();
        }
        let Some(attached) = self.attached.take() else { return };
        self.count(Some(&attached));
        for pair in attached.attachment.pairs() {
            let deleted = self.ssd.controller().retire_queue_pair(&pair);
            self.expect_host("deletion of a queue", deleted);
        }
        self.world.log.lock().forget();
        drop(attached);
        if self.health() != Health::Fine {
            self.recover();
        }
    }

    /// What kernels counted on queues that are about to go.
    pub(super) fn count(&mut self, attached: Option<&Attached>) {
        let Some(Attached { attachment, monitor, .. }) = attached else { return };
        self.facts.breaches.extend(monitor.lock().timed_breaches());
        if self.plan.recovery != 0 {
            return;
        }
        for queue in 0..self.plan.queues as usize {
            let counters = attachment.counters(queue).expect("queues of the attachment are read");
            self.facts.late += counters.late;
            let qid = attachment.pairs()[queue].qid();
            self.facts.counts.push((qid.0, counters.spurious, counters.sqhd_mismatch));
        }
    }
}

/// Whether faults that were injected explain a call that failed. Whatever hit I/O commands does not: admin commands have
/// a queue of their own.
fn is_reason(faults: &[InjectedFault], error: &DriverError) -> bool {
    let admin = || faults.iter().filter(|fault| fault.queue == 0);
    let ended = || faults.iter().any(|fault| ends(fault.kind));
    match error.innermost() {
        DriverError::Command { status, .. } => {
            admin().any(|fault| fault.status.is_some_and(|injected| injected.same_code(*status)))
        }
        DriverError::CommandTimeout { limit, .. } | DriverError::AdminQueueFull { limit, .. } => {
            ended() || admin().any(|fault| fault.by.is_some_and(|by| by >= *limit))
        }
        DriverError::CommandLost { .. }
        | DriverError::StateTimeout { .. }
        | DriverError::State { .. }
        | DriverError::Fatal { .. }
        | DriverError::NotReady { .. }
        | DriverError::Gone { .. } => ended(),
        _ => false,
    }
}

/// Whether the controller does not answer any more.
pub(super) fn is_gone(error: &warpbell::Error) -> bool {
    matches!(error, warpbell::Error::Driver(error) if matches!(error.innermost(), DriverError::Gone { .. }))
}

/// Command identifiers that lanes of a queue gave up.
fn quarantined(queue: &abi::QueueRef) -> Vec<u16> {
    let lanes = queue.warp_slots * 32;
    let mut cids = Vec::new();
    for lane in 0..lanes {
        let mask: u32 = peek(queue.quarantine + 4 * u64::from(lane));
        let bits = (0..32).filter(|bit| mask >> bit & 1 != 0);
        cids.extend(bits.map(|bit| (lane << (queue.local_bits - 5) | bit) as u16));
    }
    cids
}
