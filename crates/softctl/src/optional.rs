//! Which optional commands a soft controller has, and how large they may be.

use warpbell_nvme::command::DsmRange;
use warpbell_nvme::identify::{IdentifyNvmController, Oncs};
use warpbell_nvme::{NvmOpcode, Status};

use crate::checker::Rule;
use crate::config::SoftConfigError;
use crate::engine::{Command, Engine, Refused, field, never};
use crate::memory::PAGE;

warpbell_base::options! {
    /// Optional commands of a soft controller: all of them, of any size, unless something else is said.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct OptionalCommands {
        /// Whether Compare is missing.
        pub no_compare: bool,
        /// Whether Write Zeroes is missing.
        pub no_write_zeroes: bool,
        /// Whether Dataset Management is missing.
        pub no_dataset_management: bool,
        /// Whether Identify lacks the data structure with the limits (CNS 06h), as before version 2.0. There are limits
        /// all the same.
        pub no_limits: bool,
        /// WZSL: Write Zeroes is of at most `4096 << wzsl` bytes, 0 to 20; 0: no limit.
        pub wzsl: u8,
        /// DMRL: most ranges of Dataset Management; 0: no limit.
        pub dmrl: u8,
        /// DMRSL: most logical blocks of one range; 0: no limit.
        pub dmrsl: u32,
        /// DMSL: most logical blocks of all ranges of a command; 0: no limit.
        pub dmsl: u64,
    }
}

impl OptionalCommands {
    /// Names the missing ones, joined by `+`.
    pub(crate) fn lack(&mut self, key: &str, value: &str) -> Result<(), SoftConfigError> {
        for word in value.split('+') {
            match word.trim() {
                "compare" => self.no_compare = true,
                "write_zeroes" => self.no_write_zeroes = true,
                "dataset_management" => self.no_dataset_management = true,
                "limits" => self.no_limits = true,
                other => {
                    let limit =
                        "must be some of compare, write_zeroes, dataset_management and limits, joined by +";
                    return Err(SoftConfigError::value(key, other, limit));
                }
            }
        }
        Ok(())
    }

    /// Whether the controller is to have no such command.
    pub(crate) fn lacks(&self, opcode: NvmOpcode) -> bool {
        match opcode {
            NvmOpcode::COMPARE => self.no_compare,
            NvmOpcode::WRITE_ZEROES => self.no_write_zeroes,
            NvmOpcode::DATASET_MANAGEMENT => self.no_dataset_management,
            _ => false,
        }
    }

    /// As Identify Controller says it.
    pub(crate) fn oncs(&self) -> Oncs {
        Oncs::new()
            .with_compare(!self.no_compare)
            .with_dataset_management(!self.no_dataset_management)
            .with_write_zeroes(!self.no_write_zeroes)
            .with_save_select(true)
            .with_verify(true)
    }

    /// The limits, as Identify of the NVM command set says them.
    pub(crate) fn identify(&self) -> Result<IdentifyNvmController, Refused> {
        if self.no_limits {
            return Err(never(Status::INVALID_FIELD));
        }
        let mut data = IdentifyNvmController::zeroed();
        (data.wzsl, data.dmrl, data.dmrsl, data.dmsl) = (self.wzsl, self.dmrl, self.dmrsl, self.dmsl);
        Ok(data)
    }
}

impl Engine {
    /// Refuses to zero more than WZSL allows.
    pub(crate) fn check_zeroes(&self, command: Command<'_>, bytes: u64) -> Result<(), Refused> {
        let limit = match self.limits.optional.wzsl {
            0 => u64::MAX,
            wzsl => PAGE << wzsl,
        };
        if bytes <= limit {
            return Ok(());
        }
        self.violation(Rule::CommandSize, command, format_args!("{bytes} bytes of zeroes, WZSL is {limit}"));
        Err(self.blame(field::CDW12, Status::INVALID_FIELD))
    }

    /// Refuses more ranges than DMRL allows.
    pub(crate) fn check_range_count(&self, command: Command<'_>, count: usize) -> Result<(), Refused> {
        let dmrl = self.limits.optional.dmrl;
        self.check_size(command, "ranges", count as u64, dmrl.into(), "DMRL")
    }

    /// Refuses ranges of more blocks than DMRSL and DMSL allow.
    pub(crate) fn check_ranges(&self, command: Command<'_>, ranges: &[DsmRange]) -> Result<(), Refused> {
        let blocks = || ranges.iter().map(|range| u64::from(range.nlb));
        let (longest, sum) = (blocks().max().unwrap_or(0), blocks().sum());
        let limits = &self.limits.optional;
        self.check_size(command, "blocks of a range", longest, limits.dmrsl.into(), "DMRSL")?;
        self.check_size(command, "blocks of all ranges", sum, limits.dmsl, "DMSL")
    }

    fn check_size(
        &self,
        command: Command<'_>,
        what: &str,
        value: u64,
        limit: u64,
        name: &str,
    ) -> Result<(), Refused> {
        if limit == 0 || value <= limit {
            return Ok(());
        }
        self.violation(Rule::CommandSize, command, format_args!("{value} {what}, {name} is {limit}"));
        Err(self.blame(field::CDW10, Status::COMMAND_SIZE_LIMIT_EXCEEDED))
    }
}

#[cfg(test)]
mod tests {
    use crate::SoftConfig;

    fn error(text: &str) -> String {
        SoftConfig::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn optional_commands_and_their_limits() {
        let config =
            SoftConfig::parse("size=1m,lacks=compare+write_zeroes+limits,wzsl=1,dmrl=2,dmrsl=3,dmsl=4")
                .unwrap();
        let limits = config.optional;
        assert_eq!(
            (limits.no_compare, limits.no_write_zeroes, limits.no_dataset_management, limits.no_limits),
            (true, true, false, true)
        );
        assert_eq!((limits.wzsl, limits.dmrl, limits.dmrsl, limits.dmsl), (1, 2, 3, 4));
        assert!(error("size=1m,lacks=read").contains("lacks=read: must be some of compare, write_zeroes"));
        assert!(error("size=1m,wzsl=21").contains("wzsl=21: must be a number from 0 to 20"));
    }
}
