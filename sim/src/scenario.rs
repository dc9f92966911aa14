//! Situations in which rules of the protocol matter, each judged from a seed.

use std::time::Duration;

use warpbell::Sharing;
use warpbell_kernels::abi;
use warpbell_kernels::cpu::Module;

use crate::case::{Case, Schedule};
use crate::findings::Finding;
use crate::simulation::{Outcome, Simulation};

/// A situation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// Three warps on a shared ring of 4, stores in program order.
    Contended,
    /// The same with stores held back until a fence orders them.
    ContendedWeak,
    /// Warps on a roomy shared ring, small batches, stores held back.
    RoomyWeak,
    /// Eight warps that submit at the same moment, on a roomy ring.
    Crowd,
    /// One warp, exclusive, several commands in flight per lane, stores held back.
    Exclusive,
    /// One warp alone on a shared ring of 2, with commands in flight while it submits.
    Alone,
    /// One warp alone, and a controller that takes its time, but less than any deadline.
    Patient,
    /// A controller that pauses longer than deadlines last.
    Pauses,
    /// A controller that never answers.
    Dead,
    /// Shadow doorbells, one exclusive warp, stores held back.
    Shadowed,
    /// Shadow doorbells, warps on a shared ring, stores held back.
    ShadowedShared,
}

const DEADLINE: Duration = Duration::from_millis(10);

impl Scenario {
    /// What is run.
    pub fn case(self, seed: u64) -> Case {
        let strong = Schedule { random: true, store_buffer: 0, preempt_one_in: 4 };
        let weak = Schedule { store_buffer: 16, ..strong };
        let base =
            Case { seed, shuffle: 4, stale_tokens: true, schedule: strong, ..Case::new(format!("{self:?}")) };
        let shared = Case { sharing: Sharing::Shared, ..base.clone() };
        match self {
            Scenario::Contended => Case { warps: 3, async_depth: 2, ..shared },
            Scenario::ContendedWeak => Case { warps: 3, async_depth: 2, schedule: weak, ..shared },
            Scenario::RoomyWeak => {
                Case { warps: 3, entries: 64, batch: 5, async_depth: 2, schedule: weak, ..shared }
            }
            Scenario::Crowd => Case { warps: 8, entries: 64, batch: 4, ..shared },
            Scenario::Exclusive => Case { entries: 64, async_depth: 3, commands: 8, schedule: weak, ..base },
            Scenario::Alone => Case { entries: 2, async_depth: 2, ..shared },
            Scenario::Patient => shared,
            Scenario::Pauses => {
                let case = Case { warps: 2, entries: 256, commands: 8, async_depth: 3, ..shared };
                Case { tokens: 2, timeout: DEADLINE, ..case }
            }
            Scenario::Shadowed => {
                Case { entries: 64, async_depth: 2, commands: 6, schedule: weak, dbbuf: true, ..base }
            }
            Scenario::ShadowedShared => {
                Case { warps: 2, entries: 64, async_depth: 2, schedule: weak, dbbuf: true, ..shared }
            }
            Scenario::Dead => Case { entries: 64, timeout: DEADLINE, ..shared },
        }
    }

    /// Runs it with `module`, and says what was wrong.
    pub fn judge(self, seed: u64, module: &Module) -> anyhow::Result<Outcome> {
        let mut simulation = Simulation::with_module(&self.case(seed), module)?;
        let mut outcome = match self {
            Scenario::Dead => simulation.run_while(|_, _| false)?,
            Scenario::Patient => simulation.run_while(|_, moment| moment.round % 48 >= 40)?,
            Scenario::Pauses => simulation.run_while(|_, moment| moment.now_and_then())?,
            _ => simulation.run()?,
        };
        let rig = &simulation.rig;
        match self {
            Scenario::Dead | Scenario::Pauses => {
                let codes = [abi::STATUS_TIMED_OUT, abi::STATUS_NOT_SUBMITTED, abi::STATUS_NO_CID];
                outcome.findings.extend(rig.check_records(&codes)?);
            }
            _ => outcome.findings.extend(rig.check_success()?),
        }
        if self == Scenario::Dead && outcome.elapsed > DEADLINE * 5 {
            let text = format!("returned {:?} after a deadline of {DEADLINE:?}", outcome.elapsed);
            outcome.findings.push(Finding::Stuck(text));
        }
        Ok(outcome)
    }
}
