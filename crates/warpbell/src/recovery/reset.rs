//! The last steps: reset the controller, reset its function, give the SSD up.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use warpbell_base::Time;
use warpbell_driver::{ControllerState, DriverError, ResetMethod, ResetReport};

use super::ladder::Stage;
use super::mutation::{Mutation, off};
use super::round::{Looking, Phase};
use super::table::QueueTable;
use super::{Recovery, RecoveryEvent};
use crate::error_chain;

impl Recovery {
    /// Resets the controller: all queues are lost, and new ones wait for a pass. Where that fails, the function is reset
    /// as soon as no lane is on a queue; where that may not be, the SSD is given up.
    pub(super) fn reset(&self, looking: &mut Looking, tables: &[Arc<QueueTable>], reason: String) {
        let (now, window) = (self.now(), self.policy.reset_window);
        looking.resets.retain(|at| now.saturating_sub(*at) < window);
        if looking.resets.len() >= self.policy.resets as usize && !off(Mutation::ResetWithoutBound) {
            let count = looking.resets.len();
            let reason = format!("{reason}; it was reset {count} times within {} before", Time(window));
            return self.lose_ssd(looking, tables, reason);
        }
        looking.resets.push_back(now);
        looking.unsettled = None;
        for (table, index) in all(tables) {
            let silent = off(Mutation::ResetWithoutLoss);
            if table.with_stage(index, |stage| stage.is_usable()) && !silent {
                self.give_up(table, index, "the controller is reset".to_owned());
            }
        }
        match self.reset_by(ResetMethod::Controller, &reason) {
            Ok(report) => self.was_reset(looking, tables, &report),
            Err(error) if self.controller.state() == ControllerState::Gone => {
                self.lose_ssd(looking, tables, error.to_string());
            }
            Err(_) if self.policy.function_reset => {
                let (since, until) = (self.now(), self.now() + self.policy.quiesce);
                looking.phase = Phase::Quiescing { since, until, reason };
            }
            Err(error) => self.lose_ssd(looking, tables, error_chain(&error)),
        }
    }

    /// Resets the function, if no lane is on a queue: their doorbells are not there for a while.
    pub(super) fn reset_function(&self, looking: &mut Looking, tables: &[Arc<QueueTable>]) {
        let Phase::Quiescing { since, until, reason } = looking.phase.clone() else { return };
        let now = self.now();
        let may_ring = self.left_proof.load(Ordering::Acquire);
        if may_ring || tables.iter().any(|table| table.is_occupied()) {
            if now >= until {
                let took = now.saturating_sub(since);
                let why = "its function cannot be reset while a kernel may ring doorbells";
                self.lose_ssd(
                    looking,
                    tables,
                    format!("kernels did not leave its queues within {}: {why}", Time(took)),
                );
            }
            return;
        }
        match self.reset_by(ResetMethod::Function, &reason) {
            Ok(report) => self.was_reset(looking, tables, &report),
            Err(error) => self.lose_ssd(looking, tables, error_chain(&error)),
        }
    }

    fn reset_by(&self, method: ResetMethod, reason: &str) -> Result<ResetReport, DriverError> {
        let (reason, function) = (reason.to_owned(), method == ResetMethod::Function);
        self.tell_step(RecoveryEvent::ResetStarted { reason, function });
        let begun = self.now();
        let reset = self.controller.reset_within(method, self.policy.reset);
        let took = self.now().saturating_sub(begun);
        match &reset {
            Ok(report) => {
                self.count(|counters| counters.resets += 1);
                let changed = report.changed_namespaces.iter().map(|nsid| nsid.get());
                self.tell_step(RecoveryEvent::ResetDone { took, changed_namespaces: changed.collect() });
            }
            Err(error) => {
                self.count(|counters| counters.resets_failed += 1);
                self.tell_step(RecoveryEvent::ResetFailed { reason: error_chain(error), took });
            }
        }
        reset
    }

    /// The controller has forgotten all queues. They get successors, unless their namespace is not what it was.
    fn was_reset(&self, looking: &mut Looking, tables: &[Arc<QueueTable>], report: &ResetReport) {
        looking.phase = Phase::Up;
        for (table, index) in all(tables) {
            if table.with_stage(index, |stage| *stage == Stage::Dead) {
                continue;
            }
            let nsid = table.parts.nsid;
            if report.changed_namespaces.contains(&nsid) {
                self.abandon(table, index, format!("{nsid} is not what it was before the reset"));
            } else if !table.parts.recovers {
                self.abandon(
                    table,
                    index,
                    "the controller was reset; it was attached without recovery".to_owned(),
                );
            } else {
                self.vacate(table, index);
            }
        }
    }

    /// No queue of the SSD will ever work again.
    pub(super) fn lose_ssd(&self, looking: &mut Looking, tables: &[Arc<QueueTable>], reason: String) {
        looking.phase = Phase::Lost;
        looking.unsettled = None;
        self.kill_all(tables);
        self.count(|counters| counters.ssds_lost += 1);
        self.tell_step(RecoveryEvent::SsdLost { reason });
    }

    /// Tells all kernels that no successor of their queues will come.
    pub(super) fn kill_all(&self, tables: &[Arc<QueueTable>]) {
        for (table, index) in all(tables) {
            if table.with_stage(index, |stage| *stage != Stage::Dead) {
                table.abandon(index);
                self.count(|counters| counters.queues_dead += 1);
            }
        }
    }
}

/// All queues.
fn all(tables: &[Arc<QueueTable>]) -> impl Iterator<Item = (&QueueTable, usize)> {
    tables.iter().flat_map(|table| (0..table.len()).map(move |index| (&**table, index)))
}
