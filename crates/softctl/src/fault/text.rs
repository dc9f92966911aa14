//! The TOML form of fault plans, and the limits of their values.
//!
//! ```toml
//! seed = 7                             # optional; mixed with the controller's seed
//!
//! [[fault]]
//! kind = "fail"
//! status = "Unrecovered Read Error"    # a name of the specification, or { sct = 2, sc = 0x81 }
//! dnr = false                          # Do Not Retry; false unless given
//! crd = 1                              # Command Retry Delay: which of CRDT1 to CRDT3; none unless given
//! opcode = "read"                      # or ["read", "compare"]; every opcode unless given
//! lba = [1000, 1999]                   # first and last, or one LBA; every LBA unless given
//!
//! [[fault]]
//! kind = "corrupt"                     # flips bits in the payload of a read
//! bits = 1                             # how many; 1 unless given
//! nsid = 1
//! queue = 3                            # commands of this submission queue
//! after = 10                           # not the first 10 commands that match the selectors above
//! every = 100                          # every 100th of the others
//! probability = 0.5                    # of those, by the seed
//! count = 1                            # stop after so many injections
//!
//! [[fault]]
//! kind = "drop"
//! admin = "abort"                      # admin commands instead of I/O commands
//! ```

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use warpbell_nvme::status::StatusCodeType;
use warpbell_nvme::{AdminOpcode, NvmOpcode, Status};

use super::plan::{Fault, FaultAction, FaultKind, FaultPlan, Selector};
use crate::{toml_file, units};
use warpbell_hw::{Lba, Nsid};

/// Most bits that one `corrupt` fault flips.
const MAX_BITS: u32 = 4096;
/// Most commands that one `reorder` fault lets pass.
const MAX_PASSED: u64 = 65535;

/// Why a fault plan is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FaultError {
    /// The file cannot be read.
    #[error("fault plan {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The text is not TOML, or has unknown keys or wrong types.
    #[error("fault plan {}: {reason}", path.display())]
    Syntax {
        /// The file, or `<text>`.
        path: PathBuf,
        /// Where and what.
        reason: String,
    },
    /// A value out of its range.
    #[error("fault plan {}: fault {index}: {key} = {value}: {limit}", path.display())]
    Value {
        /// The file, or `<text>`.
        path: PathBuf,
        /// Which fault, counted from 1.
        index: usize,
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        limit: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanText {
    #[serde(default)]
    seed: u64,
    #[serde(default)]
    fault: Vec<FaultText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultText {
    kind: FaultKind,
    status: Option<StatusText>,
    dnr: Option<bool>,
    crd: Option<u8>,
    bits: Option<u32>,
    by: Option<ByText>,
    lasting: Option<String>,
    keep: Option<f64>,
    nsid: Option<u32>,
    queue: Option<u16>,
    opcode: Option<OneOrMore<String>>,
    admin: Option<OneOrMore<String>>,
    lba: Option<LbaText>,
    after: Option<u64>,
    every: Option<u64>,
    probability: Option<f64>,
    count: Option<u64>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a status name, or { sct = 0 to 7, sc = 0 to 255 }")]
enum StatusText {
    Name(String),
    Code(CodeText),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CodeText {
    sct: u8,
    sc: u8,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a duration such as \"5ms\", or a number of commands")]
enum ByText {
    Commands(u64),
    Time(String),
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "an opcode name or a list of them")]
enum OneOrMore<T> {
    One(T),
    More(Vec<T>),
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "an LBA, or [first, last]")]
enum LbaText {
    One(u64),
    Range([u64; 2]),
}

/// A refused value: key, value, limit.
struct Refused(&'static str, String, String);

impl FaultPlan {
    /// Reads a plan from TOML text.
    pub fn from_toml(text: &str) -> Result<FaultPlan, FaultError> {
        Self::named(text, Path::new("<text>"))
    }

    /// Reads a plan from a file.
    pub fn load(path: impl AsRef<Path>) -> Result<FaultPlan, FaultError> {
        let path = path.as_ref();
        let text =
            toml_file::read(path).map_err(|source| FaultError::Read { path: path.to_owned(), source })?;
        Self::named(&text, path)
    }

    fn named(text: &str, path: &Path) -> Result<FaultPlan, FaultError> {
        let plan: PlanText =
            toml_file::parse(text).map_err(|reason| FaultError::Syntax { path: path.to_owned(), reason })?;
        let mut faults = Vec::with_capacity(plan.fault.len());
        for (index, fault) in plan.fault.into_iter().enumerate() {
            faults.push(fault.build().map_err(|refused| refused.of(path, index))?);
        }
        let plan = FaultPlan { seed: plan.seed, faults };
        plan.check(path)?;
        Ok(plan)
    }

    /// Checks every value of a plan against its limit.
    pub fn validate(&self) -> Result<(), FaultError> {
        self.check(Path::new("<plan>"))
    }

    fn check(&self, path: &Path) -> Result<(), FaultError> {
        let check =
            |(index, fault): (usize, &Fault)| fault.check().map_err(|refused| refused.of(path, index));
        self.faults.iter().enumerate().try_for_each(check)
    }
}

impl Refused {
    fn of(self, path: &Path, index: usize) -> FaultError {
        let Refused(key, value, limit) = self;
        FaultError::Value { path: path.to_owned(), index: index + 1, key, value, limit }
    }
}

impl Fault {
    fn check(&self) -> Result<(), Refused> {
        self.selector.check(self.action.kind())?;
        match self.action {
            FaultAction::Fail { status } if status.dnr() && status.crd() > 0 => {
                Err(Refused("crd", status.crd().to_string(), "goes with dnr = false only".into()))
            }
            FaultAction::Fail { status } if status.is_ok() => {
                Err(Refused("status", format!("{status}"), "must be an error".into()))
            }
            FaultAction::Corrupt { bits } if !(1..=MAX_BITS).contains(&bits) => {
                Err(Refused("bits", bits.to_string(), format!("must be 1 to {MAX_BITS}")))
            }
            FaultAction::Reorder { by } if !(1..=MAX_PASSED).contains(&u64::from(by)) => {
                Err(Refused("by", by.to_string(), format!("must be 1 to {MAX_PASSED} commands")))
            }
            FaultAction::PowerLoss { keep } if !(0.0..=1.0).contains(&keep) => {
                Err(Refused("keep", keep.to_string(), "must be 0.0 to 1.0".into()))
            }
            _ => Ok(()),
        }
    }
}

impl Selector {
    fn check(&self, kind: FaultKind) -> Result<(), Refused> {
        if self.every == 0 {
            return Err(Refused("every", "0".into(), "must be 1 or more".into()));
        }
        if !(0.0..=1.0).contains(&self.probability) {
            let limit = "must be 0.0 to 1.0".to_owned();
            return Err(Refused("probability", self.probability.to_string(), limit));
        }
        if let Some(lba) = &self.lba
            && lba.start() > lba.end()
        {
            let value = format!("[{}, {}]", lba.start().get(), lba.end().get());
            return Err(Refused("lba", value, "first must not be after last".into()));
        }
        if let Some(bad) = self.opcodes.iter().find(|opcode| !kind.suits(**opcode)) {
            let only = if kind == FaultKind::Corrupt { "read only" } else { "read and write only" };
            return Err(Refused("opcode", spelled(bad.name()), format!("{} applies to {only}", kind.name())));
        }
        if self.queue == Some(0) {
            return Err(Refused(
                "queue",
                "0".into(),
                "must be 1 or more; admin = names admin commands".into(),
            ));
        }
        self.check_admin(kind)
    }

    fn check_admin(&self, kind: FaultKind) -> Result<(), Refused> {
        let Some(first) = self.admin.first() else { return Ok(()) };
        let refused = |limit: String| Err(Refused("admin", spelled(first.name()), limit));
        if !kind.suits_admin() {
            return refused(format!("{} does not apply to admin commands", kind.name()));
        }
        if !self.opcodes.is_empty() || self.lba.is_some() || self.queue.is_some() {
            return refused("goes with neither opcode, nor lba, nor queue".into());
        }
        Ok(())
    }
}

impl FaultText {
    fn build(self) -> Result<Fault, Refused> {
        let action = self.action()?;
        let lba = self.lba.map(|lba| match lba {
            LbaText::One(lba) => Lba(lba)..=Lba(lba),
            LbaText::Range([first, last]) => Lba(first)..=Lba(last),
        });
        let selector = Selector {
            nsid: self.nsid.map(Nsid),
            queue: self.queue,
            opcodes: self.opcode.map_or(Ok(Vec::new()), |names| names.each(opcode))?,
            admin: self.admin.map_or(Ok(Vec::new()), |names| names.each(admin_opcode))?,
            lba,
            after: self.after.unwrap_or(0),
            every: self.every.unwrap_or(1),
            probability: self.probability.unwrap_or(1.0),
            count: self.count,
        };
        Ok(Fault { action, selector })
    }

    fn action(&self) -> Result<FaultAction, Refused> {
        self.check_keys()?;
        Ok(match self.kind {
            FaultKind::Fail => {
                let Some(text) = &self.status else {
                    return Err(Refused("status", "(none)".into(), "kind = \"fail\" needs one".into()));
                };
                let status = text.status()?.with_dnr(self.dnr.unwrap_or(false));
                FaultAction::Fail { status: status.with_crd(self.delay()?) }
            }
            FaultKind::Corrupt => FaultAction::Corrupt { bits: self.bits.unwrap_or(1) },
            FaultKind::Delay => FaultAction::Delay { by: self.time()? },
            FaultKind::Drop => FaultAction::Drop,
            FaultKind::Hang => FaultAction::Hang,
            FaultKind::Duplicate => FaultAction::Duplicate,
            FaultKind::Reorder => FaultAction::Reorder { by: self.commands()? },
            FaultKind::Torn => FaultAction::Torn { by: self.time()? },
            FaultKind::LatePayload => FaultAction::LatePayload { by: self.time()? },
            FaultKind::StuckDoorbell => FaultAction::StuckDoorbell { by: self.time_or_forever()? },
            FaultKind::Slow => {
                FaultAction::Slow { by: self.time()?, lasting: time("lasting", self.lasting.as_deref())? }
            }
            FaultKind::Fatal => FaultAction::Fatal,
            FaultKind::Reset => FaultAction::Reset,
            FaultKind::Remove => FaultAction::Remove,
            FaultKind::PowerLoss => FaultAction::PowerLoss { keep: self.keep.unwrap_or(0.0) },
        })
    }

    /// Refuses keys of other kinds.
    fn check_keys(&self) -> Result<(), Refused> {
        use FaultKind::*;
        let timed = [Delay, Reorder, Torn, LatePayload, StuckDoorbell, Slow];
        let keys: [(&str, bool, &[FaultKind]); 7] = [
            ("status", self.status.is_some(), &[Fail]),
            ("dnr", self.dnr.is_some(), &[Fail]),
            ("crd", self.crd.is_some(), &[Fail]),
            ("bits", self.bits.is_some(), &[Corrupt]),
            ("by", self.by.is_some(), &timed),
            ("lasting", self.lasting.is_some(), &[Slow]),
            ("keep", self.keep.is_some(), &[PowerLoss]),
        ];
        match keys.into_iter().find(|(_, given, kinds)| *given && !kinds.contains(&self.kind)) {
            None => Ok(()),
            Some((key, _, kinds)) => {
                let kinds: Vec<_> = kinds.iter().map(|kind| format!("kind = {:?}", kind.name())).collect();
                Err(Refused(key, "(given)".into(), format!("belongs to {}", kinds.join(", "))))
            }
        }
    }

    /// The Command Retry Delay, 0 for none.
    fn delay(&self) -> Result<u8, Refused> {
        match self.crd {
            None => Ok(0),
            Some(crd @ 1..=3) => Ok(crd),
            Some(crd) => Err(Refused("crd", crd.to_string(), "must be 1 to 3".into())),
        }
    }

    fn time(&self) -> Result<Duration, Refused> {
        match &self.by {
            Some(ByText::Commands(number)) => time("by", Some(&number.to_string())),
            Some(ByText::Time(text)) => time("by", Some(text)),
            None => time("by", None),
        }
    }

    fn time_or_forever(&self) -> Result<Option<Duration>, Refused> {
        match &self.by {
            Some(ByText::Time(text)) if text == "forever" => Ok(None),
            _ => self.time().map(Some).map_err(|Refused(key, value, limit)| {
                Refused(key, value, format!("{limit}, or \"forever\""))
            }),
        }
    }

    fn commands(&self) -> Result<u32, Refused> {
        let refused =
            |value: &str| Refused("by", value.to_owned(), format!("must be 1 to {MAX_PASSED} commands"));
        match &self.by {
            Some(ByText::Commands(number)) => {
                u32::try_from(*number).map_err(|_| refused(&number.to_string()))
            }
            Some(ByText::Time(text)) => Err(refused(text)),
            None => Err(refused("(none)")),
        }
    }
}

fn time(key: &'static str, text: Option<&str>) -> Result<Duration, Refused> {
    let text = text.unwrap_or("(none)");
    units::duration(text).ok_or_else(|| {
        let limit = "must be a duration from 1ns to 3600s, such as \"10us\" or \"5ms\"";
        Refused(key, text.to_owned(), limit.to_owned())
    })
}

impl OneOrMore<String> {
    fn each<T>(self, parse: impl Fn(&str) -> Result<T, Refused>) -> Result<Vec<T>, Refused> {
        match self {
            OneOrMore::One(name) => Ok(vec![parse(&name)?]),
            OneOrMore::More(names) => names.iter().map(|name| parse(name)).collect(),
        }
    }
}

/// Letters and digits in lower case, so that `unrecovered_read_error` is `Unrecovered Read Error`.
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

impl StatusText {
    fn status(&self) -> Result<Status, Refused> {
        match self {
            StatusText::Code(code) if code.sct <= 7 => Ok(Status::new(StatusCodeType(code.sct), code.sc)),
            StatusText::Code(code) => {
                Err(Refused("status.sct", code.sct.to_string(), "must be 0 to 7".into()))
            }
            StatusText::Name(name) => {
                let wanted = plain(name);
                let known = Status::KNOWN.iter().find(|s| s.name().is_some_and(|n| plain(n) == wanted));
                known.copied().ok_or_else(|| {
                    let limit = "must be a status name such as \"Unrecovered Read Error\", or { sct, sc }";
                    Refused("status", format!("{name:?}"), limit.into())
                })
            }
        }
    }
}

fn opcode(name: &str) -> Result<NvmOpcode, Refused> {
    let wanted = plain(name);
    let known = NvmOpcode::KNOWN.iter().find(|o| o.name().is_some_and(|n| plain(n) == wanted));
    known.copied().ok_or_else(|| {
        let names: Vec<_> = NvmOpcode::KNOWN.iter().map(|o| spelled(o.name())).collect();
        Refused("opcode", format!("{name:?}"), format!("must be an NVM opcode: {}", names.join(", ")))
    })
}

fn admin_opcode(name: &str) -> Result<AdminOpcode, Refused> {
    let wanted = plain(name);
    let known = AdminOpcode::KNOWN.iter().find(|o| o.name().is_some_and(|n| plain(n) == wanted));
    known.copied().ok_or_else(|| {
        let names: Vec<_> = AdminOpcode::KNOWN.iter().map(|o| spelled(o.name())).collect();
        Refused("admin", format!("{name:?}"), format!("must be an admin opcode: {}", names.join(", ")))
    })
}

fn spelled(name: Option<&str>) -> String {
    name.unwrap_or("?").to_lowercase().replace(' ', "_")
}

#[cfg(test)]
mod tests;
