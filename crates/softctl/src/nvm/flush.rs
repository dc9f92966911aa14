//! Flush.

use warpbell_nvme::Sqe;
use warpbell_nvme::command::NSID_ALL;

use super::write_failed;
use crate::engine::{Command, Engine, Refused};

/// Command dwords 10 to 15, which Flush reserves.
fn dwords(sqe: &Sqe) -> [(&'static str, u32); 6] {
    [
        ("dword 10", sqe.cdw10),
        ("dword 11", sqe.cdw11),
        ("dword 12", sqe.cdw12),
        ("dword 13", sqe.cdw13),
        ("dword 14", sqe.cdw14),
        ("dword 15", sqe.cdw15),
    ]
}

impl Engine {
    /// Makes one namespace durable, or all of them.
    pub(super) fn flush(&mut self, command: Command<'_>) -> Result<(), Refused> {
        let nsid = command.sqe.nsid;
        self.check_reserved(command, &dwords(command.sqe));
        if nsid != NSID_ALL {
            self.namespace(nsid)?;
        }
        self.judge()?;
        let all = nsid == NSID_ALL;
        self.namespaces
            .iter()
            .filter(|namespace| namespace.writable && (all || namespace.nsid == nsid))
            .try_for_each(|namespace| namespace.flush().map_err(write_failed))
    }
}
