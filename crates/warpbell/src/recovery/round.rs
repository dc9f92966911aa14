//! One pass over an SSD: what is wrong, and the next step wherever one is due.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use warpbell_base::Time;
use warpbell_driver::{AbortOutcome, ControllerState, DriverError, EventDetail};
use warpbell_hw::{Cid, Qid};
use warpbell_vfio::PciDevice;

use super::ladder::{Command, Stage, Step};
use super::mutation::{Mutation, off};
use super::release::Release;
use super::table::{Obstacle, QueueTable};
use super::watch::Turn;
use super::{AbortAnswer, QueueName, Recovery, RecoveryEvent, SsdEventKind};
use crate::{Error, error_chain};

/// The longest between two tries to read events that could not be read.
const LONGEST_EVENT_PAUSE: Duration = Duration::from_secs(60);

/// Between two polls whether an Abort before was answered.
const ABORT_PAUSE: Duration = Duration::from_micros(50);

/// What one pass leaves for the next.
pub(crate) struct Looking {
    pub(super) phase: Phase,
    /// When the controller was reset, as far as that counts.
    pub(super) resets: VecDeque<Duration>,
    pub(super) release: Release,
    /// Why it is reset before anything else: what a step of the last pass left behind, only a reset takes away.
    pub(super) unsettled: Option<Broken>,
    next_health: Duration,
    next_events: Duration,
    /// Tries in a row that failed.
    failed_events: u32,
}

/// How the SSD stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It works, or is just being put in order.
    Up,
    /// Its function is to be reset as soon as no lane is on a queue.
    Quiescing { since: Duration, until: Duration, reason: String },
    /// It was given up.
    Lost,
}

/// Why only a reset helps a queue.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    #[error("{queue} cannot be looked at: {error}")]
    Unreadable { queue: QueueName, error: Box<Error> },
    #[error("{queue} could not be deleted: {}", error_chain(error))]
    Undeleted { queue: QueueName, error: Box<DriverError> },
    #[error("no successor of {queue}: {}", error_chain(error))]
    NoSuccessor { queue: QueueName, error: Box<Error> },
}

/// How the controller looks.
enum Health {
    Fine,
    Broken(String),
    Gone(String),
    /// Somebody else is resetting it.
    InHands,
}

impl Looking {
    pub(super) fn new(pci: Option<Arc<PciDevice>>) -> Looking {
        Looking {
            phase: Phase::Up,
            resets: VecDeque::new(),
            release: Release::new(pci),
            unsettled: None,
            next_health: Duration::ZERO,
            next_events: Duration::ZERO,
            failed_events: 0,
        }
    }
}

impl Recovery {
    /// One round: polls alarms, health and events, and takes the next step wherever one is due. It waits for answers
    /// of the controller, and never longer than the steps' limits together.
    pub fn poll(&self) {
        let mut looking = self.alone();
        self.round(&mut looking, true, true);
        drop(looking);
        self.events.flush();
    }

    /// The same, as often as it is called, for what is due.
    pub(super) fn turn(&self) -> Turn {
        let mut looking = self.alone();
        let now = self.now();
        let (health, events) = (now >= looking.next_health, now >= looking.next_events);
        if health || events || self.is_busy(&looking) {
            self.round(&mut looking, health, events);
        }
        let busy = self.is_busy(&looking);
        drop(looking);
        self.events.flush();
        match () {
            () if busy => Turn::Busy,
            () if self.tables().iter().any(|table| table.is_in_use()) => Turn::Quiet,
            () => Turn::Idle,
        }
    }

    /// Whether something waits for its next step.
    fn is_busy(&self, looking: &Looking) -> bool {
        let waits = matches!(looking.phase, Phase::Quiescing { .. });
        let urgent = || self.tables().iter().any(|table| table.parts.recovers && table.is_urgent());
        self.policy.enabled && (waits || (looking.phase == Phase::Up && urgent()))
    }

    fn round(&self, looking: &mut Looking, health: bool, events: bool) {
        let tables = self.tables();
        let busy = self.is_busy(looking);
        // Whoever asks for the function is heard also where no kernel uses it, and where nothing works on it any more:
        // then it may be that somebody pulled it out, and a reset would only keep the system from finding that.
        if self.policy.enabled
            && (health || busy)
            && !self.is_released(looking, &tables)
            && !tables.is_empty()
        {
            self.recover(looking, &tables);
        }
        if health || busy {
            looking.next_health = self.now() + self.policy.health_period;
        }
        if events {
            self.take_events(looking);
        }
    }

    fn recover(&self, looking: &mut Looking, tables: &[Arc<QueueTable>]) {
        if looking.phase == Phase::Lost {
            // Queues that were attached since then show that it works again.
            if self.controller.state() != ControllerState::Ready
                || !tables.iter().any(|table| table.is_usable())
            {
                return;
            }
            looking.phase = Phase::Up;
        }
        match self.health() {
            Health::InHands => return,
            Health::Gone(reason) => return self.lose_ssd(looking, tables, reason),
            Health::Broken(reason) if looking.phase == Phase::Up => self.reset(looking, tables, reason),
            Health::Broken(_) | Health::Fine => {}
        }
        if matches!(looking.phase, Phase::Quiescing { .. }) {
            self.reset_function(looking, tables);
        }
        if looking.phase == Phase::Up
            && let Some(reason) = looking.unsettled.take().or_else(|| self.climb_all(tables))
        {
            self.reset(looking, tables, reason.to_string());
            if looking.phase == Phase::Up {
                // A queue that was not created for certain has its memory until the next reset.
                looking.unsettled = self.climb_all(tables);
            }
        }
    }

    fn health(&self) -> Health {
        match self.controller.state() {
            ControllerState::Starting => return Health::InHands,
            // Nobody disables it but for a shutdown: it is not to come back by itself.
            ControllerState::Disabled => return Health::Gone("it was shut down".to_owned()),
            _ => {}
        }
        let checked = self.controller.check_health();
        match (self.controller.state(), checked) {
            (ControllerState::Gone, Err(error)) => Health::Gone(error.to_string()),
            (ControllerState::Gone, Ok(())) => Health::Gone("it did not answer before".to_owned()),
            (ControllerState::Ready, Ok(())) => Health::Fine,
            (ControllerState::Starting, _) => Health::InHands,
            (state, Ok(())) => Health::Broken(format!("it is {state}")),
            (_, Err(error)) => Health::Broken(error.to_string()),
        }
    }

    /// The next steps of all queues. The reason for a reset, if there is one.
    fn climb_all(&self, tables: &[Arc<QueueTable>]) -> Option<Broken> {
        let mut abort_time = self.policy.abort;
        for table in tables.iter().filter(|table| table.parts.recovers) {
            for index in 0..table.len() {
                self.tidy(table, index);
                if let Err(reason) = self.climb(table, index, &mut abort_time) {
                    return Some(reason);
                }
                self.tidy(table, index);
            }
        }
        None
    }

    fn tidy(&self, table: &QueueTable, index: usize) {
        for qid in table.tidy(index) {
            self.count(|counters| counters.ids_freed += 1);
            let queue = super::QueueName { qid, ..table.name(index) };
            self.tell_step(RecoveryEvent::IdFree { queue });
        }
    }

    /// Steps of one queue, until it has to wait for something.
    fn climb(&self, table: &QueueTable, index: usize, abort_time: &mut Duration) -> Result<(), Broken> {
        loop {
            let scan = match table.scan(index) {
                Ok(scan) => scan,
                Err(error) => {
                    return Err(Broken::Unreadable { queue: table.name(index), error: error.into() });
                }
            };
            self.count(|counters| {
                counters.alarms += u64::from(scan.alarmed);
                counters.timed_out += scan.new.len() as u64;
            });
            let queue = table.name(index);
            for command in &scan.new {
                self.tell_step(RecoveryEvent::TimedOut { queue, tag: table.tag(*command) });
            }
            match table.next(index, scan.facts, self.now(), &self.policy) {
                Step::Rest => return Ok(()),
                Step::Abort(commands) => self.abort(table, index, &commands, abort_time),
                Step::Resolved { since } => {
                    let took = self.now().saturating_sub(since);
                    self.tell_step(RecoveryEvent::Resolved { queue, took });
                }
                Step::GiveUp(reason) => self.give_up(table, index, reason),
                Step::Delete => self.delete(table, index)?,
                Step::Replace if self.replace(table, index)? => {}
                Step::Replace if table.with_stage(index, |stage| stage.is_overdue(self.now())) => {
                    let limit = self.policy.replace;
                    self.abandon(table, index, no_room(limit));
                }
                Step::Replace => return Ok(()),
            }
        }
    }

    fn abort(&self, table: &QueueTable, index: usize, commands: &[Command], time: &mut Duration) {
        let queue = table.name(index);
        let wide = self.controller.wide_cids();
        for command in commands.iter().filter(|_| !wide) {
            let (begun, until) = (self.now(), self.now().saturating_add(*time));
            // One that would not reach the controller counts for nothing.
            let has_room = self.may_abort(until);
            // Those before it took their time: by now its identifier may be another command's.
            let is_due = has_room && (table.is_missing(index, *command) || off(Mutation::AbortUnchecked));
            let answer = is_due.then(|| self.send_abort(queue.qid, Cid(table.cid(*command) as u16), until));
            let took = self.now().saturating_sub(begun);
            *time = time.saturating_sub(took);
            if let Some(answer) = answer {
                self.tell_step(RecoveryEvent::Aborted { queue, tag: table.tag(*command), answer, took });
            } else if !has_room {
                break;
            }
        }
        let now = self.now();
        table.with_stage(index, |stage| stage.aborted(commands, now, &self.policy));
    }

    /// Sends an Abort, and counts what became of it.
    fn send_abort(&self, qid: Qid, cid: Cid, until: Duration) -> AbortAnswer {
        let answer = match self.controller.abort_within(qid, cid, until.saturating_sub(self.now())) {
            Ok(AbortOutcome::Aborted) => AbortAnswer::Acknowledged,
            Ok(AbortOutcome::NotAborted) => AbortAnswer::NotFound,
            Err(error) => {
                tracing::warn!(%error, "an Abort has no answer");
                AbortAnswer::Unanswered
            }
        };
        self.count(|counters| {
            counters.aborts += 1;
            match answer {
                AbortAnswer::Acknowledged => counters.aborts_acknowledged += 1,
                AbortAnswer::NotFound => counters.aborts_not_found += 1,
                AbortAnswer::Unanswered => counters.aborts_unanswered += 1,
            }
        });
        answer
    }

    /// Waits until the controller takes one more Abort. Whether it does.
    fn may_abort(&self, until: Duration) -> bool {
        while self.now() < until && self.controller.check_health().is_ok() {
            if self.controller.takes_abort() {
                return true;
            }
            self.controller.device().clock().pause(ABORT_PAUSE);
        }
        false
    }

    pub(super) fn give_up(&self, table: &QueueTable, index: usize, reason: String) {
        let queue = table.name(index);
        table.lose(index, self.now());
        self.count(|counters| counters.queues_lost += 1);
        self.tell_step(RecoveryEvent::QueueLost { queue, reason });
    }

    /// Has a queue deleted that was given up. The reason for a reset, if it cannot be.
    fn delete(&self, table: &QueueTable, index: usize) -> Result<(), Broken> {
        let (queue, begun) = (table.name(index), self.now());
        if let Some(pair) = table.pair(index).filter(|_| !off(Mutation::SuccessorBeforeDeletion)) {
            let deleted = self.controller.retire_queue_pair_within(&pair, self.policy.delete);
            deleted.map_err(|error| Broken::Undeleted { queue, error: error.into() })?;
        }
        let took = self.now().saturating_sub(begun);
        if off(Mutation::StateAfterDeletion) {
            table.declare_lost(index);
        }
        self.vacate(table, index);
        self.tell_step(RecoveryEvent::QueueDeleted { queue, took });
        // Its identifier may be free at once.
        self.tidy(table, index);
        Ok(())
    }

    /// The controller has forgotten a queue that was given up.
    pub(super) fn vacate(&self, table: &QueueTable, index: usize) {
        let now = self.now();
        table.with_stage(index, |stage| {
            let since = stage.lost_since().unwrap_or(now);
            *stage = Stage::Vacant { since, until: now + self.policy.replace };
        });
    }

    /// Makes a successor; false if that has to wait. The reason for a reset, if it cannot be made.
    fn replace(&self, table: &QueueTable, index: usize) -> Result<bool, Broken> {
        let (queue, since) = (table.name(index), table.with_stage(index, |stage| stage.lost_since()));
        match table.replace(index, self.policy.replace) {
            Ok((by, epoch)) => {
                let took = since.map_or(Duration::ZERO, |since| self.now().saturating_sub(since));
                self.count(|counters| counters.queues_replaced += 1);
                self.tell_step(RecoveryEvent::QueueReplaced { queue, by, epoch, took });
                Ok(true)
            }
            Err(Obstacle::Slot) => Ok(false),
            Err(Obstacle::Identifier(error)) => {
                tracing::debug!(%error, %queue, "its successor waits for an identifier");
                Ok(false)
            }
            Err(Obstacle::Failed(error)) => Err(Broken::NoSuccessor { queue, error: error.into() }),
        }
    }

    pub(super) fn abandon(&self, table: &QueueTable, index: usize, reason: String) {
        let queue = table.name(index);
        table.abandon(index);
        self.count(|counters| counters.queues_dead += 1);
        self.tell_step(RecoveryEvent::QueueDead { queue, reason });
    }

    fn take_events(&self, looking: &mut Looking) {
        for notice in self.controller.take_notices() {
            self.tell(SsdEventKind::Notice(notice));
        }
        let (now, period) = (self.now(), self.policy.event_period);
        let reported = match self.controller.poll_events_within(self.policy.event_limit) {
            Ok(reported) => reported,
            Err(error) => {
                tracing::debug!(%error, "no events");
                looking.failed_events = (looking.failed_events + 1).min(16);
                let pause = period.saturating_mul(1 << looking.failed_events).min(LONGEST_EVENT_PAUSE);
                looking.next_events = now + pause.max(period);
                return;
            }
        };
        (looking.failed_events, looking.next_events) = (0, now + period);
        for event in reported {
            if let EventDetail::Health(log) = &event.detail
                && log.critical_warning.into_bits() != 0
            {
                self.tell(SsdEventKind::Critical(log.critical_warning));
            }
            self.tell(SsdEventKind::Reported(Box::new(event)));
        }
    }
}

/// Why a queue is not replaced, and what helps.
fn no_room(limit: Duration) -> String {
    format!(
        "no slot or identifier was free within {}: kernels still use the queues before it. Attach with more replacement queues \
         (AttachOptions::replacement_queues), open with more queues (OpenOptions::queues), or allow more time (RecoveryPolicy::replace)",
        Time(limit)
    )
}
