//! What a look at one thing gave.

use std::fmt;

use serde::Serialize;

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// Kernel, IOMMU, VFIO, limits.
    Platform,
    /// GPUs and SSDs.
    Devices,
    /// The ways between them.
    Path,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Layer::Platform => "Platform",
            Layer::Devices => "Devices",
            Layer::Path => "Path",
        })
    }
}

/// What a finding says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Looked at, and as it should be.
    Ok,
    /// Looked at; it works, but not as well as it could.
    Warn,
    /// Looked at, and something that is needed is missing.
    Missing,
    /// Not looked at; `found` says why.
    NotLookedAt,
    /// Not tried; `found` says why.
    NotTested,
}

impl Status {
    /// Its word at the start of a line.
    pub fn word(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Warn => "warn",
            Status::Missing => "MISSING",
            Status::NotLookedAt | Status::NotTested => "-",
        }
    }
}

/// One line of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is about.
    pub layer: Layer,
    /// The thing that was looked at.
    pub subject: String,
    /// What it says.
    pub status: Status,
    /// What was found.
    pub found: String,
    /// What that means.
    pub means: String,
    /// The command that mends it, or what to do where no command does.
    pub fix: Option<String>,
}

impl Finding {
    /// Without a fix.
    pub fn new(
        layer: Layer,
        status: Status,
        subject: impl Into<String>,
        found: impl Into<String>,
        means: impl Into<String>,
    ) -> Finding {
        let (subject, found, means) = (subject.into(), found.into(), means.into());
        Finding { layer, subject, status, found, means, fix: None }
    }

    /// With one.
    pub fn fix(self, command: impl Into<String>) -> Finding {
        Finding { fix: Some(command.into()), ..self }
    }
}

impl fmt::Display for Finding {
    /// What was found, what it means, and what mends it, a line each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = match self.status {
            Status::NotLookedAt => format!("not looked at: {}", self.found),
            Status::NotTested => format!("not tested: {}", self.found),
            _ => self.found.clone(),
        };
        writeln!(f, " {:<8}{:<21} {found}", self.status.word(), self.subject)?;
        if !self.means.is_empty() {
            writeln!(f, "{:>28}  {}", "means", self.means)?;
        }
        if let Some(fix) = &self.fix {
            writeln!(f, "{:>28}  {fix}", "fix")?;
        }
        Ok(())
    }
}
