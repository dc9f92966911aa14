//! What a status means, in one sentence for a person.

use super::{Status, StatusCodeType};

impl Status {
    /// One sentence that explains the status; for one without its own, the sentence of its type.
    pub const fn text(self) -> &'static str {
        let own = match self.sct() {
            StatusCodeType::GENERIC => generic(self.sc()),
            StatusCodeType::COMMAND_SPECIFIC => command_specific(self.sc()),
            StatusCodeType::MEDIA => media(self.sc()),
            StatusCodeType::PATH => path(self.sc()),
            _ => None,
        };
        match own {
            Some(text) => text,
            None => of_type(self.sct()),
        }
    }
}

const fn of_type(sct: StatusCodeType) -> &'static str {
    match sct {
        StatusCodeType::GENERIC => "The command failed for a reason common to all commands.",
        StatusCodeType::COMMAND_SPECIFIC => "The command failed for a reason particular to its opcode.",
        StatusCodeType::MEDIA => "The medium or the integrity of the data failed.",
        StatusCodeType::PATH => "The path to the namespace failed, not the namespace.",
        StatusCodeType::VENDOR_SPECIFIC => "Only the vendor's documentation explains this status.",
        _ => "The specification reserves this status type.",
    }
}

const fn generic(sc: u8) -> Option<&'static str> {
    Some(match sc {
        0x00 => "The command succeeded.",
        0x01 => "The controller does not support this opcode.",
        0x02 => "A field of the command has a reserved or unsupported value.",
        0x03 => "Another outstanding command of the same submission queue has this command identifier.",
        0x04 => "The controller could not move data or metadata to or from host memory.",
        0x05 => "The controller aborted the command because power is about to fail.",
        0x06 => "The controller failed internally.",
        0x07 => "An Abort command aborted this command.",
        0x08 => "The submission queue was deleted while the command was outstanding.",
        0x09 => "The other command of the fused pair failed.",
        0x0a => "The other command of the fused pair is missing or not adjacent.",
        0x0b => "The namespace does not exist, is not attached, or its format is not usable.",
        0x0c => "The command came in an order that the specification forbids.",
        0x0d => "An SGL segment descriptor is malformed or in the wrong place.",
        0x0e => "An SGL segment has a length that is not a whole number of descriptors, or has none.",
        0x0f => "The SGL describes less data than the command transfers, or more where that is not allowed.",
        0x10 => {
            "The SGL describes less metadata than the command transfers, or more where that is not allowed."
        }
        0x11 => "The controller does not support this SGL descriptor type.",
        0x12 => {
            "The command mixes Controller Memory Buffer and host memory in a way this controller rejects."
        }
        0x13 => "A PRP entry has an offset where none is allowed, or one that is not dword aligned.",
        0x14 => "The write is longer than the atomic write unit while that limit is in force.",
        0x15 => "The host has not the rights to do this.",
        0x16 => "The offset in an SGL descriptor is not valid.",
        0x18 => "Hosts disagree on whether identifiers have 64 or 128 bits.",
        0x19 => "The Keep Alive timer expired.",
        0x1a => "The controller does not take this Keep Alive timeout.",
        0x1b => "A Reservation Acquire preempted and aborted this command.",
        0x1c => "The last sanitize operation failed and has not been recovered from.",
        0x1d => "A sanitize operation is in progress.",
        0x1e => {
            "The address or length of an SGL data block has a finer granularity than the controller takes."
        }
        0x1f => "A queue in the Controller Memory Buffer does not take this command.",
        0x20 => "The namespace is write protected.",
        0x21 => "The controller interrupted the command and could not complete it; it may succeed later.",
        0x22 => "The transport failed for a moment; the command may succeed later.",
        0x23 => "A lockdown prohibits this command.",
        0x24 => "The command needs the medium, which is not ready yet.",
        0x80 => "The command reaches beyond the last logical block of the namespace.",
        0x81 => "The namespace has no capacity left for this write.",
        0x82 => "The namespace is not ready for commands yet.",
        0x83 => "Another host holds a reservation that conflicts with the command.",
        0x84 => "A Format NVM operation is in progress on the namespace.",
        _ => return None,
    })
}

const fn command_specific(sc: u8) -> Option<&'static str> {
    Some(match sc {
        0x00 => "The completion queue does not exist.",
        0x01 => "The queue identifier is zero, in use, unknown, or above the number allocated.",
        0x02 => "The queue size is zero or above what CAP.MQES allows.",
        0x03 => "More Abort commands are outstanding than the controller takes.",
        0x05 => "More Asynchronous Event Requests are outstanding than the controller takes.",
        0x06 => "The firmware slot does not exist or is read only.",
        0x07 => "The firmware image is invalid or not loaded.",
        0x08 => "The interrupt vector does not exist.",
        0x09 => "The controller does not have this log page, or not with these parameters.",
        0x0a => "The controller does not have this LBA format, or not with these settings.",
        0x0c => "The completion queue still has submission queues that complete into it.",
        0x0d => "The controller cannot save this feature.",
        0x0e => "The controller does not allow this feature to change.",
        0x0f => "The feature belongs to the controller, not to one namespace.",
        0x14 => "Ranges of the command overlap.",
        0x15 => "Not enough capacity is left to create the namespace.",
        0x16 => "No further namespace identifier is available.",
        0x18 => "The namespace is already attached to the controller.",
        0x1a => "The namespace is not attached to the controller.",
        0x1d => "A device self-test is in progress.",
        0x80 => "Attributes of the command conflict with each other.",
        0x81 => "The protection information settings do not fit the format of the namespace.",
        0x82 => "The write touches a range that is read only.",
        0x83 => "The command has more ranges or blocks than the controller takes at once.",
        _ => return None,
    })
}

const fn media(sc: u8) -> Option<&'static str> {
    Some(match sc {
        0x80 => "The medium could not take the data.",
        0x81 => "The medium could not return the data.",
        0x82 => "The guard of the protection information does not match the data.",
        0x83 => "The application tag of the protection information does not match.",
        0x84 => "The reference tag of the protection information does not match.",
        0x85 => "The data on the medium differs from the data of the Compare command.",
        0x86 => "Access to the range is denied for lack of access rights.",
        0x87 => "The read touches a block that was never written or was deallocated.",
        0x88 => "The storage tag of the protection information does not match.",
        _ => return None,
    })
}

const fn path(sc: u8) -> Option<&'static str> {
    Some(match sc {
        0x00 => "The controller's path to the namespace failed internally.",
        0x01 => "The controller lost access to the namespace for good; use another path.",
        0x02 => "The controller cannot reach the namespace now; use another path.",
        0x03 => "The controller's access to the namespace is changing; retry later.",
        0x60 => "The controller detected that the path failed.",
        0x70 => "The host detected that the path failed.",
        0x71 => "The host aborted the command itself.",
        _ => return None,
    })
}
