//! Fault plans: what goes wrong, and with which commands.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::Deserialize;
use warpbell_hw::{Lba, Nsid};
use warpbell_nvme::{AdminOpcode, NvmOpcode, Status};

warpbell_base::options! {
    /// Faults to inject.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct FaultPlan {
        /// Mixed with the controller's seed.
        pub seed: u64,
        /// The faults; for each command the first that applies is injected.
        pub faults: Vec<Fault>,
    }
}

warpbell_base::options! {
    /// One fault: what happens, and to which commands.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Fault {
        /// What happens.
        pub action: FaultAction,
        /// To which commands.
        pub selector: Selector,
    } no new
}

/// What a fault does. It is decided when a command is fetched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FaultAction {
    /// The command does nothing and completes with `status`.
    Fail {
        /// The status, with its Do Not Retry bit and Command Retry Delay. A host that does not heed delays (Host Behavior
        /// Support) gets none.
        status: Status,
    },
    /// The command completes well, but bits of the data that the client gets are flipped. Read only.
    Corrupt {
        /// How many bits.
        bits: u32,
    },
    /// The command completes so much later.
    Delay {
        /// How much.
        by: Duration,
    },
    /// The command never completes, until its queue is deleted or the controller is reset. An Abort does not find
    /// it.
    Drop,
    /// The command never completes by itself, but an Abort finds it: it completes with Command Abort Requested then, or
    /// as its queue is deleted.
    Hang,
    /// The command's completion entry is posted twice.
    Duplicate,
    /// The command completes only after so many later commands of its queue did, or when nothing else is left to
    /// do.
    Reorder {
        /// How many.
        by: u32,
    },
    /// The dword with the identifier and the phase bit becomes visible so long before the other three of the
    /// completion entry.
    Torn {
        /// How long.
        by: Duration,
    },
    /// The completion comes first, and the data is moved so much later. Read and Write only.
    LatePayload {
        /// How much.
        by: Duration,
    },
    /// Writes to the doorbells of the command's queue pair are not seen for so long.
    StuckDoorbell {
        /// How long; `None`: until the queues are deleted or the controller is reset.
        by: Option<Duration>,
    },
    /// From now on every command of the command's namespace takes longer.
    Slow {
        /// How much longer.
        by: Duration,
        /// Until so long from now.
        lasting: Duration,
    },
    /// CSTS.CFS becomes 1, and nothing completes any more until a reset.
    Fatal,
    /// The controller resets itself, as after an NVM subsystem reset: RDY is 0 and NSSRO is 1.
    Reset,
    /// Surprise removal: registers read all ones, and doorbells and DMA stop, for good.
    Remove,
    /// Writes that were not flushed vanish, and the controller resets as by [`FaultAction::Reset`].
    PowerLoss {
        /// The probability with which each block that was not flushed survives.
        keep: f64,
    },
}

/// Names of the kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// [`FaultAction::Fail`].
    Fail,
    /// [`FaultAction::Corrupt`].
    Corrupt,
    /// [`FaultAction::Delay`].
    Delay,
    /// [`FaultAction::Drop`].
    Drop,
    /// [`FaultAction::Hang`].
    Hang,
    /// [`FaultAction::Duplicate`].
    Duplicate,
    /// [`FaultAction::Reorder`].
    Reorder,
    /// [`FaultAction::Torn`].
    Torn,
    /// [`FaultAction::LatePayload`].
    LatePayload,
    /// [`FaultAction::StuckDoorbell`].
    StuckDoorbell,
    /// [`FaultAction::Slow`].
    Slow,
    /// [`FaultAction::Fatal`].
    Fatal,
    /// [`FaultAction::Reset`].
    Reset,
    /// [`FaultAction::Remove`].
    Remove,
    /// [`FaultAction::PowerLoss`].
    PowerLoss,
}

impl FaultKind {
    /// Every kind, and its name in a plan.
    pub const ALL: &'static [(FaultKind, &'static str)] = &[
        (FaultKind::Fail, "fail"),
        (FaultKind::Corrupt, "corrupt"),
        (FaultKind::Delay, "delay"),
        (FaultKind::Drop, "drop"),
        (FaultKind::Hang, "hang"),
        (FaultKind::Duplicate, "duplicate"),
        (FaultKind::Reorder, "reorder"),
        (FaultKind::Torn, "torn"),
        (FaultKind::LatePayload, "late_payload"),
        (FaultKind::StuckDoorbell, "stuck_doorbell"),
        (FaultKind::Slow, "slow"),
        (FaultKind::Fatal, "fatal"),
        (FaultKind::Reset, "reset"),
        (FaultKind::Remove, "remove"),
        (FaultKind::PowerLoss, "power_loss"),
    ];

    /// Its name in a plan.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    /// Whether it can happen to a command with this opcode of the NVM command set.
    pub(crate) fn suits(self, opcode: NvmOpcode) -> bool {
        match self {
            FaultKind::Corrupt => opcode == NvmOpcode::READ,
            FaultKind::LatePayload => matches!(opcode, NvmOpcode::READ | NvmOpcode::WRITE),
            _ => true,
        }
    }

    /// Whether it can happen to an admin command.
    pub(crate) fn suits_admin(self) -> bool {
        matches!(
            self,
            FaultKind::Fail
                | FaultKind::Delay
                | FaultKind::Drop
                | FaultKind::Hang
                | FaultKind::Duplicate
                | FaultKind::Fatal
                | FaultKind::Reset
                | FaultKind::Remove
                | FaultKind::PowerLoss
        )
    }
}

impl FaultAction {
    /// The action's kind.
    pub fn kind(&self) -> FaultKind {
        match self {
            FaultAction::Fail { .. } => FaultKind::Fail,
            FaultAction::Corrupt { .. } => FaultKind::Corrupt,
            FaultAction::Delay { .. } => FaultKind::Delay,
            FaultAction::Drop => FaultKind::Drop,
            FaultAction::Hang => FaultKind::Hang,
            FaultAction::Duplicate => FaultKind::Duplicate,
            FaultAction::Reorder { .. } => FaultKind::Reorder,
            FaultAction::Torn { .. } => FaultKind::Torn,
            FaultAction::LatePayload { .. } => FaultKind::LatePayload,
            FaultAction::StuckDoorbell { .. } => FaultKind::StuckDoorbell,
            FaultAction::Slow { .. } => FaultKind::Slow,
            FaultAction::Fatal => FaultKind::Fatal,
            FaultAction::Reset => FaultKind::Reset,
            FaultAction::Remove => FaultKind::Remove,
            FaultAction::PowerLoss { .. } => FaultKind::PowerLoss,
        }
    }

    /// How much later something happens because of it, if that is what it does; `Duration::MAX` for never.
    pub fn lateness(&self) -> Option<Duration> {
        match self {
            FaultAction::Delay { by }
            | FaultAction::Torn { by }
            | FaultAction::LatePayload { by }
            | FaultAction::Slow { by, .. } => Some(*by),
            FaultAction::StuckDoorbell { by } => Some(by.unwrap_or(Duration::MAX)),
            FaultAction::Drop | FaultAction::Hang => Some(Duration::MAX),
            _ => None,
        }
    }
}

warpbell_base::options! {
    /// Which commands a fault applies to. Everything given must match.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Selector {
        /// Only this namespace.
        pub nsid: Option<Nsid>,
        /// Only this submission queue.
        pub queue: Option<u16>,
        /// Only these I/O opcodes; empty means any.
        pub opcodes: Vec<NvmOpcode>,
        /// These admin commands, and no I/O commands; empty means I/O commands.
        pub admin: Vec<AdminOpcode>,
        /// Only commands that touch an LBA of the range.
        pub lba: Option<RangeInclusive<Lba>>,
        /// Of the commands that match so far, all but the first so many.
        pub after: u64,
        /// Of those, every so many-th.
        pub every: u64,
        /// Of those, each with this probability.
        pub probability: f64,
        /// At most so many injections.
        pub count: Option<u64>,
    }
}

impl Default for Selector {
    fn default() -> Selector {
        Selector {
            nsid: None,
            queue: None,
            opcodes: Vec::new(),
            admin: Vec::new(),
            lba: None,
            after: 0,
            every: 1,
            probability: 1.0,
            count: None,
        }
    }
}

impl Fault {
    /// What happens to each command that the selector takes.
    pub fn new(action: FaultAction, selector: Selector) -> Fault {
        Fault { action, selector }
    }

    /// A fault that happens to the first command that the selector takes.
    pub fn once(action: FaultAction, selector: Selector) -> Fault {
        Fault { action, selector: Selector { count: Some(1), ..selector } }
    }
}

impl FaultPlan {
    /// Whether the plan has no faults.
    pub fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    /// Whether a fault of the plan asks for a retry delay.
    pub(crate) fn has_retry_delay(&self) -> bool {
        let delayed =
            |fault: &Fault| matches!(fault.action, FaultAction::Fail { status } if status.crd() > 0);
        self.faults.iter().any(delayed)
    }

    /// Whether a fault of this kind is in the plan.
    pub fn has(&self, kind: FaultKind) -> bool {
        self.faults.iter().any(|fault| fault.action.kind() == kind)
    }
}
