//! Bit fields of Identify Controller.

use crate::open_enum::{dword, open_enum};

open_enum! {
    /// Controller Type.
    pub enum ControllerType: u8 {
        NOT_REPORTED = 0x0, "Not reported";
        IO = 0x1, "I/O controller";
        DISCOVERY = 0x2, "Discovery controller";
        ADMINISTRATIVE = 0x3, "Administrative controller";
    }
}

dword! {
    /// Controller Multi-Path I/O and Namespace Sharing Capabilities.
    pub struct Cmic: u8 {
        /// 0, the subsystem may have several ports.
        pub multi_port: bool,
        /// 1, the subsystem may have several controllers.
        pub multi_controller: bool,
        /// 2, the controller is an SR-IOV virtual function.
        pub sr_iov_vf: bool,
        /// 3, Asymmetric Namespace Access Reporting.
        pub ana: bool,
        #[bits(4)]
        __: u8,
    }
}

dword! {
    /// Optional Asynchronous Events Supported; the same bits as in Asynchronous Event Configuration.
    pub struct Oaes: u32 {
        __: u8,
        /// 8, Namespace Attribute Notices.
        pub namespace_attribute: bool,
        /// 9, Firmware Activation Notices.
        pub firmware_activation: bool,
        #[bits(1)]
        __: u8,
        /// 11, Asymmetric Namespace Access Change Notices.
        pub ana_change: bool,
        /// 12, Predictable Latency Event Aggregate Log Change Notices.
        pub predictable_latency: bool,
        /// 13, LBA Status Information Alert Notices.
        pub lba_status: bool,
        /// 14, Endurance Group Event Aggregate Log Change Notices.
        pub endurance_group: bool,
        /// 15, Normal NVM Subsystem Shutdown.
        pub subsystem_shutdown: bool,
        #[bits(11)]
        __: u16,
        /// 27, Zone Descriptor Changed Notices.
        pub zone_descriptor: bool,
        #[bits(3)]
        __: u8,
        /// 31, Discovery Log Page Change Notices.
        pub discovery_log: bool,
    }
}

dword! {
    /// Controller Attributes.
    pub struct Ctratt: u32 {
        /// 0, Host Identifier of 128 bits.
        pub hids: bool,
        /// 1, Non-Operational Power State Permissive Mode.
        pub nopspm: bool,
        /// 2, NVM Sets.
        pub nsets: bool,
        /// 3, Read Recovery Levels.
        pub rrlvls: bool,
        /// 4, Endurance Groups.
        pub egs: bool,
        /// 5, Predictable Latency Mode.
        pub plm: bool,
        /// 6, Traffic Based Keep Alive Support.
        pub tbkas: bool,
        /// 7, Namespace Granularity.
        pub ng: bool,
        /// 8, SQ Associations.
        pub sqa: bool,
        /// 9, UUID List.
        pub ulist: bool,
        /// 10, Multi-Domain Subsystem.
        pub mds: bool,
        /// 11, Fixed Capacity Management.
        pub fcm: bool,
        /// 12, Variable Capacity Management.
        pub vcm: bool,
        /// 13, Delete Endurance Group.
        pub deg: bool,
        /// 14, Delete NVM Set.
        pub dnvms: bool,
        /// 15, Extended LBA Formats.
        pub elbas: bool,
        __: u16,
    }
}

dword! {
    /// Optional Admin Command Support.
    pub struct Oacs: u16 {
        /// 0, Security Send and Security Receive.
        pub security: bool,
        /// 1, Format NVM.
        pub format_nvm: bool,
        /// 2, Firmware Commit and Firmware Image Download.
        pub firmware: bool,
        /// 3, Namespace Management and Namespace Attachment.
        pub ns_management: bool,
        /// 4, Device Self-test.
        pub self_test: bool,
        /// 5, Directives.
        pub directives: bool,
        /// 6, NVMe-MI Send and NVMe-MI Receive.
        pub nvme_mi: bool,
        /// 7, Virtualization Management.
        pub virtualization: bool,
        /// 8, Doorbell Buffer Config.
        pub dbbuf: bool,
        /// 9, Get LBA Status.
        pub lba_status: bool,
        /// 10, Command and Feature Lockdown.
        pub lockdown: bool,
        #[bits(5)]
        __: u8,
    }
}

dword! {
    /// Firmware Updates.
    pub struct Frmw: u8 {
        /// 0, the first slot is read only.
        pub slot1_read_only: bool,
        /// 3:1, Number of Firmware Slots, 1 to 7.
        #[bits(3)]
        pub slots: u8,
        /// 4, Firmware Activation Without Reset.
        pub activation_without_reset: bool,
        /// 5, Support Multiple Update Detection.
        pub smud: bool,
        #[bits(2)]
        __: u8,
    }
}

dword! {
    /// Log Page Attributes.
    pub struct Lpa: u8 {
        /// 0, SMART / Health Information per namespace.
        pub smart_per_namespace: bool,
        /// 1, Commands Supported and Effects log page.
        pub command_effects: bool,
        /// 2, Extended data for Get Log Page: NUMDU and the offset count.
        pub extended_data: bool,
        /// 3, Telemetry log pages.
        pub telemetry: bool,
        /// 4, Persistent Event log page.
        pub persistent_event: bool,
        /// 5, Supported Log Pages and what else lists commands and features.
        pub supported_pages: bool,
        /// 6, Telemetry data area 4.
        pub telemetry_area_4: bool,
        #[bits(1)]
        __: u8,
    }
}

dword! {
    /// Sanitize Capabilities.
    pub struct Sanicap: u32 {
        /// 0, Crypto Erase Support.
        pub ces: bool,
        /// 1, Block Erase Support.
        pub bes: bool,
        /// 2, Overwrite Support.
        pub ows: bool,
        #[bits(26)]
        __: u32,
        /// 29, No-Deallocate Inhibited.
        pub ndi: bool,
        /// 31:30, No-Deallocate Modifies Media After Sanitize.
        #[bits(2)]
        pub nodmmas: u8,
    }
}

dword! {
    /// Submission or Completion Queue Entry Size.
    pub struct EntrySizes: u8 {
        /// 3:0, required (minimum) size, `2^n` bytes.
        #[bits(4)]
        pub min: u8,
        /// 7:4, maximum size, `2^n` bytes.
        #[bits(4)]
        pub max: u8,
    }
}

dword! {
    /// Optional NVM Command Support.
    pub struct Oncs: u16 {
        /// 0, Compare.
        pub compare: bool,
        /// 1, Write Uncorrectable.
        pub write_uncorrectable: bool,
        /// 2, Dataset Management.
        pub dataset_management: bool,
        /// 3, Write Zeroes.
        pub write_zeroes: bool,
        /// 4, the Save field of Set Features and the Select field of Get Features.
        pub save_select: bool,
        /// 5, Reservations.
        pub reservations: bool,
        /// 6, Timestamp.
        pub timestamp: bool,
        /// 7, Verify.
        pub verify: bool,
        /// 8, Copy.
        pub copy: bool,
        #[bits(7)]
        __: u8,
    }
}

dword! {
    /// Format NVM Attributes.
    pub struct Fna: u8 {
        /// 0, a format applies to all namespaces.
        pub format_all: bool,
        /// 1, a secure erase applies to all namespaces.
        pub erase_all: bool,
        /// 2, Cryptographic Erase Supported.
        pub crypto_erase: bool,
        /// 3, the broadcast NSID is not supported.
        pub no_broadcast: bool,
        #[bits(4)]
        __: u8,
    }
}

dword! {
    /// Volatile Write Cache.
    pub struct Vwc: u8 {
        /// 0, present.
        pub present: bool,
        /// 2:1, Flush with the broadcast NSID: 0 not reported, 2 not supported, 3 supported.
        #[bits(2)]
        pub flush_all: u8,
        #[bits(5)]
        __: u8,
    }
}

dword! {
    /// SGL Support.
    pub struct Sgls: u32 {
        /// 1:0, whether the NVM command set takes SGLs.
        #[bits(2)]
        pub support: SglSupport,
        /// 2, Keyed SGL Data Block.
        pub keyed: bool,
        #[bits(5)]
        __: u8,
        /// 15:8, SGL Descriptor Threshold: the recommended maximum of descriptors; 0 means not reported.
        pub sdt: u8,
        /// 16, SGL Bit Bucket.
        pub bit_bucket: bool,
        /// 17, byte aligned contiguous metadata buffer.
        pub metadata_byte_aligned: bool,
        /// 18, an SGL may be longer than the data.
        pub longer_than_data: bool,
        /// 19, MPTR may point at an SGL descriptor.
        pub mptr_sgl: bool,
        /// 20, the address of a descriptor may be an offset.
        pub address_offset: bool,
        /// 21, Transport SGL Data Block.
        pub transport: bool,
        #[bits(10)]
        __: u16,
    }
}

open_enum! {
    /// Values of [`Sgls::support`].
    pub enum SglSupport: u8 {
        NONE = 0b00, "Not supported";
        ANY_ALIGNMENT = 0b01, "Supported, no alignment or granularity requirement";
        DWORD = 0b10, "Supported, dword alignment and granularity";
    }
}
