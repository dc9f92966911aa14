//! Faults as the simulation draws them: a kind, its settings, and which commands.

use std::fmt;

use crate::case::Draw;

/// Kinds that are drawn, and with which further settings.
pub const KINDS: &[(&str, &[&str])] = &[
    ("fail", &["status = \"Unrecovered Read Error\"", "status = \"Internal Error\"\ndnr = true"]),
    ("corrupt", &["bits = 1", "bits = 3"]),
    ("delay", &["by = \"20us\"", "by = \"10ms\"", "by = \"300ms\""]),
    ("drop", &[""]),
    ("duplicate", &[""]),
    ("reorder", &["by = 1", "by = 9"]),
    ("torn", &["by = \"1us\"", "by = \"50us\""]),
    ("late_payload", &["by = \"10us\"", "by = \"1ms\""]),
    ("stuck_doorbell", &["by = \"1ms\"", "by = \"150ms\"", "by = \"forever\""]),
    ("slow", &["by = \"1ms\"\nlasting = \"100ms\"", "by = \"120ms\"\nlasting = \"1s\""]),
    ("fatal", &[""]),
    ("reset", &[""]),
    ("remove", &[""]),
    ("power_loss", &["keep = 0.0", "keep = 0.5"]),
    ("power_loss", &["keep = 0.0", "keep = 0.9"]),
];

/// One fault of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    kind: usize,
    setting: usize,
    every: u64,
    count: u64,
}

impl Fault {
    /// Any fault.
    pub fn draw(draw: &mut Draw) -> Fault {
        // Each draws the same count of numbers, so that another kind more changes only the choice.
        let (kind, setting) = (draw.below(1 << 32), draw.below(1 << 32));
        let kind = (kind % KINDS.len() as u64) as usize;
        let setting = (setting % KINDS[kind].1.len() as u64) as usize;
        Fault { kind, setting, every: 1 + draw.below(24), count: 1 + draw.below(3) }
    }

    /// Its kind, as plans name it.
    pub fn kind(&self) -> &'static str {
        KINDS[self.kind].0
    }

    /// The table of a plan.
    pub fn toml(&self) -> String {
        let (kind, settings) = KINDS[self.kind];
        let setting = settings[self.setting];
        format!("[[fault]]\nkind = \"{kind}\"\n{setting}\nevery = {}\ncount = {}\n", self.every, self.count)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let setting = KINDS[self.kind].1[self.setting].replace('\n', ", ");
        write!(f, "{}, {setting}, every {}, at most {} times", self.kind(), self.every, self.count)
    }
}

/// A read of block 0 that was hit, by command 7 of `queue`: what tests of judgements begin with.
#[cfg(test)]
pub(super) fn injected(
    kind: warpbell_softctl::FaultKind,
    queue: u16,
    at: std::time::Duration,
    by: Option<std::time::Duration>,
) -> warpbell_softctl::InjectedFault {
    warpbell_softctl::InjectedFault {
        kind,
        at,
        by,
        opcode: warpbell_nvme::NvmOpcode::READ,
        queue,
        cid: 7,
        nsid: 1,
        lba: 0,
        status: None,
        offset: None,
        expected: None,
        actual: None,
    }
}
