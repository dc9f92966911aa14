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

/// Kinds that are drawn where the library recovers: those that it recovers from more often than others, and delays
/// around its deadlines.
pub const RECOVERY_KINDS: &[(&str, &[&str])] = &[
    ("drop", &[""]),
    ("drop", &[""]),
    ("hang", &[""]),
    ("hang", &[""]),
    ("stuck_doorbell", &["by = \"forever\"", "by = \"60ms\""]),
    ("fatal", &[""]),
    ("reset", &[""]),
    ("remove", &[""]),
    ("power_loss", &["keep = 0.0", "keep = 0.5"]),
    ("delay", &["by = \"19ms\"", "by = \"21ms\"", "by = \"26ms\"", "by = \"49ms\"", "by = \"55ms\""]),
    ("delay", &["by = \"99ms\"", "by = \"103ms\"", "by = \"130ms\"", "by = \"300ms\"", "by = \"2s\""]),
    (
        "fail",
        &[
            "status = \"Internal Error\"",
            "status = \"Namespace Not Ready\"\ncrd = 1",
            "status = \"Command Interrupted\"\ncrd = 2",
        ],
    ),
    (
        "fail",
        &[
            "status = \"Internal Error\"\ndnr = true",
            "status = \"Unrecovered Read Error\"",
            "status = \"Write Fault\"",
        ],
    ),
    ("duplicate", &[""]),
    ("reorder", &["by = 1", "by = 9"]),
    ("torn", &["by = \"50us\""]),
    ("late_payload", &["by = \"10us\"", "by = \"1ms\""]),
];

/// Which kinds are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinds {
    /// [`KINDS`].
    Plain,
    /// [`RECOVERY_KINDS`].
    Recovery,
}

impl Kinds {
    fn all(self) -> &'static [(&'static str, &'static [&'static str])] {
        match self {
            Kinds::Plain => KINDS,
            Kinds::Recovery => RECOVERY_KINDS,
        }
    }

    /// Admin commands that are hit.
    fn admin(self) -> &'static [&'static str] {
        match self {
            Kinds::Plain => ADMIN,
            Kinds::Recovery => RECOVERY_ADMIN,
        }
    }
}

/// Kinds that may hit admin commands.
const OF_ADMIN: &[&str] = &["fail", "delay", "drop", "duplicate", "fatal", "reset", "remove", "power_loss"];
/// Which: not those with which the driver enables a controller, which nobody could get over.
const ADMIN: &[&str] = &[
    r#"["abort"]"#,
    r#"["get_log_page", "get_features"]"#,
    r#"["create_i/o_submission_queue", "create_i/o_completion_queue"]"#,
    r#"["delete_i/o_submission_queue", "delete_i/o_completion_queue"]"#,
];

/// The same where the library recovers, with those that a reset sends again.
const RECOVERY_ADMIN: &[&str] = &[
    r#"["abort"]"#,
    r#"["abort"]"#,
    r#"["create_i/o_submission_queue", "create_i/o_completion_queue"]"#,
    r#"["delete_i/o_submission_queue"]"#,
    r#"["delete_i/o_submission_queue", "delete_i/o_completion_queue"]"#,
    r#"["identify", "set_features"]"#,
];
/// Those of them that every start sends too are hit after so many: most often in the midst of a recovery.
const AFTER_START: u64 = 8;

/// One fault of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    kinds: Kinds,
    kind: usize,
    setting: usize,
    every: u64,
    count: u64,
    /// Of admin commands, which.
    admin: Option<&'static str>,
}

impl Fault {
    /// Any fault.
    pub fn draw(draw: &mut Draw, kinds: Kinds) -> Fault {
        // Each draws the same count of numbers, so that another kind more changes only the choice.
        let (kind, setting) = (draw.below(1 << 32), draw.below(1 << 32));
        let kind = (kind % kinds.all().len() as u64) as usize;
        let setting = (setting % kinds.all()[kind].1.len() as u64) as usize;
        let (every, count) = (1 + draw.below(24), 1 + draw.below(3));
        let (which, some) = (draw.below(kinds.admin().len() as u64) as usize, draw.below(4));
        // Recovery is mostly admin commands.
        let some = if kinds == Kinds::Plain { some == 0 } else { some < 2 };
        match Some(kinds.admin()[which]).filter(|_| some && OF_ADMIN.contains(&kinds.all()[kind].0)) {
            // There are few of them.
            admin @ Some(_) => Fault { kinds, kind, setting, every: 1 + every % 4, count, admin },
            None => Fault { kinds, kind, setting, every, count, admin: None },
        }
    }

    /// Its kind, as plans name it.
    pub fn kind(&self) -> &'static str {
        self.kinds.all()[self.kind].0
    }

    fn setting(&self) -> &'static str {
        self.kinds.all()[self.kind].1[self.setting]
    }

    /// How many commands that match are spared first.
    fn after(&self) -> u64 {
        let at_start = self.admin.is_some_and(|admin| admin.contains("identify"));
        if at_start { AFTER_START } else { 0 }
    }

    /// The table of a plan.
    pub fn toml(&self) -> String {
        let admin = self.admin.map_or(String::new(), |which| format!("admin = {which}\n"));
        let (kind, setting, after) = (self.kind(), self.setting(), self.after());
        format!(
            "[[fault]]\nkind = \"{kind}\"\n{setting}\n{admin}after = {after}\nevery = {}\ncount = {}\n",
            self.every, self.count
        )
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let setting = self.setting().replace('\n', ", ");
        write!(f, "{}, {setting}, every {}, at most {} times", self.kind(), self.every, self.count)?;
        self.admin.map_or(Ok(()), |which| write!(f, ", of {which}"))
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
        nsid: warpbell_hw::Nsid(1),
        lba: warpbell_hw::Lba(0),
        status: None,
        offset: None,
        expected: None,
        actual: None,
        ambiguous_at: None,
    }
}
