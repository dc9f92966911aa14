//! Firmware Image Download and Firmware Commit (Base 2.0, 5.11 and 5.12).

use warpbell_nvme::Status;
use warpbell_nvme::command::FirmwareCommitCdw10;

use super::dwords_12_to_15;
use crate::control::Control;
use crate::core::Core;
use crate::engine::{Command, Refused, field};
use crate::transfer::Direction;

/// FWUG: pieces begin at multiples of this, in units of 4 KiB.
pub(super) const GRANULARITY: u8 = 1;

impl Core {
    pub(super) fn download_firmware(
        &self,
        control: &mut Control,
        command: Command<'_>,
    ) -> Result<(), Refused> {
        let sqe = command.sqe;
        control.engine.check_reserved(command, &dwords_12_to_15(sqe));
        let (len, offset) = ((u64::from(sqe.cdw10) + 1) * 4, u64::from(sqe.cdw11) * 4);
        if !offset.is_multiple_of(u64::from(GRANULARITY) << 12) {
            return Err(control.engine.blame(field::CDW11, Status::INVALID_FIELD));
        }
        control.engine.about(field::CDW11, || control.download.admit(offset, len))?;
        control.engine.map_limited(command, len, Direction::FromClient)?;
        let mut piece = vec![0; len as usize];
        control.engine.receive(0, &mut piece)?;
        control.download.take(offset, piece);
        Ok(())
    }

    pub(super) fn commit_firmware(&self, control: &mut Control, command: Command<'_>) -> Result<(), Refused> {
        let sqe = command.sqe;
        let fields = FirmwareCommitCdw10::from_bits(sqe.cdw10);
        let reserved = [("dword 10 bits 31:6", sqe.cdw10 >> 6), ("dword 11", sqe.cdw11)];
        control.engine.check_reserved(command, &reserved);
        control.engine.check_reserved(command, &dwords_12_to_15(sqe));
        let image = control.download.finish()?;
        let commit = || self.subsystem.commit_firmware(fields.fs(), fields.ca(), image);
        control.engine.about(field::CDW10, commit)
    }
}
