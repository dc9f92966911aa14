//! Sanitize (Base 2.0, 5.24).

use warpbell_nvme::command::{SanitizeAction, SanitizeCdw10};
use warpbell_nvme::{AdminOpcode, Status};

use crate::control::Control;
use crate::core::Core;
use crate::engine::{Command, Refused, field};

/// What a controller refuses while a sanitize operation is in progress, or after one failed (Base 2.0, 8.21.1).
const REFUSED: &[AdminOpcode] = &[
    AdminOpcode::FORMAT_NVM,
    AdminOpcode::NS_MANAGEMENT,
    AdminOpcode::NS_ATTACHMENT,
    AdminOpcode::FIRMWARE_COMMIT,
    AdminOpcode::FIRMWARE_IMAGE_DOWNLOAD,
];

impl Core {
    /// Whether a sanitize operation lets this command through.
    pub(super) fn check_sanitize(&self, opcode: AdminOpcode) -> Result<(), Refused> {
        if !REFUSED.contains(&opcode) {
            return Ok(());
        }
        self.subsystem.state().sanitize.refusal().map_or(Ok(()), Err)
    }

    pub(super) fn sanitize(&self, control: &mut Control, command: Command<'_>) -> Result<(), Refused> {
        let sqe = command.sqe;
        let fields = SanitizeCdw10::from_bits(sqe.cdw10);
        let reserved = [("NSID", sqe.nsid), ("dword 10 bits 31:10", sqe.cdw10 >> 10)];
        control.engine.check_reserved(command, &reserved);
        control.engine.check_reserved(command, &super::dwords_12_to_15(sqe));
        if !SanitizeAction::KNOWN.contains(&fields.sanact()) {
            return Err(control.engine.blame(field::CDW10, Status::INVALID_FIELD));
        }
        self.subsystem.sanitize(fields, sqe.cdw11)
    }
}
