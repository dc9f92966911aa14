//! Write Zeroes.

use warpbell_nvme::command::ReadWrite;

use super::write_failed;
use crate::copying::Kind;
use crate::engine::{Command, Engine, Refused};

impl Engine {
    pub(super) fn write_zeroes(&mut self, command: Command<'_>) -> Result<(), Refused> {
        let optional = ReadWrite::new().with_fua(true).with_lr(true).with_deac(true).into_bits();
        let extent = self.extent(command, optional)?;
        self.check_writable(&extent)?;
        self.check_zeroes(command, extent.bytes)?;
        self.judge()?;
        let Some(_off) =
            self.keep_engines_off(&self.namespaces[extent.index], extent.offset, extent.bytes, true)
        else {
            return self.begin_job(Kind::Zeroes, extent);
        };
        // Deallocated blocks read as zero here, so both forms of the command are one.
        self.namespaces[extent.index].zero(extent.offset, extent.bytes).map_err(write_failed)?;
        self.settle(command, &extent)
    }
}
