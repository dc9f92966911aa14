//! Limits of Write Zeroes and Dataset Management, as controllers of different versions say them.

use warpbell_driver::CommandLimits;
use warpbell_nvme::register::Vs;
use warpbell_softctl::OptionalCommands;

use crate::fixture::{config, on_both, open};

fn optional() -> OptionalCommands {
    OptionalCommands::new().wzsl(1).dmrl(2).dmrsl(3).dmsl(4)
}

#[test]
fn limits_of_older_controllers_are_read() {
    for (mjr, mnr, has) in [(1, 1, false), (1, 2, true), (1, 4, true), (2, 0, true)] {
        let config = config().version(Vs::from_parts(mjr, mnr, 0)).optional(optional());
        on_both(&config, |device| {
            let limits = open(device).command_limits();
            let words = (limits.zeroes_bytes, limits.ranges, limits.range_blocks, limits.ranges_blocks);
            let said = (Some(8192), Some(2), Some(3), Some(4));
            assert_eq!(words, if has { said } else { (None, None, None, None) }, "{mjr}.{mnr}");
        });
    }
}

#[test]
fn a_controller_that_does_not_tell_has_no_limits() {
    for minor in [2, 4] {
        let config = config().version(Vs::from_parts(1, minor, 0)).optional(optional().no_limits(true));
        on_both(&config, |device| assert_eq!(open(device).command_limits(), CommandLimits::default()));
    }
}
