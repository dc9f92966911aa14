//! What to do next about one queue: a state machine that touches nothing itself.

use std::time::Duration;

use warpbell_base::Time;

use super::RecoveryPolicy;
use super::mutation::{Mutation, off};

/// A command that a kernel gave up, and whose completion nobody has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Command {
    /// Lane of its queue: `warp_slot * 32 + lane`.
    pub(crate) lane: u32,
    /// Which of the lane's commands.
    pub(crate) k: u32,
    /// How often its completion slot had been armed.
    pub(crate) generation: u16,
}

/// A command that was answered by an Abort, or would have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Awaited {
    pub(crate) command: Command,
    /// When its completion is overdue.
    until: Duration,
}

/// How a queue stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// In use, and nothing is wrong with it.
    #[default]
    Running,
    /// Commands of it were given up: their completions are awaited.
    Settling { since: Duration, commands: Vec<Awaited> },
    /// Given up; the controller may still have it.
    Lost { since: Duration },
    /// The controller has forgotten it; its successor is to be made.
    Vacant { since: Duration, until: Duration },
    /// No successor will come.
    Dead,
}

/// What was found out about a queue since the last pass.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// All commands that were given up and have not completed.
    pub(crate) given_up: Vec<Command>,
    /// Somebody else declared it lost.
    pub(crate) declared_lost: bool,
    /// The controller was reset by somebody else, or somebody else deleted it.
    pub(crate) forgotten: bool,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing.
    Rest,
    /// Have these aborted.
    Abort(Vec<Command>),
    /// Say that all is well again.
    Resolved { since: Duration },
    /// Give the queue up, for this reason.
    GiveUp(String),
    /// Have the controller delete it.
    Delete,
    /// Make its successor; where there is no room for one, see [`Stage::is_overdue`].
    Replace,
}

impl Stage {
    /// The next step, and the stage in which the queue waits for what comes of it.
    pub(crate) fn next(&mut self, facts: Facts, now: Duration, policy: &RecoveryPolicy) -> Step {
        match self {
            Stage::Running | Stage::Settling { .. } if facts.forgotten => {
                Step::GiveUp("the controller has forgotten it".to_owned())
            }
            Stage::Running | Stage::Settling { .. } if facts.declared_lost => {
                Step::GiveUp("its host declared it lost".to_owned())
            }
            Stage::Running if facts.given_up.is_empty() => Step::Rest,
            Stage::Running => {
                *self = Stage::Settling { since: now, commands: Vec::new() };
                self.settle(&facts.given_up, now, policy)
            }
            Stage::Settling { .. } => self.settle(&facts.given_up, now, policy),
            Stage::Lost { .. } => Step::Delete,
            Stage::Vacant { .. } => Step::Replace,
            Stage::Dead => Step::Rest,
        }
    }

    fn settle(&mut self, given_up: &[Command], now: Duration, policy: &RecoveryPolicy) -> Step {
        let Stage::Settling { since, commands } = self else { return Step::Rest };
        commands.retain(|awaited| given_up.contains(&awaited.command));
        let is_overdue = |awaited: &&Awaited| now >= awaited.until && !off(Mutation::SettleForEver);
        if let Some(overdue) = commands.iter().find(is_overdue) {
            let Command { lane, k, .. } = overdue.command;
            return Step::GiveUp(format!(
                "command {k} of lane {} of warp slot {} has no completion {} after its Abort was due",
                lane % 32,
                lane / 32,
                Time(policy.settle)
            ));
        }
        let known = |command: &Command| commands.iter().any(|awaited| awaited.command == *command);
        let new: Vec<Command> = given_up.iter().filter(|command| !known(command)).copied().collect();
        if new.is_empty() && commands.is_empty() {
            let since = *since;
            *self = Stage::Running;
            return Step::Resolved { since };
        }
        if new.is_empty() { Step::Rest } else { Step::Abort(new) }
    }

    /// These were aborted just now: their time runs.
    pub(crate) fn aborted(&mut self, aborted: &[Command], now: Duration, policy: &RecoveryPolicy) {
        if let Stage::Settling { commands, .. } = self {
            let until = now + policy.settle;
            commands.extend(aborted.iter().map(|command| Awaited { command: *command, until }));
        }
    }

    /// Whether kernels may submit commands to it.
    pub(crate) fn is_usable(&self) -> bool {
        matches!(self, Stage::Running | Stage::Settling { .. })
    }

    /// Whether its successor should have been there by now.
    pub(crate) fn is_overdue(&self, now: Duration) -> bool {
        matches!(self, Stage::Vacant { until, .. } if now >= *until)
    }

    /// When it was given up.
    pub(crate) fn lost_since(&self) -> Option<Duration> {
        match self {
            Stage::Lost { since } | Stage::Vacant { since, .. } => Some(*since),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn command(lane: u32) -> Command {
        Command { lane, k: 0, generation: 1 }
    }

    fn policy() -> RecoveryPolicy {
        RecoveryPolicy { settle: ms(100), replace: ms(50), ..RecoveryPolicy::default() }
    }

    /// The step at a time, with these commands given up.
    fn step(stage: &mut Stage, at: u64, given_up: &[u32]) -> Step {
        let facts =
            Facts { given_up: given_up.iter().map(|lane| command(*lane)).collect(), ..Facts::default() };
        let step = stage.next(facts, ms(at), &policy());
        if let Step::Abort(commands) = &step {
            stage.aborted(commands, ms(at), &policy());
        }
        step
    }

    #[test]
    fn a_command_that_completes_after_its_abort_ends_it() {
        let mut stage = Stage::default();
        assert_eq!(step(&mut stage, 0, &[]), Step::Rest);
        assert_eq!(step(&mut stage, 10, &[3]), Step::Abort(vec![command(3)]));
        assert_eq!(step(&mut stage, 20, &[3]), Step::Rest);
        assert_eq!(step(&mut stage, 109, &[3]), Step::Rest);
        assert_eq!(step(&mut stage, 110, &[]), Step::Resolved { since: ms(10) });
        assert_eq!(stage, Stage::Running);
        assert_eq!(step(&mut stage, 120, &[3]), Step::Abort(vec![command(3)]), "the next one is a new one");
    }

    #[test]
    fn each_command_has_its_own_time() {
        let mut stage = Stage::default();
        step(&mut stage, 0, &[1]);
        assert_eq!(step(&mut stage, 60, &[1, 2]), Step::Abort(vec![command(2)]), "one is not aborted twice");
        assert_eq!(step(&mut stage, 90, &[2]), Step::Rest, "the first has completed");
        assert_eq!(step(&mut stage, 159, &[2]), Step::Rest);
        let Step::GiveUp(reason) = step(&mut stage, 160, &[2]) else { panic!("{stage:?}") };
        assert_eq!(
            reason,
            "command 0 of lane 2 of warp slot 0 has no completion 100ms after its Abort was due"
        );
    }

    #[test]
    fn an_id_that_is_used_again_is_another_command() {
        let mut stage = Stage::default();
        step(&mut stage, 0, &[1]);
        let again = Command { generation: 2, ..command(1) };
        let facts = Facts { given_up: vec![again], ..Facts::default() };
        assert_eq!(stage.next(facts, ms(100), &policy()), Step::Abort(vec![again]));
    }

    #[test]
    fn a_lost_queue_is_deleted_then_replaced_and_abandoned_in_the_end() {
        let mut stage = Stage::Lost { since: ms(5) };
        assert_eq!(step(&mut stage, 5, &[1]), Step::Delete, "whatever is given up on it");
        stage = Stage::Vacant { since: ms(5), until: ms(60) };
        assert_eq!(step(&mut stage, 59, &[]), Step::Replace);
        assert_eq!(step(&mut stage, 60, &[]), Step::Replace, "room may have come while nobody looked");
        assert_eq!([59, 60].map(|at| stage.is_overdue(ms(at))), [false, true]);
        stage = Stage::Dead;
        assert_eq!(step(&mut stage, 61, &[1]), Step::Rest);
    }

    #[test]
    fn whoever_declares_a_queue_lost_or_resets_the_controller_is_believed() {
        for stage in [Stage::Running, Stage::Settling { since: ms(0), commands: vec![] }] {
            let declared = Facts { declared_lost: true, ..Facts::default() };
            let forgotten = Facts { forgotten: true, ..Facts::default() };
            for facts in [declared, forgotten] {
                assert!(matches!(stage.clone().next(facts, ms(1), &policy()), Step::GiveUp(_)));
            }
        }
    }
}
