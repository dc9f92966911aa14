//! Format NVM (NVM command set 1.0, 4.1.2).

use warpbell_nvme::Status;
use warpbell_nvme::command::{FormatNvmCdw10, NSID_ALL, SecureErase};

use super::identify::BLOCK_SHIFTS;
use crate::control::Control;
use crate::core::Core;
use crate::engine::{Command, Refused, field};

impl Core {
    /// Whatever kind of erase is asked for, the user data is gone and the namespace reads as zero.
    pub(super) fn format_nvm(&self, control: &mut Control, command: Command<'_>) -> Result<(), Refused> {
        let sqe = command.sqe;
        let fields = FormatNvmCdw10::from_bits(sqe.cdw10);
        let reserved = [("dword 10 bits 31:14", sqe.cdw10 >> 14), ("dword 11", sqe.cdw11)];
        control.engine.check_reserved(command, &reserved);
        control.engine.check_reserved(command, &super::dwords_12_to_15(sqe));
        let erases = [SecureErase::NONE, SecureErase::USER_DATA, SecureErase::CRYPTOGRAPHIC];
        if !erases.contains(&fields.ses()) {
            return Err(control.engine.blame(field::CDW10 + 1, Status::INVALID_FIELD));
        }
        if fields.pi() != 0 {
            // There is no metadata, so no protection information either.
            return Err(control.engine.blame(field::CDW10, Status::INVALID_FORMAT));
        }
        let Some(shift) = BLOCK_SHIFTS.get(usize::from(fields.lba_format())) else {
            return Err(control.engine.blame(field::CDW10, Status::INVALID_FORMAT));
        };
        let one = (sqe.nsid != NSID_ALL).then_some(sqe.nsid);
        control.engine.about(field::NSID, || self.subsystem.format(one, *shift, self.cntlid))
    }
}
