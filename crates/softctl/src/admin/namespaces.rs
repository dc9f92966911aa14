//! Namespace Management and Namespace Attachment (Base 2.0, 5.22 and 5.23).

use std::collections::BTreeSet;

use warpbell_nvme::Status;
use warpbell_nvme::command::{NSID_ALL, NsAttachmentSelect, NsManagementSelect};
use warpbell_nvme::identify::{ControllerList, Csi, IDENTIFY_SIZE, IdentifyNamespace};
use zerocopy::IntoBytes;

use super::dwords_12_to_15;
use super::identify::BLOCK_SHIFTS;
use crate::checker::Rule;
use crate::control::Control;
use crate::core::Core;
use crate::engine::{Command, Refused, field, never};
use crate::subsystem::NewNamespace;
use crate::transfer::Direction;

/// Select, the low bits of dword 10; the rest is reserved.
fn select(control: &Control, command: Command<'_>) -> u8 {
    let sqe = command.sqe;
    control.engine.check_reserved(command, &[("dword 10 bits 31:4", sqe.cdw10 >> 4)]);
    control.engine.check_reserved(command, &dwords_12_to_15(sqe));
    (sqe.cdw10 & 0xf) as u8
}

impl Core {
    /// Returns dword 0: the NSID of a namespace that was created.
    pub(super) fn ns_management(&self, control: &mut Control, command: Command<'_>) -> Result<u32, Refused> {
        let nsid = command.sqe.nsid;
        match NsManagementSelect(select(control, command)) {
            NsManagementSelect::CREATE => self.create_namespace(control, command),
            NsManagementSelect::DELETE => {
                control.engine.check_reserved(command, &[("dword 11", command.sqe.cdw11)]);
                let one = (nsid != NSID_ALL).then_some(nsid);
                control.engine.about(field::NSID, || self.subsystem.delete(one, self.cntlid)).map(|()| 0)
            }
            _ => Err(control.engine.blame(field::CDW10, Status::INVALID_FIELD)),
        }
    }

    fn create_namespace(&self, control: &mut Control, command: Command<'_>) -> Result<u32, Refused> {
        let sqe = command.sqe;
        let reserved = [("NSID", sqe.nsid), ("dword 11 bits 23:0", sqe.cdw11 & 0xff_ffff)];
        control.engine.check_reserved(command, &reserved);
        if Csi((sqe.cdw11 >> 24) as u8) != Csi::NVM {
            return Err(control.engine.blame(field::CDW11 + 3, Status::IO_COMMAND_SET_NOT_SUPPORTED));
        }
        let mut data = IdentifyNamespace::zeroed();
        control.engine.map_data(command, IDENTIFY_SIZE, Direction::FromClient)?;
        control.engine.receive(0, data.as_mut_bytes())?;
        check_unused(control, command, &data);
        let new = new_namespace(&data)?;
        if let Err(wanted) = self.subsystem.state().room_for(new) {
            control.engine.specific.set(u64::try_from(wanted).unwrap_or(u64::MAX));
        }
        self.subsystem.create(new)
    }

    pub(super) fn ns_attachment(&self, control: &mut Control, command: Command<'_>) -> Result<(), Refused> {
        let nsid = command.sqe.nsid;
        control.engine.check_reserved(command, &[("dword 11", command.sqe.cdw11)]);
        let what = NsAttachmentSelect(select(control, command));
        if !matches!(what, NsAttachmentSelect::ATTACH | NsAttachmentSelect::DETACH) {
            return Err(control.engine.blame(field::CDW10, Status::INVALID_FIELD));
        }
        if nsid == NSID_ALL {
            return Err(control.engine.blame(field::NSID, Status::INVALID_FIELD));
        }
        let mut list = ControllerList::default();
        control.engine.map_data(command, IDENTIFY_SIZE, Direction::FromClient)?;
        control.engine.receive(0, list.as_mut_bytes())?;
        let whom = members(&list).ok_or(never(Status::INVALID_CONTROLLER_LIST))?;
        match what {
            NsAttachmentSelect::ATTACH => self.subsystem.attach(nsid, &whom, self.cntlid),
            _ => self.subsystem.detach(nsid, &whom, self.cntlid),
        }
    }
}

/// The identifiers of a list, if it has any, no more than fit, and they increase.
fn members(list: &ControllerList) -> Option<BTreeSet<u16>> {
    let count = usize::from(list.num);
    let identifiers = list.cntlids.get(..count)?;
    let increasing = identifiers.is_sorted_by(|one, next| one < next);
    (count > 0 && increasing).then(|| identifiers.iter().copied().collect())
}

/// What the client may not say about a new namespace should be zero.
fn check_unused(control: &Control, command: Command<'_>, data: &IdentifyNamespace) {
    let mut rest = data.clone();
    (rest.nsze, rest.ncap, rest.flbas, rest.dps, rest.nmic) = Default::default();
    (rest.anagrpid, rest.nvmsetid, rest.endgid) = (0, 0, 0);
    if rest != IdentifyNamespace::zeroed() {
        let what = "data of a namespace to create: fields that the host does not specify";
        control.engine.violation(Rule::ReservedField, command, what);
    }
}

fn new_namespace(data: &IdentifyNamespace) -> Result<NewNamespace, Refused> {
    let format = usize::from(data.flbas.index(BLOCK_SHIFTS.len() as u32));
    let shift = *BLOCK_SHIFTS.get(format).ok_or(never(Status::INVALID_FORMAT))?;
    if data.flbas.extended() || data.dps != 0 {
        // There is no metadata, so no protection information either.
        return Err(never(Status::INVALID_FORMAT));
    }
    if data.nsze == 0 || data.nmic & !1 != 0 || data.nvmsetid != 0 || data.endgid != 0 {
        return Err(never(Status::INVALID_FIELD));
    }
    if data.anagrpid != 0 {
        return Err(never(Status::INVALID_ANA_GROUP_IDENTIFIER));
    }
    if data.ncap != data.nsze {
        return Err(never(Status::THIN_PROVISIONING_NOT_SUPPORTED));
    }
    Ok(NewNamespace { blocks: data.nsze, shift, shared: data.nmic & 1 != 0 })
}
