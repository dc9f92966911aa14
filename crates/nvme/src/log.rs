//! Log pages (Base 2.0 section 5.16).

use crate::open_enum::{dword, open_enum};

mod page;

pub use page::{
    ChangedNamespaceList, CommandEffects, CommandsSupportedAndEffects, CriticalWarning, ErrorLogEntry,
    FirmwareSlotInfo, FirmwareSlotLog, ParameterErrorLocation, SanitizeStatus, SanitizeStatusLog, SmartLog,
};

open_enum! {
    /// Log page identifiers.
    pub enum LogPageId: u8 {
        SUPPORTED_LOG_PAGES = 0x00, "Supported Log Pages";
        ERROR_INFORMATION = 0x01, "Error Information";
        SMART = 0x02, "SMART / Health Information";
        FIRMWARE_SLOT = 0x03, "Firmware Slot Information";
        CHANGED_NAMESPACE_LIST = 0x04, "Changed Namespace List";
        COMMAND_EFFECTS = 0x05, "Commands Supported and Effects";
        DEVICE_SELF_TEST = 0x06, "Device Self-test";
        TELEMETRY_HOST = 0x07, "Telemetry Host-Initiated";
        TELEMETRY_CONTROLLER = 0x08, "Telemetry Controller-Initiated";
        ENDURANCE_GROUP = 0x09, "Endurance Group Information";
        PREDICTABLE_LATENCY_PER_NVM_SET = 0x0a, "Predictable Latency Per NVM Set";
        PREDICTABLE_LATENCY_EVENT_AGGREGATE = 0x0b, "Predictable Latency Event Aggregate";
        ASYMMETRIC_NAMESPACE_ACCESS = 0x0c, "Asymmetric Namespace Access";
        PERSISTENT_EVENT = 0x0d, "Persistent Event Log";
        LBA_STATUS = 0x0e, "LBA Status Information";
        ENDURANCE_GROUP_EVENT_AGGREGATE = 0x0f, "Endurance Group Event Aggregate";
        MEDIA_UNIT_STATUS = 0x10, "Media Unit Status";
        SUPPORTED_CAPACITY_CONFIGURATIONS = 0x11, "Supported Capacity Configuration List";
        FEATURE_EFFECTS = 0x12, "Feature Identifiers Supported and Effects";
        NVME_MI_EFFECTS = 0x13, "NVMe-MI Commands Supported and Effects";
        LOCKDOWN = 0x14, "Command and Feature Lockdown";
        BOOT_PARTITION = 0x15, "Boot Partition";
        ROTATIONAL_MEDIA = 0x16, "Rotational Media Information";
        DISCOVERY = 0x70, "Discovery";
        RESERVATION_NOTIFICATION = 0x80, "Reservation Notification";
        SANITIZE_STATUS = 0x81, "Sanitize Status";
        CHANGED_ZONE_LIST = 0xbf, "Changed Zone List";
    }
}

dword! {
    /// CDW10 of Get Log Page.
    pub struct GetLogPageCdw10: u32 {
        /// 7:0, Log Page Identifier.
        #[bits(8)]
        pub lid: LogPageId,
        /// 14:8, Log Specific Field.
        #[bits(7)]
        pub lsp: u8,
        /// 15, Retain Asynchronous Event: reading the page does not re-arm its event.
        pub rae: bool,
        /// 31:16, Number of Dwords, zero-based, lower half.
        pub numdl_z: u16,
    }
}

dword! {
    /// CDW11 of Get Log Page.
    pub struct GetLogPageCdw11: u32 {
        /// 15:0, Number of Dwords, zero-based, upper half.
        pub numdu_z: u16,
        /// 31:16, Log Specific Identifier.
        pub lsi: u16,
    }
}

dword! {
    /// CDW12 of Get Log Page.
    pub struct GetLogPageCdw12: u32 {
        /// 31:0, Log Page Offset, lower half: in bytes and dword aligned, or an index if OT is set.
        pub lpol: u32,
    }
}

dword! {
    /// CDW13 of Get Log Page.
    pub struct GetLogPageCdw13: u32 {
        /// 31:0, Log Page Offset, upper half.
        pub lpou: u32,
    }
}

dword! {
    /// CDW14 of Get Log Page.
    pub struct GetLogPageCdw14: u32 {
        /// 6:0, UUID Index.
        #[bits(7)]
        pub uuid_index: u8,
        __: u16,
        /// 23, Offset Type: the offset is an index into a list of structures.
        pub ot: bool,
        /// 31:24, Command Set Identifier.
        #[bits(8)]
        pub csi: crate::identify::Csi,
    }
}

/// The whole zero-based dword count of Get Log Page.
pub const fn log_page_numd_z(cdw10: GetLogPageCdw10, cdw11: GetLogPageCdw11) -> u32 {
    cdw10.numdl_z() as u32 | (cdw11.numdu_z() as u32) << 16
}

/// Bytes that Get Log Page transfers.
pub const fn log_page_bytes(cdw10: GetLogPageCdw10, cdw11: GetLogPageCdw11) -> u64 {
    (log_page_numd_z(cdw10, cdw11) as u64 + 1) * 4
}

/// The whole offset of Get Log Page.
pub const fn log_page_offset(cdw12: GetLogPageCdw12, cdw13: GetLogPageCdw13) -> u64 {
    cdw12.lpol() as u64 | (cdw13.lpou() as u64) << 32
}
