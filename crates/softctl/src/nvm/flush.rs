//! Flush.

use warpbell_nvme::command::NSID_ALL;

use super::write_failed;
use crate::engine::{Command, Engine, Refused};
use crate::test_hooks::Defect;

impl Engine {
    /// Makes one namespace durable, or all of them.
    pub(super) fn flush(&mut self, command: Command<'_>) -> Result<(), Refused> {
        let nsid = command.sqe.nsid;
        self.check_unused(command, 0xfffc);
        if nsid != NSID_ALL {
            self.namespace(nsid)?;
        }
        self.judge()?;
        if self.defect == Some(Defect::IdleFlush) {
            return Ok(());
        }
        let all = nsid == NSID_ALL;
        self.namespaces
            .iter()
            .filter(|namespace| namespace.writable && (all || namespace.nsid == nsid))
            .try_for_each(|namespace| namespace.flush().map_err(write_failed))
    }
}
