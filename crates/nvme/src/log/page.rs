//! The log pages themselves.

use core::mem::{offset_of, size_of};

use zerocopy::little_endian::{U16, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::completion::StatusField;
use crate::identify::ascii;
use crate::open_enum::{dword, zeroed};

/// An entry of Error Information (01h), 64 bytes; the newest comes first.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct ErrorLogEntry {
    /// Error Count, unique over the controller's life; 0 means that the entry is unused.
    pub error_count: u64,
    /// Submission Queue ID; FFFFh if not of one queue.
    pub sqid: u16,
    /// Command ID; FFFFh if not of one command.
    pub cid: u16,
    /// Status Field with the phase bit of the completion.
    pub status: StatusField,
    /// Parameter Error Location.
    pub parameter_error_location: ParameterErrorLocation,
    /// LBA: the first that failed.
    pub lba: u64,
    /// Namespace.
    pub nsid: u32,
    /// Vendor Specific Information Available: a log page identifier; 0 means none.
    pub vendor_log_page: u8,
    /// Transport Type.
    pub trtype: u8,
    _rsvd30: [u8; 2],
    /// Command Specific Information.
    pub command_specific: u64,
    /// Transport Type Specific Information.
    pub transport_specific: u16,
    _rsvd42: [u8; 22],
}

const _: () = assert!(size_of::<ErrorLogEntry>() == 64);
const _: () = assert!(offset_of!(ErrorLogEntry, status) == 12);
const _: () = assert!(offset_of!(ErrorLogEntry, lba) == 16);
const _: () = assert!(offset_of!(ErrorLogEntry, vendor_log_page) == 28);
const _: () = assert!(offset_of!(ErrorLogEntry, command_specific) == 32);

dword! {
    /// Where in a command the parameter is that an error is about; FFFFh means nowhere in particular.
    pub struct ParameterErrorLocation: u16 {
        /// 7:0, byte of the command.
        pub byte: u8,
        /// 10:8, bit of the byte.
        #[bits(3)]
        pub bit: u8,
        #[bits(5)]
        __: u8,
    }
}

/// SMART / Health Information (02h), 512 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct SmartLog {
    /// Critical Warning.
    pub critical_warning: CriticalWarning,
    /// Composite Temperature, in kelvin.
    pub composite_temperature: U16,
    /// Available Spare, in percent.
    pub available_spare: u8,
    /// Available Spare Threshold, in percent.
    pub available_spare_threshold: u8,
    /// Percentage Used; may exceed 100, and stays at 255.
    pub percentage_used: u8,
    /// Endurance Group Critical Warning Summary.
    pub endurance_group_warning: u8,
    _rsvd7: [u8; 25],
    /// Data Units Read, in 1000 units of 512 bytes, rounded up.
    pub data_units_read: U128,
    /// Data Units Written, in 1000 units of 512 bytes, rounded up.
    pub data_units_written: U128,
    /// Host Read Commands.
    pub host_reads: U128,
    /// Host Write Commands.
    pub host_writes: U128,
    /// Controller Busy Time, in minutes.
    pub busy_minutes: U128,
    /// Power Cycles.
    pub power_cycles: U128,
    /// Power On Hours.
    pub power_on_hours: U128,
    /// Unsafe Shutdowns.
    pub unsafe_shutdowns: U128,
    /// Media and Data Integrity Errors.
    pub media_errors: U128,
    /// Number of Error Information Log Entries over the controller's life.
    pub error_log_entries: U128,
    /// Warning Composite Temperature Time, in minutes.
    pub warning_temperature_minutes: u32,
    /// Critical Composite Temperature Time, in minutes.
    pub critical_temperature_minutes: u32,
    /// Temperature Sensors 1 to 8, in kelvin; 0 means no sensor.
    pub temperature_sensors: [u16; 8],
    /// Thermal Management Temperature 1 Transition Count.
    pub tmt1_transitions: u32,
    /// Thermal Management Temperature 2 Transition Count.
    pub tmt2_transitions: u32,
    /// Total Time For Thermal Management Temperature 1, in seconds.
    pub tmt1_seconds: u32,
    /// Total Time For Thermal Management Temperature 2, in seconds.
    pub tmt2_seconds: u32,
    _rsvd232: [u8; 280],
}

const _: () = assert!(size_of::<SmartLog>() == 512);
const _: () = assert!(offset_of!(SmartLog, composite_temperature) == 1);
const _: () = assert!(offset_of!(SmartLog, data_units_read) == 32);
const _: () = assert!(offset_of!(SmartLog, media_errors) == 160);
const _: () = assert!(offset_of!(SmartLog, warning_temperature_minutes) == 192);
const _: () = assert!(offset_of!(SmartLog, temperature_sensors) == 200);
const _: () = assert!(offset_of!(SmartLog, tmt2_seconds) == 228);

dword! {
    /// Critical Warning of SMART / Health Information.
    pub struct CriticalWarning: u8 {
        /// 0, the available spare is below its threshold.
        pub spare: bool,
        /// 1, a temperature is beyond a threshold.
        pub temperature: bool,
        /// 2, reliability is degraded.
        pub reliability: bool,
        /// 3, the media is read only.
        pub read_only: bool,
        /// 4, the volatile memory backup failed.
        pub backup_failed: bool,
        /// 5, the Persistent Memory Region is read only or unreliable.
        pub pmr: bool,
        #[bits(2)]
        __: u8,
    }
}

/// Firmware Slot Information (03h), 512 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct FirmwareSlotLog {
    /// Active Firmware Info.
    pub afi: FirmwareSlotInfo,
    _rsvd1: [u8; 7],
    /// Firmware Revision for slots 1 to 7, ASCII; zeros mean that the slot is empty.
    pub frs: [[u8; 8]; 7],
    _rsvd64: [u8; 448],
}

const _: () = assert!(size_of::<FirmwareSlotLog>() == 512);
const _: () = assert!(offset_of!(FirmwareSlotLog, frs) == 8);

impl FirmwareSlotLog {
    /// The revision in `slot`, counted from 1, or `None` where there is no such slot or it is empty.
    pub fn revision(&self, slot: u8) -> Option<&str> {
        let revision = ascii(self.frs.get(usize::from(slot).checked_sub(1)?)?);
        (!revision.is_empty()).then_some(revision)
    }
}

dword! {
    /// Active Firmware Info.
    pub struct FirmwareSlotInfo: u8 {
        /// 2:0, the slot of the running image.
        #[bits(3)]
        pub active: u8,
        #[bits(1)]
        __: u8,
        /// 6:4, the slot that the next Controller Level Reset activates; 0 means not reported.
        #[bits(3)]
        pub next: u8,
        #[bits(1)]
        __: u8,
    }
}

/// Changed Namespace List (04h), 4096 bytes.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct ChangedNamespaceList {
    /// Namespace identifiers in increasing order; the first zero ends the list.
    pub nsids: [u32; 1024],
}

const _: () = assert!(size_of::<ChangedNamespaceList>() == 4096);

impl ChangedNamespaceList {
    /// Whether more namespaces changed than the list can name; then it names none.
    pub const fn overflowed(&self) -> bool {
        self.nsids[0] == u32::MAX
    }

    /// The namespaces that changed; none if the list [`overflowed`](Self::overflowed).
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.nsids.iter().copied().take_while(|&nsid| nsid != 0 && nsid != u32::MAX)
    }
}

/// Commands Supported and Effects (05h), 4096 bytes.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct CommandsSupportedAndEffects {
    /// Admin Command Supported, by opcode.
    pub acs: [CommandEffects; 256],
    /// I/O Command Supported, by opcode.
    pub iocs: [CommandEffects; 256],
    _rsvd2048: [u8; 2048],
}

const _: () = assert!(size_of::<CommandsSupportedAndEffects>() == 4096);
const _: () = assert!(offset_of!(CommandsSupportedAndEffects, iocs) == 1024);

dword! {
    /// What a command does besides its purpose.
    pub struct CommandEffects: u32 {
        /// 0, Command Supported.
        pub csupp: bool,
        /// 1, Logical Block Content Change.
        pub lbcc: bool,
        /// 2, Namespace Capability Change.
        pub ncc: bool,
        /// 3, Namespace Inventory Change.
        pub nic: bool,
        /// 4, Controller Capability Change.
        pub ccc: bool,
        #[bits(11)]
        __: u16,
        /// 18:16, Command Submission and Execution: 0 no restriction, 1 one per namespace, 2 one per controller.
        #[bits(3)]
        pub cse: u8,
        /// 19, UUID Selection Supported.
        pub uss: bool,
        /// 31:20, Command Scope, one bit each.
        #[bits(12)]
        pub csp: u16,
    }
}

/// Sanitize Status (81h), 512 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct SanitizeStatusLog {
    /// Sanitize Progress, in 1/65536; FFFFh when none is in progress.
    pub sprog: u16,
    /// Sanitize Status.
    pub sstat: SanitizeStatus,
    /// Sanitize Command Dword 10 of the last operation.
    pub scdw10: u32,
    /// Estimated Time For Overwrite, in seconds; FFFFFFFFh means not reported, here and below.
    pub eto: u32,
    /// Estimated Time For Block Erase, in seconds.
    pub etbe: u32,
    /// Estimated Time For Crypto Erase, in seconds.
    pub etce: u32,
    /// Estimated Time For Overwrite With No-Deallocate, in seconds.
    pub etond: u32,
    /// Estimated Time For Block Erase With No-Deallocate, in seconds.
    pub etbend: u32,
    /// Estimated Time For Crypto Erase With No-Deallocate, in seconds.
    pub etcend: u32,
    _rsvd32: [u8; 480],
}

const _: () = assert!(size_of::<SanitizeStatusLog>() == 512);
const _: () = assert!(offset_of!(SanitizeStatusLog, etcend) == 28);

dword! {
    /// Sanitize Status.
    pub struct SanitizeStatus: u16 {
        /// 2:0, outcome: 0 never, 1 completed, 2 in progress, 3 failed, 4 completed with unexpected deallocation.
        #[bits(3)]
        pub outcome: u8,
        /// 7:3, overwrite passes completed.
        #[bits(5)]
        pub passes: u8,
        /// 8, Global Data Erased.
        pub gde: bool,
        #[bits(7)]
        __: u8,
    }
}

zeroed!(SmartLog, FirmwareSlotLog, ChangedNamespaceList, CommandsSupportedAndEffects, SanitizeStatusLog);
