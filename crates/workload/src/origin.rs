//! How and where a result was made: without that nobody can make it again.

use std::fmt;
use std::fs::read_to_string;
use std::io::ErrorKind;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// How and where a command measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The command line, word by word.
    pub command: Vec<String>,
    /// The commit that the program was built from, where it was built in a checkout.
    pub commit: Option<String>,
    /// When it began, in UTC, as RFC 3339 writes it.
    pub began: String,
    /// The machine.
    pub machine: Machine,
    /// Files that the command named and that say what is measured: plans of faults, profiles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<InputFile>,
}

/// A file that says what is measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputFile {
    /// As the command named it.
    pub path: PathBuf,
    /// Of its content, when the command began.
    pub crc32c: u32,
}

impl InputFile {
    /// The file as it is now. It is read again for each opening of a device, which a pipe is not.
    pub fn read(path: PathBuf) -> std::io::Result<InputFile> {
        if !path.metadata()?.is_file() {
            return Err(std::io::Error::new(
                ErrorKind::InvalidInput,
                "no regular file, and it is read several times",
            ));
        }
        let crc32c = crc32c::crc32c(&std::fs::read(&path)?);
        Ok(InputFile { path, crc32c })
    }
}

impl fmt::Display for InputFile {
    fn fmt(&self, form: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(form, "{} ({:08x})", self.path.display(), self.crc32c)
    }
}

/// The machine, as far as it tells. What it does not is null.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Model of its processors.
    pub cpu: Option<String>,
    /// Processors that this process may use.
    pub cores: usize,
    /// Kernel: name, release and architecture.
    pub kernel: String,
    /// How the kernel chooses the processors' frequency.
    pub governor: Option<String>,
    /// What the kernel reads the time from.
    pub clock_source: Option<String>,
}

impl Machine {
    /// This one.
    pub fn this() -> Machine {
        let system = rustix::system::uname();
        let words = [system.sysname(), system.release(), system.machine()];
        let first = |path: &str| Some(read_to_string(path).ok()?.trim().to_owned());
        Machine {
            cpu: read_to_string("/proc/cpuinfo").ok().and_then(|text| model(&text)),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: words.map(|word| word.to_string_lossy().into_owned()).join(" "),
            governor: first("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            clock_source: first("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        }
    }
}

/// The first model that the kernel's list of processors names.
fn model(text: &str) -> Option<String> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(key, _)| key.trim() == "model name").map(|(_, value)| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_tells_of_itself() {
        let text = "processor\t: 0\nmodel name\t: A CPU: 9000\nprocessor\t: 1\nmodel name\t: other\n";
        assert_eq!(model(text).as_deref(), Some("A CPU: 9000"));
        assert_eq!(model("Features : fp\n"), None);
        let machine = Machine::this();
        assert!(machine.cores > 0 && machine.kernel.starts_with("Linux "), "{machine:?}");
    }
}
