//! A lane: the I/O queues that one thread serves, and the order in which it serves them.
//!
//! A completion queue and all submission queues that feed it are in one poll group, so that nothing on the way of an I/O
//! command is shared between threads. Round robin goes from queue to queue, a burst of commands at a time; with
//! priorities `arbitration` chooses. `flight` has what happens to a command between its fetch and its completion,
//! `flights` the set of such commands, `repeated` completions that a fault posted twice, `stuck` doorbells that are not
//! looked at, `suspend` waiting for memory that was unmapped, `copies` commands whose data engines copy, `rings` queues
//! whose rings they copy, `stepped` what a controller without threads does.

mod arbitration;
mod copies;
mod flight;
mod flights;
mod repeated;
mod rings;
mod stepped;
mod stuck;
mod suspend;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use warpbell_nvme::Status;

use crate::admin::{EVENT_PAGE, SHADOW_PAGE, cq_name, sq_name};
use crate::checker::Rule;
use crate::engine::Engine;
use crate::fault::Incident;
use crate::interrupt::Vectors;
use crate::queue::{Cq, DoorbellFault, Order, Sq};

pub(crate) use arbitration::Arbiter;
use flights::{Flight, Flights};
use repeated::Repeated;
use stuck::Stuck;

/// Most commands taken from one queue before the next has its turn.
pub(crate) const MAX_BURST: u32 = 32;

/// How a poll group works; fixed when the device is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollGroupMode {
    /// Commands held back to shuffle their completions; 0 completes each as soon as it was fetched.
    pub(crate) window: usize,
    /// Overwrite what was fetched.
    pub(crate) poison: bool,
    /// Serve many plain reads and writes at a time. Off where each command is looked at.
    pub(crate) quick: bool,
    /// Faults or a profile say when commands complete.
    pub(crate) planned: bool,
    /// Commands that are fetched and not completed, at most.
    pub(crate) slots: usize,
    /// Post the completions of each submission queue in the order of submission.
    pub(crate) ordered: bool,
    pub(crate) seed: u64,
}

/// What a poll group does with its queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PollGroupState {
    /// Serves them.
    Running,
    /// A shutdown was asked for: new commands are violations.
    ShutDown,
    /// Serves nothing while memory of a queue is unmapped; `told`: a client that submits all the same was reported.
    Suspended { told: bool },
    /// Does nothing any more, until a reset.
    Halted,
}

impl PollGroupState {
    /// Whether commands that were fetched go on.
    pub(crate) fn goes_on(self) -> bool {
        matches!(self, PollGroupState::Running | PollGroupState::ShutDown)
    }
}

/// I/O queues and the means to serve them.
pub(crate) struct PollGroup {
    pub(super) sqs: Vec<Sq>,
    pub(super) cqs: Vec<Cq>,
    flights: Flights,
    /// Stepped mode: since when there have been outstanding commands.
    busy_since: Option<Duration>,
    /// By queue identifier, where completions keep the order of submission.
    orders: HashMap<u16, Order<(Flight, Status)>>,
    stuck: Vec<Stuck>,
    repeated: Vec<Repeated>,
    /// Whether engines copy any of the rings.
    remote_rings: bool,
    /// What a fault does to the whole controller, for whoever may lock that.
    pub(crate) incident: Option<Incident>,
    pub(crate) engine: Engine,
    pub(crate) burst: u32,
    /// Present where queues have priorities.
    arbiter: Option<Arbiter>,
    pub(crate) state: PollGroupState,
    mode: PollGroupMode,
    random: Xoshiro256PlusPlus,
    vectors: Arc<Vectors>,
}

impl PollGroup {
    pub(crate) fn new(engine: Engine, mode: PollGroupMode, vectors: Arc<Vectors>) -> PollGroup {
        PollGroup {
            sqs: Vec::new(),
            cqs: Vec::new(),
            flights: Flights::default(),
            busy_since: None,
            orders: HashMap::new(),
            stuck: Vec::new(),
            repeated: Vec::new(),
            remote_rings: false,
            incident: None,
            engine,
            burst: MAX_BURST,
            arbiter: None,
            state: PollGroupState::Running,
            mode,
            random: Xoshiro256PlusPlus::seed_from_u64(mode.seed),
            vectors,
        }
    }

    /// Serves every queue once, in turn. Returns whether there was anything to do.
    #[inline]
    pub(crate) fn pass(&mut self) -> bool {
        let mut busy = false;
        if self.arbiter.is_some() {
            busy = self.pass_by_priority();
        } else {
            for index in 0..self.sqs.len() {
                busy |= self.visit(index);
            }
        }
        if !self.mode.quick {
            busy |= self.go_on(busy);
        }
        if self.is_copying() || self.remote_rings {
            busy |= self.tend_copies();
        }
        busy
    }

    #[inline]
    fn visit(&mut self, index: usize) -> bool {
        !self.hear(index) || self.serve(index, self.burst) > 0
    }

    /// Looks at a submission queue's doorbell; false if its value must not lead to anything.
    #[inline]
    fn hear(&mut self, index: usize) -> bool {
        self.is_sq_stuck(index) || self.take_tail(index)
    }

    /// The same, stuck or not.
    #[inline]
    fn take_tail(&mut self, index: usize) -> bool {
        let Some(result) = self.sqs[index].poll_doorbell() else { return true };
        let statistics = &mut self.engine.statistics;
        *(if self.sqs[index].bell.shadowed() {
            &mut statistics.shadow_updates
        } else {
            &mut statistics.sq_doorbells
        }) += 1;
        self.accept(result)
    }

    /// Serves up to `most` commands of a queue, and says how many.
    #[inline]
    fn serve(&mut self, index: usize, most: u32) -> u32 {
        let sq = &mut self.sqs[index];
        let pending = sq.pending();
        if pending == 0 || self.state != PollGroupState::Running {
            if pending > 0 {
                self.refuse(index);
            }
            return 0;
        }
        // After the doorbell's acquire: what the client mapped before it rang is found.
        let cq = sq.cq;
        self.refresh();
        self.poll_head(cq);
        let mut count = pending.min(self.cqs[cq].room()).min(most);
        if count == 0 {
            return 0;
        }
        if self.mode.quick && !self.engine.view.has_remote() && !self.sqs[index].is_wide() {
            self.serve_batch(index, count);
        } else {
            count = self.fetch_some(index, count);
        }
        self.interrupt(cq);
        count
    }

    /// Fetches up to `most` commands one by one, and says how many. A completion that a fault repeats takes room that
    /// was promised to nobody, so each fetch looks for its own.
    fn fetch_some(&mut self, index: usize, most: u32) -> u32 {
        let cq = self.sqs[index].cq;
        let mut fetched = 0;
        while fetched < most
            && self.state == PollGroupState::Running
            && self.cqs[cq].room() > 0
            && self.flights.len() < self.mode.slots
        {
            self.fetch(index);
            fetched += 1;
        }
        fetched
    }

    /// Reports a bad doorbell value; false if it was bad, or must not lead to anything.
    fn accept(&mut self, result: Result<(), DoorbellFault>) -> bool {
        match result {
            Ok(()) if self.state == PollGroupState::ShutDown => {
                let what = "a submission queue's tail moved after a shutdown was asked for".to_owned();
                self.engine.checker.report(Rule::CommandAfterShutdown, what);
                false
            }
            Ok(()) => true,
            Err((rule, detail)) => {
                self.engine.checker.report_doorbell(rule, detail);
                false
            }
        }
    }

    #[inline]
    fn poll_head(&mut self, cq: usize) {
        if !self.is_cq_stuck(cq)
            && let Some(result) = self.cqs[cq].poll_doorbell()
        {
            let statistics = &mut self.engine.statistics;
            *(if self.cqs[cq].bell.shadowed() {
                &mut statistics.shadow_updates
            } else {
                &mut statistics.cq_doorbells
            }) += 1;
            if let Err((rule, detail)) = result {
                self.engine.checker.report_doorbell(rule, detail);
            }
            if self.mode.planned {
                self.repeat_waiting(cq);
            }
        }
    }

    /// Follows what the client mapped and unmapped.
    #[inline]
    pub(crate) fn refresh(&mut self) {
        if self.engine.refresh() && self.engine.view.claims().any_lost() {
            self.disconnect();
        }
    }

    /// Queues whose memory was unmapped no longer reach it.
    #[cold]
    fn disconnect(&mut self) {
        let claims = self.engine.view.claims();
        let sqs = self.sqs.iter_mut().filter(|sq| claims.is_lost(&sq_name(sq.id)));
        sqs.for_each(Sq::disconnect);
        let cqs = self.cqs.iter_mut().filter(|cq| claims.is_lost(&cq_name(cq.id)));
        cqs.for_each(Cq::disconnect);
        self.find_remote_rings();
        let claims = self.engine.view.claims();
        if claims.is_lost(SHADOW_PAGE) || claims.is_lost(EVENT_PAGE) {
            self.sqs.iter_mut().for_each(|sq| sq.bell.lose_pages());
            self.cqs.iter_mut().for_each(|cq| cq.bell.lose_pages());
        }
    }

    /// Looks at everything that the way of commands looks at only when it must.
    pub(crate) fn catch_up(&mut self) {
        self.refresh();
        for cq in 0..self.cqs.len() {
            self.poll_head(cq);
        }
        self.count_traps();
    }

    /// Takes over what doorbells with shadows noticed of register writes.
    fn count_traps(&mut self) {
        let statistics = &mut self.engine.statistics;
        statistics.sq_doorbells += self.sqs.iter_mut().map(|sq| sq.bell.take_traps()).sum::<u64>();
        statistics.cq_doorbells += self.cqs.iter_mut().map(|cq| cq.bell.take_traps()).sum::<u64>();
    }

    /// Completes what will complete, and serves nothing from then on. What was rung before is taken first: seen later, it
    /// would be a command after the shutdown.
    pub(crate) fn shut_down(&mut self) {
        self.take_doorbells();
        self.drain();
        self.state = PollGroupState::ShutDown;
    }

    /// Takes what the doorbells have now, stuck or not: their clients are about to write them elsewhere, or not at all.
    pub(crate) fn take_doorbells(&mut self) {
        self.take_kept();
        for index in 0..self.sqs.len() {
            self.take_tail(index);
        }
        for index in 0..self.cqs.len() {
            if let Some(Err((rule, detail))) = self.cqs[index].poll_doorbell() {
                self.engine.checker.report_doorbell(rule, detail);
            }
            self.free_repeated(index);
        }
    }

    /// Stops polling shadow doorbells: from now on their clients have to write registers.
    pub(crate) fn doze(&mut self) {
        self.sqs.iter_mut().for_each(|sq| sq.bell.doze());
        for cq in 0..self.cqs.len() {
            if self.head_wanted(cq) {
                self.cqs[cq].bell.doze();
            }
        }
    }

    /// Whether commands, or completions that a fault repeats, wait for room in a completion queue. Nothing else needs
    /// to know where its head is.
    fn head_wanted(&self, cq: usize) -> bool {
        let waits =
            || self.flights.repeats() > 0 || self.sqs.iter().any(|sq| sq.cq == cq && sq.pending() > 0);
        self.cqs[cq].room() == 0 && waits()
    }

    /// After completions of held commands: they may belong to any queue of this poll group.
    fn interrupt_all(&mut self) {
        (0..self.cqs.len()).for_each(|cq| self.interrupt(cq));
    }

    fn interrupt(&mut self, cq: usize) {
        if let Some((vector, entries)) = self.cqs[cq].take_interrupt() {
            let signalled = self.vectors.completed(vector, entries, || self.engine.time.now());
            self.engine.statistics.interrupts += u64::from(signalled);
        }
    }

    /// All queues, for what the control plane changes in them.
    pub(crate) fn queues_mut(&mut self) -> (&mut [Sq], &mut [Cq]) {
        (&mut self.sqs, &mut self.cqs)
    }

    pub(crate) fn add_cq(&mut self, cq: Cq) {
        self.cqs.push(cq);
        self.find_remote_rings();
    }

    /// Adds a queue that completes into `cqid`; false if that is not here.
    #[must_use]
    pub(crate) fn add_sq(&mut self, mut sq: Sq, cqid: u16) -> bool {
        let Some(index) = self.cqs.iter().position(|cq| cq.id == cqid) else { return false };
        sq.cq = index;
        self.sqs.push(sq);
        self.find_remote_rings();
        true
    }

    /// Removes a submission queue. Its fetched commands complete as aborted before this returns.
    pub(crate) fn remove_sq(&mut self, qid: u16) {
        self.refresh();
        let Some(index) = self.sqs.iter().position(|sq| sq.id == qid) else { return };
        self.abandon(index);
        self.orders.remove(&qid);
        self.forget_stuck(qid);
        self.forget_repeated(Some(qid));
        self.count_traps();
        let removed = self.sqs.swap_remove(index);
        let moved = self.sqs.len();
        self.flights.renumber(moved, index);
        self.send_completions();
        self.interrupt(removed.cq);
        removed.retire();
        self.find_remote_rings();
    }

    /// Removes a completion queue that no submission queue uses.
    pub(crate) fn remove_cq(&mut self, qid: u16) {
        let Some(index) = self.cqs.iter().position(|cq| cq.id == qid) else { return };
        self.count_traps();
        self.send_completions();
        self.cqs.swap_remove(index).retire();
        let moved = self.cqs.len();
        self.sqs.iter_mut().filter(|sq| sq.cq == moved).for_each(|sq| sq.cq = index);
        self.find_remote_rings();
    }

    /// Forgets all queues and commands: a controller level reset.
    pub(crate) fn clear(&mut self) {
        self.settle_copies();
        self.flights.clear();
        self.orders.clear();
        self.stuck.clear();
        self.forget_repeated(None);
        self.incident = None;
        self.count_traps();
        self.sqs.drain(..).for_each(|sq| sq.retire());
        self.cqs.drain(..).for_each(|cq| cq.retire());
        self.remote_rings = false;
        self.burst = MAX_BURST;
        self.arbiter = None;
        self.state = PollGroupState::Running;
    }

    /// How many submission and completion queues are here.
    pub(crate) fn load(&self) -> usize {
        self.sqs.len() + self.cqs.len()
    }
}
