//! Fault plans and their TOML form.
//!
//! ```toml
//! seed = 7                             # optional; mixed with the controller's seed
//!
//! [[fault]]
//! kind = "fail"
//! status = "Unrecovered Read Error"    # a name of the specification, or { sct = 2, sc = 0x81 }
//! dnr = false                          # Do Not Retry; false unless given
//! opcode = "read"                      # or ["read", "compare"]; every opcode unless given
//! lba = [1000, 1999]                   # first and last, or one LBA; every LBA unless given
//!
//! [[fault]]
//! kind = "corrupt"                     # flips bits in the payload of a read
//! bits = 1                             # how many; 1 unless given
//! nsid = 1
//! every = 100                          # every 100th command that matches the selectors above
//! probability = 0.5                    # of those, by the seed
//! count = 1                            # stop after so many injections
//! ```

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use warpbell_nvme::status::StatusCodeType;
use warpbell_nvme::{NvmOpcode, Status};

/// Most bits that one `corrupt` fault flips.
const MAX_BITS: u32 = 4096;

/// Faults to inject into I/O commands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultPlan {
    /// Mixed with the controller's seed.
    pub seed: u64,
    /// The faults; for each command the first that applies is injected.
    pub faults: Vec<Fault>,
}

/// One fault: what happens, and to which commands.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// What happens.
    pub action: FaultAction,
    /// To which commands.
    pub selector: Selector,
}

/// What a fault does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultAction {
    /// The command does nothing and completes with `status`.
    Fail {
        /// The status, with its Do Not Retry bit.
        status: Status,
    },
    /// The command completes well, but bits of the data that the client gets are flipped.
    Corrupt {
        /// How many bits.
        bits: u32,
    },
}

/// Names of the kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// [`FaultAction::Fail`].
    Fail,
    /// [`FaultAction::Corrupt`].
    Corrupt,
}

impl FaultAction {
    /// The action's kind.
    pub fn kind(&self) -> FaultKind {
        match self {
            FaultAction::Fail { .. } => FaultKind::Fail,
            FaultAction::Corrupt { .. } => FaultKind::Corrupt,
        }
    }
}

/// Which commands a fault applies to. Everything given must match.
#[derive(Clone, Debug, PartialEq)]
pub struct Selector {
    /// Only this namespace.
    pub nsid: Option<u32>,
    /// Only these opcodes; empty means any.
    pub opcodes: Vec<NvmOpcode>,
    /// Only commands that touch an LBA of the range.
    pub lba: Option<RangeInclusive<u64>>,
    /// Of the commands that match so far, every so many-th.
    pub every: u64,
    /// Of those, each with this probability.
    pub probability: f64,
    /// At most so many injections.
    pub count: Option<u64>,
}

impl Default for Selector {
    fn default() -> Selector {
        Selector { nsid: None, opcodes: Vec::new(), lba: None, every: 1, probability: 1.0, count: None }
    }
}

/// Why a fault plan is refused.
#[derive(Debug, thiserror::Error)]
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
    #[error("fault plan {}: {}", path.display(), source.to_string().trim_end())]
    Syntax {
        /// The file, or `<text>`.
        path: PathBuf,
        /// Where and what.
        source: Box<toml::de::Error>,
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
    bits: Option<u32>,
    nsid: Option<u32>,
    opcode: Option<OneOrMore<String>>,
    lba: Option<LbaText>,
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
        let text = std::fs::read_to_string(path)
            .map_err(|source| FaultError::Read { path: path.to_owned(), source })?;
        Self::named(&text, path)
    }

    fn named(text: &str, path: &Path) -> Result<FaultPlan, FaultError> {
        let plan: PlanText = toml::from_str(text)
            .map_err(|source| FaultError::Syntax { path: path.to_owned(), source: Box::new(source) })?;
        let mut faults = Vec::with_capacity(plan.fault.len());
        for (index, fault) in plan.fault.into_iter().enumerate() {
            let fault = fault.build().map_err(|Refused(key, value, limit)| FaultError::Value {
                path: path.to_owned(),
                index: index + 1,
                key,
                value,
                limit,
            })?;
            faults.push(fault);
        }
        Ok(FaultPlan { seed: plan.seed, faults })
    }

    /// Whether the plan has no faults.
    pub fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }
}

impl FaultText {
    fn build(self) -> Result<Fault, Refused> {
        let action = self.action()?;
        let every = self.every.unwrap_or(1);
        let probability = self.probability.unwrap_or(1.0);
        if every == 0 {
            return Err(Refused("every", "0".into(), "must be 1 or more".into()));
        }
        if !(0.0..=1.0).contains(&probability) {
            return Err(Refused("probability", probability.to_string(), "must be 0.0 to 1.0".into()));
        }
        let opcodes = match self.opcode {
            None => Vec::new(),
            Some(OneOrMore::One(name)) => vec![opcode(&name)?],
            Some(OneOrMore::More(names)) => {
                names.iter().map(|name| opcode(name)).collect::<Result<_, _>>()?
            }
        };
        let lba = match self.lba {
            None => None,
            Some(LbaText::One(lba)) => Some(lba..=lba),
            Some(LbaText::Range([first, last])) if first <= last => Some(first..=last),
            Some(LbaText::Range([first, last])) => {
                return Err(Refused(
                    "lba",
                    format!("[{first}, {last}]"),
                    "first must not be after last".into(),
                ));
            }
        };
        if action.kind() == FaultKind::Corrupt && opcodes.iter().any(|o| *o != NvmOpcode::READ) {
            return Err(Refused("opcode", names(&opcodes), "corrupt applies to read only".into()));
        }
        let selector = Selector { nsid: self.nsid, opcodes, lba, every, probability, count: self.count };
        Ok(Fault { action, selector })
    }

    fn action(&self) -> Result<FaultAction, Refused> {
        match self.kind {
            FaultKind::Fail => {
                if let Some(bits) = self.bits {
                    return Err(Refused("bits", bits.to_string(), "belongs to kind = \"corrupt\"".into()));
                }
                let Some(text) = &self.status else {
                    return Err(Refused("status", "(none)".into(), "kind = \"fail\" needs one".into()));
                };
                Ok(FaultAction::Fail { status: text.status()?.with_dnr(self.dnr.unwrap_or(false)) })
            }
            FaultKind::Corrupt => {
                if self.status.is_some() || self.dnr.is_some() {
                    let limit = "belongs to kind = \"fail\"".to_owned();
                    return Err(Refused("status or dnr", "(given)".into(), limit));
                }
                let bits = self.bits.unwrap_or(1);
                if !(1..=MAX_BITS).contains(&bits) {
                    return Err(Refused("bits", bits.to_string(), format!("must be 1 to {MAX_BITS}")));
                }
                Ok(FaultAction::Corrupt { bits })
            }
        }
    }
}

/// Letters and digits in lower case, so that `unrecovered_read_error` is `Unrecovered Read Error`.
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

impl StatusText {
    fn status(&self) -> Result<Status, Refused> {
        let status = match self {
            StatusText::Code(code) if code.sct <= 7 => Status::new(StatusCodeType(code.sct), code.sc),
            StatusText::Code(code) => {
                return Err(Refused("status.sct", code.sct.to_string(), "must be 0 to 7".into()));
            }
            StatusText::Name(name) => {
                let wanted = plain(name);
                let known = Status::KNOWN.iter().find(|s| s.name().is_some_and(|n| plain(n) == wanted));
                *known.ok_or_else(|| {
                    let limit = "must be a status name such as \"Unrecovered Read Error\", or { sct, sc }";
                    Refused("status", format!("{name:?}"), limit.into())
                })?
            }
        };
        if status.is_ok() {
            return Err(Refused("status", format!("{status}"), "must be an error".into()));
        }
        Ok(status)
    }
}

fn opcode(name: &str) -> Result<NvmOpcode, Refused> {
    let wanted = plain(name);
    let known = NvmOpcode::KNOWN.iter().find(|o| o.name().is_some_and(|n| plain(n) == wanted));
    known.copied().ok_or_else(|| {
        let limit = format!("must be an NVM opcode: {}", names(NvmOpcode::KNOWN));
        Refused("opcode", format!("{name:?}"), limit)
    })
}

fn names(opcodes: &[NvmOpcode]) -> String {
    let names: Vec<_> =
        opcodes.iter().filter_map(|o| o.name()).map(|n| n.to_lowercase().replace(' ', "_")).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        FaultPlan::from_toml(text).unwrap_err().to_string()
    }

    #[test]
    fn the_documented_plan_parses() {
        let text = r#"
            seed = 7
            [[fault]]
            kind = "fail"
            status = "Unrecovered Read Error"
            dnr = true
            opcode = ["read", "compare"]
            lba = [1000, 1999]
            [[fault]]
            kind = "corrupt"
            bits = 2
            nsid = 1
            opcode = "read"
            lba = 5
            every = 100
            probability = 0.5
            count = 1
        "#;
        let plan = FaultPlan::from_toml(text).unwrap();
        assert_eq!(plan.seed, 7);
        let status = Status::UNRECOVERED_READ.with_dnr(true);
        assert_eq!(plan.faults[0].action, FaultAction::Fail { status });
        assert_eq!(plan.faults[0].selector.opcodes, [NvmOpcode::READ, NvmOpcode::COMPARE]);
        assert_eq!(plan.faults[0].selector.lba, Some(1000..=1999));
        assert_eq!(plan.faults[1].action, FaultAction::Corrupt { bits: 2 });
        assert_eq!(plan.faults[1].selector.lba, Some(5..=5));
        assert_eq!((plan.faults[1].selector.every, plan.faults[1].selector.count), (100, Some(1)));
    }

    #[test]
    fn status_by_number_and_by_loose_name() {
        let plan = |status: &str| {
            FaultPlan::from_toml(&format!("[[fault]]\nkind = \"fail\"\nstatus = {status}")).unwrap().faults[0]
                .action
        };
        assert_eq!(plan("{ sct = 2, sc = 0x81 }"), plan("\"unrecovered_read_error\""));
    }

    #[test]
    fn errors_name_file_key_value_and_limit() {
        assert_eq!(
            error("[[fault]]\nkind = \"corrupt\"\nprobability = 1.5"),
            "fault plan <text>: fault 1: probability = 1.5: must be 0.0 to 1.0"
        );
        assert_eq!(
            error("[[fault]]\nkind = \"corrupt\"\nlba = [9, 3]"),
            "fault plan <text>: fault 1: lba = [9, 3]: first must not be after last"
        );
        assert!(error("[[fault]]\nkind = \"corrupt\"\nevery = 0").contains("every = 0: must be 1 or more"));
        assert!(error("[[fault]]\nkind = \"corrupt\"\nbits = 0").contains("bits = 0: must be 1 to 4096"));
        assert!(error("[[fault]]\nkind = \"corrupt\"\nopcode = \"write\"").contains("read only"));
        assert!(error("[[fault]]\nkind = \"fail\"").contains("needs one"));
        assert!(
            error("[[fault]]\nkind = \"fail\"\nstatus = \"Successful Completion\"")
                .contains("must be an error")
        );
        assert!(error("[[fault]]\nkind = \"fail\"\nstatus = \"no such\"").contains("\"no such\""));
        assert!(
            error("[[fault]]\nkind = \"fail\"\nstatus = {sct = 9, sc = 1}")
                .contains("sct = 9: must be 0 to 7")
        );
        assert!(error("[[fault]]\nkind = \"corrupt\"\nopcode = \"reed\"").contains("flush, write, read"));
        assert!(error("[[fault]]\nkind = \"corrupt\"\ncolour = 1").contains("unknown field `colour`"));
        assert!(error("[[fault]]\nkind = \"melt\"").contains("melt"));
        assert!(
            error("[[fault]]\nkind = \"corrupt\"\nstatus = \"Internal Error\"").contains("kind = \"fail\"")
        );
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = FaultPlan::load("/nonexistent/plan.toml").unwrap_err().to_string();
        assert!(error.starts_with("fault plan /nonexistent/plan.toml: "), "{error}");
    }
}
