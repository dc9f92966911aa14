//! What the GPU-resident controller is asked to be: the options behind `resident:`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use warpbell_kernels::abi;

use crate::size::parse_duration;

/// How clients wait for their commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all: a warp keeps its share of `--iodepth` outstanding.
    None,
    /// Each thread for its own command, the threads of a warp together.
    Each,
    /// Each thread for itself; shared queues only.
    Thread,
}

impl Wait {
    /// `ResidentArgs::mode`.
    pub fn mode(self) -> u32 {
        match self {
            Wait::None => abi::RESIDENT_THROUGHPUT,
            Wait::Each => abi::RESIDENT_EACH,
            Wait::Thread => abi::RESIDENT_THREAD,
        }
    }
}

/// A controller among the blocks of the launch that uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResidentSpec {
    /// From the fetch of a command to its completion, at least.
    pub delay: Duration,
    /// Warps that are the controller; `None`: as the target suggests.
    pub controllers: Option<u32>,
    /// Warps of a block; `None`: as the target suggests.
    pub block: Option<u32>,
    /// Commands that a warp submits at once, at most.
    pub batch: u32,
    /// How clients wait.
    pub wait: Wait,
    /// Whether entries, identifiers and answers are followed up one by one: slower.
    pub follow: bool,
}

impl Default for ResidentSpec {
    /// Answers at once; clients keep commands outstanding, a warp's worth at a time.
    fn default() -> ResidentSpec {
        ResidentSpec {
            delay: Duration::ZERO,
            controllers: None,
            block: None,
            batch: 32,
            wait: Wait::None,
            follow: false,
        }
    }
}

/// An option that `resident:` does not have, or a value that it does not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("resident:{option}: expected {expected}")]
pub struct ResidentSpecError {
    option: String,
    expected: &'static str,
}

const OPTIONS: &str = "some of delay=TIME, controllers=WARPS, block=WARPS, batch=COMMANDS, wait=none|each|thread, \
                       check=rules|all, separated by commas";

impl FromStr for ResidentSpec {
    type Err = ResidentSpecError;

    fn from_str(text: &str) -> Result<ResidentSpec, ResidentSpecError> {
        text.split(',')
            .filter(|option| !option.is_empty())
            .try_fold(ResidentSpec::default(), ResidentSpec::with)
    }
}

impl ResidentSpec {
    fn with(mut self, option: &str) -> Result<ResidentSpec, ResidentSpecError> {
        let error = |expected| ResidentSpecError { option: option.to_owned(), expected };
        let (key, value) = option.split_once('=').ok_or_else(|| error(OPTIONS))?;
        let count = |from: u32, to: u32, expected| {
            let value = value.parse().ok().filter(|value| (from..=to).contains(value));
            value.ok_or_else(|| error(expected))
        };
        match key {
            "delay" => {
                // A command that takes an hour is a mistake, and its deadline is shorter anyway.
                let delay = parse_duration(value).ok().filter(|delay| *delay <= Duration::from_secs(3600));
                self.delay = delay.ok_or_else(|| error("a time up to 1h, such as 0, 500ns or 10us"))?;
            }
            "controllers" => {
                self.controllers = Some(count(1, 1 << 16, "a number of warps from 1 to 65536")?);
            }
            "block" => self.block = Some(count(1, MOST_WARPS, "a number of warps from 1 to 8")?),
            "batch" => self.batch = count(1, abi::WARP_LANES, "a number of commands from 1 to 32")?,
            "wait" => {
                self.wait = match value {
                    "none" => Wait::None,
                    "each" => Wait::Each,
                    "thread" => Wait::Thread,
                    _ => return Err(error("one of none, each, thread")),
                }
            }
            "check" => {
                self.follow = match value {
                    "rules" => false,
                    "all" => true,
                    _ => return Err(error("one of rules, all")),
                }
            }
            _ => return Err(error(OPTIONS)),
        }
        Ok(self)
    }
}

/// Warps of the largest block of our kernels.
pub(super) const MOST_WARPS: u32 = abi::BLOCK_THREADS_MAX / abi::WARP_LANES;

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Wait::None => "none",
            Wait::Each => "each",
            Wait::Thread => "thread",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let text = "delay=2us,controllers=3,block=4,batch=8,wait=each,check=all";
        let spec: ResidentSpec = text.parse().unwrap();
        let expected = ResidentSpec {
            delay: Duration::from_micros(2),
            controllers: Some(3),
            block: Some(4),
            batch: 8,
            wait: Wait::Each,
            follow: true,
        };
        assert_eq!(spec, expected);
        assert_eq!("".parse::<ResidentSpec>(), Ok(ResidentSpec::default()));
        assert_eq!("delay=0".parse::<ResidentSpec>(), Ok(ResidentSpec::default()));
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (option, reason) in [
            ("delay=x", "a time"),
            ("delay=2h", "a time"),
            ("batch=33", "from 1 to 32"),
            ("batch=0", "from 1 to 32"),
            ("block=9", "from 1 to 8"),
            ("controllers=0", "from 1"),
            ("wait=long", "none, each, thread"),
            ("check=no", "rules, all"),
            ("size=1g", "delay=TIME"),
            ("fast", "delay=TIME"),
        ] {
            let text = option.parse::<ResidentSpec>().unwrap_err().to_string();
            assert!(text.starts_with(&format!("resident:{option}: ")) && text.contains(reason), "{text}");
        }
    }
}
