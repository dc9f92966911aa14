//! Identify Controller.

use core::mem::{offset_of, size_of};

use zerocopy::little_endian::U128;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::controller_bits::{
    Cmic, ControllerType, Ctratt, EntrySizes, Fna, Frmw, Lpa, Oacs, Oaes, Oncs, Sanicap, Sgls, Vwc,
};
use super::power::PowerStateDescriptor;
use super::{IDENTIFY_SIZE, ascii};
use crate::open_enum::zeroed;
use crate::register::Vs;

/// Identify Controller (CNS 01h), 4096 bytes.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct IdentifyController {
    /// PCI Vendor ID.
    pub vid: u16,
    /// PCI Subsystem Vendor ID.
    pub ssvid: u16,
    /// Serial Number, ASCII; see [`serial`](Self::serial).
    pub sn: [u8; 20],
    /// Model Number, ASCII; see [`model`](Self::model).
    pub mn: [u8; 40],
    /// Firmware Revision, ASCII; see [`firmware`](Self::firmware).
    pub fr: [u8; 8],
    /// Recommended Arbitration Burst, `2^n` commands.
    pub rab: u8,
    /// IEEE OUI Identifier, least significant byte first.
    pub ieee: [u8; 3],
    /// Controller Multi-Path I/O and Namespace Sharing Capabilities.
    pub cmic: Cmic,
    /// Maximum Data Transfer Size, `2^n` pages of CAP.MPSMIN; 0 means no limit.
    pub mdts: u8,
    /// Controller ID, unique in the subsystem.
    pub cntlid: u16,
    /// Version; the same as the register.
    pub ver: Vs,
    /// RTD3 Resume Latency, in microseconds; 0 means not reported.
    pub rtd3r: u32,
    /// RTD3 Entry Latency, in microseconds; 0 means not reported.
    pub rtd3e: u32,
    /// Optional Asynchronous Events Supported.
    pub oaes: Oaes,
    /// Controller Attributes.
    pub ctratt: Ctratt,
    /// Read Recovery Levels Supported, one bit each.
    pub rrls: u16,
    _rsvd102: [u8; 9],
    /// Controller Type.
    pub cntrltype: ControllerType,
    /// FRU Globally Unique Identifier, big-endian.
    pub fguid: [u8; 16],
    /// Command Retry Delay Time 1, in 100 ms.
    pub crdt1: u16,
    /// Command Retry Delay Time 2, in 100 ms.
    pub crdt2: u16,
    /// Command Retry Delay Time 3, in 100 ms.
    pub crdt3: u16,
    _rsvd134: [u8; 119],
    /// NVM Subsystem Report: bit 0 storage device, bit 1 enclosure.
    pub nvmsr: u8,
    /// Vital Product Data Write Cycle Information: bit 7 valid, bits 6:0 remaining.
    pub vwci: u8,
    /// Management Endpoint Capabilities: bit 0 SMBus, bit 1 PCIe.
    pub mec: u8,
    /// Optional Admin Command Support.
    pub oacs: Oacs,
    /// Abort Command Limit, zero-based outstanding commands.
    pub acl_z: u8,
    /// Asynchronous Event Request Limit, zero-based outstanding commands.
    pub aerl_z: u8,
    /// Firmware Updates.
    pub frmw: Frmw,
    /// Log Page Attributes.
    pub lpa: Lpa,
    /// Error Log Page Entries, zero-based.
    pub elpe_z: u8,
    /// Number of Power States Support, zero-based.
    pub npss_z: u8,
    /// Admin Vendor Specific Command Configuration: bit 0, the format of figure 88 holds.
    pub avscc: u8,
    /// Autonomous Power State Transition Attributes: bit 0 supported.
    pub apsta: u8,
    /// Warning Composite Temperature Threshold, in kelvin.
    pub wctemp: u16,
    /// Critical Composite Temperature Threshold, in kelvin.
    pub cctemp: u16,
    /// Maximum Time for Firmware Activation, in 100 ms; 0 means not reported.
    pub mtfa: u16,
    /// Host Memory Buffer Preferred Size, in 4 KiB; 0 means not supported.
    pub hmpre: u32,
    /// Host Memory Buffer Minimum Size, in 4 KiB.
    pub hmmin: u32,
    /// Total NVM Capacity, in bytes.
    pub tnvmcap: U128,
    /// Unallocated NVM Capacity, in bytes.
    pub unvmcap: U128,
    /// Replay Protected Memory Block Support.
    pub rpmbs: u32,
    /// Extended Device Self-test Time, in minutes.
    pub edstt: u16,
    /// Device Self-test Options: bit 0, one at a time per subsystem.
    pub dsto: u8,
    /// Firmware Update Granularity, in 4 KiB; 0 not reported, FFh no restriction.
    pub fwug: u8,
    /// Keep Alive Support: granularity in 100 ms; 0 means not supported.
    pub kas: u16,
    /// Host Controlled Thermal Management Attributes: bit 0 supported.
    pub hctma: u16,
    /// Minimum Thermal Management Temperature, in kelvin.
    pub mntmt: u16,
    /// Maximum Thermal Management Temperature, in kelvin.
    pub mxtmt: u16,
    /// Sanitize Capabilities.
    pub sanicap: Sanicap,
    /// Host Memory Buffer Minimum Descriptor Entry Size, in 4 KiB.
    pub hmminds: u32,
    /// Host Memory Maximum Descriptors Entries.
    pub hmmaxd: u16,
    /// NVM Set Identifier Maximum.
    pub nsetidmax: u16,
    /// Endurance Group Identifier Maximum.
    pub endgidmax: u16,
    /// ANA Transition Time, in seconds.
    pub anatt: u8,
    /// Asymmetric Namespace Access Capabilities.
    pub anacap: u8,
    /// ANA Group Identifier Maximum.
    pub anagrpmax: u32,
    /// Number of ANA Group Identifiers.
    pub nanagrpid: u32,
    /// Persistent Event Log Size, in 64 KiB.
    pub pels: u32,
    /// Domain Identifier.
    pub domainid: u16,
    _rsvd358: [u8; 10],
    /// Max Endurance Group Capacity, in bytes.
    pub megcap: U128,
    _rsvd384: [u8; 128],
    /// Submission Queue Entry Size.
    pub sqes: EntrySizes,
    /// Completion Queue Entry Size.
    pub cqes: EntrySizes,
    /// Maximum Outstanding Commands per queue that the controller can process at once; 0 means not reported.
    pub maxcmd: u16,
    /// Number of Namespaces: the largest valid NSID.
    pub nn: u32,
    /// Optional NVM Command Support.
    pub oncs: Oncs,
    /// Fused Operation Support: bit 0 Compare and Write.
    pub fuses: u16,
    /// Format NVM Attributes.
    pub fna: Fna,
    /// Volatile Write Cache.
    pub vwc: Vwc,
    /// Atomic Write Unit Normal, zero-based logical blocks.
    pub awun_z: u16,
    /// Atomic Write Unit Power Fail, zero-based logical blocks.
    pub awupf_z: u16,
    /// I/O Command Set Vendor Specific Command Configuration: bit 0, the format of figure 88 holds.
    pub icsvscc: u8,
    /// Namespace Write Protection Capabilities.
    pub nwpc: u8,
    /// Atomic Compare and Write Unit, zero-based logical blocks.
    pub acwu_z: u16,
    /// Optional Copy Formats Supported, one bit each.
    pub ocfs: u16,
    /// SGL Support.
    pub sgls: Sgls,
    /// Maximum Number of Allowed Namespaces; 0 means NN.
    pub mnan: u32,
    /// Maximum Domain Namespace Attachments.
    pub maxdna: U128,
    /// Maximum I/O Controller Namespace Attachments.
    pub maxcna: u32,
    _rsvd564: [u8; 204],
    /// NVM Subsystem NVMe Qualified Name, UTF-8 ended by NUL; see [`subsystem_nqn`](Self::subsystem_nqn).
    pub subnqn: [u8; 256],
    _rsvd1024: [u8; 768],
    /// I/O Queue Command Capsule Supported Size, in 16 bytes; NVMe over Fabrics.
    pub ioccsz: u32,
    /// I/O Queue Response Capsule Supported Size, in 16 bytes; NVMe over Fabrics.
    pub iorcsz: u32,
    /// In Capsule Data Offset, in 16 bytes; NVMe over Fabrics.
    pub icdoff: u16,
    /// Fabrics Controller Attributes.
    pub fcatt: u8,
    /// Maximum SGL Data Block Descriptors; NVMe over Fabrics.
    pub msdbd: u8,
    /// Optional Fabrics Commands Support.
    pub ofcs: u16,
    _rsvd1806: [u8; 242],
    /// Power State Descriptors; `npss_z + 1` of them are valid.
    pub psd: [PowerStateDescriptor; 32],
    /// Vendor Specific.
    pub vs: [u8; 1024],
}

const _: () = assert!(size_of::<IdentifyController>() == IDENTIFY_SIZE);
const _: () = assert!(offset_of!(IdentifyController, mdts) == 77);
const _: () = assert!(offset_of!(IdentifyController, ver) == 80);
const _: () = assert!(offset_of!(IdentifyController, oaes) == 92);
const _: () = assert!(offset_of!(IdentifyController, cntrltype) == 111);
const _: () = assert!(offset_of!(IdentifyController, crdt1) == 128);
const _: () = assert!(offset_of!(IdentifyController, oacs) == 256);
const _: () = assert!(offset_of!(IdentifyController, aerl_z) == 259);
const _: () = assert!(offset_of!(IdentifyController, lpa) == 261);
const _: () = assert!(offset_of!(IdentifyController, tnvmcap) == 280);
const _: () = assert!(offset_of!(IdentifyController, kas) == 320);
const _: () = assert!(offset_of!(IdentifyController, sanicap) == 328);
const _: () = assert!(offset_of!(IdentifyController, anagrpmax) == 344);
const _: () = assert!(offset_of!(IdentifyController, megcap) == 368);
const _: () = assert!(offset_of!(IdentifyController, sqes) == 512);
const _: () = assert!(offset_of!(IdentifyController, nn) == 516);
const _: () = assert!(offset_of!(IdentifyController, oncs) == 520);
const _: () = assert!(offset_of!(IdentifyController, vwc) == 525);
const _: () = assert!(offset_of!(IdentifyController, awupf_z) == 528);
const _: () = assert!(offset_of!(IdentifyController, sgls) == 536);
const _: () = assert!(offset_of!(IdentifyController, subnqn) == 768);
const _: () = assert!(offset_of!(IdentifyController, ioccsz) == 1792);
const _: () = assert!(offset_of!(IdentifyController, psd) == 2048);
const _: () = assert!(offset_of!(IdentifyController, vs) == 3072);

impl IdentifyController {
    /// Model number without padding.
    pub fn model(&self) -> &str {
        ascii(&self.mn)
    }

    /// Serial number without padding.
    pub fn serial(&self) -> &str {
        ascii(&self.sn)
    }

    /// Firmware revision without padding.
    pub fn firmware(&self) -> &str {
        ascii(&self.fr)
    }

    /// NVMe Qualified Name of the subsystem, up to its NUL.
    pub fn subsystem_nqn(&self) -> &str {
        ascii(&self.subnqn)
    }

    /// Most bytes of one command's data, or `None` for no limit; `min_page_size` is that of CAP.MPSMIN.
    ///
    /// A limit that does not fit 64 bits is no limit either.
    pub const fn max_transfer_bytes(&self, min_page_size: u64) -> Option<u64> {
        if self.mdts == 0 || self.mdts >= 64 {
            return None;
        }
        min_page_size.checked_mul(1 << self.mdts)
    }

    /// Abort commands that may be outstanding.
    pub const fn abort_limit(&self) -> u32 {
        self.acl_z as u32 + 1
    }

    /// Asynchronous Event Requests that may be outstanding.
    pub const fn async_event_limit(&self) -> u32 {
        self.aerl_z as u32 + 1
    }

    /// Entries of the Error Information log page.
    pub const fn error_log_entries(&self) -> u32 {
        self.elpe_z as u32 + 1
    }

    /// Valid entries of [`psd`](Self::psd).
    pub const fn power_states(&self) -> u32 {
        self.npss_z as u32 + 1
    }

    /// The power states that there are, at most 32.
    pub fn power_state_descriptors(&self) -> &[PowerStateDescriptor] {
        &self.psd[..(self.power_states() as usize).min(self.psd.len())]
    }

    /// Whether it can change its power state by itself (APSTA).
    pub const fn supports_apst(&self) -> bool {
        self.apsta & 1 != 0
    }

    /// The delays that a status may ask for: CRDT1 to CRDT3, in 100 ms.
    pub const fn retry_delays(&self) -> [u16; 3] {
        [self.crdt1, self.crdt2, self.crdt3]
    }

    /// Logical blocks written atomically in normal operation, unless a namespace says otherwise.
    pub const fn atomic_write_blocks(&self) -> u32 {
        self.awun_z as u32 + 1
    }

    /// Logical blocks written atomically across a power failure, unless a namespace says otherwise.
    pub const fn atomic_write_power_fail_blocks(&self) -> u32 {
        self.awupf_z as u32 + 1
    }

    /// Logical blocks of an atomic Compare and Write, unless a namespace says otherwise.
    pub const fn atomic_compare_write_blocks(&self) -> u32 {
        self.acwu_z as u32 + 1
    }

    /// The delay in milliseconds that a status with Command Retry Delay `crd` asks for; 0 unless `crd` is 1 to 3.
    pub const fn retry_delay_ms(&self, crd: u8) -> u32 {
        let delay = match crd {
            1 => self.crdt1,
            2 => self.crdt2,
            3 => self.crdt3,
            _ => 0,
        };
        delay as u32 * 100
    }
}

/// I/O Command Set specific Identify Controller for the NVM command set (CNS 06h, CSI 00h), 4096 bytes.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct IdentifyNvmController {
    /// Verify Size Limit, `2^n` pages of CAP.MPSMIN; 0 means no limit.
    pub vsl: u8,
    /// Write Zeroes Size Limit, `2^n` pages of CAP.MPSMIN; 0 means no limit.
    pub wzsl: u8,
    /// Write Uncorrectable Size Limit, `2^n` pages of CAP.MPSMIN; 0 means no limit.
    pub wusl: u8,
    /// Dataset Management Ranges Limit; 0 means no limit.
    pub dmrl: u8,
    /// Dataset Management Range Size Limit, in logical blocks; 0 means no limit.
    pub dmrsl: u32,
    /// Dataset Management Size Limit, in logical blocks; 0 means no limit.
    pub dmsl: u64,
    _rsvd16: [u8; 4080],
}

const _: () = assert!(size_of::<IdentifyNvmController>() == IDENTIFY_SIZE);
const _: () = assert!(offset_of!(IdentifyNvmController, dmsl) == 8);

zeroed!(IdentifyController, IdentifyNvmController);
