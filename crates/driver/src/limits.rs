//! How large commands may be that move no data by MDTS.

use warpbell_nvme::identify::{Cns, IdentifyController, IdentifyNvmController};
use warpbell_nvme::register::Vs;

use crate::DriverError;
use crate::core::Core;

/// What a controller says of the size of Write Zeroes and Dataset Management. `None`: nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandLimits {
    /// Bytes that one Write Zeroes writes at most (WZSL).
    pub zeroes_bytes: Option<u64>,
    /// Ranges of one Dataset Management at most (DMRL).
    pub ranges: Option<u32>,
    /// Logical blocks of one range at most (DMRSL).
    pub range_blocks: Option<u32>,
    /// Logical blocks of all ranges of one command at most (DMSL).
    pub ranges_blocks: Option<u64>,
}

impl CommandLimits {
    /// Logical blocks that a command with one range deallocates at most.
    pub fn deallocate_blocks(&self) -> u32 {
        let range = self.range_blocks.unwrap_or(u32::MAX);
        self.ranges_blocks.map_or(range, |all| range.min(u32::try_from(all).unwrap_or(u32::MAX)))
    }

    fn of(data: &IdentifyNvmController, min_page_size: u64) -> CommandLimits {
        let zeroes = (1..64).contains(&data.wzsl).then(|| min_page_size.checked_mul(1 << data.wzsl));
        CommandLimits {
            zeroes_bytes: zeroes.flatten(),
            ranges: (data.dmrl != 0).then_some(data.dmrl.into()),
            range_blocks: (data.dmrsl != 0).then_some(data.dmrsl),
            ranges_blocks: (data.dmsl != 0).then_some(data.dmsl),
        }
    }
}

impl Core {
    /// Asks a controller that may have limits and has such commands: the structure came with version 2.0, but SSDs of
    /// earlier versions have it, too (TP 4040). Of version 1.1 the field that asks has two bits, which would ask for
    /// something else.
    pub(crate) fn command_limits(
        &self,
        identify: &IdentifyController,
        version: Vs,
    ) -> Result<CommandLimits, DriverError> {
        let has = identify.oncs.write_zeroes() || identify.oncs.dataset_management();
        if !version.at_least(1, 2) || !has {
            return Ok(CommandLimits::default());
        }
        match self.identify::<IdentifyNvmController>(Cns::CSI_CONTROLLER, 0) {
            Ok(data) => Ok(CommandLimits::of(&data, self.cap.min_page_size())),
            // It answered, and has no such structure. It may have noted the command in its error log.
            Err(error) if error.status().is_some() => {
                tracing::debug!(device = %self.name(), %error, "no limits of Write Zeroes and deallocation");
                Ok(CommandLimits::default())
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_no_limit_and_sizes_are_of_the_smallest_page() {
        let mut data = IdentifyNvmController::zeroed();
        assert_eq!(CommandLimits::of(&data, 4096), CommandLimits::default());
        assert_eq!(CommandLimits::default().deallocate_blocks(), u32::MAX);
        (data.wzsl, data.dmrl, data.dmrsl, data.dmsl) = (3, 7, 100, 1000);
        let limits = CommandLimits::of(&data, 8192);
        assert_eq!((limits.zeroes_bytes, limits.ranges), (Some(65536), Some(7)));
        assert_eq!((limits.range_blocks, limits.ranges_blocks), (Some(100), Some(1000)));
        assert_eq!(limits.deallocate_blocks(), 100);
        (data.wzsl, data.dmrsl, data.dmsl) = (63, 0, 1 << 40);
        let limits = CommandLimits::of(&data, 4096);
        assert_eq!((limits.zeroes_bytes, limits.deallocate_blocks()), (None, u32::MAX));
    }
}
